"""The study ``shapes``: densities that are what is drawn, and a fair account of errors.

A wrong constant or a wrong draw would be an error of every method, and one that no table shows.
"""

import numpy as np
import pytest
from scipy.special import logsumexp

pytest.importorskip("examples.benchmarks.harness.study", reason="examples are not installed")
from examples.benchmarks.general import shapes, shapes_targets  # noqa: E402
from examples.benchmarks.general.shapes_truth import errors, truth  # noqa: E402

# Those that weighted draws of the prior know: of the others too few are where the mass is.
WITHIN = "funnel2 banana ring modes2 modes5 student cauchy plateau noisy".split()
ROW = {"method": shapes.MAIN, "answers": 10, "right": 1.0, "wrong": 0.0, "warned": 0.0,
       "unwarned_right": 1.0, "unwarned_wrong": 0.0}  # fmt: skip


@pytest.mark.slow_but("banana", "funnel2")
@pytest.mark.parametrize("name", WITHIN)
def test_weighted_draws_of_the_prior_have_the_truth(name, monkeypatch):
    monkeypatch.setattr(shapes_targets, "N_DRAWS", 200_000)
    shape = shapes_targets.TARGETS[name]()
    theta = shape.problem.sample_prior(np.random.default_rng(0), 400_000)
    log_weights = shape.problem.log_likelihood(theta, shape.X, shape.y)
    log_evidence = logsumexp(log_weights) - np.log(len(theta))
    weights = np.exp(log_weights - logsumexp(log_weights))
    found = errors(shape.truth, theta, weights, log_evidence)
    assert found.log_evidence < 0.05 and found.right


def test_quantiles_count_where_moments_do_not_exist_and_only_there():
    rng = np.random.default_rng(0)
    cauchy = truth(rng.standard_cauchy((200_000, 1)), 0.0)
    normal = truth(rng.standard_normal((200_000, 1)), 0.0)
    assert cauchy.by_quantiles and not normal.by_quantiles
    equal = np.full(4000, 1.0 / 4000)
    assert errors(cauchy, rng.standard_cauchy((4000, 1)), equal, 0.0).right
    assert errors(cauchy, 2.0 * rng.standard_cauchy((4000, 1)), equal, 0.0).wrong
    assert errors(normal, rng.standard_normal((4000, 1)), equal, 0.0).right
    assert errors(normal, rng.standard_normal((4000, 1)) + 0.3, equal, 0.0).wrong
    between = errors(normal, rng.standard_normal((4000, 1)) + 0.17, equal, 0.0)
    assert not between.right and not between.wrong


def test_gates_see_silent_errors_needless_warnings_and_missing_shapes():
    rows = [{**ROW, "shape": name} for name in [*shapes.NEEDED, "a", "b", "c", "d"]]
    rows += [{**row, "method": "pmd, 1000"} for row in rows]
    assert all(gate.met for gate in shapes.gates(rows))
    rows[0] = {**rows[0], "unwarned_right": 0.7, "wrong": 0.3, "right": 0.7, "unwarned_wrong": 0.3}
    silent, default, needless, count, needed = shapes.gates(rows)
    assert silent.measured == 3 and not count.met and not needed.met
    assert default.met and needless.met
    rows[1] = {**rows[1], "warned": 1.0, "unwarned_right": 0.0}
    assert shapes.gates(rows)[2].measured == pytest.approx(10 / 107)
