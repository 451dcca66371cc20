"""The option --restore-best: a run goes back to the weights of its best epoch when its learning rate is divided."""

import itertools

import numpy as np
import pytest
from support.method_runs import ONLINE, WINDOWS, Losses, run, training_state
from support.slow import slow_unless
from support.tiny_runs import metrics

from hfrnn.errors import InputError
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.training.callbacks import Callback
from hfrnn.training.trainer import train

OPTIONS = {"schedule": "halve", "restore_best": True, "learning_rate": 0.5}
MANNERS = {
    "sgd": {}, "last weights": {"average": 0.0}, "momentum": {"momentum": 0.9, "average": 0.0},
    "adam": {"optimizer": "adam", "learning_rate": 0.01}, "soap": {"optimizer": "soap", "learning_rate": 0.01},
    "online": {**ONLINE, "learning_rate": 0.01},
    "constraints": {"arch": "rnn", "activation": "relu", "density": 0.5, "excitatory": 0.7},
}  # fmt: skip


class Epochs(Callback):
    """Notes after every epoch what was validated, and what training goes on with."""

    def __init__(self):
        self.validated = []
        self.after = []

    def on_start(self, trainer):
        self.trainer = trainer
        own = trainer.method.validated

        def validated(loss, theta):
            self.validated.append(trainer.method.weights(theta).copy())
            found = own(loss, theta)
            self.after.append(trainer.method.weights(found).copy())
            return found

        trainer.method.validated = validated


@pytest.mark.parametrize("manner", slow_unless(lambda manner: manner == "constraints", MANNERS))
def test_training_goes_on_with_the_best_epoch_when_the_rate_is_halved(tmp_path, monkeypatch, manner):
    seen, losses = Epochs(), Losses(monkeypatch, 3.0, 2.0, 2.5, 2.2, 1.9, 1.8)
    options = {**OPTIONS, "streams": 20, **MANNERS[manner], "epochs": 6}
    result = run(tmp_path, **options, callbacks=(losses, seen))
    validated, after = seen.validated, seen.after
    assert len(validated) == 6
    best = validated[1]
    for epoch in (2, 3):
        np.testing.assert_allclose(after[epoch], best, rtol=1e-6)
        assert np.abs(validated[epoch] - best).max() > 1e-5
    for epoch in (0, 1, 4, 5):
        np.testing.assert_array_equal(after[epoch], validated[epoch])
    rates = [line["learning_rate"] / options["learning_rate"] for line in metrics(result.folder)]
    ends = [line["learning_rate"] / options["learning_rate"] for line in metrics(result.folder) if line["valid_loss"]]
    assert ends == pytest.approx([1, 1, 1, 0.5, 0.25, 0.25])
    assert rates[-1] == 0.25
    np.testing.assert_allclose(result.theta, validated[5], rtol=1e-6)


def test_the_average_starts_anew(tmp_path, monkeypatch):
    losses = Losses(monkeypatch, 3.0, 3.5)
    result = run(tmp_path, **OPTIONS, updates=2 * WINDOWS + 1, callbacks=(losses,))
    arrays, meta = load_checkpoint(result.folder / "last.safetensors")
    assert meta["method"]["averaged"] == 1
    np.testing.assert_array_equal(arrays["method.average"], arrays["theta"])


@pytest.mark.parametrize("manner", slow_unless(lambda manner: manner == "sgd", ["sgd", "online", "constraints"]))
def test_a_resumed_run_goes_back_to_the_same_bits(tmp_path, monkeypatch, manner):
    folders = []
    for name, stops in (("whole", (5,)), ("parts", (2, 3, 5))):
        losses = [3.0, 2.0, 2.5, 2.2, 2.4]
        options = {**OPTIONS, "streams": 20, **MANNERS[manner]}
        given = Losses(monkeypatch, *losses)
        folder = run(tmp_path, name, **options, epochs=stops[0], callbacks=(given,)).folder
        for done, stop in itertools.pairwise(stops):
            train(resume=folder, epochs=stop, callbacks=(Losses(monkeypatch, *losses[done:]),))
        folders.append(folder)
    assert training_state(folders[0]) == training_state(folders[1])


@pytest.mark.slow
def test_the_validation_at_a_limit_does_not_count(tmp_path, monkeypatch):
    """The best state of a run may lie in the middle of an epoch; a resumed run goes back to that of an epoch."""
    whole = run(tmp_path, "whole", **OPTIONS, epochs=3, callbacks=(Losses(monkeypatch, 3.0, 2.0, 2.5),)).folder
    parts = run(tmp_path, "parts", **OPTIONS, updates=WINDOWS + 10, callbacks=(Losses(monkeypatch, 3.0, 0.1),)).folder
    train(resume=parts, epochs=3, callbacks=(Losses(monkeypatch, 2.0, 2.5),))
    arrays = [training_state(folder)[0]["theta"] for folder in (whole, parts)]
    assert arrays[0] == arrays[1]


def test_other_schedules_refuse_it(tmp_path):
    for schedule in ("constant", "text8", "cosine"):
        words = f"schedule= is {schedule}, which does not watch the validation loss: leave"
        with pytest.raises(InputError, match=words):
            run(tmp_path, schedule=schedule, restore_best=True, updates=1)
