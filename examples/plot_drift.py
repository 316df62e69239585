"""
A stream with drift: half-lives
===============================

A posterior that counts every row alike grows certain of an average over the past. Where the world
changes, this average is wrong, and more rows make it worse. With a ``half_life``, a stream of calls
of ``partial_fit`` discounts the past with each new row, and so follows the change. This example
scores both kinds of stream on rows that they have not learnt yet. While nothing changes, the scores
are level: forgetting then costs wider intervals, which the example shows too.
"""

# %%
# A stream that changes
# ---------------------
# Two columns, in different units, determine the class. For some time their coefficients stay as
# they are; then they change slowly: the first column loses its effect, and the second one gains it.
# The rows come in parts of fifty.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from skpmd import BayesianLogisticRegressionPMD
from skpmd.streams import StreamingPipeline, prequential_score

n_rows, size, start = 6000, 50, 2000
rng = np.random.default_rng(0)
Z = rng.standard_normal((n_rows, 2))
turn = np.linspace(0.0, 1.0, n_rows - start)
angle = np.pi / 2 * np.concatenate([np.zeros(start), turn])
slopes = 2.0 * np.column_stack([np.cos(angle), np.sin(angle)])
truth = expit((Z * slopes).sum(axis=1))
y = (rng.random(n_rows) < truth).astype(int)
X = [50.0, 8.0] + Z * [20.0, 0.5]
parts = [(X[k : k + size], y[k : k + size]) for k in range(0, n_rows, size)]

# %%
# Test, then learn
# ----------------
# ``prequential_score`` predicts each part from the parts before it, scores this prediction, and
# then learns the part, so that every row but those of the first part is a test row once.
# ``StreamingPipeline`` is a pipeline that takes parts: the scaler learns from the first rows and
# then stays as it is, so that columns mean the same to the classifier from there on. Warnings are
# collected, and counted after each part, to be read below.


def counted(parts, messages, counts):
    """The parts, and after each of them the number of warnings so far."""
    for part in parts:
        yield part
        counts.append(len(messages))


found, caught, counts = {}, {}, {}
for half_life in (None, 350):
    counts[half_life] = []
    classifier = BayesianLogisticRegressionPMD(
        half_life=half_life, n_particles=1000, random_state=0
    )
    steps = [("scale", StandardScaler()), ("classify", classifier)]
    model = StreamingPipeline(steps, freeze_after=500)
    with warnings.catch_warnings(record=True) as caught[half_life]:
        warnings.simplefilter("always", ConvergenceWarning)
        stream = counted(parts, caught[half_life], counts[half_life])
        found[half_life] = prequential_score(
            model,
            stream,
            "neg_log_loss",
            window=16,
            params={"classes": [0, 1]},
        )

# Rows seen after each part that was scored.
ends = size * np.arange(2, len(parts) + 1)
best = np.array(
    [log_loss(y[k - size : k], truth[k - size : k]) for k in ends]
)
steady = ends <= start
print("mean log loss                   before the drift   during it")
rows = {f"half_life={key}": -one.scores for key, one in found.items()}
for name, scores in (rows | {"true probabilities": best}).items():
    print(
        f"{name:<32}{scores[steady].mean():16.3f}   "
        f"{scores[~steady].mean():9.3f}"
    )

# %%
# While nothing changes, the two streams are level. Then the stream that counts all rows alike falls
# behind the true probabilities by more and more; the stream with a ``half_life`` stays near them.
#
# The stream notices
# ------------------
# New rows that contradict a narrow posterior move it to places where it has hardly any mass, and
# ``partial_fit`` warns that its means are no longer exact. Without drift there is no such
# contradiction, and with a half-life the posterior stays wide enough to move.

for half_life, so_far in counts.items():
    before = so_far[start // size - 1]
    after = so_far[-1] - before
    print(
        f"half_life={half_life}: {before} warnings before the drift, "
        f"{after} during it"
    )
for last in caught[None][-1:]:
    print(textwrap.fill(str(last.message), 70))

# %%
# How to choose ``half_life``
# ---------------------------
# With ``half_life=h`` a row has the weight ``0.5 ** (a / h)`` when ``a`` rows have come in later
# parts, so that the stream remembers about ``1.44 * h`` rows. This has a price: its intervals are
# as wide as with only so many rows. An ordinary fit of all rows with these weights as
# ``sample_weight`` has the posterior that the stream approximates. Choose ``h`` by the prequential
# score, among values for which you expect no change over so many rows. ``forgetting`` is another
# name of the same: the share ``1 - 0.5 ** (1 / h)`` of the past that each row discounts.

h = 350
stream = found[h].estimator
age = n_rows - size - np.arange(n_rows) // size * size
weighted = BayesianLogisticRegressionPMD(random_state=0)
weighted.fit(stream[0].transform(X), y, sample_weight=0.5 ** (age / h))
gap = (
    np.abs(stream[-1].coef_ - weighted.coef_).max()
    / weighted.coef_std_.min()
)
print(f"rows that count in the end: {(0.5 ** (age / h)).sum():.0f}")
print(
    "largest gap to the weighted fit: "
    f"{gap:.2f} standard deviations at most"
)
for key, one in found.items():
    std = ", ".join(
        f"{value:.2f}" for value in one.estimator[-1].coef_std_[0]
    )
    print(f"half_life={key}: posterior standard deviations {std}")

# %%
# The picture
# -----------
# The picture shows the mean log loss over the last sixteen parts, each scored before it was learnt.
# The black line is the log loss of the true probabilities, which no model can beat in the long run.

plt.rcParams.update({"font.size": 14})
figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
axes.axvspan(start, n_rows, color="0.93", zorder=0)
axes.text(
    0.97,
    0.04,
    "coefficients change",
    color="0.4",
    ha="right",
    transform=axes.transAxes,
)
colours = ("C1", "C0")
for colour, (key, one) in zip(colours, found.items(), strict=True):
    axes.plot(
        ends,
        -one.rolling,
        color=colour,
        linewidth=3,
        label=f"half_life={key}",
    )
window = [best[max(0, k - 15) : k + 1].mean() for k in range(len(best))]
axes.plot(ends, window, "k", linewidth=1.5, label="true probabilities")
axes.set(
    xlabel="rows seen",
    ylabel="mean log loss (nats)",
    xlim=(0, n_rows),
    ylim=(0.39, None),
)
axes.set_title("New rows of a stream with drift")
axes.legend(frameon=False, loc="upper left")
plt.show()
