"""The record of a stream's steps, which does not grow for ever."""

import numpy as np

_MAX_RECORDS = 10_000  # A stream may go on for millions of steps.


class Records:
    """Records of the last steps, ten thousand at most, and the number of all.

    The steps are tuples that are alike, of numbers and of dicts of numbers.
    """

    def __init__(self, last=(), n=0):
        self.last, self.n = list(last), n

    def extended(self, infos):
        """These and those of further steps."""
        return self.joined(Records(infos, len(infos)))

    def joined(self, other):
        """These and the `Records` of what came after."""
        return Records([*self.last, *other.last][-_MAX_RECORDS:], self.n + other.n)

    def numbers(self):
        """The number of each step of `last`, counted from 1."""
        return np.arange(self.n - len(self.last) + 1, self.n + 1)

    def __getstate__(self):
        """One step of arrays in the place of many: thousands of objects would be slow to write."""
        steps = [_column(values) for values in zip(*self.last, strict=True)]
        kind = type(self.last[0]) if self.last else tuple
        return {"steps": _made(kind, steps), "length": len(self.last), "n": self.n}

    def __setstate__(self, state):
        """The steps of these arrays."""
        steps, self.n = state["steps"], state["n"]
        columns = [_values(column, state["length"]) for column in steps]
        self.last = [_made(type(steps), step) for step in zip(*columns, strict=True)]


def _made(kind, values):
    """A tuple, or NamedTuple, of these values."""
    return getattr(kind, "_make", kind)(values)


def _column(values):
    """The values of all steps, an array; of dicts, for each key, an array and the steps with it."""
    if not isinstance(values[0], dict):
        return np.array(values)
    names = dict.fromkeys(name for one in values for name in one)
    return {
        name: (
            np.array([one[name] for one in values if name in one]),
            np.flatnonzero([name in one for one in values]),
        )
        for name in names
    }


def _values(column, length):
    if not isinstance(column, dict):
        return column.tolist()
    values = [{} for _ in range(length)]
    for name, (given, places) in column.items():
        for place, value in zip(places, given.tolist(), strict=True):
            values[place][name] = value
    return values
