"""Train a few tiny networks on the ranks of mpiexec, into `FOLDER/NAME` each. A program for `mpiexec`.

mpiexec -n 3 python tests/support/rank_runs.py FOLDER THREADS [NAME...]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import hfrnn

COMMON: dict[str, Any] = {
    "hidden": 4, "sequence_length": 10, "updates": 10, "sample_length": 0, "backend": "numpy", "shards": 6,
}  # fmt: skip
RUNS: dict[str, dict[str, Any]] = {
    "hf": {"arch": "mlstm", "gradient_symbols": 1500, "state_noise": 0.01},
    "sgd": {
        "optimizer": "sgd", "arch": "lstm", "update_every": 5, "streams": 50, "log_interval": 4, "momentum": 0.5,
        "clip_error": 0.1,
    },
    "adam": {
        "optimizer": "adam", "arch": "clockwork", "streams": 48, "log_interval": 5, "max_norm": {"layer0.*": 0.3},
    },
    "tikhonov": {
        "damping": "tikhonov", "arch": "gru", "gradient_symbols": 1500, "preconditioner": "diagonal",
        "rho_objective": "separate", "density": 0.5,
    },
    "kronecker": {"arch": "rnn", "gradient_symbols": 1500, "preconditioner": "kronecker", "preconditioner_parts": 5},
    "soap": {"optimizer": "soap", "arch": "rnn", "streams": 48, "log_interval": 5, "schedule": "cosine"},
    "task": {"optimizer": "adam", "arch": "lstm", "data": "temporal-order", "length": 10, "sequences": 200,
             "streams": 50, "log_interval": 4, "text": None, "sequence_length": None},
}  # fmt: skip
"""Options of each run; together they use everything that is summed over ranks."""


def main() -> None:
    folder, threads, names = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    comm = None
    if "OMPI_COMM_WORLD_RANK" in os.environ or "PMI_RANK" in os.environ:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    for name in names:
        options = {"text": folder / "text.txt", **COMMON, **RUNS[name]}
        result = hfrnn.train(out=folder / name, threads=threads, comm=comm, **options)
        assert result.summary["updates"] == 10  # on every rank


if __name__ == "__main__":
    main()
