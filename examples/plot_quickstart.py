"""
Quickstart: a posterior instead of a point
==========================================

Breast-cancer data of scikit-learn: 569 tumours, 30 measurements, malignant or benign. We tune the
step size of the stochastic algorithm, see that the polish step makes that choice immaterial, fit
the default estimator, and look at what the posterior says that a point estimate cannot.

The picture is saved as ``quickstart.png`` in the working directory.
"""

# %%
# Data
# ----
# A normal prior speaks about the units of each column, so the columns are standardised first.

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD

data = load_breast_cancer()
X_train, X_test, y_train, y_test = train_test_split(
    data.data, data.target, test_size=0.3, stratify=data.target, random_state=0
)

# %%
# Step sizes, where they matter
# -----------------------------
# The algorithm as published starts at the prior and takes stochastic steps on small batches. We
# keep ten of the columns, so that draws from the prior have a chance, and leave the polish step
# out: now the step size decides how far the last iterate is from the posterior.

TEN = slice(0, 10)
STEP_SIZES = [0.03, 0.1, 0.3, 1.0, 3.0]


def stochastic_model(**parameters):
    """Standardise, then take stochastic steps from the prior."""
    return make_pipeline(
        StandardScaler(),
        BayesianLogisticRegressionPMD(
            proposal="prior", batch_size=20, max_iter=3, random_state=0, **parameters
        ),
    )


search = GridSearchCV(
    stochastic_model(polish=False),
    {"bayesianlogisticregressionpmd__step_size": STEP_SIZES},
    scoring="neg_log_loss",
    cv=StratifiedKFold(3, shuffle=True, random_state=0),
)
search.fit(X_train[:, TEN], y_train)

print("step size   log loss (3-fold)")
for size, score in zip(STEP_SIZES, search.cv_results_["mean_test_score"], strict=True):
    print(f"{size:9g}   {-score:.4f}")

# %%
# The polish step reweights the particles by Bayes' rule on all rows. What it returns does not
# depend on the step size any more: the stochastic phase only has to bring particles near.

print("step size   without polish      with polish    (first coefficient, mean and sd)")
for size in STEP_SIZES:
    columns = []
    for polish in (False, True):
        model = stochastic_model(polish=polish, step_size=size).fit(X_train[:, TEN], y_train)[-1]
        columns.append(f"{model.coef_[0, 0]:7.3f} ± {model.coef_std_[0, 0]:.3f}")
    print(f"{size:9g}   {columns[0]}    {columns[1]}")

# %%
# The default estimator
# ---------------------
# On all thirty columns. The particles start from references fitted to the posterior, and one pass
# over the data gives them their weights. ``verbose=1`` shows the progress.

model = make_pipeline(StandardScaler(), BayesianLogisticRegressionPMD(random_state=0, verbose=1))
model.fit(X_train, y_train)
classifier = model[-1]
posterior = classifier.posterior_

low, high = posterior.interval(level=0.9)[:-1].T
order = np.argsort(-np.abs(classifier.coef_[0]) / classifier.coef_std_[0])
print(f"{'coefficient':<26}{'mean':>8}{'sd':>8}   90 % interval")
for j in order:
    print(
        f"{data.feature_names[j]:<26}{classifier.coef_[0, j]:8.2f}{classifier.coef_std_[0, j]:8.2f}"
        f"   [{low[j]:6.2f}, {high[j]:6.2f}]{'  *' if low[j] * high[j] > 0 else ''}"
    )
print("* the interval leaves out 0")

# %%
# The certificate: how far these numbers can be trusted. Pareto k-hat should be below 0.7.

print(
    f"Pareto k-hat {posterior.pareto_k:.2f}, "
    f"ESS {posterior.ess:.0f} of {len(posterior.particles)} particles, "
    f"log evidence {posterior.log_evidence:.2f} ± {posterior.log_evidence_se:.2f}"
)

# %%
# Averaged probabilities
# ----------------------
# ``predict_proba`` averages over the posterior, so that it is less sure where the data leave the
# coefficients open. A single fit at the same prior is the point of highest posterior density.

point = make_pipeline(StandardScaler(), LogisticRegression(C=1.0)).fit(X_train, y_train)
proba = model.predict_proba(X_test)[:, 1]
point_proba = point.predict_proba(X_test)[:, 1]
print(f"log loss on {len(y_test)} test rows: {log_loss(y_test, proba):.4f}")
print(f"scikit-learn's LogisticRegression: {log_loss(y_test, point_proba):.4f}")

# %%
# The picture
# -----------
# Left: coefficients with their 90 % intervals. Middle: reliability, the observed share of benign
# tumours against the predicted one in groups of equal size; bars are the mean predictive interval
# of a group. Right: each test tumour's probability with its own 90 % interval.

bounds = model[-1].predict_proba_interval(model[:-1].transform(X_test), level=0.9)[:, 1]
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 5), layout="constrained")

shown = order[:12][::-1]
left.errorbar(
    classifier.coef_[0, shown],
    np.arange(len(shown)),
    xerr=[classifier.coef_[0, shown] - low[shown], high[shown] - classifier.coef_[0, shown]],
    fmt="o",
)
left.axvline(0.0, color="0.7", linewidth=1)
left.set_yticks(np.arange(len(shown)), data.feature_names[shown])
left.set(title="Coefficients, 90 % intervals", xlabel="log odds of benign per sd")

rank = np.argsort(proba)
groups = np.array_split(rank, 8)
predicted = np.array([proba[group].mean() for group in groups])
observed = np.array([y_test[group].mean() for group in groups])
interval = np.array([bounds[group].mean(axis=0) for group in groups])
middle.plot([0, 1], [0, 1], color="0.7", linewidth=1)
middle.errorbar(
    predicted,
    observed,
    xerr=np.maximum([predicted - interval[:, 0], interval[:, 1] - predicted], 0.0),
    fmt="o",
)
middle.set(title="Reliability", xlabel="predicted", ylabel="observed share benign")

right.fill_between(
    np.arange(len(rank)), *bounds[rank].T, alpha=0.3, linewidth=0, label="90 % interval"
)
right.plot(proba[rank], label="averaged probability")
right.plot(np.flatnonzero(y_test[rank] == 1), np.full(y_test.sum(), 1.03), "|", color="C2")
right.plot(np.flatnonzero(y_test[rank] == 0), np.full((1 - y_test).sum(), -0.03), "|", color="C3")
right.set(title="Test tumours (ticks: benign above)", xlabel="rank", ylabel="P(benign)")
right.legend(loc="center left", frameon=False)

path = Path("quickstart.png").resolve()
figure.savefig(path, dpi=110)
print(f"picture saved to {path}")
