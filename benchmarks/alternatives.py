"""Other ways to compute what the engine computes, each beside the way that it takes.

- The gradient of a look-up (B1 of engine/input_map.py): a product with a one-hot matrix, sums of sorted rows by
  `np.add.reduceat`, and the sparse product that the engine takes.
- a = U + h @ W: a product and an addition, as the NumPy kernels do it, and a product that adds to its result. NumPy has
  no such product; `ctypes` calls the one of NumPy's own OpenBLAS.
- The products inside compiled loops, which SciPy's OpenBLAS computes, and the same products in NumPy.

All results are compared before they are timed. Times are processor seconds of one thread. See README.md beside this
file.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
import threadpoolctl
from several_vectors import processor_seconds

from hfrnn.arrays.backend import Buffers, get_backend
from hfrnn.arrays.threads import one_blas_thread, product_peak

LOOKUPS = ((64, 512, 1024), (64, 1024, 512), (98, 320, 1600), (64, 2048, 512))
"""Symbols V, columns of W_x, and tokens of a segment: lstm with 128 and 256 units, mlstm with 64, lstm with 512."""
STEPS = ((16, 64, 256), (32, 64, 256), (32, 128, 512), (128, 256, 1024), (128, 512, 2048))
"""Sequences of a shard, units, and columns of W_h of an lstm."""
TOLERANCE = 1e-3
WORK = 4e8
"""Floating-point operations in a timed turn, at least."""

ROW_MAJOR, NO_TRANS = 101, 111  # of the C interface of BLAS


def checked(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Stop if two arrays differ."""
    error = common.difference(found, expected)
    if error > TOLERANCE:
        raise click.ClickException(f"{what}: the results differ by {error:.1e}")


def repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    """A function that makes several calls."""

    def run() -> None:
        for _ in range(times):
            call()

    return run


def seconds_each(calls: dict[str, Callable[[], object]], operations: float, rounds: int) -> dict[str, float]:
    """The processor seconds of one call of each."""
    times = max(3, int(WORK / operations))
    return {name: processor_seconds(repeated(call, times), rounds) / times for name, call in calls.items()}


def lookups(V: int, S: int, N: int, rounds: int) -> dict[str, Any]:
    """Three ways to add dU (N, S) to the rows of N symbols."""
    rng, backend = np.random.default_rng(0), get_backend("numpy")
    symbols, dU = rng.integers(V, size=N), rng.standard_normal((N, S), dtype=np.float32)
    one_hot = np.eye(V, dtype=np.float32)[symbols]
    order = np.argsort(symbols, kind="stable")
    numbers, starts = np.unique(symbols[order], return_index=True)
    groups, buffers = backend.row_groups(symbols, V), Buffers(backend, np.float32)
    sums = {name: np.zeros((V, S), np.float32) for name in ("one-hot product", "sorted sums", "sparse product")}

    def by_product() -> None:
        backend.add_product(one_hot, dU, sums["one-hot product"], buffers)

    def by_sorting() -> None:
        sums["sorted sums"][numbers] += np.add.reduceat(dU[order], starts, axis=0)

    calls: dict[str, Callable[[], object]] = {"one-hot product": by_product, "sorted sums": by_sorting}
    calls["sparse product"] = lambda: backend.add_rows(sums["sparse product"], groups, dU, buffers)
    for call in calls.values():
        call()
    for name in ("one-hot product", "sorted sums"):
        checked(sums[name], sums["sparse product"], name)
    return {"V": V, "columns": S, "tokens": N, "seconds": seconds_each(calls, 2 * V * S * N, rounds)}


def adding_product() -> Callable[[np.ndarray, np.ndarray, np.ndarray], None] | None:
    """NumPy's own `out += x @ W` in single precision, if NumPy brings OpenBLAS with it."""
    for library in threadpoolctl.ThreadpoolController().lib_controllers:
        if library.internal_api != "openblas" or "numpy" not in str(library.filepath):
            continue
        handle = ctypes.CDLL(str(library.filepath))
        for name, integer in (("scipy_cblas_sgemm64_", ctypes.c_int64), ("scipy_cblas_sgemm", ctypes.c_int32)):
            if hasattr(handle, name):
                return _typed(getattr(handle, name), integer)
    return None


def _typed(sgemm: Any, integer: Any) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    number, pointer = ctypes.c_float, ctypes.c_void_p
    sgemm.argtypes = [ctypes.c_int] * 3 + [integer] * 3
    sgemm.argtypes += [number, pointer, integer, pointer, integer, number, pointer, integer]
    sgemm.restype = None

    def add(x: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
        (B, H), S = x.shape, W.shape[1]
        x_at, W_at, out_at = (each.__array_interface__["data"][0] for each in (x, W, out))
        sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, B, S, H, 1.0, x_at, H, W_at, S, 1.0, out_at, S)

    return add


def compiled_product() -> Callable[[np.ndarray, np.ndarray, np.ndarray, int], None] | None:
    """A compiled loop of products, if numba is installed."""
    if not common.available(["numba"]):
        return None
    from numba import njit

    @njit(nogil=True)  # type: ignore[untyped-decorator]
    def loop(x: np.ndarray, W: np.ndarray, out: np.ndarray, times: int) -> None:
        for _ in range(times):
            np.dot(x, W, out)

    return loop  # type: ignore[no-any-return]


def steps(B: int, H: int, S: int, rounds: int) -> dict[str, Any]:
    """Ways to compute U + h @ W for one step of a shard."""
    rng = np.random.default_rng(0)
    h, W, U = (rng.standard_normal(shape, dtype=np.float32) for shape in ((B, H), (H, S), (B, S)))
    a, other = np.empty_like(U), np.empty_like(U)
    add, loop = adding_product(), compiled_product()

    def in_turn() -> None:
        np.matmul(h, W, out=a)
        np.add(a, U, out=a)

    calls: dict[str, Callable[[], object]] = {
        "product": lambda: np.matmul(h, W, out=a),
        "product and addition": in_turn,
    }
    if add is not None:

        def at_once() -> None:
            np.copyto(other, U)
            add(h, W, other)

        in_turn()
        at_once()
        checked(other, a, "the product that adds to its result")
        calls["copy, and product that adds to it"] = at_once
    operations = 2.0 * B * H * S
    found = seconds_each(calls, operations, rounds)
    if loop is not None:
        loop(h, W, other, 1)
        checked(other, np.matmul(h, W), "the compiled product")
        times = max(3, int(WORK / operations))
        found["compiled product"] = processor_seconds(lambda: loop(h, W, other, times), rounds) / times
    return {"B": B, "H": H, "columns": S, "seconds": found, "rate": operations / found["product"]}


@click.command(cls=common.Command)
@click.option("--rounds", default=7, type=click.IntRange(1), help="Rounds; the least time counts.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(rounds: int, out: Path) -> None:
    """Time other ways to compute parts of a gradient or a product, on one thread."""
    result: dict[str, Any] = {"machine": common.machine(1), "peak": product_peak(1, 0.5, get_backend("numpy"))}
    with one_blas_thread():
        result["lookups"] = [lookups(*case, rounds) for case in LOOKUPS]
        result["steps"] = [steps(*case, rounds) for case in STEPS]
    for kind in ("lookups", "steps"):
        for case in result[kind]:
            sizes = ", ".join(f"{name} {case[name]}" for name in case if name not in ("seconds", "rate"))
            times = ", ".join(f"{name} {seconds * 1e6:.0f}" for name, seconds in case["seconds"].items())
            click.echo(f"{sizes}: {times} microseconds")
    common.write_result(out / "alternatives-cpu.json", result)


if __name__ == "__main__":
    main()
