"""
Topics of the docstrings of NumPy, SciPy and scikit-learn
=========================================================

The docstrings of the installed packages are several thousand documents, and a reader of this page
can judge their topics. Half of them are fitted at once, and ``partial_fit`` takes the others in
parts. You get the words of each topic with intervals of their probabilities, the topics of a new
document, and the perplexity of held-out words, which falls as more documents are read.

The picture is saved as ``topics.png`` in the working directory. The table of words needs pandas.
"""

# %%
# A corpus
# --------
# Each docstring is a document; docstrings that are too short to have a topic are left out. The
# source files are read and not imported, so that none of their code is run.

import ast
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy
import sklearn
from sklearn.feature_extraction.text import CountVectorizer

from skpmd import LDATopicModelPMD


def docstrings(package, min_length=200):
    for path in sorted(Path(package.__file__).parent.rglob("*.py")):
        if "tests" in path.parts or "_vendored" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if len(text) > min_length:
                    yield text


packages = np, scipy, sklearn
texts = sorted({text for one in packages for text in docstrings(one)})
vectorizer = CountVectorizer(
    stop_words="english",
    token_pattern=r"\b[a-z]{3,}\b",
    min_df=10,
    max_df=0.2,
)
X = vectorizer.fit_transform(texts)
X = X[np.random.default_rng(0).permutation(X.shape[0])]
test, X = X[:500], X[500:]
print(
    f"{X.shape[0]} documents, {X.shape[1]} words, "
    f"{X.sum() / X.shape[0]:.0f} in a document"
)

# %%
# The first half
# --------------
# Four particles are averaged, each of which has its own twenty topics. Perplexity measures how well
# some words of a document are predicted from its other words: it is the number of words among which
# a random guess would be equally hard. One particle alone does worse than the average.

half = X.shape[0] // 2
lda = LDATopicModelPMD(
    20, doc_topic_prior=0.1, topic_word_prior=0.05, random_state=0
)
lda.fit(X[:half])
single = LDATopicModelPMD(**{**lda.get_params(), "n_particles": 1}).fit(
    X[:half]
)
n_read, perplexity = [half], [lda.perplexity(test, method="completion")]
print(
    f"perplexity: {perplexity[0]:.0f}, "
    f"of one particle {single.perplexity(test, 'completion'):.0f}"
)

# %%
# The other half as a stream
# --------------------------
# Parts of 200 documents are learnt, and are not needed afterwards. Most topics remain what they
# were.

before = lda.topic_word_
for start in range(half, X.shape[0], 200):
    part = X[start : start + 200]
    lda.partial_fit(part)
    n_read.append(n_read[-1] + part.shape[0])
    perplexity.append(lda.perplexity(test, method="completion"))
likeness = np.sqrt(before) @ np.sqrt(lda.topic_word_).T
same = likeness.argmax(axis=1) == np.arange(20)
print(
    f"after the stream: {perplexity[-1]:.0f}; "
    f"topics in their places: {same.sum()} of 20"
)

plt.rcParams.update(
    {"font.size": 13, "axes.spines.top": False, "axes.spines.right": False}
)
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(n_read, perplexity, "o-")
axes.set(xlabel="documents", ylabel="perplexity of held-out words")

# %%
# Topics with intervals
# ---------------------
# ``top_words`` returns a table of the most probable words of each topic, and ``transform`` returns
# the proportions of the topics in a document.

table = lda.top_words(6, vectorizer.get_feature_names_out(), level=0.9)
print(table.head(6).to_string(index=False))
text = (
    "Cholesky decomposition of a banded Hermitian positive-definite matrix."
)
proportions = lda.transform(vectorizer.transform([text.lower()]))[0]
words = table[table["topic"] == proportions.argmax()]["word"]
print(f"{text}\n  {100 * proportions.max():.0f} % {', '.join(words)}")

# %%
# Points are posterior means of the probabilities of words, and bars hold 90 % of the posterior.
# Their width comes from the uncertainty within particles and from differences between particles.
# The picture shows the four topics with the most words.

# sphinx_gallery_thumbnail_number = 2
largest = np.argsort(-lda.components_.sum(axis=1))[:4]
figure, panels = plt.subplots(2, 2, figsize=(7, 6.4), layout="constrained")
for axes, topic in zip(panels.ravel(), largest, strict=True):
    own = table[table["topic"] == topic][::-1]
    ends = np.abs(
        own[["lower", "upper"]].to_numpy().T - own["probability"].to_numpy()
    )
    axes.errorbar(
        own["probability"], own["word"], xerr=ends, fmt="o", linewidth=2
    )
    axes.set_xlim(left=0.0)
    axes.locator_params(axis="x", nbins=3)
    axes.set_title(f"topic {topic}")
for axes in panels[1]:
    axes.set_xlabel("probability of the word")
figure.suptitle("Words of four topics, 90 % intervals")

path = Path("topics.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")
