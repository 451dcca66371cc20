"""What a command prints about a run as hints, a Python program gets as warnings, about the line that called."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import hfrnn
import hfrnn.training.hints
from hfrnn.cli import main
from hfrnn.training.callbacks import TrainingResult

RNG = np.random.default_rng(0)
DATA = {"x": RNG.normal(size=(20, 6, 2)), "y": RNG.normal(size=(20, 6, 1))}
STILL: dict[str, Any] = {
    "arch": "rnn", "hidden": 2, "backend": "numpy", "optimizer": "sgd", "learning_rate": 1e-30, "log_interval": 1,
    "validate_every": 1, "updates": 4,
}  # fmt: skip


def warned(**options: Any) -> tuple[TrainingResult, list[str]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = hfrnn.train(**options)
    assert {each.filename for each in found} <= {__file__}
    return result, [str(each.message) for each in found if issubclass(each.category, hfrnn.HfrnnWarning)]


def test_a_program_learns_once_that_validation_does_not_improve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hfrnn.training.hints, "IDLE", 1)
    words = "no better validation since update 1: Ctrl-C stops and keeps the best weights; patience=1 does so by itself"
    assert warned(data=DATA, **STILL, out=tmp_path / "a", restarts=2)[1] == [words]
    assert warned(data=DATA, **STILL, out=tmp_path / "b", patience=9)[1] == []


def test_a_program_learns_that_a_resumed_run_has_no_updates_left(tmp_path: Path) -> None:
    hfrnn.train(data=DATA, **STILL, out=tmp_path / "run")
    assert warned(data=DATA, resume=tmp_path / "run")[1] == [
        "continuing after update 4: updates=4 counts from the first update, so none is left; give a larger updates=, "
        "or minutes="
    ]


def test_a_program_learns_that_the_validation_loss_rises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfrnn.training.hints, "RISEN", 1.0)
    x = np.linspace(0, 9, 400)[:, None]
    data = {"x": x, "y": np.where(x < 8, x, -x)}  # learned, then wrong in the last tenth
    options = {**STILL, "learning_rate": 0.01, "updates": 8, "window": 20, "burn_in": 2}
    result, found = warned(data=data, **options, out=tmp_path / "run")
    best, last = result.summary["best"], result.summary["last"]
    assert last["valid_loss"] > best["valid_loss"]
    assert any(each.startswith("the validation loss rises while the training loss falls: ") for each in found)
    assert not any("--" in each for each in found)


def test_a_program_learns_that_classes_make_a_softmax_over_many_words_cheaper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hfrnn.data.kinds.text.MANY_SYMBOLS", 25)
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{chr(97 + n % 24)} {n % 5} " for n in range(900)))
    options = {"text": path, "level": "word", "arch": "rnn", "hidden": 2, "updates": 1, "sequence_length": 10}
    assert warned(**options, out=tmp_path / "all")[1] == [
        "there are 29 different words, and each step computes an output for all of them: classes=5 computes about 10"
    ]
    assert warned(**options, classes=5, out=tmp_path / "classes")[1] == []
    shown = CliRunner().invoke(main, f"train {path} --level word --arch rnn --hidden 2 --dry-run".split()).output
    assert shown.startswith("hint      there are 29 different words, ")
    assert "--classes 5" in shown
