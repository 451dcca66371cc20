"""Cooperative launches: how units and sequences are shared, when a device has no room, and what the barrier is for."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.cuda_on_cpu import FusedFakeBackend
from support.kernel_runs import routines

import hfrnn
from hfrnn.arrays.backend import CupyBackend, get_backend
from hfrnn.kernels.cuda import grid
from hfrnn.kernels.registry import make_kernel

H200 = 232448, 132
"""Bytes of shared memory of a block, and processors."""


def products(arch: str, H: int) -> grid.Passes:
    return make_kernel(arch, H, {}, "cupy").products()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("H", [5, 118, 256, 512, 1024])
@pytest.mark.parametrize("arch", ["rnn", "lstm", "mlstm", "gru", "gru-torch", "state-space"])
def test_a_device_has_room_for_every_sharing_and_a_block_for_its_columns(arch, H):
    passes = products(arch, H)
    for B in (1, 32, 257):
        ways = list(grid.sharings(passes, B, 4, *H200))
        assert ways
        for way in ways:
            assert 1 <= way.blocks <= H200[1]
            assert way.shared_memory <= H200[0]
            assert way.teams <= -(-B // grid.TILE)
            for product in (*passes.forward, *passes.backward):
                assert product.columns(way.parts) <= grid.QUAD * grid.THREADS
                assert product.columns(way.parts) * way.parts >= sum(product.widths)


def test_the_model_prefers_teams_except_for_large_products():
    def best(arch: str, H: int, B: int, item: int = 4) -> grid.Sharing | None:
        return grid.best_sharing(products(arch, H), B, item, *H200)

    assert best("lstm", 256, 256) == grid.Sharing(8, 16, 163984)
    assert best("mlstm", 512, 256) is not None
    assert best("lstm", 1024, 32) is not None
    assert best("lstm", 1024, 1024) is None  # cuBLAS is faster
    assert best("lstm", 1500, 1) is None  # 36 MB do not fit the shared memory of all processors
    assert best("lstm", 1024, 1, item=8) is None


class Kernel(SimpleNamespace):
    """A kernel of CuPy that notes its launches."""

    def __call__(self, *arguments: Any, **options: Any) -> None:
        self.launches.append((arguments, options))


@pytest.fixture
def cupy_backend():
    made, stream = [], SimpleNamespace(ptr=7)

    def module(code: str) -> Any:
        made.append(code)
        return SimpleNamespace(get_function=lambda name: SimpleNamespace(kernel=Kernel(ptr=name, launches=[])))

    cuda = SimpleNamespace(
        driver=SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=lambda *given: {("f", 64, 5000): 2}[given]),
        get_current_stream=lambda: stream,
    )
    backend = object.__new__(CupyBackend)
    zeros = lambda shape, dtype: np.zeros(shape, dtype)  # noqa: E731
    backend.xp = SimpleNamespace(cuda=cuda, RawModule=module, zeros=zeros, made=made)
    backend._device, backend._cooperates, backend.processors, backend.shared_memory = -1, True, 10, 9000
    yield backend
    for cache in (CupyBackend._functions, CupyBackend._barriers):
        for key in [key for key in cache if key[0] == -1]:
            del cache[key]


def test_cupy_counts_the_blocks_that_a_device_runs_and_keeps_counters_for_each_stream(cupy_backend):
    assert cupy_backend.resident_blocks("source", "f", 64, 5000) == 20
    cupy_backend._cooperates = False
    assert cupy_backend.resident_blocks("source", "f", 64, 5000) == 0
    first = cupy_backend.barriers(4)
    assert first.dtype == np.uint32
    assert cupy_backend.barriers(3) is first
    cupy_backend.xp.cuda.get_current_stream().ptr = 8
    assert cupy_backend.barriers(3) is not first
    assert cupy_backend.barriers(9).shape == (9,)


def test_cupy_compiles_a_source_once_and_launches_it_both_ways(cupy_backend):
    launch = cupy_backend.cuda_function("source", "f", cooperative=True)
    launch((3,), (64,), (1, 2), shared_mem=5000)
    function = cupy_backend.cuda_function("source", "f")
    expected = ((3,), (64,), (1, 2)), {"shared_mem": 5000, "enable_cooperative_groups": True}
    assert function.kernel.launches == [expected]
    assert function.max_dynamic_shared_size_bytes == 9000
    assert cupy_backend.resident_blocks("source", "f", 64, 5000) == 20
    assert cupy_backend.xp.made == ["source"]


@pytest.fixture
def sharing(monkeypatch):
    """Let a test choose the number of blocks of a team, and of its threads."""

    def choose(parts: int, threads: int = 64) -> None:
        def chosen(passes: grid.Passes, B: int, *device: int) -> grid.Sharing | None:
            return max((way for way in grid.sharings(passes, B, *device) if way.parts <= parts), default=None)

        monkeypatch.setattr(grid, "THREADS", threads)
        monkeypatch.setattr(grid, "best_sharing", chosen)

    return choose


def cooperative(processors: int = 12) -> FusedFakeBackend:
    return FusedFakeBackend(processors=processors, whole_segments=("grid",))


def largest_difference(arch: str, device: FusedFakeBackend, K: int, B: int, H: int, dtype: str = "float64") -> float:
    expected = routines(make_kernel(arch, H, {}), get_backend("numpy"), K, B, dtype)
    actual = routines(make_kernel(arch, H, {}, "cupy"), device, K, B, dtype)
    name = arch.removesuffix("-krause").removesuffix("-standard").replace("-", "_")
    assert f"grid_{name}_forward" in device.launches
    return max(float(np.abs(actual[name] - x).max() / max(1.0, np.abs(x).max())) for name, x in expected.items())


@pytest.mark.nightly
@pytest.mark.parametrize(("arch", "K", "B", "H", "parts", "threads"), [
    ("lstm", 3, 9, 70, 12, 64),  # the rows of the backward product lie in shared memory in two pieces
    ("mlstm", 2, 3, 21, 2, 256),
    ("gru", 2, 25, 13, 3, 64),
    ("gru-torch", 1, 8, 50, 7, 64),
    ("state-space", 3, 9, 33, 9, 64),  # 16 units, so some blocks have states but no units
    ("rnn", 4, 9, 23, 5, 64),
    ("leaky", 3, 17, 10, 4, 64),
    ("rate", 3, 1, 11, 3, 64),
    ("lstm-krause", 2, 9, 14, 6, 64),
    ("mlstm-standard", 3, 1, 9, 3, 64),
])  # fmt: skip
def test_teams_of_many_blocks_agree_with_the_reference(arch, K, B, H, parts, threads, sharing):
    sharing(parts, threads)
    assert largest_difference(arch, device := cooperative(), K, B, H) < 1e-12
    assert max(device.grids) >= parts - 1
    assert largest_difference(arch, device, K, B, H, "float32") < 1e-5


@pytest.mark.nightly
def test_bits_depend_neither_on_the_order_of_blocks_nor_on_the_counters(sharing):
    sharing(3)
    device = cooperative()
    first = routines(kernel := make_kernel("mlstm", 9, {}, "cupy"), device, 3, 17)
    device.barriers(1)._host[1 :: grid.LINE] = 2**32 - 2  # the generations overflow in this launch
    for _ in range(2):  # the blocks run in ascending and in descending order
        again = routines(kernel, device, 3, 17)
        assert all(np.array_equal(again[name], x) for name, x in first.items())
    assert not device.barriers(1)._host[:: grid.LINE].any()


@pytest.mark.nightly
@pytest.mark.parametrize("gone", [{"registers": 1100}, {"whole_segments": ()}, {"shared_memory": 8000}])
def test_steps_run_one_after_another_where_the_blocks_do_not_fit(gone, sharing):
    sharing(3)
    device, kernel = cooperative(), make_kernel("gru", 9, {}, "cupy")
    for name, value in gone.items():
        setattr(device, name, value)
    routines(kernel, device, 2, 3)
    assert {"gru_reset", "gru_rreset", "gru_backward_reset"} <= set(device.launches)
    assert not any(name.startswith("grid_") for name in device.launches)


BROKEN = {
    "no block waits": ("SPIN_WHILE(*generation == grid.seen[tile / grid.teams]);", ""),
    "no block tells": ("atomicAdd(arrivals + 1, 1u);", ""),
    "the arrivals are not set to 0": ("*(volatile unsigned*)arrivals = 0;", ""),
    "the first of the team goes on": ("== grid.parts - 1)", "== 0)"),
    "the last tile is left out": ("tile < (grid).tiles;", "tile < (grid).tiles - 1;"),
    "a sequence of the tile is left out": ("s < TILE; s++) grid.work[s", "s < TILE - 1; s++) grid.work[s"),
    "the last rows are left out": ("q < quads;", "q < quads - 1;"),
    "a slice is left out": ("z < sums;", "z < sums - 1;"),
    "threads do not wait for the values": ("__syncthreads();\n        const real* W_rows", "const real* W_rows"),
    "threads do not wait for the slices": ("sum[s][c];\n    __syncthreads();", "sum[s][c];"),
    "a block tells before all its threads have written": (
        "__syncthreads();\n    if (threadIdx.x == 0) {\n        unsigned*", "if (threadIdx.x == 0) {\n        unsigned*"
    ),
    "the barriers of two tiles share a counter": ("LINE = 32;", "LINE = 1;"),
    "each gate is the first": ("g * H, units);", "0, units);"),
    "a weight is left out": ("e < N * units.own;", "e < N * units.own - 1;"),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_kernel_is_noticed(broken, sharing, monkeypatch):
    sharing(3)
    text = grid.source("grid_lstm", "float64", threads=64)
    before, after = BROKEN[broken]
    assert before in text
    monkeypatch.setattr(grid, "source", lambda *arguments, **more: text.replace(before, after))
    with pytest.raises(AssertionError):
        assert largest_difference("lstm", cooperative(), 3, 17, 8) < 1e-12


GPU_SIZES = [("rnn", 300), ("lstm", 130), ("lstm-krause", 130), ("mlstm", 120), ("mlstm-standard", 120), ("leaky", 300),
             ("rate", 300), ("gru", 150), ("gru-torch", 150), ("state-space", 150)]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize(("arch", "H"), GPU_SIZES)
def test_a_gpu_computes_the_same_with_the_same_bits_every_time(arch, H, monkeypatch):
    try:
        gpu = get_backend("cupy")
    except hfrnn.MissingExtraError as error:
        pytest.skip(str(error))
    ran, run = set(), grid.GridKernels.run
    monkeypatch.setattr(grid.GridKernels, "run", lambda self, *given: (ran.add(given[0]), run(self, *given)))
    kernel: Any = make_kernel(arch, H, {}, "cupy")
    for K, B in ((1, 1), (6, 33), (40, 200)):
        fits = grid.best_sharing(kernel.products(), B, 8, gpu.shared_memory, gpu.processors) is not None
        expected = routines(make_kernel(arch, H, {}), get_backend("numpy"), K, B)
        first, *others = (routines(kernel, gpu, K, B) for _ in range(4))
        assert ran == (set(grid.ROUTINES) if fits else set())
        ran.clear()
        for name, x in expected.items():
            np.testing.assert_allclose(first[name], x, rtol=0, atol=1e-10 * max(1.0, np.abs(x).max()), err_msg=name)
            assert all(np.array_equal(each[name], first[name]) for each in others)
