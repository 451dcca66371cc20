"""What a script shows of a run on stderr: a line on a terminal, timed lines elsewhere."""

import io
import re
import sys

import pytest
from support.tiny_runs import tiny_train

import hfrnn
from hfrnn import live_line
from hfrnn.live_line import ERASE, HIDE, SHOW


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Fails(hfrnn.Callback):
    def on_update(self, record):
        raise ValueError("from a callback")


def terminal(monkeypatch):
    """Make stderr a terminal, and return what it shows."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live_line, "SECONDS", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_a_script_shows_lines_and_the_result_off_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(live_line, "PLAIN_SECONDS", 0.0)
    result = tiny_train(tmp_path, updates=3)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"update 1 of 3, left -", lines[0])
    figures = r"train \S+, best valid \S+ bits"
    assert any(re.fullmatch(rf"update 3 of 3, {figures}, left 0:0\d", line) for line in lines)
    assert lines[-1] == result.describe()


def test_a_short_run_and_one_without_progress_are_silent(tmp_path, capsys, monkeypatch):
    tiny_train(tmp_path, "short", updates=2)
    monkeypatch.setattr(live_line, "PLAIN_SECONDS", 0.0)
    tiny_train(tmp_path, "silent", updates=2, progress=False)
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_live_line_and_then_the_result(tmp_path, monkeypatch):
    shown = terminal(monkeypatch)
    result = tiny_train(tmp_path, updates=2)
    text = shown.getvalue()
    assert text.startswith(HIDE)
    assert re.search(r"update 2 of 2  ━*─*  left 0:0\d  CG \d  train \S+  best valid \S+ bits", text)
    assert text.endswith(f"{ERASE}{SHOW}{result.describe()}\n")


def test_the_live_line_goes_when_training_fails(tmp_path, monkeypatch):
    shown = terminal(monkeypatch)
    with pytest.raises(ValueError, match="from a callback"):
        tiny_train(tmp_path, updates=2, callbacks=[Fails()])
    assert shown.getvalue().endswith(ERASE + SHOW)


def test_a_closed_stderr_does_not_end_a_run(tmp_path, monkeypatch):
    shown = terminal(monkeypatch)
    shown.close()
    assert tiny_train(tmp_path, updates=1).summary["updates"] == 1
