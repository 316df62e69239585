"""What happens between the kicks of a Hamiltonian trajectory: free flight, or a stiff part's flow.

A trajectory alternates kicks of the momentum by a slow force with a flow under all the rest. Any
flow that is reversible and keeps volumes leaves the posterior stationary, since the Metropolis
decision at the end is on the exact energy. So what changes fast but is cheap goes into the flow,
and the gradient on all data is taken only as often as the slow rest needs it (split Hamiltonian
Monte Carlo, Shahbaba, Lan, Johnson and Neal 2014; multiple time steps, Tuckerman, Berne and Martyna
1992).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_MIN_STEP = 1e-3  # Steps inside a flow are not shorter, in radians.


class Stiff(NamedTuple):
    """The stiff part of a log joint density in whitened coordinates z, a function of z @ axes.

    ``function`` maps positions (m, r) along the axes to values (m,) and gradients (m, r). It may be
    any approximation of what makes the density stiff: the slow force is what is left.
    """

    axes: np.ndarray  # (d, r), with orthonormal columns.
    function: Callable
    step: float  # A step size at which leapfrog follows this part.


class FreeFlight:
    """The flow of plain leapfrog: kicks are by the whole gradient, and there is no inner step."""

    first_step = 1.0

    def initialise(self, z):
        """No force acts inside the flow."""

    def slow_force(self, z, gradient, inner):
        """All of the gradient."""
        return gradient

    def n_steps(self, h, step):
        """There are no steps inside the flow."""
        return 0

    def advance(self, z, p, h, step, inner):
        """Position, momentum and inner force after time h, and the flow's energy error."""
        return z + h * p, p, inner, 0.0


class StiffFlow:
    """The flow of N(0, I) times the `Stiff` part, by short steps along its axes.

    A step is half a kick by the stiff part, an exact rotation of positions and momenta, which is
    the flow of N(0, I), and half a kick more. Off the axes nothing but the rotation happens, so
    that it is taken at once for the whole flow.
    """

    def __init__(self, stiff):
        self._axes, self._function, self.first_step = stiff

    def initialise(self, z):
        """The stiff part's value and force."""
        return self._function(z @ self._axes)

    def slow_force(self, z, gradient, inner):
        """What is left of the gradient without N(0, I) and the stiff part."""
        return gradient + z - inner[1] @ self._axes.T

    def n_steps(self, h, step):
        """Steps of about such a size in time h."""
        return max(1, int(np.ceil(h / max(step, _MIN_STEP))))

    def advance(self, z, p, h, step, inner):
        """Position, momentum and inner force after time h, and the flow's energy error."""
        n = self.n_steps(h, step)
        part = h / n
        a, b = z @ self._axes, p @ self._axes
        z, p = _rotated(z, p, h)
        at_end = _rotated(a, b, h)
        value, force = inner
        energy = _energy(a, b, value)
        for _ in range(n):
            a, b = _rotated(a, b + 0.5 * part * force, part)
            value, force = self._function(a)
            b = b + 0.5 * part * force
        z = z + (a - at_end[0]) @ self._axes.T
        p = p + (b - at_end[1]) @ self._axes.T
        return z, p, (value, force), _energy(a, b, value) - energy


def _rotated(z, p, angle):
    cosine, sine = np.cos(angle), np.sin(angle)
    return cosine * z + sine * p, cosine * p - sine * z


def _energy(a, b, value):
    return 0.5 * (a**2 + b**2).sum(axis=1) - value
