"""One step of a network as a map of vectors, with its exact derivatives, for many states at once, in float64.

The map is h_t = F(h_{t-1}, u_t), where h holds all state entries (`state_vectors.py`) and u the inputs. With all
parameters at rest (v = 0), the kernels' R-forward is the product with its Jacobian, and their backward the product with
the transposed one:

F1  U_t = u_t @ W_x + below_t @ W_below + b             SPEC 1; a symbol is a unit vector u, E @ W_x with an embedding
R1  RU_t = Ru_t @ W_x + Rbelow_t @ W_below              F1 by the rules of [P], along h and u only
B1  dbelow_t += dU_t @ W_below.T                        adjoint of F1
B2  du_t = sum over layers of dU_t @ W_x.T              adjoint of F1

A Jacobian takes n + n_in R-passes per state, or n reverse passes. They run side by side: the batch holds copies of each
state, one for each direction. A pass of each kind costs about the same, so the kind with fewer passes is used.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hfrnn.arrays.array_checks import array, shown_type
from hfrnn.arrays.backend import Array, Buffers, HostArray, get_backend, host_copy
from hfrnn.checks import instance, is_whole
from hfrnn.data.scaling import Scaling
from hfrnn.dynamics.products import RepeatedRows, Zeros
from hfrnn.dynamics.state_vectors import Clock, StateVectors, on_host
from hfrnn.engine.batch import Batch, GivenState
from hfrnn.engine.layers import Columns
from hfrnn.engine.network import Network
from hfrnn.engine.states import SegmentStates
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.kernels.base import Tape

COLUMNS = 1024
"""About how many directions of all states run side by side."""


class InputWeights(NamedTuple):
    """What feeds the slots of one layer, all slots wide."""

    direct: HostArray  # (n_in, slots)
    below: HostArray | None  # (width of the layer below, slots)
    bias: HostArray  # (slots,)


class Linear(NamedTuple):
    """A step and its derivatives at B states."""

    after: HostArray  # (B, n)
    J: HostArray  # (B, n, n): J[b, i, j] = d after[b, i] / d before[b, j]
    Ju: HostArray | None  # (B, n, n_in)


class Transition:
    """One step of a network with given weights, on the host.

    Parameters
    ----------
    net : Network
    theta : (n_parameters,) array
    dtype : {"float64", "complex128"}
        complex128 is for complex steps.
    """

    def __init__(self, net: Network, theta: Array, dtype: str = "float64") -> None:
        weights = host_copy(instance("net", net, Network, "a hfrnn.Network").vector(theta))
        self.net = net.remade(dtype="float64", backend="numpy")
        self.places, self.dtype = StateVectors(self.net.layers), np.dtype(dtype)
        self.n, self.n_in = self.places.n, self.net.n_in
        if self.n == 0:
            raise InputError(f"{net.describe()} has no state: its outputs depend on the present input only")
        backend = get_backend("numpy")
        self.theta = weights.astype(np.float64)
        self.p = self.net.groups(self.theta, Buffers(backend, "float64"))
        self._still = {
            group: {name: Zeros.of_shape(x.shape) for name, x in blocks.items()} for group, blocks in self.p.items()
        }
        kept, scratch = Buffers(backend, dtype), Buffers(backend, dtype)
        self._tapes = [Tape(f"{l}.", kept, scratch) for l in range(len(self.net.layers))]
        self._weights = [self._input_weights(l) for l in range(len(self.net.layers))]

    def _input_weights(self, l: int) -> InputWeights:
        layer, own = self.net.layers[l], self.p[f"layer{l}"]
        width = self.n_in if self.net.embedding is None else self.net.embedding
        direct = _all_slots(layer.slots, layer.direct, own.get("W_x", np.zeros((width, 0))))
        if self.net.embedding is not None:
            direct = self.p["embedding"]["E"] @ direct
        below = _all_slots(layer.slots, layer.below, own["W_below"]) if layer.below.width else None
        bias = _all_slots(layer.slots, layer.bias, own["b"]) if layer.bias.width else np.zeros(layer.slots)
        return InputWeights(direct, below, bias)

    @property
    def period(self) -> int:
        """The number of steps after which the map repeats itself: that of a clockwork, else 1."""
        found = 1
        for layer, integers in zip(self.net.layers, self.places.clock(), strict=True):
            if integers:
                periods = getattr(layer.kernel, "periods", None)
                if not periods:
                    raise InputError(
                        f"the architecture {self.net.arch!r} counts its steps and has no attribute `periods`: its map "
                        "is another one at every step"
                    )
                found = math.lcm(found, *periods)
        return found

    # ------------------------------------------------------------------ inputs and states of a caller

    def inputs(self, inputs: Any, B: int, name: str = "inputs") -> HostArray:
        """Return inputs of one step, (B, n_in) real values or (B,) symbols, after checking them; one holds for all."""
        return self.series(inputs, (B,), name)

    def series(self, inputs: Any, shape: tuple[int, ...], name: str = "inputs") -> HostArray:
        """Return inputs of a shape (B,) or (T, B), with one more axis for real values, after checking them.

        Inputs of one step alone, or of one sequence where there are several, hold for all.
        """
        found = np.asarray(inputs) if is_whole(inputs) else on_host(name, inputs)
        axes = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        wanted = f"give real values ({', '.join(map(str, shape))}, {self.n_in}) or ({self.n_in},), or symbols ({axes})"
        symbols = found.dtype.kind in "iu"
        whole = shape if symbols else (*shape, self.n_in)
        if found.shape in (whole[len(shape) :], (*whole[: len(shape) - 1], 1, *whole[len(shape) :])):
            found = np.broadcast_to(found, whole)
        if found.shape != whole or found.dtype.kind not in "iuf":
            raise InputError(f"{name} has shape {found.shape} and type {shown_type(found)}: {wanted}")
        if not symbols:
            if self.net.embedding is not None:
                raise InputError(f"{name} has real values, and the network has an embedding: give integer symbols")
            return np.asarray(array(name, found, whole, finite=True), self.dtype)
        if found.size and not 0 <= int(found.min()) <= int(found.max()) < self.n_in:
            raise InputError(
                f"{name} has symbols from {found.min()} to {found.max()}: with n_in = {self.n_in} they lie in 0 to "
                f"{self.n_in - 1}"
            )
        return found.astype(np.int64)

    def time_series(self, inputs: Any, scaling: Scaling | None, name: str = "inputs") -> HostArray:
        """Return inputs of T steps, (T, B, n_in) or (T, B), as the network reads them, after checking them.

        Without the axis B they are those of one sequence.
        """
        instance("scaling", scaling, Scaling, "the scaling of the run, as hfrnn.load_scaling returns it", or_none=True)
        found = on_host(name, inputs)
        symbols = found.dtype.kind in "iu"
        if found.ndim == (1 if symbols else 2):
            found = found[:, None]
        if found.ndim != (2 if symbols else 3) or not found.size:
            raise InputError(
                f"{name} has shape {found.shape} and type {shown_type(found)}: give real values (T, B, {self.n_in}), "
                "time first, or integer symbols (T, B)"
            )
        series = self.series(found, found.shape[:2], name)
        return series if scaling is None or symbols else np.asarray(scaling.scale_inputs(series))

    def first_state(self, B: int, given: GivenState | None = None) -> tuple[HostArray, Clock]:
        """Return the vectors (B, n) and the integers before the first step.

        `given` is the initial state of a batch, in any of its forms; without one it is what the network has learned, or
        zeros.
        """
        batch = Batch(np.zeros((1, B), np.int64), initial_state=given)
        ready = self.net.prepare(batch, targets_needed=False)
        buffers = Buffers(get_backend("numpy"), "float64")
        return self.places.checked("initial_state", SegmentStates(self.net, ready, buffers, 0).initial(self.p))

    # ------------------------------------------------------------------ a step and its tangents and adjoints

    def forward(
        self, vectors: HostArray, inputs: HostArray, clock: Clock, records: bool = False
    ) -> tuple[HostArray, list[HostArray], Clock]:
        """Take one step: return the vectors (B, n) after it, what feeds the output, and the integers after it.

        What feeds the output is what each layer hands up and, with `feedthrough`, the inputs (B, n_in).
        """
        state, below = self.places.unpack(vectors.astype(self.dtype, copy=False), clock), None
        after, handed = [], []
        for l, layer in enumerate(self.net.layers):
            weights = self._weights[l]
            U = inputs @ weights.direct if inputs.ndim == 2 else weights.direct[inputs]
            if below is not None and weights.below is not None:
                U += below @ weights.below
            U += weights.bias  # F1
            self._tapes[l].records = records
            U = U.astype(self.dtype, copy=False)[None]
            hs, state_after = layer.kernel.forward(self.p[f"layer{l}"], U, state[l], self._tapes[l])
            below = hs[0]
            handed.append(below)
            after.append(state_after)
        if self.net.feedthrough:
            handed.append(self._fed(inputs))
        integers = [{key: x for key, x in layer.items() if isinstance(x, int)} for layer in after]
        return self.places.pack(after), handed, integers

    def tangents(
        self, Rvectors: HostArray, Rinputs: HostArray | None, times: int = 1
    ) -> tuple[HostArray, list[HostArray]]:
        """Return the tangents of `forward`'s vectors and of what feeds the output, after a step with `records`.

        `Rvectors` (d, n) and `Rinputs` (d, n_in), or None for zeros, are the tangents of the vectors and of the inputs;
        a symbol is a unit vector. Each holds for `times` states in succession: the step had d * times of them.
        """
        Rstate, Rbelow, B = self._repeated(Rvectors, times), None, len(Rvectors) * times
        after, handed = [], []
        for l, layer in enumerate(self.net.layers):
            weights = self._weights[l]
            RU = np.zeros((1, B, layer.slots), self.dtype)
            if Rinputs is not None:
                RU[0] += np.repeat(Rinputs @ weights.direct, times, axis=0)
            if Rbelow is not None and weights.below is not None:
                RU[0] += Rbelow @ weights.below  # R1
            group = f"layer{l}"
            Rhs, Rafter = layer.kernel.rforward(self.p[group], self._still[group], self._tapes[l], RU, Rstate[l])
            Rbelow = Rhs[0]
            handed.append(Rbelow)
            after.append(Rafter)
        if self.net.feedthrough:
            Rdense = np.zeros((len(Rvectors), self.n_in)) if Rinputs is None else Rinputs
            handed.append(np.repeat(self._fed(Rdense), times, axis=0))
        return self.places.pack(after), handed

    def _fed(self, inputs: HostArray) -> HostArray:
        """Return what inputs or their tangents, (B, n_in) or symbols (B,), feed to the output with `feedthrough`."""
        if self.net.embedding is not None:
            E = self.p["embedding"]["E"]
            found = inputs @ E if inputs.ndim == 2 else E[inputs]
        else:
            found = inputs if inputs.ndim == 2 else inputs[:, None] == np.arange(self.n_in)
        return np.asarray(found, self.dtype)

    def _repeated(self, vectors: HostArray, times: int) -> list[dict[str, Any]]:
        """Return a state without integers for vectors (d, n), each `times` times in succession."""
        state: list[dict[str, Any]] = [{} for _ in self.net.layers]
        if times == 1:
            return self.places.unpack(vectors, state)
        for l, name, shape, place in self.places.parts:
            rows = np.ascontiguousarray(vectors[:, place])
            if len(shape) == 1:
                state[l][name] = RepeatedRows.of_rows(rows, times)
            else:
                history = np.moveaxis(rows.reshape(len(rows), *shape), 0, -2)
                state[l][name] = np.repeat(history, times, axis=-2)
        return state

    def adjoints(self, dvectors: HostArray) -> tuple[HostArray, HostArray]:
        """Return the adjoints of the vectors (B, n) before a step with `records` and of its inputs (B, n_in)."""
        dstate = self.places.unpack(dvectors, [{} for _ in self.net.layers])
        dinputs = np.zeros((len(dvectors), self.n_in), self.dtype)
        before: list[Any] = [None] * len(self.net.layers)
        dhs = [np.zeros((1, len(dvectors), layer.kernel.width), self.dtype) for layer in self.net.layers]
        for l, layer in reversed(list(enumerate(self.net.layers))):
            weights, group = self._weights[l], f"layer{l}"
            unused = {name: np.zeros(value.shape) for name, value in self._still[group].items()}
            dU, before[l] = layer.kernel.backward(self.p[group], self._tapes[l], dhs[l], dstate[l], unused)
            if l > 0 and weights.below is not None:
                dhs[l - 1][0] += dU[0] @ weights.below.T  # B1
            dinputs += dU[0] @ weights.direct.T  # B2
        return self.places.pack(before), dinputs

    def outputs(self, handed: list[HostArray]) -> HostArray:
        """Return the outputs (B, n_logits) before the loss's own function (logits), from what feeds them."""
        z = self.net.head.outputs(self.p["output"], [h[None] for h in handed], self._head_tape())
        return np.array(self.net.head.logits(self.net.backend, z)[0])

    def later(self, clock: Clock) -> Clock:
        """Return the integers of a state one step later."""
        return [{name: time + 1 for name, time in layer.items()} for layer in clock]

    def output_tangents(self, handed: list[HostArray], Rhanded: list[HostArray]) -> HostArray:
        """Return the tangents of the outputs (B, n_outputs), from those of what feeds them."""
        group, each, Reach = "output", [h[None] for h in handed], [h[None] for h in Rhanded]
        Rz = self.net.head.routputs(self.p[group], self._still[group], each, Reach, self._head_tape())
        return np.array(Rz[0])

    def run(
        self, series: HostArray, vectors: HostArray, clock: Clock, lengths: HostArray | None = None
    ) -> tuple[HostArray, HostArray]:
        """Return the vectors (T, B, n) and outputs (T, B, n_logits) after every step; they have to be finite.

        `lengths` (B,) are the steps of each sequence; what comes after them is padding, and may overflow.
        """
        (T, B), states = series.shape[:2], np.empty((*series.shape[:2], self.n))
        outputs = np.empty((T, B, self.net.head.n_logits))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
            for t in range(T):
                vectors, handed, clock = self.forward(vectors, series[t], clock)
                states[t], outputs[t] = vectors, self.outputs(handed)
        last = states[-1] if lengths is None else states[lengths - 1, np.arange(B)]
        if not np.isfinite(last).all():
            raise NonFiniteError("the states are not finite: the weights are too large, use another checkpoint")
        return states, outputs

    # ------------------------------------------------------------------ Jacobians

    def jacobian(self, vectors: HostArray, inputs: HostArray, clock: Clock, of_inputs: bool = False) -> Linear:
        """Take one step and return its Jacobian, and also that of the inputs if asked."""
        B = len(vectors)
        reverse = of_inputs and self.n_in > self.n
        total = self.n + self.n_in * (of_inputs and not reverse)
        width = -(-total // -(-total // max(COLUMNS // B, 1)))  # directions side by side, evenly divided
        copies = np.tile(vectors, (width, 1)), np.tile(inputs, (width, *(1,) * (inputs.ndim - 1)))
        after, _, _ = self.forward(*copies, clock, records=True)
        rows, du = np.empty((B, total, self.n)), np.empty((B, self.n, self.n_in) if reverse else 0)
        for first in range(0, total, width):
            count = min(width, total - first)
            seeds = np.zeros((width, self.n + self.n_in * of_inputs))
            seeds[range(count), range(first, first + count)] = 1
            at = slice(first, first + count)
            if reverse:
                dvectors, dinputs = self.adjoints(np.repeat(seeds[:, : self.n], B, axis=0))
                du[:, at] = _by_state(dinputs, B, count)
            else:
                dvectors, _ = self.tangents(seeds[:, : self.n], seeds[:, self.n :] if of_inputs else None, B)
            rows[:, at] = _by_state(dvectors, B, count)
        if reverse:
            return Linear(after[:B], rows, du)
        J = rows.swapaxes(1, 2)
        return Linear(after[:B], J[:, :, : self.n], J[:, :, self.n :] if of_inputs else None)

    def readout(self, vectors: HostArray, inputs: HostArray, clock: Clock) -> HostArray:
        """Return the derivative of the outputs of a step in the state before it, (B, n_outputs, n)."""
        B, n = vectors.shape
        copies = np.tile(vectors, (n, 1)), np.tile(inputs, (n, *(1,) * (inputs.ndim - 1)))
        _, hs, _ = self.forward(*copies, clock, records=True)
        _, Rhs = self.tangents(np.eye(n), None, B)
        Rz = self.output_tangents(hs, Rhs)
        return Rz.reshape(n, B, -1).transpose(1, 2, 0)

    def _head_tape(self) -> Tape:
        return Tape("head.", *(Buffers(get_backend("numpy"), self.dtype) for _ in range(2)))


class PeriodMap:
    """F(h, u) - h over one period of a network, and its derivatives; the period is 1 except for a clockwork."""

    def __init__(self, step: Transition, clock: Clock) -> None:
        self.step, self.clock, self.period = step, clock, step.period

    def __call__(self, h: HostArray, u: HostArray) -> HostArray:
        """Return the residuals (B, n)."""
        after, clock = h, self.clock
        for _ in range(self.period):
            after, _, clock = self.step.forward(after, u, clock)
        return after - h

    def jacobian(self, h: HostArray, u: HostArray) -> HostArray:
        """Return dF/dh over the period, (B, n, n)."""
        return self.linear(h, u)[0]

    def linear(self, h: HostArray, u: HostArray, of_inputs: bool = False) -> tuple[HostArray, HostArray | None]:
        """Return dF/dh (B, n, n) and, if asked, dF/du (B, n, n_in), over the period."""
        J, Ju, clock = None, None, self.clock
        for _ in range(self.period):
            found = self.step.jacobian(h, u, clock, of_inputs)
            h, clock = found.after, self.step.later(clock)
            J = found.J if J is None else found.J @ J
            if found.Ju is not None:
                Ju = found.Ju if Ju is None else found.J @ Ju + found.Ju
        assert J is not None
        return J, Ju

    def readout(self, h: HostArray, u: HostArray) -> HostArray:
        """Return the derivative of the outputs of the period's last step in the state, (B, n_outputs, n)."""
        J, clock = np.eye(self.step.n)[None], self.clock
        for _ in range(self.period - 1):
            found = self.step.jacobian(h, u, clock)
            h, J, clock = found.after, found.J @ J, self.step.later(clock)
        return self.step.readout(h, u, clock) @ J


def _all_slots(slots: int, columns: Columns, values: HostArray) -> HostArray:
    """Return a block (..., width) with zeros in the slots that it does not feed, (..., slots)."""
    whole = np.zeros((*values.shape[:-1], slots))
    for start, first, width in columns.runs:
        whole[..., start : start + width] = values[..., first : first + width]
    return whole


def _by_state(values: HostArray, B: int, directions: int) -> HostArray:
    """Return what `directions` passes gave for B states, (passes * B, m), as (B, directions, m)."""
    return values.reshape(-1, B, values.shape[1])[:directions].swapaxes(0, 1)


def step_jacobian(net: Network, theta: Array, inputs: Any, state: Any) -> tuple[HostArray, HostArray]:
    """Return the Jacobian of one step: of the new state in the old one, and in the inputs. It is exact.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    inputs : (B, n_in) array of real values, or (B,) array of integer symbols
        The inputs of the step. One input, (n_in,) or a symbol, holds for all sequences.
    state : list of dict
        The state before the step: one dict of arrays for each layer, as in `Batch(initial_state=...)`; or its vectors
        (B, n), as `to_vectors` returns them.

    Returns
    -------
    J : (B, n, n) array
        `J[b, i, j] = d new_i / d old_j` for sequence b. n counts all state entries: layer by layer, the names of a
        layer sorted, so c before h for an LSTM; the history of a HORNN has its latest state first.
    Ju : (B, n, n_in) array
        `Ju[b, i, j] = d new_i / d input_j`. A symbol is taken as a unit vector.

    Raises
    ------
    InputError
        The state or the inputs do not fit the network.

    Notes
    -----
    Both are float64 and in the memory of the host, for a network in float32 or on a GPU too. Where a relu or a maximum
    has a kink, they are the derivatives of the branch that the step takes: 0 for a relu at 0, and the smallest n of
    equal products of `hornn-max`. A clockwork steps at the time `t` of the state, which has no derivative.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("lstm", n_in=2, hidden=3, n_out=1)
    >>> inputs = np.zeros((5, 4, 2))  # 5 steps of 4 sequences
    >>> theta = net.init(seed=0)
    >>> _, state = net.run(theta, hfrnn.Batch(inputs))
    >>> J, Ju = hfrnn.dynamics.step_jacobian(net, theta, inputs[0], state)
    >>> J.shape, Ju.shape
    ((4, 6, 6), (4, 6, 2))
    """
    step = Transition(net, theta)
    vectors, clock = step.places.checked("state", state)
    found = step.jacobian(vectors, step.inputs(inputs, len(vectors)), clock, of_inputs=True)
    assert found.Ju is not None
    return np.ascontiguousarray(found.J), np.ascontiguousarray(found.Ju)
