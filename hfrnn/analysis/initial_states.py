"""Estimate the state before the first step of each sequence from its first targets.

For one sequence, with the outputs z_t of a network that starts at the state s (n entries, all layers), the weights w_t
and the loss l of its first N steps,

    F(s) = sum_(t<N) w_t*l(z_t, y_t) + ridge/2 * |s - s0|^2                                                        # E1
    (J' H J + (ridge + mu)*I) d = -(dF/ds),    s <- s + d  if F falls                                              # E2

s0 is where the network starts without an estimate: zeros, the learned state, or the state that the batch brings. J is
the Jacobian of all z_t in s, and H the Hessian of w*l in z, so that J'HJ is the Gauss-Newton matrix: for the squared
loss J'WJ, for the losses with probabilities Fisher's matrix. Its column j comes from the network's own passes:
R-forward along the unit vector e_j of the state, the curvature product of the head, and backward down to the state.
The ridge keeps directions that no target shows at s0. mu is the damping of Levenberg and Marquardt, for each sequence
by itself. It follows the ratio of the fall of F to that of its quadratic model along d:

    mu := mu/10 if the ratio is above 3/4, 4*mu if it is below 1/4                                                  # E3

The integer `t` of clockwork is no part of s. All passes run on NumPy in float64.

References: Marquardt 1963, "An algorithm for least-squares estimation of nonlinear parameters"; Schraudolph 2002,
"Fast curvature matrix-vector products", for the passes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.arrays.backend import Array, HostArray, host_copy
from hfrnn.checks import NOT_NEGATIVE, count, instance, number
from hfrnn.data.scaling import Scaling
from hfrnn.engine.batch import Batch, joined_states
from hfrnn.engine.layers import state_of_rows, state_rows, state_width
from hfrnn.engine.layout import Layout
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.engine.states import States
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.wording import counted

if TYPE_CHECKING:
    from hfrnn.engine.network import Network

RIDGE = 1e-3
"""Default of `ridge` in E1."""
ITERATIONS = 50
"""Most iterations of E2."""
TOLERANCE = 1e-8
"""Default of `tolerance`: a step whose quadratic model lowers F by less than this share is a sequence's last one."""
ROUNDING = 1e-12
"""Share of F below which a fall of it may be rounding."""
FIRST_DAMPING, LEAST_DAMPING = 1e-3, 1e-12
"""The first and the least mu, as a share of the mean diagonal of J'HJ; below the least it is 0."""
NUMBERS = 2**21
"""Most numbers of U, for all directions and sequences that run at once."""


def estimate_initial_state(
    net: Network, theta: Array, batch: Batch, steps: int, ridge: float = RIDGE, tolerance: float = TOLERANCE,
    scaling: Scaling | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Estimate the state before the first step of each sequence from its first targets.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    batch : Batch
        With targets. Those without weight, in the padding or NaN are not known, and take no part. The states start at
        its `initial_state` if it has one, else at the state that the network has learned, else at zeros.
    steps : int
        Number of steps at the beginning whose targets are read, 1 or more.
    ridge : float
        0 or more: half of it times the squared distance from where the states start is added to the sum of w*loss of
        these steps. It keeps what the targets do not show.
    tolerance : float
        0 or more: the iterations of a sequence end when a step promises to lower its sum by less than this share.
    scaling : Scaling, optional
        The scaling of the run (`hfrnn.load_scaling`). The batch is then in the units of the data.

    Returns
    -------
    list of dict
        One dict of arrays per layer, for the argument `initial_state` of `hfrnn.Batch`. A sequence without a known
        target in these steps keeps the state where it starts.

    Raises
    ------
    InputError
        The batch does not fit the network, or no sequence has a known target in these steps.
    NonFiniteError
        The loss is not finite where the states start.

    Notes
    -----
    The Gauss-Newton method with the exact Jacobian of the outputs in the state, damped after Levenberg and Marquardt,
    50 iterations at most. An iteration takes n products, where n is the number of all entries of a state. The result is
    a minimum near the start, not always the lowest one.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> theta, x = net.init(seed=0, scale=1.0), np.zeros((9, 4, 2))  # 9 steps of 4 sequences
    >>> true = [{"h": np.random.default_rng(1).uniform(-0.5, 0.5, (4, 3))}]
    >>> y, _ = net.run(theta, hfrnn.Batch(x, initial_state=true))
    >>> found = hfrnn.estimate_initial_state(net, theta, hfrnn.Batch(x, y), steps=9, ridge=0)
    >>> bool(np.allclose(found[0]["h"], true[0]["h"]))
    True
    """
    theta = instance("net", net, Layout, "a hfrnn.Network").vector(theta)
    instance("batch", batch, Batch, "a hfrnn.Batch")
    steps, ridge = count("steps", steps, 1), number("ridge", ridge, NOT_NEGATIVE)
    tolerance = number("tolerance", tolerance, NOT_NEGATIVE)
    instance("scaling", scaling, Scaling, "the scaling of the run, as hfrnn.load_scaling returns it", or_none=True)
    host = net.without_penalty().remade(dtype="float64", backend="numpy")
    weights = net.backend.to_host(theta).astype("float64")
    size = max(NUMBERS // (min(steps, batch.T) * max(layer.slots for layer in host.layers)), 1)
    n = state_width(host.layers)
    together = max(size // n, 1)
    found, known = [], False
    for start in range(0, batch.B, together):
        part = _beginning(batch.columns(start, min(start + together, batch.B)), steps, scaling)
        known = known or bool((part.output_weights(host.backend) > 0).any())
        found.append(_Fit(host, weights, part, ridge, size).run(tolerance))
    if not known:
        raise InputError(f"no sequence has a known target in its first {counted(steps, 'step')}: give more of them")
    return [
        {name: values if isinstance(values, int) else values.astype(net.dtype) for name, values in layer.items()}
        for layer in joined_states(np, found)
    ]


def estimated(net: Network, theta: Array, batch: Batch, steps: int, scaling: Scaling | None) -> Batch:
    """Return a batch that begins with the states of `estimate_initial_state`."""
    steps = count("estimate_state", steps, 1)
    state = estimate_initial_state(net, theta, batch, steps, scaling=scaling)
    if isinstance(batch, RaggedBatch):
        return RaggedBatch(batch.pool, batch.numbers, state)
    return batch.with_state(state)


def _beginning(batch: Batch, steps: int, scaling: Scaling | None) -> Batch:
    """Return the first steps of sequences as the network reads them, without weight where no target is known."""
    if batch.targets is None:
        raise InputError("the batch has no targets: give those of the first steps, which show the state")
    x, y = host_copy(batch.inputs)[:steps], host_copy(batch.targets)[:steps]
    weights = None if batch.weights is None else host_copy(batch.weights)[:steps]
    if y.dtype.kind == "f" and np.isnan(y).any():
        unknown = np.isnan(y) if y.ndim == 3 else np.isnan(y)[:, :, None]
        given = np.ones((*y.shape[:2], 1)) if weights is None else weights.reshape(*y.shape[:2], -1)
        weights = np.where(unknown, 0.0, given)
    if scaling is not None:
        x = scaling.scale_inputs(x) if x.ndim == 3 else x
        y = scaling.scale_targets(y) if y.ndim == 3 else y
    lengths = None if batch.lengths is None else np.minimum(host_copy(batch.lengths), len(x))
    return Batch(x, y, weights, lengths).with_state(batch.initial_state)


class _Fit:
    """The estimate of some sequences: E1 and E2, for all of them at the same time.

    `size` is the most directions times sequences that run at once.
    """

    products: tuple[int, Sweep] | None = None  # the number of directions of `matrix`, and the passes of the copies

    def __init__(self, net: Network, theta: HostArray, batch: Batch, ridge: float, size: int) -> None:
        self.net, self.theta, self.ridge, self.size = net, theta, ridge, size
        self.batch = net.prepare(batch)
        self.sweep = Sweep(net, self.batch, 1.0)
        start = self.sweep.states.initial(net.groups(theta))
        self.integers = [{name: x for name, x in layer.items() if isinstance(x, int)} for layer in start]
        self.s0 = state_rows(start)

    def run(self, tolerance: float = TOLERANCE) -> States:
        """Return the states (B, ...) that minimize E1."""
        s, loss = self.s0.copy(), self.loss(self.s0)
        if not np.isfinite(loss).all():
            raise NonFiniteError("the loss is not finite where the states start: use another checkpoint or state")
        mu: HostArray | None = None
        running = np.full(len(s), s.shape[1] > 0)
        for _ in range(ITERATIONS if running.any() else 0):
            G, slope = self.matrix(s), self.slope(s)
            size = np.trace(G, axis1=1, axis2=2) / s.shape[1]
            mu = FIRST_DAMPING * size if mu is None else mu
            d = solve(G, -slope, self.ridge + mu)  # E2
            tried = self.loss(s + d)
            falls = -(d * (slope + 0.5 * (np.einsum("bij,bj->bi", G, d) + self.ridge * d))).sum(axis=1)
            scale = abs(loss)  # that of a density may be below 0
            last = falls <= ROUNDING * scale  # the loss no longer shows whether such a step is better
            better = running & (tried < np.where(last, loss + ROUNDING * scale, loss))
            ratio = np.where(better & ~last, (loss - tried) / np.where(falls > 0, falls, 1.0), last)  # E3
            s[better] += d[better]
            loss = np.where(better, tried, loss)
            mu = np.where(ratio > 0.75, np.where(mu > LEAST_DAMPING * size, mu / 10, 0.0), mu)
            mu = np.where(ratio < 0.25, np.maximum(4 * mu, FIRST_DAMPING**2 * size), mu)
            running &= falls > tolerance * scale
            if not running.any():
                break
        return self.state(s)

    def loss(self, s: HostArray) -> HostArray:
        """Return F of E1 for each sequence, (B,); infinite where it is not finite."""
        self.sweep.states.begin(self.state(s))
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.sweep.sequence_losses(self.theta) + self.ridge / 2 * ((s - self.s0) ** 2).sum(axis=1)
        return np.where(np.isfinite(found), found, np.inf)

    def slope(self, s: HostArray) -> HostArray:
        """Return the gradient of E1 in the state of each sequence, (B, n)."""
        return state_rows(self.sweep.state_gradient(self.theta, self.state(s))) + self.ridge * (s - self.s0)

    def matrix(self, s: HostArray) -> NDArray[np.float64]:
        """Return J'HJ of each sequence at its state, (B, n, n): column j is the product with e_j."""
        B, n = s.shape
        G = np.empty((B, n, n))
        for columns in _pieces(n, max(self.size // B, 1)):
            m = columns.stop - columns.start
            if self.products is None or self.products[0] != m:
                self.products = m, Sweep(self.net, _copies(self.batch, m), 1.0)
            state, unit = self.state(np.repeat(s, m, axis=0)), np.tile(np.eye(n)[columns], (B, 1))
            found = self.products[1].state_product(self.theta, state, self.state(unit, tangent=True))
            G[:, :, columns] = state_rows(found).reshape(B, m, n).swapaxes(1, 2)
        return (G + G.swapaxes(1, 2)) / 2

    def state(self, rows: HostArray, tangent: bool = False) -> States:
        """Return rows (B, n) as a state of B sequences; a tangent has no integers."""
        found: States = state_of_rows(self.net.layers, rows)
        return found if tangent else [layer | own for layer, own in zip(found, self.integers, strict=True)]


def solve(G: NDArray[np.float64], b: HostArray, shift: Any) -> HostArray:
    """Return the solutions of (G + shift*I) x = b for matrices (B, n, n); the shortest of those with a singular one."""
    shifted = G + np.reshape(shift, (-1, 1, 1)) * np.eye(G.shape[1])
    values, vectors = np.linalg.eigh(shifted)
    least = values[:, -1:] * (np.finfo(float).eps * len(G[0]))
    inverse = np.where(values > least, 1 / np.where(values > least, values, 1.0), 0.0)
    along = np.einsum("bij,bi->bj", vectors, b)
    found: HostArray = np.einsum("bij,bj->bi", vectors, inverse * along)
    return found


def _pieces(n: int, most: int) -> Iterator[slice]:
    for start in range(0, n, most):
        yield slice(start, min(start + most, n))


def _copies(batch: Batch, m: int) -> Batch:
    """Return a batch with m copies of each sequence, one after another."""
    found = copy.copy(batch)
    found.inputs, found.targets, found.weights = (
        None if x is None else np.repeat(x, m, axis=1) for x in (batch.inputs, batch.targets, batch.weights)
    )
    found.lengths = None if batch.lengths is None else np.repeat(batch.lengths, m)
    found.initial_state = None
    return found
