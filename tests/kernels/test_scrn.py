"""The structurally constrained network: values against plain loops, the leak, learned alpha, widths of 0."""

import math
from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch, vectors
from support.learned_shares import check_learned_at_its_logit, sigma
from support.tiny_runs import TEXT, tiny_train

import hfrnn
from hfrnn.analysis.evaluation import evaluate
from hfrnn.arrays.backend import Buffers, get_backend
from hfrnn.kernels import make_kernel


def network(**changes: Any) -> hfrnn.Network:
    return hfrnn.Network("scrn", **{"n_in": 4, "hidden": 3, "context": 2, "n_out": 4, "dtype": "float64", **changes})


def alpha_of(net: hfrnn.Network) -> Any:
    return net.layers[0].kernel.alpha.start


def forward(hidden: int, options: dict[str, Any], K: int = 6, seed: int = 0) -> tuple[Any, ...]:
    kernel, rng, backend = make_kernel("scrn", hidden, options), np.random.default_rng(seed), get_backend("numpy")
    p = {name: rng.standard_normal(shape) for name, shape in kernel.parameter_shapes().items()}
    U = rng.standard_normal((K, 2, kernel.width))
    state = {name: rng.standard_normal(shape) for name, shape in kernel.state_shapes(2).items()}
    tape = hfrnn.Tape("", Buffers(backend, "float64"), Buffers(backend, "float64"))
    return p, U, state, *kernel.forward(p, U, state, tape)


@pytest.mark.parametrize(
    ("H", "C", "learn_alpha"), [(3, 2, False), (3, 2, True), (0, 2, True), (3, 0, False), (1, 4, True)]
)
def test_the_forward_pass_is_the_definition(H, C, learn_alpha):
    p, U, state, y, after = forward(H, {"context": C, "alpha": 0.8, "learn_alpha": learn_alpha})
    alpha = sigma(p["q"]) if learn_alpha else 0.8
    h, s = state["h"], state["s"]
    for t, u in enumerate(U):
        s = (1 - alpha) * u[:, H:] + alpha * s
        h = sigma(s @ p["W_s"] + u[:, :H] + h @ p["W_h"])
        np.testing.assert_allclose(y[t], np.concatenate([h, s], axis=1), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(after["h"], h, rtol=1e-13)
    np.testing.assert_allclose(after["s"], s, rtol=1e-13)


def test_learned_alpha_at_its_logit_is_fixed_alpha():
    alpha = 0.3
    fixed, learned = network(alpha=alpha, hidden=(3, 2)), network(alpha=alpha, hidden=(3, 2), learn_alpha=True)
    assert learned.n_parameters == fixed.n_parameters + 4
    check_learned_at_its_logit(fixed, learned, alpha)


def test_without_context_it_is_a_logistic_rnn():
    net, rnn = network(context=0), hfrnn.Network("rnn", 4, 3, 4, activation="logistic", bias=False, dtype="float64")
    assert net.n_parameters == rnn.n_parameters
    batch = random_batch(net, np.random.default_rng(0), ragged=True)
    theta, v, _ = vectors(net, batch)
    for f in (
        lambda net: net.run(theta, batch)[0],
        lambda net: net.loss_and_gradient(theta, batch)[1],
        lambda net: net.gauss_newton(theta, batch, structural=0.7, tikhonov=0.3) @ v,
    ):
        np.testing.assert_allclose(f(net), f(rnn), rtol=1e-12)


@pytest.mark.parametrize("initializer", ["papers", "sutskever"])
def test_without_hidden_units_the_output_hears_the_context_alone(initializer):
    net = network(hidden=(0, 0), context=3, learn_alpha=True)
    shapes = {name: view.shape for name, view in net.views(net.init(initializer=initializer)).items()}
    assert shapes["layer0.W_x"] == (4, 3)
    assert shapes["layer1.W_below"] == (3, 3)
    assert shapes["layer0.W_h"] == (0, 0)
    assert shapes["layer0.W_s"] == (3, 0)
    assert shapes["output.W_y0"] == (3, 4)


@pytest.mark.parametrize("initializer", ["papers", "sutskever"])
def test_learned_alpha_starts_at_the_given_alpha_whatever_the_scale(initializer):
    net = network(learn_alpha=True, alpha=0.7)
    q = net.views(net.init(initializer=initializer, scale=0.5))["layer0.q"]
    np.testing.assert_allclose(sigma(q), 0.7, rtol=1e-14)
    assert (net.views(net.init(q=0.1))["layer0.q"] != q).all()  # asked for by name


def test_alpha_is_0_95_unless_it_is_given():
    assert alpha_of(network()) == alpha_of(network(alpha=None)) == 0.95
    assert alpha_of(network(alpha=0.6)) == 0.6
    assert alpha_of(network(alpha=0.9)) == 0.9


@pytest.mark.parametrize(("wrong", "message"), [
    ({"hidden": 0, "context": 0}, "hidden and context are both 0: give scrn at least one unit"),
    ({"hidden": -1}, "hidden is -1: give a whole number, 0 or more"),
    ({"alpha": 1, "learn_alpha": True}, "alpha is 1.0: learned, it starts between 0 and 1"),
])  # fmt: skip
def test_a_wrong_option_is_refused(wrong, message):
    with pytest.raises(hfrnn.InputError, match=message):
        network(**wrong)


@pytest.mark.parametrize("hidden", [0])
def test_a_run_trains_and_evaluates_with_its_options(tmp_path, hidden):
    tiny_train(tmp_path, arch="scrn", hidden=hidden, context=5, learn_alpha=True)
    net, theta, vocabulary = hfrnn.load(tmp_path / "run")
    assert net.hidden == (hidden,)
    assert alpha_of(net) == 0.95
    q = net.views(theta)["layer0.q"]
    assert q.shape == (5,)
    assert (np.abs(q - math.log(0.95 / 0.05)) > 0).all()  # it has learned
    scores = [evaluate(net, theta, vocabulary, TEXT[:100], chunk=chunk).nats for chunk in (1, 1000)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
