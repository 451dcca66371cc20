"""The memory of a run does not grow with its updates, display included.

`pytest -m slow tests/cli/test_memory.py -s` prints the resident memory of a run on a terminal.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from support.terminal import COMMAND
from support.tiny_runs import text_file

FROM, TO, MOST_KIB = 500, 5000, 1024  # the first updates fill buffers and caches
TINY = ["--hidden", "2", "--sequence-length", "5", "--sample-length", "0", "--threads", "1", "--backend", "numpy"]
METHODS = {
    "hf": ["--gradient-symbols", "50", "--cg-iterations", "3", "--max-failures", "0"],
    "adam": ["--optimizer", "adam", "--streams", "4", "--log-interval", "1"],
}


def resident(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def drain(end: int) -> None:
    with contextlib.suppress(OSError):  # closed
        while os.read(end, 65536):
            pass


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
@pytest.mark.parametrize("method", METHODS)
def test_five_thousand_updates_on_a_terminal_take_no_more_memory(method: str, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", exc_type=ImportError)
    ours, theirs = pty.openpty()
    log, found = tmp_path / "run" / "metrics.jsonl", {}
    words = ["train", text_file(tmp_path), *TINY, *METHODS[method], "--updates", str(TO + 100), "--out", log.parent]
    ends = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    started = subprocess.Popen([*COMMAND, *words], env={**os.environ, "TERM": "xterm"}, **ends)
    os.close(theirs)
    reader = threading.Thread(target=drain, args=(ours,), daemon=True)
    reader.start()
    try:
        while started.poll() is None and TO not in found:
            updates = log.read_bytes().count(b"\n") if log.exists() else 0
            for mark in (FROM, TO):
                if updates >= mark and mark not in found:
                    found[mark] = resident(started.pid)
            time.sleep(0.1)
    finally:
        started.kill()
        started.wait()
    reader.join()
    os.close(ours)
    print(f"{method}: {found} KiB")
    assert found[TO] - found[FROM] < MOST_KIB, found
