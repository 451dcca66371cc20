"""The options of every run that an optimizer uses if it trains on whole sequences or windows of several steps."""

from __future__ import annotations

OF_SEQUENCES = (
    "sequence_length", "embedding", "learn_initial_state", "l2", "state_noise", "density", "connectivity",
    "excitatory", "excitatory_output", "average", "shards", "checkpoint",
)  # fmt: skip
"""Options of every run, and of the data, for the attribute `takes` of such an optimizer."""
