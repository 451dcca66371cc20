"""The training loop: the same bits, interruption, failure, validation and what callers may watch."""

import json
import os
import signal
import threading

import numpy as np
import pytest
from support.run_states import At, assert_same, state
from support.tiny_runs import OPTIONS, callback, metrics, text_file, tiny_train
from threadpoolctl import threadpool_limits

import hfrnn
from hfrnn.arrays.threads import blas_pools
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.hessian_free import HessianFree
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.training.setup import validate
from hfrnn.training.trainer import Callback, Interrupted, Trainer, train

SLOW = pytest.mark.slow
CONTRACT = (
    "update", "seconds", "train_loss", "train_bits", "valid_bits", "valid_perplexity", "cg_iterations", "cg_stop",
    "mu", "lambda", "rho", "step_size", "symbols",
)  # fmt: skip


# ---------------------------------------------------------------------- the same bits
def test_one_thread_and_two_give_the_same_bits(tmp_path):
    """With the same seed."""
    runs = [tiny_train(tmp_path, f"threads{n}", threads=n, hidden=9, gradient_symbols=0).folder for n in (1, 2)]
    assert_same(*runs)


def test_another_seed_gives_other_weights(tmp_path):
    thetas = [tiny_train(tmp_path, f"seed{seed}", seed=seed, updates=1).theta for seed in (0, 1)]
    assert not np.array_equal(*thetas)


@pytest.mark.parametrize("options", [
    {}, pytest.param({"damping": "line-search", "warm_start": 0.0}, marks=SLOW),
    {"damping": "tikhonov", "arch": "rnn", "activation": "logistic", "dtype": "float64"},
    pytest.param(
        {"damping": "none", "arch": "lstm", "hidden": (3, 2), "fractions": (1, 0, 0), "updates": 5}, marks=SLOW
    ),
    pytest.param({"gradient_symbols": 900, "level": "byte"}, marks=SLOW),
], ids=["structural", "line-search", "tikhonov", "none", "epochs"])  # fmt: skip
def test_a_resumed_run_equals_one_that_never_stopped(tmp_path, options):
    total = options.pop("updates", 4)
    whole = tiny_train(tmp_path, "whole", **options, updates=total)
    parts = tiny_train(tmp_path, "parts", **options, updates=1)
    train(resume=parts.folder, updates=2)
    result = train(resume=parts.folder, updates=total)
    assert_same(whole.folder, parts.folder)
    np.testing.assert_array_equal(result.theta, whole.theta)
    assert result.summary["updates"] == total


# ---------------------------------------------------------------------- interruption
def test_a_signal_inside_cg_ends_with_the_last_update_saved(tmp_path):
    whole = tiny_train(tmp_path, "whole", updates=3)
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    watch = At(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted, match=r"after update 2, which is saved: resume with .*resume=.*run") as caught:
        tiny_train(tmp_path, updates=3, callbacks=(watch,))
    assert caught.value.exit_code == 130
    assert (watch.iterations, watch.noted) == (2, 1)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stopped"] == "interruption"
    train(resume=tmp_path / "run")
    assert_same(whole.folder, tmp_path / "run")


@pytest.mark.parametrize("signals", [1, 2])
def test_a_second_signal_interrupts_a_computation_at_once(tmp_path, monkeypatch, signals):
    reached, real = [], Objective.loss_and_gradient

    def interrupted(self, *arguments, **options):
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
        reached.append(True)
        return real(self, *arguments, **options)

    monkeypatch.setattr(Objective, "loss_and_gradient", interrupted)
    with pytest.raises(Interrupted, match="after update 0, which is saved"):
        tiny_train(tmp_path)
    assert len(reached) == (signals == 1)
    assert RunFolder(tmp_path / "run").restore("last")[1]["update"] == 0


def test_training_works_outside_the_main_thread(tmp_path):
    results = []
    thread = threading.Thread(target=lambda: results.append(tiny_train(tmp_path)))
    thread.start()
    thread.join()
    assert results[0].summary["updates"] == 2


# ---------------------------------------------------------------------- failure
def test_a_non_finite_start_is_one_sentence_and_keeps_the_state(tmp_path):
    with pytest.raises(NonFiniteError, match=r"after update 0.*smaller init_scale") as caught:
        tiny_train(tmp_path, init_scale=1e30)
    assert caught.value.exit_code == 1
    assert np.isfinite(hfrnn.load(tmp_path / "run").theta).all()


def test_first_weights_that_overflow_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"^the first weights overflow in float32: give a smaller init_scale") as e:
        tiny_train(tmp_path, init_scale=1e300, dtype="float32")
    assert e.value.exit_code == 2
    assert not (tmp_path / "run").exists()


def test_a_loss_that_is_no_longer_finite_keeps_the_last_good_state(tmp_path, monkeypatch):
    update, calls = HessianFree.update, []

    def failing(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise NonFiniteError("the gradient")
        return update(self, *args, **kwargs)

    monkeypatch.setattr(HessianFree, "update", failing)
    with pytest.raises(NonFiniteError, match=r"after update 2, whose state is kept in .*stronger damping"):
        tiny_train(tmp_path, updates=5)
    monkeypatch.undo()
    assert state(tmp_path / "run") == state(tiny_train(tmp_path, "good").folder)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["updates"] == 2


# ---------------------------------------------------------------------- the log, the best, the end
def test_every_line_of_the_log_has_the_keys_of_the_contract(tmp_path):
    lines = metrics(tiny_train(tmp_path, updates=3).folder, timed=True)
    assert [line["update"] for line in lines] == [1, 2, 3]
    assert [line["symbols"] for line in lines] == [300, 600, 900]
    for line in lines:
        assert set(CONTRACT) <= set(line)
        assert line["train_bits"] == pytest.approx(line["train_loss"] / np.log(2))
        assert line["valid_perplexity"] == pytest.approx(2 ** line["valid_bits"])


def test_a_validation_has_the_loss_and_the_wrong_answers_of_the_network(tmp_path):
    options = {"data": "addition", "length": 21, "updates": 1, "gradient_symbols": 100, "out": tmp_path / "run"}
    result = train(**options, hidden=4, backend="numpy")
    trainer = Trainer.resumed(tmp_path / "run", {"updates": 2}, (), None, None)
    source, net, weights = trainer.source, trainer.net, trainer.weights
    expected = trainer.validation.loss(weights), source.errors(net.run(weights, source.validation)[0])
    assert validate(trainer.validation, source, weights) == expected
    assert metrics(result.folder)[-1]["valid_errors"] == pytest.approx(expected[1], abs=0.002)


def test_blas_has_one_thread_during_a_whole_update(tmp_path, monkeypatch):
    found = []
    update = HessianFree.update

    def watch(optimizer, *arguments, **options):
        found.append({pool["num_threads"] for pool in blas_pools()})
        return update(optimizer, *arguments, **options)

    monkeypatch.setattr(HessianFree, "update", watch)
    with threadpool_limits(2, user_api="blas"):
        tiny_train(tmp_path)
        assert {pool["num_threads"] for pool in blas_pools()} == {2}
    assert found == [{1}] * 2


def test_without_validation_the_training_loss_chooses(tmp_path):
    result = tiny_train(tmp_path, updates=3, fractions=(1, 0, 0))
    lines = metrics(result.folder)
    assert {line["valid_bits"] for line in lines} == {None}
    assert result.summary["best"]["train_bits"] == min(line["train_bits"] for line in lines)


def test_a_callback_sees_the_run_and_can_end_it(tmp_path):
    events = []
    watch = callback(
        on_start=lambda trainer: events.append("start"),
        on_cg=lambda iteration, q: events.append(f"cg {iteration}"),
        on_update=lambda record: events.append(f"update {record['update']}") or True,
        on_end=lambda result: events.append(f"end by {result.summary['stopped']}"),
    )
    tiny_train(tmp_path, updates=5, callbacks=(watch, Callback()))
    assert events[:2] == ["start", "cg 1"]
    assert events[-2:] == ["update 1", "end by callback"]


def test_a_callback_that_changes_its_record_does_not_falsify_the_run(tmp_path):
    spoils, read = callback(), []

    def spoil(record):
        for given in (record, spoils.trainer.last, spoils.trainer.best):
            given.update(valid_bits=-1.0, valid_loss=-1.0, update=999)

    spoils.on_start, spoils.on_update = lambda trainer: setattr(spoils, "trainer", trainer), spoil
    result = tiny_train(tmp_path, callbacks=(spoils, callback(on_update=read.append)))
    records = metrics(tmp_path / "run")
    assert [each["update"] for each in read] == [each["update"] for each in records] == [1, 2]
    best = min(records, key=lambda each: each["valid_loss"])
    assert result.summary["best"]["valid_bits"] == best["valid_bits"] > 0
    assert result.summary["last"]["update"] == 2


def test_what_is_no_callback_is_refused_before_anything_is_written(tmp_path):
    wrong = [[object()], Callback(), [Callback], "x", {"a": 1}]
    for callbacks in wrong:
        with pytest.raises(InputError, match=r"^callbacks (is|holds) .*: give .*objects of subclasses"):
            train(text="text.txt", out=tmp_path / "run", callbacks=callbacks)
    with pytest.raises(InputError, match=r"^callbacks holds a builtin_function_or_method: "):
        train(text="text.txt", out=tmp_path / "run", callbacks=[print])
    assert not list(tmp_path.iterdir())


def test_the_time_limit_ends_a_run_after_an_update(tmp_path):
    result = tiny_train(tmp_path, updates=None, minutes=1e-6)
    assert (result.summary["stopped"], result.summary["updates"]) == ("time", 1)
    assert [TrainConfig(**options).time_limit for options in ({}, {"updates": 3}, {"minutes": 2.0})] == [240, None, 120]


def test_the_stored_configuration_says_the_damping_in_full(tmp_path):
    text = str(text_file(tmp_path))
    given = TrainConfig(text=text, **{**OPTIONS, "hidden": (4,), "updates": 9})
    result = train(given, updates=1, out=tmp_path / "run")  # a configuration and single options go together
    assert (result.summary["updates"], result.config.hidden) == (1, (4,))
    stored = RunFolder(tmp_path / "run").config()
    first = metrics(tmp_path / "run")[0]
    assert (stored.mu, stored.lambda_) == (first["mu"], first["lambda"])


# ---------------------------------------------------------------------- validation symbols
def test_validation_symbols_never_seen_are_skipped_refused_or_mapped(tmp_path):
    valid = text_file(tmp_path, "The fox é and ü the dog.", "valid.txt")
    skipping = tiny_train(tmp_path, "skip", valid=valid, updates=1)
    assert skipping.summary["best"]["valid_bits"] > 0
    mapped = tiny_train(tmp_path, "map", valid=valid, updates=1, unknown="x")
    assert mapped.summary["best"]["valid_bits"] != skipping.summary["best"]["valid_bits"]
    with pytest.raises(InputError, match="'é'"):
        tiny_train(tmp_path, "refuse", valid=valid, unknown="error")
    with pytest.raises(InputError, match="'Z'"):
        tiny_train(tmp_path, "no-symbol", valid=valid, unknown="Z")
    assert not (tmp_path / "refuse").exists()
    assert not (tmp_path / "no-symbol").exists()
    with pytest.raises(InputError, match="1 symbol; at least 2"):
        tiny_train(tmp_path, "one", valid=text_file(tmp_path, "éTü", "valid.txt"))
    assert not (tmp_path / "one").exists()
