"""What the variants fused by numba or CUDA share: when they run, the shares of units, and the buffers of a cell."""

from __future__ import annotations

from collections.abc import Container

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.share import Share


def is_fused(tape: Tape, activation: str = "tanh", served: Container[str] = ("tanh",)) -> bool:
    """Return whether the fused routines serve an activation and these arrays.

    The arrays must be real numbers, and no tangent of a pre-activation may be asked for.
    """
    return activation in served and tape.kept.dtype.kind == "f" and not tape.keeps_preactivation


def units_share(share: Share, p: Arrays, tape: Tape, units: int) -> Array:
    """Return the share of each unit of a layer, (units,)."""
    value = share.value(p, tape)
    if share.learned:
        return value
    shares = tape.scratch(share.name, units)
    shares[...] = value
    return shares


def side_by_side(tape: Tape, name: str, left: Array, right: Array) -> Array:
    """Return the matrix [left, right], a scratch array of this name."""
    columns = left.shape[1]
    joined = tape.scratch(name, left.shape[0], columns + right.shape[1])
    joined[:, :columns], joined[:, columns:] = left, right
    return joined


def begin_cell(tape: Tape, K: int, B: int, H: int, state: Arrays) -> tuple[Array, Array, Array, Array, Array]:
    """Return the buffers cs (2, B, H), hs (K + 1, B, H), k, f and k_c, with the state in the first rows of cs and hs.

    k (K, B, 4H), f and k_c (K, B, H) have one row where nothing is recorded.
    """
    rows = K if tape.records else 1
    cs, hs = tape.scratch("cs", 2, B, H), tape.new("h", K + 1, B, H)
    cs[0], hs[0] = state["c"], state["h"]
    return cs, hs, tape.new("k", rows, B, 4 * H), tape.new("f", rows, B, H), tape.new("k_c", rows, B, H)


def last_state(tape: Tape, K: int) -> Arrays:
    """Return the state after a segment of K steps."""
    cs, h = tape["cs"], tape["h"][K]
    c = tape.new("c", *h.shape)
    c[...] = cs[K % 2]
    return {"h": h, "c": c}
