"""Products with the recurrent matrices at every step, with matrices that are packed once for many steps.

A product of BLAS packs its right factor at every call, which takes about as long as the product of a few sequences. A
packed matrix (panels, n, width) holds W (n, m) in panels of `width` neighbouring columns, the last one filled with
zeros. `tiles.py` computes a tile of the result from some rows and a panel.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import config
from numba.extending import overload

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.kernels.base import Arrays, Factors, Kernel, Tape
from hfrnn.kernels.numba.cache import compiled_once
from hfrnn.kernels.numba.pointwise import compile_exact_loop
from hfrnn.kernels.numba.tiles import ROWS, VECTOR_BYTES, VECTORS, outer_tile, product_tile, shifted
from hfrnn.kernels.pointwise import add_weight_gradient as add_by_blas
from hfrnn.kernels.pointwise import rows

compile_product = njit(nogil=True, error_model="numpy")
"""Compile a part of a loop that is called, not inlined: the tiles leave the compiler no choice of roundings."""
PIECE = 32
"""Rows of both factors of a weight gradient that are multiplied at a time: 128 columns of them fit 32 KiB."""
GRADIENT_BYTES = 2**17
"""Largest weight gradient that is computed without BLAS."""
_TYPES = {"float32": types.float32, "float64": types.float64}


def _product(lanes: int) -> Any:
    width = VECTORS * lanes

    def product(B, columns, adds, n, x, W, m, y, V, l, z, Z, length, out):  # type: ignore[no-untyped-def]
        """out (B, length) <- x (B, n) @ W + y (B, m) @ V + z (B, l) @ Z, and + out if `adds`, for packed matrices."""
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

    return product


def _outer(lanes: int) -> Any:
    width = VECTORS * lanes

    def outer(N, piece, n, x, m, d, tiles):  # type: ignore[no-untyped-def]
        """tiles (blocks, panels, ROWS, width) += x (N, n).T @ d (N, m), for m of at least a vector.

        The last panel may repeat columns of the one before, so that it ends with d.
        """
        blocks, panels = (n + ROWS - 1) // ROWS, (m + width - 1) // width
        small, larger = n // blocks, n % blocks
        for start in range(0, N, piece):
            count, first = min(piece, N - start), 0
            for block in range(blocks):
                rows = small + 1 if block < larger else small
                for panel in range(panels):
                    vectors = VECTORS if m - panel * width > lanes else 1
                    column = min(panel * width, m - vectors * lanes)
                    outer_tile(
                        rows, vectors, count, n, shifted(x, start * n + first), m, shifted(d, start * m + column),
                        width, shifted(tiles, (block * panels + panel) * ROWS * width),
                    )  # fmt: skip
                first += rows

    return outer


def _signatures(number: Any) -> dict[str, Any]:
    pointer: Any = types.CPointer
    I, P = types.intp, pointer(number)
    return {
        "product": types.void(I, I, I, I, P, P, I, P, P, I, P, P, I, P),
        "outer": types.void(I, I, I, P, I, P, P),
    }


_functions: dict[str, Any] = {}
_ready: set[Any] = set()
"""The types whose functions are compiled."""
_external = {
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
        if f"product_{kind}" not in _functions:
            lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
            makers = {"product": _product(lanes), "outer": _outer(lanes)}
            for name, signature in _signatures(_TYPES[kind]).items():
                _functions[f"{name}_{kind}"] = compiled_once(makers[name], signature, f"hfrnn_{name}_{kind}")
        _ready.add(np.dtype(dtype))


def _product_of(
    adds: bool, columns: int, n: int, x: Array, W: Array, m: int, y: Array, V: Array, l: int, z: Array, Z: Array,
    out: Array,
) -> None:  # fmt: skip
    """Call `product` for the type of W; see `_product`. Without a compiler (NUMBA_DISABLE_JIT), do the same."""
    total = out[:, :columns] if adds else 0.0
    for count, left, panels in ((n, x, W), (m, y, V), (l, z, Z)):
        if count:
            total = total + left @ panels.transpose(1, 0, 2).reshape(count, -1)[:, :columns]
    out[:, :columns] = total


@overload(_product_of)
def _compiled_product(adds, columns, n, x, W, m, y, V, l, z, Z, out):  # type: ignore[no-untyped-def]
    call = _external["product", W.dtype.name]

    def run(adds, columns, n, x, W, m, y, V, l, z, Z, out):  # type: ignore[no-untyped-def]
        call(
            out.shape[0], columns, adds, n, x.ctypes, W.ctypes, m, y.ctypes, V.ctypes, l, z.ctypes, Z.ctypes,
            out.shape[1], out.ctypes,
        )  # fmt: skip

    return run


def _outer_of(piece: int, x: Array, d: Array, tiles: Array) -> None:
    """Call `outer` for the type of x; see `_outer`. Without a compiler (NUMBA_DISABLE_JIT), do the same."""
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
def _compiled_outer(piece, x, d, tiles):  # type: ignore[no-untyped-def]
    call = _external["outer", x.dtype.name]

    def run(piece, x, d, tiles):  # type: ignore[no-untyped-def]
        call(x.shape[0], piece, x.shape[1], x.ctypes, d.shape[1], d.ctypes, tiles.ctypes)

    return run


def panel_width(dtype: Any) -> int:
    """Return the number of columns of a panel."""
    return int(VECTORS * VECTOR_BYTES // np.dtype(dtype).itemsize)


def panels_of(columns: int, dtype: Any) -> int:
    """Return the number of panels of a matrix."""
    return -(-columns // panel_width(dtype))


@compile_exact_loop
def fill_panels(W: Array, panels: Array) -> None:
    count, n, width = panels.shape
    for p in range(count):
        own = min(W.shape[1] - p * width, width)
        for k in range(n):
            for j in range(own):
                panels[p, k, j] = W[k, p * width + j]
            for j in range(own, width):
                panels[p, k, j] = 0


@compile_product
def affine(
    t: int, U: Array, first: int, n: int, x: Array, W: Array, m: int, y: Array, V: Array, l: int, z: Array, Z: Array,
    columns: int, out: Array,
) -> None:  # fmt: skip
    """out (B, panels * width) <- some columns of U[t], from the first on, + x (B, n) @ W + y (B, m) @ V + z[t] @ Z.

    W, V and Z are packed, and z is (K, B, l). A term is absent if n, m or l is 0, or if U has no steps.
    """
    adds = U.shape[0] > 0
    if adds:
        for b in range(out.shape[0]):
            for j in range(columns):
                out[b, j] = U[t, b, first + j]
    _product_of(adds, columns, n, x, W, m, y, V, l, z[t], Z, out)


@compile_product
def packed_product(x: Array, W: Array, columns: int, out: Array) -> None:
    """out (B, panels * width) <- x (B, n) @ W, for a packed W of so many columns."""
    affine(0, x[:0].reshape(0, 1, 1), 0, W.shape[1], x, W, 0, x, W, 0, x.reshape(1, *x.shape), W, columns, out)


@compile_product
def adjoint_of_state(
    t: int, dhs: Array, l: int, z: Array, Z: Array, weights: Array, Rhs: Array, ds: Array, W_T: Array, out: Array
) -> None:
    """out (B, at least H) <- dhs[t] + z[t] @ Z + weights[t] * Rhs[t] + ds[t + 1] @ W_T, without the last at the end.

    The terms of dhs are those of `adjoint_terms`; ds is (K, B, n).
    """
    K, B, n = ds.shape
    s, H = min(t + 1, K - 1), Rhs.shape[2]
    affine(t, dhs, 0, n if t < K - 1 else 0, ds[s], W_T, 0, ds[s], W_T, l, z, Z, H, out)
    if weights.shape[0]:
        for b in range(B):
            for j in range(H):
                out[b, j] += weights[t, b] * Rhs[t, b, j]


@compile_product
def add_outer(x: Array, d: Array, piece: int, out: Array) -> None:
    """out (n, m) += x (N, n).T @ d (N, m), for m of at least a vector, over pieces of rows that stay in the cache."""
    n, m, lanes = x.shape[1], d.shape[1], VECTOR_BYTES // d.itemsize
    blocks, width = (n + ROWS - 1) // ROWS, VECTORS * lanes
    tiles = np.zeros((blocks, (m + width - 1) // width, ROWS, width), d.dtype)
    _outer_of(piece, x, d, tiles)
    small, larger, first = n // blocks, n % blocks, 0
    for block in range(blocks):
        rows = small + 1 if block < larger else small
        for panel in range(tiles.shape[1]):
            vectors = VECTORS if m - panel * width > lanes else 1
            at = min(panel * width, m - vectors * lanes)
            for i in range(rows):
                for j in range(panel * width - at, min(vectors * lanes, m - at)):
                    out[first + i, at + j] += tiles[block, panel, i, j]
        first += rows


@compile_exact_loop
def _add_pieces(x: Array, d: Array, out: Array) -> None:
    add_outer(x, d, PIECE, out)


def add_pieces(x: Array, d: Array, out: Array) -> None:
    """out (n, m) += x (N, n).T @ d (N, m), for m of at least a vector and an `out` that stays in the cache."""
    _compile_tiles(d.dtype)
    _add_pieces(x, d, out)


def add_weight_gradient(tape: Tape, x: Array, da: Array, grad: Array) -> None:
    """Do what `pointwise.add_weight_gradient` does. A small gradient stays in the cache, and BLAS is slower then."""
    lanes = VECTOR_BYTES // da.itemsize
    if grad.ndim == 2 and grad.nbytes <= GRADIENT_BYTES and grad.shape[1] >= lanes and grad.dtype.kind == "f":
        add_pieces(rows(x), rows(da), grad)
    else:
        add_by_blas(tape, x, da, grad)


def pack(W: Array, buffers: Buffers, name: str) -> Array:
    """Return a matrix (n, m) packed, in the buffer `name`."""
    _compile_tiles(buffers.dtype)
    panels = buffers.get(name, (panels_of(W.shape[1], buffers.dtype), W.shape[0], panel_width(buffers.dtype)))
    fill_panels(W, panels)
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


def terms(tape: Tape, name: str, U: Array | Factors, columns: slice | None = None) -> tuple[Array, int, Array, Array]:
    """Return U, l, z and Z as `affine` takes them; Z is a scratch array of this name, of some columns of the factor."""
    K, B, m = U.shape
    dtype = tape.shared.dtype
    if isinstance(U, Factors):
        W = U.W if columns is None else U.W[:, columns]
        return np.empty((0, B, m), dtype), U.x.shape[2], U.x, pack(W, tape.shared, name)
    return U, 0, np.empty((K, B, 0), dtype), np.empty((1, 0, panel_width(dtype)), dtype)


def terms_of_two(tape: Tape, U: Array | Factors, first: int) -> tuple[Array, int, Array, Array, Array]:
    """Return U, l, z, and Z as `affine` takes them for the first columns of U, and Z for the others."""
    found, l, z, Z = terms(tape, "U.packed", U, slice(0, first))
    return found, l, z, Z, terms(tape, "U_2.packed", U, slice(first, None))[3]


def adjoint_terms(tape: Tape, dhs: Array | Factors) -> tuple[Array, int, Array, Array, Array, Array]:
    """Return dhs, l, z, Z, weights and Rhs as `adjoint_of_state` takes them."""
    found = terms(tape, "dhs.packed", dhs)
    if isinstance(dhs, Factors) and dhs.weights is not None:
        return *found, dhs.weights, dhs.Rh
    _, B, H = dhs.shape
    return *found, np.empty((0, B), tape.shared.dtype), np.empty((0, B, H), tape.shared.dtype)


class PackedMatrices(Kernel):
    """A kernel whose compiled loops use the matrices `transposed`, and their transposes, packed."""

    def prepare(self, p: Arrays, buffers: Buffers, name: str, backward: bool) -> None:
        super().prepare(p, buffers, name, backward)
        if buffers.dtype.kind == "f":
            for matrix in self.transposed:
                p[f"{matrix}.packed"] = pack(p[matrix], buffers, f"{name}{matrix}.packed")
                if backward:
                    p[f"{matrix}.T.packed"] = pack(p[matrix].T, buffers, f"{name}{matrix}.T.packed")
