"""How often an optimizer waits for a device, and that its results there are those of the host."""

import itertools
import threading

import numpy as np
import pytest
from support.engine_cases import small_problem
from support.fake_device import FakeArray, FakeBackend, counts, transfers
from support.linear_systems import EXACT, spd

import hfrnn
from hfrnn.errors import NonFiniteError
from hfrnn.optim import kronecker as kronecker_file
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.cg import CGStop, conjugate_gradient, diagonal_preconditioner
from hfrnn.optim.first_order import SGD, Adam
from hfrnn.optim.kronecker import kronecker
from hfrnn.optim.muon import Muon
from hfrnn.optim.soap import SOAP

N = 24
BLOCKS = (MatrixBlock(0, 4, 6, gates=2),)
fake = FakeBackend()


@pytest.fixture(autouse=True)
def none_yet():
    transfers.clear()


def on(backend, x):
    return backend.asarray(x) if backend is fake else x.copy()


# ---------------------------------------------------------------------- conjugate gradient
def preconditioner(kind, backend):
    if kind == "diagonal":
        return diagonal_preconditioner(on(backend, np.geomspace(0.1, 10.0, N)), 0.3)
    gradients = np.random.default_rng(1).standard_normal((5, N))
    return kronecker(BLOCKS, on(backend, gradients)).preconditioner(0.3) if kind == "kronecker" else None


@pytest.mark.parametrize("bad", [np.nan, 1e200])
def test_kronecker_factors_that_are_not_finite_are_refused_on_a_device(bad):
    gradients = np.ones((3, N))
    gradients[1, 7] = bad
    with pytest.raises(NonFiniteError, match="the gradients of the parts are too large"):
        kronecker(BLOCKS, on(fake, gradients))
    assert len(transfers) == 1


def solve(backend, kind="none", indefinite=False, **options):
    """A run of CG; the transfers are those of its iterations and of its start."""
    A, b = spd(N, condition=30.0)
    matrix, made = on(backend, -A if indefinite else A), preconditioner(kind, backend)
    x0 = on(backend, np.linspace(0.0, 1.0, N)) if options.pop("warm", False) else None
    transfers.clear()

    def apply(v, out):
        out[:] = matrix @ v

    return conjugate_gradient(apply, on(backend, b), x0, preconditioner=made, **{**EXACT, **options})


EACH_KIND = pytest.mark.parametrize("kind", ["none", "diagonal", "kronecker"])
EACH_START = pytest.mark.parametrize("options", [{}, {"residual_every": 3}, {"warm": True}], ids=str)


@EACH_KIND
@EACH_START
def test_an_iteration_of_cg_waits_once(kind, options):
    waits = []

    def on_iterate(iterate):
        waits.append(len(transfers))

    found = solve(fake, kind, max_iterations=12, on_iterate=on_iterate, **options)
    assert found.iterations == 12
    assert waits[0] <= 3  # the norm of b, the start, and the first iteration
    assert np.diff(waits).tolist() == [1] * 11
    assert len(transfers) == waits[-1]


@EACH_KIND
@EACH_START
def test_a_run_of_cg_on_a_device_is_that_of_the_host(kind, options):
    host, device = (solve(backend, kind, epsilon=1e-6, **options) for backend in (np, fake))
    assert (device.iterations, device.stop, device.products) == (host.iterations, host.stop, host.products)
    np.testing.assert_allclose(device.x._host, host.x, rtol=0, atol=1e-12)
    for name in ("q", "residual_norm", "preconditioned_norm", "residual_drift", "smallest_curvature"):
        expected = getattr(host, name)
        assert getattr(device, name) == (None if expected is None else pytest.approx(expected, rel=1e-12)), name
    assert len(device.iterates) == len(host.iterates) > 5
    for (i, q, x), (at, value, right) in zip(device.iterates, host.iterates, strict=True):
        assert (i, q) == (at, pytest.approx(value, rel=1e-12))
        np.testing.assert_allclose(x._host, right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "diagonal"])
def test_a_step_without_curvature_is_discarded_on_a_device(kind):
    host, device = (solve(backend, kind, indefinite=True) for backend in (np, fake))
    assert host.stop is device.stop is CGStop.CURVATURE
    assert (device.iterations, device.q, device.q_history) == (0, 0.0, (0.0,))
    assert not device.x._host.any()
    assert device.smallest_curvature == pytest.approx(host.smallest_curvature, rel=1e-12)
    assert device.residual_norm == host.residual_norm


@pytest.mark.parametrize(("after", "bad"), [(0, np.nan), (4, np.inf)])
def test_a_product_that_is_not_finite_ends_a_run_on_a_device_at_the_last_good_iterate(after, bad):
    found = []
    for backend in (np, fake):
        A, b = spd(N, condition=30.0)
        matrix, calls = on(backend, A), [0]

        def apply(v, out, matrix=matrix, calls=calls):
            out[:] = matrix @ v
            if calls[0] == after:
                out[3] = bad
            calls[0] += 1

        found.append(conjugate_gradient(apply, on(backend, b), **EXACT))
    host, device = found
    assert host.stop is device.stop is CGStop.NON_FINITE
    assert device.iterations == host.iterations == after
    np.testing.assert_allclose(device.x._host, host.x, rtol=0, atol=1e-12)
    assert device.q == pytest.approx(host.q, rel=1e-12)


def test_a_device_multiplies_all_gates_of_a_block_at_once():
    blocks = (MatrixBlock(0, 4, 6, gates=2), MatrixBlock(24, 1, 6, gates=3), MatrixBlock(30, 3, 1))
    gradients, r = np.random.default_rng(1).standard_normal((5, 33)), np.linspace(-1.0, 1.0, 33)
    found = []
    for backend in (np, fake):
        apply, out = kronecker(blocks, on(backend, gradients)).preconditioner(0.3), on(backend, np.empty(33))
        counts.clear()
        apply(on(backend, r), out)
        found.append(out)
    np.testing.assert_allclose(found[1]._host, found[0], rtol=0, atol=1e-12)
    assert counts["__matmul__"] == 4 + 2 + 2


# ---------------------------------------------------------------------- Hessian-free updates

FIXED = {"none": 7, "diagonal": 8, "kronecker": 11}
"""Most transfers of an update beside those of CG's iterations and of trial losses: 3 for the gradient, 1 for the
operator, 2 for the start of CG, 1 for the line search; 1 for a diagonal, 4 for Kronecker factors."""


@pytest.mark.parametrize(("kind", "damping"), [
    ("none", "line-search"), ("diagonal", "tikhonov"), ("kronecker", "structural"),
    pytest.param("none", "structural", marks=pytest.mark.slow),
    pytest.param("kronecker", "line-search", marks=pytest.mark.slow),
])  # fmt: skip
def test_an_update_waits_once_an_iteration_and_once_a_trial_loss(kind, damping):
    options = hfrnn.HessianFreeOptions(
        preconditioner=kind, preconditioner_shift=0.1 if kind != "none" else None, cg_iterations=8, residual_every=4
    )
    (net, batch, theta), (its_net, its_batch, _) = (small_problem(backend=backend) for backend in ("numpy", fake))
    optimizer, its = (hfrnn.HessianFree(hfrnn.Damping(damping), options) for _ in range(2))
    for _ in range(3):
        host = optimizer.update(theta, hfrnn.Objective(net, batch))
        start = fake.asarray(theta)  # the host's, because roundings grow from update to update
        transfers.clear()
        device = its.update(start, hfrnn.Objective(its_net, its_batch))
        assert len(transfers) <= FIXED[kind] + device.cg_iterations + device.evaluations
        assert host.success or damping == "line-search"
        assert (device.cg_iterations, device.cg_stop) == (host.cg_iterations, host.cg_stop)
        np.testing.assert_allclose(device.theta._host, host.theta, rtol=0, atol=1e-10 * np.abs(host.theta).max())
        theta = host.theta


def test_threads_of_the_host_share_the_eigenvectors_of_factors_on_a_device(monkeypatch):
    net, batch, theta = small_problem(backend=fake)
    options = hfrnn.HessianFreeOptions(preconditioner="kronecker", preconditioner_shift=0.1, cg_iterations=3)

    def updated(threads):
        return hfrnn.HessianFree(options=options).update(theta, hfrnn.Objective(net, batch, threads=threads)).theta

    expected, meet, numbers, inner = updated(1), threading.Barrier(2), itertools.count(), kronecker_file.eigenvectors

    def eigenvectors(A):
        if next(numbers) < 2:
            meet.wait(timeout=20)  # for another thread
        return inner(A)

    monkeypatch.setattr(kronecker_file, "eigenvectors", eigenvectors)
    np.testing.assert_array_equal(updated(2)._host, expected._host)
    assert next(numbers) > 2


# ---------------------------------------------------------------------- first-order steps

MAKERS = {"sgd": SGD, "adam": Adam, "soap": lambda: SOAP(BLOCKS), "muon": lambda: Muon(BLOCKS)}
GRADIENTS = np.random.default_rng(0).standard_normal((8, N))


@pytest.fixture(params=MAKERS)
def optimizer(request):
    return MAKERS[request.param]()


def after(optimizer, gradients, start=None):
    """Parameters after lazy steps on the device."""
    theta = fake.asarray(np.linspace(-1, 1, N)) if start is None else start
    for g in gradients:
        theta = optimizer.lazy_step(theta, fake.asarray(g), 0.1)
    return theta


def test_a_lazy_step_does_not_wait_and_goes_where_a_step_goes(optimizer):
    theta, found = np.linspace(-1, 1, N), after(optimizer, GRADIENTS)
    assert not transfers
    optimizer.check()
    assert len(transfers) == 1
    again = MAKERS[optimizer.kind]()
    for g in GRADIENTS:
        theta = again.step(theta, g, 0.1)
    np.testing.assert_allclose(found._host, theta, rtol=0, atol=1e-12)
    assert optimizer.steps == 8


@pytest.mark.parametrize(("good", "bad"), [(0, np.nan), (3, np.inf)])
def test_a_lazy_step_that_is_not_finite_stops_all_later_ones_until_the_check(optimizer, good, bad):
    wrong = GRADIENTS[0].copy()
    wrong[5] = bad
    before = after(optimizer, GRADIENTS[:good])
    expected = before._host.copy()
    last = after(optimizer, [wrong, *GRADIENTS[good:]], before)
    assert not transfers
    np.testing.assert_array_equal(last._host, expected)
    with pytest.raises(NonFiniteError, match="The gradient or step is not finite"):
        optimizer.check()
    assert optimizer.steps == good
    optimizer.check()  # once
    straight = MAKERS[optimizer.kind]()
    right = after(straight, GRADIENTS)
    np.testing.assert_array_equal(after(optimizer, GRADIENTS[good:], last)._host, right._host)
    for name, value in straight.state_dict().items():
        if isinstance(value, FakeArray):
            np.testing.assert_array_equal(optimizer.state_dict()[name]._host, value._host)


@pytest.mark.parametrize("good", [0, 1])
def test_a_state_is_that_of_the_good_steps(optimizer, good):
    after(optimizer, [*GRADIENTS[:good], GRADIENTS[1] * np.nan, GRADIENTS[2]])
    with pytest.raises(NonFiniteError):
        optimizer.state_dict()
    state = optimizer.state_dict()
    assert state["steps"] == good
    assert all((state[name] is None) == (good == 0) for name in optimizer.vectors)
