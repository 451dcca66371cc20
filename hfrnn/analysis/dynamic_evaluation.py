"""Dynamic evaluation: a network continues to learn while it is scored, from each segment of the text after its score.

    delta <- (1 - d) * delta - p * g,    theta = theta_0 + delta                                     # D1

theta_0 are the trained weights, which do not change. g is the gradient of the mean loss over the segment's symbols,
propagated back to the beginning of the segment. If its norm is above LONGEST it is scaled down to that norm, because
gradients can explode at a few places of a text. The next segment starts from the state that the scoring of this segment
ended with. There are two rules:

    SGD    p = rate,                 d = decay                                                       # D2
    RMS    p = rate / (s + 0.1),     d = min(decay * s, 1),     s = r / mean(r),  r = sqrt(mean square)      # D3

where `mean square` is the mean of g*g over training data, entry by entry. So each weight moves in units of its own
typical gradient, and weights with large gradients decay faster. Both rules use SGD's unit of the learning rate; in the
paper the rate is rate * mean(r).

With constraints, absent weights take no part: their g is 0, and the means are over the others. After D1, a weight of
the wrong sign becomes 0.

References: Mikolov et al. 2010, "Recurrent neural network based language model" (SGD, no decay); Krause et al. 2018,
"Dynamic evaluation of neural sequence models" (decay; RMS with global statistics, its 0.1 an epsilon to be tuned).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hfrnn import checks
from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import Array, HostArray, get_backend
from hfrnn.arrays.vectors import is_finite, norm
from hfrnn.checks import NOT_NEGATIVE, ZERO_TO_ONE, function, instance, number
from hfrnn.data.streams import TextStreams
from hfrnn.engine.batch import Batch, State
from hfrnn.engine.constraints import ABSENT, Constraints
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Keep, Plan
from hfrnn.errors import InputError, NonFiniteError

STRETCH = 20
SGD_DEFAULTS, RMS_DEFAULTS = (0.02, 0.0), (0.1, 0.002)
"""Learning rate and decay: the best values on one half of a validation part (docs/evaluation.md)."""
EPSILON = 0.1
"""The constant that keeps the divisor in D3 above zero."""
LONGEST = 10.0
"""The largest norm of a gradient; for a segment and a trained network it is about 3 (docs/evaluation.md)."""
STREAMS = 32
"""Parallel segments whose mean gradient is squared once for the statistics."""
STATISTICS = 100_000
"""Training symbols used for the statistics by default."""


class Dynamic:
    """How a network learns while it is scored: the argument `dynamic` of `hfrnn.evaluate`.

    Parameters
    ----------
    learning_rate : float, optional
        0 or more. The default is 0.02 for SGD and 0.1 for RMS.
    stretch : int
        Length of a segment in symbols, 1 or more: there is one update per segment, and its gradient is propagated back
        to the beginning of the segment.
    decay : float, optional
        The share of the distance to the trained weights that each update moves back, 0 to 1; for RMS the share of a
        weight with s = 1. The default is 0 for SGD and 0.002 for RMS.
    mean_square : (n_parameters,) NumPy array, optional
        The result of `mean_square_gradient` for segments of this length. It selects the rule RMS; without it the rule
        is SGD.
    constraints : Constraints, optional
        Absent weights and signs of the network, which its weights keep while it learns.

    Examples
    --------
    >>> import hfrnn
    >>> hfrnn.Dynamic(learning_rate=0.1)
    <Dynamic SGD: learning rate 0.1, decay 0, 20 symbols>
    """

    def __init__(
        self,
        learning_rate: float | None = None,
        stretch: int = STRETCH,
        decay: float | None = None,
        mean_square: HostArray | None = None,
        constraints: Constraints | None = None,
    ) -> None:
        own = "a hfrnn.Constraints"
        self.constraints = instance("constraints", constraints, Constraints, own, or_none=True)
        rate, share = SGD_DEFAULTS if mean_square is None else RMS_DEFAULTS
        self.learning_rate = number("learning_rate", rate if learning_rate is None else learning_rate, NOT_NEGATIVE)
        self.decay = number("decay", share if decay is None else decay, ZERO_TO_ONE)
        self.stretch = checks.count("stretch", stretch, 1, unit="symbols")
        self.mean_square = None
        if mean_square is not None:
            self.mean_square = array("mean_square", mean_square, (None,), backend=get_backend("numpy"), finite=True)
            if self.mean_square.size and self.mean_square.min() < 0:
                raise InputError("mean_square has an entry below 0: give the result of mean_square_gradient")

    def __repr__(self) -> str:
        rule = "SGD" if self.mean_square is None else "RMS"
        return f"<Dynamic {rule}: learning rate {self.learning_rate:g}, decay {self.decay:g}, {self.stretch} symbols>"

    def factors(self, net: Network) -> tuple[Any, Any]:
        """Return p and 1 - d of D1: numbers for SGD, vectors (n_parameters,) of the network's dtype for RMS.

        InputError is raised if the mean squares or the constraints do not fit this network, or if the mean squares are
        negative, not finite, or all 0 where weights exist.
        """
        instance("net", net, Network, "a hfrnn.Network")
        codes = None if self.constraints is None else self.constraints.codes
        if codes is not None and codes.size != net.n_parameters:
            raise InputError(
                f"constraints is for {codes.size} weights: this network has {net.n_parameters}, give its own"
            )
        if self.mean_square is None:
            return self.learning_rate, 1.0 - self.decay  # D2
        squares = np.asarray(self.mean_square, dtype=np.float64)
        if squares.shape != (net.n_parameters,):
            raise InputError(
                f"mean_square has shape {squares.shape}, and this network has {net.n_parameters} weights: give the "
                "result of mean_square_gradient for this network"
            )
        exists = slice(None) if codes is None else codes != ABSENT
        if not (np.isfinite(squares).all() and squares.min() >= 0 and squares[exists].max(initial=0.0) > 0):
            raise InputError("mean_square holds no mean squares: give the result of mean_square_gradient")
        r = np.sqrt(squares)
        s = r / r[exists].mean()
        p, d = self.learning_rate / (s + EPSILON), np.minimum(self.decay * s, 1.0)  # D3
        return net.backend.asarray(p, dtype=net.dtype), net.backend.asarray(1.0 - d, dtype=net.dtype)


class Learner:
    """The weights of a network that learns from one segment after another; `theta`, the trained ones, stay the same."""

    def __init__(self, net: Network, theta: Array, dynamic: Dynamic) -> None:
        self._gradients = Gradients(net)
        self._p, self._keep = dynamic.factors(net)
        self._constraints = dynamic.constraints
        self._trained = net.vector(theta)
        self._delta = net.backend.zeros((net.n_parameters,), net.dtype)

    def learn(self, theta: Array, batch: Batch) -> Array:
        """Return the weights after an update on one segment, which was scored with the weights theta."""
        gradient, _ = self._gradients(theta, batch)
        if self._constraints is not None:
            self._constraints.restrict(gradient)
        length = norm(gradient)
        with np.errstate(over="ignore", invalid="ignore"):  # results that are not finite are refused below
            if length > LONGEST:
                gradient *= LONGEST / length
            gradient *= self._p
            self._delta *= self._keep
            self._delta -= gradient
            after = self._trained + self._delta  # D1
            if self._constraints is not None:
                after = self._constraints.nearest(after)
                self._delta = after - self._trained
        if not is_finite(after):
            raise NonFiniteError("the weights are no longer finite in dynamic evaluation: give a smaller learning rate")
        return after


class Gradients:
    """Gradients of the mean loss of one batch after another, on one thread, without the l2 penalty."""

    def __init__(self, net: Network) -> None:
        self._net = net.without_penalty()
        self._last: Objective | None = None

    def __call__(self, theta: Array, batch: Batch) -> tuple[Array, State]:
        """Return the gradient, a new vector (n_parameters,) that may not be finite, and the state after the batch."""
        plan = Plan((0, batch.B), None, Keep.STATES)
        objective = self._last = Objective(self._net, batch, threads=1, plan=plan, like=self._last)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses results that are not finite
            _, gradient = objective.loss_and_gradient(theta)
        return gradient, objective.final_state()


def mean_square_gradient(
    net: Network,
    theta: Array,
    symbols: ArrayLike,
    stretch: int = STRETCH,
    most: int = STATISTICS,
    progress: Callable[[int, int], object] | None = None,
) -> HostArray:
    """Return the mean of g*g over a training text, entry by entry: the global statistics of D3.

    The text is read as up to 32 parallel streams whose states are carried from segment to segment. g is the gradient of
    the mean loss over the current segments of all streams.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    symbols : (n,) integers
        The training text, encoded by `vocabulary.encode`; at least one symbol more than a segment.
    stretch : int
        Length of a segment in symbols, 1 or more; use the same length in `Dynamic`.
    most : int
        The number of symbols to use, from the beginning of each stream; at least one segment of each stream is used.
    progress : callable, optional
        Called with the number of symbols done and the number in all.

    Returns
    -------
    (n_parameters,) NumPy array in float64

    Raises
    ------
    InputError
        The text is too short.
    NonFiniteError
        The gradient is not finite.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"arch": "lstm", "hidden": 4, "optimizer": "adam", "updates": 2, "sample_length": 0}
    >>> result = hfrnn.train(**options, out="run")  # on the built-in text
    >>> net, theta, vocabulary = hfrnn.load("run")
    >>> symbols = vocabulary.encode("A module is a file. " * 9)
    >>> hfrnn.mean_square_gradient(net, theta, symbols).shape == theta.shape
    True
    """
    theta = instance("net", net, Network, "a hfrnn.Network").vector(theta)
    stretch, most = checks.count("stretch", stretch, 1, unit="symbols"), checks.count("most", most, 1, unit="symbols")
    function("progress", progress, "done, total", or_none=True)
    row = array("symbols", symbols, (None,), "iu", backend=get_backend("numpy"))
    if row.size and (row.min() < 0 or row.max() >= net.n_in):
        raise InputError(f"symbols go from {row.min()} to {row.max()}: give symbols from 0 to {net.n_in - 1}")
    if row.size < stretch + 1:
        raise InputError(
            f"statistics over segments of {stretch} symbols need more than {row.size} symbols of training text: give "
            "segments that are shorter than the text"
        )
    count = min(STREAMS, (row.size - 1) // stretch)
    streams = TextStreams(row, count, stretch, stretch)
    segments = max(min(streams.length, most // count) // stretch, 1)
    gradient_of = Gradients(net)
    state: State | None = None
    total = net.backend.zeros((net.n_parameters,), "float64")
    for n in range(segments):
        inputs, targets = streams.steps(n * stretch, (n + 1) * stretch)
        gradient, state = gradient_of(theta, Batch(inputs, targets).with_state(state))
        wide = gradient.astype("float64")
        wide *= wide
        total += wide
        if progress is not None:
            progress((n + 1) * stretch * count, segments * stretch * count)
    if not is_finite(total):
        raise NonFiniteError("the training gradient is not finite: the weights are too large, use another checkpoint")
    return np.asarray(net.backend.to_host(total) / segments)
