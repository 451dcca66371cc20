"""The original online learning rule of the LSTM, for `lstm-krause`: errors flow back through the cells only.

x are the inputs, h' and c' the states of the previous step. src is the source of a weight into a gate: an input, an
entry of h', or 1 for a bias. The cell is that of `lstm-krause`:

    F1  a = x @ W_x + h' @ W_h (+ b);  i, f, o = sigma(a_i, a_f, a_o);  g = a_g
    F2  c = f*c' + i*g;  h = tanh(c*o)

The derivative of a cell by a weight w into its gate i, f or g, with h' and c' held constant in the last term:

    T1  trace_t = dc_t/dw = f*trace_{t-1} + src*k,   k_i = g*i*(1-i),  k_f = c'*f*(1-f),  k_g = i

Only the error of the current step is used, so the update can be made at once:

    B1  dh = dz @ W_y.T                     no dh from step t+1, and none through h'
    B2  dzeta = dh*(1 - h*h),  dc = dzeta*o
    B3  dw = dc*trace_t for gates i, f, g;  dw = src*dzeta*c*o*(1-o) for gate o
    U   theta <- theta - lr*(mean of dw over the streams), momentum and decay as in first_order.py

At the first step of a stream this is the exact gradient. At later steps a trace holds derivatives that were computed
with the parameters of earlier steps.

References: docs/specification.md, section 7; [K] 2.17 with the forget gate of 2.18; Hochreiter & Schmidhuber 1997;
Gers et al. 2000.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hfrnn.arrays.array_checks import as_array
from hfrnn.arrays.backend import Array, Buffers
from hfrnn.checks import POSITIVE, count, instance, number
from hfrnn.engine.batch import Batch
from hfrnn.engine.layout import Layout
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import sigmoid_
from hfrnn.optim.first_order import SGD, SGDOptions
from hfrnn.wording import counted

Groups = dict[str, Arrays]


class OnlineLSTM:
    """Online learning from B parallel streams: every time step is an update.

    From step to step and from call to call the object keeps the states h and c of the streams, their traces and the
    momentum. The traces (T1) are `streams * 3*H * (n_in + H)` numbers; every step reads and writes all of them.

    The network has one layer of lstm-krause without embedding and l2, on a CPU backend; any loss; inputs one-hot or
    real. `options` are momentum and decay; the default is neither.
    """

    def __init__(self, net: Layout, streams: int, options: SGDOptions | None = None) -> None:
        self.net: Layout = instance("net", net, Layout, "a hfrnn.Network")
        _check_network(net)
        self.streams: int = count("streams", streams, 1)
        self.optimizer = SGD(options if options is not None else SGDOptions(momentum=0.0))
        B, H, kind = streams, net.hidden[0], net.dtype
        sources = {"W_x": net.n_in, "W_h": H, **({"b": 1} if "layer0.b" in net.views(_zeros(net)) else {})}
        self._carried: Arrays = {
            "h": np.zeros((B, H), kind),
            "c": np.zeros((B, H), kind),
            **{f"trace.{name}": np.zeros((B, n, 3, H), kind) for name, n in sources.items()},
        }
        self._traces = {name: self._carried[f"trace.{name}"] for name in sources}
        self._work = {name: np.empty((n, 3, H), kind) for name, n in sources.items()}
        self._one = np.ones((B, 1), kind)
        self._gradient = _zeros(net)
        self._grad = net.groups(self._gradient)
        buffers = Buffers(net.backend, kind)
        self._tape = Tape("head.", buffers, buffers)

    def run(self, theta: Array, inputs: Array, targets: Array, lr: float) -> float:
        """Learn from T steps of every stream, with one update per step; return the mean loss in nats.

        `theta` (n_parameters,) of the network's type is updated in place. Inputs are symbols (T, B) or real values (T,
        B, n_in), with one column per stream; targets are (T, B) or (T, B, n_out). The loss of each step is computed
        before its update. After an InputError nothing was changed. After a NonFiniteError, which a step that is not
        finite raises, theta and the momentum are those of the step before. The states of the streams are not, so call
        `reset` or load an earlier `state_dict`.
        """
        number("lr", lr, POSITIVE)
        total = 0.0
        for loss in self._losses(theta, inputs, targets):
            total += loss
            with np.errstate(over="ignore", invalid="ignore"):
                self.optimizer.step(theta, self._gradient, lr, out=theta)  # U
        return total / len(inputs)

    def step(self, theta: Array, inputs: Array, targets: Array, lr: float) -> float:
        """`run` for one time step: inputs (B,) or (B, n_in), targets (B,) or (B, n_out)."""
        return self.run(theta, as_array("inputs", inputs)[None], as_array("targets", targets)[None], lr)

    def loss_and_gradient(self, theta: Array, inputs: Array, targets: Array) -> tuple[float, Array]:
        """Move the streams by one step without an update; return its mean loss and online gradient."""
        (loss,) = self._losses(theta, as_array("inputs", inputs)[None], as_array("targets", targets)[None])
        return loss, self._gradient.copy()

    def reset(self) -> None:
        """Restart all streams: set states and traces to 0. The momentum is kept."""
        for value in self._carried.values():
            value[...] = 0

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the states, the traces and, with the prefix `optimizer.`, the optimizer's state.

        After `load_state_dict` learning continues with bit-identical results.
        """
        optimizer = {f"optimizer.{name}": value for name, value in self.optimizer.state_dict().items()}
        return {**{name: value.copy() for name, value in self._carried.items()}, **optimizer}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a `state_dict` of as many streams and an equal network; after an InputError nothing is changed."""
        for name, value in self._carried.items():
            shape = tuple(getattr(state.get(name), "shape", ()))
            if shape != value.shape:
                raise InputError(
                    f"{name} of the online state has shape {shape}, expected {value.shape}: "
                    "continue with the network and the number of streams that were saved"
                )
        self.optimizer.load_state_dict(
            {name.split(".", 1)[1]: value for name, value in state.items() if name.startswith("optimizer.")}
        )
        for name, value in self._carried.items():
            value[...] = state[name]

    def _losses(self, theta: Array, inputs: Array, targets: Array) -> Iterator[float]:
        """Move the streams step by step, and yield the mean loss of each; its online gradient is in `_gradient`.

        theta may change between two steps.
        """
        net, B = self.net, self.streams
        self._check_theta(theta)
        batch = net.prepare(Batch(inputs, targets))
        if batch.B != B:
            raise InputError(f"the inputs have {batch.B} streams, and {B} were expected: give one column per stream")
        p, T = net.groups(theta), batch.T
        scale, wanted = np.full((T, B, 1), 1.0 / B, net.dtype), np.ones((T, B))
        scored_parts = net.head.arrange(net.backend, batch.targets, scale, wanted, [slice(t, t + 1) for t in range(T)])
        x = batch.inputs if batch.inputs.ndim == 2 else batch.inputs.astype(net.dtype)
        for t, scored in enumerate(scored_parts):
            with np.errstate(over="ignore", invalid="ignore"):
                loss = self._step(p, x[t], scored)
            if not math.isfinite(loss):
                raise NonFiniteError(
                    f"the loss of step {t} is not finite: load the last good state "
                    "and continue with a smaller learning rate"
                )
            yield loss

    def _step(self, p: Groups, x: Array, scored: Any) -> float:
        """Compute one step of the streams: the online gradient in `_gradient`, and the mean loss as the result."""
        h, c, traces = self._carried["h"], self._carried["c"], self._traces
        grad, layer, B = self._grad, p["layer0"], self.streams
        symbols = x if x.ndim == 1 else None
        a = h @ layer["W_h"]  # (B, 4H)
        a += x @ layer["W_x"] if symbols is None else layer["W_x"][symbols]
        if "b" in layer:
            a += layer["b"]
        H = h.shape[1]
        sigmoid_(np, a[:, : 3 * H])
        i, f, o, g = (a[:, n * H : (n + 1) * H] for n in range(4))  # F1
        k = np.stack([g * i * (1 - i), c * f * (1 - f), i], axis=1)  # (B, 3, H), T1
        sources = {"W_h": h.copy(), "b": self._one, "W_x": x}
        c *= f
        c += i * g
        h[...] = np.tanh(c * o)  # F2

        self._gradient.fill(0)
        dh = np.empty((1, B, H), h.dtype)
        losses = self.net.head.losses(p["output"], [h[None]], scored, self._tape)
        self.net.head.gradient(p["output"], [h[None]], scored, self._tape, grad["output"], [dh])  # B1
        dzeta = dh[0] * (1 - h * h)
        dc, da_o = dzeta * o, dzeta * c * o * (1 - o)  # B2
        for name, trace in traces.items():  # (B, n, 3, H), gates i, f, g; dW (n, 4, H), gates i, f, o, g
            dW, work, source = grad["layer0"][name].reshape(-1, 4, H), self._work[name], sources[name]
            for s in range(B):
                trace[s] *= f[s]
                if source.ndim == 1:
                    trace[s, source[s]] += k[s]  # T1
                    dW[source[s], 2] += da_o[s]  # B3
                else:
                    np.multiply(source[s, :, None, None], k[s], out=work)
                    trace[s] += work  # T1
                np.multiply(trace[s], dc[s], out=work)
                dW[:, :2] += work[:, :2]
                dW[:, 3] += work[:, 2]  # B3
            if source.ndim == 2:
                dW[:, 2] += source.T @ da_o  # B3
        return float(losses.sum(dtype=np.float64)) / B

    def _check_theta(self, theta: Array) -> None:
        expected = (self.net.n_parameters,)
        fits = isinstance(theta, np.ndarray) and theta.shape == expected and theta.dtype == self.net.dtype
        if not (fits and theta.flags.c_contiguous and theta.flags.writeable):
            raise InputError(
                f"theta has shape {getattr(theta, 'shape', None)} and type {getattr(theta, 'dtype', type(theta))}: it "
                f"is updated in place, so give a writable array of shape {expected} and type {self.net.dtype}"
            )


def _zeros(net: Layout) -> Array:
    return np.zeros(net.n_parameters, net.dtype)


def _check_network(net: Layout) -> None:
    if net.arch != "lstm-krause" or len(net.layers) != 1:
        raise InputError(
            f"online learning was asked for {net.arch} with {counted(len(net.layers), 'layer')}: it is defined for one "
            "layer of lstm-krause"
        )
    if net.embedding is not None:
        raise InputError("online learning has no traces for an embedding: leave embedding out, or train with sgd")
    if net.l2:
        raise InputError(f"online learning takes no l2, and {net.l2} was given: use the decay of its options")
    if net.learn_initial_state:
        raise InputError("online learning has no traces for a learned initial state: leave learn_initial_state out")
    if net.feedthrough:
        raise InputError("online learning has no direct term of the input: leave feedthrough out")
    if not net.backend.on_host:
        raise InputError(f"online learning runs on the CPU, not on backend {net.backend.name!r}: use numpy")
