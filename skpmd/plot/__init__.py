"""Pictures of posteriors, fits and predictions, as scikit-learn's displays are.

Each class has ``from_estimator`` and the like, which compute what is drawn and draw it; the data
stand in attributes, and ``plot(ax=...)`` draws them again. They need ``pip install skpmd[plot]``.
"""

from skpmd.plot._intervals import PosteriorIntervalDisplay
from skpmd.plot._mixture_density import MixtureDensityDisplay
from skpmd.plot._pairs import PairDisplay
from skpmd.plot._predictive_band import PredictiveBandDisplay
from skpmd.plot._predictive_check import PosteriorPredictiveCheckDisplay
from skpmd.plot._reliability import ReliabilityDisplay
from skpmd.plot._topics import TopicDisplay
from skpmd.plot._trace import TraceDisplay

__all__ = [
    "MixtureDensityDisplay",
    "PairDisplay",
    "PosteriorIntervalDisplay",
    "PosteriorPredictiveCheckDisplay",
    "PredictiveBandDisplay",
    "ReliabilityDisplay",
    "TopicDisplay",
    "TraceDisplay",
]
