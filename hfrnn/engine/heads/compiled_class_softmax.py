"""The class softmax with compiled loops over small groups of tokens, for the backend `numba`.

The equations are those of class_softmax.py. A group of at most `FEW_TOKENS` tokens is small; its products are limited
by reading the weights. One compiled call, which releases the interpreter lock, computes those of all small groups. The
larger groups are products of BLAS, as in the reference. Complex arrays run the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeGuard

import numpy as np

from hfrnn.arrays.backend import Array, Backend
from hfrnn.engine.heads.class_softmax import ClassSoftmax, ScoredTokens
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.fused import is_fused
from hfrnn.kernels.numba import groups as compiled
from hfrnn.kernels.pointwise import rows

FEW_TOKENS = 32
"""Largest number of tokens of a small group."""


@dataclass
class CompiledTokens(ScoredTokens):
    """The tokens of one segment, with their small groups in the form that the compiled loops take."""

    pieces: Array  # (N, 2) first place of each token's outputs within its class, and one past the last
    small: Array  # (G, 5) first token, last token, first column, last column and first output of each small group
    large: ScoredTokens  # the same tokens with the other groups


class CompiledClassSoftmax(ClassSoftmax):
    """`ClassSoftmax` with compiled loops."""

    def _arrange(
        self, backend: Backend, symbols: np.ndarray[Any, Any], scale: Array, wanted: np.ndarray[Any, Any]
    ) -> CompiledTokens:
        scored = super()._arrange(backend, symbols, scale, wanted)
        classes = scored.classes
        firsts = scored.starts + self.starts[classes] - self.bundle_starts[self.bundle_of[classes]]
        large = [group for group in scored.groups if group[0].stop - group[0].start > FEW_TOKENS]
        small = [
            (tokens.start, tokens.stop, columns.start, columns.stop, outputs.start)
            for tokens, columns, outputs in scored.groups
            if tokens.stop - tokens.start <= FEW_TOKENS
        ]
        return CompiledTokens(
            **{field.name: getattr(scored, field.name) for field in fields(scored)},
            pieces=np.stack([firsts, firsts + self.sizes[classes]], axis=1),
            small=np.array(small, np.intp).reshape(-1, 5),
            large=replace(scored, groups=large),
        )

    def symbol_outputs(self, p: Arrays, found: dict[int, Array], scored: ScoredTokens, tape: Tape, z: Array) -> None:
        if not _is_compiled(scored, tape):
            return super().symbol_outputs(p, found, scored, tape, z)
        super().symbol_outputs(p, found, scored.large, tape, z)
        compiled.fill_groups(self._bias(p, z), scored.small, z)
        self._add(p, found, scored, z)  # F2
        return None

    def normalise_symbols(self, z: Array, scored: ScoredTokens, tape: Tape) -> Array:
        if not _is_compiled(scored, tape):
            return super().normalise_symbols(z, scored, tape)
        losses = np.empty(scored.tokens.shape, z.dtype)
        compiled.softmax_of_pieces(z, scored.starts, scored.pieces, scored.outputs, losses)  # F3
        return losses

    def symbol_residuals(self, dz: Array, scored: ScoredTokens, tape: Tape) -> None:
        if not _is_compiled(scored, tape):
            return super().symbol_residuals(dz, scored, tape)
        dz[scored.outputs] -= 1  # B1
        compiled.scale_pieces(scored.scale.astype(dz.dtype, copy=False), scored.starts, dz)
        return None

    def symbol_tangents(
        self, p: Arrays, v: Arrays, found: dict[int, Array], Rfound: dict[int, Array], scored: ScoredTokens, tape: Tape,
        Rz: Array,
    ) -> None:  # fmt: skip
        if not _is_compiled(scored, tape):
            return super().symbol_tangents(p, v, found, Rfound, scored, tape, Rz)
        super().symbol_tangents(p, v, found, Rfound, scored.large, tape, Rz)
        compiled.fill_groups(self._bias(v, Rz), scored.small, Rz)
        self._add(p, Rfound, scored, Rz)
        self._add(v, found, scored, Rz)  # R1
        return None

    def curve_symbols(self, p: Array, Rz: Array, scored: ScoredTokens, tape: Tape) -> None:
        if not _is_compiled(scored, tape):
            return super().curve_symbols(p, Rz, scored, tape)
        compiled.curve_pieces(p, scored.scale.astype(Rz.dtype, copy=False), scored.starts, Rz)  # R2
        return None

    def symbols_backward(
        self, p: Arrays, found: dict[int, Array], dz: Array, scored: ScoredTokens, tape: Tape, grad: Arrays,
        dhs: dict[int, Array],
    ) -> None:  # fmt: skip
        if not _is_compiled(scored, tape):
            return super().symbols_backward(p, found, dz, scored, tape, grad, dhs)
        super().symbols_backward(p, found, dz, scored.large, tape, grad, dhs)
        for l, name in self.map.matrices.items():
            h, dh = rows(found[l]), rows(dhs[l])
            compiled.outputs_backward(h, p[name].T, scored.small, dz, grad[name].T, dh)  # B2
        if self.map.bias is not None:
            compiled.add_column_sums(scored.small, dz, grad[self.map.bias])  # B2
        return None

    def _bias(self, p: Arrays, z: Array) -> Array:
        """Return the bias of the symbols' outputs; an empty array without one."""
        return np.zeros(0, z.dtype) if self.map.bias is None else p[self.map.bias]

    def _add(self, p: Arrays, found: dict[int, Array], scored: CompiledTokens, z: Array) -> None:
        for l, name in self.map.matrices.items():
            compiled.add_outputs(rows(found[l]), p[name].T, scored.small, z)


def _is_compiled(scored: ScoredTokens, tape: Tape) -> TypeGuard[CompiledTokens]:
    return is_fused(tape)
