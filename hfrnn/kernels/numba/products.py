"""Products with the recurrent matrices at every step, with matrices that are packed once for many steps.

A product of BLAS packs its right factor at every call, which takes about as long as the product of a few sequences. A
packed matrix (panels, n, width) holds W (n, m) in panels of `width` neighbouring columns, the last one filled with
zeros. `tiles.py` computes a tile of the result from some rows and a panel.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import config
from numba.extending import overload

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.kernels.base import Arrays, Factors, Kernel, Tape
from hfrnn.kernels.numba.cache import compiled_once
from hfrnn.kernels.numba.pointwise import compile_exact_loop
from hfrnn.kernels.numba.tiles import ROWS, VECTOR_BYTES, VECTORS, outer_tile, product_tile, shifted, start
from hfrnn.kernels.pointwise import add_weight_gradient as add_by_blas

compile_product = njit(nogil=True, error_model="numpy")
"""Compile a part of a loop that is called, not inlined: the tiles leave the compiler no choice of roundings."""
PIECE = 64
"""Rows of both factors of a weight gradient that are multiplied at a time: 64 columns of both fit 32 KiB."""
GRADIENT_BYTES = 2**17
"""Largest weight gradient that is computed without BLAS."""
_TYPES = {"float32": types.float32, "float64": types.float64}


def _affine(lanes: int) -> Any:
    width = VECTORS * lanes

    def affine(B, columns, adds, slots, U, n, x, W, m, y, V, l, z, Z, length, out):  # type: ignore[no-untyped-def]
        """out (B, length) <- x (B, n) @ W + y (B, m) @ V + z (B, l) @ Z, and + U if `adds`, for packed matrices.

        Rows of U are `slots` apart. Its first `columns` columns are added.
        """
        if adds:
            for b in range(B):
                for j in range(columns):
                    out[b * length + j] = U[b * slots + j]
        blocks = (B + ROWS - 1) // ROWS
        small, larger, panel = B // blocks, B % blocks, 0
        while panel * width < columns:
            vectors, first = (VECTORS if columns - panel * width > lanes else 1), 0
            for block in range(blocks):
                rows = small + 1 if block < larger else small
                product_tile(
                    rows, vectors, adds != 0, n, shifted(x, first * n), shifted(W, panel * n * width),
                    m, shifted(y, first * m), shifted(V, panel * m * width),
                    l, shifted(z, first * l), shifted(Z, panel * l * width),
                    length, shifted(out, first * length + panel * width),
                )  # fmt: skip
                first += rows
            panel += 1

    return affine


def _outer(lanes: int) -> Any:
    width = VECTORS * lanes

    def outer(N, piece, n, x, m, d, tiles):  # type: ignore[no-untyped-def]
        """tiles (blocks, panels, ROWS, width) += x (N, n).T @ d (N, m), for m of at least a vector.

        The last panel may repeat columns of the one before, so that it ends with d.
        """
        blocks, panels = (n + ROWS - 1) // ROWS, (m + width - 1) // width
        small, larger = n // blocks, n % blocks
        for begin in range(0, N, piece):
            count, first = min(piece, N - begin), 0
            for block in range(blocks):
                rows = small + 1 if block < larger else small
                for panel in range(panels):
                    vectors = VECTORS if m - panel * width > lanes else 1
                    column = min(panel * width, m - vectors * lanes)
                    outer_tile(
                        rows, vectors, count, n, shifted(x, begin * n + first), m, shifted(d, begin * m + column),
                        width, shifted(tiles, (block * panels + panel) * ROWS * width),
                    )  # fmt: skip
                first += rows

    return outer


def _signatures(number: Any) -> dict[str, Any]:
    pointer: Any = types.CPointer
    I, P = types.intp, pointer(number)
    return {
        "affine": types.void(I, I, I, I, P, I, P, P, I, P, P, I, P, P, I, P),
        "outer": types.void(I, I, I, P, I, P, P),
    }


_functions: dict[str, Any] = {}
_ready: set[Any] = set()
"""The types whose functions are compiled."""
_external: dict[tuple[str, str], Any] = {
    (name, dtype): types.ExternalFunction(f"hfrnn_{name}_{dtype}", signature)
    for dtype, number in _TYPES.items()
    for name, signature in _signatures(number).items()
}
_lock = threading.Lock()


def _compile_tiles(dtype: Any) -> None:
    """Compile the products of a type of numbers, once in a process; all loops call the same code."""
    if dtype in _ready or config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
    kind = np.dtype(dtype).name
    with _lock:
        if f"affine_{kind}" not in _functions:
            lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
            makers = {"affine": _affine(lanes), "outer": _outer(lanes)}
            for name, signature in _signatures(_TYPES[kind]).items():
                _functions[f"{name}_{kind}"] = compiled_once(makers[name], signature, f"hfrnn_{name}_{kind}")
        _ready.add(np.dtype(dtype))


def affine(
    t: int, U: Array, first: int, n: int, x: Array, W: Array, m: int, y: Array, V: Array, l: int, z: Array, Z: Array,
    columns: int, out: Array,
) -> None:  # fmt: skip
    """out (B, panels * width) <- some columns of U[t], from the first on, + x (B, n) @ W + y (B, m) @ V + z[t] @ Z.

    W, V and Z are packed, and z is (K, B, l). A term is absent if n, m or l is 0, or if U has no steps. Loops call
    `_affine` for the type of W; these lines run without a compiler (NUMBA_DISABLE_JIT).
    """
    total = U[t, :, first : first + columns] if U.shape[0] else 0.0
    for count, left, panels in ((n, x, W), (m, y, V), (l, z[t], Z)):
        if count:
            total = total + left @ panels.transpose(1, 0, 2).reshape(count, -1)[:, :columns]
    out[:, :columns] = total


@overload(affine)
def _compiled_affine(t, U, first, n, x, W, m, y, V, l, z, Z, columns, out):  # type: ignore[no-untyped-def]
    call = _external["affine", W.dtype.name]

    def run(t, U, first, n, x, W, m, y, V, l, z, Z, columns, out):  # type: ignore[no-untyped-def]
        B, slots = out.shape[0], U.shape[2]
        call(
            B, columns, U.shape[0], slots, shifted(start(U), t * B * slots + first), n, start(x), start(W),
            m, start(y), start(V), l, shifted(start(z), t * B * l), start(Z), out.shape[1], start(out),
        )  # fmt: skip

    return run


def packed_product(x: Array, W: Array, columns: int, out: Array) -> None:
    """out (B, panels * width) <- x (B, n) @ W, for a packed W of so many columns."""
    affine(0, x[:0, :, None], 0, W.shape[1], x, W, 0, x, W, 0, x[None], W, columns, out)


@overload(packed_product)
def _compiled_packed_product(x, W, columns, out):  # type: ignore[no-untyped-def]
    call = _external["affine", W.dtype.name]

    def run(x, W, columns, out):  # type: ignore[no-untyped-def]
        left, right = start(x), start(W)
        call(
            out.shape[0], columns, 0, 0, left, W.shape[1], left, right, 0, left, right, 0, left, right,
            out.shape[1], start(out),
        )  # fmt: skip

    return run


def _outer_of(piece: int, count: int, t: int, x: Array, s: int, d: Array, tiles: Array) -> None:
    """Add to the tiles, by `_outer`, the products of `count` steps, from x[t] and d[s] on.

    These lines run without a compiler (NUMBA_DISABLE_JIT).
    """
    x, d = (each[k : k + count].reshape(-1, each.shape[2]) for each, k in ((x, t), (d, s)))
    (blocks, panels, _, width), total, first = tiles.shape, x.T @ d, 0
    (n, m), lanes = total.shape, width // VECTORS
    for block in range(blocks):
        rows = n // blocks + (block < n % blocks)
        for panel in range(panels):
            vectors = VECTORS if m - panel * width > lanes else 1
            at = min(panel * width, m - vectors * lanes)
            columns = min(vectors * lanes, m - at)
            tiles[block, panel, :rows, :columns] += total[first : first + rows, at : at + columns]
        first += rows


@overload(_outer_of)
def _compiled_outer(piece, count, t, x, s, d, tiles):  # type: ignore[no-untyped-def]
    call = _external["outer", x.dtype.name]

    def run(piece, count, t, x, s, d, tiles):  # type: ignore[no-untyped-def]
        (_, B, n), m = x.shape, d.shape[2]
        left, right = shifted(start(x), t * B * n), shifted(start(d), s * B * m)
        call(count * B, piece, n, left, m, right, start(tiles))

    return run


@functools.cache
def panel_width(dtype: Any) -> int:
    """Return the number of columns of a panel."""
    return int(VECTORS * VECTOR_BYTES // np.dtype(dtype).itemsize)


def panels_of(columns: int, dtype: Any) -> int:
    """Return the number of panels of a matrix."""
    return -(-columns // panel_width(dtype))


@compile_product
def adjoint_of_state(
    t: int, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, ds: Array, W_T: Array, out: Array
) -> None:
    """out (B, at least H) <- dhs[t] + z[t] @ Z + weights[t] * Rhs[t] + ds[t + 1] @ W_T, without the last at the end.

    The terms of dhs are those of `adjoint_terms`; ds (K, B, n) may hold fewer steps, each at its number modulo theirs.
    """
    (K, B, _), (held, _, n), H = z.shape, ds.shape, Rhs.shape[2]
    s = (t + 1) % held
    affine(t, dhs, 0, n if t < K - 1 else 0, ds[s], W_T, 0, ds[s], W_T, l, z, Z, H, out)
    if weights.shape[0]:
        for b in range(B):
            for j in range(H):
                out[b, j] += weights[t, b] * Rhs[t, b, j]


@compile_product
def map_outputs(t: int, Rh: Array, h: Array, W: Array, V: Array, work: Array, Rz: Array) -> None:
    """Rz[t] (B, n) <- Rh (B, H) @ W + h (B, H) @ V, for packed matrices of few columns; nothing if Rz has no steps."""
    if Rz.shape[0]:
        (B, H), columns = h.shape, Rz.shape[2]
        affine(0, Rz[:0], 0, H, Rh, W, H, h, V, 0, h.reshape(1, B, H), W, columns, work)
        for b in range(B):
            for j in range(columns):
                Rz[t, b, j] = work[b, j]


@compile_product
def add_block(t: int, block: int, x: Array, d: Array, tiles: Array) -> None:
    """Add the sum of x[s].T @ d[s] over a block of steps s from t on to the tiles, for x of all steps.

    d may hold fewer steps, each at its number modulo theirs. Without tiles (blocks, panels, ROWS, width), nothing is
    added; see `Gradients`.
    """
    if tiles.shape[0]:
        count = min(block, x.shape[0] - t)
        _outer_of(count * x.shape[1], count, t, x, t % d.shape[0], d, tiles)


@compile_product
def add_tiles(tiles: Array, transposed: bool, out: Array) -> None:
    """out (n, m), or (m, n) if it is transposed, += what the tiles hold."""
    (n, m), (blocks, panels, _, width) = out.shape, tiles.shape
    if transposed:
        n, m = m, n
    lanes = width // VECTORS
    small, larger, first = n // blocks, n % blocks, 0
    for block in range(blocks):
        rows = small + 1 if block < larger else small
        for panel in range(panels):
            vectors = VECTORS if m - panel * width > lanes else 1
            at = min(panel * width, m - vectors * lanes)
            for i in range(rows):
                for j in range(panel * width - at, min(vectors * lanes, m - at)):
                    if transposed:
                        out[at + j, first + i] += tiles[block, panel, i, j]
                    else:
                        out[first + i, at + j] += tiles[block, panel, i, j]
        first += rows


@compile_exact_loop
def _add_pieces(x: Array, d: Array, out: Array) -> None:
    n, m, width = x.shape[2], d.shape[2], VECTORS * (VECTOR_BYTES // d.itemsize)
    tiles = np.zeros(((n + ROWS - 1) // ROWS, (m + width - 1) // width, ROWS, width), d.dtype)
    _outer_of(PIECE, 1, 0, x, 0, d, tiles)
    add_tiles(tiles, False, out)


@compile_exact_loop
def _add_tiles(tiles: Array, transposed: bool, out: Array) -> None:
    add_tiles(tiles, transposed, out)


def add_pieces(x: Array, d: Array, out: Array) -> None:
    """out (n, m) += x (N, n).T @ d (N, m), for m of at least a vector and an `out` that stays in the cache."""
    _compile_tiles(d.dtype)
    _add_pieces(x[None], d[None], out)


def steps_of_block(B: int) -> int:
    """Return how many steps of B sequences `add_block` adds at a time."""
    return max(1, PIECE // B)


@dataclass
class Gradient:
    """A weight gradient of k adjoints: a loop adds it up in tiles (k, blocks, panels, ROWS, width), or BLAS after it.

    The targets are k arrays (n, m). There are no blocks where BLAS adds.
    """

    tape: Tape
    targets: Array | Sequence[Array]
    tiles: Array

    def finish(self, x: Array, d: Array) -> None:
        """Add to the targets; the gradient is the sum of x.T @ d, for x (K, B, n) and d (K, B, m), one or k of them."""
        for i, target in enumerate(self.targets):
            if self.tiles.shape[1]:
                transposed = target.flags.f_contiguous
                _add_tiles(self.tiles[i], transposed, target.T if transposed else target)
            else:
                add_by_blas(self.tape, x[i] if x.ndim == 4 else x, d[i] if d.ndim == 4 else d, target)


@functools.cache
def tiles_of(shape: tuple[int, ...], dtype: Any) -> tuple[int, int, int, int]:
    """Return the shape (blocks, panels, ROWS, width) of a gradient's tiles; no blocks where BLAS adds."""
    width = panel_width(dtype)
    if len(shape) != 2 or shape[0] * shape[1] * dtype.itemsize > GRADIENT_BYTES or shape[1] < width // VECTORS:
        return 0, 0, ROWS, width
    return -(-shape[0] // ROWS), -(-shape[1] // width), ROWS, width


class Gradients:
    """The weight gradients that a loop adds up: of recurrent matrices, of the input map and of the output map."""

    def __init__(self, tape: Tape, dhs: Array | Factors, grad: Arrays, *names: str) -> None:
        self.tape, self.k = tape, len(grad[names[0]])
        self.of = {name: self._make(name, grad[name]) for name in names}
        none: tuple[Array, Any] = np.empty((0, 1, 1), tape.shared.dtype), ()
        self.x, sums = tape.inputs or none
        self.inputs = self._make("inputs", sums)
        targets = dhs.gradients if isinstance(dhs, Factors) else None
        self.outputs = self._make("outputs", () if targets is None else targets)

    def _make(self, name: str, targets: Array | Sequence[Array]) -> Gradient:
        shape = tiles_of(targets[0].shape if len(targets) else (), self.tape.shared.dtype)
        tiles = self.tape.shared.get(f"{name}.tiles", (self.k, *shape))
        tiles.fill(0)
        return Gradient(self.tape, targets, tiles)

    @property
    def terms(self) -> tuple[Array, ...]:
        """The inputs (K, B, n), and the tiles of each gradient, as loops take them."""
        return self.x, *(each.tiles for each in (*self.of.values(), self.inputs, self.outputs))

    def finish(self, hs: Array, dU: Array, dhs: Array | Factors) -> None:
        """Finish the gradients of the maps, for hs (K + 1, B, H) and dU (k, K, B, slots)."""
        self.inputs.finish(self.x, dU)
        if len(self.outputs.targets):
            self.outputs.finish(dhs.x, hs[1:])

    def steps_held(self, K: int, B: int) -> int:
        """Return how many of the K steps of dU are kept: all, if more than the loop reads them."""
        in_loop = len(self.inputs.targets) and all(each.tiles.shape[1] for each in (*self.of.values(), self.inputs))
        return min(K, steps_of_block(B)) if in_loop else K


@compile_exact_loop
def _fill_panels(W: Array, transposed: bool, panels: Array) -> None:
    """Pack W (n, m), or W.T of W (m, n) if `transposed`. So W is always in C order, and one compilation serves both."""
    count, n, width = panels.shape
    m = W.shape[0] if transposed else W.shape[1]
    for p in range(count):
        own = min(m - p * width, width)
        for k in range(n):
            for j in range(own):
                panels[p, k, j] = W[p * width + j, k] if transposed else W[k, p * width + j]
            for j in range(own, width):
                panels[p, k, j] = 0


def _fill(W: Array, panels: Array) -> None:
    transposed = W.flags.f_contiguous
    _fill_panels(W.T if transposed else W, transposed, panels)


def pack(W: Array, buffers: Buffers, name: str) -> Array:
    """Return a matrix (n, m) packed, in the buffer `name`; or k of them (k, n, m), along a first axis."""
    _compile_tiles(buffers.dtype)
    *several, n, m = W.shape
    panels = buffers.get(name, (*several, panels_of(m, buffers.dtype), n, panel_width(buffers.dtype)))
    if several:
        for each, own in zip(W, panels, strict=True):
            _fill(each, own)
    else:
        _fill(W, panels)
    return panels


def packed(p: Arrays, name: str, tape: Tape) -> Array:
    """Return p[name] packed; `PackedMatrices.prepare` has done that, except where a routine is called by itself."""
    prepared = p.get(f"{name}.packed")
    return pack(p[name], tape.shared, f"{name}.packed") if prepared is None else prepared


def packed_transpose(p: Arrays, name: str, tape: Tape) -> Array:
    """Return the transpose of p[name] packed."""
    prepared = p.get(f"{name}.T.packed")
    return pack(p[name].T, tape.shared, f"{name}.T.packed") if prepared is None else prepared


def wide(tape: Tape, name: str, B: int, columns: int) -> Array:
    """Return a scratch array for a product of so many columns, (B, at least `columns`)."""
    width = panel_width(tape.shared.dtype)
    return tape.scratch(name, B, -(-columns // width) * width)


def terms(tape: Tape, name: str, U: Array | Factors, columns: slice = slice(None)) -> tuple[Array, int, Array, Array]:
    """Return U, l, z and Z as `affine` takes them; Z is a scratch array of this name, of some columns of the factor.

    For k tangents, U and Z have a first axis of k.
    """
    *several, K, B, m = U.shape
    dtype = tape.shared.dtype
    if isinstance(U, Factors):
        Z = pack(U.W[..., columns], tape.shared, name)
        return np.empty((*several, 0, B, m), dtype), U.x.shape[2], U.x, Z
    return U, 0, np.empty((K, B, 0), dtype), np.empty((*several, 1, 0, panel_width(dtype)), dtype)


def terms_of_two(tape: Tape, U: Array | Factors, first: int) -> tuple[Array, int, Array, Array, Array]:
    """Return U, l, z, and Z as `affine` takes them for the first columns of U, and Z for the others."""
    found, l, z, Z = terms(tape, "U.packed", U, slice(0, first))
    return found, l, z, Z, terms(tape, "U_2.packed", U, slice(first, None))[3]


def output_terms(tape: Tape, k: int, B: int) -> tuple[Array, Array, Array, Array]:
    """Return W, V, work and Rz (k, K, B, n) as `map_outputs` takes them, one V and Rz for each of k tangents.

    They do what `tape.outputs` asks for; without it, nothing.
    """
    buffers = tape.shared
    work = wide(tape, "outputs.wide", B, 1)
    if tape.outputs is None:
        none = np.empty((k, 0, 0, panel_width(buffers.dtype)), buffers.dtype)
        return none[0], none, work, np.empty((k, 0, B, 1), buffers.dtype)
    W, V, Rz = tape.outputs
    return pack(W, buffers, "outputs.packed"), pack(V, buffers, "outputs.packed_tangents"), work, Rz


def adjoint_terms(tape: Tape, dhs: Array | Factors) -> tuple[Array, int, Array, Array, Array, Array]:
    """Return dhs, l, z, Z, weights and Rhs as `adjoint_of_state` takes them, for k adjoints: (k, ...), but Z, weights.

    The arrays of `Factors` are x (k, K, B, n), W (n, m), weights (K, B) and Rh (k, K, B, m).
    """
    dtype = tape.shared.dtype
    if not isinstance(dhs, Factors):
        k, K, B, H = dhs.shape
        none, nothing = np.empty((k, K, B, 0), dtype), np.empty((1, 0, panel_width(dtype)), dtype)
        return dhs, 0, none, nothing, np.empty((0, B), dtype), np.empty((k, 0, B, H), dtype)
    (k, _, B, n), H = dhs.x.shape, dhs.W.shape[1]
    terms = np.empty((k, 0, B, H), dtype), n, dhs.x, pack(dhs.W, tape.shared, "dhs.packed")
    if dhs.weights is not None:
        return *terms, dhs.weights, dhs.Rh
    return *terms, np.empty((0, B), dtype), np.empty((k, 0, B, H), dtype)


def _one(arrays: Arrays) -> Arrays:
    return {name: each[None] for name, each in arrays.items()}


def _first(arrays: Arrays) -> Arrays:
    return {name: each[0] for name, each in arrays.items()}


class PackedMatrices(Kernel):
    """A kernel whose compiled loops use the matrices `transposed`, and their transposes, packed.

    The loops carry several tangents or adjoints through each step. A single one runs through the same loops, and the
    results of each do not depend on the others.
    """

    def prepare(self, p: Arrays, buffers: Buffers, name: str, backward: bool) -> None:
        super().prepare(p, buffers, name, backward)
        if buffers.dtype.kind == "f":
            for matrix in self.transposed:
                p[f"{matrix}.packed"] = pack(p[matrix], buffers, f"{name}{matrix}.packed")
                if backward:
                    p[f"{matrix}.T.packed"] = pack(p[matrix].T, buffers, f"{name}{matrix}.T.packed")

    def takes_several(self, tape: Tape) -> bool:
        return self.takes_factors(tape)

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        if not self.takes_factors(tape):
            found: tuple[Array, Arrays] = super().rforward(p, v, tape, RU, Rstate)
            return found
        RU = Factors(RU.x, RU.W[None]) if isinstance(RU, Factors) else RU[None]
        Rhs, after = self.rforward_several(p, _one(v), tape, RU, _one(Rstate))
        return Rhs[0], _first(after)

    def backward(
        self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays,
        preactivation_adjoint: Array | None = None,
    ) -> tuple[Array, Arrays]:  # fmt: skip
        if not self.takes_factors(tape) or preactivation_adjoint is not None:
            more = () if preactivation_adjoint is None else (preactivation_adjoint,)
            found: tuple[Array, Arrays] = super().backward(p, tape, dhs, dstate, grad, *more)
            return found
        if isinstance(dhs, Factors):
            gradients = None if dhs.gradients is None else dhs.gradients[None]
            dhs = Factors(dhs.x[None], dhs.W, dhs.weights, None if dhs.Rh is None else dhs.Rh[None], gradients)
        else:
            dhs = dhs[None]
        dU, before = self.backward_several(p, tape, dhs, _one(dstate), _one(grad))
        return dU[0], _first(before)
