"""Class labels of a classifier as codes, and the weights that classes bring."""

from contextlib import contextmanager

import numpy as np
from sklearn.utils import gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from skpmd._base.validation import WEIGHTS, checked_weights

_ROWS_AT_ONCE = 1 << 16


def encode(y):
    """Codes 0, 1, ... of the labels, float64, and the classes in sorted order."""
    with in_order("y", y):
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        some = list(gen_batches(len(y), _ROWS_AT_ONCE))  # All at once take several times as much.
        classes = np.unique(np.concatenate([np.unique(y[rows]) for rows in some]))
    if len(classes) < 2:
        raise ValueError(f"y must contain 2 classes or more; got one class only: {classes[0]}.")
    codes = np.empty(len(y))
    for rows in some:
        codes[rows] = np.searchsorted(classes, y[rows])
    return codes, classes


def encode_known(y, classes):
    """Codes of labels that must be among known classes; one class alone is fine."""
    with in_order("y", y):
        check_classification_targets(y)
    y = column_or_1d(y, warn=True)
    if len(classes) < 2:
        raise ValueError(f"classes must hold 2 labels or more, got {classes.tolist()}.")
    with in_order("y", y):
        unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise ValueError(f"y has the labels {unknown.tolist()}, which are not among the classes.")
    return np.searchsorted(classes, y).astype(np.float64)


@contextmanager
def in_order(name, labels):
    """Context that says which labels, an argument of that name, cannot be compared."""
    try:
        with np.errstate(all="ignore"):  # Labels may be numbers that no integer can hold.
            yield
    except TypeError as error:
        kinds = sorted(
            {type(label).__name__ for label in np.ravel(np.asarray(labels, dtype=object))}
        )
        raise TypeError(
            f"{name} has labels of the types {', '.join(kinds)}, which have no order: make all "
            "of them strings, or all of them numbers."
        ) from error


def row_weights(X, codes, classes, sample_weight, class_weight, all_classes):
    """Weights (n,) of the rows of X, by row and by class; None where neither is given.

    ``codes``, of shape (n,), are the classes of the rows, and ``classes``, (K,), the labels.
    ``sample_weight`` and ``class_weight`` are as the user gives them. With ``all_classes`` it is an
    error if ``sample_weight`` leaves a class without weight.
    """
    if sample_weight is None and class_weight is None:
        return None
    weight = checked_weights(sample_weight, X)
    if all_classes:
        _check_all_weighted(codes, weight, classes)
    if class_weight is None:
        return weight
    weight = weight * class_weights(class_weight, codes, classes, weight)
    if not weight.any():
        raise ValueError(f"class_weight={class_weight} leaves every row without weight.")
    if not WEIGHTS[0] <= weight.max() <= WEIGHTS[1]:
        raise ValueError(
            f"The largest weight of a row is {weight.max():g} with class_weight={class_weight}: it "
            f"must be between {WEIGHTS[0]:g} and {WEIGHTS[1]:g}."
        )
    return weight


def _check_all_weighted(codes, weight, classes):
    """Raise if the weights leave a class without any."""
    totals = np.bincount(codes.astype(int), weight, minlength=len(classes))
    if not totals.all():
        empty = classes.tolist()[np.flatnonzero(totals == 0.0)[0]]
        raise ValueError(
            f"sample_weight leaves class {empty!r} without any weight; a posterior needs rows of "
            "all classes."
        )


def class_weights(class_weight, codes, classes, weight):
    """Factors (n,) by which ``class_weight`` multiplies the weights of rows.

    It holds the weight of each label, 1 where a label is missing; ``"balanced"`` gives all classes
    the same total. Other arguments are as of `row_weights`.
    """
    codes = codes.astype(int)
    if class_weight == "balanced":
        totals = np.bincount(codes, weight, minlength=len(classes))
        return (weight.sum() / (len(classes) * totals))[codes]
    labels = classes.tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown:
        raise ValueError(f"class_weight names {unknown}, which are not among the classes {labels}.")
    try:
        factors = np.array([class_weight.get(label, 1.0) for label in labels], dtype=np.float64)
    except (TypeError, ValueError):
        factors = np.array([np.nan])
    if not (np.isfinite(factors) & (factors >= 0.0)).all():
        raise ValueError(
            f"class_weight must hold finite numbers that are not negative; got {class_weight}."
        )
    return factors[codes]
