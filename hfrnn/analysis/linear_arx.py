"""ARX models: linear models of past outputs and inputs, fitted by least squares and simulated.

For inputs u_t (n_in) and targets y_t (n_out), in units of their deviation from their means in the training part:

F1  y_t = sum_{i=1..p} A_i y_{t-i} + sum_{j=0..q} B_j u_{t-j} + c       L. Ljung, System Identification, 1999, 4.2
F2  A, B, c minimise the squared error of F1 over the training part, with measured y_{t-i}
F3  simulation: F1 with its own earlier outputs in place of y_{t-i}; 0, the mean, before the first step
F4  or, before the first step: the p outputs and q inputs s that minimise the squared error of F3 over the first k steps

A simulation reads the same inputs as the network and begins like one with a state of zeros, or like one whose state was
estimated from the first k targets (F4). F3 is affine in s, so F4 is a linear least-squares problem. With p = 0 the
model is a finite impulse response (FIR). If a target is also an input, u holds measured outputs, and the model predicts
ahead, as the network does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.linear_data import Block, Units, Values, first_states
from hfrnn.wording import counted

ORDERS = ((1, 1), (2, 2), (3, 3), (5, 5), (8, 8), (12, 12), (0, 0), (0, 20), (0, 60))
"""The orders (p, q) that are tried."""
ROWS_A_COEFFICIENT = 4
"""Rows that the training part must have for each coefficient of an output."""
_NUMBERS = 4_000_000  # most entries of one piece of the regression
_WORK = 3e10  # most multiplications of one fit


@dataclass(frozen=True, eq=False)
class ARX:
    """A linear model of the orders p and q; see F1."""

    past_outputs: int
    past_inputs: int
    A: Values  # (p, n_out, n_out); row vectors: y_{t-i} @ A[i - 1]
    B: Values  # (q + 1, n_in, n_out)
    c: Values  # (n_out,)
    units: Units

    def __str__(self) -> str:
        inputs = f"the input and {counted(self.past_inputs, 'past input')}" if self.past_inputs else "the input"
        if not self.past_outputs:
            return f"FIR, {inputs}"
        return f"ARX, {counted(self.past_outputs, 'past output')}, {inputs}"

    def simulate(self, inputs: NDArray[Any], first: NDArray[Any] | None = None) -> Values:
        """Return the outputs (T, B, n_out) for inputs (T, B, n_in); see LinearModel. `first` has the targets of F4."""
        T, B, n_in = inputs.shape
        u = np.zeros((self.past_inputs + T, B, n_in))  # step t is row t + q
        u[self.past_inputs :] = self.units.inputs(inputs)
        past = np.zeros((self.past_outputs, B, len(self.c)))
        if first is not None:
            self._estimate(u, past, self.units.targets(first[:T]))
        return self.units.outputs(self._run(u, past, self.c))

    def _run(self, u: Values, past: Values, constant: Values) -> Values:
        """Return the outputs (T, B, n_out) for inputs (q + T, B, n_in), after the outputs `past` (p, B, n_out)."""
        (p, B, n_out), q = past.shape, self.past_inputs
        T = len(u) - q
        y = np.concatenate([past, np.zeros((T, B, n_out))])  # step t is row t + p
        found = y[p:]
        found += constant
        for j, matrix in enumerate(self.B):
            found += u[q - j : q - j + T] @ matrix  # F3
        if p:
            together = self.A[::-1].reshape(-1, n_out)  # oldest output first
            with np.errstate(over="ignore", invalid="ignore"):
                for t in range(T):
                    found[t] += y[t : t + p].swapaxes(0, 1).reshape(B, -1) @ together  # F3
        return found

    def _estimate(self, u: Values, past: Values, first: Values) -> None:
        """Write the estimates of F4 to `past` and to the first q rows of `u`, from targets (k, B, n_out)."""
        p, B, n_out = past.shape
        q, n_in, k = self.past_inputs, u.shape[2], len(first)
        split, size = p * n_out, p * n_out + q * n_in
        units = np.eye(size)  # each entry of s by itself
        inputs = np.zeros((q + k, size, n_in))
        inputs[:q] = units[:, split:].reshape(size, q, n_in).swapaxes(0, 1)
        outputs = units[:, :split].reshape(size, p, n_out).swapaxes(0, 1)
        shown = self._run(inputs, outputs, np.zeros(n_out)).swapaxes(1, 2)  # (k, n_out, size): F3 in s
        off = first - self._run(u[: q + k], past, self.c)
        if not (size and np.isfinite(shown).all()):
            return
        s = first_states(shown, off)  # F4
        past[...] = s[:, :split].reshape(B, p, n_out).swapaxes(0, 1)
        u[:q] = s[:, split:].reshape(B, q, n_in).swapaxes(0, 1)


def arx_models(blocks: Sequence[Block], units: Units, orders: Sequence[tuple[int, int]] = ORDERS) -> Iterator[ARX]:
    """Yield the least-squares fits of some orders (p, q), but not of those with too few rows or too many coefficients.

    Targets of weight 0 are taken as unknown, and so is what came before a sequence.
    """
    for order in orders:
        model = _fitted(blocks, order, units)
        if model is not None:
            yield model


def _fitted(blocks: Sequence[Block], order: tuple[int, int], units: Units) -> ARX | None:
    """Return the least-squares fit of one order; None if there are too few rows, or too many coefficients."""
    p, q = order
    n_in, n_out = blocks[0].inputs.shape[2], blocks[0].targets.shape[2]
    size = p * n_out + (q + 1) * n_in + 1
    steps = sum(block.inputs.shape[0] * block.inputs.shape[1] for block in blocks)
    if steps < ROWS_A_COEFFICIENT * size or float(steps) * size * (size + n_out) > _WORK:
        return None
    R, rows = np.zeros((0, size + n_out)), 0
    for block in blocks:
        for part in _pieces(block, max(p, q), max(_NUMBERS // (size + n_out), 1)):
            piece = _regression(part, order, units)
            rows += len(piece)
            R = np.asarray(np.linalg.qr(np.concatenate([R, piece]), mode="r"))  # F2: the triangle of all rows so far
    if rows < ROWS_A_COEFFICIENT * size:
        return None
    found = np.linalg.lstsq(R[:size, :size], R[:size, size:], rcond=None)[0]  # (size, n_out)
    A, B = found[: p * n_out].reshape(p, n_out, n_out), found[p * n_out : -1].reshape(q + 1, n_in, n_out)
    return ARX(p, q, A, B, found[-1], units)


def _pieces(block: Block, lag: int, most: int) -> Iterator[Block]:
    """Yield a block in pieces of about `most` steps, each with the `lag` steps before its own."""
    T, B, _ = block.inputs.shape
    width, steps = max(most // T, 1), max(most, 1)
    for first in range(0, B, width):
        for start in range(0, max(T - lag, 0), steps):
            yield Block(*(each[start : start + steps + lag, first : first + width] for each in block))


def _regression(block: Block, order: tuple[int, int], units: Units) -> Values:
    """Return the rows (N, p*n_out + (q + 1)*n_in + 1 + n_out) of F1 in which every value is known."""
    p, q = order
    u, y = units.inputs(block.inputs), units.targets(block.targets)
    T, lag = len(u), max(p, q)
    known = np.asarray((block.weights > 0).all(axis=2))  # (T, B)
    used = known[lag:].copy()
    for i in range(1, p + 1):
        used &= known[lag - i : T - i]
    columns = [y[lag - i : T - i] for i in range(1, p + 1)] + [u[lag - j : T - j] for j in range(q + 1)]
    columns += [np.ones((T - lag, u.shape[1], 1)), y[lag:]]
    return np.concatenate([each[used] for each in columns], axis=1)
