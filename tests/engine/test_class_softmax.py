"""The class softmax against plain formulas, its classes, its cost, and its way through training."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from support.class_softmax_cases import network, problem
from support.engine_cases import CLASSES

import hfrnn
from hfrnn.data.vocabulary import frequency_classes
from hfrnn.engine.heads import class_softmax
from hfrnn.engine.plan import Keep, Plan
from hfrnn.engine.planner import footprint_of, make_plan

EPS = 1e-20


@pytest.fixture(autouse=True, scope="module", params=[1, class_softmax.BUNDLE], ids="bundles of {}".format)
def bundle(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_softmax, "BUNDLE", request.param)
        yield request.param


def outputs(net: hfrnn.Network, theta: Any, batch: hfrnn.Batch) -> tuple[Any, Any]:
    """The class outputs and the symbols' outputs in the symbols' order, of a plain recurrent network, step by step."""
    views = net.views(theta)
    order = np.argsort(net.config["classes"], kind="stable")
    class_outputs, word_outputs = [], []
    hs = [np.zeros((batch.B, H), theta.dtype) for H in net.hidden]
    for symbols in batch.inputs:
        below, y, z = None, views["output.b_class"], np.zeros((batch.B, net.n_out), theta.dtype)
        for l in range(len(hs)):
            a = views[f"layer{l}.W_x"][symbols] + hs[l] @ views[f"layer{l}.W_h"] + views[f"layer{l}.b"]
            hs[l] = below = np.tanh(a if below is None else a + below @ views[f"layer{l}.W_below"])
            y = y + hs[l] @ views[f"output.W_class{l}"]
            z[:, order] += hs[l] @ views[f"output.W_y{l}"]
        z[:, order] += views["output.b_y"]
        class_outputs.append(y)
        word_outputs.append(z)
    return np.stack(class_outputs), np.stack(word_outputs)


def softmax(z: Any) -> Any:
    return np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)


def probabilities(net: hfrnn.Network, y: Any, z: Any) -> Any:
    """p(class) * p(symbol | class) of every symbol, one class after another."""
    classes, p = np.array(net.config["classes"]), np.empty_like(z)
    for c in np.unique(classes):
        p[..., classes == c] = softmax(y)[..., c : c + 1] * softmax(z[..., classes == c])
    return p


def plain_loss(net: hfrnn.Network, theta: Any, batch: hfrnn.Batch) -> Any:
    p = probabilities(net, *outputs(net, theta, batch))
    of_targets = np.take_along_axis(p, batch.targets[:, :, None], axis=-1)[:, :, 0]
    w = weights(batch)
    return -(np.where(w > 0, w * np.log(of_targets), 0)).sum() / w.sum()


def weights(batch: hfrnn.Batch) -> Any:
    exists = np.arange(batch.T)[:, None] < batch.lengths
    return np.where(exists, batch.weights, 0.0)


def test_loss_and_gradient_are_the_formula_and_its_complex_step_in_every_block():
    net = network()
    batch, theta, _ = problem(net)
    loss, gradient = net.loss_and_gradient(theta, batch)
    assert loss == pytest.approx(plain_loss(net, theta, batch), rel=1e-13)
    steps = np.eye(net.n_parameters)
    expected = np.array([plain_loss(net, theta + 1j * EPS * e, batch).imag / EPS for e in steps])
    for name, block in net.views(np.arange(net.n_parameters)).items():
        found, reference = gradient[block], expected[block]
        assert np.linalg.norm(found - reference) <= 1e-12 * np.linalg.norm(reference), name
        assert np.linalg.norm(reference) > 0, name


def test_the_product_is_that_of_the_dense_blocks_of_both_softmaxes():
    net = network()
    batch, theta, v = problem(net)
    classes, w = np.array(net.config["classes"]), weights(batch)
    y, z = outputs(net, theta, batch)
    columns = [outputs(net, theta + 1j * EPS * e, batch) for e in np.eye(net.n_parameters)]
    Jy, Jz = (np.stack([c[i].imag / EPS for c in columns], axis=-1) for i in (0, 1))  # (T, B, outputs, n)
    G = np.zeros((net.n_parameters, net.n_parameters))
    for t, b in np.argwhere(w > 0):
        own = np.flatnonzero(classes == classes[batch.targets[t, b]])
        for p, J in ((softmax(y[t, b]), Jy[t, b]), (softmax(z[t, b, own]), Jz[t, b][own])):
            G += w[t, b] / w.sum() * J.T @ (np.diag(p) - np.outer(p, p)) @ J
    Gv = net.gauss_newton(theta, batch) @ v
    assert np.linalg.norm(Gv - G @ v) <= 1e-12 * np.linalg.norm(G @ v)


def test_the_logits_are_the_log_probabilities_of_all_symbols_in_their_order():
    net = network()
    batch, theta, _ = problem(net)
    logits, _ = net.run(theta, batch)
    exists = np.arange(batch.T)[:, None] < batch.lengths
    np.testing.assert_allclose(np.exp(logits[exists]).sum(axis=-1), 1.0, rtol=1e-13)
    p = probabilities(net, *outputs(net, theta, batch))
    np.testing.assert_allclose(np.exp(logits[exists]), p[exists], rtol=1e-11)
    assert (logits[~exists] == 0).all()
    of_targets = np.take_along_axis(logits, batch.targets[:, :, None], axis=-1)[:, :, 0]  # whatever the weights
    np.testing.assert_allclose(net.log_probabilities(theta, batch), of_targets, rtol=1e-12, atol=1e-14)


def test_the_jacobian_is_that_of_class_outputs_then_symbol_outputs_in_column_order():
    net = network()
    batch, theta, v = problem(net)
    y, z = (part.imag / EPS for part in outputs(net, theta + 1j * EPS * v, batch))
    order = np.argsort(CLASSES, kind="stable")
    expected = np.concatenate([y, z[..., order]], axis=-1)
    expected[np.arange(batch.T)[:, None] >= batch.lengths] = 0
    J = net.jacobian(theta, batch)
    assert J.shape == (batch.T * batch.B * (3 + 6), net.n_parameters)
    np.testing.assert_allclose((J @ v).reshape(expected.shape), expected, rtol=1e-11, atol=1e-13)
    u = np.random.default_rng(5).standard_normal(J.shape[0])
    Ju, columns = J.rmatvec(u), J @ np.eye(net.n_parameters)
    np.testing.assert_allclose(Ju, columns.T @ u, rtol=1e-10, atol=1e-13)


def test_a_segment_in_which_nothing_is_predicted_adds_nothing():
    net = network()
    batch, theta, v = problem(net)
    batch.weights[2:4] = 0
    f = hfrnn.Objective(net, batch, plan=Plan((0, batch.B), 2, Keep.ALL))
    assert f.loss_and_gradient(theta)[0] == pytest.approx(plain_loss(net, theta, batch), rel=1e-13)
    product = net.gauss_newton(theta, batch) @ v
    assert np.linalg.norm(f.gauss_newton(theta) @ v - product) <= 1e-12 * np.linalg.norm(product)


def test_one_class_is_a_full_softmax():
    net, full = network(1), hfrnn.Network("rnn", 5, (4, 3), 6, dtype="float64", output_bias=True)
    batch, theta, v = problem(net)
    index = np.concatenate([net.views(np.arange(net.n_parameters))[b.name].ravel() for b in full.parameters.blocks])
    (loss, gradient), (expected, g) = net.loss_and_gradient(theta, batch), full.loss_and_gradient(theta[index], batch)
    assert loss == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(gradient[index], g, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(np.delete(gradient, index), 0, atol=1e-15)
    Gv, Gw = net.gauss_newton(theta, batch) @ v, full.gauss_newton(theta[index], batch) @ v[index]
    np.testing.assert_allclose(Gv[index], Gw, rtol=1e-11, atol=1e-14)
    assert np.abs(np.delete(Gv, index)).max() < 1e-14


def test_bundles_change_nothing_but_the_number_of_products(monkeypatch):
    classes = np.repeat(np.arange(6), [3, 1, 2, 1, 1, 4])
    found, products, real = {}, [], np.matmul
    for size in (1, 3, 5, 8, 12):
        monkeypatch.setattr(class_softmax, "BUNDLE", size)
        net = network(classes, n_out=12)
        batch, theta, v = problem(net)
        f = hfrnn.Objective(net, batch, plan=Plan((0, batch.B), None, Keep.ALL))
        found[size] = [*f.loss_and_gradient(theta), f.gauss_newton(theta) @ v]
        with monkeypatch.context() as patch:
            calls: list[int] = []
            patch.setattr(np, "matmul", lambda *a, c=calls, **k: (c.append(1), real(*a, **k))[1])
            f.loss(theta)
        products.append(len(calls))
        for ours, alone in zip(found[size], found[1], strict=True):
            np.testing.assert_allclose(ours, alone, rtol=1e-12, atol=1e-14)
    bundles = [6, 4, 3, 2, 1]
    layers = len(net.hidden)
    assert [count - products[-1] for count in products] == [layers * (n - 1) for n in bundles]


def test_huge_outputs_overflow_nowhere():
    net = network(dtype="float32", hidden=3)
    batch, theta, _ = problem(net)
    with np.errstate(all="raise", under="ignore"):
        loss, gradient = net.loss_and_gradient(1e4 * theta, batch)
        logits, _ = net.run(1e4 * theta, batch)
    assert all(np.isfinite(x).all() for x in (loss, gradient, logits))


def test_a_token_costs_the_classes_and_the_symbols_of_its_own(monkeypatch):
    V, C, H, T, B = 1500, 20, 8, 6, 50
    net = network(C, hidden=H, n_out=V)
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(5, size=(T, B)), rng.integers(V, size=(T, B)))
    theta = net.init(scale=0.3)
    multiplied, real = [], np.matmul

    def counted(a, b, **keywords):
        multiplied.append(a.shape[0] * a.shape[1] * b.shape[1])
        return real(a, b, **keywords)

    f = hfrnn.Objective(net, batch, threads=1, plan=Plan((0, B), None, Keep.ALL))
    G, out, unit = f.gauss_newton(theta), theta.copy(), T * B * (V // C + C) * H
    recurrent = T * B * H * H + T * B * 5 * H  # a unit of W_h; the input's gradient is about a unit of W_x
    tasks = [(lambda: f.loss(theta), 1), (lambda: f.loss_and_gradient(theta), 3), (lambda: G.apply(theta, out), 4)]
    for task, units in [*tasks, (lambda: net.log_probabilities(theta, batch), 1)]:
        multiplied.clear()
        with monkeypatch.context() as patch:
            patch.setattr(np, "matmul", counted)
            task()
        assert units * unit <= sum(multiplied) <= units * (unit + recurrent)
        assert sum(multiplied) < units * T * B * V * H / 5


def test_a_plan_expects_no_less_than_is_taken_whatever_the_targets():
    V, T, B = 300, 40, 60
    counts = 10_000 // np.arange(1, V + 1)
    net = network(frequency_classes(counts, 12), hidden=16, n_out=V, dtype="float32")
    rng = np.random.default_rng(0)
    theta = net.init()
    for targets in (np.full((T, B), V - 1), np.zeros((T, B), int), rng.integers(V, size=(T, B))):
        batch = hfrnn.Batch(rng.integers(5, size=(T, B)), targets)
        plan = make_plan(net, T, B, None)
        tracemalloc.start()
        try:
            f = hfrnn.Objective(net, batch, threads=1, plan=plan)
            f.loss_and_gradient(theta)
            f.gauss_newton(theta, structural=0.1).apply(theta, theta.copy())
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= footprint_of(net).bytes(plan, T, B)
