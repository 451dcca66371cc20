"""A small finished run that no test changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import call
from support.tiny_runs import FLAGS, text_file


@pytest.fixture(scope="package")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run."""
    folder = tmp_path_factory.mktemp("line")
    call("train", text_file(folder), *FLAGS, "--out", folder / "run", "--quiet")
    return folder / "run"
