"""How many ranks a launcher such as mpiexec has started, without loading MPI."""

from __future__ import annotations

import os

LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("SLURM_STEP_NUM_TASKS", "PMIX_RANK"),
)
"""Environment variables in which launchers tell a process the number of ranks, and its own."""


def launched() -> tuple[int, int]:
    """Return the number of ranks that a launcher has started, and that of this process; (1, 0) without a launcher."""
    for size, rank in LAUNCHERS:
        if os.environ.get(size, "").isdecimal() and os.environ.get(rank, "").isdecimal():
            return int(os.environ[size]), int(os.environ[rank])
    return 1, 0
