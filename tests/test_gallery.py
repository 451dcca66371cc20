"""Every page of the gallery runs, prints what it says, and draws its picture, which is up to date."""

from __future__ import annotations

import html
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
@pytest.mark.parametrize("name", slow_unless({"minimize"}.__contains__, NAMES))
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


def test_a_page_has_the_picture_of_its_code_and_a_place_in_the_index() -> None:
    index = (gallery.GALLERY / "index.md").read_text("utf-8")
    assert len(gallery.NAMES) == 17
    for name in gallery.NAMES:
        page = gallery.GALLERY / f"{name}.md"
        title, about = gallery.words(page)
        picture = (gallery.PICTURES / f"{name}.svg").read_text("utf-8")
        code = f"<!-- code: {gallery.checksum(page)} -->"
        assert code in picture, f"the code has changed: run python benchmarks/gallery.py {name}"
        assert f"<title id='title'>{html.escape(title)}</title>" in picture
        assert f"<desc id='desc'>{html.escape(about)}</desc>" in picture
        assert "# -> " in page.read_text("utf-8")
        assert f"[{title}]({name}.md)" in index
        assert f"\n{name}\n" in index
        assert f"[![](../images/gallery/{name}.svg)]({name}.md)" in index
