"""Networks, batches and loaded runs can be pickled and copied; what holds buffers says why it cannot."""

import copy
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest
from support.engine_cases import cases, small_problem, vectors
from support.fake_device import FakeArray
from support.pairwise import label

import hfrnn
from hfrnn.runs.load import LoadedRun


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("again", [pickled, copy.deepcopy, copy.copy])
@pytest.mark.parametrize("case", cases("embedding")[::7] + cases("class-softmax")[:1], ids=label)
def test_a_copy_of_a_network_and_its_batch_gives_the_same_bits(case, again):
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    twin, same = again(net), again(batch)
    assert type(twin) is hfrnn.Network
    assert twin is not net
    assert twin.config == net.config
    assert twin.backend.name == net.backend.name
    loss, gradient = net.loss_and_gradient(theta, batch)
    found, slope = twin.loss_and_gradient(theta, same)
    assert found == loss
    np.testing.assert_array_equal(slope, gradient)


def test_a_network_without_its_penalty_keeps_everything_else():
    net = small_problem(l2=0.5)[0]
    plain = pickled(net.without_penalty())
    assert (plain.l2, net.l2) == (0.0, 0.5)
    assert plain.config == {**net.config, "l2": 0.0}


def device_batch() -> tuple[hfrnn.Batch, Any]:
    x = np.arange(6).reshape(3, 2)
    state = [{"h": FakeArray(np.ones((2, 4))), "t": 3}]
    return hfrnn.Batch(FakeArray(x), FakeArray(x), initial_state=state), x


def test_device_arrays_of_a_batch_are_pickled_from_the_host():
    batch, x = device_batch()
    found = pickled(batch)
    assert type(found.inputs) is type(found.initial_state[0]["h"]) is np.ndarray
    assert found.initial_state[0]["t"] == 3
    np.testing.assert_array_equal(found.inputs, x)


def test_a_copy_of_a_batch_stays_on_its_device():
    batch, _ = device_batch()
    found, other = copy.copy(batch), batch.with_state([{"h": FakeArray(np.zeros((2, 4))), "t": 0}])
    assert found is not batch
    assert found.inputs is other.inputs is batch.inputs
    assert found.targets is other.targets is batch.targets
    assert (found.initial_state[0]["t"], other.initial_state[0]["t"]) == (3, 0)


def loss_elsewhere(arguments: Any) -> float:
    run, batch = arguments
    return float(run.net.loss(run.theta, batch))


def test_a_loaded_run_can_be_sent_to_a_spawned_process(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question; " * 60)
    hfrnn.train(text=str(text), hidden=4, updates=1, out=tmp_path / "run", backend="numpy")
    run = hfrnn.load(tmp_path / "run")
    symbols = np.arange(22).reshape(11, 2) % run.net.n_in
    batch = hfrnn.Batch(symbols[:-1], symbols[1:])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(loss_elsewhere, [(run, batch)]) == [run.net.loss(run.theta, batch)]
    again = pickled(run)
    assert type(again) is LoadedRun
    assert again.vocabulary is not None
    assert run.vocabulary is not None
    assert again.vocabulary.decode(range(5)) == run.vocabulary.decode(range(5))


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_holds_buffers_says_why_it_cannot_be_pickled(attempt):
    net, batch, theta = small_problem()
    objective = hfrnn.Objective(net, batch)
    with pytest.raises(hfrnn.InputError, match=r"an Objective cannot be pickled or copied.*: pickle its network"):
        attempt(objective)
    for operator in (objective.gauss_newton(theta), objective.hessian(theta), objective.jacobian(theta)):
        with pytest.raises(hfrnn.InputError, match=r"an operator cannot be pickled or copied.*: pickle the network"):
            attempt(operator)
