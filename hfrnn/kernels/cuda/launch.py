"""Compile the CUDA sources of this folder when they are first used, and launch their kernels."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Tape
from hfrnn.kernels.pointwise import transpose

THREADS = 256
"""Number of threads in a block of a kernel that computes one step."""
MOST_UNITS = 1024
"""Largest number of threads in a block, and so of units in a kernel that runs a whole segment."""
SEQUENCES = (4, 2, 1)
"""Numbers of sequences that a block of such a kernel may compute, the largest first."""
KINDS = {"tanh": 0, "logistic": 1, "relu": 2, "softplus": 3}
"""The activation functions by name, numbered as in common.cuh."""
REALS = {"float32": "float", "float64": "double"}
"""The type `real` of the sources, by data type."""
FOLDER = Path(__file__).parent
INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)


@cache
def source(name: str, dtype: str, sequences: int = SEQUENCES[0], threads: int = THREADS) -> str:
    """Return the whole source `name`.cu, with its headers, for a data type and numbers of sequences and threads."""
    text = (FOLDER / f"{name}.cu").read_text("utf-8")
    whole = INCLUDE.sub(lambda found: (FOLDER / found[1]).read_text("utf-8"), text)
    return f"typedef {REALS[dtype]} real;\n#define SEQUENCES {sequences}\n#define THREADS {threads}\n{whole}"


def source_names() -> list[str]:
    """Return the names of all sources, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.cu"))


def contiguous_transpose(tape: Tape, p: Arrays, name: str) -> Array:
    """Return the transpose of p[name], C-contiguous as CUDA functions need it: they ignore strides."""
    W_T = transpose(p, name)
    if W_T.flags.c_contiguous:
        return W_T
    copy = tape.scratch(f"{name}.T", *W_T.shape)
    copy[...] = W_T
    return copy


def before_segment(tape: Tape, K: int, Rh: Array) -> Array:
    """Return the tangents before a segment, apart from those of its last step, which they may be.

    Blocks that compute the first step side by side would overwrite them if it is also the last one.
    """
    if K > 1:
        return Rh
    copy = tape.scratch("Rh_before", *Rh.shape)
    copy[...] = Rh
    return copy


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


class SegmentKernels:
    """The kernels that run all steps of a segment of a small network in one launch, for the arrays of a tape.

    Parameters
    ----------
    name : str
        The kernels are `segment_NAME_forward`, `segment_NAME_rforward` and `segment_NAME_backward`, in segment_NAME.cu.
    tape : Tape
    B : int
        Number of sequences.
    units : int
        Number of units, one thread of a block each.
    matrices : int
        Number of entries of the recurrent matrices, which a block keeps in shared memory.
    rows : int
        Number of values for each sequence of a block that lie in shared memory beside them.
    """

    def __init__(self, name: str, tape: Tape, B: int, units: int, matrices: int, rows: int) -> None:
        self._name, self._backend, self._threads = name, tape.backend, -(-units // 32) * 32
        item, limit, processors = tape.kept.dtype.itemsize, tape.backend.shared_memory, tape.backend.processors
        bytes_of = {each: (matrices + rows * each) * item for each in SEQUENCES}
        self._fitting = [each for each in SEQUENCES if bytes_of[each] <= limit]
        self.fit = bool(self._fitting and 1 <= units <= MOST_UNITS and "block" in tape.backend.whole_segments)
        """Whether a block's threads and shared memory suffice."""
        if self.fit:  # few sequences per block while all blocks run at the same time
            few = [each for each in self._fitting if -(-B // each) <= processors]
            sequences = few[-1] if few else self._fitting[0]
            self._blocks, self._shared = -(-B // sequences), bytes_of[sequences]
            self._source = source(f"segment_{name}", tape.kept.dtype.name, sequences)

    def run(self, routine: str, *arguments: object) -> None:
        """Launch the kernel of a routine; its arguments are those of `Kernels.each`."""
        function = self._backend.cuda_function(self._source, f"segment_{self._name}_{routine}")
        function((self._blocks,), (self._threads,), arguments, shared_mem=self._shared)
