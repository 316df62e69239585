"""
Quickstart: a posterior instead of a point
==========================================

Breast-cancer data of scikit-learn: 569 tumours, 30 measurements, malignant or benign. We tune the
step size of the stochastic algorithm, see that importance reweighting makes that choice immaterial,
fit the default estimator, and look at what the posterior says that a point estimate cannot.

The picture is saved as ``quickstart.png`` in the working directory.
"""

# %%
# Data
# ----
# A normal prior speaks about the units of each column, so the columns are standardised first.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import beta
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD

data = load_breast_cancer()
X_train, X_test, y_train, y_test = train_test_split(
    data.data, data.target, test_size=0.5, stratify=data.target, random_state=0
)

# %%
# Step sizes, where they matter
# -----------------------------
# The algorithm as published starts at the prior and takes stochastic steps on small batches. We
# keep ten of the columns, so that draws from the prior have a chance, and leave reweighting
# out: now the step size decides how far the last iterate is from the posterior.

TEN = slice(0, 10)
STEP_SIZES = [0.03, 0.1, 0.3, 1.0, 3.0]


def stochastic_model(**parameters):
    """Standardise, then take stochastic steps from the prior."""
    classifier = BayesianLogisticRegressionPMD(
        proposal="prior", batch_size=20, max_iter=1, random_state=0, **parameters
    )
    return make_pipeline(StandardScaler(), classifier)


search = GridSearchCV(
    stochastic_model(n_particles=500, reweight=False),
    {"bayesianlogisticregressionpmd__step_size": STEP_SIZES},
    scoring="neg_log_loss",
    cv=StratifiedKFold(3, shuffle=True, random_state=0),
)
search.fit(X_train[:, TEN], y_train)

print("step size   log loss (3-fold)")
for size, score in zip(STEP_SIZES, search.cv_results_["mean_test_score"], strict=True):
    print(f"{size:9g}   {-score:.4f}")

# %%
# Importance reweighting gives the particles the weights of Bayes' rule on all rows. What it
# returns does not depend on the step size any more, up to Monte Carlo error: the stochastic phase
# only has to bring particles near. ``verbose=1`` shows the progress of the stochastic steps.

print("first coefficient, mean and sd, by step size")
print("step size   without reweighting with reweighting")
for size in STEP_SIZES:
    cells = []
    for reweight in (False, True):
        model = stochastic_model(n_particles=1000, reweight=reweight, step_size=size)
        model = model.fit(X_train[:, TEN], y_train)[-1]
        cells.append(f"{model.coef_[0, 0]:6.2f} ± {model.coef_std_[0, 0]:.2f}")
    print(f"{size:9g}   {cells[0]}       {cells[1]}")

best = search.best_params_["bayesianlogisticregressionpmd__step_size"]
model = stochastic_model(n_particles=1000, step_size=best, verbose=1).fit(X_train[:, TEN], y_train)

# %%
# The default estimator
# ---------------------
# On all thirty columns. The particles come from proposals fitted to the posterior, and one pass
# over the data gives them their weights.

model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0))
model.fit(X_train, y_train)
classifier = model[-1]
posterior = classifier.posterior_

mean, std = classifier.coef_[0], classifier.coef_std_[0]
low, high = posterior.interval(level=0.9)[:-1].T  # the intercept comes last
order = np.argsort(-np.abs(mean) / std)
print(f"{'coefficient':<26}{'mean':>8}{'sd':>8}   90 % interval")
for j in order:
    mark = "  *" if low[j] * high[j] > 0 else ""
    print(
        f"{data.feature_names[j]:<26}{mean[j]:8.2f}{std[j]:8.2f}   "
        f"[{low[j]:5.2f}, {high[j]:5.2f}]{mark}"
    )
print("* the interval leaves out 0")

# %%
# The diagnostics: how far these numbers can be trusted. Pareto k-hat should be below 0.7.

print(
    f"Pareto k-hat {posterior.pareto_k:.2f}, "
    f"ESS {posterior.ess:.0f} of {len(posterior.particles)} particles, "
    f"log evidence {posterior.log_evidence:.2f} ± {posterior.log_evidence_se:.2f}"
)

# %%
# Averaged probabilities
# ----------------------
# ``predict_proba`` averages over the posterior. scikit-learn's LogisticRegression with C equal to
# the squared prior scale takes the point of highest posterior density instead. Averaging is no free
# lunch where the prior is tight, and it protects where the prior is wide.

folds = StratifiedKFold(5, shuffle=True, random_state=0)
print("prior scale   log loss, averaged   log loss, LogisticRegression   (5-fold)")
for scale in (0.5, 1.0, 2.0, 4.0):
    averaged = BayesianLogisticRegressionPMD(prior_scale=scale, random_state=0)
    point = LogisticRegression(C=scale**2, max_iter=1000)
    losses = [
        -cross_val_score(
            make_pipeline(StandardScaler(), candidate),
            data.data,
            data.target,
            scoring="neg_log_loss",
            cv=folds,
        ).mean()
        for candidate in (averaged, point)
    ]
    print(f"{scale:11g}   {losses[0]:18.4f}   {losses[1]:28.4f}")

# %%
# The picture
# -----------
# Left: coefficients with their 90 % intervals. Middle: reliability of out-of-fold probabilities for
# all 569 tumours, in bins; the bars say how well the observed share is known. Right: each test
# tumour's probability with its own 90 % interval.

proba = model.predict_proba(X_test)[:, 1]
bounds = classifier.predict_proba_interval(model[:-1].transform(X_test), level=0.9)[:, 1]
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")

shown = order[:12][::-1]
rows = np.arange(len(shown))
left.errorbar(
    mean[shown], rows, xerr=[mean[shown] - low[shown], high[shown] - mean[shown]], fmt="o"
)
left.axvline(0.0, color="0.7", linewidth=1)
left.set_yticks(rows, data.feature_names[shown])
left.set(title="Coefficients, 90 % intervals", xlabel="log odds of benign per sd of the column")

held_out = cross_val_predict(model, data.data, data.target, cv=folds, method="predict_proba")[:, 1]
bins = np.digitize(held_out, [0.1, 0.3, 0.5, 0.7, 0.9])
middle.plot([0, 1], [0, 1], color="0.7", linewidth=1)
for b in np.unique(bins):
    members = bins == b
    n_benign, n = data.target[members].sum(), members.sum()
    x = held_out[members].mean()
    middle.plot([x, x], beta.ppf([0.05, 0.95], n_benign + 0.5, n - n_benign + 0.5), color="C0")
    middle.plot(x, n_benign / n, "o", color="C0")
    middle.annotate(f" {n}", (x, n_benign / n), va="top", color="0.4")
middle.set(title="Reliability (rows in each bin)", xlabel="predicted P(benign)")
middle.set_ylabel("observed share benign")

rank = np.argsort(proba)
place = np.arange(len(rank))
benign = y_test[rank] == 1
right.fill_between(place, *bounds[rank].T, alpha=0.3, linewidth=0, label="90 % interval")
right.plot(place, proba[rank], label="averaged probability")
right.plot(place[benign], np.full(benign.sum(), 1.04), "|", color="C2", label="benign")
right.plot(place[~benign], np.full((~benign).sum(), -0.04), "|", color="C3", label="malignant")
right.set(title="Test tumours", xlabel="rank", ylabel="P(benign)")
right.legend(loc="center right", frameon=False)

path = Path("quickstart.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path}")
