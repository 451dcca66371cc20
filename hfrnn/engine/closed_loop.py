"""Training through the feedback of a network: a share of its inputs are its own outputs of the step before.

F1  x_t[i] = gain * z_{t-1}[k] + offset  where m_t = 1, else the value of the data     feedback.py
F2  m_t = 1 with probability `share` for t >= warm_up, else 0                          Bengio and others 2015, 2
F3  u = mix(key + (t + 1) * GOLDEN) / 2^64 < share, key as in N4 of noise.py, with the part LOOP for the layer

R1  Rx_t[i] = m_t gain * Rz_{t-1}[k]                             F1 by the rules of [P]
R2  RU_t += Rx_t @ W_x                                           F1 of input_map.py, in every layer that reads x

B1  dx_t = dU_t @ W_x.T                                          adjoint of R2, the sum over these layers
                                                                 and, with `feedthrough`, what the outputs send to x_t
B2  dz_{t-1}[k] += m_t gain * dx_t[i]                            adjoint of R1

A step needs the outputs of the one before, so every segment has one step. The inputs x_t of all steps are kept. They
hold all of the last output that a segment needs, besides the state before it, to run again.

Reference: Bengio, Vinyals, Jaitly and Shazeer, "Scheduled sampling for sequence prediction with recurrent neural
networks", 2015. There, the gradient stops at the feedback; here it goes through.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.arrays.backend import Array, Backend, Buffers, host_copy
from hfrnn.checks import ZERO_TO_ONE, count, instance, number
from hfrnn.data.scaling import Scaling
from hfrnn.engine.batch import Batch
from hfrnn.engine.feedback import FedInputs, Feedback, listed_columns, make_feedback
from hfrnn.engine.heads.output_map import INPUT
from hfrnn.engine.input_map import Groups, InputMap
from hfrnn.engine.layers import Layer
from hfrnn.engine.noise import checked_sequences, numbers_of, random_bits, stream_keys
from hfrnn.engine.states import States
from hfrnn.engine.sweep import Segment, Sweep
from hfrnn.errors import InputError
from hfrnn.kernels.base import Tape
from hfrnn.kernels.pointwise import rows

if TYPE_CHECKING:
    from hfrnn.engine.layout import Layout

LOOP = 2**32
"""The part of N4 in the place of a layer: no noise has this stream."""


class ClosedLoop:
    """The inputs of a batch that are replaced by outputs of the step before, in every loss, gradient and product.

    Parameters
    ----------
    share : float
        Share of the steps, from 0 to 1, whose inputs are replaced, drawn for each sequence and step.
    feedback : sequence of int or None, optional
        For each output, the input that it is one step later, counted from 0; None for an output that is not fed back.
        By default the outputs are the inputs, all of them in the same order.
    scaling : Scaling, optional
        The scaling of the data, if the batch is scaled: outputs have the units of targets, and become inputs.
    warm_up : int
        Steps at the beginning of each sequence that are read from the data, 1 or more.
    seed : int
        0 or more.
    draw : int
        Number of the draw, 0 or more: the same draw replaces the same inputs. Training makes one draw per update.
    sequences : (B,) integers, optional
        A number, 0 or more, for each sequence of the batch, as for `StateNoise`. By default 0, 1, ..., B-1.

    Raises
    ------
    InputError
        A number is out of its range.

    Notes
    -----
    The derivatives are exact: they go through the feedback. Each step runs by itself, which takes longer than a
    segment of many steps. The loss is the squared one.

    Examples
    --------
    A network reads u and y, and predicts the next y. All inputs y but the first are its own outputs:

    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> batch = hfrnn.Batch(np.ones((5, 4, 2)), np.ones((5, 4, 1)))
    >>> theta = net.init(seed=0)
    >>> closed = hfrnn.Objective(net, batch, closed_loop=hfrnn.ClosedLoop(feedback=[1]))
    >>> score = hfrnn.score_free_run(net, theta, batch, feedback=[1])
    >>> bool(np.isclose(closed.loss(theta), score.overall["mse"] / 2))
    True
    """

    def __init__(
        self, share: float = 1.0, feedback: FedInputs | None = None, scaling: Scaling | None = None, warm_up: int = 1,
        seed: int = 0, draw: int = 0, sequences: Any = None,
    ) -> None:  # fmt: skip
        self.share: float = number("share", share, ZERO_TO_ONE)
        self.warm_up: int = count("warm_up", warm_up, 1)
        self.seed: int = count("seed", seed)
        self.draw: int = count("draw", draw)
        instance("scaling", scaling, Scaling, "the scaling of the run, as hfrnn.load_scaling returns it", or_none=True)
        self.feedback = None if feedback is None else listed_columns(feedback)
        self.scaling = scaling
        self.sequences = checked_sequences(sequences)

    def __repr__(self) -> str:
        return f"ClosedLoop(share={self.share:g}, warm_up={self.warm_up}, seed={self.seed}, draw={self.draw})"

    def of_batch(self, net: Layout, batch: Batch) -> LoopOfBatch:
        """Return the loop for a network and a batch; raise InputError if they have no feedback."""
        numbers = numbers_of("loop", self.sequences, batch.B)
        if batch.symbols:
            raise InputError("the inputs of the batch are symbols, and feedback needs real inputs: give (T, B, n_in)")
        keys = stream_keys(stream_keys(stream_keys(stream_keys(np.zeros(1, np.uint64), self.seed), self.draw), LOOP),
                           numbers)  # fmt: skip
        steps = np.arange(batch.T)
        bits = random_bits(keys[None, :], steps[:, None])  # (T, B)
        chosen = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 < self.share  # F3
        return LoopOfBatch(make_feedback(net, self.feedback, self.scaling), chosen & (steps[:, None] >= self.warm_up))


class LoopOfBatch:
    """The feedback of a network, and which inputs (T, B) of a batch or of a shard it replaces (F2)."""

    def __init__(self, feedback: Feedback, chosen: NDArray[np.bool_]) -> None:
        self.feedback, self.chosen = feedback, chosen

    def part(self, start: int, stop: int) -> LoopOfBatch:
        """Return the loop of the sequences from `start` up to, but not including, `stop`."""
        return LoopOfBatch(self.feedback, self.chosen[:, start:stop])


class LoopInputs(InputMap):
    """The input map of one shard whose inputs of a step may be outputs of the step before.

    `fed` says for each step, and one after the last, whether it has such inputs. x, Rx and dx are the inputs (T, B,
    n_in), their tangents, and the adjoint (1, B, n_in) of those of the last step that ran backward.
    """

    def __init__(self, layers: tuple[Layer, ...], batch: Batch, n_in: int, backend: Backend, scratch: Buffers,
                 loop: LoopOfBatch) -> None:  # fmt: skip
        super().__init__(layers, n_in, None, backend, batch.inputs, scratch)
        chosen = loop.chosen[: batch.T]
        if batch.lengths is not None:
            chosen = chosen & (np.arange(batch.T)[:, None] < host_copy(batch.lengths))  # zeros stay in the padding
        self.fed: list[bool] = np.append(chosen.any(axis=1), False).tolist()
        kind = "float64" if scratch.dtype.kind == "c" else scratch.dtype
        asarray, feedback = backend.asarray, loop.feedback
        self.chosen = asarray(chosen)[:, :, None]
        self.outputs, self.columns = asarray(feedback.outputs), asarray(feedback.inputs)
        self.gain, self.offset = (asarray(each, dtype=kind) for each in (feedback.gain, feedback.offset))
        x: Array = asarray(batch.inputs, dtype=scratch.dtype).copy()
        self.values = self.x = x
        self.narrow = self.extended = None  # U is more than the factors
        self.dx, self._of_output = (backend.zeros((1, batch.B, n_in), scratch.dtype) for _ in range(2))

    @cached_property
    def Rx(self) -> Array:
        """The tangents (T, B, n_in) of the inputs, which products alone need."""
        return self.backend.zeros(self.x.shape, self.x.dtype)

    def rforward(
        self, l: int, p: Groups, v: Groups, span: slice, below: Array | None, Rbelow: Array | None, RU: Array
    ) -> None:
        """Compute RU (1, B, slots) of layer l, the tangent along the parameter direction v."""
        super().rforward(l, p, v, span, below, Rbelow, RU)
        if self.fed[span.start]:
            for start, first, width in self.layers[l].direct.runs:
                W = p[f"layer{l}"]["W_x"][:, first : first + width]
                RU[:, :, start : start + width] += self.Rx[span] @ W  # R2

    def backward(
        self, l: int, p: Groups, span: slice, below: Array | None, dU: Array, dbelow: Array | None, grad: Groups
    ) -> None:
        """Add the weight gradients of layer l to grad, and its part to dbelow and to the adjoint of the inputs."""
        super().backward(l, p, span, below, dU, dbelow, grad)
        if self.fed[span.start]:
            for start, first, width in self.layers[l].direct.runs:
                W = p[f"layer{l}"]["W_x"][:, first : first + width]
                rows(self.dx)[...] += rows(dU)[:, start : start + width] @ W.T  # B1

    def dense_tangent(self, v: Groups, span: slice) -> Array:
        """Return the tangent Rx (1, B, n_in), with which `feedthrough` feeds the output."""
        return self.Rx[span]

    def dense_backward(self, span: slice, dx: Array, grad: Groups) -> None:
        """Keep dx (1, B, n_in), what the loss sends to the inputs of a step by `feedthrough`."""
        self._of_output[...] = dx

    def begin_adjoint(self, more: Array | None) -> None:
        """Let dx begin with what `feedthrough` sends: from the loss, and `more` (1, B, n_in) from the next step."""
        self.dx[...] = self._of_output  # B1
        if more is not None:
            self.dx += more  # B1

    def feed(self, t: int, z: Array) -> None:
        """Replace the chosen inputs of step t by outputs z (B, n_out) of the step before (F1)."""
        x = self.x[t]
        fed = self.gain * z[:, self.outputs] + self.offset
        x[:, self.columns] = self.xp.where(self.chosen[t], fed, x[:, self.columns])  # F1

    def feed_tangent(self, t: int, Rz: Array) -> None:
        """Set the tangent of the inputs of step t, given that of the outputs of the step before (R1)."""
        self.Rx[t][:, self.columns] = self.xp.where(self.chosen[t], self.gain * Rz[:, self.outputs], 0)  # R1

    def adjoint(self, t: int, n_out: int) -> Array:
        """Return the adjoint (1, B, n_out) of the outputs before step t that follows from that of its inputs (B2)."""
        dz = self.backend.zeros((*self.dx.shape[:2], n_out), self.dx.dtype)
        dx = self.dx[0][:, self.columns]
        dz[0][:, self.outputs] = self.xp.where(self.chosen[t], self.gain * dx, 0)  # B2
        return dz


class ClosedLoopSweep(Sweep):
    """The passes of one shard whose inputs may be outputs of the step before: a `Sweep` with segments of one step."""

    inputs: LoopInputs
    factors_adjoints = False

    def __init__(self, layout: Layout, batch: Batch, total_weight: float, loop: LoopOfBatch, **how: Any) -> None:
        super().__init__(layout, batch, total_weight, **{**how, "boundaries": range(batch.T + 1)})
        self.inputs = LoopInputs(layout.layers, batch, layout.n_in, self.backend, self.scratch, loop)
        self._tape = Tape("loop.", self.scratch, self.scratch)

    def _forward(self, segment: Segment, state: States, records: bool) -> States:
        after = super()._forward(segment, state, records)
        if self.inputs.fed[segment.span.stop]:
            z = self.layout.head.outputs(self.p["output"], self.fed(segment), self._tape)
            self.inputs.feed(segment.span.stop, z[0])
        return after

    def _rforward(self, segment: Segment, v: Groups, Rstate: States) -> States:
        after = super()._rforward(segment, v, Rstate)
        if self.inputs.fed[segment.span.stop]:
            own, vown, fed, Rfed = self.p["output"], v["output"], self.fed(segment), self.Rfed(segment, v)
            Rz = self.layout.head.routputs(own, vown, fed, Rfed, self._tape)
            self.inputs.feed_tangent(segment.span.stop, Rz[0])
        return after

    def _backward(
        self, segment: Segment, dhs: list[Array], dstate: States, grad: Groups,
        preactivation_adjoints: list[Array] | None = None,
    ) -> States:  # fmt: skip
        of_input = None
        if self.inputs.fed[segment.span.stop]:
            head, t = self.layout.head, segment.span.stop
            shape = dhs[0].shape[:2]
            more = {l: self.scratch.get(f"loop_dhs{l}", (*shape, width)) for l, width in head.widths.items()}
            dz = self.inputs.adjoint(t, head.n_outputs)
            head.backward(self.p["output"], self.fed(segment), dz, self._tape, grad["output"], more)
            of_input = more.pop(INPUT, None)
            for l, dh in more.items():
                dhs[l] += dh
        self.inputs.begin_adjoint(of_input)
        return super()._backward(segment, dhs, dstate, grad, preactivation_adjoints)
