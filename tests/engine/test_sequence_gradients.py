"""Derivatives of each sequence by itself, against objectives on one sequence."""

from __future__ import annotations

import numpy as np
import pytest
from support.engine_cases import VARIANTS, Case, cases, moved, vectors
from support.fake_device import FakeBackend
from support.pairwise import each_once, label, tried

import hfrnn
from hfrnn.engine.plan import Keep, Plan
from hfrnn.errors import InputError

chosen = {"stack", "embedding", "learned-state", "many-symbols", "class-softmax", "output-weights", *VARIANTS}


@pytest.mark.parametrize("case", tried(of=[case for case in cases() if case.situation in chosen]), ids=label)
def test_rows_are_the_gradients_of_objectives_on_one_sequence(case: Case) -> None:
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net, batch)
    rows = objective.per_sequence_gradients(theta)
    assert rows.shape == (batch.B, net.n_parameters)
    weights = objective.batch.step_weights(net.backend).sum(axis=0)
    for b in range(batch.B):
        expected = np.zeros(net.n_parameters)
        if weights[b]:
            alone = hfrnn.Objective(net, batch.columns(b, b + 1))
            expected = weights[b] * (alone.loss_and_gradient(theta)[1] - net.l2 * theta)
        for name, part in net.views(rows[b]).items():
            np.testing.assert_allclose(part, net.views(expected)[name], rtol=1e-10, atol=1e-13, err_msg=name)


@pytest.mark.parametrize(
    "case", tried(of=[case for case in cases() if case.situation in {"stack", *VARIANTS}]), ids=label
)
def test_compiled_kernels_give_the_rows_of_the_reference(case: Case) -> None:
    pytest.importorskip("numba")
    batch = case.data()
    theta = vectors(case.net(), batch)[0]
    found, expected = (
        hfrnn.Objective(case.net(backend=backend), batch).per_sequence_gradients(theta)
        for backend in ("numba", "numpy")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("case", cases("stack"), ids=label)
def test_rows_on_a_device_are_those_of_the_host(case: Case) -> None:
    fake, batch = FakeBackend(), case.data()
    theta = vectors(case.net(), batch)[0]
    expected = hfrnn.Objective(case.net(), batch, threads=1).per_sequence_gradients(theta)
    device = hfrnn.Objective(case.net(backend=fake), moved(batch, fake))
    found = fake.to_host(device.per_sequence_gradients(fake.asarray(theta)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("keep", Keep)
def test_rows_do_not_depend_on_the_plan_or_the_threads(keep: Keep) -> None:
    case = cases("stack")[0]
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    expected = hfrnn.Objective(net, batch).per_sequence_gradients(theta)
    plan = Plan((0, 2, 3, 5), 3, keep)
    one, three = (hfrnn.Objective(net, batch, threads=n, plan=plan).per_sequence_gradients(theta) for n in (1, 3))
    np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(one, expected, rtol=1e-10, atol=1e-14)


def test_rows_contain_the_state_noise_of_their_sequences() -> None:
    case = cases("stack")[0]
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net, batch, noise=hfrnn.StateNoise(0.3))
    mean = objective.per_sequence_gradients(theta).sum(axis=0) / objective.total_weight
    np.testing.assert_allclose(mean, objective.loss_and_gradient(theta)[1] - net.l2 * theta, rtol=1e-10, atol=1e-14)


def test_the_output_is_overwritten() -> None:
    case = cases("squared")[0]
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net, batch)
    out = np.ones((batch.B, net.n_parameters))
    assert objective.per_sequence_gradients(theta, out) is out
    np.testing.assert_array_equal(out, objective.per_sequence_gradients(theta))
    with pytest.raises(InputError, match="give an array of shape"):
        objective.per_sequence_gradients(theta, out[:-1])


@pytest.mark.parametrize(("case", "keep"), each_once(Keep, of=cases("stack", "carried", "class-softmax")), ids=label)
def test_products_with_the_transposed_jacobian_of_sequences_add_up_to_the_whole(case: Case, keep: Keep) -> None:
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    plan = Plan((0, 2, batch.B), 3, keep)
    objective = hfrnn.Objective(net, batch, plan=plan)
    jacobian, whole = objective.sequence_jacobian(theta), objective.jacobian(theta)
    u = np.random.default_rng(1).standard_normal(jacobian.shape)
    for _ in range(2):
        rows = jacobian.transpose_products(u)
        for b in range(batch.B):
            alone = np.zeros_like(u)
            alone[:, b] = u[:, b]
            np.testing.assert_allclose(rows[b], whole.rmatvec(alone.reshape(-1)), rtol=1e-10, atol=1e-13)


def test_the_result_may_overwrite_the_arguments() -> None:
    net = hfrnn.Network("rnn", 3, 4, 2, loss="squared", dtype="float64")
    rng = np.random.default_rng(0)
    batch, theta = hfrnn.Batch(rng.standard_normal((5, 2, 3)), rng.standard_normal((5, 2, 2))), net.init(0)
    objective = hfrnn.Objective(net, batch)
    rows = np.tile(theta, (2, 1))
    expected = objective.per_sequence_gradients(theta)
    np.testing.assert_array_equal(objective.per_sequence_gradients(rows[0], out=rows), expected)
    jacobian = objective.sequence_jacobian(theta)
    memory = rng.standard_normal(2 * net.n_parameters)
    u = memory[:20].reshape(5, 2, 2)
    expected = jacobian.transpose_products(u.copy())
    np.testing.assert_array_equal(jacobian.transpose_products(u, out=memory.reshape(2, -1)), expected)
