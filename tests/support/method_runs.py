"""Runs of SGD, Adam and the online rule that take a moment, and what is compared of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hfrnn.training.trainer import Callback, Trainer, TrainingResult, train
from support.run_states import state
from support.tiny_runs import TEXT, text_file, with_an_effect

TRAINED = round(0.9 * len(TEXT))  # characters of TEXT to train on
SMALL: dict[str, Any] = {
    "optimizer": "sgd", "arch": "lstm", "hidden": 4, "sequence_length": 10, "streams": 4, "log_interval": 10,
    "sample_length": 0, "backend": "numpy",
}  # fmt: skip
WINDOWS = (TRAINED - 1) // 4 // 10  # updates of an epoch of these
ONLINE = {"optimizer": "online", "arch": "lstm-krause", "streams": 8}
TASK = {"data": "addition", "length": 21, "sequences": 40, "streams": 6, "arch": "rnn"}
MUSIC = {"data": "jsb", "streams": 3}


def run(folder: Path, name: str = "run", callbacks: tuple[Any, ...] = (), **options: Any) -> TrainingResult:
    """A run in `folder/name`, on TEXT unless other data are given."""
    options = {**with_an_effect(SMALL, options), **options}
    if options["optimizer"] == "hf":  # those of TASK
        options = {name: value for name, value in options.items() if name not in ("streams", "log_interval")}
    if "data" not in options:
        options.setdefault("text", folder / "text.txt")
        if not options["text"].exists():
            text_file(folder)
    return train(out=folder / name, callbacks=callbacks, **options)


def training_state(folder: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """All of a checkpoint that training depends on."""
    arrays, meta = state(folder)
    return arrays, {
        key: value for key, value in meta.items() if key not in ("best", "last") and not key.startswith("seconds")
    }


class Losses(Callback):
    """Puts losses in the place of those that validation finds, the last one again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *losses: float) -> None:
        self.losses, self.count, self.monkeypatch = losses, 0, monkeypatch

    def on_start(self, trainer: Trainer) -> None:
        self.monkeypatch.setattr(trainer.validation, "loss", self.loss)

    def loss(self, theta: Any) -> float:
        self.count += 1
        return self.losses[min(self.count, len(self.losses)) - 1]
