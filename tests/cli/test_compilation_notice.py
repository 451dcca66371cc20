"""numba's first run says once that it compiles; a run that loads from its cache says nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.terminal import COMMAND
from support.tiny_runs import FLAGS, text_file

import hfrnn
from hfrnn.cli.output import compiling


@pytest.fixture
def uncompiled(tmp_path: Path) -> dict[str, str]:
    """The environment of a copy of the package without compiled loops."""
    pytest.importorskip("numba")
    source = Path(hfrnn.__file__).parent
    shutil.copytree(source, tmp_path / "new" / "hfrnn", ignore=shutil.ignore_patterns("*.nb[ci]", "__pycache__"))
    return {**os.environ, "PYTHONPATH": str(tmp_path / "new"), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}


@pytest.mark.slow
def test_compiling_is_told_once_and_only_when_it_happens(uncompiled: dict[str, str], tmp_path: Path) -> None:
    train = ("train", str(text_file(tmp_path)), *FLAGS, "--arch", "rnn", "--backend", "numba", "--out")

    def told(*words: str) -> int:
        done = subprocess.run(
            [*COMMAND, *words], cwd=tmp_path, env=uncompiled, capture_output=True, text=True, check=True
        )
        return (done.stdout + done.stderr).count(compiling())

    assert told(*train, "first") == 1
    assert told(*train, "second") == 0
    for words, count in (((*train, "quiet", "--quiet"), 0), (("evaluate", "first", "--backend", "numba"), 1)):
        shutil.rmtree(tmp_path / "cache")
        assert told(*words) == count
