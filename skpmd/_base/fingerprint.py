"""What a fit is of: parameters and data, as short digests that tell one fit from another."""

import hashlib
import json

import numpy as np
import scipy.sparse as sp

from skpmd._base.encoding import RefusedError, encoded, name_of
from skpmd._rows.blocks import as_rows
from skpmd._rows.dask_table import DaskBlocks
from skpmd._rows.opening import blocks_of, values_of

# Parameters that change no digit of an answer, and may be others where a fit goes on.
_WITHOUT_EFFECT = {
    "checkpoint", "checkpoint_every", "max_time", "n_jobs", "verbose", "verbose_interval",
}  # fmt: skip
_BLOCK = 1 << 16  # Rows whose bytes are in memory once more at a time.
_ESTIMATOR = "the estimator"
_SHOWN = 60  # Characters of a value that an error shows.


def fingerprint(kind, parameters, data):
    """{name: [digest, text]} of the class of an estimator, its parameters, and its data.

    ``parameters`` and ``data`` are dicts by name. The text is what an error shows.
    """
    found = {_ESTIMATOR: [name_of(kind), kind.__name__]}
    for name, value in parameters.items():
        if name not in _WITHOUT_EFFECT:
            found[name] = [_digest(_of_value, value), _text(value)]
    for name, value in data.items():
        found[name] = [_digest(_of_data, value), _shape(value)]
    return found


def differences(before, now):
    """What differs between two fingerprints, in words, a list of str; data come last."""
    reasons = []
    for name in dict.fromkeys([*before, *now]):
        (digest, was), (other, is_) = (one.get(name, [None, "not there"]) for one in (before, now))
        if digest != other:
            values = "has other values" if was == is_ else f"was {was} and is {is_}"
            reasons.append(f"{name} {values}")
            if name == _ESTIMATOR:  # Of another one all parameters are others.
                break
    return reasons


def _digest(of, value):
    sums = hashlib.blake2b(digest_size=16)
    of(sums, value)
    return sums.hexdigest()


def _of_value(sums, value):
    """Add a parameter: by its form in a file, and of what has none by names and code."""
    functions = {}
    try:
        node, arrays = encoded([value], functions)
    except RefusedError:
        _of_function(sums, value)
        return
    sums.update(json.dumps(node).encode())
    for array in arrays:
        _of_array(sums, array)
    for function in functions.values():
        _of_function(sums, function)


def _of_function(sums, function):
    """Add a function: names may be the same where the code is not."""
    named = getattr(function, "__wrapped__", getattr(function, "func", function))
    code = getattr(named, "__code__", None)
    sums.update(name_of(named if hasattr(named, "__qualname__") else type(named)).encode())
    if code is not None:
        constants = [one for one in code.co_consts if isinstance(one, (int, float, str))]
        sums.update(code.co_code + repr((constants, code.co_names)).encode())


def _of_data(sums, value):
    """Add rows of data, block by block; of what is no table the type and the shape alone."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        _of_value(sums, value)
        return
    if value is None:
        return
    if getattr(value, "ndim", 2) == 1:
        value = values_of("y", value)
    blocks = blocks_of(value)
    if blocks is not None:
        _of_blocks(sums, blocks)
        return
    if sp.issparse(value):
        value = value.tocsr() if value.format != "csr" else value
        sums.update(repr(value.shape).encode())
        for one in (value.data, value.indices, value.indptr):
            _of_array(sums, one)
        return
    if hasattr(value, "columns") and hasattr(value, "shape"):
        sums.update(repr([str(one) for one in value.columns]).encode())
    try:
        is_table = hasattr(value, "__array__") or isinstance(value, (list, tuple, int, float))
        table = np.asarray(value) if is_table else None
    except (TypeError, ValueError):  # It is no table, and the fit will say so.
        table = None
    if table is None:
        sums.update(repr((name_of(type(value)), _shape(value))).encode())
    else:
        _of_array(sums, table)


def _of_blocks(sums, blocks):
    """Add data in blocks, which are read once, where they are: where they are cut counts too."""
    if isinstance(blocks, DaskBlocks):
        for digest in blocks.each(_of_rows):
            sums.update(digest)
        return
    for block in blocks:
        for part in (as_rows(block.X), block.y, block.weight):
            _of_data(sums, part)


def _of_rows(X):
    return bytes.fromhex(_digest(_of_data, as_rows(X)))


def _of_array(sums, array):
    sums.update(repr((array.dtype.str, array.shape)).encode())
    if not array.ndim:
        array = array[None]
    for start in range(0, len(array), _BLOCK):
        block = array[start : start + _BLOCK]
        if block.dtype.kind == "O":
            sums.update(repr(block.tolist()).encode())
        else:
            sums.update(np.ascontiguousarray(block).tobytes())


def _text(value):
    text = repr(value) if np.ndim(value) == 0 else f"an array of shape {np.shape(value)}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _shape(value):
    shape = getattr(value, "shape", None)
    if value is None or shape is None:
        return "None" if value is None else f"a {type(value).__name__}"
    return f"of shape {tuple(shape)}"
