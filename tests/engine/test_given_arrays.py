"""Arrays that a caller gives: unusual ones are right, wrong ones are refused, and products do not search for NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import fake_device
from support.fake_device import FakeArray, FakeBackend

import hfrnn

rng = np.random.default_rng(3)
NET = hfrnn.Network("lstm", 5, 4, 3, loss="squared", dtype="float64", l2=0.1)
INPUTS, TARGETS = rng.standard_normal((6, 4, 5)), rng.standard_normal((6, 4, 3))
WEIGHTS, LENGTHS = rng.random((6, 4)), np.array([6, 3, 1, 5])
THETA = rng.integers(-2, 3, NET.n_parameters).astype("float64")


def strided(a: Any) -> Any:
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


def frozen(a: Any) -> Any:
    copy = a.copy()
    copy.flags.writeable = False
    return copy


UNUSUAL: dict[str, Callable[[Any], Any]] = {
    "strided": strided,
    "read-only": frozen,
    "Fortran order": np.asfortranarray,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
}


def results(theta: Any, v: Any, *arrays: Any) -> list[Any]:
    """Loss, gradient and products of an objective."""
    objective = hfrnn.Objective(NET, hfrnn.Batch(*arrays), threads=1)
    loss, gradient = objective.loss_and_gradient(theta)
    G, out = objective.gauss_newton(theta), np.zeros(NET.n_parameters)
    return [loss, gradient, G @ v, G.apply(v, out), objective.jacobian(theta) @ v]


@pytest.mark.parametrize("make", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_arrays_give_the_same_numbers(make: Callable[[Any], Any]) -> None:
    v = rng.standard_normal(NET.n_parameters)
    arrays = (INPUTS, TARGETS, WEIGHTS, LENGTHS)
    expected = results(THETA, v, *arrays)
    for found, one in zip(results(make(THETA), make(v), *map(make, arrays)), expected, strict=True):
        np.testing.assert_array_equal(found, one)


def test_integers_and_lists_of_numbers_are_parameters_too() -> None:
    batch = hfrnn.Batch(INPUTS, TARGETS)
    for theta in (THETA.astype(int), THETA.tolist(), THETA.astype("float32")):
        assert NET.loss(theta, batch) == NET.loss(THETA, batch)


@pytest.mark.parametrize(
    ("theta", "words"),
    [
        (np.where(THETA[0] == THETA, np.nan, THETA), "theta holds NaN or infinity"),
        (THETA.astype(complex), "theta has shape .* and type complex128"),
        (np.ma.array(THETA, mask=THETA > 0), "theta is a masked array, whose mask would be ignored"),
        (THETA > 0, "theta has shape .* and type bool"),
        (THETA[:-1], "give an array"),
    ],
    ids=["NaN", "complex", "masked", "Boolean", "short"],
)
def test_parameters_that_would_be_misread_are_refused(theta: Any, words: str) -> None:
    batch = hfrnn.Batch(INPUTS, TARGETS)
    objective = hfrnn.Objective(NET, batch)
    calls = [objective.loss, objective.loss_and_gradient, objective.gauss_newton, objective.hessian, objective.jacobian]
    for call in (*calls, objective.squared_gradients, lambda theta: NET.run(theta, batch)):
        with pytest.raises(hfrnn.InputError, match=words):
            call(theta)


def test_parameters_that_overflow_in_the_type_of_the_network_are_refused() -> None:
    net = hfrnn.Network("rnn", 3, 2, 3)
    with pytest.raises(hfrnn.InputError, match="theta holds NaN or infinity"):
        net.loss(np.full(net.n_parameters, 1e300), hfrnn.Batch(np.zeros((2, 1), int), np.zeros((2, 1), int)))


def test_nan_in_a_target_that_is_read_is_refused_and_one_in_the_padding_is_not() -> None:
    padded, read = TARGETS.copy(), TARGETS.copy()
    padded[5, 1] = read[2, 1] = np.nan
    assert np.isfinite(NET.loss(THETA, hfrnn.Batch(INPUTS, padded, lengths=LENGTHS)))
    with pytest.raises(hfrnn.InputError, match="targets of the batch holds NaN"):
        NET.loss(THETA, hfrnn.Batch(INPUTS, read, lengths=LENGTHS))


def test_a_product_on_a_device_does_not_search_for_nan() -> None:
    net = hfrnn.Network("rnn", 3, 2, 3, backend=FakeBackend())  # type: ignore[arg-type]
    batch = hfrnn.Batch(np.zeros((4, 2), int), np.zeros((4, 2), int))
    objective = hfrnn.Objective(net, batch)
    theta = net.init(0)
    G, v, out = objective.gauss_newton(theta), theta.copy(), theta.copy()
    fake_device.transfers.clear()
    v[0] = math.nan
    G.apply(v, out)
    assert not fake_device.transfers
    with pytest.raises(hfrnn.InputError, match="theta holds NaN"):
        objective.loss(v)
    assert isinstance(out, FakeArray)


def test_symbols_without_a_weight_may_be_any_integers() -> None:
    net = hfrnn.Network("lstm", 5, 4, 3, dtype="float64")
    theta, numbers = net.init(0), np.random.default_rng(1)
    symbols, targets, weights = numbers.integers(0, 5, (6, 4)), numbers.integers(0, 3, (6, 4)), np.ones((6, 4))
    weights[3:, 2] = 0
    ignored = np.where(weights > 0, targets, -100)
    ignored[5, 2] = 3
    expected = net.loss_and_gradient(theta, hfrnn.Batch(symbols, targets, weights))
    loss, gradient = net.loss_and_gradient(theta, hfrnn.Batch(symbols, ignored, weights))
    assert loss == expected[0]
    np.testing.assert_array_equal(gradient, expected[1])
    with pytest.raises(hfrnn.InputError, match="from -100 to 3: with n_out = 3 they lie in 0 to 2"):
        net.loss(theta, hfrnn.Batch(symbols, ignored))


def test_unsigned_symbols_are_symbols() -> None:
    kind = "uint64"
    net = hfrnn.Network("rnn", 5, 4, 3, dtype="float64")
    theta, symbols = net.init(0), np.random.default_rng(1).integers(0, 3, (6, 4))
    expected = hfrnn.Objective(net, hfrnn.Batch(symbols, symbols)).per_sequence_gradients(theta)
    found = hfrnn.Objective(net, hfrnn.Batch(symbols.astype(kind), symbols.astype(kind)))
    np.testing.assert_array_equal(found.per_sequence_gradients(theta), expected)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_an_initial_state_of_another_type_is_converted(backend: str) -> None:
    if backend == "numba":
        pytest.importorskip("numba", reason="needs numba")
    net = hfrnn.Network("fofe-fnn", 5, 4, 3, backend=backend, codes=2)
    theta, symbols = net.init(0), np.random.default_rng(1).integers(0, 3, (6, 4))
    state = net.run(theta, hfrnn.Batch(symbols))[1]
    half = [{name: x.astype("float16") for name, x in layer.items()} for layer in state]
    rounded = [{name: x.astype("float32") for name, x in layer.items()} for layer in half]
    expected = net.run(theta, hfrnn.Batch(symbols, initial_state=rounded))[0]
    np.testing.assert_array_equal(net.run(theta, hfrnn.Batch(symbols, initial_state=half))[0], expected)


def test_states_that_overflow_in_the_padding_leave_loss_and_outputs_finite() -> None:
    net = hfrnn.Network("rnn", 1, 2, 1, loss="squared", activation="relu")
    theta, ones = np.full(net.n_parameters, 10, np.float32), np.ones((60, 3, 1), np.float32)
    batch, lengths = hfrnn.Batch(ones, ones, lengths=[2, 40, 2]), [2, 40, 2]
    with np.errstate(over="ignore", invalid="ignore"):
        outputs = net.run(theta, batch)[0]
        loss, again = hfrnn.Objective(net, batch).loss_and_logits(theta)
        alone = net.run(theta, hfrnn.Batch(ones[:2]))[0]
    np.testing.assert_array_equal(again, outputs)
    np.testing.assert_array_equal(outputs[:2], alone)
    for b, length in enumerate(lengths):
        assert not outputs[length:, b].any()
    assert math.isfinite(loss) == bool(np.isfinite(outputs[:, 1]).all())


class Learned:
    """A tensor that requires a gradient, as PyTorch's."""

    requires_grad, shape, dtype = True, THETA.shape, "float64"

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")

    def detach(self) -> Any:
        return THETA


def test_a_tensor_that_requires_a_gradient_has_to_be_detached() -> None:
    objective = hfrnn.Objective(NET, hfrnn.Batch(INPUTS, TARGETS))
    with pytest.raises(hfrnn.InputError, match=r"^theta is a tensor that requires a gradient: .* tensor\.detach\(\)$"):
        objective.loss(Learned())
    objective.loss(Learned().detach())


@pytest.mark.parametrize("part", ["inputs", "targets", "state"])
def test_numbers_beyond_the_type_of_the_network_are_refused(part: str) -> None:
    net = hfrnn.Network("rnn", 2, 3, 1, loss="squared")  # float32
    inputs, targets, state = np.ones((4, 2, 2)), np.ones((4, 2, 1)), [{"h": np.ones((2, 3))}]
    {"inputs": inputs, "targets": targets, "state": state[0]["h"]}[part][(0,) * (2 if part == "state" else 3)] = 1e39
    with pytest.raises(hfrnn.InputError, match=r"beyond 3\.4e\+38"):
        hfrnn.Objective(net, hfrnn.Batch(inputs, targets, initial_state=state)).loss(net.init(0))
