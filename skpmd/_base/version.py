"""The version of skpmd, and the warning of estimators that another one has fitted."""

from sklearn.exceptions import InconsistentVersionWarning

__version__ = "0.1.0"


class OtherVersionWarning(InconsistentVersionWarning):
    """Warning of an estimator that another version of skpmd has saved than loads it."""

    def __str__(self):
        """What has happened, and what to do."""
        return (
            f"{self.estimator_name} was saved by skpmd {self.original_sklearn_version} and is "
            f"loaded by skpmd {self.current_sklearn_version}: its results may be wrong. Fit it "
            f"anew, or install skpmd {self.original_sklearn_version}."
        )


def other_version(name, saved_by):
    """That warning for an estimator of such a name."""
    return OtherVersionWarning(
        estimator_name=name,
        current_sklearn_version=__version__,
        original_sklearn_version=saved_by,
    )
