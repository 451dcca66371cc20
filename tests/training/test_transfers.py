"""Runs on a device: how often they wait. No update of a first-order optimizer does; errors come with the next line."""

import json
import math

import numpy as np
import pytest
from support.fake_device import FakeBackend, transfers
from support.method_runs import TASK, run, training_state
from support.slow import slow_unless
from support.tiny_runs import metrics, tiny_train

import hfrnn
from hfrnn.engine.objective import Objective
from hfrnn.errors import NonFiniteError
from hfrnn.training.trainer import Callback

A_LINE = 15
"""Most transfers at a line of the log, without validation: the figures, and the arrays of the state."""


@pytest.fixture(autouse=True)
def device(monkeypatch):
    fake = FakeBackend()
    monkeypatch.setitem(hfrnn.arrays.backend._makers, "cupy", lambda: fake)


class Transfers(Callback):
    """Counts transfers: in each update, and at each line of the log. Keeps the losses of the progress."""

    def __init__(self):
        self.updates = []
        self.lines = []
        self.losses = []

    def on_start(self, trainer):
        transfers.clear()

    def on_cg(self, iteration, q):
        self.updates.append(len(transfers))
        self.losses.append(q)
        transfers.clear()

    def on_update(self, record):
        self.lines.append(len(transfers))
        transfers.clear()


OPTIONS = {
    "sgd": {},
    "sgd, every step of it": {
        "nesterov": True, "weight_decay": 1e-3, "clip_norm": 0.5, "clip_value": 0.1, "max_norm": 1.0, "update_every": 3,
        "sequence_length": 9, "l2": 0.01,
    },
    "adam": {"optimizer": "adam", "clip_norm": 0.3, "average": 0.9, "hidden": (4, 3), "learn_initial_state": True},
    "soap": {"optimizer": "soap", "dtype": "float64"},  # roundings in float32 turn its bases
    "muon": {"optimizer": "muon"},
    "a task": TASK,
    "class softmax": {"classes": 3, "arch": "rnn"},
    "constraints": {
        "arch": "rnn", "activation": "relu", "density": 0.5, "excitatory": 0.8, "max_norm": 1.0, "state_noise": 0.1,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", slow_unless(lambda name: name in ("adam", "constraints"), OPTIONS))
def test_an_update_between_two_lines_does_not_wait(tmp_path, name):
    counts, options = Transfers(), {**OPTIONS[name], "updates": 24, "log_interval": 8, "validate_every": 1000}
    device = run(tmp_path, "device", **options, backend="cupy", callbacks=(counts,))
    assert counts.updates == [0] * 24
    assert max(counts.lines[:2]) <= A_LINE
    assert math.isnan(counts.losses[0])
    host = run(tmp_path, "host", **options)
    np.testing.assert_allclose(device.theta._host, host.theta, rtol=1e-6, atol=1e-7)  # float32
    for one, other in zip(metrics(device.folder), metrics(host.folder), strict=True):
        for figure in ("train_loss", "gradient_norm", "clipped", "learning_rate", "symbols"):
            assert one[figure] == pytest.approx(other[figure], rel=1e-5), figure


OF_UPDATE = 13 + 6
"""Transfers of a Hessian-free update beside those of CG's iterations and of trial losses, and those of its state."""


def test_a_run_of_hf_waits_as_often_as_its_updates_and_goes_where_that_of_the_host_goes(tmp_path):
    counts, options = Transfers(), {"optimizer": "hf", "dtype": "float64", "updates": 3, "validate_every": 1000}
    counts.on_cg = lambda iteration, q: None
    device, host = (tiny_train(tmp_path, name, (counts,) if name == "cupy" else (), backend=name, **options)
                    for name in ("cupy", "numpy"))  # fmt: skip
    np.testing.assert_allclose(device.theta._host, host.theta, rtol=0, atol=1e-10 * np.abs(host.theta).max())
    for one, other, waits in zip(metrics(device.folder), metrics(host.folder), counts.lines, strict=True):
        validation = 3 if one["valid_loss"] is not None else 0
        assert waits <= OF_UPDATE + one["cg_iterations"] + one["evaluations"] + validation
        assert (one["cg_iterations"], one["cg_stop"]) == (other["cg_iterations"], other["cg_stop"])


@pytest.mark.parametrize(("bad", "clip"), slow_unless(lambda bad, clip: clip == {"clip_norm": 5.0}, [
    ("loss", {"clip_norm": 0.0}), ("gradient", {"clip_norm": 5.0}), ("overflow", {"clip_norm": 0.0}),
    ("gradient", {"clip_value": 5.0, "clip_norm": 0.0}), ("overflow", {"clip_norm": 5.0}),
]))  # fmt: skip
def test_an_update_that_is_not_finite_is_told_at_the_next_line(tmp_path, monkeypatch, bad, clip):
    compute, calls = Objective.data_loss_and_gradient, []
    value = {"loss": 0.0, "gradient": math.inf, "overflow": 3e38 if clip["clip_norm"] == 0.0 else math.nan}[bad]

    def failing(self, *arguments):
        loss, gradient = compute(self, *arguments)
        calls.append(1)
        if len(calls) == 14:
            loss = loss * math.nan if bad == "loss" else loss
            gradient[3] = value
        return loss, gradient

    options = {**clip, "learning_rate": 2.0}
    with monkeypatch.context() as patch:
        patch.setattr(Objective, "data_loss_and_gradient", failing)
        with pytest.raises(NonFiniteError, match=r"after update 10, whose state is kept in .*smaller learning_rate"):
            run(tmp_path, updates=40, backend="cupy", **options)
    assert len(calls) == 20  # up to the next line
    assert metrics(tmp_path / "run")[-1]["update"] == 10
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["updates"] == 10
    good = run(tmp_path, "good", **options, updates=10, backend="cupy")
    assert training_state(tmp_path / "run")[0] == training_state(good.folder)[0]
