"""Batches: what fits together, what is padding, how sequences are cut out."""

import re
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.arrays.backend import get_backend

numpy = get_backend("numpy")


def batch(**changes: Any) -> hfrnn.Batch:
    return hfrnn.Batch(**{"inputs": np.zeros((3, 2), int), "targets": np.ones((3, 2), int), **changes})


def test_sizes_are_those_of_the_inputs_and_lengths_may_be_a_list():
    assert (batch().T, batch().B) == (3, 2)
    assert batch(inputs=np.zeros((3, 2, 7))).B == 2
    np.testing.assert_array_equal(batch(lengths=[3, 2]).lengths, [3, 2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": [[1, 2]]}, "inputs is a list: give an array of numbers"),
        ({"inputs": np.zeros(3, int)}, "inputs are an array of shape (3,) and type int64; expected an"),
        ({"inputs": np.zeros((3, 2))}, "type float64; expected an array (T, B) of integer symbols or"),
        ({"inputs": np.zeros((3, 2, 4), int)}, "type int64; expected an array (T, B) of integer symbols or"),
        ({"inputs": np.zeros((0, 2), int)}, "shape (0, 2) and type int64; at least one step and one sequence"),
        ({"lengths": [3, [2]]}, "lengths is a list: give an array"),
        ({"lengths": [3.0, 2.0]}, "lengths has shape (2,) and type float64: give an array (2,) of integers"),
        ({"lengths": np.array([3])}, "lengths has shape (1,) and type int64: give an array (2,) of integers"),
        ({"lengths": np.array([0, 2])}, "lengths go from 0 to 2; expected 1 to 3"),
        ({"lengths": np.array([4, 2])}, "lengths go from 2 to 4; expected 1 to 3"),
        ({"targets": np.zeros((4, 2), int)}, "inputs of 3 steps and 2 sequences need (3, 2, ...)"),
        ({"targets": np.zeros((3, 2, 1, 1))}, "inputs of 3 steps and 2 sequences need"),
        ({"targets": np.ones((3, 2, 1), bool)}, "targets have type bool: give integer symbols or"),
        ({"weights": np.ones((2, 3))}, "(2, 3) and type float64: give an array (3, 2) of numbers, one per step and"),
        ({"weights": np.ones((3, 2, 4))}, "(3, 2, 4), but targets of shape (3, 2) are symbols: give an"),
        (
            {"targets": np.ones((3, 2, 5)), "weights": np.ones((3, 2, 4))},
            "give an array (3, 2, 5) of numbers, one per step, s",
        ),
        ({"targets": None, "weights": np.ones((2, 2, 4))}, "give an array (3, 2, n) of numbers, one per step,"),
        ({"weights": np.full((3, 2), -0.1)}, "weights hold a negative number or NaN; a weight is 0"),
        ({"weights": np.full((3, 2), np.nan)}, "weights holds NaN or infinity"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(changes, message):
    with pytest.raises(hfrnn.InputError, match=re.escape(message)):
        batch(**changes)


def test_columns_are_views_of_some_sequences():
    rng = np.random.default_rng(0)
    state: list[dict[str, Any]] = [{"h": rng.random((4, 3)), "history": rng.random((2, 4, 3)), "t": 5}]
    whole = batch(
        inputs=rng.integers(9, size=(3, 4)), targets=rng.random((3, 4, 2)), weights=rng.random((3, 4)),
        lengths=np.array([3, 1, 2, 3]), initial_state=state,
    )  # fmt: skip
    part = whole.columns(1, 3)
    assert (part.T, part.B) == (3, 2)
    for name in ("inputs", "targets", "weights"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[:, 1:3])
    np.testing.assert_array_equal(part.lengths, [1, 2])
    (layer,) = part.initial_state or []
    np.testing.assert_array_equal(layer["h"], state[0]["h"][1:3])
    np.testing.assert_array_equal(layer["history"], state[0]["history"][:, 1:3])
    assert layer["t"] == 5
    assert np.shares_memory(part.inputs, whole.inputs)


def test_step_weights_are_1_or_as_given_and_0_in_the_padding():
    np.testing.assert_array_equal(batch().step_weights(numpy), np.ones((3, 2)))
    weights, lengths = np.arange(6.0).reshape(3, 2), np.array([1, 3])
    np.testing.assert_array_equal(batch(weights=weights).step_weights(numpy), weights)
    expected = [[0, 1], [0, 3], [0, 5]]
    ragged = batch(weights=weights, lengths=lengths)
    np.testing.assert_array_equal(ragged.step_weights(numpy), expected)
    assert ragged.total_weight(numpy) == 9.0
    assert batch(lengths=lengths).total_weight(numpy) == 4.0
    assert batch(weights=weights.astype("float32")).step_weights(numpy).dtype == np.float64


def test_the_weight_of_a_step_is_the_mean_of_the_weights_of_its_outputs():
    weights = np.array([[[1.0, 3.0], [0.0, 0.0]], [[0.5, 0.0], [2.0, 2.0]], [[4.0, 0.0], [9.0, 9.0]]])
    whole = batch(targets=np.ones((3, 2, 2)), weights=weights)
    np.testing.assert_array_equal(whole.step_weights(numpy), [[2, 0], [0.25, 2], [2, 9]])
    np.testing.assert_array_equal(whole.output_weights(numpy), weights)
    shares = [[[0.5, 1.5], [0, 0]], [[2, 0], [1, 1]], [[2, 0], [1, 1]]]
    np.testing.assert_array_equal(whole.output_shares(numpy), shares)
    ragged = batch(targets=np.ones((3, 2, 2)), weights=weights, lengths=np.array([3, 2]))
    np.testing.assert_array_equal(ragged.step_weights(numpy), [[2, 0], [0.25, 2], [2, 0]])
    assert (whole.total_weight(numpy), ragged.total_weight(numpy)) == (15.25, 6.25)
    assert batch(weights=weights[:, :, 0]).output_shares(numpy) is None
    np.testing.assert_array_equal(batch(weights=weights[:, :, 0]).output_weights(numpy), weights[:, :, :1])


def test_exists_tells_steps_from_padding():
    assert batch().exists(numpy) is None
    np.testing.assert_array_equal(batch(lengths=np.array([1, 3])).exists(numpy), [[1, 1], [0, 1], [0, 1]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("axes", [2, 3])
def test_weights_that_sum_to_infinity_are_refused_without_a_warning(axes):
    net = hfrnn.Network("rnn", 2, 3, 4, loss="squared", dtype="float64")
    shape = (5, 3, 4)
    given = hfrnn.Batch(np.ones((5, 3, 2)), np.ones(shape), np.full(shape[:axes], 1e308))
    for use in (lambda: hfrnn.Objective(net, given), lambda: net.loss(net.init(0), given)):
        with pytest.raises(hfrnn.InputError, match="the weights of the batch sum to infinity: give smaller weights"):
            use()
