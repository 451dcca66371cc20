"""The learning rate of runs from update to update: cosine, its horizon, warm-up, the default schedule, exact resume."""

import functools
import itertools
import math

import pytest
from support.method_runs import MUSIC, ONLINE, TASK, WINDOWS, Losses, run, training_state
from support.slow import slow_unless
from support.tiny_runs import callback, metrics

from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.training.methods import method
from hfrnn.training.methods.method import LEAST_RATE, Pace
from hfrnn.training.trainer import train

pytestmark = pytest.mark.usefixtures("small_music")

COSINE = {"schedule": "cosine", "learning_rate": 0.5, "log_interval": 1, "streams": 20, "hidden": 2}
EPOCH = WINDOWS * 4 // 20  # updates of an epoch with these streams


def ends(update):
    """A callback that ends a run after an update."""
    return callback(on_update=lambda record: bool(record["update"] >= update))


def cosine(update, horizon, rate=0.5):
    share = (1 + math.cos(math.pi * min(update / horizon, 1))) / 2
    return rate * (LEAST_RATE + (1 - LEAST_RATE) * share)


def rates(folder):
    return [line["learning_rate"] for line in metrics(folder)]


def stored(folder, name):
    return load_checkpoint(folder / "last.safetensors")[1]["method"][f"schedule.{name}"]


def ticking(monkeypatch):
    """Let the clock of the estimate go on by a second at every record."""
    clock = functools.partial(next, itertools.count(0.0))
    monkeypatch.setattr(method, "Pace", lambda seconds: Pace(seconds, clock))


# ---------------------------------------------------------------------- cosine
def test_the_rate_falls_along_a_cosine_from_update_to_update(tmp_path):
    found = rates(run(tmp_path, **COSINE, updates=20).folder)
    assert found == pytest.approx([cosine(k, 20) for k in range(20)], rel=1e-12)
    assert found[0] == 0.5
    assert found[10] == pytest.approx(0.25, rel=1e-3)
    one_line = rates(run(tmp_path, "one line", **{**COSINE, "log_interval": 20}, updates=20).folder)
    assert one_line == [found[EPOCH - 1], found[-1]]  # that of a line's last update


@pytest.mark.parametrize(("options", "streams"), [({}, 20), (TASK, 3), (MUSIC, 3)], ids=["text", "task", "music"])
def test_the_epochs_are_a_horizon(tmp_path, options, streams):
    result = run(tmp_path, **{**COSINE, **options, "streams": streams}, epochs=1, updates=99)
    updates = result.summary["updates"]  # the first limit is the horizon
    assert stored(result.folder, "horizon") == updates
    assert rates(result.folder) == pytest.approx([cosine(k, updates) for k in range(updates)], rel=1e-12)


def test_with_minutes_the_horizon_is_measured_once(tmp_path, monkeypatch):
    ticking(monkeypatch)
    folder = run(tmp_path, **COSINE, minutes=0.5, callbacks=(ends(35),)).folder  # 30 records of a second
    assert stored(folder, "horizon") == 30
    assert rates(folder)[:3] == [0.5] * 3
    assert rates(folder)[3:] == pytest.approx([cosine(k, 30) for k in range(3, 35)], rel=1e-12)
    assert rates(folder)[-1] == pytest.approx(0.5 * LEAST_RATE)


@pytest.mark.parametrize(("updates", "horizon"), [(12, 12), (1000, 30)])
def test_minutes_beside_updates_shorten_the_horizon(tmp_path, monkeypatch, updates, horizon):
    ticking(monkeypatch)
    folder = run(tmp_path, **COSINE, minutes=0.5, updates=updates, callbacks=(ends(20),)).folder
    assert stored(folder, "horizon") == horizon
    assert rates(folder)[:3] == pytest.approx([cosine(k, updates) for k in range(3)], rel=1e-12)
    assert rates(folder)[5] == pytest.approx(cosine(5, horizon), rel=1e-12)


# ---------------------------------------------------------------------- cosine, resumed


LIMITS = {"updates": {"updates": 24}, "epochs": {"epochs": 2}, "minutes": {"minutes": 0.4}}


LIMITED = slow_unless(lambda limit, _: limit == "updates", zip(LIMITS, ("adam", "soap", "muon"), strict=True))


@pytest.mark.parametrize(("limit", "optimizer"), LIMITED)
def test_a_resumed_run_keeps_its_cosine_to_the_same_bits(tmp_path, monkeypatch, limit, optimizer):
    folders = []
    for name, stops in (("whole", (17,)), ("parts", (7, 8, 17))):
        ticking(monkeypatch)
        options = {**COSINE, **LIMITS[limit], "optimizer": optimizer, "warm_up": 10}
        folder = run(tmp_path, name, **options, callbacks=(ends(stops[0]),)).folder
        for stop in stops[1:]:
            train(resume=folder, callbacks=(ends(stop),))
        folders.append(folder)
    assert stored(folders[0], "horizon") == (2 * EPOCH if limit == "epochs" else 24)
    assert training_state(folders[0]) == training_state(folders[1])
    assert rates(folders[0]) == rates(folders[1])
    assert len(rates(folders[0])) == 17


@pytest.mark.slow
def test_new_updates_or_epochs_change_the_horizon_of_a_resumed_run(tmp_path):
    folder = run(tmp_path, **COSINE, updates=10).folder
    train(resume=folder, updates=16)
    assert rates(folder)[10:] == pytest.approx([cosine(k, 16) for k in range(10, 16)], rel=1e-12)
    train(resume=folder, epochs=2)
    assert stored(folder, "horizon") == 2 * EPOCH
    assert rates(folder)[16:] == pytest.approx([cosine(k, 2 * EPOCH) for k in range(16, 2 * EPOCH)], rel=1e-12)


@pytest.mark.slow
def test_new_minutes_keep_the_horizon_of_a_resumed_run(tmp_path, monkeypatch):
    ticking(monkeypatch)
    folder = run(tmp_path, **COSINE, updates=10, callbacks=(ends(5),)).folder
    train(resume=folder, minutes=0.05, callbacks=(ends(12),))
    assert rates(folder) == pytest.approx([cosine(k, 10) for k in range(12)], rel=1e-12)
    measured = run(tmp_path, "measured", **COSINE, minutes=0.5, callbacks=(ends(5),)).folder
    train(resume=measured, minutes=3.0, callbacks=(ends(40),))
    assert stored(measured, "horizon") == 30
    train(resume=measured, updates=50)
    assert rates(measured)[40:] == pytest.approx([cosine(k, 50) for k in range(40, 50)], rel=1e-12)


def test_a_run_that_stops_before_its_horizon_is_measured_measures_it_later(tmp_path, monkeypatch):
    ticking(monkeypatch)
    folder = run(tmp_path, **COSINE, minutes=0.5, callbacks=(ends(2),)).folder
    assert stored(folder, "horizon") is None
    train(resume=folder, callbacks=(ends(9),))
    assert stored(folder, "horizon") == 32  # 2 updates, and those of 30 seconds more


# ---------------------------------------------------------------------- the estimate
@pytest.mark.parametrize(("times", "updates", "horizon"), [
    ((100.0, 104.0, 105.0, 110.0), (0, 10, 16, 40), 40 + 90 * 30 // 6),  # the first record compiles
    ((0.0, 20.0), (7, 17), 17 + 40),  # one that takes long is an estimate
    ((0.0, 5.0, 200.0), (0, 2, 2000), 2000),  # it is at least what is done
])  # fmt: skip
def test_the_estimate_of_the_horizon(times, updates, horizon):
    now = iter(times)
    pace = Pace(100.0, lambda: next(now))
    assert [pace.horizon(each) for each in updates] == [None] * (len(updates) - 1) + [horizon]
    assert [Pace(None).horizon(each) for each in updates] == [None] * len(updates)


# ---------------------------------------------------------------------- warm-up
@pytest.mark.parametrize(("optimizer", "schedule"), slow_unless(lambda optimizer, _: optimizer in ("sgd", "muon"), [
    ("sgd", "text8"), ("adam", "divide"), ("soap", "constant"), ("muon", "cosine"),
]))  # fmt: skip
def test_the_rate_rises_over_the_first_updates(tmp_path, optimizer, schedule):
    options = {**COSINE, "schedule": schedule, "optimizer": optimizer}
    found = rates(run(tmp_path, **options, warm_up=4, updates=8).folder)
    later = [cosine(k, 8) if schedule == "cosine" else 0.5 for k in range(8)]
    assert found == pytest.approx([min((k + 1) / 4, 1) * rate for k, rate in enumerate(later)], rel=1e-12)


# ---------------------------------------------------------------------- the default
@pytest.mark.parametrize(("options", "schedule"), [
    ({"optimizer": "hf", "gradient_symbols": 300}, None), ({"optimizer": "muon"}, "divide"),
    ({"fractions": (1, 0, 0)}, "constant"), (ONLINE, "constant"), (TASK, "constant"), (MUSIC, "constant"),
    ({"schedule": "constant"}, "constant"), ({**TASK, "schedule": "halve"}, "halve"),
], ids=str)  # fmt: skip
def test_the_default_schedule_divides_for_texts_with_validation(tmp_path, options, schedule):
    result = run(tmp_path, **options, updates=1)
    assert result.config.schedule == schedule
    if schedule:
        assert f'schedule = "{schedule}"' in (result.folder / "config.toml").read_text("utf-8")
        assert train(resume=result.folder, updates=2).config.schedule == schedule


@pytest.mark.slow
def test_a_run_with_minutes_and_the_default_schedule_ends_when_its_rate_is_used_up(tmp_path, monkeypatch):
    options = {"streams": 50, "log_interval": 1000, "minutes": 5.0}
    result = run(tmp_path, **options, callbacks=(Losses(monkeypatch, 1.0),))
    assert (result.config.schedule, result.summary["stopped"]) == ("divide", "learning rate")
    found = rates(result.folder)
    assert found[-1] / 1.5 < 0.5 * LEAST_RATE <= found[-1]
    assert found[1:] == pytest.approx([0.5 / 1.5**k for k in range(len(found) - 1)])
