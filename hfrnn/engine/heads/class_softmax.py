"""Class softmax: a softmax over classes of symbols, then one over the symbols of the target's class.

c is the class of the target, and z^c are the outputs of its symbols. Both output maps are those of output_map.py.

F1  y_t = sum_l h^l_t @ W_class^l + b_class             SPEC 1; one output per class
F2  z^c_t = sum_l h^l_t @ W_y^l[:, c] + b_y[c]          SPEC 1; only the symbols of class c are computed
F3  q = softmax(y), p = softmax(z^c)                    SPEC 3; p is normalised within class c
    loss = -log q[c] - log p[target]                    SPEC 3

R1  Ry_t, Rz^c_t                                        output_map.py R1, for F1 and F2
R2  H_L R(y) = q*Ry - q*(q.Ry)                          SPEC 3, [K] 3.23
    H_L R(z^c) = p*Rz^c - p*(p.Rz^c)                    SPEC 3, [K] 3.23

B1  dy = q - one_hot(c), dz^c = p - one_hot(target)     SPEC 3, [K] 2.4; for products dy, dz^c come from R2 ([Sch])
B2  dh_t = dy_t @ W_class.T + dz^c_t @ W_y[:, c].T      output_map.py B1; weight gradients: output_map.py B2

The tokens of a segment whose loss is needed are sorted by the class of their target. Each class is then one matrix
product with its own columns of W_y. A token costs C outputs and those of its class. Neighbouring small classes form a
bundle, which is also one product: the outputs of the other classes in it are set to -inf, so that their p is 0. The
columns of W_y are in class order: a stable sort of the symbols by class, which changes nothing if the classes ascend.
The flat vector stores W_y column by column, so that the columns of a class are one piece of memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import Array, Backend, HostArray, get_backend
from hfrnn.checks import is_whole, wrong
from hfrnn.engine.heads.output_map import ByLayer, Head, OutputMap, check_symbols, curve_, first_of, normalise_
from hfrnn.errors import InputError, Message
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import rows

TOKENS_A_CLASS = 16
"""Smallest efficient number of tokens per class in a segment. Reading the weights dominates the products of fewer."""
BUNDLE = 64
"""Largest number of symbols in a bundle of neighbouring classes."""


def classes_of_symbols(n_out: int, classes: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the class of each of n_out symbols, numbers from 0 to C-1, given these or the number of classes.

    With a number, the symbols are divided in their order into classes of nearly equal sizes.
    """
    if is_whole(classes):
        number = int(classes)  # type: ignore[arg-type]
        if not 1 <= number <= n_out:
            raise wrong("classes", number, f"with n_out = {n_out} give 1 to {n_out} classes")
        return tuple(symbol * number // n_out for symbol in range(n_out))
    needed = "the loss 'class-softmax' needs a number of classes, or the class of each symbol"
    if not isinstance(classes, list | tuple | range | np.ndarray):
        raise wrong("classes", classes, needed)
    given = array("classes", classes, (None,), "iu", backend=get_backend("numpy"), advice=f"because {needed}")
    if given.size != n_out:
        raise InputError(Message(
            "{classes!s} has {0} numbers: with n_out = {1} give the class of each symbol", given.size, n_out
        ))  # fmt: skip
    found = np.unique(given)
    if not np.array_equal(found, np.arange(found.size)):
        raise InputError(
            f"the classes of the symbols are {found.size} different numbers from {found[0]} to {found[-1]}: number "
            "them from 0 up and leave none without a symbol"
        )
    return tuple(int(number) for number in given)


@dataclass
class ScoredTokens:
    """The N tokens of one segment whose loss is needed, sorted by the class of their target.

    Each token has one output per symbol of its bundle. The n outputs of all tokens lie one after another in one array.
    """

    tokens: Array  # (N,) index of each token among the K*B tokens of the segment
    classes: Array  # (N,) the class of each token's target
    outputs: Array  # (N,) index of the target's output among the n outputs
    starts: Array  # (N,) index of each token's first output
    size: int  # n
    masked: Array  # indices of the outputs whose symbol is not in the target's class
    scale: Array  # (N,) the factor w / sum w of each token
    shape: tuple[int, int]  # K and B
    groups: list[tuple[slice, slice, slice]]  # of each bundle that occurs: its tokens, its columns of W_y, its outputs

    @property
    def runs(self) -> list[tuple[slice, slice]]:
        """The tokens and the outputs of each group; its tokens have the same number of outputs."""
        return [(tokens, outputs) for tokens, _, outputs in self.groups]


class ClassSoftmax(Head):
    """Cross entropy of one symbol out of n_out, factored into its class and the symbol within its class."""

    integer_targets = True
    probabilistic = True
    reads_targets = True
    separates_sequences = False  # a class's product runs over the tokens of all sequences

    def __init__(self, n_out: int, widths: Mapping[int, int], bias: bool, classes: int | Sequence[int] | None) -> None:
        super().__init__(n_out, widths, bias)
        self.classes = classes_of_symbols(n_out, classes)
        self.class_of = np.array(self.classes)
        self.sizes = np.bincount(self.class_of)
        self.n_classes = self.sizes.size
        self.least_rows = TOKENS_A_CLASS * self.n_classes
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.class_of_column = np.repeat(np.arange(self.n_classes), self.sizes)
        """The class of each column of W_y."""
        self.bundle_of = _bundles(self.sizes)
        """The bundle of each class."""
        self.bundle_sizes = np.bincount(self.bundle_of, self.sizes).astype(np.intp)
        self.bundle_starts = np.cumsum(self.bundle_sizes) - self.bundle_sizes
        self.column_of = np.empty(n_out, np.intp)
        """The column of W_y of each symbol."""
        self.column_of[np.argsort(self.class_of, kind="stable")] = np.arange(n_out)
        self.costly_target = int(np.argmax(self.bundle_sizes[self.bundle_of[self.class_of]]))
        self.scored_bytes = 8 * (6 + BUNDLE)  # six numbers of a token, and masked outputs, which only bundles have
        self.class_map = OutputMap("class", self.n_classes, widths, bias)
        self.transposed = tuple(self.map.matrices.values())

    @property
    def n_outputs(self) -> int:
        """C + n_out: the class outputs, then the symbol outputs in the order of W_y's columns."""
        return self.n_classes + self.n_out

    @property
    def outputs_a_target(self) -> int:
        return self.n_classes + -(-self.n_out // self.n_classes)

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        maps = (self.map, self.class_map)
        matrices = {name: shape for each in maps for name, shape in each.matrix_shapes().items()}
        return matrices | {name: shape for each in maps for name, shape in each.bias_shapes().items()}

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        check_symbols("class-softmax", self.n_out, targets, T, B)

    # ------------------------------------------------------------------ the loss of a segment and what follows

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: HostArray, spans: Sequence[slice],
        shares: Array | None = None,
    ) -> list[ScoredTokens]:  # fmt: skip
        symbols = targets if isinstance(targets, np.ndarray) else backend.to_host(targets)
        return [self._arrange(backend, symbols[span], scale[span], wanted[span] > 0) for span in spans]

    def _arrange(
        self, backend: Backend, symbols: np.ndarray[Any, Any], scale: Array, wanted: np.ndarray[Any, Any]
    ) -> ScoredTokens:
        tokens = np.flatnonzero(wanted)
        targets = symbols.reshape(-1)[tokens]
        order = np.argsort(self.class_of[targets], kind="stable")
        tokens, targets = tokens[order], targets[order]
        classes = self.class_of[targets]
        bundles = self.bundle_of[classes]
        widths = self.bundle_sizes[bundles]
        starts = np.cumsum(widths) - widths
        groups, masked, token = [], [], 0
        for bundle, count in zip(*np.unique(bundles, return_counts=True), strict=True):
            own = slice(token, token + int(count))
            first, size, output = int(self.bundle_starts[bundle]), int(self.bundle_sizes[bundle]), int(starts[token])
            columns = slice(first, first + size)
            groups.append((own, columns, slice(output, output + int(count) * size)))
            if self.sizes[classes[token]] < size:
                masked.append(output + np.flatnonzero(self.class_of_column[columns] != classes[own, None]))
            token += int(count)
        on_device = backend.asarray(tokens)
        return ScoredTokens(
            tokens=on_device,
            classes=backend.asarray(classes),
            outputs=backend.asarray(starts + self.column_of[targets] - self.bundle_starts[bundles]),
            starts=backend.asarray(starts),
            size=int(widths.sum()),
            masked=backend.asarray(np.concatenate([*masked, np.zeros(0, np.intp)])),
            scale=scale.reshape(-1)[on_device],
            shape=(symbols.shape[0], symbols.shape[1]),
            groups=groups,
        )

    def losses(self, p: Arrays, hs: ByLayer, scored: ScoredTokens, tape: Tape) -> Array:
        xp, N = tape.xp, scored.tokens.size
        found = self._gather(hs, scored, tape, "h_tokens")
        q = rows(self.class_map.forward(p, found, tape, tape.new("classes", 1, N, self.n_classes)))  # F1
        of_tokens = normalise_(xp, q, (xp.arange(N), scored.classes))  # F3
        z = tape.new("words", scored.size)
        self.symbol_outputs(p, found, scored, tape, z)
        of_tokens += self.normalise_symbols(z, scored, tape)
        losses = tape.backend.zeros((scored.shape[0] * scored.shape[1],), of_tokens.dtype)
        losses[scored.tokens] = of_tokens
        return losses.reshape(scored.shape)

    def gradient(self, p: Arrays, hs: ByLayer, scored: ScoredTokens, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        dy, dz = tape["classes"], tape["words"]
        rows(dy)[tape.xp.arange(scored.tokens.size), scored.classes] -= 1  # B1
        self.symbol_residuals(dz, scored, tape)
        self._backward(p, self._gather(hs, scored, tape, "h_tokens"), dy, dz, scored, tape, grad, dhs)

    def product(
        self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, scored: ScoredTokens, tape: Tape,
        grad: Arrays, dhs: ByLayer,
    ) -> None:  # fmt: skip
        y, z = tape["classes"], tape["words"]
        found, Rfound = self._gather(hs, scored, tape, "h_tokens"), self._gather(Rhs, scored, tape, "Rh_tokens")
        Ry, Rz = tape.scratch("Ry", *y.shape), tape.scratch("Rz", *z.shape)
        self.class_map.rforward(p, v, found, Rfound, tape, Ry)  # R1
        curve_(tape.xp, y, Ry, tape.scratch("head_work", *y.shape))  # R2
        self.symbol_tangents(p, v, found, Rfound, scored, tape, Rz)
        self.curve_symbols(z, Rz, scored, tape)
        self._backward(p, found, Ry, Rz, scored, tape, grad, dhs)

    def _backward(
        self, p: Arrays, found: dict[int, Array], dy: Array, dz: Array, scored: ScoredTokens, tape: Tape, grad: Arrays,
        dhs: ByLayer,
    ) -> None:  # fmt: skip
        """Scale the class outputs' adjoints, write dhs and add the weight gradients to grad; dz is scaled already."""
        dy *= scored.scale[:, None]
        by_class = {l: tape.scratch(f"dh_tokens{l}", *h.shape) for l, h in found.items()}
        by_word = {l: tape.scratch(f"dh_words{l}", *h.shape) for l, h in found.items()}
        self.class_map.backward(p, found, dy, tape, grad, by_class)  # B2
        self.symbols_backward(p, found, dz, scored, tape, grad, by_word)
        for l, dh in by_class.items():
            dh += by_word[l]
            dhs[l][...] = 0
            rows(dhs[l])[scored.tokens] = rows(dh)

    def _gather(self, hs: ByLayer, scored: ScoredTokens, tape: Tape, name: str) -> dict[int, Array]:
        """Return the tokens' hidden states, (1, N, width) for each layer that feeds the output."""
        found = {l: tape.scratch(f"{name}{l}", 1, scored.tokens.size, width) for l, width in self.widths.items()}
        for l, out in found.items():
            tape.backend.take_rows(rows(hs[l]), scored.tokens, rows(out))
        return found

    # ------------------------------------------------------------------ the outputs of all tokens' symbols, (n,)

    def symbol_outputs(self, p: Arrays, found: dict[int, Array], scored: ScoredTokens, tape: Tape, z: Array) -> None:
        """Write the outputs z^c of all tokens to z."""
        for group in scored.groups:
            tokens, columns, _ = group
            self.map.forward(self.map.columns(p, columns), _tokens(found, tokens), tape, _part(z, *group))  # F2

    def normalise_symbols(self, z: Array, scored: ScoredTokens, tape: Tape) -> Array:
        """Replace each token's outputs by their softmax within its class; return -log p[target], (N,)."""
        xp = tape.xp
        z[scored.masked] = -math.inf
        z -= _spread(tape, tape.backend.tops_of_pieces(z, scored.starts, scored.runs), scored)
        chosen = z[scored.outputs]
        xp.exp(z, out=z)
        totals = tape.backend.sums_of_pieces(z, scored.starts, scored.runs)
        z /= _spread(tape, totals, scored)
        return xp.log(totals) - chosen  # F3

    def symbol_residuals(self, dz: Array, scored: ScoredTokens, tape: Tape) -> None:
        """Replace p by the scaled gradient of the loss in the outputs."""
        dz[scored.outputs] -= 1  # B1
        dz *= _spread(tape, scored.scale, scored)

    def symbol_tangents(
        self, p: Arrays, v: Arrays, found: dict[int, Array], Rfound: dict[int, Array], scored: ScoredTokens, tape: Tape,
        Rz: Array,
    ) -> None:  # fmt: skip
        """Write the tangents of all tokens' outputs along v to Rz."""
        for group in scored.groups:
            tokens, columns, _ = group
            own, vown = self.map.columns(p, columns), self.map.columns(v, columns)
            self.map.rforward(own, vown, _tokens(found, tokens), _tokens(Rfound, tokens), tape, _part(Rz, *group))  # R1

    def curve_symbols(self, p: Array, Rz: Array, scored: ScoredTokens, tape: Tape) -> None:
        """Replace Rz by the scaled Hessian of the loss times Rz, where the outputs have the softmax p."""
        Rz *= p
        work = _spread(tape, tape.backend.sums_of_pieces(Rz, scored.starts, scored.runs), scored)
        work *= p
        Rz -= work  # R2
        Rz *= _spread(tape, scored.scale, scored)

    def symbols_backward(
        self, p: Arrays, found: dict[int, Array], dz: Array, scored: ScoredTokens, tape: Tape, grad: Arrays,
        dhs: dict[int, Array],
    ) -> None:  # fmt: skip
        """Write what follows from dz to the adjoints dhs of the tokens' hidden states, and add to grad."""
        for group in scored.groups:
            tokens, columns, _ = group
            own, gown, part = self.map.columns(p, columns), self.map.columns(grad, columns), _part(dz, *group)
            self.map.backward(own, _tokens(found, tokens), part, tape, gown, _tokens(dhs, tokens))  # B2

    # ------------------------------------------------------------------ all outputs

    def outputs(self, p: Arrays, hs: ByLayer, tape: Tape) -> Array:
        K, B = first_of(hs, self.widths)
        z = tape.new("z", K, B, self.n_outputs)
        z[:, :, : self.n_classes] = self.class_map.forward(p, hs, tape, tape.scratch("y", K, B, self.n_classes))
        z[:, :, self.n_classes :] = self.map.forward(p, hs, tape, tape.scratch("Rz", K, B, self.n_out))
        return z

    def routputs(self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, tape: Tape) -> Array:
        K, B = first_of(hs, self.widths)
        z = tape.scratch("routputs", K, B, self.n_outputs)
        Ry, Rz = tape.scratch("Ry", K, B, self.n_classes), tape.scratch("Rz", K, B, self.n_out)
        z[:, :, : self.n_classes] = self.class_map.rforward(p, v, hs, Rhs, tape, Ry)
        z[:, :, self.n_classes :] = self.map.rforward(p, v, hs, Rhs, tape, Rz)
        return z

    def backward(self, p: Arrays, hs: ByLayer, dz: Array, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        contiguous = tape.xp.ascontiguousarray
        by_class = {l: tape.scratch(f"dh_tokens{l}", *hs[l].shape) for l in self.widths}
        self.class_map.backward(p, hs, contiguous(dz[:, :, : self.n_classes]), tape, grad, by_class)
        self.map.backward(p, hs, contiguous(dz[:, :, self.n_classes :]), tape, grad, dhs)
        for l, dh in by_class.items():
            total = dhs[l]
            total += dh

    def logits(self, backend: Backend, z: Array) -> Array:
        """Return the log-probabilities of all symbols: log p(class) + log p(symbol | class)."""
        log_q = _log_softmax(backend.xp, z[:, :, : self.n_classes])
        log_p = z[:, :, self.n_classes :].copy()
        for c, (start, size) in enumerate(zip(self.starts.tolist(), self.sizes.tolist(), strict=True)):
            of_class = slice(start, start + size)
            log_p[:, :, of_class] = _log_softmax(backend.xp, log_p[:, :, of_class]) + log_q[:, :, c : c + 1]
        return log_p[:, :, backend.asarray(self.column_of)]


def _bundles(sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bundle of each class. Neighbouring classes share a bundle of at most `BUNDLE` symbols."""
    found: list[int] = []
    bundle = total = 0
    for size in sizes.tolist():
        if found and total + size > BUNDLE:
            bundle, total = bundle + 1, 0
        total += size
        found.append(bundle)
    return np.array(found)


def _part(outputs: Array, tokens: slice, columns: slice, where: slice) -> Array:
    """Return the outputs of a group as a view, (1, number of tokens, number of columns)."""
    return outputs[where].reshape(1, tokens.stop - tokens.start, columns.stop - columns.start)


def _tokens(found: dict[int, Array], tokens: slice) -> dict[int, Array]:
    return {l: h[:, tokens] for l, h in found.items()}


def _spread(tape: Tape, values: Array, scored: ScoredTokens) -> Array:
    """Copy one value per token, (N,), to each of its outputs; return (n,), a scratch array."""
    out = tape.scratch("head_work", scored.size)
    for group in scored.groups:
        _part(out, *group)[...] = values[group[0], None]
    return out


def _log_softmax(xp: Any, z: Array) -> Array:
    shifted = z - z.real.max(axis=-1, keepdims=True)
    return shifted - xp.log(xp.exp(shifted).sum(axis=-1, keepdims=True))
