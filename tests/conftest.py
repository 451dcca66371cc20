"""Settings for every test, and data that several share; Hypothesis runs without deadlines and with fixed seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pooch
import pytest
from hypothesis import settings

settings.register_profile("hfrnn", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("hfrnn")


@pytest.fixture(autouse=True)
def no_network(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test downloads a corpus, or finds one that its user has downloaded."""
    monkeypatch.setenv("HFRNN_OFFLINE", "1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path_factory.getbasetemp() / "no-cache" / project)


@pytest.fixture
def small_music(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A few short pieces under the name of the chorales, and their file."""
    from test_music import pieces_of, stored

    pieces = pieces_of(9, 4, 7, 9, 5, 8, 6)
    packed = np.packbits(np.concatenate(pieces).astype(np.uint8), axis=1)
    file = tmp_path / "jsb" / "jsb.npz"
    file.parent.mkdir()
    file.write_bytes(stored(train_packed=packed, train_lengths=np.array([len(piece) for piece in pieces])))
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    return file
