"""Does the suite notice a broken engine? Seed one defect at a time and expect a failure.

Run as ``python -m tests.seeded_defects``. The package and its tests are copied to a temporary
folder, the defect is written into the copy, and the tests that should notice are run there; where
they do not, the whole default suite is. Those tests must pass in the copy as it is. Exits with 1
if a defect goes unnoticed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Defect(NamedTuple):
    """One change of one file, and the test file that should notice it."""

    name: str
    file: str
    right: str
    wrong: str
    test: str


MIRROR, CLOUD = "engine/mirror.py", "engine/cloud.py"
REJUVENATION = "engine/rejuvenation.py"
DEFECTS = [
    Defect(
        "the -r term of a step is dropped",
        MIRROR,
        "return keep * log_ratio + f * drift if keep > 0.0 else f * drift",
        "return log_ratio + f * drift",
        "test_mirror.py",
    ),
    Defect(
        "weights are not renormalised",
        CLOUD,
        "return log_ratio - log_sum_exp(log_ratio)",
        "return log_ratio - log_ratio.max()",
        "test_mirror.py",
    ),
    Defect(
        "centres shrink by more than the kernel's covariance gives back",
        "engine/bandwidth.py",
        "np.sqrt(np.maximum(1.0 - values, 0.0))",
        "np.maximum(1.0 - values, 0.0)",
        "test_kde.py",
    ),
    Defect(
        "resampling is off by one",
        "engine/resampling.py",
        "        ancestors[j] = index",
        "        ancestors[j] = min(index + 1, last)",
        "test_resampling.py",
    ),
    Defect(
        "the scale N/B is missing",
        "_base.py",
        "b = power * gamma * rows.total / size",
        "b = power * gamma",
        "test_custom.py",
    ),
    Defect(
        "log pi is stale after a rejuvenation",
        REJUVENATION,
        "_log_densities(estimate, theta, n_wide / n)",
        "_log_densities(estimate, cloud.theta[ancestors], n_wide / n)",
        "test_mirror.py",
    ),
    Defect(
        "the log prior is stale after a rejuvenation",
        REJUVENATION,
        "log_pi, model.log_prior(theta), block",
        "log_pi, cloud.log_prior[ancestors], block",
        "test_mirror.py",
    ),
    Defect(
        "r is kept over a rejuvenation",
        REJUVENATION,
        "Cloud(theta, log_q - log_pi",
        "Cloud(theta, cloud.log_ratio[ancestors] + log_q - log_pi",
        "test_mirror.py",
    ),
    Defect(
        "draws of the wide component are weighed as if the kernels had made them",
        REJUVENATION,
        "(normal, _wide_component(estimate))",
        "(normal, normal)",
        "test_mirror.py",
    ),
    Defect(
        "a split step takes the wide component into q",
        REJUVENATION,
        "Cloud(theta, log_q - log_pi",
        "Cloud(theta, log_pi - log_pi",
        "test_mirror.py",
    ),
    Defect(
        "a cloud on the move is redrawn from its kernels alone",
        MIRROR,
        "redraw, wide = True, WIDE_SHARE",
        "redraw, wide = True, 0.0",
        "test_hard_cases.py",
    ),
    Defect(
        "the remainder of a split step is wrong",
        MIRROR,
        "shrink = (1.0 - fraction) / (1.0 - fraction * a)",
        "shrink = 1.0 - fraction",
        "test_mirror.py",
    ),
    Defect(
        "a split step does not redraw",
        MIRROR,
        "redraw, wide = True, WIDE_SHARE",
        "redraw, wide = False, 0.0",
        "test_mirror.py",
    ),
    Defect(
        "the block's prior normaliser is dropped",
        MIRROR,
        " - f * a * partition_prior",
        "",
        "test_mirror.py",
    ),
    Defect(
        "the block stays behind when its particle moves",
        REJUVENATION,
        "block = model.move_block(cloud.theta[ancestors], cloud.block[ancestors], theta)",
        "block = cloud.block[ancestors]",
        "test_mirror.py",
    ),
    Defect(
        "the evidence is a sum, not a mean",
        "engine/diagnostics.py",
        "return float(total - np.log(m)), float(error)",
        "return float(total), float(error)",
        "test_diagnostics.py",
    ),
    Defect(
        "the leave-one-out score counts the point itself",
        "engine/bandwidth.py",
        "    table[np.arange(len(scored)), scored] = -np.inf\n",
        "",
        "test_bandwidth.py",
    ),
    Defect(
        "draws of a mixture are weighed without its shares",
        "engine/references.py",
        "table + np.log(counts / counts.sum())",
        "table - np.log(len(counts))",
        "test_references.py",
    ),
    Defect(
        "the Jacobian of the skew map has the wrong sign",
        "engine/references.py",
        "log_jacobian += np.log(reference.spread / reference.scale).sum()",
        "log_jacobian -= np.log(reference.spread / reference.scale).sum()",
        "test_references.py",
    ),
    Defect(
        "the temperature is forgotten in the polish step",
        "_base.py",
        "polish(cloud, model, rows.whole(), power, options.settings, rng, m)",
        "polish(cloud, model, rows.whole(), 1.0, options.settings, rng, m)",
        "test_custom.py",
    ),
    Defect(
        "a failed call of partial_fit is not undone",
        "_partial.py",
        "        vars(estimator).update(before)\n",
        "        pass\n",
        "test_partial_fit.py",
    ),
    Defect(
        "a redraw of a stream starts from the prior",
        "_partial.py",
        "sequel = model if track is None else Sequel(model, track.gaussian, a, cubic)",
        "sequel = model",
        "test_partial_fit.py",
    ),
    Defect(
        "a step forgets nothing of what redraws have lost",
        "engine/loss.py",
        "return lost * (1.0 - a) ** 2",
        "return lost",
        "test_partial_fit.py",
    ),
    Defect(
        "an edge of q that a redraw forgets goes unnoticed",
        "engine/loss.py",
        "np.where(_edges(before, start, end, moved, watched), gap, squared)",
        "squared",
        "test_partial_fit.py",
    ),
    Defect(
        "the cubic of a redraw is fitted to the weights alone",
        "engine/surrogate.py",
        "    log_q = cloud.log_ratio + cloud.log_pi\n    alive",
        "    log_q = cloud.log_ratio\n    alive",
        "test_surrogate.py",
    ),
    Defect(
        "every Hamiltonian trajectory is accepted",
        "engine/moves.py",
        "taken = rng.random(len(probability)) < probability",
        "taken = rng.random(len(probability)) < 2.0",
        "test_moves.py",
    ),
    Defect(
        "the last half step of the momentum is a whole one",
        "engine/moves.py",
        "(step if k < leaps - 1 else 0.5 * step)",
        "step",
        "test_moves.py",
    ),
    Defect(
        "a jump forgets its Jacobian",
        "engine/moves.py",
        "new.value - state.value + log_jacobian",
        "new.value - state.value",
        "test_moves.py",
    ),
    Defect(
        "the certificate of chains forgets their widths",
        "engine/moves.py",
        "looked_at = [seen, squares] if shown is None",
        "looked_at = [seen] if shown is None",
        "test_moves.py",
    ),
    Defect(
        "R-hat is taken over whole chains",
        "engine/convergence.py",
        "return np.concatenate([draws[:, :half], draws[:, -half:]])",
        "return draws",
        "test_convergence.py",
    ),
    Defect(
        "the horseshoe's coordinates have no Jacobian",
        "models/horseshoe.py",
        "return np.log(g).sum(axis=1) - 0.5 * squares",
        "return -0.5 * squares",
        "test_priors.py",
    ),
    Defect(
        "a class's probability in the softmax gradient has the wrong power of the likelihood",
        "models/softmax.py",
        "gradient = self.prior.gradient(theta) + b * self.prior.pull_back(theta, gradient)",
        "gradient = self.prior.gradient(theta) + self.prior.pull_back(theta, gradient)",
        "test_softmax_model.py",
    ),
    Defect(
        "fitc forgets the variance that inducing inputs leave open",
        "models/sparse_gp.py",
        "            noise = noise + left",
        "            noise = noise + 0.0 * left",
        "test_sparse_gp.py",
    ),
    Defect(
        "vfe forgets its trace",
        "models/sparse_gp.py",
        "rest -= 0.5 * self.n_targets * ((w * p) @ left)",
        "rest -= 0.0 * self.n_targets * ((w * p) @ left)",
        "test_sparse_gp.py",
    ),
    Defect(
        "predictions forget the variance that inducing inputs leave open",
        "models/sparse_gp.py",
        "return mean, np.maximum(left, 0.0) + np",
        "return mean, 0.0 * left + np",
        "test_sparse_gp.py",
    ),
    Defect(
        "values at old inducing inputs are taken for certain given those at the new",
        "models/sparse_gp.py",
        "mixed = np.eye(len(G)) + S @ R",
        "mixed = np.eye(len(G)) + 0.0 * S @ R",
        "test_sparse_gp_streams.py",
    ),
    Defect(
        "copies of a row are one row of less noise to the evidence",
        "_marginal.py",
        "copies = (w - 1.0) @ (_LOG_TWO_PI + np.log(noise)) + np.log(w).sum()",
        "copies = 0.0",
        "test_sparse_gp.py",
    ),
    Defect(
        "the prior of hyperparameters has no Jacobian",
        "_hyper.py",
        "one.logpdf(np.exp(column)) + column for",
        "one.logpdf(np.exp(column)) for",
        "test_sparse_gp_particles.py",
    ),
    Defect(
        "particles lie around the mode of the few rows",
        "_hyper.py",
        "log_weight = np.array(values) - tilt",
        "log_weight = np.array(values)",
        "test_sparse_gp_particles.py",
    ),
    Defect(
        "the slope of the sparse evidence forgets the inducing inputs' covariance",
        "_refine.py",
        "    out += covariance.cross_gradient(theta, Z, Z, by_ZZ)\n",
        "",
        "test_sparse_gp_refine.py",
    ),
    Defect(
        "a fit without noise is never left",
        "_marginal.py",
        "return [theta, *more]",
        "return [theta]",
        "test_sparse_gp_refine.py",
    ),
    Defect(
        "a search on some rows does not go on with all",
        "_process.py",
        "elif len(subset.y) > n_known:",
        "elif False:",
        "test_sparse_gp_refine.py",
    ),
    Defect(
        "the kernel of a stream is not learnt anew after its subset",
        "_gp_fit.py",
        "max(estimator.n_subset, estimator.n_refine) if moves_on",
        "estimator.n_subset if moves_on",
        "test_sparse_gp_streams.py",
    ),
    Defect(
        "a search may leap into a corner of the bounds",
        "_marginal.py",
        "scale = 1.0 / max(1.0, np.abs(slope).max())",
        "scale = 1.0",
        "test_sparse_gp_hard_cases.py",
    ),
    Defect(
        "rows that are kept until a kernel is learnt are not forgotten",
        "_gp_fit.py",
        "kept.weight * (1.0 - estimator.forgetting) ** size",
        "kept.weight",
        "test_sparse_gp_hard_cases.py",
    ),
    Defect(
        "draws of Student noise are normal",
        "_gp_predictions.py",
        "if df is None else rng.standard_t(df, shape)",
        "",
        "test_sparse_gp_hard_cases.py",
    ),
    Defect(
        "Student noise has the bound of normal noise",
        "models/student_gp.py",
        "gain = 0.5 * log_lambda - _divergence(a, b, 0.5 * self.df)",
        "gain = 0.5 * log_lambda",
        "test_sparse_gp_streams.py",
    ),
    Defect(
        "stacking forgets how often rows count",
        "_stacking.py",
        "@ weight\n    return np.maximum(shares / weight.sum(), 1e-300)",
        "@ np.ones_like(weight)\n    return np.maximum(shares / len(weight), 1e-300)",
        "test_sparse_gp_particles.py",
    ),
    Defect(
        "a mixture's variance forgets that means differ",
        "predictive.py",
        "_weighted(self.weights, self.stds**2 + (self.means - self.mean()) ** 2)",
        "_weighted(self.weights, self.stds**2)",
        "test_predictive.py",
    ),
    Defect(
        "the prior's mean has no part in a component's scatter",
        "models/normal_families.py",
        "        scatter += self.kappa0 * np.outer(self.mean0, self.mean0)\n",
        "",
        "test_mixture.py",
    ),
    Defect(
        "a row is not left out of the scatter that it is predicted by",
        "models/mixture_kernels.py",
        "change += 0.5 * D * gain - power * math.log(kept)",
        "change += 0.5 * D * gain",
        "test_mixture_models.py",
    ),
    Defect(
        "the bound of a conjugate mixture forgets the entropy of the labels",
        "models/mixture.py",
        " - self._log_partition0 + counts.entropy",
        " - self._log_partition0",
        "test_mixture.py",
    ),
    Defect(
        "stacking of components forgets how often rows count",
        "_mixture_stacking.py",
        "density.T @ (weight / mixed)",
        "density.T @ (weight.mean() / mixed)",
        "test_mixture_stacking.py",
    ),
    Defect(
        "a stream of mixtures forgets nothing",
        "_mixture_fit.py",
        "counts = counts.step(new, a, b)",
        "counts = counts.step(new, 0.0, b)",
        "test_mixture.py",
    ),
    Defect(
        "which rows are kept depends on the parts they come in",
        "_mixture_kept.py",
        "key = -np.log(uniforms(X)) / np.maximum(fresh, 1e-300)",
        "key = -np.log(uniforms(X)) * np.arange(1.0, len(X) + 1.0)",
        "test_mixture.py",
    ),
    Defect(
        "the Jacobian of a precision's factor counts its rows backwards",
        "models/mixture_component_priors.py",
        "        power = nu - np.arange(p)\n",
        "        power = nu - np.arange(p)[::-1]\n",
        "test_mixture_parameters.py",
    ),
    Defect(
        "a Langevin move forgets that scales differ at its ends",
        "engine/tempering.py",
        "(back**2).sum(axis=1) - _log_det(new.root)",
        "(back**2).sum(axis=1) - _log_det(state.root)",
        "test_tempering.py",
    ),
    Defect(
        "the evidence of a tempered path is a sum over particles and no mean",
        "engine/tempering.py",
        "log_sum_exp(ratio) - np.log(len(theta))",
        "log_sum_exp(ratio)",
        "test_tempering.py",
    ),
    Defect(
        "a path from a reference is taken for one from the prior",
        "engine/tempering.py",
        "gain + model.log_prior(theta) - reference.log_prior(theta)",
        "gain + 0.0",
        "test_mixture_parameters.py",
    ),
    Defect(
        "one of the regions of permuted labels is as dense as all of them",
        "models/mixture_parameters.py",
        "gammaln(self.n_components + 1.0) if self.ordered else 0.0",
        "0.0",
        "test_mixture_parameters.py",
    ),
    Defect(
        "what a weight leaves to later components does not follow its stick",
        "models/mixture_sticks.py",
        "- expit(sticks) * after[:, :-1]",
        "- expit(sticks) * after[:, 1:]",
        "test_mixture_parameters.py",
    ),
    Defect(
        "rows of earlier passes keep their weight",
        "_mixture_parameters.py",
        "(1.0 - a) * kept.weight",
        "kept.weight",
        "test_mixture_parameters.py",
    ),
    Defect(
        "components are matched the wrong way round",
        "_alignment.py",
        "    return columns, affinity[rows, columns].sum()",
        "    return np.argsort(columns), affinity[rows, columns].sum()",
        "test_alignment.py",
    ),
    Defect(
        "the variation of information counts what partitions share once",
        "_partition.py",
        "self.more[sizes] - 2.0 * self.more",
        "self.more[sizes] - self.more",
        "test_partition.py",
    ),
    Defect(
        "a word's own assignment has a part in its next one",
        "models/topic_kernels.py",
        "mass[z] = max(mass[z] - each, alpha[z])  # rounding",
        "mass[z] = max(mass[z], alpha[z])",
        "test_lda_kernels.py",
    ),
    Defect(
        "a collapsed update does not leave a word's own share out",
        "models/topic_kernels.py",
        "max(mass[k] - held * own[k], least[k])",
        "max(mass[k], least[k])",
        "test_lda_kernels.py",
    ),
    Defect(
        "a sweep of a chain that has not burnt in is counted",
        "models/topic_kernels.py",
        "share = part if sweep >= n_burn else",
        "share = part if sweep >= n_burn - 1 else",
        "test_lda_kernels.py",
    ),
    Defect(
        "counts of words fade and those of topics do not",
        "models/topics.py",
        "keep * self.totals, keep",
        "self.totals, keep",
        "test_lda_kernels.py",
    ),
    Defect(
        "the bound of a topic model forgets the entropy of the assignments",
        "models/topics.py",
        "entropy.sum(axis=1) + self.document_terms(mass)",
        "self.document_terms(mass)",
        "test_lda_kernels.py",
    ),
    Defect(
        "the prior of documents' shares has no normaliser",
        "models/topics.py",
        "log_normaliser(alpha + mass) - log_normaliser(alpha)",
        "log_normaliser(alpha + mass)",
        "test_lda_kernels.py",
    ),
    Defect(
        "the scale N/B is missing from a step of topics",
        "_topic_fit.py",
        "gamma * size / n, learned.counts",
        "gamma, learned.counts",
        "test_lda_streams.py",
    ),
    Defect(
        "a document that comes alone is taken for a batch",
        "_topic_fit.py",
        "-np.expm1(n / full * np.log1p(-whole)) if whole < 1.0 else part",
        "whole",
        "test_lda_streams.py",
    ),
    Defect(
        "words of a call that failed stay in the topics",
        "_topic_fit.py",
        "        words[:, touched] = before\n",
        "        pass\n",
        "test_lda_streams.py",
    ),
    Defect(
        "threads go on after Ctrl-C",
        "_topic_workers.py",
        "            wait(futures)\n",
        "            pass\n",
        "test_lda_streams.py",
    ),
    Defect(
        "shares of documents are averaged over topics of other kinds",
        "_topic_predictions.py",
        "weight * mass[:, order[i]]",
        "weight * mass",
        "test_lda_predictions.py",
    ),
    Defect(
        "the bound of a new document forgets its shares' prior",
        "models/topic_inference.py",
        "return value + math.lgamma(before) - math.lgamma(after)",
        "return value",
        "test_lda_predictions.py",
    ),
]


def main():
    """Seed every defect in turn; returns the number that went unnoticed."""
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("skpmd", "tests", "pyproject.toml"):
            source = ROOT / name
            if source.is_dir():
                ignore = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy / name, ignore=ignore)
            else:
                shutil.copy(source, copy / name)
        for test in sorted({defect.test for defect in DEFECTS}):
            if fails(copy, f"tests/{test}"):
                raise RuntimeError(f"{test} fails without any defect: mend that first")
        for defect in DEFECTS:
            noticed = seeded(copy, defect)
            unnoticed += not noticed
            print(f"{'noticed  ' if noticed else 'UNNOTICED'}  {defect.name}", flush=True)
    print(f"{len(DEFECTS) - unnoticed} of {len(DEFECTS)} seeded defects noticed")
    return unnoticed


def seeded(copy, defect):
    """Whether some test fails with the defect in place; the copy is mended afterwards."""
    path = copy / "skpmd" / defect.file
    text = path.read_text(encoding="utf-8")
    if text.count(defect.right) != 1:
        raise ValueError(
            f"{defect.name}: the line to break stands {text.count(defect.right)} times"
        )
    path.write_text(text.replace(defect.right, defect.wrong), encoding="utf-8")
    try:
        return fails(copy, f"tests/{defect.test}") or fails(copy, "tests")
    finally:
        path.write_text(text, encoding="utf-8")


def fails(copy, tests):
    """Whether pytest reports a failure (and not that it could not run)."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    code = subprocess.run(command, cwd=copy, env=environment, capture_output=True).returncode
    if code not in (0, 1):
        raise RuntimeError(f"pytest could not run {tests}: exit status {code}")
    return code == 1


if __name__ == "__main__":
    sys.exit(bool(main()))
