"""Run one study.

``python -m examples.benchmarks NAME [--data DIR] [--quick] [--out DIR] [--jobs N] [--minutes N]
[--draw]``.
"""

import argparse
import sys
from pathlib import Path

from .harness import study as studies


def main(argv=None):
    """Run the study named on the command line; the exit status is 1 where a gate is not met."""
    parser = argparse.ArgumentParser(prog="python -m examples.benchmarks", description=__doc__)
    parser.add_argument("name", help="name of a study, or 'list'")
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
        "--minutes", type=float, default=60.0, help="length of a stream, where a study has one"
    )
    parser.add_argument(
        "--draw", action="store_true", help="draw the results that are there, measure nothing"
    )
    options = parser.parse_args(argv)
    known = studies.discover()
    if options.name == "list":
        for name, summary in known.items():
            print(f"{name:12s} {summary}")
        return 0
    if options.name not in known:
        parser.error(f"no study {options.name!r}; there are: {', '.join(known)}")
    config = studies.Config(options.data, options.quick, options.out, options.jobs, options.minutes)
    return draw(options.name, config) if options.draw else run(options.name, config)


def draw(name, config):
    """Draw the picture of a study's JSON beside it."""
    path = config.out / f"{studies.stem(name, config)}.json"
    if not path.exists():
        sys.exit(f"There is no {path.name} in the output folder: run the study first.")
    studies.draw(path, path.with_suffix(".png"))
    print(f"Drew {path.stem}.png")
    return 0


def run(name, config):
    """Measure, print, write the JSON and draw the picture from it."""
    config.cache.mkdir(parents=True, exist_ok=True)
    made = studies.origin(name)
    try:
        study = studies.load(name)
        studies.pyplot()
        rows = study.run(config)
    except ImportError as error:
        sys.exit(str(error))
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
