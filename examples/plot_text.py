"""
Text: which library is this docstring from?
===========================================

Docstrings of numpy, scipy and scikit-learn are texts that every reader of this page has installed.
From their prose alone, without the names of the libraries, ``BayesianLogisticRegressionPMD`` learns
which library a docstring belongs to. You see here how it takes thousands of sparse columns from
``TfidfVectorizer``, which words distinguish the libraries, how certain this is, and how to get
calibrated probabilities.

The picture is saved as ``text.png`` in the working directory.
"""

# %%
# The texts
# ---------
# A text is the part of a docstring before its sections on parameters, returns and examples.
# References to the user guide are removed, because they would give scikit-learn away.

import inspect
import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import (
    ENGLISH_STOP_WORDS,
    TfidfVectorizer,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from skpmd import BayesianLogisticRegressionPMD

MODULES = {  # A dot is the library itself.
    "numpy": """
        . .char .fft .linalg .ma .polynomial.polynomial .random
    """,
    "scipy": """
        .cluster.hierarchy .fft .integrate .interpolate .io .linalg
        .ndimage .optimize .signal .sparse .sparse.csgraph
        .sparse.linalg .spatial .spatial.distance .special .stats
        .stats.qmc
    """,
    "sklearn": """
        .calibration .cluster .compose .covariance .datasets
        .decomposition .discriminant_analysis .dummy .ensemble
        .feature_extraction.image .feature_extraction.text
        .feature_selection .gaussian_process.kernels .impute
        .inspection .isotonic .kernel_approximation .linear_model
        .manifold .metrics .metrics.pairwise .mixture .model_selection
        .multiclass .multioutput .naive_bayes .neighbors
        .neural_network .pipeline .preprocessing .random_projection
        .semi_supervised .svm .tree .utils
    """,
}
HEADS = "Parameters|Returns|Attributes|Examples|See Also|Notes"
TABLES = rf"\n(?:{HEADS}|Call signature)\n-"
GUIDE = r"Read more in the :ref:`[^`]*`\.?|^\.\. \w+::.*$"


def documented(module):
    """Names and docstrings of a module, without SciPy's distributions."""
    own = [
        name
        for name, one in vars(module).items()
        if inspect.getmodule(one) is module
    ]
    for name in sorted(getattr(module, "__all__", own)):
        one = vars(module).get(name)
        if (
            callable(one)
            and not hasattr(one, "rvs")
            and not name.startswith("_")
        ):
            yield f"{module.__name__}.{name}", inspect.getdoc(one) or ""


texts = {}  # Only the first of several equal texts.
for library, modules in MODULES.items():
    for part in modules.split():
        module = import_module((library + part).rstrip("."))
        for name, docstring in documented(module):
            prose = re.split(TABLES, docstring)[0]
            prose = re.sub(GUIDE, "", prose, flags=re.MULTILINE)
            # The signature of a function in C.
            prose = re.sub(r"^\w+\(.*\)\n", "", prose)
            if len(prose.split()) >= 5:
                texts.setdefault(prose, (library, name))
labels, names = np.array(list(texts.values())).T
texts = np.array(list(texts), dtype=object)
train, test = train_test_split(
    np.arange(len(texts)), test_size=0.3, stratify=labels, random_state=0
)
numbers = Counter(labels.tolist()).items()
print(", ".join(f"{n} of {library}" for library, n in numbers))

# %%
# The model
# ---------
# Each word is a column. With so many columns and three classes, ``covariance_type="auto"``
# approximates the posterior by a Gaussian without correlations. Its probabilities are
# under-confident on text, because the data say little about the coefficients of rare words, and the
# average takes in all that the prior allows. Calibration by a temperature corrects this. A search
# finds the scale of the prior by the log loss in cross-validation, with the calibration inside. The
# log loss hardly depends on the scale; above the largest scale of the search, which is chosen, the
# fit no longer converges, and warns. (``method="temperature"`` needs scikit-learn 1.8; take
# ``"sigmoid"`` with earlier versions.)

own_names = "numpy np scipy sklearn scikit".split()
stop_words = [*sorted(ENGLISH_STOP_WORDS), *own_names]
words = TfidfVectorizer(
    sublinear_tf=True,
    stop_words=stop_words,
    token_pattern=r"\b[a-zA-Z][a-zA-Z]+\b",
)
# As ``C`` below, the scale of the prior is per unit of tf-idf.
model = make_pipeline(
    words, BayesianLogisticRegressionPMD(scale=None, random_state=0)
)
calibrated = CalibratedClassifierCV(
    model, method="temperature", ensemble=False, cv=3
)
grid = {
    "estimator__bayesianlogisticregressionpmd__prior_scale": [
        4.0,
        8.0,
        16.0,
    ]
}
search = GridSearchCV(calibrated, grid, scoring="neg_log_loss", cv=3)
search.fit(texts[train], labels[train])
prior_scale = next(iter(search.best_params_.values()))
results = search.cv_results_
for params, score in zip(
    results["params"], results["mean_test_score"], strict=True
):
    (scale,) = params.values()
    print(
        f"prior_scale={scale:<4g} log loss {-score:.3f} in cross-validation"
    )

averaged = model.set_params(
    bayesianlogisticregressionpmd__prior_scale=prior_scale
)
averaged.fit(texts[train], labels[train])
point = GridSearchCV(
    make_pipeline(words, LogisticRegression(max_iter=1000)),
    {"logisticregression__C": [10.0, 30.0, 100.0]},
    scoring="neg_log_loss",
    cv=3,
).fit(texts[train], labels[train])
classifier = averaged[-1]
print(f"{classifier.n_features_in_} words, prior_scale={prior_scale:g}")
print(classifier.diagnostics_["method"])
probabilities = {}
print(f"{'':<24}{'accuracy':>10}{'log loss':>10}{'mean confidence':>17}")
for name, fitted in (
    ("averaged", averaged),
    ("averaged, calibrated", search),
    ("LogisticRegression", point),
):
    proba = probabilities[name] = fitted.predict_proba(texts[test])
    accuracy = accuracy_score(labels[test], fitted.predict(texts[test]))
    loss = log_loss(labels[test], proba)
    print(
        f"{name:<24}{accuracy:10.3f}{loss:10.3f}"
        f"{proba.max(axis=1).mean():17.3f}"
    )

# %%
# Calibrated averages and ``LogisticRegression``, whose ``C`` is searched for as well, predict about
# equally well.
#
# Are the probabilities right?
# ----------------------------
# The picture puts the test texts into bins by the probability of the predicted library, and shows
# how often this library is the right one. Bars are two standard errors to either side. Above the
# line a model is right more often than it says, as the averages are before calibration. Calibrated
# averages are on the line, to within the errors.

figure, axes = plt.subplots(figsize=(6, 4.6), layout="constrained")
axes.plot([0.3, 1.0], [0.3, 1.0], color="0.7", linewidth=1)
looks = ((-0.012, "o"), (0.0, "s"), (0.012, "^"))
for (shift, marker), (name, proba) in zip(
    looks, probabilities.items(), strict=True
):
    confidence = proba.max(axis=1)
    correct = search.classes_[proba.argmax(axis=1)] == labels[test]
    bins = np.digitize(confidence, [0.55, 0.7, 0.85, 0.95])
    count = np.bincount(bins)
    x, share = (
        np.bincount(bins, values) / count
        for values in (confidence, correct)
    )
    error = 2 * np.sqrt(share * (1 - share) / count)
    axes.errorbar(
        x + shift, share, yerr=error, fmt=marker, markersize=7, label=name
    )
axes.set(
    xlabel="probability of the predicted library",
    ylabel="share that is right",
)
axes.legend(frameon=False, loc="lower right")

# %%
# Texts in between
# ----------------
# Some texts could be from more than one library. The table begins with the test texts whose
# predicted library has the smallest probability, after calibration. Then come the wrong predictions
# with the largest probability. Both numpy and scipy have Fourier transforms, and describe them in
# nearly the same words: the model is right less often for them.


def show(rows):
    for i in rows:
        row = "".join(f"{value:8.2f}" for value in proba[i])
        print(f"{names[test[i]]:<48}{row}")


proba = probabilities["averaged, calibrated"]
confidence = proba.max(axis=1)
predicted = search.classes_[proba.argmax(axis=1)]
print(
    f"{'smallest probability':<48}"
    + "".join(f"{library:>8}" for library in search.classes_)
)
show(np.argsort(confidence)[:5])
print("errors of the largest probability")
correct = predicted == labels[test]
show(np.argsort(np.where(correct, 0.0, -confidence))[:5])
fourier = np.array([".fft." in name for name in names[test]])
right, right_fourier = 100 * correct.mean(), 100 * correct[fourier].mean()
print(
    f"right: {right:.0f} % of all, "
    f"{right_fourier:.0f} % of Fourier transforms"
)

# %%
# Words that tell libraries apart
# -------------------------------
# Each class has a coefficient for each word, and a number added to all three coefficients of a word
# changes nothing. So the coefficient of one class is compared with the average of the other two.
# Coefficients are independent in this approximation of the posterior, so that variances add up. We
# choose the words with the largest lower ends of their 90 % intervals.
#
# Note that these intervals show the uncertainty of a coefficient given all others. For words that
# occur together, such as "element" and "wise", the intervals of the exact posterior are wider.
#
# The picture shows five words of each library. Most words are rare, and their intervals include
# zero.

# 1 for the class itself, -1/2 for either of the others.
contrast = 1.5 * np.eye(3) - 0.5
mean = contrast @ classifier.coef_
std = np.sqrt(contrast**2 @ classifier.coef_std_**2)
half = norm.ppf(0.95) * std
vocabulary = averaged[0].get_feature_names_out()
without_zero = (abs(mean) > half).any(axis=0).mean()
print(f"intervals without zero: {100 * without_zero:.0f} % of the words")

# sphinx_gallery_thumbnail_number = 2
plt.rcParams["font.size"] = 13
figure, axes = plt.subplots(figsize=(7, 5.2), layout="constrained")
across = axes.get_yaxis_transform()
shown = np.argsort(half - mean, axis=1)[:, :5]
for k, (library, colour) in enumerate(
    zip(classifier.classes_, ("C0", "#b35900", "C2"), strict=True)
):
    place = 5.6 * k + np.arange(5)
    ends = half[k, shown[k]]
    axes.errorbar(
        mean[k, shown[k]],
        place,
        xerr=ends,
        fmt="o",
        linewidth=2.5,
        color=colour,
    )
    axes.text(
        0.98,
        place[2],
        library,
        ha="right",
        weight="bold",
        color=colour,
        transform=across,
    )
    for row, word in zip(place, vocabulary[shown[k]], strict=True):
        axes.text(-0.5, row, word, ha="right", va="center", color=colour)
axes.set(ylim=(16.0, -0.8), xlim=(0.0, 1.25 * axes.dataLim.xmax), yticks=[])
axes.set_title("Words that tell libraries apart")
axes.set_xlabel("coefficient against the other two, 90 % interval")

path = Path("text.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")
