"""Closed and full standard streams: no traceback, a documented exit status, and a run that loses nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.terminal import COMMAND
from support.tiny_runs import FLAGS, metrics, text_file

TRAIN = ["train", "TEXT", *FLAGS]
COMMANDS = {
    "help": ["--help"],
    "train help": ["train", "--help-all"],
    "version": ["--version"],
    "completion": ["completion", "bash"],
    "train": [*TRAIN, "--out", "OUT"],
    "train json": [*TRAIN, "--out", "OUT", "--json"],
    "train quiet": [*TRAIN, "--out", "OUT", "--quiet"],
    "dry run": [*TRAIN, "--dry-run"],
    "config": ["train", "--print-config"],
    "evaluate": ["evaluate", "RUN"],
    "sample": ["sample", "RUN", "--length", "9"],
    "report": ["report", "RUN", "-o", "PAGE"],
    "info": ["info"],
    "data": ["data", "list"],
    "gradcheck": ["gradcheck", "rnn"],
    "spectrum": ["spectrum", "RUN", "--symbols", "100", "--matrix", "gauss-newton", "--vectors", "0"],
    "probe": ["probe", "RUN", "--open", "T", "--close", ".", "--control", "h", "--steps", "20"],
    "usage": ["nonsense"],
    "input": ["evaluate", "nowhere"],
}
OUT = {"open": "", "closed": ">&-", "full": ">/dev/full"}
ERR = {"open": "", "closed": "2>&-", "full": "2>/dev/full"}
IN = {"open": "", "closed": "<&-"}
CASES = [  # every pair of a command and a kind of stream, and of two kinds of streams
    (command, out, list(ERR)[(n + m) % 3], list(IN)[(n + m) % 2])
    for n, command in enumerate(COMMANDS) for m, out in enumerate(OUT)
]  # fmt: skip


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(("command", "out", "err", "given"), CASES)
def test_no_stream_makes_a_command_fail_badly(command, out, err, given, tmp_path, run) -> None:
    known = {"TEXT": text_file(tmp_path), "RUN": run, "OUT": tmp_path / "r", "PAGE": tmp_path / "page.html"}
    words = [*COMMAND, *(str(known.get(word, word)) for word in COMMANDS[command])]
    shell = ["sh", "-c", f'"$@" {OUT[out]} {ERR[err]} {IN[given]}', "sh", *words]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
    wrong = command in ("usage", "input")
    assert done.returncode == (2 if wrong else 1 if out == "full" else 0), done.stderr
    assert not {"Traceback", "Exception ignored"} & set(done.stderr.split())
    if out == "full" and err == "open" and not wrong:
        assert done.stderr == "Error: cannot write to stdout (No space left on device)\n"
    if "--out" in words:
        assert [record["update"] for record in metrics(tmp_path / "r")] == [1, 2]
        assert (tmp_path / "r" / "summary.json").exists()
