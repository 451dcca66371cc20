"""The plan on a GPU, tried on the strict fake device: one shard, and segments as long as the memory allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.fake_device import FakeBackend

import hfrnn
from hfrnn.choices import DEVICE_SHARE, HOST_MEMORY
from hfrnn.engine import planner
from hfrnn.engine.plan import Keep, Plan, Use, shard_boundaries
from hfrnn.engine.planner import footprint_of, make_plan

fake = FakeBackend()
T, B = 100, 300
NET = hfrnn.Network("lstm", 30, 64, 30, backend=fake)


def budget_of(plan: Plan, net: hfrnn.Network = NET) -> int:
    return footprint_of(net).bytes(plan, T, B)


def test_a_device_takes_one_shard_and_segments_as_long_as_they_fit() -> None:
    for K in (T, 50, 25, 10):
        plan = Plan((0, B), K, Keep.ALL, workers=1)
        assert make_plan(NET, T, B, "auto", budget_of(plan)) == plan


def test_a_budget_is_met_by_what_is_kept_and_only_then_by_smaller_shards() -> None:
    net, kept = hfrnn.Network("rnn", 8, 8, 400, backend=fake), []
    for budget in np.geomspace(budget_of(Plan((0, B), T, Keep.ALL, 1), net), 2e6, 40):
        plan = make_plan(net, T, B, "auto", int(budget))
        assert footprint_of(net).bytes(plan, T, B) <= budget
        kept.append((list(Keep).index(plan.keep), len(plan.shards) - 1))
    assert kept == sorted(kept)
    assert {keep for keep, _ in kept} == {0, 1, 2}
    assert all(shards == 1 for keep, shards in kept if keep < 2)
    assert kept[-1][1] > 1


def test_sqrt_takes_one_shard_where_it_fits() -> None:
    least = Plan((0, B), 10, Keep.NOTHING, 1)
    assert make_plan(NET, T, B, "auto", budget_of(least)) == least
    halves = Plan(shard_boundaries(B, B // 2), 10, Keep.NOTHING, 1)
    assert make_plan(NET, T, B, "auto", budget_of(least) - 1) == halves


@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(None, (T, Keep.ALL)), ("sqrt", (10, Keep.NOTHING)), (7, (7, Keep.NOTHING))]
)
def test_a_chosen_checkpoint_runs_on_one_shard(checkpoint: Any, expected: tuple[int, Keep]) -> None:
    assert make_plan(NET, T, B, checkpoint, 1) == Plan((0, B), *expected, workers=1)


def test_the_default_budget_is_a_share_of_the_free_memory_of_the_device() -> None:
    free = 6 * 2**30  # 5 GiB of the device and 1 GiB of CuPy's pool
    assert fake.free_memory() == free
    assert DEVICE_SHARE * free - 2**20 < fake.default_memory() <= DEVICE_SHARE * free
    assert fake.default_memory() % 2**20 == 0
    assert hfrnn.Network("rnn", 3, 4, 3).backend.default_memory() == HOST_MEMORY == 4 * 2**30


def test_a_plan_without_a_budget_asks_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    half = Plan((0, B), 50, Keep.ALL, 1)
    monkeypatch.setattr(FakeBackend, "default_memory", lambda self: budget_of(half))
    assert make_plan(NET, T, B) == half


@pytest.mark.parametrize("use", list(Use))
def test_a_device_expects_room_for_the_copies_of_cupy(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, found = Plan((0, B), 25, Keep.ALL, 1), []
    for copies in (0, 2):
        monkeypatch.setattr(planner, "COPIES", copies)
        found.append(planner.Footprint(NET).bytes(plan, T, B, use))
    assert found[1] - found[0] == pytest.approx(planner.MARGIN * 2 * 4 * 256 * 25 * B, abs=2)  # two copies of U


def test_a_plan_of_the_device_gives_the_product_of_the_host() -> None:
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(0, 30, (9, 20)), rng.integers(0, 30, (9, 20)))
    host = hfrnn.Network("lstm", 30, 6, 30, dtype="float64")
    theta, v = host.init(0), host.init(1)
    expected = host.gauss_newton(theta, batch) @ v
    net = hfrnn.Network("lstm", 30, 6, 30, dtype="float64", backend=fake)
    for budget in (2**30, 410_000):
        objective = hfrnn.Objective(net, batch, memory=budget)
        product = fake.to_host(objective.gauss_newton(fake.asarray(theta)) @ fake.asarray(v))
        assert np.linalg.norm(product - expected) <= 1e-12 * np.linalg.norm(expected)
    assert replace(objective.plan, segment=None) == Plan((0, 20), None, Keep.NOTHING, 1)
