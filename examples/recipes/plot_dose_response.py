"""
Dose and response: the EC50 of a drug
=====================================

.. index:: dose response, EC50, IC50, Hill curve, four-parameter logistic, sigmoid curve
   single: nonlinear regression

"At which dose does the drug have half of its effect, how steep is the curve, and how sure is that
after thirty wells?"
"""

# %%
# Thirty wells are generated, three at each of ten doses: the share of cells alive, in per cent of
# wells without the drug. Half of the effect is at 1.7 µM.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

from skpmd import ParticleMirrorDescent

rng = np.random.default_rng(2)
wells = pd.DataFrame({"dose": np.repeat(np.geomspace(0.01, 300.0, 10), 3)})
alive = (
    5 + 90 / (1 + (wells.dose / 1.7) ** 1.4) + 6 * rng.standard_normal(30)
)

# %%
# The model is the Hill curve with normal errors. The function says how the share is distributed
# in each well: particles have rows, which ``[:, None]`` makes, and wells have columns. The prior
# of the EC50 is that it is between 0.02 and 60 µM, with a probability of 90 %.

prior = {
    "top": stats.norm(100, 20),
    "bottom": stats.norm(0, 20),
    "ec50": stats.lognorm(2.4),
    "hill": stats.lognorm(0.7),
    "sd": stats.halfnorm(scale=20),
}


def hill_curve(theta, X):
    top, bottom, ec50, hill, sd = (theta[name][:, None] for name in prior)
    return stats.norm(
        bottom
        + (top - bottom) / (1 + (X["dose"].to_numpy() / ec50) ** hill),
        sd,
    )


model = ParticleMirrorDescent(
    distribution=hill_curve, prior=prior, random_state=0
)
posterior = model.fit(wells, alive).posterior_
table = pd.DataFrame(posterior.summary(level=0.9)).set_index("name")
print(
    table[["mean", "lower", "upper"]]
    .assign(truth=[95.0, 5.0, 1.7, 1.4, 6.0])
    .round(2)
)

# %%
# Any function of the parameters has an interval, too, such as the dose of nine tenths of the
# effect:

ec90 = posterior.derive(
    lambda theta: theta["ec50"] * 9 ** (1 / theta["hill"])
)
print(
    "EC90: {:.1f} to {:.1f} µM (90 % interval)".format(
        *ec90.interval(level=0.9)
    )
)

# %%
# The picture: bands of 90 % for the curve, and for a new well.

grid = pd.DataFrame({"dose": np.geomspace(0.005, 600.0, 121)})
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for target, alpha, name in (
    ("y", 0.15, "a new well"),
    ("mean", 0.4, "the curve"),
):
    band = model.predict_interval(grid, level=0.9, target=target)
    ax.fill_between(
        grid.dose, *band.T, color="C0", alpha=alpha, linewidth=0, label=name
    )
ax.plot(wells.dose, alive, "k.", label="wells")
low, high = posterior["ec50"].interval(level=0.9)
ax.axvspan(low, high, color="C1", alpha=0.4, linewidth=0, label="EC50")
ax.set(
    xscale="log",
    xlabel="dose (µM)",
    ylabel="cells alive (%)",
    xlim=(0.005, 600),
)
ax.legend(frameon=False)

# %%
# **How far to trust it.** ``check()`` has no objection. Where the doses end before the curve is
# flat, top or bottom rest on their priors, and the EC50 with them: compare the prior's interval
# with the posterior's.

print(
    "objections:",
    posterior.check(),
    f"effective draws: {posterior.ess:.0f}",
)

# %%
# **When to use something else.** Counts of cells that died, of so many, with a line in the log
# dose are ``BayesianGLMRegressorPMD("binomial", trials="n")``. Fifty drugs with curves that are
# alike are a hierarchy for PyMC or Stan. More models of your own: :doc:`/user_guide/custom`.
