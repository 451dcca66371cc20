"""Runs that learn their initial state, and runs with noise on the states."""

import numpy as np
import pytest
from support.method_runs import TASK, run, training_state
from support.slow import slow_unless
from support.tiny_runs import TEXT, metrics

import hfrnn
from hfrnn.analysis.dynamic_evaluation import mean_square_gradient
from hfrnn.engine.objective import Objective
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load
from hfrnn.sources.open import open_source
from hfrnn.training.methods.hessian_free import HessianFreeMethod
from hfrnn.training.trainer import Callback

LEARNED = {"learn_initial_state": True}
HF = {"optimizer": "hf", "gradient_symbols": 300, "cg_iterations": 5}
KRONECKER = {**HF, "preconditioner": "kronecker", "warm_start": 0.0, "mu_growth": 0.0}


@pytest.mark.parametrize(("options", "updates"), slow_unless(lambda given, _: given["optimizer"] in ("hf", "adam"), [
    (KRONECKER, 3), ({**TASK, **HF}, 3),
    *(({"optimizer": name, "streams": 20}, 20) for name in ("sgd", "adam", "soap", "muon")),
    ({**TASK, "optimizer": "adam", "arch": "lstm"}, 5),
]), ids=["hf", "hf-task", "sgd", "adam", "soap", "muon", "adam-task"])  # fmt: skip
def test_every_optimizer_learns_the_initial_state(tmp_path, options, updates):
    trained = run(tmp_path, **{**options, **LEARNED}, updates=updates)
    net, theta, _ = load(trained.folder, "last")
    for name in [block.name for block in net.parameters.blocks if block.name in ("layer0.h0", "layer0.c0")]:
        assert np.abs(net.views(theta)[name]).max() > 1e-5, name


@pytest.mark.parametrize("options", [
    pytest.param(KRONECKER, marks=pytest.mark.slow), {"optimizer": "adam", "streams": 20}, {**TASK, **HF},
])  # fmt: skip
def test_threads_and_checkpoints_do_not_change_a_run_with_noise(tmp_path, options):
    options = {**options, **LEARNED, "state_noise": 0.2, "updates": 3}
    one, two = (run(tmp_path, f"{n}", **options, threads=n).folder for n in (1, 2))
    assert training_state(one) == training_state(two)
    again = run(tmp_path, "again", **options, checkpoint="4").folder
    expected, found = load(one, "last").theta, load(again, "last").theta
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)


def test_noise_of_0_is_a_run_without_noise_and_any_other_is_not(tmp_path):
    thetas = [load(run(tmp_path, str(n), **HF, **noise, updates=2).folder, "last").theta for n, noise in enumerate(
        ({}, {"state_noise": 0.0}, {"state_noise": 0.1}, {"state_noise": 0.2})
    )]  # fmt: skip
    np.testing.assert_array_equal(thetas[0], thetas[1])
    assert np.abs(thetas[2] - thetas[0]).max() > 1e-3
    assert np.abs(thetas[3] - thetas[2]).max() > 1e-3


def test_validation_has_no_noise(tmp_path):
    trained = run(tmp_path, **HF, state_noise=0.5, updates=2)
    source = open_source(RunFolder(trained.folder).config())
    net, theta, _ = load(trained.folder)
    losses = [line["valid_loss"] for line in metrics(trained.folder)]
    assert Objective(net, source.validation).loss(theta) == pytest.approx(min(losses), rel=1e-6)


class Spy(Callback):
    """Collects the loss at the first parameters under the noise of each update."""

    def __init__(self):
        self.losses = []

    def on_start(self, trainer):
        self.method, self.theta = trainer.method, trainer.theta
        self.look()

    def on_update(self, record):
        self.look()

    def look(self):
        method = self.method
        assert isinstance(method, HessianFreeMethod)
        columns = np.arange(method.sequences.sampler.subset)
        objectives = [method.objective(method.sequences.pool, columns, "gradient") for _ in range(2)]
        for objective in objectives:
            objective.should_stop = lambda: False
        self.losses.append([objective.loss(self.theta) for objective in objectives])


def test_an_update_repeats_its_noise_and_the_next_one_draws_other_noise(tmp_path):
    spy = Spy()
    run(tmp_path, **HF, state_noise=0.3, updates=3, callbacks=(spy,))
    assert len(spy.losses) == 4
    for first, again in spy.losses:
        assert first == again
    assert len({first for first, _ in spy.losses}) == 4


def test_a_sequence_has_the_same_noise_in_all_batches_of_an_update(tmp_path, monkeypatch):
    made = []
    columns_of, own = [], HessianFreeMethod.objective

    def objective(self, pool, columns, role):
        found = own(self, pool, columns, role)
        columns_of.append(role)
        made.append(dict(zip(columns.tolist(), found.noise._host_keys[0].tolist(), strict=True)))
        return found

    monkeypatch.setattr(HessianFreeMethod, "objective", objective)
    run(tmp_path, **{**HF, "gradient_symbols": 600}, curvature_symbols=200, state_noise=0.3, updates=1)
    assert columns_of == ["gradient", "curvature"]
    gradient, curvature = made
    assert len(gradient) > len(curvature) > 3
    assert all(gradient[column] == key for column, key in curvature.items())


def test_texts_are_evaluated_and_sampled_from_the_learned_state(tmp_path):
    run(tmp_path, **HF, **LEARNED, updates=2)
    net, theta, vocabulary = load(tmp_path / "run")
    other = theta.copy()
    net.views(other)["layer0.h0"][...] += 0.5
    text = TEXT[:60]
    whole, chunked = (hfrnn.evaluate(net, theta, vocabulary, text, chunk=chunk) for chunk in (1000, 7))
    np.testing.assert_allclose(whole.surprisals, chunked.surprisals, rtol=1e-4)
    moved = hfrnn.evaluate(net, other, vocabulary, text)
    assert np.abs(moved.surprisals[:3] - whole.surprisals[:3]).min() > 1e-4
    prime = vocabulary.encode("The")
    drawn = [next(iter(hfrnn.sample(net, each, prime, 1))).probabilities for each in (theta, other)]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-4
    squares = mean_square_gradient(net, theta, vocabulary.encode(TEXT), stretch=10)
    assert net.views(squares)["layer0.h0"].min() > 0
