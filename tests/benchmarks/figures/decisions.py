"""What the guide to decisions says of its study."""

PAGE = "docs/user_guide/decisions.rst"
ALLOWED = ("another examination costs 0.3 in either case",)


def decisions(rows):
    """Expected utility beside the most probable class and tuned thresholds."""
    half, tenth = ({r["method"]: r for r in rows if r["share"] == share} for share in (0.5, 0.1))
    others = [row for name, row in half.items() if name.endswith(("most probable", "tuned"))]
    same, better = (found["penalised, expected utility"] for found in (half, tenth))
    assert len(others) == 4 and all(row["ours_more"] > row["se"] for row in others)
    assert abs(same["ours_more"]) < same["se"] and better["ours_more"] < -2 * better["se"]
    yield (
        "decisions by the averaged probabilities gain more than the most probable class, around "
        "either kind of logistic regression, and than thresholds that "
        "``TunedThresholdClassifierCV`` chooses by the same utility around ours"
    )
    yield "it is as good there, and with a tenth of the rows it is better"


STUDIES = (decisions,)
