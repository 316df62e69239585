"""Plots of posteriors, fits and predictions, in the style of scikit-learn's displays.

Each class has ``from_estimator`` or similar methods, which compute the data of the plot and draw
it. The data are in attributes, and ``plot(ax=...)`` draws them again. These classes need ``pip
install skpmd[plot]``.
"""

from skpmd.plot._forest import EffectsDisplay, GroupEffectsDisplay, PosteriorIntervalDisplay
from skpmd.plot._mixture_density import MixtureDensityDisplay
from skpmd.plot._pairs import PairDisplay
from skpmd.plot._predictive_band import PredictiveBandDisplay
from skpmd.plot._predictive_check import PosteriorPredictiveCheckDisplay
from skpmd.plot._reliability import ReliabilityDisplay
from skpmd.plot._topics import TopicDisplay

__all__ = [
    "EffectsDisplay",
    "GroupEffectsDisplay",
    "MixtureDensityDisplay",
    "PairDisplay",
    "PosteriorIntervalDisplay",
    "PosteriorPredictiveCheckDisplay",
    "PredictiveBandDisplay",
    "ReliabilityDisplay",
    "TopicDisplay",
]
