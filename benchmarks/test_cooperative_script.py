"""The script that a GPU runs, on the CPU."""

from __future__ import annotations

import math

import cooperative
import pytest
from support.cuda_on_cpu import FusedFakeBackend

from hfrnn.kernels.cuda import grid


@pytest.mark.nightly
def test_every_way_is_checked_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "THREADS", 64)
    monkeypatch.setattr(grid, "cycles_of_launches", lambda *arguments: math.inf)
    grid.best_sharing.cache_clear()
    record = cooperative.measure("lstm", 5, 2, 9, 1, 0.0, FusedFakeBackend(processors=5))
    grid.best_sharing.cache_clear()
    assert list(record["ways"]) == ["single steps", "blocks of their own", "cooperative"]
    assert all(found["the same bits"] for found in record["differences"].values())
    assert record["model"]["parts"] * record["model"]["teams"] <= 5
