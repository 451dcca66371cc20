"""First-order steps from a gradient g: gradient descent with momentum, and Adam.

    SGD   M  = momentum*M - lr*g                                           # S1
          w += M - lr*decay*w                                              # S2
          w += momentum*M - lr*g - lr*decay*w        (Nesterov)            # S3

    Adam  m  = beta1*m + (1 - beta1)*g,  v = beta2*v + (1 - beta2)*g*g     # A1
          w += -lr * (m/(1 - beta1^t)) / (sqrt(v/(1 - beta2^t)) + epsilon) - lr*decay*w      # A2

In S3, w is the point where Nesterov's method computes its gradients. The other point of that method is x, with
w = x + momentum*M; S1 and S3 are x += M, written for w. In A2 the decay is decoupled: m and v do not include it.

Vectors keep the type and the device of theta (NumPy or CuPy). The first step allocates all scratch memory. A step that
would make a number not finite, in the parameters or in the vectors of the optimizer, changes nothing.

References: SPEC 7; [S thesis] 6.1; Kingma & Ba 2015 (Adam), Loshchilov & Hutter 2019 (decoupled decay).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.threads import Threads
from hfrnn.arrays.vectors import Scalar, Vector, fetch, is_finite, lazy_all, lazy_finite, lazy_norm, library, scaled
from hfrnn.checks import BELOW_ONE, NOT_NEGATIVE, POSITIVE, check_fields, checked, count, flag, instance, number, shown
from hfrnn.errors import InputError, Message, NonFiniteError
from hfrnn.optim.clipping import lazy_clip_norm

__all__ = ["SGD", "Adam", "AdamOptions", "FirstOrder", "SGDOptions", "Vectors", "Work"]

Vectors = dict[str, Vector]
"""Vectors of an optimizer by their names."""
Work = tuple[Vector, Vector]
"""Two scratch arrays."""
STEP_PIECE = 2**18
"""Entries of a vector that a step processes at a time on a CPU."""


class FirstOrder:
    """Base class of the first-order optimizers.

    Parameters
    ----------
    threads : int
        Threads that share the work of a step on a CPU; no bit depends on their number.

    Attributes
    ----------
    steps : int
        Number of steps made; on a device with those that changed nothing, until `check`.

    Examples
    --------
    >>> from hfrnn.optim.first_order import SGD, FirstOrder
    >>> issubclass(SGD, FirstOrder)
    True
    """

    kind: ClassVar[str]
    """Name of the method in a `state_dict`."""
    vectors: ClassVar[tuple[str, ...]]
    """Names of the vectors that a step leaves for the next one."""
    like_theta: ClassVar[bool] = True
    """Whether all arrays of a `state_dict` have the length of theta."""

    def __init__(self, threads: int = 1) -> None:
        self.steps = 0
        self._threads = Threads(threads)
        self._kept: Vectors = {}
        self._next: Vectors = {}  # takes turns with _kept, so that a failed step changes nothing
        self._theta: Vector | None = None
        self._work: list[Work] = []  # one for each worker
        self._finite: Scalar = True  # whether all steps on a device since the last check were
        self._made: Scalar = 0  # number of these steps before the first that was not
        self._unchecked = 0  # number of these steps

    def step(self, theta: Vector, gradient: Vector, lr: float, out: Vector | None = None) -> Vector:
        """Make one step.

        Parameters
        ----------
        theta : (n,) array
            Parameters, float32 or float64; not written unless it is also `out`.
        gradient : (n,) array
            Not written.
        lr : float
            Learning rate, above 0.
        out : (n,) array, optional
            Array for the new parameters, by default a fresh one. If it shares no memory with theta, the step needs
            no copy.

        Returns
        -------
        (n,) array
            New parameters.

        Raises
        ------
        InputError
            Shapes differ, or lr is out of range.
        NonFiniteError
            The gradient or the step is not finite. After either error, theta and the optimizer are as before, but an
            `out` other than theta may hold anything.
        """
        new = self.lazy_step(theta, gradient, lr, out)
        if self._unchecked and self._discarded():
            raise _not_finite(_culprit(gradient, theta))
        return new

    def lazy_step(self, theta: Vector, gradient: Vector, lr: float, out: Vector | None = None) -> Vector:
        """Do `step` without waiting for a device, where `check` raises the NonFiniteError.

        A step on a device that is not finite returns theta and changes nothing, and so do all later ones until `check`.
        """
        self._check(theta, gradient, lr, out)
        kept = self._kept or _zeros_like(theta, self.vectors)
        self._next = self._next or _zeros_like(theta, self.vectors)
        new = self._destination(theta, out)
        finite = self.advance_all(new, theta, gradient, float(lr), kept)
        if finite is False:
            raise _not_finite(_culprit(gradient, theta))
        if finite is not True:
            self._undo_unless(finite, self._changes(new, theta, kept))
        self._kept, self._next = self._next, kept
        self.steps += 1
        if out is None or out is new:
            return new
        out[:] = new
        return out

    def lazy_clip(self, gradient: Vector, bound: float | None) -> Scalar:
        """Scale the gradient (n,) of the next step down to the norm `bound`, as `lazy_clip_norm` does; return its norm.

        The norm is that before the scaling; a bound of None only computes it. An optimizer may leave the scaling to the
        step, which must then be given this same array.
        """
        threads = self._threads.threads
        return lazy_clip_norm(gradient, bound, threads) if bound else lazy_norm(gradient, threads)

    def check(self) -> None:
        """Wait for the steps on a device; raise NonFiniteError if a `lazy_step` since the last call was not finite.

        The next step will change something again.
        """
        if self._discarded():
            raise _not_finite("gradient or step")

    def _discarded(self) -> int:
        """Wait for the steps on a device, forget those that changed nothing, and return how many they are."""
        made, steps = int(fetch(self._made)[0]), self._unchecked
        self._finite, self._made, self._unchecked = True, 0, 0
        self.steps -= steps - made
        if self.steps == 0:
            self._kept = {}
        return steps - made

    def _changes(self, new: Vector, theta: Vector, kept: Vectors) -> list[tuple[Vector, Vector]]:
        """Return what a step has written, each vector with the one before it."""
        return [(new, theta), *((self._next[name], kept[name]) for name in self.vectors)]

    def _undo_unless(self, finite: Scalar, changes: list[tuple[Vector, Vector]]) -> None:
        """Undo a step on a device, unless it and all steps since the last check were finite."""
        self._finite = finite & self._finite
        self._made, self._unchecked = self._finite + self._made, self._unchecked + 1
        for after, before in changes:
            library(after).copyto(after, before, where=self._finite ^ True)

    def _check(self, theta: Vector, gradient: Vector, lr: float, out: Vector | None) -> None:
        number("lr", lr, POSITIVE)
        array("theta", theta, (None,), "f")
        array("gradient", gradient, theta.shape, "f", advice="as theta is")
        if out is not None:
            array("out", out, theta.shape, "f", advice="as theta is")
        for name, vector in (*self._kept.items(), *self._next.items()):
            if vector.shape != theta.shape:
                raise InputError(
                    f"theta has shape {theta.shape}, and {name} of the optimizer has {vector.shape}: "
                    "use one optimizer for one model."
                )

    def _destination(self, theta: Vector, out: Vector | None) -> Vector:
        """Return the vector that receives the new parameters; it shares no memory with theta."""
        if out is None:
            return theta.copy()
        if out is theta or (isinstance(theta, np.ndarray) and np.may_share_memory(out, theta)):
            self._theta = theta.copy() if self._theta is None else self._theta
            return self._theta
        return out

    def advance_all(self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors) -> Scalar:
        """Make the step piece by piece, on several threads; return whether all of it is finite."""
        n, on_host = theta.shape[0], isinstance(theta, np.ndarray)
        size = min(STEP_PIECE, n) if on_host else n  # pieces stay in the cache from the first pass to the last
        if not self._work:
            pieces = min(self._threads.threads, -(-n // size)) if on_host and n else 1
            self._work = [(theta[:size].copy(), theta[:size].copy()) for _ in range(pieces)]
        workers = len(self._work)

        def advance_pieces(worker: int) -> Scalar:
            finite: Scalar = True
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                for start in range(worker * size, n, workers * size):
                    part = slice(start, start + size)
                    piece, after = new[part], {name: vector[part] for name, vector in self._next.items()}
                    before = {name: vector[part] for name, vector in kept.items()}
                    first, second = self._work[worker]
                    work = first[: piece.shape[0]], second[: piece.shape[0]]
                    finite = self._move(piece, theta[part], gradient[part], lr, before, after, work)
                    if finite is False:
                        break
            return finite

        return lazy_all(list(self._threads.ordered(advance_pieces, workers)))

    def _move(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors, after: Vectors, work: Work
    ) -> Scalar:
        """Do `advance`, and return whether all that it has written is finite."""
        self.advance(new, theta, gradient, lr, kept, after, work)
        return lazy_finite(new, *after.values())

    def advance(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors, after: Vectors, work: Work
    ) -> None:
        """Write the new parameters into `new`, and the vectors for the next step into `after`.

        All arrays are parts of vectors, of the same length.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a step leaves for the next one.

        Returns
        -------
        dict
            Kind, number of steps, and copies of the vectors (None before the first step). After `load_state_dict`,
            steps give the same bits.

        Raises
        ------
        NonFiniteError
            As for `check`.
        """
        self.check()
        return {
            "kind": self.kind,
            "steps": self.steps,
            **{name: self._kept[name].copy() if self._kept else None for name in self.vectors},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a `state_dict` of an optimizer of the same kind.

        Parameters
        ----------
        state : dict
            Its vectors must be on the device of theta.

        Raises
        ------
        InputError
            An entry is missing, or the kind is another one. Nothing has changed then.
        """
        if not isinstance(state, Mapping):
            raise InputError(f"state is {shown(state)}: give the state_dict of a {self.kind} optimizer")
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
        vectors = {name: array(f"{name} of the state", vector, (None,), "f") for name, vector in found.items()}
        self.steps = count("steps of the state", state["steps"])
        self._kept = {name: vector.copy() for name, vector in vectors.items()}
        self._next, self._work, self._theta = {}, [], None
        self._finite, self._made, self._unchecked = True, 0, 0


def _zeros_like(theta: Vector, names: tuple[str, ...]) -> Vectors:
    vectors = {name: theta.copy() for name in names}
    for vector in vectors.values():
        vector.fill(0)
    return vectors


def _culprit(gradient: Vector, theta: Vector) -> str:
    """Return what is not finite in a step that is not."""
    return next((name for name, x in (("gradient", gradient), ("theta", theta)) if not is_finite(x)), "step")


def _not_finite(culprit: str) -> NonFiniteError:
    return NonFiniteError(
        f"The {culprit} is not finite, expected finite numbers; nothing was changed: "
        "take a smaller learning rate or a smaller clipping bound."
    )


# ------------------------------------------------------------------ SGD and Adam


@dataclass(frozen=True)
class SGDOptions:
    """Options of gradient descent.

    Parameters
    ----------
    momentum : float
        Share of the last step that is added to this one, from 0 up to but not 1; 0.9 in [S thesis].
    nesterov : bool
        Whether to use Nesterov's variant; needs a momentum above 0.
    decay : float
        Weight decay, 0 or more; multiplied by the learning rate.

    Raises
    ------
    InputError
        A number is out of range, or `nesterov` is True and the momentum is 0.

    Examples
    --------
    >>> from hfrnn.optim.first_order import SGDOptions
    >>> SGDOptions(momentum=0.5)
    SGDOptions(momentum=0.5, nesterov=False, decay=0.0)
    """

    momentum: float = checked(0.9, number, BELOW_ONE)
    nesterov: bool = checked(False, flag)
    decay: float = checked(0.0, number, NOT_NEGATIVE)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.nesterov and self.momentum == 0.0:
            raise InputError(Message(
                "{nesterov!s} was asked for and {momentum!s} is 0: give a {momentum!s} above 0, or leave it out"
            ))  # fmt: skip


class SGD(FirstOrder):
    """Gradient descent with momentum and weight decay (SPEC 7; [S thesis] 6.1).

    Parameters
    ----------
    options : SGDOptions, optional
    threads : int
        As for `FirstOrder`.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.optim.first_order import SGD, SGDOptions
    >>> optimizer, theta = SGD(SGDOptions(momentum=0.5)), np.ones(2)
    >>> for _ in range(2):
    ...     theta = optimizer.step(theta, theta, lr=0.1)
    >>> theta.round(4).tolist()
    [0.76, 0.76]
    """

    kind = "sgd"
    vectors = ("momentum",)

    def __init__(self, options: SGDOptions | None = None, threads: int = 1) -> None:
        super().__init__(threads)
        self.options = instance("options", options, SGDOptions, "an SGDOptions", or_none=True) or SGDOptions()

    def advance(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors, after: Vectors, work: Work
    ) -> None:
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
    """Options of Adam; the defaults are those of its authors.

    Parameters
    ----------
    beta1, beta2 : float
        Decay of the running means of g and of g*g per step, from 0 up to but not 1.
    epsilon : float
        Number that keeps the denominator above 0.
    decay : float
        Decoupled weight decay, 0 or more; multiplied by the learning rate.

    Raises
    ------
    InputError
        A number is out of range.

    Examples
    --------
    >>> from hfrnn.optim.first_order import AdamOptions
    >>> AdamOptions(beta1=0.8)
    AdamOptions(beta1=0.8, beta2=0.999, epsilon=1e-08, decay=0.0)
    """

    beta1: float = checked(0.9, number, BELOW_ONE)
    beta2: float = checked(0.999, number, BELOW_ONE)
    epsilon: float = checked(1e-8, number, POSITIVE)
    decay: float = checked(0.0, number, NOT_NEGATIVE)

    def __post_init__(self) -> None:
        check_fields(self)


class Adam(FirstOrder):
    """Adam: divides each entry of the step by a running size of the gradient in that entry (Kingma & Ba 2015).

    Parameters
    ----------
    options : AdamOptions, optional
    threads : int
        As for `FirstOrder`.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.optim.first_order import Adam
    >>> Adam().step(np.ones(2), np.array([5.0, -0.1]), lr=0.1).round(4).tolist()
    [0.9, 1.1]
    """

    kind = "adam"
    vectors = ("mean", "square")

    def __init__(self, options: AdamOptions | None = None, threads: int = 1) -> None:
        super().__init__(threads)
        self.options = instance("options", options, AdamOptions, "an AdamOptions", or_none=True) or AdamOptions()

    def advance(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors, after: Vectors, work: Work
    ) -> None:
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
