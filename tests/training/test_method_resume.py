"""Exact resume of SGD, Adam and the online rule, interruption, failure, and the best.

A run that was ended and resumed has every array and counter of one that was not, and a line of its log at the limit.
"""

import json
import os
import signal

import numpy as np
import pytest
from support.fake_device import FakeArray, FakeBackend
from support.method_runs import MUSIC, ONLINE, TASK, Losses, run, training_state
from support.run_states import At, assert_close, assert_same
from support.slow import slow_unless
from support.tiny_runs import callback, metrics, text_file

import hfrnn
from hfrnn.engine.objective import Objective
from hfrnn.errors import NonFiniteError
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.training.trainer import Interrupted, train

pytestmark = pytest.mark.usefixtures("small_music")


# ---------------------------------------------------------------------- exact resume


HF = {"optimizer": "hf", "gradient_symbols": 300, "cg_iterations": 5}
RESUMED = {
    # a run's options, and the updates after which it is ended, first and at last
    "sgd": ({}, 30, 90),
    "sgd, every step of it": (
        {
            "momentum": 0.75, "nesterov": True, "weight_decay": 1e-3, "clip_norm": 0.5, "clip_value": 0.1,
            "clip_error": 0.1, "max_norm": 1.0, "sequence_length": 9, "update_every": 3, "schedule": "halve",
            "learning_rate": 8.0, "streams": 20,
        }, 80, 300,
    ),
    "adam": (
        {"optimizer": "adam", "arch": "clockwork", "weight_decay": 1e-3, "sequence_length": 7,
         "max_norm": {"layer0.*": 0.5, "output.W_y0": 0.2}}, 100, 170,
    ),
    "soap": (
        {"optimizer": "soap", "arch": "mlstm", "sequence_length": 7, "warm_up": 60, "weight_decay": 1e-3,
         "max_norm": 0.5}, 45, 90,
    ),
    "muon": ({"optimizer": "muon", "arch": "lstm", "hidden": (4, 3), "sequence_length": 7, "streams": 20}, 5, 30),
    "a task with muon": ({**TASK, "optimizer": "muon"}, 6, 18),
    "music with soap": ({**MUSIC, "optimizer": "soap"}, 3, 8),
    "online": ({**ONLINE, "momentum": 0.5, "learning_rate": 0.05}, 100, 530),
    "online with fewer rates": ({**ONLINE, "streams": 100, "schedule": "text8", "constant_epochs": 1}, 15, 50),
    "a task": (TASK, 10, 30),
    "hf with growing batches": (
        {"optimizer": "hf", "arch": "rnn", "gradient_symbols": 600, "first_gradient_symbols": 50, "batch_growth": 1.5,
         "curvature_symbols": 60, "rho_objective": "separate"}, 3, 9,
    ),
    "hf with a preconditioner": (
        {"optimizer": "hf", "arch": "gru", "gradient_symbols": 300, "preconditioner": "diagonal", "adapt": "mu",
         "residual_every": 3, "rho_objective": "curvature"}, 2, 5,
    ),
    "hf with a kronecker preconditioner": (
        {"optimizer": "hf", "arch": "mlstm", "gradient_symbols": 300, "preconditioner": "kronecker", "cg_iterations": 3,
         "preconditioner_every": 3, "warm_start": 0.0, "mu_growth": 0.0, "momentum": 0.6, "first_gradient_symbols": 60,
         "batch_growth": 1.4, "grow_below": 0.5}, 4, 9,
    ),
    "music": (MUSIC, 4, 8),
    "validation": ({"validate_every": 20, "patience": 5, "learning_rate": 3.0}, 30, 90),
    "hf, noise": ({**HF, "state_noise": 0.1, "rho_objective": "separate", "curvature_symbols": 60}, 2, 5),
    "hf, both on a task": ({**TASK, **HF, "learn_initial_state": True, "state_noise": 0.1}, 2, 4),
    "adam, both in the first windows": (
        {"optimizer": "adam", "sequence_length": 12, "update_every": 2, "learn_initial_state": True,
         "state_noise": 0.2}, 3, 20,
    ),
}  # fmt: skip


def unvalidated(line):
    return {key: value for key, value in line.items() if not key.startswith("valid")}


QUICK = (
    "muon", "music with soap", "online with fewer rates", "hf, both on a task", "hf with a kronecker preconditioner",
)  # fmt: skip


@pytest.mark.parametrize("name", slow_unless(lambda name: name in QUICK, RESUMED))
def test_a_resumed_run_equals_one_that_never_stopped(tmp_path, name):
    options, first, total = RESUMED[name]
    whole = run(tmp_path, "whole", **options, updates=total).folder
    parts = run(tmp_path, "parts", **options, updates=first).folder
    assert load_checkpoint(parts / "last.safetensors")[1]["update"] == first
    train(resume=parts, updates=total)
    assert training_state(whole) == training_state(parts)
    one, other = metrics(whole), metrics(parts)
    if options.get("schedule"):
        assert len({line["learning_rate"] for line in one}) > 1
    if first in [line["update"] for line in one]:
        assert [unvalidated(line) for line in one] == [unvalidated(line) for line in other]
        assert [line for line in one if line["update"] != first] == [line for line in other if line["update"] != first]


@pytest.mark.slow
def test_a_run_that_is_ended_again_and_again_has_the_same_updates(tmp_path):
    """Also where no line of the unbroken run ends."""
    whole = run(tmp_path, "whole", updates=60, arch="hornn").folder
    parts = run(tmp_path, "parts", updates=3, arch="hornn").folder
    for updates in (4, 37, 53, 60):
        train(resume=parts, updates=updates)
    assert training_state(whole) == training_state(parts)


@pytest.mark.parametrize(("options", "wanted"), slow_unless(lambda _, wanted: wanted == 3, [
    ({"optimizer": "adam", "arch": "clockwork", "sequence_length": 12, "update_every": 4}, 2),
    ({**TASK, "optimizer": "adam", "log_interval": 4}, 3), ({**MUSIC, "log_interval": 4}, 3),
    ({**ONLINE, "log_interval": 100}, 2), ({}, 1),
]), ids=["adam", "task", "music", "online", "first line"])  # fmt: skip
def test_a_run_interrupted_within_a_line_goes_on_as_if_it_had_not_been(tmp_path, options, wanted):
    steps = 1 if options.get("optimizer") != "online" else 50
    updates = 80 if "log_interval" not in options else 4 * options["log_interval"]
    whole = run(tmp_path, "whole", **options, updates=updates)
    watch = At(wanted, lambda: os.kill(os.getpid(), signal.SIGTERM), iteration=steps)
    done = 0 if wanted == 1 else metrics(whole.folder)[wanted - 2]["update"]
    with pytest.raises(Interrupted, match=rf"after update {done}, which is saved: resume with hfrnn.train\(resume="):
        run(tmp_path, **options, updates=updates, callbacks=(watch,))
    assert watch.iterations > 0
    assert watch.noted == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["stopped"], summary["updates"]) == ("interruption", done)
    train(resume=tmp_path / "run")
    assert_same(whole.folder, tmp_path / "run")


# ---------------------------------------------------------------------- the best, and failure
def test_the_best_is_a_copy_that_later_updates_leave_alone(tmp_path, monkeypatch):
    thetas = []
    losses, watch = Losses(monkeypatch, 3.0, 1.0, float("nan"), 2.0), callback()
    watch.on_start = lambda trainer: setattr(watch, "trainer", trainer)
    watch.on_update = lambda record: thetas.append(watch.trainer.weights.copy())
    result = run(tmp_path, validate_every=10, updates=40, callbacks=(losses, watch))
    assert result.summary["best"]["update"] == 20
    np.testing.assert_array_equal(result.theta, thetas[1])
    np.testing.assert_array_equal(hfrnn.load(result.folder).theta, thetas[1])
    np.testing.assert_array_equal(hfrnn.load(result.folder, "last").theta, thetas[3])
    assert not np.array_equal(thetas[1], thetas[2])
    assert [line["valid_bits"] is None for line in metrics(result.folder)] == [False, False, True, False]


def test_a_run_that_a_callback_ends_unvalidated_has_its_last_state(tmp_path):
    result = run(tmp_path, updates=40, callbacks=(callback(on_update=lambda record: True),))
    assert (result.summary["stopped"], result.summary["best"]) == ("callback", None)
    np.testing.assert_array_equal(result.theta, hfrnn.load(result.folder).theta)
    np.testing.assert_array_equal(result.theta, hfrnn.load(result.folder, "last").theta)


@pytest.mark.parametrize("bad", slow_unless(lambda bad: bad == "loss", ["loss", "gradient", "step"]))
def test_a_state_that_is_not_finite_leaves_that_of_the_last_line(tmp_path, monkeypatch, bad):
    compute, calls = Objective.data_loss_and_gradient, []

    def failing(self, *arguments):
        loss, gradient = compute(self, *arguments)
        calls.append(1)
        if len(calls) == 14:
            loss = float("nan") if bad == "loss" else loss
            gradient[3] = {"loss": 0.0, "gradient": float("inf"), "step": 3e38}[bad]
        return loss, gradient

    monkeypatch.setattr(Objective, "data_loss_and_gradient", failing)
    options = {"clip_norm": 0.0, "learning_rate": 2.0}
    with pytest.raises(NonFiniteError, match=r"after update 10, whose state is kept in .*smaller learning_rate") as e:
        run(tmp_path, updates=40, **options)
    monkeypatch.undo()
    assert e.value.exit_code == 1
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["updates"] == 10
    text_file(tmp_path)
    assert training_state(tmp_path / "run") == training_state(run(tmp_path, "good", **options, updates=10).folder)
    train(resume=tmp_path / "run")
    assert training_state(tmp_path / "run") == training_state(run(tmp_path, "whole", **options, updates=40).folder)


def test_too_large_a_rate_of_the_online_rule_keeps_the_state(tmp_path):
    with pytest.raises(NonFiniteError, match=r"after update 0"):
        run(tmp_path, **ONLINE, learning_rate=1e38, init_scale=1.0, updates=100)
    assert np.isfinite(hfrnn.load(tmp_path / "run").theta).all()


# ---------------------------------------------------------------------- on a device
@pytest.mark.parametrize("options", slow_unless(lambda options: options == MUSIC, [
    {"arch": "clockwork", "update_every": 5, "max_norm": 1.0, "clip_value": 0.1, "clip_error": 0.1},
    {"arch": "hornn", "optimizer": "adam", "max_norm": {"*": 0.3}}, {"optimizer": "muon"}, TASK, MUSIC,
    {"optimizer": "soap"}, {**TASK, **HF, "preset": "published"}, {**TASK, "arch": "lstm", **HF, "momentum": 0.6},
]), ids=["sgd", "adam", "muon", "task", "music", "soap", "hf-published", "hf"])  # fmt: skip
def test_a_run_on_a_strict_device_has_the_numbers_of_numpy_and_goes_on(tmp_path, monkeypatch, options):
    """The device's arrays refuse to become NumPy arrays."""
    fake = FakeBackend()
    monkeypatch.setitem(hfrnn.arrays.backend._makers, "cupy", lambda: fake)
    host = run(tmp_path, "host", **options, updates=8, threads=1, dtype="float64")
    whole = run(tmp_path, "whole", **options, updates=8, backend="cupy", dtype="float64")
    assert isinstance(whole.theta, FakeArray)
    assert_close(whole.folder, host.folder, rtol=1e-9)
    part = run(tmp_path, "part", **options, updates=4, backend="cupy", dtype="float64")
    train(resume=part.folder, updates=8)
    assert training_state(part.folder)[0] == training_state(whole.folder)[0]
