"""What a real terminal or pipe gets of a run: its width, its codes, and how a closed pipe ends a command."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.terminal import COMMAND, on_terminal
from support.tiny_runs import FLAGS, text_file

ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
ADAM = [*FLAGS[:-4], "--sample-length", "0", "--optimizer", "adam", "--streams", "4", "--log-interval", "1"]


@pytest.mark.parametrize("columns", [80, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("flags", [FLAGS, pytest.param(ADAM, marks=pytest.mark.slow)], ids=["hf", "adam"])
def test_a_terminal_is_never_overrun(tmp_path: Path, flags: list[str], columns: int) -> None:
    text_file(tmp_path)
    out = on_terminal(["train", "text.txt", *flags, "--out", "r"], columns=columns, cwd=tmp_path)
    assert b"\x1b[2K" in out  # the live line
    assert out.rindex(b"\x1b[?25h") > out.rindex(b"\x1b[?25l")  # the cursor is back
    frames = [frame.decode() for frame in re.split(rb"[\r\n]+", ESCAPE.sub(b"\r", out))]
    assert max(map(len, frames)) <= columns
    assert sum(bool(re.match(r"update     time    left  train  valid", frame)) for frame in frames) == 1
    assert sum(bool(re.match(r" {5}[12] +0:0\d +\S+ +\d\.\d+ ", frame)) for frame in frames) == 2


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), pytest.param("NO_COLOR", "1", marks=pytest.mark.slow)])
def test_a_terminal_gets_no_colour_or_no_codes_where_it_says_so(tmp_path: Path, name: str, value: str) -> None:
    out = on_terminal(["train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "r"], **{name: value})
    codes = set(ESCAPE.findall(out))
    assert not any(re.fullmatch(rb"\x1b\[[0-9;]*(3|4|9)[0-9][0-9;]*m", code) for code in codes)
    assert bool(codes) == (name == "NO_COLOR")
    assert name != "TERM" or not {b"\x1b", b"\r"} & set(re.findall(rb"\x1b|\r", out.replace(b"\r\n", b"\n")))


@pytest.mark.slow
def test_a_pipe_gets_no_codes_even_where_colour_is_forced(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "r"], capture_output=True, check=True,
        env={**os.environ, "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "TERM": "xterm-256color"},
    )  # fmt: skip
    assert b"\x1b" not in done.stdout + done.stderr
    assert max(len(line) for line in done.stdout.decode().splitlines() if "folder" not in line) <= 80


@pytest.mark.nightly
@pytest.mark.parametrize("words", [["info"], ["sample", "RUN", "--length", "20"], ["train", "TEXT"]])
def test_a_broken_pipe_ends_a_command_quietly(words: list[str], tmp_path: Path, run: Path) -> None:
    words = [{"RUN": str(run), "TEXT": str(text_file(tmp_path))}.get(word, word) for word in words]
    words += [*FLAGS, "--out", str(tmp_path / "r")] if "train" in words else []
    ours, theirs = os.pipe()
    os.close(ours)
    started = subprocess.Popen([*COMMAND, *words], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    _, err = started.communicate(timeout=60)
    if "train" in words:
        assert re.fullmatch(rb"interrupted after update \d, which is saved: resume with .*\n", err)
    assert (started.returncode, err) == ((130, err) if "train" in words else (1, b""))
