"""What a command does where the console, its encodings, its pipes and its shells are those of Windows."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import support.windows
from support.command_line import call, refused
from support.run_states import assert_same
from support.terminal import COMMAND
from support.tiny_runs import FLAGS, text_file, tiny_train
from support.windows import needs_proc

from hfrnn.cli import main, output
from hfrnn.training.signals import Interrupted
from hfrnn.training.trainer import Callback


def test_arguments_are_not_expanded_as_click_does_it_on_windows(monkeypatch: Any, capsys: Any) -> None:
    class Windows:
        name = "nt"

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

    monkeypatch.setattr(click.core, "os", Windows())
    monkeypatch.setenv("NOWHERE", "elsewhere")
    monkeypatch.setattr(sys, "argv", ["hfrnn", "evaluate", "$NOWHERE"])
    with pytest.raises(SystemExit):
        main(prog_name="hfrnn")
    assert "$NOWHERE is not a run folder" in capsys.readouterr().err


def test_printed_options_are_read_back_from_a_console_of_windows(tmp_path: Path) -> None:
    """A pipe has a code page; cmd.exe writes its bytes, and PowerShell writes UTF-16."""
    (tmp_path / "Märchen 🦊.txt").write_text("once upon a time " * 9)
    printed = subprocess.run(
        [*COMMAND, "train", "Märchen 🦊.txt", "--hidden", "3", "--print-config"], cwd=tmp_path, capture_output=True,
        check=True, env={**os.environ, "PYTHONIOENCODING": "cp1252"},
    ).stdout  # fmt: skip
    text = printed.decode("cp1252").replace("\n", "\r\n")
    for encoding in ("ascii", "utf-8-sig", "utf-16"):
        (tmp_path / "run.toml").write_bytes(text.encode(encoding))
        again = tomllib.loads(call("train", "--config", tmp_path / "run.toml", "--print-config").stdout)
        assert again["text"] == str(tmp_path / "Märchen 🦊.txt")
    (tmp_path / "run.toml").write_bytes(text.encode("utf-16")[:-1])
    assert "is not TOML" in refused("train", "--config", tmp_path / "run.toml")


def test_a_sample_reaches_a_file_unchanged_whatever_the_console_does(tmp_path: Path) -> None:
    code = (
        "import sys; from hfrnn.cli.output import say, say_data; sys.stdout.reconfigure(newline='\\r\\n'); "
        "say('first'); say_data('é漢\\r\\n\\x1b\\udc80')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True,
                          env={**os.environ, "PYTHONIOENCODING": "cp1252"})  # fmt: skip
    assert done.stdout == "first\r\né漢\r\n\x1b\\udc80\n".encode()


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="there is no file whose write has the error of Windows")
def test_the_pipes_of_windows_are_closed_with_another_error(tmp_path: Path, monkeypatch: Any) -> None:
    def closed(*_: Any) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    class Prints(Callback):
        on_update = closed

    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Interrupted, match="after update 1, which is saved"):
        tiny_train(tmp_path, callbacks=(Prints(),))
    assert output.show_lost_output(OSError(errno.EINVAL, "Invalid argument")) == 1
    with open(os.eventfd(0), "wb", buffering=0) as raw:  # whose `write` has that error too
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, write_through=True))
        with pytest.raises(OSError, match="Invalid argument") as error:
            output.say("text")
        sys.stdout.detach()  # type: ignore[attr-defined]
        monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "win32")
    assert output.is_lost_output(error.value)


def test_ctrl_break_of_windows_interrupts_a_run(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR2, raising=False)

    class Breaks(Callback):
        def on_update(self, record: Any) -> None:
            os.kill(os.getpid(), signal.SIGUSR2)

    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        with pytest.raises(Interrupted, match="after update 1, which is saved"):
            tiny_train(tmp_path, callbacks=(Breaks(),))
    finally:
        signal.signal(signal.SIGUSR2, before)


SCRIPT = """
import sys
from pathlib import Path

flags, name = sys.argv[1:], "here"


def run(*words):
    from hfrnn.__main__ import main

    sys.argv = ["hfrnn", *words]
    try:
        main()
    except SystemExit as end:
        return end.code


def all_of_them():
    assert not run("train", "text.txt", *flags, "--quiet", "--out", name, "--keep", "1")
    assert not run("train", "--resume", name, "--updates", "4")
    assert not run("evaluate", name, "--per-symbol", f"{name}.jsonl")
    assert not run("sample", name, "--length", "9")
    assert not run("report", name, "--force")
    assert not run("export", name, f"{name}-c", "--to", "c")
    assert not run("info")


all_of_them()
name = "there"
from support.windows import become_windows
become_windows()
all_of_them()
assert sorted(each.name for each in Path("here").iterdir()) == sorted(each.name for each in Path("there").iterdir())

from hfrnn.runs.lock import FolderLock

held = FolderLock(Path("there"))
held.acquire()
assert run("train", "--resume", "there", "--updates", "5") == 2
held.release()
"""


@pytest.mark.slow
@needs_proc
def test_the_commands_work_and_give_the_same_bits_where_python_is_that_of_windows(tmp_path: Path) -> None:
    text_file(tmp_path)
    tests = Path(support.windows.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", SCRIPT, *FLAGS], cwd=tmp_path, capture_output=True,
        text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tests.parent, tests)))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("in use by process") == done.stderr.count("Error") == 1
    assert_same(tmp_path / "here", tmp_path / "there")
