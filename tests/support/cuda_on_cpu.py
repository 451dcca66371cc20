"""The CUDA sources of the project, compiled by the C++ compiler and run on the CPU, on the strict fake device.

`FusedFakeBackend` is the fake device with the fused kernels. It counts the launches, products and other operations on
arrays, refuses arrays that are not contiguous, and checks the number and kinds of a kernel's arguments.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from support.fake_device import FakeArray, FakeBackend

HEADER = Path(__file__).with_suffix(".h")
SANITIZE = "HFRNN_TEST_SANITIZE"
"""Environment variable; if it is set, the compiled code checks the addresses of its memory accesses."""
KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([\w, ]+\) )?(\w+)\(([^)]*)\)')


class Parameter(NamedTuple):
    kind: str
    name: str

    @property
    def is_pointer(self) -> bool:
        return self.kind.endswith("*")


def kernels_in(source: str) -> dict[str, list[Parameter]]:
    found = {}
    for name, listed in KERNEL.findall(source):
        parts = [" ".join(part.split()) for part in listed.split(",")]
        found[name] = [Parameter(*re.fullmatch(r"(.*?)\s*(\w+)", part).groups()) for part in parts]  # type: ignore[union-attr]
    return found


def _launchers(source: str) -> str:
    """Return a C++ function `launch_NAME` for each kernel, which runs a whole grid of it."""
    made = []
    for name, parameters in kernels_in(source).items():
        struct = " ".join(f"{p.kind} {p.name};" for p in parameters)
        listed = ", ".join(f"{p.kind} {p.name}" for p in parameters)
        given, stored = ", ".join(f"given_->{p.name}" for p in parameters), ", ".join(p.name for p in parameters)
        begin = source.index("{", source.index(f" {name}("))
        body = source[begin : (source + 'extern "C"').index('extern "C"', begin)]
        cooperative = "begin_grid(" in body
        waits = [str(flag).lower() for flag in (cooperative or "__syncthreads" in body, cooperative)]
        made.append(
            f"struct {name}_arguments {{ {struct} }};\n"
            f"static void {name}_thread(void* x) {{\n"
            f"  {name}_arguments* given_ = ({name}_arguments*)x;\n  {name}({given});\n}}\n"
            f'extern "C" int launch_{name}(long long grid_, long long block_, long long shared_, {listed}) {{\n'
            f"  {name}_arguments given_ = {{ {stored} }};\n"
            f"  return launch(grid_, block_, shared_, {', '.join(waits)}, {name}_thread, &given_);\n}}\n"
        )
    return "\n".join(made)


@cache
def compiled(source: str) -> ctypes.CDLL:
    """Return the library of a source; skip the test if there is no C++ compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler: install g++ or clang++")
    sanitized = ["-fsanitize=address", "-g"] if SANITIZE in os.environ else []
    code = f"{HEADER.read_text()}\n{source}\n{_launchers(source)}\n// {sanitized}\n"
    folder = Path(tempfile.gettempdir()) / f"hfrnn-cuda-on-cpu-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{hashlib.sha256(code.encode()).hexdigest()[:32]}.so"
    if not library.exists():
        made = folder / f"{library.stem}-{os.getpid()}"
        made.with_suffix(".cpp").write_text(code)
        command = [compiler, "-O1", "-std=c++17", "-shared", "-fPIC", *sanitized, "-o", f"{made}.tmp", f"{made}.cpp"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        os.replace(f"{made}.tmp", library)
        made.with_suffix(".cpp").unlink()
    return ctypes.CDLL(str(library))


def _argument(parameter: Parameter, value: Any, real: Any) -> Any:
    if parameter.is_pointer:
        assert isinstance(value, FakeArray), f"{parameter.name} is {type(value).__name__}, expected an array"
        host, expected = value._host, np.dtype("uint32") if "unsigned" in parameter.kind else real
        assert host.dtype == expected, f"{parameter.name} has type {host.dtype}, expected {expected}"
        assert host.flags.c_contiguous, f"{parameter.name} is not contiguous"
        return ctypes.c_void_p(host.ctypes.data)
    kinds = {"Index": (int, ctypes.c_longlong), "double": (float, ctypes.c_double)}
    expected, convert = kinds[parameter.kind]
    assert type(value) is expected, f"{parameter.name} is {value!r}, expected {expected.__name__}"
    return convert(value)


OUTCOMES = (None, "wrote beyond its shared memory", "waits for ever")


class FusedFakeBackend(FakeBackend):
    """The fake device with the fused kernels of the backend `cupy`.

    Parameters
    ----------
    shared_memory : int
        Bytes for each block; by default those of compute capability 9.0. With 0 no kernel runs a whole segment.
    processors : int
        By default so few that blocks of several sequences occur.
    whole_segments : tuple of str
        As in `Backend`.
    """

    registers = 128
    """Registers of a thread in every kernel."""

    def __init__(
        self, shared_memory: int = 232448, processors: int = 3, whole_segments: tuple[str, ...] = ("block",)
    ) -> None:
        super().__init__()
        self.shared_memory, self.processors, self.whole_segments = shared_memory, processors, whole_segments
        self._device = id(self)
        self.launches: Counter[str] = Counter()
        self.grids: Counter[int] = Counter()

    @property
    def variants(self) -> str:
        return "cupy"

    def resident_blocks(self, source: str, name: str, threads: int, shared_memory: int) -> int:
        of_one = min(65536 // (self.registers * threads), (self.shared_memory + 1024) // (shared_memory + 1024))
        return of_one * self.processors

    def cuda_function(self, source: str, name: str, cooperative: bool = False) -> Callable[..., object]:
        parameters, library = kernels_in(source)[name], compiled(source)
        real = np.dtype("float32" if source.startswith("typedef float") else "float64")

        def launch(grid: tuple[int], block: tuple[int], arguments: tuple[Any, ...], shared_mem: int = 0) -> None:
            self.launches[name] += 1
            assert len(arguments) == len(parameters), f"{name} takes {len(parameters)} arguments, not {len(arguments)}"
            assert 1 <= block[0] <= 1024
            assert grid[0] >= 1
            assert shared_mem <= self.shared_memory
            if cooperative:
                self.grids[grid[0]] += 1
                assert grid[0] <= self.resident_blocks(source, name, block[0], shared_mem)
            given = [_argument(p, value, real) for p, value in zip(parameters, arguments, strict=True)]
            outcome = getattr(library, f"launch_{name}")(
                *(ctypes.c_longlong(n) for n in (grid[0], block[0], shared_mem)), *given
            )
            assert not outcome, f"{name} {OUTCOMES[outcome]} ({shared_mem} bytes of shared memory)"

        return launch
