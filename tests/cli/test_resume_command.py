"""The command that continues an interrupted run is printed so that a shell reads it unchanged."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.terminal import COMMAND
from support.tiny_runs import FLAGS, metrics, text_file


@pytest.mark.skipif(os.name == "nt", reason="SIGINT and bash")
@pytest.mark.parametrize("name", ["a  b", pytest.param("a\nb $(touch X)", marks=pytest.mark.slow)])
def test_bash_runs_the_printed_resume_command(name: str, tmp_path: Path) -> None:
    words = [*COMMAND, "train", text_file(tmp_path), *FLAGS, "--out", tmp_path / name]
    words[words.index("--updates") + 1] = "100000"
    log = tmp_path / name / "metrics.jsonl"
    started = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not log.exists() and started.poll() is None:
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    told = started.communicate(timeout=60)[1]
    assert started.returncode == 130
    assert told.count("\n") == 1
    command = told.strip().split("resume with ")[1]
    update = metrics(tmp_path / name)[-1]["update"]
    hfrnn = f'hfrnn() {{ {shlex.quote(sys.executable)} -m hfrnn "$@"; }}\n'
    script = f"{hfrnn}{command} --updates {update + 1} --quiet"
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    assert metrics(tmp_path / name)[-1]["update"] == update + 1
    assert not (tmp_path / "X").exists()
