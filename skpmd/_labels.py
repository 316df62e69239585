"""Class labels of a classifier: which there are, and as the signs that the model wants."""

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target


def encode_binary(y):
    """Signs -1.0 and +1.0 for the two classes in y, and the classes in sorted order."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y")
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    classes, code = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must contain 2 classes; got one class only: {classes[0]}.")
    return 2.0 * code - 1.0, classes


def encode_known(y, classes):
    """Signs for labels that must be among two known classes; one class alone is fine."""
    check_classification_targets(y)
    if len(classes) != 2:
        raise ValueError(f"Only binary classification is supported; got {len(classes)} classes.")
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise ValueError(f"y has the labels {unknown.tolist()}, which are not among the classes.")
    return np.where(y == classes[1], 1.0, -1.0)


def check_both_weighted(sign, weight):
    """Raise if the weights leave one of two classes without any."""
    if not (weight[sign > 0].any() and weight[sign < 0].any()):
        raise ValueError(
            "sample_weight leaves one class without any weight; a posterior needs both classes."
        )
