"""Rows with groups: read from ``--data DIR``, or drawn.

The files of ``DIR/glm`` have ``X``, ``columns``, ``y``, ``groups`` and ``slope_column``, and a
reference ``NAME_ref.npz`` with moments of ``names`` and of the groups' effects.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from . import datasets

SHIPPED = ("contraception", "epil", "radon", "sleepstudy")


class GroupedRows(NamedTuple):
    """Rows, the family of y, and one factor or two.

    Attributes
    ----------
    name : str
        What the rows are called.
    family : {"binomial", "poisson", "normal"}
        Of y; trials are single.
    columns : ndarray of shape (n, p)
        Columns with coefficients.
    y : ndarray of shape (n,)
        Targets.
    codes : ndarray of shape (n,) or (n, 2)
        Groups, 0, 1, ..., of one factor or of two.
    names : list of str
        Of the columns and of the factors, which are last.
    slope : int or None
        The column on which groups have a slope.
    exposure : ndarray of shape (n,), optional
        Of counts.
    weight : ndarray of shape (n,), optional
        How often a row counts, a whole number.
    """

    name: str
    family: str
    columns: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    names: list
    slope: int | None = None
    exposure: np.ndarray | None = None
    weight: np.ndarray | None = None

    def repeated(self):
        """The same rows, as often as their weights say."""
        if self.weight is None:
            return self
        rows = np.repeat(np.arange(len(self.y)), self.weight.astype(int))
        exposure = None if self.exposure is None else self.exposure[rows]
        return self._replace(
            columns=self.columns[rows], y=self.y[rows], codes=self.codes[rows], exposure=exposure,
            weight=None,
        )  # fmt: skip


def shipped(name, data_dir):
    """Rows of a file of ``DIR/glm`` and their reference, a dictionary of arrays."""
    path = datasets.existing(data_dir and data_dir / "glm", name)
    with np.load(path) as archive:
        columns = [str(one) for one in archive["columns"]]
        places = [columns.index(str(one)) for one in archive["slope_column"]]
        rows = GroupedRows(
            name, str(archive["family"]), archive["X"], archive["y"].astype(np.float64),
            archive["groups"][:, 0], [*columns, str(archive["group_names"][0])], *places[:1],
        )  # fmt: skip
    with np.load(path.with_name(f"{name}_ref.npz")) as archive:
        return rows, {key: archive[key] for key in archive.files}


def drawn(name, family, sizes, sd, *, seed=0, column=None, exposure=None, weight=None):
    """Draw rows of groups of some ``sizes``, one column with a coefficient, and effects of ``sd``.

    ``column``, ``exposure`` and ``weight`` are functions of the generator and of how many; the
    column is standard normal by default.
    """
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    n = len(codes)
    x = rng.standard_normal(n) if column is None else column(rng, n)
    size = None if exposure is None else exposure(rng, n)
    eta = -0.3 + 0.6 * x + sd * rng.standard_normal(len(sizes))[codes]
    eta += 0.0 if size is None else np.log(size)
    y = {
        "binomial": lambda: rng.binomial(1, expit(eta)),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "normal": lambda: eta + rng.standard_normal(n),
    }[family]()
    count = None if weight is None else weight(rng, n)
    return GroupedRows(
        name, family, x[:, None], y.astype(np.float64), codes, ["x", "group"], None, size, count
    )


def insteval(data_dir):
    """73,421 ratings of 1,128 teachers by 2,972 students."""
    with np.load(datasets.existing(data_dir and data_dir / "glm", "insteval")) as archive:
        columns = [str(one) for one in archive["columns"]]
        names = [*columns, *(str(one) for one in archive["group_names"])]
        y = archive["y"].astype(np.float64)
        return GroupedRows("insteval", "normal", archive["X"], y, archive["groups"], names)


def crossed(n_people=316, n_items=24, seed=0):
    """Draw an answer of each person to each item: right or wrong, two columns of the person."""
    rng = np.random.default_rng(seed)
    codes = np.indices((n_people, n_items)).reshape(2, -1).T
    x = rng.standard_normal((n_people, 2))[codes[:, 0]]
    effects = rng.standard_normal(n_people), 0.8 * rng.standard_normal(n_items)
    eta = -0.5 + x @ [0.5, -0.3] + effects[0][codes[:, 0]] + effects[1][codes[:, 1]]
    y = rng.binomial(1, expit(eta)).astype(np.float64)
    names = ["age", "score", "person", "item"]
    return GroupedRows(f"crossed-{n_people}-{n_items}", "binomial", x, y, codes, names)


def designs(share=1):
    """Yield sets that are hard for approximations: few rows a group, few groups, odd sizes.

    ``share`` divides the number of groups of the first, which are many.
    """
    rng = np.random.default_rng(7)

    def zero_one(rng, n):
        return rng.integers(0, 2, n).astype(np.float64)

    yield drawn("pairs", "binomial", rng.integers(2, 6, 5000 // share), 1.5, column=zero_one)
    for n in (1, 2, 3):
        yield drawn(f"groups-{n}", "poisson", [20] * n, 0.7)
    yield drawn("no-effects", "poisson", [6] * 15, 0.0)
    yield drawn("unbalanced", "normal", np.geomspace(1, 40, 15).astype(int), 0.5)
    yield drawn(
        "weights-exposure", "poisson", np.geomspace(1, 25, 12).astype(int), 0.8,
        exposure=lambda rng, n: rng.uniform(0.2, 5.0, n),
        weight=lambda rng, n: rng.integers(1, 4, n).astype(np.float64),
    )  # fmt: skip
    yield drawn("one-large", "poisson", [300] + [2] * 7, 0.7)
    yield drawn("singletons", "binomial", [1] * 60, 0.7)
