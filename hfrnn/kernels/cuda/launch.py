"""Compile the CUDA sources of this folder when they are first used, and launch their kernels."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hfrnn.kernels.base import Tape

THREADS = 256
"""Number of threads in a block."""
KINDS = {"tanh": 0, "logistic": 1, "relu": 2, "softplus": 3}
"""The activation functions by name, numbered as in common.cuh."""
REALS = {"float32": "float", "float64": "double"}
"""The type `real` of the sources, by data type."""
FOLDER = Path(__file__).parent


@cache
def source(name: str, dtype: str) -> str:
    """Return the whole source of `name`.cu for a data type: the type `real`, the common functions, and the kernels."""
    parts = [f"typedef {REALS[dtype]} real;\n", *((FOLDER / part).read_text() for part in ("common.cuh", f"{name}.cu"))]
    return "\n".join(parts)


def source_names() -> list[str]:
    """Return the names of all sources, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.cu"))


class Kernels:
    """The kernels of one source file, for the arrays of a tape.

    Parameters
    ----------
    name : str
        Name of the source file, without `.cu`.
    tape : Tape
        Tells the backend and the data type, float32 or float64.
    """

    def __init__(self, name: str, tape: Tape) -> None:
        self._backend, self._source = tape.backend, source(name, tape.kept.dtype.name)

    def each(self, kernel: str, count: int, *arguments: object) -> None:
        """Launch a kernel with one thread for each of `count` elements; no thread if there is none.

        Parameters
        ----------
        kernel : str
        count : int
        *arguments : int, float or contiguous array
            They are passed as 64-bit integers, double-precision numbers and pointers.
        """
        if count:
            function = self._backend.cuda_function(self._source, kernel)
            function((-(-count // THREADS),), (THREADS,), arguments)
