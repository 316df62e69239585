"""Fitted estimators, and the states of fits, as JSON and arrays: no code goes into a file.

`encoded` walks through values of the types that it knows: numbers, strings, None, lists, tuples,
dicts, sets, arrays, sparse matrices, random generators, frozen distributions of `scipy.stats`, and
records and objects of the classes that `skpmd._base.known_types` names. Anything else is refused by
the name of its type. What stands in two places is written once and comes back as one thing. Lists
of many alike are written as columns.

A node of the JSON document is a number, a string, true, false, null, a list, or ``{kind: content}``
with one of the kinds of `_Decoder`.
"""

from importlib import import_module

import numpy as np
import scipy.sparse as sp
from scipy import stats

from skpmd._base.known_types import ESTIMATORS, KERNELS, POSTERIORS, STATES, WRAPPERS

_KNOWN = {*ESTIMATORS, *KERNELS, *POSTERIORS, *STATES, *WRAPPERS}
_MANY = 8  # Lists of so many alike are columns.
_MAX_INT = 2**63 - 1
_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


class RefusedError(TypeError):
    """A value has no form in a file."""


def encoded(value, functions=None):
    """The JSON node of a value, and the arrays that it refers to by their places.

    ``functions`` is a dict that takes the callables of estimators by the names of their parameters:
    those are not written, and a reader gives them. Without it they are refused.
    """
    encoder = _Encoder(functions)
    return encoder.node(value), encoder.arrays


def decoded(node, array, functions=None):
    """The value of a node; ``array(i)`` hands back an array, and ``functions`` are as `encoded`."""
    return _Decoder(array, functions or {}).value(node)


def name_of(kind):
    """The dotted name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


class _Encoder:
    def __init__(self, functions):
        self.arrays, self._functions = [], functions
        self._places, self._held, self._open = {}, [], set()

    def node(self, value):
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic):
            return {"scalar": self._place(np.asarray(value))}
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if id(value) in self._places:
            return {"same": self._places[id(value)]}
        if id(value) in self._open:
            raise RefusedError(f"a {name_of(type(value))} that holds itself cannot be written.")
        self._open.add(id(value))
        node = self._of_object(value)
        self._open.discard(id(value))
        self._places[id(value)] = len(self._held)
        self._held.append(value)  # Else its id might become that of another.
        return node

    def _of_object(self, value):
        kind = type(value)
        if kind in (tuple, list, set, frozenset, dict):
            return self._of_container(value)
        if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
            return self._of_array(np.asarray(value))
        if sp.issparse(value):
            return self._of_sparse(value)
        if isinstance(value, np.random.Generator):
            return {"generator": self.node(_generator_state(value.bit_generator))}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.node(value.get_state(legacy=False))}
        if isinstance(value, stats._distn_infrastructure.rv_frozen):
            return self._of_distribution(value)
        if name_of(kind) in _KNOWN:
            return {"object": [name_of(kind), self._fields(value)]}
        raise RefusedError(f"a {name_of(kind)} cannot be written to a file of skpmd.")

    def _of_container(self, value):
        if isinstance(value, list):
            if len(value) >= _MANY and (columns := self._columns(value)) is not None:
                return {"columns": columns}
            return [self.node(one) for one in value]
        if isinstance(value, dict):
            return {"dict": [[self.node(k), self.node(v)] for k, v in value.items()]}
        return {type(value).__name__: [self.node(one) for one in value]}

    def _of_array(self, value):
        if value.dtype.kind == "O":
            return {"objects": [list(value.shape), [self.node(one) for one in value.ravel()]]}
        return {"array": self._place(value)}

    def _of_sparse(self, value):
        if value.format not in ("csr", "csc"):
            raise RefusedError(f"a sparse array of format {value.format!r} cannot be written.")
        parts = [self.node(one) for one in (value.data, value.indices, value.indptr)]
        return {"sparse": [type(value).__name__, list(value.shape), parts]}

    def _of_distribution(self, value):
        name = getattr(value.dist, "name", None)
        if type(getattr(stats, str(name), None)) is not type(value.dist):
            raise RefusedError(f"a distribution {name!r} that is not SciPy's cannot be written.")
        return {"distribution": [name, self.node(value.args), self.node(value.kwds)]}

    def _fields(self, value):
        """Nodes of what an object holds, by name."""
        if isinstance(value, tuple):
            return {name: self.node(getattr(value, name)) for name in value._fields}
        is_estimator, nodes = name_of(type(value)) in ESTIMATORS, {}
        for name, one in _state_of(value).items():
            # Kernels can be called too, but are what they hold.
            is_function = callable(one) and not hasattr(one, "get_params")
            if is_function and not isinstance(one, type) and is_estimator:
                nodes[name] = self._given(name, one)
            else:
                nodes[name] = self.node(one)
        return nodes

    def _given(self, name, function):
        if self._functions is None:
            raise RefusedError(f"{name} is a function, and functions cannot be written.")
        if self._functions.setdefault(name, function) is not function:
            raise RefusedError(f"two functions are called {name}, and a reader could give one.")
        return {"given": name}

    def _columns(self, values):
        """Columns of values that are all alike; None where they are not, or hold other things."""
        kind = type(values[0])
        if any(type(one) is not kind for one in values):
            return None
        n = len(values)
        if kind in (float, bool) or (kind is int and max(map(abs, values)) <= _MAX_INT):
            return [n, kind.__name__, self._place(np.array(values))]
        if issubclass(kind, np.generic) and kind is not np.void and kind().dtype.kind in "fiub":
            return [n, "numpy", self._place(np.array(values))]
        if kind is dict:
            keys = list(values[0])
            if any(list(one) != keys for one in values) or not all(map(_is_str, keys)):
                return None
            parts = [self._column([one[key] for one in values]) for key in keys]
            return [n, "dict", keys, parts]
        if kind is tuple or (issubclass(kind, tuple) and name_of(kind) in _KNOWN):
            if any(len(one) != len(values[0]) for one in values):
                return None
            parts = [self._column(list(part)) for part in zip(*values, strict=True)]
            return [n, "" if kind is tuple else name_of(kind), None, parts]
        return None

    def _column(self, values):
        columns = self._columns(values)
        return [self.node(one) for one in values] if columns is None else {"columns": columns}

    def _place(self, array):
        self.arrays.append(array)
        return len(self.arrays) - 1


def _is_str(value):
    return type(value) is str


def _state_of(value):
    state = value.__getstate__() or {}
    if not isinstance(state, dict):
        raise RefusedError(f"a {name_of(type(value))} cannot be written to a file of skpmd.")
    return state


def _generator_state(bits):
    seeds = bits.seed_seq
    known = ("entropy", "spawn_key", "pool_size", "n_children_spawned")
    given = {name: getattr(seeds, name) for name in known if hasattr(seeds, name)}
    return {"state": bits.state, "seeds": given}


class _Decoder:
    def __init__(self, array, functions):
        self._array, self._functions, self._made = array, functions, []

    def value(self, node):
        if isinstance(node, list):
            return self._remembered([self.value(one) for one in node])
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "same":
            return self._made[content]
        value = getattr(self, f"_of_{kind}")(content)
        return value if kind in ("float", "scalar", "dtype", "given") else self._remembered(value)

    def _remembered(self, value):
        self._made.append(value)
        return value

    def _of_float(self, content):
        return float(content)

    def _of_scalar(self, content):
        return self._array(content)[()]

    def _of_dtype(self, content):
        return np.dtype(content)

    def _of_given(self, content):
        return self._functions[content]

    def _of_tuple(self, content):
        return tuple(self.value(one) for one in content)

    def _of_set(self, content):
        return {self.value(one) for one in content}

    def _of_frozenset(self, content):
        return frozenset(self.value(one) for one in content)

    def _of_dict(self, content):
        return {self.value(key): self.value(one) for key, one in content}

    def _of_array(self, content):
        return self._array(content)

    def _of_objects(self, content):
        shape, nodes = content
        values = np.empty(len(nodes), dtype=object)
        for place, one in enumerate(nodes):
            values[place] = self.value(one)
        return values.reshape(shape)

    def _of_sparse(self, content):
        name, shape, parts = content
        if name not in ("csr_matrix", "csr_array", "csc_matrix", "csc_array"):
            raise ValueError(name)
        return getattr(sp, name)(tuple(self.value(one) for one in parts), shape=tuple(shape))

    def _of_generator(self, content):
        known = self.value(content)
        name = known["state"]["bit_generator"]
        if name not in _GENERATORS:
            raise ValueError(name)
        bits = getattr(np.random, name)(np.random.SeedSequence(**known["seeds"]))
        bits.state = known["state"]
        return np.random.Generator(bits)

    def _of_random_state(self, content):
        generator = np.random.RandomState()
        generator.set_state(self.value(content))
        return generator

    def _of_distribution(self, content):
        name, args, kwds = content
        family = getattr(stats, name)
        if not isinstance(family, (stats.rv_continuous, stats.rv_discrete)):
            raise ValueError(name)
        return family(*self.value(args), **self.value(kwds))

    def _of_object(self, content):
        name, nodes = content
        kind = _class_of(name)
        fields = {key: self.value(node) for key, node in nodes.items()}
        if issubclass(kind, tuple):
            return kind(**fields)
        value = kind.__new__(kind)
        restore = getattr(value, "__setstate__", None)
        if restore is None:
            vars(value).update(fields)
        else:
            restore(fields)
        return value

    def _of_columns(self, content):
        n, kind, *rest = content
        if kind in ("float", "bool", "int"):
            return self._array(rest[0]).tolist()
        if kind == "numpy":
            return list(self._array(rest[0]))
        keys, parts = rest
        columns = [self._column(part) for part in parts]
        rows = zip(*columns, strict=True) if columns else [()] * n
        if kind == "dict":
            return [dict(zip(keys, row, strict=True)) for row in rows]
        return [tuple(row) for row in rows] if not kind else [_class_of(kind)(*row) for row in rows]

    def _column(self, part):
        if isinstance(part, dict):
            return self._of_columns(part["columns"])
        return [self.value(node) for node in part]


def _class_of(name):
    if name not in _KNOWN:
        raise ValueError(f"a type {name!r} that files of skpmd do not have")
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)
