"""Gradient descent with momentum, Nesterov's variant and decay against their formulas; what all steps promise."""

import dataclasses

import numpy as np
import pytest
from support.fake_device import FakeArray

from hfrnn.arrays.vectors import norm
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.clipping import lazy_clip_norm, lazy_clip_values, max_norm
from hfrnn.optim.first_order import SGD, STEP_PIECE, Adam, AdamOptions, FirstOrder, SGDOptions

A = np.diag([1.0, 3.0, 10.0])
START = np.array([1.0, -2.0, 0.5])
RATES = (0.05, 0.05, 0.02, 0.03)


def bowl(theta):
    """The gradient of theta.A theta/2."""
    return A.astype(theta.dtype) @ theta


def steps(optimizer, theta=START, rates=RATES, gradient=bowl):
    for lr in rates:
        theta = optimizer.step(theta, gradient(theta), lr)
    return theta


@pytest.mark.parametrize("decay", [0.0, 0.2])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_is_that_of_the_thesis(momentum, decay):
    w, M = START, np.zeros(3)
    for lr in RATES:
        M = momentum * M - lr * bowl(w)
        w = w + M - lr * decay * w
    assert steps(SGD(SGDOptions(momentum, decay=decay))) == pytest.approx(w, rel=1e-14)


def test_nesterov_takes_its_gradients_where_momentum_leads():
    x, M = START, np.zeros(3)
    for _ in range(5):
        M = 0.8 * M - 0.05 * bowl(x + 0.8 * M)
        x = x + M
    found = steps(SGD(SGDOptions(0.8, nesterov=True)), rates=[0.05] * 5)
    assert found == pytest.approx(x + 0.8 * M, rel=1e-13)
    assert np.abs(found - steps(SGD(SGDOptions(0.8)), rates=[0.05] * 5)).max() > 1e-3


def test_nesterov_decays_like_the_plain_variant():
    M = -0.05 * bowl(START)
    expected = START + 0.8 * M - 0.05 * bowl(START) - 0.05 * 0.2 * START
    assert steps(SGD(SGDOptions(0.8, True, 0.2)), rates=[0.05]) == pytest.approx(expected, rel=1e-14)


def test_the_defaults_are_the_thesiss_momentum_without_decay():
    assert dataclasses.astuple(SGD().options) == (0.9, False, 0.0)


MAKERS = {
    "sgd": lambda: SGD(SGDOptions(decay=0.1)),
    "nesterov": lambda: SGD(SGDOptions(nesterov=True)),
    "adam": lambda: Adam(AdamOptions(decay=0.1)),
}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_theta_and_gradient_are_not_written_and_the_type_stays(make, dtype):
    theta, gradient = START.astype(dtype), bowl(START).astype(dtype)
    before = theta.copy(), gradient.copy()
    optimizer = make()
    first = optimizer.step(theta, gradient, 0.1)
    kept = first.copy()
    second = optimizer.step(first, gradient, np.float64(0.1))
    assert np.array_equal(theta, before[0])
    assert np.array_equal(gradient, before[1])
    assert np.array_equal(first, kept)
    assert first.dtype == second.dtype == dtype
    assert not np.array_equal(first, second)


def test_a_step_in_place_gives_the_same_bits(make):
    theta, optimizer = START.copy(), make()
    for lr in RATES:
        assert optimizer.step(theta, bowl(theta), lr, out=theta) is theta
    assert np.array_equal(theta, steps(make()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("done", [0, 2])
def test_going_on_from_a_state_dict_gives_the_same_bits(make, dtype, done):
    optimizer = make()
    theta = steps(optimizer, START.astype(dtype), RATES[:done])
    state = optimizer.state_dict()
    straight = steps(optimizer, theta, RATES[done:])
    resumed = make()
    steps(resumed)  # whatever it has done before is forgotten
    resumed.load_state_dict(state)
    assert np.array_equal(steps(resumed, theta, RATES[done:]), straight)
    assert resumed.steps == len(RATES)


def test_a_state_is_a_copy(make):
    optimizer = make()
    theta = steps(optimizer)
    state = optimizer.state_dict()
    expected = optimizer.step(theta, bowl(theta), 0.1)
    resumed = make()
    resumed.load_state_dict(state)
    for value in state.values():
        if hasattr(value, "shape"):
            value[:] = 7.0
    assert np.array_equal(resumed.step(theta, bowl(theta), 0.1), expected)


def test_a_state_that_does_not_fit_changes_nothing(make):
    optimizer = make()
    theta = steps(optimizer)
    state = optimizer.state_dict()
    other = Adam() if optimizer.kind == "sgd" else SGD()
    foreign = other.state_dict() | dict.fromkeys(optimizer.vectors)
    short = {name: value for name, value in state.items() if name != optimizer.vectors[-1]}
    for words, bad in (("of kind", foreign), ("lacks", short), ("lacks kind", {})):
        with pytest.raises(InputError, match=words):
            optimizer.load_state_dict(bad)
    untouched = make()
    untouched.load_state_dict(state)
    assert np.array_equal(optimizer.step(theta, bowl(theta), 0.1), untouched.step(theta, bowl(theta), 0.1))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("gradient", "words"),
    [
        (np.array([1.0, np.nan, 2.0], "f4"), "gradient is not finite"),
        (np.array([np.inf, -np.inf, 2.0], "f4"), "gradient is not finite"),
        (np.array([np.inf, 1.0, 2.0], "f4"), "gradient is not finite"),
        (np.array([3e38, 1.0, 2.0], "f4"), "step is not finite"),
    ],
)
def test_a_step_that_is_not_finite_is_not_made(make, in_place, gradient, words):
    optimizer, other = make(), make()
    theta = steps(optimizer, START.astype("f4"), RATES[:2])
    steps(other, START.astype("f4"), RATES[:2])
    before = theta.copy()
    with pytest.raises(NonFiniteError, match=words):
        optimizer.step(theta, gradient, 10.0, out=theta if in_place else None)
    assert np.array_equal(theta, before)
    assert optimizer.steps == 2
    assert np.array_equal(steps(optimizer, theta, RATES[2:]), steps(other, theta, RATES[2:]))


def test_a_step_that_only_the_parameters_cannot_hold_is_not_made():
    optimizer = SGD()
    with pytest.raises(NonFiniteError, match="step is not finite"):
        optimizer.step(np.array([3e38, 1.0], "f4"), np.array([-2e38, 1.0], "f4"), 1.0)
    assert optimizer.state_dict()["momentum"] is None


def test_a_step_after_which_adam_would_stand_still_for_good_is_not_made():
    with pytest.raises(NonFiniteError, match="step is not finite"):  # the square of the gradient is infinite
        Adam().step(START.astype("f4"), np.array([1.0, 1e25, 1.0], "f4"), 0.1)


def test_large_finite_numbers_are_finite():
    theta = np.full(9, -1e308)
    assert np.array_equal(SGD().step(theta, theta, 1e-300), theta)


def test_a_first_step_that_is_not_finite_leaves_a_fresh_optimizer(make):
    optimizer = make()
    with pytest.raises(NonFiniteError):
        optimizer.step(START, START * np.nan, 0.1)
    assert all(optimizer.state_dict()[name] is None for name in optimizer.vectors)
    assert np.array_equal(steps(optimizer), steps(make()))


@pytest.mark.parametrize("lr", [0.0, -0.1, np.nan, np.inf])
def test_a_learning_rate_out_of_range_is_refused(make, lr):
    with pytest.raises(InputError, match="lr is"):
        make().step(START, START, lr)


def test_vectors_of_another_shape_are_refused(make):
    optimizer = make()
    steps(optimizer)
    for arguments in ((START, START[:2], 0.1), (START, START, 0.1, START[:2].copy()), (START[:2], START[:2], 0.1)):
        with pytest.raises(InputError, match="shape"):
            optimizer.step(*arguments)
    with pytest.raises(InputError, match="array"):
        make().step(np.zeros((2, 2)), np.zeros((2, 2)), 0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"momentum": 1.0}, "momentum is 1: give a number from 0, below 1"),
        ({"momentum": -0.1}, "momentum"),
        ({"momentum": np.nan}, "momentum"),
        ({"decay": -1.0}, "decay"),
        ({"decay": np.inf}, "decay"),
        ({"momentum": 0.0, "nesterov": True}, "nesterov"),
    ],
)
def test_options_out_of_range_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        SGDOptions(**options)


def test_steps_on_a_device_give_the_bits_of_the_host(make):
    host, device = make(), make()
    theta = START.astype("f4")
    for lr in RATES:
        on_device = device.step(FakeArray(theta.copy()), FakeArray(bowl(theta)), lr)
        theta = host.step(theta, bowl(theta), lr)
        assert isinstance(on_device, FakeArray)
        assert np.array_equal(on_device._host, theta)
    assert isinstance(device, FirstOrder)


def test_a_step_in_place_that_is_not_finite_is_not_made_on_a_device_either(make):
    theta = FakeArray(START.astype("f4"))
    with pytest.raises(NonFiniteError, match="gradient is not finite"):
        make().step(theta, FakeArray(np.array([np.inf, 1.0, 2.0], "f4")), 10.0, out=theta)
    assert np.array_equal(theta._host, START.astype("f4"))


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_threads_change_no_bit_of_a_step(kind):
    rng = np.random.default_rng(0)
    theta, gradient = rng.standard_normal((2, 3 * STEP_PIECE + 17)).astype("f4")
    found = [steps_of_one_gradient(kind(threads=threads), theta, gradient) for threads in (1, 2, 3, 5)]
    for other in found[1:]:
        assert np.array_equal(other, found[0])
    assert lazy_clip_norm(gradient.copy(), 1.0, threads=3) == lazy_clip_norm(gradient.copy(), 1.0) == norm(gradient)


def steps_of_one_gradient(optimizer, theta, gradient):
    for lr in RATES:
        theta = optimizer.step(theta, gradient, lr)
    return theta


@pytest.mark.parametrize("part", [slice(None), slice(3, None)], ids=["another view", "a part shared"])
@pytest.mark.parametrize("place", [0, STEP_PIECE + 3, 2 * STEP_PIECE])
def test_a_step_that_is_not_finite_in_the_piece_of_any_thread_is_not_made(make, place, part):
    optimizer = type(make())(threads=2)
    memory, gradient = np.ones((2, 2 * STEP_PIECE + 4), "f4")
    theta, out, gradient = (
        memory[: 2 * STEP_PIECE + 1],
        memory[part][: 2 * STEP_PIECE + 1],
        gradient[: 2 * STEP_PIECE + 1],
    )
    gradient[place] = np.nan
    with pytest.raises(NonFiniteError, match="gradient is not finite"):
        optimizer.step(theta, gradient, 0.1, out=out)
    assert (theta == 1).all()


def test_a_step_goes_the_same_way_wherever_it_is_written(make):
    theta, gradient = START.astype("f4"), bowl(START).astype("f4")
    fresh, own, other = theta.copy(), theta.copy(), theta.copy()
    optimizers, spare = [make() for _ in range(3)], np.full_like(theta, np.nan)
    for lr in RATES:
        fresh = optimizers[0].step(fresh, gradient, lr)
        assert optimizers[1].step(own, gradient, lr, out=own) is own
        before = other.copy()
        new = optimizers[2].step(other, gradient, lr, out=spare)
        assert new is spare
        assert np.array_equal(other, before)
        other, spare = new, other
        assert np.array_equal(fresh, own)
        assert np.array_equal(fresh, other)


def test_clipping_on_a_device_gives_the_bits_of_the_host():
    for clip in (lazy_clip_norm, lazy_clip_values, lambda x, bound: max_norm([x], bound)):
        host = np.linspace(-3, 4, 12, dtype="f4").reshape(
            (12,) if clip in (lazy_clip_norm, lazy_clip_values) else (3, 4)
        )
        device = FakeArray(host.copy())
        clip(device, 2.0)
        before = host.copy()
        clip(host, 2.0)
        assert np.array_equal(device._host, host)
        assert not np.array_equal(before, host)
