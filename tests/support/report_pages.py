"""A report opened in a browser: its curves, its cursor, and numbers as it writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import browser

PROGRAM = browser.found()
"""The path of Chromium; None if there is none."""
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on the PATH to look at the page with")
VALID, TRAIN = "validation", "training"

HELPERS = """
const charts = () => [...document.querySelectorAll("figure")].filter((figure) => figure.offsetWidth);
const chartOf = (title) => charts().find((figure) => figure.querySelector("h3").firstChild.data.trim() === title);
const curves = () => charts().flatMap((figure) => [...figure.querySelectorAll("path[data-series]")].map((path) => ({
  chart: figure.querySelector("h3").firstChild.data.trim(), run: Number(path.dataset.run), series: path.dataset.series,
  points: Number(path.dataset.points), vertices: (path.getAttribute("d").match(/[ML]/g) || []).length,
})));
const pick = (name, value) => document.querySelector(`input[name="${name}"][value="${value}"]`).click();
"""


def in_browser(test: Any) -> Any:
    """Mark a test that looks at a page."""
    return pytest.mark.nightly(needs_browser(test))


def open_page(page: browser.Page, file: Path, folded: bool = False, **how: Any) -> None:
    page.open(file, **how)
    page.run(f"{HELPERS}; 0" if page.run("typeof charts") == "undefined" else "0")
    if not folded:
        page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; }); renderAll(); 0")


def number(value: float | None) -> str:
    """A number as the page writes it."""
    return "\u2013" if value is None else repr(float(f"{value:.5g}")).removesuffix(".0")


def vertices(page: browser.Page) -> dict[tuple[str, int, str], tuple[int, int]]:
    return {(c["chart"], c["run"], c["series"]): (c["points"], c["vertices"]) for c in page.run("curves()")}


def place(page: browser.Page, title: str, share: float) -> tuple[float, float]:
    """A point in a chart, so far from left to right."""
    left, top, width = page.run(
        f"(() => {{ const svg = chartOf({title!r}).querySelector('.plot > svg');"
        "svg.scrollIntoView({ block: 'center' }); const box = svg.getBoundingClientRect();"
        "return [box.left, box.top, box.width]; })()"
    )
    return left + share * width, top + 40


def tip(page: browser.Page) -> list[dict[str, Any]]:
    """What the cursor shows: of every run its update and its values."""
    return list(
        page.run(
            "[...document.querySelectorAll('.tip:not([hidden]) > div')].map((row) => ({ run: Number(row.dataset.run),"
            "update: Number(row.dataset.update), values: Object.fromEntries([...row.querySelectorAll('[data-series]')]"
            ".map((value) => [value.dataset.series, value.innerText])) }))"
        )
    )
