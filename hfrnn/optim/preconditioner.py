"""Build the preconditioner of an update from the options of Hessian-free optimization (SPEC 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.threads import Threads
from hfrnn.arrays.vectors import Apply, Vector, fetch, is_on_host
from hfrnn.checks import SHIFTS
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.cg import power_preconditioner
from hfrnn.optim.damping import Damping
from hfrnn.optim.hf_options import CurvatureObjective, HessianFreeOptions
from hfrnn.optim.kronecker import RARER, Kronecker, kronecker, load_kronecker

RARER_ON_TEXT = 2
"""`rarer` of `kronecker` with a relative shift. Long-lag tasks, which have none, need newer factors."""
PREFIX = "kronecker."
"""Prefix of the names of a Kronecker preconditioner's entries in the state of the optimizer."""


@dataclass(frozen=True)
class Preconditioner:
    """The preconditioner of an update, the state that the next update needs, and the noise of the gradient.

    `apply` is as for `conjugate_gradient`. `noise` is K8 of docs/preconditioner.md, times the number of symbols; 0 if
    the updates have no `noise_limit`.
    """

    apply: Apply | None = None
    kronecker: Kronecker | None = None
    noise: float = 0.0


def check_shift(options: HessianFreeOptions, damping: Damping) -> None:
    """Raise InputError if the preconditioner has nothing to add to D."""
    given = options.preconditioner_shift is not None or options.preconditioner_relative_shift > 0.0
    if options.preconditioner != "none" and not given and not damping.lambda_ > 0.0:
        raise InputError(
            f'preconditioner is "{options.preconditioner}", but there is no lambda to add to D: '
            "give a preconditioner_shift or preconditioner_relative_shift above 0, or damping with a lambda."
        )


def shift_of(options: HessianFreeOptions, damping: Damping, found: Vector | Kronecker) -> float | Vector:
    """Return what to add to D: the given shift, a share of the mean of D, or lambda.

    The trace of the curvature hardly depends on the number of weights, so the mean of D falls with it. A share of this
    mean suits networks of all sizes; lambda does not. `found` is D, (n,), or the Kronecker preconditioner, which gives
    each block a shift of its own (K7 of `optim/kronecker.py`).
    """
    relative = options.preconditioner_relative_shift
    if options.preconditioner_shift is not None:
        return options.preconditioner_shift
    if not relative:
        return damping.lambda_
    if isinstance(found, Kronecker):
        return found.shifts(relative)
    (mean,) = fetch(found.mean(dtype="float64"))
    return min(max(relative * mean, SHIFTS.low), SHIFTS.high)


def make_preconditioner(
    theta: Vector,
    objective: CurvatureObjective,
    damping: Damping,
    options: HessianFreeOptions,
    earlier: Kronecker | None,
) -> Preconditioner:
    """Return the preconditioner of an update for the objective of the curvature; `earlier` is that of the last update.

    With the Kronecker preconditioner, `apply` is None before the first finite factors. If new factors are not finite,
    those of the last update are used again.
    """
    if options.preconditioner == "diagonal":
        squared = _method(objective, options, "squared_gradients")(theta)
        diagonal = array("the result of squared_gradients", squared, theta.shape, "f")
        shift = shift_of(options, damping, diagonal)
        made = power_preconditioner(diagonal, shift, options.preconditioner_exponent)
        return Preconditioner(made, noise=_noise(diagonal, shift, options))
    if options.preconditioner == "none":
        return Preconditioner()
    threads = _threads(objective, "threads")
    if earlier is not None and earlier.diagonal.shape != theta.shape:
        raise InputError(
            f"theta has shape {theta.shape}, but the preconditioner of the last update has {earlier.diagonal.shape}: "
            "use one optimizer for one model"
        )
    if earlier is None or earlier.due:
        parts = _method(objective, options, "part_gradients")(theta, options.preconditioner_parts)
        gradients = array("the result of part_gradients", parts, (None, *theta.shape), "f")
        blocks = _method(objective, options, "matrix_blocks") if earlier is None else earlier.blocks
        decay, longest = options.preconditioner_decay, options.preconditioner_every
        try:
            rarer = RARER_ON_TEXT if options.preconditioner_relative_shift else RARER
            of_factors = threads if is_on_host(gradients) else _threads(objective, "host_threads")
            found = kronecker(blocks, gradients, earlier, decay, longest, of_factors, rarer)
        except NonFiniteError:
            if earlier is None:
                return Preconditioner()
            found = earlier  # still due
    else:
        found = earlier
    shift = shift_of(options, damping, found)
    made = found.preconditioner(shift, options.preconditioner_exponent, threads)
    noise = _noise(found.diagonal, shift, options)
    return Preconditioner(_within(made, getattr(objective, "exists", None)), found.used(), noise)


def _threads(objective: CurvatureObjective, name: str) -> Threads | None:
    """Return threads of an objective; None if the attribute of one's own objective means something else."""
    found = getattr(objective, name, None)
    return found if isinstance(found, Threads) else None


def _noise(diagonal: Vector, shift: float | Vector, options: HessianFreeOptions) -> float:
    """Return K8 times the number of symbols if the updates have a `noise_limit`, else 0."""
    if options.noise_limit is None:
        return 0.0
    (total,) = fetch((diagonal * (diagonal + shift) ** -options.preconditioner_exponent).sum(dtype="float64"))
    return total  # K8


def _within(preconditioner: Apply, exists: Vector | None) -> Apply:
    """Return P M^-1 P, where P = diag(exists), for vectors that P does not change: CG stays among them."""
    if exists is None:
        return preconditioner

    def within(r: Vector, out: Vector) -> None:
        preconditioner(r, out)
        out *= exists

    return within


def state_of(kronecker: Kronecker | None) -> dict[str, Any]:
    """Return the entries of a Kronecker preconditioner in the state of the optimizer."""
    return {} if kronecker is None else {PREFIX + name: value for name, value in kronecker.state_dict().items()}


def kronecker_of(state: Mapping[str, Any]) -> Kronecker | None:
    """Return the Kronecker preconditioner of the optimizer's state; None if the state holds none."""
    own = {key.removeprefix(PREFIX): value for key, value in state.items() if key.startswith(PREFIX)}
    return load_kronecker(own) if own else None


def _method(objective: CurvatureObjective, options: HessianFreeOptions, name: str) -> Any:
    found = getattr(objective, name, None)
    if found is None:
        raise InputError(
            f'preconditioner is "{options.preconditioner}", but the curvature objective has no {name}: '
            'give it one, or use "none".'
        )
    return found
