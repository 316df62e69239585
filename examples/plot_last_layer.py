"""
Last-layer Bayes: digits that were never seen
=============================================

A neural network gives a probability to one of its classes even where none of them is right. Its
last layer is a logistic regression on the features of the hidden layer, and that part can be
Bayesian: fix the features, and put ``BayesianLogisticRegressionPMD`` on them. Averages over the
posterior are less certain of images of digits that were not in training. They help, but do not make
the network know everything that it has never seen, and this example shows both.
"""

# %%
# A network for seven of ten digits
# ---------------------------------
# Training images are of the digits 0 to 6. Those of 7, 8 and 9 are held back: they are out of
# distribution, and no class is right for them.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skpmd import BayesianLogisticRegressionPMD

images, digits = load_digits(return_X_y=True)
images = images / 16.0
known = digits < 7
X_train, X_test, y_train, y_test = train_test_split(
    images[known], digits[known], train_size=500, stratify=digits[known], random_state=0
)
unseen = images[~known]
network = MLPClassifier((16,), max_iter=2000, random_state=0).fit(X_train, y_train)

# %%
# The posterior of the last layer
# -------------------------------
# The hidden layer becomes a transformer. Everything after it is a pipeline as for any table.
# ``LogisticRegression`` on the same features is the mode of the same posterior: between it and the
# Bayesian one nothing differs but the average over the posterior.


def hidden_layer(X):
    return np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0.0)


features = make_pipeline(FunctionTransformer(hidden_layer), StandardScaler())
bayes = make_pipeline(features, BayesianLogisticRegressionPMD(random_state=0))
mode = make_pipeline(features, LogisticRegression(C=1.0, max_iter=1000))
models = {"network": network, "mode": mode, "posterior average": bayes}
seen_proba, unseen_proba = {}, {}
for name, model in models.items():
    if name != "network":
        model.fit(X_train, y_train)
    seen_proba[name] = model.predict_proba(X_test)
    unseen_proba[name] = model.predict_proba(unseen)
print("inference method:", bayes[-1].diagnostics_["method"])

# %%
# On digits that were in training the three are right about as often, and the average is a little
# less sure of them. The last two columns are the share of images of either kind to which a model
# gives a class with a probability above 0.9. For unseen digits any such answer is wrong.


def share(proba):
    return (proba.max(axis=1) > 0.9).mean()


print("                    accuracy   log loss   sure of seen   sure of unseen")
for name in models:
    seen, other = seen_proba[name], unseen_proba[name]
    accuracy = (seen.argmax(axis=1) == y_test).mean()
    print(
        f"{name:<20}{accuracy:8.3f}   {log_loss(y_test, seen):8.3f}   "
        f"{share(seen):12.3f}   {share(other):14.3f}"
    )

# %%
# Does uncertainty find the unseen digits?
# ----------------------------------------
# The area under the ROC curve is the probability that an unseen digit looks more uncertain than a
# seen one. ``predict_uncertainty`` divides the entropy of a prediction: the epistemic part is what
# the posterior leaves open, and what more rows would remove; the aleatoric part would stay.

is_unseen = np.repeat([0, 1], [len(X_test), len(unseen)])
for name in models:
    both = np.concatenate([seen_proba[name], unseen_proba[name]])
    print(f"AUC, largest probability, {name:<20}{roc_auc_score(is_unseen, -both.max(axis=1)):.3f}")
uncertainty = bayes[-1].predict_uncertainty(features.transform(np.vstack([X_test, unseen])))
for kind in ("total", "epistemic"):
    value = getattr(uncertainty, kind)
    means = value[is_unseen == 0].mean(), value[is_unseen == 1].mean()
    print(
        f"AUC, {kind + ' uncertainty':<40} {roc_auc_score(is_unseen, value):.3f}"
        f"   mean of seen {means[0]:.2f} nats, of unseen {means[1]:.2f}"
    )

# %%
# The limits
# ----------
# These are the unseen digits of which the average is most certain, with the class it gives them
# and its probability, and below those about which it is most in doubt. The features were learnt to
# tell 0 to 6 apart: an image that the hidden layer turns into the features of a 1 is a 1 to all
# that follows, whatever the last layer does.

order = np.argsort(-unseen_proba["posterior average"].max(axis=1))
figure, axes = plt.subplots(2, 6, figsize=(9, 3.8), layout="constrained")
for axis, k in zip(axes.flat, np.concatenate([order[:6], order[-6:]]), strict=True):
    proba = unseen_proba["posterior average"][k]
    axis.imshow(unseen[k].reshape(8, 8), cmap="gray_r")
    axis.set_title(f"{proba.argmax()}: {proba.max():.2f}")
    axis.axis("off")

# %%
# The picture
# -----------
# The share of images whose largest probability is above a threshold. On digits of the training the
# two curves should stay high to the right end, on unseen ones they should fall early.

# sphinx_gallery_thumbnail_number = 2
plt.rcParams.update({"font.size": 14})
figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
thresholds = np.linspace(0.2, 1.0, 200)
for name, colour in (("network", "C1"), ("posterior average", "C0")):
    for proba, style in ((seen_proba, "-"), (unseen_proba, "--")):
        above = (proba[name].max(axis=1)[:, None] > thresholds).mean(axis=0)
        label = name if style == "-" else None
        axes.plot(thresholds, above, style, color=colour, linewidth=3, label=label)
axes.text(0.82, 0.99, "digits 0 to 6", ha="right", va="bottom")
axes.text(0.37, 0.62, "never seen:\n7, 8, 9", ha="right", va="center")
axes.set(xlabel="largest probability above", ylabel="share of images")
axes.set(xlim=(0.2, 1.0), ylim=(0.0, 1.07), title="How sure of a class")
axes.legend(frameon=False, loc="lower left")
plt.show()
