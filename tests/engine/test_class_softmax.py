"""The class softmax against plain formulas, its classes, its cost, and its way through training."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.engine_cases import CLASSES, plans, random_batch
from support.tiny_runs import FLAGS, TEXT, text_file, tiny_train

import hfrnn
from hfrnn.analysis.evaluation import evaluate
from hfrnn.cli import main
from hfrnn.data.vocabulary import frequency_classes
from hfrnn.engine import class_softmax
from hfrnn.engine.class_softmax import classes_of_symbols
from hfrnn.engine.plan import Keep, Plan
from hfrnn.engine.planner import footprint_of, make_plan
from hfrnn.engine.sampling import sample

EPS = 1e-20


@pytest.fixture(autouse=True, scope="module", params=[1, 4, class_softmax.BUNDLE], ids="bundles of {}".format)
def bundle(request: pytest.FixtureRequest) -> Iterator[int]:
    """Everything with each class by itself, with some classes together, and with all of the small ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_softmax, "BUNDLE", request.param)
        yield request.param


def network(classes: Any = CLASSES, hidden: Any = (4, 3), n_out: int = 6, **arguments: Any) -> hfrnn.Network:
    options = {"dtype": "float64", "output_bias": True, **arguments}
    return hfrnn.Network("rnn", 5, hidden, n_out, "class-softmax", classes=classes, **options)


def problem(net: hfrnn.Network, **batch: Any) -> tuple[hfrnn.Batch, Any, Any]:
    rng = np.random.default_rng(3)
    n = net.n_parameters
    return random_batch(net, rng, ragged=True, **batch), 0.7 * rng.standard_normal(n), rng.standard_normal(n)


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


# ---------------------------------------------------------------------- against the formulas


def test_the_loss_is_that_of_the_formula() -> None:
    net = network()
    batch, theta, _ = problem(net)
    assert net.loss(theta, batch) == pytest.approx(plain_loss(net, theta, batch), rel=1e-13)


def test_the_gradient_is_the_complex_step_of_the_formula_in_every_block() -> None:
    net = network()
    batch, theta, _ = problem(net)
    gradient = net.loss_and_gradient(theta, batch)[1]
    steps = np.eye(net.n_parameters)
    expected = np.array([plain_loss(net, theta + 1j * EPS * e, batch).imag / EPS for e in steps])
    for name, block in net.views(np.arange(net.n_parameters)).items():
        found, reference = gradient[block], expected[block]
        assert np.linalg.norm(found - reference) <= 1e-12 * np.linalg.norm(reference), name
        assert np.linalg.norm(reference) > 0, name


def test_the_product_is_that_of_the_dense_blocks_of_both_softmaxes() -> None:
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


def test_the_logits_are_the_log_probabilities_of_all_symbols_in_their_order() -> None:
    net = network()
    batch, theta, _ = problem(net)
    logits, _ = net.run(theta, batch)
    exists = np.arange(batch.T)[:, None] < batch.lengths
    np.testing.assert_allclose(np.exp(logits[exists]).sum(axis=-1), 1.0, rtol=1e-13)
    p = probabilities(net, *outputs(net, theta, batch))
    np.testing.assert_allclose(np.exp(logits[exists]), p[exists], rtol=1e-11)
    assert (logits[~exists] == 0).all()


def test_the_log_probabilities_of_targets_are_those_of_the_logits_whatever_the_weights() -> None:
    net = network()
    batch, theta, _ = problem(net)
    logits, _ = net.run(theta, batch)
    expected = np.take_along_axis(logits, batch.targets[:, :, None], axis=-1)[:, :, 0]
    np.testing.assert_allclose(net.log_probabilities(theta, batch), expected, rtol=1e-12, atol=1e-14)
    assert (batch.weights == 0).any()


def test_the_jacobian_is_that_of_class_outputs_then_symbol_outputs_in_column_order() -> None:
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


def test_every_plan_gives_the_same() -> None:
    net = network()
    batch, theta, v = problem(net)
    loss, gradient = net.loss_and_gradient(theta, batch)
    product = net.gauss_newton(theta, batch, structural=0.3) @ v
    for name, plan in plans(batch.T, batch.B).items():
        f = hfrnn.Objective(net, batch, plan=plan)
        found, g = f.loss_and_gradient(theta)
        assert found == pytest.approx(loss, rel=1e-13), name
        assert f.loss(theta) == pytest.approx(loss, rel=1e-13), name
        assert np.linalg.norm(g - gradient) <= 1e-12 * np.linalg.norm(gradient), name
        Gv = f.gauss_newton(theta, structural=0.3) @ v
        assert np.linalg.norm(Gv - product) <= 1e-12 * np.linalg.norm(product), name


def test_a_segment_in_which_nothing_is_predicted_adds_nothing() -> None:
    net = network()
    batch, theta, v = problem(net)
    batch.weights[2:4] = 0
    f = hfrnn.Objective(net, batch, plan=Plan((0, batch.B), 2, Keep.ALL))
    assert f.loss_and_gradient(theta)[0] == pytest.approx(plain_loss(net, theta, batch), rel=1e-13)
    product = net.gauss_newton(theta, batch) @ v
    assert np.linalg.norm(f.gauss_newton(theta) @ v - product) <= 1e-12 * np.linalg.norm(product)


def test_one_class_is_a_full_softmax() -> None:
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


def test_bundles_change_nothing_but_the_number_of_products(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = np.repeat(np.arange(6), [3, 1, 2, 1, 1, 4])
    found, products, real = {}, [], np.matmul
    for size in range(1, 13):
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
    bundles = [6, 5, 4, 3, 3, 2, 2, 2, 2, 2, 2, 1]  # of 1, 2, ... symbols
    layers = len(net.hidden)
    assert [count - products[-1] for count in products] == [layers * (n - 1) for n in bundles]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_outputs_overflow_nowhere(dtype: str) -> None:
    net = network(dtype=dtype, hidden=3)
    batch, theta, _ = problem(net)
    with np.errstate(all="raise", under="ignore"):
        loss, gradient = net.loss_and_gradient(1e4 * theta, batch)
        logits, _ = net.run(1e4 * theta, batch)
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()
    assert np.isfinite(logits).all()


# ---------------------------------------------------------------------- cost and memory


def test_a_token_costs_the_classes_and_the_symbols_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    V, C, H, T, B = 1500, 20, 8, 6, 50
    net = network(C, hidden=H, n_out=V)
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(5, size=(T, B)), rng.integers(V, size=(T, B)))
    theta = net.init(scale=0.3)
    multiplied, real = [], np.matmul

    def counted(a: Any, b: Any, **keywords: Any) -> Any:
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


def test_tokens_without_weight_are_left_out() -> None:
    net = network(hidden=4)
    batch, _, _ = problem(net)
    f = hfrnn.Objective(net, batch, threads=1)
    scored = f._transient(Keep.STATES)[0].segments[0].scored
    assert scored.tokens.size == (weights(batch) > 0).sum() < batch.T * batch.B


def test_a_second_product_allocates_neither_outputs_nor_states() -> None:
    V, C, T, B, H = 3000, 30, 48, 16, 64
    net = network(C, hidden=H, n_out=V, dtype="float32")
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(5, size=(T, B)), rng.integers(V, size=(T, B)))
    theta = net.init()
    for keep in (Keep.ALL, Keep.NOTHING):
        f = hfrnn.Objective(net, batch, threads=1, plan=Plan((0, 8, B), 8, keep))
        G, out = f.gauss_newton(theta, structural=0.5, tikhonov=0.1), theta.copy()
        for _ in range(2):
            G.apply(theta, out)
        gc.collect()
        tracemalloc.start()
        try:
            G.apply(theta, out)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 0.5 * 4 * T * B * (V // C + C)


def test_a_plan_expects_no_less_than_is_taken_whatever_the_targets() -> None:
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


# ---------------------------------------------------------------------- classes


def test_parameters_are_a_matrix_a_layer_and_a_bias_of_symbols_and_of_classes() -> None:
    shapes = {b.name: b.shape for b in network().parameters.blocks if b.name.startswith("output.")}
    assert shapes == {
        "output.W_y0": (4, 6), "output.W_y1": (3, 6), "output.W_class0": (4, 3), "output.W_class1": (3, 3),
        "output.b_y": (6,), "output.b_class": (3,),
    }  # fmt: skip
    assert not any(".b_" in b.name for b in network(output_bias=False).parameters.blocks)


def test_the_columns_of_a_class_are_one_piece_of_the_vector() -> None:
    net = network()
    flat = np.arange(net.n_parameters)
    views = net.views(flat)
    np.testing.assert_array_equal(np.diff(views["output.W_y0"].T.ravel()), 1)
    np.testing.assert_array_equal(np.diff(views["output.W_class0"].ravel()), 1)
    assert all(np.shares_memory(view, flat) for view in views.values())


def test_biases_start_at_zero() -> None:
    net = network()
    views = net.views(net.init())
    assert not views["output.b_class"].any()
    assert views["output.W_class0"].any()


def test_a_number_of_classes_cuts_the_symbols_in_order_into_nearly_equal_parts() -> None:
    assert classes_of_symbols(7, 3) == (0, 0, 0, 1, 1, 2, 2)
    assert classes_of_symbols(4, 4) == (0, 1, 2, 3)
    for count in range(1, 31):
        sizes = np.bincount(classes_of_symbols(30, count))
        assert sizes.size == count
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("classes", [3, CLASSES, tuple(CLASSES), np.array(CLASSES)])
def test_the_configuration_goes_through_json(classes: Any) -> None:
    net = network(classes)
    again = hfrnn.Network(**json.loads(json.dumps(net.config)))
    batch, theta, _ = problem(net)
    assert again.config == net.config
    assert again.loss(theta, batch) == net.loss(theta, batch)


REFUSED = {
    "none": (None, "classes is None: the loss 'class-softmax' needs a number of classes, or the class of each symbol"),
    "no class": (0, "classes is 0: with n_out = 6 give 1 to 6 classes"),
    "more classes than symbols": (7, "classes is 7: with n_out = 6 give 1 to 6 classes"),
    "a Boolean": (True, "classes is True: the loss 'class-softmax' needs a number of classes"),
    "text": ("many", "classes is 'many': the loss 'class-softmax' needs a number of classes"),
    "too few": ([0, 1], "classes has 2 numbers: with n_out = 6 give the class of each symbol"),
    "an empty class": ([0, 0, 2, 2, 2, 2], "are 2 different numbers from 0 to 2: number them from 0 up and leave none"),
    "a negative class": ([-1, 0, 0, 1, 1, 1], "are 3 different numbers from -1 to 1: number them from 0 up"),
    "real numbers": ([0.0, 1, 0, 1, 0, 1], "the loss 'class-softmax' needs a number of classes"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_classes_that_do_not_fit_are_refused(what: str) -> None:
    classes, message = REFUSED[what]
    with pytest.raises(hfrnn.InputError) as caught:
        network(classes)
    assert message in str(caught.value)


def test_classes_for_another_loss_are_refused() -> None:
    with pytest.raises(hfrnn.InputError, match="classes were given with the loss 'softmax': leave them out, or use"):
        hfrnn.Network("rnn", 5, 4, 6, classes=3)


def test_targets_that_are_no_symbols_are_refused() -> None:
    net = network()
    batch, theta, _ = problem(net)
    batch.targets[0, 0] = 6
    with pytest.raises(hfrnn.InputError, match="target symbols go from 0 to 6: with n_out = 6 they lie in 0 to 5"):
        net.loss(theta, batch)
    batch.targets = np.zeros((batch.T, batch.B, 6))
    with pytest.raises(hfrnn.InputError, match="the class-softmax loss needs integer symbols"):
        net.loss(theta, batch)


# ---------------------------------------------------------------------- classes by frequency


def test_classes_by_frequency_end_where_their_share_is_reached() -> None:
    assert frequency_classes([1, 4, 2, 1], 2).tolist() == [1, 0, 1, 1]
    assert frequency_classes([3, 3, 3, 3], 2).tolist() == [0, 0, 1, 1]
    assert frequency_classes([9, 1, 1, 1], 3).tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize("n_classes", [1, 2, 7, 100])
def test_classes_by_frequency_have_about_equal_shares(n_classes: int) -> None:
    counts = 10**9 // np.arange(1, 5001)
    classes = frequency_classes(counts[::-1], n_classes)[::-1]
    assert (np.diff(classes) >= 0).all()
    so_far = np.cumsum(counts)
    for c in range(n_classes - 1):
        members = np.flatnonzero(classes == c)
        assert so_far[members[-1]] >= (c + 1) / n_classes * counts.sum()
        assert members.size == 1 or so_far[members[-2]] < (c + 1) / n_classes * counts.sum()


@pytest.mark.parametrize("counts", [[10**6, 1, 1, 1, 1], [0, 0, 0, 0, 9], [0, 0, 0, 0, 0], [2**62, 2**61, 7, 0, 0]])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5])
def test_classes_by_frequency_are_never_empty(counts: list[int], n_classes: int) -> None:
    classes = frequency_classes(counts, n_classes)
    assert np.unique(classes).tolist() == list(range(n_classes))
    order = np.argsort(-np.array(counts), kind="stable")
    assert (np.diff(classes[order]) >= 0).all()


@pytest.mark.parametrize("wrong", [([1, 2], 0), ([1, 2], 3), ([1, -2], 1), ([0.5, 1.0], 1), ([[1, 2]], 1)])
def test_wrong_counts_and_numbers_of_classes_are_refused(wrong: Any) -> None:
    with pytest.raises(hfrnn.InputError, match=r"classes were asked for: with|must be a row of whole numbers"):
        frequency_classes(*wrong)


# ---------------------------------------------------------------------- training


def test_a_run_with_classes_loads_evaluates_and_samples(tmp_path: Any) -> None:
    result = tiny_train(tmp_path, arch="rnn", classes=4)
    net, theta, vocabulary = hfrnn.load(result.folder)
    symbols = vocabulary.encode(TEXT[: int(0.9 * len(TEXT))])
    expected = frequency_classes(np.bincount(symbols, minlength=vocabulary.size), 4)
    assert net.loss_name == "class-softmax"
    assert net.config == result.net.config
    assert net.config["classes"] == expected.tolist()
    assert net.config["classes"] != sorted(net.config["classes"])
    drawn = list(sample(net, theta, vocabulary.encode("The "), 5))
    assert drawn[0].probabilities.sum() == pytest.approx(1, rel=1e-12)
    found = evaluate(net, theta, vocabulary, TEXT)
    symbols = vocabulary.encode(TEXT).reshape(-1, 1)
    logits, _ = net.run(theta, hfrnn.Batch(symbols[:-1]))
    nats = -np.take_along_axis(logits[:, 0].astype(float), symbols[1:], axis=1).sum()
    assert found.nats == pytest.approx(nats, rel=1e-5)


def test_a_run_with_classes_goes_on_as_if_it_had_not_ended(tmp_path: Any) -> None:
    whole = tiny_train(tmp_path, "whole", arch="rnn", classes=4, updates=3)
    tiny_train(tmp_path, "part", arch="rnn", classes=4, updates=1)
    resumed = hfrnn.train(resume=tmp_path / "part", updates=3)
    np.testing.assert_array_equal(resumed.theta, whole.theta)


def test_the_command_line_takes_classes(tmp_path: Any) -> None:
    text, out = str(text_file(tmp_path)), str(tmp_path / "run")
    arguments = ["train", text, "--arch", "rnn", "--classes", "3", "--out", out, *FLAGS]
    found = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert hfrnn.load(out).net.head.n_outputs == hfrnn.load(out).vocabulary.size + 3
    for command in (["evaluate", out], ["sample", out, "--length", "5"]):
        assert CliRunner().invoke(main, command, catch_exceptions=False).exit_code == 0
    refused = CliRunner().invoke(main, [*arguments[: -len(FLAGS)], "--classes", "1000"])
    assert refused.exit_code == 2
    assert "1000 classes were asked for: with" in refused.output


def test_no_classes_is_a_full_softmax(tmp_path: Any) -> None:
    assert tiny_train(tmp_path, arch="rnn", classes=0).net.loss_name == "softmax"
    with pytest.raises(hfrnn.InputError, match="--classes is -1: give a number of classes, 0 for a full softmax"):
        tiny_train(tmp_path, "other", classes=-1)
