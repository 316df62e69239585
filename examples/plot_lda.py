"""
Topics of documents that everyone has, with intervals and a stream
==================================================================

The docstrings of the installed NumPy, SciPy and scikit-learn are a corpus: some thousand documents,
whose topics one can judge. Half of them are fitted in one piece, the other half comes in parts.

The picture is saved as ``topics.png`` in the working directory. The table of words needs pandas.
"""

# %%
# A corpus
# --------
# A docstring is a document; what is too short to have a topic is left out. Sources are read and not
# imported, so that nothing is run.

import ast
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy
import sklearn
from sklearn.feature_extraction.text import CountVectorizer

from skpmd import LDATopicModelPMD


def docstrings(package, least=200):
    for path in sorted(Path(package.__file__).parent.rglob("*.py")):
        if "tests" in path.parts or "_vendored" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if len(text) > least:
                    yield text


texts = sorted({text for package in (np, scipy, sklearn) for text in docstrings(package)})
vectorizer = CountVectorizer(
    stop_words="english", token_pattern=r"\b[a-z]{3,}\b", min_df=10, max_df=0.2
)
X = vectorizer.fit_transform(texts)
X = X[np.random.default_rng(0).permutation(X.shape[0])]
test, X = X[:500], X[500:]
print(f"{X.shape[0]} documents, {X.shape[1]} words, {X.sum() / X.shape[0]:.0f} in a document")

# %%
# Half of it
# ----------
# Four particles, each with its own way of sharing the words out among twenty topics. Perplexity is
# of words that are predicted from other words of the same document: to guess at random among that
# many words would be as hard. One particle alone would do worse than the average.

half = X.shape[0] // 2
lda = LDATopicModelPMD(20, doc_topic_prior=0.1, topic_word_prior=0.05, random_state=0)
lda.fit(X[:half])
single = LDATopicModelPMD(**{**lda.get_params(), "n_particles": 1}).fit(X[:half])
n_read, perplexity = [half], [lda.perplexity(test, method="completion")]
print(
    f"perplexity: {perplexity[0]:.0f}, of one particle {single.perplexity(test, 'completion'):.0f}"
)

# %%
# The other half as a stream
# --------------------------
# Parts of 200 documents are taken in and then no longer needed. Topics keep their places.

before = lda.topic_word_
for start in range(half, X.shape[0], 200):
    part = X[start : start + 200]
    lda.partial_fit(part)
    n_read.append(n_read[-1] + part.shape[0])
    perplexity.append(lda.perplexity(test, method="completion"))
same = (np.sqrt(before) @ np.sqrt(lda.topic_word_).T).argmax(axis=1) == np.arange(20)
print(f"after the stream: {perplexity[-1]:.0f}; topics in their places: {same.sum()} of 20")

# %%
# Topics with intervals
# ---------------------
# The eight topics of most words. A table of all of them is one call away, and a document has
# proportions of topics.

table = lda.top_words(6, vectorizer.get_feature_names_out(), level=0.9)
print(table.head(6).to_string(index=False))
text = "Cholesky decomposition of a banded Hermitian positive-definite matrix."
proportions = lda.transform(vectorizer.transform([text.lower()]))[0]
words = table[table["topic"] == proportions.argmax()]["word"]
print(f"{text}\n  {proportions.max():.0%} {', '.join(words)}")

# %%
# The picture
# -----------
# Points are posterior means of words' probabilities, bars hold 90 % of the posterior: some of it is
# within particles, some between them. Right: perplexity falls as more documents are read.

largest = np.argsort(-lda.components_.sum(axis=1))[:8]
figure = plt.figure(figsize=(13, 5), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(3, 1))
for axes, topic in zip(left.subplots(2, 4).ravel(), largest, strict=True):
    own = table[table["topic"] == topic][::-1]
    ends = np.abs(own[["lower", "upper"]].to_numpy().T - own["probability"].to_numpy())
    axes.errorbar(own["probability"], own["word"], xerr=ends, fmt="o", markersize=4)
    axes.set_xlim(left=0.0)
    axes.spines[["top", "right"]].set_visible(False)
left.suptitle("Words of topics, 90 % intervals")
axes = right.subplots()
axes.plot(n_read, perplexity, ".-")
axes.set(xlabel="documents", ylabel="perplexity of held-out words")
axes.spines[["top", "right"]].set_visible(False)

path = Path("topics.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path}")
