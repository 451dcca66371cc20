"""Where a backend has compiled products with a few inputs or outputs."""

from __future__ import annotations

import functools
import importlib
from typing import Any

_MODULES = {"numba": "hfrnn.kernels.numba.narrow"}


@functools.cache
def narrow_products(backend: str) -> Any:
    """Return the module with a backend's products with a few inputs or outputs; None without one.

    Parameters
    ----------
    backend : str
        `Backend.variants`.
    """
    return importlib.import_module(_MODULES[backend]) if backend in _MODULES else None
