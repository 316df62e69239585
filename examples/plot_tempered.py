"""
Tempered posteriors: what a temperature does
============================================

``temperature`` replaces the likelihood by a power of it: above one the data count for less and the
posterior is wider, below one it is narrower. It is a popular repair of models that are wrong. The
model of this example is wrong because it treats repeated measurements as independent rows. A
simulation shows what temperatures do to intervals, to predictions and to calibration. A temperature
can make predictions better. But a 90 % interval has its meaning at temperature one only, and there
only if the model is right.
"""

# %%
# Rows that are not independent
# -----------------------------
# Thirty patients are measured ten times each. Traits are the same in all rows of a patient, the
# dose differs from row to row, and each patient has a level that no column records. Logistic
# regression treats the three hundred rows as independent, as if there were ten times as many
# patients.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skpmd import BayesianLogisticRegressionPMD

n_traits = 6
# Of the traits, and of the dose.
effects = np.array([1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0])
rng = np.random.default_rng(0)


def measurements(n_patients, n_each):
    traits = np.repeat(
        rng.standard_normal((n_patients, n_traits)), n_each, axis=0
    )
    dose = rng.standard_normal((n_patients * n_each, 1))
    level = np.repeat(rng.normal(0.0, 1.5, n_patients), n_each)
    X = np.hstack([traits, dose])
    return X, (rng.random(len(X)) < expit(X @ effects + level)).astype(int)


# %%
# Intervals should contain the coefficients that the model has in the limit of endless data. These
# coefficients describe a new patient, averaged over levels. We get them from a fit to very many
# patients.

target = LogisticRegression(C=np.inf).fit(*measurements(50_000, 4)).coef_[0]
print("coefficients for endless data:")
print("  " + ", ".join(f"{round(value, 2) + 0.0:.2f}" for value in target))

# %%
# The same study many times
# -------------------------
# For each simulated study and each temperature we record which 90 % intervals contain their
# coefficient, and the probabilities for new patients.

temperatures = np.array([0.25, 1.0, 4.0, 16.0])
n_studies = 40
X_new, y_new = measurements(1000, 1)
covered = np.empty((n_studies, len(temperatures), n_traits + 1))
ends = np.empty((n_studies, len(temperatures), n_traits + 1, 2))
proba = np.empty((n_studies, len(temperatures), len(y_new)))
for study in range(n_studies):
    X, y = measurements(30, 10)
    for k, temperature in enumerate(temperatures):
        model = BayesianLogisticRegressionPMD(
            temperature=temperature, n_particles=500, random_state=0
        ).fit(X, y)
        # Without the intercept.
        ends[study, k] = model.posterior_.interval(0.9)[:-1]
        proba[study, k] = model.predict_proba(X_new)[:, 1]
    low, high = np.moveaxis(ends[study], -1, 0)
    covered[study] = (low < target) & (target < high)

share = covered.mean(axis=0)
print("temperature   traits   dose   width   log loss   excess")
for k, temperature in enumerate(temperatures):
    sure = np.maximum(proba[:, k], 1.0 - proba[:, k])
    hit = np.where(proba[:, k] > 0.5, y_new, 1 - y_new)
    excess = sure.mean() - hit.mean()
    log_losses = [log_loss(y_new, one) for one in proba[:, k]]
    print(
        f"{temperature:11g}   {share[k, :-1].mean():6.2f}   "
        f"{share[k, -1]:4.2f}   "
        f"{np.diff(ends[:, k]).mean():5.2f}   "
        f"{np.mean(log_losses):8.3f}   {excess:+6.3f}"
    )

# %%
# The columns "traits" and "dose" are the shares of 90 % intervals that contain their coefficient,
# and "width" is the mean width of these intervals, over all coefficients. The column "excess" is
# the mean probability of the predicted class minus the share of predictions that are right: above
# zero the model is over-confident.
#
# At temperature one the intervals of the traits are far too narrow, and the intervals of the dose
# are about right: the level of a patient is the same at all doses, but adds to the effect of the
# traits. Below one both are too narrow, and predictions are a little worse. Above one predictions
# get better: the average over a wide posterior is more cautious, and the prior, whose power stays
# one, pulls coefficients towards zero. But all intervals get wider, including those of the dose. A
# temperature that gives the intervals of the traits the right coverage is wrong for the dose, and
# the model does not know which column is which. If you choose a temperature at all, choose it by
# predictions for held-out patients, and do not use its intervals. The better repair is a model that
# contains the levels of patients.
#
# The picture
# -----------
# Left: the share of 90 % intervals that contain their coefficient, of the traits and of the dose.
# Right: how often the predicted probability comes true for new patients. Temperature 4 is left out,
# and the curves of 0.25 and 1 nearly coincide.

plt.rcParams.update({"font.size": 14})
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 4.4), layout="constrained"
)

left.axhline(0.9, color="0.5", linestyle="--")
left.text(
    temperatures[-1], 0.875, "nominal", color="0.4", ha="right", va="top"
)
left.plot(
    temperatures,
    share[:, :-1].mean(axis=1),
    "o-",
    linewidth=3,
    markersize=9,
    label="traits",
)
left.plot(
    temperatures,
    share[:, -1],
    "s-",
    linewidth=3,
    markersize=9,
    label="dose",
)
left.set_xscale("log", base=2)
left.set(
    xticks=temperatures, xticklabels=[f"{one:g}" for one in temperatures]
)
left.set(
    xlabel="temperature",
    ylabel="share of intervals",
    title="90 % intervals: coverage",
)
left.set_ylim(0, 1.03)
left.legend(frameon=False, loc="lower right")

edges = np.linspace(0.0, 1.0, 9)
right.plot([0, 1], [0, 1], color="0.7", linewidth=1)
for k, colour, style in (
    (0, "C1", "s--"),
    (1, "0.5", "o-"),
    (3, "C0", "^-"),
):
    bins = np.digitize(proba[:, k], edges[1:-1])
    truth = np.broadcast_to(y_new, bins.shape)
    x = [
        proba[:, k][bins == b].mean()
        for b in range(len(edges) - 1)
        if (bins == b).any()
    ]
    observed = [
        truth[bins == b].mean()
        for b in range(len(edges) - 1)
        if (bins == b).any()
    ]
    look = {
        "color": colour,
        "linewidth": 2.5,
        "markersize": 8,
        "zorder": 4 if k == 0 else 3,
    }
    right.plot(x, observed, style, **look, label=f"{temperatures[k]:g}")
right.set(
    xlabel="predicted probability",
    ylabel="observed share",
    title="New patients",
)
right.set(xlim=(0, 1), ylim=(0, 1))
right.legend(frameon=False, loc="upper left", title="temperature")
plt.show()
