"""Everything that the engine does, on a device whose arrays refuse to become NumPy arrays."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import assert_same, cases, everything, moved, plans, vectors
from support.fake_device import FakeArray, FakeBackend, HostAsDevice
from support.pairwise import label, tried

import hfrnn

fake, host = FakeBackend(), HostAsDevice()


@pytest.mark.parametrize(("case", "plan"), tried(["all", "all-3", "states-2", "nothing-3"]), ids=label)
def test_everything_on_the_device_has_the_bits_of_numpy(case, plan):
    batch = case.data()
    theta, v, u = vectors(case.net(), batch)
    chosen = plans(batch.T, batch.B)[plan]
    expected = everything(case.net(backend=host), batch, theta, v, u, plan=chosen)
    actual = everything(case.net(backend=fake), moved(batch, fake), theta, v, u, plan=chosen)
    assert_same(actual, expected)


@pytest.mark.parametrize("case", cases("softmax", "embedding", "many-symbols", "class-softmax")[::9], ids=label)
def test_the_order_of_sums_on_the_device_changes_only_the_last_bits(case):
    batch = case.data()
    theta, v, u = vectors(case.net(), batch)
    chosen = plans(batch.T, batch.B)["all"]
    expected, actual = (everything(case.net(backend=of), batch, theta, v, u, plan=chosen) for of in ("numpy", host))
    assert_same(actual, expected, rtol=1e-13)


@pytest.mark.parametrize("case", cases("softmax", "chain", "embedding")[::10], ids=label)
def test_a_batch_of_host_arrays_is_carried_to_the_device(case):
    batch = case.data()
    theta, v, u = vectors(case.net(), batch)
    expected = everything(case.net(), batch, theta, v, u, checkpoint="auto")
    actual = everything(case.net(backend=fake), batch, theta, v, u, checkpoint="auto")
    assert_same(actual, expected, rtol=1e-13)


@pytest.mark.parametrize("case", cases("softmax", "real")[::5], ids=label)
def test_results_live_on_the_device(case):
    net, batch = case.net(backend=fake), case.data()
    theta = net.init(seed=1)
    np.testing.assert_array_equal(fake.to_host(theta), case.net().init(seed=1))
    assert all(isinstance(view, FakeArray) for view in net.views(theta).values())
    logits, state = net.run(theta, batch)
    loss, gradient = net.loss_and_gradient(theta, batch)
    assert type(loss) is float
    on_device = [logits, gradient, net.gauss_newton(theta, batch) @ theta, net.log_probabilities(theta, batch)]
    on_device += [value for layer in state for value in layer.values() if not isinstance(value, int)]
    assert all(isinstance(x, FakeArray) for x in on_device)


MASK = np.random.default_rng(0).random((6, 6)) < 0.5


def constrained_results(backend: Any) -> list[Any]:
    net = hfrnn.Network("rnn", 3, 6, 2, loss="squared", dtype="float64", activation="relu", backend=backend, l2=0.1)
    constraints = hfrnn.Constraints(net, {"layer0.W_h": MASK}, {"layer0.W_h": [1, 1, 1, -1, -1, 0]})
    rng = np.random.default_rng(1)
    batch = hfrnn.Batch(rng.standard_normal((7, 5, 3)), rng.standard_normal((7, 5, 2)))
    objective = hfrnn.ConstrainedObjective(hfrnn.Objective(net, batch, threads=1), constraints)
    v = constraints.variables(constraints.initial(net.init(1)))
    v = v - 0.1 * objective.loss_and_gradient(v)[1]
    w = constraints.weights(v)
    constraints.restrict(v)
    return [
        v, w, constraints.variables(w, like=v), objective.hessian(v) @ v, objective.gauss_newton(v, 0.1, 0.1) @ v,
        objective.squared_gradients(v), objective.part_gradients(v, 3), objective.jacobian(v) @ v, objective.exists,
    ]  # fmt: skip


def test_results_under_constraints_have_the_bits_of_numpy():
    for expected, actual in zip(constrained_results("numpy"), constrained_results(fake), strict=True):
        assert isinstance(actual, FakeArray)
        assert expected.any()
        np.testing.assert_array_equal(actual._host, expected)


def test_the_device_refuses_the_host():
    x, host, cell = fake.asarray(np.ones(3)), np.ones(3), fake.asarray(np.ones(()))
    for call in (
        lambda: np.tanh(x), lambda: np.asarray(x), lambda: float(cell), lambda: bool(cell), lambda: list(x),
        lambda: host + x, lambda: x.__iadd__(host), lambda: x * np.float64(2), lambda: host.__setitem__(..., x),
        lambda: x[x > 0], lambda: x.__setitem__(..., host), lambda: fake.xp.tanh(host),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()
