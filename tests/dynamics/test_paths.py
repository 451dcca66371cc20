"""States along sequences, by condition, and after a change of the state."""

from __future__ import annotations

import numpy as np
import pytest

import hfrnn
from hfrnn.data.scaling import Scaling
from hfrnn.dynamics import perturb, to_vectors, trajectories

NET = hfrnn.Network("lstm", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
THETA = NET.init(seed=0, scale=0.7)
X = np.random.default_rng(0).standard_normal((6, 4, 2))
SCALING = Scaling(np.array([1.0, -1]), np.array([2.0, 3]), np.array([5.0]), np.array([0.5]))


def test_trajectories_are_those_of_predict() -> None:
    batch = hfrnn.Batch(X, lengths=[6, 4, 6, 2])
    found = trajectories(NET, THETA, batch, scaling=SCALING)
    expected = hfrnn.predict(NET, THETA, batch, states=True, scaling=SCALING)
    exists = np.arange(6)[:, None] < np.array([6, 4, 6, 2])
    np.testing.assert_allclose(found.outputs[exists], expected.outputs[exists], rtol=1e-12)
    np.testing.assert_allclose(found.states[exists], to_vectors(NET, expected.states)[exists], rtol=1e-12, atol=1e-14)
    assert np.isnan(found.states[~exists]).all()
    assert found.visited().shape == (18, 6)
    state = [{"h": np.full((4, 3), 0.1), "c": np.full((4, 3), 0.2)}]
    begun = trajectories(NET, THETA, hfrnn.Batch(X, initial_state=state))
    np.testing.assert_allclose(begun.outputs, NET.run(THETA, hfrnn.Batch(X, initial_state=state))[0], rtol=1e-12)


def test_means_and_frames_follow_the_conditions() -> None:
    pd = pytest.importorskip("pandas")
    conditions = pd.DataFrame({"side": ["a", "b", "a", "b"], "level": [1, 2, 3, 4]})
    found = trajectories(NET, THETA, hfrnn.Batch(X, lengths=[6, 4, 6, 2]), conditions)
    values, states, outputs = found.means("side")
    assert values == ["a", "b"]
    np.testing.assert_allclose(states[0], found.states[:, [0, 2]].mean(axis=1))
    np.testing.assert_allclose(outputs[1, 2:4], found.outputs[2:4, 1])
    assert np.isnan(outputs[1, 4:]).all()
    frame = found.to_frame()
    assert len(frame) == 18
    row = frame[(frame["sequence"] == 1) & (frame["step"] == 3)].iloc[0]
    assert (row["side"], row["level"]) == ("b", 2)
    assert row["layer0.c[2]"] == found.states[3, 1, 2]
    assert row["output0"] == found.outputs[3, 1, 0]
    with pytest.raises(hfrnn.InputError, match="condition is 'x'"):
        found.means("x")
    with pytest.raises(hfrnn.InputError, match="one value for each sequence"):
        trajectories(NET, THETA, hfrnn.Batch(X), {"side": ["a"]})


def test_components_are_those_of_the_covariance() -> None:
    found = trajectories(NET, THETA, hfrnn.Batch(X))
    components, states = found.components(2), found.visited()
    variances, directions = np.linalg.eigh(np.cov(states.T))
    np.testing.assert_allclose(components.shares, variances[::-1][:2] / variances.sum(), rtol=1e-10)
    np.testing.assert_allclose(abs(components.directions @ directions[:, ::-1][:, :2]), np.eye(2), atol=1e-8)
    assert components.project(found.states).shape == (6, 4, 2)
    assert trajectories(NET, THETA, hfrnn.Batch(X[:1, :2])).components(6).directions.shape == (6, 6)


def test_a_perturbed_run_is_the_run_from_the_changed_state() -> None:
    state = np.random.default_rng(1).standard_normal((4, 6))
    changes = np.random.default_rng(2).standard_normal((2, 4, 6))
    found = perturb(NET, THETA, X, state, changes, SCALING)
    for c in (None, 0, 1):
        begin = hfrnn.dynamics.to_state(NET, state if c is None else state + changes[c])
        z, after = NET.run(THETA, hfrnn.Batch(SCALING.scale_inputs(X), initial_state=begin))
        outputs, last = (found.unchanged_outputs, found.unchanged_states[-1]) if c is None else (
            found.outputs[:, c], found.states[-1, c]
        )  # fmt: skip
        np.testing.assert_allclose(outputs, SCALING.unscale_outputs(z), rtol=1e-12)
        np.testing.assert_allclose(last, to_vectors(NET, after), rtol=1e-12, atol=1e-14)
    assert found.distance.shape == (6, 2, 4)
    alike = perturb(NET, THETA, X, state, changes[:, 0], SCALING)
    np.testing.assert_array_equal(alike.states[:, :, 0], found.states[:, :, 0])
    with pytest.raises(hfrnn.InputError, match="changes"):
        perturb(NET, THETA, X, state, np.zeros(6))


def test_all_forms_of_an_initial_state_and_losses_with_more_outputs_are_those_of_run() -> None:
    rows = np.random.default_rng(2).standard_normal((4, 6))
    own = hfrnn.Network("lstm", 2, 3, 1, "gaussian", dtype="float64", recordings=2)
    theta = np.random.default_rng(3).standard_normal(own.n_parameters)
    for state in (rows, np.where([[True], [False]] * 2, rows, np.nan), np.array([1, -1, 0, 1]), None):
        batch = hfrnn.Batch(X, initial_state=state)
        found = trajectories(own, theta, batch, scaling=SCALING).outputs
        scaled = hfrnn.Batch(SCALING.scale_inputs(X), initial_state=state)
        np.testing.assert_allclose(found, own.run(theta, scaled)[0], rtol=1e-11, atol=1e-13)
    assert perturb(own, theta, X, rows, np.eye(6), SCALING).outputs.shape == (6, 6, 4, 2)


def test_the_padding_may_hold_anything_and_overflow() -> None:
    x = X.copy()
    x[4:, 1] = np.nan
    found, plain = (trajectories(NET, THETA, hfrnn.Batch(each, lengths=[6, 4, 6, 6])) for each in (x, X))
    np.testing.assert_array_equal(found.states, plain.states)
    growing = hfrnn.Network("rnn", 2, 3, 1, "squared", dtype="float64", activation="relu")
    theta, long = np.full(growing.n_parameters, 10.0), np.ones((400, 2, 2))  # infinite after about 200 steps
    with pytest.raises(hfrnn.NonFiniteError):
        trajectories(growing, theta, hfrnn.Batch(long))
    short = trajectories(growing, theta, hfrnn.Batch(long, lengths=[5, 3]))
    assert short.visited().shape == (8, 3)
