"""The notebooks: they are those of the pages, and they run."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from support.imported import imported

import hfrnn

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def script() -> ModuleType:
    pytest.importorskip("nbformat", reason="nbformat is not installed (extra docs)")
    return imported(DOCS / "notebooks.py")


def test_the_notebooks_are_those_of_the_pages() -> None:
    found = script()
    assert sorted(found.target(page) for page in found.PAGES) == NOTEBOOKS
    for page in found.PAGES:
        assert found.target(page).read_text("utf-8") == found.notebook(page), f"run docs/notebooks.py for {page}"


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (extra docs)")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed (extra docs)")
    if "torch" in path.read_text("utf-8"):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (extra docs)")

    (tmp_path / "book.txt").write_text("It is a truth universally acknowledged, that books have words.\n" * 30, "utf-8")
    for optimizer, more in (("hf", {"gradient_symbols": 2000}), ("adam", {})):  # what the shell cells would make
        options = {"arch": "lstm", "hidden": 8, "updates": 2, "sample_length": 0, "optimizer": optimizer, **more}
        hfrnn.train(out=str(tmp_path / "runs" / optimizer), **options)
    read = nbformat.read(path, as_version=4)
    read.cells = [cell for cell in read.cells if not cell.source.startswith("%%sh")]
    nbclient.NotebookClient(read, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = str([cell.get("outputs") for cell in read.cells])
    assert "ended by" in shown or "image/png" in shown  # the display of a run that is done, or a picture
