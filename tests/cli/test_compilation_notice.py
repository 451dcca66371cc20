"""numba's first run says once that it compiles; a run that loads from its cache says nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.terminal import COMMAND
from support.tiny_runs import text_file

import hfrnn
from hfrnn.cli.output import COMPILING


@pytest.fixture
def uncompiled(tmp_path: Path) -> dict[str, str]:
    """The environment of a copy of the package without compiled loops."""
    pytest.importorskip("numba")
    source = Path(hfrnn.__file__).parent
    shutil.copytree(source, tmp_path / "new" / "hfrnn", ignore=shutil.ignore_patterns("*.nb[ci]", "__pycache__"))
    return {**os.environ, "PYTHONPATH": str(tmp_path / "new"), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}


@pytest.mark.slow
def test_compiling_is_told_once_and_only_when_it_happens(uncompiled: dict[str, str], tmp_path: Path) -> None:
    flags = ["--hidden", "4", "--sequence-length", "10", "--updates", "1", "--gradient-symbols", "300"]
    words = [*COMMAND, "train", text_file(tmp_path), "--arch", "rnn", "--backend", "numba", *flags]

    def told(name: str, *more: str) -> int:
        done = subprocess.run(
            [*words, "--out", tmp_path / name, *more], cwd=tmp_path, env=uncompiled, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        return (done.stdout + done.stderr).count(COMPILING)

    assert told("first") == 1
    assert told("second") == 0
    for mode in ("--quiet", "--json"):
        shutil.rmtree(tmp_path / "cache")
        assert told(mode.strip("-"), mode) == 0
    shutil.rmtree(tmp_path / "cache")
    evaluate = [*COMMAND, "evaluate", tmp_path / "first", "--backend", "numba"]
    done = subprocess.run(evaluate, cwd=tmp_path, env=uncompiled, capture_output=True, text=True, check=True)
    assert done.stderr.count(COMPILING) == 1
