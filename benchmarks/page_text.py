"""Markdown from the JSON files in results/: what page_speed.py and page_training.py share."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hfrnn.option import either

RESULTS = Path(__file__).resolve().parent / "results"


def load(name: str) -> dict[str, Any]:
    """Return the content of a file in results/."""
    content: dict[str, Any] = json.loads((RESULTS / name).read_text("utf-8"))
    return content


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |").replace("|  |", "| |") for line in lines)


def paragraph(text: str) -> str:
    """Return a paragraph in lines of at most 120 characters."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def listed(words: Iterable[str]) -> str:
    """Return `a, b and c`."""
    return either(words, "and")


def ms(seconds: float) -> str:
    """Return milliseconds with three digits."""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
