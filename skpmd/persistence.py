"""What the files of other libraries hold of skpmd: the types that skops is to trust."""

__all__ = ["skops_trusted_types"]

_ESTIMATORS = (
    "skpmd.custom._estimator.ParticleMirrorDescent",
    "skpmd.decision.BayesDecisionClassifier",
    "skpmd.lda._estimator.LDATopicModelPMD",
    "skpmd.logistic._estimator.BayesianLogisticRegressionPMD",
    "skpmd.mixture._estimator.GaussianMixturePMD",
    "skpmd.sparse_gp._classifier_estimator.SparseGPClassifierPMD",
    "skpmd.sparse_gp._estimator.SparseGPRegressorPMD",
    "skpmd.streams.StreamingPipeline",
)
_POSTERIORS = (
    "skpmd._export.Variable",
    "skpmd.lda._posterior.TopicPosterior",
    "skpmd.logistic._posterior.GaussianPosterior",
    "skpmd.posterior.Posterior",
)
# Records and models that fitted estimators are made of. Their contents are arrays, numbers, words
# and each other: none has a method that runs what a file says.
_STATES = (
    "skpmd._base.records.Records",
    "skpmd._base.results.Results",
    "skpmd._base.streaming.Stream",
    "skpmd.custom._estimator.CustomState",
    "skpmd.engine.assumed_density.AssumedDensity",
    "skpmd.engine.mean_field.MeanFieldStep",
    "skpmd.engine.mirror.StepInfo",
    "skpmd.engine.model.Batch",
    "skpmd.engine.particles.Particles",
    "skpmd.engine.prior_check.PriorCheck",
    "skpmd.engine.variational.Gaussian",
    "skpmd.lda._fit.LDAState",
    "skpmd.lda._learn_priors.PriorsState",
    "skpmd.lda._model.LDABlock",
    "skpmd.lda._prior_scale.Groups",
    "skpmd.lda._prior_scale.PriorScale",
    "skpmd.lda._stacking.Scores",
    "skpmd.lda._topics.Counts",
    "skpmd.lda._topics.LocalUpdate",
    "skpmd.lda._topics.Topics",
    "skpmd.logistic._averages.Points",
    "skpmd.logistic._compressed.Compressed",
    "skpmd.logistic._estimator.LogisticState",
    "skpmd.logistic._normal_logits.NormalLogits",
    "skpmd.logistic._retained.Retained",
    "skpmd.mixture._component_priors.Independent",
    "skpmd.mixture._component_priors.NormalWishart",
    "skpmd.mixture._components.Diagonal",
    "skpmd.mixture._components.Full",
    "skpmd.mixture._components.Spherical",
    "skpmd.mixture._components.Tied",
    "skpmd.mixture._conjugate.ConjugateMixture",
    "skpmd.mixture._conjugate.Counts",
    "skpmd.mixture._conjugate_fit.ConjugateFit",
    "skpmd.mixture._model.ParameterModel",
    "skpmd.mixture._particles.MixtureParticles",
    "skpmd.mixture._particles.SMCFit",
    "skpmd.mixture._prior.MixturePrior",
    "skpmd.mixture._prior.Scaler",
    "skpmd.mixture._reservoir.Reservoir",
    "skpmd.mixture._smc_fit.SMCState",
    "skpmd.mixture._stick_breaking.Sticks",
    "skpmd.mixture._summaries.MixtureState",
    "skpmd.mixture._weights.Dirichlet",
    "skpmd.mixture._weights.Sticks",
    "skpmd.sparse_gp._classification_fit.ClassifierState",
    "skpmd.sparse_gp._covariance.KernelCovariance",
    "skpmd.sparse_gp._data.Data",
    "skpmd.sparse_gp._data.Sample",
    "skpmd.sparse_gp._data.Scaler",
    "skpmd.sparse_gp._fit.GPState",
    "skpmd.sparse_gp._full_scale.FullScaleGP",
    "skpmd.sparse_gp._hyperprior.HyperPrior",
    "skpmd.sparse_gp._logit.LogitSparseGP",
    "skpmd.sparse_gp._model.SparseGP",
    "skpmd.sparse_gp._open_variance.MonitoredRows",
    "skpmd.sparse_gp._open_variance.SomeRows",
    "skpmd.sparse_gp._student.StudentSparseGP",
    "skpmd.sparse_gp._vecchia.Sites",
    "skpmd.sparse_gp._vecchia.VecchiaGP",
)
# Functions that estimators and searches hold: scorers of `skpmd.metrics`, and what `from_jax` makes
# of a user's functions, which are named beside them.
_FUNCTIONS = (
    "skpmd._from_jax._JointGradient",
    "skpmd._from_jax._Values",
    "skpmd.metrics._DistributionScorer",
    "skpmd.metrics.crps",
    "skpmd.metrics.interval_coverage",
    "skpmd.metrics.interval_width",
    "skpmd.metrics.negative_log_predictive_density",
    "skpmd.metrics.pinball_loss",
)
# Of other libraries, but not trusted by skops: the dtype of features, sparse rows that a stream
# retains, and kernels of Gaussian processes, which are their hyperparameters and bounds.
_OTHERS = (
    "numpy.dtype",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.DotProduct",
    "sklearn.gaussian_process.kernels.ExpSineSquared",
    "sklearn.gaussian_process.kernels.Exponentiation",
    "sklearn.gaussian_process.kernels.Matern",
    "sklearn.gaussian_process.kernels.PairwiseKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.RationalQuadratic",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
)


def skops_trusted_types():
    """Names of the types that skops must trust to load any estimator or posterior of skpmd.

    Loading with them runs no code that a file brings along. What a user has given to an estimator
    is not among them and is named beside them: own functions and kernels, and distributions of a
    ``hyperprior``. Nor are scikit-learn's scorers and splitters, which a search holds; see the
    examples.

    Returns
    -------
    list of str
        For ``trusted`` of `skops.io.load` and ``skops_trusted_types`` of MLflow.

    Examples
    --------
    >>> import skops.io
    >>> from sklearn.datasets import load_iris
    >>> from skpmd import BayesianLogisticRegressionPMD
    >>> from skpmd.persistence import skops_trusted_types
    >>> X, y = load_iris(return_X_y=True)
    >>> data = skops.io.dumps(BayesianLogisticRegressionPMD(random_state=0).fit(X, y))
    >>> model = skops.io.loads(data, trusted=skops_trusted_types())
    >>> model.predict(X[:2])
    array([0, 0])

    Names of what else a file holds:

    >>> set(skops.io.get_untrusted_types(data=data)) - set(skops_trusted_types())
    set()
    """
    return [*_ESTIMATORS, *_POSTERIORS, *_STATES, *_FUNCTIONS, *_OTHERS]
