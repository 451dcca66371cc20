"""A signal ends every command at once, with exit code 1 and one short line where no checkpoint was written."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from support.processes import ended, start
from support.tiny_runs import text_file, tiny_train

pytest.importorskip("resource", reason="these signals are those of POSIX systems")
LONG = [["sample", "run", "--length", "100000000"], ["evaluate", "run", "long.txt"], ["gradcheck"]]


@pytest.mark.nightly
@pytest.mark.parametrize(("words", "number"), [*zip(LONG, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP), strict=True)])
def test_a_signal_ends_a_command_at_once(tmp_path: Path, words: list[str], number: int) -> None:
    tiny_train(tmp_path)
    text_file(tmp_path, "The quick brown fox.\n" * 500_000, "long.txt")
    started = start(tmp_path, *words)
    time.sleep(2.0)  # after most imports
    begin = time.monotonic()
    assert ended(started, number, number, gap=0.02) == (1, "Error: interrupted\n")
    assert time.monotonic() - begin < 10
