"""A fixture for the tests and the benchmarks' tests: neither the network nor the user's cache is used."""

from __future__ import annotations

import pooch
import pytest


@pytest.fixture(autouse=True)
def no_network(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test downloads a corpus, or finds one that its user has downloaded."""
    monkeypatch.setenv("HFRNN_OFFLINE", "1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path_factory.getbasetemp() / "no-cache" / project)
