"""Topic models that others have made: scikit-learn's, gensim's and tomotopy's.

Each function fits one model and returns its topics at several points of the way, with the CPU
seconds up to there; turning counts into what a library reads is not counted. ``setting`` has
``alpha``, ``eta`` and what is the library's own. A fit ends when its CPU seconds pass a budget.
"""

import contextlib
import time
import warnings

import numpy as np
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..harness.timing import cpu_clock
from .tokens import Topics, tokens_of


def sklearn_passes(X, K, setting, seed, passes, budget=np.inf):
    """Topics after each pass: calls of ``partial_fit``, which are the passes of ``fit``.

    The batch method has its own number of passes, and topics at the end.
    """
    own = {key: value for key, value in setting.items() if key not in ("alpha", "eta")}
    model = LatentDirichletAllocation(
        K, doc_topic_prior=setting["alpha"], topic_word_prior=setting["eta"],
        total_samples=X.shape[0], random_state=seed, **own,
    )  # fmt: skip
    if setting.get("learning_method") == "batch":
        return [_sklearn_topics(model, model.max_iter, _seconds(model.fit, X))]
    points, cpu = [], 0.0
    for step in range(1, passes + 1):
        cpu += _seconds(model.partial_fit, X)
        points.append(_sklearn_topics(model, step, cpu))
        if cpu > budget:
            break
    return points


def _seconds(fit, X):
    with cpu_clock() as clock, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit(X)
    return clock.cpu


def _sklearn_topics(model, step, cpu):
    words = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return Topics(step, cpu, words, np.full(len(words), model.doc_topic_prior_))


def gensim_passes(X, K, setting, seed, passes, budget=np.inf):
    """Topics after each pass; noting them takes a few milliseconds."""
    from gensim.models import LdaModel
    from gensim.models.callbacks import Metric

    points = []

    class EndOfPass(Metric):
        title, logger = "", None

        def get_value(self, *, model, **_):
            cpu = time.process_time() - start
            points.append(Topics(len(points) + 1, cpu, model.get_topics(), model.alpha.copy()))
            if cpu > budget:
                raise StopIteration

    corpus = [list(zip(*row, strict=True)) for row in _rows(X)]
    names = {place: str(place) for place in range(X.shape[1])}
    with threadpool_limits(limits=1), contextlib.suppress(StopIteration):
        start = time.process_time()
        LdaModel(
            corpus, K, id2word=names, passes=passes, eval_every=None, random_state=seed,
            callbacks=[EndOfPass()], **setting,
        )  # fmt: skip
    return points


def _rows(X):
    """Words and counts of each document, as plain numbers."""
    for row in range(X.shape[0]):
        part = slice(X.indptr[row], X.indptr[row + 1])
        yield X.indices[part].tolist(), X.data[part].tolist()


def tomotopy_sweeps(X, K, setting, seed, sweeps, budget=np.inf):
    """Topics after each of some numbers of sweeps."""
    import tomotopy

    model = tomotopy.LDAModel(k=K, alpha=setting["alpha"], eta=setting["eta"], seed=seed)
    model.optim_interval = setting["optim_interval"]
    for tokens in tokens_of(X):
        model.add_doc(list(map(str, tokens)))
    points, cpu, done = [], 0.0, 0
    for step in sweeps:
        with cpu_clock() as clock:
            model.train(step - done, workers=1)
        cpu, done = cpu + clock.cpu, step
        words = _tomotopy_words(model, X.shape[1])
        points.append(Topics(step, cpu, words, np.array(model.alpha)))
        if cpu > budget:
            break
    return points


def _tomotopy_words(model, n_words):
    """Probabilities of all words; tomotopy leaves out those that no document has."""
    places = np.array([int(word) for word in model.used_vocabs])
    found = np.array([model.get_topic_word_dist(k) for k in range(model.k)], dtype=np.float64)
    totals = np.array(model.get_count_by_topics(), dtype=np.float64)[:, None]
    smoothed = totals + n_words * model.eta
    words = np.broadcast_to(model.eta / smoothed, (model.k, n_words)).copy()
    words[:, places] = found * (totals + len(places) * model.eta) / smoothed
    return words
