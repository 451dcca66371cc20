"""The versions and the machine on which the results of a run depend."""

from __future__ import annotations

import platform

import numpy as np

from hfrnn._version import __version__
from hfrnn.arrays.threads import default_threads
from hfrnn.wording import counted


def versions() -> dict[str, str]:
    """Return what the bits and the speed of a run depend on: versions and the machine, by name."""
    import scipy

    return {
        "hfrnn": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {counted(default_threads(), 'processor')}",
    }
