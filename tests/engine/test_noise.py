"""Noise on the states: its numbers, where they are added, and that every pass and every plan adds the same ones."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import Case, assert_same, cases, everything, moved, plans, small_problem, vectors
from support.fake_device import FakeBackend, HostAsDevice
from support.noise_numbers import noise as numbers_of
from support.pairwise import each_once, label

import hfrnn
from hfrnn.engine.plan import Keep, Plan
from hfrnn.errors import InputError

NOISE = {"scale": 0.3, "seed": 5, "draw": 2, "sequences": [8, 0, 3, 1, 70]}
STACKS = cases("stack")
SOME = [case for case in STACKS if case.arch in ("rnn", "mlstm", "hornn-gated", "clockwork", "scrn")]
"""Every slot marked w, and a slot that is not; a clock; slots of different widths."""


def added(net: hfrnn.Network, noise: hfrnn.StateNoise, l: int, T: int, B: int, first: int = 0) -> Any:
    U = np.zeros((T, B, net.layers[l].slots), net.dtype)
    noise.of_batch(net.layers, net.backend, net.dtype, B).add(l, slice(first, first + T), U)
    return U


@pytest.mark.parametrize("width", [1, 3, 4, 5, 16])
def test_numbers_are_those_of_the_definition(width):
    net, ids = hfrnn.Network("rnn", 2, (2, width), 2, dtype="float64"), [6, 0, 2**40]
    noise = hfrnn.StateNoise(0.25, 3, 9, ids)
    np.testing.assert_allclose(added(net, noise, 1, 6, 3), 0.25 * numbers_of(3, 9, 1, ids, 6, width), rtol=1e-12)


def test_numbers_of_single_precision_are_those_of_double_precision_rounded():
    single, double = (hfrnn.Network("lstm", 2, 7, 2, dtype=dtype) for dtype in ("float32", "float64"))
    noise = hfrnn.StateNoise(0.7, 1)
    expected = added(double, noise, 0, 9, 5).astype("float32")
    np.testing.assert_array_equal(added(single, noise, 0, 9, 5), expected)


def test_many_steps_and_sequences_have_the_numbers_of_each_step_alone():
    net, noise = hfrnn.Network("lstm", 2, 40, 2), hfrnn.StateNoise(0.7, 1)  # sequences are numbered from 0
    assert (added(net, noise, 0, 2, 4) == added(net, hfrnn.StateNoise(0.7, 1, sequences=range(4)), 0, 2, 4)).all()
    whole = np.concatenate([np.zeros((2, 90, 160), "float32"), added(net, noise, 0, 11, 90, first=2)])
    for t in range(2, 13):
        np.testing.assert_array_equal(added(net, noise, 0, 1, 90, first=t)[0], whole[t])
        part = np.zeros((1, 20, 160), "float32")
        noise.of_batch(net.layers, net.backend, net.dtype, 90).part(30, 50).add(0, slice(t, t + 1), part)
        np.testing.assert_array_equal(part[0], whole[t, 30:50])


def test_noise_of_deviation_0_is_none():
    net, batch, theta = small_problem()
    expected = hfrnn.Objective(net, batch).loss_and_gradient(theta)
    loss, gradient = hfrnn.Objective(net, batch, noise=hfrnn.StateNoise(0.0)).loss_and_gradient(theta)
    assert loss == expected[0]
    np.testing.assert_array_equal(gradient, expected[1])


def test_factors_of_multiplicative_networks_have_no_noise():
    for arch, gates in (("mlstm", 4), ("mrnn", 1)):
        U = added(hfrnn.Network(arch, 2, 6, 2), hfrnn.StateNoise(1.0), 0, 5, 3)
        assert U[:, :, : 6 * gates].all()
        assert not U[:, :, 6 * gates :].any()


def results(case: Case, plan: Plan, threads: int = 1, **network: Any) -> dict[str, Any]:
    net, batch = case.net(**network), case.data()
    arrays = vectors(case.net(), batch)
    return everything(net, batch, *arrays, plan=plan, threads=threads, noise=hfrnn.StateNoise(**NOISE))


@pytest.mark.parametrize(("case", "keep"), each_once(Keep, of=SOME), ids=label)
def test_results_depend_neither_on_the_plan_nor_on_the_threads(case, keep):
    plan = Plan((0, 1, 3, 5), 3, keep)
    one = results(case, plan)
    assert_same(one, results(case, Plan((0, 5), None, Keep.ALL)), rtol=1e-12)
    assert_same(results(case, plan, threads=3), one)


@pytest.mark.parametrize("case", SOME, ids=label)
def test_a_device_computes_the_bits_of_numpy(case):
    fake, batch = FakeBackend(), case.data()
    plan, arrays = plans(batch.T, batch.B)["nothing-3"], vectors(case.net(), batch)
    noise = hfrnn.StateNoise(**NOISE)
    actual = everything(case.net(backend=fake), moved(batch, fake), *arrays, plan=plan, noise=noise)
    assert_same(actual, results(case, plan, backend=HostAsDevice()))


@pytest.mark.parametrize("case", [case for case in SOME if case.arch != "clockwork"], ids=label)
def test_compiled_kernels_agree(case):
    pytest.importorskip("numba", reason="needs numba: install the extra fast")
    batch = case.data()
    plan = plans(batch.T, batch.B)["all-3"]
    assert_same(results(case, plan, backend="numba"), results(case, plan), rtol=1e-11)


@pytest.mark.parametrize("checkpoint", [None, 2])
def test_gradients_of_parts_have_the_noise_of_the_whole(checkpoint):
    net, batch, theta = small_problem()
    noise = hfrnn.StateNoise(0.3, 1, 4, [5, 2, 9, 7])
    objective = hfrnn.Objective(net, batch, checkpoint=checkpoint, noise=noise)
    parts = objective.part_gradients(theta, 3) / np.sqrt(objective.total_weight)
    np.testing.assert_allclose(parts.sum(0), objective.loss_and_gradient(theta)[1], rtol=1e-10, atol=1e-14)


def test_a_carried_state_has_the_noise_of_its_steps():
    net, batch, theta = small_problem()
    states = []
    for noise in (None, hfrnn.StateNoise(0.3)):
        objective = hfrnn.Objective(net, batch, noise=noise)
        objective.loss_and_gradient(theta)
        states.append(objective.final_state()[0]["h"])
    assert np.abs(states[0] - states[1]).min() > 1e-6


def test_a_number_is_needed_for_each_sequence():
    net, batch, _ = small_problem()
    with pytest.raises(InputError, match="the noise is for 3 sequences, but the batch has 4: give as many numbers"):
        hfrnn.Objective(net, batch, noise=hfrnn.StateNoise(0.1, sequences=range(3)))
    with pytest.raises(InputError, match=r"give a hfrnn\.StateNoise"):
        hfrnn.Objective(net, batch, noise=0.1)
