"""The code of the documentation: fenced blocks of a page, and running them in order.

A block may be marked by a comment above it: `<!-- not run: REASON -->`, or `<!-- from FILE -->` for lines that are
quoted from that file. Where a line ends in `# -> TEXT`, the code prints TEXT as a line.
"""

from __future__ import annotations

import contextlib
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.M | re.S)
MARK = re.compile(r"<!-- (not run|from):? ([^\n]+?) -->\n+$")
PROMISE = re.compile(r"(?:^|  )# -> (.*)$", re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text, the line of its page that it begins on, and its mark."""

    language: str
    text: str
    line: int
    mark: str
    about: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of a page that are in one of the languages."""
    text, found = page.read_text("utf-8"), []
    for fence in FENCE.finditer(text):
        mark = MARK.search(text[: fence.start()])
        line = text.count("\n", 0, fence.start(3)) + 1
        found.append(Block(fence[2], textwrap.dedent(fence[3]), line, *(mark.groups() if mark else ("", ""))))
    return [block for block in found if block.language in languages]


def name(page: Path) -> str:
    """Return the path of a page within the project."""
    return page.relative_to(PROJECT).as_posix()


def run(page: Path, of_page: list[Block], folder: Path) -> None:
    """Run the unmarked blocks of a page in a folder, in one namespace; raise AssertionError if a promise is broken."""
    printed: list[str] = []
    namespace: dict[str, Any] = {"print": lambda *values: printed.append(" ".join(map(str, values)))}
    with contextlib.chdir(folder):
        for block in of_page:
            if block.mark:
                continue
            code = "\n" * (block.line - 1) + block.text  # so that a traceback has the page's line
            exec(compile(code, name(page), "exec"), namespace)
            for promised in PROMISE.findall(block.text):
                if promised not in printed:
                    raise AssertionError(f"{name(page)} promises {promised!r} and prints {printed}")
