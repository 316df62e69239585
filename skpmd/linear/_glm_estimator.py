"""BayesianGLMRegressorPMD: numbers, counts, amounts and shares by linear predictors."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions

from skpmd._base.estimator import result
from skpmd._base.options import posterior_of_prior
from skpmd._base.utils import fill_docstrings, warn_of_far_values
from skpmd._base.validation import checked_weights, fit_context, naming_conversions
from skpmd._rows.opening import in_parts
from skpmd._typing import ArrayLike, FilePath, MatrixLike, Seed
from skpmd.linear._families import FAMILIES
from skpmd.linear._glm_predict import GLMPredictions
from skpmd.linear._group_estimator import GROUP_CONSTRAINTS, GroupColumns
from skpmd.linear._linear_estimator import SCALE, LinearEstimator
from skpmd.linear._response import Distribution
from skpmd.linear._row_estimator import RowStatements
from skpmd.linear._texts import TEXTS
from skpmd.posterior import Posterior

_LINKS = ("auto", "identity", "log", "logit", "probit", "cloglog")
_MAX_OFFSET = 700.0  # Exponentials of larger numbers are infinite.


class BayesianGLMRegressorPMD(GLMPredictions, RowStatements, LinearEstimator):
    """Generalised linear regression with a posterior over coefficients and dispersion.

    y of a row has a distribution of the ``family`` whose mean is the inverse of the link at offset
    + intercept + X @ coefficients. The posterior is found as in `BayesianLogisticRegressionPMD`:
    draws from the Laplace approximation and from Gaussian mirror descent, with the skewness that
    the posterior has, are reweighted by the posterior itself; where the weights have bad
    diagnostics, Hamiltonian moves follow.

    Parameters
    ----------
    family : {"normal", "student_t", "poisson", "negative_binomial", "gamma", "binomial", "beta"}, \
default="normal"
        Distribution of y. Coordinates of the posterior beside coefficients are, by family: the
        standard deviation ``sigma`` (normal); the scale ``sigma`` and the degrees of freedom ``nu``
        (Student t); ``shape``, with variance mu + mu^2 / shape (negative binomial) or mu^2 / shape
        (gamma); ``precision``, with variance mu (1 - mu) / (1 + precision) (beta).
    link : {"auto", "identity", "log", "logit", "probit", "cloglog"}, default="auto"
        Link of the mean. ``"auto"``: identity for normal and Student t, log for Poisson, negative
        binomial and gamma, logit for binomial and beta. Normal takes log, too; binomial and beta
        take probit and cloglog.
    exposure : str or int, default=None
        Column of X, by its name or place, with what counts or amounts are proportional to, such as
        years at risk: its logarithm is added to the linear predictor. For log links. Columns with a
        role have no coefficient, and go with X through pipelines, searches and splits.
    offset : str or int, default=None
        Column of X that is added to the linear predictor.
    trials : str or int, default=None
        Column of X with numbers of trials, for the binomial family: y are numbers of successes. By
        default each row is one trial.
    groups : str, int or list of them, default=None
        Column of X, by its name or place, with the label of each row's group: strings, categories
        or integers, or nothing where a group is missing. Each group has an intercept of its own,
        normal about that of all. These effects are integrated out in `fit`, by quadrature; their
        standard deviation is a coordinate ``sd[column]`` of the posterior. Up to four columns are
        factors, crossed or nested, of which each row has a label: but for normal y, levels of
        those beside the largest are coordinates ``u[column:label]``, and at most 200.
    slopes : dict of str or int to list of one str or int, default=None
        Columns, three at most, with coefficients that are different in each group, such as
        ``{"school": ["hours", "age"]}``. Standard deviations and correlations are
        ``sd[school:hours]``, ``cor[school:hours]``, ``cor[school:hours:age]`` and so on; the
        intercepts are at the means of the columns.
    <groups>
    prior : {"normal", "laplace", "student_t", "cauchy", "horseshoe"} or posterior, default="normal"
        Prior on each coefficient, as in `BayesianLogisticRegressionPMD`. An earlier posterior,
        ``fitted.posterior_``, makes yesterday's posterior today's prior.
    prior_mean : float, array-like or dict, default=0.0
        Centre of the prior on coefficients, in the same forms as ``prior_scale``; an array has
        shape (n_coefficients,).
    prior_scale : {"auto", "evidence"}, float, array-like or dict, default="auto"
        Scale of the prior on coefficients, in the units that ``scale`` says. ``"auto"`` is 2.5 for
        an identity link and 1 for others. ``"evidence"`` takes the scale under which the data are
        most probable. An array has shape (n_coefficients,), without columns of roles; the keys of a
        dict are names of columns, or tuples of names (others have ``"auto"``).
    prior_df : float, default=4.0
        Degrees of freedom under ``"student_t"``.
    intercept_prior_scale : float, default=2.5
        Standard deviation of the normal prior on the intercept at the columns' means, in standard
        deviations of y for an identity link. It is about the link of the mean of y (or of the sum
        of y over that of exposure), less the mean of an offset.
    dispersion_prior_scale : float or None, default=None
        Scale of the prior on the first coordinate of dispersion: half-Student-t(3, scale) for
        sigma, 2.5 standard deviations of y by default; half-normal for the inverse root of shape or
        precision, 1 by default. nu has the prior Gamma(2, rate 0.1).
    scale : "auto" or None, default="auto"
        What ``prior_mean`` and ``prior_scale`` refer to. ``"auto"``: the change of the linear
        predictor per standard deviation of a column, in standard deviations of y for an identity
        link. Columns are centred inside. None: the literal prior, per unit of the given columns,
        and the intercept's about 0 where all of them are zero.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    <proposals>
    <particles>
    <calls>
    <running>

    Attributes
    ----------
    coef_, coef_std_ : ndarray of shape (n_coefficients,)
        Posterior means and standard deviations of coefficients, per unit of the given columns.
    intercept_, intercept_std_ : float
        Those of the intercept where all columns are zero.
    dispersion_ : dict of str to float
        Posterior medians of the dispersion's coordinates, by their names. A shape or precision
        whose prior reaches the limit of no dispersion need not have a mean: there
        ``posterior_.mean()`` is that of the draws, and says little. Quantiles always exist.
    link_ : str
        The link that the mean has, which ``link="auto"`` leaves to the family.
    posterior_ : Posterior
        Weighted particles in given units, with coordinates of the columns' names, ``intercept``
        (where all columns are zero) and those of the dispersion.
    group_effects_ : EffectsOfGroups or dict of str to EffectsOfGroups
        Effects of the groups, with ``groups``: means, standard deviations, intervals, ranks; of
        several factors by their names.
    <results>
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where X has them.

    Warns
    -----
    ConvergenceWarning
        If k-hat is above 0.7 on weights that differ visibly, few particles are effective, the
        proposals or chains disagree, or a limit was reached. The message says what to do.

    See Also
    --------
    BayesianLogisticRegressionPMD : Classes.
    BayesianOrdinalClassifierPMD : Ordered classes.

    References
    ----------
    Dai, B., He, N., Dai, H. and Song, L. (2016). Provable Bayesian inference via particle mirror
    descent. AISTATS. arXiv:1506.03101.

    McCullagh, P. and Nelder, J. (1989). Generalized Linear Models. Chapman and Hall.

    Gelman, A., Jakulin, A., Pittau, M. and Su, Y.-S. (2008). A weakly informative default prior
    distribution for logistic and other regression models. Annals of Applied Statistics 2(4).

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import BayesianGLMRegressorPMD
    >>> rng = np.random.default_rng(0)
    >>> age, years = rng.uniform(20, 70, 300), rng.uniform(0.2, 1.0, 300)
    >>> claims = rng.poisson(years * np.exp(-1.0 + 0.03 * age))
    >>> X = np.column_stack([age, years])
    >>> model = BayesianGLMRegressorPMD(family="poisson", exposure=1, random_state=0)
    >>> model.fit(X, claims).coef_.round(2)
    array([0.03])
    >>> model.predict_proba([[40.0, 1.0]]).interval(0.9)
    array([[0., 3.]])
    """

    _parameter_constraints: dict = {
        **LinearEstimator._parameter_constraints,
        "family": [StrOptions(FAMILIES.keys())],  # A view, so that families can be added.
        "link": [StrOptions(set(_LINKS))],
        **{role: [str, Integral, None] for role in ("exposure", "offset", "trials")},
        **GROUP_CONSTRAINTS,
        "dispersion_prior_scale": [SCALE, None],
    }
    _roles = ("exposure", "offset", "trials")
    _frozen_parameters = (
        *LinearEstimator._frozen_parameters, "family", "link", "exposure", "offset", "trials",
        "dispersion_prior_scale", *GroupColumns._group_roles,
    )  # fmt: skip

    def __init__(
        self,
        family: Literal[
            "normal", "student_t", "poisson", "negative_binomial", "gamma", "binomial", "beta"
        ] = "normal",
        link: Literal["auto", "identity", "log", "logit", "probit", "cloglog"] = "auto",
        *,
        exposure: str | int | None = None,
        offset: str | int | None = None,
        trials: str | int | None = None,
        groups: list[str | int] | str | int | None = None,
        slopes: dict[Any, list[str | int]] | None = None,
        group_prior_scale: float = 2.5,
        groups_at: Literal["own", "population"] = "own",
        prior: Literal["normal", "laplace", "student_t", "cauchy", "horseshoe"]
        | Posterior
        | BaseEstimator = "normal",
        prior_mean: ArrayLike | dict[Any, float] = 0.0,
        prior_scale: ArrayLike | dict[Any, float] = "auto",
        prior_df: float = 4.0,
        intercept_prior_scale: float = 2.5,
        dispersion_prior_scale: float | None = None,
        scale: Literal["auto"] | None = "auto",
        fit_intercept: bool = True,
        proposal: Literal["auto", "prior", "laplace", "mirror"] = "auto",
        moves: Literal["auto", "always", "never"] = "auto",
        n_particles: int = 4000,
        max_iter: int = 5,
        batch_size: Literal["auto"] | int = "auto",
        step_size: float = 1.0,
        step_offset: float | Literal["auto"] = "auto",
        step_decay: float = 1.0,
        rejuvenation: Literal["ess", "always", "never"] = "ess",
        ess_threshold: float = 0.5,
        bandwidth: Literal["loo", "theorem", "scott", "silverman", "median"] | float = "loo",
        reweight: bool = True,
        total_samples: float | None = None,
        forgetting: float = 0.0,
        half_life: float | None = None,
        warm_start: bool = False,
        temperature: float = 1.0,
        max_time: float | None = None,
        checkpoint: FilePath | None = None,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int = 0,
    ) -> None:
        self.family = family
        self.link = link
        self.exposure = exposure
        self.offset = offset
        self.trials = trials
        self.groups = groups
        self.slopes = slopes
        self.group_prior_scale = group_prior_scale
        self.groups_at = groups_at
        self.prior = prior
        self.prior_mean = prior_mean
        self.prior_scale = prior_scale
        self.prior_df = prior_df
        self.intercept_prior_scale = intercept_prior_scale
        self.dispersion_prior_scale = dispersion_prior_scale
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.proposal = proposal
        self.moves = moves
        self.n_particles = n_particles
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.step_size = step_size
        self.step_offset = step_offset
        self.step_decay = step_decay
        self.rejuvenation = rejuvenation
        self.ess_threshold = ess_threshold
        self.bandwidth = bandwidth
        self.reweight = reweight
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.warm_start = warm_start
        self.temperature = temperature
        self.max_time = max_time
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @in_parts
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the posterior with more rows, which are then no longer needed.

        It is as in `BayesianLogisticRegressionPMD.partial_fit`; the first rows decide on centres
        and units, of y too. If a call fails in any way, the estimator remains unchanged. Rows of
        groups are held, up to two million numbers; beyond these each group has to come whole.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), float32 or float64
            Columns as in `fit`.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        BayesianGLMRegressorPMD
            The estimator.

        Raises
        ------
        ValueError
            If y is none of the family, a parameter needs all data at once, or a group had rows in a
            part that is no longer held.
        """
        return self._after_part(X, y, sample_weight)

    def _targets(self, X, y, sample_weight, known, response, is_part):
        """Numbers, weights and their `Distribution`; see `LinearEstimator`."""
        family = self._family()
        with naming_conversions("y"):
            y = np.asarray(y[1], dtype=np.float64)
        family.check(y, known[1])
        if known[0] is not None and family.link != "identity":
            furthest = known[0][np.argmax(np.abs(known[0]))]
            if not abs(furthest) < _MAX_OFFSET:
                raise ValueError(
                    f"offset reaches {furthest:g}, and is added to predictors, whose exponentials "
                    "have to be finite: give the logarithm, or name the column as exposure."
                )
        weight = None if sample_weight is None else checked_weights(sample_weight, X)
        weight = self._counted(weight)
        if family.stable is not None:
            remedy = family.takes_outliers and f"family={family.takes_outliers!r}"
            some = family.stable(y if weight is None else y[weight > 0.0])
            warn_of_far_values("y", some, remedy, family.shown)
        if response is None and not isinstance(self.prior, str):
            response = self._response_of_prior(family)
        if response is None and self.scale is None:
            response = Distribution(family)
        if response is None:
            response = Distribution.of(family, y, weight, known, self.fit_intercept)
        return y, weight, response

    def _family(self):
        """The `Family` that the parameters name."""
        kind = FAMILIES[self.family]
        if self.link not in ("auto", *kind.links):
            raise ValueError(
                f"link={self.link!r} is none of family={self.family!r}: it takes "
                f"{' or '.join(map(repr, kind.links))}."
            )
        if self.exposure is not None and (kind.links[0] if self.link == "auto" else self.link) != (
            "log"
        ):
            raise ValueError(
                f"exposure={self.exposure!r} is for a log link, of counts and amounts: give "
                "trials to the binomial family, and offset to others."
            )
        if self.trials is not None and self.family != "binomial":
            raise ValueError(f"trials={self.trials!r} is for family='binomial'; set it to None.")
        return kind(self.link, self.dispersion_prior_scale)

    @result
    def link_(self) -> str:
        """The link that the mean has, which ``link="auto"`` leaves to the family."""
        return self._family().link

    def _response_of_prior(self, family):
        """What y was where the prior, an earlier posterior, was found."""
        frame = getattr(posterior_of_prior(self.prior), "frame", None)
        response = getattr(frame, "response", None)
        theirs = getattr(response, "family", None)
        if theirs is None or (theirs.name, theirs.link) != (family.name, family.link):
            raise ValueError(
                f"prior is no posterior of family={family.name!r} with link={family.link!r}: give "
                "one of the same family."
            )
        return response

    def _parameters(self):
        """Parameters of linear models; the scale of the prior is a number."""
        scale = self._scale_of_prior(2.5 if self._family().link == "identity" else 1.0)
        return self._linear_parameters(covariance_type="full", prior_scale=scale)

    def __sklearn_tags__(self):
        """Tags: y may have to be positive."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.family not in ("normal", "student_t")
        return tags


fill_docstrings(TEXTS, BayesianGLMRegressorPMD)
