"""Values as checkpoints write them: JSON and arrays, and no types but those that are listed."""

import importlib
import json
import pickle

import numpy as np
import pytest

from skpmd._base import known_types
from skpmd._base.encoding import decoded, encoded

VALUES = {
    "numbers": [None, True, 1, -(2**70), 1.5, np.inf, -np.inf, np.float32(0.1), np.int8(3)],
    "words": ["", "\u00e9\n", np.str_("a")],
    "arrays": [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3)), np.zeros((0, 2)),
               np.array(7), np.array([None, "a", 1], dtype=object), np.array(["a", "bc"]),
               np.array([True]), np.array("2020-01-01", dtype="M8[D]")],
    "containers": [(), [], {}, {1: 2.0, (3, "a"): [4]}, {1, 2}, frozenset("a"), [[1], (2, [3])]],
    "columns": [[1.0] * 20, list(range(20)), [True] * 20, [np.float64(0.1)] * 20, [(1, 2.0)] * 20,
                [{"a": 1, "b": 0.5}] * 20, [{}] * 20, [()] * 20, [{"a": 1}, *[{"b": 1}] * 20],
                [1, 2.0] * 20, [2**70] * 20, ["a"] * 20, [np.nan] * 20],
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_as_they_were(name):
    for value in VALUES[name]:
        node, arrays = encoded(value)
        found = decoded(json.loads(json.dumps(node)), arrays.__getitem__)
        assert type(found) is type(value)
        assert pickle.dumps(found, 2) == pickle.dumps(value, 2) or repr(found) == repr(value)


def test_what_stands_twice_is_one_thing():
    rng, array = np.random.default_rng(0), np.arange(3)
    node, arrays = encoded({"a": (rng, array), "b": [rng, array]})
    found = decoded(node, arrays.__getitem__)
    assert found["a"][0] is found["b"][0] and found["a"][1] is found["b"][1] and len(arrays) == 1


def test_random_generators_go_on_and_spawn_alike():
    rng = np.random.default_rng([1, 2])
    rng.spawn(2)
    rng.standard_normal()
    node, arrays = encoded(rng)
    found = decoded(node, arrays.__getitem__)
    assert found.random() == rng.random() and found.spawn(1)[0].random() == rng.spawn(1)[0].random()


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "numpy.load"])
def test_a_file_cannot_name_other_types(name):
    with pytest.raises(ValueError, match="a type"):
        decoded({"object": [name, {}]}, None)
    with pytest.raises(ValueError, match="a type"):
        decoded({"columns": [1, name, None, []]}, None)


def test_types_that_files_may_name_are_there():
    for names in (known_types.ESTIMATORS, known_types.POSTERIORS, known_types.STATES,
                  known_types.KERNELS, known_types.ON_THE_WAY, known_types.WRAPPERS):  # fmt: skip
        assert len(names) == len(set(names))
        for name in names:
            module, _, attribute = name.rpartition(".")
            assert isinstance(getattr(importlib.import_module(module), attribute), type)
