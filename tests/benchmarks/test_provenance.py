"""Results say which commit, machine and code they are of, and whether the code is still that."""

import json
import subprocess

import pytest
from joblib import Parallel, delayed

provenance = pytest.importorskip(
    "examples.benchmarks.harness.provenance", reason="examples are not installed"
)
from examples.benchmarks.harness import study as studies  # noqa: E402
from examples.benchmarks.harness.timing import spent_so_far  # noqa: E402


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small package and a study of it, which `provenance` takes for the repository."""
    texts = {
        "skpmd/__init__.py": "if TYPE_CHECKING:\n    from skpmd.one import A as A, B as B\n",
        "skpmd/one/__init__.py": "from skpmd.one._fit import A\n",
        "skpmd/one/_fit.py": "from skpmd import typed\nfrom skpmd.common import step\nA = step\n",
        "skpmd/two.py": "B = 1\n",
        "skpmd/typed.py": "if TYPE_CHECKING:\n    from skpmd.two import B\n",
        "skpmd/common.py": '"""Text."""\n\n\ndef step():\n    """More."""\n    return 1  # Why.\n'
        'TEXTS = {"<more>": "Of all."}\n',
        "examples/__init__.py": "",
        "examples/study.py": "from .helper import fit\n",
        "examples/helper.py": "def fit():\n    import skpmd\n    return skpmd.A\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    forget()
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    yield tmp_path
    forget()


def forget():
    for function in (provenance._digest, provenance._imported, provenance._path):
        function.cache_clear()


def rewrite(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    forget()


def test_digests_are_of_the_modules_that_a_study_reaches(tree):
    assert list(provenance.code_digests("examples.study")) == [
        "skpmd.common", "skpmd.one", "skpmd.one._fit", "skpmd.typed",
    ]  # fmt: skip


def test_every_study_reaches_the_estimators_that_it_takes_from_the_front_door():
    import skpmd

    homes = {name: provenance._home("skpmd", name) for name in skpmd.__all__}
    assert "skpmd" not in homes.values()
    families = {home for name, home in homes.items() if hasattr(getattr(skpmd, name), "fit")}
    for name in studies.discover():
        code = provenance.code_digests(studies._studies()[name][0])
        assert families & set(code) and "skpmd.engine.model" in code, name


def test_words_change_no_digest_and_code_does(tree):
    before = provenance.code_digests("examples.study")
    rewrite(tree / "skpmd/common.py", "Text.", "Other text.")
    rewrite(tree / "skpmd/common.py", "# Why.", "# Why not.")
    rewrite(tree / "skpmd/common.py", "Of all.", "Of most.")
    rewrite(tree / "skpmd/two.py", "1", "2")  # not of this study
    assert provenance.changed("examples.study", before) == []
    rewrite(tree / "skpmd/common.py", "return 1", "return 2")
    assert provenance.changed("examples.study", before) == ["skpmd.common"]
    rewrite(tree / "skpmd/one/_fit.py", "A = step", "from skpmd.two import B\nA = B")
    assert provenance.changed("examples.study", before) == [
        "skpmd.common", "skpmd.one._fit", "skpmd.two",
    ]  # fmt: skip


def test_a_commit_says_whether_the_code_differs_from_it(tree):
    assert provenance.commit() is None

    def git(*arguments):
        names = "-c", "user.name=a", "-c", "user.email=a@b"
        subprocess.run(["git", *names, *arguments], cwd=tree, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    assert len(provenance.commit()) == 40
    (tree / "notes.txt").write_text("no code")
    assert len(provenance.commit()) == 40
    rewrite(tree / "skpmd/two.py", "1", "2")
    assert provenance.commit().endswith("+")


def test_a_command_line_has_the_options_that_are_not_the_defaults(tmp_path):
    config = studies.Config(tmp_path, False, tmp_path, jobs=2)
    assert studies.command("theory", config).endswith("theory --data DIR --jobs 2")
    config = studies.Config(None, True, tmp_path)
    assert studies.command("theory", config).endswith("theory --quick")


def test_what_a_run_takes_has_its_workers_in_it():
    before = spent_so_far()
    Parallel(n_jobs=2)(delayed(sum)(range(n)) for n in (20_000_000, 20_000_001))
    spent = {key: value - before[key] for key, value in spent_so_far().items()}
    assert spent["cpu_seconds"] > 0.1 and spent["seconds"] > 0.1


@pytest.mark.slow  # three seconds
def test_every_committed_result_says_where_it_comes_from():
    paths = [p for p in studies.RESULTS.glob("*.json") if not p.stem.endswith("-quick")]
    if not paths:
        pytest.skip("results are not in a source distribution")
    for path in paths:
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["command"].startswith(f"python -m examples.benchmarks {path.stem}")
        assert content["commit"] and content["date"] and content["versions"]
        changed = studies.changed_since(content)  # what the page says of its age
        assert changed is None or set(changed) <= {*content["code"], *code_of(path.stem)}


def code_of(name):
    return studies.origin(name)["code"]
