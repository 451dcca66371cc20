"""Choose the plan of an objective from sizes and a memory budget.

There are four ways to run a Gauss-Newton operator. The planner takes the first one, from the fastest to the slowest,
that fits the budget. The cost is in units of one matrix product over all steps:

    all        keeps every step's coefficients and predictions       4 units per product
    states     computes the predictions again for every product      4 units, and one output map more
    sqrt       keeps only the states every ceil(sqrt(T)) steps       4 units, forward twice and R-forward once more
    shards     as sqrt, with smaller shards that share buffers       as sqrt, in smaller matrix products

On a CPU, shards are small, so that threads share the work, and segments are short, so that buffers stay in the cache or
take little memory. On a GPU there is one shard, and the segments are as long as the memory allows. Only the last way
has more shards, one after another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hfrnn.checks import count, is_whole, wrong
from hfrnn.engine.batch import Batch
from hfrnn.engine.layout import Layout
from hfrnn.engine.plan import (
    SHARD,
    SHARDS,
    Keep,
    Lengths,
    Plan,
    Use,
    ragged_boundaries,
    segment_boundaries,
    shard_boundaries,
    steps_of,
)
from hfrnn.engine.sweep import Sweep, adds_in_double
from hfrnn.errors import InputError
from hfrnn.wording import memory_size

MARGIN = 1.05
"""Factor on the estimated memory, for small temporary arrays and growing buffers that are not counted."""
COPIES = 2
"""Copies of U, or of the logits, of a segment that CuPy makes at a time: it copies operands that are not contiguous."""
SEGMENT_BYTES = 2 * 2**20
"""Approximate limit on the size of U, and of the logits, of a segment, so that they stay in the cache."""
LONG_SEGMENT_BYTES = 16 * 2**20
"""The same limit for compiled loops, and if the output weights alone exceed SEGMENT_BYTES."""
COMPILED = "numba"
"""The kernels with compiled loops."""
HOST_ROWS, DEVICE_ROWS = 16, 512
"""What a step of a shard costs besides the work of its sequences, in sequences: on a CPU, and on a GPU."""
LEAST_SEGMENT = 4
"""Smallest number of steps in a segment, if T allows; shorter segments make matrix products too small."""


def make_plan(
    layout: Layout,
    T: int,
    B: int,
    checkpoint: int | str | None = "auto",
    memory: int | None = None,
    symbols: bool = True,
    use: Use = Use.BOTH,
    weighs_outputs: bool = False,
    least_shards: int | None = None,
    clips: bool = False,
    lengths: Lengths | None = None,
    loops: bool = False,
) -> Plan:
    """Return the plan for a batch of B sequences of T steps, or of so many `lengths`.

    Parameters
    ----------
    layout : Layout
    T, B : int
    checkpoint : None, int, "sqrt" or "auto"
        As for `hfrnn.Objective`. "auto" takes the fastest of the four ways above that fits the budget.
    memory : int, optional
        Memory budget in bytes; by default 4 GiB, on a GPU a share of its free memory. Only "auto" respects it.
    symbols : bool
        Whether the inputs are symbols. Otherwise they are real values.
    use : Use
        What the objective will be used for.
    weighs_outputs : bool
        Whether every output has its own weight, (T, B, n_out).
    least_shards : int, optional
        Number of shards to make at least, where each has 8 sequences. By default 2, and 1 on a GPU.
    clips : bool
        Whether gradients will limit errors, which takes more memory.
    lengths : (B,) array, optional
        The steps of each sequence of a `RaggedBatch`, T at most. Each shard is padded to its own longest sequence, and
        the shards are cut for that.
    loops : bool
        Whether outputs may be fed back as inputs (`hfrnn.ClosedLoop`), which takes more memory.
    """
    memory = count("memory", memory, 1, or_none=True, unit="bytes")
    least = count("shards", least_shards, 1, or_none=True) or (SHARDS if layout.backend.on_host else 1)
    largest, root = _largest(layout, T, B, least, lengths), math.ceil(math.sqrt(T))
    if checkpoint is None:
        return largest
    if isinstance(checkpoint, str) and checkpoint == "sqrt":
        return replace(largest, segment=root, keep=Keep.NOTHING)
    if not isinstance(checkpoint, str) or checkpoint != "auto":
        if not (is_whole(checkpoint) and int(checkpoint) >= 1):
            raise wrong("checkpoint", checkpoint, 'use None, "sqrt", "auto" or a number of steps, 1 or more')
        return replace(largest, segment=int(checkpoint), keep=Keep.NOTHING)
    budget, footprint = memory or layout.backend.default_memory(), footprint_of(layout, symbols, clips, loops)
    sizes = _host_sizes(largest, B) if layout.backend.on_host else _device_sizes(T, B)
    segments, divisions = sizes[0], [_shards(layout, B, size, least, lengths) for size in sizes[1]]
    candidates = [
        replace(largest, segment=length, keep=keep) for keep in (Keep.ALL, Keep.STATES) for length in segments
    ]
    candidates += [replace(largest, shards=shards, segment=root, keep=Keep.NOTHING) for shards in divisions]
    for side_by_side in (2, 1):  # prefer two shards at a time with more recomputation to one at a time
        for plan in candidates:
            workers = most = min(len(plan.shards) - 1, plan.workers)
            while workers >= min(side_by_side, most):
                sized = replace(plan, workers=workers)
                if footprint.bytes(sized, T, B, use, weighs_outputs, lengths) <= budget:
                    return sized
                workers //= 2
    fewest = min(footprint.bytes(replace(plan, workers=1), T, B, use, weighs_outputs, lengths) for plan in candidates)
    raise InputError(
        f"{B} sequences of {T} steps need at least {memory_size(fewest)}, and the budget is "
        f"{memory_size(budget)}: give more memory, fewer or shorter sequences, or a smaller network"
    )


def _shards(layout: Layout, B: int, most: int, least: int, lengths: Lengths | None) -> tuple[int, ...]:
    """Return the boundaries of shards of at most `most` sequences."""
    if lengths is None:
        return shard_boundaries(B, most, least)
    return ragged_boundaries(lengths, most, least, HOST_ROWS if layout.backend.on_host else DEVICE_ROWS)


def _largest(layout: Layout, T: int, B: int, least: int, lengths: Lengths | None = None) -> Plan:
    """Return the plan that keeps everything, with the largest shards and segments that run fast."""
    if not layout.backend.on_host:
        return Plan(_shards(layout, B, B, least, lengths), T, Keep.ALL, workers=1)
    shards = _shards(layout, B, SHARD, least, lengths)
    largest = shards[1] if lengths is None else max(np.diff(shards).tolist())
    return Plan(shards, _cache_segment(layout, T, largest), Keep.ALL)


def _host_sizes(largest: Plan, B: int) -> tuple[list[int | None], list[int]]:
    """Return the steps of a segment to try on a CPU where forward is kept, and the sizes of shards where it is not."""
    return [largest.segment], [size for n in range(SHARD.bit_length()) if (size := SHARD >> n) <= max(B, 2)]


def _device_sizes(T: int, B: int) -> tuple[list[int | None], list[int]]:
    """Return the same for a GPU: both from the largest down, and all sequences in one shard first."""
    counts = range(1, max(T // LEAST_SEGMENT, 1) + 1)
    segments: list[int | None] = list(dict.fromkeys(math.ceil(T / count) for count in counts))
    return segments, [B >> n for n in range(B.bit_length())]


def _cache_segment(layout: Layout, T: int, B: int) -> int:
    """Return the largest number of steps of a segment whose U and logits of B sequences fit in the cache.

    Compiled loops and large output weights do much once per segment, which costs more time than arrays outside the
    cache. So their segments are longer, and the limit only saves memory (docs/speed.md).
    """
    item, head = layout.dtype.itemsize, layout.head
    row = B * max(head.outputs_a_target, *(layer.slots for layer in layout.layers)) * item
    heavy = sum(head.widths.values()) * head.outputs_a_target * item > SEGMENT_BYTES
    bound = LONG_SEGMENT_BYTES if heavy or layout.backend.variants == COMPILED else SEGMENT_BYTES
    count = math.ceil(T / max(LEAST_SEGMENT, math.ceil(head.least_rows / B), bound // row))
    return math.ceil(T / count)


class Footprint:
    """The memory that objectives of a network need, derived from the buffers of four tiny sweeps.

    The size of every buffer is a + b*K + c*B + d*K*B for segments of K steps and shards of B sequences. Measuring four
    sizes therefore gives the exact size for all K and B. `symbols`, `clips` and `loops` are those of `make_plan`.
    With a closed loop, every segment has one step. While its share is 0, the segments are those of the plan.
    """

    def __init__(self, layout: Layout, symbols: bool = True, clips: bool = False, loops: bool = False) -> None:
        self._open = Footprint(layout, symbols, clips) if loops else None
        item, head = layout.dtype.itemsize, layout.head
        self._dtype = layout.dtype
        self._item, self._weights, self._outputs = item, layout.n_parameters, layout.n_out * item
        real_inputs, real_targets = 0 if symbols else layout.n_in * item, 0 if head.integer_targets else self._outputs
        self._inputs, self._targets = real_inputs, real_targets
        self._given = (real_inputs or 4) + (real_targets or 4)
        # weights, scaled weights, arranged targets, and the inputs of a shard
        self._copied = 8 + item + head.scored_bytes + real_targets + real_inputs
        self._temporary = 8 * layout.n_out * head.temporary_arrays
        widest = max(head.outputs_a_target, *(layer.slots for layer in layout.layers))
        self._copies = 0 if layout.backend.on_host else COPIES * item * widest
        corners = {(K, B): _tiny_sweep(layout, K, B, symbols, clips, loops) for K in (1, 2) for B in (1, 2)}
        roles = corners[1, 1]
        self._coefficients = {role: _bilinear({at: sizes[role] for at, sizes in corners.items()}) for role in roles}
        shapes = [shape for layer in layout.layers for shape in layer.kernel.state_shapes(1).values()]
        self._state = self._item * sum(math.prod(shape) for shape in shapes)
        self._starts = 2 * self._state if layout.learn_initial_state else 0  # a learned state, and its tangent

    def bytes(
        self, plan: Plan, T: int, B: int, use: Use = Use.BOTH, weighs_outputs: bool = False,
        lengths: Lengths | None = None,
    ) -> int:  # fmt: skip
        """Return the bytes that an objective on a batch (T, B) needs: batch, vectors of each worker, and buffers.

        The batch may be a `RaggedBatch` with so many `lengths`.
        """
        open_loop = 0
        if self._open is not None:
            open_loop = self._open.bytes(plan, T, B, use, weighs_outputs, lengths)
            plan = replace(plan, segment=1)
        shards = [(t, stop - start) for t, (start, stop) in zip(steps_of(plan, T, lengths), plan.parts, strict=True)]
        count, steps = len(shards), sum(t * b for t, b in shards)

        def most(size: Callable[[int, int], int]) -> int:
            """Return the largest size of a shard's buffers, which the shards of a worker share."""
            return max(size(t, b) for t, b in set(shards))

        workers = min(plan.workers, count)
        waiting = (count - 1).bit_length() - 1 if count > workers else 0  # partial sums of shards
        total, buffers = steps * self._given + (workers + 2 + waiting) * self._weights * self._item, 0
        sweeps, making = steps * self._copied, 0
        sweeps += B * self._starts
        fed = 0
        if self._open is not None:
            fed = steps * self._inputs
            making = most(lambda t, b: t * b * 3 * self._targets)  # while the targets of a shard are arranged
        if weighs_outputs:
            total += steps * self._outputs  # weights as they are given
            sweeps += steps * 2 * self._outputs  # scaled weights and shares of all outputs
            making = most(lambda t, b: t * b * 3 * 8 * (self._outputs // self._item))  # the same in double precision
        rows = most(lambda t, b: min(plan.segment or t, t) * b)
        if use is Use.LOSS:
            one = most(lambda t, b: self._size("gradient states", min(plan.segment or t, t), b))
            total += sweeps
            buffers += workers * (one + most(lambda t, b: self._scratch("gradient", Keep.NOTHING, plan, t, b)))
        if use in (Use.GRADIENT, Use.BOTH):
            keep = plan.keep_of_gradients
            one = most(lambda t, b: self._kept("gradient", keep, plan, t, b))
            one += most(lambda t, b: self._scratch("gradient", keep, plan, t, b))
            total += sweeps + fed  # losses have sweeps of their own
            buffers += workers * one
        if use in (Use.OPERATOR, Use.BOTH):
            total += sweeps + fed  # the tangents of the inputs
            buffers += workers * most(lambda t, b: self._scratch("product", plan.keep, plan, t, b))
            buffers += sum(self._kept("product", plan.keep, plan, t, b) for t, b in shards)
        if use is not Use.OPERATOR or plan.keep is not Keep.ALL:  # else the loss runs before products need memory
            buffers += workers * rows * self._temporary
        buffers += workers * rows * self._copies
        total += max(buffers, making)
        return max(math.ceil(MARGIN * total), open_loop)

    def _scratch(self, task: str, keep: Keep, plan: Plan, T: int, B: int) -> int:
        """Return the bytes of the buffers that the sweeps of one worker share."""
        K = min(plan.segment or T, T)
        predictions = 0 if keep is Keep.ALL else self._size(f"{task} predictions", K, B)
        summed = adds_in_double(-(-T // K), self._dtype)
        return self._size(f"{task} scratch", K, B) + predictions + (8 * self._weights if summed else 0)

    def _kept(self, task: str, keep: Keep, plan: Plan, T: int, B: int) -> int:
        """Return the bytes that one sweep keeps."""
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


_footprints: WeakKeyDictionary[Layout, dict[tuple[bool, bool, bool], Footprint]] = WeakKeyDictionary()


def footprint_of(layout: Layout, symbols: bool = True, clips: bool = False, loops: bool = False) -> Footprint:
    """Return the footprint of a network. It is measured once for each kind of input and of gradient."""
    known, kind = _footprints.setdefault(layout, {}), (symbols, clips, loops)
    if kind not in known:
        known[kind] = Footprint(layout, *kind)
    return known[kind]


def _bilinear(sizes: dict[tuple[int, int], int]) -> tuple[int, int, int, int]:
    """Return a, b, c, d of a + b*K + c*B + d*K*B, given its values at K, B = 1, 2."""
    d = sizes[2, 2] - sizes[2, 1] - sizes[1, 2] + sizes[1, 1]
    b = sizes[2, 1] - sizes[1, 1] - d
    c = sizes[1, 2] - sizes[1, 1] - d
    return sizes[1, 1] - b - c - d, b, c, d


def _tiny_sweep(
    layout: Layout, T: int, B: int, symbols: bool, clips: bool = False, loops: bool = False
) -> Counter[str]:
    """Return the bytes of the buffers of T steps and B sequences, by their role.

    The T steps are one segment, or with `loops` as many segments of one step.
    """
    inputs: Any = np.zeros((T, B), np.int32) if symbols else np.zeros((T, B, layout.n_in), layout.dtype)
    costly = layout.head.costly_target  # so that the estimate is an upper bound for all targets
    symbolic = layout.head.integer_targets
    targets: Any = np.full((T, B), costly) if symbolic else np.zeros((T, B, layout.n_out), layout.dtype)
    batch, sizes = layout.prepare(Batch(inputs, targets)), Counter[str]()
    zero, out = (layout.backend.zeros((layout.n_parameters,), layout.dtype) for _ in range(2))
    for task in ("gradient", "product"):
        if loops:
            from hfrnn.engine.closed_loop import ClosedLoopSweep, LoopOfBatch
            from hfrnn.engine.feedback import Feedback

            feedback = Feedback(np.zeros(1, np.int64), np.zeros(1, np.int64), layout.n_in)
            chosen = np.repeat(np.arange(T)[:, None] > 0, B, axis=1)
            sweep: Sweep = ClosedLoopSweep(layout, batch, float(T * B), LoopOfBatch(feedback, chosen))
        else:
            sweep = Sweep(layout, batch, float(T * B), clip_error=1.0 if clips and task == "gradient" else None)
        if task == "gradient":
            sweep.gradient(zero, out)
        else:
            sweep.prepare(zero)
            sweep.product(zero, out, structural=1.0)
        sizes.update({f"{task} scratch": sweep.scratch.nbytes, f"{task} states": 0, f"{task} predictions": 0})
        for name, size in sweep.kept.sizes().items():
            sizes[f"{task} predictions" if ".head." in name else f"{task} states"] += size
    return sizes
