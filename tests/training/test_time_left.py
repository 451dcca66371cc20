"""The time left is estimated from the work that is still to do."""

import math
from collections import Counter
from types import SimpleNamespace

import pytest
from support.tiny_runs import tiny_train

import hfrnn.training.callbacks
from hfrnn.data.sampler import SequenceSampler, coming_sizes
from hfrnn.training.callbacks import TimeLeft
from hfrnn.training.trainer import Callback


@pytest.mark.parametrize(("first", "growth", "before"), [(None, 1.0, 4), (20, 1.5, 0), (10, 1.0, 0), (30, 1.1, 4)])
@pytest.mark.parametrize(("draws", "epochs"), [(7, None), (None, 3), (40, 3), (2, 3), (100, 2), (0, 1)])
def test_the_coming_batches_are_those_that_are_drawn(first, growth, before, draws, epochs):
    sampler = SequenceSampler(23, 10, 70, seed=1, first=first, growth=growth)
    for _ in range(before):
        sampler.draw()
    expected, drawn = coming_sizes(sampler, draws, epochs), Counter[int]()
    most, last = (math.inf if each is None else each for each in (draws, epochs))
    while drawn.total() < most and sampler.epoch + sampler.epoch_is_over < last:
        drawn[len(sampler.draw())] += 1
    assert +expected == drawn


class Clock:
    """A clock in place of the module `time`."""

    now = 100.0

    def monotonic(self):
        return self.now


class Watch(Callback):
    """Makes every update take a time that follows from its work, and notes what was estimated after it."""

    def __init__(self, clock):
        self.clock, self.estimates, self.times = clock, [], []

    def on_start(self, trainer):
        self.trainer, self.left = trainer, TimeLeft(trainer)
        assert self.left() is None or trainer.config.time_limit is not None

    def on_update(self, record):
        work = self.trainer.method.work
        if "curvature" in work:
            cg, validation, gradient = 3.0 * work["curvature"], 0.5, 2.0 * work["gradient"]
            timed = {"seconds_cg": cg, "seconds_validation": validation, "seconds_update": cg + validation + gradient}
            self.clock.now += cg + validation + gradient + 0.25
        else:
            timed = {}
            self.clock.now += 0.1 * work["updates"]
        self.left.note({**record, **timed})
        self.estimates.append(self.left())
        self.times.append(self.clock.now)


@pytest.mark.parametrize("options", [
    {"updates": 6, "first_gradient_symbols": 100, "gradient_symbols": 600, "batch_growth": 1.5},
    {"updates": None, "epochs": 2},
    {"optimizer": "adam", "streams": 4, "updates": 30, "log_interval": 10},
    {"optimizer": "sgd", "streams": 9, "updates": None, "epochs": 2, "log_interval": 7, "update_every": 5},
    {"optimizer": "adam", "streams": 50, "sequence_length": 21, "updates": None, "epochs": 10},  # one window: 40 steps
    {"optimizer": "online", "arch": "lstm-krause", "streams": 9, "updates": None, "epochs": 1, "log_interval": 100},
    {
        "optimizer": "adam", "data": "addition", "length": 21, "arch": "rnn", "text": None, "sequences": 40,
        "streams": 8, "epochs": 2, "updates": None, "log_interval": 3,
    },
])  # fmt: skip
def test_the_first_update_gives_the_time_left(options, tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(hfrnn.training.callbacks, "time", clock)
    watch = Watch(clock)
    tiny_train(tmp_path, callbacks=(watch,), **options)
    end = watch.times[-1]
    assert len(watch.times) >= 2
    unit = 0.15 if options.get("optimizer", "hf") != "hf" else 1e-9  # a last window may be shorter
    for estimate, now in zip(watch.estimates, watch.times, strict=True):
        assert estimate == pytest.approx(end - now, abs=unit * (2 if "optimizer" in options else 1))


def test_the_earliest_of_several_limits_counts(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(hfrnn.training.callbacks, "time", clock)
    method = SimpleNamespace(
        work={"updates": 1.0}, seconds=lambda record, whole: {"updates": whole},
        work_left=lambda updates: {"updates": float(updates)},
    )  # fmt: skip
    config = SimpleNamespace(time_limit=30.0, updates=11)
    trainer = SimpleNamespace(method=method, config=config, update=1)
    left = TimeLeft(trainer)
    assert left() == 30.0
    clock.now += 2.0
    left.note({})
    assert left() == 20.0
    clock.now += 15.0
    assert left() == 5.0
    config.time_limit = 18.0
    assert left() == 1.0
    config.time_limit = 3.0
    assert left() == 0.0
