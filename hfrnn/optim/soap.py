"""SOAP: Adam in the slowly rotating eigenbasis of Shampoo's factors, block by block.

A block W (m, k) of the parameters has the gradient G. M is its running mean, in the coordinates of W; V is the running
mean of squares in the rotated coordinates. Each step uses the basis of the earlier gradients; t is the number of steps
after the first one, which only computes the basis.

    O1  M = beta1*M + (1 - beta1)*G
    O2  G~ = Q_L' G Q_R                         M~ = Q_L' M Q_R
    O3  V = beta2*V + (1 - beta2)*G~*G~
    O4  W += -lr * Q_L [M~/(1 - beta1^t) / (sqrt(V/(1 - beta2^t)) + epsilon)] Q_R' - lr*decay*W
    O5  L = beta*L + (1 - beta)*G G'            R = beta*R + (1 - beta)*G' G
    O6  first step: Q_L, Q_R = eigenvectors of L, R
    O7  every few steps: F Q = Q_new * triangle, for F = L, R

O7 is one power iteration. Before it, the columns of Q, and with them the rows or columns of V, are sorted by the
diagonal of Q' F Q, the largest entry first. A side of more than `MOST` rows or columns keeps the unit basis, and so do
both sides of a block with one row or one column, where the method is Adam.

References: Vyas and others 2024 (SOAP); L and R are those of Gupta, Koren & Singer 2018 (Shampoo).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.threads import one_blas_thread
from hfrnn.arrays.vectors import Scalar, Vector, eigenvectors, lazy_all, lazy_finite, library, orthonormal, scaled
from hfrnn.checks import BELOW_ONE, NOT_NEGATIVE, POSITIVE, check_fields, checked, count, instance, number
from hfrnn.errors import InputError
from hfrnn.optim.blocks import MOST, MatrixBlock, check_blocks, rotated, rotated_back
from hfrnn.optim.first_order import FirstOrder, Vectors

Sides: TypeAlias = Sequence[Vector | None]
"""A matrix for the left side of a block and one for the right; None for a side with the unit basis."""


@dataclass(frozen=True)
class SOAPOptions:
    """Options of SOAP; the defaults are those of its authors, without weight decay.

    Parameters
    ----------
    beta1, beta2 : float
        Decay of the running means of G and of the squares per step, from 0 up to but not 1.
    factor_beta : float
        Decay of the factors L and R per step, from 0 up to but not 1.
    every : int
        Steps between two power iterations, 1 or more.
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
    >>> from hfrnn.optim.soap import SOAPOptions
    >>> SOAPOptions(every=5).every
    5
    """

    beta1: float = checked(0.95, number, BELOW_ONE)
    beta2: float = checked(0.95, number, BELOW_ONE)
    factor_beta: float = checked(0.95, number, BELOW_ONE)
    every: int = checked(10, count, 1)
    epsilon: float = checked(1e-8, number, POSITIVE)
    decay: float = checked(0.0, number, NOT_NEGATIVE)

    def __post_init__(self) -> None:
        check_fields(self)


class SOAP(FirstOrder):
    """SOAP: Adam in the eigenbasis of each block's Kronecker factors (Vyas and others 2024).

    Parameters
    ----------
    blocks : sequence of MatrixBlock
        They cover the flat vector, one after another. Gates side by side count as one matrix.
    options : SOAPOptions, optional
    threads : int
        As for `FirstOrder`; the threads share the blocks.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> from hfrnn.optim.soap import SOAP
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    >>> optimizer = SOAP(net.matrix_blocks)
    """

    kind = "soap"
    vectors = ("mean", "square")
    like_theta = False
    squares = ("factors", "bases")
    """Names of the vectors that hold a square matrix for each side of a block, one after another."""

    def __init__(self, blocks: Sequence[MatrixBlock], options: SOAPOptions | None = None, threads: int = 1) -> None:
        super().__init__(threads)
        self.options = instance("options", options, SOAPOptions, "a SOAPOptions", or_none=True) or SOAPOptions()
        self.blocks = check_blocks(blocks)
        self._length = sum(block.size for block in self.blocks)
        self._entries = sum(side**2 for block in self.blocks for side in _sides(block))
        self._squares: Vectors = {}
        self._squares_before: Vectors = {}

    def advance_all(self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors) -> Scalar:
        n, covered = theta.shape[0], self._length
        if covered != n or (self.blocks and self.blocks[-1].span.stop != n):
            raise InputError(f"theta has {n} entries, and the blocks have {covered}: give blocks that cover theta")
        finite = lazy_finite(gradient)
        if finite is False:
            return False
        squares = {name: matrices.copy() for name, matrices in self._squares.items()}
        if not squares:
            squares = {name: gradient[:1].repeat(self._entries) * 0 for name in self.squares}
        factors, bases = (_matrices(squares[name], self.blocks) for name in self.squares)

        def advance_block(at: int) -> Scalar:
            block, span = self.blocks[at], self.blocks[at].span
            G = gradient[span].reshape(block.rows, block.columns)
            before = {name: x[span] for name, x in kept.items()}
            after = {name: x[span] for name, x in self._next.items()}
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                return self._advance_block(new[span], theta[span], G, lr, before, after, factors[at], bases[at])

        with one_blas_thread():  # so that the bits do not depend on BLAS's threads
            finite = lazy_all([finite, *self._threads.ordered(advance_block, len(self.blocks))])
        if finite is not False:
            self._squares, self._squares_before = squares, self._squares
        return finite

    def _changes(self, new: Vector, theta: Vector, kept: Vectors) -> list[tuple[Vector, Vector]]:
        squares = [(self._squares[name], before) for name, before in self._squares_before.items()]
        return [*super()._changes(new, theta, kept), *squares]

    def _discarded(self) -> int:
        found = super()._discarded()
        if not self.steps:
            self._squares = {}
        return found

    def _advance_block(
        self, new: Vector, theta: Vector, G: Vector, lr: float, kept: Vectors, after: Vectors, factors: Sides,
        bases: Sides,
    ) -> Scalar:  # fmt: skip
        """Make the step of a block with the gradient G (m, k); return whether all of it is finite."""
        options, t = self.options, self.steps
        if t:
            self._rotated_step(new, theta, G, lr, kept, after, bases)
        else:
            new[:] = theta
        for F, A in zip(factors, (G, G.T), strict=True):
            if F is not None:
                F *= options.factor_beta
                F += (1.0 - options.factor_beta) * (A @ A.T)  # O5
        finite = lazy_finite(new, *after.values(), *(F.reshape(-1) for F in factors if F is not None))
        if finite is False:
            return False
        V = after["square"].reshape(G.shape)
        for axis, (F, Q) in enumerate(zip(factors, bases, strict=True)):
            if F is None or Q is None:
                continue
            if t == 0:
                Q[:] = eigenvectors(F if finite is True else library(F).where(finite, F, 0))  # O6
            elif t % options.every == 0:
                turned = F @ Q
                order = (-(turned * Q).sum(0)).argsort()
                Q[:] = orthonormal(turned[:, order])  # O7
                V[:] = V[order] if axis == 0 else V[:, order]
        return finite

    def _rotated_step(
        self, new: Vector, theta: Vector, G: Vector, lr: float, kept: Vectors, after: Vectors, bases: Sides
    ) -> None:
        """Make the step of a block in the rotated coordinates, with the basis of the earlier gradients."""
        options, t, (Q_L, Q_R) = self.options, self.steps, bases
        M, V = after["mean"], after["square"]
        scaled(kept["mean"], options.beta1, M)
        M += (1.0 - options.beta1) * G.reshape(-1)  # O1
        change, mean = rotated(G, Q_L, Q_R), rotated(M.reshape(G.shape), Q_L, Q_R)  # O2
        scaled(kept["square"], options.beta2, V)
        V += ((1.0 - options.beta2) * (change * change)).reshape(-1)  # O3
        size = (V.reshape(G.shape) * (1.0 / (1.0 - options.beta2**t))) ** 0.5 + options.epsilon
        change = mean * (lr / (1.0 - options.beta1**t)) / size
        scaled(theta, 1.0 - lr * options.decay, new)
        new -= rotated_back(change, Q_L, Q_R).reshape(-1)  # O4

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, **{name: self._squares[name].copy() if self._squares else None for name in self.squares}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        own = isinstance(state, Mapping) and state.get("kind") == self.kind
        squares = self._checked_squares(state) if own else {}
        super().load_state_dict(state)
        self._squares = squares

    def _checked_squares(self, state: Mapping[str, Any]) -> Vectors:
        """Check the sizes in a `state_dict` of SOAP; return copies of its matrices, none before the first step."""
        for name in self.vectors:
            if state.get(name) is not None:
                array(f"{name} of the state", state[name], (self._length,), "f", advice="as the blocks need")
        if missing := [name for name in self.squares if name not in state]:
            raise InputError(
                f"The optimizer state lacks {', '.join(missing)}: give the state_dict of a {self.kind} optimizer."
            )
        return {
            name: array(f"{name} of the state", state[name], (self._entries,), "f", advice="as the blocks need").copy()
            for name in self.squares
            if state[name] is not None
        }


def _matrices(vector: Vector, blocks: Sequence[MatrixBlock]) -> list[Sides]:
    """Return the square matrices of all blocks as views of the vector that holds them one after another."""
    found: list[Sides] = []
    start = 0
    for left, right in map(_sides, blocks):
        middle = start + left**2
        L, R = vector[start:middle].reshape(left, left), vector[middle : middle + right**2].reshape(right, right)
        found.append((L if left else None, R if right else None))
        start = middle + right**2
    return found


def _sides(block: MatrixBlock) -> tuple[int, int]:
    """Return the sizes of the two bases of a block; 0 for the unit basis."""
    if min(block.rows, block.columns) == 1:
        return 0, 0
    return block.rows if block.rows <= MOST else 0, block.columns if block.columns <= MOST else 0
