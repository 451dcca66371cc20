"""Zeros of |F(h, u) - h| by Newton and damped Gauss-Newton (Levenberg-Marquardt) steps, for many starts side by side.

With r = F(h, u) - h, A = dF/dh - I and the damping lambda, a step d solves

S1  A d = -r                                            Newton's step, where lambda is 0
S2  (A'A + lambda I) d = -A'r                           Levenberg 1944, Marquardt 1963

A step that does not lower |r| is not made, and lambda grows. After a step that at least halves |r|, lambda falls; below
`LEAST` it is 0. Every start has a lambda of its own; the equations of all starts are solved together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from hfrnn.arrays.backend import HostArray

FIRST, LEAST, GREATEST = 1e-2, 1e-4, 1e6
"""The first lambda, the smallest above 0, and the one above which a search ends. |A| is about 1."""
STALLED = 8
"""A search ends after this many steps in a row that lower the speed by less than 1%."""
ENTRIES = 2**22
"""About how many entries the Jacobians of the starts have that are searched from side by side."""


class Found(NamedTuple):
    """Where the searches ended."""

    states: HostArray  # (S, n)
    speed: HostArray  # (S,), |F(h, u) - h|


class Residual(Protocol):
    """The function F(h, u) - h of states and inputs."""

    def __call__(self, h: HostArray, u: HostArray) -> HostArray:
        """Return the residuals (B, n)."""

    def jacobian(self, h: HostArray, u: HostArray) -> HostArray:
        """Return dF/dh, (B, n, n)."""


def search(
    residual: Residual, starts: HostArray, inputs: HostArray, tolerance: float, iterations: int,
    progress: Callable[[int, int], object] | None = None,
) -> Found:  # fmt: skip
    """Lower |F(h, u) - h| from every start (S, n) until it is at most `tolerance`, or falls no more."""
    S, n = starts.shape
    states, speed, width = np.empty((S, n)), np.empty(S), max(ENTRIES // n**2, 1)
    for first in range(0, S, width):
        some = slice(first, first + width)
        states[some], speed[some] = _search_some(residual, starts[some], inputs[some], tolerance, iterations)
        if progress is not None:
            progress(min(first + width, S), S)
    return Found(states, speed)


def _search_some(
    residual: Residual, starts: HostArray, inputs: HostArray, tolerance: float, iterations: int
) -> tuple[HostArray, HostArray]:
    h, r = starts.copy(), residual(starts, inputs)
    S, n = starts.shape
    speed, damping, diagonal = _norm(r), np.full(S, FIRST), np.arange(n)
    A, known, stalled = np.empty((S, n, n)), np.zeros(S, np.bool_), np.zeros(S, np.int64)
    for _ in range(iterations):
        active = np.flatnonzero((speed > tolerance) & (damping <= GREATEST) & (stalled < STALLED))
        if not active.size:
            break
        new = active[~known[active]]
        if new.size:
            A[new] = residual.jacobian(h[new], inputs[new])
            A[new[:, None], diagonal, diagonal] -= 1
            known[new] = True
        trial = h[active] + _steps(A[active], r[active], damping[active])
        r_trial = residual(trial, inputs[active])
        after, before = _norm(r_trial), speed[active]
        lower, half = after < before, after < 0.5 * before  # NaN is neither
        made = active[lower]
        h[made], r[made], speed[made], known[made] = trial[lower], r_trial[lower], after[lower], False
        stalled[active] = np.where(after < 0.99 * before, 0, stalled[active] + 1)
        less = np.where(damping[active] > LEAST, damping[active] / 10, 0)
        more = np.maximum(10 * damping[active], 10 * LEAST)
        damping[active] = np.where(half, less, np.where(lower, damping[active], more))
    return h, speed


def _norm(r: HostArray) -> HostArray:
    return np.asarray(np.sqrt(np.einsum("bi,bi->b", r, r)))


def _steps(A: HostArray, r: HostArray, damping: HostArray) -> HostArray:
    """Return the steps (B, n) of the matrices A (B, n, n)."""
    steps, newton = np.empty_like(r), damping == 0
    if newton.any():
        try:
            steps[newton] = np.linalg.solve(A[newton], -r[newton, :, None])[..., 0]  # S1
        except np.linalg.LinAlgError:  # one of them is singular
            damping, newton = np.where(newton, LEAST, damping), np.zeros_like(newton)
    damped = np.flatnonzero(~newton)
    if damped.size:
        A, r = (A, r) if damped.size == len(r) else (A[damped], r[damped])
        A_T = A.swapaxes(1, 2)
        M = A_T @ A
        diagonal = np.arange(r.shape[1])
        M[:, diagonal, diagonal] += damping[damped, None]
        b = -(A_T @ r[..., None])
        try:
            steps[damped] = np.linalg.solve(M, b)[..., 0]  # S2
        except np.linalg.LinAlgError:  # a damping that is lost in rounding
            steps[damped] = (np.linalg.pinv(M, hermitian=True) @ b)[..., 0]
    return steps
