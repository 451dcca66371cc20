"""Subspace models: linear state-space models from one singular value decomposition, simulated.

For inputs u_t (n_in) and targets y_t (n_out), in units of their deviation from their means in the training part:

S1  x_{t+1} = A x_t + B u_t,   y_t = C x_t + D u_t + c
S2  A and C follow from the column space of the observability matrix: the part of s future outputs that s past inputs
    and outputs explain beyond s future inputs and a constant (past-output MOESP; M. Verhaegen, Identification of the
    deterministic part of MIMO state space models, 1994)
S3  B, D, c and a first state for each sequence minimise the squared error of S1 over the training part
S4  simulation: S1 from the state 0, or from the state that minimises the squared error over the first k steps

With A = V diag(l) V^-1, the state in the basis V is n filters of first order, so no time step is a loop in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.linear_data import Block, Units, Values, first_states
from hfrnn.wording import counted

ORDERS = (1, 2, 3, 4, 6, 8)
"""Numbers of states that are tried."""
HORIZON = 15
"""s of S2."""
KNOWN = 0.9
"""S2 uses 2s steps if at least this share of their targets is known. It interpolates the others."""
_ROWS = 20_000  # about the most steps that a fit reads
_NUMBERS = 20_000_000  # most entries of the matrix of S2, or of S3 for the sequences of a block
_WORST = 1e8  # largest condition number of V

Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Modes:
    """The matrices A and C of S1 in the basis of the eigenvectors of A."""

    poles: Complex  # (n,), the eigenvalues l
    G: Complex  # (n_out, n), C V
    W: Complex  # (n, n), V^-1

    def driven(self, inputs: Values) -> Complex:
        """Return n states in the basis V, (T, B, m, n), from 0, as each of the inputs (T, B, m) drives them."""
        return np.stack([_filtered(pole, inputs) for pole in self.poles], axis=-1)

    def free(self, T: int) -> Values:
        """Return the outputs (T, n_out, n) of T steps without inputs, for each entry of the first state."""
        powers = self.poles ** np.arange(T)[:, None]
        return np.asarray(np.einsum("ok,tk,ki->toi", self.G, powers, self.W).real)


@dataclass(frozen=True, eq=False)
class Subspace:
    """A linear state-space model; see S1."""

    modes: Modes
    B: Values  # (n, n_in)
    D: Values  # (n_out, n_in)
    c: Values  # (n_out,)
    units: Units

    def __str__(self) -> str:
        return f"subspace, {counted(len(self.B), 'state')}"

    def simulate(self, inputs: NDArray[Any], first: NDArray[Any] | None = None) -> Values:
        """Return the outputs (T, B, n_out) for inputs (T, B, n_in); see LinearModel. `first` has the targets of S4."""
        u = self.units.inputs(inputs)
        y = u @ self.D.T + self.c
        for k, weights in enumerate(self.modes.W @ self.B):  # S4
            y += (_filtered(self.modes.poles[k], u @ weights)[..., None] * self.modes.G[:, k]).real
        if first is not None:
            off = self.units.targets(first[: len(u)]) - y[: len(first)]
            free = self.modes.free(len(u))
            y += np.einsum("toi,bi->tbo", free, first_states(free[: len(off)], off))  # S4
        return self.units.outputs(y)


def subspace_models(blocks: Sequence[Block], units: Units, orders: Sequence[int] = ORDERS) -> Iterator[Subspace]:
    """Yield the stable models of some numbers of states; none if the sequences are too short or too few.

    Targets of weight 0 are taken as unknown.
    """
    blocks = _first_rows([_scaled(block, units) for block in blocks])
    observed = _observability(blocks)
    for n in orders if observed is not None else ():
        assert observed is not None
        n_out = blocks[0].targets.shape[2]
        O = observed[:, :n]  # (s*n_out, n)
        if O.shape[1] < n or len(O) - n_out < n:
            return
        A, C = np.linalg.lstsq(O[:-n_out], O[n_out:], rcond=None)[0], O[:n_out]  # S2
        poles, V = np.linalg.eig(A)
        if np.abs(poles).max() >= 1 or np.linalg.cond(V) > _WORST:
            continue
        modes = Modes(poles.astype(complex), C @ V + 0j, np.linalg.inv(V) + 0j)
        model = _with_inputs(modes, blocks, units)
        if model is not None:
            yield model


def _filtered(pole: complex, values: NDArray[Any]) -> Complex:
    """Return x with x_{t+1} = pole x_t + values_t and x_0 = 0, along the first axis."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([0, 1], [1, -pole], values, axis=0))


def _scaled(block: Block, units: Units) -> Block:
    return Block(units.inputs(block.inputs), units.targets(block.targets), block.weights)


def _first_rows(blocks: Sequence[Block]) -> list[Block]:
    """Return the first sequences, until they have about `_ROWS` steps; a longer one is cut."""
    found, left = list[Block](), _ROWS
    for block in blocks:
        T, B, _ = block.inputs.shape
        width = min(max(left // T, 1), B)
        found.append(Block(*(each[:_ROWS, :width] for each in block)))
        left -= min(T, _ROWS) * width
        if left <= 0:
            break
    return found


def _observability(blocks: Sequence[Block]) -> Values | None:
    """Return the singular vectors (s*n_out, ...) of S2; None if too few windows of 2s steps have known targets."""
    s, n_in, n_out = HORIZON, blocks[0].inputs.shape[2], blocks[0].targets.shape[2]
    size = 1 + 2 * s * (n_in + n_out)
    parts = []
    for u, y, weights in blocks:
        for b in range(u.shape[1] if len(u) >= 2 * s else 0):
            known = np.asarray(weights[:, b] > 0)
            if not known.any(axis=0).all():
                continue
            steps = np.arange(len(u))
            filled = np.stack(
                [np.interp(steps, steps[each], y[each, b, o]) for o, each in enumerate(known.T)], axis=1
            )  # no window may have a gap
            share = np.lib.stride_tricks.sliding_window_view(known.all(axis=1), 2 * s).mean(axis=1)
            past_u, future_u = _windows(u[:, b], s)
            past_y, future_y = _windows(filled, s)
            constant = np.ones((len(future_u), 1))  # the means are not those of a system at rest
            parts.append(np.concatenate([constant, future_u, past_u, past_y, future_y], axis=1)[share >= KNOWN])
    rows = sum(map(len, parts))
    if rows < 2 * size or rows * size > _NUMBERS:
        return None
    R = np.asarray(np.linalg.qr(np.concatenate(parts), mode="r")).T
    first, last = 1 + s * n_in, size - s * n_out
    return np.asarray(np.linalg.svd(R[last:, first:last])[0])


def _windows(values: Values, s: int) -> tuple[Values, Values]:
    """Return the first s and the last s steps of every 2s steps of values (T, n), each (T - 2s + 1, s*n)."""
    every = np.lib.stride_tricks.sliding_window_view(values, 2 * s, axis=0).swapaxes(1, 2)
    return every[:, :s].reshape(len(every), -1), every[:, s:].reshape(len(every), -1)


def _with_inputs(modes: Modes, blocks: Sequence[Block], units: Units) -> Subspace | None:
    """Return the model with B, D and c of S3; None if there are too few steps, or too many unknowns."""
    n, n_in, n_out = len(modes.poles), blocks[0].inputs.shape[2], blocks[0].targets.shape[2]
    size = n * n_in + n_out * n_in + n_out
    R, rows = np.zeros((0, size + 1)), 0
    for u, y, weights in blocks:
        T, B, _ = u.shape
        if T * B * n_out * size > _NUMBERS:
            return None
        of_B = np.einsum("ok,tbjk,ki->tboij", modes.G, modes.driven(u), modes.W).real.reshape(T, B, n_out, n * n_in)
        of_D = np.einsum("tbj,op->tbopj", u, np.eye(n_out)).reshape(T, B, n_out, n_out * n_in)
        of_c = np.broadcast_to(np.eye(n_out), (T, B, n_out, n_out))
        columns = np.concatenate([of_B, of_D, of_c, y[..., None]], axis=3)
        free = modes.free(T)
        for b in range(B):
            known = weights[:, b] > 0
            Q, own = np.linalg.qr(free[known])[0], columns[:, b][known]
            if len(own) <= n:
                continue
            own -= Q @ (Q.T @ own)  # S3: whatever the first state of the sequence is
            rows += len(own) - n
            R = np.asarray(np.linalg.qr(np.concatenate([R, own]), mode="r"))
    if rows < 2 * size:
        return None
    found = np.linalg.lstsq(R[:size, :size], R[:size, size], rcond=None)[0]  # S3
    of_B, of_D, c = np.split(found, [n * n_in, size - n_out])
    return Subspace(modes, of_B.reshape(n, n_in), of_D.reshape(n_out, n_in), c, units)
