"""The guide to rows past memory says what the committed results say."""

import json

import pytest

studies = pytest.importorskip(
    "examples.benchmarks.harness.study", reason="examples are not installed"
)


def found_by(name):
    """Rows of a study's committed results, and the guide in one line."""
    path = studies.RESULTS / f"{name}.json"
    if not path.exists():
        pytest.skip("results are not in a source distribution")
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    guide = studies.FOLDER.parents[1] / "docs" / "user_guide" / "big_data.rst"
    return rows, " ".join(guide.read_text(encoding="utf-8").split())


def test_fits_past_memory():
    rows, text = found_by("past_memory")
    shares = studies.load("past_memory").shares(rows)
    for row in rows:
        if row["form"] == "memory":
            continue
        said = (
            f"* - {row['model']} - {row['form']} - {row['rows']:,} - {row['size_mb']:,.0f} "
            f"- {row['limit_mb']:,} - {row['peak_mb']:,.0f} - {row['rows_per_s']:,.0f} "
            f"- {100 * shares[row['model'], row['form']]:.0f} %"
        )
        assert said in text, said


def test_large_fits_and_curves():
    rows, text = found_by("large")
    study = studies.load("large")
    for row in rows:
        if row["kind"] == "fit":
            said = (
                f"* - {row['model']} - {row['rows']:,} x {row['columns']:,} - {row['cpu']:.0f} "
                f"- {row['peak_mb']:,.0f}"
            )
            powers = [study.slope(rows, row["model"], kind) for kind in study.VARIED]
            said += "".join(f" - {power:.1f}" for power in powers)
            assert said in text, said


def test_an_hour_of_partial_fit():
    rows, text = found_by("stream_hour")
    study = studies.load("stream_hour")
    last = [row for row in rows if row["kind"] == "calls"][-1]
    by_name = {gate.name: gate for gate in study.gates(rows)}
    growth = by_name["memory at the end over that after a quarter, MB"].measured
    assert last["minute"] > 59
    for said in (
        f"In {last['rows'] // study.ROWS:,} calls of 500 rows of each of three models",
        f"memory grew by {growth:.0f} MB after the first quarter, to {last['memory_mb']:.0f} MB",
    ):
        assert said in text, said
    for name in study.MODELS:
        ratio = by_name[f"{name}, CPU of a call, last quarter over second"].measured
        first, *_, end = [row for row in rows if row.get("model") == name]
        said = f"* - {name} - {ratio:.2f} - {first['mean_error']:.1g} - {end['mean_error']:.1g}"
        assert f"{said} - {first['behind']:.1g} - {end['behind']:.1g}" in text, said
