"""Posteriors in the forms of other libraries: tables, arrays with named axes, ArviZ."""

from copy import copy
from html import escape
from importlib import import_module, metadata
from itertools import islice
from typing import NamedTuple

import numpy as np

from skpmd._base.utils import as_generator, check_n_draws
from skpmd._base.version import __version__
from skpmd.engine.particles import random_draws

_AXES = "particle", "particle_weight", "chain", "draw"
_SHOWN = 20  # So many coordinates have a row in a notebook.
_SCALES = ("log_lambda",)  # What names of scales begin with.
_ONE = "a point estimate: there is one particle"


class Variable(NamedTuple):
    """Coordinates of a posterior that are one array."""

    columns: np.ndarray  # Places of the coordinates, of the shape of the array.
    dims: tuple = ()  # Names of its axes.


def variables_of(posterior):
    """{name: `Variable`}, by default one for each coordinate; ValueError for names of axes."""
    if posterior.variables is not None:
        found = posterior.variables
    else:
        refuse_names(posterior.names, ())
        found = {name: Variable(np.array(j)) for j, name in enumerate(posterior.names)}
    refuse_names(list(found), _AXES)
    return found


def named_by_columns(posterior, columns):
    """The posterior with names of columns in the place of those that its coefficients have.

    It stays as it is where none of its axes are columns, or these are not so many.
    """
    variables = getattr(posterior, "variables", None) or {}
    coef = variables.get("coef")
    if coef is None or "feature" not in coef.dims or coef.columns.shape[-1] != len(columns):
        return posterior
    known, new = posterior.coords["feature"], [str(one) for one in columns]
    names = list(posterior.names)
    renamed = {
        names[place]: names[place].replace(known[j], new[j], 1)
        for row in np.atleast_2d(coef.columns)
        for j, place in enumerate(row)
    }
    for place, name in enumerate(names):
        scale, _, inside = name.partition("[")  # A scale has the name of its coefficient within.
        others = f"{scale}[{renamed.get(inside[:-1], inside[:-1])}]" if scale in _SCALES else name
        names[place] = renamed.get(name, others)
    changed = dict(zip(posterior.names, names, strict=True))
    found = copy(posterior)
    found.names, found.coords = names, {**posterior.coords, "feature": new}
    found.variables = {changed.get(name, name): one for name, one in posterior.variables.items()}
    return found


def _check_rows(groups):
    """ValueError where the rows of a fit differ in their number."""
    if "observed_data" in groups and np.ndim(groups["observed_data"]) != 1:
        raise ValueError(
            f"observed_data must have shape (n_rows,), got {np.shape(groups['observed_data'])}."
        )
    of_fit = "log_likelihood", "observed_data"
    counts = {name: np.shape(groups[name])[-1:] for name in of_fit if name in groups}
    if len(set(counts.values())) > 1:
        raise ValueError(f"groups must be of the same rows, got as many as {counts}.")


def refuse_names(names, reserved):
    """ValueError where a name stands twice, or has another meaning."""
    twice = sorted({name for name in names if names.count(name) > 1})
    taken = [name for name in names if name in reserved]
    if twice or taken:
        raise ValueError(
            f"names of coordinates must differ, and {', '.join(_AXES)} (and y, beside groups of "
            f"rows) have another meaning; got {twice or taken}: rename these columns."
        )


def to_frame(posterior):
    """A row of a table for each particle; see `Posterior.to_frame`."""
    pandas = library("pandas", "arviz")
    refuse_names(posterior.names, _AXES[1:2])
    frame = pandas.DataFrame(posterior.particles, columns=posterior.names)
    frame.insert(0, "particle_weight", posterior.weights)
    return frame


def _cell(value):
    return f"<td>{escape(value) if isinstance(value, str) else format(value, '.4g')}</td>"


def to_html(posterior):
    """The repr, and a table of the coordinates, for notebooks."""
    columns = posterior.summary()
    names = columns.pop("name")
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *columns))
    rows = [
        f"<tr><th>{escape(name)}</th>{''.join(map(_cell, values))}</tr>"
        for name, *values in islice(zip(names, *columns.values(), strict=True), _SHOWN)
    ]
    more = len(names) - len(rows)
    note = f"<p>and {more} more coordinates: summary() has all</p>" if more else ""
    note += "".join(f"<p>{escape(text)}</p>" for text in posterior.check())
    return (
        f"<div><p>{escape(repr(posterior))}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{note}</div>"
    )


def to_xarray(posterior):
    """Weighted particles with named axes; see `Posterior.to_xarray`."""
    xarray = library("xarray", "arviz")
    data = {
        name: (("particle", *variable.dims), posterior.particles[:, variable.columns])
        for name, variable in variables_of(posterior).items()
    }
    coords = {**_coords(posterior), "particle_weight": (("particle",), posterior.weights)}
    return xarray.Dataset(data, coords, _attributes(posterior))


def to_arviz(posterior, n_draws, random_state, groups):
    """Draws of equal weight as ArviZ has them; see `Posterior.to_arviz`."""
    n_draws, rng = check_n_draws("n_draws", n_draws), as_generator(random_state)
    variables, effects = variables_of(posterior), groups.pop("group_effects", None)
    each = list(effects.values()) if isinstance(effects, dict) else [effects]  # Of factors.
    if effects is None:
        each, chosen = [], random_draws(posterior.weights, n_draws, rng)
    elif all(hasattr(one, "particles") for one in each) and each:
        m = len(each[0].particles)  # Some particles, in proportion to their weights.
        drawn = random_draws(np.full(m, 1.0 / m), n_draws, rng)
        chosen = each[0].particles[drawn]
    else:
        raise TypeError(
            "group_effects must be group_effects_ of an estimator with groups, or a dict of such "
            f"by factors, got {effects!r}."
        )
    given = {name: values for name, values in groups.items() if values is not None}
    if given:
        refuse_names(list(variables), ("y",))
    _check_rows(given)
    data = {
        "posterior": {
            name: posterior.particles[chosen][:, variable.columns][None]
            for name, variable in variables.items()
        }
    }
    dims = {name: list(one.dims) for name, one in variables_of(posterior).items()}
    coords = _coords(posterior)
    for one in each:
        coords[one.group] = one.labels.tolist()
        for name, draws in zip(one.names, one.draws[:-1].swapaxes(0, 1), strict=True):
            name = f"{'1' if name == 'intercept' else name}|{one.group}"
            data["posterior"][name], dims[name] = draws[:, drawn].T[None], [one.group]
    for group, values in groups.items():
        if values is None:
            continue
        if group in ("log_likelihood", "posterior_predictive"):
            values = {"y": _at_particles(group, values, posterior)[chosen][None]}
            dims["y"] = ["row"]
        elif group == "prior":
            values = _prior(values, posterior)
        else:
            values = {"y": np.asarray(values)}
            dims["y"] = ["row"]
        data[group] = values
    return inference_data(data, coords, dims, _attributes(posterior))


def inference_data(data, coords, dims, attributes):
    """InferenceData of ArviZ 0.x where that is installed, and otherwise a DataTree."""
    try:
        is_old = int(metadata.version("arviz").partition(".")[0]) < 1
    except metadata.PackageNotFoundError:
        is_old = False
    if is_old:
        arviz = library("arviz", "arviz")
        attrs = {"posterior_attrs": attributes}
        return arviz.from_dict(**data, coords=coords, dims=dims, **attrs)
    base = library("arviz_base", "arviz")
    return base.from_dict(data, coords=coords, dims=dims, attrs={"posterior": attributes})


def _at_particles(name, values, posterior):
    """Values of each row under each particle, (m, n)."""
    values, m = np.asarray(values), len(posterior.weights)
    if values.ndim != 2 or len(values) != m:
        raise ValueError(
            f"{name} must have shape ({m}, n_rows), a row for each particle of the posterior, got "
            f"{values.shape}: pointwise_log_likelihood(X, y) without n_draws is of that shape."
        )
    return values


def _prior(values, posterior):
    """Draws of the prior, (k, d), as variables."""
    values, d = np.asarray(values), posterior.particles.shape[1]
    if values.ndim != 2 or values.shape[1] != d:
        raise ValueError(f"prior must have shape (n_draws, {d}), got {values.shape}.")
    return {
        name: values[:, variable.columns][None]
        for name, variable in variables_of(posterior).items()
    }


def _coords(posterior):
    return {name: list(labels) for name, labels in (posterior.coords or {}).items()}


def _attributes(posterior):
    """What a reader of the file has to know: numbers and words, for files hold no others."""
    found = provenance(posterior.weighting, len(posterior.weights)) | {"ess": posterior.ess}
    for name in ("pareto_k", "r_hat", "log_evidence", "log_evidence_se"):
        value = getattr(posterior, name, None)  # An AttributeError says why there is none.
        if value is not None:
            found[name] = float(value)
    if len(posterior.weights) == 1:
        found["caveat"] = _ONE
    elif posterior.caveat is not None:
        found["caveat"] = posterior.caveat
    return found


def provenance(weighting, n_particles):
    """Attributes of every export: where it comes from."""
    return {
        "inference_library": "skpmd",
        "inference_library_version": __version__,
        "weights": weighting,
        "n_particles": n_particles,
    }


def library(name, extra):
    """A library that only some need; its absence names the extra that has it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"This needs {name}, which is not installed: pip install skpmd[{extra}]"
        ) from error
