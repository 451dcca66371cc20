"""The tiles of a matrix product: a few rows times a few vectors of columns, whose sums stay in vector registers.

numba does not keep an array in registers, so the tiles are written in LLVM's instructions. A product of `products.py`
is made of tiles. The order of the additions depends on the sizes of a tile's operands only, and every multiplication is
fused with its addition where the processor can do that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_FEATURES = llvm.get_host_cpu_features()
VECTOR_BYTES = 64 if _FEATURES.get("avx512f") else 32 if _FEATURES.get("avx") else 16
VECTORS = 2
"""Vectors of columns of a tile at most."""
ROWS = 12 if _FEATURES.get("avx512f") else 6
"""Rows of a tile at most: with 2 vectors, their sums leave registers for the operands (32 with AVX-512, else 16)."""

Value = Any
"""A value of LLVM."""
_intrinsic: Any = intrinsic
"""numba's decorator, whose functions are called without the first argument."""


class _Tiles:
    """Writes the tiles of all sizes for numbers of one type."""

    def __init__(self, context: Any, builder: Any, pointer_type: Any) -> None:
        size = pointer_type.dtype.bitwidth // 8
        self.context, self.b, self.size = context, builder, size
        self.lanes = VECTOR_BYTES // size
        self.vector = ir.VectorType(context.get_data_type(pointer_type.dtype), self.lanes)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        insert: Any = cgutils.get_or_insert_function
        self.fma = insert(builder.module, kind, f"llvm.fmuladd.v{self.lanes}f{8 * size}")
        self.index = context.get_value_type(types.intp)

    def number(self, n: int) -> Value:
        return ir.Constant(self.index, n)

    def place(self, start: Value, at: Value) -> Value:
        return self.b.bitcast(self.b.gep(start, [at]), self.vector.as_pointer())

    def load(self, start: Value, at: Value) -> Value:
        return self.b.load(self.place(start, at), align=self.size)

    def store(self, vector: Value, start: Value, at: Value) -> None:
        self.b.store(vector, self.place(start, at), align=self.size)

    def spread(self, start: Value, at: Value) -> Value:
        """Return a vector of copies of one number."""
        b, none = self.b, ir.Constant(self.vector, ir.Undefined)
        first = b.insert_element(none, b.load(b.gep(start, [at])), ir.Constant(ir.IntType(32), 0))
        return b.shuffle_vector(first, none, ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes))

    def loop(self, count: Value, sums: list[Value], body: Callable[[Value, list[Value]], list[Value]]) -> list[Value]:
        """Replace the sums by `body(k, sums)` for each k below `count`."""
        b, before = self.b, self.b.block
        head, inside, after = (b.append_basic_block(name) for name in ("head", "inside", "after"))
        b.branch(head)
        b.position_at_end(head)
        k, found = b.phi(self.index), [b.phi(self.vector) for _ in sums]
        b.cbranch(b.icmp_signed("<", k, count), inside, after)
        b.position_at_end(inside)
        new = body(k, found)
        following = b.add(k, self.number(1))
        for phi, first, later in zip([k, *found], [self.number(0), *sums], [following, *new], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(later, b.block)
        b.branch(head)
        b.position_at_end(after)
        return found

    def multiply_add(
        self, left: list[tuple[Value, Value]], right: list[tuple[Value, Value]], sums: list[Value]
    ) -> list[Value]:
        """Add to the sums (rows, vectors), row by row, the products of numbers on the left and vectors on the right."""
        vectors, products = [self.load(*each) for each in right], []
        for r, each in enumerate(left):
            number = self.spread(*each)
            for v, vector in enumerate(vectors):
                products.append(self.b.call(self.fma, [number, vector, sums[r * len(vectors) + v]]))
        return products

    def start(self, adds: Value, out: Value, places: list[Value]) -> list[Value]:
        """Return the entries of `out` at these places where `adds` is true, else zeros."""
        b, before = self.b, self.b.block
        reading, after = b.append_basic_block("reading"), b.append_basic_block("after")
        b.cbranch(adds, reading, after)
        b.position_at_end(reading)
        read = [self.load(out, place) for place in places]
        b.branch(after)
        b.position_at_end(after)
        sums = [b.phi(self.vector) for _ in places]
        for phi, value in zip(sums, read, strict=True):
            phi.add_incoming(ir.Constant(self.vector, [0.0] * self.lanes), before)
            phi.add_incoming(value, reading)
        return sums

    def each_size(self, rows: Value, vectors: Value, make: Callable[[int, int], None]) -> None:
        """Write a tile of every size, `make(rows, vectors)`, and run the one that is asked for."""
        b = self.b
        other, end = b.append_basic_block("other"), b.append_basic_block("end")
        choice = b.switch(b.add(b.mul(rows, self.number(VECTORS + 1)), vectors), other)
        for m in range(1, ROWS + 1):
            for n in range(1, VECTORS + 1):
                block = b.append_basic_block(f"tile_{m}_{n}")
                choice.add_case(self.number(m * (VECTORS + 1) + n), block)
                b.position_at_end(block)
                make(m, n)
                b.branch(end)
        b.position_at_end(other)
        b.branch(end)
        b.position_at_end(end)

    def places(self, rows: int, vectors: int, length: Value) -> list[Value]:
        """Return the offsets of the vectors of a tile in rows of this length."""
        b, n = self.b, self.number
        return [b.add(b.mul(length, n(r)), n(v * self.lanes)) for r in range(rows) for v in range(vectors)]


def _signature(*arguments: Any) -> Any:
    """Return the signature for these types of arguments: pointers, integers and truth values."""
    return types.void(*(types.intp if isinstance(each, types.Integer) else each for each in arguments))


@_intrinsic
def product_tile(  # type: ignore[no-untyped-def]
    typing_context, rows, vectors, adds, n, x, W, m, y, V, l, z, Z, length, out
):
    """out (rows, vectors) <- x (rows, n) @ W + y (rows, m) @ V + z (rows, l) @ Z, and + out if `adds`.

    The arrays are pointers. Rows of `out` are `length` apart, those of W, V and Z as wide as the widest tile.
    """
    arguments = rows, vectors, adds, n, x, W, m, y, V, l, z, Z, length, out

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        rows, vectors, adds, *terms, length, out = arguments
        tiles = _Tiles(context, builder, signature.args[5])
        b, number = builder, tiles.number

        def make(rows: int, vectors: int) -> None:
            places = tiles.places(rows, vectors, length)
            sums = tiles.start(adds, out, places)
            for count, left, right in zip(*[iter(terms)] * 3, strict=True):
                starts = [b.gep(left, [b.mul(count, number(r))]) for r in range(rows)]

                def body(k: Value, sums: list[Value], starts: Any = starts, right: Any = right) -> list[Value]:
                    row = b.mul(k, number(tiles.lanes * VECTORS))
                    columns = [(right, b.add(row, number(v * tiles.lanes))) for v in range(vectors)]
                    return tiles.multiply_add([(start, k) for start in starts], columns, sums)

                sums = tiles.loop(count, sums, body)
            for place, total in zip(places, sums, strict=True):
                tiles.store(total, out, place)

        tiles.each_size(rows, vectors, make)
        return context.get_dummy_value()

    return _signature(*arguments), generate


@_intrinsic
def outer_tile(typing_context, rows, vectors, count, n, x, m, d, length, out):  # type: ignore[no-untyped-def]
    """out (rows, vectors) += x.T @ d for `count` rows of x and d, n and m apart; rows of `out` are `length` apart."""
    arguments = rows, vectors, count, n, x, m, d, length, out

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        rows, vectors, count, n, x, m, d, length, out = arguments
        tiles = _Tiles(context, builder, signature.args[4])
        b, number = builder, tiles.number

        def make(rows: int, vectors: int) -> None:
            def body(k: Value, sums: list[Value]) -> list[Value]:
                left, right = b.mul(k, n), b.mul(k, m)
                numbers = [(x, b.add(left, number(r))) for r in range(rows)]
                columns = [(d, b.add(right, number(v * tiles.lanes))) for v in range(vectors)]
                return tiles.multiply_add(numbers, columns, sums)

            places = tiles.places(rows, vectors, length)
            sums = tiles.loop(count, [tiles.load(out, place) for place in places], body)
            for place, total in zip(places, sums, strict=True):
                tiles.store(total, out, place)

        tiles.each_size(rows, vectors, make)
        return context.get_dummy_value()

    return _signature(*arguments), generate


@_intrinsic
def shifted(typing_context, pointer, n):  # type: ignore[no-untyped-def]
    """Return a pointer n entries further."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.intp), generate


@_intrinsic
def start(typing_context, array):  # type: ignore[no-untyped-def]
    """Return a pointer to the first entry of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Value:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    pointer: Any = types.CPointer
    return pointer(array.dtype)(array), generate
