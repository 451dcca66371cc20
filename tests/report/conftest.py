"""Runs of every kind, and reports opened in a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import browser
from support.report_pages import PROGRAM, open_page
from support.report_runs import make_runs

from hfrnn.report import write_report


@pytest.fixture(scope="package")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run(runs: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the run of HF, to be changed."""
    return Path(shutil.copytree(runs["hf"], tmp_path / "run"))


@pytest.fixture(scope="package")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    assert PROGRAM is not None
    with browser.browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def shown(page: browser.Page, tmp_path: Path) -> Any:
    """Opens a report on some runs; at the end the page has complained of nothing and asked for nothing."""
    files = []

    def show(*folders: Path, width: int = 1200, dark: bool = False, folded: bool = False) -> browser.Page:
        files.append(write_report(folders, tmp_path / "report.html", force=True))
        open_page(page, files[-1], width=width, dark=dark, folded=folded)
        return page

    yield show
    page.frame()
    assert page.complaints == []
    assert set(page.requests) <= {file.resolve().as_uri() for file in files}
