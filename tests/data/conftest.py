"""A local server with small corpora, and the folder that they are downloaded to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local_site import Site, local_site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with local_site(tmp_path, monkeypatch) as site:
        yield site


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"
