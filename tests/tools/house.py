"""How large the house is, and how many of its files a default fit opens.

From the root of a checkout::

    python -m tests.tools.house            # lines by room, long files, records and functions
    python -m tests.tools.house --trace    # files that default fits open, as well

Lines of code are those with a token that is neither a comment nor a docstring. A file is opened by
a fit if one of its functions runs; kernels that Numba has compiled are not seen. A pair of files
calls each other both ways if functions of each call functions of the other. Maps and sums, and the
loop that runs a method, call back what they are given: such pairs are counted by themselves.
"""

import argparse
import ast
import io
import sys
import tokenize
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 450  # Of a file, but for the documentation of estimators.
MAX_PARAMETERS, MAX_FIELDS = 7, 12
_DISPLAY = "the options of a display, as in scikit-learn: each by name, most of them not given"
_PUBLIC = "public methods, whose documentation with examples is most of it"
_OF_TOPICS = "arrays and numbers of one kernel of Numba, or of what calls it"
_PART = "the body of a loop of the only function that calls it"
# What is over these limits, and why; the constructors and files of estimators are let pass anyway.
EXCEPTIONS = {
    ("skpmd/lda/_kernels.py", "lines"): "kernels of Numba call kernels of their own file only",
    ("skpmd/lda/_posterior.py", "lines"): _PUBLIC,
    ("skpmd/decision.py", "lines"): _PUBLIC,
    ("skpmd/posterior.py", "lines"): _PUBLIC,
    ("skpmd/predictive.py", "lines"): _PUBLIC,
    ("skpmd/sparse_gp/_predict.py", "lines"): _PUBLIC,
    ("skpmd/lda/_inference.py", "topic_mass"): _OF_TOPICS,
    ("skpmd/lda/_inference.py", "word_moments"): _OF_TOPICS,
    ("skpmd/lda/_learn_priors.py", "update"): _OF_TOPICS,
    ("skpmd/lda/_topics.py", "add_documents"): _OF_TOPICS,
    ("skpmd/lda/_model.py", "LDABlock"): "all that a stream of topics goes on from",
    (
        "skpmd/linear/_streaming.py",
        "proposal_step",
    ): "the seven of a step of a stream, and one that is bound beforehand",
    ("skpmd/linear/_group_quadrature.py", "_add_nodes"): _PART,
    ("skpmd/plot/_forest.py", "from_posterior"): _DISPLAY,
    ("skpmd/plot/_mixture_density.py", "from_estimator"): _DISPLAY,
    ("skpmd/plot/_predictive_band.py", "from_estimator"): _DISPLAY,
    ("skpmd/plot/_reliability.py", "from_predictions"): _DISPLAY,
    ("skpmd/sparse_gp/_fit.py", "GPState"): "all that a stream of a process goes on from",
    ("skpmd/sparse_gp/_neighbours.py", "_fill"): _PART,
    ("skpmd/sparse_gp/_vecchia_evidence.py", "_through"): "searches that go on from others: what "
    "they are, what they have come to, and rows of two kinds",
}
_CALLING_BACK = {
    ("engine/loop.py", "drive"),
    ("engine/loop.py", "resumable"),
    ("engine/loop.py", "states"),  # Of `stage`, whose only state is what a function returns.
    ("_rows/table.py", "mapped"),
}
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER, tokenize.ENCODING,
}  # fmt: skip


def sources(folder="skpmd"):
    """Python files below a folder of the checkout, sorted."""
    return sorted((ROOT / folder).rglob("*.py"))


def room(path):
    """Name of the room of a file: its package, or its module at the top level."""
    parts = path.relative_to(ROOT).parts
    return parts[1] if len(parts) > 2 else "(top level)"


def count(text):
    """Lines, and lines of code, of a module."""
    documentation = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                documentation.update(range(node.lineno, node.end_lineno + 1))
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(text.splitlines()), len(code - documentation)


def long_functions(tree):
    """Functions with more than seven parameters, constructors of estimators aside."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            given = node.args
            names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            n = len([name for name in names if name not in ("self", "cls")])
            if n > MAX_PARAMETERS and not _is_kernel(node):
                yield node.name, n


def _is_kernel(node):
    """Whether Numba compiles a function: kernels take arrays and scalars, and so many of them."""
    return any("jit" in ast.unparse(one) or "kernel" in ast.unparse(one)
               for one in node.decorator_list)  # fmt: skip


def long_records(tree):
    """Named tuples with more than twelve fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and "NamedTuple" in map(ast.unparse, node.bases):
            n = sum(isinstance(one, ast.AnnAssign) for one in node.body)
            if n > MAX_FIELDS:
                yield node.name, n


def over_the_limits():
    """What is over the limits: for each file and name, how much there is of what."""
    found = {}
    for path in sources():
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        tree, n = ast.parse(text), len(text.splitlines())
        if n > MAX_LINES and not name.endswith("_estimator.py"):
            found[name, "lines"] = f"{n} lines"
        for kind, rule in (("parameters", long_functions), ("fields", long_records)):
            found |= {(name, one): f"{one} has {n} {kind}" for one, n in rule(tree)}
    return found


def default_fits():
    """Fits of every family by default, by name."""
    import skpmd

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    noise = rng.standard_normal(200)
    counts = rng.poisson(0.3, (200, 30))

    def log_likelihood(theta, X, y):
        misfit = y - theta @ X.T
        return -0.5 * (misfit**2).sum(axis=1)

    def log_prior(theta):
        return -0.5 * (theta**2).sum(axis=1)

    return {
        "logistic": lambda: skpmd.BayesianLogisticRegressionPMD(random_state=0).fit(
            X, X[:, 0] + noise > 0
        ),
        "process": lambda: skpmd.SparseGPRegressorPMD(random_state=0).fit(X, X[:, 0] + noise),
        "mixture": lambda: skpmd.GaussianMixturePMD(3, random_state=0).fit(X),
        "topics": lambda: skpmd.LDATopicModelPMD(3, random_state=0).fit(counts),
        "custom": lambda: skpmd.ParticleMirrorDescent(
            log_likelihood,
            log_prior=log_prior,
            sample_prior=lambda rng, m: rng.standard_normal((m, 3)),
            random_state=0,
        ).fit(X, X[:, 0] + noise),
    }


def trace(fit):
    """Files whose functions a call runs, and pairs of them that call each other both ways.

    The pairs that do so because one has been given functions of the other come last.
    """
    package = str(ROOT / "skpmd")
    files, calls, handed = Counter(), defaultdict(set), defaultdict(set)

    def note(frame, event, _):
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(package) or frame.f_code.co_name == "<module>":
            return
        files[name] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(package):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != name:
            by = handed if _runs_what_it_is_given(caller.f_code, package) else calls
            by[caller.f_code.co_filename].add(name)

    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(None)
    both = {tuple(sorted((a, b))) for a in calls for b in calls[a] if a in calls.get(b, ())}
    back = {
        tuple(sorted((a, b))) for a in handed for b in handed[a] if a in calls.get(b, ())
    } - both
    short = {name: name.removeprefix(package + "/") for name in files}
    return sorted(short.values()), *(
        sorted((short[a], short[b]) for a, b in pairs) for pairs in (both, back)
    )


def _runs_what_it_is_given(code, package):
    """Whether a function maps or sums another, or takes the states of a method one by one."""
    name = code.co_filename.removeprefix(package + "/")
    return name == "_runtime/threads.py" or (name, code.co_name) in _CALLING_BACK


def main(arguments=None):
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--trace", action="store_true", help="fits by default, too")
    parser.add_argument("--files", action="store_true", help="name the files that they open")
    own = parser.parse_args(arguments)
    for folder in ("skpmd", "tests"):
        rooms = defaultdict(lambda: np.zeros(3, int))
        for path in sources(folder):
            rooms[room(path)] += 1, *count(path.read_text(encoding="utf-8"))
        print(f"{folder:14} {'files':>6} {'lines':>7} {'code':>7}")
        for name, numbers in [*sorted(rooms.items()), ("all", sum(rooms.values()))]:
            print(f"{name:14} {numbers[0]:6} {numbers[1]:7} {numbers[2]:7}")
    for (name, one), what in over_the_limits().items():
        if (name, one) not in EXCEPTIONS:
            print(f"{name}: {what}")
    if own.trace:
        for name, fit in default_fits().items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit()  # What is done but once, compilation first of all, does not count.
                files, both, back = trace(fit)
            print(f"{name}: {len(files)} files, {len(both)} pairs that call each other both ways")
            print(f"    and {len(back)} where maps, sums and the loop call back")
            if own.files:
                print("   ", *files)
                print("    both ways:", ", ".join(map(" - ".join, both)))
                print("    called back:", ", ".join(map(" - ".join, back)))


if __name__ == "__main__":
    main()
