"""Prior of a one-dimensional Gaussian mixture, as ours and tempered SMC take it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prior:
    """Prior of a component and of the weights.

    ``"normal_wishart"``: precision ~ Gamma(dof / 2, rate ``covariance`` / 2), mean given it
    ~ N(``mean``, 1 / (``mean_precision`` precision)). ``"independent"``: mean ~ N(``mean``,
    ``mean_scale``^2), sd ~ half-normal(``sd_scale``).
    """

    kind: str = "normal_wishart"
    mean: float = 0.0
    mean_precision: float = 0.01
    dof: float = 1.0
    covariance: float = 1.0
    mean_scale: float = 1.0
    sd_scale: float = 1.0
    concentration: float = 1.0
