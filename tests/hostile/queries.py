"""What is asked of a fitted estimator, with usual arguments and odd ones."""

from typing import NamedTuple

import numpy as np

# Values of arguments. The usual one is the first.
COUNTS = (3, 0, -1, 1, 1.5, 2.0, True, np.nan, "3", None, np.int64(2), [2], 1e300)
LEVELS = (0.9, 0, 1, 90, -0.5, np.nan, "0.9", None, True, [0.9], 1e-12, 1 - 1e-12, np.float32(0.5))
STATES = (0, None, -1, 1.5, "seed", np.nan, 2**40, True, [1])
PROBABILITIES = (
    (0.1, 0.9), 0.5, [], [0.0, 1.0], np.nan, [0.5, np.nan], 2, -1, "0.5", None, [[0.5]], True,
    1e-300, [1 - 1e-16], 0.5j,
)  # fmt: skip
VALUES = (0.0, 1e300, -1e300, np.nan, np.inf, "3", "word", None, [1.0, 2.0, 3.0], [[0.0]], 1j)
TARGETS = ("y", "f", "typo", None, 1, [])
CLASSES = (
    (0, 1), ("no", "yes"), (1,), (), None, 3, (np.nan, 1.0), (0, 1, 2), (None, "a"), ((0, 1),), "no"
)  # fmt: skip
TOPICS = (None, [0], [], [5], "0", 0, [-1], 1.5, [True], [np.nan], [[0]])
NAMES = (None, ["a"], [], "a", 3)
POINTS = ("own", 0.0, np.nan, np.inf, "word", None, [[0.0] * 50], [], 1j)
FUNCTIONS = (
    lambda theta: theta, lambda theta: theta[:, 0], lambda theta: 1.0, lambda theta: None,
    lambda theta: "word", None, 3,
)  # fmt: skip


class Query(NamedTuple):
    """A method, or one of what a method or attribute hands back, by its path from the estimator."""

    path: str
    takes: str = ""  # Which data: "", "X" or "X, y".
    odd: dict = {}  # noqa: RUF012  Values of its other arguments, by name; they are not changed.
    infinite: bool = False  # Whether infinite numbers are right answers.
    rare: bool = False  # Whether it is asked with odd arguments only, for it takes long.


PARTICLES = (
    Query("posterior_.mean"),
    Query("posterior_.std"),
    Query("posterior_.cov"),
    Query("posterior_.__repr__"),
    Query("posterior_.quantile", odd={"q": PROBABILITIES}, infinite=True),
    Query("posterior_.interval", odd={"level": LEVELS}),
    Query("posterior_.summary", odd={"level": LEVELS}),
    Query("posterior_.sample", odd={"n_samples": COUNTS, "random_state": STATES}, rare=True),
    Query("posterior_.log_density", odd={"theta": POINTS}, infinite=True, rare=True),
    Query("posterior_.expectation", odd={"f": FUNCTIONS}),
)
QUERIES = {
    "logistic": (
        Query("predict", "X"),
        Query("predict_proba", "X"),
        Query("predict_log_proba", "X", infinite=True),
        Query("decision_function", "X", infinite=True),
        Query("predict_proba_interval", "X", {"level": LEVELS}),
        Query("sample_y", "X", {"n_samples": COUNTS, "random_state": STATES}),
        Query(
            "sample_prior_y",
            "X",
            {"n_samples": COUNTS, "random_state": STATES, "classes": CLASSES},
        ),
        Query("score", "X, y"),
        Query(
            "pointwise_log_likelihood",
            "X, y",
            {"n_draws": (None, *COUNTS), "random_state": STATES},
            infinite=True,
        ),
        *PARTICLES,
    ),
    "process": (
        Query("predict", "X", {"return_std": (False, True), "return_cov": (False, True)}),
        Query("predict_proba", "X", {"target": TARGETS}),
        Query("predict_interval", "X", {"level": LEVELS, "target": TARGETS}),
        Query("predict_quantiles", "X", {"alpha": PROBABILITIES, "target": TARGETS}, infinite=True),
        Query("sample_y", "X", {"n_samples": COUNTS, "random_state": STATES}),
        Query("score", "X, y"),
        Query("log_predictive_density", "X, y", infinite=True),
        # It is -inf where rounding leaves no covariance, as of a period beside an outlier of 1e49.
        Query("log_marginal_likelihood", odd={"theta": (None, *POINTS[1:])}, infinite=True),
        Query("predict_proba.ppf", "X", {"q": PROBABILITIES}, infinite=True, rare=True),
        Query("predict_proba.interval", "X", {"level": LEVELS}, rare=True),
        Query(
            "predict_proba.sample", "X", {"n_samples": COUNTS, "random_state": STATES}, rare=True
        ),
        *(
            Query(f"predict_proba.{name}", "X", {"y": VALUES}, infinite=True, rare=True)
            for name in ("log_pdf", "pdf", "cdf", "sf", "log_cdf", "log_sf", "crps", "energy")
        ),
        *PARTICLES,
    ),
    "classes of a process": (
        Query("predict", "X"),
        Query("predict_proba", "X"),
        Query("decision_function", "X"),
        Query("score", "X, y"),
        *PARTICLES,
    ),
    "mixture": (
        Query("predict", "X"),
        Query("predict_proba", "X"),
        Query("score_samples", "X"),
        Query("score", "X"),
        Query("bic", "X"),
        Query("aic", "X"),
        Query("co_clustering", "X"),
        Query(
            "optimal_partition",
            "X",
            {
                "loss": ("vi", "binder", "typo", None, 3, []),
                "level": LEVELS,
                "random_state": (None, *STATES),
            },
            rare=True,
        ),
        Query("component_interval", odd={"level": LEVELS}),
        Query("predict_proba_interval", "X", {"level": LEVELS}),
        Query("pointwise_log_likelihood", "X", infinite=True),
        Query("sample", odd={"n_samples": COUNTS, "random_state": (None, *STATES)}),
        *PARTICLES,
    ),
    "topics": (
        Query("transform", "X", {"normalize": (True, False)}),
        Query("predict_proba", "X"),
        Query("score_samples", "X"),
        Query("score", "X"),
        Query("perplexity", "X", {"method": ("bound", "completion", "typo", None, 3, [])}),
        Query("topic_word_interval", odd={"level": LEVELS, "topics": TOPICS}),
        Query("top_words", odd={"n": COUNTS, "feature_names": NAMES, "level": LEVELS}),
        Query("get_feature_names_out", odd={"input_features": NAMES[:3]}),
        Query("set_output", odd={"transform": (None, "default", "pandas", "typo", 3)}, rare=True),
        Query("posterior_.mean"),
        Query("posterior_.pseudo_counts"),
        Query("posterior_.__repr__"),
        Query("posterior_.interval", odd={"level": LEVELS, "topics": TOPICS}),
        Query("posterior_.sample", odd={"n_samples": COUNTS, "random_state": STATES}),
    ),
    "custom": (
        Query(
            "predict",
            "X",
            {"return_std": (False, True), "return_interval": (None, *LEVELS)},
        ),
        Query("predict_interval", "X", {"level": LEVELS, "target": ("auto", "mean", *TARGETS)}),
        Query("sample_y", "X", {"n_samples": COUNTS, "random_state": STATES}),
        Query("score", "X, y", infinite=True),
        Query("pointwise_log_likelihood", "X, y", infinite=True),
        *PARTICLES,
    ),
}


def usual(query):
    """The usual arguments of a query."""
    return {name: values[0] for name, values in query.odd.items()}


def asked(estimator, query, X, y, others):
    """The answer of a query, whose arguments are the data that it takes and others by name."""
    data = {"": (), "X": (X,), "X, y": (X, y)}[query.takes]
    before, _, last = query.path.rpartition(".")
    if before == "predict_proba":
        return getattr(estimator.predict_proba(X), last)(**others)
    if query.path == "score":
        with np.errstate(all="ignore"):  # What scikit-learn's scores make of odd targets is theirs.
            return estimator.score(*data)
    owner = getattr(estimator, before) if before else estimator
    if isinstance(others.get("theta"), str) and others["theta"] == "own":
        others = {**others, "theta": owner.sample(3, random_state=0)}
    return getattr(owner, last)(*data, **others)


def numbers(answer):
    """All arrays of floats in an answer."""
    if hasattr(answer, "means") and hasattr(answer, "stds"):
        yield answer.means, answer.stds, answer.weights
        return
    if isinstance(answer, dict):
        answer = tuple(answer.values())
    elif hasattr(answer, "_asdict"):
        answer = tuple(answer)
    if isinstance(answer, (tuple, list)):
        for part in answer:
            yield from numbers(part)
        return
    if hasattr(answer, "dtypes") and hasattr(answer, "select_dtypes"):
        answer = answer.select_dtypes("number")
    values = np.asarray(answer)
    if values.dtype.kind == "f":
        yield values


def check_answer(query, answer):
    """AssertionError where an answer cannot be right."""
    for values in numbers(answer):
        if query.path == "score" and np.isnan(values).all():
            continue  # R^2 of one row, of which scikit-learn warns.
        wrong = np.isnan(values) if query.infinite else ~np.isfinite(values)
        assert not wrong.any(), f"{query.path} has {np.asarray(values)[wrong].ravel()[:3]}"
    values = np.asarray(answer) if query.path == "predict_proba" else np.empty(0)
    if values.ndim == 2 and not hasattr(answer, "means"):
        assert np.abs(values.sum(axis=1) - 1.0).max(initial=0.0) < 1e-6, query.path
        assert values.min(initial=0.0) >= 0.0, query.path
    if hasattr(answer, "log_pdf"):
        check_distribution(answer)


def check_distribution(one):
    """What the methods of a predictive distribution have to do with each other."""
    middle, sd = one.mean(), one.std()
    assert np.isfinite(middle).all() and np.isfinite(sd).all() and (one.var() >= 0.0).all()
    ends = one.ppf([0.01, 0.5, 0.99])
    assert np.isfinite(ends).all() and (np.diff(ends, axis=1) >= 0.0).all(), "ppf"
    wide = one.stds.min(axis=0) > 0.0  # Constants have jumps, and no density.
    for y in (middle, *ends.T):
        below, above = one.cdf(y), one.sf(y)
        assert np.abs(below + above - 1.0)[wide].max(initial=0.0) < 1e-9, "cdf and sf"
        for name in ("log_pdf", "log_cdf", "log_sf", "energy"):
            assert np.isfinite(getattr(one, name)(y)[wide]).all(), name
        scale = np.abs(middle) + sd
        assert (one.crps(y) >= -1e-9 * scale).all() and np.isfinite(one.crps(y)).all(), "crps"
    assert np.isfinite(one.sample(2, random_state=0)).all(), "sample"
