"""The contract between a model and the engine: the one page a contributor reads.

A model says how probable data are under many parameters at once. Positions ``theta`` are an
array of shape (m, d), one particle a row, on an unconstrained scale: the model owns its
transforms and puts their Jacobians into the log prior. Three methods make a model::

    class Poisson(Model):
        '''Counts with rate exp(theta), theta ~ N(0, 1).'''

        def sample_prior(self, rng, m):
            return rng.standard_normal((m, 1))

        def log_prior(self, theta):
            return -0.5 * theta[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)

        def log_likelihood(self, theta, batch):
            per_row = np.outer(theta[:, 0], batch.y) - np.exp(theta) - gammaln(batch.y + 1)
            return per_row @ batch.weight

Everything else is optional and used where it is offered:

* the conjugate block: parameters zeta whose conditional given theta stays in an exponential
  family are integrated out, and each particle keeps the natural parameters of q(zeta | theta)
  (section 3.1 and appendix F of the paper). Override `prior_block`, `statistics`,
  `log_partition` and `move_block` together, and `add_statistics`, `update_block` and
  `select_block` where a block is no array;
* ``log_joint_gradient(theta, batches, b=1.0)`` returns the log joint density of each particle with
  the likelihood to the power b, shape (m,), and its gradient, shape (m, d): `skpmd.proposals.hmc`
  then moves particles along it where weights fail;
* ``gaussian_target`` lets `skpmd.engine.variational` place a Gaussian before any particle is drawn,
  and ``skew_axes`` lets `skpmd.engine.importance` skew it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


def take_rows(column, rows):
    """Some rows of an array or a CSR matrix; None stays None."""
    return None if column is None else column[rows]


class Batch(NamedTuple):
    """Rows of data, in columns that have names; those that a model does not ask for are None.

    Columns are carried, not applied: a model that does not read one ignores it, or refuses it.

    Attributes
    ----------
    X : ndarray of shape (n, p), or None
        Features, C order; a CSR matrix where a model says that it takes one.
    y : ndarray of shape (n,) or (n, t), or None
        Targets.
    weight : ndarray of shape (n,), float64
        How often each row counts: weight w is the same as w copies of the row.
    noise : ndarray of shape (n,), or None
        Variance of the noise of each row's own.
    offset : ndarray of shape (n,), or None
        Known part of the linear predictor.
    exposure : ndarray of shape (n,), or None
        Time or size over which a row's events were counted.
    group : ndarray of shape (n,), int, or None
        Code of the group that each row belongs to.
    place : ndarray of shape (n,), int, or None
        Where each row stands in a table that the model has.
    times : ndarray of shape (n,), or None
        How many groups like it the group of each row stands for, the same in all rows of a batch.
    local : ndarray of shape (n, k), or None
        Variables of each row's own, such as sites of expectation propagation. A model may write on
        them: what `take` gives of a slice are views.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd.engine.model import Batch
    >>> Batch(np.ones((3, 2)), None, np.array([1.0, 2.0, 1.0])).weight.sum()
    np.float64(4.0)
    """

    X: np.ndarray | None
    y: np.ndarray | None
    weight: np.ndarray
    noise: np.ndarray | None = None
    offset: np.ndarray | None = None
    exposure: np.ndarray | None = None
    group: np.ndarray | None = None
    place: np.ndarray | None = None
    times: np.ndarray | None = None
    local: np.ndarray | None = None

    def take(self, rows: slice | Array, select: Callable[..., Any] = take_rows) -> Batch:
        """Some of the rows.

        Parameters
        ----------
        rows : slice, or ndarray of shape (n,), bool, or of shape (k,), int
            Which rows: a mask of all, or places of some.
        select : callable, default=`take_rows`
            ``select(column, rows)`` takes them of columns X and y that are no arrays.

        Returns
        -------
        Batch
            All columns of these rows.
        """
        X, y, *others = self
        return Batch(
            select(X, rows), select(y, rows), *(take_rows(column, rows) for column in others)
        )


class Model:
    """Base of all models; see the module's text for a whole example.

    Attributes
    ----------
    tail_df : float
        Degrees of freedom of the prior's heaviest tail, inf where all fall faster than any power.
    n_coordinates : int or None
        Length of theta, where it is known before a draw.
    block_weighs : bool
        Whether particles are weighed by the integral over their conjugate block. Where weights
        have another source its log-partition function, which may cost as much as a batch, is left
        alone.

    References
    ----------
    Dai, B., He, N., Dai, H. and Song, L. (2016). Provable Bayesian inference via particle mirror
    descent. AISTATS. arXiv:1506.03101, section 3.1 and appendix F.

    Examples
    --------
    >>> import numpy as np
    >>> from skpmd.engine.model import Batch, Model
    >>> class Normal(Model):
    ...     def sample_prior(self, rng, m):
    ...         return rng.standard_normal((m, 1))
    ...     def log_prior(self, theta):
    ...         return -0.5 * theta[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    ...     def log_likelihood(self, theta, batch):
    ...         per_row = -0.5 * (batch.y - theta) ** 2 - 0.5 * np.log(2 * np.pi)
    ...         return per_row @ batch.weight
    >>> batch = Batch(np.empty((2, 0)), np.array([0.0, 1.0]), np.ones(2))
    >>> Normal().log_likelihood(np.array([[0.0], [2.0]]), batch).round(2)
    array([-2.34, -4.34])
    """

    tail_df, n_coordinates, block_weighs = np.inf, None, True

    def sample_prior(self, rng: np.random.Generator, m: int) -> Array:
        """Draw m particles from the prior.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.
        m : int
            Number of particles.

        Returns
        -------
        ndarray of shape (m, d), float64
            Positions.
        """
        raise NotImplementedError

    def log_prior(self, theta: Array) -> Array:
        """Log prior density of each particle, normalised, ``-inf`` off the support.

        Parameters
        ----------
        theta : ndarray of shape (m, d), float64
            Positions.

        Returns
        -------
        ndarray of shape (m,)
            In nats.
        """
        raise NotImplementedError

    def log_likelihood(self, theta: Array, batch: Batch) -> Array:
        """Weighted sum over the batch's rows of log p(x_n | theta).

        Additive over batches. With a conjugate block this is the part that zeta does not
        touch: sum of log h(x_n; theta) in p(x | zeta, theta) = h exp(zeta . t(x; theta)).

        Parameters
        ----------
        theta : ndarray of shape (m, d), float64
            Positions.
        batch : Batch
            Rows, with their weights.

        Returns
        -------
        ndarray of shape (m,)
            In nats.
        """
        raise NotImplementedError

    def monitored(self, theta: Array) -> Array:
        """Functions of theta, linear and a row each, whose errors a stream keeps account of.

        Default: theta itself. Others where the data speak of a few combinations of coordinates
        only, and errors of those would pass unnoticed in coordinates that are wide for the rest.

        Parameters
        ----------
        theta : ndarray of shape (m, d), float64
            Positions.

        Returns
        -------
        ndarray of shape (m, k)
            Values of the k functions.
        """
        return theta

    # ------------------------------------------------------------------ the conjugate block
    @property
    def has_block(self) -> bool:
        """Whether there is a block: whether the model has statistics."""
        return type(self).statistics is not Model.statistics

    def prior_block(self, theta: Array) -> Array:
        """Natural parameters of p(zeta | theta).

        Parameters
        ----------
        theta : ndarray of shape (m, d), float64
            Positions.

        Returns
        -------
        ndarray of shape (m, k)
            A row for each particle; k = 0 means no block.
        """
        return np.empty((len(theta), 0))

    def statistics(self, theta: Array, block: Array, batch: Batch) -> Array:
        """Weighted sum of the rows' sufficient statistics T(batch; theta).

        Where rows have local variables of their own (assignments, scales of noise) these are
        taken under ``block``, the particles' natural parameters before the step.

        Parameters
        ----------
        theta : ndarray of shape (m, d), float64
            Positions.
        block : ndarray of shape (m, k)
            Natural parameters before the step.
        batch : Batch
            Rows, with their weights.

        Returns
        -------
        ndarray of shape (m, k)
            Sums over the rows.
        """
        raise NotImplementedError

    def add_statistics(self, one: Array, other: Array) -> Array:
        """Statistics of two batches together; nobody else asks for either again.

        Parameters
        ----------
        one, other : ndarray of shape (m, k)
            What `statistics` has returned; the first may be written on.

        Returns
        -------
        ndarray of shape (m, k)
            Their sum.
        """
        return one + other

    def update_block(
        self, theta: Array, block: Array, a: float, b: float, statistics: Array
    ) -> Array:
        """Natural parameters after a step: (1 - a) block + a prior + b statistics.

        A model whose block is no array, or too large to be copied, says here what that means.

        Parameters
        ----------
        theta : ndarray of shape (m, d), float64
            Positions.
        block : ndarray of shape (m, k)
            Natural parameters before the step.
        a, b : float
            Coefficients of the step, as of `linear_form`.
        statistics : ndarray of shape (m, k)
            Of the step's rows.

        Returns
        -------
        ndarray of shape (m, k)
            Natural parameters after the step.
        """
        prior = self.prior_block(theta) if a else 0.0
        return linear_form(block, prior, statistics, a, b)

    def log_partition(self, block: Array) -> Array:
        """Log-partition function A of the conjugate family.

        Parameters
        ----------
        block : ndarray of shape (m, k)
            Natural parameters.

        Returns
        -------
        ndarray of shape (m,)
            In nats.
        """
        raise NotImplementedError

    def move_block(self, theta: Array, block: Array, moved: Array) -> Array:
        """Block of the particles after rejuvenation took each from ``theta`` to ``moved``.

        The natural parameters hold data statistics that were taken at the old position; say
        here what becomes of them: carry them over, rescale them, or count them anew.

        Parameters
        ----------
        theta : ndarray of shape (m, d), float64
            Positions before.
        block : ndarray of shape (m, k)
            Natural parameters there.
        moved : ndarray of shape (m, d), float64
            Positions after.

        Returns
        -------
        ndarray of shape (m, k)
            Natural parameters of the moved particles.
        """
        return np.empty((len(moved), 0))

    def select_block(self, block: Array, ancestors: Array) -> Array:
        """Block of some of the particles.

        Parameters
        ----------
        block : ndarray of shape (m, k)
            Natural parameters.
        ancestors : ndarray of shape (n,), int
            Places of these particles, which may repeat.

        Returns
        -------
        ndarray of shape (n, k)
            Their natural parameters.
        """
        return block[ancestors]

    def record(self, block: Array, statistics: Array) -> dict[str, float]:
        """What the history keeps of a step beside the engine's own record.

        Parameters
        ----------
        block : ndarray of shape (m, k)
            After the step.
        statistics : ndarray of shape (m, k)
            Of the step's rows.

        Returns
        -------
        dict of str to float
            Columns of ``history_`` by their names.
        """
        return {}


def linear_form(old, prior, data, a, b):
    """One step in natural parameters: (1 - a) old + a prior + b data.

    A mirror step has (a, b) = (gamma, gamma N / B), a stream (0, 1), reweighting on all data
    (1, 1). At a whole step of a = 1 the past is forgotten even where it was -inf (0 * inf is nan).
    """
    new = b * data
    if a:
        new = new + a * prior
    return (1.0 - a) * old + new if a < 1.0 else new
