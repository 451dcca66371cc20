"""Settings for every test of the benchmarks."""

from collections.abc import Iterator

import opponents
import pytest
from support.offline import no_network  # noqa: F401 - a fixture of every test


@pytest.fixture
def registered() -> Iterator[None]:
    """The optimizers of other packages, known during the test only."""
    opponents.register()
    yield
    opponents.forget()
