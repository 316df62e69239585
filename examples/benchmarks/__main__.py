"""Run one study, all whose results are older than the code, or say which these are.

``python -m examples.benchmarks NAME [--data DIR] [--quick] [--out DIR] [--jobs N] [--draw]``;
``--all`` in place of a name runs what ``--stale`` lists, and goes on where it was stopped.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from .harness import study as studies
from .harness.timing import spent_so_far


def main(argv=None):
    """Do what the command line says; the exit status is 1 where a gate is not met."""
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks", description=__doc__)
    parser.add_argument("name", nargs="?", help="name of a study, or 'list'")
    parser.add_argument(
        "--stale", action="store_true", help="list results that are older than the code; measure "
        "nothing, and exit with 1 if a page quotes one of them"
    )  # fmt: skip
    parser.add_argument(
        "--all", action="store_true", help="run what is stale, one after another, cheapest first"
    )
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument(
        "--quick", action="store_true", help="small stand-in data, under a minute, no --data"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=studies.RESULTS,
        help="where the JSON and the PNG go (default: examples/benchmarks/results)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="cases side by side, where a study has any (default: 1)"
    )
    parser.add_argument(
        "--draw", action="store_true", help="draw the results that are there, measure nothing"
    )
    options = parser.parse_args(argv)
    known = studies.discover()
    config = studies.Config(options.data, options.quick, options.out, options.jobs)
    if options.stale or options.all:
        return list_stale(known, config) if options.stale else run_all(known, config)
    if options.name == "list":
        for name, summary in known.items():
            print(f"{name:{WIDTH}s} {summary}")
        return 0
    if options.name not in known:
        parser.error(f"no study {options.name!r}; there are: {', '.join(known)}")
    return draw(options.name, config) if options.draw else run(options.name, config)


WIDTH = 18  # of names


def list_stale(names, config):
    """Print a line for each study that is stale; return 1 if a page quotes one of them."""
    quoting, exit_status = studies.quoted(), 0
    for name in names:
        content = studies.results(name, config)
        changed = studies.changed_since(content)
        if changed == []:
            continue
        said = "no results" if content is None else "unknown code"
        said = said if changed is None else f"{len(changed)} modules changed"
        commit = content["commit"][:12] if content else ""
        pages = ", ".join(quoting.get(name, ()))
        print(f"{name:{WIDTH}s} {said:20s} {commit:12s} {pages or 'not quoted'}")
        exit_status |= name in quoting
    return int(exit_status)


def run_all(names, config):
    """Run what is stale, each study in a process of its own; return 1 if one failed or missed.

    A study writes its results when it ends, and is not stale then: whoever is stopped goes on with
    the same command.
    """
    times = {}
    for name in names:
        content = studies.results(name, config)
        if studies.changed_since(content) != []:
            times[name] = (content or {}).get("seconds", float("inf"))
    failed, missed = [], []
    for place, name in enumerate(sorted(times, key=times.get), 1):
        last = f"{times[name] / 60:.1f} min" if times[name] < float("inf") else "time unknown"
        print(f"\n== {name}, {place} of {len(times)}: {last}", flush=True)
        done = subprocess.run([sys.executable, "-m", __package__, *studies.options(name, config)])
        if studies.changed_since(studies.results(name, config)) != []:
            failed.append(name)
        elif done.returncode:
            missed.append(name)
    print(f"\nRan {len(times) - len(failed)} of {len(times)} studies.")
    for said, some in (("Failed", failed), ("Targets not met", missed)):
        if some:
            print(f"{said}: {', '.join(some)}")
    return int(bool(failed or missed))


def draw(name, config):
    """Draw the picture of a study's JSON beside it."""
    path = studies.place(name, config)
    if not path.exists():
        sys.exit(f"There is no {path.name} in the output folder: run the study first.")
    studies.draw(path, path.with_suffix(".png"))
    print(f"Drew {path.stem}.png")
    return 0


def run(name, config):
    """Measure, print, write the JSON and draw the picture from it."""
    config.cache.mkdir(parents=True, exist_ok=True)
    made, before = studies.origin(name), spent_so_far()
    try:
        study = studies.load(name)
        studies.pyplot()
        rows = study.run(config)
    except ImportError as error:
        sys.exit(str(error))
    made |= {key: round(value - before[key], 1) for key, value in spent_so_far().items()}
    gates = study.gates(rows)
    print(studies.table(rows), end="\n\n")
    for gate in gates:
        print(gate)
    path = studies.write(name, config, rows, gates, made)
    studies.draw(path, path.with_suffix(".png"))
    print(f"\nWrote {path.name} and {path.stem}.png")
    return 0 if all(gate.met for gate in gates) else 1


if __name__ == "__main__":
    sys.exit(main())
