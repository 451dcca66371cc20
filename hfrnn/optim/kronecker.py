"""A preconditioner that is diagonal in the eigenbasis of Kronecker factors, block by block.

A block W (m, k) of theta has the gradients G_1, ..., G_p of parts of the curvature batch. Their outer products estimate
the curvature, and the eigenvectors of their two factors are a basis in which it is nearly diagonal:

    K1  L = d*L + sum_j G_j G_j'                R = d*R + sum_j G_j' G_j        d decays the earlier factors
    K2  L = Q_L diag(.) Q_L'                    R = Q_R diag(.) Q_R'
    K3  D = sum_j (Q_L' G_j Q_R)^2              entry by entry
    K4  M^-1 r = Q_L [(D + shift)^-exponent * (Q_L' r Q_R)] Q_R'

M is symmetric. It is positive definite because the shift is above 0. A side of more than `MOST` rows or columns keeps
the unit basis, so that D is diagonal on that side. A vector is a matrix with one row. Gates that are side by side in a
block share L; each of them has its own R.

The shift in K4 may be one number, or differ between blocks. `shifts` follows the scale of each block:

    K7  shift = w * mean of D + (1 - w) * s * mean of D in the block            w = max(1 - n/20, 0.01)

after n computations of the factors. At first D comes from few sequences, and a small block may have hardly any
curvature in it. So all blocks start with nearly the same shift, the mean of D, and always keep a hundredth of it.

The factors are computed again when the basis is old. The share of the new factors that the old basis does not make
diagonal says how far it has turned, and changes the period between two computations:

    K5  turned = mean over the sides of 1 - |diag(Q' F Q)|^2 / |F|^2            F = L or R
    K6  period * 2 if turned < 0.02, period / 2 if turned > 0.1, from n/`rarer` to `longest`; n computations so far

References: the factors are those of Gupta, Koren & Singer 2018 (Shampoo); a diagonal in their eigenbasis is used by
George and others 2018 (EKFAC) and by Vyas and others 2024 (SOAP) in place of the curvature, here as a preconditioner of
exact Gauss-Newton products. The exponent is that of [MS].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.threads import Threads, one_blas_thread
from hfrnn.arrays.vectors import (
    Apply,
    Scalar,
    Vector,
    eigenvectors,
    fetch,
    is_on_host,
    lazy_dot,
    lazy_finite,
    library,
)
from hfrnn.checks import NOT_NEGATIVE, POSITIVE, SHIFTS, ZERO_TO_ONE, count, number
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.blocks import (
    MatrixBlock,
    Pair,
    basis_of,
    check_blocks,
    covered_length,
    factor_entries,
    gates_of,
    joined_vector,
    matrix_of,
    on_host,
    rotated,
    rotated_back,
    rotated_gates,
    sides_of,
    split,
    view,
    zero_matrices,
)
from hfrnn.wording import brief

STEADY, TURNED = 0.02, 0.1
"""Bounds on `turned` in K6."""
RARER = 8
"""Computations after which the shortest period of K6 grows by 1: noise alone can make `turned` 0.05."""
SETTLED, COMMON = 20, 0.01
"""Computations of the factors after which w of K7 has its least value, and this value."""

FEW = 2**17
"""Number of weights below which K4 is faster on one thread."""


@brief
@dataclass(frozen=True)
class Kronecker:
    """The basis and the diagonal of all blocks.

    Parameters
    ----------
    blocks : sequence of MatrixBlock
        They cover the flat vector.
    factors : sequence of Pair
        L and R of K1.
    bases : sequence of Pair
        Q_L and Q_R of K2.
    diagonal : (n,) array
        D of K3 in the order of the flat vector, entries 0 or more.
    period : int
        Number of updates after which the factors are computed again, 1 or more.
    age : int
        Number of updates that have used the diagonal.
    computed : int
        Number of times that the factors have been computed.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> from hfrnn.optim.kronecker import kronecker
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> factors = kronecker(net.matrix_blocks, objective.part_gradients(theta, 2))
    >>> apply, out = factors.preconditioner(1.0), np.empty(len(theta))
    >>> apply(np.ones(len(theta)), out)
    >>> bool((out > 0).any())
    True
    """

    blocks: Sequence[MatrixBlock]
    factors: Sequence[Pair]
    bases: Sequence[Pair]
    diagonal: Vector
    period: int = 1
    age: int = 0
    computed: int = 1

    @property
    def due(self) -> bool:
        """Whether the factors are to be computed again."""
        return self.age >= self.period

    def used(self) -> Kronecker:
        """Return this preconditioner, one update older."""
        return replace(self, age=self.age + 1)

    def shifts(self, relative: float) -> Vector:
        """Return the shift of each entry of the diagonal (K7).

        Parameters
        ----------
        relative : float
            s of K7, 0 or more.

        Returns
        -------
        (n,) array
            Entries from 1e-30 to 1e30, the same within a block.

        Raises
        ------
        InputError
            `relative` is below 0 or not finite.
        """
        number("relative", relative, NOT_NEGATIVE)
        w = max(1.0 - self.computed / SETTLED, COMMON)
        parts = [self.diagonal, *(self.diagonal[block.span] for block in self.blocks)]
        mean, *own = fetch(*(part.mean(dtype="float64") for part in parts))
        found = self.diagonal.copy()
        for block, each in zip(self.blocks, own, strict=True):
            shift = w * mean + (1.0 - w) * relative * each  # K7
            found[block.span] = min(max(shift, SHIFTS.low), SHIFTS.high)
        return found

    def preconditioner(self, shift: float | Vector, exponent: float = 0.75, threads: Threads | None = None) -> Apply:
        """Return the preconditioner of K4 for `conjugate_gradient`.

        Parameters
        ----------
        shift : float or (n,) array
            Above 0; an array is not checked.
        exponent : float
            From 0 to 1.
        threads : Threads, optional
            Threads that share the gates of a large network; the bits do not depend on them.

        Returns
        -------
        callable
            Function of (r, out) that writes M^-1 r into `out`; both (n,).

        Raises
        ------
        InputError
            A number is out of range.
        """
        exponent = number("exponent", exponent, ZERO_TO_ONE)
        if getattr(shift, "shape", None) != self.diagonal.shape:
            shift = number("shift", shift, POSITIVE)
        inverse = (self.diagonal + shift) ** -exponent
        gates = gates_of(self.blocks)
        workers = threads if threads is not None and self.diagonal.shape[0] >= FEW else Threads(1)

        def precondition(r: Vector, out: Vector) -> None:
            def one(number: int) -> None:
                at, gate = gates[number]
                block, (Q_L, Q_R) = self.blocks[at], basis_of(self.bases[at], gate)
                turned = rotated(view(r, block)[:, gate], Q_L, Q_R) * view(inverse, block)[:, gate]
                view(out, block)[:, gate] = rotated_back(turned, Q_L, Q_R)  # K4

            for _ in workers.ordered(one, len(gates)):
                pass

        def on_device(r: Vector, out: Vector) -> None:  # where each call has a cost
            for block, (Q_L, Q_R) in zip(self.blocks, self.bases, strict=True):
                turned = rotated_gates(view(r, block), Q_L, Q_R) * view(inverse, block)
                back = None if Q_L is None else Q_L.T, None if Q_R is None else Q_R.swapaxes(1, 2)
                view(out, block)[...] = rotated_gates(turned, *back)  # K4

        return precondition if is_on_host(inverse) else on_device

    def state_dict(self) -> dict[str, Any]:
        """Return the state: the diagonal, all factors in one vector (the bases follow from them), and numbers."""
        parts = [F.reshape(-1) for pair in self.factors for F in pair if F is not None]
        joined = self.diagonal[:0].copy() if not parts else joined_vector(parts)
        blocks = [(block.start, block.rows, block.columns, block.gates) for block in self.blocks]
        own = {"blocks": blocks, "age": self.age, "period": self.period, "computed": self.computed}
        return {"diagonal": self.diagonal.copy(), "factors": joined, **own}


def kronecker(
    blocks: Sequence[MatrixBlock],
    gradients: Vector,
    earlier: Kronecker | None = None,
    decay: float = 0.7,
    longest: int = 10,
    threads: Threads | None = None,
    rarer: int = RARER,
) -> Kronecker:
    """Compute factors, bases and diagonal from gradients.

    Parameters
    ----------
    blocks : sequence of MatrixBlock
    gradients : (p, n) array
        The gradients of parts of the curvature batch; the sum of their outer products estimates the curvature.
    earlier : Kronecker, optional
        The preconditioner so far, for the same blocks; its factors count `decay` times.
    decay : float
        d of K1, from 0 to 1.
    longest : int
        Largest period of K6, in updates.
    threads : Threads, optional
        Threads that share the factors; by default one. Of factors on a device, they share the eigenvectors, which the
        host computes. The bits do not depend on them.
    rarer : int
        Computations after which the shortest period of K6 grows by one update, 1 or more.

    Raises
    ------
    InputError
        A value is out of range, the gradients have another length than the blocks, or there are none.
    NonFiniteError
        A factor or the diagonal is not finite, because a gradient is not, or its square.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> from hfrnn.optim.kronecker import kronecker
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    >>> factors = kronecker(net.matrix_blocks, objective.part_gradients(theta, 2))
    >>> factors.diagonal.shape
    (21,)
    """
    blocks = check_blocks(blocks)
    gradients = array("gradients", gradients, (None, covered_length(blocks)), "f")
    if not gradients.shape[0]:
        raise InputError("gradients has no rows: give the gradient of one part or more")
    decay, longest = number("decay", decay, ZERO_TO_ONE), count("longest", longest, 1)
    rarer = count("rarer", rarer, 1)
    of_host = threads if threads is not None else Threads(1)
    workers = of_host if is_on_host(gradients) else Threads(1)
    gates, sides = gates_of(blocks), sides_of(blocks)
    factors, bases = (zero_matrices(blocks, gradients) for _ in range(2))

    def factor(number: int) -> None:
        at, side, gate = sides[number]
        G = view(gradients, blocks[at])
        A = G.swapaxes(0, 1).reshape(blocks[at].rows, -1) if side == 0 else G[..., gate, :].reshape(-1, G.shape[-1]).T
        with np.errstate(over="ignore", invalid="ignore"):
            F, old = A @ A.T, None if earlier is None else matrix_of(earlier.factors[at], side, gate)
            if old is not None:
                F += decay * old  # K1
        matrix_of(factors[at], side, gate)[:] = F

    diagonal = gradients[0].copy()

    def square(number: int) -> Scalar:
        at, gate = gates[number]
        G, (Q_L, Q_R) = view(gradients, blocks[at])[..., gate, :], basis_of(bases[at], gate)
        turned = G.copy() if Q_L is None and Q_R is None else rotated(G, Q_L, Q_R)
        with np.errstate(over="ignore", invalid="ignore"):
            turned *= turned
            D = turned.sum(0)  # K3
            view(diagonal, blocks[at])[:, gate] = D
            return _finite(D)

    list(workers.ordered(factor, len(sides)))
    _decompose(factors, bases, sides, of_host)  # K2
    if not all(fetch(*workers.ordered(square, len(gates)))):
        raise _too_large()
    period = 1 if earlier is None else _period(earlier, factors, sides, longest, rarer)
    computed = 1 if earlier is None else earlier.computed + 1
    return Kronecker(blocks, tuple(factors), tuple(bases), diagonal, period, computed=computed)


def bytes_needed(blocks: Sequence[MatrixBlock], parts: int, itemsize: int) -> int:
    """Return the memory that `kronecker` needs at its peak, with the gradients and the earlier factors.

    Parameters
    ----------
    blocks : sequence of MatrixBlock
    parts : int
        p, the number of gradients.
    itemsize : int
        Bytes of a number.
    """
    n, squares = sum(block.size for block in blocks), factor_entries(blocks)
    kept = 4 * squares  # factors and bases, and those of the last time
    wide = 5 * 8 * squares  # all factors in float64 at once, with their eigenvectors and LAPACK's 3 n^2 of workspace
    return itemsize * (3 * parts * n + kept + 3 * n) + wide


_ENTRIES = ("blocks", "diagonal", "factors", "period", "age", "computed")
"""The entries of a `Kronecker.state_dict`."""


def load_kronecker(state: Mapping[str, Any]) -> Kronecker:
    """Return the preconditioner of a `Kronecker.state_dict`.

    Raises
    ------
    InputError
        An entry is missing or damaged, or the vectors do not fit the blocks.
    """
    if missing := [name for name in _ENTRIES if name not in state]:
        raise InputError(f"the state of the preconditioner lacks {', '.join(missing)}: give a Kronecker.state_dict")
    try:
        found = [MatrixBlock(*map(int, block)) for block in state["blocks"]]
    except (TypeError, ValueError):
        raise InputError("the blocks in the state of the preconditioner are damaged: give another state") from None
    blocks = check_blocks(found)
    joined = array("factors of the state", state["factors"], (None,), "f", finite=True)
    diagonal = array("diagonal of the state", state["diagonal"], (None,), "f", finite=True).copy()
    period, age = count("period of the state", state["period"], 1), count("age of the state", state["age"])
    computed = count("computed of the state", state["computed"], 1)
    needed = factor_entries(blocks), covered_length(blocks)
    if (joined.shape, diagonal.shape) != ((needed[0],), (needed[1],)):
        raise InputError(
            f"the state of the preconditioner has {joined.shape[0]} factors and {diagonal.shape[0]} entries: its "
            f"blocks need {needed[0]} and {needed[1]}"
        )
    factors, bases = (zero_matrices(blocks, diagonal) for _ in range(2))
    sides = sides_of(blocks)
    matrices = [matrix_of(factors[at], side, gate) for at, side, gate in sides]
    for F, part in zip(matrices, split(joined, matrices), strict=True):
        F[:] = part
    _decompose(factors, bases, sides, Threads(1))
    return Kronecker(blocks, tuple(factors), tuple(bases), diagonal, period, age, computed)


def _decompose(
    factors: Sequence[Pair], bases: Sequence[Pair], sides: Sequence[tuple[int, int, int]], workers: Threads
) -> None:
    """Write the eigenvectors of all factors into `bases` (K2), or raise NonFiniteError.

    The threads of the host compute those of a device too. CuPy's solver made the first update of a run take 10 seconds
    longer (`mlstm` 256 on an H200).
    """
    found = on_host([matrix_of(factors[at], side, gate) for at, side, gate in sides])

    def one(number: int) -> Vector:
        _finite(found[number])
        return eigenvectors(found[number])

    for (at, side, gate), Q in zip(sides, workers.ordered(one, len(sides)), strict=True):
        basis = matrix_of(bases[at], side, gate)
        basis[:] = library(basis).asarray(Q)


def _finite(x: Vector) -> Scalar:
    """Return whether an array is finite, without waiting for a device; on the host, raise NonFiniteError if not."""
    finite = lazy_finite(x)
    if finite is False:
        raise _too_large()
    return finite


def _too_large() -> NonFiniteError:
    return NonFiniteError("the gradients of the parts are too large for the preconditioner, or not finite")


def _period(
    earlier: Kronecker, factors: Sequence[Pair], sides: Sequence[tuple[int, int, int]], longest: int, rarer: int
) -> int:
    sums: list[Scalar] = []
    for at, side, gate in sides:
        F, Q = matrix_of(factors[at], side, gate), matrix_of(earlier.bases[at], side, gate)
        sums.append(lazy_dot(F.reshape(-1), F.reshape(-1)))
        with one_blas_thread():  # so that the bits do not depend on BLAS's threads
            along = ((F @ Q) * Q).sum(0)
        sums.append(lazy_dot(along, along))
    found = iter(fetch(*sums))
    shares = [1 - along / square if square > 0 else 0.0 for square, along in zip(found, found, strict=True)]
    turned = math.fsum(shares) / max(len(shares), 1)  # K5
    period = 2 * earlier.period if turned < STEADY else earlier.period
    period = period // 2 if turned > TURNED else period
    return min(max(period, earlier.computed // rarer, 1), longest)  # K6
