"""Training runs: their data, methods, state, limits and interruption."""
