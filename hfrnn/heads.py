"""Output map and loss together: value, gradient and Gauss-Newton curvature product over one stretch of time.

    z_t = sum_l h^l_t @ W_y^l + b_y                                         (SPEC 1)

    loss      value                     prediction p   gradient in z   Hessian times Rz
    softmax   logsumexp(z) - z[target]  softmax(z)     p - target      p*Rz - p*(p.Rz)
    logistic  sum log(1 + e^z) - y*z    sigma(z)       p - y           p*(1-p)*Rz
    squared   sum (z - y)^2 / 2         z              p - y           Rz

The derivatives carry the factor w / sum w of each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfrnn.backend import Array
from hfrnn.errors import InputError
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import add_weight_gradient, product, rows


class Head:
    """An affine output map of some layers' hidden states, with a loss on its outputs.

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

    def __init__(self, n_out: int, widths: Mapping[int, int], bias: bool) -> None:
        self.n_out = n_out
        self.widths = dict(widths)
        self.bias = bias

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {f"W_y{l}": (width, self.n_out) for l, width in self.widths.items()}
        return {**shapes, "b_y": (self.n_out,)} if self.bias else shapes

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        """Raise InputError unless `targets` fit this loss."""
        raise NotImplementedError

    def logits(self, p: Arrays, hs: Mapping[int, Array], tape: Tape, name: str = "z") -> Array:
        """z (K, B, n_out), in the buffer `name` of the tape."""
        first = next(iter(self.widths))
        K, B = hs[first].shape[:2]
        z = tape.new(name, K, B, self.n_out)
        self._add_map(p, hs, tape, z, start=True)
        if self.bias:
            z += p["b_y"]
        return z

    def rlogits(self, p: Arrays, v: Arrays, hs: Mapping[int, Array], Rhs: Mapping[int, Array], tape: Tape) -> Array:
        """Rz (K, B, n_out), the tangent of the logits, in scratch."""
        K, B = hs[next(iter(self.widths))].shape[:2]
        Rz = tape.scratch("Rz", K, B, self.n_out)
        self._add_map(p, Rhs, tape, Rz, start=True)
        self._add_map(v, hs, tape, Rz, start=False)
        if self.bias:
            Rz += v["b_y"]
        return Rz

    def _add_map(self, p: Arrays, hs: Mapping[int, Array], tape: Tape, z: Array, start: bool) -> None:
        """z <- (z unless start) + sum_l hs[l] @ W_y[l]."""
        for l in self.widths:
            if start:
                product(tape, hs[l], p[f"W_y{l}"], out=z)
                start = False
            else:
                z += product(tape, hs[l], p[f"W_y{l}"], out=tape.scratch("output", *z.shape))

    def backward(
        self, p: Arrays, hs: Mapping[int, Array], dz: Array, tape: Tape, grad: Arrays, dhs: Mapping[int, Array]
    ) -> None:
        """From the adjoint dz: write dhs[l] = dz @ W_y[l].T and add to grad."""
        for l in self.widths:
            product(tape, dz, p[f"W_y{l}"].T, out=dhs[l])
            add_weight_gradient(tape, hs[l], dz, grad[f"W_y{l}"])
        if self.bias:
            grad["b_y"] += rows(dz).sum(axis=0)

    def predict(self, xp: Any, z: Array, targets: Array) -> Array:
        """z <- prediction p in place; returns the loss of every step, (K, B)."""
        raise NotImplementedError

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        """p <- the loss's gradient in z, in place."""
        raise NotImplementedError

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array) -> None:
        """Rz <- the loss's Hessian in z times Rz, in place; work is an array like Rz."""
        raise NotImplementedError


class Softmax(Head):
    """Cross entropy of one symbol out of n_out."""

    integer_targets = True
    probabilistic = True

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        if targets.shape != (T, B) or targets.dtype.kind not in "iu":
            raise InputError(
                f"targets have shape {tuple(targets.shape)} and type {targets.dtype}: the softmax loss needs integer "
                f"symbols of shape ({T}, {B})"
            )
        low, high = int(targets.min().item()), int(targets.max().item())
        if low < 0 or high >= self.n_out:
            raise InputError(
                f"target symbols go from {low} to {high}: with n_out = {self.n_out} they lie in 0 to {self.n_out - 1}"
            )

    def predict(self, xp: Any, z: Array, targets: Array) -> Array:
        p = rows(z)
        p -= p.real.max(axis=1, keepdims=True)
        index = (xp.arange(p.shape[0]), targets.reshape(-1))
        chosen = p[index]
        xp.exp(p, out=p)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        return (xp.log(total[:, 0]) - chosen).reshape(targets.shape)

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        flat = rows(p)
        flat[xp.arange(flat.shape[0]), targets.reshape(-1)] -= 1

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array) -> None:
        Rz *= p
        xp.multiply(p, Rz.sum(axis=-1, keepdims=True), out=work)
        Rz -= work


class _RealTargets(Head):
    """Losses on n_out real targets a step."""

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        if targets.shape != (T, B, self.n_out):
            raise InputError(
                f"targets have shape {tuple(targets.shape)}: this loss needs real values ({T}, {B}, {self.n_out})"
            )

    def residual(self, xp: Any, p: Array, targets: Array) -> None:
        p -= targets


class Logistic(_RealTargets):
    """Binary cross entropy of n_out independent outputs, targets in [0, 1]."""

    probabilistic = True

    def check_targets(self, targets: Array, T: int, B: int) -> None:
        super().check_targets(targets, T, B)
        if not ((targets >= 0) & (targets <= 1)).all().item():
            raise InputError("targets of the logistic loss lie outside of 0 to 1: give probabilities or bits")

    def predict(self, xp: Any, z: Array, targets: Array) -> Array:
        # with s = |Re z| taken by sign: log(1 + e^z) = max(z, 0) + log(1 + e^-|z|), which never overflows
        sign = xp.where(z.real < 0, -1.0, 1.0)
        tail = xp.exp(-sign * z)
        losses = (xp.where(z.real < 0, 0.0, z) + xp.log1p(tail) - targets * z).sum(axis=-1)
        z[...] = xp.where(z.real < 0, tail, 1.0) / (1.0 + tail)
        return losses

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array) -> None:
        Rz *= p
        xp.subtract(1.0, p, out=work)
        Rz *= work


class Squared(_RealTargets):
    """Half the squared error, summed over the outputs."""

    def predict(self, xp: Any, z: Array, targets: Array) -> Array:
        difference = z - targets
        return 0.5 * (difference * difference).sum(axis=-1)

    def curvature(self, xp: Any, p: Array, Rz: Array, work: Array) -> None:
        """The Hessian is the identity."""


_heads: dict[str, type[Head]] = {"softmax": Softmax, "logistic": Logistic, "squared": Squared}


def losses() -> tuple[str, ...]:
    """The names of all losses."""
    return tuple(_heads)


def make_head(loss: str, n_out: int, widths: Mapping[int, int], bias: bool) -> Head:
    """The head of that loss.

    Raises
    ------
    InputError
        The name is not known.
    """
    if loss not in _heads:
        raise InputError(f"loss {loss!r} is not known: use one of {', '.join(_heads)}")
    return _heads[loss](n_out, widths, bias)
