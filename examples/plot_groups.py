"""
Schools: effects of groups
==========================

Pupils of one school are alike for reasons that no column has. An effect for each school, from a
population whose spread is learned, is between one line for all schools and a line for each: schools
of few pupils are drawn to the others. This example fits such a model to schools of very different
size, draws a caterpillar of their effects, and asks how good predictions of new schools are.
"""

# %%
# Schools of 2 to 60 pupils
# -------------------------
# Whether a pupil passes depends on hours of work, on an effect of the school, and on nothing else.
# The true effects are known here, for the rows are simulated.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit

from skpmd import BayesianGLMRegressorPMD
from skpmd.model_comparison import loo
from skpmd.plot import GroupEffectsDisplay

rng = np.random.default_rng(3)
sizes = np.geomspace(2, 60, 30).round().astype(int)
effect = rng.normal(0.0, 0.8, 30)
school = np.repeat(np.arange(30), sizes)
hours = rng.uniform(0.0, 10.0, len(school))
passed = (rng.random(len(school)) < expit(0.4 * hours - 1.5 + effect[school])).astype(float)
X = pd.DataFrame({"hours": hours, "school": [f"{j}: {sizes[j]} pupils" for j in school]})

# %%
# Effects with intervals
# ----------------------
# The labels have the numbers of pupils. Intervals of small schools are wide, and their means are
# near the dashed line, the typical school, however all of their pupils did.

model = BayesianGLMRegressorPMD("binomial", groups=["school"], random_state=0).fit(X, passed)
display = GroupEffectsDisplay.from_estimator(model)
known = [effect[int(name.split(":")[0])] for name in display.names]
display.ax_.plot(known, range(30), "x", color="#D55E00", label="true effect")
_ = display.ax_.legend(loc="lower right", frameon=False)

# %%
# Shares of pupils that passed, one school at a time, are further apart than the effects are: the
# smallest schools are at both ends. Means of effects do better than differences of shares do.

found = pd.Series(model.group_effects_.mean[:, 0], model.group_effects_.labels)
names = [f"{j}: {sizes[j]} pupils" for j in range(30)]
share = pd.Series(passed).groupby(X["school"]).mean()
logits = np.log((share + 0.05) / (1.05 - share))
for what, one in (("effects", found), ("shares", logits - logits.mean())):
    print(f"{what:8} root mean square error {np.sqrt(np.mean((one[names] - effect) ** 2)):.2f}")

# %%
# New schools
# -----------
# A school that was not in the fit has an effect from the population, over which predictions
# average: they are nearer to one half than those of the typical school.

new = pd.DataFrame({"hours": [2.0, 5.0, 8.0], "school": ["another"] * 3})
print(model.predict(new).round(2), model.set_params(groups_at="population").predict(new).round(2))
model.set_params(groups_at="own")

# %%
# Leaving out one school at a time tells how well pupils of new schools are predicted, and leaving
# out single pupils how well those of known ones are. Without groups there is no difference between
# the two, and pupils of known schools are predicted worse.

pooled = BayesianGLMRegressorPMD("binomial", random_state=0).fit(X[["hours"]], passed)
print("new schools  ", loo(model, X, passed, by="school"))
print("known schools", loo(model, X, passed))
print("no groups    ", loo(pooled, X[["hours"]], passed))

plt.show()
