"""scikit-learn's kernels as covariances of a model, with faster code for the common ones."""

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as sk

from skpmd._runtime.threads import each, ranges
from skpmd.engine.particles import squared_distances
from skpmd.sparse_gp._categories import MixedKernel

SHAPES = (0.5, 1.5, 2.5, np.inf)  # nu of the Matern family; inf is the squared exponential
# The largest exponent. Its exponential, 1e-39, is nothing beside any variance, but products of it
# keep within the range of numbers: those below take processors twenty times as long.
_FARTHEST = 90.0
_STEP = 1e-5  # Step of differences in theta.
# Largest log of a hyperparameter, unless its bounds reach further, and with them: rejuvenation may
# draw wild ones, which have no weight in the end, and they must not overflow.
_MAX_LOG, _MAX_BOUND = 100.0, 700.0
_FAR = 1e4  # Rows so many length scales away have their distances from differences.
_NOWHERE = 1e145  # Length scales, whose squares are numbers: rows are no farther away.
# A thread evaluates so many covariances at least; a table of them stays in the cache.
_WORTH = 1 << 16
_FEW = 64  # Rows beside which all before them are such a table.


class Part(NamedTuple):
    """A free hyperparameter of a kernel."""

    name: str  # As of ``kernel.get_params``.
    leaf: sk.Kernel  # The kernel that it belongs to.
    attribute: str
    place: slice  # Of theta.


def free_parts(kernel):
    """The `Part` of each free hyperparameter, in the order of theta."""
    out, start = [], 0
    for one in kernel.hyperparameters:
        if one.fixed:
            continue
        *path, attribute = one.name.split("__")
        leaf = kernel
        for name in path:
            leaf = getattr(leaf, name)
        out.append(Part(one.name, leaf, attribute, slice(start, start + one.n_elements)))
        start += one.n_elements
    return out


class Term(NamedTuple):
    """amplitude * g(r^2) with length scales, and the noise beside it."""

    amplitude: float
    length_scale: np.ndarray
    noise: float
    shape: int  # Twice the nu of the Matern family, 0 for RBF: as kernels take it.
    # (p,): Squared distances of different categories, in length scales, and 0 where columns are of
    # numbers; (0,) where all are.
    apart: np.ndarray


class KernelCovariance:
    """A kernel at any hyperparameters, its noise apart from the rest.

    ``theta`` is that of the kernel: logs of the hyperparameters that are not fixed. Sums and
    products are as in `GaussianProcessRegressor`. A `WhiteKernel` is noise: it is in the covariance
    of a row with itself only.

    A product of constants and one RBF or Matern kernel (nu of 1/2, 3/2, 5/2 or infinity), with or
    without WhiteKernels added to it, is fast: it is evaluated by matrix products, as g(r^2) of the
    squared distance r^2 in length scales, g(0) = 1 (Rasmussen and Williams 2006, section 4.2). Any
    other kernel is evaluated through its ``__call__``.
    """

    def __init__(self, kernel):
        self.kernel = kernel
        form, self._limits = _form(kernel), theta_limits(kernel)
        is_fast = form is not None and len(form[1]) == 1
        self.fast = _Fast(kernel, self._limits, *form) if is_fast else None
        self._last = None, None

    def __getstate__(self):
        """What is pickled: the kernel, which the rest is made of."""
        return {"kernel": self.kernel}

    def __setstate__(self, state):
        self.__init__(state["kernel"])

    @property
    def is_fast(self):
        """Whether it has a form that is evaluated by matrix products."""
        return self.fast is not None

    @property
    def categorical(self):
        """Places of the columns of categories."""
        return self.fast.categorical if self.is_fast else np.empty(0, dtype=int)

    def at(self, theta):
        """The kernel at theta."""
        key, (last, kernel) = theta.tobytes(), self._last
        if last != key:
            kernel = self.kernel.clone_with_theta(np.clip(theta, *self._limits))
            self._last = key, kernel  # One assignment, as threads may share this.
        return kernel

    def term(self, theta):
        """The `Term` of a fast kernel."""
        return self.fast.at(theta)

    def cross(self, theta, A, B):
        """Covariances of f at the rows of A and of B, shape (n, m), C order."""
        if not self.is_fast:
            return np.ascontiguousarray(self.at(theta)(A, B))
        term = self.fast.at(theta)
        squared = _squared(*(in_lengths(rows, term.length_scale) for rows in (A, B)), term.apart)
        if A is B:  # A row has no distance from itself, whatever rounding says.
            squared[np.diag_indices(len(A))] = 0.0

        def evaluate(some):
            values = _values(squared[slice(*some)], self.fast.nu)
            values *= term.amplitude

        each(evaluate, ranges(len(A), 1 + _WORTH // len(B)))  # In place.
        return squared

    def diagonal(self, theta, A):
        """Variances of f at the rows of A, shape (n,)."""
        if self.is_fast:
            return np.full(len(A), self.fast.at(theta).amplitude)
        return _signal_and_noise(self.at(theta), A)[0]

    def noise(self, theta, A):
        """Variances of the noise at the rows of A, shape (n,)."""
        if self.is_fast:
            return np.full(len(A), self.fast.at(theta).noise)
        return _signal_and_noise(self.at(theta), A)[1]

    def contracted_gradient(self, theta, X, W, d):
        """Gradient in theta of sum_ij W_ij k(x_i, x_j) + sum_i d_i noise(x_i).

        W is symmetric and in Fortran order; what is above its diagonal is not read.
        """
        if self.is_fast:
            signal = self.fast.own_gradient(theta, X, W)
            return signal + self.fast.diagonal_gradient(theta, np.zeros(1), d)
        W = np.tril(W) + np.tril(W, -1).T
        out = np.einsum("ij,ijk->k", W, self.at(theta)(X, eval_gradient=True)[1])
        # kernel(X) has the noise on its diagonal; differences correct for its part.
        for k in range(len(theta)):
            ends = []
            for sign in (1.0, -1.0):
                moved = theta.copy()
                moved[k] += sign * _STEP
                ends.append(self.noise(moved, X))
            out[k] += (d - np.diag(W)) @ (ends[0] - ends[1]) / (2.0 * _STEP)
        return out

    def with_noise(self, theta, level):
        """Theta of another noise variance, within its bounds, of a fast kernel.

        The same theta where the kernel has no noise that is free.
        """
        out = theta.copy()
        for place in self.fast.noise_places[:1]:
            out[place] = np.clip(np.log(level), *self.kernel.bounds[place].T)
        return out


class _Fast:
    """Constants times one RBF or Matern kernel, plus noise, as functions of theta."""

    def __init__(self, kernel, limits, constants, shapes, noises):
        self._limits = limits
        places = {id(part.leaf): part.place for part in free_parts(kernel)}
        self.nu = getattr(shapes[0], "nu", np.inf)
        self.categorical = np.asarray(getattr(shapes[0], "categorical", ()), dtype=int)
        self._scale = shapes[0].length_scale, places.get(id(shapes[0]))
        self._constants = [(one.constant_value, places.get(id(one))) for one in constants]
        self._noises = [(one.noise_level, places.get(id(one))) for one in noises]
        self.noise_places = [place for _, place in self._noises if place is not None]

    def at(self, theta):
        """The term at theta."""
        theta = np.clip(theta, *self._limits)
        amplitude = np.prod([_value(theta, *one) for one in self._constants])
        noise = sum(_value(theta, *one) for one in self._noises)
        shape = 0 if np.isinf(self.nu) else int(2.0 * self.nu)
        scale = np.atleast_1d(_value(theta, *self._scale))
        apart = np.zeros(len(scale) if len(self.categorical) else 0)
        apart[self.categorical] = scale[self.categorical] ** -2.0
        return Term(float(amplitude), scale, float(noise), shape, apart)

    def assembled(self, theta, by_amplitude, by_noise, by_scales):
        """Gradient in theta of what has these derivatives.

        They are those by the log of the amplitude, by the noise, and by the logs of the length
        scales (p,).
        """
        out, place = np.zeros(len(theta)), self._scale[1]
        if place is not None:
            out[place] = by_scales if place.stop - place.start > 1 else by_scales.sum()
        self._add(out, by_amplitude, by_noise, theta)
        return out

    def cross_gradient(self, theta, A, B, W):
        """Gradient in theta of sum_ij W_ij k(a_i, b_j)."""
        term = self.at(theta)
        A, B = _centred(*(in_lengths(rows, term.length_scale) for rows in (A, B)))
        n_rows = 1 + _WORTH // len(B)

        def of(start):
            rows = slice(start, start + n_rows)
            return self._sums(_squared(A[rows], B, term.apart), A[rows], B, W[rows], term.apart)

        return self._assembled_sums(theta, each(of, range(0, len(A), n_rows)))

    def own_gradient(self, theta, A, W):
        """Gradient in theta of sum_ij W_ij k(a_i, a_j), W as in `contracted_gradient`.

        Of each pair of rows one distance is found.
        """
        term = self.at(theta)
        A, _ = _centred(*[in_lengths(A, term.length_scale)] * 2)

        def of(start):
            own, all_before = slice(start, start + _FEW), slice(start + _FEW)
            weight = 2.0 * W.T[all_before, own]
            last = weight[start:]
            last[np.tril_indices(len(last), -1)] = 0.0
            last[np.diag_indices(len(last))] *= 0.5
            squared = _squared(A[all_before], A[own], term.apart)
            squared[start:][np.diag_indices(len(last))] = 0.0
            return self._sums(squared, A[all_before], A[own], weight, term.apart)

        return self._assembled_sums(theta, each(of, range(0, len(A), _FEW)))

    def _sums(self, squared, A, B, W, apart):
        """The sum of W g(r^2) over pairs of scaled rows, and of W g'(r^2) times r^2 by columns.

        ``squared`` are the r^2, which are overwritten.
        """
        by_columns = np.zeros(A.shape[1])
        if self._scale[1] is not None:
            slope = _slopes(squared, self.nu)
            slope *= W
            # sum_ik slope_ik (a_ij - b_kj)^2.
            if _are_far(A, B):
                columns = zip(A.T, B.T, strict=True)
                by_columns = np.array([np.vdot(slope, (a[:, None] - b) ** 2) for a, b in columns])
            else:
                by_columns = slope.sum(axis=1) @ A**2 + slope.sum(axis=0) @ B**2
                by_columns -= 2.0 * np.einsum("ij,ij->j", B, slope.T @ A)
            for j in self.categorical:
                by_columns[j] = apart[j] * slope[_differ(A, B, j)].sum()
        return np.vdot(W, _values(squared, self.nu)), by_columns

    def _assembled_sums(self, theta, parts):
        """Gradient in theta of covariances whose sums these are: d r^2 / d log l = -2 r^2."""
        value, by_columns = (sum(part) for part in zip(*parts, strict=True))
        amplitude = self.at(theta).amplitude
        return self.assembled(theta, value * amplitude, 0.0, -2.0 * amplitude * by_columns)

    def diagonal_gradient(self, theta, g, d):
        """Gradient in theta of sum_i g_i k(x_i, x_i) + d_i noise(x_i)."""
        no_scales = np.zeros(1)
        return self.assembled(theta, self.at(theta).amplitude * g.sum(), d.sum(), no_scales)

    def _add(self, out, value, d, theta):
        for _, place in self._constants:
            if place is not None:
                out[place] += value
        for place in self.noise_places:
            out[place] += np.exp(theta[place]) * d


def _squared(A, B, apart):
    """Squared distances of scaled rows, shape (n, m); those of different categories are ``apart``.

    A matrix product loses the distances of near rows where others are far away.
    """
    categorical = np.flatnonzero(apart)
    if len(categorical):
        squared = _squared(*(np.delete(rows, categorical, axis=1) for rows in (A, B)), apart[:0])
        for j in categorical:
            squared += apart[j] * _differ(A, B, j)
        return squared
    middle = B.mean(axis=0)
    if _are_far(A - middle, B - middle):
        return cdist(A, B, "sqeuclidean")
    return squared_distances(A, B)


def _are_far(A, B):
    """Whether there are scaled rows whose squares would hide the distances of others."""
    return max(np.abs(A).max(initial=0.0), np.abs(B).max(initial=0.0)) > _FAR


def _centred(A, B):
    """Scaled rows less the middle of B, or as they are where some are far from it."""
    middle = B.mean(axis=0)
    return (A, B) if _are_far(A - middle, B - middle) else (A - middle, B - middle)


def _differ(A, B, j):
    """Which rows of A and of B differ in a column, shape (n, m)."""
    return A[:, j, None] != B[:, j]


def in_lengths(X, length_scale):
    """Rows (n, d) in length scales, which are numbers however far away rows are."""
    with np.errstate(over="ignore"):
        return np.clip(X / length_scale, -_NOWHERE, _NOWHERE)


def theta_limits(kernel):
    """The least and the largest theta that are evaluated, (2, d): columns may be in any units."""
    with np.errstate(all="ignore"):  # They are logs, also of what is not positive.
        low, high = np.reshape(kernel.bounds, (-1, 2)).T
    low = np.where(low >= -_MAX_BOUND, np.minimum(low, -_MAX_LOG), -_MAX_LOG)
    return low, np.where(high <= _MAX_BOUND, np.maximum(high, _MAX_LOG), _MAX_LOG)


def _value(theta, fixed, place):
    """A hyperparameter: as it is, or the exponential of its place in theta."""
    if place is None:
        return np.asarray(fixed, dtype=np.float64)
    values = np.exp(theta[place])
    return values if len(values) > 1 else values[0]


def parameter_names(kernel):
    """A name for each entry of ``kernel.theta``."""
    names = []
    for part in free_parts(kernel):
        n = part.place.stop - part.place.start
        names += [part.name] if n == 1 else [f"{part.name}[{j}]" for j in range(n)]
    return names


def kinds(kernel):
    """The attribute that each entry of ``kernel.theta`` is, such as length_scale; (d,) of str."""
    parts = free_parts(kernel)
    return np.repeat([p.attribute for p in parts], [p.place.stop - p.place.start for p in parts])


def _signal_and_noise(kernel, A):
    """The diagonal in two parts: a WhiteKernel is zero between two rows, even equal ones."""
    if isinstance(kernel, sk.Sum):
        (f, e), (g, d) = (_signal_and_noise(part, A) for part in (kernel.k1, kernel.k2))
        return f + g, e + d
    if isinstance(kernel, sk.Product):
        (f, e), (g, d) = (_signal_and_noise(part, A) for part in (kernel.k1, kernel.k2))
        return f * g, f * d + e * g + e * d
    if isinstance(kernel, sk.Exponentiation):
        f, e = _signal_and_noise(kernel.kernel, A)
        power = f**kernel.exponent
        return power, (f + e) ** kernel.exponent - power
    if isinstance(kernel, sk.WhiteKernel):
        return np.zeros(len(A)), kernel.diag(A)
    return kernel.diag(A), np.zeros(len(A))


def _form(kernel):
    """(constants, shape, noises) of a kernel that has the fast form, or None."""
    if isinstance(kernel, sk.WhiteKernel):
        return [], [], [kernel]
    if isinstance(kernel, sk.Sum):
        parts = _form(kernel.k1), _form(kernel.k2)
        if None in parts or (parts[0][1] and parts[1][1]):
            return None
        if not (parts[0][1] or parts[1][1]):  # Two noises are one, two constants are a covariance.
            return None if parts[0][0] or parts[1][0] else ([], [], parts[0][2] + parts[1][2])
        constants = [part[0] for part in parts if not part[1]]
        return None if any(constants) else tuple(a + b for a, b in zip(*parts, strict=True))
    if isinstance(kernel, sk.Product):
        parts = _form(kernel.k1), _form(kernel.k2)
        if None in parts or parts[0][2] or parts[1][2] or (parts[0][1] and parts[1][1]):
            return None
        return tuple(a + b for a, b in zip(*parts, strict=True))
    if isinstance(kernel, sk.ConstantKernel):
        return [kernel], [], []
    if type(kernel) is sk.RBF or (type(kernel) in (sk.Matern, MixedKernel) and kernel.nu in SHAPES):
        return [], [kernel], []
    return None


def _values(squared, nu):
    """g at the squared distances, which are overwritten."""
    if nu == np.inf:
        squared *= -0.5
        return np.exp(np.maximum(squared, -_FARTHEST, out=squared), out=squared)
    r = np.sqrt(squared, out=squared)
    r *= np.sqrt(2.0 * nu)
    np.minimum(r, _FARTHEST, out=r)
    if nu == 0.5:
        return np.exp(np.negative(r, out=r), out=r)
    polynomial = 1.0 + r if nu == 1.5 else 1.0 + r * (1.0 + r / 3.0)
    return np.multiply(polynomial, np.exp(np.negative(r, out=r), out=r), out=r)


def _slopes(squared, nu):
    """Derivative of g by the squared distance; 0 where nu = 1/2 has none, at distance 0."""
    if nu == np.inf:
        return -0.5 * np.exp(-0.5 * squared)
    r = np.sqrt(2.0 * nu * squared)
    if nu == 0.5:
        return np.divide(-0.5 * np.exp(-r), r, out=np.zeros_like(r), where=r > 0.0)
    return -np.exp(-r) * (1.5 if nu == 1.5 else 5.0 / 6.0 * (1.0 + r))
