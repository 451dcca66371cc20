"""A run whose folder is deleted, moved or replaced ends with a true sentence, and touches no other folder."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.run_states import assert_same
from support.stops import load_update, send
from support.tiny_runs import FLAGS, OPTIONS, snapshot, text_file, tiny_train

from hfrnn.errors import InputError, StorageError
from hfrnn.runs.lock import FolderLock
from hfrnn.training.trainer import Callback, Trainer, train


def replace_by_empty(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()


def replace_by_copy(run: Path) -> None:
    shutil.copytree(run, run.with_name("copy"))
    run.rename(run.with_name("moved"))
    run.with_name("copy").rename(run)


LOSSES: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "moved": lambda run: run.rename(run.with_name("moved")),
    "replaced by an empty one": replace_by_empty,
    "replaced by a copy": replace_by_copy,
    "taken by another process": lambda run: (replace_by_empty(run), FolderLock(run).acquire()),
    "lock deleted": lambda run: (run / ".lock").unlink(),
}
SENTENCE = r"^the run folder .*run, or the file .lock in it, was deleted, moved or replaced while .*start a new one$"


class Lose(Callback):
    """Does something to the run folder after an update, and notes what is at its path then."""

    def __init__(self, action: Callable[[Path], object], update: int = 1) -> None:
        self.action, self.update, self.before = action, update, dict[str, Any]()

    def on_start(self, trainer: Trainer) -> None:
        self.path = trainer.path
        if self.update == 0:
            self.lose()

    def on_update(self, record: dict[str, Any]) -> None:
        assert record["update"] <= self.update, "it trained on"
        if record["update"] == self.update:
            self.lose()

    def lose(self) -> None:
        self.action(self.path)
        self.before = snapshot(self.path) if self.path.exists() else {}


@pytest.mark.parametrize(("loss", "update"), [*((loss, 1) for loss in LOSSES), ("moved", 0), ("replaced by a copy", 2)])
def test_a_lost_folder_ends_the_run_at_its_next_save(tmp_path: Path, loss: str, update: int) -> None:
    lose = Lose(LOSSES[loss], update)
    with pytest.raises(StorageError, match=SENTENCE) as caught:
        tiny_train(tmp_path, callbacks=(lose,), updates=max(2, update))
    assert caught.value.exit_code == 1
    if update < 2:
        assert (snapshot(tmp_path / "run") if (tmp_path / "run").exists() else {}) == lose.before


def test_an_interrupted_run_does_not_claim_what_a_lost_folder_lacks_and_resumes_where_it_is(tmp_path: Path) -> None:
    def action(run: Path) -> None:
        run.rename(run.with_name("moved"))
        send(signal.SIGINT)

    with pytest.raises(StorageError, match=SENTENCE):
        tiny_train(tmp_path, callbacks=(Lose(action),), updates=3)
    train(resume=tmp_path / "moved")
    assert_same(tiny_train(tmp_path, "whole", updates=3).folder, tmp_path / "moved")


def test_the_lock_of_another_process_is_not_released(tmp_path: Path) -> None:
    mine, other = FolderLock(tmp_path), FolderLock(tmp_path)
    mine.acquire()
    (tmp_path / ".lock").unlink()
    other.acquire()
    mine.release()
    with pytest.raises(InputError, match="in use"):
        FolderLock(tmp_path).acquire()
    other.check()
    other.release()
    assert not list(tmp_path.iterdir())


def test_runs_that_start_in_the_same_second_take_the_next_free_names(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hfrnn.training.run_state.time.strftime", lambda pattern: "now")
    options: dict[str, Any] = {**OPTIONS, "text": text_file(tmp_path), "updates": 1}
    found: list[Path] = []

    class Another(Callback):
        def on_start(self, trainer: Trainer) -> None:
            if len(found) < 2:
                found.append(trainer.path)
                train(**options, callbacks=(self,))

    train(**options, callbacks=(Another(),))
    assert sorted(map(str, Path("runs").iterdir())) == [
        "runs/mlstm-structural-now", "runs/mlstm-structural-now-2", "runs/mlstm-structural-now-3",
    ]  # fmt: skip


def test_a_numbered_folder_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text_file(tmp_path)
    (tmp_path / "runs").write_text("dear")
    with pytest.raises(InputError, match=r"runs/mlstm.* cannot be made .*give an out="):
        train(text="text.txt", hidden=4, sequence_length=10, updates=1, backend="numpy")


def test_the_leftovers_of_a_killed_first_write_are_deleted_by_resume(tmp_path: Path) -> None:
    run = tiny_train(tmp_path).folder
    for name in ("last.safetensors", "best.safetensors", "metrics.jsonl", "summary.json"):
        (run / name).unlink()
    (run / ".hfrnn-0123456789ab.tmp").write_bytes(b"half of it")
    (run / ".hfrnn-a-folder.tmp").mkdir()  # not ours
    train(resume=run)
    (run / ".hfrnn-a-folder.tmp").rmdir()
    assert_same(tiny_train(tmp_path, "whole").folder, run)
    assert sorted(snapshot(run)) == sorted(snapshot(tmp_path / "whole"))


@pytest.mark.slow
def test_of_many_processes_that_start_at_once_each_has_a_folder(tmp_path: Path) -> None:
    text_file(tmp_path)
    code = "import time; time.strftime = lambda pattern: 'now'; from hfrnn.cli import main; main(prog_name='hfrnn')"
    words = [sys.executable, "-c", code, "train", "text.txt", *FLAGS, "--updates", "1", "--quiet"]
    every = [subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {each.communicate(timeout=120)[0].strip() for each in every}
    assert len(folders) == 3
    assert {load_update(tmp_path / folder) for folder in folders} == {1}
