"""Clockwork recurrent network ([S thesis] 3.2.4): modules of units, each of which takes a step only now and then.

Module j has period T_j. It depends on itself and on every module i with T_i >= T_j. t is the time, which continues
where a state is carried from one segment to the next, and [j] are the columns of module j.

F1  a_t[j] = U_t[j] + sum_i h_{t-1}[i] @ W_h[i, j]      [S thesis] 3.2.4, where t mod T_j = 0: module j is active
F2  h_t[j] = tanh(a_t[j])                               [S thesis] 3.2.4, where module j is active
F3  h_t[j] = h_{t-1}[j]                                 [S thesis] 3.2.4, where module j rests

L1  k_t = 1 - h_t*h_t                                   derivative of F2, once for all products

R1  Ra_t[j] = RU_t[j] + sum_i h_{t-1}[i] @ R(W_h[i, j]) F1 by the rules of [P]
              + sum_i Rh_{t-1}[i] @ W_h[i, j]
R2  Rh_t[j] = k_t[j] * Ra_t[j]                          F2 by the rules of [P]
R3  Rh_t[j] = Rh_{t-1}[j]                               F3 by the rules of [P]

B1  da_t[j] = dh_t[j] * k_t[j], dU_t[j] = da_t[j]       adjoint of F2; 0 where module j rests
B2  dh_{t-1}[i] = sum_j da_t[j] @ W_h[i, j].T           adjoint of F1; plus dh_t[i] where i rests (F3)
B3  dW_h[i, j] = sum_t h_{t-1}[i].T @ da_t[j]           adjoint of F1

Adjacent modules of equal period form a group. Where periods grow, as by default, a group depends on one run of rows of
W_h, so that the sum over i is one product. The blocks of W_h from faster to slower modules are never read, and start at
0. A resting unit has no pre-activation, so the only structural metric is `hidden`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.checks import is_whole, shown_exactly, wrong
from hfrnn.errors import InputError, Message
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, rows, slope_of_tanh, transpose
from hfrnn.option import Option

MOST_MODULES = 8
"""The largest number of modules where no periods are given: periods up to 128, for sequences of 200 symbols."""


@dataclass(frozen=True)
class Group:
    """Adjacent modules of one period: their columns, and the runs of rows of W_h that they depend on."""

    period: int
    columns: slice
    inputs: tuple[slice, ...]

    @property
    def width(self) -> int:
        """The number of units."""
        return int(self.columns.stop - self.columns.start)

    def active_steps(self, start: int, K: int) -> slice:
        """Return the active steps of a segment of K steps that begins at time `start`."""
        return slice(-start % self.period, K, self.period)


def default_periods(hidden: int) -> tuple[int, ...]:
    """Return the periods 1, 2, 4, ... of the largest number of modules up to 8 that divides the hidden size."""
    modules = max(n for n in range(1, MOST_MODULES + 1) if hidden % n == 0)
    return tuple(2**n for n in range(modules))


def _checked(periods: Any, hidden: int) -> tuple[int, ...]:
    """Return the periods as a tuple of integers, after checking that they divide `hidden` units into equal modules."""
    if not isinstance(periods, list | tuple | range) and getattr(periods, "ndim", 0) != 1:
        raise wrong("periods", periods, "give a list of whole numbers, one per module, as in [1, 2, 4]")
    given = tuple(periods)
    if not given:
        raise InputError(Message("{periods!s} is empty: give a whole number, 1 or more, for each module"))
    for period in given:
        if not is_whole(period) or period < 1:
            raise InputError(Message(
                "{periods!s} holds {0}: give a whole number, 1 or more, for each module", shown_exactly(period)
            ))  # fmt: skip
    if hidden % len(given):
        raise InputError(
            f"{len(given)} periods were given, and {hidden} units do not divide into {len(given)} modules of equal "
            f"width: give a hidden size that is a multiple of {len(given)}, or another number of periods"
        )
    return tuple(int(period) for period in given)


def _runs(marks: Iterable[Any], width: int) -> list[tuple[Any, slice]]:
    """Return each run of equal neighbours among the modules' marks: the mark and the columns of the run."""
    runs, at = [], 0
    for mark, group in itertools.groupby(marks):
        stop = at + width * len(list(group))
        runs.append((mark, slice(at, stop)))
        at = stop
    return runs


class Clockwork(Kernel):
    """`clockwork`: H tanh units in modules of equal width, each with a period of its own.

    Parameters
    ----------
    hidden : int
    periods : sequence of int, optional
        The period of each module, 1 or more, in any order; their number must divide H. By default 1, 2, 4, ... for
        the largest number of modules up to 8 that divides H: 8 modules for 400 units, 5 for 195, one (a plain network
        of tanh units) for a prime above 8.

    Raises
    ------
    InputError
        The periods are not whole numbers of 1 or more, or their number does not divide H.
    """

    options = (
        Option(
            "periods", int, None, "Period of each module, in steps.", many=True, least=1, unit="steps",
            otherwise="1,2,4,..., up to 8 modules of equal width",
        ),
    )  # fmt: skip
    transposed = ("W_h",)

    def __init__(self, hidden: int, periods: Sequence[int] | None = None) -> None:
        self.hidden = self.width = hidden
        self.periods = default_periods(hidden) if periods is None else _checked(periods, hidden)
        width = hidden // len(self.periods)
        self.groups = tuple(
            Group(period, columns, self._inputs(period, width)) for period, columns in _runs(self.periods, width)
        )
        self.slots = (Slot("h", hidden, bias=True, below=True),)

    def _inputs(self, period: int, width: int) -> tuple[slice, ...]:
        """Return the runs of rows of W_h that a module of this period depends on."""
        return tuple(run for slower, run in _runs((period <= T for T in self.periods), width) if slower)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, self.hidden)}

    def clear_unread(self, parameters: dict[str, HostArray]) -> None:
        read = np.zeros((self.hidden, self.hidden), dtype=bool)
        for group in self.groups:
            for i in group.inputs:
                read[i, group.columns] = True
        parameters["W_h"][~read] = 0.0

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden), "t": ()}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H), W = tape.xp, U.shape, p["W_h"]
        tape.start = start = state["t"]
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        for t in range(K):
            h = hs[t + 1]
            h[...] = hs[t]  # F3
            for group in self._active(start + t):
                a = _product(tape, hs[t], W, group)
                a += U[t, :, group.columns]  # F1
                xp.tanh(a, out=h[:, group.columns])  # F2
        if tape.records:
            slope_of_tanh(xp, hs[1:], tape.new("slope", K, B, H))  # L1
        return hs[1:], {"h": hs[K], "t": start + K}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), slope, start = tape.xp, RU.shape, tape["slope"], tape.start
        Ra = self.known_tangents(v, tape, RU)
        Rhs = tape.new("Rh", K + 1, B, H)  # Rhs[t] = Rh_{t-1}
        Rhs[0] = Rstate["h"]
        for t in range(K):
            Rh = Rhs[t + 1]
            Rh[...] = Rhs[t]  # R3
            for group in self._active(start + t):
                Ra_t = Ra[t, :, group.columns]
                Ra_t += _product(tape, Rhs[t], p["W_h"], group)  # R1
                xp.multiply(slope[t, :, group.columns], Ra_t, out=Rh[:, group.columns])  # R2
        return Rhs[1:], {"h": Rhs[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), slope, start = tape.xp, dhs.shape, tape["slope"], tape.start
        dU, dh, W_T = tape.scratch("dU", K, B, H), tape.new("dh", B, H), transpose(p, "W_h")
        dU[...] = 0
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            dh += dhs[t]
            active = self._active(start + t)
            for group in active:
                dh_j = dh[:, group.columns]
                xp.multiply(dh_j, slope[t, :, group.columns], out=dU[t, :, group.columns])  # B1
                dh_j[...] = 0
            for group in active:
                for i in group.inputs:
                    work = tape.scratch("work", B, i.stop - i.start)
                    xp.matmul(dU[t, :, group.columns], W_T[group.columns, i], out=work)
                    dh[:, i] += work  # B2
        self.add_gradients(tape, dU, grad)
        return dU, {"h": dh}

    def known_tangents(self, v: Arrays, tape: Tape, RU: Array) -> Array:
        """Return Ra (K, B, H) without the tangents of h; only the entries of active modules are used."""
        (K, B, H), hs = RU.shape, tape["h"]
        Ra = tape.scratch("Ra", K, B, H)
        Ra[...] = RU
        for group in self.groups:
            steps = group.active_steps(tape.start, K)
            before = hs[:K] if group.period == 1 else _copy(tape, "before", hs[:K][steps])
            if before.shape[0]:
                product = _product(tape, rows(before), v["W_h"], group)
                Ra[steps, :, group.columns] += product.reshape(before.shape[0], B, group.width)  # R1
        return Ra

    def add_gradients(self, tape: Tape, dU: Array, grad: Arrays) -> None:
        """Add the gradient of W_h from the adjoints dU (K, B, H), which are 0 where a module rests."""
        K, hs = dU.shape[0], tape["h"]
        for group in self.groups:
            steps = group.active_steps(tape.start, K)
            before = hs[:K] if group.period == 1 else _copy(tape, "before", hs[:K][steps])
            da = _copy(tape, "da", dU[steps, :, group.columns])
            for i in group.inputs:
                add_weight_gradient(tape, before[:, :, i], da, grad["W_h"][i, group.columns])  # B3

    def _active(self, time: int) -> list[Group]:
        """Return the groups that take a step at this time."""
        return [group for group in self.groups if time % group.period == 0]


def _product(tape: Tape, x: Array, W: Array, group: Group) -> Array:
    """Return x @ W for the columns of a group and the rows that it depends on, in scratch: x (n, H), W (H, H)."""
    shape = (x.shape[0], group.width)
    out = tape.scratch("product", *shape)
    for n, i in enumerate(group.inputs):
        summand = out if n == 0 else tape.scratch("summand", *shape)
        tape.xp.matmul(x[:, i], W[i, group.columns], out=summand)
        if n > 0:
            out += summand
    return out


def _copy(tape: Tape, name: str, x: Array) -> Array:
    """Return a C-contiguous copy of x in scratch."""
    copy = tape.scratch(name, *x.shape)
    copy[...] = x
    return copy
