"""Settings for every test of the benchmarks."""

from support.offline import no_network  # noqa: F401 - a fixture of every test
