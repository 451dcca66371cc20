"""Launch the kernels that run a whole segment on all processors of a GPU: how units and sequences are shared.

The blocks of a team share the units, the teams share the sequences (see grid.cuh). A model of the time of a step
chooses how many blocks make a team, and whether step after step would be faster. Its constants are estimates except
for `LAUNCHES`. No kernel of this kind has been measured on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from hfrnn.arrays.backend import Backend
from hfrnn.kernels.base import Tape
from hfrnn.kernels.cuda.launch import SegmentKernels, source

THREADS = 256
"""Number of threads of a block."""
TILE, QUAD, LINE = 8, 4, 32
"""Sequences of a tile, columns of a thread, and distance of two counters, as in grid.cuh."""
ROUTINES = ("forward", "rforward", "backward")


class Product(NamedTuple):
    """A recurrent product of a step, (B, rows) by a matrix whose columns belong to layers of these widths."""

    rows: int
    widths: tuple[int, ...]

    def columns(self, parts: int) -> int:
        """Return the number of columns of each of `parts` blocks, with columns of zeros up to a multiple of QUAD."""
        return _whole(sum(-(-width // parts) for width in self.widths))


class Passes(NamedTuple):
    """The recurrent products of a step in forward, which are those of rforward, and in backward."""

    forward: tuple[Product, ...]
    backward: tuple[Product, ...]


class Step(NamedTuple):
    """What a pass over one step costs a block, by the model: operations, bytes and barriers, and processor cycles."""

    multiplications: int
    bytes_read: int
    barriers: int
    cycles: float


class Sharing(NamedTuple):
    """How units and sequences are shared: blocks of a team, teams, and bytes of shared memory of a block."""

    parts: int
    teams: int
    shared_memory: int

    @property
    def blocks(self) -> int:
        return self.parts * self.teams


# ------------------------------------------------------------------ the model

MULTIPLICATIONS = {4: 128, 8: 64}
"""Multiplications and additions of a processor per cycle, by the bytes of a number: those of H100 and H200."""
SHARE = 0.7
"""Share of them that a product reaches while it runs."""
L2_BYTES, SHARED_BYTES = 64, 128
"""Bytes per cycle that a processor reads from the second-level cache, and from its shared memory."""
LATENCY, BARRIER = 600, 2500
"""Cycles until the first value of global memory arrives, and of a barrier of a team."""
LAUNCHES, CUBLAS = 65_000, 0.8
"""Cycles in which the host starts a product and a kernel of a single step (27 and 11 microseconds on a machine with an
H200, at 1.7 GHz), and the share of the multiplications that a product of cuBLAS reaches."""


def model(products: tuple[Product, ...], B: int, parts: int, teams: int, item: int) -> Step:
    """Return what a step costs a block by the model; the passes over its units take the latency of global memory."""
    rounds, cycles, multiplications, read = _tiles_of_a_team(B, teams), 0.0, 0, 0
    for rows, columns in ((_whole(product.rows), product.columns(parts)) for product in products):
        lanes = columns // QUAD
        slices = THREADS // lanes
        idle = THREADS / (lanes * slices)
        visit = TILE * rows * columns * idle / (MULTIPLICATIONS[item] * SHARE)
        visit += TILE * rows * item / L2_BYTES + 2 * TILE * slices * columns * item / SHARED_BYTES + 2 * LATENCY
        barrier = BARRIER if parts > 1 else 0
        cycles += max(rounds * visit, visit + barrier)  # a barrier passes while a block computes other tiles
        multiplications += rounds * TILE * rows * columns
        read += rounds * TILE * rows * item
    return Step(multiplications, read, len(products) * rounds * (parts > 1), cycles)


def cycles_of_launches(products: tuple[Product, ...], B: int, item: int, processors: int) -> float:
    """Return the cycles of a step by the model, if the host starts each product and each kernel."""
    multiplications = (B * product.rows * sum(product.widths) for product in products)
    return sum(max(LAUNCHES, each / (MULTIPLICATIONS[item] * processors * CUBLAS)) for each in multiplications)


def _tiles_of_a_team(B: int, teams: int) -> int:
    tiles = -(-B // TILE)
    return -(-tiles // teams)


def _whole(count: int) -> int:
    return -(-count // QUAD) * QUAD


def shared_memory(products: tuple[Product, ...], B: int, parts: int, teams: int, item: int) -> int:
    """Return the bytes that a block needs: memory for products, numbers of barriers, and its columns."""
    columns = sum(_whole(product.rows) * product.columns(parts) for product in products)
    return (TILE * (QUAD * THREADS + QUAD) + _whole(_tiles_of_a_team(B, teams)) + columns) * item


def sharings(passes: Passes, B: int, item: int, memory: int, processors: int) -> Iterator[Sharing]:
    """Yield the ways to share that a device has room for, with one block on a processor, the smallest teams first."""
    width = max(width for product in passes.forward for width in product.widths)
    for parts in sorted({-(-width // most) for most in range(1, width + 1)}):
        if parts > processors:
            return
        teams = min(processors // parts, -(-B // TILE))
        bytes_of_block = max(shared_memory(products, B, parts, teams, item) for products in passes)
        columns = max(product.columns(parts) for products in passes for product in products)
        if bytes_of_block <= memory and columns <= QUAD * THREADS:
            yield Sharing(parts, teams, bytes_of_block)


@lru_cache(maxsize=256)
def best_sharing(passes: Passes, B: int, item: int, memory: int, processors: int) -> Sharing | None:
    """Return the way to share that takes the fewest cycles by the model.

    Returns None if the matrices do not fit, or if single steps are faster by the model.

    Parameters
    ----------
    passes : Passes
    B : int
        Number of sequences.
    item : int
        Bytes of a number.
    memory : int
        Bytes of shared memory that a block may have.
    processors : int
        Number of processors of the device.
    """

    def cycles(sharing: Sharing) -> float:
        return sum(model(products, B, sharing.parts, sharing.teams, item).cycles for products in passes)

    best = min(sharings(passes, B, item, memory, processors), key=cycles, default=None)
    of_launches = sum(cycles_of_launches(products, B, item, processors) for products in passes)
    return best if best is not None and cycles(best) < of_launches else None


# ------------------------------------------------------------------ the launch


class GridKernels:
    """The kernels that run all steps of a segment in one cooperative launch, for the arrays of a tape.

    Parameters
    ----------
    name : str
        The kernels are `grid_NAME_forward`, `grid_NAME_rforward` and `grid_NAME_backward`, in grid_NAME.cu.
    tape : Tape
    B : int
        Number of sequences.
    passes : Passes
    """

    def __init__(self, name: str, tape: Tape, B: int, passes: Passes) -> None:
        self._name, self._backend, dtype = name, tape.backend, tape.kept.dtype
        self._tiles, self._source = -(-B // TILE), source(f"grid_{name}", dtype.name, threads=THREADS)
        memory, processors = self._backend.shared_memory, self._backend.processors
        self._sharing = best_sharing(passes, B, dtype.itemsize, memory, processors)

    @property
    def fit(self) -> bool:
        """Whether the device has room for all blocks at the same time: they wait for each other."""
        if "grid" not in self._backend.whole_segments or (sharing := self._sharing) is None:
            return False
        return all(
            resident(self._backend, self._source, f"grid_{self._name}_{routine}", sharing) for routine in ROUTINES
        )

    def run(self, routine: str, *arguments: object) -> None:
        """Launch the kernel of a routine; its arguments are those of `Kernels.each`. The kernels must fit."""
        sharing = self._sharing
        assert sharing is not None
        function = self._backend.cuda_function(self._source, f"grid_{self._name}_{routine}", cooperative=True)
        given = sharing.parts, self._backend.barriers(self._tiles * LINE), *arguments
        function((sharing.blocks,), (THREADS,), given, shared_mem=sharing.shared_memory)


def resident(backend: Backend, text: str, kernel: str, sharing: Sharing) -> bool:
    """Return whether a device runs all blocks of a kernel at the same time."""
    return backend.resident_blocks(text, kernel, THREADS, sharing.shared_memory) >= sharing.blocks


def whole_segment(of_block: SegmentKernels, of_grid: GridKernels) -> SegmentKernels | GridKernels:
    """Return the kernels of single blocks if they fit, and else those of a whole grid, which may not fit either."""
    return of_block if of_block.fit else of_grid
