"""Learned initial states of recordings: what they mean, their derivatives, and training with them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.data_runs import TRAINED
from support.engine_cases import cases, replace
from support.pairwise import label
from support.slow import slow_unless

import hfrnn
from hfrnn import gradcheck
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError
from hfrnn.runs.folder import RunFolder

NUMBERS = np.array([2, 0, -1, 2, 1])


def with_states(case: Any) -> tuple[hfrnn.Network, Any, hfrnn.Batch, list[dict[str, Any]]]:
    """A network of three recordings, its weights, a batch of five sequences, and the states that they begin with."""
    net, batch = case.net(recordings=3), replace(case.data(), initial_state=NUMBERS)
    theta = 0.5 * np.random.default_rng(1).standard_normal(net.n_parameters)
    state = [
        {
            name: 0 if isinstance(x, int) else x + (
                net.views(theta)[f"layer{l}.{name}0"]
                + (NUMBERS >= 0)[:, None] * net.views(theta)[f"layer{l}.{name}0_each"].reshape(3, -1)[NUMBERS]
            )
            for name, x in layer.items()
        }
        for l, layer in enumerate(net.zero_state(batch.B))
    ]  # fmt: skip
    return net, theta, batch, state


@pytest.mark.parametrize(
    "case", slow_unless(lambda case: case.arch in ("lstm", "hornn", "clockwork"), cases("learned-state")), ids=label
)
def test_a_recording_begins_with_the_common_state_and_its_own_deviation(case: Any) -> None:
    net, theta, batch, state = with_states(case)
    given = replace(batch, initial_state=state)
    loss, gradient = net.loss_and_gradient(theta, batch)
    expected, others = net.loss_and_gradient(theta, given)
    assert loss == expected
    np.testing.assert_array_equal(net.run(theta, batch)[0], net.run(theta, given)[0])
    for name, block in net.views(others).items():
        if not name.rpartition(".")[2].endswith(("0", "0_each")):
            np.testing.assert_array_equal(net.views(gradient)[name], block, err_msg=name)
    for check, error, where in gradcheck.check_case(gradcheck.Case("", net, theta, batch)):
        assert error <= gradcheck.TOLERANCES[check], (check, where)
    apart = Objective(net, batch).per_sequence_gradients(theta)
    total = apart.sum(axis=0) / batch.total_weight(net.backend)
    np.testing.assert_allclose(total, gradient - net.l2 * theta, rtol=1e-10, atol=1e-12)
    for name, block in net.views(apart[1]).items():  # of recording 0
        if name.endswith("_each"):
            assert not block.reshape(3, -1)[1:].any()
            assert block.reshape(3, -1)[0].any()


def test_numbers_are_checked() -> None:
    net = hfrnn.Network("rnn", 2, 3, 1, "squared", recordings=2)
    x = np.zeros((4, 2, 2))
    with pytest.raises(InputError, match="has the recording 2: this network has learned 2"):
        net.run(net.init(), hfrnn.Batch(x, initial_state=np.array([0, 2])))
    with pytest.raises(InputError, match="has the recording -2: give numbers from 0, or -1"):
        net.run(net.init(), hfrnn.Batch(x, initial_state=np.array([0, -2])))
    learned = hfrnn.Network("rnn", 2, 3, 1, "squared", learn_initial_state=True)  # of no recording by itself
    unknown = hfrnn.Batch(x, initial_state=np.array([-1, -1]))
    theta = learned.init(seed=0)
    np.testing.assert_array_equal(learned.run(theta, unknown)[0], learned.run(theta, hfrnn.Batch(x))[0])
    with pytest.raises(InputError, match="the recording of each sequence"):
        hfrnn.Batch(x, initial_state=np.array([0, 1, 1]))


@pytest.mark.parametrize("optimizer", ["hf", "adam"])
def test_a_run_learns_a_state_for_each_training_sequence(tmp_path: Path, optimizer: str) -> None:
    rng = np.random.default_rng(0)
    x, start = rng.standard_normal((12, 15, 1)), rng.uniform(-1, 1, (12, 1))
    decay = start[:, None] * 0.9 ** np.arange(15)[None, :, None]
    arrays = {"x": x, "y": 0.1 * x + decay}
    how = {**TRAINED, "arch": "rnn", "optimizer": optimizer, "updates": 15, "fractions": (0.8, 0.2, 0)}
    each = hfrnn.train(data=arrays, learn_each_initial_state=True, out=tmp_path / "each", **how)
    one = hfrnn.train(data=arrays, learn_initial_state=True, out=tmp_path / "one", **how)
    assert each.net.recordings == 10
    assert each.net.views(each.theta)["layer0.h0_each"].all()
    losses = [RunFolder(run.folder).metrics()[-1]["train_loss"] for run in (each, one)]
    assert losses[0] < losses[1]
    net, theta, _ = hfrnn.load(tmp_path / "each")
    batch = hfrnn.Batch(x.swapaxes(0, 1), arrays["y"].swapaxes(0, 1))
    found = hfrnn.score(net, theta, batch, estimate_state=5).overall["rmse"]
    assert found < hfrnn.score(net, theta, batch).overall["rmse"]
    resumed = hfrnn.train(resume=tmp_path / "each", data=arrays, updates=16)
    assert resumed.summary["updates"] == 16
    for number, of_new in ((6, {"learn_each_initial_state": True}), (0, {})):
        few = {name: each[:7] for name, each in arrays.items()}
        with pytest.raises(InputError, match=f"initial states of 10 sequences, and this run learns those of {number}:"):
            hfrnn.train(data=few, init_from=tmp_path / "each", **of_new, **how)
    with pytest.raises(InputError, match="learn_each_initial_state= was given, and data has initial states"):
        hfrnn.train(data={**arrays, "initial_state": np.zeros((12, 4))}, learn_each_initial_state=True, **how)
