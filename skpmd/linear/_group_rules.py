"""Rules of quadrature over groups' effects, and whether they settle what a posterior rests on.

Nodes are in units of a group's curvature around its mode. Gauss-Hermite's rules come first. Where
these do not settle, as of a likelihood that is a step of an effect with a large sd, a rule of one
effect goes on with Gauss-Legendre's on panels to both sides of the mode, each twice as long as the
one before: whatever the scale is, a few of them see it.
"""

from functools import cache

import numpy as np

from skpmd.engine.particles import random_draws, weights
from skpmd.linear._design import gauss_hermite

# Nodes a dimension. A group has the first rule that is right to less than this share of a nat, over
# the root of about the number of groups: what is left is alike at all particles but for a share.
# Of one effect panels tell; of two, and of small ones of rows whose log density is concave, a fifth
# of the change since the rule before has to be less.
_RULES, _OF_TWO, TOLERANCE, _SMALL = (3, 5, 7, 11, 17), (27, 43), 1e-3, 1.5
_OF_FOUR = (3, 5, 7, 11)  # Of more effects than two a rule has the product's number of nodes.
_PANELS, _EDGES = (5, 7), 2.0 ** np.arange(-6.0, 10.0)  # Nodes on each panel, and where these end.
_MANY = 64  # Particles that are parted by the size of effects.
_NEGLIGIBLE = 1e-10  # Nodes of such weights are left out.
# Sums of integrals may vary by so many nats between particles, of which a few numbers are seen.
_MAX_VARIATION, _MAX_SEEN, _NUMBERS = 0.05, 16, 1 << 22


class _Rules:
    """Nodes (N, q) of all rules, and logs of their weights over the density of N(0, I) there.

    Kernels of products see whole grids; without these corners of next to no weight are left out.
    """

    def __init__(self, n_effects, are_grids=False):
        nodes, log_weights, axes = [], [], []
        for n in {2: _RULES + _OF_TWO, 4: _OF_FOUR}.get(n_effects, _RULES):
            one, of_one = gauss_hermite(n)
            grid = np.indices((n,) * n_effects).reshape(n_effects, -1)
            t, weight = one[grid], of_one[grid].prod(axis=0)
            is_there = (weight >= _NEGLIGIBLE) | are_grids
            axes.append(one)
            nodes.append(t[:, is_there].T)
            log_weights.append((np.log(weight) + 0.5 * (t**2).sum(axis=0))[is_there])
        for n in _PANELS if n_effects == 1 else ():
            t, weight = _panels(n)
            nodes.append(t[:, None])
            log_weights.append(np.log(weight / np.sqrt(2.0 * np.pi)))
        self.first, self.n = np.cumsum([0, *map(len, nodes)]), len(nodes)
        self.nodes, self.log_weights = np.concatenate(nodes), np.concatenate(log_weights)
        self.first_of_axis, self.axis = np.cumsum([0, *map(len, axes)]), np.concatenate(axes)
        self.intercepts = np.stack([self.nodes[:, 0], self.log_weights])
        self.n_gaussian = self.n - len(_PANELS) if n_effects == 1 else self.n


rules_of = cache(_Rules)


def _panels(n):
    """Nodes, sorted, and weights of Gauss-Legendre's rule on each of the panels."""
    one, of_one = np.polynomial.legendre.leggauss(n)
    low, high = np.append(0.0, _EDGES[:-1]), _EDGES
    t = (low[:, None] + (high - low)[:, None] * 0.5 * (one + 1.0)).ravel()
    weight = (0.5 * (high - low)[:, None] * of_one).ravel()
    return np.append(-t[::-1], t), np.append(weight[::-1], weight)


def octaves(factor):
    """How often sizes of effects are to be halved until they are no more than twice the median.

    Of factors (m, e) of the effects' covariances; the larger effects are, the more nodes they need.
    Few particles are not worth more than one choice.
    """
    if len(factor) < _MANY:
        return np.zeros(len(factor), dtype=np.int64)
    size = np.sqrt((factor**2).sum(axis=1))
    return np.floor(np.log2(np.clip(size / np.median(size), 1.0, 1e3))).astype(np.int64)


def is_small(factor):
    """Whether intercepts with these factors (m, 1) vary so little that rules settle early."""
    return factor[:, 0].max() < _SMALL


def probes(known, some):
    """Medians of tables over some particles, and the rows of that whose effects vary most."""
    if len(some) == 1:
        return tuple(one[some] for one in known)
    largest = some[(known[-1][some] ** 2).sum(axis=1).argmax()]
    return tuple(np.stack([np.median(one[some], axis=0), one[largest]]) for one in known)


def chosen_rules(evaluate, n_groups, root, rules, is_easy):
    """Where searches begin (G, q), and the rule of each group (G,), by what ``evaluate`` finds.

    It takes both, with -1 for a group that has converged, and returns integrals (m, G) and moments.
    Tolerances are over ``root``. Where it ``is_easy`` panels are for what no other rule settles.
    """
    tolerance = TOLERANCE / root
    q, rule = rules.nodes.shape[1], np.zeros(n_groups, dtype=np.int64)
    start = np.zeros((n_groups, q))
    values, moments = evaluate(start, rule)
    has_panels, last, best = rules.n_gaussian < rules.n and not is_easy, values, rule
    start = np.nan_to_num(moments[0, :, :q])
    if has_panels:
        best = rule + rules.n_gaussian
        last, moments = evaluate(start, best)
        start = np.nan_to_num(moments[0, :, :q])
        rule = np.where(np.abs(values - last).max(axis=0) < tolerance, -1, 1)
        best = np.where(rule < 0, 0, best)
    else:
        rule = rule + 1
    for k in range(1, rules.n_gaussian + (is_easy and rules.n_gaussian < rules.n)):
        if not (rule >= 0).any():
            break
        values, moments = evaluate(start, rule)
        is_open = rule >= 0
        change = np.abs(values - last).max(axis=0)
        if has_panels:
            has_converged = change < tolerance
            best = np.where(is_open & has_converged, k, best)
        else:
            has_converged = change < 5.0 * tolerance
            # Of more effects than two the smaller rule of both is used, of fewer nodes by far.
            best = np.where(is_open, np.where(has_converged & (q > 2), k - 1, k), best)
            start = np.where(is_open[:, None], np.nan_to_num(moments[0, :, :q]), start)
            last = np.where(is_open, values, last)
        rule = np.where(is_open & ~has_converged, k + 1, -1)
    return start, best


def together(parts):
    """Arrays of particles, of those of some at these places."""
    if len(parts) == 1:
        return parts[0][1]
    n, out = sum(len(place) for place, _ in parts), []
    for each in zip(*(arrays for _, arrays in parts), strict=True):
        one = np.empty((n, *each[0].shape[1:]))
        for (place, _), values in zip(parts, each, strict=True):
            one[place] = values
        out.append(one)
    return out


def unconverged_reasons(model, rows, particles):
    """Reasons not to trust integrals, a tuple: what they change by with the next rule.

    Of weighted `Particles` some are looked at that carry the posterior; a change that is alike at
    all of them is one of the evidence alone.
    """
    m = int(np.clip(_NUMBERS // max(1.0, rows.total), 4, _MAX_SEEN))
    chosen = random_draws(weights(particles.log_ratio), m, np.random.default_rng(0))
    change = model.changes(particles.theta[chosen], rows.whole())
    total = change.sum(axis=1).std()
    if total < _MAX_VARIATION:
        return ()
    G, of_group = change.shape[1], change.std(axis=0)
    n = max(1, int((of_group > _MAX_VARIATION / G).sum()))
    return (
        f"integrals over effects of {n} of {G} groups have not converged under the largest rule of "
        f"quadrature, and log weights vary by {total:.2f} nats for that: effects vary more than "
        "rows of a group tell of, so lower group_prior_scale, or join groups of few rows",
    )
