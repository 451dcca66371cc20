"""Event files for TensorBoard: every line of the log once, whatever happened to the run, read back by TensorBoard."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import call
from support.method_runs import TASK
from support.method_runs import run as tiny_method
from support.tiny_runs import FLAGS, metrics, text_file, tiny_train

from hfrnn.errors import MissingExtraError
from hfrnn.training.trainer import train

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra tensorboard"
)
from hfrnn.tensorboard import PARTS, TAGS, TensorBoard  # noqa: E402


def events(folder: Path) -> Any:
    found = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


def assert_holds_the_log(folder: Path, run: Path) -> None:
    """Every scalar of every line is there once, and nothing else."""
    found, lines = events(folder), metrics(run, timed=True)
    keys = {**TAGS, **{f"seconds/{part}": f"seconds_{part}" for part in PARTS}}
    there = {tag for tag, key in keys.items() if any(line.get(key) is not None for line in lines)}
    assert set(found.Tags()["scalars"]) == there
    for tag in there:
        wanted = [(line["update"], line[keys[tag]]) for line in lines if line.get(keys[tag]) is not None]
        scalars = found.Scalars(tag)
        assert [scalar.step for scalar in scalars] == [update for update, _ in wanted]
        assert [scalar.value for scalar in scalars] == pytest.approx([value for _, value in wanted], rel=1e-6)


def texts(folder: Path, tag: str) -> dict[int, str]:
    """The texts of a tag, by their steps, without the indent that makes them code."""
    found = {}
    for event in events(folder).Tensors(tag):
        lines = event.tensor_proto.string_val[0].decode().split("\n")
        assert all(line.startswith("    ") for line in lines if line)
        found[event.step] = "\n".join(line[4:] for line in lines)
    return found


def test_every_line_of_the_log_is_there(tmp_path: Path) -> None:
    run = tiny_train(tmp_path, callbacks=(TensorBoard(),), updates=3).folder
    assert_holds_the_log(run, run)
    assert {"bits/valid", "damping/mu", "cg/iterations", "seconds/products"} <= set(events(run).Tags()["scalars"])


def test_runs_of_other_methods_on_other_data_are_there(tmp_path: Path) -> None:
    run = tiny_method(tmp_path, callbacks=(TensorBoard(),), updates=30, **TASK).folder
    assert_holds_the_log(run, run)
    assert {"step/learning_rate", "errors/valid"} <= set(events(run).Tags()["scalars"])


def test_samples_are_texts(tmp_path: Path) -> None:
    run = tiny_train(tmp_path, callbacks=(TensorBoard(),), updates=4, sample_length=60).folder
    wanted = {line["update"]: line["sample"] for line in metrics(run) if line["sample"] is not None}
    assert sorted(wanted) == [1, 2, 4]
    assert texts(run, "sample/training") == wanted
    assert texts(run, "sample/end") == {4: json.loads((run / "summary.json").read_text())["sample"]}


@pytest.mark.slow
def test_updates_that_are_done_again_count_once(tmp_path: Path) -> None:
    tiny_train(tmp_path, callbacks=(TensorBoard(),), updates=2)
    copy = Path(shutil.copytree(tmp_path / "run", tmp_path / "copy"))
    train(resume=copy, updates=4, callbacks=[TensorBoard()])
    board = tmp_path / "copy-board"
    board.mkdir()
    for file in copy.glob("events.out.tfevents.*"):  # as if killed after update 4
        shutil.copy(file, board)
    run = tmp_path / "run"
    for file in run.glob("events.out.tfevents.*"):
        file.unlink()
    train(resume=run, updates=3, callbacks=[TensorBoard(board)])
    assert_holds_the_log(board, run)
    train(resume=run, updates=6, callbacks=[TensorBoard(board)])
    assert_holds_the_log(board, run)


def test_updates_made_without_it_are_written_when_it_comes_back(tmp_path: Path) -> None:
    run = tiny_train(tmp_path, updates=1).folder
    train(resume=run, updates=2, callbacks=[TensorBoard()])
    assert_holds_the_log(run, run)
    train(resume=run, updates=4)
    train(resume=run, updates=5, callbacks=[TensorBoard()])
    assert_holds_the_log(run, run)
    times = [event.wall_time for event in events(run).Scalars("loss/train")]
    assert times == sorted(times)


# ---------------------------------------------------------------------- the command


def test_the_command_writes_into_the_run_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    call("train", text_file(tmp_path), *FLAGS, "--out", run, "--quiet", "--tensorboard", "--sample-length", 20)
    call("train", "--resume", run, "--updates", 3, "--json", "--tensorboard")
    assert_holds_the_log(run, run)
    assert set(texts(run, "sample/end")) == {2, 3}


def test_it_is_refused_where_nothing_is_trained() -> None:
    for mode in ("--dry-run", "--print-config"):
        found = call("train", "--tensorboard", mode, code=2)
        assert f"Error: --tensorboard was given, and {mode} trains nothing: leave one of them out" in found.stderr


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto", None)
    with pytest.raises(MissingExtraError, match=r"pip install '.\[tensorboard\]' in a copy of the project"):
        TensorBoard()
    found = call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run", "--tensorboard", code=2)
    assert found.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
