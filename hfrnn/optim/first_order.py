"""First-order steps from a gradient g: gradient descent with momentum, and Adam.

    SGD   M  = momentum*M - lr*g                                           # S1
          w += M - lr*decay*w                                              # S2
          w += momentum*M - lr*g - lr*decay*w        (Nesterov)            # S3

    Adam  m  = beta1*m + (1 - beta1)*g,  v = beta2*v + (1 - beta2)*g*g     # A1
          w += -lr * (m/(1 - beta1^t)) / (sqrt(v/(1 - beta2^t)) + epsilon) - lr*decay*w      # A2

In S3, w is the point at which Nesterov's method takes its gradients: with x the other point of that method,
w = x + momentum*M, and S1 then S3 are x += M written in w. In A2 the decay is decoupled: m and v never see it.

Vectors keep the type of theta and stay where it is (NumPy or CuPy). All work happens in vectors that are allocated by
the first step and used again. A step that would leave a number that is not finite, in the parameters or in what the
optimizer carries, is not made at all.

Sources: SPEC 7; [S thesis] 6.1; Kingma & Ba 2015 (Adam), Loshchilov & Hutter 2019 (decoupled decay).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hfrnn.arrays.threads import Threads
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.cg import Array

Vectors = dict[str, Array]

PIECE = 2**18
"""Entries of a host's vectors that a step works on at a time."""


def require(name: str, value: float, fits: bool, expected: str) -> None:
    """Raise InputError unless `value`, called `name`, is a finite number that `fits` what is `expected`."""
    if not (fits and math.isfinite(value)):
        raise InputError(f"{name} is {value}, expected a number {expected}.")


def is_finite(x: Array) -> bool:
    """Whether every entry of an array is finite: fast passes, no memory."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(x, np.ndarray) and x.ndim == 1 and math.isfinite(np.dot(x, x)):
            return True  # one pass; the squares of large finite numbers may overflow
    return 0 in x.shape or (math.isfinite(x.max().item()) and math.isfinite(x.min().item()))  # NaN goes through both


def scaled(x: Array, factor: float, out: Array) -> None:
    """out <- factor * x."""
    on_host = isinstance(x, np.ndarray)
    if on_host:
        np.multiply(x, factor, out=out)
    else:
        out[:] = x
        out *= factor


class FirstOrder:
    """What all first-order optimizers share: when a step counts, and how it is resumed. `SGD` and `Adam` are made.

    `threads` share the work of a step on a host; no bit depends on their number.
    """

    kind: ClassVar[str]
    """What its state is marked with."""
    vectors: ClassVar[tuple[str, ...]]
    """The names of the vectors that a step leaves for the next."""

    def __init__(self, threads: int = 1) -> None:
        self.steps = 0
        self._threads = Threads(threads)
        self._kept: Vectors = {}
        self._next: Vectors = {}  # takes turns with _kept, so that a step can be given up
        self._theta: Array | None = None
        self._work: list[tuple[Array, Array]] = []  # of each thread

    def step(self, theta: Array, gradient: Array, lr: float, out: Array | None = None) -> Array:
        """Make one step.

        Arguments
        ---------
        theta : parameters, (n,), float32 or float64; not written unless it is also `out`
        gradient : (n,); not written
        lr : learning rate, > 0
        out : where the new parameters go, (n,), a fresh vector if None; one that shares no memory with theta saves
            copying them

        Returns
        -------
        The new parameters.

        Raises
        ------
        InputError if shapes differ or lr is out of range; NonFiniteError if gradient or step are not finite. In each
        case theta and the optimizer are as before, but another `out` may hold anything.
        """
        require("lr", lr, lr > 0.0, "above 0")
        if len(theta.shape) != 1 or theta.dtype.kind != "f":
            raise InputError(f"theta has shape {theta.shape} and type {theta.dtype}, expected a vector of floats (n,).")
        for name, vector in (("gradient", gradient), ("out", out), *self._kept.items(), *self._next.items()):
            if vector is not None and vector.shape != theta.shape:
                raise InputError(
                    f"{name} has shape {vector.shape}, expected that of theta, {theta.shape}: "
                    "use one optimizer for one model."
                )
        kept = self._kept or _zeros_like(theta, self.vectors)
        self._next = self._next or _zeros_like(theta, self.vectors)
        n, on_host = theta.shape[0], isinstance(theta, np.ndarray)
        size = min(PIECE, n) if on_host else n  # pieces stay in the cache from the first pass to the last
        if not self._work:
            pieces = min(self._threads.threads, -(-n // size)) if on_host and n else 1
            self._work = [(theta[:size].copy(), theta[:size].copy()) for _ in range(pieces)]
        if out is None:
            new = theta.copy()
        elif out is theta or (on_host and np.may_share_memory(out, theta)):
            # theta stays as it is until all is known to be finite
            new = self._theta = theta.copy() if self._theta is None else self._theta
        else:
            new = out
        lanes = len(self._work)

        def advance(lane: int) -> bool:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                for start in range(lane * size, n, lanes * size):
                    part = slice(start, start + size)
                    piece, after = new[part], {name: vector[part] for name, vector in self._next.items()}
                    before = {name: vector[part] for name, vector in kept.items()}
                    first, second = self._work[lane]
                    work = first[: piece.shape[0]], second[: piece.shape[0]]
                    self._advance(piece, theta[part], gradient[part], float(lr), before, after, work)
                    if not all(is_finite(x) for x in (piece, *after.values())):
                        return False
            return True

        if not all(list(self._threads.ordered(advance, lanes))):
            culprit = "step" if is_finite(gradient) else "gradient"
            raise NonFiniteError(
                f"The {culprit} is not finite, expected finite numbers; nothing was changed: "
                "take a smaller learning rate or a smaller clipping bound."
            )
        self._kept, self._next = self._next, kept
        self.steps += 1
        if out is None or out is new:
            return new
        out[:] = new
        return out

    def _advance(
        self, new: Array, theta: Array, gradient: Array, lr: float, kept: Vectors, after: Vectors,
        work: tuple[Array, Array],
    ) -> None:  # fmt: skip
        """Write the parameters after `theta` to `new`, and to `after` what comes after `kept`."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """All that a step leaves for the next: kind, number of steps, and copies of vectors (None before the first).

        Going on after `load_state_dict` gives the same bits as going on without it.
        """
        return {
            "kind": self.kind,
            "steps": self.steps,
            **{name: self._kept[name].copy() if self._kept else None for name in self.vectors},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a `state_dict` of an optimizer of the same kind; its vectors have to be where theta is.

        Raises InputError if something is missing or of another kind; nothing is changed then.
        """
        missing = [name for name in ("kind", "steps", *self.vectors) if name not in state]
        if missing:
            raise InputError(
                f"The optimizer state lacks {', '.join(missing)}: give the state_dict of a {self.kind} optimizer."
            )
        if state["kind"] != self.kind:
            raise InputError(
                f"The optimizer state is of kind {state['kind']!r}, expected {self.kind!r}: "
                "use the optimizer that was saved."
            )
        found = {name: state[name] for name in self.vectors if state[name] is not None}
        if len(found) not in (0, len(self.vectors)):
            raise InputError(f"The optimizer state has {', '.join(found)} only, expected {', '.join(self.vectors)}.")
        self.steps = int(state["steps"])
        self._kept = {name: vector.copy() for name, vector in found.items()}
        self._next, self._work, self._theta = {}, [], None


def _zeros_like(theta: Array, names: tuple[str, ...]) -> Vectors:
    vectors = {name: theta.copy() for name in names}
    for vector in vectors.values():
        vector.fill(0)
    return vectors


@dataclass(frozen=True)
class SGDOptions:
    """The numbers of gradient descent.

    Arguments
    ---------
    momentum : share of the last step that is made again, from 0 up to but not 1; 0.9 in [S thesis]
    nesterov : Nesterov's variant, for a momentum above 0
    decay : weight decay, >= 0, multiplied by the learning rate

    Raises
    ------
    InputError for a number out of range.
    """

    momentum: float = 0.9
    nesterov: bool = False
    decay: float = 0.0

    def __post_init__(self) -> None:
        require("momentum", self.momentum, 0.0 <= self.momentum < 1.0, "from 0 up to but not 1")
        require("decay", self.decay, self.decay >= 0.0, "of at least 0")
        if self.nesterov and self.momentum == 0.0:
            raise InputError("nesterov was asked for and momentum is 0: give a momentum above 0, or leave it out.")


class SGD(FirstOrder):
    """Gradient descent with momentum and weight decay. Source: SPEC 7, [S thesis] 6.1."""

    kind = "sgd"
    vectors = ("momentum",)

    def __init__(self, options: SGDOptions | None = None, threads: int = 1) -> None:
        super().__init__(threads)
        self.options = options if options is not None else SGDOptions()

    def _advance(
        self, new: Array, theta: Array, gradient: Array, lr: float, kept: Vectors, after: Vectors,
        work: tuple[Array, Array],
    ) -> None:  # fmt: skip
        options, M, (change, _) = self.options, after["momentum"], work
        scaled(gradient, lr, change)
        scaled(kept["momentum"], options.momentum, M)
        M -= change  # S1
        scaled(theta, 1.0 - lr * options.decay, new)
        if not options.nesterov:
            new += M  # S2
            return
        new -= change
        scaled(M, options.momentum, change)
        new += change  # S3


@dataclass(frozen=True)
class AdamOptions:
    """The numbers of Adam; the defaults are those of its authors.

    Arguments
    ---------
    beta1, beta2 : how much of the running means of g and g*g stays in a step, from 0 up to but not 1
    epsilon : what keeps the division from zero, > 0
    decay : decoupled weight decay, >= 0, multiplied by the learning rate

    Raises
    ------
    InputError for a number out of range.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0

    def __post_init__(self) -> None:
        require("beta1", self.beta1, 0.0 <= self.beta1 < 1.0, "from 0 up to but not 1")
        require("beta2", self.beta2, 0.0 <= self.beta2 < 1.0, "from 0 up to but not 1")
        require("epsilon", self.epsilon, self.epsilon > 0.0, "above 0")
        require("decay", self.decay, self.decay >= 0.0, "of at least 0")


class Adam(FirstOrder):
    """Steps in units of each gradient entry's own running size, with bias correction. Source: Kingma & Ba 2015."""

    kind = "adam"
    vectors = ("mean", "square")

    def __init__(self, options: AdamOptions | None = None, threads: int = 1) -> None:
        super().__init__(threads)
        self.options = options if options is not None else AdamOptions()

    def _advance(
        self, new: Array, theta: Array, gradient: Array, lr: float, kept: Vectors, after: Vectors,
        work: tuple[Array, Array],
    ) -> None:  # fmt: skip
        options, t = self.options, self.steps + 1
        m, v, (size, change) = after["mean"], after["square"], work
        scaled(gradient, 1.0 - options.beta1, change)
        scaled(kept["mean"], options.beta1, m)
        m += change  # A1
        change[:] = gradient
        change *= gradient
        change *= 1.0 - options.beta2
        scaled(kept["square"], options.beta2, v)
        v += change  # A1
        scaled(v, 1.0 / (1.0 - options.beta2**t), size)
        size **= 0.5
        size += options.epsilon
        scaled(m, lr / (1.0 - options.beta1**t), change)
        change /= size
        scaled(theta, 1.0 - lr * options.decay, new)
        new -= change  # A2
