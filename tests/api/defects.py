"""Defects that the tests of this folder and its neighbours should notice."""

from tests.tools.seeded_defects import Defect

DEFECTS = [
    Defect(
        "leaving out a row forgets the weights of the particles",
        "model_comparison.py",
        "ratio = log_weight - times[i] * row",
        "ratio = -times[i] * row",
        "api/test_model_comparison.py",
    ),
    Defect(
        "the largest importance weights stay as they are",
        "engine/psis.py",
        "if np.isfinite(k) and scale > 0.0:",
        "if False:",
        "api/test_model_comparison.py",
    ),
    Defect(
        "the scale N/B is missing",
        "engine/loop.py",
        "return gamma, options.power * gamma * rows.total / size",
        "return gamma, options.power * gamma",
        "api/test_custom.py",
    ),
    Defect(
        "a cloud on the move is redrawn from its kernels alone",
        "engine/mirror.py",
        "due, defensive, known = not follows, DEFENSIVE_SHARE, None",
        "due, defensive, known = not follows, 0.0, None",
        "api/test_hard_cases.py",
    ),
    Defect(
        "the temperature is forgotten in the polish step",
        "engine/loop.py",
        "reweighting(particles, model, rows.whole(), power, options.settings, rng, m)",
        "reweighting(particles, model, rows.whole(), 1.0, options.settings, rng, m)",
        "api/test_custom.py",
    ),
    Defect(
        "a mixture's variance forgets that means differ",
        "predictive.py",
        "_weighted(self.weights, self.stds**2 + (self.means - self.mean()) ** 2)",
        "_weighted(self.weights, self.stds**2)",
        "api/test_predictive.py",
    ),
    Defect(
        "predictions of a model of one's own forget the weights of the particles",
        "custom/_predict.py",
        "sums = np.add.reduce(weights[:, None] * columns, axis=0)",
        "sums = columns.mean(axis=0)",
        "api/test_custom_predictions.py",
    ),
    Defect(
        "intervals of y are those of the mean",
        "custom/_predict.py",
        'target = "mean" if self.sample_targets is None else "y"',
        'target = "mean"',
        "api/test_custom_predictions.py",
    ),
    Defect(
        "intervals of y are another in each call",
        "custom/_predict.py",
        "draws = self._targets(theta, batch, np.random.default_rng(_SEED))",
        "draws = self._targets(theta, batch, np.random.default_rng())",
        "api/test_custom_predictions.py",
    ),
    Defect(
        "particles off the support are evaluated",
        "custom/_predict.py",
        "is_alive = posterior.weights > 0.0",
        "is_alive = posterior.weights > -1.0",
        "api/test_custom_predictions.py",
    ),
    Defect(
        "a likelihood by rows takes no row weights",
        "custom/_tables.py",
        "return table.sum(axis=1) if n is None else table @ sample_weight",
        "return table.sum(axis=1)",
        "api/test_custom_data.py",
    ),
    Defect(
        "score is the mean of logs and not the log of the mean",
        "custom/_predict.py",
        "return logsumexp(np.log(weights)[:, None] + table, axis=0)",
        "return weights @ table",
        "api/test_custom_predictions.py",
    ),
]
