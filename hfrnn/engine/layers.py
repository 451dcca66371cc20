"""One kernel of a stack, and which of its slots the inputs, the layer below and the bias feed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hfrnn.kernels.base import Kernel


@dataclass(frozen=True)
class Columns:
    """The slots of U that a block feeds: (first column of U, first column of the block, width) of each run."""

    runs: tuple[tuple[int, int, int], ...]
    width: int


@dataclass(frozen=True)
class Layer:
    """One kernel of the stack and which slots hear what."""

    kernel: Kernel
    slots: int
    direct: Columns
    below: Columns
    bias: Columns


def make_layer(l: int, kernel: Kernel, bias: bool | None, direct_input: bool) -> Layer:
    hears = [l > 0 and slot.below for slot in kernel.slots]
    biased = [slot.bias for slot in kernel.slots]
    if bias is True and not any(biased):
        biased = [slot.below for slot in kernel.slots]
    elif bias is False:
        biased = [False] * len(biased)
    return Layer(
        kernel=kernel,
        slots=sum(slot.width for slot in kernel.slots),
        direct=_columns(kernel, [direct_input or not below for below in hears]),
        below=_columns(kernel, hears),
        bias=_columns(kernel, biased),
    )


def _columns(kernel: Kernel, chosen: Sequence[bool]) -> Columns:
    """The columns of the chosen slots, neighbours joined into one run."""
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
