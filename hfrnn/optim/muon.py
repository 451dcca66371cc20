"""Muon: steps that are nearly orthogonal matrices for hidden matrices, and Adam for all other parameters.

A hidden matrix W (m, k) has the gradient G. Gates that lie side by side in a block are matrices of their own.

    U1  M = momentum*M + G
    U2  N = G + momentum*M                                      (Nesterov)
    U3  X = N/(max |N_ij| + epsilon),  X = X/(|X| + epsilon)
    U4  five times  A = X X',  X = a*X + (b*A + c*A*A) X        a, b, c = 3.4445, -4.7750, 2.0315
    U5  W += -lr * 0.2*sqrt(max(m, k)) * X - lr*decay*W

U4 is a Newton-Schulz iteration. It brings all singular values of N that are not tiny to about 1, from 0.7 to 1.2, and
keeps the singular vectors. If m > k, it works on N'. The largest entry in U3 keeps squares from overflowing. The factor
in U5 gives the entries of a step about the root mean square that they have in Adam, so that learning rates of Adam fit.
All other parameters have the steps A1 and A2 of `first_order`.

References: Jordan and others 2024 (Muon: U1 to U4); Liu and others 2025 (the factor of U5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hfrnn.arrays.threads import one_blas_thread
from hfrnn.arrays.vectors import Scalar, Vector, lazy_all, lazy_finite, scaled
from hfrnn.checks import BELOW_ONE, checked, instance, number
from hfrnn.errors import InputError
from hfrnn.optim.blocks import MatrixBlock, check_blocks
from hfrnn.optim.first_order import STEP_PIECE, Adam, AdamOptions, Vectors

A, B, C = 3.4445, -4.7750, 2.0315
"""Coefficients of U4."""
ITERATIONS = 5
"""Iterations of U4."""
SIZE = 0.2
"""Root mean square of the entries of a step of Adam, in units of the learning rate."""


@dataclass(frozen=True)
class MuonOptions(AdamOptions):
    """Options of Muon.

    Parameters
    ----------
    beta1, beta2 : float
        Decay of Adam's running means of g and of g*g per step, from 0 up to but not 1.
    epsilon : float
        Number that keeps the denominators of A2 and U3 above 0.
    decay : float
        Decoupled weight decay of all parameters, 0 or more; multiplied by the learning rate.
    momentum : float
        Momentum of the hidden matrices, from 0 up to but not 1.

    Raises
    ------
    InputError
        A number is out of range.

    Examples
    --------
    >>> from hfrnn.optim.muon import MuonOptions
    >>> MuonOptions(momentum=0.9).momentum
    0.9
    """

    beta2: float = checked(0.95, number, BELOW_ONE)
    momentum: float = checked(0.95, number, BELOW_ONE)


class Muon(Adam):
    """Muon for hidden matrices, and Adam for all other parameters (Jordan and others 2024).

    Parameters
    ----------
    hidden : sequence of MatrixBlock
        The hidden matrices, in the order of the flat vector. Each gate is a matrix of its own.
    options : MuonOptions, optional
    threads : int
        As for `FirstOrder`; the threads share the matrices.

    Examples
    --------
    >>> import hfrnn
    >>> from hfrnn.optim.muon import Muon
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    >>> optimizer = Muon([block for block in net.matrix_blocks if block.rows == block.columns == 3])  # W_h
    """

    kind = "muon"
    options: MuonOptions

    def __init__(self, hidden: Sequence[MatrixBlock], options: MuonOptions | None = None, threads: int = 1) -> None:
        given = instance("options", options, MuonOptions, "a MuonOptions", or_none=True) or MuonOptions()
        super().__init__(given, threads)
        self.hidden = check_blocks(hidden)

    def advance_all(self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors) -> Scalar:
        if self.hidden and theta.shape[0] < (end := self.hidden[-1].span.stop):
            raise InputError(f"theta has {theta.shape[0]} entries, and a block ends at {end}: give blocks of theta")
        parts: list[tuple[slice, MatrixBlock | None]] = [(block.span, block) for block in self.hidden]
        parts += [(span, None) for span in self._others(theta.shape[0])]

        def advance_part(at: int) -> Scalar:
            span, block = parts[at]
            own, before = (new[span], theta[span], gradient[span]), {name: x[span] for name, x in kept.items()}
            after = {name: x[span] for name, x in self._next.items()}
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                if block is None:
                    self.advance(*own, lr, before, after, (theta[span].copy(), theta[span].copy()))
                else:
                    self._advance_hidden(*own, lr, before, after, block)
            return lazy_finite(own[0], *after.values())

        with one_blas_thread():  # so that the bits do not depend on BLAS's threads
            return lazy_all(list(self._threads.ordered(advance_part, len(parts))))

    def _others(self, n: int) -> list[slice]:
        """Return the parts of a vector (n,) between the hidden matrices, in pieces."""
        starts = [0, *(block.span.stop for block in self.hidden)]
        stops = [*(block.start for block in self.hidden), n]
        return [
            slice(start, min(start + STEP_PIECE, stop))
            for first, stop in zip(starts, stops, strict=True)
            for start in range(first, stop, STEP_PIECE)
        ]

    def _advance_hidden(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors, after: Vectors, block: MatrixBlock
    ) -> None:
        """Write the new parameters of a hidden matrix into `new`, and M into `after`. Its squares are 0 for good."""
        options, M = self.options, after["mean"]
        scaled(kept["mean"], options.momentum, M)
        M += gradient  # U1
        N = M * options.momentum + gradient  # U2
        side_by_side = N.reshape(block.rows, block.gates, block.width)
        X = orthogonalized(side_by_side.swapaxes(0, 1), options.epsilon)  # U3, U4
        size = SIZE * max(block.rows, block.width) ** 0.5
        scaled(theta, 1.0 - lr * options.decay, new)
        new -= (lr * size) * X.swapaxes(0, 1).reshape(-1)  # U5


def orthogonalized(N: Vector, epsilon: float = 1e-8) -> Vector:
    """Return matrices (g, m, k) with the singular vectors of others, and singular values of about 1.

    Parameters
    ----------
    N : (g, m, k) array
        g matrices.
    epsilon : float
        Number added to the largest entry and to the norm of each matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from hfrnn.optim.muon import orthogonalized
    >>> O = orthogonalized(np.array([[[3.0, 0.0], [0.0, 0.1]]]))
    >>> O.diagonal(axis1=1, axis2=2).round(1).tolist()
    [[0.7, 1.1]]
    """
    X: Vector = N.swapaxes(1, 2) if N.shape[1] > N.shape[2] else N
    X = X / (abs(X).max((1, 2)) + epsilon).reshape(-1, 1, 1)  # U3
    X = X / ((X * X).sum((1, 2)) ** 0.5 + epsilon).reshape(-1, 1, 1)  # U3
    for _ in range(ITERATIONS):
        square = X @ X.swapaxes(1, 2)
        X = A * X + (B * square + C * (square @ square)) @ X  # U4
    return X.swapaxes(1, 2) if N.shape[1] > N.shape[2] else X
