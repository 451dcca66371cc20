"""The figures of outputs and targets, against formulas written out with sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hfrnn.analysis.scores import figures
from hfrnn.errors import InputError

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
    return {"mse": error, "rmse": error**0.5, "r2": 1 - error / variance, "nrmse": (error / variance) ** 0.5}


def test_real_outputs_with_a_weight_each() -> None:
    found = figures("squared", Z, Y, W, ["a", "b", "c"])
    rows = [by_hand(Z[:, k], Y[:, k], W[:, k]) for k in range(3)]
    for name, row in zip("abc", rows, strict=True):
        assert found.outputs[name] == pytest.approx(row, rel=1e-12)
    mse, r2 = (sum(row[each] for row in rows) / 3 for each in ("mse", "r2"))
    assert found.overall == pytest.approx({"mse": mse, "rmse": mse**0.5, "r2": r2, "nrmse": (1 - r2) ** 0.5}, rel=1e-12)
    assert found.steps == (W > 0).any(axis=1).sum()


def test_what_has_no_weight_may_hold_anything_and_weights_of_steps_are_those_of_all_their_outputs() -> None:
    z, y = Z.copy(), Y.copy()
    z[W == 0], y[W == 0] = np.nan, np.inf
    assert figures("squared", z, y, W) == figures("squared", Z, Y, W)
    assert figures("logistic", z, np.where(W > 0, Y > 0, np.nan), W) == figures("logistic", Z, (Y > 0) * 1.0, W)
    w = W[:, 0]
    assert figures("squared", Z, Y, w) == figures("squared", Z, Y, np.repeat(w[:, None], 3, axis=1))


def test_targets_that_do_not_vary_have_no_r2() -> None:
    y = np.stack([np.full(30, 0.1), Y[:, 1]], axis=1)
    found = figures("squared", Z[:, :2], y, np.ones(30))
    assert (found.outputs["0"]["r2"], found.outputs["0"]["nrmse"]) == (None, None)
    assert found.overall["r2"] == found.outputs["1"]["r2"]
    assert figures("squared", Z[:, :1], y[:, :1], np.ones(30)).overall["r2"] is None


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


def test_weights_that_sum_to_infinity_or_nothing_are_refused() -> None:
    for loss in ("squared", "logistic"):
        with pytest.raises(InputError, match=r"^the weights sum to infinity: give smaller weights$"):
            figures(loss, Z, Y, np.full((30, 3), 1e308))
    for steps, weights in ((30, np.zeros(30)), (0, np.zeros((0, 3)))):
        with pytest.raises(InputError, match="no step has a weight"):
            figures("squared", Z[:steps], Y[:steps], weights)
