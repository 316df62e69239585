"""Topic models: latent Dirichlet allocation."""

from skpmd.lda._estimator import LDATopicModelPMD
from skpmd.lda._posterior import TopicPosterior

__all__ = ["LDATopicModelPMD", "TopicPosterior"]
