"""Every page of the gallery runs, prints what it says, and draws its picture, which is up to date."""

from __future__ import annotations

import html
import re
from pathlib import Path

import gallery
import pytest
from support import mpi
from support.code_of_pages import run_or_skip
from support.pictures import needs_matplotlib
from support.slow import slow_unless

from hfrnn.kernels import registry

NAMES = [pytest.param(name, marks=mpi.needs_mpi) if name == "two-machines" else name for name in gallery.NAMES]


@needs_matplotlib
@pytest.mark.parametrize("name", slow_unless({"damping", "minimize"}.__contains__, NAMES))
def test_a_page_runs_and_draws_its_picture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_kernels", dict(registry._kernels))
    for key, value in mpi.environment(MPLBACKEND="Agg").items():
        monkeypatch.setenv(key, value)
    from matplotlib import pyplot as plt

    try:
        run_or_skip(gallery.GALLERY / f"{name}.md", tmp_path)
    finally:
        plt.close("all")
    assert (tmp_path / f"{name}.svg").read_text("utf-8").count("<path") > 10


@pytest.mark.parametrize("name", gallery.NAMES)
def test_a_page_has_the_picture_of_its_code(name: str) -> None:
    page = gallery.GALLERY / f"{name}.md"
    title, about = gallery.words(page)
    picture = (gallery.PICTURES / f"{name}.svg").read_text("utf-8")
    found = re.search(r"<!-- code: (\w+) -->", picture)
    assert found is not None
    assert found[1] == gallery.checksum(page), f"the code has changed: run python benchmarks/gallery.py {name}"
    assert f"<title id='title'>{html.escape(title)}</title>" in picture
    assert f"<desc id='desc'>{html.escape(about)}</desc>" in picture
    assert page.read_text("utf-8").count("# -> ") > 0


def test_the_gallery_has_twelve_pages_and_lists_them_all() -> None:
    index = (gallery.GALLERY / "index.md").read_text("utf-8")
    assert len(gallery.NAMES) == 12
    for name in gallery.NAMES:
        title, _ = gallery.words(gallery.GALLERY / f"{name}.md")
        assert f"[{title}]({name}.md)" in index
        assert f"\n{name}\n" in index
        assert f"[![](../images/gallery/{name}.svg)]({name}.md)" in index


def test_a_change_of_the_code_changes_the_checksum_and_other_text_does_not(tmp_path: Path) -> None:
    def checksum(title: str, code: str) -> str:
        (tmp_path / "page.md").write_text(f"# {title}\n\n```python\n{code}\n```\n", "utf-8")
        return gallery.checksum(tmp_path / "page.md")

    assert checksum("A", "x = 1") == checksum("B", "x = 1")
    assert checksum("A", "x = 1") != checksum("A", "x = 2")
