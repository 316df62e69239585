"""Posteriors of topics in the forms of other libraries; see `skpmd._export`."""

import numpy as np

from skpmd._base.utils import as_generator, check_n_draws
from skpmd._export import inference_data, library, provenance, refuse_names
from skpmd.lda._results import names_of

_WEIGHT = "particle_weight"
_ONE = "there is one particle: intervals know of no other optimum than its own"
_MEANS = "expected probabilities under each particle, which is itself uncertain of them"


def word_names(posterior, feature_names):
    """Names of the words as str: those given, or those of the fit, or numbers."""
    names = posterior.feature_names if feature_names is None else feature_names
    names = names_of("feature_names", names, posterior.concentration.shape[2], "words")
    return [str(name) for name in names]


def summary(posterior, level, feature_names):
    """Columns of a table with a row for each word of each topic."""
    K, V = posterior.concentration.shape[1:]
    lower, upper = posterior.interval(level).reshape(-1, 2).T
    return {
        "topic": np.repeat(np.arange(K), V),
        "word": word_names(posterior, feature_names) * K,
        "mean": posterior.mean().ravel(),
        "std": posterior.std().ravel(),
        "lower": lower,
        "upper": upper,
    }


def to_frame(posterior, feature_names):
    """A row of a table for each topic of each particle."""
    pandas = library("pandas", "arviz")
    m, K, V = posterior.concentration.shape
    names = word_names(posterior, feature_names)
    refuse_names(names, [_WEIGHT])
    index = pandas.MultiIndex.from_product([range(m), range(K)], names=["particle", "topic"])
    frame = pandas.DataFrame(posterior.topic_word.reshape(m * K, V), index, names)
    frame.insert(0, _WEIGHT, np.repeat(posterior.weights, K))
    return frame


def to_xarray(posterior, feature_names):
    """Weighted particles with named axes."""
    xarray = library("xarray", "arviz")
    data = {
        "topic_word": (("particle", "topic", "word"), posterior.topic_word),
        "doc_topic_prior": (("particle", "topic"), posterior.doc_topic_prior),
    }
    coords = {
        **_coords(posterior, feature_names),
        _WEIGHT: ("particle", posterior.weights),
    }
    return xarray.Dataset(data, coords, _attributes(posterior) | {"topic_word": _MEANS})


def to_arviz(posterior, n_draws, random_state, feature_names):
    """Draws of topics as ArviZ has them."""
    n_draws, rng = check_n_draws("n_draws", n_draws), as_generator(random_state)
    coords = _coords(posterior, feature_names)
    data = {"posterior": {"topic_word": posterior.sample(n_draws, rng)[None]}}
    dims = {"topic_word": ["topic", "word"]}
    return inference_data(data, coords, dims, _attributes(posterior))


def _coords(posterior, feature_names):
    """Labels of the axes; ValueError where a word has two columns."""
    names = word_names(posterior, feature_names)
    refuse_names(names, ())
    return {"topic": list(range(posterior.concentration.shape[1])), "word": names}


def _attributes(posterior):
    found = provenance(posterior.weighting, posterior.n_particles)
    return found | {"caveat": _ONE} if posterior.n_particles == 1 else found
