"""The gated-feedback network: values against plain loops, its layers and gates, and where it meets rnn."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch, vectors
from support.kernel_promises import arrays, tape

import hfrnn
from hfrnn.kernels import make_kernel


def sigma(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def network(arch: str = "gated-feedback", **changes: Any) -> hfrnn.Network:
    return hfrnn.Network(arch, **{"n_in": 4, "hidden": 6, "n_out": 4, "dtype": "float64", **changes})


@pytest.mark.parametrize(("H", "L"), [(6, 3), (6, 2), (4, 1)])
def test_the_forward_pass_is_the_definition(H, L):
    """One unit, gate and connection at a time; h[t][j] are the units of layer j."""
    kernel, K, B, M = make_kernel("gated-feedback", H, {"sublayers": L}), 4, 2, H // L
    p, U, state = arrays(kernel, K, B)
    hs, after = kernel.forward(p, U, state, tape())
    W = p["W_h"].reshape(L, M, L, M)  # from layer, from unit, to layer, to unit
    W_g = p["W_hg"].reshape(H, L, L)  # from unit, to layer, gate of the layer from
    for s in range(B):
        before = state["h"][s].reshape(L, M)
        for t in range(K):
            now = np.zeros((L, M))
            for j in range(L):
                below = now[j - 1] @ p["W_up"][j - 1] if j > 0 else U[t, s, : M + L]
                bias = U[t, s, M + L :].reshape(L - 1, M)[j - 1] if j > 0 else 0
                for m in range(M):
                    a = below[m] + (bias[m] if j > 0 else 0)
                    for i in range(L):
                        gate = sigma(below[M + i] + sum(before.ravel()[k] * W_g[k, j, i] for k in range(H)))
                        a += gate * sum(before[i, k] * W[i, k, j, m] for k in range(M))
                    now[j, m] = np.tanh(a)
            np.testing.assert_allclose(hs[t, s], now.ravel(), rtol=1e-13, atol=1e-15)
            before = now
        np.testing.assert_allclose(after["h"][s], before.ravel(), rtol=1e-13)


def test_with_gates_of_a_half_and_no_feedback_between_layers_it_is_a_stack_of_rnn():
    """Loss, gradient and products: only the blocks [j, j] of W_h, doubled, and gates that read nothing."""
    net = network(sublayers=2, hidden=6)
    stack = network("rnn", hidden=(3, 3), direct_input=False)
    batch = random_batch(stack, np.random.default_rng(0), T=6, B=3, ragged=True)
    theta = vectors(stack, batch)[0]
    p = stack.views(theta)

    def blocks(vector):
        """The blocks of a vector of gated-feedback that the stack has, under the stack's names."""
        q = net.views(vector)
        return {
            "layer0.W_x": q["layer0.W_x"][:, :3],
            "layer1.W_below": q["layer0.W_up"][0, :, :3],
            "layer0.W_h": q["layer0.W_h"][:3, :3],
            "layer1.W_h": q["layer0.W_h"][3:, 3:],
            "layer0.b": q["layer0.b"][:3],
            "layer1.b": q["layer0.b"][3:],
            "output.W_y0": q["output.W_y0"][:3],
            "output.W_y1": q["output.W_y0"][3:],
        }

    same = np.zeros(net.n_parameters)
    for name, block in blocks(same).items():
        block[...] = p[name] * (2 if name.endswith("W_h") else 1)
    assert net.loss(same, batch) == pytest.approx(stack.loss(theta, batch), rel=1e-14)
    expected = stack.views(stack.loss_and_gradient(theta, batch)[1])
    found = blocks(net.loss_and_gradient(same, batch)[1])
    assert found.keys() == expected.keys()
    for name, block in found.items():
        np.testing.assert_allclose(
            block, expected[name] * (0.5 if name.endswith("W_h") else 1), rtol=1e-12, atol=1e-15, err_msg=name
        )


def test_the_number_of_layers_divides_the_units():
    assert [make_kernel("gated-feedback", H, {}).sublayers for H in (1, 2, 3, 4, 5, 6)] == [1, 2, 3, 2, 1, 3]
    with pytest.raises(
        hfrnn.InputError, match="sublayers is 4, and 6 units do not divide into 4 layers of equal width"
    ):
        network(sublayers=4)
