"""Estimates of initial states against dense Gauss-Newton solves, in every architecture."""

from typing import Any

import numpy as np
import pytest
from support.engine_cases import cases, random_batch, replace
from support.pairwise import label
from support.slow import slow_unless

import hfrnn
from hfrnn.analysis import initial_states
from hfrnn.analysis.initial_states import _Fit
from hfrnn.data.array_data import from_memory
from hfrnn.data.scaling import Scaling
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import InputError

RIDGE = 0.05


def vector(state: Any) -> Any:
    """The entries of a state side by side, (B, n), names sorted, without integers."""
    arrays = [x for layer in state for _, x in sorted(layer.items()) if not isinstance(x, int)]
    return np.concatenate([np.moveaxis(x, -2, 0).reshape(x.shape[-2], -1) for x in arrays], axis=1)


def state_of(net: hfrnn.Network, rows: Any) -> Any:
    """A state (of any type) with these entries."""
    found, at = [], 0
    for layer in net.zero_state(len(rows)):
        found.append({})
        for name, x in sorted(layer.items()):
            if isinstance(x, int):
                found[-1][name] = x
                continue
            shape = np.moveaxis(x, -2, 0).shape
            width = int(np.prod(shape[1:]))
            found[-1][name] = np.ascontiguousarray(np.moveaxis(rows[:, at : at + width].reshape(shape), 0, -2))
            at += width
    return found


def jacobian(net: hfrnn.Network, theta: Any, batch: hfrnn.Batch, rows: Any) -> tuple[Any, Any]:
    """The outputs (T, B, k) and their Jacobian (T, B, k, n) in the state, by complex steps."""
    sweep = Sweep(net, net.prepare(replace(batch, initial_state=None)), 1.0, dtype="complex128")
    found = []
    for j in range(rows.shape[1]):
        sweep.states.begin(state_of(net, rows + 1e-30j * (np.arange(rows.shape[1]) == j)))
        found.append(sweep.outputs(theta.astype("complex128"))[0].copy())
    return found[0].real, np.stack([z.imag / 1e-30 for z in found], axis=-1)


def dense_estimate(net: hfrnn.Network, theta: Any, batch: hfrnn.Batch, s0: Any) -> Any:
    """Gauss-Newton with a dense Jacobian and least squares, for each sequence by itself."""
    s, weights = s0.copy(), np.broadcast_to(batch.output_weights(net.backend), (batch.T, batch.B, net.n_out))
    for _ in range(30):
        (z, J), before = jacobian(net, theta, batch, s), s.copy()
        for b in range(batch.B):
            root = np.sqrt(weights[:, b]).ravel()
            rows = [root[:, None] * J[:, b].reshape(root.size, -1), np.sqrt(RIDGE) * np.eye(s.shape[1])]
            left = np.concatenate([root * np.where(root > 0, (batch.targets[:, b] - z[:, b]).ravel(), 0),
                                   np.sqrt(RIDGE) * (s0[b] - s[b])])  # fmt: skip
            s[b] += np.linalg.lstsq(np.concatenate(rows), left, rcond=None)[0]
        if np.abs(s - before).max() < 1e-13:
            break
    return s


@pytest.mark.parametrize(
    "case", slow_unless(lambda case: case.arch in ("lstm", "clockwork"), cases("output-mask")), ids=label
)
def test_the_matrix_and_the_estimate_are_those_of_a_dense_gauss_newton_solve(case: Any) -> None:
    net, rng = case.net(l2=0.0, hidden=(3, 4), learn_initial_state=True), np.random.default_rng(3)
    theta = net.init(seed=1, scale=0.3)
    for name, view in net.views(theta).items():
        view += 0.1 if name[:6] in ("layer0", "layer1") and name.endswith("0") else 0.0
    shape, lengths = (6, 3, net.n_out), np.array([6, 4, 2])
    known, weights = rng.random(shape) < 0.8, rng.uniform(0.5, 2.0, shape)
    batch = hfrnn.Batch(rng.integers(net.n_in, size=shape[:2]), np.zeros(shape), weights * known, lengths)
    s0 = _Fit(net, theta, batch, RIDGE, 99).s0
    assert (s0 == 0.1).all()
    true = s0 + 0.2 * rng.standard_normal(s0.shape)
    y, _ = net.run(theta, replace(batch, initial_state=state_of(net, true)))
    y += 0.01 * rng.standard_normal(shape)
    J = jacobian(net, theta, batch, true)[1]
    W = np.broadcast_to(batch.output_weights(net.backend), shape)
    found = _Fit(net, theta, replace(batch, targets=y), RIDGE, 4).matrix(true)
    np.testing.assert_allclose(found, np.einsum("tbki,tbk,tbkj->bij", J, W, J), rtol=1e-10, atol=1e-12)
    if case.arch == "hornn-max":
        return  # another product may be the largest after a step: F has kinks, and two methods may end in two minima
    expected = dense_estimate(net, theta, replace(batch, targets=y), s0)
    assert np.abs(expected - s0).max() > 1e-3
    missing = replace(batch, targets=np.where(known, y, np.nan), weights=weights)
    for given in (replace(batch, targets=y), missing):
        estimate = hfrnn.estimate_initial_state(net, theta, given, 6, RIDGE, tolerance=0.0)
        np.testing.assert_allclose(vector(estimate), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_losses_with_probabilities_take_fishers_matrix(loss: str) -> None:
    net, rng = hfrnn.Network("gru", 5, 3, 4, loss, dtype="float64"), np.random.default_rng(0)
    theta, batch = net.init(seed=1, scale=0.8), random_batch(net, rng, T=4, B=2)
    s = 0.3 * rng.standard_normal((2, 3))
    z, J = jacobian(net, theta, batch, s)
    if loss == "logistic":
        p = 1 / (1 + np.exp(-z))
        H = np.einsum("tbk,kl->tbkl", p * (1 - p), np.eye(4))
    else:
        p = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
        H = np.einsum("tbk,kl->tbkl", p, np.eye(4)) - np.einsum("tbk,tbl->tbkl", p, p)
    found = _Fit(net, theta, batch, RIDGE, 99).matrix(s)
    np.testing.assert_allclose(found, np.einsum("tbki,tbkl,tblj->bij", J, H, J), rtol=1e-10, atol=1e-13)


@pytest.fixture(scope="module")
def recordings() -> tuple[Any, Any, Any, Any]:
    """A network, sequences of a pool of unequal lengths in units of their own, and a scaling."""
    net, rng = hfrnn.Network("lstm", 1, 3, 1, "squared", dtype="float64"), np.random.default_rng(0)
    theta = net.init(seed=0, scale=0.7)
    lengths = [30, 20, 25]
    x = [rng.standard_normal((T, 1)) for T in lengths]
    start = [{"h": rng.uniform(-0.9, 0.9, (1, 3)), "c": rng.standard_normal((1, 3))} for _ in x]
    y = [100 + 7 * net.run(theta, hfrnn.Batch(each[:, None], initial_state=[state]))[0][:, 0]
         for each, state in zip(x, start, strict=True)]  # fmt: skip
    one = np.ones(1)
    scaling = Scaling(0 * one, one, 100 * one, 7 * one)
    return net, theta, from_memory({"x": x, "y": y}, fractions=(1, 0, 0)).train, scaling


def test_predictions_scores_and_free_runs_begin_with_estimates(recordings: Any) -> None:
    net, theta, pool, scaling = recordings
    ragged = RaggedBatch(pool, np.array([2, 0, 1]))
    plain = hfrnn.score(net, theta, ragged, scaling=scaling)
    found = hfrnn.score(net, theta, ragged, scaling=scaling, estimate_state=10)
    assert found.steps == plain.steps == 75
    assert found.overall["rmse"] < 0.05 * plain.overall["rmse"]
    padded = ragged.padded()
    assert found.overall == hfrnn.score(net, theta, padded, scaling=scaling, estimate_state=10).overall
    state = hfrnn.estimate_initial_state(net, theta, padded, 10, scaling=scaling)
    outputs = hfrnn.predict(net, theta, replace(padded, initial_state=state), scaling=scaling).outputs
    np.testing.assert_array_equal(
        outputs, hfrnn.predict(net, theta, ragged, scaling=scaling, estimate_state=10).outputs
    )
    free = hfrnn.free_run(net, theta, ragged, 3, scaling, estimate_state=10)
    np.testing.assert_array_equal(free, hfrnn.free_run(net, theta, replace(padded, initial_state=state), 3, scaling))


def test_pieces_of_directions_and_sequences_change_nothing(recordings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    net, theta, pool, scaling = recordings
    batch = RaggedBatch(pool, slice(None)).padded()
    whole = hfrnn.estimate_initial_state(net, theta, batch, 10, scaling=scaling)
    monkeypatch.setattr(initial_states, "NUMBERS", 10 * net.layers[0].slots * 4)  # four of six directions
    found = hfrnn.estimate_initial_state(net, theta, batch, 10, scaling=scaling)
    np.testing.assert_allclose(vector(found), vector(whole), rtol=0, atol=1e-6)


def test_what_no_target_shows_stays_where_it_starts() -> None:
    net, rng = hfrnn.Network("rnn", 1, 3, 1, "squared"), np.random.default_rng(0)
    theta, x, y = net.init(seed=0, scale=0.5), rng.standard_normal((5, 2, 1)), np.full((5, 2, 1), np.nan)
    with pytest.raises(InputError, match="known target in its first 3 steps"):
        hfrnn.estimate_initial_state(net, theta, hfrnn.Batch(x, y), 3)
    y[:, 0] = 1.0
    start = [{"h": np.full((2, 3), 0.25, np.float32)}]
    found = hfrnn.estimate_initial_state(net, theta, hfrnn.Batch(x, y, initial_state=start), 3)[0]["h"]
    assert found.dtype == np.float32
    assert (found[0] != 0.25).all()
    assert (found[1] == 0.25).all()
    with pytest.raises(InputError, match="has no targets"):
        hfrnn.estimate_initial_state(net, theta, hfrnn.Batch(x), 3)


def test_a_loss_below_0_ends_the_iterations_too(monkeypatch: pytest.MonkeyPatch) -> None:
    net = hfrnn.Network("rnn", 1, 2, 1, "gaussian", dtype="float64", output_bias=True)
    theta, x = net.init(seed=0, scale=0.5), np.random.default_rng(0).standard_normal((6, 2, 1))
    net.views(theta)["output.b_y"][...] = 0, -9  # a deviation of 0.01: densities above 1
    batch = hfrnn.Batch(x, net.run(theta, hfrnn.Batch(x))[0][:, :, :1] + 1e-3)
    assert net.loss(theta, batch) < 0
    counts, matrix = [], _Fit.matrix
    monkeypatch.setattr(_Fit, "matrix", lambda self, s: (counts.append(0), matrix(self, s))[1])
    hfrnn.estimate_initial_state(net, theta, batch, 6)
    assert len(counts) < 20
