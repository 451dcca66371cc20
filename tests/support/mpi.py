"""Programs on several ranks of `mpiexec`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hfrnn.cli.under_mpi import mpiexec

ROOT = Path(__file__).resolve().parents[2]

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or shutil.which("mpiexec") is None,
    reason="needs mpi4py and mpiexec (extra mpi)",
)


_mpiexec = cache(mpiexec)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of ranks: this project and its test helpers, and one thread for BLAS."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, "PYTHONPATH": paths, **threads, **more}


def start(ranks: int, *arguments: object, folder: Path, **options: Any) -> subprocess.Popen[str]:
    """Start Python with arguments on some ranks; the process is that of mpiexec."""
    command = [*_mpiexec(), "-n", str(ranks), sys.executable, *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command, cwd=folder, env=environment(), **options)


def run(ranks: int, *arguments: object, folder: Path, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments on some ranks, or in one process without mpiexec for 1."""
    if ranks == 1:
        command = [sys.executable, *map(str, arguments)]
        return subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=seconds, check=False
        )
    process = start(ranks, *arguments, folder=folder)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"the ranks do not end: {process.communicate()[1]}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def errors(err: str) -> list[str]:
    """Return the sentences that hfrnn wrote to stderr, without those of mpiexec."""
    return [line for line in err.splitlines() if line.startswith("Error: ")]


def pids(process: subprocess.Popen[str]) -> list[int]:
    """Return the process ids of the ranks that mpiexec has started, in the order of the ranks."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            values = (path / "environ").read_bytes().split(b"\0")
        except (OSError, IndexError, ValueError):
            continue
        ranks = [
            value.partition(b"=")[2] for value in values if value.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK="))
        ]
        if parent == process.pid and ranks:
            found[int(ranks[0])] = int(path.name)
    return [found[rank] for rank in sorted(found)]
