"""Defects that the tests of this folder and its neighbours should notice."""

from tests.tools.seeded_defects import Defect

DEFECTS = [
    Defect(
        "the scale N/B is missing",
        "engine/loop.py",
        "b = power * gamma * rows.total / size",
        "b = power * gamma",
        "api/test_custom.py",
    ),
    Defect(
        "a cloud on the move is redrawn from its kernels alone",
        "engine/mirror.py",
        "redraw, defensive = True, DEFENSIVE_SHARE",
        "redraw, defensive = True, 0.0",
        "api/test_hard_cases.py",
    ),
    Defect(
        "the temperature is forgotten in the polish step",
        "engine/loop.py",
        "reweight(particles, model, rows.whole(), power, options.settings, rng, m)",
        "reweight(particles, model, rows.whole(), 1.0, options.settings, rng, m)",
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
