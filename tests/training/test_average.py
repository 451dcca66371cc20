"""The average of the parameters over the updates: its formula, and what of a run it is used for."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.method_runs import run, training_state
from support.tiny_runs import metrics, tiny_train

import hfrnn
from hfrnn.errors import InputError
from hfrnn.optim.average import Average
from hfrnn.optim.outcome import Failure
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.training.trainer import Callback, Trainer, train


def averaged(vectors, decay):
    """The average by its weights: a_k of the last vector, (1 - a_k) * a_{k-1} of the one before, ..."""
    shares = [max(1 - decay, 9 / (k + 8)) for k in range(1, len(vectors) + 1)]
    weights = [share * np.prod([1 - later for later in shares[k + 1 :]]) for k, share in enumerate(shares)]
    assert sum(weights) == pytest.approx(1)
    return np.array(weights) @ np.array(vectors)


@given(
    count=st.integers(1, 60), decay=st.floats(0.01, 0.99), seed=st.integers(0, 99), dtype=st.sampled_from(["f4", "f8"])
)
def test_it_is_the_mean_with_the_weights_of_its_formula(count, decay, seed, dtype):
    vectors = np.random.default_rng(seed).standard_normal((count, 3)).astype(dtype)
    average = Average(decay)
    for vector in vectors:
        before = vector.copy()
        average.add(vector)
        vector += 1  # the average keeps none of them
        vector[:] = before
    assert (average.count, average.value.dtype) == (count, vectors.dtype)
    np.testing.assert_allclose(average.value, averaged(vectors, decay), rtol=1e-4, atol=1e-5 if dtype == "f4" else 1e-9)


def states(run):
    """The arrays of the kept checkpoints, in their order."""
    return [load_checkpoint(path)[0] for path in sorted(run.glob("update-*.safetensors"))]


def test_validation_best_and_samples_are_of_the_average(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("hfrnn.training.trainer.draw_text", lambda net, theta, *rest: drawn.append(theta.copy()))
    result = tiny_train(tmp_path, updates=5, keep=5, average=0.6, dtype="float64")
    run, lines = result.folder, metrics(result.folder)
    thetas = [arrays["theta"] for arrays in states(run)]
    averages = [averaged(thetas[: n + 1], 0.6) for n in range(5)]
    best = int(np.argmin([line["valid_loss"] for line in lines]))
    for n, average in enumerate(averages):
        np.testing.assert_allclose(hfrnn.load(run, f"update-{n + 1}").theta, average, rtol=1e-12)
        assert lines[n]["valid_loss"] == pytest.approx(loss_of(run, average), rel=1e-12)
    np.testing.assert_allclose(result.theta, averages[best], rtol=1e-12)
    np.testing.assert_array_equal(hfrnn.load(run).theta, result.theta)
    assert np.abs(averages[-1] - thetas[-1]).max() > 1e-4
    for theta, n in zip(drawn, (0, 1, 3, best), strict=True):  # updates 1, 2 and 4, and at the end
        np.testing.assert_allclose(theta, averages[n], rtol=1e-12)


def loss_of(run, theta):
    """The validation loss of a run's network with some parameters."""
    trainer = Trainer.resumed(run, {"updates": 9})
    try:
        return trainer.validation.loss(theta)
    finally:
        trainer.folder.lock.release()


def test_training_itself_never_sees_it(tmp_path):
    runs = [tiny_train(tmp_path, str(decay), updates=3, average=decay).folder for decay in (0.0, 0.9)]
    plain, other = (load_checkpoint(run / "last.safetensors")[0] for run in runs)
    assert "method.average" not in plain
    np.testing.assert_array_equal(other["theta"], plain["theta"])
    same = ("train_loss", "mu", "rho", "cg_iterations")
    lines = [[{name: line[name] for name in same} for line in metrics(run)] for run in runs]
    assert lines[0] == lines[1]


@pytest.mark.slow
def test_first_order_methods_average_every_update_and_train_as_without(tmp_path):
    options = {"optimizer": "adam", "log_interval": 1, "validate_every": 1, "updates": 7, "dtype": "float64"}
    with_average = run(tmp_path, "with", average=0.6, keep=7, **options)
    without = run(tmp_path, "without", average=0.0, keep=7, **options)
    thetas = [arrays["theta"] for arrays in states(with_average.folder)]
    for mine, theirs in zip(states(with_average.folder), states(without.folder), strict=True):
        np.testing.assert_array_equal(mine["theta"], theirs["theta"])
        assert "method.average" not in theirs
    for n in range(7):
        found = hfrnn.load(with_average.folder, f"update-{n + 1}").theta
        np.testing.assert_allclose(found, averaged(thetas[: n + 1], 0.6), rtol=1e-12)
    assert np.abs(found - thetas[-1]).max() > 1e-4
    coarse = run(tmp_path, "coarse", average=0.6, **{**options, "log_interval": 5})
    np.testing.assert_array_equal(hfrnn.load(coarse.folder, "last").theta, found)


def test_a_loaded_average_leaves_the_array_of_the_state_alone():
    given = np.ones(3)
    average = Average(0.5)
    average.load_state_dict({"average": given, "averaged": 3})
    average.add(np.zeros(3))
    assert (given == 1.0).all()
    assert (average.value < 1.0).all()
    with pytest.raises(InputError, match="counts 3 averaged vectors and lacks their average"):
        average.load_state_dict({"average": None, "averaged": 3})
    off = Average(0.0)
    off.add(np.ones(3))
    assert off.value is None


class BadStep(Callback):
    """Makes the third step of HF a bad one, and collects the parameters that are not undone by the next update."""

    def __init__(self):
        self.kept = []
        self.average = None

    def on_start(self, trainer):
        method = trainer.method
        own, self.average = method.optimizer.update, method.average

        def update(*arguments, **options):
            step = own(*arguments, **options)
            if len(self.kept) == 2:
                step = replace(step, theta=step.theta + 5)
                optimizer = method.optimizer
                optimizer._fallback = replace(optimizer._fallback, step_norm=np.inf)  # it takes the step for its own
            if step.failed is Failure.DIVERGED:
                self.kept.pop()
            self.kept.append(step.theta)
            return step

        method.optimizer.update = update


def test_a_step_that_is_undone_leaves_the_average(tmp_path):
    watch = BadStep()
    whole = tiny_train(tmp_path, "whole", updates=5, callbacks=(watch,), dtype="float64")
    assert [line["failed"] for line in metrics(whole.folder)].count("diverged") == 1
    assert len(watch.kept) == 4
    np.testing.assert_allclose(watch.average.value, averaged(watch.kept, 0.999), rtol=1e-12)
    cut = tiny_train(tmp_path, "cut", updates=3, callbacks=(BadStep(),), dtype="float64")
    train(resume=cut.folder, updates=5)
    assert training_state(cut.folder)[0] == training_state(whole.folder)[0]
