"""Runs on sequences of unequal lengths: the derivatives of padded batches, draws, resuming, validation and scores."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_files import npz
from support.run_states import assert_same
from support.tiny_runs import metrics

import hfrnn
from hfrnn.analysis.sequences import evaluate_sequences, own_sequences
from hfrnn.data.array_data import from_memory
from hfrnn.data.ragged import RaggedPool
from hfrnn.engine.plan import Keep, Plan, Use, ragged_boundaries
from hfrnn.engine.planner import footprint_of, make_plan
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import HfrnnWarning, InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.training.trainer import Trainer, train

RNG = np.random.default_rng(4)
LENGTHS = np.exp(RNG.uniform(np.log(3), np.log(60), 40)).astype(int)
X = [RNG.normal(size=(T, 2)) for T in LENGTHS]
REAL = {"y": [RNG.normal(size=(T, 3)) for T in LENGTHS], "mask": [RNG.random((T, 3)) for T in LENGTHS]}
CLASSES = {"y": [RNG.integers(0, 4, T) for T in LENGTHS]}
OPTIONS: dict[str, Any] = {"arch": "rnn", "hidden": 4, "backend": "numpy", "dtype": "float64"}


def ragged_batch(more: dict[str, Any], x: Any = X) -> RaggedBatch:
    pool = from_memory({"x": x, **more}, fractions=(1.0, 0.0, 0.0)).train
    return RaggedBatch(pool, slice(None)).by_length()


# ---------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("checkpoint", [None, "sqrt", 7])
@pytest.mark.parametrize("arch", ["rnn", "lstm", "clockwork"])
@pytest.mark.parametrize("loss", ["softmax", "squared"])
def test_derivatives_are_those_of_the_padded_batch(arch: str, loss: str, checkpoint: Any) -> None:
    batch = ragged_batch(CLASSES if loss == "softmax" else REAL)
    net = hfrnn.Network(arch, n_in=2, hidden=6, n_out=4 if loss == "softmax" else 3, loss=loss, dtype="float64")
    theta, v = net.init(seed=0), np.random.default_rng(1).normal(size=net.n_parameters)
    f, whole = hfrnn.Objective(net, batch, checkpoint=checkpoint), batch.padded()
    assert len({part.T for part in f._parts}) > 1
    loss_found, gradient = f.loss_and_gradient(theta)
    expected, of_padded = net.loss_and_gradient(theta, whole)
    assert loss_found == pytest.approx(expected, rel=1e-12)
    assert f.loss(theta) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, of_padded, rtol=1e-12, atol=1e-12 * np.abs(of_padded).max())
    product = f.gauss_newton(theta, structural=0.3, tikhonov=0.1) @ v
    of_padded = net.gauss_newton(theta, whole, structural=0.3, tikhonov=0.1) @ v
    np.testing.assert_allclose(product, of_padded, rtol=1e-12, atol=1e-12 * np.abs(of_padded).max())


def test_results_of_single_steps_and_sequences_are_those_of_the_padded_batch() -> None:
    batch = ragged_batch(CLASSES)
    net = hfrnn.Network("lstm", n_in=2, hidden=5, n_out=4, loss="softmax", dtype="float64")
    theta, whole = net.init(seed=0), batch.padded()
    f, g = hfrnn.Objective(net, batch), hfrnn.Objective(net, whole, plan=Plan((0, batch.B), None, Keep.ALL))
    rng = np.random.default_rng(0)
    close = {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(f.loss_and_logits(theta)[1], g.loss_and_logits(theta)[1], **close)
    np.testing.assert_allclose(f.per_sequence_gradients(theta), g.per_sequence_gradients(theta), **close)
    np.testing.assert_allclose(f.part_gradients(theta, 7), g.part_gradients(theta, 7), **close)
    J, K = f.jacobian(theta), g.jacobian(theta)
    v, u = rng.normal(size=J.shape[1]), rng.normal(size=J.shape[0])
    np.testing.assert_allclose(J @ v, K @ v, **close)
    np.testing.assert_allclose(J.T @ u, K.T @ u, **close)
    logits = net.run(theta, whole)[0]
    scored = np.asarray(whole.weights) > 0
    wrong = (logits.argmax(axis=2) != whole.targets)[scored].mean()
    assert f.loss_and_errors(theta) == (pytest.approx(net.loss(theta, whole), rel=1e-12), pytest.approx(wrong))


def test_a_ragged_batch_has_the_arrays_of_the_padded_one_and_can_be_copied() -> None:
    batch = ragged_batch(REAL)
    for same in (batch, copy.copy(batch), copy.deepcopy(batch)):
        assert (same.T, same.B, same.symbols, same.weighs_outputs) == (LENGTHS.max(), 40, False, True)
        for name in ("inputs", "targets", "weights", "lengths"):
            np.testing.assert_array_equal(getattr(same, name), getattr(batch.padded(), name))
    assert batch.columns(30, 40).T < batch.T
    with pytest.raises(AttributeError, match="no attribute 'input'"):
        batch.input  # noqa: B018


def test_shards_are_cut_with_little_padding_and_the_estimate_follows() -> None:
    lengths = -np.sort(-np.exp(np.random.default_rng(0).uniform(np.log(10), np.log(1000), 1000)).astype(int))
    edges = ragged_boundaries(lengths, overhead=32)
    sizes = np.diff(edges)
    assert sizes.max() <= 128
    assert (lengths[list(edges[:-1])] * sizes).sum() < 1.3 * lengths.sum()
    net = hfrnn.Network("lstm", n_in=2, hidden=50, n_out=3, loss="squared")
    plan = replace(make_plan(net, 1000, 1000, memory=2**34, symbols=False, lengths=lengths), workers=1)
    ragged, padded = (
        footprint_of(net, False).bytes(plan, 1000, 1000, Use.OPERATOR, lengths=each) for each in (lengths, None)
    )
    assert ragged < 0.4 * padded


# ---------------------------------------------------------------------- runs


def data(folder: Path, more: dict[str, Any] = CLASSES) -> str:
    longest = LENGTHS.max()
    arrays = {
        name: np.stack([np.pad(x, ((0, longest - len(x)), *[(0, 0)] * (x.ndim - 1))) for x in each])
        for name, each in {"x": X, **more}.items()
    }
    (folder / "a.npz").write_bytes(npz({**arrays, "lengths": LENGTHS}))
    return str(folder / "a.npz")


@pytest.mark.parametrize("optimizer", ["hf", "adam"])
@pytest.mark.parametrize("more", [pytest.param(CLASSES, marks=pytest.mark.slow), REAL])
def test_a_run_is_the_same_on_two_threads_after_a_resume_and_from_lists(
    tmp_path: Path, optimizer: str, more: dict[str, Any]
) -> None:
    options = {**OPTIONS, "data": data(tmp_path, more), "optimizer": optimizer, "updates": 14}
    options |= {"gradient_symbols": 300} if optimizer == "hf" else {"streams": 5, "log_interval": 2}
    train(**options, threads=1, out=tmp_path / "one")
    train(**options, threads=2, out=tmp_path / "two")
    train(**{**options, "updates": 7}, out=tmp_path / "halves")  # an epoch of adam
    train(resume=tmp_path / "halves", updates=14)
    assert_same(tmp_path / "one", tmp_path / "halves")
    losses = [[record["train_loss"] for record in metrics(tmp_path / name)] for name in ("one", "two")]
    assert losses[0] == losses[1]
    listed = train(**{**options, "data": {"x": X, **more}}, out=tmp_path / "lists")
    assert [record["train_loss"] for record in metrics(listed.folder)] == losses[0]


def test_a_batch_is_padded_to_its_own_longest_sequence(tmp_path: Path) -> None:
    config = TrainConfig(data=data(tmp_path), optimizer="adam", streams=5, **OPTIONS).resolved()
    method, drawn, padding = Trainer(config).method, [], []
    for _ in range(36 // 5):
        batch = method.batches.next()
        assert batch.T == batch.inputs.shape[0] == batch.lengths.max()
        drawn += batch.numbers.tolist()
        padding.append(batch.T * batch.B / batch.lengths.sum())
    assert len(set(drawn)) == len(drawn) == 35
    assert np.mean(padding) < 1.4


def test_validation_and_scores_are_those_of_the_padded_part(tmp_path: Path) -> None:
    result = train(**OPTIONS, data=data(tmp_path), updates=2, fractions=(0.5, 0.5, 0), out=tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    given = own_sequences(folder)
    assert isinstance(given.batch, RaggedBatch)
    assert given.batch.numbers.tolist() == list(range(20))
    whole = given.batch.padded()
    loss, last = result.net.loss(result.theta, whole), metrics(result.folder)[-1]
    assert last["valid_loss"] == pytest.approx(result.net.loss(hfrnn.load(folder.path, "last")[1], whole), rel=1e-12)
    found = evaluate_sequences(result.net, result.theta, folder.config(), "valid", folder)
    assert found["loss"] == pytest.approx(loss, rel=1e-12)
    predicted = hfrnn.predict(result.net, result.theta, given.batch, states=True)
    expected = hfrnn.predict(result.net, result.theta, whole, states=True)
    np.testing.assert_allclose(predicted.outputs, expected.outputs, rtol=1e-12)
    assert predicted.states is not None
    assert expected.states is not None
    np.testing.assert_allclose(predicted.states[0]["h"], expected.states[0]["h"], rtol=1e-12)
    scored = np.asarray(whole.weights) > 0
    wrong = (expected.outputs.argmax(axis=2) != whole.targets)[scored].mean()
    assert found["accuracy"] == pytest.approx(1 - wrong)


def test_the_class_of_a_distribution_over_classes_is_the_likeliest() -> None:
    shares = [RNG.dirichlet(np.ones(4), T) for T in LENGTHS]
    net = hfrnn.Network("rnn", n_in=2, hidden=4, n_out=4, loss="softmax", dtype="float64")
    batches = [ragged_batch({"y": y}) for y in (shares, [each.argmax(axis=1) for each in shares])]
    one, two = (hfrnn.Objective(net, batch).loss_and_errors(net.init(seed=0))[1] for batch in batches)
    assert 0 < one == two < 1


def test_a_run_standardizes_sequences_of_unequal_lengths(tmp_path: Path) -> None:
    result = train(**OPTIONS, data={"x": X, **REAL}, standardize=True, updates=2, out=tmp_path / "run")
    scaling, rows = hfrnn.load_scaling(result.folder), np.concatenate(X[:36])
    np.testing.assert_allclose(scaling.input_mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaling.input_deviation, rows.std(axis=0), rtol=1e-12)


# ---------------------------------------------------------------------- sequences without a scored step


def test_batches_leave_sequences_without_a_scored_step_out_in_every_epoch(tmp_path: Path) -> None:
    def batches(rng: np.random.Generator) -> dict[str, Any]:
        lengths = rng.integers(3, 9, 10)
        mask = [np.full(T, float(rng.random() < 0.6 or n == 0)) for n, T in enumerate(lengths)]
        x = [rng.normal(size=(T, 2)) for T in lengths]
        return {"x": x, "y": x, "mask": mask}

    options = {**OPTIONS, "optimizer": "sgd", "streams": 1, "updates": 40, "log_interval": 5}
    with pytest.warns(HfrnnWarning, match=r"without a scored step (is|are) left out"):
        result = train(**options, batches=batches, out=tmp_path / "run")
    assert result.summary["updates"] == 40


def test_a_run_in_memory_warns_of_sequences_that_are_left_out(tmp_path: Path) -> None:
    mask = [np.full(T, n != 3) for n, T in enumerate(LENGTHS)]
    with pytest.warns(HfrnnWarning, match="1 sequence without a scored step is left out"):
        train(**OPTIONS, data={"x": X, **CLASSES, "mask": mask}, updates=1, out=tmp_path / "run")
    nothing = {"x": X, **CLASSES, "mask": [np.zeros(T) for T in LENGTHS]}
    with pytest.raises(InputError, match="the train part of data has no scored step"):
        train(**OPTIONS, data=nothing, updates=1, out=tmp_path / "none")


def test_a_file_is_scored_without_sequences_that_have_no_scored_step(tmp_path: Path) -> None:
    result = train(**OPTIONS, data=data(tmp_path), updates=1, out=tmp_path / "run")
    x, y = RNG.normal(size=(5, 6, 2)), RNG.integers(0, 4, (5, 6))
    mask = np.array([1, 0, 1, 1, 0])[:, None] * np.ones(6)
    (tmp_path / "b.npz").write_bytes(npz({"x": x, "y": y, "mask": mask}))
    (tmp_path / "c.npz").write_bytes(npz({"x": x[mask[:, 0] > 0], "y": y[mask[:, 0] > 0]}))
    folder = RunFolder(result.folder)
    found, expected = (
        evaluate_sequences(result.net, result.theta, folder.config(), None, folder, str(tmp_path / name))
        for name in ("b.npz", "c.npz")
    )
    assert (found.pop("left_out"), found["sequences"]) == (2, 3)
    assert {**found, "data": 0} == {**expected, "data": 0}


def test_a_pool_is_a_pool_of_padded_arrays_when_it_is_unpacked() -> None:
    pool: RaggedPool = ragged_batch(REAL).pool
    inputs, targets, weights, lengths = pool
    assert (inputs.shape[:2], targets.shape, weights.shape) == (
        (pool.longest, 40),
        (pool.longest, 40, 3),
        targets.shape,
    )
    np.testing.assert_array_equal(lengths, LENGTHS)
