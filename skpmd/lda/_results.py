"""Results of a topic model: the record of steps, the evidence, priors and words."""

from numbers import Integral

import numpy as np

_MISSING = "{} is not available: {}."


def history_of(records):
    """Record of the steps, a dict of ndarray."""
    step, gamma, n, score = np.array(records, dtype=np.float64).reshape(-1, 4).T
    return {
        "step": step.astype(int),
        "step_size": gamma,
        "n_documents": n.astype(int),
        "log_density": score,
    }


def doc_topic_prior_of(topics, weights, labels):
    """Dirichlet parameters of topic proportions, averaged over relabelled particles; (K,)."""
    return weights @ np.take_along_axis(topics.alpha, labels, axis=1)


def topic_word_prior_of(topics, weights):
    """Dirichlet parameters of the topics' words, averaged over particles: a float or (K, V)."""
    eta = float(weights @ topics.eta_scale) * topics.eta.T
    return float(eta[0, 0]) if topics.eta.size == topics.K and np.ptp(eta) == 0.0 else eta


def log_evidence_of(state, learn_priors):
    """Log probability of all words fitted, of one topic; AttributeError where it is not known."""
    if state.topics.K > 1:
        raise AttributeError(
            _MISSING.format("log_evidence_", "with several topics only bounds are known")
        )
    _check_exact("log_evidence_", state, learn_priors)
    # A single topic has all words: the documents' own terms are 0.
    counts = state.counts._replace(documents=np.zeros(state.topics.m))
    return float(state.topics.elbo(counts)[0])


def lower_bound_of(state, weighting, learn_priors):
    """The best particle's lower bound of the same; AttributeError where it is not known."""
    if weighting != "posterior":
        raise AttributeError(
            _MISSING.format("lower_bound_", "its terms are computed with weighting='posterior'")
        )
    _check_exact("lower_bound_", state, learn_priors)
    return float(state.topics.elbo(state.counts).max())


def _check_exact(name, state, learn_priors):
    if learn_priors:
        reason = "the priors are learnt, set learn_priors=False"
        raise AttributeError(_MISSING.format(name, reason))
    if not state.exact:
        reason = "counts are not those of all documents, each once: set max_full_iter=1"
        raise AttributeError(_MISSING.format(name, reason))


def table_of_words(posterior, n, names, level):
    """Data frame of the n most probable words of each topic; ``names`` None stands for numbers."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "top_words needs pandas: pip install pandas, or take topic_word_ and "
            "topic_word_interval."
        ) from error
    if not (isinstance(n, Integral) and n >= 1):
        raise ValueError(f"n must be an integer of at least 1, got {n!r}.")
    V = posterior.concentration.shape[2]
    names = np.arange(V) if names is None else np.asarray(names)
    if names.shape != (V,):
        raise ValueError(
            f"feature_names has the shape {names.shape}: give one name for each of the {V} words."
        )
    words, values = posterior.top_words(n, level)
    K, n = words.shape
    columns = {
        "topic": np.repeat(np.arange(K), n),
        "rank": np.tile(np.arange(1, n + 1), K),
        "word": names[words.ravel()],
    }
    for place, name in enumerate(("probability", "lower", "upper")):
        columns[name] = values[..., place].ravel()
    return pd.DataFrame(columns)
