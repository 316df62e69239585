"""What every estimator does with its own attributes: state, results, rollback, frozen parameters.

An estimator keeps the outcome of its fit in one record, ``_state``; its fitted attributes are
properties made of that record. Nobody else sets attributes of an estimator.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from functools import wraps
from math import expm1, log, log1p
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_n_features, validate_data

from skpmd._base.checkpoint import checkpointed, without_path
from skpmd._base.merging import check_alike
from skpmd._base.options import TEXTS, adopted
from skpmd._base.utils import damaged_folder, fill_docstrings, warn
from skpmd._base.validation import (
    ENCODE,
    checked_blocks,
    naming_conversions,
    naming_missing,
    refuse_no_table,
    refuted_weights,
)
from skpmd._base.version import __version__, other_version
from skpmd._rows.table import BlockTable, refuse_dates
from skpmd._runtime.call import Call, current, during
from skpmd._runtime.display import hearing_of_kernels, listeners_of
from skpmd._runtime.threads import threads
from skpmd._typing import Value
from skpmd.engine.loop import Options, is_ctrl_c
from skpmd.engine.mirror import Settings
from skpmd.engine.schedules import Schedule

# Half of the past is gone after three rows: a larger share is likelier one of a whole call, or what
# is to be kept.
_MAX_FORGETTING = 0.2
_VERSION = "_skpmd_version"  # What the state of a pickle calls it.


def result(method: Callable[[Any], Value]) -> Value:
    """Property of a fitted estimator, made once for each state, when it is first asked for.

    The value is kept apart from the estimator's own attributes, which predictions must not change,
    and is left out of pickles.
    """
    name = method.__name__

    @wraps(method)
    def get(self):
        if getattr(self, "_state", None) is None:
            raise AttributeError(f"{name} is there after fit or partial_fit.")
        if name not in self._cache:
            self._cache[name] = method(self)
        return self._cache[name]

    return property(get)  # type: ignore[return-value]  # To type checkers it is its value.


def _same(one, other):
    """Whether two values of a parameter are the same."""
    return one is other or np.array_equal(one, other)


class ParticleEstimator(BaseEstimator):
    """Base of all estimators.

    ``_frozen_parameters`` are the names of those that may not change between calls of
    ``partial_fit``, and ``_adopted_attributes`` the names of attributes that an estimator of the
    same class takes over beside the state where this one is its ``prior``. ``_of_words`` says what
    to do with words in X.
    """

    _frozen_parameters = ()
    _of_words = ENCODE
    _adopted_attributes = "n_features_in_", "feature_names_in_"

    def __init_subclass__(cls, **kwargs):
        """Put the texts that estimators have in common into the docstring of this one."""
        super().__init_subclass__(**kwargs)
        fill_docstrings({**TEXTS, "<class>": cls.__name__}, cls)

    def __sklearn_is_fitted__(self):
        """Whether there is a state."""
        return getattr(self, "_state", None) is not None

    def __getstate__(self):
        """What is pickled: not what can be made again, and which version has pickled it."""
        state = {**without_path(super().__getstate__()), _VERSION: __version__}
        return {**state, "_cache": {}} if "_cache" in state else state

    def __setstate__(self, state):
        """Take over what was pickled, and warn if another version of skpmd has done so."""
        state = dict(state)
        version = state.pop(_VERSION, "0.1.0.dev0 or earlier")
        if version != __version__:
            warnings.warn(other_version(type(self).__name__, version), stacklevel=2)
        super().__setstate__(without_path(state))

    def _record(self, kind, **others):
        """A record of the parameters that its fields have the names of, and of others.

        They are read one by one: a subclass may take fewer of them in its constructor.
        """
        given = {name: self._given(name) for name in kind._fields if hasattr(self, name)}
        return kind(**{**given, **others})

    def _given(self, name):
        """A parameter; True is 1 where a number is meant, which NumPy does not take it for."""
        value = getattr(self, name)
        is_number = "boolean" not in self._parameter_constraints.get(name, ())
        return int(value) if isinstance(value, bool) and is_number else value

    def _loop_options(self, **settings):
        """The checked `Options` of the loop; what the estimator does not have is as by default."""
        given = {"settings": self._record(Settings, **settings), "forgetting": self._forgetting()}
        return check_options(self._record(Options, schedule=self._record(Schedule), **given))

    def _forgetting(self):
        """Share of the past that each row of a stream discounts."""
        return share_forgotten(
            self._given("forgetting") if hasattr(self, "forgetting") else 0.0,
            getattr(self, "half_life", None),
        )

    def _checked_data(self, X, y="no_validation", **how):
        """X, or X and y, as ``validate_data`` hands them back; what is no table is refused.

        X may be a `BlockTable`; it becomes an array where its rows are few.
        """
        refuse_no_table(X)
        name = "X" if isinstance(y, str) and y == "no_validation" else "X or y"
        if not how.get("skip_check_array"):
            refuse_dates("X", X)
        if how.get("y_numeric"):
            refuse_dates("y", y)
        # Its sums overflow where numbers do; it refuses those.
        with (
            np.errstate(all="ignore"),
            naming_conversions(name, self._of_words, X),
            naming_missing(X, y),
        ):
            if not isinstance(X, BlockTable):
                return validate_data(self, X, y, **how)
            reset = how.pop("reset", True)
            checked = checked_blocks(X, y, **how)
            _check_n_features(self, X, reset=reset)
            self._check_names(X.names, reset)
            return checked

    def _counted(self, weight):
        """Weights (n,) of rows to learn from, or None, as they are.

        A fit, or a stream, warns once where they seem to be shares and no numbers of rows.
        """
        if weight is not None and not getattr(self, "_has_warned_of_weights", False):
            reason = refuted_weights(weight)
            self._has_warned_of_weights = bool(reason)
            if reason:
                warn(f"{type(self).__name__}: {reason}.", UserWarning)
        return weight

    def _check_names(self, names, reset):
        """Take over the names of columns of data in blocks, or hold them against those before."""
        if reset:
            vars(self).pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = names
        elif names is not None and not np.array_equal(
            names, getattr(self, "feature_names_in_", names)
        ):
            raise ValueError(
                "The feature names of the blocks should match those that were passed before: they "
                f"were {list(self.feature_names_in_[:5])} and are {list(names[:5])}."
            )

    def _threads(self):
        """Context with the threads that ``n_jobs`` asks for."""
        return threads(getattr(self, "n_jobs", None))

    def _reset(self):
        """Drop what an earlier fit left."""
        for name in [name for name in vars(self) if name.endswith("_") and name[0] != "_"]:
            delattr(self, name)
        self._state, self._cache, self._frozen, self._ended = None, {}, {}, ()
        self._has_warned_of_weights = False

    def _set_state(self, state):
        """Take over a new state; results are made anew when they are asked for."""
        self._state, self._cache, self._ended = state, {}, current().account()

    def _check_parameters(self):
        """Raise where a parameter that has been set after a fit is not what it may be."""
        if self.__sklearn_is_fitted__() and not get_config()["skip_parameter_validation"]:
            self._validate_params()

    @contextmanager
    def _all_or_nothing(self, fit_of=None):
        """Context of a fit and of a part of a stream, with threads; what fails changes nothing.

        It is that of `_rollback_on_error`, and yields the same. scikit-learn checks parameters at
        the first part only, and they may have been set since. The time of ``max_time`` begins here,
        and whoever listens hears of the call. A call of ``fit`` says what it is a ``fit_of``, a
        dict of its data by name; it goes on from its checkpoint where there is one.
        """
        of_fit = fit_of is not None
        self._check_parameters()
        listeners = listeners_of(of_fit) if getattr(self, "verbose", 0) else []
        call = Call(getattr(self, "max_time", None), listeners)
        compiling = hearing_of_kernels(listeners) if listeners else nullcontext()
        with self._rollback_on_error() as on_error, during(call), compiling, self._threads():
            if not of_fit:
                yield on_error
                return
            with self._checkpointed(fit_of):
                yield on_error

    def _checkpointed(self, fit_of):
        """Context of a fit that goes on from its checkpoint, and has one, where it is to."""
        path = getattr(self, "checkpoint", None)
        if path is None:
            return nullcontext()
        parameters, data = self.get_params(deep=False), dict(fit_of)
        if getattr(self, "warm_start", False):
            data["the fit before, of warm_start"] = getattr(self, "_state", None)
        return checkpointed(path, type(self), parameters, data)

    def _protect_state(self):
        """Go on with a copy of the state, for what changes in place cannot be rolled back."""
        if self.__sklearn_is_fitted__():
            self._state = copy.deepcopy(self._state)

    @contextmanager
    def _rollback_on_error(self):
        """Leave the estimator, and a RandomState given to it, as they were if anything fails.

        Yields a function that takes what else is to be called then: where arrays change in place.
        """
        before, generator = vars(self).copy(), self.random_state
        position, undo = copy.deepcopy(generator), []
        try:
            yield undo.append
        except BaseException as error:
            for one in undo:
                one()
            vars(self).clear()
            vars(self).update(before)
            if isinstance(generator, np.random.RandomState):
                generator.set_state(position.get_state())
            if is_ctrl_c(error):
                raise KeyboardInterrupt from error
            folder = damaged_folder(error)
            if folder is not None:
                raise RuntimeError(
                    f"Numba cannot read the compiled kernels in {folder}, a file there is damaged: "
                    "delete the *.nbi and *.nbc files in it; they are compiled anew."
                ) from error
            raise

    def _freeze(self, *, but=()):
        """Remember the parameters that a stream is made with; arrays are copied once.

        An earlier posterior as the prior, which nobody changes, is not.
        """
        known = getattr(self, "_frozen", {})
        new = [name for name in self._frozen_parameters if name not in known and name not in but]
        values = {name: getattr(self, name) for name in new}
        copies = {k: v if k == "prior" else copy.deepcopy(v) for k, v in values.items()}
        self._frozen = {**known, **copies}

    def _state_or_prior(self):
        """The state that a part of a stream goes on from; None before the first rows.

        Where there is none yet, it is that of the fitted estimator that ``prior`` is.
        """
        if not self.__sklearn_is_fitted__():
            self._reset()
            if self.prior is not None:
                names = self._adopted_attributes
                state, self._frozen, attributes = adopted(type(self), self.prior, names)
                vars(self).update(attributes)
                self._check_frozen("in the prior", "set it to the same")
                self._set_state(state)
        return self._state

    def _start_merge(self, estimators, names):
        """Take over what does not depend on rows from the first of the estimators of shards.

        They must be alike in the parameters of these names, and in their columns.
        """
        check_alike(estimators, names)
        first = estimators[0]
        self._reset()
        self._frozen = dict(getattr(first, "_frozen", {}))
        for name in self._adopted_attributes:
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))

    def _check_frozen(self, when="in the calls before", remedy="set it back, or call fit"):
        """Raise if a parameter is not what the stream so far has been made with."""
        for name, before in getattr(self, "_frozen", {}).items():
            now = getattr(self, name)
            if not _same(now, before):
                was, is_ = (repr(v) if np.ndim(v) == 0 else "an array" for v in (before, now))
                other = " of other values" if was == is_ else ""
                raise ValueError(f"{name} was {was} {when} and is {is_}{other}: {remedy}.")

    def _warn_unused(self, names, remedy, where="in a fit without stochastic steps"):
        """Warn of those parameters that differ from their defaults and change nothing here."""
        parameters = inspect.signature(type(self)).parameters
        unused = [
            f"{name}={getattr(self, name)!r}"
            for name in names
            if name in parameters and not _same(getattr(self, name), parameters[name].default)
        ]
        if unused:
            change = "changes" if len(unused) == 1 else "change"
            warn(
                f"{type(self).__name__}: {', '.join(unused)} {change} nothing {where}: {remedy}.",
                UserWarning,
            )

    @result
    def out_of_time_(self) -> bool:
        """Whether ``max_time`` ended the last call, a bool."""
        return bool(getattr(self, "_ended", ()))

    def _conclude(self, reasons=(), remedy="", interrupted=False):
        """Hand on the user's Ctrl-C, or warn of an early end and of what speaks against the result.

        ``reasons`` are what speaks against it, each with what to do about it, ``remedy`` is what
        to do in any case, and ``interrupted`` says whether Ctrl-C ended the fit.
        """
        if interrupted:
            raise KeyboardInterrupt
        if getattr(self, "_ended", ()):
            by, *ended = self._ended
            warn(
                f"{type(self).__name__}: {by} ended {' and '.join(ended)}: the result is that of "
                "the last complete state, and may be far from what more time would give. Raise "
                "max_time, or set it to None."
            )
        if reasons:
            advice = f"; {remedy}" if remedy else ""
            warn(
                f"{type(self).__name__}: {'; '.join(reasons)}. Do not trust this posterior{advice}."
            )


# ------------------------------------------------------------------- parameters that go together
def share_forgotten(forgetting, half_life=None):
    """The share of the past that each row of a stream discounts, from either parameter.

    ValueError where both are given, or the share is one that hardly anybody means.
    """
    if half_life is not None:
        if forgetting:
            raise ValueError(
                f"half_life={half_life} and forgetting={forgetting} say the same in two ways: set "
                "forgetting=0."
            )
        return min(-expm1(-log(2.0) / half_life), 1.0 - 2.0**-53)
    if forgetting > _MAX_FORGETTING:
        rows, kept = -log(2.0) / log1p(-forgetting), -log(2.0) / log(forgetting)
        keeps = f"{kept:.3g} where each row keeps {forgetting:.15g} of the past, "
        raise ValueError(
            f"forgetting={forgetting} is the share of the past that every single row of a stream "
            f"discounts: half of it is gone after {rows:.2g} rows. Set half_life in its place, the "
            f"number of rows after which a row counts half: {keeps if forgetting > 0.5 else ''}"
            f"{rows:.3g} where this is meant, and so many times the rows of a call where each call "
            "does this."
        )
    return forgetting


def check_options(options):
    """The options as they are, or a ValueError where parameters do not go with each other.

    The error names the parameters, and what to set instead.
    """
    bandwidth, rejuvenation = options.settings.bandwidth, options.settings.rejuvenation
    growth = options.schedule
    if options.settings.shrinkage and not isinstance(bandwidth, str) and bandwidth > 1:
        raise ValueError(
            f"bandwidth must be at most 1 with shrinkage=True (at 1 the kernel density "
            f"estimate is one Gaussian); got {bandwidth!r}. Lower it or set "
            f"shrinkage=False."
        )
    if options.average and options.reweight and rejuvenation == "never":
        raise ValueError(
            "average=True with reweight=True needs a rejuvenation: the averaged iterate is a "
            "density to draw from. Set reweight=False or rejuvenation='ess'."
        )
    if options.final_particles is not None and not options.reweight and options.max_iter == 1:
        raise ValueError(
            "final_particles with reweight=False is the number of particles in the last pass, and "
            "max_iter=1 has no pass before it: raise max_iter or set n_particles."
        )
    if growth.max_particles is not None and growth.particle_growth is None:
        raise ValueError(
            f"max_particles={growth.max_particles} is the bound of a growing number: set "
            "particle_growth, or leave max_particles=None."
        )
    if growth.max_particles is not None and growth.max_particles < options.n_particles:
        raise ValueError(
            f"max_particles={growth.max_particles} is below n_particles={options.n_particles}: it "
            "is the bound of a growing number of particles; raise it or lower n_particles."
        )
    if options.final_particles is not None and rejuvenation == "never":
        raise ValueError(
            "final_particles needs a last rejuvenation, and rejuvenation='never' has none; "
            "raise n_particles instead."
        )
    if growth.particle_growth is not None and rejuvenation == "never":
        raise ValueError(
            "particle_growth needs rejuvenation='ess' or 'always': particles that are never "
            "rejuvenated cannot change in number."
        )
    if options.total_samples is not None and options.forgetting:
        raise ValueError(
            "half_life and forgetting are for an endless stream, and total_samples says that there "
            "is an end: set forgetting=0 or total_samples=None, and half_life=None."
        )
    return options
