"""Run one study.

``python -m examples.benchmarks NAME [--data DIR] [--quick] [--out DIR] [--jobs N]``.
"""

import argparse
import sys
from pathlib import Path

from . import study as studies


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
        default=studies.FOLDER / "results",
        help="where the JSON and the PNG go (default: examples/benchmarks/results)",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="cases side by side, where a study has any (default: 1)"
    )
    options = parser.parse_args(argv)
    known = studies.discover()
    if options.name == "list":
        for name, summary in known.items():
            print(f"{name:12s} {summary}")
        return 0
    if options.name not in known:
        parser.error(f"no study {options.name!r}; there are: {', '.join(known)}")
    return run(options)


def run(options):
    """Measure, print, write the JSON and draw the picture."""
    config = studies.Config(options.data, options.quick, options.out, options.jobs)
    config.out.mkdir(parents=True, exist_ok=True)
    try:
        study = studies.load(options.name)
        studies.pyplot()
        rows = study.run(config)
    except ImportError as error:
        sys.exit(str(error))
    gates = study.gates(rows)
    print(studies.table(rows), end="\n\n")
    for gate in gates:
        print(gate)
    path = studies.write(options.name, config, rows, gates)
    study.plot(rows, path.with_suffix(".png"))
    print(f"\nWrote {path.name} and {path.stem}.png")
    return 0 if all(gate.met for gate in gates) else 1


if __name__ == "__main__":
    sys.exit(main())
