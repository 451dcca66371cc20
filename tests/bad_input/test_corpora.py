"""A corpus, collection of music or task that is missing, damaged or too short is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_files import archive
from support.damage import a_handful
from support.music_files import stored
from support.refusals import STEPS, call, refused, replaced
from support.tiny_runs import snapshot, tiny_train

from hfrnn.analysis.sequences import evaluate_sequences
from hfrnn.errors import InputError
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load


def music(**changes: Any) -> bytes:
    """Return a small collection of music with some arrays changed; None leaves an array out."""
    arrays: dict[str, Any] = {}
    for part in ("train", "valid", "test"):
        arrays |= {f"{part}_packed": np.ones((6, 11), np.uint8), f"{part}_lengths": np.array([4, 2])}
    return stored(**{name: value for name, value in {**arrays, **changes}.items() if value is not None})


MUSIC: dict[str, Callable[[], bytes | Callable[[Path], object] | None]] = {
    "missing": lambda: None,
    "half of it": lambda: music()[:500],
    "a flipped bit": lambda: bytes(byte ^ (index == 200) for index, byte in enumerate(music())),
    "objects": lambda: music(train_lengths=np.array([4, 2], object)),
    "no training part": lambda: music(train_packed=None),
    "something that is no array": lambda: archive({"train_packed.npy": b"not an array"}),
    "other keys": lambda: music(test_packed=np.ones((6, 10), np.uint8)),
    "keys as numbers": lambda: music(train_packed=np.ones((6, 11), np.float32)),
    "lengths that are fractions": lambda: music(train_lengths=np.array([4.0, 2.0])),
    "a length of 0": lambda: music(train_lengths=np.array([6, 0])),
    "no pieces": lambda: music(valid_packed=np.ones((0, 11), np.uint8), valid_lengths=np.array([], int)),
    "lengths that do not add up": lambda: music(train_lengths=np.array([4, 3])),
    "lengths that overflow": lambda: music(train_lengths=np.array([2**63 + 4, 2**63 + 2], np.uint64)),
}


@pytest.mark.parametrize("case", a_handful(MUSIC))
def test_damaged_music_is_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFRNN_DATA", "music")
    Path("music/jsb").mkdir(parents=True, exist_ok=True)
    with replaced("music/jsb/jsb.npz", MUSIC[case]()):
        assert "jsb" in refused("train", "--data", "jsb", "--hidden", "4", "--arch", "rnn")


def test_a_run_on_music_that_has_changed_or_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFRNN_DATA", "music")
    Path("music/jsb").mkdir(parents=True, exist_ok=True)
    with replaced("music/jsb/jsb.npz", music()):
        tiny_train(tmp_path, text=None, data="jsb", arch="rnn", sequence_length=50, gradient_symbols=100_000)
        resume = ["train", "--resume", str(tmp_path / "run"), "--updates", "3"]
        assert call("evaluate", str(tmp_path / "run"), "--part", "test").exit_code == 0
    before = snapshot(tmp_path)
    for content in (None, b"rubbish", music(test_packed=np.zeros((6, 11), np.uint8))):
        with replaced("music/jsb/jsb.npz", content):
            refused(*resume)
            if content is None or len(content) < 10:
                refused("evaluate", str(tmp_path / "run"))
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("task", ["addition", "xor", "temporal-order", "random-permutation", "memorization-5bit"])
def test_a_task_that_is_too_short_or_too_long_is_refused(task: str) -> None:
    for length in ("0", str(10**12)):
        found = refused("train", "--data", task, "--length", length, "--hidden", "4", "--arch", "rnn")
        assert "length" in found


def test_a_data_folder_without_the_corpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, name in (("nowhere", "jsb"), ("text.txt", "ptb"), ("void", "ptb")):
        monkeypatch.setenv("HFRNN_DATA", folder)
        assert name in refused("train", "--data", name)


def test_a_damaged_corpus_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    for number, content in enumerate((b"", b"caf\xe9" * 9, None)):
        file = tmp_path / "tinyshakespeare" / "tinyshakespeare.txt"
        shutil.rmtree(file.parent, ignore_errors=True)
        file.parent.mkdir()
        file.mkdir() if content is None else file.write_bytes(content)
        words = ("is empty", "byte 0xe9", "is a folder")[number]
        assert words in refused("train", "--data", "tinyshakespeare", *STEPS)


def test_a_part_that_is_not_known_is_refused_in_python_too() -> None:
    net, theta, _ = load("task")
    config = RunFolder("task").config().replace(data="jsb")
    with pytest.raises(InputError, match="'middle' is not known"):
        evaluate_sequences(net, theta, config, "middle")
