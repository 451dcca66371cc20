"""What SGD, Adam and the online rule end a run by, and when they log and validate."""

import time

import numpy as np
import pytest
from support.method_runs import MUSIC, ONLINE, TASK, TRAINED, WINDOWS, Losses, run, training_state
from support.slow import slow_unless
from support.tiny_runs import TEXT, callback, metrics

import hfrnn
from hfrnn.errors import InputError
from hfrnn.ranks.one import Ranks
from hfrnn.training.trainer import TimeLimit, Trainer, train

pytestmark = pytest.mark.usefixtures("small_music")


class TwoRanks(Ranks):
    """Rank 0 of two, without the other one."""

    size = 2


def test_the_online_rule_is_refused_on_several_ranks(tmp_path):
    sentence = r"^optimizer='online' works in one process, and 2 ranks were started: start it without mpiexec$"
    with pytest.raises(InputError, match=sentence):
        run(tmp_path, **ONLINE, comm=TwoRanks())


# ---------------------------------------------------------------------- epochs, schedules, patience


EPOCH = {"streams": 50, "log_interval": 1000}  # an epoch of four windows is a line


@pytest.mark.parametrize(("options", "expected"), slow_unless(lambda options, _: options.get("optimizer") != "online", [
    ({"schedule": "halve"}, [0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]),
    ({**ONLINE, "streams": 100, "schedule": "halve"}, [0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]),
    ({"schedule": "divide"}, [0.5, 0.5, 0.5, 1 / 3, 1 / 3, 2 / 9, 2 / 9]),
    ({"schedule": "text8"}, [0.5] * 5 + [0.25, 0.125]),
    ({"schedule": "text8", "constant_epochs": 3, "fractions": (1, 0, 0)}, [0.5] * 3 + [0.25, 0.125, 0.0625, 0.03125]),
]), ids=str)  # fmt: skip
def test_schedules_change_the_rate_after_epochs(tmp_path, monkeypatch, options, expected):
    """Halving and dividing where validation does not fall, that of text8 whatever it says."""
    watch = () if "fractions" in options else (Losses(monkeypatch, 3.0, 2.0, 2.5, 1.0, float("nan"), 0.5, 0.5),)
    lines = metrics(run(tmp_path, callbacks=watch, **{**EPOCH, "learning_rate": 0.5, "epochs": 7, **options}).folder)
    assert [line["learning_rate"] for line in lines] == pytest.approx(expected)
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("options", [{}, pytest.param(ONLINE, marks=pytest.mark.slow)], ids=["sgd", "online"])
def test_a_schedule_that_is_used_up_ends_the_run_for_good(tmp_path, monkeypatch, options):
    options = {**options, **EPOCH, "schedule": "halve", "minutes": 5.0}
    result = run(tmp_path, callbacks=(Losses(monkeypatch, 1.0),), **options)
    lines = metrics(result.folder)
    assert result.summary["stopped"] == "learning rate"
    assert len(lines) == 1 + 13
    assert lines[-1]["learning_rate"] == lines[0]["learning_rate"] / 2**12
    before = training_state(result.folder)
    again = train(resume=result.folder, updates=10**6)
    assert (again.summary["stopped"], again.summary["updates"]) == ("learning rate", lines[-1]["update"])
    assert training_state(result.folder) == before
    assert "used up" in str(Trainer.resumed(result.folder, {}).method.lines()[0])


@pytest.mark.slow
def test_a_record_counts_the_share_of_the_epoch_that_is_over(tmp_path):
    lines = metrics(run(tmp_path, streams=50, log_interval=1, updates=3).folder)
    assert [line["epoch"] for line in lines] == [pytest.approx(n * lines[0]["epoch"], abs=2e-4) for n in (1, 2, 3)]
    assert 0 < lines[0]["epoch"] < 1


def test_validation_within_an_epoch_moves_no_schedule(tmp_path, monkeypatch):
    watch = Losses(monkeypatch, 3.0, 4.0, 5.0, 6.0, 7.0, 1.0)  # the last is that of the epoch
    lines = metrics(run(tmp_path, callbacks=(watch,), schedule="halve", validate_every=10, epochs=2).folder)
    assert {line["learning_rate"] for line in lines} == {0.5}


@pytest.mark.parametrize(("options", "updates"), slow_unless(lambda options, _: options in ({"streams": 20}, MUSIC), [
    ({"streams": 20}, (TRAINED - 1) // 20 // 10), ({"update_every": 5}, (TRAINED - 1) // 4 // 5),
    ({**ONLINE, "streams": 100}, (TRAINED - 1) // 100), ({**TASK}, 40 // 6), ({**MUSIC}, 7 // 3),
    ({"optimizer": "hf", "gradient_symbols": 500}, (TRAINED - 1) // 500),
    ({"optimizer": "hf", "gradient_symbols": 0}, 1), ({**TASK, "optimizer": "hf", "gradient_symbols": 500}, 40 // 22),
]), ids=["sgd", "windows", "online", "task", "music", "hf", "hf, all", "hf, task"])  # fmt: skip
def test_epochs_end_a_run_after_so_many_passes(tmp_path, options, updates):
    result = run(tmp_path, **options, epochs=2)
    assert (result.summary["stopped"], result.summary["updates"]) == ("epochs", 2 * updates)
    again = train(resume=result.folder)
    assert (again.summary["stopped"], again.summary["updates"]) == ("epochs", 2 * updates)
    more = train(resume=result.folder, epochs=3)  # a new limit replaces the old one
    assert (more.summary["stopped"], more.summary["updates"]) == ("epochs", 3 * updates)
    assert training_state(more.folder)[0] == training_state(run(tmp_path, "whole", **options, epochs=3).folder)[0]


@pytest.mark.parametrize("options", slow_unless(lambda options: "optimizer" in options, [
    {"validate_every": 10}, {"optimizer": "hf", "gradient_symbols": 300},
]), ids=str)  # fmt: skip
def test_patience_ends_a_run_and_more_of_it_goes_on(tmp_path, monkeypatch, options):
    watch = Losses(monkeypatch, 3.0, 2.0, 2.5, float("nan"), 1.0)
    result = run(tmp_path, callbacks=(watch,), **options, patience=2, minutes=5.0)
    assert (result.summary["stopped"], len(metrics(result.folder))) == ("patience", 4)
    assert train(resume=result.folder).summary["stopped"] == "patience"
    assert len(metrics(result.folder)) == 4
    result = train(resume=result.folder, patience=3, callbacks=(watch,))
    assert (result.summary["stopped"], len(metrics(result.folder))) == ("patience", 8)  # 1.0 four times


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, ONLINE], ids=["sgd", "online"])
def test_a_run_that_was_stopped_inside_an_interval_has_the_lines_of_one_that_was_not(tmp_path, given):
    options = {"log_interval": 7, "validate_every": 14, "schedule": "constant", "patience": 100, **given}
    whole = run(tmp_path, "whole", **options, updates=40).folder
    cut = run(tmp_path, "cut", **options, updates=9).folder
    train(resume=cut, updates=12)
    train(resume=cut, updates=40)

    def lines(folder):
        return {line["update"]: line["valid_loss"] for line in metrics(folder)}

    stops = {9, 12}
    assert not stops & set(lines(whole))
    assert {update: loss for update, loss in lines(cut).items() if update not in stops} == lines(whole)


# ---------------------------------------------------------------------- lines and validation
@pytest.mark.parametrize("options", [{"optimizer": "adam"}, {**ONLINE, "streams": 40}], ids=["adam", "online"])
def test_a_line_is_so_many_updates_and_ends_with_an_epoch_or_the_run(tmp_path, options):
    lines = metrics(run(tmp_path, **options, updates=WINDOWS + 23).folder)
    tens = [*range(10, WINDOWS, 10), WINDOWS, WINDOWS + 10, WINDOWS + 20, WINDOWS + 23]
    assert (TRAINED - 1) // 40 == WINDOWS
    assert [line["update"] for line in lines] == tens
    assert [line["epoch"] == 1 for line in lines].index(True) == tens.index(WINDOWS)
    assert [line["update"] for line in lines if line["valid_loss"] is not None] == [WINDOWS, WINDOWS + 23]


@pytest.mark.parametrize("options", [{"streams": 4}, {**ONLINE, "streams": 40}], ids=["sgd", "online"])
def test_validate_every_counts_updates_since_the_last_validation(tmp_path, options):
    lines = metrics(run(tmp_path, **options, validate_every=15, updates=WINDOWS + 30).folder)
    validated = [line["update"] for line in lines if line["valid_loss"] is not None]
    assert validated == [20, 40, WINDOWS, WINDOWS + 20, WINDOWS + 30]
    assert all(line["valid_bits"] == pytest.approx(line["valid_loss"] / np.log(2)) for line in lines
               if line["valid_loss"] is not None)  # fmt: skip


def test_a_time_limit_expects_an_update_of_mean_length():
    limit = TimeLimit(10.0)
    start = limit.begin() - 10.0
    limit.note(start, start + 6.0, updates=30)  # 0.2 s each
    limit.check(start + 6.0)
    assert (limit.longest, limit.reached) == (pytest.approx(0.2), False)
    limit.note(start + 6.0, start + 9.9, updates=30)
    limit.check(start + 9.9)
    assert limit.reached


def test_validations_may_be_closer_than_the_lines_of_the_log(tmp_path):
    lines = metrics(run(tmp_path, validate_every=4, updates=14).folder)
    assert [line["update"] for line in lines] == [4, 8, 10, 12, 14]  # a line of the log every 10 updates
    assert [line["update"] for line in lines if line["valid_loss"] is not None] == [4, 8, 12, 14]


def test_train_loss_is_the_mean_over_the_symbols_of_a_line(tmp_path):
    whole = metrics(run(tmp_path, updates=20, log_interval=20).folder)
    single = metrics(run(tmp_path, "single", updates=20, log_interval=1).folder)
    assert whole[0]["train_loss"] == pytest.approx(np.mean([line["train_loss"] for line in single]), rel=1e-12)
    assert whole[0]["gradient_norm"] == pytest.approx(np.mean([line["gradient_norm"] for line in single]), rel=1e-12)


def test_the_penalty_on_the_weights_is_no_part_of_validation(tmp_path):
    for options in ({}, {"optimizer": "hf", "gradient_symbols": 300}):
        name = options.get("optimizer", "sgd")
        small = {} if name == "hf" else {"learning_rate": 1e-6}
        result = run(tmp_path, name, **options, **small, l2=0.5, init_scale=1.0, updates=2)
        found = hfrnn.evaluate(*hfrnn.load(result.folder, "last"), TEXT[TRAINED:])
        assert metrics(result.folder)[-1]["valid_loss"] == pytest.approx(found.nats_per_symbol, rel=0.02)


@pytest.mark.parametrize(("options", "updates"), [({}, 1), ({**ONLINE, "log_interval": 2000}, 50)])
def test_the_time_limit_ends_a_run_within_a_line_and_validates(tmp_path, options, updates):
    result = run(tmp_path, **options, minutes=1e-6)
    assert (result.summary["stopped"], result.summary["updates"]) == ("time", updates)
    assert result.summary["best"]["update"] == updates


def test_a_solved_task_ends_a_run(tmp_path, monkeypatch):
    solved = callback(on_start=lambda trainer: monkeypatch.setattr(trainer.source, "errors", lambda logits: 0.0099))
    result = run(tmp_path, **TASK, updates=30, callbacks=(solved,))
    assert (result.summary["stopped"], result.summary["updates"]) == ("success", 40 // 6)
    assert result.summary["best"]["valid_errors"] == 0.0099


def test_the_time_limit_counts_validation(tmp_path, monkeypatch):
    def validate(*arguments):
        time.sleep(0.4)
        return 1.0, None

    monkeypatch.setattr("hfrnn.training.trainer.validate", validate)
    for options in ({"optimizer": "hf", "gradient_symbols": 300}, {"log_interval": 1}):
        name = options.get("optimizer", "sgd")
        result = run(tmp_path, name, **options, validate_every=1, minutes=0.3 / 60)
        assert (result.summary["stopped"], result.summary["updates"]) == ("time", 1)
