"""Jacobians of a step against automatic differentiation, for every architecture, alone and in stacks."""

import numpy as np
import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install the extra oracle")

import jax

import hfrnn
from hfrnn.dynamics import step_jacobian

from . import reference, sizes
from .settings import SMALL

STACKS = [((4,), True), ((4, 2), True), ((4, 2), False)]
ROWS = [(arch, *stack) for arch in sizes.SLOTS for stack in STACKS]


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "hidden", "direct_input"), ROWS)
def test_jacobians_agree(arch, hidden, direct_input):
    arguments = {"n_in": 3, "hidden": hidden, "n_out": 2, "loss": "squared", "direct_input": direct_input}
    arguments |= SMALL.get(arch, {})
    config, net = sizes.Config(arch, **arguments), hfrnn.Network(arch, dtype="float64", **arguments)
    rng = np.random.default_rng(1)
    theta = 0.6 * rng.normal(size=net.n_parameters)
    zeros = net.zero_state(1)
    shapes = [{name: x.shape for name, x in layer.items() if not isinstance(x, int)} for layer in zeros]
    state = [{name: rng.normal(size=shape) for name, shape in layer.items()} for layer in shapes]
    times = [{name: 2 for name, x in layer.items() if isinstance(x, int)} for layer in zeros]
    inputs = rng.normal(size=(1, 3))

    def step(inputs, state):
        whole = [{**layer, **time} for layer, time in zip(state, times, strict=True)]
        data = reference.Data(inputs[None], np.zeros((1, 1, 2)), initial_state=whole)
        after = reference.forward(dict(net.views(theta)), data, config)["state"]
        parts = [layer[name].reshape(-1) for layer in after for name in sorted(layer) if name != "t"]
        return jax.numpy.concatenate(parts)

    of_inputs, of_state = jax.jacfwd(step, argnums=(0, 1))(inputs, state)
    n = of_inputs.shape[0]
    of_state = [layer[name].reshape(n, -1) for layer in of_state for name in sorted(layer)]
    whole = [{**layer, **time} for layer, time in zip(state, times, strict=True)]
    J, Ju = step_jacobian(net, theta, inputs, whole)
    for found, expected in ((J[0], np.concatenate(of_state, 1)), (Ju[0], np.asarray(of_inputs)[:, 0])):
        assert np.linalg.norm(found - expected) <= 1e-12 * np.linalg.norm(expected)
        assert np.linalg.norm(expected) > 1e-3
