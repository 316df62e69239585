"""
Pictures of a posterior
=======================

This page has every display of ``skpmd.plot``, on data that come with scikit-learn and on simulated
visits of patients. Displays show what is known about coefficients, ratios, effects and groups, how
far predictions can be trusted, topics and a density. They are used like those of scikit-learn:
``from_estimator`` draws the picture, in Axes of your own if you give ``ax``, and the result has the
data and the artists as attributes.

One of the pictures is saved as ``pictures.png`` in the working directory.
"""

# %%
# Coefficients
# ------------
# The model is fitted to half of the breast-cancer data. Points are posterior means, thick lines
# hold 50 % of the posterior and thin ones 90 %. The coefficients are sorted by their distance from
# 0 in posterior standard deviations. The axis says what they are, and per unit of what: here the
# change of the log odds of a malignant tumour, for one standard deviation of the column.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
)
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import (
    BayesianGLMRegressorPMD,
    BayesianLogisticRegressionPMD,
    GaussianMixturePMD,
    LDATopicModelPMD,
    SparseGPRegressorPMD,
)
from skpmd.effects import avg_comparisons
from skpmd.plot import (
    EffectsDisplay,
    GroupEffectsDisplay,
    MixtureDensityDisplay,
    PairDisplay,
    PosteriorIntervalDisplay,
    PosteriorPredictiveCheckDisplay,
    PredictiveBandDisplay,
    ReliabilityDisplay,
    TopicDisplay,
)

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0
)
scaler = StandardScaler().set_output(transform="pandas")
model = make_pipeline(
    scaler, BayesianLogisticRegressionPMD(random_state=0)
).fit(X_train, y_train)
with plt.rc_context({"font.size": 14}):
    figure, axes = plt.subplots(figsize=(7, 4.9), layout="constrained")
    PosteriorIntervalDisplay.from_estimator(
        model, sort="distance", max_rows=10, ax=axes
    )

# %%
# For pairs of coefficients, a display shows the smallest regions that hold 50 % and 90 % of the
# posterior. Where two columns say nearly the same, one coefficient may stand in for the other: if
# one is larger, the other tends to be smaller. Intervals of single coefficients do not show this.

PairDisplay.from_estimator(
    model, names=["mean texture", "worst texture", "texture error"]
)

# %%
# Ratios, effects and groups
# --------------------------
# Visits to a doctor depend on age and smoking, and on the clinic. With a log link and an exposure
# ``ratios=True`` draws rate ratios, on a logarithmic axis: for ten years of age, because the column
# counts decades.

rng = np.random.default_rng(0)
patients = pd.DataFrame(
    {
        "age (10 years)": rng.uniform(2.0, 8.0, 400),
        "smokes": rng.integers(2, size=400),
        "years": rng.uniform(0.5, 2.0, 400),
        "clinic": rng.choice([f"clinic {k}" for k in range(12)], 400),
    }
)
clinics = patients["clinic"].str.split().str[1].astype(int)
rate = 0.15 * patients["age (10 years)"] + 0.4 * patients["smokes"] - 1.0
rate = np.exp(rate + rng.normal(0.0, 0.4, 12)[clinics])
visits = rng.poisson(patients["years"] * rate)
rates = BayesianGLMRegressorPMD(
    "poisson", exposure="years", groups=["clinic"], random_state=0
).fit(patients, visits)
PosteriorIntervalDisplay.from_estimator(rates, ratios=True)

# %%
# Effects are differences or ratios of predictions, here of the visits of all patients.

changes = {"age (10 years)": 1.0, "smokes": (0, 1)}
EffectsDisplay.from_effects(avg_comparisons(rates, patients, changes))

# %%
# The effects of clinics are sorted (a caterpillar plot), on the scale of the log of the mean.

GroupEffectsDisplay.from_estimator(rates)

# %%
# Are the probabilities right?
# ----------------------------
# We check on the other half of the rows. Intervals show how much the few rows of
# a bin can say. The probabilities err on the side of caution: in all but one of the bins between
# the ends the observed share is farther from one half than the predicted probability.

ReliabilityDisplay.from_estimator(
    model, X_test, y_test, n_bins=8, name="logistic regression"
)

# %%
# A regression
# ------------
# Top: the progression of diabetes against the body mass index, with the other columns at their
# medians. Bottom: the density of the targets, and the densities of data sets drawn under the
# posterior; where they differ, the model does not explain the data. The model does not know that no
# target is below 25.

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
bmi = "body mass index (kg/m²)"
X, y = X.rename(columns={"bmi": bmi}), y.rename("disease progression")
process = SparseGPRegressorPMD(
    n_particles=1, n_restarts_optimizer=0, random_state=0
)
gp = make_pipeline(StandardScaler(), process).fit(X, y)
plt.rcParams.update({"font.size": 14})
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(7, 8.4), layout="constrained"
)
PredictiveBandDisplay.from_estimator(gp, X, y, feature=bmi, ax=top)
check = PosteriorPredictiveCheckDisplay.from_estimator(gp, X, y, ax=bottom)

path = Path("pictures.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path.name}")

# %%
# The check can also use one statistic, here the smallest target. In all 200 replicated data sets it
# is even smaller.

PosteriorPredictiveCheckDisplay.from_estimator(gp, X, y, statistic="min")

# %%
# Topics and densities
# --------------------
# Here scans of digits are documents, and pixels are their words. For each topic the display shows
# the most probable pixels, with intervals of their probabilities: ``pixel_5_2`` is in row 5 and
# column 2, counted from 0. Topics with more words come first, and keep the numbers that they have
# in the fit.

digits = load_digits()
lda = LDATopicModelPMD(6, n_particles=4, random_state=0).fit(digits.data)
figure, axes = plt.subplots(3, 2, figsize=(7, 7), layout="constrained")
TopicDisplay.from_estimator(
    lda, feature_names=digits.feature_names, n_words=6, ax=axes
)
for panel in axes.flat:
    panel.set_xlabel("probability, 90 % interval", fontsize="small")

# %%
# The last display shows the density of a mixture, in one column and in two. Each particle is a
# mixture of its own. The mixture is fitted to scaled columns, and drawn in the units of the table.

wines = load_wine(as_frame=True).data[["alcohol", "proline"]]
wines.columns = ["alcohol (% by volume)", "proline (mg/l)"]
mixture = make_pipeline(
    StandardScaler(), GaussianMixturePMD(3, random_state=0)
).fit(wines)
figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(7, 8.4), layout="constrained"
)
MixtureDensityDisplay.from_estimator(
    mixture, wines, column="proline (mg/l)", bins=30, ax=top
)
MixtureDensityDisplay.from_estimator(mixture, wines, ax=bottom)
