"""The folder in which all tests of bad input run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.array_files import ROWS, good, npz
from support.refusals import TEXTS
from support.tiny_runs import text_file, tiny_train


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("home")
    for name, content in TEXTS.items():
        text_file(folder, content, name)
    (folder / "table.csv").write_text(ROWS)
    (folder / "arrays.npz").write_bytes(npz(good()))
    (folder / "folder").mkdir()
    (folder / "folder" / "diary.txt").write_text("dear")
    (folder / "void").mkdir()
    os.symlink("loop", folder / "loop")
    tiny_train(folder, preset="published")
    tiny_train(folder, "task", text=None, data="addition", length=21, arch="rnn", optimizer="adam", sequences=9)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("HFRNN_DATA", raising=False)
        yield folder
