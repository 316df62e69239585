"""Documentation that estimators of linear predictors share, by its names in angle brackets."""

TEXTS = {
    "<proposals>": """
    proposal : {"auto", "prior", "laplace", "mirror"}, default="auto"
        The density that particles are first drawn from. In the order of the options: a mixture of
        the components of ``"laplace"`` and ``"mirror"``; the prior; the Laplace approximation; the
        Gaussian of the mirror descent. ``"prior"`` uses only values of the likelihood: stochastic
        mirror steps with rejuvenation, Algorithm 1 of the paper.
    moves : {"auto", "always", "never"}, default="auto"
        When to use Hamiltonian moves of 32 chains along gradients of the posterior on all data. In
        the order of the options: if the importance weights of draws from the proposals have bad
        diagnostics; always, in place of the weights; never. Moved particles have equal weights;
        split R-hat is their diagnostic, and there is no evidence. There are no moves with
        ``proposal="prior"`` or ``reweight=False``.
    """,
    "<particles>": """
    n_particles : int, default=4000
        Number of particles drawn in a round (in pairs: an odd number is rounded up). Rounds follow
        until the effective sample size reaches 0.6 of this number, ten rounds at most. With
        ``proposal="prior"`` or ``reweight=False`` it is the number of all particles. Hamiltonian
        moves retain at least 32 draws, one from each chain; there is a warning if ``n_particles``
        is smaller.
    max_iter : int, default=5
        Number of passes of stochastic steps, with ``proposal="prior"`` or ``reweight=False``.
        Importance reweighting would discard their result (gamma = 1), so that otherwise no such
        steps are taken.
    batch_size : int or "auto", default="auto"
        Rows in a batch; ``"auto"`` is min(n, 1000).
    step_size, step_offset, step_decay : float, default=1.0, "auto", 1.0
        gamma_t = step_size / (step_offset + t**step_decay), capped at 1; offset ``"auto"`` is the
        number of batches in a pass.
    rejuvenation : {"ess", "always", "never"}, default="ess"
        When stochastic steps rejuvenate the particles.
    ess_threshold : float in [0, 1), default=0.5
        Effective sample size, as a share of the particles, below which a step is divided into
        substeps and the particles are rejuvenated.
    bandwidth : {"loo", "theorem", "scott", "silverman", "median"} or float, default="loo"
        Kernel width of a rejuvenation.
    reweight : bool, default=True
        Whether particles are weighted by the posterior on all data.
    """,
    "<calls>": """
    total_samples : float or None, default=None
        For `partial_fit`: None means a stream, in which each row counts once. A number is the
        number of rows of a data set over which several passes may be made.
    half_life : float or None, default=None
        For `partial_fit`: number of rows of later calls after which a row of a stream counts half;
        rows of one call do not discount each other. None means that none is forgotten.
    forgetting : float in [0, 0.2], default=0.0
        The same as a share: the fraction of the past that each new row discounts, which is
        1 - 2^(-1 / half_life); 0.01 is a half-life of 69 rows.
    warm_start : bool, default=False
        Whether the stochastic steps of `fit` start where the last fit ended, instead of from the
        prior or the proposals. It has no effect if there are no stochastic steps.
    temperature : float, default=1.0
        The posterior is proportional to prior * likelihood^(1 / temperature).
    max_time : float or None, default=None
        Seconds after which `fit` ends at its next complete state: a round of reweighting, a check
        of chains or a step. A ``ConvergenceWarning`` says so. A search with
        ``prior_scale="evidence"`` gets half of this time. A step of `partial_fit` is always
        completed.
    """,
    "<groups>": """
    group_prior_scale : float, default=2.5
        Scale of the half-Student-t(3) prior of standard deviations of groups' effects, in units as
        of coefficients under ``scale="auto"``. Correlations are uniform, LKJ(1).
    groups_at : {"own", "population"}, default="own"
        What predictions take for the effects of groups. ``"own"``: those of the row's group, given
        its rows in the fit; of a new or missing group they are averaged over the population.
        ``"population"``: zero.
    """,
    "<results>": """
    prior_scale_ : float or ndarray of shape (n_coefficients,)
        Scale of the prior, in the units that ``scale`` says.
    log_evidence_ : float
        Log marginal likelihood, with ``reweight=True`` and ``temperature=1``.
    n_iter_ : int
        Number of rounds of reweighting and checks of chains, or of passes.
    history_, diagnostics_ : dict
        Records and certificate of the fit, as in `BayesianLogisticRegressionPMD`.
    out_of_time_ : bool
        Whether the last call ended because of ``max_time``.
    n_features_in_ : int
        Number of columns of X, those of roles included.
    """,
}
