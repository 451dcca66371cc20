"""A user's own optimizer, examples/lion.py, trains, resumes and has options as the built-in ones do."""

from pathlib import Path

import numpy as np
import pytest
from support.command_line import call, refused
from support.imported import imported
from support.method_runs import run, training_state
from support.tiny_runs import callback, metrics, text_file

import hfrnn
from hfrnn.cli.arguments import flag_of
from hfrnn.optim.first_order import FirstOrder
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.runs.options import run_options
from hfrnn.training.trainer import Trainer, train

LION = Path(__file__).resolve().parents[2] / "examples" / "lion.py"
OPTIONS = {"optimizer": "lion", "lion_beta1": 0.8, "weight_decay": 0.1, "streams": 4}


@pytest.fixture
def lion():
    """The example, registered during the test only."""
    yield imported(LION)
    if "lion" in OPTIMIZERS.of_users():
        OPTIMIZERS.forget("lion")


def test_its_steps_follow_the_equations(lion):
    rng = np.random.default_rng(0)
    theta, m, step = rng.normal(size=7), np.zeros(7), lion.LionStep(0.9, 0.99, 0.1)
    found = theta
    for _ in range(5):
        g = rng.normal(size=7)
        c = 0.9 * m + 0.1 * g
        theta = theta - 0.01 * np.sign(c) - 0.01 * 0.1 * theta
        m = 0.99 * m + 0.01 * g
        found = step.step(found, g, lr=0.01)
    np.testing.assert_allclose(found, theta, rtol=1e-13)
    assert isinstance(step, FirstOrder)


@pytest.mark.usefixtures("lion")
def test_it_trains_and_resumes_with_the_same_bits(tmp_path):
    lines = []
    says = callback(on_start=lambda trainer: lines.extend(map(str, trainer.method.lines())))
    whole = run(tmp_path, "whole", (says,), updates=40, **OPTIONS).folder
    parts = run(tmp_path, "parts", updates=17, **OPTIONS).folder
    train(resume=parts, updates=40)
    assert training_state(parts) == training_state(whole)
    assert lines == ["training  lion, learning rate 0.0005 (divide), 4 streams, 10 steps back"]
    losses = [record["train_loss"] for record in metrics(whole)]
    assert losses[-1] < losses[0]


@pytest.mark.usefixtures("lion")
def test_its_options_are_options_of_a_run(tmp_path):
    assert run_options()["lion_beta2"].default == 0.99
    config = hfrnn.TrainConfig(optimizer="lion").resolved()
    assert (config.learning_rate, config.average, config.lion_beta1) == (0.0005, 0.995, 0.9)
    with pytest.raises(hfrnn.InputError, match="lion_beta1= is 1: give a number from 0, below 1"):
        hfrnn.TrainConfig(optimizer="lion", lion_beta1=1.0)
    with pytest.raises(hfrnn.InputError, match="lion_beta1= was given, and optimizer= is sgd: it is for optimizer='l"):
        run(tmp_path, lion_beta1=0.5)
    with pytest.raises(hfrnn.InputError, match="cg_iterations= was given, and optimizer= is lion: it is for"):
        run(tmp_path, **OPTIONS, cg_iterations=3)


@pytest.fixture
def _forgotten():
    """Forget the optimizer that a command of the test registers."""
    yield
    OPTIMIZERS.forget("lion")


@pytest.mark.usefixtures("_forgotten")
def test_the_command_line_has_it_with_its_file(tmp_path):
    flags = ["--kernel", LION, "--optimizer", "lion", "--lion-beta1", 0.8, "--arch", "rnn", "--hidden", 4]
    flags += ["--backend", "numpy"]
    call("train", text_file(tmp_path), *flags, "--updates", 3, "--log-interval", 3, "--out", tmp_path / "run")
    assert RunFolder(tmp_path / "run").config().lion_beta1 == 0.8
    state = Trainer.resumed(tmp_path / "run", {}).state
    state.saved = {"update": 3}
    assert f"train --kernel {LION} --resume {tmp_path / 'run'}" in state.interrupted.worded(flag_of)
    OPTIMIZERS.forget("lion")
    message = refused("train", "--kernel", LION, "--optimizer", "adam", "--lion-beta1", 0.8)
    assert "--lion-beta1 was given, and --optimizer is adam: it is for --optimizer lion" in message


@pytest.mark.usefixtures("lion")
def test_without_its_file_it_is_not_known(tmp_path):
    folder = run(tmp_path, updates=1, **OPTIONS).folder
    OPTIMIZERS.forget("lion")
    with pytest.raises(hfrnn.InputError, match="optimizer= is 'lion': use one of hf, sgd"):
        hfrnn.TrainConfig(optimizer="lion")
    with pytest.raises(hfrnn.CheckpointError, match="names the optimizer 'lion', which is not known: import"):
        hfrnn.load(folder)
