"""Check every derivative of an architecture against an independent one, in float64 on small random networks.

The reference uses only the forward pass: its complex step `Im F(theta + i*eps*v)/eps` is exact up to rounding. It gives
the gradient and the dense Jacobians of the logits and of the hidden states, and these the dense curvature matrices.
Every parameter block is compared separately, so that a block of zeros is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Buffers, HostArray
from hfrnn.engine.batch import Batch
from hfrnn.engine.closed_loop import LoopOfBatch
from hfrnn.engine.heads.class_softmax import ClassSoftmax
from hfrnn.engine.heads.losses import Softmax
from hfrnn.engine.heads.output_map import FullHead, Head
from hfrnn.engine.network import Network
from hfrnn.engine.objective import COMPLEX_STEP, Objective
from hfrnn.engine.plan import Keep, Plan
from hfrnn.engine.sweep import Sweep
from hfrnn.gradcheck.cases import Case

MU, LAMBDA = 0.7, 0.3

TOLERANCES = {
    "gradient": 1e-9, "Jv": 1e-9, "adjoint": 1e-11, "Gv": 1e-9, "symmetry": 1e-12, "semi-definite": 1e-12,
    "hessian": 1e-6, "hidden": 1e-9, "matching": 1e-9, "preactivation": 1e-9, "checkpoints": 1e-12,
}  # fmt: skip
"""The checks and their largest allowed relative errors, for each parameter block where there are blocks."""


def check_case(case: Case, seed: int = 0) -> Iterator[tuple[str, float, str]]:
    """Run every check on one network and batch, along random directions of this seed.

    It yields the name of the check, its relative error, and the parameter block ("" for the whole matrix).
    """
    net, theta, batch = case.net, case.theta, case.batch
    rng = np.random.Generator(np.random.PCG64(seed + 1))
    objective = Objective(net, batch, threads=1, plan=Plan((0, batch.B), None, Keep.ALL), closed_loop=case.closed_loop)
    complex_step = _ComplexStep(net, batch, theta, objective.loop)
    blocks = net.views(np.arange(net.n_parameters))
    columns = np.eye(net.n_parameters)

    _, gradient = objective.loss_and_gradient(theta)
    of_loss, dense, hidden, slopes = complex_step.jacobians(columns)
    reference = of_loss + net.l2 * theta
    for name, index in blocks.items():
        yield "gradient", _relative(gradient[index], reference[index]), name

    jacobian = objective.jacobian(theta)
    u, w = rng.standard_normal(dense.shape[0]), rng.standard_normal(net.n_parameters)
    directions, Ju = _one_per_block(blocks, rng), jacobian.rmatvec(u)
    for (name, index), v in zip(blocks.items(), directions.T, strict=True):
        Jv = jacobian.matvec(v)
        yield "Jv", _relative(Jv, dense @ v), name
        scale = max(np.linalg.norm(u) * np.linalg.norm(Jv), np.linalg.norm(Ju[index]) * np.linalg.norm(v))
        yield "adjoint", float(abs(u @ Jv - Ju @ v) / scale) if scale else 0.0, name

    hessian_of_loss = _loss_hessian(net, objective, theta)
    exact = dense.T @ hessian_of_loss(dense) + net.l2 * columns
    operator = objective.gauss_newton(theta)
    G = np.stack([operator @ column for column in columns], axis=1)
    yield from _by_block_pair("Gv", G, exact, blocks, blocks)
    yield from _symmetry(G - net.l2 * columns)

    one_each = {name: np.array(j) for j, name in enumerate(blocks)}  # the columns of `directions`
    for metric in net.metrics:
        weighted = hidden if metric == "hidden" else hidden / slopes[:, None]  # of h, or of a by h = f(a)
        S = (weighted if metric == "preactivation" else hidden).T @ weighted / objective.total_weight
        operator = objective.gauss_newton(theta, structural=MU, tikhonov=LAMBDA, metric=metric)
        D = np.stack([operator @ v for v in directions.T], axis=1)  # (n, number of blocks)
        damped = (exact + MU * S + LAMBDA * columns) @ directions
        yield from _by_block_pair(metric, D, damped, blocks, one_each)
        yield from _symmetry(directions.T @ (D - (LAMBDA + net.l2) * directions))

    Hw = objective.hessian(theta) @ w
    step = 1e-5
    moved = [objective.loss_and_gradient(theta + sign * step * w)[1] for sign in (1, -1)]
    difference = (moved[0] - moved[1]) / (2 * step)
    for name, index in blocks.items():
        yield "hessian", _relative(Hw[index], difference[index], float(np.linalg.norm(difference))), name

    checkpointed = Objective(net, batch, threads=1, checkpoint=2, closed_loop=case.closed_loop)
    yield "checkpoints", _relative(checkpointed.loss_and_gradient(theta)[1], gradient), "gradient"
    product = checkpointed.gauss_newton(theta, MU, LAMBDA) @ w
    yield "checkpoints", _relative(product, objective.gauss_newton(theta, MU, LAMBDA) @ w), "product"


class _ComplexStep:
    """Derivatives of the forward pass along a direction, computed with a complex step in complex128.

    In a closed loop, all steps run again for each input that is an output of the step before.
    """

    def __init__(self, net: Network, batch: Batch, theta: HostArray, loop: LoopOfBatch | None = None) -> None:
        self.net, self.theta, self.loop = net, theta, loop
        ready = net.prepare(batch)
        total, buffers = ready.total_weight(net.backend), Buffers(net.backend, "complex128")
        self.sweep = Sweep(net, ready, total, keep=Keep.STATES, scratch=buffers)
        exists = ready.exists(net.backend)
        self.exists = np.ones((batch.T, batch.B), bool) if exists is None else exists

    def jacobians(self, columns: Iterable[HostArray]) -> tuple[HostArray, HostArray, HostArray, HostArray]:
        """Return the derivatives of the loss (without l2), of the outputs and of all hidden states along `columns`.

        The last result is dh/da at each hidden state.
        """
        of_loss, of_outputs, of_hidden, slopes = [], [], [], np.ones(0)
        segment = self.sweep.segments[0]  # the only one
        for column in columns:
            moved = self.theta + 1j * COMPLEX_STEP * column
            if self.loop is not None:
                self._close(moved, self.loop)
            of_loss.append(float(self.sweep.loss(moved).imag) / COMPLEX_STEP)
            fed = self.sweep.fed(segment)
            z = self.net.head.outputs(self.sweep.p["output"], fed, segment.head_tape) * self.exists[:, :, None]
            of_outputs.append(z.imag.ravel() / COMPLEX_STEP)
            hs = [h[self.exists] for h in segment.hs]
            of_hidden.append(np.concatenate([h.imag.ravel() for h in hs]) / COMPLEX_STEP)
            if not slopes.size and self.net.metrics != ("hidden",):
                kernels = [layer.kernel for layer in self.net.layers]
                slopes = np.concatenate([k.slope(np, h.real).ravel() for k, h in zip(kernels, hs, strict=True)])
        return np.array(of_loss), np.stack(of_outputs, axis=1), np.stack(of_hidden, axis=1), slopes

    def _close(self, theta: HostArray, loop: LoopOfBatch) -> None:
        """Replace the inputs that are outputs of the step before, one step after the other."""
        fed, chosen = loop.feedback, loop.chosen & self.exists
        feedback = fed.outputs, fed.inputs, fed.gain, fed.offset
        x = np.array(self.sweep.inputs.values, dtype="complex128")
        self.sweep.inputs.values = x
        for t in range(1, len(x)):
            z = self.sweep.outputs(theta)[0][t - 1]
            for k, i, gain, offset in zip(*feedback, strict=True):
                x[t, chosen[t], i] = (gain * z[:, k] + offset)[chosen[t]]


def _loss_hessian(net: Network, objective: Objective, theta: HostArray) -> Callable[[HostArray], HostArray]:
    """Return a function that multiplies the loss's Hessian in the outputs by a matrix (number of outputs, n).

    It takes a complex step through the gradient of the loss in the outputs. A loss whose curvature is not its Hessian
    is asked itself.
    """
    batch = objective.batch
    outputs, _ = Sweep(net, batch, 1.0, keep=Keep.STATES).outputs(theta)
    weights = batch.output_weights(net.backend) / objective.total_weight
    if weights.shape[2] > 1:  # the outputs of a target have its weight
        weights = np.tile(weights, outputs.shape[2] // weights.shape[2])

    def apply(directions: HostArray) -> HostArray:
        columns = []
        for direction in directions.T:
            if not net.head.exact_curvature:
                Rz = direction.reshape(outputs.shape).copy()
                net.head.curvature(np, outputs, Rz, np.empty_like(Rz), batch.targets)  # type: ignore[attr-defined]
                columns.append((Rz * weights).ravel())
                continue
            z = outputs + 1j * COMPLEX_STEP * direction.reshape(outputs.shape)
            _loss_gradient(net.head, z, batch.targets)
            columns.append((z.imag / COMPLEX_STEP * weights).ravel())
        return np.stack(columns, axis=1)

    return apply


def _loss_gradient(head: Head, z: HostArray, targets: Any) -> None:
    """Replace the outputs z by the gradient of every step's loss in its outputs."""
    if isinstance(head, FullHead):
        head.predict(np, z, targets)
        head.residual(np, z, targets)
    elif isinstance(head, ClassSoftmax):  # one softmax over the classes, one over the words of the target's class
        C, classes = head.n_classes, head.class_of[targets]
        other = np.sort(head.class_of) != classes[:, :, None]
        z[:, :, C:][other] = -np.inf
        for start, stop, chosen in ((0, C, classes), (C, C + head.n_out, head.column_of[targets])):
            full, part = Softmax(stop - start, head.widths, False), z[:, :, start:stop].copy()
            _loss_gradient(full, part, chosen)
            z[:, :, start:stop] = part


def _relative(value: HostArray, reference: HostArray, scale: float | None = None) -> float:
    """Return |value - reference| / |reference| or / scale; the absolute error if the divisor is almost 0."""
    size = float(np.linalg.norm(reference)) if scale is None else scale
    error = float(np.linalg.norm(value - reference))
    return error / size if size > 1e-12 else error


def _by_block_pair(
    check: str, matrix: HostArray, reference: HostArray, rows: dict[str, HostArray], columns: dict[str, HostArray]
) -> Iterator[tuple[str, float, str]]:
    """Yield the relative error of every pair of a block of rows and a block of columns, given by their indices."""
    for row, i in rows.items():
        for column, j in columns.items():
            part = np.ix_(i.ravel(), j.ravel())
            yield check, _relative(matrix[part], reference[part]), f"{row} x {column}"


def _one_per_block(blocks: dict[str, HostArray], rng: np.random.Generator) -> HostArray:
    """Return a random vector for each block (n, number of blocks), 0 outside the block."""
    directions = np.zeros((sum(index.size for index in blocks.values()), len(blocks)))
    for j, index in enumerate(blocks.values()):
        directions[index.ravel(), j] = rng.standard_normal(index.size)
    return directions


def _symmetry(matrix: HostArray) -> Iterator[tuple[str, float, str]]:
    """Yield the relative errors of symmetry and of positive semi-definiteness."""
    scale = float(np.abs(matrix).max())
    yield "symmetry", float(np.abs(matrix - matrix.T).max()) / scale if scale else 0.0, ""
    smallest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]) if np.isfinite(scale) else np.nan
    yield "semi-definite", max(-smallest / scale if scale else 0.0, 0.0), ""
