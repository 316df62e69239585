"""What plain NUTS costs on the posteriors where a run in every study would take too long."""

import json
from pathlib import Path

from ..timing import cpu_clock

N_STEPS = 500


def cached_speed(data, folder, *, progress=print):
    """Return one row for each layout of chains, from ``folder/NAME_nuts.json`` or made now.

    A run as in the study of logistic regression: 200 steps of warm-up and `N_STEPS` draws a
    chain, whitened by the Laplace approximation. ``cpu`` is without the warm-up, and neither has
    the compilation in it. CPU seconds hold for the machine that they were taken on.
    """
    path = Path(folder) / f"{data.name}_nuts.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    from .nuts import LAYOUTS, Nuts
    from .targets import target

    posterior = target(data)
    rows = []
    for layout, options in LAYOUTS.items():
        progress(f"Timing NUTS on {data.name}, {layout} ...")
        with cpu_clock():
            run = Nuts(posterior, **options).run(0, N_STEPS)
        rows.append(
            {
                "data": data.name,
                "layout": layout,
                "n_draws": len(run.flat),
                "n_leapfrog": run.n_leapfrog,
                "cpu": run.sampling_cpu,
                "warmup_cpu": run.warmup_cpu,
                "min_ess": float(run.ess().min()),
                "min_ess_second_moment": float(run.ess_second_moment().min()),
                "r_hat": float(run.r_hat().max()),
            }
        )
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows
