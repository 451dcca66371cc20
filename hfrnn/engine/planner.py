"""The plan: how a batch is cut into shards and segments and what is kept, from sizes and a budget alone.

Four ways to run a Gauss-Newton operator, the fastest first; a planner takes the first that fits the budget:

    all        every step's coefficients and predictions are kept over a CG run     4 units a product
    states     predictions are computed again in every product                      one output map more
    sqrt       only the states every ceil(sqrt(T)) steps are kept                   4 units + forward twice + R-forward
    shards     sqrt, with smaller shards, which share their buffers                 likewise, in smaller products
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hfrnn.engine.batch import Batch
from hfrnn.engine.layout import Layout
from hfrnn.engine.plan import SHARD, SLOTS, Keep, Plan, Use, segment_boundaries, shard_boundaries
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import InputError

DEFAULT_MEMORY = 4 * 2**30
"""Bytes that an objective and its operator may take, unless the caller gives a budget."""
MARGIN = 1.05
"""What is expected is raised by this: small temporaries, and buffers that grow, are not counted one by one."""
SEGMENT_BYTES = 2 * 2**20
"""About how large U or the logits may be for one segment where all is kept, so that they stay in the cache."""
OUTPUT_BYTES = 16 * 2**20
"""The same where the output's weights alone take more than that."""
LEAST_SEGMENT = 4
"""Steps of a segment, at least, where there are as many: shorter ones make the products over all steps too small."""


def make_plan(
    layout: Layout,
    T: int,
    B: int,
    checkpoint: int | str | None = "auto",
    memory: int | None = None,
    symbols: bool = True,
    use: Use = Use.BOTH,
) -> Plan:
    """The plan for a batch of B sequences of T steps.

    Parameters
    ----------
    layout : Layout
    T, B : int
    checkpoint : None, int, "sqrt" or "auto"
        Keep everything; the states every so many steps; every ceil(sqrt(T)) steps; or "auto": the fastest of the four
        ways above that fits the budget.
    memory : int, optional
        The budget in bytes, 4 GiB by default; only "auto" holds it.
    symbols : bool
        Whether the inputs are symbols, or real values.
    use : Use
        What will be asked of the objective.

    Raises
    ------
    InputError
        Another value of checkpoint, a budget that is not positive, or nothing fits it.
    """
    if memory is not None and not memory > 0:
        raise InputError(f"memory is {memory}: give a budget in bytes, more than 0")
    shards, root = shard_boundaries(B), math.ceil(math.sqrt(T))
    cache_segment = _cache_segment(layout, T, shards[1])
    if checkpoint is None:
        return Plan(shards, cache_segment, Keep.ALL)
    if checkpoint == "sqrt":
        return Plan(shards, root, Keep.NOTHING)
    if checkpoint != "auto":
        if isinstance(checkpoint, (str, bool)) or checkpoint < 1:
            raise InputError(f'checkpoint is {checkpoint!r}: use None, "sqrt", "auto" or a number of steps, 1 or more')
        return Plan(shards, int(checkpoint), Keep.NOTHING)
    budget, footprint = memory or DEFAULT_MEMORY, footprint_of(layout, symbols)
    candidates = [Plan(shards, cache_segment, keep) for keep in (Keep.ALL, Keep.STATES)]
    sizes = [SHARD >> n for n in range(SHARD.bit_length())]
    candidates += [Plan(shard_boundaries(B, size), root, Keep.NOTHING) for size in sizes if size <= max(B, 2)]
    for side_by_side in (2, 1):  # rather two shards at a time with more recomputation than one at a time
        for plan in candidates:
            slots = min(len(plan.shards) - 1, SLOTS)
            while slots >= min(side_by_side, len(plan.shards) - 1):
                sized = replace(plan, slots=slots)
                if footprint.bytes(sized, T, B, use) <= budget:
                    return sized
                slots //= 2
    least = min(footprint.bytes(replace(plan, slots=1), T, B, use) for plan in candidates)
    raise InputError(
        f"{B} sequences of {T} steps need at least {least / 2**20:,.1f} MiB, and the budget is "
        f"{budget / 2**20:,.1f} MiB: give more memory, fewer or shorter sequences, or a smaller network"
    )


def _cache_segment(layout: Layout, T: int, B: int) -> int:
    """Steps of which U and the logits fit the cache, in equal segments, for a shard of B sequences.

    Where the output's weights are large themselves, reading and adding them up once a segment takes longer than
    logits that leave the cache: then only the memory that these take is bounded.
    """
    item, head = layout.dtype.itemsize, layout.head
    row = B * max(head.outputs_a_target, *(layer.slots for layer in layout.layers)) * item
    heavy = sum(head.widths.values()) * head.outputs_a_target * item > SEGMENT_BYTES
    bound = OUTPUT_BYTES if heavy else SEGMENT_BYTES
    count = math.ceil(T / max(LEAST_SEGMENT, math.ceil(head.least_rows / B), bound // row))
    return math.ceil(T / count)


class Footprint:
    """What the objectives of a network take, from the buffers of four tiny sweeps.

    Every buffer's size is a + b*K + c*B + d*K*B in the steps K of a segment and the sequences B of a shard, so four
    sizes give it exactly for all others.

    Parameters
    ----------
    layout : Layout
    symbols : bool
        Whether the inputs are symbols, or real values.
    """

    def __init__(self, layout: Layout, symbols: bool = True) -> None:
        self._item, self._weights, self._scored = layout.dtype.itemsize, layout.n_parameters, layout.head.scored_bytes
        corners = {(K, B): _tiny_sweep(layout, K, B, symbols) for K in (1, 2) for B in (1, 2)}
        self._coefficients = {
            role: _bilinear({corner: sizes[role] for corner, sizes in corners.items()}) for role in corners[1, 1]
        }
        shapes = [shape for layer in layout.layers for shape in layer.kernel.state_shapes(1).values()]
        self._state = self._item * sum(math.prod(shape) for shape in shapes)

    def bytes(self, plan: Plan, T: int, B: int, use: Use = Use.BOTH) -> int:
        """All that an objective on (T, B) takes: its batch, a vector for each slot, and what `use` says."""
        item = self._item
        slots, largest = min(plan.slots, len(plan.shards) - 1), max(stop - start for start, stop in plan.parts)
        total = T * B * (4 + 4) + (slots + 2) * self._weights * item  # symbols in and out
        sweeps = T * B * (8 + item + self._scored)  # weights, plain and scaled, and what is to be predicted
        if use is Use.LOSS:
            one = self._size("gradient states", min(plan.segment or T, T), largest)
            total += sweeps + slots * (one + self._scratch("gradient", Keep.NOTHING, plan, T, largest))
        if use in (Use.GRADIENT, Use.BOTH):
            keep = Keep.NOTHING if plan.keep is Keep.NOTHING else Keep.STATES
            one = self._kept("gradient", keep, plan, T, largest) + self._scratch("gradient", keep, plan, T, largest)
            total += sweeps + slots * one
        if use in (Use.OPERATOR, Use.BOTH):
            total += sweeps + slots * self._scratch("product", plan.keep, plan, T, largest)
            total += sum(self._kept("product", plan.keep, plan, T, stop - start) for start, stop in plan.parts)
        return math.ceil(MARGIN * total)

    def _scratch(self, task: str, keep: Keep, plan: Plan, T: int, B: int) -> int:
        """The buffers that the sweeps of one slot share."""
        K = min(plan.segment or T, T)
        predictions = 0 if keep is Keep.ALL else self._size(f"{task} predictions", K, B)
        return self._size(f"{task} scratch", K, B) + predictions

    def _kept(self, task: str, keep: Keep, plan: Plan, T: int, B: int) -> int:
        """What one sweep keeps."""
        edges = segment_boundaries(T, plan.segment)
        lengths = [stop - start for start, stop in pairwise(edges)]
        if keep is Keep.NOTHING:
            boundaries = len(lengths) * self._state * B if len(lengths) > 1 else 0
            return self._size(f"{task} states", max(lengths), B) + boundaries * (2 if task == "product" else 1)
        roles = ("states", "predictions") if keep is Keep.ALL else ("states",)
        return sum(self._size(f"{task} {role}", K, B) for role in roles for K in lengths)

    def _size(self, role: str, K: int, B: int) -> int:
        a, b, c, d = self._coefficients[role]
        return a + b * K + c * B + d * K * B


_footprints: WeakKeyDictionary[Layout, dict[bool, Footprint]] = WeakKeyDictionary()


def footprint_of(layout: Layout, symbols: bool = True) -> Footprint:
    """The footprint of a network, measured once for each kind of input."""
    known = _footprints.setdefault(layout, {})
    if symbols not in known:
        known[symbols] = Footprint(layout, symbols)
    return known[symbols]


def _bilinear(sizes: dict[tuple[int, int], int]) -> tuple[int, int, int, int]:
    """a, b, c, d of a + b*K + c*B + d*K*B from its values at K, B = 1, 2."""
    d = sizes[2, 2] - sizes[2, 1] - sizes[1, 2] + sizes[1, 1]
    b = sizes[2, 1] - sizes[1, 1] - d
    c = sizes[1, 2] - sizes[1, 1] - d
    return sizes[1, 1] - b - c - d, b, c, d


def _tiny_sweep(layout: Layout, T: int, B: int, symbols: bool) -> Counter[str]:
    """Bytes of the buffers that one segment of T steps and B sequences takes, by what becomes of them."""
    inputs: Any = np.zeros((T, B), np.int32) if symbols else np.zeros((T, B, layout.n_in), layout.dtype)
    costly = layout.head.costly_target  # so that the expectation is a bound where targets differ
    symbolic = layout.head.integer_targets
    targets: Any = np.full((T, B), costly) if symbolic else np.zeros((T, B, layout.n_out), layout.dtype)
    batch, sizes = layout.prepare(Batch(inputs, targets)), Counter[str]()
    zero, out = (layout.backend.zeros((layout.n_parameters,), layout.dtype) for _ in range(2))
    for task in ("gradient", "product"):
        sweep = Sweep(layout, batch, float(T * B))
        if task == "gradient":
            sweep.gradient(zero, out)
        else:
            sweep.prepare(zero)
            sweep.product(zero, out, structural=1.0)
        sizes.update({f"{task} scratch": sweep.scratch.nbytes, f"{task} states": 0, f"{task} predictions": 0})
        for name, size in sweep.kept.sizes().items():
            sizes[f"{task} predictions" if ".head." in name else f"{task} states"] += size
    return sizes
