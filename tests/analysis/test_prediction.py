"""Predictions, their scores, and free runs of small networks; the figures against formulas written out with sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.engine_cases import SMALL, random_batch, replace, vectors

import hfrnn
from hfrnn.analysis import prediction
from hfrnn.analysis.prediction import predict, score
from hfrnn.analysis.prediction_files import csv_text
from hfrnn.analysis.scores import figures
from hfrnn.data.scaling import Scaling
from hfrnn.errors import InputError, NonFiniteError


def problem(loss: str = "squared", arch: str = "rnn", n_out: int = 3, **batch: Any) -> tuple[Any, Any, hfrnn.Batch]:
    net = hfrnn.Network(arch, 3, (4, 3), n_out, loss=loss, dtype="float64", **SMALL.get(arch, {}))
    data = random_batch(net, np.random.default_rng(1), 7, 5, real=True, **batch)
    return net, vectors(net, data)[0], data


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax", "class-softmax"])
def test_outputs_are_values_or_probabilities(loss: str) -> None:
    classes = {"classes": 2} if loss == "class-softmax" else {}
    net = hfrnn.Network("lstm", 3, 4, 5, loss=loss, dtype="float64", **classes)
    batch = random_batch(net, np.random.default_rng(1), real=True, ragged=True)
    theta = vectors(net, batch)[0]
    z = net.run(theta, batch)[0]
    exists = np.arange(batch.T)[:, None] < batch.lengths
    expected = {
        "squared": z, "logistic": 1 / (1 + np.exp(-z)), "class-softmax": np.exp(z),
        "softmax": np.exp(z) / np.exp(z).sum(axis=2, keepdims=True),
    }[loss] * exists[:, :, None]  # fmt: skip
    found = predict(net, theta, batch)
    np.testing.assert_allclose(found.outputs, expected, rtol=1e-12)
    assert found.states is None


@pytest.mark.parametrize("arch", ["lstm", "clockwork", "hornn", "scrn"])
@pytest.mark.parametrize("how", [{}, {"ragged": True}, {"carried": True}])
def test_results_do_not_depend_on_what_runs_at_once(arch: str, how: dict[str, Any], monkeypatch) -> None:
    net, theta, batch = problem(arch=arch, **how)
    outputs, _, states = net.run(theta, batch, states=True)
    monkeypatch.setattr(prediction, "STEPS", 3)
    monkeypatch.setattr(prediction, "TOGETHER", 14)
    found = predict(net, theta, batch, states=True)
    np.testing.assert_allclose(found.outputs, outputs, rtol=1e-12, atol=1e-14)
    for one, other in zip(found.states, states, strict=True):
        for name in other:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize(("loss", "how"), [
    *((loss, how) for loss in ("squared", "logistic") for how in ({}, {"ragged": True}, {"by_output": True})),
    ("softmax", {}), ("softmax", {"ragged": True}),
])  # fmt: skip
def test_scores_are_the_figures_of_the_scored_steps(loss: str, how: dict[str, Any]) -> None:
    net, theta, batch = problem(loss, **how)
    z, weights = net.run(theta, batch)[0], batch.output_weights(net.backend)
    weights = weights[:, :, 0] if weights.shape[2] == 1 else weights
    flat = [each.reshape(batch.T * batch.B, *each.shape[2:]) for each in (z, batch.targets, weights)]
    found, expected = score(net, theta, batch, ["a", "b", "c"]), figures(loss, *flat, ["a", "b", "c"])
    assert (found.steps, list(found.outputs)) == (expected.steps, list(expected.outputs))
    for one, row in ((found.overall, expected.overall), *((found.outputs[k], expected.outputs[k]) for k in "abc")):
        assert {name: value is None for name, value in one.items()} == {name: row[name] is None for name in row}
        numbers = {name: value for name, value in row.items() if value is not None}
        assert {name: one[name] for name in numbers} == pytest.approx(numbers, rel=1e-12)
    if "by_output" not in how and loss != "softmax":
        name, factor = ("mse", 0.5) if loss == "squared" else ("cross_entropy", 1.0)
        assert found.overall[name] * factor * 3 == pytest.approx(net.loss(theta, batch), rel=1e-12)


@pytest.mark.parametrize("scaling", [None, Scaling(np.zeros(3), np.ones(3))])
def test_a_score_needs_targets_and_weights_that_fit_and_finite_outputs(scaling: Scaling | None) -> None:
    net, theta, batch = problem()
    wide = np.zeros((batch.T, batch.B, 4))
    for wrong, words in ((wide, "targets"), (wide[:, :, :1], "targets"), (None, "no targets")):
        with pytest.raises(InputError, match=words):
            score(net, theta, replace(batch, targets=wrong), scaling=scaling)
    with pytest.raises(NonFiniteError, match="not finite"):
        predict(net, theta * 1e308, batch)
    net, theta, batch = problem("softmax")
    with pytest.raises(InputError, match="weights"):
        score(net, theta, hfrnn.Batch(batch.inputs, batch.targets, np.ones((batch.T, batch.B))[:-1]))
    with pytest.raises(InputError, match="target"):
        score(net, theta, replace(batch, targets=batch.targets + 3), scaling=scaling)


def test_names_of_outputs_differ_because_each_has_a_line_of_its_own() -> None:
    net, theta, batch = problem()
    with pytest.raises(InputError, match=r"^names has 'a' twice, and figures have one line for each name: give other "):
        score(net, theta, batch, names=["a", "b", "a"])


def test_a_table_shows_a_small_range_beside_a_large_mean_and_a_symbol_that_is_not_scored_may_be_any_number() -> None:
    rng = np.random.default_rng(0)
    y = np.stack([rng.normal(size=20), 1e9 + rng.normal(size=20), np.full(20, 0.25)], axis=1)
    found = np.loadtxt(csv_text({"y": y}, ("a", "b", "c")).splitlines(), delimiter=",", skiprows=1)[:, 1:]
    assert (abs(found - y) <= 1e-6 * y.std(axis=0) + 1e-300).all()
    assert max(map(len, csv_text({"y": y[:, :1]}, ()).splitlines())) <= 16
    net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=3)
    targets, weights = np.array([[-100], [2]]), np.array([[0.0], [1.0]])
    batch = hfrnn.Batch(np.zeros((2, 1, 2), "f4"), targets, weights=weights)
    np.testing.assert_array_equal(prediction.scored_targets(net, batch)[:, 0], [[np.nan] * 3, [0.0, 0.0, 1.0]])


rng = np.random.default_rng(4)
Z = rng.standard_normal((30, 3))
Y = 0.7 * Z + rng.standard_normal((30, 3)) * [0.1, 1.0, 5.0] + [0.0, 3.0, -40.0]
W = np.where(rng.random((30, 3)) < 0.6, rng.uniform(0.5, 2.0, (30, 3)), 0.0)


def by_hand(z: Any, y: Any, w: Any) -> dict[str, float]:
    """The figures of one real output, by loops."""
    total = sum(w)
    mean = sum(a * b for a, b in zip(w, y, strict=True)) / total
    error = sum(a * (p - b) ** 2 for a, b, p in zip(w, y, z, strict=True)) / total
    variance = sum(a * (b - mean) ** 2 for a, b in zip(w, y, strict=True)) / total
    nrmse = (error / variance) ** 0.5
    return {"mse": error, "rmse": error**0.5, "r2": 1 - error / variance, "nrmse": nrmse, "fit": 100 * (1 - nrmse)}


def test_real_outputs_with_a_weight_each() -> None:
    found = figures("squared", Z, Y, W, ["a", "b", "c"])
    rows = [by_hand(Z[:, k], Y[:, k], W[:, k]) for k in range(3)]
    for name, row in zip("abc", rows, strict=True):
        assert found.outputs[name] == pytest.approx(row, rel=1e-12)
    mse, r2 = (sum(row[each] for row in rows) / 3 for each in ("mse", "r2"))
    overall = {"mse": mse, "rmse": mse**0.5, "r2": r2, "nrmse": (1 - r2) ** 0.5, "fit": 100 - 100 * (1 - r2) ** 0.5}
    assert found.overall == pytest.approx(overall, rel=1e-12)
    assert found.steps == (W > 0).any(axis=1).sum()


def test_the_overall_nrmse_of_a_nearly_exact_fit_has_all_its_digits() -> None:
    found = figures("squared", Y + 1e-9 * Z, Y, np.ones(30))
    squares = [found.outputs[name]["nrmse"] ** 2 for name in "012"]  # type: ignore[operator]
    assert found.overall["nrmse"] == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-12)


def test_what_has_no_weight_may_hold_anything_and_weights_of_steps_are_those_of_all_their_outputs() -> None:
    z, y = Z.copy(), Y.copy()
    z[W == 0], y[W == 0] = np.nan, np.inf
    assert figures("squared", z, y, W) == figures("squared", Z, Y, W)
    assert figures("logistic", z, np.where(W > 0, Y > 0, np.nan), W) == figures("logistic", Z, (Y > 0) * 1.0, W)
    w = W[:, 0]
    assert figures("squared", Z, Y, w) == figures("squared", Z, Y, np.repeat(w[:, None], 3, axis=1))


def test_targets_that_do_not_vary_have_no_r2_and_weights_that_sum_to_infinity_or_nothing_are_refused() -> None:
    y = np.stack([np.full(30, 0.1), Y[:, 1]], axis=1)
    found = figures("squared", Z[:, :2], y, np.ones(30))
    assert [found.outputs["0"][each] for each in ("r2", "nrmse", "fit")] == [None] * 3
    assert found.overall["r2"] == found.outputs["1"]["r2"]
    assert figures("squared", Z[:, :1], y[:, :1], np.ones(30)).overall["r2"] is None
    for loss in ("squared", "logistic"):
        with pytest.raises(InputError, match=r"^the weights sum to infinity: give smaller weights$"):
            figures(loss, Z, Y, np.full((30, 3), 1e308))
    for steps, weights in ((30, np.zeros(30)), (0, np.zeros((0, 3)))):
        with pytest.raises(InputError, match="no step has a weight"):
            figures("squared", Z[:steps], Y[:steps], weights)


def test_bits_by_hand() -> None:
    z, y, w = np.array([[2.0], [-1.0], [0.5], [0.0]]), np.array([[1.0], [1.0], [0.0], [1.0]]), np.array([1.0, 2, 3, 4])
    p = 1 / (1 + np.exp(-z[:, 0]))
    entropy = -(math.log(p[0]) + 2 * math.log(p[1]) + 3 * math.log(1 - p[2]) + 4 * math.log(p[3])) / 10
    found = figures("logistic", z, y, w).overall
    assert found == pytest.approx({"cross_entropy": entropy, "accuracy": 0.1}, rel=1e-14)
    assert figures("logistic", z, y * 0.3, w).overall["accuracy"] is None  # targets between bits


def test_classes_by_hand_and_large_outputs_do_not_overflow() -> None:
    z, y = np.log([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.5, 0.4], [0.2, 0.2, 0.6]]) + 5.0, np.array([0, 0, 1, 2])
    found = figures("softmax", z, y, np.array([1.0, 1.0, 2.0, 0.0]))
    first = -(math.log(0.7) + math.log(0.3))
    overall = {"cross_entropy": (first - 2 * math.log(0.5)) / 4, "accuracy": 0.75}
    assert found.overall == pytest.approx(overall, rel=1e-12)
    assert found.outputs.keys() == {"0", "1"}
    assert found.outputs["0"] == pytest.approx({"cross_entropy": first / 2, "accuracy": 0.5}, rel=1e-12)
    assert found.steps == 3
    bits = figures("logistic", np.array([[900.0], [-900.0]]), np.array([[1.0], [0.0]]), np.ones(2))
    assert bits.overall == {"cross_entropy": 0.0, "accuracy": 1.0}
    assert figures("softmax", np.array([[900.0, -900.0]]), np.array([1]), np.ones(1)).overall["cross_entropy"] == 1800


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_an_output_that_is_never_scored_has_no_figures_and_no_share_of_the_overall_ones(loss: str) -> None:
    w = W.copy()
    w[:, 1] = 0
    found, others = figures(loss, Z, Y, w), figures(loss, Z[:, [0, 2]], Y[:, [0, 2]], w[:, [0, 2]], ["0", "2"])
    assert list(found.outputs) == ["0", "1", "2"]
    assert found.outputs["1"] == dict.fromkeys(others.overall)
    assert {name: found.outputs[name] for name in ("0", "2")} == others.outputs
    assert found.overall == others.overall
