"""Defects that the tests of this folder and its neighbours should notice."""

from tests.tools.seeded_defects import Defect

DEFECTS = [
    Defect(
        "leaving out a row forgets the weights of the particles",
        "model_comparison.py",
        "ratio = left_out.log_weights - left_out.log_evidence[:, i]",
        "ratio = -left_out.log_evidence[:, i]",
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
]
