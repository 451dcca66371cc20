"""The fused CUDA kernels agree with the reference, run where they should, and launch no more than they may.

The sources are compiled by the C++ compiler and run on the CPU, on the strict fake device.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cuda_on_cpu import SANITIZE, FusedFakeBackend
from support.engine_cases import MU, assert_same, cases, everything, moved, plans, random_batch, vectors
from support.fake_device import counts
from support.kernel_runs import routines
from support.pairwise import each_once, label, tried

import hfrnn
from hfrnn.arrays.backend import get_backend
from hfrnn.kernels.base import Kernel
from hfrnn.kernels.cuda import grid
from hfrnn.kernels.registry import kernel_class, make_kernel

pytestmark = pytest.mark.nightly
fake, small_memory = FusedFakeBackend(), FusedFakeBackend(shared_memory=0)  # the second runs no whole segment
cooperative = FusedFakeBackend(processors=7, whole_segments=("grid",))
ARCHITECTURES = tuple(arch for arch in hfrnn.architectures() if kernel_class(arch, "cupy") is not kernel_class(arch))
FUSED = [case for case in cases() if case.arch in ARCHITECTURES]
WHOLE_SEGMENTS = ("rnn", "leaky", "rate", "lstm", "lstm-krause", "mlstm", "mlstm-standard")
"""The architectures that run a segment in one launch of single blocks where the network is small."""
COOPERATIVE = (*WHOLE_SEGMENTS, "gru", "gru-torch", "state-space")
"""The architectures that run a segment in one cooperative launch."""


def devices(arch: str) -> tuple[FusedFakeBackend, ...]:
    return (
        fake,
        *((small_memory,) if arch in WHOLE_SEGMENTS else ()),
        *((cooperative,) if arch in COOPERATIVE else ()),
    )


def some_sharing(passes: grid.Passes, B: int, *device: int) -> grid.Sharing | None:
    """Return one of the ways to share units and sequences, another one for other sizes; None if there is none."""
    ways = list(grid.sharings(passes, B, *device))
    return ways[(B + passes.forward[0].rows) % len(ways)] if ways else None


@pytest.fixture(scope="module", autouse=True)
def small_teams():
    """Let teams of several blocks of few threads compute small networks too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid, "THREADS", 64)
        patch.setattr(grid, "best_sharing", some_sharing)
        yield


@pytest.mark.parametrize(("case", "plan"), tried(["all", "all-3", "states-2", "nothing-3"], of=FUSED), ids=label)
def test_everything_agrees_with_the_reference_in_float64(case, plan):
    batch = case.data()
    theta, v, u = vectors(case.net(), batch)
    chosen = plans(batch.T, batch.B)[plan]
    expected = everything(case.net(), batch, theta, v, u, plan=chosen)
    for device in devices(case.arch):
        actual = everything(case.net(backend=device), moved(batch, device), theta, v, u, plan=chosen)
        assert_same(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("case", each_once(of=FUSED), ids=label)
def test_everything_agrees_with_the_reference_in_float32(case):
    batch = case.data()
    theta, v, u = (x.astype("float32") for x in vectors(case.net(), batch))
    expected = everything(case.net(dtype="float32"), batch, theta, v, u)
    for device in devices(case.arch):
        actual = everything(case.net(dtype="float32", backend=device), moved(batch, device), theta, v, u)
        assert_same(actual, expected, rtol=1e-5)


@pytest.mark.parametrize("case", [case for case in FUSED if case.situation == "stack"], ids=label)
def test_gradients_of_single_sequences_agree_with_the_reference(case):
    batch = case.data()
    theta = vectors(case.net(), batch)[0]
    expected = hfrnn.Objective(case.net(), batch).per_sequence_gradients(theta)
    device = hfrnn.Objective(case.net(backend=fake), moved(batch, fake))
    found = fake.to_host(device.per_sequence_gradients(fake.asarray(theta)))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@settings(max_examples=8, deadline=None)
@given(K=st.integers(1, 5), B=st.sampled_from([1, 2, 7, 33]), H=st.sampled_from([1, 5, 31, 63]))
def test_every_block_of_every_routine_agrees_at_odd_sizes(arch, K, B, H):
    expected = routines(make_kernel(arch, H, {}), get_backend("numpy"), K, B)
    for device in devices(arch):
        actual = routines(make_kernel(arch, H, {}, "cupy"), device, K, B)
        assert actual.keys() == expected.keys()
        for name, x in expected.items():
            scale = float(np.abs(x).max()) if x.size else 1.0
            np.testing.assert_allclose(actual[name], x, rtol=1e-12, atol=1e-12 * max(scale, 1.0), err_msg=name)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_real_arrays_never_run_the_reference_routines(arch, monkeypatch):
    net = hfrnn.Network(arch, n_in=4, hidden=4, n_out=4, backend=fake)
    assert type(net.layers[0].kernel) is kernel_class(arch, "cupy") is not kernel_class(arch)

    def fail(*arguments, **more):
        raise AssertionError("the reference ran")

    for routine in ("forward", "rforward", "backward"):
        monkeypatch.setattr(kernel_class(arch), routine, fail)
    batch = random_batch(net, np.random.default_rng(0))
    product = net.gauss_newton(net.init(), batch, structural=MU) @ net.init(seed=1)
    assert np.isfinite(fake.to_host(product)).all()
    with pytest.raises(AssertionError, match="the reference ran"):
        net.hessian(net.init(), batch) @ net.init(seed=1)


ONE_LAUNCH = ("hornn-gated", "coupled-oscillator")
TWO_PRODUCTS = ("mrnn", "mlstm", "mlstm-standard", "gru", "state-space", "low-rank", *ONE_LAUNCH)
PRODUCTS = dict.fromkeys(ARCHITECTURES, 1) | dict.fromkeys(TWO_PRODUCTS, 2)
"""Matrix products of a step: one for each recurrent matrix. The N matrices of a HORNN are one batched product, and A
and W_1 of state-space are one matrix."""


def used_by_more_steps(arch, routine, device, monkeypatch):
    """Return how often a routine calls what when its segment is four steps longer, beyond views of arrays."""
    used: list[dict[str, int]] = []
    original = getattr(kernel_class(arch, "cupy"), routine)

    def counted(self: Kernel, *arguments: Any) -> Any:
        counts.clear()
        device.launches.clear()
        result = original(self, *arguments)
        views = {"__getitem__", "reshape", "swapaxes"}
        used.append({name: n for name, n in counts.items() if name not in views} | {"launch": device.launches.total()})
        return result

    monkeypatch.setattr(kernel_class(arch, "cupy"), routine, counted)
    for K in (5, 9):
        routines(make_kernel(arch, 8, {}, "cupy"), device, K, 3)
    short, long = used
    more = {name: long.get(name, 0) - short.get(name, 0) for name in {*long, *short}}
    return {name: n for name, n in more.items() if n}


@pytest.mark.parametrize("routine", ["forward", "rforward", "backward"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_step_is_one_launch_for_each_product_and_nothing_else(arch, routine, monkeypatch):
    expected = {"matmul": 4 * PRODUCTS[arch], "launch": 4 * (1 if arch in ONE_LAUNCH else PRODUCTS[arch])}
    assert used_by_more_steps(arch, routine, small_memory, monkeypatch) == expected


@pytest.mark.parametrize("routine", ["forward", "rforward", "backward"])
@pytest.mark.parametrize("arch", WHOLE_SEGMENTS)
def test_a_small_network_runs_a_segment_in_one_launch(arch, routine, monkeypatch):
    assert used_by_more_steps(arch, routine, fake, monkeypatch) == {}


@pytest.mark.parametrize("routine", ["forward", "rforward", "backward"])
@pytest.mark.parametrize("arch", COOPERATIVE)
def test_a_segment_is_one_cooperative_launch(arch, routine, monkeypatch):
    routines(make_kernel(arch, 8, {}, "cupy"), cooperative, 1, 3)  # makes the counters of the barriers, once for all
    cooperative.grids.clear()
    assert used_by_more_steps(arch, routine, cooperative, monkeypatch) == {}
    assert cooperative.grids.total() == 6  # three routines, twice


@pytest.mark.parametrize(("arch", "most"), [("rnn", 236), ("rate", 236), ("lstm", 117), ("mlstm", 105)])
def test_the_largest_network_of_whole_segments_is_bounded_by_shared_memory(arch, most):
    for H, whole in ((most, True), (most + 10, False)):
        fake.launches.clear()
        routines(make_kernel(arch, H, {}, "cupy"), fake, 2, 3, "float32")
        assert (f"segment_{arch}_backward" in fake.launches) is whole


ACCESSES = """
from kernels.test_cuda import ARCHITECTURES, devices, grid, make_kernel, routines, some_sharing
grid.THREADS, grid.best_sharing = 64, some_sharing
for arch in ARCHITECTURES:
    for K, B, H in ((1, 1, 1), (2, 3, 5), (3, 7, 6), (2, 1, 33)):
        for device in devices(arch):
            routines(make_kernel(arch, H, {}, "cupy"), device, K, B)
    print("ran", arch)
"""


def test_no_kernel_reads_or_writes_outside_its_arrays():
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++ and its address sanitizer")
    asked = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    if not Path(library := asked.stdout.strip()).is_absolute():
        pytest.skip("g++ has no address sanitizer here: install libasan")
    environment = os.environ | {
        "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
        SANITIZE: "1", "PYTHONPATH": os.pathsep.join((*sys.path, str(Path(__file__).parents[1]))),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", ACCESSES], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    assert done.stdout.split()[1::2] == list(ARCHITECTURES)
