"""Checkpoints of a fit: the states that its methods have reached, in a file.

The file holds what the fit is of, and for each method that is `skpmd.engine.loop.resumable` the
last state that has been written, with its random generators, in the order in which the methods
began. It is written anew with each state, beside its place, and then takes the place of the one
before: it is whole or not there. It is made of pickles, which run code when they are read, and so
it is for one's own files alone.
"""

import copy
import gzip
import os
import pickle
import reprlib
import warnings
import zlib
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

import joblib
import numpy as np
from sklearn.utils import check_random_state

from skpmd._base.utils import begun_with, replacing
from skpmd._base.version import __version__
from skpmd._rows.opening import as_blocks, computed
from skpmd._runtime.call import clock, current, write
from skpmd.engine.loop import on_checkpoint

# States are so many seconds apart at least, and so many times as long as a write takes: no more
# than a twentieth of the time goes into them.
_SECONDS, _TIMES = 1.0, 20.0
# Parameters that change no digit of an answer, and may be others where a fit goes on.
_WITHOUT_EFFECT = {"checkpoint", "max_time", "n_jobs", "verbose", "verbose_interval"}
_PIECE = 1 << 20  # Bytes that are copied at a time.
_CLASS = "the estimator"
# Whether states of estimators are those of a file for other machines, which lack the path.
_is_portable = ContextVar("whether skpmd reads or writes a file for others", default=False)
_REMEDY = "to start anew delete the file, or give another path"


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written."""


class Checkpoint:
    """The file of a fit, which is of what ``fit`` says, a dict of names with digests and texts.

    ``random_state`` is what the fit draws its seeds from, None where that is a parameter's own.
    """

    def __init__(self, path, fit, random_state):
        self.path, self._fit, self.random_state = os.path.realpath(path), fit, random_state
        # Entries of an earlier run, by the place of their methods; and where those in the file end.
        self._known, self._ends = {}, []
        self._next, self._is_closed = 0, False
        if os.path.exists(self.path):
            self._read()
        if not self._known:  # A path that cannot be written to is an error before the fit.
            self._write()
        self._written, self._last, self._took = self._identity(), clock(), 0.0

    def _read(self):
        reasons = []
        try:
            with gzip.open(self.path) as file:
                fit, random_state = pickle.load(file)
                ends = [(-1, file.tell())]
                reasons = _differences(fit, self._fit) if file.peek(1) else []
                while not reasons and file.peek(1):
                    place, *entry = pickle.load(file)
                    self._known[place] = entry
                    ends.append((place, file.tell()))
        except Exception as error:  # Pickles that are none raise anything.
            raise ValueError(
                f"checkpoint={self.path!r} is damaged, or no checkpoint ({error}): {_REMEDY}."
            ) from error
        if reasons:
            raise ValueError(
                f"checkpoint={self.path!r} is that of another fit: {'; '.join(reasons)}. Set it "
                f"back to go on with that fit; {_REMEDY}."
            )
        if self._known:
            self.random_state, self._ends = random_state, ends
            write(f"the fit goes on from {self.path}")

    def last_state(self, generators):
        """The place of a method that begins now, and its last state, None without one."""
        place, self._next = self._next, self._next + 1
        if place not in self._known:
            return place, None
        at, states = self._known.pop(place)
        for generator, (state, n_spawned) in zip(generators, states, strict=True):
            generator.bit_generator.state = state
            # SciPy's Sobol sequences spawn generators of their own, by the number of those before.
            if n_spawned > _n_spawned(generator):
                generator.spawn(n_spawned - _n_spawned(generator))
        return place, at

    def reached(self, place, at, generators, is_last):
        """Write a state where it is time to, or where it is the last one.

        What goes wrong is warned of, for the fit itself is as good.
        """
        start = clock()
        due = is_last or start - self._last >= max(_SECONDS, _TIMES * self._took)
        if self._is_closed or not due:
            return
        try:
            if self._identity() != self._written:
                self._is_closed = True
                raise OSError("something else has written to it, or deleted it, since")
            states = [(one.bit_generator.state, _n_spawned(one)) for one in generators]
            self._write(place, at, states)
        except (
            OSError,
            EOFError,
            zlib.error,
            pickle.PicklingError,
            AttributeError,
            TypeError,
        ) as error:
            warnings.warn(
                f"checkpoint={self.path!r} was not written: {error}. The fit goes on, and the file "
                "stays as it is.",
                CheckpointWarning,
                stacklevel=2,
            )
        self._last = clock()
        self._took = self._last - start

    def _write(self, *entry):
        """Write an entry after those of methods that began before, which are in the file."""
        ends = [one for one in self._ends if entry and one[0] < entry[0]]
        # Gzip for its checksum: nothing is packed.
        with replacing(self.path) as file, gzip.GzipFile("", "wb", 0, file) as new:
            if ends:
                with gzip.open(self.path) as old:
                    for start in range(0, ends[-1][1], _PIECE):
                        new.write(old.read(min(_PIECE, ends[-1][1] - start)))
            else:
                pickle.dump((self._fit, self.random_state), new)
                ends = [(-1, new.tell())]
            if entry:
                _Pickler(new, pickle.HIGHEST_PROTOCOL).dump(entry)
                ends.append((entry[0], new.tell()))
        self._ends, self._written = ends, self._identity()

    def _identity(self):
        try:
            known = os.stat(self.path)
        except OSError:
            return None
        return known.st_dev, known.st_ino, known.st_mtime_ns

    def close(self):
        """Write nothing more: what follows is not what the whole fit would do."""
        self._is_closed = True

    def end(self, is_whole):
        """Remove the file after a whole fit, and one without a state, unless it is another's."""
        done = (is_whole and not self._is_closed) or len(self._ends) < 2
        if done and self._identity() == self._written:
            os.unlink(self.path)


class _Pickler(pickle.Pickler):
    """Pickles in which arrays keep their strides: sums and products are rounded by these."""

    def reducer_override(self, value):
        is_plain = type(value) is not np.ndarray or value.flags.forc
        if is_plain or value.dtype.hasobject or min(value.strides) <= 0:
            return NotImplemented
        return _strided, (np.ascontiguousarray(value), value.strides)


def _strided(values, strides):
    places = [(n - 1) * step for n, step in zip(values.shape, strides, strict=True)]
    memory = np.zeros(sum(places) + values.itemsize, dtype=np.uint8)
    array = np.ndarray(values.shape, values.dtype, memory, strides=strides)
    array[...] = values
    return array


@contextmanager
def checkpointed(path, kind, parameters, data):
    """Context of a fit that goes on from its checkpoint.

    ``kind`` is the class of the estimator; ``parameters`` and ``data`` are dicts by name. The file
    is removed at the end of the fit. It stays where an error, Ctrl-C or the time ends the fit
    before.
    """
    random_state = parameters.get("random_state")
    if random_state is None or isinstance(random_state, np.random.RandomState):
        random_state = copy.deepcopy(check_random_state(random_state))
        parameters = {**parameters, "random_state": type(parameters["random_state"]).__name__}
    else:
        random_state = None
    checkpoint = Checkpoint(path, _fingerprint(kind, parameters, data), random_state)
    is_whole = False
    try:
        with on_checkpoint(checkpoint), begun_with(checkpoint.random_state):
            yield
            is_whole = not current().ended
    finally:
        checkpoint.end(is_whole)


@contextmanager
def portable():
    """Context in which states of estimators, of whatever holds them, have no path of a checkpoint.

    Whoever gets such a file would write to that path of another's, or run what a pickle there says.
    """
    token = _is_portable.set(True)
    try:
        yield
    finally:
        _is_portable.reset(token)


def without_path(state):
    """The state of an estimator, in a `portable` context without its checkpoint."""
    has_path = _is_portable.get() and state.get("checkpoint") is not None
    return {**state, "checkpoint": None} if has_path else state


def _fingerprint(kind, parameters, data):
    """{name: (digest, text)} of what a fit is of; the text is what an error shows."""
    found = {"the version of skpmd": (__version__,) * 2, _CLASS: (kind.__name__,) * 2}
    for name, value in parameters.items():
        if name not in _WITHOUT_EFFECT:
            found[name] = _digest(value), _text(value)
    return found | {name: (_digest(_of_rows(name, one)), _text(one)) for name, one in data.items()}


def _text(value):
    shape = getattr(value, "shape", ())
    return f"of shape {tuple(shape)}" if shape else reprlib.repr(value)


def _of_rows(name, value):
    """What tells rows from others: the rows, and of data in blocks the first of these."""
    if getattr(value, "ndim", 2) == 1:
        return computed(name, value)
    blocks = as_blocks(value)
    return value if blocks is None else (getattr(value, "shape", None), next(iter(blocks), None))


def _digest(value, within=()):
    """A hash of a value; of functions, which pickles know by name, that of all they consist of.

    ``within`` are the identities of functions that the value is a part of.
    """
    parts = None if id(value) in within else _parts_of(value)
    if parts is not None:
        return joblib.hash([_digest(one, (*within, id(value))) for one in parts])
    try:
        return joblib.hash(value)
    except Exception:  # What cannot be pickled is known by its type.
        return joblib.hash(f"{type(value).__module__}.{type(value).__qualname__}")


def _parts_of(value):
    """What tells a function from others: code, defaults, closure, object; None of other values."""
    if isinstance(value, partial):
        pairs = sorted(value.keywords.items())
        return [value.func, *value.args, *(one for pair in pairs for one in pair)]
    function = getattr(value, "__func__", getattr(value, "__wrapped__", value))
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
    closure = [getattr(cell, "cell_contents", None) for cell in function.__closure__ or ()]
    own = getattr(value, "__self__", None)
    return [function.__qualname__, _constants(code), own, *defaults, *closure]


def _constants(code):
    """The instructions, names and constants of code, and of code within it."""
    inner = [_constants(one) if hasattr(one, "co_code") else one for one in code.co_consts]
    return code.co_code, code.co_names, inner


def _differences(before, now):
    """What differs between two fingerprints, in words; data come last."""
    reasons = []
    for name, (digest, was) in before.items():
        other, is_ = now.get(name, (None, "not there"))
        if digest != other:
            words = "has other values" if was == is_ else f"was {was} and is {is_}"
            reasons.append(f"{name} {words}")
            if name == _CLASS:  # Of another one all parameters are others.
                break
    return reasons


def _n_spawned(generator):
    return getattr(generator.bit_generator.seed_seq, "n_children_spawned", 0)
