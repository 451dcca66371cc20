"""The affine map from a network's inputs, and from the layer below, to the slots U of each layer.

F1  U_t = x_t @ W_x + below_t @ W_below + b             SPEC 1, [K] 4.5; x_t one-hot (a row look-up), E[symbol] or real

R1  RU_t = x_t @ R(W_x) + Rx_t @ W_x                    [K] 3.20; Rx_t = R(E)[symbol] with an embedding, else 0
           + below_t @ R(W_below) + Rbelow_t @ W_below  [K] 3.20
           + R(b)                                       F1 by the rules of [P]

B1  dW_x = sum_t x_t.T @ dU_t                           [K] 2.9
    dW_below = sum_t below_t.T @ dU_t                   adjoint of F1
    db = sum_t dU_t                                     adjoint of F1
B2  dbelow_t = dU_t @ W_below.T                         adjoint of F1
B3  dE[symbol] += dU_t @ W_x.T                          adjoint of F1, x_t = E[symbol]

A parameter block feeds only some of the slots. It has no columns for the other slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, Backend, Buffers, HostArray, RowGroups, RowSums
from hfrnn.engine.layers import Columns, Layer
from hfrnn.kernels.base import Arrays, Factors
from hfrnn.kernels.narrow import narrow_products
from hfrnn.kernels.pointwise import add_bias_gradient, add_outer_products, matrix_product, rows

Groups = dict[str, Arrays]
Term = tuple[Columns, Array | None, Array | None]
"""Columns of U, the values mapped into them (None: one-hot symbols), and the matrix (None: the block is absent)."""

FEW_SYMBOLS = 512
"""Up to this many symbols, the bias is added to the rows of W_x before they are looked up, and the gradient of a
look-up adds to all rows of W_x. A GPU computes that gradient as a product with a one-hot matrix then."""


class InputMap:
    """The input map of one shard.

    Inputs are (T, B) symbols or (T, B, n_in) real values on the backend's device. Other objects may share the buffers
    `scratch`. With the inputs on the host too, `host`, groups of symbols need no transfer.
    """

    def __init__(
        self, layers: Sequence[Layer], n_in: int, embedding: int | None, backend: Backend, inputs: Array,
        scratch: Buffers, host: HostArray | None = None,
    ) -> None:  # fmt: skip
        self.layers, self.n_in, self.embedding = layers, n_in, embedding
        self.backend, self.xp, self.scratch = backend, backend.xp, scratch
        self.symbols = inputs if inputs.ndim == 2 else None
        self._known = inputs if host is None else host  # the same symbols where groups of them can be computed
        self._groups: dict[tuple[int, int], RowSums | RowGroups] = {}
        real_kind = "float64" if scratch.dtype.kind == "c" else scratch.dtype
        self.values = None if inputs.ndim == 2 else backend.asarray(inputs, dtype=real_kind)
        self.narrow = self._narrow_products()
        self.extended = None if self.narrow is None else _with_ones(self.xp, self.values)  # (T, B, n_in + 1)

    def _narrow_products(self) -> Any:
        """Return the compiled products with a few inputs, if they serve this map: real values that feed all slots."""
        found, layer = narrow_products(self.backend.variants), self.layers[0]
        whole = self.values is not None and layer.direct.width == layer.slots and len(layer.direct.runs) == 1
        return found if found and whole and found.serves(self.scratch, self.n_in + 1, layer.slots) else None

    def factors(self, p: Groups, span: slice) -> Factors:
        """Return U of the first layer by its factors: the inputs and a 1, and W_x with b as its last row (F1, R1).

        For the blocks of k vectors along a first axis, these are the factors of k tangents.
        """
        layer, own = self.layers[0], p["layer0"]
        W = self.scratch.get("input_factor", (*own["W_x"].shape[:-2], self.n_in + 1, layer.slots))
        W[..., :-1, :], W[..., -1, :] = own["W_x"], 0
        for start, first, width in layer.bias.runs:
            W[..., -1, start : start + width] = own["b"][..., first : first + width]
        return Factors(self.extended[span], W)  # type: ignore[index]

    def forward(self, l: int, p: Groups, span: slice, below: Array | None, U: Array) -> None:
        """Compute U (K, B, slots) of layer l for the steps of `span`. `below` is what the layer below hands up."""
        layer, own = self.layers[l], p[f"layer{l}"]
        terms: list[Term] = [(layer.direct, self._inputs(p, span), own.get("W_x"))]
        if below is not None:
            terms.append((layer.below, below, own.get("W_below")))
        self._sum(U, terms, layer.bias, own.get("b"), span)  # F1

    def rforward(
        self, l: int, p: Groups, v: Groups, span: slice, below: Array | None, Rbelow: Array | None, RU: Array
    ) -> None:
        """Compute RU (K, B, slots) of layer l, the tangent along the parameter direction v."""
        layer, own, vown = self.layers[l], p[f"layer{l}"], v[f"layer{l}"]
        terms: list[Term] = [(layer.direct, self._inputs(p, span), vown.get("W_x"))]
        if self.embedding is not None:
            terms.append((layer.direct, self._inputs(v, span, "Re"), own.get("W_x")))
        if below is not None:
            terms += [(layer.below, below, vown.get("W_below")), (layer.below, Rbelow, own.get("W_below"))]
        self._sum(RU, terms, layer.bias, vown.get("b"), span)  # R1

    def backward(
        self, l: int, p: Groups, span: slice, below: Array | None, dU: Array, dbelow: Array | None, grad: Groups
    ) -> None:
        """Add the weight gradients of layer l to grad, and its part to dbelow (K, B, width of the layer below)."""
        layer, own, gown = self.layers[l], p[f"layer{l}"], grad[f"layer{l}"]
        if l == 0 and self.narrow is not None and gown["W_x"].ndim == 2:
            sums = self.empty_sums(1)
            self.narrow.add_gradient(self.extended[span], dU, sums[0])  # type: ignore[index]
            self.add_sums(grad, sums[0])
            return
        if layer.direct.width:
            self._add_gradient(gown["W_x"], layer.direct, self._inputs(p, span), dU, span)  # B1
            if self.embedding is not None:
                self._add_embedding_gradient(own["W_x"], layer.direct, dU, span, grad["embedding"]["E"])  # B3
        for start, first, width in layer.bias.runs:
            add_bias_gradient(dU[:, :, start : start + width], gown["b"][first : first + width])  # B1
        if below is not None and layer.below.width:
            self._add_gradient(gown["W_below"], layer.below, below, dU, span)  # B1
            for start, first, width in layer.below.runs:
                work = self.scratch.get("input_product", dbelow.shape)  # type: ignore[union-attr]
                columns = own["W_below"][:, first : first + width]
                self.xp.matmul(rows(dU)[:, start : start + width], columns.T, out=rows(work))
                dbelow += work  # B2

    def dense(self, p: Groups, span: slice) -> Array:
        """Return x (K, B, n), one-hot or embedded symbols or real values, in the type that is computed in."""
        x = self._inputs(p, span, "x_of_output")
        if x is None:
            return self._one_hot(span)
        if x.dtype == self.scratch.dtype:
            return x
        copy = self.scratch.get("x_of_output", x.shape)
        copy[...] = x
        return copy

    def dense_tangent(self, v: Groups, span: slice) -> Array:
        """Return the tangent of `dense` along v: R(E)[symbol] with an embedding, else 0."""
        x = self._inputs(v, span, "Rx_of_output") if self.embedding is not None else None
        if x is not None:
            return x
        steps = span.stop - span.start
        zeros = self.scratch.get("Rx_of_output", (steps, self._known.shape[1], self.n_in))
        zeros[...] = 0
        return zeros

    def dense_backward(self, span: slice, dx: Array, grad: Groups) -> None:
        """Add the gradient of the embedding that follows from dx (K, B, n), the adjoint of `dense`."""
        if self.embedding is not None:
            self._add_rows(grad["embedding"]["E"], dx, span)

    def _inputs(self, p: Groups, span: slice, name: str = "e") -> Array | None:
        """Return x: real values (K, B, n), embedded symbols (in the buffer `name`), or None for one-hot symbols."""
        if self.values is not None:
            return self.values[span]
        if self.embedding is None or self.symbols is None:
            return None
        symbols = self.symbols[span]
        e = self.scratch.get(name, (*symbols.shape, self.embedding))
        self.backend.take_rows(p["embedding"]["E"], symbols, e)
        return e

    def _sum(self, U: Array, terms: list[Term], biased: Columns, b: Array | None, span: slice) -> None:
        """Overwrite U by the sum of x @ W over the terms, each in its columns, plus b."""
        fresh = True
        for columns, x, W in terms:
            if W is None:
                continue
            whole = fresh and columns.width == U.shape[2]
            if fresh and not whole:
                U[...] = 0
            work = U if whole else self.scratch.get("input_product", (*U.shape[:2], columns.width))
            if x is not None:
                matrix_product(self.xp, rows(x), W, rows(work))
            else:
                if whole and b is not None and W.shape[0] <= FEW_SYMBOLS:
                    W, b = self._with_bias(W, biased, b), None
                self.backend.take_rows(W, self.symbols[span], work)  # type: ignore[index]
            if not whole:
                for start, first, width in columns.runs:
                    U[:, :, start : start + width] += work[:, :, first : first + width]
            fresh = False
        if b is not None:
            for start, first, width in biased.runs:
                U[:, :, start : start + width] += b[first : first + width]

    def _with_bias(self, W: Array, biased: Columns, b: Array) -> Array:
        """Return the rows of W with the bias added, so that it need not be added at every step."""
        table = self.scratch.get("biased_rows", W.shape)
        table[...] = W
        for start, first, width in biased.runs:
            table[:, start : start + width] += b[first : first + width]
        return table

    def _add_gradient(self, dW: Array, columns: Columns, x: Array | None, dU: Array, span: slice) -> None:
        """Add x.T @ dU to dW, from the given columns of dU."""
        one_hot = x
        if x is None and not self.backend.on_host and dW.shape[0] <= FEW_SYMBOLS:
            one_hot = self._one_hot(span)
        for start, first, width in columns.runs:
            dUc = dU[:, :, start : start + width]
            target = dW[:, first : first + width]
            if one_hot is None:
                self._add_rows(target, dUc, span)
            else:
                add_outer_products(self.backend, one_hot, dUc, target, self.scratch)

    def empty_sums(self, k: int) -> Array:
        """Return zeros (k, n_in + 1, slots), for the sums of x.T @ dU of the first layer with a 1 behind x."""
        sums = self.scratch.get("input_sums", (k, self.n_in + 1, self.layers[0].slots))
        sums[...] = 0
        return sums

    def add_sums(self, grad: Groups, sums: Array) -> None:
        """Add the gradients of W_x and b, given the sums (n_in + 1, slots) of the first layer, or k of each."""
        own = grad["layer0"]
        own["W_x"] += sums[..., :-1, :]  # B1
        for start, first, width in self.layers[0].bias.runs:
            own["b"][..., first : first + width] += sums[..., -1, start : start + width]  # B1

    def _add_rows(self, table: Array, values: Array, span: slice) -> None:
        """Add the values (K, B, m) to the rows of their symbols in a table (n_in, m), or (n_in, m, P) for P parts."""
        if table.ndim == 2:
            self.backend.add_rows(table, self._row_groups(span), rows(values), self.scratch)
            return
        n, m, parts = table.shape
        sums = self.scratch.get("rows_of_parts", (parts * n, m))
        sums[...] = 0
        self.backend.add_rows(sums, self._row_groups(span, parts), rows(values), self.scratch)
        table += sums.reshape(parts, n, m).transpose(1, 2, 0)

    def _row_groups(self, span: slice, parts: int = 1) -> RowSums | RowGroups:
        """Return the groups of the tokens of `span` with the same symbol. They are computed once for each segment.

        The rows of part j start at j * n_in, so that parts have no group in common.
        """
        if (span.start, parts) not in self._groups:
            known = self._known[span]
            if parts > 1:
                host = known if isinstance(known, np.ndarray) else self.backend.to_host(known)
                B = host.shape[1]
                known = host + self.n_in * (np.arange(B) // (B // parts))
            few = parts * self.n_in if self.n_in <= FEW_SYMBOLS else None
            self._groups[span.start, parts] = self.backend.row_groups(known.reshape(-1), few)
        return self._groups[span.start, parts]

    def _one_hot(self, span: slice) -> Array:
        symbols = self.symbols[span]  # type: ignore[index]
        one_hot = self.scratch.get("one_hot", (*symbols.shape, self.n_in))
        one_hot[...] = 0
        flat = rows(one_hot)
        flat[self.xp.arange(flat.shape[0]), symbols.reshape(-1)] = 1
        return one_hot

    def _add_embedding_gradient(self, W: Array, columns: Columns, dU: Array, span: slice, dE: Array) -> None:
        de = self.scratch.get("de", (rows(dU).shape[0], dE.shape[1]))
        for start, first, width in columns.runs:
            self.xp.matmul(rows(dU)[:, start : start + width], W[:, first : first + width].T, out=de)
            self._add_rows(dE, de.reshape(*dU.shape[:2], -1), span)


def _with_ones(xp: Any, values: Array) -> Array:
    """Return values (T, B, n) with a column of ones behind them, (T, B, n + 1)."""
    T, B, n = values.shape
    found = xp.ones((T, B, n + 1), dtype=values.dtype)
    found[:, :, :n] = values
    return found
