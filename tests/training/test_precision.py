"""TF32: curvature products alone, on a GPU alone, and only when it is asked for."""

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from support.command_line import call
from support.engine_cases import small_problem
from support.fake_device import FakeBackend, HostAsDevice, register_device
from support.tiny_runs import text_file, tiny_train

import hfrnn
from hfrnn.arrays import gpu
from hfrnn.arrays.backend import CupyBackend
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import EnvironmentWarning
from hfrnn.runs.folder import RunFolder
from hfrnn.training.trainer import train

PASSES = ("loss", "gradient", "prepare", "product")


@pytest.fixture
def seen(monkeypatch):
    """The passes of a run on a device, each with the precision of its products."""
    register_device(monkeypatch)
    found = set()

    def noted(name):
        inner = getattr(Sweep, name)

        def run(sweep, *arguments, **options):
            if sweep.batch.B > 2:  # smaller ones measure the memory for the plan
                found.add((name, HostAsDevice.precisions[-1]))
            return inner(sweep, *arguments, **options)

        return run

    for name in PASSES:
        monkeypatch.setattr(Sweep, name, noted(name))
    return found


def test_tf32_is_for_curvature_products_alone_and_only_if_asked_for(tmp_path, seen):
    tiny_train(tmp_path, "plain", backend="cupy")
    assert seen == {(name, "float32") for name in PASSES}
    seen.clear()
    flags = ["--precision", "tf32", "--preconditioner", "none", "--hidden", 4, "--sequence-length", 10, "--updates", 1]
    call("train", text_file(tmp_path), *flags, "--gradient-symbols", 300, "--quiet", "--out", tmp_path / "run")
    expected = {("loss", "float32"), ("gradient", "float32"), ("prepare", "float32"), ("product", "tf32")}
    assert seen == expected
    seen.clear()
    train(resume=tmp_path / "run", updates=2)
    assert RunFolder(tmp_path / "run").config().precision == "tf32"
    assert seen == expected


def test_a_run_in_tf32_goes_on_in_float32_on_a_cpu(tmp_path, monkeypatch):
    register_device(monkeypatch)
    run = tiny_train(tmp_path, backend="cupy", precision="tf32").folder
    with pytest.raises(hfrnn.InputError, match="use backend='cupy', or precision='float32'"):
        train(resume=run, updates=3, backend="numpy")
    assert train(resume=run, updates=3, backend="numpy", precision="float32").summary["updates"] == 3


def test_float64_and_an_older_gpu_refuse_tf32(monkeypatch):
    with pytest.raises(hfrnn.InputError, match="precision is 'tf32', and dtype is float64: use dtype='float32'"):
        HostAsDevice().check_precision("tf32", "float64")
    monkeypatch.setattr(HostAsDevice, "CAPABILITY", 75)
    with pytest.raises(hfrnn.InputError, match=r"the GPU has the compute capability 7\.5: use a GPU with 8\.0 or more"):
        HostAsDevice().check_precision("tf32", "float32")


@pytest.mark.parametrize("way", ["apply", "matvec"])
def test_an_operator_has_a_precision_of_its_own(way, monkeypatch):
    net, batch, theta = small_problem("float32", backend=HostAsDevice())
    operators = [net.gauss_newton(theta, batch) for _ in range(2)]
    operators[0].precision = "tf32"
    precisions, product = [], Sweep.product
    monkeypatch.setattr(Sweep, "product", lambda *a: (precisions.append(HostAsDevice.precisions[-1]), product(*a))[1])
    for operator in operators:
        operator.apply(theta, np.empty_like(theta)) if way == "apply" else operator @ theta
    assert precisions == ["tf32", "float32"]
    with pytest.raises(hfrnn.InputError, match="precision is 'float16'"):
        operators[0].precision = "float16"


@pytest.mark.parametrize("fails", [False, True])
def test_cupy_computes_in_tf32_within_the_context_and_as_before_after_it(fails, monkeypatch):
    linalg = pytest.importorskip("cupy._core._routines_linalg", reason="needs CuPy: install the extra cuda12 or cuda13")
    libs = pytest.importorskip("cupy_backends.cuda.libs")
    kinds, modes = [linalg.COMPUTE_TYPE_PEDANTIC], [0]
    instead = SimpleNamespace(
        COMPUTE_TYPE_TF32=linalg.COMPUTE_TYPE_TF32,
        get_compute_type=lambda dtype: kinds[-1],
        set_compute_type=lambda dtype, kind: kinds.append(kind),
    )
    cublas = SimpleNamespace(getMathMode=lambda handle: modes[-1], setMathMode=lambda handle, mode: modes.append(mode))
    monkeypatch.setattr("cupy._core._routines_linalg", instead)
    monkeypatch.setattr("cupy.cuda.device.get_cublas_handle", lambda: 1)
    monkeypatch.setitem(vars(libs), "cublas", cublas)
    try:
        with FakeBackend().products_in("tf32"):
            assert (kinds[-1], modes[-1]) == (linalg.COMPUTE_TYPE_TF32, 3)
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert (kinds[-1], modes[-1]) == (linalg.COMPUTE_TYPE_PEDANTIC, 0)


TYPES = {"COMPUTE_TYPE_TBD": 0, "COMPUTE_TYPE_DEFAULT": 1}


class Linalg(SimpleNamespace):
    """In the place of CuPy's module, which reads the environment at the first product."""

    kind = TYPES["COMPUTE_TYPE_TBD"]

    def set_compute_type(self, dtype, kind):
        self.kind = kind

    def get_compute_type(self, dtype):
        return self.kind


@pytest.mark.parametrize("real", [False, True], ids=["fake", "CuPy"])
def test_tf32_of_the_environment_is_turned_off_with_a_warning(real, monkeypatch):
    reason = "needs CuPy: install the extra cuda12 or cuda13"
    linalg = pytest.importorskip("cupy._core._routines_linalg", reason=reason) if real else Linalg(**TYPES)
    if not real:
        for name, module in (("cupy", SimpleNamespace()), ("cupy._core", SimpleNamespace(_routines_linalg=linalg))):
            monkeypatch.setitem(sys.modules, name, module)
    memory, attributes = SimpleNamespace(OutOfMemoryError=MemoryError), {"MaxSharedMemoryPerBlockOptin": 1}
    device = SimpleNamespace(id=0, attributes=attributes | {"MultiProcessorCount": 1})
    found = SimpleNamespace(cuda=SimpleNamespace(memory=memory, Device=lambda: device))
    monkeypatch.setattr(gpu, "find_gpu", lambda: gpu.Found(found))
    monkeypatch.setenv("CUPY_TF32", "0")
    gpu.ignore_tf32_of_environment.cache_clear()
    linalg.set_compute_type(np.float32, linalg.COMPUTE_TYPE_TBD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CupyBackend()
    monkeypatch.setenv("CUPY_TF32", "1")
    gpu.ignore_tf32_of_environment.cache_clear()
    with pytest.warns(EnvironmentWarning, match="CUPY_TF32 is set.*use precision 'tf32'"):
        CupyBackend()
    assert linalg.get_compute_type(np.float32) == linalg.COMPUTE_TYPE_DEFAULT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CupyBackend()  # once in a process
