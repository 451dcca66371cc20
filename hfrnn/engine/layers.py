"""One layer of a stack: a kernel, and the slots that the inputs, the layer below and the bias feed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.kernels.base import Kernel


@dataclass(frozen=True)
class Columns:
    """The columns of U that one parameter block feeds."""

    runs: tuple[tuple[int, int, int], ...]  # neighbouring columns: first of U, first of the block, number
    width: int  # number of columns of the block


@dataclass(frozen=True)
class Layer:
    """One layer of a stack."""

    kernel: Kernel
    slots: int  # number of columns of U
    direct: Columns  # those that the inputs feed, through `W_x`
    below: Columns  # those that the layer below feeds, through `W_below`
    bias: Columns  # those that have a bias, `b`
    noisy: Columns  # those with noise on the states: those that a layer below can feed or, without any, all


def make_layer(l: int, kernel: Kernel, bias: bool | None, direct_input: bool) -> Layer:
    """Return layer `l` of a stack; see `hfrnn.Network` for `bias` and `direct_input`."""
    from_below = [l > 0 and slot.below for slot in kernel.slots]
    direct = [slot.input and (direct_input or not below) for slot, below in zip(kernel.slots, from_below, strict=True)]
    biased = [slot.bias for slot in kernel.slots]
    if bias is True and not any(biased):
        biased = [slot.below for slot in kernel.slots]
    elif bias is False:
        biased = [False] * len(biased)
    noisy = [slot.below for slot in kernel.slots]
    if not any(noisy):
        noisy = [True] * len(noisy)
    slots = sum(slot.width for slot in kernel.slots)
    return Layer(kernel, slots, *(_columns(kernel, chosen) for chosen in (direct, from_below, biased, noisy)))


def initial_state_name(name: str) -> str:
    """Return the name of the parameter block that holds a learned initial state: `h0` for the state `h`."""
    return f"{name}0"


def deviations_name(name: str) -> str:
    """Return the name of the parameter block with the deviations of recordings from a learned initial state."""
    return f"{name}0_each"


def initial_state_shapes(kernel: Kernel, recordings: int = 0) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a kernel's learned initial states by name.

    Each array of its state has one row and, with recordings, one more for each of them, in a vector.
    """
    widths = {name: shape[-1] for name, shape in kernel.state_shapes(1).items() if shape}
    found: dict[str, tuple[int, ...]] = {initial_state_name(name): (width,) for name, width in widths.items()}
    return found | {deviations_name(name): (recordings * width,) for name, width in widths.items() if recordings}


def state_rows(state: Sequence[Mapping[str, Any]]) -> HostArray:
    """Return the entries of a state side by side, (B, n): layer by layer, names sorted; without integers."""
    arrays = [layer[name] for layer in state for name in sorted(layer) if getattr(layer[name], "shape", ())]
    return np.concatenate([np.moveaxis(x, -2, 0).reshape(x.shape[-2], -1) for x in arrays], axis=1)


def state_of_rows(layers: Sequence[Layer], rows: HostArray) -> list[dict[str, HostArray]]:
    """Return the state of B sequences with these entries, (B, n), as `state_rows` returns them; without integers."""
    found: list[dict[str, HostArray]] = []
    at = 0
    for layer in layers:
        shapes = {name: shape for name, shape in layer.kernel.state_shapes(len(rows)).items() if shape}
        found.append({})
        for name, shape in sorted(shapes.items()):
            one = (*shape[:-2], shape[-1])
            entries = rows[:, at : at + math.prod(one)].reshape(len(rows), *one)
            found[-1][name] = np.ascontiguousarray(np.moveaxis(entries, 0, -2))
            at += math.prod(one)
    return found


def state_width(layers: Sequence[Layer]) -> int:
    """Return how many numbers a state has, the integers left out."""
    shapes = [shape for layer in layers for shape in layer.kernel.state_shapes(1).values() if shape]
    return sum(map(math.prod, shapes))


def _columns(kernel: Kernel, chosen: Sequence[bool]) -> Columns:
    """Return the columns of the chosen slots, with neighbouring slots joined into one run."""
    runs: list[tuple[int, int, int]] = []
    at = width = 0
    for slot, taken in zip(kernel.slots, chosen, strict=True):
        if taken:
            if runs and runs[-1][0] + runs[-1][2] == at:
                start, first, length = runs[-1]
                runs[-1] = (start, first, length + slot.width)
            else:
                runs.append((at, width, slot.width))
            width += slot.width
        at += slot.width
    return Columns(tuple(runs), width)
