"""Dynamic evaluation: a network goes on learning from each stretch of a text, once that stretch has been scored.

    delta <- (1 - d) * delta - p * g,    theta = theta_0 + delta                                     # D1

theta_0 are the trained weights, which stay as they are; g is the gradient of the mean loss of the stretch's symbols,
sent back to the stretch's beginning, and shortened to norm LONGEST where it is longer: at a few places of a text it may
explode. The state is carried on as it was when the stretch was scored. There are two rules:

    SGD    p = rate,                 d = decay                                                       # D2
    RMS    p = rate / (s + 0.1),     d = min(decay * s, 1),     s = r / mean(r),  r = sqrt(mean square)      # D3

where `mean square` is that of g over training data, entry by entry: a weight moves in units of its own usual gradient,
and what usually moves much is drawn back faster. The rate of both is in units of SGD's; the authors' is rate * mean(r).

Sources: Mikolov et al. 2010, "Recurrent neural network based language model" (SGD, no decay); Krause et al. 2018,
"Dynamic evaluation of neural sequence models" (decay; RMS with global statistics, its 0.1 an epsilon to be tuned).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.arrays.vectors import is_finite, norm
from hfrnn.data.streams import TextStreams
from hfrnn.engine.batch import Batch, State
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Keep, Plan
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.ranges import NOT_NEGATIVE, ZERO_TO_ONE, require

STRETCH = 20
SGD_DEFAULTS = {"learning_rate": 0.02, "decay": 0.0}
RMS_DEFAULTS = {"learning_rate": 0.1, "decay": 0.002}
"""What was best on one half of a validation part (docs/evaluation.md)."""
EPSILON = 0.1
"""What keeps the division in D3 from zero."""
LONGEST = 10.0
"""The norm that a gradient may have; of trained networks that of a stretch is about 3 (docs/evaluation.md)."""
STREAMS = 32
"""Stretches side by side whose mean gradient makes one square of the statistics."""
STATISTICS = 100_000
"""Training symbols that the statistics are taken from, unless given."""


class Dynamic:
    """How a network goes on learning while it is scored: what `hfrnn.evaluate` takes as `dynamic`.

    Parameters
    ----------
    learning_rate : float, optional
        0 or more. By default 0.02, and 0.1 for RMS.
    stretch : int
        Symbols from one update to the next, 1 or more; the gradient goes no further back.
    decay : float, optional
        The share of the way back to the trained weights that an update goes, 0 to 1; of RMS, that of a weight whose s
        is 1. By default 0, and 0.002 for RMS.
    mean_square : (n_parameters,) NumPy array, optional
        As `mean_square_gradient` makes it, for stretches of that length: asks for RMS. Without it the rule is SGD.

    Raises
    ------
    InputError
        A number out of its range.
    """

    def __init__(
        self,
        learning_rate: float | None = None,
        stretch: int = STRETCH,
        decay: float | None = None,
        mean_square: HostArray | None = None,
    ) -> None:
        defaults = SGD_DEFAULTS if mean_square is None else RMS_DEFAULTS
        self.learning_rate = defaults["learning_rate"] if learning_rate is None else learning_rate
        self.decay = defaults["decay"] if decay is None else decay
        self.stretch, self.mean_square = stretch, mean_square
        require("learning_rate", self.learning_rate, NOT_NEGATIVE)
        require("decay", self.decay, ZERO_TO_ONE)
        if stretch < 1:
            raise InputError(f"stretch is {stretch}: give a whole number of symbols, 1 or more")

    def factors(self, net: Network) -> tuple[Any, Any]:
        """p and 1 - d of D1: numbers for SGD, vectors (n_parameters,) of the network's type for RMS.

        Raises
        ------
        InputError
            The mean squares are not of this network, negative, not finite, or all 0.
        """
        if self.mean_square is None:
            return self.learning_rate, 1.0 - self.decay  # D2
        squares = np.asarray(self.mean_square, dtype=np.float64)
        if squares.shape != (net.n_parameters,):
            raise InputError(
                f"mean_square has shape {squares.shape}: this network has {net.n_parameters} weights; give what "
                "mean_square_gradient makes of it"
            )
        if not (np.isfinite(squares).all() and squares.min() >= 0 and squares.max() > 0):
            raise InputError("mean_square holds no mean squares: give what mean_square_gradient makes of the network")
        r = np.sqrt(squares)
        s = r / r.mean()
        p, d = self.learning_rate / (s + EPSILON), np.minimum(self.decay * s, 1.0)  # D3
        return net.backend.asarray(p, dtype=net.dtype), net.backend.asarray(1.0 - d, dtype=net.dtype)


class Learner:
    """A network's weights while it learns from one stretch after another.

    Parameters
    ----------
    net : Network
    theta : (n_parameters,) array
        The trained weights, which are not written.
    dynamic : Dynamic
    """

    def __init__(self, net: Network, theta: Array, dynamic: Dynamic) -> None:
        self._gradients = Gradients(net)
        self._p, self._keep = dynamic.factors(net)
        self._trained = net.backend.asarray(theta, dtype=net.dtype)
        self._delta = net.backend.zeros((net.n_parameters,), net.dtype)

    def learn(self, theta: Array, batch: Batch) -> Array:
        """The weights after an update on a stretch that `theta`, the present ones, have scored: a fresh vector.

        Raises
        ------
        NonFiniteError
            They are not finite.
        """
        gradient, _ = self._gradients(theta, batch)
        length = norm(gradient)
        with np.errstate(over="ignore", invalid="ignore"):  # likewise
            if length > LONGEST:
                gradient *= LONGEST / length
            gradient *= self._p
            self._delta *= self._keep
            self._delta -= gradient
            after = self._trained + self._delta  # D1
        if not is_finite(after):
            raise NonFiniteError("the weights are no longer finite in dynamic evaluation: give a smaller learning rate")
        return after


class Gradients:
    """Gradients of the mean loss of one batch after another, on one thread, without a penalty on the weights.

    Parameters
    ----------
    net : Network
    """

    def __init__(self, net: Network) -> None:
        self._net = copy.copy(net)
        self._net.l2 = 0.0
        self._last: Objective | None = None

    def __call__(self, theta: Array, batch: Batch) -> tuple[Array, State]:
        """A fresh vector (n_parameters,), finite or not, and the state after the batch."""
        plan = Plan((0, batch.B), None, Keep.STATES)
        objective = self._last = Objective(self._net, batch, threads=1, plan=plan, like=self._last)
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused
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
    """The mean of g*g over a training text, entry by entry: the global statistics of D3.

    The text is read as up to 32 streams side by side, their states carried from stretch to stretch; g is the gradient
    of the mean loss of all streams' stretches.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    symbols : (n,) integers
        What the network was trained on, as `vocabulary.encode` gives it; one stretch and a symbol at least.
    stretch : int
        Symbols of a stretch, 1 or more: that of the `Dynamic` to come.
    most : int
        Symbols to take, from each stream's beginning on; one stretch of each stream is always taken.
    progress : callable, optional
        Called with the number of symbols done and of all.

    Returns
    -------
    (n_parameters,) NumPy array in float64

    Raises
    ------
    InputError
        A number out of range, or a text that is too short.
    NonFiniteError
        The gradient is not finite.
    """
    row = np.asarray(symbols)
    if stretch < 1 or row.size < stretch + 1:
        raise InputError(
            f"statistics over stretches of {stretch} symbols were asked for, of a training text of {row.size}: give "
            "stretches of 1 or more that are shorter than the text"
        )
    count = min(STREAMS, (row.size - 1) // stretch)
    streams = TextStreams(row, count, stretch, stretch)
    stretches = max(min(streams.length, most // count) // stretch, 1)
    gradient_of = Gradients(net)
    state: State = net.zero_state(count)
    total = net.backend.zeros((net.n_parameters,), "float64")
    for n in range(stretches):
        inputs, targets = streams.steps(n * stretch, (n + 1) * stretch)
        gradient, state = gradient_of(theta, Batch(inputs, targets, initial_state=state))
        wide = gradient.astype("float64")
        wide *= wide
        total += wide
        if progress is not None:
            progress((n + 1) * stretch * count, stretches * stretch * count)
    if not is_finite(total):
        raise NonFiniteError("the training gradient is not finite: the weights are too large, use another checkpoint")
    squares: HostArray = net.backend.to_host(total) / stretches
    return squares
