"""
Last-layer Bayes: digits that were never seen
=============================================

A neural network divides all probability among its classes, even where none of them is right. Its
last layer is a logistic regression on the features of the hidden layer, and can be Bayesian: fix
the features, and fit ``BayesianLogisticRegressionPMD`` to them. Averages over the posterior are
less certain about images of digits that were not in training. They help, but the network still does
not recognise every image of an unseen digit as new. This example shows both.
"""

# %%
# A network for seven of ten digits
# ---------------------------------
# The training images show the digits 0 to 6. The images of 7, 8 and 9 are held back: they are out
# of distribution, and no class is right for them.

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
    images[known],
    digits[known],
    train_size=500,
    stratify=digits[known],
    random_state=0,
)
unseen = images[~known]
network = MLPClassifier((16,), max_iter=2000, random_state=0).fit(
    X_train, y_train
)

# %%
# The posterior of the last layer
# -------------------------------
# The hidden layer becomes a transformer. Everything after it is a pipeline as for any table.
# ``LogisticRegression`` on the same features is the mode of the same posterior: the Bayesian model
# differs from it only in that it averages over the posterior.


def hidden_layer(X):
    return np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0.0)


features = make_pipeline(
    FunctionTransformer(hidden_layer), StandardScaler()
)
bayes = make_pipeline(
    features, BayesianLogisticRegressionPMD(random_state=0)
)
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
# On digits that were in training the three models are right about equally often, and the posterior
# average is a little less sure of them. The last two columns are the shares of seen and of unseen
# digits for which a model gives some class a probability above 0.9. For unseen digits any such
# answer is wrong.


def share(proba):
    return (proba.max(axis=1) > 0.9).mean()


print(
    "                    accuracy   log loss   "
    "sure of seen   sure of unseen"
)
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
# seen one. ``predict_uncertainty`` splits the entropy of a prediction into two parts: the epistemic
# part comes from the width of the posterior, and more rows would remove it; the aleatoric part
# would stay.

is_unseen = np.repeat([0, 1], [len(X_test), len(unseen)])
print("largest probability       AUC")
for name in models:
    both = np.concatenate([seen_proba[name], unseen_proba[name]])
    print(f"{name:<24}{roc_auc_score(is_unseen, -both.max(axis=1)):.3f}")
uncertainty = bayes[-1].predict_uncertainty(
    features.transform(np.vstack([X_test, unseen]))
)
print("\nuncertainty (nats)        AUC   mean of seen   mean of unseen")
for kind in ("total", "epistemic"):
    value = getattr(uncertainty, kind)
    means = value[is_unseen == 0].mean(), value[is_unseen == 1].mean()
    print(
        f"{kind:<24}{roc_auc_score(is_unseen, value):.3f}"
        f"{means[0]:15.2f}{means[1]:17.2f}"
    )

# %%
# The limits
# ----------
# The upper row shows the unseen digits of which the posterior average is most certain, each with
# the true digit, the most probable class, and the probability of this class. The lower row shows
# the unseen digits of which it is least certain. The features were learnt to distinguish 0 to 6: if
# the hidden layer turns an image into the features of a 1, any last layer takes it for a 1.

order = np.argsort(-unseen_proba["posterior average"].max(axis=1))
true_digits = digits[~known]
plt.rcParams.update({"font.size": 14})
figure, axes = plt.subplots(2, 6, figsize=(9, 4.4), layout="constrained")
for axis, k in zip(
    axes.flat, np.concatenate([order[:6], order[-6:]]), strict=True
):
    proba = unseen_proba["posterior average"][k]
    axis.imshow(unseen[k].reshape(8, 8), cmap="gray_r")
    axis.set_title(
        f"{true_digits[k]} as {proba.argmax()}\n{proba.max():.2f}"
    )
    axis.set(xticks=[], yticks=[])

# %%
# The picture
# -----------
# The picture shows the share of images whose largest probability is above a threshold. For the
# digits 0 to 6 the two curves should stay high up to the right end; for unseen digits they should
# fall early.

# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(figsize=(7.5, 5), layout="constrained")
thresholds = np.linspace(0.2, 1.0, 200)
for name, colour in (("network", "C1"), ("posterior average", "C0")):
    for proba, style in ((seen_proba, "-"), (unseen_proba, "--")):
        above = (proba[name].max(axis=1)[:, None] > thresholds).mean(axis=0)
        label = name if style == "-" else None
        axes.plot(
            thresholds, above, style, color=colour, linewidth=3, label=label
        )
axes.text(0.82, 0.99, "digits 0 to 6", ha="right", va="bottom")
axes.text(0.37, 0.62, "never seen:\n7, 8, 9", ha="right", va="center")
axes.set(xlabel="threshold", ylabel="share of images above it")
axes.set(
    xlim=(0.2, 1.0),
    ylim=(0.0, 1.07),
    title="Largest probability of a class",
)
axes.legend(frameon=False, loc="lower left")
plt.show()
