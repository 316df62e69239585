"""Defects that the tests of this folder and its neighbours should notice."""

from tests.tools.seeded_defects import Defect

DEFECTS = [
    Defect(
        "the prior's mean has no part in a component's scatter",
        "mixture/_components.py",
        "        scatter += self.kappa0 * np.outer(self.mean0, self.mean0)\n",
        "",
        "mixture/test_estimator.py",
    ),
    Defect(
        "a row is not left out of the scatter that it is predicted by",
        "mixture/_kernels.py",
        "change += 0.5 * D * gain - power * math.log(factor)",
        "change += 0.5 * D * gain",
        "mixture/test_models.py",
    ),
    Defect(
        "the ELBO of a conjugate mixture forgets the entropy of the labels",
        "mixture/_conjugate.py",
        " - self._log_partition0 + counts.entropy",
        " - self._log_partition0",
        "mixture/test_estimator.py",
    ),
    Defect(
        "a stream of mixtures forgets nothing",
        "mixture/_conjugate.py",
        "Block(self, block.counts.step(statistics.counts, a, b))",
        "Block(self, block.counts.step(statistics.counts, 0.0, b))",
        "mixture/test_estimator.py",
    ),
    Defect(
        "which rows are retained depends on the parts they come in",
        "mixture/_reservoir.py",
        "new = -np.log(uniforms(rows[some])) / np.maximum(rows.discount(some), 1e-300)",
        "new = -np.log(uniforms(rows[some])) * np.arange(1.0, some.stop - some.start + 1.0)",
        "mixture/test_estimator.py",
    ),
    Defect(
        "the Jacobian of a precision's factor counts its rows backwards",
        "mixture/_component_priors.py",
        "        power = nu - np.arange(p)\n",
        "        power = nu - np.arange(p)[::-1]\n",
        "mixture/test_smc.py",
    ),
    Defect(
        "a path from near the rows is taken for one from the prior",
        "engine/smc.py",
        "moves = MarkovMoves(first, batches, before, scheme)",
        "moves = MarkovMoves(model, batches, before, scheme)",
        "mixture/test_smc.py",
    ),
    Defect(
        "one of the regions of permuted labels is as dense as all of them",
        "mixture/_model.py",
        "gammaln(self.n_components + 1.0) if self.ordered else 0.0",
        "0.0",
        "mixture/test_smc.py",
    ),
    Defect(
        "what a weight leaves to later components does not follow its stick",
        "mixture/_stick_breaking.py",
        "- expit(sticks) * after[:, :-1]",
        "- expit(sticks) * after[:, 1:]",
        "mixture/test_smc.py",
    ),
    Defect(
        "rows of earlier passes keep their weight",
        "mixture/_smc_fit.py",
        "(1.0 - a) * retained.weight",
        "retained.weight",
        "mixture/test_smc.py",
    ),
    Defect(
        "components are matched the wrong way round",
        "mixture/_relabel.py",
        "    return columns, affinity[rows, columns].sum()",
        "    return np.argsort(columns), affinity[rows, columns].sum()",
        "mixture/test_relabel.py",
    ),
    Defect(
        "the variation of information counts what partitions share once",
        "mixture/_partition.py",
        "self.more[sizes] - 2.0 * self.more",
        "self.more[sizes] - self.more",
        "mixture/test_partition.py",
    ),
    Defect(
        "few draws tell every label",
        "mixture/_responsibilities.py",
        "_FEW, _CLEAR = 128, 0.3",
        "_FEW, _CLEAR = 128, 0.0",
        "mixture/test_smc.py",
    ),
]
