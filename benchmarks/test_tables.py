"""The figures in the pages are those of the JSON files."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import tables


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.relative_to(tables.PROJECT).as_posix())
def test_the_figures_of_a_page_are_those_of_the_json_files(page: Path) -> None:
    text = page.read_text("utf-8")
    assert tables.rewritten(text) == text, "run python benchmarks/tables.py"


def test_all_figures_are_on_a_page() -> None:
    text = "".join(page.read_text("utf-8") for page in tables.PAGES)
    assert {name for _, name, _, _ in tables.MARKED.findall(text)} == set(tables.FIGURES)
    assert text.count("<!-- figures:") == len(tables.MARKED.findall(text))


def test_a_changed_figure_is_noticed_and_mended() -> None:
    page = (tables.PROJECT / "docs" / "speed.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| product: hfrnn |"))
    changed = page.replace(row, row.replace(" / ", " / 9", 1))
    assert changed != page
    assert tables.rewritten(changed) == page


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(click.ClickException, match="'no-such' are not known"):
        tables.rewritten("<!-- figures: no-such --><!-- end -->")
