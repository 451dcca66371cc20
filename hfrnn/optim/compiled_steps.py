"""SGD, Adam and the running average with compiled passes, which read and write every entry once.

The passes come from outside (`hfrnn.kernels.registry.vector_passes`), because this package knows no compiler. A step
and an average have the bits of their references. The norm for clipping is summed in another order, which does not
depend on the number of threads; so a clipped gradient may differ in its last bit.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from hfrnn.arrays.vectors import HOST_PIECE, Scalar, Vector, is_on_host
from hfrnn.checks import POSITIVE, number
from hfrnn.optim.average import Average
from hfrnn.optim.clipping import clipping_factor
from hfrnn.optim.first_order import SGD, Adam, AdamOptions, FirstOrder, SGDOptions, Vectors, Work


class Passes(Protocol):
    """Compiled passes over vectors; hfrnn/kernels/numba/passes.py describes their arguments."""

    def sgd(self, *arguments: Any) -> bool:
        """Write a step of SGD; return whether it is finite."""

    def adam(self, *arguments: Any) -> bool:
        """Write a step of Adam; return whether it is finite."""

    def average(self, value: Vector, theta: Vector, share: Any) -> None:
        """Move an average."""

    def sums_of_squares(self, x: Vector, length: int, sums: Vector, first: int, step: int) -> None:
        """Write the sums of the squares of pieces."""


def is_served(*vectors: Vector) -> bool:
    """Return whether the passes serve these vectors: on the host, all in single or all in double precision."""
    dtype = vectors[0].dtype
    return dtype.char in "fd" and all(is_on_host(x) and x.dtype == dtype for x in vectors)


class _OnePass(FirstOrder):
    """What both optimizers share: the choice of the compiled pass, and clipping, whose factor waits for the step."""

    _passes: Passes
    _factor = 1.0
    """Factor of the gradient in the step that is being made."""
    _clipped: tuple[Vector, float] | None = None
    """A gradient that waits for its step, and its factor."""

    def lazy_clip(self, gradient: Vector, bound: float | None) -> Scalar:
        self._clipped = None
        if not is_served(gradient):
            return super().lazy_clip(gradient, bound)
        length = self._norm(gradient)
        if bound:
            self._clipped = gradient, clipping_factor(length, number("bound", bound, POSITIVE))
        return length

    def lazy_step(self, theta: Vector, gradient: Vector, lr: float, out: Vector | None = None) -> Vector:
        clipped, self._clipped = self._clipped, None
        self._factor = clipped[1] if clipped is not None and clipped[0] is gradient else 1.0
        if self._factor != 1.0 and not is_served(theta, gradient, *self._kept.values()):
            gradient, self._factor = gradient * self._factor, 1.0
        return super().lazy_step(theta, gradient, lr, out)

    def _move(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors, after: Vectors, work: Work
    ) -> Scalar:
        if not is_served(theta, gradient, *kept.values()):
            return super()._move(new, theta, gradient, lr, kept, after, work)
        return self._pass([new, theta, gradient, *kept.values(), *after.values()], lr)

    def _pass(self, vectors: list[Vector], lr: float) -> bool:
        """Do `_move` in one compiled pass; `vectors` are those of `_move` in their order."""
        raise NotImplementedError

    def _norm(self, x: Vector) -> float:
        """Return the Euclidean norm; its sums are those of pieces, whatever the number of threads."""
        sums, passes = np.empty(-(-x.shape[0] // HOST_PIECE)), self._passes
        workers = max(1, min(self._threads.threads, sums.size))
        list(self._threads.ordered(lambda k: passes.sums_of_squares(x, HOST_PIECE, sums, k, workers), workers))
        return math.sqrt(sum(sums.tolist(), 0.0))


class OnePassSGD(_OnePass, SGD):
    """`SGD` whose step is one compiled pass."""

    def __init__(self, passes: Passes, options: SGDOptions | None = None, threads: int = 1) -> None:
        super().__init__(options, threads)
        self._passes = passes

    def _pass(self, vectors: list[Vector], lr: float) -> bool:
        options, of = self.options, vectors[0].dtype.type
        numbers = (self._factor, lr, options.momentum, 1.0 - lr * options.decay)
        return self._passes.sgd(*vectors, *map(of, numbers), options.nesterov)


class OnePassAdam(_OnePass, Adam):
    """`Adam` whose step is one compiled pass."""

    def __init__(self, passes: Passes, options: AdamOptions | None = None, threads: int = 1) -> None:
        super().__init__(options, threads)
        self._passes = passes

    def _pass(self, vectors: list[Vector], lr: float) -> bool:
        options, of, t = self.options, vectors[0].dtype.type, self.steps + 1
        beta1, beta2, kept_share = options.beta1, options.beta2, 1.0 - lr * options.decay
        scales = lr / (1.0 - beta1**t), 1.0 / (1.0 - beta2**t)
        numbers = (self._factor, beta1, 1.0 - beta1, beta2, 1.0 - beta2, *scales, options.epsilon, kept_share)
        return self._passes.adam(*vectors, *map(of, numbers))


class OnePassAverage(Average):
    """`Average` that moves in one compiled pass."""

    def __init__(self, passes: Passes, decay: float) -> None:
        super().__init__(decay)
        self._passes = passes

    def _move(self, value: Vector, theta: Vector, share: float) -> None:
        if is_served(value, theta):
            self._passes.average(value, theta, value.dtype.type(share))
        else:
            super()._move(value, theta, share)
