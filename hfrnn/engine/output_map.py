"""The affine map from the layers' hidden states to outputs, and what a head is: such a map with a loss on its outputs.

    F1  z_t = sum_l h^l_t @ W_y^l + b_y                                     (SPEC 1)

    R1  Rz_t = sum_l (Rh^l_t @ W_y^l + h^l_t @ R(W_y^l)) + R(b_y)

    B1  dh^l_t = dz_t @ W_y^l.T
    B2  dW_y^l = sum_t h^l_t.T @ dz_t, db_y = sum_t dz_t

A sweep asks its head for `losses`, and then for the adjoints that follow from them: `gradient` or `product`. What these
three need of a segment's targets, `arrange` prepares once. The Jacobian takes `outputs`, `routputs` and `backward`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hfrnn.arrays.backend import Array, Backend
from hfrnn.errors import InputError
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, rows

ByLayer = Sequence[Array] | Mapping[int, Array]
"""An array for each layer, or for those that speak to the output."""


def first_of(hs: ByLayer, widths: Mapping[int, int]) -> tuple[int, int]:
    """K and B of the hidden states of the layers that speak to the output."""
    K, B = hs[next(iter(widths))].shape[:2]
    return K, B


class OutputMap:
    """Some layers' hidden states times `W_{name}{l}`, with `b_{name}` or without."""

    def __init__(self, name: str, n_out: int, widths: Mapping[int, int], bias: bool) -> None:
        self.n_out = n_out
        self.widths = dict(widths)
        self.matrices = {l: f"W_{name}{l}" for l in self.widths}
        self.bias = f"b_{name}" if bias else None

    def matrix_shapes(self) -> dict[str, tuple[int, ...]]:
        return {self.matrices[l]: (width, self.n_out) for l, width in self.widths.items()}

    def bias_shapes(self) -> dict[str, tuple[int, ...]]:
        return {} if self.bias is None else {self.bias: (self.n_out,)}

    def columns(self, p: Arrays, which: slice) -> Arrays:
        """The parameters of some outputs alone."""
        part = {name: p[name][:, which] for name in self.matrices.values()}
        return part if self.bias is None else {**part, self.bias: p[self.bias][which]}

    def forward(self, p: Arrays, hs: ByLayer, tape: Tape, z: Array) -> Array:
        """z (K, B, n_out) <- the outputs."""
        self._add(p, hs, tape, z, start=True)  # F1
        if self.bias is not None:
            z += p[self.bias]
        return z

    def rforward(self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, tape: Tape, Rz: Array) -> Array:
        """Rz (K, B, n_out) <- the tangent of the outputs along v."""
        self._add(p, Rhs, tape, Rz, start=True)
        self._add(v, hs, tape, Rz, start=False)  # R1
        if self.bias is not None:
            Rz += v[self.bias]
        return Rz

    def _add(self, p: Arrays, hs: ByLayer, tape: Tape, z: Array, start: bool) -> None:
        """z <- (z unless start) + sum_l hs[l] @ W[l]."""
        for l, name in self.matrices.items():
            if start:
                product(tape, hs[l], p[name], out=z)
                start = False
            else:
                z += product(tape, hs[l], p[name], out=tape.scratch("output", *z.shape))

    def backward(self, p: Arrays, hs: ByLayer, dz: Array, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        """From the adjoint dz: write dhs[l] and add to grad."""
        for l, name in self.matrices.items():
            product(tape, dz, p[name].T, out=dhs[l])  # B1
            add_weight_gradient(tape, hs[l], dz, grad[name])  # B2
        if self.bias is not None:
            grad[self.bias] += rows(dz).sum(axis=0)  # B2


class Head:
    """An output map of some layers' hidden states, with a loss on its outputs.

    Parameters
    ----------
    n_out : int
        Outputs a step.
    widths : mapping of layer index to width
        The layers that speak to the output.
    bias : bool
        Whether there is a `b_y`.
    """

    integer_targets = False
    probabilistic = False
    """Whether `-loss` is a log-probability of the target."""
    classes: tuple[int, ...] | None = None
    """The class of each symbol, of the class softmax."""
    transposed: tuple[str, ...] = ()
    """The matrices whose columns, not rows, lie together in the flat vector."""
    scored_bytes = 0
    """What `arrange` keeps of a step, in bytes at most."""
    costly_target = 0
    """A symbol whose loss takes as much memory as any."""

    least_rows = 80
    """Steps times sequences below which a segment spends its time on reading the weights."""

    def __init__(self, n_out: int, widths: Mapping[int, int], bias: bool) -> None:
        self.n_out = n_out
        self.widths = dict(widths)
        self.map = OutputMap("y", n_out, widths, bias)

    @property
    def n_outputs(self) -> int:
        """The outputs of a step whose Jacobian the engine knows."""
        return self.n_out

    @property
    def outputs_a_target(self) -> int:
        """About how many outputs the loss of one step takes."""
        return self.n_out

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {**self.map.matrix_shapes(), **self.map.bias_shapes()}

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        """Raise InputError unless `targets` fit this loss."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the loss of a segment and what follows

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: Array, spans: Sequence[slice]
    ) -> Sequence[Any]:
        """What each segment is to predict, in the form that the next three take it.

        Parameters
        ----------
        backend : Backend
        targets : (T, B) or (T, B, n_out) array
        scale : (T, B, 1) array
            The factor w / sum w of each step.
        wanted : (T, B) array
            0 where the loss is not asked for: it may be left out, and then is 0.
        spans : sequence of slice
            The steps of each segment.
        """
        raise NotImplementedError

    def losses(self, p: Arrays, hs: ByLayer, scored: Any, tape: Tape) -> Array:
        """The loss of every step, (K, B); leaves the prediction on the tape for the next two."""
        raise NotImplementedError

    def gradient(self, p: Arrays, hs: ByLayer, scored: Any, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        """After `losses`, whose prediction it uses up: writes the loss's adjoint of hs to dhs and adds to grad."""
        raise NotImplementedError

    def product(
        self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, scored: Any, tape: Tape,
        grad: Arrays, dhs: ByLayer,
    ) -> None:  # fmt: skip
        """After `losses`: as `gradient`, from the loss's Hessian times the tangent of the outputs along v."""
        raise NotImplementedError

    # ------------------------------------------------------------------ all outputs

    def outputs(self, p: Arrays, hs: ByLayer, tape: Tape) -> Array:
        """z (K, B, n_outputs), on the tape."""
        return self.map.forward(p, hs, tape, tape.new("z", *first_of(hs, self.widths), self.n_out))

    def routputs(self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, tape: Tape) -> Array:
        """Rz (K, B, n_outputs), the tangent of the outputs along v, in scratch."""
        return self.map.rforward(p, v, hs, Rhs, tape, tape.scratch("Rz", *first_of(hs, self.widths), self.n_out))

    def backward(self, p: Arrays, hs: ByLayer, dz: Array, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        """From the adjoint dz (K, B, n_outputs): write dhs[l] = dz @ W_y[l].T and add to grad."""
        self.map.backward(p, hs, dz, tape, grad, dhs)

    def logits(self, backend: Backend, z: Array) -> Array:
        """From the outputs z (K, B, n_outputs), what a network's `run` returns, (K, B, n_out)."""
        return z


@dataclass
class ScoredSteps:
    """What one segment is to predict.

    steps : the steps, of its K, between the first and the last whose loss is wanted: k of them
    targets : (k, B) symbols or (k, B, n_out) real values
    scale : (k, B, 1), the factor w / sum w of each step
    """

    steps: slice
    targets: Array
    scale: Array

    def of(self, hs: ByLayer, widths: Mapping[int, int]) -> dict[int, Array]:
        """Those steps of each layer that speaks to the output, views."""
        return {l: hs[l][self.steps] for l in widths}


class FullHead(Head):
    """A head whose loss looks at all outputs of a step; steps before or after all that are wanted are left out."""

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: Array, spans: Sequence[slice]
    ) -> Sequence[ScoredSteps]:
        asked, scored_parts = (backend.to_host(wanted) != 0).any(axis=1), []
        for span in spans:
            at = asked[span].nonzero()[0].tolist() or [0]  # one step of weight 0 where none is wanted
            steps = slice(at[0], at[-1] + 1)
            scored_parts.append(ScoredSteps(steps, targets[span][steps], scale[span][steps]))
        return scored_parts

    def losses(self, p: Arrays, hs: ByLayer, scored: ScoredSteps, tape: Tape) -> Array:
        found = self.predict(tape.xp, self.outputs(p, scored.of(hs, self.widths), tape), scored.targets)
        K, B = first_of(hs, self.widths)
        if found.shape[0] == K:
            return found
        losses = tape.backend.zeros((K, B), found.dtype)
        losses[scored.steps] = found
        return losses

    def gradient(self, p: Arrays, hs: ByLayer, scored: ScoredSteps, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        dz = tape["z"]
        self.residual(tape.xp, dz, scored.targets)
        self._backward(p, hs, dz, scored, tape, grad, dhs)

    def product(
        self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, scored: ScoredSteps, tape: Tape,
        grad: Arrays, dhs: ByLayer,
    ) -> None:  # fmt: skip
        Rz = self.routputs(p, v, scored.of(hs, self.widths), scored.of(Rhs, self.widths), tape)
        self.curvature(tape.xp, tape["z"], Rz, tape.scratch("head_work", *Rz.shape))
        self._backward(p, hs, Rz, scored, tape, grad, dhs)

    def _backward(
        self, p: Arrays, hs: ByLayer, dz: Array, scored: ScoredSteps, tape: Tape, grad: Arrays, dhs: ByLayer
    ) -> None:  # fmt: skip
        """From the adjoint of the outputs that were looked at, not yet scaled: write dhs and add to grad."""
        dz *= scored.scale
        self.backward(p, scored.of(hs, self.widths), dz, tape, grad, scored.of(dhs, self.widths))
        for l in self.widths:
            dhs[l][: scored.steps.start] = 0
            dhs[l][scored.steps.stop :] = 0

    def predict(self, xp: Any, z: Array, targets: Array) -> Array:
        """z <- prediction p in place; returns the loss of every step, (K, B)."""
        raise NotImplementedError

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        """p <- the loss's gradient in z, in place."""
        raise NotImplementedError

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array) -> None:
        """Rz <- the loss's Hessian in z times Rz, in place; work is an array like Rz."""
        raise NotImplementedError


def check_symbols(loss: str, n_out: int, targets: Array, T: int, B: int) -> None:
    """Raise InputError unless `targets` are symbols of n_out, (T, B)."""
    if targets.shape != (T, B) or targets.dtype.kind not in "iu":
        raise InputError(
            f"targets have shape {tuple(targets.shape)} and type {targets.dtype}: the {loss} loss needs integer "
            f"symbols of shape ({T}, {B})"
        )
    low, high = int(targets.min().item()), int(targets.max().item())
    if low < 0 or high >= n_out:
        raise InputError(f"target symbols go from {low} to {high}: with n_out = {n_out} they lie in 0 to {n_out - 1}")


def normalise_(xp: Any, z: Array, targets: Any) -> Array:
    """z (N, n) <- softmax(z) in place; returns -log p[targets], (N,). `targets` indexes one value of each row."""
    z -= z.real.max(axis=1, keepdims=True)
    chosen = z[targets]
    xp.exp(z, out=z)
    total = z.sum(axis=1, keepdims=True)
    z /= total
    return xp.log(total[:, 0]) - chosen


def curve_(xp: Any, p: Array, Rz: Array, work: Array) -> None:
    """Rz (..., n) <- p*Rz - p*(p.Rz) in place, the Hessian of -log p[target] times Rz; work is an array like Rz."""
    Rz *= p
    xp.multiply(p, Rz.sum(axis=-1, keepdims=True), out=work)
    Rz -= work
