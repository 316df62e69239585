"""What NUTS costs where chains take turns, for posteriors whose references moved them together."""

import json
from pathlib import Path

from ..timing import cpu_clock

N_STEPS = 100
LAYOUT = {"n_chains": 4, "n_warmup": 100}


def cached_speed(data, folder, *, progress=print):
    """Return CPU seconds and effective draws of a short run, from ``folder/NAME_nuts.json`` or new.

    References move eight chains in one compiled call, where each waits for the longest trajectory.
    Here four chains go one after the other, whitened by the Laplace approximation too. ``cpu`` is
    without the warm-up, and neither has the compilation in it. CPU seconds hold for the machine
    that they were taken on.
    """
    path = Path(folder) / f"{data.name}_nuts.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    from .nuts import Nuts
    from .targets import target

    progress(f"Timing NUTS on {data.name} ...")
    with cpu_clock():
        run = Nuts(target(data), **LAYOUT).run(0, N_STEPS)
    row = {
        "data": data.name,
        "n_draws": len(run.flat),
        "n_leapfrog": run.n_leapfrog,
        "cpu": run.sampling_cpu,
        "warmup_cpu": run.warmup_cpu,
        "min_ess": float(run.ess().min()),
        "mean_variance": float((1.0 / run.ess()).mean()),
        "r_hat": float(run.r_hat().max()),
    }
    path.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    return row
