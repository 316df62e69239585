"""What the README says of four tasks beside others, and of warnings."""

import numpy as np

from ._rows import significant
from .results import honesty as all_of_honesty

PAGE = "README.md"
# Versions, settings and names.
ALLOWED = ("Python 3.11", "BSD 3-clause", "AISTATS 2016", "arXiv:1506.03101")


def logistic(rows):
    """NUTS's CPU for our error of means."""
    ratio = np.exp(np.mean([np.log(row["ratio"]) for row in rows if row["kind"] == "cost"]))
    yield f"as accurate as NUTS in 1/{significant(ratio)} of its CPU time (`logistic`)"


def groups(rows):
    """The same with effects of groups, to as many effective draws."""
    ratios = sorted(row["ratio"] for row in rows if row["kind"] == "cost")
    yield f"with groups in 1/{significant(ratios[0])} to 1/{significant(ratios[-1])} (`groups`)"


def paper_flights(rows):
    """Boosted trees within our CPU time."""
    (verdict,) = (row["verdict"] for row in rows
                  if (row["kind"], row.get("method")) == ("verdict", "trees"))  # fmt: skip
    assert verdict == "tied"
    yield "level with boosted trees, which have no distribution (`paper_flights`)"


def paper_lda(rows):
    """Perplexity of Wikipedia's articles."""
    own = [row for row in rows if row.get("data") == "wiki_vital" and row["kind"] == "verdict"]
    best = {}
    for row in own:
        name = row["method"].removesuffix(" average").removesuffix(" samples")
        best[name] = min(best.get(name, np.inf), row["theirs"] or np.inf)
    ours = max(own, key=lambda row: row["answered"])["ours"]
    yield (
        f"perplexity {ours:.0f}, SCVB0 {best['scvb0']:.0f}, tomotopy {best['tomotopy']:.0f} "
        "(`paper_lda`)"
    )


def paper_mixture(rows):
    """Our total variation beside that of exact draws."""
    (floor,) = (row["tv"] for row in rows if row["kind"] == "floor")
    whole = max((row for row in rows if row["kind"] == "verdict"), key=lambda row: row["answered"])
    assert whole["ours"] < floor
    yield f"as near as 1500 exact draws, in {significant(whole['cpu'])} s (`paper_mixture`)"


def honesty(rows):
    """Errors and warnings."""
    yield next(all_of_honesty(rows))


STUDIES = (logistic, groups, paper_flights, paper_lda, paper_mixture, honesty)
