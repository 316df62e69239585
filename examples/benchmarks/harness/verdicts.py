"""Who is ahead at equal CPU time: curves of several methods, and a verdict on each.

A curve is a method's answers in the order of their CPU seconds. A method's answer at a budget is
its best up to it, over all settings that it was run with: more than a user could know.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from .study import Gate

SHARE, LARGEST_LOSS = 0.8, 0.2
LEVEL = 0.9  # of the intervals of paired differences
NO_ANSWER = "no answer in time"


class Answer(NamedTuple):
    """One point of a curve: CPU seconds so far and the main metric, which is better when lower."""

    cpu: float
    value: float


def best(curve, budget):
    """Return the lowest value up to a budget of CPU seconds, nan where there is no answer yet."""
    values = [value for cpu, value in curve if cpu <= budget and np.isfinite(value)]
    return min(values, default=np.nan)


def verdicts(ours, others, long=10.0, test_share=0.0):
    """Compare ours with every other method; return one row for each of them.

    Parameters
    ----------
    ours : dict of Answer
        By seed: the end of our fit with its defaults.
    others : dict of dict of list of Answer
        By method and seed: its curve.
    long : float
        Times our CPU seconds that the columns ``…_long`` allow to the other.
    test_share : float
        Where seeds are random splits of one table: test rows per row to learn from. Their answers
        are not independent, since the splits share rows, and intervals are wider for it (Nadeau and
        Bengio 2003).

    Returns
    -------
    list of dict
        Seeds are data or splits that both share. ``answered`` counts those with an answer in time,
        ``answered_long`` those with one in the longer time. ``ours`` and ``theirs`` are means over
        the seeds answered in time, ``theirs_long`` over those of the longer time. ``gap`` is the
        mean of ours less theirs, ``half_width`` that of its 90 % interval by Student's t (n - 1
        degrees of freedom). ``verdict`` is "ahead" or "behind" where that interval leaves out zero,
        and else "tied", which is no win; with a single seed answered there is no interval, and it
        is "tied" too. Where there is no answer in time it is "no answer in time", which is no win
        either. ``verdict_long`` is the same with the longer time for the other. ``loss`` is by how
        much our mean is larger, as a share of theirs; 0 where it is not.
    """
    rows = []
    for method, curves in others.items():
        seeds = sorted(set(ours) & set(curves))
        own = np.array([ours[seed].value for seed in seeds])
        cpu = np.array([ours[seed].cpu for seed in seeds])
        equal, more = (
            np.array([best(curves[seed], times * ours[seed].cpu) for seed in seeds])
            for times in (1.0, long)
        )
        known, known_long = np.isfinite(equal), np.isfinite(more)
        late = _judged(own[known_long], more[known_long], test_share)
        rows.append(
            {
                "kind": "verdict",
                "method": method,
                "seeds": len(seeds),
                "answered": int(known.sum()),
                "cpu": _mean(cpu),
                "ours": _mean(own[known]) if known.any() else _mean(own),
                **_judged(own[known], equal[known], test_share),
                "answered_long": int(known_long.sum()),
                "theirs_long": late["theirs"],
                "verdict_long": late["verdict"],
            }
        )
    return rows


def _judged(own, theirs, test_share):
    """The columns that compare answers of the same seeds; a number of ours that is none loses."""
    none = {"theirs": _mean(theirs), "gap": None, "half_width": None}
    if not len(theirs):
        return {**none, "verdict": NO_ANSWER, "loss": 0.0}
    if not np.isfinite(own).all():
        return {**none, "verdict": "behind", "loss": float("inf")}
    gap, half_width = interval(own - theirs, test_share)
    is_tie = half_width is None or abs(gap) <= half_width
    verdict = "tied" if is_tie else "behind" if gap > 0.0 else "ahead"
    loss = max(0.0, float(gap / theirs.mean()))
    return {**none, "gap": gap, "half_width": half_width, "verdict": verdict, "loss": loss}


def interval(differences, test_share=0.0):
    """Mean of paired differences and half the width of its interval; None for a single one.

    ``test_share`` as for `verdicts`.
    """
    n, mean = len(differences), float(np.mean(differences))
    if n < 2:
        return mean, None
    error = np.std(differences, ddof=1) * np.sqrt(1.0 / n + test_share)
    return mean, float(stdtrit(n - 1, 0.5 + LEVEL / 2.0) * error)


def _mean(values):
    return float(values.mean()) if len(values) else None


def verdict_gates(rows, label=""):
    """Of the methods that answer in time few are ahead of ours, and none far."""
    found = [row for row in rows if row["kind"] == "verdict" and row["verdict"] != NO_ANSWER]
    level = [row["verdict"] != "behind" for row in found]
    return [
        Gate(
            f"{label}share of methods with an answer in time not ahead of ours",
            np.mean(level or [False]),
            SHARE,
            ">=",
        ),
        Gate(
            f"{label}largest loss", max((row["loss"] for row in found), default=0.0), LARGEST_LOSS
        ),
    ]
