"""Run folders: made only where nothing is, read back whole, refused where damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.tiny_runs import TEXT, metrics, snapshot, tiny_train

import hfrnn
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, InputError
from hfrnn.files import write_atomic
from hfrnn.runs.checkpoint import checkpoint_bytes, load_checkpoint
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_train(tmp_path_factory.mktemp("runs")).folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_load_gives_network_parameters_and_symbols(finished: Path) -> None:
    net, theta, vocabulary = hfrnn.load(finished)
    assert (net.arch, net.hidden, theta.shape) == ("mlstm", (4,), (net.n_parameters,))
    assert net.n_in == net.n_out == vocabulary.size
    np.testing.assert_array_equal(theta, load_checkpoint(finished / "best.safetensors")[0]["method.average"])
    last = load(finished, "last").theta
    np.testing.assert_array_equal(last, load_checkpoint(finished / "last.safetensors")[0]["method.average"])
    with pytest.raises(InputError, match=r"'worst'.*best or last"):
        load(finished, "worst")


def test_a_folder_that_macos_or_windows_has_looked_at_is_empty(finished: Path, tmp_path: Path) -> None:
    for name in (".DS_Store", "desktop.ini"):
        (tmp_path / name).write_text("positions of icons")
    folder = RunFolder(finished)
    RunFolder.create(tmp_path, folder.config(), {}, folder.vocabulary()).lock.release()
    assert {path.name for path in tmp_path.iterdir()} == {".DS_Store", "desktop.ini", "config.toml", "vocabulary.json"}


def test_a_path_with_something_in_it_is_left_as_it_is(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file", tmp_path / "folder" / "diary.txt"):
        path.write_text("dear")
    folder, before = RunFolder(finished), snapshot(tmp_path)
    for out in ("file", "folder"):
        with pytest.raises(InputError, match="exists already and is left as it is"):
            RunFolder.create(tmp_path / out, folder.config(), {}, folder.vocabulary())
    assert snapshot(tmp_path) == before


def test_an_empty_folder_is_taken(finished: Path, tmp_path: Path) -> None:
    folder = RunFolder(finished)
    made = RunFolder.create(tmp_path, folder.config(), {"hfrnn": "1"}, folder.vocabulary())
    assert made.config() == folder.config()
    assert made.versions() == {"hfrnn": "1"}


@pytest.mark.parametrize(
    ("name", "damage"),
    [("best.safetensors", "cut"), ("best.safetensors", "missing"), ("vocabulary.json", "empty"),
     ("vocabulary.json", "missing"), ("config.toml", "type"), ("config.toml", "noise")],
)  # fmt: skip
def test_a_damaged_file_is_refused(run: Path, name: str, damage: str) -> None:
    path = run / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        damages = {"cut": content[:-99], "empty": b"", "noise": b"\x00\xff\x17" * 99, "type": b'hidden = "big"'}
        path.write_bytes(damages[damage])
    with pytest.raises(CheckpointError, match=name):
        load(run)


def test_parameters_of_another_network_are_refused(run: Path) -> None:
    meta = {"network": {"n_in": 3, "n_out": 3, "loss": "softmax"}}
    for arrays, own, problem in (
        ({"theta": np.zeros(5, np.float32)}, meta, "holds 5 parameters"), ({}, meta, "holds no parameters"),
        ({}, {}, "lacks 'network'"),
    ):  # fmt: skip
        write_atomic(run / "best.safetensors", checkpoint_bytes(arrays, own))
        with pytest.raises(CheckpointError, match=problem):
            load(run)


def test_a_cut_off_line_of_metrics_and_lines_after_the_checkpoint_are_dropped(run: Path) -> None:
    path = run / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"update": 3, "sec')
    assert [record["update"] for record in RunFolder(run).metrics()] == [1, 2]
    RunFolder(run).metrics_file.cut(2)
    assert path.read_bytes() == whole
    first = metrics(run, timed=True)[:1]
    RunFolder(run).metrics_file.cut(1)
    assert metrics(run, timed=True) == first
    with pytest.raises(CheckpointError, match=r"ends at update 1.*of update 5"):
        RunFolder(run).metrics_file.cut(5)


@pytest.mark.parametrize("line", [b"{nonsense}", b"\xff\xfe", b"[1]", b'{"seconds": 1}', b'{"update": 7}', b""])
def test_damage_inside_metrics_is_refused_and_nothing_is_lost(run: Path, line: bytes) -> None:
    path = run / "metrics.jsonl"
    second = path.read_bytes().splitlines()[1]
    path.write_bytes(line + b"\n" + second + b"\n")
    before = snapshot(run)
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is damaged: line [12]"):
        RunFolder(run).metrics_file.cut(2)
    assert snapshot(run) == before


def test_the_summary_holds_the_best_and_the_last_line(finished: Path) -> None:
    summary = json.loads((finished / "summary.json").read_text())
    lines = metrics(finished, timed=True)
    assert summary["last"] == lines[-1]
    assert summary["best"] == min(lines, key=lambda line: line["valid_bits"])
    assert (summary["updates"], summary["stopped"]) == (2, "updates")


def test_a_vocabulary_of_another_size_than_the_network_is_refused(run: Path) -> None:
    config, own = (run / "config.toml").read_text(), load(run).vocabulary
    assert own.size == 28
    for text in ("other symbols", TEXT + "é"):
        vocabulary = Vocabulary.build(text, "char")
        vocabulary.save(run / "vocabulary.json")
        changed = config.replace(own.to_json()["sha256"], vocabulary.to_json()["sha256"])
        (run / "config.toml").write_text(changed)
        with pytest.raises(CheckpointError, match=f"has {vocabulary.size} symbols, and the network 28 inputs and 28"):
            load(run)
