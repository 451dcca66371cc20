"""Training runs: data sources, methods, limits, interruption and resumption."""
