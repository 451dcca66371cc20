"""Check every derivative of an architecture against an independent one, in float64 on small random networks.

The reference uses only the forward pass: its complex step `Im F(theta + i*eps*v)/eps` is exact up to rounding. It gives
the gradient and the dense Jacobians of the logits and of the hidden states. These give the dense Gauss-Newton matrix
and the dense structural matrices. Every parameter block is compared separately, so that a block of zeros is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Buffers, HostArray
from hfrnn.checks import count, function, wrong
from hfrnn.engine.batch import Batch
from hfrnn.engine.class_softmax import ClassSoftmax
from hfrnn.engine.layout import losses
from hfrnn.engine.losses import Softmax
from hfrnn.engine.network import Network
from hfrnn.engine.objective import COMPLEX_STEP, Objective
from hfrnn.engine.output_map import FullHead, Head
from hfrnn.engine.plan import Keep, Plan
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import InputError
from hfrnn.kernels import architectures

MU, LAMBDA = 0.7, 0.3
CARRIED_TIME = 3
"""The time `t` of a carried state that has one; at the next step not all modules of a clockwork network are active."""

SMALL: dict[str, dict[str, Any]] = {"scrn": {"context": 2}}
"""Options that make the networks of an architecture small."""
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "fnn": ({"order": 1}, {"order": 7, "activation": "logistic"}),
    "fofe-fnn": ({"codes": 2, "alpha": 0.9}, {"codes": 7, "activation": "logistic"}),
    "gated-feedback": ({"sublayers": 1}, {"sublayers": 2, "hidden": 4}),
    "gru-torch": ({"candidate_bias": False},),
    "hornn": ({"order": 1}, {"order": 7, "activation": "logistic"}),
    "hornn-max": ({"order": 2, "activation": "logistic"}, {"order": 7}),
    "hornn-fofe": ({"order": 2, "alpha": 0.9}, {"order": 7, "activation": "logistic"}),
    "hornn-gated": ({"order": 1, "activation": "logistic"},),
    "leaky": ({"activation": "logistic"}, {"activation": "softplus", "learn_leak": True}, {"activation": "relu"}),
    "rate": ({"activation": "logistic", "leak": 1.0}, {"activation": "softplus", "learn_leak": True}),
    "scrn": ({"learn_alpha": True}, {"learn_alpha": True, "alpha": 0.3, "hidden": 0}, {"context": 0}),
}
"""Further options that are checked on two layers, besides the defaults."""

TOLERANCES = {
    "gradient": 1e-9, "Jv": 1e-9, "adjoint": 1e-11, "Gv": 1e-9, "symmetry": 1e-12, "semi-definite": 1e-12,
    "hessian": 1e-6, "hidden": 1e-9, "matching": 1e-9, "preactivation": 1e-9, "checkpoints": 1e-12,
}  # fmt: skip
"""The checks and their largest allowed relative errors, for each parameter block where there are blocks."""


@dataclass(frozen=True)
class Outcome:
    """The largest error of one check of one architecture, over all cases and parameter blocks.

    Examples
    --------
    >>> from hfrnn.gradcheck import Outcome
    >>> Outcome("rnn", "gradient", error=1e-14, tolerance=1e-10, where="layer0.W_h").passed
    True
    """

    arch: str
    check: str
    error: float
    tolerance: float
    where: str
    """The loss, the case and the parameter block of the largest error."""

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance  # False for NaN


@dataclass(frozen=True)
class Case:
    """A network with weights and a batch, on which the checks run."""

    name: str
    net: Network
    theta: HostArray
    batch: Batch


def gradcheck(
    archs: Sequence[str] | None = None, seed: int = 0, progress: Callable[[str, str], Any] | None = None
) -> list[Outcome]:
    """Check every derivative routine of architectures.

    Parameters
    ----------
    archs : sequence of str, optional
        Names of registered architectures; all by default.
    seed : int
        Seed of the random networks and batches, 0 or more.
    progress : callable, optional
        Called with the names of the architecture and of the case, before each case.

    Returns
    -------
    list of Outcome
        One for each architecture and each check that applies to it.

    Raises
    ------
    InputError
        An architecture is unknown.

    Examples
    --------
    >>> from hfrnn.gradcheck import gradcheck
    >>> outcomes = gradcheck(["rnn"])
    >>> all(outcome.passed for outcome in outcomes)
    True
    """
    known, seed = architectures(), count("seed", seed)
    function("progress", progress, or_none=True)
    if archs is not None and not (isinstance(archs, list | tuple) and all(isinstance(arch, str) for arch in archs)):
        raise wrong("archs", archs, "give a list of architectures")
    chosen = known if archs is None else tuple(dict.fromkeys(archs))
    for arch in chosen:
        if arch not in known:
            raise InputError(f"architecture {arch!r} is not known: use one of {', '.join(known)}")
    outcomes = []
    for arch in chosen:
        worst: dict[str, tuple[float, str]] = {}
        for case in _cases(arch, seed):
            if progress is not None:
                progress(arch, case.name)
            for check, error, where in check_case(case, seed):
                place = f"{case.name}, {where}" if where else case.name
                if check not in worst or not error <= worst[check][0]:
                    worst[check] = (error, place)
        outcomes += [Outcome(arch, check, *worst[check][:1], TOLERANCES[check], worst[check][1]) for check in worst]
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the results of `gradcheck` as a table of at most 80 columns.

    Parameters
    ----------
    outcomes : sequence of Outcome

    Returns
    -------
    str
        The error of every check, with `!` after errors above the tolerance; then the place of each such error.

    Examples
    --------
    >>> from hfrnn.gradcheck import Outcome, table
    >>> print(table([Outcome("rnn", "gradient", error=1e-14, tolerance=1e-10, where="layer0.W_h")]))
                    allowed           rnn
    gradient          1e-09       1.0e-14
    <BLANKLINE>
    1 of 1 checks passed
    """
    if not (isinstance(outcomes, list | tuple) and all(isinstance(outcome, Outcome) for outcome in outcomes)):
        raise wrong("outcomes", outcomes, "give the result of gradcheck")
    names = list(dict.fromkeys(outcome.arch for outcome in outcomes))
    checks = list(dict.fromkeys(outcome.check for outcome in outcomes))
    found = {(outcome.arch, outcome.check): outcome for outcome in outcomes}
    lines = []
    width = max(12, *(len(name) for name in names))
    columns = max(1, (80 - 23) // (width + 2))
    for start in range(0, len(names), columns):
        shown = names[start : start + columns]
        lines.append(f"{'':14}{'allowed':>9}" + "".join(f"{name:>{width + 2}}" for name in shown))
        for check in checks:
            cells = [found.get((name, check)) for name in shown]
            marks = ["-" if cell is None else f"{cell.error:.1e}{'' if cell.passed else ' !'}" for cell in cells]
            lines.append(f"{check:14}{TOLERANCES[check]:9.0e}" + "".join(f"{mark:>{width + 2}}" for mark in marks))
        lines.append("")
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        lines += [f"FAILED  {outcome.arch}: {outcome.check} is off by {outcome.error:.1e}", f"        {outcome.where}"]
    return "\n".join([*lines, f"{len(outcomes) - len(failed)} of {len(outcomes)} checks passed"])


def _cases(arch: str, seed: int) -> Iterator[Case]:
    """Yield every loss on one layer, a stack, mixed lengths from a learned state, a carried state; then others."""
    rng = np.random.Generator(np.random.PCG64(seed))
    situations: dict[str, dict[str, Any]] = {
        "one layer": {},
        "stacked": {"hidden": (3, 2)},
        "lengths and weights": {"hidden": (2, 2), "mixed": True, "learn_initial_state": True},
        "carried state": {"carried": True},
    }
    for loss in losses():
        for name, options in situations.items():
            yield _case(f"{loss}, {name}", arch, loss, rng, **options)
    yield _case("no direct connections", arch, "softmax", rng, hidden=(2, 3), direct=False)
    yield _case("embedding", arch, "softmax", rng, embedding=2)
    yield _case("real inputs", arch, "squared", rng, real=True, bias=True)
    yield _case("one step, one sequence", arch, "softmax", rng, T=1, B=1, carried=True)
    for loss in ("logistic", "squared"):
        yield _case(f"{loss}, weights of outputs", arch, loss, rng, hidden=(2, 2), mixed=True, by_output=True)
    for options in VARIANTS.get(arch, ()):
        name = ", ".join(f"{option} {value}" for option, value in options.items())
        stacked = {**options, "hidden": 2 * (options.get("hidden", 2),)}
        yield _case(name, arch, "softmax", rng, mixed=True, carried=True, **stacked)


def _case(
    name: str,
    arch: str,
    loss: str,
    rng: np.random.Generator,
    *,
    hidden: int | tuple[int, ...] = 3,
    T: int = 5,
    B: int = 2,
    direct: bool = True,
    mixed: bool = False,
    by_output: bool = False,
    carried: bool = False,
    embedding: int | None = None,
    real: bool = False,
    bias: bool | None = None,
    **options: Any,
) -> Case:
    """Return a case with a random network and a random batch."""
    n_in, n_out = 4, 3
    net = Network(
        arch, n_in, hidden, n_out, loss, dtype="float64", embedding=embedding, bias=bias, output_bias=True,
        direct_input=direct, direct_output=direct, l2=0.01, classes=(1, 0, 1) if loss == "class-softmax" else None,
        **{**SMALL.get(arch, {}), **options},
    )  # fmt: skip
    theta = 0.5 * rng.standard_normal(net.n_parameters)
    symbols = rng.permutation(np.arange(T * B) % n_in).reshape(T, B)
    inputs = rng.standard_normal((T, B, n_in)) if real else symbols
    targets: dict[str, Any] = {
        "softmax": rng.integers(0, n_out, (T, B)),
        "logistic": rng.random((T, B, n_out)),
        "squared": rng.standard_normal((T, B, n_out)),
    }
    weights = rng.random((T, B)) * (rng.random((T, B)) < 0.8) + np.eye(T, B) if mixed else None
    if by_output:
        weights = rng.random((T, B, n_out)) * (rng.random((T, B, n_out)) < 0.6) + np.eye(T, n_out)[:, None]
    lengths = np.array([T, *rng.integers(2, T, B - 1)]) if mixed else None
    state = None
    if carried:
        shapes = [layer.kernel.state_shapes(B) for layer in net.layers]
        state = [
            {key: 0.5 * rng.standard_normal(shape) if shape else CARRIED_TIME for key, shape in layer.items()}
            for layer in shapes
        ]
    default = targets.get(loss.removeprefix("class-"), targets["squared"])
    return Case(name, net, theta, Batch(inputs, default, weights, lengths, state))


def check_case(case: Case, seed: int = 0) -> Iterator[tuple[str, float, str]]:
    """Run every check on one network and batch.

    Parameters
    ----------
    case : Case
    seed : int
        Seed of the random directions.

    Yields
    ------
    check, error, block : str, float, str
        The name of the check, its relative error, and the parameter block ("" for the whole matrix).
    """
    net, theta, batch = case.net, case.theta, case.batch
    rng = np.random.Generator(np.random.PCG64(seed + 1))
    objective = Objective(net, batch, threads=1, plan=Plan((0, batch.B), None, Keep.ALL))
    complex_step = _ComplexStep(net, batch, theta)
    blocks = net.views(np.arange(net.n_parameters))
    columns = np.eye(net.n_parameters)

    _, gradient = objective.loss_and_gradient(theta)
    reference = np.array([complex_step.loss(column) for column in columns]) + net.l2 * theta
    for name, index in blocks.items():
        yield "gradient", _relative(gradient[index], reference[index]), name

    jacobian = objective.jacobian(theta)
    dense, hidden, slopes = complex_step.jacobians(columns)
    u, w = rng.standard_normal(dense.shape[0]), rng.standard_normal(net.n_parameters)
    for name, index in blocks.items():
        v = np.zeros(net.n_parameters)
        v[index.ravel()] = rng.standard_normal(index.size)
        Jv = jacobian.matvec(v)
        yield "Jv", _relative(Jv, dense @ v), name
        Ju = jacobian.rmatvec(u)
        scale = max(np.linalg.norm(u) * np.linalg.norm(Jv), np.linalg.norm(Ju[index]) * np.linalg.norm(v))
        yield "adjoint", float(abs(u @ Jv - Ju @ v) / scale) if scale else 0.0, name

    hessian_of_loss = _loss_hessian(net, objective, theta)
    exact = dense.T @ hessian_of_loss(dense) + net.l2 * columns
    operator = objective.gauss_newton(theta)
    G = np.stack([operator @ column for column in columns], axis=1)
    yield from _by_block_pair("Gv", G, exact, blocks)
    yield from _symmetry(G - net.l2 * columns)

    for metric in net.metrics:
        weighted = hidden if metric == "hidden" else hidden / slopes[:, None]  # of h, or of a by h = f(a)
        S = (weighted if metric == "preactivation" else hidden).T @ weighted / objective.total_weight
        damped = objective.gauss_newton(theta, structural=MU, tikhonov=LAMBDA, metric=metric)
        D = np.stack([damped @ column for column in columns], axis=1)
        yield from _by_block_pair(metric, D, exact + MU * S + LAMBDA * columns, blocks)
        yield from _symmetry(D - (LAMBDA + net.l2) * columns)

    Hw = objective.hessian(theta) @ w
    step = 1e-5
    moved = [objective.loss_and_gradient(theta + sign * step * w)[1] for sign in (1, -1)]
    difference = (moved[0] - moved[1]) / (2 * step)
    for name, index in blocks.items():
        yield "hessian", _relative(Hw[index], difference[index], float(np.linalg.norm(difference))), name

    checkpointed = Objective(net, batch, threads=1, checkpoint=2)
    yield "checkpoints", _relative(checkpointed.loss_and_gradient(theta)[1], gradient), "gradient"
    product = checkpointed.gauss_newton(theta, MU, LAMBDA) @ w
    yield "checkpoints", _relative(product, objective.gauss_newton(theta, MU, LAMBDA) @ w), "product"


class _ComplexStep:
    """Derivatives of the forward pass along a direction, computed with a complex step in complex128."""

    def __init__(self, net: Network, batch: Batch, theta: HostArray) -> None:
        self.net, self.theta = net, theta
        ready = net.prepare(batch)
        total, buffers = ready.total_weight(net.backend), Buffers(net.backend, "complex128")
        self.sweep = Sweep(net, ready, total, keep=Keep.STATES, scratch=buffers)
        exists = ready.exists(net.backend)
        self.exists = np.ones((batch.T, batch.B), bool) if exists is None else exists

    def _moved(self, v: HostArray) -> HostArray:
        """Return theta + i*eps*v."""
        moved: HostArray = self.theta + 1j * COMPLEX_STEP * v
        return moved

    def loss(self, v: HostArray) -> float:
        """Return the derivative of the loss (without l2) along v."""
        return float(self.sweep.loss(self._moved(v)).imag) / COMPLEX_STEP

    def jacobians(self, columns: Iterable[HostArray]) -> tuple[HostArray, HostArray, HostArray]:
        """Return the dense Jacobians of the outputs and of all hidden states, and dh/da at each hidden state."""
        of_outputs, of_hidden, slopes = [], [], np.ones(0)
        for column in columns:
            z, _ = self.sweep.outputs(self._moved(column))
            of_outputs.append(z.imag.ravel() / COMPLEX_STEP)
            hs = [h[self.exists] for h in self.sweep.segments[0].hs]
            of_hidden.append(np.concatenate([h.imag.ravel() for h in hs]) / COMPLEX_STEP)
            if not slopes.size and self.net.metrics != ("hidden",):
                kernels = [layer.kernel for layer in self.net.layers]
                slopes = np.concatenate([k.slope(np, h.real).ravel() for k, h in zip(kernels, hs, strict=True)])
        return np.stack(of_outputs, axis=1), np.stack(of_hidden, axis=1), slopes


def _loss_hessian(net: Network, objective: Objective, theta: HostArray) -> Callable[[HostArray], HostArray]:
    """Return a function that multiplies the loss's Hessian in the outputs by a matrix (number of outputs, n).

    It takes a complex step through the gradient of the loss in the outputs.
    """
    batch = objective.batch
    outputs, _ = Sweep(net, batch, 1.0, keep=Keep.STATES).outputs(theta)
    weights = batch.output_weights(net.backend) / objective.total_weight

    def apply(directions: HostArray) -> HostArray:
        columns = []
        for direction in directions.T:
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
    check: str, matrix: HostArray, reference: HostArray, blocks: dict[str, HostArray]
) -> Iterator[tuple[str, float, str]]:
    """Yield the relative error of every pair of parameter blocks of a matrix (n, n)."""
    for row, i in blocks.items():
        for column, j in blocks.items():
            part = np.ix_(i.ravel(), j.ravel())
            yield check, _relative(matrix[part], reference[part]), f"{row} x {column}"


def _symmetry(matrix: HostArray) -> Iterator[tuple[str, float, str]]:
    """Yield the relative errors of symmetry and of positive semi-definiteness."""
    scale = float(np.abs(matrix).max())
    yield "symmetry", float(np.abs(matrix - matrix.T).max()) / scale if scale else 0.0, ""
    smallest = float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[0]) if np.isfinite(scale) else np.nan
    yield "semi-definite", max(-smallest / scale if scale else 0.0, 0.0), ""
