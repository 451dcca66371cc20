"""The drawings of docs/figures: there is one of every cell that the pages show, and the scripts draw what is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.pictures import needs_matplotlib

PROJECT = Path(__file__).resolve().parent.parent
FIGURES = PROJECT / "docs" / "figures"
IMAGES = PROJECT / "docs" / "images"
SCRIPTS = ("cells.py", "passes.py", "damping.py")
CELLS = ("rnn", "mrnn", "lstm", "lstm-krause", "mlstm", "hornn", "scrn", "clockwork")


def test_the_cells_are_drawn_and_shown() -> None:
    page = (PROJECT / "docs" / "choosing.md").read_text("utf-8")
    assert [arch for arch in CELLS if f"(images/cell-{arch}.svg)" not in page] == []
    assert [arch for arch in CELLS if not (IMAGES / f"cell-{arch}.svg").is_file()] == []


@pytest.mark.slow
@needs_matplotlib
def test_the_scripts_draw_the_figures_that_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    shutil.copytree(FIGURES, folder)
    (tmp_path / "images").mkdir()
    for script in SCRIPTS:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        subprocess.run([sys.executable, str(folder / script)], check=True, env=environment)
    drawn = {file.name: file.read_text("utf-8") for file in (tmp_path / "images").iterdir()}
    assert {f"cell-{arch}.svg" for arch in CELLS} | {"passes.svg", "damping.svg"} == set(drawn)
    for name, content in drawn.items():
        there = (IMAGES / name).read_text("utf-8")
        versions = [re.findall(r"Matplotlib v[\d.]+", text) for text in (there, content)]
        assert versions[0] != versions[1] or there == content, name
