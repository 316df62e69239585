"""Who is ahead at equal CPU time: curves of several methods, and a verdict on each.

A curve is a method's answers in the order of their CPU seconds. A method's answer at a budget is
its best up to it, over all settings that it was run with: more than a user could know.
"""

from typing import NamedTuple

import numpy as np

from .study import Gate

SHARE, LARGEST_LOSS = 0.8, 0.2


class Answer(NamedTuple):
    """One point of a curve: CPU seconds so far and the main metric, which is better when lower."""

    cpu: float
    value: float


def best(curve, budget):
    """Return the lowest value up to a budget of CPU seconds, nan where there is no answer yet."""
    values = [value for cpu, value in curve if cpu <= budget and np.isfinite(value)]
    return min(values, default=np.nan)


def verdicts(ours, others, long=10.0):
    """Compare ours with every other method; return one row for each of them.

    Parameters
    ----------
    ours : dict of Answer
        By seed: the end of our fit with its defaults.
    others : dict of dict of list of Answer
        By method and seed: its curve.
    long : float
        Times our CPU seconds that ``theirs_long`` allows.

    Returns
    -------
    list of dict
        ``answered`` counts the seeds with an answer in time; ``ours`` and ``theirs`` are means over
        those, ``theirs_long`` over the seeds with one in the longer time. ``spread`` is the
        standard deviation over seeds of ours less theirs: seeds are data or splits, which both
        share. ``verdict`` is "ahead" or "behind" where the mean difference is larger than that,
        else "tied"; "ahead" where there is no answer in time. ``loss`` is by how much our mean is
        larger, as a share of theirs; 0 where it is not.
    """
    rows = []
    for method, curves in others.items():
        seeds = sorted(set(ours) & set(curves))
        equal = {seed: best(curves[seed], ours[seed].cpu) for seed in seeds}
        known = [seed for seed in seeds if np.isfinite(equal[seed])]
        own = np.array([ours[seed].value for seed in known or seeds])
        more = np.array([best(curves[seed], long * ours[seed].cpu) for seed in seeds])
        row = {"kind": "verdict", "method": method, "seeds": len(seeds), "answered": len(known)}
        row["cpu"] = float(np.mean([ours[seed].cpu for seed in seeds]))
        row["ours"] = float(own.mean())
        row |= _judged(own, np.array([equal[seed] for seed in known]))
        row["theirs_long"] = _mean(more[np.isfinite(more)])
        rows.append(row)
    return rows


def _judged(own, theirs):
    """The columns that compare answers in time; a number of ours that is none is a loss."""
    if not np.isfinite(own).all():
        return {"theirs": _mean(theirs), "spread": None, "verdict": "behind", "loss": float("inf")}
    if not len(theirs):
        return {"theirs": None, "spread": None, "verdict": "ahead", "loss": 0.0}
    gap, spread = own.mean() - theirs.mean(), float((own - theirs).std())
    verdict = "tied" if abs(gap) <= spread else "behind" if gap > 0.0 else "ahead"
    loss = max(0.0, float(gap / theirs.mean()))
    return {"theirs": _mean(theirs), "spread": spread, "verdict": verdict, "loss": loss}


def _mean(values):
    return float(values.mean()) if len(values) else None


def verdict_gates(rows, label=""):
    """Ahead or level with four of five methods, and nowhere far behind."""
    found = [row for row in rows if row["kind"] == "verdict"]
    level = [row["verdict"] != "behind" for row in found]
    return [
        Gate(
            f"{label}share of methods that ours is level with or ahead of",
            np.mean(level),
            SHARE,
            ">=",
        ),
        Gate(f"{label}largest loss", max(row["loss"] for row in found), LARGEST_LOSS),
    ]
