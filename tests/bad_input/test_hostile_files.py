"""A run folder that somebody else made reads and writes nothing outside of it; no file is waited for or too large."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.damage import a_handful, a_sparse_file, sealed_checkpoint
from support.refusals import COMMANDS, READ, RESUME, STEPS, call, refused, replaced
from support.tiny_runs import snapshot, tiny_train

import hfrnn
from hfrnn import files
from hfrnn.runs.checkpoint import load_checkpoint

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices with names are of POSIX systems")

VICTIM = b"dear diary\n"


@pytest.fixture(autouse=True)
def victim() -> Iterator[Path]:
    """A file outside of the run, which stays as it is."""
    path = Path("victim")
    path.write_bytes(VICTIM)
    yield path
    assert path.read_bytes() == VICTIM
    path.unlink()


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a link": lambda path: path.symlink_to(Path("victim").absolute()),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a copy": lambda path: path.symlink_to(shutil.copy(f"copy/{path.name}", "elsewhere")),
    "a pipe": os.mkfifo,
    "a sparse file": a_sparse_file,
}


@pytest.fixture(scope="module", autouse=True)
def copy(home: Path) -> Path:
    """A copy of the run, to take files from."""
    copy = Path(shutil.copytree(home / "run", home / "copy"))
    (copy / ".lock").write_bytes(b"1 machine\n")
    return copy


@pytest.mark.parametrize(("name", "kind"), a_handful([(name, kind) for name in READ for kind in HOSTILE]))
def test_a_file_of_a_run_is_not_opened_through_a_link_nor_waited_for(name: str, kind: str) -> None:
    with replaced(f"run/{name}", HOSTILE[kind]):
        for command in READ[name]:
            assert name.partition(".")[0] in refused(*COMMANDS[command])
        found = refused("report", "run") if name != "last.safetensors" and not name.startswith(("best", "voc")) else ""
        assert not found or name in found or "config" in found


@pytest.mark.parametrize("kind", [kind for kind in HOSTILE if kind != "a sparse file"])
def test_a_lock_that_is_not_a_file_is_refused_before_anything_is_written(kind: str) -> None:
    with replaced("run/.lock", HOSTILE[kind]):
        assert "run/.lock is not the lock of a run (it is a " in refused(*RESUME)


@pytest.mark.parametrize("name", [".lock", "metrics.jsonl"])
def test_a_file_that_is_written_in_place_may_have_no_second_name(name: str, tmp_path: Path) -> None:
    run = shutil.copytree("run", tmp_path / "run")
    (run / name).touch()
    os.link(run / name, tmp_path / "other")
    before = snapshot(tmp_path)
    assert "it is a hard link" in refused("train", "--resume", str(run), *RESUME[3:])
    assert snapshot(tmp_path) == before


def test_a_log_that_becomes_a_link_in_mid_run_is_not_written_through(tmp_path: Path) -> None:
    class Swap(hfrnn.Callback):
        def on_update(self, record: dict[str, object]) -> None:
            (tmp_path / "run" / "metrics.jsonl").unlink()
            (tmp_path / "run" / "metrics.jsonl").symlink_to(Path("victim").absolute())

    with pytest.raises(hfrnn.HfrnnError, match=r"cannot write .*metrics.jsonl \(it is a link.*update 1 is saved"):
        tiny_train(tmp_path, callbacks=(Swap(),), updates=3)


def test_a_kept_state_that_is_not_a_checkpoint_is_refused() -> None:
    for kind, words in (("a link", "'update-1' is not known"), ("a sparse file", "000001.safetensors is damaged")):
        with replaced("run/update-000001.safetensors", HOSTILE[kind]):
            assert words in refused("evaluate", "run", "--which", "update-1")
    for digits in ("9" * 5000, "٣", ""):
        assert "is not known: use best or last" in refused("evaluate", "run", "--which", f"update-{digits}")


# ------------------------------------------------------------------ texts and configurations


@pytest.mark.parametrize("kind", ["a link to a device", "a pipe", "a sparse file"])
def test_a_text_or_configuration_that_never_ends_is_refused_at_once(kind: str) -> None:
    words = {"a pipe": "a pipe, not a regular file", "a sparse file": "1,000,000,000,000 bytes, and at most"}
    with replaced("odd", HOSTILE[kind]):
        for arguments in (
            ["train", "odd", *STEPS], ["train", "text.txt", *STEPS, "--valid", "odd"], ["evaluate", "run", "odd"],
            ["train", "--config", "odd"],
        ):  # fmt: skip
            assert words.get(kind, "it is a device, not a regular file") in refused(*arguments)
        Path("odd").rename("odd.py")
        if kind != "a sparse file":
            assert "not a regular file" in refused("info", "--kernel", "odd.py")
        Path("odd.py").rename("odd")


def test_the_bound_of_a_text_is_a_share_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfrnn.data.corpora.memory_share", lambda divisor: 1600 // divisor)
    assert "it has 2,240 bytes, and at most 100 are read" in refused("train", "text.txt", *STEPS)


def test_a_text_and_a_configuration_may_be_links() -> None:
    with replaced("link", lambda path: path.symlink_to("text.txt")):
        assert call("evaluate", "run", "link").exit_code == 0
        with replaced("c.toml", lambda path: path.symlink_to("run/config.toml")):
            assert call("train", "--config", "c.toml", "--dry-run").exit_code == 0


# ------------------------------------------------------------------ checkpoints


def test_a_checkpoint_larger_than_its_network_allows_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    content = Path("run/best.safetensors").read_bytes()
    monkeypatch.setattr("hfrnn.runs.folder.SPARE", 0)
    assert call("evaluate", "run").exit_code == 0
    with replaced("run/best.safetensors", a_sparse_file):
        with open("run/best.safetensors", "r+b") as file:
            file.write(content)
        assert "has 1,000,000,000,000 bytes, and one of this network at most" in refused("evaluate", "run")


def test_a_header_of_a_checkpoint_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, _ = load_checkpoint("run/best.safetensors")
    content = sealed_checkpoint("1", "{" + " " * 5000 + "}", arrays)
    monkeypatch.setattr("hfrnn.runs.checkpoint.DESCRIPTION", 5000)
    assert files.DESCRIPTION == 2**26
    with replaced("run/best.safetensors", content):
        assert "is cut short or not a checkpoint" in refused("evaluate", "run")
