"""What the objective promises beside the right numbers: no dependence on how it is computed, no side effects."""

import gc
import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse.linalg
from support.engine_cases import assert_same, everything, moved, plans, small_problem, vectors
from support.fake_device import FakeBackend, transfers
from support.pairwise import each_once, label, tried

import hfrnn
from hfrnn.arrays.vectors import fetch
from hfrnn.engine.plan import Keep, Plan
from hfrnn.errors import InputError


@pytest.mark.parametrize("out", [False, True])
def test_the_loss_of_the_data_is_without_the_penalty_and_the_gradient_with_it(out):
    net, batch, theta = small_problem(l2=0.4)
    f, plain = hfrnn.Objective(net, batch), hfrnn.Objective(net.without_penalty(), batch)
    expected, place = f.loss_and_gradient(theta)[1], theta.copy()
    loss, gradient = f.data_loss_and_gradient(place, place) if out else f.data_loss_and_gradient(theta)
    assert loss == plain.loss_and_gradient(theta)[0]
    np.testing.assert_array_equal(gradient, expected)
    assert (gradient is place) == out
    place = theta.copy()
    assert f.loss_and_gradient(place, place)[0] == loss + 0.2 * (theta @ theta)


@pytest.mark.parametrize(("case", "plan"), tried(["all-3", "states-2", "nothing-3", "nothing-1", "nothing"]), ids=label)
def test_results_depend_neither_on_the_plan_nor_on_the_threads(case, plan):
    net, batch = case.net(), case.data()
    numbers, chosen = vectors(net, batch), plans(batch.T, batch.B)
    one, two = (everything(net, batch, *numbers, plan=chosen[plan], threads=threads) for threads in (1, 2))
    assert_same(one, everything(net, batch, *numbers, plan=chosen["all"]), rtol=1e-12)
    assert_same(two, one)


@pytest.mark.parametrize("checkpoint", [1, 3, "sqrt", "auto", 100])
def test_results_do_not_depend_on_the_checkpoints(checkpoint):
    net, batch, _ = small_problem()
    numbers = vectors(net, batch)
    expected = everything(net, batch, *numbers, checkpoint=None)
    assert_same(everything(net, batch, *numbers, checkpoint=checkpoint), expected, rtol=1e-12)


@pytest.mark.parametrize("keep", list(Keep))
def test_any_number_of_threads_gives_the_same_bits_in_float32(keep):
    net, batch, _ = small_problem("float32")
    numbers, plan = vectors(net, batch), Plan((0, 1, 2, 3, 4), 4, keep)
    one, two, five = (everything(net, batch, *numbers, plan=plan, threads=threads) for threads in (1, 2, 5))
    assert_same(two, one)
    assert_same(five, one)


@pytest.mark.parametrize("case", each_once(), ids=label)
def test_the_network_alone_gives_the_same_as_its_objective(case):
    net, batch = case.net(), case.data()
    theta, v, u = vectors(net, batch)
    f = hfrnn.Objective(net, batch, plan=Plan((0, batch.B), None, Keep.ALL))
    assert net.loss(theta, batch) == f.loss(theta)
    loss, gradient = net.loss_and_gradient(theta, batch)
    assert loss == f.loss_and_gradient(theta)[0] == pytest.approx(f.loss(theta), rel=1e-13)
    np.testing.assert_array_equal(gradient, f.loss_and_gradient(theta)[1])
    products = [
        (net.gauss_newton(theta, batch, 0.3, 0.2), f.gauss_newton(theta, structural=0.3, tikhonov=0.2)),
        (net.hessian(theta, batch), f.hessian(theta)),
        (net.jacobian(theta, batch), f.jacobian(theta)),
    ]
    for mine, theirs in products:
        np.testing.assert_array_equal(mine @ v, theirs @ v)
    np.testing.assert_array_equal(products[2][0].rmatvec(u), products[2][1].rmatvec(u))


@pytest.mark.parametrize("case", each_once(), ids=label)
def test_the_loss_with_logits_has_the_bits_of_the_loss_and_the_logits_of_a_run(case):
    net, batch = case.net(l2=0.3), case.data()
    theta = vectors(net, batch)[0]
    expected = net.run(theta, batch)[0]
    for threads in (1, 3):
        f = hfrnn.Objective(net, batch, threads=threads, checkpoint=3)
        loss, logits = f.loss_and_logits(theta)
        assert loss == f.loss(theta)
        np.testing.assert_allclose(logits, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", tried(), ids=label)
def test_float32_agrees_with_float64(case):
    batch = case.data()
    theta, v, u = (x.astype("float32") for x in vectors(case.net(), batch))
    expected = everything(case.net(), batch, theta, v, u)
    actual = everything(case.net(dtype="float32"), batch, theta, v, u)
    assert_same(actual, expected, rtol=1e-4)
    for name in ("gradient", "G", "J v", "J' u", "logits"):
        assert actual[name].dtype == np.float32
        assert expected[name].dtype == actual["H"].dtype == np.float64


@pytest.mark.parametrize(("case", "plan"), each_once(["all-3", "states-2", "nothing-3"]), ids=label)
def test_operators_stay_right_whatever_is_computed_next(case, plan):
    net, batch = case.net(), case.data()
    theta, v, u = vectors(net, batch)
    other = vectors(net, batch, seed=9)[0]
    f = hfrnn.Objective(net, batch, plan=plans(batch.T, batch.B)[plan], threads=1)
    G, J, H = f.gauss_newton(theta, structural=0.7), f.jacobian(theta), f.hessian(theta)
    expected = [G @ v, J @ v, J.rmatvec(u), H @ v]
    theta[...] = np.nan  # the caller's array is the caller's
    f.gauss_newton(other) @ v
    f.jacobian(other).rmatvec(u)
    f.loss_and_gradient(other)
    f.loss(other)
    for actual, wanted in zip([G @ v, J @ v, J.rmatvec(u), H @ v], expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_results_are_fresh_arrays():
    net, batch, theta = small_problem()
    f = hfrnn.Objective(net, batch)
    G = f.gauss_newton(theta)
    calls = [lambda: f.loss_and_gradient(theta)[1], lambda: G @ theta, lambda: net.run(theta, batch)[0], net.init]
    for call in calls:
        first = call()
        copy = first.copy()
        assert not np.shares_memory(first, call())
        first[...] = np.nan
        np.testing.assert_array_equal(call(), copy)


@pytest.mark.parametrize("case", each_once(), ids=label)
def test_inputs_are_never_written(case):
    net, batch = case.net(), case.data()
    arrays = [*vectors(net, batch), batch.inputs, batch.targets, batch.weights, batch.lengths]
    arrays += [value for layer in batch.initial_state or [] for value in layer.values() if not isinstance(value, int)]
    arrays = [x for x in arrays if x is not None]
    for x in arrays:
        x.flags.writeable = False
    for plan in ("all-3", "nothing-3"):
        everything(net, batch, *arrays[:3], plan=plans(batch.T, batch.B)[plan])


KEPT = [(Keep.ALL, "softmax"), (Keep.ALL, "squared"), (Keep.ALL, "logistic"), (Keep.NOTHING, "softmax")]


@pytest.mark.parametrize(
    ("arch", "keep", "loss"), [(arch, *KEPT[n % len(KEPT)]) for n, arch in enumerate(hfrnn.architectures())]
)
def test_a_second_apply_allocates_neither_a_vector_nor_states(arch, keep, loss):
    """What remains is NumPy's own (at most 114 kB measured here) beside sums over outputs."""
    rng = np.random.default_rng(0)
    T, B, H, V = 24, 16, 128, 200
    net = hfrnn.Network(arch, n_in=V, hidden=H, n_out=V, loss=loss)
    targets = rng.integers(V, size=(T, B)) if loss == "softmax" else rng.random((T, B, V))
    batch = hfrnn.Batch(rng.integers(V, size=(T, B)), targets)
    f = hfrnn.Objective(net, batch, threads=1, plan=Plan((0, 8, B), 8, keep))
    G = f.gauss_newton(net.init(), structural=0.5, tikhonov=0.1)
    v, out = net.init(seed=2), net.init()
    for _ in range(2):
        G.apply(v, out)
    gc.collect()
    tracemalloc.start()
    try:
        G.apply(v, out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * v.nbytes
    assert peak < 0.7 * 4 * T * B * H


def test_scipys_solvers_take_the_operator():
    net, batch, theta = small_problem(arch="mrnn")
    f = hfrnn.Objective(net, batch)
    G, gradient = f.gauss_newton(theta, structural=0.1, tikhonov=0.5), f.loss_and_gradient(theta)[1]
    step, status = scipy.sparse.linalg.cg(G, -gradient, rtol=1e-10, maxiter=2000)
    assert status == 0
    assert np.linalg.norm(G @ step + gradient) < 1e-8 * np.linalg.norm(gradient)
    value, vector = scipy.sparse.linalg.eigsh(G, k=1, which="LA")
    np.testing.assert_allclose(G @ vector[:, 0], value[0] * vector[:, 0], atol=1e-9 * value[0])
    assert value[0] == pytest.approx(np.linalg.eigvalsh(G @ np.eye(G.shape[0])).max(), rel=1e-9)


def test_operators_are_scipys_with_shape_and_type():
    net, batch, theta = small_problem("float32")
    n = net.n_parameters
    operators = [(net.gauss_newton(theta, batch), (n, n), "float32"), (net.hessian(theta, batch), (n, n), "float64")]
    operators += [(net.jacobian(theta, batch), (9 * 4 * 5, n), "float32")]
    for operator, shape, dtype in operators:
        assert isinstance(operator, scipy.sparse.linalg.LinearOperator)
        assert operator.shape == shape
        assert operator.dtype == dtype
        assert operator.T.shape == shape[::-1]
    assert (operators[0][0] @ np.ones((n, 2), "float32")).shape == (n, 2)


fake = FakeBackend()


@pytest.mark.parametrize(("case", "plan"), tried(["all", "all-3", "states-2", "nothing-3"]), ids=label)
def test_neither_a_product_nor_a_gradient_of_a_batch_from_the_host_waits(case, plan):
    batch = case.data()
    theta, chosen = fake.asarray(vectors(case.net(), batch)[0]), plans(batch.T, batch.B)[plan]
    before = hfrnn.Objective(case.net(backend=fake), batch, plan=chosen)
    G, out = before.gauss_newton(theta, structural=0.3, tikhonov=0.1), theta.copy()
    transfers.clear()
    G.apply(theta, out)
    assert not transfers
    objective = hfrnn.Objective(before.net, batch, plan=chosen, like=before)
    loss, gradient = objective.data_loss_and_gradient(theta)
    batch.with_state(objective.final_state())
    assert not transfers
    (found,) = fetch(loss)
    assert len(transfers) == 1
    expected, right = hfrnn.Objective(case.net(), batch, plan=chosen).data_loss_and_gradient(fake.to_host(theta))
    assert found == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(fake.to_host(gradient), right, rtol=0, atol=1e-13 * np.abs(right).max())


def test_a_batch_on_the_device_is_checked_there():
    net, batch, _ = small_problem(backend=fake)
    there = moved(batch, fake)
    there.inputs[0, 0] = 7
    transfers.clear()
    with pytest.raises(hfrnn.InputError, match="input symbols go from 0 to 7"):
        hfrnn.Objective(net, there)
    assert transfers


def test_theta_that_is_not_finite_gives_a_gradient_that_is_not():
    net, batch, theta = small_problem(backend=fake)
    theta[3] = math.nan
    loss, gradient = hfrnn.Objective(net, batch).data_loss_and_gradient(theta)
    assert np.isnan(fetch(loss)[0])
    assert not np.isfinite(fake.to_host(gradient)).all()
    with pytest.raises(hfrnn.InputError, match="theta holds NaN"):
        hfrnn.Objective(net, batch).loss_and_gradient(theta)


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"closed_loop": 3}, {"comm": 3}, {"noise": 3}])
def test_wrong_arguments_are_refused_before_a_plan_is_measured_which_compiles_loops(monkeypatch, wrong) -> None:
    monkeypatch.setattr("hfrnn.engine.objective.make_plan", None)
    net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    with pytest.raises(InputError, match=next(iter(wrong))):
        hfrnn.Objective(net, hfrnn.Batch(np.zeros((5, 4, 2)), np.zeros((5, 4, 1))), **wrong)
