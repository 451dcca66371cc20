"""Files of real data, which are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def corpus_file(*names: str) -> Path:
    """Return a file or folder under HFRNN_DATA, `../shared/data` by default; skip the test if it is not there."""
    root = Path(os.environ.get("HFRNN_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data").resolve()
    path = root.joinpath(*names)
    if not path.exists():
        pytest.skip(f"no {path.relative_to(root)} under HFRNN_DATA or ../shared/data")
    return path
