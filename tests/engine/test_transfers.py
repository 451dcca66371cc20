"""How often the engine waits for a device: never in a product, nor in a gradient whose loss nobody asks for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.engine_cases import Case, moved, plans, small_problem, vectors
from support.fake_device import FakeBackend, transfers
from support.pairwise import label, tried

import hfrnn
from hfrnn.arrays.vectors import fetch

fake = FakeBackend()


@pytest.mark.parametrize(("case", "plan"), tried(["all", "all-3", "states-2", "nothing-3"]), ids=label)
def test_neither_a_product_nor_a_gradient_of_a_batch_from_the_host_waits(case: Case, plan: str) -> None:
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


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_loss_waits_twice(l2: float) -> None:
    """For the check of theta, and for the loss with its penalty."""
    net, batch, theta = small_problem(backend=fake, l2=l2)
    objective = hfrnn.Objective(net, batch)
    transfers.clear()
    objective.loss(theta)
    assert len(transfers) == 2
    objective.loss_and_gradient(theta)
    assert len(transfers) == 4
    assert fetch(objective.lazy_loss(theta)) == [objective.loss(theta)]
    assert len(transfers) == 7


def test_a_batch_on_the_device_is_checked_there() -> None:
    net, batch, _ = small_problem(backend=fake)
    there = moved(batch, fake)
    there.inputs[0, 0] = 7
    transfers.clear()
    with pytest.raises(hfrnn.InputError, match="input symbols go from 0 to 7"):
        hfrnn.Objective(net, there)
    assert transfers


def test_theta_that_is_not_finite_gives_a_gradient_that_is_not() -> None:
    net, batch, theta = small_problem(backend=fake)
    theta[3] = math.nan
    loss, gradient = hfrnn.Objective(net, batch).data_loss_and_gradient(theta)
    assert np.isnan(fetch(loss)[0])
    assert not np.isfinite(fake.to_host(gradient)).all()
    with pytest.raises(hfrnn.InputError, match="theta holds NaN"):
        hfrnn.Objective(net, batch).loss_and_gradient(theta)
