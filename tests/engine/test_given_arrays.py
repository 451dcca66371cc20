"""Arrays that a caller gives: unusual ones are right, wrong ones are refused, results may overwrite arguments."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.engine_cases import small_problem

import hfrnn

rng = np.random.default_rng(3)
NET = hfrnn.Network("lstm", 5, 4, 3, loss="squared", dtype="float64", l2=0.1)
INPUTS, TARGETS = rng.standard_normal((6, 4, 5)), rng.standard_normal((6, 4, 3))
WEIGHTS, LENGTHS = rng.random((6, 4)), np.array([6, 3, 1, 5])
THETA = rng.integers(-2, 3, NET.n_parameters).astype("float64")


def strided(a: Any) -> Any:
    return np.repeat(a, 2, axis=-1)[..., ::2]


def frozen(a: Any) -> Any:
    copy = a.copy()
    copy.flags.writeable = False
    return copy


UNUSUAL: dict[str, Callable[[Any], Any]] = {
    "strided": strided, "read-only": frozen, "Fortran order": np.asfortranarray,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
}  # fmt: skip


def results(theta: Any, v: Any, *arrays: Any) -> list[Any]:
    objective = hfrnn.Objective(NET, hfrnn.Batch(*arrays), threads=1)
    loss, gradient = objective.loss_and_gradient(theta)
    G, out = objective.gauss_newton(theta), np.zeros(NET.n_parameters)
    return [loss, gradient, G @ v, G.apply(v, out), objective.jacobian(theta) @ v]


@pytest.mark.parametrize("make", UNUSUAL.values(), ids=UNUSUAL)
def test_unusual_arrays_give_the_same_numbers(make):
    v = rng.standard_normal(NET.n_parameters)
    arrays = (INPUTS, TARGETS, WEIGHTS, LENGTHS)
    expected = results(THETA, v, *arrays)
    for found, one in zip(results(make(THETA), make(v), *map(make, arrays)), expected, strict=True):
        np.testing.assert_array_equal(found, one)


def test_integers_and_lists_of_numbers_are_parameters_too():
    batch = hfrnn.Batch(INPUTS, TARGETS)
    for theta in (THETA.astype(int), THETA.tolist(), THETA.astype("float32")):
        assert NET.loss(theta, batch) == NET.loss(THETA, batch)


@pytest.mark.parametrize(("theta", "words"), [
    (np.where(THETA[0] == THETA, np.nan, THETA), "theta holds NaN or infinity"),
    (THETA.astype(complex), "theta has shape .* and type complex128"),
    (np.ma.array(THETA, mask=THETA > 0), "theta is a masked array, whose mask would be ignored"),
], ids=["NaN", "complex", "masked"])  # fmt: skip
def test_parameters_that_would_be_misread_are_refused(theta, words):
    batch = hfrnn.Batch(INPUTS, TARGETS)
    objective = hfrnn.Objective(NET, batch)
    calls = [objective.loss, objective.loss_and_gradient, objective.gauss_newton, objective.hessian, objective.jacobian]
    for call in (*calls, objective.squared_gradients, lambda theta: NET.run(theta, batch)):
        with pytest.raises(hfrnn.InputError, match=words):
            call(theta)


def test_parameters_that_overflow_in_the_type_of_the_network_are_refused():
    net = hfrnn.Network("rnn", 3, 2, 3)
    with pytest.raises(hfrnn.InputError, match="theta holds NaN or infinity"):
        net.loss(np.full(net.n_parameters, 1e300), hfrnn.Batch(np.zeros((2, 1), int), np.zeros((2, 1), int)))


def test_symbols_without_a_weight_may_be_any_integers():
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


def test_an_initial_state_of_another_type_is_converted():
    net = hfrnn.Network("fofe-fnn", 5, 4, 3, dtype="float64", backend="auto", codes=2)
    theta, symbols = net.init(0), np.random.default_rng(1).integers(0, 3, (6, 4))
    state = net.run(theta, hfrnn.Batch(symbols))[1]
    half = [{name: x.astype("float16") for name, x in layer.items()} for layer in state]
    rounded = [{name: x.astype("float64") for name, x in layer.items()} for layer in half]
    expected = net.run(theta, hfrnn.Batch(symbols, initial_state=rounded))[0]
    np.testing.assert_array_equal(net.run(theta, hfrnn.Batch(symbols, initial_state=half))[0], expected)


def test_states_that_overflow_in_the_padding_leave_loss_and_outputs_finite():
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


def test_a_tensor_that_requires_a_gradient_has_to_be_detached():
    objective = hfrnn.Objective(NET, hfrnn.Batch(INPUTS, TARGETS))
    with pytest.raises(hfrnn.InputError, match=r"^theta is a tensor that requires a gradient: .* tensor\.detach\(\)$"):
        objective.loss(Learned())


@pytest.mark.parametrize("part", ["inputs", "targets", "state"])
def test_numbers_beyond_the_type_of_the_network_are_refused(part):
    net = hfrnn.Network("rnn", 2, 3, 1, loss="squared")  # float32
    inputs, targets, state = np.ones((4, 2, 2)), np.ones((4, 2, 1)), [{"h": np.ones((2, 3))}]
    {"inputs": inputs, "targets": targets, "state": state[0]["h"]}[part][(0,) * (2 if part == "state" else 3)] = 1e39
    with pytest.raises(hfrnn.InputError, match=r"beyond 3\.4e\+38"):
        hfrnn.Objective(net, hfrnn.Batch(inputs, targets, initial_state=state)).loss(net.init(0))


def operators(objective: hfrnn.Objective, theta: Any) -> dict[str, Any]:
    return {
        "G": objective.gauss_newton(theta, structural=0.2, tikhonov=0.1),
        "H": objective.hessian(theta),
        "J": objective.jacobian(theta),
    }


@pytest.mark.parametrize("name", ["G", "H"])
def test_a_product_may_overwrite_its_vector(name):
    net, batch, theta = small_problem(l2=0.1)
    operator = operators(hfrnn.Objective(net, batch), theta)[name]
    v = net.init(seed=3)
    expected = operator @ v
    assert np.abs(expected).max() > 1e-3
    room = np.zeros(v.size + 1)
    room[:-1] = v
    operator.apply(room[:-1], room[1:])  # overlaps without being the same
    np.testing.assert_array_equal(room[1:], expected)
    assert operator.apply(v, v) is v
    np.testing.assert_array_equal(v, expected)


def test_a_gradient_may_overwrite_theta():
    net, batch, theta = small_problem(l2=0.1)
    objective = hfrnn.Objective(net, batch)
    loss, gradient = objective.loss_and_gradient(theta)
    assert objective.loss_and_gradient(theta, out=theta) == (loss, theta)
    np.testing.assert_array_equal(theta, gradient)


def unsuitable(n: int, dtype: Any) -> dict[str, Any]:
    fixed = np.zeros(n, dtype)
    fixed.flags.writeable = False
    return {
        "shape": np.zeros(n + 1, dtype), "column": np.zeros((n, 1), dtype), "type": np.zeros(n, "float16"),
        "strided": np.zeros(2 * n, dtype)[::2], "fixed": fixed, "list": [0.0] * n, "none": None,
    }  # fmt: skip


@pytest.mark.parametrize("kind", unsuitable(1, float))
def test_unsuitable_outputs_are_refused(kind):
    net, batch, theta = small_problem()
    objective = hfrnn.Objective(net, batch)
    for operator in operators(objective, theta).values():
        with pytest.raises(hfrnn.InputError, match=r"^out is .*: give a"):
            operator.apply(theta, unsuitable(operator.shape[0], operator.dtype)[kind])
    if kind != "none":
        with pytest.raises(hfrnn.InputError, match=r"^out is .*: give a"):
            objective.loss_and_gradient(theta, out=unsuitable(theta.size, theta.dtype)[kind])


def test_an_operator_states_its_type_and_takes_probes_of_any_real_one():
    net, batch, theta = small_problem()
    for operator in operators(hfrnn.Objective(net, batch), theta).values():
        assert operator.dtype == operator.T.dtype == (operator + operator).dtype == np.float64
        ones = np.ones(operator.shape[1])
        for kind in ("int8", "uint8", "bool", "float16", "float32", "longdouble"):  # SciPy probes by int8
            for found in (operator.matvec(ones.astype(kind)), operator.matmat(ones.astype(kind)[:, None])[:, 0]):
                assert found.dtype == np.float64
                np.testing.assert_array_equal(found, operator @ ones)
        for product in (operator.matvec, operator.H.rmatvec, operator.matmat, operator.__matmul__):
            with pytest.raises(hfrnn.InputError, match="multiply the real and the imaginary part"):
                product(ones[:, None] * 1j)


def test_a_transposed_operator_is_one_with_the_same_bits_and_checks():
    net, batch, theta = small_problem()
    objective = hfrnn.Objective(net, batch)
    J, G, H = objective.jacobian(theta), objective.gauss_newton(theta, 0.1, 0.2), objective.hessian(theta)
    U = rng.standard_normal((J.shape[0], 3))
    for transposed in (J.T, J.H, J.T.T.T):
        assert transposed.shape == J.shape[::-1]
        np.testing.assert_array_equal(transposed @ U[:, 0], J.rmatvec(U[:, 0]))
        np.testing.assert_array_equal(transposed.apply(U[:, 0], np.zeros(theta.size)), J.rmatvec(U[:, 0]))
        np.testing.assert_array_equal(transposed @ U, J.rmatmat(U))
        np.testing.assert_array_equal(transposed.T @ theta, J @ theta)
        with pytest.raises(hfrnn.InputError, match=r"^v has shape \(1,\) .*: give an array \("):
            transposed @ np.ones(1)
    assert G.T is G.H is G
    assert H.T is H


def test_there_is_no_final_state_before_a_gradient():
    net, batch, theta = small_problem()
    objective = hfrnn.Objective(net, batch)
    objective.loss(theta)
    with pytest.raises(hfrnn.InputError, match="there is no final state yet: call loss_and_gradient first"):
        objective.final_state()
    objective.loss_and_gradient(theta)
    assert len(objective.final_state()) == 1
