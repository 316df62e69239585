"""Tasks of a developer, each in an environment of its own: ``nox -f .noxfile.py -l`` lists them."""

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.default_venv_backend = "venv"


@nox.session
def tests(session):
    """The fast suite; arguments go to pytest."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "2", *session.posargs)


@nox.session
def slow(session):
    """The nightly lane: all settings, statistics over many seeds, and the seeded defects."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "2", "-m", "slow", *session.posargs)
    session.run("python", "-m", "tests.tools.seeded_defects")


@nox.session
def lint(session):
    """Style, as the commit hooks see it, and the types of public signatures."""
    session.install("ruff", "mypy", "-e", ".[plot]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def docs(session):
    """Doctests, and the documentation without a warning."""
    session.install("-e", ".[docs]")
    session.run("pytest", "--doctest-modules", "--doctest-ignore-import-errors", "skpmd")
    session.run("pytest", "--doctest-glob=*.rst", "docs")
    session.run("sphinx-build", "-W", "-b", "html", "docs", "docs/_build/html")


@nox.session
@nox.parametrize("which", ["oldest", "newest"])
def versions(session, which):
    """The fast suite with the oldest and the newest dependencies."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.tools.versions", which, "-n", "2", *session.posargs)
