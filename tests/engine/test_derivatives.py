"""The derivative identities on networks and batches of any shape."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine_cases import LOSSES, output_weights, random_targets

import hfrnn
from hfrnn.arrays.backend import Buffers
from hfrnn.engine.plan import Keep, Plan
from hfrnn.engine.sweep import Sweep

EPS = 1e-20


@st.composite
def problems(draw: st.DrawFn) -> tuple[hfrnn.Network, hfrnn.Objective, np.random.Generator]:
    """A small network of any architecture, stack, loss and kind of input; any batch; any way to keep."""
    arch = draw(st.sampled_from(hfrnn.architectures()))
    T, B = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["symbols", "embedding", "real"]))
    n_out, loss, classes = draw(st.integers(2, 4)), draw(st.sampled_from(LOSSES)), None
    if loss == "class-softmax":
        classes = draw(st.permutations([symbol % draw(st.integers(1, n_out)) for symbol in range(n_out)]))
        classes = np.unique(classes, return_inverse=True)[1]
    net = hfrnn.Network(
        arch, draw(st.integers(1, 4)), draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)), n_out, loss=loss,
        classes=classes, dtype="float64", embedding=draw(st.integers(1, 3)) if kind == "embedding" else None,
        bias=draw(st.sampled_from([None, True, False])), direct_input=draw(st.booleans()),
        direct_output=draw(st.booleans()), l2=draw(st.sampled_from([0.0, 0.2])), learn_initial_state=draw(st.booleans())
    )  # fmt: skip
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    inputs = rng.standard_normal((T, B, net.n_in)) if kind == "real" else rng.integers(net.n_in, size=(T, B))
    weights = lengths = None
    if loss in ("logistic", "squared") and draw(st.booleans()):
        weights = output_weights(rng, T, B, n_out)
    elif draw(st.booleans()):
        weights = np.where(rng.random((T, B)) < 0.6, rng.uniform(0.1, 2, (T, B)), 0.0)
        weights[0, 0] = 1.0
    if draw(st.booleans()):
        lengths = rng.integers(1, T + 1, size=B)
    batch = hfrnn.Batch(inputs, random_targets(net, rng, T, B), weights, lengths)
    edges = sorted({0, B, *draw(st.lists(st.integers(0, B), max_size=2))})
    plan = Plan(tuple(edges), draw(st.sampled_from([None, *range(1, T + 1)])), draw(st.sampled_from(list(Keep))))
    return net, hfrnn.Objective(net, batch, threads=1, plan=plan), rng


def numbers(net: hfrnn.Network, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    n = net.n_parameters
    return 0.7 * rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal(n)


@given(problems())
def test_the_jacobian_and_its_transpose_are_adjoint(problem):
    net, f, rng = problem
    theta, v, _ = numbers(net, rng)
    J = f.jacobian(theta)
    u = rng.standard_normal(J.shape[0])
    Jv, Ju = J @ v, J.rmatvec(u)
    assert abs(u @ Jv - Ju @ v) <= 1e-11 * max(np.linalg.norm(u) * np.linalg.norm(Jv), 1e-12)


@given(problems(), st.sampled_from([0.0, 2.5]), st.sampled_from([0.0, 0.3]), st.integers(0, 2))
def test_the_product_is_symmetric_and_positive(problem, mu, lambda_, number):
    net, f, rng = problem
    theta, v, w = numbers(net, rng)
    metric = net.metrics[number % len(net.metrics)]
    G = f.gauss_newton(theta, structural=mu, tikhonov=lambda_, metric=metric)
    Gv, Gw = G @ v, G @ w
    assert abs(w @ Gv - v @ Gw) <= 1e-12 * max(np.linalg.norm(w) * np.linalg.norm(Gv), 1e-12)
    assert v @ Gv >= (lambda_ + net.l2) * (v @ v) - 1e-12 * np.linalg.norm(v) * np.linalg.norm(Gv)


def complex_loss(f: hfrnn.Objective, theta: Any) -> Any:
    buffers = Buffers(f.net.backend, "complex128")
    sweep = Sweep(f.net, f.batch, f.total_weight, keep=Keep.NOTHING, scratch=buffers)
    return sweep.loss(theta) + 0.5 * f.net.l2 * (theta * theta).sum()


@given(problems())
def test_the_gradient_is_the_complex_step_of_the_loss_in_every_block(problem):
    net, f, rng = problem
    theta, v, _ = numbers(net, rng)
    loss, gradient = f.loss_and_gradient(theta)
    assert loss == pytest.approx(complex_loss(f, theta.astype(complex)).real, rel=1e-12)
    for name, view in net.views(np.arange(net.n_parameters)).items():
        direction = np.zeros_like(theta)
        direction[view.ravel()] = v[view.ravel()]
        expected = complex_loss(f, theta + 1j * EPS * direction).imag / EPS
        size = np.linalg.norm(gradient[view.ravel()]) * np.linalg.norm(direction)
        assert abs(gradient @ direction - expected) <= 1e-10 * size + 1e-14, name


@given(problems())
def test_the_jacobian_is_the_central_difference_of_the_outputs(problem):
    net, f, rng = problem
    theta, v, _ = numbers(net, rng)
    sweep = Sweep(net, f.batch, 1.0)
    step = 1e-6 / np.linalg.norm(v)
    ahead, behind = (sweep.outputs(theta + sign * step * v)[0].ravel() for sign in (1, -1))
    difference = (ahead - behind) / (2 * step)
    Jv = f.jacobian(theta) @ v
    np.testing.assert_allclose(Jv, difference, atol=1e-7 * max(1.0, np.abs(Jv).max()) * np.linalg.norm(v))


@given(problems())
def test_the_exact_hessian_is_symmetric_and_the_difference_of_gradients(problem):
    net, f, rng = problem
    theta, v, w = numbers(net, rng)
    H = f.hessian(theta)
    Hv, Hw = H @ v, H @ w
    assert abs(w @ Hv - v @ Hw) <= 1e-11 * max(np.linalg.norm(w) * np.linalg.norm(Hv), 1e-9)
    step = 1e-6
    ahead, behind = (f.loss_and_gradient(theta + sign * step * v)[1] for sign in (1, -1))
    np.testing.assert_allclose(Hv, (ahead - behind) / (2 * step), atol=1e-6 * max(1.0, np.abs(Hv).max()))
