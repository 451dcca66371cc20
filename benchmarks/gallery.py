"""Run the pages of docs/gallery/ and write the picture that each of them draws.

    python benchmarks/gallery.py                      all pages, about a minute
    python benchmarks/gallery.py influence            one page

The code of the page NAME.md draws NAME.svg. The picture in docs/images/gallery/ has, in addition, the page's title and
description of the picture for screen readers, and a checksum of the code, so that a test sees an outdated picture.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from pathlib import Path

import click
import pages
from pictures import save_picture

GALLERY = pages.PROJECT / "docs" / "gallery"
PICTURES = pages.PROJECT / "docs" / "images" / "gallery"
NAMES = sorted(page.stem for page in GALLERY.glob("*.md") if page.stem != "index")


def draw(page: Path, folder: Path) -> str:
    """Run a page in a folder and return the picture that it draws, as SVG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    with matplotlib.rc_context({"svg.hashsalt": "hfrnn", "savefig.bbox": "standard"}):
        pages.run(page, pages.blocks(page, "python"), folder)
    plt.close("all")
    return (folder / f"{page.stem}.svg").read_text("utf-8")


def checksum(page: Path) -> str:
    """Return a checksum of a page's code."""
    code = "\n".join(block.text for block in pages.blocks(page, "python"))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def words(page: Path) -> tuple[str, str]:
    """Return the title of a page and the description of its picture."""
    text = page.read_text("utf-8")
    title = re.match(r"# (.+)\n", text)
    about = re.search(rf"!\[([^\]]+)\]\(\.\./images/gallery/{page.stem}\.svg\)", text)
    if title is None or about is None:
        raise click.ClickException(
            f"{pages.name(page)} needs a title and its picture ../images/gallery/{page.stem}.svg"
        )
    return title[1], " ".join(about[1].split())


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
def main(names: tuple[str, ...]) -> None:
    """Run pages of the gallery (by default all) and write their pictures to docs/images/gallery/."""
    for name in names or NAMES:
        page, start = GALLERY / f"{name}.md", time.process_time()
        title, about = words(page)
        with tempfile.TemporaryDirectory() as folder:
            svg = re.sub(r"<dc:date>.*?</dc:date>", "", draw(page, Path(folder)))
        seconds = time.process_time() - start
        save_picture(PICTURES / f"{name}.svg", f"{svg}<!-- code: {checksum(page)} -->\n", title, about)
        click.echo(f"{name}: {seconds:.1f} s of processor time")


if __name__ == "__main__":
    main()
