"""The affine map from hidden states to outputs, and the base classes of heads. A head is an output map with a loss.

F1  z_t = sum_l h^l_t @ W_y^l + x_t @ W_y_u + b_y       [K] 2.2, 4.6; the bias: SPEC 1; x_t: with `feedthrough`

R1  Rz_t = sum_l (Rh^l_t @ W_y^l + h^l_t @ R(W_y^l))    [K] 7.8, 3.20
           + R(b_y)                                     F1 by the rules of [P]

B1  dh^l_t = dz_t @ W_y^l.T                             [K] 2.6; for products [K] 3.27
B2  dW_y^l = sum_t h^l_t.T @ dz_t                       [K] 2.5, 7.9; for products [K] 3.26
    db_y = sum_t dz_t                                   adjoint of F1

The input x_t is one more array among the hidden states, the last one, so that R1, B1 and B2 hold for it too.

A sweep calls its head in this order. `arrange` prepares the targets of every segment once. `losses` returns the losses
of a segment; `gradient` or `product` then computes the adjoints. Jacobian products use `outputs`, `routputs` and
`backward`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hfrnn.arrays.backend import Array, Backend, HostArray
from hfrnn.errors import InputError
from hfrnn.kernels.base import Arrays, Factors, Tape
from hfrnn.kernels.narrow import narrow_products
from hfrnn.kernels.pointwise import add_bias_gradient, add_weight_gradient, product
from hfrnn.losses import LossDeclaration

ByLayer = Sequence[Array] | Mapping[int, Array]
"""One array per layer, or one for each layer that feeds the output."""


INPUT = -1
"""The place of the input among the arrays that feed the output, if it does: it is the last one."""


def first_of(hs: ByLayer, widths: Mapping[int, int]) -> tuple[int, int]:
    """Return K and B, the steps and sequences of the hidden states."""
    K, B = hs[next(iter(widths))].shape[:2]
    return K, B


class OutputMap:
    """The affine map from the hidden states of some layers, given as {layer: width}, to n_out outputs per step.

    The parameters are named `W_{name}{l}`, one matrix per layer l, `W_{name}_u` for the `INPUT`, and `b_{name}`.
    """

    def __init__(self, name: str, n_out: int, widths: Mapping[int, int], bias: bool) -> None:
        self.n_out = n_out
        self.widths = dict(widths)
        self.matrices = {l: f"W_{name}_u" if l == INPUT else f"W_{name}{l}" for l in self.widths}
        self.bias = f"b_{name}" if bias else None

    def matrix_shapes(self) -> dict[str, tuple[int, ...]]:
        return {self.matrices[l]: (width, self.n_out) for l, width in self.widths.items()}

    def bias_shapes(self) -> dict[str, tuple[int, ...]]:
        return {} if self.bias is None else {self.bias: (self.n_out,)}

    def columns(self, p: Arrays, which: slice) -> Arrays:
        """Return the parameters of some of the outputs, as views."""
        part = {name: p[name][:, which] for name in self.matrices.values()}
        return part if self.bias is None else {**part, self.bias: p[self.bias][which]}

    def forward(self, p: Arrays, hs: ByLayer, tape: Tape, z: Array) -> Array:
        """Write the outputs to z (K, B, n_out), and return it."""
        narrow = self.narrow(tape)
        if narrow is not None:
            ((l, name),) = self.matrices.items()
            narrow.multiply(hs[l], p[name], self._bias(p), z, tape.shared)  # F1
            return z
        self._add(p, hs, tape, z, start=True)  # F1
        if self.bias is not None:
            z += p[self.bias]
        return z

    def rforward(self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, tape: Tape, Rz: Array) -> Array:
        """Write the tangent of the outputs along v to Rz (K, B, n_out), and return it."""
        narrow = self.narrow(tape)
        if narrow is not None:
            ((l, name),) = self.matrices.items()
            narrow.multiply(Rhs[l], p[name], self._bias(v), Rz, tape.shared, hs[l], v[name])  # R1
            return Rz
        self._add(p, Rhs, tape, Rz, start=True)
        self._add(v, hs, tape, Rz, start=False)  # R1
        if self.bias is not None:
            Rz += v[self.bias]
        return Rz

    def narrow(self, tape: Tape) -> Any:
        """Return the compiled products with a few outputs, if they serve this map; else None."""
        found = narrow_products(tape.backend.variants)
        if found is None or len(self.widths) != 1:
            return None
        (width,) = self.widths.values()
        return found if found.serves(tape.shared, self.n_out, width) else None

    def _bias(self, p: Arrays) -> Array | None:
        return None if self.bias is None else p[self.bias]

    def _add(self, p: Arrays, hs: ByLayer, tape: Tape, z: Array, start: bool) -> None:
        """Add sum_l hs[l] @ W[l] to z, or overwrite z with it if `start`."""
        for l, name in self.matrices.items():
            if start:
                product(tape, hs[l], p[name], out=z)
                start = False
            else:
                z += product(tape, hs[l], p[name], out=tape.scratch("output", *z.shape))

    def backward(self, p: Arrays, hs: ByLayer, dz: Array, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        """Write the adjoints dhs[l] that follow from dz (K, B, n_out), and add the weight gradients to grad.

        Where dhs[l] is `Factors`, dz becomes one of them, and the loops that take them add the weight gradient.
        """
        narrow = self.narrow(tape)
        for l, name in self.matrices.items():
            if isinstance(dhs[l], Factors):
                dhs[l].x, dhs[l].W = dz, p[name].T  # B1
            else:
                product(tape, dz, p[name].T, out=dhs[l])  # B1
            if isinstance(dhs[l], Factors) and grad[name].ndim == 2:
                dhs[l].gradients = grad[name].T  # B2
            elif narrow is not None and grad[name].ndim == 2:
                narrow.add_gradient(dz, hs[l], grad[name].T)  # B2
            else:
                add_weight_gradient(tape, hs[l], dz, grad[name])  # B2
        if self.bias is not None:
            add_bias_gradient(dz, grad[self.bias])  # B2


class Head(LossDeclaration):
    """An output map with a loss on its n_out outputs per step: the base class of all heads.

    `widths` has the layers, and perhaps the `INPUT`, that feed the output, {layer: width}; `bias` says whether the
    outputs have a bias, `b_y`.
    """

    probabilistic = False
    """Whether `-loss` is a log-probability of the target."""
    weighs_outputs = False
    """Whether each output of a step may have its own weight."""
    separates_sequences = True
    """Whether `gradient` and `backward` can add the gradient of each part of the sequences to a row of its own."""
    classes: tuple[int, ...] | None = None
    """The class of each symbol; None except for the class softmax."""
    reads_targets = False
    """Whether `arrange` reads the targets on the host, so that it takes them from there if they are there."""
    transposed: tuple[str, ...] = ()
    """Names of the matrices that the flat vector stores column by column."""
    scored_bytes = 0
    """Upper bound of the bytes that `arrange` keeps per step and sequence."""
    temporary_arrays = 0
    """Number of temporary arrays (K, B, n_out), in double precision, while the loss of a segment is computed."""
    costly_target = 0
    """A target symbol whose loss needs the most memory."""

    exact_curvature = True
    """Whether `product` starts from the loss's Hessian; if not, from a positive semi-definite matrix in its place."""

    least_rows = 80
    """Smallest efficient size of a segment, in steps times sequences. Reading the weights dominates smaller ones."""

    def __init__(self, n_out: int, widths: Mapping[int, int], bias: bool) -> None:
        self.n_out = n_out
        self.widths = dict(widths)
        self.map = OutputMap("y", n_out, widths, bias)

    @property
    def n_outputs(self) -> int:
        """Number of rows of the Jacobian per step and sequence."""
        return self.n_out

    @property
    def n_logits(self) -> int:
        """Number of values that `logits` returns per step and sequence."""
        return self.n_out

    @property
    def outputs_a_target(self) -> int:
        """Approximate number of outputs that are computed for the loss of one step."""
        return self.n_out

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter block by name."""
        return {**self.map.matrix_shapes(), **self.map.bias_shapes()}

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        """Raise InputError if `targets` do not suit this loss, or T steps of B sequences."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the loss of a segment and what follows

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: HostArray, spans: Sequence[slice],
        shares: Array | None = None,
    ) -> Sequence[Any]:  # fmt: skip
        """Return the targets of each segment, in the form that `losses`, `gradient` and `product` take.

        Parameters
        ----------
        backend : Backend
        targets : (T, B) or (T, B, n_out) array
        scale : (T, B, 1) or (T, B, n_out) array
            The factor w / sum w of each step, or of each output.
        wanted : (T, B) array on the host
            0 at steps whose loss is not needed. The head may skip these steps; their loss is then 0.
        spans : sequence of slice
            The steps of each segment.
        shares : (T, B, n_out) array, optional
            The factor of each output's loss in the loss of its step. Default 1. Only for heads that weigh outputs.
        """
        raise NotImplementedError

    def losses(self, p: Arrays, hs: ByLayer, scored: Any, tape: Tape) -> Array:
        """Return the loss of every step, (K, B). The tape then holds the prediction, for `gradient` and `product`."""
        raise NotImplementedError

    def gradient(self, p: Arrays, hs: ByLayer, scored: Any, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        """Write the adjoint of the hidden states to dhs, and add the weight gradients to grad.

        Call `losses` first. Its prediction on the tape is overwritten.
        """
        raise NotImplementedError

    def product(
        self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, scored: Any, tape: Tape,
        grad: Arrays, dhs: ByLayer,
    ) -> None:  # fmt: skip
        """Do the same for a Gauss-Newton product: start from the loss's Hessian times the outputs' tangent along v.

        Call `losses` first. Its prediction on the tape stays valid.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ all outputs

    def leaves_factors(self, scored: Any, K: int, tape: Tape) -> bool:
        """Return whether the adjoint of the only layer that feeds the output may be `Factors`, in a segment of K steps.

        They stand for all steps, and their sum is over the outputs.
        """
        return False

    def outputs(self, p: Arrays, hs: ByLayer, tape: Tape) -> Array:
        """Return the outputs z (K, B, n_outputs), an array of the tape."""
        return self.map.forward(p, hs, tape, tape.new("z", *first_of(hs, self.widths), self.map.n_out))

    def routputs(self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, tape: Tape) -> Array:
        """Return the tangent Rz (K, B, n_outputs) of the outputs along v, in a scratch array."""
        return self.map.rforward(p, v, hs, Rhs, tape, tape.scratch("Rz", *first_of(hs, self.widths), self.map.n_out))

    def backward(self, p: Arrays, hs: ByLayer, dz: Array, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        """Write the adjoints dhs[l] that follow from dz (K, B, n_outputs), and add the weight gradients to grad."""
        self.map.backward(p, hs, dz, tape, grad, dhs)

    def logits(self, backend: Backend, z: Array) -> Array:
        """Return the logits (K, B, n_out) of a network's `run` from the outputs z (K, B, n_outputs)."""
        return z


@dataclass
class ScoredSteps:
    """The scored steps of one segment: the k steps from the first to the last whose loss is needed, or none."""

    steps: slice  # within the K steps of the segment
    targets: Array  # (k, B) symbols, or (k, B, n_out) real values
    scale: Array  # (k, B, 1) or (k, B, n_out), the factor w / sum w of each step, or of each output
    shares: Array | None = None  # (k, B, n_out), the factor of each output's loss in the loss of its step; None: 1

    def __bool__(self) -> bool:
        return bool(self.steps.stop > self.steps.start)

    def of(self, hs: ByLayer, widths: Mapping[int, int]) -> dict[int, Array]:
        """Return the scored steps of each layer that feeds the output, as views."""
        return {l: hs[l] if isinstance(hs[l], Factors) else hs[l][self.steps] for l in widths}


class FullHead(Head):
    """A head whose loss uses all outputs of a step.

    It computes no outputs for steps before the first or after the last step whose loss is needed.
    """

    def arrange(
        self, backend: Backend, targets: Array, scale: Array, wanted: HostArray, spans: Sequence[slice],
        shares: Array | None = None,
    ) -> Sequence[ScoredSteps]:  # fmt: skip
        asked, scored_parts = (wanted != 0).any(axis=1), []
        for span in spans:
            at = asked[span].nonzero()[0].tolist()
            steps = slice(at[0], at[-1] + 1) if at else slice(0, 0)
            factors = None if shares is None else shares[span][steps].astype(scale.dtype)
            scored_parts.append(ScoredSteps(steps, targets[span][steps], scale[span][steps], factors))
        return scored_parts

    def losses(self, p: Arrays, hs: ByLayer, scored: ScoredSteps, tape: Tape) -> Array:
        K, B = first_of(hs, self.widths)
        if not scored:
            return tape.backend.zeros((K, B), scored.scale.dtype)
        z = self.outputs(p, scored.of(hs, self.widths), tape)
        found = self.predict(tape.xp, z, scored.targets, scored.shares)
        if found.shape[0] == K:
            return found
        losses = tape.backend.zeros((K, B), found.dtype)
        losses[scored.steps] = found
        return losses

    def leaves_factors(self, scored: ScoredSteps | None, K: int, tape: Tape) -> bool:
        return (scored is None or scored.steps == slice(0, K)) and self.map.narrow(tape) is not None

    def gradient(self, p: Arrays, hs: ByLayer, scored: ScoredSteps, tape: Tape, grad: Arrays, dhs: ByLayer) -> None:
        if scored:
            dz = tape["z"]
            self.residual(tape.xp, dz, scored.targets)
            self._backward(p, hs, dz, scored, tape, grad, dhs)
        self._clear_unscored(scored, dhs)

    def product(
        self, p: Arrays, v: Arrays, hs: ByLayer, Rhs: ByLayer, scored: ScoredSteps, tape: Tape,
        grad: Arrays, dhs: ByLayer,
    ) -> None:  # fmt: skip
        if scored:
            Rz = self.routputs(p, v, scored.of(hs, self.widths), scored.of(Rhs, self.widths), tape)
            self.curvature(tape.xp, tape["z"], Rz, tape.scratch("head_work", *Rz.shape), scored.targets)
            self._backward(p, hs, Rz, scored, tape, grad, dhs)
        self._clear_unscored(scored, dhs)

    def outputs_in_loops(self, p: Arrays, v: Arrays, Rz: Array) -> tuple[Array, Array, Array]:
        """Return W, R(W) of each of k tangents and Rz (k, K, B, n_out), for a layer that `leaves_factors`.

        Its loops write R1 without the bias to Rz. The blocks of v have k first.
        """
        ((_, name),) = self.map.matrices.items()
        return p[name], v[name], Rz

    def routputs_of_several(self, v: Arrays, Rz: Array) -> Array:
        """Add the bias of R1 to what the loops have left in Rz (k, K, B, n_out), and return it."""
        if self.map.bias is not None:
            Rz += v[self.map.bias][:, None, None]  # R1
        return Rz

    def product_of_several(self, p: Arrays, Rz: Array, scored: ScoredSteps, tape: Tape, grad: Arrays) -> Factors:
        """Do what `product` does for a layer that `leaves_factors`, given its k tangents of the outputs.

        Return the adjoint of the layer. The blocks of `grad` have k first.
        """
        work = tape.scratch("head_work", *Rz.shape[1:])
        for each in Rz:
            self.curvature(tape.xp, tape["z"], each, work, scored.targets)
        Rz *= scored.scale
        return self.backward_of_several(p, Rz, grad)

    def backward_of_several(self, p: Arrays, dz: Array, grad: Arrays) -> Factors:
        """Return the adjoint of a layer that `leaves_factors`, for k adjoints dz (k, K, B, n_out) of the outputs."""
        ((_, name),) = self.map.matrices.items()
        if self.map.bias is not None:
            for each, own in zip(dz, grad[self.map.bias], strict=True):
                add_bias_gradient(each, own)  # B2
        return Factors(dz, p[name].T, gradients=grad[name].swapaxes(1, 2))  # B1, B2

    def _backward(
        self, p: Arrays, hs: ByLayer, dz: Array, scored: ScoredSteps, tape: Tape, grad: Arrays, dhs: ByLayer
    ) -> None:  # fmt: skip
        """Scale the adjoint dz of the scored steps' outputs, write their dhs and add the weight gradients to grad."""
        dz *= scored.scale
        self.backward(p, scored.of(hs, self.widths), dz, tape, grad, scored.of(dhs, self.widths))

    def _clear_unscored(self, scored: ScoredSteps, dhs: ByLayer) -> None:
        """Set the adjoints of all other steps to 0."""
        for l in self.widths:
            if not isinstance(dhs[l], Factors):
                dhs[l][: scored.steps.start] = 0
                dhs[l][scored.steps.stop :] = 0

    def predict(self, xp: Any, z: Array, targets: Array, shares: Array | None = None) -> Array:
        """Replace z by the prediction p in place; return every step's sum of its outputs' losses times `shares`."""
        raise NotImplementedError

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        """Replace the prediction p by the gradient of the loss in z, in place."""
        raise NotImplementedError

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array, targets: Array) -> None:
        """Multiply Rz by the Hessian of the loss in z, or by what stands in for it, in place.

        `work` has the shape of Rz.
        """
        raise NotImplementedError


def check_symbols(loss: str, n_out: int, targets: Array, T: int, B: int) -> None:
    """Raise InputError if `targets` are not an array (T, B) of symbols from 0 to n_out - 1."""
    if targets.shape != (T, B) or targets.dtype.kind not in "iu":
        raise InputError(
            f"targets have shape {tuple(targets.shape)} and type {targets.dtype}: the {loss} loss needs integer "
            f"symbols of shape ({T}, {B})"
        )
    low, high = int(targets.min().item()), int(targets.max().item())
    if low < 0 or high >= n_out:
        raise InputError(
            f"target symbols go from {low} to {high}: with n_out = {n_out} they lie in 0 to {n_out - 1}; give a step "
            "that is not predicted the weight 0"
        )


def normalise_(xp: Any, z: Array, targets: Any) -> Array:
    """Replace z (N, n) by softmax(z) in place, and return -log p[targets], (N,); `targets` indexes one per row."""
    z -= z.real.max(axis=1, keepdims=True)
    chosen = z[targets]
    xp.exp(z, out=z)
    total = z.sum(axis=1, keepdims=True)
    z /= total
    return xp.log(total[:, 0]) - chosen


def curve_(xp: Any, p: Array, Rz: Array, work: Array) -> None:
    """Replace Rz (..., n) by p*Rz - p*(p.Rz) in place: the Hessian of -log p[target] times Rz ([K] 3.23)."""
    Rz *= p
    xp.multiply(p, Rz.sum(axis=-1, keepdims=True), out=work)
    Rz -= work
