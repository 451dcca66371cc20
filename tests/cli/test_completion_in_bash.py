"""Completion in a real bash: a run folder whose name bash would split, expand or run is not offered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command_line import call

pytestmark = pytest.mark.slow

NAMES = ("$(touch X)", "`touch X`", "a  b", "a\nb", "it's", 'a"b', "[x]*", "a\\nb", "a,b,", "a&b;c")
SHOW = "#!/bin/sh\n[ -n \"$_HFRNN_COMPLETE\" ] && exec '{python}' -m hfrnn\nprintf '%s\\0' \"$@\" > '{out}'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a command `hfrnn` that completes as hfrnn does and otherwise writes down its arguments."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "hfrnn"
    program.write_text(SHOW.format(python=sys.executable, out=tmp_path / "words"))
    program.chmod(0o755)
    (tmp_path / "work").mkdir()
    return tmp_path


def typed(folder: Path, keys: bytes) -> list[str]:
    """The arguments that the command gets after these keys in an interactive bash."""
    pty = pytest.importorskip("pty", exc_type=ImportError)
    script = call("completion", "bash").stdout.encode()
    (folder / "rc").write_bytes(script + b"\nPS1='ready> '\nbind 'set bell-style none'\n")
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", folder / "rc", "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
        cwd=folder / "work", start_new_session=True,
        env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TERM": "dumb", "HISTFILE": ""},
    )  # fmt: skip
    os.close(theirs)
    try:
        os.write(ours, keys + b"\t")
        words, deadline = folder / "words", time.monotonic() + 30
        time.sleep(1.5)  # the completion runs Python
        os.write(ours, b"\r")
        while not words.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)
        return words.read_text().split("\0")[:-1]
    finally:
        started.kill()
        started.wait()
        os.close(ours)


def test_bash_is_offered_run_folders_with_plain_names_only(folder: Path) -> None:
    for name in (*NAMES, "runs/é_1.2+x-y"):
        (folder / "work" / name).mkdir(parents=True)
        (folder / "work" / name / "config.toml").write_bytes(b"")
    assert typed(folder, b"hfrnn evaluate ") == ["evaluate", "runs/é_1.2+x-y"]
    assert {path.name for path in (folder / "work").iterdir()} == {*NAMES, "runs"}


def test_bash_still_completes_commands_and_options(folder: Path) -> None:
    (folder / "work" / "evaluate").mkdir()
    assert typed(folder, b"hfrnn eval") == ["evaluate"]
