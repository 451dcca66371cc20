"""Make the notebooks in docs/notebooks from the pages: their Python and shell blocks become cells.

python docs/notebooks.py            needs nbformat (extra docs)
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

DOCS = Path(__file__).resolve().parent
PAGES = (
    "tutorial.md",
    "getting-started.md",
    "gallery/influence.md",
    "gallery/sharpness.md",
)
"""The pages that have a notebook, relative to docs/."""
BLOCK = re.compile(
    r"((?:<!-- [^\n]* -->\n+)?)^```(python|sh)\n(.*?)^```\n", re.M | re.S
)
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")
OF_ITSELF = re.compile(r"^This page is also a \[notebook\].*\n\n", re.M)
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def notebook(page: str) -> str:
    """Return the notebook of a page as JSON. Marked blocks, which cannot run by themselves, stay text."""
    path, cells, end = DOCS / page, [], 0
    text = OF_ITSELF.sub("", path.read_text("utf-8"))
    for block in [*BLOCK.finditer(text), None]:
        if block is not None and block[1]:
            continue
        between = text[end : None if block is None else block.start()].strip()
        if between:
            moved = LINK.sub(
                lambda link: (
                    f"]({os.path.relpath(path.parent / link[1], DOCS / 'notebooks')}"
                ),
                between,
            )
            cells.append(new_markdown_cell(re.sub(r"<!-- .*? -->\n?", "", moved)))
        if block is not None:
            cells.append(
                new_code_cell(
                    ("%%sh\n" if block[2] == "sh" else "") + block[3].rstrip()
                )
            )
            end = block.end()
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return (
        str(nbformat.writes(new_notebook(cells=cells, metadata={"kernelspec": KERNEL})))
        + "\n"
    )


def target(page: str) -> Path:
    """Return the path of the notebook of a page."""
    return DOCS / "notebooks" / f"{Path(page).stem}.ipynb"


def main() -> None:
    """Write all notebooks."""
    for page in PAGES:
        target(page).parent.mkdir(exist_ok=True)
        target(page).write_text(notebook(page), "utf-8")


if __name__ == "__main__":
    main()
