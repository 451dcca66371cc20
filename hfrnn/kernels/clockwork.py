"""Clockwork recurrent network ([S thesis] 3.2.4): modules of units that take a step only every so many steps.

Module j has period T_j and hears itself and the modules i with T_i >= T_j. With t the time, which goes on where a state
is carried, and [j] the columns of module j:

F1  a_t[j] = U_t[j] + sum_i h_{t-1}[i] @ W_h[i, j]      for t mod T_j = 0
F2  h_t[j] = tanh(a_t[j])                               for t mod T_j = 0
F3  h_t[j] = h_{t-1}[j]                                 else: the module rests

L1  k_t = 1 - h_t*h_t                                   once for all products

R1  Ra_t[j] = RU_t[j] + sum_i h_{t-1}[i] @ R(W_h[i, j]) + Rh_{t-1}[i] @ W_h[i, j]
R2  Rh_t[j] = k_t[j] * Ra_t[j]
R3  Rh_t[j] = Rh_{t-1}[j]                               where it rests

B1  da_t[j] = dh_t[j] * k_t[j], dU_t[j] = da_t[j]       0 where it rests
B2  dh_{t-1}[i] = sum_j da_t[j] @ W_h[i, j].T           and dh_t[i] where i rests
B3  dW_h[i, j] = sum_t h_{t-1}[i].T @ da_t[j]

Adjacent modules of one period make a part; where periods grow, as by default, a part hears one run of rows of W_h, and
the sum over i is one product. The blocks of W_h from faster to slower modules are never read, and start at 0. A unit
that rests has no pre-activation, so of the structural metrics only `hidden` is served.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array
from hfrnn.arrays.parameters import HostArray, Initializer, normal
from hfrnn.errors import InputError
from hfrnn.kernels.base import Arrays, Kernel, Slot, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, rows, slope_of_tanh, transpose
from hfrnn.option import Option

MOST_MODULES = 8
"""Modules at most where no periods are given: periods up to 128, within sequences of 200 symbols."""


@dataclass(frozen=True, eq=False)
class Part:
    """Adjacent modules of one period: their columns, and the rows of W_h that they hear, in runs."""

    period: int
    columns: slice
    hears: tuple[slice, ...]

    @property
    def width(self) -> int:
        return int(self.columns.stop - self.columns.start)

    def times(self, start: int, K: int) -> slice:
        """The steps at which it is active, of K steps that begin at time `start`: step t is number t // period."""
        return slice(-start % self.period, K, self.period)


def default_periods(hidden: int) -> tuple[int, ...]:
    """1, 2, 4, ...: as many as there are modules, the most, up to 8, that divide the hidden size."""
    modules = max(n for n in range(1, MOST_MODULES + 1) if hidden % n == 0)
    return tuple(2**n for n in range(modules))


def _checked(periods: Any, hidden: int) -> tuple[int, ...]:
    """The periods as a tuple of integers that divide `hidden` units into modules of equal width."""
    if not isinstance(periods, Iterable) or isinstance(periods, str | bytes):
        raise InputError(f"periods is {periods!r}: give a list of whole numbers, one a module, as in [1, 2, 4]")
    given = tuple(periods)
    if not given:
        raise InputError("periods is empty: give a whole number, 1 or more, for each module")
    for period in given:
        if isinstance(period, bool | np.bool_) or not hasattr(period, "__index__") or period < 1:
            raise InputError(f"periods holds {period!r}: give a whole number, 1 or more, for each module")
    if hidden % len(given):
        raise InputError(
            f"{len(given)} periods were given, and {hidden} units do not divide into {len(given)} modules of equal "
            f"width: give a hidden size that is a multiple of {len(given)}, or another number of periods"
        )
    return tuple(int(period) for period in given)


def _runs(marks: Iterable[Any], width: int) -> list[tuple[Any, slice]]:
    """Equal neighbours among the modules' marks: the mark, and the columns of its run."""
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
        The period of each module, 1 or more, in any order; their number divides H. By default 1, 2, 4, ..., as many
        as the largest number up to 8 that divides H: 8 modules for 400 units, 5 for 195, one (a plain network of
        tanh units) for a prime above 8.

    Raises
    ------
    InputError
        The periods are not such a sequence.
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
        self.parts = tuple(
            Part(period, columns, self._heard(period, width)) for period, columns in _runs(self.periods, width)
        )
        self.slots = (Slot("h", hidden, bias=True, below=True),)

    def _heard(self, period: int, width: int) -> tuple[slice, ...]:
        """The runs of rows of W_h that a module of that period hears."""
        return tuple(run for slower, run in _runs((period <= T for T in self.periods), width) if slower)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"W_h": (self.hidden, self.hidden)}

    def initializers(self) -> dict[str, Initializer]:
        def initialize(rng: np.random.Generator, shape: tuple[int, ...]) -> HostArray:
            values, W_h = normal(self.scale)(rng, shape), np.zeros(shape)
            for part in self.parts:
                for heard in part.hears:
                    W_h[heard, part.columns] = values[heard, part.columns]
            return W_h

        return {"W_h": initialize}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        return {"h": (B, self.hidden), "t": ()}

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        xp, (K, B, H) = tape.xp, U.shape
        tape.start = start = state["t"]
        hs = tape.new("h", K + 1, B, H)  # hs[t] = h_{t-1}
        hs[0] = state["h"]
        for t in range(K):
            h = hs[t + 1]
            h[...] = hs[t]  # F3
            for part in self._active(start + t):
                a = _hear(tape, hs[t], p["W_h"], part, tape.scratch("work", B, part.width))
                a += U[t, :, part.columns]  # F1
                xp.tanh(a, out=h[:, part.columns])  # F2
        if tape.records:
            slope_of_tanh(xp, hs[1:], tape.new("slope", K, B, H))  # L1
        return hs[1:], {"h": hs[K], "t": start + K}

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), hs, slope, start = tape.xp, RU.shape, tape["h"], tape["slope"], tape.start
        Ra = self._shares(tape.scratch("Ra", K, B, H), start)
        for part, share in Ra.items():
            times = part.times(start, K)
            _hear(tape, rows(_before(tape, hs, times)), v["W_h"], part, rows(share))
            share += RU[times, :, part.columns]
        Rhs = tape.new("Rh", K + 1, B, H)  # Rhs[t] = Rh_{t-1}
        Rhs[0] = Rstate["h"]
        for t in range(K):
            Rh = Rhs[t + 1]
            Rh[...] = Rhs[t]  # R3
            for part in self._active(start + t):
                Ra_t = Ra[part][t // part.period]
                Ra_t += _hear(tape, Rhs[t], p["W_h"], part, tape.scratch("work", B, part.width))  # R1
                xp.multiply(slope[t, :, part.columns], Ra_t, out=Rh[:, part.columns])  # R2
        return Rhs[1:], {"h": Rhs[K]}

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        xp, (K, B, H), hs, slope, start = tape.xp, dhs.shape, tape["h"], tape["slope"], tape.start
        das = self._shares(tape.scratch("da", K, B, H), start)
        dh, W_T = tape.new("dh", B, H), transpose(p, "W_h")
        dh[...] = dstate["h"]
        for t in reversed(range(K)):
            dh += dhs[t]
            active = self._active(start + t)
            for part in active:
                dh_part = dh[:, part.columns]
                xp.multiply(dh_part, slope[t, :, part.columns], out=das[part][t // part.period])  # B1
                dh_part[...] = 0
            for part in active:
                for heard in part.hears:
                    dh_heard, work = dh[:, heard], tape.scratch("work", B, heard.stop - heard.start)
                    xp.matmul(das[part][t // part.period], W_T[part.columns, heard], out=work)
                    dh_heard += work  # B2
        dU = tape.scratch("dU", K, B, H)
        dU[...] = 0
        for part, da in das.items():
            times = part.times(start, K)
            dU[times, :, part.columns] = da
            before = _before(tape, hs, times)
            for heard in part.hears:
                add_weight_gradient(tape, before[:, :, heard], da, grad["W_h"][heard, part.columns])  # B3
        return dU, {"h": dh}

    def _active(self, time: int) -> list[Part]:
        """The parts that take a step."""
        return [part for part in self.parts if time % part.period == 0]

    def _shares(self, buffer: Array, start: int) -> dict[Part, Array]:
        """A buffer (K, B, H), shared out: (steps, B, width), C-contiguous, for each part that is active at all."""
        K, B, _ = buffer.shape
        shares, flat = {}, buffer.reshape(-1)
        for part in self.parts:
            steps, at = len(range(K)[part.times(start, K)]), K * B * part.columns.start
            if steps:
                shares[part] = flat[at : at + steps * B * part.width].reshape(steps, B, part.width)
        return shares


def _hear(tape: Tape, x: Array, W: Array, part: Part, out: Array) -> Array:
    """out <- x @ W as far as the part hears it: x (n, H), W (H, H), out (n, width)."""
    for n, heard in enumerate(part.hears):
        target = out if n == 0 else tape.scratch("more", *out.shape)
        tape.xp.matmul(x[:, heard], W[heard, part.columns], out=target)
        if n > 0:
            out += target
    return out


def _before(tape: Tape, hs: Array, times: slice) -> Array:
    """hs (K + 1, B, H) at some steps: a view where they follow each other, else gathered."""
    picked = hs[times]
    if times.step == 1:
        return picked
    gathered = tape.scratch("gathered", times.stop, *hs.shape[1:])[: picked.shape[0]]
    gathered[...] = picked
    return gathered
