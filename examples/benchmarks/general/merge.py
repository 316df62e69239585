"""Estimators fitted on random shards of the rows and merged, beside a fit to all rows.

``gap`` is what the merge is off. Logistic regression: the largest difference of a posterior mean
from that of the fit to all rows, in its standard deviations, ``sd_ratio`` the ratio of standard
deviations that is furthest from one. Gaussian processes, with one kernel and one set of inducing
inputs: the largest difference of a predicted mean or standard deviation for held-out rows, in
standard deviations. Mixtures and topics: the loss of held-out score (log density of a row, log
perplexity of a word) as a share of that of all rows; below zero the merge is ahead. ``with_rows``
says whether `skpmd.merge` was given all rows, ``warned`` whether it warned. ``shard`` is the gap of
the first shard by itself, ``again`` that of another fit to all rows, of mixtures and topics from
another seed, ``whole_s`` the seconds of the fit to all rows, ``merge_s`` those of the merge.
Logistic regressions with more than a dozen coefficients hold their rows (``posterior_.rows``),
and are merged by them.

Rows are those of KEEL, UCI's adult, flights of 2013 with noise of 2 % of its standard deviation on
each column (``spikes``: .05 %, which leaves whole numbers as narrow spikes), houses of California,
and four collections of documents; one in five is held out where there are scores. ``--quick``: sets
of scikit-learn.
"""

import warnings
from time import perf_counter

import numpy as np

from ..harness.pictures import legend_above
from ..harness.study import Gate, pyplot

WITHOUT, WITH = False, True
MAX_GAP, MAX_WARNED, MAX_LOSS, MAX_PROCESS = 0.1, 0.3, 0.01, 1e-8
LOGISTIC = {"keel_pima": 4, "keel_magic": 4, "adult": 8}
MIXTURES = {"keel_magic": 10, "keel_penbased": 20, "flights": 10, "flights, spikes": 10}
NOISE = {"flights": 0.02, "flights, spikes": 5e-4}
TOPICS = {"newsgroups20": 20, "bbc_news": 10, "dblp_titles": 20, "debian_descriptions": 20}
N_SHARDS = 8
MIN_DOCUMENTS, MAX_DOCUMENTS = 5, 40_000
GAPS = {  # of the picture: the scale of each family's gaps, and what they are
    "logistic": ("symlog", "largest difference of a posterior mean, sds"),
    "process": ("log", "largest difference of a prediction, sds"),
    "mixture": ("symlog", "loss of log density, share (below 0: ahead of the fit to all rows)"),
    "topics": ("linear", "loss of log perplexity, share (below 0: ahead of the fit to all rows)"),
}


def run(config):
    """Gaps of each family and set, without and with all rows."""
    return [row for case in (process, mixture, topics, logistic) for row in case(config)]


def _row(
    model, name, n, n_shards, with_rows, warned, gap, shard, sd_ratio, whole_s, merge_s, again=None
):  # fmt: skip
    return {
        "model": model, "set": name, "n": n, "shards": n_shards, "with_rows": with_rows,
        "warned": warned, "gap": float(gap), "shard": float(shard), "again": again,
        "sd_ratio": sd_ratio, "whole_s": round(whole_s, 2), "merge_s": round(merge_s, 2),
    }  # fmt: skip


def _timed(call):
    """What a call returns, its seconds, and whether it warned."""
    start = perf_counter()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        out = call()
    return out, perf_counter() - start, bool(found)


def _shards(n, n_shards):
    return np.array_split(np.random.default_rng(0).permutation(n), n_shards)


def logistic(config):
    """Defaults, on standardised columns."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    import skpmd

    from ..harness.datasets import load

    def model(seed):
        # Units of all rows, for shards have other ones.
        return skpmd.BayesianLogisticRegressionPMD(scale=None, random_state=seed)

    for name, K in LOGISTIC.items() if config.data else {"breast_cancer": 3}.items():
        if config.data:
            data = load(name, config.data)
            X, y = data.X, data.y
        else:
            X, y = load_breast_cancer(return_X_y=True)
            X = StandardScaler().fit_transform(X[:, [0, 1, 4]])
        whole, whole_s, _ = _timed(lambda X=X, y=y: model(0).fit(X, y))
        parts = [model(k).fit(X[some], y[some]) for k, some in enumerate(_shards(len(y), K))]
        mean, sd = whole.posterior_.mean(), whole.posterior_.std()
        for rows in ({}, {"X": X, "y": y}):
            merged, merge_s, warned = _timed(
                lambda parts=parts, rows=rows: skpmd.merge(parts, **rows)
            )
            gap, shard = (
                np.abs((one.posterior_.mean() - mean) / sd).max() for one in (merged, parts[0])
            )
            ratio = merged.posterior_.std() / sd
            furthest = float(ratio[np.abs(np.log(ratio)).argmax()])
            yield _row(
                "logistic",
                name,
                len(y),
                K,
                bool(rows),
                warned,
                gap,
                shard,
                furthest,
                whole_s,
                merge_s,
            )


def process(config):
    """A kernel from some rows, 500 inducing inputs."""
    from sklearn.datasets import load_diabetes

    import skpmd

    if config.data:
        with np.load(config.data / "california.npz") as archive:
            X, y = archive["X"].astype(float), archive["y"].astype(float)
    else:
        X, y = load_diabetes(return_X_y=True)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    order = np.random.default_rng(0).permutation(len(y))
    new, known = X[order[: len(y) // 5]], order[len(y) // 5 :]
    common = {"normalize_y": False, "n_particles": 1, "approximation": "fitc"}
    first = skpmd.SparseGPRegressorPMD(n_inducing=500, random_state=0, **common)
    first.fit(X[known[:2000]], y[known[:2000]])
    common |= {"kernel": first.kernel_, "optimizer": None, "inducing_init": first.inducing_}

    def fit(some):
        return skpmd.SparseGPRegressorPMD(**common).fit(X[some], y[some])

    whole, whole_s, _ = _timed(lambda: fit(known))
    parts = [fit(known[k::N_SHARDS]) for k in range(N_SHARDS)]
    merged, merge_s, warned = _timed(lambda: skpmd.merge(parts))
    mean, sd = whole.predict(new, return_std=True)
    gap, shard = (
        max(np.abs((m - mean) / sd).max(), np.abs(s / sd - 1.0).max())
        for m, s in (one.predict(new, return_std=True) for one in (merged, parts[0]))
    )
    name = "california" if config.data else "diabetes"
    yield _row(
        "process", name, len(known), N_SHARDS, False, warned, gap, shard, None, whole_s, merge_s
    )


def mixture(config):
    """Defaults."""
    from sklearn.datasets import load_iris

    import skpmd

    from ..harness.datasets import load

    for name, K in MIXTURES.items() if config.data else {"iris": 2}.items():
        if name in NOISE:
            with np.load(config.data / "nycflights13.npz") as archive:
                X = archive["X"].astype(float)
            X = X[np.isfinite(X).all(axis=1)]
            X += NOISE[name] * X.std(axis=0) * np.random.default_rng(0).normal(size=X.shape)
        else:
            X = load(name, config.data).X if config.data else load_iris().data

        def fit(X, seed, K=K):
            return skpmd.GaussianMixturePMD(K, random_state=seed).fit(X)

        yield from _scored("mixture", name, X, fit, lambda one, new: -one.score(new), (WITHOUT,))


def topics(config):
    """Defaults, on words of five documents or more."""
    from scipy.sparse import csr_matrix, load_npz
    from sklearn.datasets import load_digits

    import skpmd

    for name, K in TOPICS.items() if config.data else {"digits": 10}.items():
        if config.data:
            X = csr_matrix(load_npz(config.data / f"{name}.npz"), dtype=np.float64)
            X = X[:, np.bincount(X.indices, minlength=X.shape[1]) >= MIN_DOCUMENTS][:MAX_DOCUMENTS]
        else:
            X = csr_matrix(load_digits().data)

        def fit(X, seed, K=K):
            return skpmd.LDATopicModelPMD(K, random_state=seed).fit(X)

        def score(one, new):
            return np.log(one.perplexity(new))

        yield from _scored("topics", name, X, fit, score, (WITHOUT, WITH))


def _scored(model, name, X, fit, score, ways):
    """Rows of a family that is judged by held-out scores; the less, the better."""
    import skpmd

    order = np.random.default_rng(0).permutation(X.shape[0])
    n = X.shape[0] // 5
    new, known = X[order[:n]], X[order[n:]]
    whole, whole_s, _ = _timed(lambda: fit(known, 0))
    parts = [fit(known[k::N_SHARDS], 100 * k) for k in range(N_SHARDS)]
    best = score(whole, new)
    again = float((score(fit(known, 1), new) - best) / abs(best))
    for with_rows in ways:
        rows = {"X": known} if with_rows else {}
        merged, merge_s, warned = _timed(lambda rows=rows: skpmd.merge(parts, **rows))
        gap, shard = ((score(one, new) - best) / abs(best) for one in (merged, parts[0]))
        yield _row(
            model,
            name,
            known.shape[0],
            N_SHARDS,
            with_rows,
            warned,
            gap,
            shard,
            None,
            whole_s,
            merge_s,
            again,
        )


def gates(rows):
    """Gaps of every set, and of those that may warn the ones that do not."""

    def largest(model, with_rows, warned=None):
        gaps = [
            row["gap"]
            for row in rows
            if row["model"] == model
            and row["with_rows"] == with_rows
            and warned in (None, row["warned"])
        ]
        return max(gaps, default=0.0)

    small = [row for row in rows if row["set"] in ("keel_pima", "keel_magic")]
    small = [row for row in small if row["model"] == "logistic"]
    found = [
        Gate("logistic, no warning: gap in sds", largest("logistic", WITHOUT, False), MAX_WARNED),
        Gate("logistic, all rows given: gap in sds", largest("logistic", WITH), MAX_GAP),
        Gate("process: gap in sds", largest("process", WITHOUT), MAX_PROCESS),
        Gate("mixture, no warning: loss of score", largest("mixture", WITHOUT, False), MAX_LOSS),
        Gate("mixture: loss of score", largest("mixture", WITHOUT), MAX_LOSS),
        Gate("topics, no warning: loss of score", largest("topics", WITHOUT, False), MAX_LOSS),
        Gate("topics: loss of score", largest("topics", WITHOUT), MAX_LOSS),
        Gate("topics, all documents given: loss of score", largest("topics", WITH), MAX_LOSS),
    ]
    if small:
        found += [
            Gate("pima and magic: gap in sds", max(row["gap"] for row in small), MAX_GAP),
            Gate("pima and magic: warnings", sum(row["warned"] for row in small), 0.0),
        ]
    return found


def plot(rows):
    """Gaps of merges and of one shard by itself, a panel for each family."""
    plt = pyplot()
    models = {model: [row for row in rows if row["model"] == model] for model in GAPS}
    sizes = [1 + len({row["set"] for row in own}) for own in models.values()]
    figure, axes = plt.subplots(
        len(GAPS), figsize=(7.5, 8.5), layout="constrained", height_ratios=sizes
    )
    for axis, (model, (scale, label)) in zip(axes, GAPS.items(), strict=True):
        axis.set_xscale(scale, **({"linthresh": 1e-3} if scale == "symlog" else {}))
        _draw(axis, models[model])
        axis.set(title=model, xlabel=label)
    legend_above(figure, axes, ncols=3)
    return figure


def _draw(axis, rows):
    """The gaps of one family, beside each other on the line of their set."""
    names = list(dict.fromkeys(row["set"] for row in rows))
    merged, given = ([row for row in rows if row["with_rows"] == way] for way in (WITHOUT, WITH))
    for some, key, shift, marker, label in (
        (merged, "gap", -0.2, "o", "merged"),
        (given, "gap", 0.0, "s", "merged, all rows given"),
        (merged, "shard", 0.2, "x", "one shard by itself"),
    ):
        places = [names.index(row["set"]) + shift for row in some]
        axis.plot([row[key] for row in some], places, marker, mfc="none", label=label)
    axis.axvline(0.0, color="grey", linewidth=0.8)
    labels = [name.removeprefix("keel_").replace("_", " ") for name in names]
    axis.set_yticks(range(len(names)), labels)
    axis.set_ylim(len(names) - 0.4, -0.6)
