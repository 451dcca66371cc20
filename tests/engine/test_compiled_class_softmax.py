"""The compiled class softmax agrees with the reference in every block, and runs where it should."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import random_batch

import hfrnn
from hfrnn.engine.heads.class_softmax import ClassSoftmax
from hfrnn.engine.plan import Keep, Plan

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")
compiled = pytest.importorskip("hfrnn.engine.heads.compiled_class_softmax")
CLASSES = np.repeat(np.arange(7), [1, 3, 1, 70, 9, 2, 25])[np.random.default_rng(0).permutation(111)]
"""Bundles of small classes, a class above `BUNDLE`, and symbols that are not in the order of their classes."""


def network(backend: str = "numba", dtype: str = "float64", **arguments: Any) -> hfrnn.Network:
    options = {"hidden": (7, 5), "output_bias": True, **arguments}
    return hfrnn.Network("rnn", 4, n_out=111, loss="class-softmax", classes=CLASSES, backend=backend, dtype=dtype,
                         **options)  # fmt: skip


def results(net: hfrnn.Network, batch: hfrnn.Batch, theta: Any, v: Any, **options: Any) -> dict[str, Any]:
    f = hfrnn.Objective(net, batch, **options)
    loss, gradient = f.loss_and_gradient(theta)
    found: dict[str, Any] = {"loss": np.array(loss)}
    for name, vector in (("gradient", gradient), ("product", f.gauss_newton(theta, structural=0.3) @ v)):
        found |= {f"{name} {block}": view.copy() for block, view in net.views(vector).items()}
    return found


def assert_close(actual: dict[str, Any], expected: dict[str, Any], tolerance: float) -> None:
    assert actual.keys() == expected.keys()
    for name, block in expected.items():
        size = np.linalg.norm(block)
        assert size > 0, name
        assert np.linalg.norm(actual[name] - block) <= tolerance * size, name


def directions(net: hfrnn.Network) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    return 0.5 * rng.standard_normal(net.n_parameters), rng.standard_normal(net.n_parameters)


@pytest.mark.parametrize(("few", "arguments", "sizes"), [
    (0, {}, {"T": 9, "B": 13, "ragged": True}), (3, {"output_bias": False, "hidden": 6}, {"T": 9, "B": 30}),
    (32, {"direct_output": False}, {"T": 1, "B": 40}), (1000, {}, {"T": 50, "B": 1}),
    (3, {"hidden": 33}, {"T": 1, "B": 1}), (32, {}, {"T": 9, "B": 13, "ragged": True}),
], ids=["two-layers", "no-bias", "one-step", "one-sequence", "one-token", "many-groups"])  # fmt: skip
def test_every_block_agrees_with_numpy_whatever_the_number_of_small_groups(few, arguments, sizes, monkeypatch):
    monkeypatch.setattr(compiled, "FEW_TOKENS", few)
    net, reference = network(**arguments), network("numpy", **arguments)
    batch, (theta, v) = random_batch(net, np.random.default_rng(1), **sizes), directions(net)
    if sizes["T"] == 1:  # no step follows another one: the weights between steps have no gradient
        state = [{"h": np.full((sizes["B"], H), 0.3)} for H in net.hidden]
        batch = hfrnn.Batch(batch.inputs, batch.targets, initial_state=state)
    assert_close(results(net, batch, theta, v), results(reference, batch, theta, v), 1e-13)


def test_real_arrays_run_no_loop_of_the_reference(monkeypatch):
    net = network()
    batch, (theta, v) = random_batch(net, np.random.default_rng(1)), directions(net)

    def fail(*arguments):
        raise AssertionError("the reference ran")

    for loop in ("normalise_symbols", "symbol_residuals", "curve_symbols"):
        monkeypatch.setattr(ClassSoftmax, loop, fail)
    results(net, batch, theta, v)
    with pytest.raises(AssertionError, match="the reference ran"):
        net.hessian(theta, batch) @ v


def test_the_exact_hessian_and_the_log_probabilities_agree_with_numpy():
    net, reference = network(), network("numpy")
    batch, (theta, v) = random_batch(net, np.random.default_rng(1), ragged=True), directions(net)
    Hv = reference.hessian(theta, batch) @ v
    assert np.linalg.norm(net.hessian(theta, batch) @ v - Hv) <= 1e-12 * np.linalg.norm(Hv)
    expected = reference.log_probabilities(theta, batch)
    np.testing.assert_allclose(net.log_probabilities(theta, batch), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_the_bits_do_not_depend_on_the_threads(dtype):
    net = network(dtype=dtype, hidden=37)
    batch, (theta, v) = random_batch(net, np.random.default_rng(1), T=9, B=40), directions(net)
    plan = Plan((0, 13, 26, 40), 4, Keep.STATES)
    numbers = theta.astype(dtype), v.astype(dtype)
    first, *others = (results(net, batch, *numbers, plan=plan, threads=threads) for threads in (1, 2, 3))
    for run in others:
        for name, block in first.items():
            np.testing.assert_array_equal(run[name], block, err_msg=name)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_huge_outputs_overflow_nowhere(dtype):
    net = network(dtype=dtype)
    batch, (theta, v) = random_batch(net, np.random.default_rng(1), ragged=True), directions(net)
    found = results(net, batch, (1e4 * theta).astype(dtype), v.astype(dtype))
    assert all(np.isfinite(block).all() for block in found.values())


@pytest.mark.parametrize("place", [2, 3, 4])
def test_an_output_that_is_not_a_number_reaches_the_loss(place):
    from hfrnn.kernels.numba.groups import softmax_of_pieces

    z, losses = np.arange(6.0), np.zeros(1)
    z[place] = np.nan
    softmax_of_pieces(z, np.array([0]), np.array([[2, 5]]), np.array([3]), losses)
    assert np.isnan(losses[0])
    assert (z[[0, 1, 5]] == 0).all()
