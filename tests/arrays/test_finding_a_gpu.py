"""Whether there is a GPU: found without importing CuPy where there is no driver, and described in a few words."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.arrays import gpu
from hfrnn.arrays.backend import get_backend

ROOT = Path(__file__).resolve().parents[2]


def runtime(**changes: Any) -> SimpleNamespace:
    functions = {
        "getDeviceCount": lambda: 1, "getDevice": lambda: 0, "getDeviceProperties": lambda n: {"name": b"Model 1"},
        "memGetInfo": lambda: (3 * 2**30, 8 * 2**30), "driverGetVersion": lambda: 12040,
        "runtimeGetVersion": lambda: 12090,
    }  # fmt: skip
    return SimpleNamespace(**{**functions, **changes})


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("no library\nof CUDA")


@pytest.fixture
def found(monkeypatch):
    gpu._try_cupy.cache_clear()

    def find(**functions: Any) -> gpu.Found:
        cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime()), ones=np.ones)
        vars(cupy).update(functions)
        monkeypatch.setattr(gpu.importlib.util, "find_spec", lambda name: object())
        monkeypatch.setattr(gpu, "_driver_loads", lambda: True)
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        return gpu.find_gpu()

    yield find
    gpu._try_cupy.cache_clear()


def test_a_gpu_that_computes_is_found_and_a_driver_without_one_is_told(found):
    assert found() == gpu.Found(sys.modules["cupy"], "")
    gpu._try_cupy.cache_clear()
    assert found(cuda=SimpleNamespace(runtime=runtime(getDeviceCount=lambda: 0))).why == "there is no GPU"


@pytest.mark.parametrize("part", ["count", "product"])
def test_a_gpu_that_does_not_compute_is_not_used_and_the_reason_is_one_line(found, part):
    broken = {"ones": fails} if part == "product" else {"cuda": SimpleNamespace(runtime=runtime(getDeviceCount=fails))}
    assert found(**broken) == gpu.Found(None, "CuPy cannot use the GPU (RuntimeError: no library of CUDA)")
    with pytest.raises(hfrnn.MissingExtraError, match=r"no usable GPU, because .*no library of CUDA.*cuda12 or cuda13"):
        get_backend("cupy")


def test_a_missing_cupy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert gpu.find_gpu() == gpu.Found(None, "CuPy is not installed")


def test_cupy_is_not_imported_without_a_driver():
    pytest.importorskip("cupy", reason="needs CuPy: install the extra cuda12 or cuda13")
    code = "import sys; from hfrnn.arrays import gpu; gpu.DRIVERS = ('no driver.so',); print(gpu.find_gpu().why); "
    code += "print('cupy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines(), done.stderr) == (["there is no NVIDIA driver", "False"], "")


def test_help_does_not_import_cupy():
    code = "import sys; from hfrnn.cli import main; main(['train', '--help'], standalone_mode=False); "
    code += "print('cupy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_gpu_is_described_by_its_memory_and_versions():
    described = gpu.describe_gpu(SimpleNamespace(cuda=SimpleNamespace(runtime=runtime())))
    assert described == "Model 1, 3.0 of 8.0 GiB free, driver for CUDA 12.4, CUDA runtime 12.9"


def test_cupy_has_the_functions_that_describe_a_gpu():
    cupy = pytest.importorskip("cupy", reason="needs CuPy: install the extra cuda12 or cuda13")
    assert all(callable(getattr(cupy.cuda.runtime, name)) for name in vars(runtime()))
