"""A fixture of all tests and of those of the benchmarks: neither the network nor the user's cache is used."""

from __future__ import annotations

from collections.abc import Iterator

import pooch
import pytest


@pytest.fixture(autouse=True, scope="session")
def no_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test downloads a corpus, or finds one that its user has downloaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HFRNN_OFFLINE", "1")
        patch.setattr(pooch, "os_cache", lambda project: tmp_path_factory.getbasetemp() / "no-cache" / project)
        yield
