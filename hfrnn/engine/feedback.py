"""The feedback of a network whose outputs are inputs one step later, and the units that it converts.

F1  x_t[i] = gain * z_{t-1}[k] + offset        for each output k that is fed back, to the input i

gain and offset undo the scaling of the targets and redo that of the inputs, in one step:

F2  gain = s_k / d_i,  offset = (m_k - a_i) / d_i     m, s: mean and deviation of the targets; a, d: of the inputs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.arrays.backend import HostArray
from hfrnn.checks import is_whole, shown, wrong
from hfrnn.errors import InputError, Message

if TYPE_CHECKING:
    from hfrnn.data.scaling import Scaling
    from hfrnn.engine.layout import Layout

FedInputs = Sequence[int | None] | NDArray[np.integer[Any]]
"""For each output, the input that it is one step later, counted from 0; None for an output that is not fed back."""


class Feedback:
    """The outputs (n,) and inputs (n,) of one network that belong together, and the affine map between them (F2).

    Attributes
    ----------
    outputs, inputs : (n,) int64
    gain, offset : (n,) float64
    whole : bool
        Whether every input is fed back, so that no data are needed to run on.
    """

    def __init__(self, outputs: HostArray, inputs: HostArray, n_in: int, scaling: Scaling | None = None) -> None:
        self.outputs, self.inputs, self.whole = outputs, inputs, len(inputs) == n_in
        a, d, m, s = np.zeros(n_in), np.ones(n_in), np.zeros(outputs.max() + 1), np.ones(outputs.max() + 1)
        if scaling is not None and scaling.input_mean is not None and scaling.input_deviation is not None:
            a, d = scaling.input_mean, scaling.input_deviation
        if scaling is not None and scaling.target_mean is not None and scaling.target_deviation is not None:
            m, s = scaling.target_mean, scaling.target_deviation
        self.gain: HostArray = s[outputs] / d[inputs]  # F2
        self.offset: HostArray = (m[outputs] - a[inputs]) / d[inputs]  # F2

    def write(self, z: HostArray, x: HostArray) -> None:
        """Overwrite the inputs x (..., n_in) that are fed back by outputs z (..., n_out) of the step before (F1)."""
        x[..., self.inputs] = self.gain * z[..., self.outputs] + self.offset  # F1


def listed_columns(columns: Any) -> list[int | None]:
    """Return columns as a list; raise InputError unless each is a whole number, 0 or more, or None."""
    listed = isinstance(columns, list | tuple | range) or getattr(columns, "ndim", 0) == 1
    found: list[Any] = list(columns) if listed else []
    if not found or not all(each is None or (is_whole(each) and each >= 0) for each in found):
        raise wrong("feedback", columns, "give a list with the number of an input, or None, for each output", True)
    return [None if each is None else int(each) for each in found]


def make_feedback(net: Layout, columns: FedInputs | None, scaling: Scaling | None = None) -> Feedback:
    """Return the feedback of a network.

    Parameters
    ----------
    net : Layout
        With real inputs and the squared loss.
    columns : sequence of int or None, optional
        As above; by default the outputs are the inputs, all of them in the same order.
    scaling : Scaling, optional
        That of the network.

    Raises
    ------
    InputError
        The outputs cannot be inputs.
    """
    if net.loss_name != "squared" or net.embedding is not None or (columns is None and net.n_in != net.n_out):
        raise InputError(Message(
            "the outputs of this network cannot be its inputs: n_in is {0}, n_out is {1} and the loss is {2!r}; a free "
            "run needs real inputs, the loss 'squared', and as many outputs as inputs or {feedback!s}",
            net.n_in, net.n_out, net.loss_name,
        ))  # fmt: skip
    if columns is None:
        return Feedback(np.arange(net.n_out), np.arange(net.n_in), net.n_in, scaling)
    given: list[Any] = listed_columns(columns)
    fitting = len(given) == net.n_out and all(each is None or each < net.n_in for each in given)
    pairs = [(k, int(each)) for k, each in enumerate(given) if each is not None] if fitting else []
    if not pairs or len({i for _, i in pairs}) < len(pairs):
        held = ", ".join(map(shown, given[:8]))
        raise InputError(Message(
            "{feedback!s} is [{0}]: give a list with an input for each of the {1} outputs, a different number from 0 "
            "to {2}, or None for an output that is not fed back", held, net.n_out, net.n_in - 1,
        ))  # fmt: skip
    outputs, inputs = np.array(pairs).T
    return Feedback(outputs, inputs, net.n_in, scaling)
