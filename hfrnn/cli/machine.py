"""What this machine and installation offer, as facts to print."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

import numpy as np

from hfrnn.arrays.backend import get_backend
from hfrnn.arrays.blas import blas_pools, product_peak
from hfrnn.arrays.threads import default_threads
from hfrnn.data.corpora import CORPORA
from hfrnn.engine.losses import losses
from hfrnn.errors import MissingExtraError
from hfrnn.kernels import architectures
from hfrnn.training.run_state import versions

OPTIONAL = {"matplotlib": "plot", "cupy-cuda12x": "cuda12", "cupy-cuda13x": "cuda13", "jax": "oracle", "torch": "peers"}
"""Optional packages and the extra that installs each."""
PEAK_SECONDS = 0.25


def describe() -> dict[str, Any]:
    """Versions, architectures, processors, BLAS and optional packages, by name."""
    blas = [
        f"{pool['internal_api']} {pool['version']}, {pool.get('architecture', 'unknown')} kernels, "
        f"{pool['num_threads']} threads"
        for pool in blas_pools()
    ]
    rate = product_peak(default_threads(), PEAK_SECONDS, get_backend("numpy")) / 1e9
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
