"""SGD, Adam and the average with compiled passes: the bits of their references, clipping, and what they refuse."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from hfrnn.errors import InputError, NonFiniteError
from hfrnn.kernels.registry import vector_passes
from hfrnn.optim.average import Average
from hfrnn.optim.clipping import lazy_clip_norm
from hfrnn.optim.compiled_steps import OnePassAdam, OnePassAverage, OnePassSGD
from hfrnn.optim.first_order import SGD, STEP_PIECE, Adam, AdamOptions, FirstOrder, SGDOptions

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")
PASSES = vector_passes("numba")
Maker = Callable[[bool, int], FirstOrder]


def sgd(momentum=0.9, nesterov=False, decay=0.0):
    options = SGDOptions(momentum, nesterov, decay)
    return lambda fused, threads=1: OnePassSGD(PASSES, options, threads) if fused else SGD(options, threads)


def adam(**options):
    given = AdamOptions(**options)
    return lambda fused, threads=1: OnePassAdam(PASSES, given, threads) if fused else Adam(given, threads)


MAKERS = {
    "sgd": sgd(), "plain": sgd(0.0), "nesterov": sgd(0.8, True, 0.3), "sgd-decay": sgd(0.5, decay=0.2),
    "adam": adam(), "adam-decay": adam(beta1=0.7, beta2=0.9, epsilon=1e-3, decay=0.2),
}  # fmt: skip
each_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def vector(n, seed, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(n).astype(dtype)


def run(optimizer, n, dtype="float32", bound=None, steps=4):
    """The parameters after some steps, of other gradients and learning rates."""
    theta = vector(n, 0, dtype)
    for k in range(steps):
        gradient = vector(n, k + 1, dtype) * (k + 1)
        optimizer.lazy_clip(gradient, bound)
        theta = optimizer.step(theta, gradient, 0.1 / (k + 1))
    return theta


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 37, STEP_PIECE + 5])
@each_maker
def test_a_step_has_the_bits_of_its_reference(make, n, dtype):
    expected, found = make(False, 1), make(True, 1)
    np.testing.assert_array_equal(run(found, n, dtype), run(expected, n, dtype))
    for name, kept in expected.state_dict().items():
        np.testing.assert_array_equal(found.state_dict()[name], kept, err_msg=name)
    assert run(found, n, dtype).dtype == dtype


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-14)])
@each_maker
def test_a_clipped_step_agrees_with_its_reference(make, dtype, tolerance):
    expected = run(make(False, 1), 5000, dtype, bound=3.0)
    assert np.linalg.norm(run(make(True, 1), 5000, dtype, bound=3.0) - expected) <= tolerance * np.linalg.norm(expected)
    if make is not MAKERS["adam"]:  # nearly the same step for every length of the gradient
        assert np.linalg.norm(run(make(True, 1), 5000, dtype) - expected) > 1e-3 * np.linalg.norm(expected)


@each_maker
def test_no_bit_depends_on_the_threads(make):
    n = 3 * STEP_PIECE + 11
    expected = run(make(True, 1), n, bound=1.0, steps=2)
    for threads in (2, 3):
        np.testing.assert_array_equal(run(make(True, threads), n, bound=1.0, steps=2), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_norm_is_that_of_exact_sums_and_the_gradient_keeps_its_bits(dtype):
    g = vector(2 * STEP_PIECE + 3, 0, dtype)
    exact, before, optimizer = math.sqrt(math.fsum(float(x) ** 2 for x in g)), g.copy(), OnePassSGD(PASSES)
    for bound in (None, 1.0, 1e9):
        assert optimizer.lazy_clip(g, bound) == pytest.approx(exact, rel=1e-14)
        np.testing.assert_array_equal(g, before)
    assert optimizer.lazy_clip(np.zeros(0, dtype), 1.0) == 0.0
    for wrong in (-1.0, math.nan):
        with pytest.raises(InputError, match="bound"):
            optimizer.lazy_clip(g, wrong)


def test_a_factor_belongs_to_its_gradient_and_to_one_step():
    theta, g = np.zeros(2), np.array([3.0, 4.0])
    optimizer = OnePassSGD(PASSES, SGDOptions(momentum=0.0))
    optimizer.lazy_clip(g, 1.0)
    np.testing.assert_allclose(optimizer.step(theta, g, 1.0), -g / 5, rtol=1e-15)
    np.testing.assert_array_equal(optimizer.step(theta, g, 1.0), -g)
    optimizer.lazy_clip(g, 1.0)
    np.testing.assert_array_equal(optimizer.step(theta, g.copy(), 1.0), -g)
    np.testing.assert_array_equal(optimizer.step(theta, g, 1.0), -g)
    for bound in (10.0, None):  # the last call counts
        optimizer.lazy_clip(g, 1.0)
        optimizer.lazy_clip(g, bound)
        np.testing.assert_array_equal(optimizer.step(theta, g, 1.0), -g)


@each_maker
def test_the_new_parameters_may_replace_the_old_ones(make):
    theta = vector(50, 0)
    expected = make(False, 1).step(theta, vector(50, 1), 0.1)
    for out in (None, np.zeros(50, "float32"), theta):
        np.testing.assert_array_equal(make(True, 1).step(theta, vector(50, 1), 0.1, out=out), expected)


@pytest.mark.parametrize(("n", "wrong"), [(1, math.nan), (30, -math.inf), (STEP_PIECE + 2, math.inf)])
@each_maker
def test_a_gradient_that_is_not_finite_changes_nothing(make, n, wrong):
    optimizer, theta = make(True, 2), vector(n, 0)
    optimizer.step(theta, vector(n, 1), 0.1)
    before, bad = optimizer.state_dict(), vector(n, 2)
    bad[-1] = wrong
    with pytest.raises(NonFiniteError, match="The gradient is not finite"):
        optimizer.step(theta, bad, 0.1)
    with pytest.raises(NonFiniteError, match="The gradient is not finite"):
        optimizer.lazy_clip(bad, 1.0)
    for name, kept in optimizer.state_dict().items():
        np.testing.assert_array_equal(kept, before[name], err_msg=name)
    optimizer.step(theta, vector(n, 3), 0.1)


@pytest.mark.parametrize("name", ["sgd", "nesterov", "sgd-decay"])
def test_a_step_that_overflows_is_refused(name):
    make = MAKERS[name]
    with pytest.raises(NonFiniteError, match="The step is not finite"):
        make(True, 1).step(np.zeros(3, "float32"), np.array([0, 0, 3e38], "float32"), 2.0)
    with pytest.raises(NonFiniteError, match="The step is not finite"):
        make(True, 1).step(np.array([0, 3e38, 0], "float32"), np.array([0, -3e38, 0], "float32"), 0.5)
    with pytest.raises(NonFiniteError, match="The step is not finite"):
        MAKERS["adam"](True, 1).step(np.zeros(2, "float32"), np.array([1, 1e30], "float32"), 0.1)


@each_maker
def test_a_state_serves_both_kinds(make):
    optimizer, fused = make(False, 1), make(True, 1)
    theta = optimizer.step(vector(9, 0), vector(9, 1), 0.1)
    fused.load_state_dict(optimizer.state_dict())
    expected = optimizer.step(theta, vector(9, 2), 0.1)
    np.testing.assert_array_equal(fused.step(theta, vector(9, 2), 0.1), expected)


@pytest.mark.parametrize(
    "dtypes", [("float32", "float64"), ("longdouble", "longdouble"), ("float16", "float16")], ids=str
)
@pytest.mark.parametrize("make", [MAKERS["nesterov"], MAKERS["adam-decay"]])
def test_other_types_run_the_reference(make, dtypes):
    theta, g = vector(5, 0, dtypes[0]), vector(5, 1, dtypes[1])
    clipped = g.copy()
    lazy_clip_norm(clipped, 0.5)
    fused = make(True, 1)
    fused.lazy_clip(g, 0.5)
    expected = make(False, 1).step(theta, clipped, 0.1)
    np.testing.assert_allclose(fused.step(theta, g, 0.1), expected, rtol=1e-3 if "float16" in dtypes else 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_average_has_the_bits_of_its_reference(dtype):
    expected, found = Average(0.9), OnePassAverage(PASSES, 0.9)
    for k in range(14):
        theta = vector(301, k, dtype)
        expected.add(theta)
        found.add(theta)
        np.testing.assert_array_equal(found.value, expected.value)
    mixed = vector(301, 99, "float64")
    expected.add(mixed)
    found.add(mixed)
    np.testing.assert_array_equal(found.value, expected.value)
