"""What this machine and installation offer, as facts to print."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from hfrnn.arrays.backend import Backend, get_backend
from hfrnn.arrays.threads import default_threads
from hfrnn.data.corpora import CORPORA
from hfrnn.engine.losses import losses
from hfrnn.errors import MissingExtraError
from hfrnn.kernels import architectures
from hfrnn.runs.versions import versions

OPTIONAL = {"matplotlib": "plot", "cupy-cuda12x": "cuda12", "cupy-cuda13x": "cuda13", "jax": "oracle", "torch": "peers"}
"""Optional packages and the extra that installs each."""


PEAK_SIZES = (1024, 2048)
GPU_PEAK_SIZES = (8192,)
"""Sides of the square matrices whose product is timed."""
PEAK_SECONDS = 0.25


def describe() -> dict[str, Any]:
    """Versions, architectures, processors, BLAS and optional packages, by name."""
    blas = [
        f"{pool['internal_api']} {pool['version']}, {pool.get('architecture', 'unknown')} kernels, "
        f"{pool['num_threads']} threads"
        for pool in blas_pools()
    ]
    rate = product_peak(default_threads(), PEAK_SECONDS) / 1e9
    return {
        **versions(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processors": default_threads(),
        "blas": blas or "unknown",
        "simd": _simd(),
        "peak": f"{rate:,.0f} GFLOP/s in float32 matrix products, {default_threads()} threads, measured just now",
        "gpu": _gpu(),
        "extras": [f"{name} {_version(name)} [{extra}]" for name, extra in OPTIONAL.items()],
        "architectures": list(architectures()),
        "losses": list(losses()),
        "corpora": list(CORPORA),
    }


def blas_pools() -> list[dict[str, Any]]:
    """The BLAS libraries that are loaded, as threadpoolctl tells."""
    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


def product_peak(threads: int, seconds: float, backend: Backend | None = None) -> float:
    """The best rate of a large float32 matrix product, in FLOP/s: NumPy's with BLAS on `threads`, or the GPU's.

    Parameters
    ----------
    threads : int
    seconds : float
        How long each of a few sizes is tried.
    backend : Backend, optional
        A GPU's, to measure that instead.
    """
    on_gpu = backend is not None and not backend.on_host
    device, best = backend if backend is not None else get_backend("numpy"), 0.0
    for n in GPU_PEAK_SIZES if on_gpu else PEAK_SIZES:
        rng = np.random.default_rng(n)
        a, b = (device.asarray(rng.standard_normal((n, n), dtype=np.float32)) for _ in range(2))
        out = device.empty((n, n), "float32")
        with threadpool_limits(threads, user_api="blas"):
            start = time.perf_counter()
            while time.perf_counter() - start < seconds:
                begin = time.perf_counter()
                device.xp.matmul(a, b, out=out)
                device.synchronize()
                best = max(best, 2 * n**3 / (time.perf_counter() - begin))
    return best


def _simd() -> list[str]:
    """The instruction sets that NumPy was built for and those that it found beside."""
    found = np.show_config(mode="dicts")
    sets = found.get("SIMD Extensions", {}) if isinstance(found, dict) else {}
    return [*sets.get("baseline", []), *sets.get("found", [])] or ["unknown"]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gpu() -> str:
    try:
        backend = get_backend("cupy")
    except MissingExtraError as error:
        return f"none: {str(error).split(':')[0]}"
    name = backend.xp.cuda.runtime.getDeviceProperties(0)["name"]
    return str(name.decode() if isinstance(name, bytes) else name)
