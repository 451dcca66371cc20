"""Fit the state-space network of hfrnn with jax-sysid (A. Bemporad), and note its weights over the processor seconds.

jax-sysid minimises the squared error of a whole recording by L-BFGS in double precision, with gradients from JAX. Its
options are its own defaults (no Adam before), except that L-BFGS has a memory of 20 steps instead of 10. One call of
its `fit` is watched through the function that would print its progress, so L-BFGS does not begin again; only where it
ends by itself, another call begins at its last weights. The clock of a call starts after its first iteration, so it
leaves out compilation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hfrnn

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

NAMES = ("layer0.W_x", "layer0.b", "layer0.A", "layer0.W_1", "layer0.W_3", "output.W_y0", "output.b_y")
"""The blocks of the network, in the order of the model's parameters."""
ENDLESS = 10**9
MEMORY = 20
LEAST_ITERATIONS = 2
"""A call with fewer iterations has converged: no other one is made."""


class _Over(Exception):
    """The processor seconds are over."""


class Watch:
    """Notes the weights over the processor seconds of L-BFGS, at most `points` times, and ends it."""

    def __init__(self, seconds: float, points: int = 200) -> None:
        self.seconds, self.every = seconds, seconds / points
        self.used, self.last, self.iterations = 0.0, 0.0, 0
        self.found = list[tuple[float, Any]]()
        """Processor seconds, and the weights and the first state then."""

    def begin(self) -> None:
        """A call begins; its clock does not run yet."""
        self.last = 0.0

    def __call__(self, weights: Any) -> None:
        """An iteration has ended."""
        now = time.process_time()
        if self.last:
            self.used += now - self.last
            self.iterations += 1
        if not self.found or self.used >= self.found[-1][0] + self.every or self.used >= self.seconds:
            self.found.append((self.used, list(weights)))
        if self.used >= self.seconds:
            raise _Over
        self.last = time.process_time()


def model_of(net: hfrnn.Network, theta: Any) -> Any:
    """Return jax-sysid's model of a state-space network, with its weights."""
    import jax.numpy as jnp
    from jax_sysid.models import Model

    n = net.views(theta)["layer0.A"].shape[0]

    def state(x: Any, u: Any, params: Any) -> Any:
        W_x, b, A, W_1, W_3 = params[:5]
        U = u @ W_x + b
        return U[:n] + x @ A + jnp.tanh(U[n:] + x @ W_1) @ W_3

    def output(x: Any, u: Any, params: Any) -> Any:
        return state(x, u, params) @ params[5] + params[6]

    model = Model(n, net.n_out, net.n_in, state_fcn=state, output_fcn=output)
    model.init(params=[net.views(theta)[name] for name in NAMES])
    return model


def weights_of(net: hfrnn.Network, values: Any) -> Any:
    """Return the weights of a model as a vector of the network."""
    import numpy as np

    theta = np.zeros(net.n_parameters)
    for name, value in zip(NAMES, values, strict=False):
        net.views(theta)[name][...] = np.asarray(value)
    return theta


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Let jax-sysid call `watch` after each iteration of L-BFGS."""
    from jax_sysid import _model

    own = _model.lbfgs_callback
    _model.lbfgs_callback = lambda *_: (watch, None)
    try:
        yield
    finally:
        _model.lbfgs_callback = own


def fit(model: Any, u: Any, y: Any, watch: Watch, **loss: Any) -> None:
    """Fit a model to a recording until the watch ends it, or until L-BFGS no longer finds a step.

    Parameters
    ----------
    model : Model
        Of jax-sysid.
    u, y : (steps,)
        Inputs and outputs of the recording.
    watch : Watch
    loss : Any
        What jax-sysid's `Model.loss` takes: the regularization, and whether the first state is trained.
    """
    model.loss(**loss)
    model.optimization(lbfgs_epochs=ENDLESS, iprint=-1, memory=MEMORY)
    with watched(watch):
        while True:
            watch.begin()
            before = watch.iterations
            try:
                model.fit(y, u)
            except _Over:
                return
            if watch.iterations - before < LEAST_ITERATIONS:
                return
