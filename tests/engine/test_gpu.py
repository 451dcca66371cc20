"""The derivative checks again, on a GPU."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import assert_same, cases, everything, moved, plans, vectors
from support.pairwise import label, tried
from support.tiny_runs import metrics, tiny_train

import hfrnn
from hfrnn.arrays.backend import Buffers, get_backend
from hfrnn.training.trainer import train

pytestmark = pytest.mark.gpu
NAMES = ("numpy", "cupy")
try:
    get_backend("cupy")
except hfrnn.MissingExtraError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture(scope="module")
def gpu():
    return get_backend("cupy")


@pytest.mark.parametrize(("case", "plan"), tried(["all", "all-3", "nothing-3"]), ids=label)
def test_everything_agrees_with_numpy_in_float64(gpu, case, plan):
    batch = case.data()
    theta, v, u = vectors(case.net(), batch)
    chosen = plans(batch.T, batch.B)[plan]
    expected = everything(case.net(), batch, theta, v, u, plan=chosen)
    actual = everything(case.net(backend=gpu), moved(batch, gpu), theta, v, u, plan=chosen)
    assert_same(actual, expected, rtol=1e-10)


@pytest.mark.parametrize("case", tried(), ids=label)
def test_float32_on_the_gpu_agrees_with_float64(gpu, case):
    batch = case.data()
    theta, v, u = (x.astype("float32") for x in vectors(case.net(), batch))
    expected = everything(case.net(), batch, theta, v, u)
    actual = everything(case.net(backend=gpu, dtype="float32"), moved(batch, gpu), theta, v, u)
    assert_same(actual, expected, rtol=1e-4)


def test_the_operator_is_cupyx_and_its_solver_takes_it(gpu):
    from cupyx.scipy.sparse import linalg

    case = cases("softmax")[0]
    net, batch = case.net(backend=gpu), case.data()
    theta = net.init(seed=1)
    G = net.gauss_newton(theta, batch, tikhonov=0.1)
    assert isinstance(G, linalg.LinearOperator)
    gradient = net.loss_and_gradient(theta, batch)[1]
    step, stopped = linalg.cg(G, -gradient, rtol=1e-10)
    assert stopped == 0
    residual = G @ step + gradient
    assert (residual * residual).sum().item() <= 1e-18 * (gradient * gradient).sum().item()


def test_results_are_arrays_of_the_gpu(gpu):
    case = cases("real")[0]
    net, batch = case.net(backend="cupy"), case.data()
    theta = net.init()
    results: list[Any] = [theta, *net.views(theta).values(), net.run(theta, batch)[0]]
    results += [net.loss_and_gradient(theta, batch)[1], net.gauss_newton(theta, batch) @ theta]
    assert all(isinstance(x, gpu.xp.ndarray) for x in results)
    assert type(net.loss(theta, batch)) is float


def test_initial_parameters_have_the_bits_of_numpy(gpu):
    case = cases("stack")[0]
    np.testing.assert_array_equal(gpu.to_host(case.net(backend=gpu).init(seed=3)), case.net().init(seed=3))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_rows_are_added_with_the_same_bits_every_time(gpu, dtype):
    rng = np.random.default_rng(0)
    index, rows = rng.integers(50, size=20_000), rng.standard_normal((20_000, 64)).astype(dtype)
    found = []
    for _ in range(5):
        sums = gpu.zeros((50, 64), dtype)
        gpu.add_rows(sums, gpu.row_groups(gpu.asarray(index)), gpu.asarray(rows))
        found.append(gpu.to_host(sums))
    assert all(np.array_equal(each, found[0]) for each in found)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_rows_are_taken_and_scatter_added_on_every_type(gpu, dtype):
    rng = np.random.default_rng(0)
    index = rng.integers(6, size=40)
    rows, table = (rng.standard_normal((n, 3)).astype(dtype) for n in (40, 6))
    expected = np.zeros((6, 5), "complex128" if dtype == "complex128" else "float64")  # a sum may cancel
    np.add.at(expected[:, 1:4], index, rows)
    actual = gpu.zeros((6, 5), dtype)
    groups, columns = gpu.row_groups(gpu.asarray(index)), actual[:, 1:4]
    gpu.add_rows(columns, groups, gpu.asarray(rows), Buffers(gpu, dtype))
    most = 40 * np.abs(rows).max() * np.finfo(dtype).eps  # the bound of the error of 40 additions
    np.testing.assert_allclose(gpu.to_host(actual), expected, rtol=0, atol=most)
    taken = gpu.empty((40, 3), dtype)
    gpu.take_rows(gpu.asarray(table), gpu.asarray(index), taken)
    np.testing.assert_array_equal(gpu.to_host(taken), table[index])


@pytest.mark.parametrize("optimizer", ["hf", "sgd", "adam", "soap", "muon"])
def test_a_run_on_the_gpu_agrees_with_numpy_and_resumes_with_the_same_bits(tmp_path, optimizer):
    options: dict[str, Any] = {"optimizer": optimizer, "dtype": "float64"}
    if optimizer != "hf":
        options |= {"gradient_symbols": None, "log_interval": 1}
    expected, whole = (tiny_train(tmp_path, name, backend=name, updates=4, **options).folder for name in NAMES)
    rough = 1e-2 if optimizer == "soap" else 1e-6  # bases of equal eigenvalues are any, and SOAP's steps depend on them
    for one, other in zip(metrics(whole), metrics(expected), strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=rough)
    run = tiny_train(tmp_path, backend="cupy", updates=2, **options).folder
    train(resume=run, updates=4)
    np.testing.assert_array_equal(hfrnn.load(run, "last").theta, hfrnn.load(whole, "last").theta)
