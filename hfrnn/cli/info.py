"""`hfrnn info`: the versions, the machine, and the names that there are to choose from."""

from __future__ import annotations

import importlib.metadata
import platform
import textwrap
from typing import Any

import click

from hfrnn.cli.arguments import kernel_option
from hfrnn.cli.output import say_json, say_lines
from hfrnn.wording import counted

EXTRAS = {
    "fast": ("numba",), "cuda12": ("cupy-cuda12x",), "cuda13": ("cupy-cuda13x",), "tensorboard": ("tensorboard",),
    "plot": ("matplotlib",), "midi": ("mido",), "hdf5": ("h5py",), "mpi": ("mpi4py",), "oracle": ("jax",),
    "peers": ("jax", "torch"), "sklearn": ("scikit-learn",), "onnx": ("onnx", "onnxruntime"), "torch": ("torch",),
    "test": ("pytest", "pytest-xdist", "hypothesis", "mido", "h5py", "scikit-learn", "click"),
    "docs": ("sphinx", "myst-parser", "furo", "latex2mathml", "nbformat", "nbclient", "ipykernel"),
    "dev": ("ruff", "mypy", "pre-commit", "coverage"),
}  # fmt: skip
"""The optional extras of pyproject.toml, and the packages that each installs."""
PEAK_SECONDS = 0.25
"""Time for measuring the rate of matrix products."""


@click.command(short_help="Show versions, processors, and the available choices.")
@kernel_option
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(as_json: bool) -> None:
    """Show versions, processors, the BLAS library and its speed, the GPU, which optional packages are there, and the
    names of architectures (--arch) and of corpora, tasks and music (--data).
    """
    from hfrnn.data.kinds import known_names

    table = {**describe(), **{what: list(names) for what, names in known_names().items()}}
    if as_json:
        say_json(table)
        return
    for name, value in table.items():
        parts = value if name == "extras" else [", ".join(value) if isinstance(value, list) else str(value)]
        lines = [line for part in parts for line in textwrap.wrap(part, 65, break_on_hyphens=False) or [""]]
        say_lines(f"{name if n == 0 else '':<14} {line}" for n, line in enumerate(lines))


def describe() -> dict[str, Any]:
    """Return versions, architectures, processors, BLAS and optional packages, by name."""
    from hfrnn.arrays.backend import get_backend
    from hfrnn.arrays.threads import blas_pools, default_threads, product_peak
    from hfrnn.engine.heads.heads import losses
    from hfrnn.kernels import architectures
    from hfrnn.runs.folder import versions

    blas = [
        f"{pool['internal_api']} {pool['version']}, {pool.get('architecture', 'unknown')} kernels, "
        f"{counted(pool['num_threads'], 'thread')}"
        for pool in blas_pools()
    ]
    rate = product_peak(default_threads(), PEAK_SECONDS, get_backend("numpy")) / 1e9
    threads = counted(default_threads(), "thread")
    return {
        **versions(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processors": default_threads(),
        "blas": blas or "unknown",
        "simd": _simd(),
        "peak": f"{rate:,.0f} GFLOP/s in float32 matrix products, {threads}, measured just now",
        "gpu": _gpu(),
        "extras": [f"[{extra}] {', '.join(f'{name} {_version(name)}' for name in EXTRAS[extra])}" for extra in EXTRAS],
        "architectures": list(architectures()),
        "losses": list(losses()),
    }


def _simd() -> list[str]:
    """The instruction sets that NumPy was built for, and the others that it found."""
    import numpy as np

    found = np.show_config(mode="dicts")
    sets = found.get("SIMD Extensions", {}) if isinstance(found, dict) else {}
    return [*sets.get("baseline", []), *sets.get("found", [])] or ["unknown"]


def _version(package: str) -> str:
    from hfrnn.arrays.gpu import NUMBA_MISSING, why_no_numba

    try:
        found = importlib.metadata.version(package)
        broken = package == "numba" and why_no_numba() not in ("", NUMBA_MISSING)
        return f"{found} (cannot be imported)" if broken else found
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _gpu() -> str:
    from hfrnn.arrays.gpu import describe_gpu, find_gpu

    cupy, why = find_gpu()
    return f"none: {why}" if cupy is None else describe_gpu(cupy)
