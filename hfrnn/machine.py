"""What this machine and installation offer, as facts to print."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

from threadpoolctl import threadpool_info

from hfrnn.backend import get_backend
from hfrnn.data.corpora import CORPORA
from hfrnn.errors import MissingExtraError
from hfrnn.heads import losses
from hfrnn.kernels import architectures
from hfrnn.parallel import default_threads
from hfrnn.run_folder import versions

OPTIONAL = {"matplotlib": "plot", "cupy-cuda12x": "cuda12", "cupy-cuda13x": "cuda13", "jax": "oracle", "torch": "peers"}
"""Optional packages and the extra that installs each."""


def describe() -> dict[str, Any]:
    """Versions, architectures, processors, BLAS and optional packages, by name."""
    blas = [f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads" for pool in _blas_pools()]
    return {
        **versions(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processors": default_threads(),
        "blas": blas or "unknown",
        "gpu": _gpu(),
        "extras": [f"{name} {_version(name)} [{extra}]" for name, extra in OPTIONAL.items()],
        "architectures": list(architectures()),
        "losses": list(losses()),
        "corpora": list(CORPORA),
    }


def _blas_pools() -> list[dict[str, Any]]:
    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]


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
