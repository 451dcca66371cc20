"""The states of a shard before each of its segments: zeros, those of the batch, or learned ones; and saved ones.

A learned initial state is a parameter block `layer{l}.{name}0` for each array `name` of the layer's state. With
`recordings`, recording r of R has a deviation of its own, row r of the block `layer{l}.{name}0_each`:

F1  state_0 = p0 + q_r                                  for each h of a history; q_r = 0 for an unknown recording
R1  Rstate_0 = R(p0) + R(q_r)                           F1 by the rules of [P]
B1  dp0 = sum dstate_0                                  adjoint of F1; the sum over all sequences
B2  dq_r = sum dstate_0                                 adjoint of F1; the sum over the sequences of recording r
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hfrnn.arrays.array_checks import is_array
from hfrnn.arrays.backend import Array, Buffers
from hfrnn.engine.batch import Batch
from hfrnn.engine.layers import deviations_name, initial_state_name
from hfrnn.kernels.base import Arrays
from hfrnn.kernels.pointwise import add_bias_gradient

if TYPE_CHECKING:
    from hfrnn.engine.input_map import Groups
    from hfrnn.engine.layout import Layout

States = list[Arrays]


class SegmentStates:
    """The states of one shard before its segments; the initial state of the batch takes the place of a learned one.

    Saved states lie in `kept`. `again` is the number of segments, if they will run again from saved states; else 0.
    """

    def __init__(self, layout: Layout, batch: Batch, kept: Buffers, again: int) -> None:
        self.kept, self.again = kept, again
        start = layout.zero_state(batch.B, kept.dtype)
        self.zeros: States = [{key: x for key, x in layer.items() if not isinstance(x, int)} for layer in start]
        given: Any = batch.initial_state
        self.numbers: Array | None = None  # (B,), the recordings of the sequences, below 0 for unknown ones
        if is_array(given):
            self.numbers, given = given, None
        self.learned = layout.learn_initial_state and given is None
        self._start: States = start if given is None else list(given)
        self._Rstart = self.zeros
        if self.learned:  # arrays of their own: the zeros also start the backward pass
            self._start, self._Rstart = (layout.zero_state(batch.B, kept.dtype) for _ in range(2))
        self._integers: dict[tuple[str, int], list[dict[str, int]]] = {}  # the integers of saved states

    def initial(self, p: Groups) -> States:
        """Return the state before the first step, at parameters p."""
        if self.learned:
            self._write(self._start, p)  # F1
        return self._start

    def begin(self, state: States, tangent: States | None = None) -> None:
        """Begin with another state than the batch brings, and R-forward with its tangent; no learned one takes part."""
        self.learned, self._start = False, state
        self._Rstart = self.zeros if tangent is None else tangent

    def initial_tangent(self, v: Groups) -> States:
        """Return the tangent of the state before the first step, along the parameter direction v."""
        if self.learned:
            self._write(self._Rstart, v)  # R1
        return self._Rstart

    def add_gradient(self, dstate: States, grad: Groups) -> None:
        """Add the gradient of a learned initial state to grad, given the adjoint of the state before the first step."""
        if self.learned:
            for l, layer in enumerate(self.zeros):
                for name, zeros in layer.items():
                    sums = grad[f"layer{l}"][initial_state_name(name)]  # (H,), or (H, P) for each part by itself
                    *history, B, H = zeros.shape
                    dstates = dstate[l][name].reshape(math.prod(history), B, H)
                    add_bias_gradient(dstates, sums)  # B1
                    if self.numbers is not None:
                        each = grad[f"layer{l}"][deviations_name(name)]  # (R*H,), or (R*H, P)
                        _add_to_recordings(self.kept.backend.xp, self.numbers, dstates.sum(axis=0), each)  # B2

    def save(self, name: str, s: int, state: States) -> None:
        """Save the state before segment s, if the segment will run again."""
        if not self.again:
            return
        self._integers[name, s] = [{key: x for key, x in layer.items() if isinstance(x, int)} for layer in state]
        for l, layer in enumerate(self.zeros):
            for key, value in layer.items():
                self.kept.get(f"{name}.{l}.{key}", (self.again, *value.shape))[s] = state[l][key]

    def saved(self, name: str, s: int) -> States:
        """Return the state that was saved before segment s."""
        return [
            {key: self.kept.get(f"{name}.{l}.{key}", (self.again, *value.shape))[s] for key, value in layer.items()}
            | self._integers[name, s][l]
            for l, layer in enumerate(self.zeros)
        ]

    def _write(self, state: States, p: Groups) -> None:
        """Overwrite the arrays of a state by their parameters."""
        for l, layer in enumerate(self.zeros):
            for name, zeros in layer.items():
                own = p[f"layer{l}"]
                state[l][name][...] = own[initial_state_name(name)]
                if self.numbers is not None:
                    each = own[deviations_name(name)].reshape(-1, zeros.shape[-1])  # (R, H)
                    state[l][name] += each[self.numbers] * (self.numbers >= 0)[:, None]


def _add_to_recordings(xp: Any, numbers: Array, d: Array, each: Array) -> None:
    """Add d (B, H) to the rows of `each` (R*H,) of known recordings; (R*H, P) for P parts of B/P sequences in a row.

    The sums are products with a matrix of zeros and ones: on a GPU, additions at places would have no fixed order.
    """
    (B, H), P = d.shape, 1 if each.ndim == 1 else each.shape[1]
    R = each.shape[0] // H
    ones = (xp.arange(R)[:, None] == numbers).astype(d.dtype).reshape(R, P, B // P).swapaxes(0, 1)  # (P, R, B/P)
    sums = xp.matmul(xp.ascontiguousarray(ones), d.reshape(P, B // P, H))  # (P, R, H)
    each += xp.moveaxis(sums, 0, -1).reshape(each.shape)
