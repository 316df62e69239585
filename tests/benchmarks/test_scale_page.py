"""The page on scale says what the committed results, and the model of its costs, say."""

import json

import numpy as np
import pytest

studies = pytest.importorskip(
    "examples.benchmarks.harness.study", reason="examples are not installed"
)

ROWS, WORKERS = 1e9, 100  # Of the prediction.


def rows_of(name):
    path = studies.RESULTS / f"{name}.json"
    if not path.exists():
        pytest.skip("results are not in a source distribution")
    return json.loads(path.read_text(encoding="utf-8"))["rows"]


def figures():
    """The page's figures by name, in its words."""
    rows = rows_of("cluster")
    large = {one["workers"]: one for one in rows if one.get("blocks") == 16}
    small = [one for one in rows if one.get("overhead_ms") is not None]
    blocks, ms = ([one[key] for one in small] for key in ("blocks", "overhead_ms"))
    each, fixed = np.polyfit(blocks, ms, 1)  # Milliseconds of a block, and of any step.
    one, two, n = large[1]["seconds"], large[2]["seconds"], large[1]["rows"]
    predicted = one / 2 + (fixed + 16 * each) / 1e3
    a_row = one / n  # Seconds of a row under all particles.
    step_rows, n_blocks = ROWS / WORKERS, ROWS / 250_000
    compute, messages = a_row * step_rows, n_blocks * each / 1e3
    fits = {one["model"]: one for one in rows_of("large") if one["kind"] == "fit"}
    logistic = fits["logistic"]
    whole = logistic["cpu"] / logistic["rows"] * ROWS / WORKERS
    gain, large_fits = studies.load("cluster").gain, [one for one in rows if one["case"] == "fit"]
    operations = (2 * 50 + 40) * 2000 * n
    return {
        "rate_flops": f"{operations / one / 1e9:.0f}",
        "off": f"{100 * (1 - predicted / two):.0f}",
        "cores": f"{gain(rows, 'cores'):.2f}",
        "search": f"{gain(rows, 'search'):.2f}",
        "data": f"{large_fits[0]['data_mb']:,.0f}",
        "limit": f"{studies.load('cluster').LIMIT_MB}",
        "fits": "\n".join(map(line_of_table, large_fits)),
        "one": f"{one:.1f}",
        "two": f"{two:.1f}",
        "gain": f"{one / two:.2f}",
        "predicted": f"{predicted:.1f}",
        "fixed": f"{max(fixed, 0.0):.0f}",
        "each": f"{each:.1f}",
        "row": f"{1e6 * a_row:.0f}",
        "compute": f"{compute:.0f}",
        "messages": f"{messages:.0f}",
        "share": f"{100 * messages / compute:.0f}",
        "block": f"{250_000 * a_row:.1f}",
        "most": f"{250_000 * a_row / (each / 1e3):.0f}",
        "whole": f"{whole / 60:.0f}",
        "rate": f"{logistic['rows'] / logistic['cpu']:,.0f}",
    }


def line_of_table(fit):
    """A fit as the page's table has it."""
    measured = [round(fit[name]) for name in ("seconds", "peak_mb", "here_mb")]
    numbers = [fit["rows"], fit["blocks"], *measured]
    return "\n".join([f"   * - {fit['model']}", *(f"     - {one:,}" for one in numbers)])


def test_the_page_has_the_figures_of_the_results():
    guide = studies.FOLDER.parents[1] / "docs" / "user_guide" / "scale.rst"
    text = " ".join(guide.read_text(encoding="utf-8").split())
    found = figures()
    for said in (
        "takes {one} s with one worker and {two} s with two, {gain} times less",
        "{one} / 2 s and the messages of 16 blocks make {predicted} s, {off} % less",
        "These are {rate_flops} billion operations a second on one core",
        "do {cores} times the work of one",
        "is {search} times as fast",
        "Collections of {data} MB have been fitted with two workers of {limit} MB each",
        "{fixed} ms, and {each} ms more for each block",
        "{row} microseconds of a core for a row",
        "{compute} s of computing and {messages} s of messages, {share} % of it",
        "takes {block} s, so that up to {most} workers",
        "{rate} rows a second of a core",
        "{whole} minutes",
    ):
        assert said.format(**found) in text, said.format(**found)
    assert " ".join(found["fits"].split()) in text
