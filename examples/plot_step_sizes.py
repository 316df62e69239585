"""
Step sizes of the published algorithm
=====================================

Particle mirror descent as published starts from the prior and takes stochastic steps on batches of
rows. How long should these steps be? We choose a step size by ``GridSearchCV``, like any other
parameter, and see how the choice changes probabilities and posterior means. Importance reweighting
on all rows, which the estimators do by default, then makes the choice immaterial, and the effective
sample size says for which step sizes this holds.
"""

# %%
# Data
# ----
# We take ten of the thirty columns of the breast-cancer data, so that draws from the prior have a
# chance of being near the posterior.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD

data = load_breast_cancer()
X, _, y, _ = train_test_split(
    data.data[:, :10],
    data.target,
    test_size=0.5,
    stratify=data.target,
    random_state=0,
)

# %%
# Step sizes, chosen by cross-validation
# --------------------------------------
# With ``proposal="prior"`` the particles start from the prior. The fit passes once over all rows,
# twenty at a time; ``step_size`` is a factor in the weight of each batch, which decreases from
# batch to batch. With ``reweight=False`` the result is the last iterate. With ``reweight=True``,
# the default, particles are drawn from the kernel density estimate of the last iterate and weighted
# by Bayes' rule on all rows. The search tries both.

STEP_SIZES = [0.03, 0.3, 1.0, 3.0, 10.0]


def stochastic_model(**parameters):
    """Standardise, then take stochastic steps from the prior."""
    classifier = BayesianLogisticRegressionPMD(
        proposal="prior",
        batch_size=20,
        max_iter=1,
        random_state=0,
        **parameters,
    )
    return make_pipeline(StandardScaler(), classifier)


name = "bayesianlogisticregressionpmd"
search = GridSearchCV(
    stochastic_model(n_particles=500),
    {f"{name}__reweight": [False, True], f"{name}__step_size": STEP_SIZES},
    scoring="neg_log_loss",
    cv=StratifiedKFold(3, shuffle=True, random_state=0),
    refit=False,
).fit(X, y)
log_loss = -search.cv_results_["mean_test_score"].reshape(2, -1)

print("log loss, 3-fold")
print("step size   without reweighting   with reweighting")
for size, before, after in zip(STEP_SIZES, *log_loss, strict=True):
    print(f"{size:9g}   {before:19.4f}   {after:16.4f}")

# %%
# Without reweighting, the step size determines how well the particles predict. With reweighting,
# the losses differ by Monte Carlo error only, and none is far above the lowest loss of the table.
#
# Posterior means
# ---------------
# A classifier may predict well from particles that do not represent the posterior. So we fit all
# rows and compare the posterior means of the ten coefficients with those of the default estimator,
# which takes no stochastic steps at all. The effective sample size (ESS) says how many draws of
# equal weight the weighted particles are worth.

default = make_pipeline(
    StandardScaler(), BayesianLogisticRegressionPMD(random_state=0)
)
default = default.fit(X, y)[-1]

print("largest distance from a default mean, in standard deviations")
print(
    "step size   without reweighting   with "
    "reweighting   ESS   Pareto k-hat"
)
means, stds = np.empty((2, 2, len(STEP_SIZES), 10))
for i, size in enumerate(STEP_SIZES):
    for reweight in (0, 1):
        model = stochastic_model(
            n_particles=1000, reweight=bool(reweight), step_size=size
        )
        classifier = model.fit(X, y)[-1]
        means[reweight, i] = classifier.coef_[0]
        stds[reweight, i] = classifier.coef_std_[0]
    before, after = np.abs(
        (means[:, i] - default.coef_) / default.coef_std_
    ).max(axis=1)
    posterior = classifier.posterior_  # with reweighting
    print(
        f"{size:9g}   {before:19.2f}   {after:16.2f}   "
        f"{posterior.ess:3.0f}   "
        f"{posterior.pareto_k:12.2f}"
    )

# %%
# Without reweighting no step size is right. With the step size of the lowest log loss, a mean is
# off by a good part of a posterior standard deviation, and by more than one at 0.03, 0.3 and 10.
# Reweighted means agree with the default fit for all step sizes.
#
# Why reweighting makes the choice immaterial
# -------------------------------------------
# The last rejuvenation draws each particle :math:`\theta` from a density :math:`\pi` that is known,
# and the weight of the particle is set to
#
# .. math:: w \propto \frac{p(\theta) \prod_n p(y_n \mid x_n, \theta)}{\pi(\theta)} .
#
# The step size changes :math:`\pi`, but the weighted average estimates the same posterior mean for
# any :math:`\pi`, and only its Monte Carlo error differs. The stochastic steps merely bring
# particles near the posterior. Reweighting fails where they do not come near it: then few particles
# carry all of the weight, which ESS and Pareto k-hat measure, and ``fit`` warns.
#
# The picture
# -----------
# The picture shows the mean of one coefficient, and a standard deviation to either side. The line
# and the grey band are the mean and the standard deviation of the default fit.

column = 1
mean, std = default.coef_[0, column], default.coef_std_[0, column]

with plt.rc_context({"font.size": 15}):
    figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
    ax.axhspan(mean - std, mean + std, color="0.88", label="default fit")
    ax.axhline(mean, color="0.6")
    for reweight, shift, marker, label in (
        (0, 0.93, "s", "without reweighting"),
        (1, 1.07, "o", "with reweighting"),
    ):
        sizes = shift * np.array(STEP_SIZES)
        options = {
            "fmt": marker,
            "markersize": 10,
            "linewidth": 3,
            "color": f"C{1 - reweight}",
        }
        options["label"] = label
        ax.errorbar(
            sizes,
            means[reweight, :, column],
            yerr=stds[reweight, :, column],
            **options,
        )
    ax.set_xscale("log")
    ax.set_xticks(STEP_SIZES, [f"{size:g}" for size in STEP_SIZES])
    ax.minorticks_off()
    ax.set(
        title="Reweighting makes the step size immaterial",
        xlabel="step_size",
    )
    ax.set_ylabel(f"coefficient of {data.feature_names[column]}")
    ax.legend(frameon=False)
