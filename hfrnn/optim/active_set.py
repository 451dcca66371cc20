"""The weights that an update must not move, because of constraints on them: absent ones, and ones at the bound 0."""

from __future__ import annotations

from typing import Any, Protocol

from hfrnn.arrays.vectors import Apply, Vector
from hfrnn.checks import methods
from hfrnn.errors import InputError


class Constraints(Protocol):
    """A convex set of parameters, the same condition for each entry by itself."""

    def project(self, theta: Vector) -> Vector:
        """Return the nearest parameters (n,) that are allowed, in a new array."""

    def held(self, theta: Vector, gradient: Vector) -> Vector:
        """Return which entries of theta, which is allowed, must not move along minus the gradient; (n,) bool."""


class ActiveSet:
    """The entries that are held in an update, if its objective has constraints.

    Parameters
    ----------
    constraints : Constraints or None
    theta, gradient : (n,) arrays
        The parameters, which the constraints allow, and the gradient there.

    References
    ----------
    D. Bertsekas, *Projected Newton Methods for Optimization Problems with Simple Constraints*, 1982: a Newton step of
    the other entries, projected, lowers the loss if it is short enough.
    """

    def __init__(self, constraints: Constraints | None, theta: Vector, gradient: Vector) -> None:
        self._constraints = constraints
        self._held = None if constraints is None else constraints.held(theta, gradient)

    def restricted(self, x: Vector) -> Vector:
        """Return x (n,) with 0 in the held entries; x itself without constraints."""
        if self._held is None:
            return x
        x = x.copy()
        x[self._held] = 0
        return x

    def product(self, apply: Apply) -> Apply:
        """Return a function that writes `apply`'s result with 0 in the held entries.

        On vectors that are 0 there, this is P A P.
        """
        held = self._held
        if held is None:
            return apply

        def restricted(v: Vector, out: Vector) -> None:
            apply(v, out)
            out[held] = 0

        return restricted

    def allowed(self, theta: Vector) -> Vector:
        """Return the nearest parameters (n,) that the constraints allow; theta itself without constraints."""
        return theta if self._constraints is None else self._constraints.project(theta)


def constraints_of(*objectives: Any) -> Constraints | None:
    """Return the attribute `constraints` that objectives have in common; None if they have none.

    Raises
    ------
    InputError
        One of the objectives has other constraints than the first one.
    """
    found: Constraints | None = getattr(objectives[0], "constraints", None)
    methods("constraints of the objective", found, ("project", "held"), or_none=True)
    if any(getattr(each, "constraints", None) is not found for each in objectives[1:]):
        raise InputError("the objectives of an update have different constraints: give all of them the same object")
    return found
