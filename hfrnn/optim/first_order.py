"""First-order steps from a gradient g: gradient descent with momentum, and Adam.

    SGD   M  = momentum*M - lr*g                                           # S1
          w += M - lr*decay*w                                              # S2
          w += momentum*M - lr*g - lr*decay*w        (Nesterov)            # S3

    Adam  m  = beta1*m + (1 - beta1)*g,  v = beta2*v + (1 - beta2)*g*g     # A1
          w += -lr * (m/(1 - beta1^t)) / (sqrt(v/(1 - beta2^t)) + epsilon) - lr*decay*w      # A2

In S3, w is the point where Nesterov's method computes its gradients. The other point of that method is x, with
w = x + momentum*M; S1 and S3 are x += M, written for w. In A2 the decay is decoupled: m and v do not include it.

stepping.py makes the steps piece by piece, and undoes those that are not finite.

References: SPEC 7; [S thesis] 6.1; Kingma & Ba 2015 (Adam), Loshchilov & Hutter 2019 (decoupled decay).
"""

from __future__ import annotations

from dataclasses import dataclass

from hfrnn.arrays.vectors import Vector, scaled
from hfrnn.checks import BELOW_ONE, NOT_NEGATIVE, POSITIVE, check_fields, checked, flag, instance, number
from hfrnn.errors import InputError
from hfrnn.optim.stepping import FirstOrder, Vectors

__all__ = ["SGD", "Adam", "AdamOptions", "FirstOrder", "SGDOptions", "Vectors"]


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
            raise InputError("nesterov was asked for and momentum is 0: give a momentum above 0, or leave it out.")


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

    def _advance(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors, after: Vectors,
        work: tuple[Vector, Vector],
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

    def _advance(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors, after: Vectors,
        work: tuple[Vector, Vector],
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
