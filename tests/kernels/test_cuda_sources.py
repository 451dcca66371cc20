"""The CUDA sources compile to machine code for the devices of four generations, without a GPU and without spills."""

import ctypes
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from support.cuda_on_cpu import kernels_in

from hfrnn.kernels.cuda.grid import THREADS
from hfrnn.kernels.cuda.launch import FOLDER, REALS, SEQUENCES, source, source_names

ARCHITECTURES = ("sm_70", "sm_80", "sm_90", "sm_100")
EQUATION = re.compile(r"//.*\b[FRBL]\d")


def compiler() -> Any:
    pytest.importorskip("cupy", reason="needs CuPy: install the extra cuda12 or cuda13")
    package = pytest.importorskip("nvidia.cuda_nvrtc", reason="needs the package nvidia-cuda-nvrtc-cu12")
    for library in sorted(Path(package.__path__[0], "lib").glob("libnvrtc*")):
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    return importlib.import_module("cupy.cuda").nvrtc


def variants() -> list[tuple[str, str, int]]:
    return [
        (name, dtype, sequences)
        for name in source_names()
        for dtype in REALS
        for sequences in (SEQUENCES if name.startswith("segment_") else SEQUENCES[:1])
    ]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "dtype", "sequences"), variants())
def test_every_source_compiles_for_every_generation_without_spills(name, dtype, sequences):
    nvrtc, text = compiler(), source(name, dtype, sequences)
    for architecture in ARCHITECTURES:
        program = nvrtc.createProgram(text, f"{name}.cu", (), ())
        try:
            nvrtc.compileProgram(program, (f"--gpu-architecture={architecture}", "--ptxas-options=-v", "-std=c++17"))
        except nvrtc.NVRTCError:
            pytest.fail(f"{architecture}: {nvrtc.getProgramLog(program)}")
        log = nvrtc.getProgramLog(program)
        report = [line for line in log.splitlines() if "spill stores" in line]
        assert len(report) >= len(kernels_in(text))
        assert all("0 bytes spill stores, 0 bytes spill loads" in line for line in report), log
        assert len(nvrtc.getCUBIN(program)) > 0
        if name.startswith("grid_"):
            check_cooperative(text, log, str(nvrtc.getPTX(program)))


def check_cooperative(text: str, report: str, code: str) -> None:
    """A processor has room for a block; blocks exchange values past the first-level cache, after fences."""
    waits, arrivals = (text.count(f"{name}(grid, tile);") for name in ("wait", "arrive"))
    assert waits == arrivals >= 3
    assert code.count("membar.gl") == waits + 2 * arrivals  # no simulation on a CPU notices a missing one
    registers = [int(found) for found in re.findall(r"Used (\d+) registers", report)]
    assert len(registers) == 3
    assert max(registers) * THREADS <= 65536  # in all generations; a register file has granules of 256
    assert all(stack == "0" for stack in re.findall(r"(\d+) bytes stack frame", report))
    for instruction in ("ld.global.cg.", "ld.volatile.global.u32", "atom.global.add.u32"):
        assert instruction in code


@pytest.mark.parametrize("name", source_names())
def test_every_source_cites_the_equations_of_its_reference(name):
    text = (FOLDER / f"{name}.cu").read_text()
    for body in text.split('extern "C" __global__')[1:]:
        assert EQUATION.search(body) or "collect(" in body, body.partition("(")[0]


def test_every_kernel_has_a_name_of_its_own():
    names = [kernel for name in source_names() for kernel in kernels_in(source(name, "float32"))]
    assert len(names) == len(set(names)) > 30
