"""
Schools: which are better, and how sure is that?
================================================

.. index:: hierarchical model, multilevel model, mixed model, random effects, partial pooling
   single: eight schools
   single: league table; schools, hospitals
   single: shrinkage; of groups

"Some schools have two pupils in my table, and others sixty. Which schools do well, given the
hours that their pupils work, and how are pupils of a school doing that I have not seen?"
"""

# %%
# Whether a pupil passes depends on hours of work, on an effect of the school, and on nothing
# else. The true effects are known here, for the rows are generated.

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
passed = (
    rng.random(len(school)) < expit(0.4 * hours - 1.5 + effect[school])
).astype(float)
X = pd.DataFrame(
    {"hours": hours, "school": [f"{j}: {sizes[j]} pupils" for j in school]}
)

# %%
# ``groups`` gives each school an effect of its own, from a population whose spread is learned:
# schools of few pupils are drawn to the typical one.

model = BayesianGLMRegressorPMD(
    "binomial", groups=["school"], random_state=0
).fit(X, passed)
low, high = model.posterior_["sd[school]"].interval(0.9)
print(f"sd of schools, in log odds: {low:.2f} to {high:.2f}, and truly 0.8")
effects = model.group_effects_
found = (
    pd.DataFrame(effects.summary(0.9))
    .set_index("group")
    .sort_values("mean")
)
print(found[["mean", "lower", "upper", "p_largest"]].tail(3).round(2))

# %%
# Shares of pupils who passed are further apart than the schools are, and the smallest schools are
# at both ends. Effects are nearer to the truth than shares:

names = [f"{j}: {sizes[j]} pupils" for j in range(30)]
share = pd.Series(passed).groupby(X.school).mean()
logit = np.log((share + 0.05) / (1.05 - share))
for what, one in (
    ("effects", found["mean"]),
    ("shares", logit - logit.mean()),
):
    print(
        f"{what}: root mean square error "
        f"{np.sqrt(np.mean((one[names] - effect) ** 2)):.2f}"
    )

# %%
# A school that was not in the fit has an effect from the population, over which predictions
# average.

new = pd.DataFrame({"hours": [2.0, 5.0, 8.0], "school": "another"})
print(
    "probability to pass after 2, 5 and 8 hours:",
    model.predict(new).round(2),
)

# %%
# The picture: intervals of small schools are wide, and their means are near the dashed line.

display = GroupEffectsDisplay.from_estimator(model)
known = [effect[int(name.split(":")[0])] for name in display.names]
display.ax_.plot(
    known, range(30), "x", color="#D55E00", label="true effect"
)
_ = display.ax_.legend(loc="lower right", frameon=False)

# %%
# **How far to trust it.** ``check()`` has no objection. Leaving out a school at a time says how
# well pupils of new schools are predicted, and leaving out single pupils, how well those of known
# ones are:

print(
    "objections:",
    model.posterior_.check(),
    f"effective draws: {model.posterior_.ess:.0f}",
)
print("new schools  ", loo(model, X, passed, by="school"))
print("known schools", loo(model, X, passed))

# %%
# **When to use something else.** Where there are estimates with known standard errors in place of
# pupils, as of the eight schools of Rubin (1981), write the model in PyMC or Stan. More than
# three slopes that differ between schools are for these, too. All about groups:
# :doc:`/user_guide/groups`.
