"""The order of the gallery: what a new reader needs comes first.

``conf.py`` names the function by its full name, not as an object, so that Sphinx can save the
configuration and leave examples that have not changed as they are.
"""

from pathlib import Path

ORDER = (
    # The first three are shown above all others.
    "groups",
    "claims",
    "quickstart",
    "custom_model",
    "sparse_gp",
    "gp_many_rows",
    "gp_approximations",
    "mixture",
    "partition",
    "lda",
    "text",
    "streams_and_priors",
    "drift",
    "posterior_as_prior",
    "decisions",
    "comparing_models",
    "tempered",
    "last_layer",
    "step_sizes",
    "pictures",
    # Recipes, in a gallery of their own.
    "ab_test",
    "odds_ratios",
    "ratings",
    "survival",
    "dose_response",
    "change_point",
    "robust_regression",
    "missing_values",
    "rare_events",
    "forecast",
    "optimisation",
)


def by_order(path):
    """Place of an example in the gallery: as in ``ORDER``, all others after these by name."""
    name = Path(path).stem.removeprefix("plot_")
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)
