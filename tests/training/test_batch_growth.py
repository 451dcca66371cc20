"""Gradient batches of Hessian-free optimization that grow while noise takes too much of the gain."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from support.tiny_runs import metrics

import hfrnn
from hfrnn.data.sampler import SequenceSampler
from hfrnn.training.methods.batch_growth import BatchNoise, gain


def update(before, after=math.nan, q=math.nan, failed=None):
    return SimpleNamespace(loss_before=before, loss_after=after, q=q, failed=failed)


def grows(limit, *updates):
    noise = BatchNoise(limit)
    for each in updates:
        noise.add(each)
    return noise.grows


def test_batches_grow_where_new_batches_show_less_than_the_share_of_the_gain():
    """Every update halves the loss of its batch; the next batch begins at 0.9 or at 0.6 of it."""
    slow, fast = ([update(share**k, 0.5 * share**k) for k in range(8)] for share in (0.9, 0.6))
    kept = [math.log(share) / math.log(0.5) for share in (0.9, 0.6)]  # 0.15 and 0.74, in every update
    assert [grows(limit, *slow) for limit in (kept[0] - 0.01, kept[0] + 0.01)] == [False, True]
    assert [grows(limit, *fast) for limit in (kept[1] - 0.01, kept[1] + 0.01)] == [False, True]


def test_old_gains_fade():
    good, bad = [update(0.5**k, 0.5 ** (k + 1)) for k in range(30)], [update(0.5**30, 0.5**31)] * 30
    assert not grows(0.33, *good)
    assert not grows(0.33, *good, *bad[:3])
    assert grows(0.33, *good, *bad)


def test_an_update_that_was_not_measured_counts_with_its_prediction():
    assert gain(1.0, 0.5) == pytest.approx(gain(4.0, 2.0))
    assert grows(0.5, update(1.0, q=-0.6), update(0.8))
    assert not grows(0.5, update(1.0, q=-0.1), update(0.8))


def test_losses_below_zero_count_by_their_differences():
    assert gain(0.5, -0.5) == 1.0
    assert gain(-2.0, -3.0) == 1.0
    assert grows(0.5, update(-1.0, -2.0), update(-1.3))
    assert not grows(0.5, update(-1.0, -2.0), update(-1.7))


def test_the_gain_of_a_loss_that_hardly_leaves_zero_is_a_number():
    assert math.isfinite(gain(1e10, 5e-324))
    assert gain(1.0, 0.0) == 1.0


def test_failed_updates_are_left_out():
    failed = update(3.0, 3.0, failed="no_decrease")
    assert not grows(0.5, update(2.0, 1.0), update(1.0, 0.5), failed, update(0.5, 0.25))
    assert grows(0.5, update(2.0, 1.0), update(1.9, 0.9), failed, update(1.8, 0.9))


def test_a_limit_of_zero_lets_batches_grow_after_every_update():
    assert grows(0.0)
    assert grows(0.0, update(2.0, 1.0), update(1.0))


def test_a_third_of_the_gain_is_kept_by_the_best_size():
    """The derivation in the file: t - n per time, where n falls like 1/size, is largest where fresh = own/3."""
    size, t, n = np.linspace(0.1, 50, 100_000), 0.7, 1.3
    fresh, own = t - n / size, t + n / size
    best = np.argmax(fresh / size)
    assert fresh[best] / own[best] == pytest.approx(1 / 3, abs=1e-3)


def test_a_subset_after_stay_has_the_size_of_the_last_one():
    sampler = SequenceSampler(100, 10, 200, first=40, growth=1.5)
    sizes = []
    for k in range(8):
        sizes.append(len(sampler.draw()))
        if k in (1, 2, 5):
            sampler.stay()
    assert sizes == [4, 6, 6, 6, 9, 14, 14, 20]


def test_batches_grow_on_noise_and_not_on_what_can_be_learned(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 400, 1)).astype("float32")
    learned = {"x": x, "y": 0.5 * np.cumsum(x, axis=0) / np.arange(1, 21)[:, None, None]}
    noise = {"x": x, "y": rng.normal(size=x.shape).astype("float32")}
    options = {"arch": "rnn", "hidden": 5, "updates": 15, "threads": 1}
    grown = {}
    for name, data in (("learned", learned), ("noise", noise)):
        hfrnn.train(data=data, out=tmp_path / name, progress=False, first_gradient_symbols=400,
                    gradient_symbols=4000, batch_growth=1.3, **options)  # fmt: skip
        sizes = [
            after - before for before, after in pairwise([0, *(line["symbols"] for line in metrics(tmp_path / name))])
        ]
        grown[name] = sizes[-1] / sizes[0]
    assert grown["learned"] == 1.0
    assert grown["noise"] > 3.0
