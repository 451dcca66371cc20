"""Running the code of a page of the documentation in a test."""

from __future__ import annotations

from pathlib import Path

import pages
import pytest

import hfrnn


def run_or_skip(page: Path, folder: Path) -> None:
    """Run the Python code of a page in a folder; skip the test if a package is missing that is not hfrnn's own."""
    try:
        pages.run(page, pages.blocks(page, "python"), folder)
    except (hfrnn.MissingExtraError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("hfrnn"):
            raise
        pytest.skip(str(error))
