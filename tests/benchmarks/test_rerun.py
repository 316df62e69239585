"""``--stale`` lists what is older than the code; ``--all`` runs it and goes on where it stopped."""

import json
import subprocess
from types import SimpleNamespace

import pytest

main = pytest.importorskip("examples.benchmarks.__main__", reason="examples are not installed")
from examples.benchmarks.harness import provenance  # noqa: E402
from examples.benchmarks.harness import study as studies  # noqa: E402

CODE = {"skpmd.one": "0a", "skpmd.two": "0b"}


def write(folder, name, code, seconds):
    content = {"study": name, "commit": "abc", "seconds": seconds, "code": code}
    (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Results of three studies, two of them old, and none of a fourth."""
    names = dict.fromkeys(["theory", "stream", "densities", "price"], "text")
    monkeypatch.setattr(studies, "discover", lambda: names)
    monkeypatch.setattr(
        studies, "quoted", lambda: {"stream": ["README.md"], "densities": ["a.rst"]}
    )
    monkeypatch.setattr(provenance, "code_digests", lambda module: CODE)
    write(tmp_path, "theory", CODE, 1.0)
    write(tmp_path, "stream", {**CODE, "skpmd.two": "1b"}, 120.0)
    write(tmp_path, "densities", {"skpmd.three": "0c"}, 60.0)
    return tmp_path


def test_stale_results_are_listed_with_what_quotes_them(folder, capsys):
    assert main.main(["--stale", "--out", str(folder)]) == 1
    lines = [line.split(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["stream", "1", "modules", "changed", "abc          README.md"],
        ["densities", "3", "modules", "changed", "abc          a.rst"],
        ["price", "no", "results", "not", "quoted"],
    ]
    for name in ("stream", "densities"):
        write(folder, name, CODE, 1.0)
    assert main.main(["--stale", "--out", str(folder)]) == 0  # what nobody quotes may be old
    write(folder, "price", CODE, 1.0)
    assert main.main(["--stale", "--out", str(folder)]) == 0
    assert capsys.readouterr().out.count("price") == 1


def test_all_runs_the_cheapest_first_and_goes_on_after_failures(folder, capsys, monkeypatch):
    ran, breaks = [], {"stream"}

    def run(command):
        assert command[1:3] == ["-m", "examples.benchmarks"]
        assert command[4:] == ["--data", "DIR", "--out", str(folder), "--jobs", "2"]
        ran.append(command[3])
        if command[3] not in breaks:
            write(folder, command[3], CODE, 1.0)
        return SimpleNamespace(returncode=int(command[3] != "densities"))

    monkeypatch.setattr(subprocess, "run", run)
    command = ["--all", "--data", "DIR", "--jobs", "2", "--out", str(folder)]
    assert main.main(command) == 1
    assert ran == ["densities", "stream", "price"]
    said = capsys.readouterr().out.splitlines()
    assert "== densities, 1 of 3: 1.0 min" in said and "== price, 3 of 3: time unknown" in said
    assert said[-3:] == ["Ran 2 of 3 studies.", "Failed: stream", "Targets not met: price"]
    ran.clear()
    breaks.clear()
    main.main(command)
    assert ran == ["stream"] and main.main(command) == 0 and ran == ["stream"]


def test_pages_that_quote_a_study_are_those_whose_sentences_tests_write():
    found = studies.quoted()
    assert found["logistic"][0] == "README.md" and "docs/results.rst" in found["logistic"]
    assert set(found) <= set(studies.discover())
