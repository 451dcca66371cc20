"""What every first-order optimizer promises: exact resume, failures that change nothing, threads, a device, blocks."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.fake_device import FakeArray
from threadpoolctl import threadpool_limits

from hfrnn.arrays.vectors import norm
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.clipping import lazy_clip_norm
from hfrnn.optim.first_order import SGD, STEP_PIECE, Adam, AdamOptions, FirstOrder, SGDOptions
from hfrnn.optim.muon import Muon, MuonOptions
from hfrnn.optim.soap import SOAP, SOAPOptions

SHAPES = ((4, 6), (1, 5), (5, 3), (3, 1))
BLOCKS = tuple(MatrixBlock(start, *shape) for start, shape in zip((0, 24, 29, 44), SHAPES, strict=True))
HIDDEN = (MatrixBlock(0, 4, 6, gates=2), BLOCKS[2])
N, COUNT = 47, 8
MAKERS = {
    "sgd": lambda threads: SGD(SGDOptions(decay=0.1), threads),
    "nesterov": lambda threads: SGD(SGDOptions(nesterov=True), threads),
    "adam": lambda threads: Adam(AdamOptions(decay=0.1), threads),
    "soap": lambda threads: SOAP(BLOCKS, SOAPOptions(every=2, decay=0.1), threads),
    "muon": lambda threads: Muon(HIDDEN, MuonOptions(decay=0.1), threads),
}
GRADIENTS = np.random.default_rng(0).standard_normal((COUNT, N)) * np.geomspace(0.2, 5, N)
START = np.linspace(-1, 1, N)
Maker = Callable[..., Any]


def test_the_defaults_are_those_of_their_authors():
    found = [dataclasses.astuple(options()) for options in (SGDOptions, AdamOptions, SOAPOptions, MuonOptions)]
    assert found[:2] == [(0.9, False, 0.0), (0.9, 0.999, 1e-8, 0.0)]
    assert found[2:] == [(0.95, 0.95, 0.95, 10, 1e-8, 0.0), (0.9, 0.95, 1e-8, 0.0, 0.95)]


@pytest.fixture(params=MAKERS)
def make(request):
    return lambda threads=1: MAKERS[request.param](threads)


def steps(optimizer, theta=START, gradients=GRADIENTS, lr=0.1):
    for g in gradients:
        theta = optimizer.step(theta, g.astype(theta.dtype), lr)
    return theta


@pytest.mark.parametrize(("dtype", "done"), [("f4", 0), ("f4", 1), ("f8", 2), ("f4", 5)])
def test_going_on_from_a_state_dict_gives_the_same_bits(make, dtype, done):
    optimizer = make()
    theta = steps(optimizer, START.astype(dtype), GRADIENTS[:done])
    state = optimizer.state_dict()
    assert {value.dtype for value in state.values() if hasattr(value, "dtype")} <= {np.dtype(dtype)}
    straight = steps(optimizer, theta, GRADIENTS[done:])
    resumed = make()
    steps(resumed)  # whatever it has done before is forgotten
    resumed.load_state_dict(state)
    for value in state.values():  # the state is a copy
        if hasattr(value, "shape"):
            value[:] = 7.0
    assert np.array_equal(steps(resumed, theta, GRADIENTS[done:]), straight)
    assert straight.dtype == dtype
    assert resumed.steps == COUNT


def test_a_step_goes_the_same_way_wherever_it_is_written(make):
    optimizers, fresh, own, other, spare = [make() for _ in range(3)], START, START.copy(), START, np.full(N, np.nan)
    for g in GRADIENTS:
        before = g.copy(), fresh.copy(), other.copy()
        new = optimizers[0].step(fresh, g, 0.1)
        assert optimizers[1].step(own, g, 0.1, out=own) is own
        written = optimizers[2].step(other, g, np.float64(0.1), out=spare)
        assert written is spare
        for kept, now in zip(before, (g, fresh, other), strict=True):
            assert np.array_equal(kept, now)
        fresh, other, spare = new, written, other.copy()
        assert np.array_equal(fresh, own)
        assert np.array_equal(fresh, other)


BAD = [  # the optimizer, the place and the value of a bad entry, the number of steps before it, what is not finite
    *((kind, place, value, done, "gradient") for kind in MAKERS
      for place, value, done in ((0, np.nan, 0), (26, np.inf, 3), (33, np.nan, 3), (45, -np.inf, 0))),
    *((kind, 33, 3e38, 3, "step") for kind in ("sgd", "nesterov", "adam")),
    *(("soap", place, 3e38, 0, "step") for place in (0, 33)),
    *(("soap", place, 3e38, 3, "step") for place in (0, 26, 33, 45)),
    *(("muon", place, 3e38, done, "step") for place in (26, 45) for done in (0, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "place", "value", "done", "culprit"), BAD)
def test_a_step_that_is_not_finite_changes_nothing(kind, place, value, done, culprit):
    optimizer, other, start = MAKERS[kind](1), MAKERS[kind](1), START.astype("f4")
    theta = steps(optimizer, start, GRADIENTS[:done])
    before, state, bad = theta.copy(), optimizer.state_dict(), GRADIENTS[3].astype("f4")
    bad[place] = value
    for out in (theta, None):
        with pytest.raises(NonFiniteError, match=f"The {culprit} is not finite"):
            optimizer.step(theta, bad, 10.0, out=out)
        assert np.array_equal(theta, before)
        for name, found in optimizer.state_dict().items():
            assert np.array_equal(found, state[name])
    assert np.array_equal(steps(other, start, GRADIENTS[:done]), theta)
    assert np.array_equal(steps(optimizer, theta, GRADIENTS[done:]), steps(other, theta, GRADIENTS[done:]))


def test_a_momentum_that_overflows_changes_nothing():
    optimizer, large = MAKERS["muon"](1), np.zeros(N, "f4")
    large[:24] = 1.5e38
    theta = optimizer.step(START.astype("f4"), large, 0.1)
    assert np.abs(theta - START).max() < 0.1
    with pytest.raises(NonFiniteError, match="step is not finite"):
        optimizer.step(theta, large, 0.1)
    assert optimizer.steps == 1


def test_threads_change_no_bit(make):
    found = []
    for threads in (1, 2, 5):
        with threadpool_limits(threads, user_api="blas"):
            optimizer = make(threads)
            theta = steps(optimizer, START.astype("f4"))
            found.append([theta, *(value for value in optimizer.state_dict().values() if hasattr(value, "shape"))])
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("kind", [SGD, Adam])
def test_threads_change_no_bit_of_vectors_of_several_pieces(kind):
    theta, gradient = np.random.default_rng(0).standard_normal((2, 3 * STEP_PIECE + 17)).astype("f4")
    one, *others = (steps(kind(threads=threads), theta, [gradient] * 3) for threads in (1, 2, 3, 5))
    for other in others:
        assert np.array_equal(other, one)
    assert lazy_clip_norm(gradient.copy(), 1.0, threads=3) == lazy_clip_norm(gradient.copy(), 1.0) == norm(gradient)


@pytest.mark.parametrize("kind", [SOAP, Muon])
def test_a_gradient_of_zero_changes_nothing(kind):
    assert np.array_equal(steps(kind(BLOCKS if kind is SOAP else HIDDEN), START, np.zeros((12, N))), START)


@pytest.mark.parametrize("kind", [SOAP, Muon])
def test_threads_of_blas_change_no_bit_of_large_matrices(kind):
    block, found = MatrixBlock(0, 130, 260), []
    gradients = np.random.default_rng(2).standard_normal((3, block.size)).astype("f4")
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            optimizer = SOAP([block], SOAPOptions(every=1)) if kind is SOAP else Muon([block])
            found.append(steps(optimizer, np.zeros(block.size, "f4"), gradients))
    assert np.array_equal(*found)


@pytest.mark.parametrize("part", [slice(None), slice(3, None)], ids=["another view", "a part shared"])
@pytest.mark.parametrize("kind", [SGD, Adam])
def test_a_step_that_is_not_finite_in_the_piece_of_any_thread_is_not_made(kind, part):
    size = 2 * STEP_PIECE + 1
    for place in (0, STEP_PIECE + 3, 2 * STEP_PIECE):
        memory, gradient = np.ones((2, size + 3), "f4")
        theta, out = memory[:size], memory[part][:size]
        gradient[place] = np.nan
        with pytest.raises(NonFiniteError, match="gradient is not finite"):
            kind(threads=2).step(theta, gradient[:size], 0.1, out=out)
        assert (theta == 1).all()


def test_steps_on_a_strict_device_give_the_bits_of_the_host(make):
    """The device's arrays refuse to become NumPy arrays; the two decompositions are those of the host."""
    host, device, theta = make(), make(), START.astype("f4")
    assert isinstance(device, FirstOrder)
    found = FakeArray(theta.copy())
    for g in GRADIENTS.astype("f4"):
        theta, found = host.step(theta, g, 0.1), device.step(found, FakeArray(g), 0.1, out=found)
        assert isinstance(found, FakeArray)
        assert np.array_equal(found._host, theta)
    for name, value in host.state_dict().items():
        if hasattr(value, "shape"):
            assert np.array_equal(device.state_dict()[name]._host, value)
    with pytest.raises(NonFiniteError, match="gradient is not finite"):
        device.step(found, FakeArray(np.full(N, np.inf, "f4")), 10.0, out=found)
    assert np.array_equal(found._host, theta)


def test_a_state_that_does_not_fit_changes_nothing(make):
    optimizer, untouched = make(), make()
    theta = steps(optimizer)
    state, other = optimizer.state_dict(), Adam() if optimizer.kind == "sgd" else SGD()
    foreign = other.state_dict() | dict.fromkeys(state.keys() - {"kind"})
    short = {name: value for name, value in state.items() if name != optimizer.vectors[-1]}
    for words, bad in (("of kind", foreign), ("lacks", short), ("lacks kind", {}), ("state is", 3)):
        with pytest.raises(InputError, match=words):
            optimizer.load_state_dict(bad)
    untouched.load_state_dict(state)
    assert np.array_equal(steps(optimizer, theta), steps(untouched, theta))


def test_wrong_arguments_of_a_step_are_refused(make):
    optimizer = make()
    theta = steps(optimizer)
    for lr in (0.0, -0.1, np.nan, np.inf):
        with pytest.raises(InputError, match="lr is"):
            optimizer.step(theta, theta, lr)
    for arguments in ((theta, theta[:2], 0.1), (theta, theta, 0.1, theta[:2].copy()), (theta[:2], theta[:2], 0.1)):
        with pytest.raises(InputError, match="shape"):
            optimizer.step(*arguments)
    with pytest.raises(InputError, match="array"):
        make().step(np.zeros((2, 2)), np.zeros((2, 2)), 0.1)


@pytest.mark.parametrize("kind", [SOAP, Muon])
@pytest.mark.parametrize(("blocks", "words"), [
    (None, "blocks is None: give a sequence of MatrixBlock"),
    ([(0, 2, 3)], "blocks is a list: give a sequence of MatrixBlock"),
    (BLOCKS[::-1], "start of a block is 29: give a whole number, 47 or more"),
    ((BLOCKS[0], MatrixBlock(23, 2, 2)), "start of a block is 23: give a whole number, 24 or more"),
    ((MatrixBlock(0, 0, 2),), "rows of a block is 0"), ((MatrixBlock(0, 2, -1),), "columns of a block is -1"),
])  # fmt: skip
def test_wrong_blocks_are_refused(kind, blocks, words):
    with pytest.raises(InputError, match=words) as caught:
        kind(blocks)
    assert "\n" not in str(caught.value)
