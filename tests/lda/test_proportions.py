"""Uncertainty of topic proportions: against exact posteriors; and tables of documents."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import betainc, betaincinv, gammaln, log_expit, softmax
from scipy.stats import beta

from skpmd import LDATopicModelPMD
from skpmd.lda._beta_mixtures import Proportions
from skpmd.lda._documents import Documents
from skpmd.lda._inference import topic_mass, word_moments
from skpmd.lda._topics import Counts, Topics


def of(X):
    """Documents as kernels take them."""
    return Documents.of(X).for_kernels()


def corpus(alpha, eta, n=40, length=40, V=60, K=2, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(V, eta), K)
    return np.array([rng.multinomial(length, t @ topics) for t in rng.dirichlet([alpha] * K, n)])


def fit(X, K=2, alpha=0.5, **own):
    # Without draws of topics, whose uncertainty would be in the intervals too.
    params = {"topic_word_prior": 0.1, "n_particles": 1, "max_iter": 5, "random_state": 0, **own}
    return LDATopicModelPMD(K, doc_topic_prior=alpha, **params).fit(X)


# Two topics: the posterior of the logit of the first one's proportion, on a grid.
GRID = np.linspace(-60.0, 60.0, 20_001)
T = np.exp(log_expit(GRID))


def exact(lda, document):
    """Probabilities of the first topic's proportion on the grid, under the topics' means."""
    phi, alpha = lda.posterior_.topic_word[0].astype(float), lda.doc_topic_prior_
    log_density = alpha[0] * log_expit(GRID) + alpha[1] * log_expit(-GRID)
    words = np.flatnonzero(document)
    mixed = np.log(np.outer(T, phi[0, words]) + np.outer(1.0 - T, phi[1, words]))
    log_density += mixed @ document[words]
    density = np.exp(log_density - log_density.max())
    return density / density.sum()


@pytest.mark.parametrize(
    "alpha, eta, n, length, ratio, mean, least",
    [
        (5.0, 0.5, 40, 40, 0.05, 0.88, 0.8), (1.0, 0.05, 40, 40, 0.05, 0.86, 0.7),
        (0.5, 0.5, 40, 40, 0.08, 0.86, 0.7), (0.5, 0.3, 30, 300, 0.05, 0.87, 0.7),
    ],
)  # fmt: skip
def test_two_topics_against_a_grid(alpha, eta, n, length, ratio, mean, least):
    """Ratios of standard deviations, and the exact probability of intervals of 90 %.

    The limits are those that the user guide states for such priors: a chain of some hundred sweeps
    leaves standard deviations of single documents uncertain by a tenth.
    """
    X = corpus(alpha, eta, n, length)
    lda = fit(X, alpha=alpha)
    _, std = lda.transform(X, return_std=True)
    _, ends = lda.transform(X, return_interval=0.9)
    found, held = [], []
    for document, sd, (low, high) in zip(X, std[:, 0], ends[:, 0], strict=True):
        density = exact(lda, document)
        centre = density @ T
        found.append(sd / np.sqrt(density @ (T - centre) ** 2))
        below = np.interp([low, high], T, np.cumsum(density))
        held.append(below[1] - below[0])
    assert abs(np.median(found) - 1.0) < ratio
    assert mean < np.mean(held) < 0.93 and min(held) > least


def test_documents_that_say_nothing_have_the_prior():
    X = corpus(0.5, 0.5, K=3)
    lda = fit(X, K=3, alpha=[0.3, 1.0, 2.0])
    nothing = np.zeros((1, 60))
    a = np.array([0.3, 1.0, 2.0])
    _, std = lda.transform(nothing, return_std=True)
    np.testing.assert_allclose(std[0], beta.std(a, 3.3 - a), rtol=1e-6)
    _, ends = lda.transform(nothing, return_interval=0.8)
    np.testing.assert_allclose(ends[0, :, 0], betaincinv(a, 3.3 - a, 0.1), rtol=1e-3)
    np.testing.assert_allclose(ends[0, :, 1], betaincinv(a, 3.3 - a, 0.9), rtol=1e-3)


def test_words_of_certain_topics_are_observed():
    """Then proportions have the Dirichlet posterior of a multinomial distribution."""
    X = np.kron(np.eye(3), np.full((20, 4), 5))
    prior = np.full((3, 12), 1e-6) + np.kron(np.eye(3), np.full((1, 4), 1.0))
    lda = fit(X, K=3, alpha=0.7, topic_word_prior=prior, max_full_iter=3)
    document = np.array([[9, 0, 9, 0, 2, 0, 2, 0, 0, 0, 0, 0]])
    a = 0.7 + np.array([18.0, 4.0, 0.0])
    mean, std = lda.transform(document, return_std=True)
    np.testing.assert_allclose(mean[0], a / a.sum(), rtol=1e-4)
    np.testing.assert_allclose(std[0], beta.std(a, a.sum() - a), rtol=1e-3)


def test_two_topics_mirror_each_other_and_one_is_certain():
    X = corpus(0.3, 0.3)
    lda = fit(X, n_particles=3)
    mean, ends = lda.transform(X, return_interval=0.9)
    # The component without words of a topic is not that with words of the other.
    np.testing.assert_allclose(ends[:, 0, 0], 1.0 - ends[:, 1, 1], atol=0.06)
    np.testing.assert_array_equal(mean, lda.transform(X))
    assert (ends[..., 0] <= ends[..., 1]).all() and ends.min() >= 0.0 and ends.max() <= 1.0
    one = fit(X, K=1)
    np.testing.assert_allclose(one.transform(X, return_interval=0.9)[1], 1.0)
    np.testing.assert_allclose(one.transform(X, return_std=True)[1], 0.0, atol=1e-6)


def test_particles_are_a_mixture():
    """Two components with means and sizes of their own; quantiles and moments by quadrature."""
    mean, size, weights = np.array([0.2, 0.7]), np.array([5.0, 30.0]), np.array([0.4, 0.6])
    found = Proportions(*(part[:, None, None] for part in (mean, size, weights)))
    ends = found.intervals([0.05, 0.95])[0, 0]
    parts = beta(mean * size, (1.0 - mean) * size)
    np.testing.assert_allclose([weights @ parts.cdf(x) for x in ends], [0.05, 0.95], atol=1e-6)
    x = (np.arange(100_000) + 0.5) / 100_000
    density = parts.pdf(x[:, None]) @ weights
    expected = np.sqrt(np.average((x - weights @ mean) ** 2, weights=density))
    np.testing.assert_allclose(found.standard_deviations()[0, 0], expected, rtol=1e-4)


def test_topics_are_relabelled_before_they_are_mixed():
    """The mixture is that of a particle's topics under the numbers that all particles share."""
    X = corpus(0.3, 0.1, n=60, K=3)
    lda = fit(X, K=3, n_particles=4, max_iter=5)
    block, counts = lda._state.block, sparse.csr_matrix(X, dtype=np.float32)
    assert len(np.unique(lda._labels, axis=0)) > 1
    moments = [
        word_moments(block.topics, block.counts, i, of(counts), n_chains=4, stream=i)[..., order]
        for i, order in enumerate(lda._labels)
    ]
    alpha = np.full((4, 3), 0.5)
    expected = Proportions.of(np.array(moments), alpha, X.sum(axis=1), np.full(4, 0.25))
    np.testing.assert_allclose(
        lda.transform(X, return_std=True)[1], expected.standard_deviations(), rtol=1e-12
    )


# ---------------------------------------------------------------------- short documents
def known_topics(phi, alpha):
    """A particle whose topics' words are as given, with next to no prior."""
    K, V = phi.shape
    words = (1e6 * phi.T[None]).astype(np.float32)
    topics = Topics(np.tile(alpha, (1, 1)).astype(float), np.full((1, K), 1e-9), np.ones(1), V)
    return topics, Counts(words, words.sum(axis=1, dtype=np.float64), np.zeros(1), 1.0)


def drawn(n, alpha, K, D, V=150, eta=0.1, seed=0):
    """Topics, and documents of n words drawn from them, with their proportions.

    These are drawn by their logs, for NumPy's are 0 where they are small beside those before.
    """
    rng = np.random.default_rng([seed, n, K])
    phi = rng.dirichlet(np.full(V, eta), K)
    logs = np.log(rng.gamma(alpha + 1.0, size=(D, K))) + np.log(rng.random((D, K))) / alpha
    theta = softmax(logs, axis=1)
    P = theta @ phi
    X = np.array([rng.multinomial(n, p / p.sum()) for p in P])
    return phi, theta, sparse.csr_matrix(X.astype(np.float32))


def enumerated(phi, alpha, document):
    """Moments of the numbers of words of topics, by a sum over all assignments."""
    tokens = np.repeat(np.arange(len(document)), document.astype(int))
    K, n = len(phi), len(tokens)
    z = np.array(np.meshgrid(*[np.arange(K)] * n, indexing="ij")).reshape(n, -1)
    words = np.array([(z == k).sum(axis=0) for k in range(K)])
    log_p = np.log(phi[z, tokens[:, None]]).sum(axis=0)
    log_p += (gammaln(alpha[:, None] + words) - gammaln(alpha[:, None])).sum(axis=0)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    return np.array([words @ p, words**2 @ p, (words > 0) @ p, (words == n) @ p])


def test_one_word_is_exact():
    """The posterior is a mixture of Dirichlet distributions, one for each topic of the word."""
    rng = np.random.default_rng(4)
    phi, alpha = rng.dirichlet(np.full(9, 0.4), 5), np.array([0.04, 0.3, 0.1, 0.8, 0.2])
    given = known_topics(phi, alpha)
    X = sparse.csr_matrix(np.eye(9, dtype=np.float32))
    p = alpha[:, None] * phi
    p = (p / p.sum(axis=0)).T
    size = alpha.sum() + 1.0
    np.testing.assert_allclose(topic_mass(*given, 0, of(X)), alpha + p, rtol=1e-5)
    found = Proportions.of(
        word_moments(*given, 0, of(X))[None], alpha[None], np.ones(9), np.ones(1)
    )
    low, high = np.moveaxis(found.intervals([0.05, 0.95]), -1, 0)
    for ends, q in ((low, 0.05), (high, 0.95)):
        cdf = p * betainc(alpha + 1.0, size - alpha - 1.0, ends)
        cdf += (1.0 - p) * betainc(alpha, size - alpha, ends)
        np.testing.assert_allclose(cdf, q, atol=1e-5)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_few_words_are_as_by_enumeration(n):
    """The tolerance is three standard errors of 32 sweeps, of which about one in two is new."""
    phi, _, X = drawn(n, 0.1, 4, 60, V=30)
    alpha, gaps = np.array([0.05, 0.1, 0.2, 0.4]), []
    given = known_topics(phi, alpha)
    found, mass = word_moments(*given, 0, of(X)), topic_mass(*given, 0, of(X))
    for one, own, document in zip(found, mass, X.toarray(), strict=True):
        exact = enumerated(phi, alpha, document)
        gaps.append(
            np.concatenate([(one - exact) / [[n], [n**2], [1], [1]], [own - alpha - exact[0]]])
        )
    gaps = np.abs(gaps)
    assert gaps.mean() < 0.02 and gaps.max() < 0.4, (gaps.mean(), gaps.max())


@pytest.mark.slow_but("1-0.02-40", "3-0.1-8")
@pytest.mark.parametrize(
    "n, alpha, K",
    [(1, 0.02, 40), (3, 0.1, 8), (12, 0.03, 30), (40, 0.3, 6), (45, 0.03, 6), (90, 0.06, 9)],
)
def test_claims_about_documents_are_calibrated(n, alpha, K):
    """Largest proportions and intervals against the proportions that 800 documents have.

    The standard error of a mean is below .014, that of a share of intervals below .011. A topic
    that may have all words or not has a proportion of two parts, near 1 and below.
    """
    phi, theta, X = drawn(n, alpha, K, 800, seed=5)
    given, alphas, i = known_topics(phi, np.full(K, alpha)), np.full((1, K), alpha), np.arange(800)
    mass = topic_mass(*given, 0, of(X))
    top = mass.argmax(axis=1)
    claimed = (mass / mass.sum(axis=1, keepdims=True))[i, top].mean()
    assert abs(claimed - theta[i, top].mean()) < 0.04
    moments = word_moments(*given, 0, of(X))[None]
    ends = Proportions.of(moments, alphas, np.full(800, float(n)), np.ones(1)).intervals(
        [0.05, 0.95]
    )
    held = (ends[..., 0] <= theta) & (theta <= ends[..., 1])
    assert 0.86 < held.mean() < 0.94 and 0.86 < held[i, top].mean() < 0.94


def test_each_document_is_by_itself_whatever_the_threads():
    X = corpus(0.3, 0.3, n=150)
    lda = fit(X, n_particles=2)
    every = lda.transform(X, return_interval=0.9)[1]
    np.testing.assert_array_equal(lda.transform(X[70:71], return_interval=0.9)[1][0], every[70])
    np.testing.assert_array_equal(
        lda.set_params(n_jobs=2).transform(X, return_interval=0.9)[1], every
    )
    assert lda.transform(X.astype(np.float32), return_std=True)[1].dtype == np.float32
    assert lda.transform(X[:1], return_std=True)[1].shape == (1, 2)


def test_bad_requests_are_refused():
    X = corpus(0.3, 0.3)
    lda = fit(X)
    with pytest.raises(RuntimeError, match="At most one of return_std and return_interval"):
        lda.transform(X, return_std=True, return_interval=0.9)
    with pytest.raises(ValueError, match="set normalize=True"):
        lda.transform(X, return_std=True, normalize=False)
    for level in (0, 1, 90):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            lda.transform(X, return_interval=level)


# ---------------------------------------------------------------------- tables of documents
def test_top_documents_have_the_largest_proportions():
    pytest.importorskip("pandas")
    X = corpus(0.3, 0.3, K=3)
    lda = fit(X, K=3, n_particles=2)
    table = lda.top_documents(X, 4, level=0.8)
    assert list(table) == ["topic", "rank", "document", "proportion", "lower", "upper"]
    assert table["rank"].tolist() == [1, 2, 3, 4] * 3
    mean, ends = lda.transform(X, return_interval=0.8)
    for k, own in table.groupby("topic"):
        rows = own["document"].to_numpy()
        assert rows.tolist() == np.argsort(-mean[:, k], kind="stable")[:4].tolist()
        np.testing.assert_array_equal(own["proportion"], mean[rows, k])
        np.testing.assert_array_equal(own[["lower", "upper"]], ends[rows, k])
    names = [f"d{i}" for i in range(40)]
    named = lda.top_documents(X, 4, document_names=names)
    assert named["document"].tolist() == [f"d{i}" for i in table["document"]]
    assert len(lda.top_documents(X[:2], 10)) == 3 * 2


def test_top_documents_say_what_is_wrong():
    X = corpus(0.3, 0.3)
    lda = fit(X)
    for n in (0, 2.5, True):
        with pytest.raises(ValueError, match="n must be an integer of at least 1"):
            lda.top_documents(X, n)
    with pytest.raises(ValueError, match="level must lie strictly"):
        lda.top_documents(X, level=90)
    with pytest.raises(ValueError, match="one name for each of the 40 documents"):
        lda.top_documents(X, document_names=["a"])
