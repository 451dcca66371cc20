"""Print checksums of everything that an objective computes, and what its ranks do. A program for `mpiexec`.

mpiexec -n 3 python tests/support/rank_results.py THREADS
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

import numpy as np

import hfrnn
from hfrnn.engine.plan import Keep, Plan

CASES = ((1, "rnn", "float32"), (3, "lstm", "float32"), (8, "mlstm", "float64"), (11, "clockwork", "float32"))
"""Number of shards, architecture and type of the numbers."""


def digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in arrays)).hexdigest()[:16]


def results(threads: int, comm: Any = None) -> dict[str, Any]:
    """Return checksums of the results of each case."""
    found, rng, T, B = {}, np.random.default_rng(0), 7, 24
    for shards, arch, dtype in CASES:
        net = hfrnn.Network(arch=arch, n_in=9, hidden=8, n_out=9, dtype=dtype, l2=1e-3)
        theta = np.stack([net.init(seed=0)] * 2, axis=1)[:, 0]  # neither the weights nor the batch are in C order
        batch = hfrnn.Batch(rng.integers(0, 9, (B, T)).T, rng.integers(0, 9, (B, T)).T)
        plan = Plan(tuple(n * B // shards for n in range(shards + 1)), 3, Keep.STATES)
        f = hfrnn.Objective(net, batch, threads=threads, plan=plan, comm=comm)
        loss, gradient = f.loss_and_gradient(theta)
        v, J, wide = gradient / np.linalg.norm(gradient), f.jacobian(theta), gradient.astype("float64")
        states = [layer[name] for layer in f.final_state() for name in sorted(layer)]
        found[f"{shards} shards"] = {
            "loss": digest(np.float64(f.loss(theta))), "gradient": digest(np.float64(loss), gradient),
            "product": digest(f.gauss_newton(theta, structural=0.1, tikhonov=0.2) @ v),
            "squared": digest(f.squared_gradients(theta)), "parts": digest(f.part_gradients(theta, 5)),
            "hessian": digest(f.hessian(theta) @ wide), "J": digest(J @ v), "J'": digest(J.rmatvec(J @ v)),
            "states": digest(*states), "logits": digest(f.loss_and_logits(theta)[1]),
        }  # fmt: skip
    return found


def bytes_of_a_product(comm: Any) -> float:
    """Return the bytes that a product sends on this rank, in vectors."""
    net, B = hfrnn.Network("lstm", 9, 40, 9), 64
    batch = hfrnn.Batch(np.zeros((4, B), int), np.zeros((4, B), int))
    f, theta = hfrnn.Objective(net, batch, threads=1, comm=comm, shards=comm.size), net.init(0)
    G, out = f.gauss_newton(theta), theta.copy()
    before = f.ranks.bytes_sent
    G.apply(theta, out)
    return (f.ranks.bytes_sent - before) / theta.nbytes


def exchanges(comm: Any) -> dict[str, Any]:
    """Return what the other exchanges give."""
    symbols = np.zeros((1, 1), int)
    ranks = hfrnn.Objective(hfrnn.Network("rnn", 2, 2, 2), hfrnn.Batch(symbols, symbols), comm=comm).ranks
    errors = {}
    for name, call in {
        "data": lambda: ranks.check_data("the file", "abc" if ranks.rank != 1 else "abd"),
        "weights": lambda: ranks.check_weights(np.full(5, float(ranks.rank == 0))),
    }.items():
        try:
            call()
        except hfrnn.HfrnnError as error:
            errors[name] = [type(error).__name__, str(error), error.exit_code]
    return {
        "broadcast": ranks.broadcast({"pi": 3.25, "text": "ü", "none": None} if ranks.leads else None),
        "any": [ranks.any_rank(False), ranks.any_rank(ranks.rank == ranks.size - 1), ranks.any_rank(ranks.leads)],
        "errors": errors,
    }


def main() -> None:
    threads, comm = int(sys.argv[1]), None
    if "OMPI_COMM_WORLD_RANK" in os.environ or "PMI_RANK" in os.environ:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    content: dict[str, Any] = {"results": results(threads, comm)}
    if comm is not None:
        content |= {"exchanges": exchanges(comm), "vectors": max(comm.allgather(bytes_of_a_product(comm)))}
    if comm is None or comm.rank == 0:
        print(json.dumps(content))


if __name__ == "__main__":
    main()
