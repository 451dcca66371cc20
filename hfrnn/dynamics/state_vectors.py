"""The state of a network as one vector: the entries of its arrays layer by layer, the names of a layer sorted.

An array (B, H) gives H entries of each sequence. A history (N, B, H) gives N*H: the latest hidden state first.
Integers, as the time of clockwork, are not entries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import array, as_array, is_array
from hfrnn.arrays.backend import HostArray, get_backend, host_copy
from hfrnn.checks import is_whole, shown
from hfrnn.engine.layers import Layer, state_of_rows
from hfrnn.errors import InputError

Clock = list[dict[str, int]]
"""The integers of a state, by name, for each layer."""


def on_host(name: str, value: Any) -> HostArray:
    """Return an array, or a list of numbers, as a NumPy array, after checking that it is one."""
    return np.asarray(as_array(name, host_copy(value), get_backend("numpy")))


class StateVectors:
    """The places of the state of some layers in a vector of n entries."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = layers
        self.shapes = [layer.kernel.state_shapes(1) for layer in layers]
        self.parts: list[tuple[int, str, tuple[int, ...], slice]] = []  # layer, name, leading axes and width, place
        at = 0
        for l, shapes in enumerate(self.shapes):
            for name in sorted(shapes):
                if shapes[name]:
                    shape = (*shapes[name][:-2], shapes[name][-1])
                    self.parts.append((l, name, shape, slice(at, at + math.prod(shape))))
                    at += math.prod(shape)
        self.n = at

    @property
    def names(self) -> list[str]:
        """Return the names of the n entries: `layer0.h[3]`, or `layer0.history[2,3]`, counted from 0."""
        found = []
        for l, name, shape, _ in self.parts:
            found += [f"layer{l}.{name}[{','.join(map(str, index))}]" for index in np.ndindex(shape)]
        return found

    def clock(self, times: Clock | None = None) -> Clock:
        """Return the integers of a state, 0 unless given."""
        zeros: Clock = [{name: 0 for name, shape in shapes.items() if not shape} for shapes in self.shapes]
        return zeros if times is None else [{**zero, **time} for zero, time in zip(zeros, times, strict=True)]

    def unpack(self, vectors: HostArray, clock: Clock) -> list[dict[str, Any]]:
        """Return a state for vectors (B, n): C-contiguous arrays, and the integers."""
        arrays = state_of_rows(self.layers, vectors)
        return [{**integers, **layer} for integers, layer in zip(clock, arrays, strict=True)]

    def pack(self, state: list[dict[str, Any]], out: HostArray | None = None) -> HostArray:
        """Return the vectors (..., B, n) of a state; its arrays may have the same further axes in front."""
        vectors = out
        for l, name, shape, place in self.parts:
            values = np.moveaxis(state[l][name], -2, -len(shape) - 1)  # (..., B, N, H)
            rows = values.reshape(*values.shape[: -len(shape)], math.prod(shape))
            if vectors is None:
                vectors = np.empty((*rows.shape[:-1], self.n), rows.dtype)
            vectors[..., place] = rows
        assert vectors is not None
        return vectors

    def checked(self, name: str, state: Any) -> tuple[HostArray, Clock]:
        """Return vectors (B, n) in float64 and integers from what a caller gives: a state, or an array (..., n)."""
        if is_array(state):
            found = on_host(name, state)
            if found.ndim < 1 or found.shape[-1] != self.n:
                raise InputError(
                    f"{name} has shape {found.shape}: this network has {self.n} state entries, so give an array "
                    f"(..., {self.n}), or a list of one dict of arrays for each layer"
                )
            found = array(name, found.reshape(-1, self.n), (None, self.n), finite=True)
            return found.astype(np.float64), self.clock()
        if not isinstance(state, list | tuple) or not all(isinstance(layer, dict) for layer in state):
            raise InputError(
                f"{name} is {shown(state)}: give a list of one dict of arrays for each layer, as net.run returns it, "
                f"or an array (..., {self.n})"
            )
        if len(state) != len(self.shapes):
            raise InputError(f"{name} has {len(state)} layers: this network has {len(self.shapes)}")
        B = None
        whole: list[dict[str, Any]] = []
        for l, (given, shapes) in enumerate(zip(state, self.shapes, strict=True)):
            if given.keys() != shapes.keys():
                raise InputError(f"layer {l} of {name} has {sorted(given)}: this network has {sorted(shapes)}")
            whole.append({})
            for key, shape in shapes.items():
                value = host_copy(given[key])
                if not shape:
                    value = value.item() if hasattr(value, "item") and np.size(value) == 1 else value
                    if not is_whole(value) or value < 0:
                        raise InputError(f"{key} of {name} is {shown(value)}: give a whole number, 0 or more")
                    whole[l][key] = int(value)
                    continue
                expected = (*shape[:-2], B, shape[-1])
                value = array(f"{key} of layer {l} of {name}", value, expected, finite=True)
                whole[l][key], B = value.astype(np.float64), value.shape[-2]
        clock = [{key: x for key, x in layer.items() if isinstance(x, int)} for layer in whole]
        return self.pack(whole), self.clock(clock)
