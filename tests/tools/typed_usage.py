"""Typical calls, for a type checker alone: nothing runs this."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from skpmd import (
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    GaussianPosterior,
    LDATopicModelPMD,
    NormalMixture,
    ParticleMirrorDescent,
    Posterior,
    SparseGPClassifierPMD,
    SparseGPRegressorPMD,
    TopicPosterior,
    load,
    merge,
    save,
)
from skpmd.data import ArrowBlocks, Blocks
from skpmd.decision import BayesDecisionClassifier, bayes_action
from skpmd.effects import Effects, avg_comparisons
from skpmd.engine.model import Batch, Model
from skpmd.formula import Design, design
from skpmd.metrics import crps, interval_coverage, topic_coherence
from skpmd.model_comparison import ExpectedLogDensity, compare, loo
from skpmd.plot import PairDisplay, TopicDisplay
from skpmd.streams import PrequentialScores, prequential_score
from skpmd.wrappers import JoinedDistribution, cross_val_distribution, predict_interval


def of_classes(X: NDArray[np.float64], y: NDArray[np.int64]) -> None:
    """Each result has the type that the documentation says."""
    model = BayesianLogisticRegressionPMD(prior_scale=2.5, scale=None, random_state=0).fit(X, y)
    assert_type(model, BayesianLogisticRegressionPMD)
    BayesianLogisticRegressionPMD(prior=model.posterior_)
    assert_type(model.posterior_, Posterior)
    assert_type(avg_comparisons(model, X, {0: 2.0}, comparison="odds_ratio"), Effects)
    assert_type(model.posterior_.interval(0.9), NDArray[Any])
    assert_type(model.posterior_["coef"].mean(), NDArray[Any])
    model.coef_.mean(), model.predict(X[:2]).tolist(), model.predict_uncertainty(X).total
    probability, interval = model.predict_proba(X, return_interval=0.9)
    model.predict_proba(X).argmax(axis=1)
    assert_type(merge([model, model]), BayesianLogisticRegressionPMD)
    model.fit(Blocks([(X, y), (X, y)])).fit(ArrowBlocks("rows.parquet", target="y"))
    save(model, "model.skops")
    load("model.skops").predict(X)
    decision = BayesDecisionClassifier(model, abstain=0.2).fit(X, y)
    decision.expected_utility(X, costs=[1.0, 2.0]).max()
    assert_type(loo(model, X, y), ExpectedLogDensity)
    compare({"a": model, "b": model}, X, y)["elpd"]
    rows = design("claims ~ C(car)", compare({"a": model}, X, y), exposure="years")
    assert_type(rows, Design)
    model.fit(rows.X, rows.y).predict(rows.of(rows.X)), rows.roles["exposure"].upper()
    assert_type(prequential_score(model, [(X, y), (X, y)]), PrequentialScores)
    PairDisplay.from_posterior(model.posterior_, max_coordinates=3).plot(line_kw={"color": "C1"})


def of_densities(X: NDArray[np.float64]) -> None:
    """Mixtures and topics; y is ignored, and lists will do."""
    mixture = GaussianMixturePMD(3, covariance_type="diag").fit([[0.0, 1.0], [2.0, 3.0]])
    assert_type(mixture.converged_, bool)
    mixture.conditional([0], X[:, :1]).log_pdf(X[:, 1:]).sum()
    rows, labels = mixture.sample(10, random_state=np.random.default_rng(0))
    rows[labels == 1].std()
    topics = LDATopicModelPMD(5, max_iter=10, checkpoint="lda").partial_fit(X).fit(X)
    assert_type(topics.posterior_, TopicPosterior)
    topics.transform(X).sum(axis=1)
    topic_coherence(topics.components_, X, average=None)
    TopicDisplay.from_posterior(topics.posterior_, n_words=5)


def of_numbers(X: NDArray[np.float64], y: NDArray[np.float64]) -> SparseGPRegressorPMD:
    """Processes, and models of one's own."""
    gp = SparseGPRegressorPMD(alpha=0.1, n_inducing=50, likelihood="student_t").fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    gp.predict_quantiles(X, [0.1, 0.9]).round(2)
    assert_type(gp.predict_proba(X), NormalMixture)
    assert_type(gp.log_marginal_likelihood_value_, float)
    SparseGPClassifierPMD(max_iter=10).partial_fit(X, y, classes=[0, 1]).predict_proba(X).sum()
    own = ParticleMirrorDescent(lambda theta, X, y: -((y - theta) ** 2), sample_prior=None)
    assert_type(own.fit(X, y).posterior_, Posterior)
    return gp


def of_distributions(X: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    """Predictive distributions, posteriors made by hand, and a model."""
    gp = of_numbers(X, y)
    found = cross_val_distribution(gp, X, y, cv=5)
    assert_type(found, NormalMixture | JoinedDistribution)
    assert_type(crps(y, found) + interval_coverage(y, found, level=0.5), float)
    bayes_action(found, loss="pinball", alpha=0.9) - predict_interval(gp, X)[:, 0]
    NormalMixture([0.0, 1.0], [1.0, 1.0]).ppf([0.1, 0.9]).round(2)
    Posterior(X, y, names=["a", "b"]).summary()["mean"]
    GaussianPosterior(y, y, ["a", "b"]).cov().diagonal()
    assert_type(Batch(X, y, np.ones(len(y))).take(slice(2)), Batch)


class Normal(Model):
    """A model of one's own overrides methods with the types of the contract."""

    def log_prior(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: D102
        return -0.5 * theta[:, 0] ** 2


def mistakes(X: NDArray[np.float64]) -> None:
    """Each line has to be an error: mypy complains of a comment that silences nothing."""
    BayesianLogisticRegressionPMD(covariance_type="low")  # type: ignore[arg-type]
    BayesianLogisticRegressionPMD(max_iters=5)  # type: ignore[call-arg]
    design("claims ~ C(car)", X, weights="years")  # type: ignore[call-arg]
    GaussianMixturePMD("3").fit(X)  # type: ignore[arg-type]
    GaussianMixturePMD(3).fit(None)  # type: ignore[arg-type]
    LDATopicModelPMD().fit(X).posterior_.quantile(0.5)  # type: ignore[attr-defined]
    LDATopicModelPMD(random_state=np.random.default_rng(0))  # type: ignore[arg-type]
    NormalMixture([0.0], [1.0]).interval("0.9")  # type: ignore[arg-type]
