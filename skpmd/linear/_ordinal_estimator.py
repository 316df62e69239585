"""BayesianOrdinalClassifierPMD: ordered classes by one linear predictor and cutpoints."""

from __future__ import annotations

from contextlib import suppress
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from skpmd._base.options import posterior_of_prior
from skpmd._base.utils import fill_docstrings, warn
from skpmd._base.validation import (
    checked_weights,
    encode,
    encode_known,
    naming_unordered,
)
from skpmd._typing import ArrayLike, FilePath, Seed
from skpmd.linear._class_estimator import LinearClassifier
from skpmd.linear._families import Cumulative
from skpmd.linear._group_estimator import GROUP_CONSTRAINTS, GroupColumns
from skpmd.linear._make_model import few
from skpmd.linear._ordinal_predict import OrdinalPredictions
from skpmd.linear._response import Distribution
from skpmd.linear._row_estimator import RowStatements
from skpmd.linear._texts import TEXTS
from skpmd.posterior import Posterior


class BayesianOrdinalClassifierPMD(OrdinalPredictions, RowStatements, LinearClassifier):
    """Ordered classes, by proportional odds, with a posterior over coefficients and cutpoints.

    The probability of class k or one below it is the logistic function of its cutpoint - offset
    - X @ coefficients: a positive coefficient makes higher classes more probable. There is one
    cutpoint between any two neighbours, and no intercept. The posterior is found as in
    `BayesianLogisticRegressionPMD`.

    Parameters
    ----------
    categories : array-like of shape (n_classes,), default=None
        Labels in their order, from the lowest. By default they are the categories of y, where it
        has an ordered dtype of pandas, and the sorted labels otherwise, which is an alphabet's
        order for words, with a warning. A category may have no rows: it then has the probability
        that the prior gives it.
    offset : str or int, default=None
        Column of X, by its name or place, that is added to the linear predictor.
    groups : str, int or list of one, default=None
        Column of X, by its name or place, with the label of each row's group. Each group has an
        effect on the linear predictor, normal about zero, as in `BayesianGLMRegressorPMD`: a
        positive one makes higher classes more probable.
    slopes : dict of str or int to list of one str or int, default=None
        Columns, three at most, with coefficients that are different in each group, such as
        ``{"school": ["hours", "age"]}``.
    <groups>
    prior : {"normal", "laplace", "student_t", "cauchy", "horseshoe"} or posterior, default="normal"
        Prior on each coefficient, as in `BayesianLogisticRegressionPMD`. An earlier posterior,
        ``fitted.posterior_``, of the same classes, makes yesterday's posterior today's prior. The
        classes' probabilities at the columns' means have the prior Dirichlet(1, ..., 1), which
        makes one of the cutpoints.
    prior_mean : float, array-like or dict, default=0.0
        Centre of the prior on coefficients: a number, an array of shape (n_coefficients,), or a
        dict of numbers by names of columns or tuples of names.
    prior_scale : {"auto", "evidence"}, float, array-like or dict, default="auto"
        Scale of the prior on coefficients, in the units that ``scale`` says and the forms of
        ``prior_mean``, an array of shape (n_coefficients,) or a dict among them. ``"auto"`` is 1;
        ``"evidence"`` takes the scale under which the data are most probable.
    prior_df : float, default=4.0
        Degrees of freedom under ``"student_t"``.
    scale : "auto" or None, default="auto"
        What ``prior_mean`` and ``prior_scale`` refer to. ``"auto"``: the change of the linear
        predictor per standard deviation of a column. Columns are centred inside. None: the literal
        prior, per unit of the given columns, and of cutpoints where all of them are zero.
    <proposals>
    <particles>
    <calls>
    <running>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in their order.
    coef_, coef_std_ : ndarray of shape (n_coefficients,)
        Posterior means and standard deviations of coefficients, per unit of the given columns.
    cutpoints_, cutpoints_std_ : ndarray of shape (n_classes - 1,)
        Those of the cutpoints, which are where all columns are zero.
    posterior_ : Posterior
        Weighted particles in given units, with coordinates of the columns' names and ``cut[1]``,
        ``cut[2]``, ..., and with ``groups`` ``sd[school]``, ``sd[school:hours]`` and
        ``cor[school:hours]``.
    group_effects_ : EffectsOfGroups
        Effects of the groups, with ``groups``: means, standard deviations, intervals, ranks.
    <results>
    feature_names_in_ : ndarray of shape (n_columns,)
        Names of the columns, where X has them.

    Warns
    -----
    ConvergenceWarning
        As in `BayesianGLMRegressorPMD`.
    UserWarning
        If labels are words, and neither ``categories`` nor an ordered dtype gives their order.

    See Also
    --------
    BayesianLogisticRegressionPMD : Classes without an order.
    BayesianGLMRegressorPMD : Numbers, counts, amounts and shares.

    References
    ----------
    McCullagh, P. (1980). Regression models for ordinal data. Journal of the Royal Statistical
    Society B 42(2).

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd import BayesianOrdinalClassifierPMD
    >>> rng = np.random.default_rng(0)
    >>> hours = rng.uniform(0.0, 10.0, (300, 1))
    >>> grade = np.digitize(0.8 * hours[:, 0] + rng.logistic(size=300), [3.0, 5.0])
    >>> y = np.array(["poor", "fair", "good"])[grade]
    >>> model = BayesianOrdinalClassifierPMD(categories=["poor", "fair", "good"], random_state=0)
    >>> model.fit(hours, y).coef_.round(1)
    array([0.8])
    >>> model.predict([[1.0], [9.0]])
    array(['poor', 'good'], dtype='<U4')
    """

    _parameter_constraints: dict = {
        **LinearClassifier._parameter_constraints,
        "categories": ["array-like", None],
        "offset": [str, Integral, None],
        **GROUP_CONSTRAINTS,
    }
    _frozen_parameters = (
        "categories", "offset", "prior", "prior_mean", "prior_scale", "prior_df", "scale",
        *GroupColumns._group_roles,
    )  # fmt: skip

    def __init__(
        self,
        categories: ArrayLike | None = None,
        *,
        offset: str | int | None = None,
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
        scale: Literal["auto"] | None = "auto",
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
        self.categories = categories
        self.offset = offset
        self.groups = groups
        self.slopes = slopes
        self.group_prior_scale = group_prior_scale
        self.groups_at = groups_at
        self.prior = prior
        self.prior_mean = prior_mean
        self.prior_scale = prior_scale
        self.prior_df = prior_df
        self.scale = scale
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

    def _targets(self, X, y, sample_weight, known, response, is_part, classes=None):
        """Codes, weights and the `Distribution`; see `LinearEstimator`."""
        given, y = y
        is_ordered = self.categories is not None or _is_ordered(given)
        named = self._named_classes(given, classes, response is not None, is_part)
        if named is None:
            _, named = encode(y)
        if response is None and not is_ordered and isinstance(named[0], str):
            warn(
                f"{type(self).__name__}: labels that are words have been put in alphabetical "
                f"order, {few(named)}. Give their order from the lowest, categories=[...], or y of "
                "an ordered dtype, pandas.CategoricalDtype([...], ordered=True).",
                UserWarning,
            )
        self.classes_ = named
        codes = self._numbers(y)
        weight = None if sample_weight is None else checked_weights(sample_weight, X)
        if not isinstance(self.prior, str):
            self._check_prior(len(named))
        return codes, self._counted(weight), response or Distribution(Cumulative(len(named)))

    def _named_classes(self, y, classes, is_known, is_part):
        """Labels in their order, (n_classes,); None where they are those that y has.

        ``classes`` are those that a call names, of which the order is not asked.
        """
        if classes is not None:
            with naming_unordered("classes", classes):
                classes = np.unique(classes)
        if is_known or self.categories is not None:
            found = self.classes_ if is_known else _labels("categories", self.categories)
        elif _is_ordered(y):
            found = _labels("y.dtype", y.dtype.categories)
        elif is_part and classes is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, unless categories are "
                "given."
            )
        else:
            return classes
        if classes is not None and set(classes.tolist()) != set(found.tolist()):
            raise ValueError(
                f"classes={classes.tolist()} is not the same as the classes that are known, "
                f"{found.tolist()}: leave it out."
            )
        return found

    def _numbers(self, y):
        """Places (n,) of labels in ``classes_``; ValueError where one is none of them."""
        with naming_unordered("the classes", self.classes_):
            order = np.argsort(self.classes_)
        return order[encode_known(y, self.classes_[order]).astype(np.int64)].astype(np.float64)

    def _check_prior(self, n_classes):
        """ValueError where an earlier posterior is none of so many ordered classes."""
        response = getattr(getattr(posterior_of_prior(self.prior), "frame", None), "response", None)
        if not getattr(response, "has_cutpoints", False):
            raise ValueError("prior is no posterior of ordered classes: give one of them.")
        before = response.n_own + 1
        if before != n_classes:
            raise ValueError(
                f"prior is a posterior of {before} ordered classes, and here are {n_classes}: give "
                "categories, of which some may have no rows."
            )

    def _parameters(self):
        """Parameters of linear models; there is no intercept."""
        return self._linear_parameters(
            covariance_type="full", prior_scale=self._scale_of_prior(1.0),
            fit_intercept=False, intercept_prior_scale=1.0,
        )  # fmt: skip


fill_docstrings(TEXTS, BayesianOrdinalClassifierPMD)


def _is_ordered(y):
    """Whether y has an ordered dtype of pandas."""
    return bool(getattr(getattr(y, "dtype", None), "ordered", False))


def _labels(name, values):
    """Labels (n,), of which there are two or more, each once."""
    with suppress(TypeError, ValueError):  # Lists of lists are no labels.
        found = np.asarray(values)
        if found.ndim == 1 and len(set(found.tolist())) == len(found) > 1:
            return found
    given = values.tolist() if hasattr(values, "tolist") else values
    raise ValueError(f"{name} must hold two labels or more, each once, got {given}.")
