"""The plan: what it expects is what is taken, and what fits is chosen from the fastest down."""

import math
import tracemalloc
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from support.fake_device import FakeBackend
from support.slow import one_in

import hfrnn
import hfrnn.engine.planner
from hfrnn.choices import DEVICE_SHARE, HOST_MEMORY
from hfrnn.engine import planner
from hfrnn.engine.plan import SHARD, Keep, Plan, Use, shard_boundaries
from hfrnn.engine.planner import MARGIN, Footprint, footprint_of, make_plan


def _network(arch: str = "lstm", hidden: Any = 32, symbols: int = 30, **options: Any) -> hfrnn.Network:
    return hfrnn.Network(arch, symbols, hidden, symbols, **options)


def _batch(net: hfrnn.Network, T: int, B: int) -> hfrnn.Batch:
    rng = np.random.default_rng(0)
    return hfrnn.Batch(rng.integers(0, net.n_in, (T, B)).astype(np.int32), rng.integers(0, net.n_out, (T, B)))


def _values(net: hfrnn.Network, T: int, B: int, real: bool, weights: str) -> hfrnn.Batch:
    rng = np.random.default_rng(0)
    shape = {"none": None, "steps": (T, B), "outputs": (T, B, net.n_out)}[weights]
    inputs = rng.random((T, B, net.n_in), net.dtype) if real else rng.integers(net.n_in, size=(T, B), dtype=np.int32)
    return hfrnn.Batch(inputs, rng.random((T, B, net.n_out), net.dtype), shape and rng.random(shape, net.dtype))


def _measured_peak(net, batch, plan, threads, use=Use.BOTH, clip_error=None, loop=None):
    """The most that an objective, and what is asked of it (a loss, a gradient, products), hold at a time.

    `batch` is a batch, or a function that makes one; the memory of the batch counts then.
    """
    theta = net.init(0)
    v, out = theta.copy(), theta.copy()
    tracemalloc.start()
    try:
        made = batch() if callable(batch) else batch
        objective = hfrnn.Objective(net, made, threads=threads, plan=plan, closed_loop=loop)
        if use is Use.LOSS:
            objective.loss(theta)
        if use in (Use.GRADIENT, Use.BOTH):
            objective.loss_and_gradient(theta, clip_error=clip_error)
        if use in (Use.OPERATOR, Use.BOTH):
            operator = objective.gauss_newton(theta, structural=0.1, tikhonov=0.1)
            operator.apply(v, out)
            operator.apply(v, out)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("arch", "hidden", "options", "checkpoint", "use"), one_in(2, [
    ("lstm", 64, {}, None, Use.BOTH), ("lstm", 64, {}, None, Use.OPERATOR), ("lstm", 64, {}, "sqrt", Use.GRADIENT),
    ("lstm", 32, {"symbols": 600}, "sqrt", Use.BOTH), ("mlstm", 48, {}, 7, Use.BOTH),
    ("mrnn", (48, 32), {}, None, Use.BOTH), ("rnn", 64, {"embedding": 16}, "sqrt", Use.OPERATOR),
    ("clockwork", (64, 64), {}, "sqrt", Use.BOTH), ("lstm", 64, {"learn_initial_state": True}, "sqrt", Use.BOTH),
]))  # fmt: skip
def test_what_a_plan_expects_is_within_15_percent_of_what_is_taken(arch, hidden, options, checkpoint, use):
    net, T, B = _network(arch, hidden, **{"symbols": 40, **options}), 60, 160
    plan = replace(make_plan(net, T, B, checkpoint), workers=2)
    expected = Footprint(net).bytes(plan, T, B, use)
    measured = _measured_peak(net, _batch(net, T, B), plan, 2, use)
    assert 0.95 * measured <= expected <= 1.15 * measured


@pytest.mark.parametrize("arch", ["lstm", "hornn"])
@pytest.mark.parametrize("checkpoint", [None, 7])
def test_gradients_with_limited_errors_take_what_is_expected_of_them(arch, checkpoint):
    net, T, B = _network(arch, 64, 40), 60, 200
    plan = replace(make_plan(net, T, B, checkpoint, use=Use.GRADIENT, clips=True), workers=2)
    expected = Footprint(net, clips=True).bytes(plan, T, B, Use.GRADIENT)
    measured = _measured_peak(net, _batch(net, T, B), plan, 2, Use.GRADIENT, clip_error=5.0)
    assert 0.95 * measured <= expected <= 1.15 * measured
    fitting = [make_plan(net, T, B, "auto", expected - n, use=Use.GRADIENT, clips=True) == plan for n in (0, 1)]
    assert fitting == [checkpoint is None, False]


@pytest.mark.parametrize("classes", [[0] * 40 + [1] * 960, [n // 4 for n in range(40)] + [10] * 960])
def test_targets_in_a_class_of_many_symbols_take_memory_in_one_segment_at_a_time(classes):
    net = hfrnn.Network("rnn", 1000, 8, 1000, loss="class-softmax", classes=classes, embedding=4)
    T, B, rng = 100, 40, np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(0, 1000, (T, B)).astype(np.int32), rng.integers(40, 1000, (T, B)))
    plan = replace(make_plan(net, T, B, 5, use=Use.LOSS), workers=1)
    expected, measured = Footprint(net).bytes(plan, T, B, Use.LOSS), _measured_peak(net, batch, plan, 1, Use.LOSS)
    assert measured <= expected <= 8 * T * B * 1000  # less than an integer for each output of all targets


@pytest.mark.parametrize("most", [1, 2, 16])
@pytest.mark.parametrize("keep", list(Keep))
def test_what_is_expected_is_the_sum_of_the_buffers_of_each_segment(keep, most):
    net, T, B = _network("lstm", hidden=5, symbols=7), 6, 8  # two shards of two segments
    plan, footprint = Plan((0, 4, 8), 3, keep, most), Footprint(net)
    slots = min(most, 2)
    one = hfrnn.engine.planner._tiny_sweep(net, 3, 4, True)  # what one segment takes
    states, nothing = 2 * (4 * 5 * 4), keep is Keep.NOTHING  # bytes of h and c between segments
    batch, sweeps = T * B * 8 + (slots + 2) * net.n_parameters * 4, T * B * (8 + 4 + net.head.scored_bytes)
    run = {task: one[f"{task} scratch"] + one[f"{task} predictions"] for task in ("gradient", "product")}
    kept = one["product states"] + (one["product predictions"] if keep is Keep.ALL else 0)
    expected = {Use.LOSS: sweeps + slots * (run["gradient"] + one["gradient states"])}
    expected[Use.GRADIENT] = sweeps + slots * run["gradient"]
    expected[Use.GRADIENT] += slots * (one["gradient states"] + 2 * states if nothing else 2 * one["gradient states"])
    expected[Use.OPERATOR] = sweeps + slots * (one["product scratch"] if keep is Keep.ALL else run["product"])
    expected[Use.OPERATOR] += 2 * (kept + 2 * 2 * states if nothing else 2 * kept)  # of both shards
    expected[Use.BOTH] = expected[Use.GRADIENT] + expected[Use.OPERATOR]
    for use, size in expected.items():
        assert footprint.bytes(plan, T, B, use) == math.ceil(MARGIN * (batch + size)), use


@pytest.mark.parametrize("use", list(Use))
@pytest.mark.parametrize("keep", list(Keep))
@pytest.mark.parametrize("weighs", [False, True])
@pytest.mark.parametrize(("loss", "temporary"), [("logistic", 5), ("squared", 1)])
def test_real_values_add_their_arrays_to_those_of_symbols(loss, temporary, weighs, keep, use):
    n_in, n_out, T, B, item = 3, 50, 6, 8, 4
    net, plan = hfrnn.Network("rnn", n_in, 5, n_out, loss=loss), Plan((0, 4, 8), 3, keep, 1)
    one = hfrnn.engine.planner._tiny_sweep(net, 3, 4, False)  # what one segment takes
    states, all_kept = 4 * 5 * item, keep is Keep.ALL  # bytes of h between segments
    given = T * B * (n_in + n_out * (2 if weighs else 1)) * item + 3 * net.n_parameters * item
    sweeps = T * B * (8 + item + (n_in + n_out * (3 if weighs else 1)) * item)
    run = {task: one[f"{task} scratch"] + one[f"{task} predictions"] for task in ("gradient", "product")}
    boundaries = [one["gradient states"] + 2 * states, 2 * (one["product states"] + 2 * 2 * states)]
    whole = [2 * one["gradient states"], 2 * 2 * (one["product states"] + all_kept * one["product predictions"])]
    gradient, product = boundaries if keep is Keep.NOTHING else whole
    gradient, product = gradient + run["gradient"], product + (one["product scratch"] if all_kept else run["product"])
    buffers = {
        Use.LOSS: run["gradient"] + one["gradient states"], Use.GRADIENT: gradient, Use.OPERATOR: product,
        Use.BOTH: gradient + product,
    }[use]  # fmt: skip
    if use is not Use.OPERATOR or not all_kept:
        buffers += 3 * 4 * n_out * 8 * temporary
    making = T * 4 * n_out * 8 * 3 if weighs else 0  # more than the buffers where little is kept
    total = given + (2 if use is Use.BOTH else 1) * sweeps + max(buffers, making)
    assert Footprint(net, False).bytes(plan, T, B, use, weighs) == math.ceil(MARGIN * total)


@pytest.mark.parametrize("checkpoint", [None, "sqrt"])
def test_losses_take_at_most_what_is_expected_of_them(checkpoint):
    net, T, B = _network("lstm", 64, 40), 60, 200
    plan, footprint = replace(make_plan(net, T, B, checkpoint), workers=2), Footprint(net)
    measured = _measured_peak(net, _batch(net, T, B), plan, 2, Use.LOSS)
    assert measured <= footprint.bytes(plan, T, B, Use.LOSS) < footprint.bytes(plan, T, B, Use.GRADIENT)
    whole = Plan(plan.shards, None, Keep.NOTHING, workers=2)  # a segment, whose states a gradient needs too
    assert footprint.bytes(whole, T, B, Use.LOSS) == footprint.bytes(whole, T, B, Use.GRADIENT)


@pytest.mark.parametrize(("loss", "n_in", "n_out", "real", "weights", "checkpoint", "use", "most"), [
    ("squared", 64, 64, True, "none", "sqrt", Use.BOTH, 1.15),
    ("squared", 3, 64, False, "steps", "sqrt", Use.GRADIENT, 1.15),
    ("squared", 20, 40, True, "outputs", "sqrt", Use.OPERATOR, 1.25),
    ("squared", 20, 3, True, "steps", None, Use.OPERATOR, 1.15),
    ("squared", 20, 64, True, "outputs", None, Use.BOTH, 1.25),
    ("logistic", 3, 64, False, "outputs", "sqrt", Use.GRADIENT, 1.25),
    ("logistic", 64, 20, True, "none", None, Use.BOTH, 1.25),
])  # fmt: skip
def test_real_values_take_what_is_expected_of_them(loss, n_in, n_out, real, weights, checkpoint, use, most):
    net, T, B = hfrnn.Network("rnn", n_in, 32, n_out, loss=loss), 90, 160
    plan = replace(make_plan(net, T, B, checkpoint, symbols=not real), workers=1)
    expected = Footprint(net, not real).bytes(plan, T, B, use, weights == "outputs")
    measured = _measured_peak(net, lambda: _values(net, T, B, real, weights), plan, 1, use)
    assert 0.95 * measured <= expected <= most * measured


@pytest.mark.parametrize("use", [Use.LOSS, Use.BOTH])
def test_weights_of_outputs_take_what_is_expected_of_them(use):
    net, T, B = _network("rnn", 16, 64, loss="squared"), 80, 256
    plan = replace(make_plan(net, T, B, None), workers=2)
    make = [lambda of=of: _values(net, T, B, False, of) for of in ("steps", "outputs")]
    taken = [_measured_peak(net, batch, plan, 1, use) for batch in make]  # threads may peak together or not
    expected = [Footprint(net).bytes(plan, T, B, use, weighs_outputs) for weighs_outputs in (False, True)]
    assert 0.75 * (taken[1] - taken[0]) <= expected[1] - expected[0] <= 1.3 * (taken[1] - taken[0])
    assert make_plan(net, T, B, "auto", expected[1], use=use, weighs_outputs=True) == plan
    assert make_plan(net, T, B, "auto", expected[1] - 1, use=use, weighs_outputs=True) != plan
    if use is Use.BOTH:
        found = [hfrnn.Objective(net, batch(), memory=expected[1] - 1).plan == plan for batch in make]
        assert found == [True, False]


BY_CLASSES = {"hidden": 100, "symbols": 10_000, "loss": "class-softmax", "classes": 100}


@pytest.mark.parametrize(("options", "T", "B", "expected"), [
    ({"hidden": 32}, 100, 300, (100, 34)), ({"hidden": 8, "symbols": 5}, 3, 200, (100, 3)),
    ({"hidden": 512, "symbols": 2000}, 100, 200, (100, 20)),  # large weights: segments of 16 MiB
    ({"arch": "rnn", "hidden": 512, "symbols": 1024}, 100, 200, (100, 5)),  # weights of 2 MiB are not large yet
    ({"hidden": (300, 200), "symbols": 1000}, 64, 64, (32, 13)),  # both layers feed the output
    ({"hidden": 8, "symbols": 20_000}, 50, 30, (15, 6)),  # 80 rows at least
    (BY_CLASSES, 35, 20, (10, 35)), (BY_CLASSES, 35, 256, (128, 12)),
    ({"hidden": 64, "backend": "numba"}, 100, 300, (100, 100)),  # compiled loops: segments of 16 MiB
    ({"hidden": 512, "backend": "numba"}, 100, 300, (100, 20)),
])  # fmt: skip
def test_where_all_is_kept_segments_fit_the_cache(options, T, B, expected):
    if "backend" in options:
        pytest.importorskip("numba")
    plan = make_plan(_network(**options), T, B, None)
    assert (plan.shards[1], plan.segment) == expected


def test_a_budget_is_met_by_fewer_shards_at_a_time_then_by_recomputation_then_by_smaller_shards():
    net, T, B = _network(hidden=64), 100, 1500
    footprint, found = Footprint(net), []
    for size, keep, segment, slots in (
        (128, Keep.ALL, 15, 12), (128, Keep.ALL, 15, 6), (128, Keep.ALL, 15, 3), (128, Keep.NOTHING, 10, 12),
        (128, Keep.NOTHING, 10, 3), (64, Keep.NOTHING, 10, 4), (64, Keep.NOTHING, 10, 2), (32, Keep.NOTHING, 10, 2),
        (8, Keep.NOTHING, 10, 2),
    ):  # fmt: skip
        expected = Plan(shard_boundaries(B, size), segment, keep, slots)
        budget = footprint.bytes(expected, T, B)
        found.append(make_plan(net, T, B, "auto", budget) == expected)
        assert make_plan(net, T, B, "auto", budget - 1) != expected
    assert all(found)


def test_a_budget_that_no_plan_fits_is_refused_with_the_least():
    with pytest.raises(hfrnn.InputError, match=r"need at least .* MiB, and the budget is 1\.0 MiB"):
        make_plan(_network(hidden=64), 100, 256, "auto", 2**20)


def test_auto_keeps_states_without_predictions_where_only_these_are_too_many():
    net, T, B = _network(hidden=8, symbols=400), 100, 128
    states = replace(make_plan(net, T, B, None), keep=Keep.STATES, workers=2)
    assert make_plan(net, T, B, "auto", Footprint(net).bytes(states, T, B) + 1).keep is Keep.STATES


@pytest.mark.parametrize("B", [1, 2, 15, 16, 17, 128, 129, 300, 1000])
def test_shards_cover_the_batch_and_the_larger_come_first(B):
    edges = shard_boundaries(B)
    sizes = np.diff(edges)
    assert (edges[0], edges[-1]) == (0, B)
    assert sizes.max() <= SHARD == 128
    assert sizes.max() - sizes.min() <= 1
    assert (np.diff(sizes) <= 0).all()
    assert (len(sizes) >= 2) == (B >= 16)


def test_a_plan_does_not_depend_on_the_number_of_threads():
    net = _network()
    batch = _batch(net, 20, 200)
    assert hfrnn.Objective(net, batch, threads=1).plan == hfrnn.Objective(net, batch, threads=5).plan


fake = FakeBackend()
T, B = 100, 300
NET = hfrnn.Network("lstm", 30, 64, 30, backend=fake)


def budget_of(plan: Plan, net: hfrnn.Network = NET) -> int:
    return footprint_of(net).bytes(plan, T, B)


def test_a_device_takes_one_shard_and_segments_as_long_as_they_fit():
    for K in (T, 50, 25, 10):
        plan = Plan((0, B), K, Keep.ALL, workers=1)
        assert make_plan(NET, T, B, "auto", budget_of(plan)) == plan


def test_a_budget_is_met_by_what_is_kept_and_only_then_by_smaller_shards():
    net, kept = hfrnn.Network("rnn", 8, 8, 400, backend=fake), []
    for budget in np.geomspace(budget_of(Plan((0, B), T, Keep.ALL, 1), net), 2e6, 40):
        plan = make_plan(net, T, B, "auto", int(budget))
        assert footprint_of(net).bytes(plan, T, B) <= budget
        kept.append((list(Keep).index(plan.keep), len(plan.shards) - 1))
    assert kept == sorted(kept)
    assert {keep for keep, _ in kept} == {0, 1, 2}
    assert all(shards == 1 for keep, shards in kept if keep < 2)
    assert kept[-1][1] > 1


def test_sqrt_takes_one_shard_where_it_fits():
    least = Plan((0, B), 10, Keep.NOTHING, 1)
    assert make_plan(NET, T, B, "auto", budget_of(least)) == least
    halves = Plan(shard_boundaries(B, B // 2), 10, Keep.NOTHING, 1)
    assert make_plan(NET, T, B, "auto", budget_of(least) - 1) == halves


@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(None, (T, Keep.ALL)), ("sqrt", (10, Keep.NOTHING)), (7, (7, Keep.NOTHING))]
)
def test_a_chosen_checkpoint_runs_on_one_shard(checkpoint, expected):
    assert make_plan(NET, T, B, checkpoint, 1) == Plan((0, B), *expected, workers=1)


def test_the_default_budget_is_a_share_of_the_free_memory_of_the_device():
    free = 6 * 2**30  # 5 GiB of the device and 1 GiB of CuPy's pool
    assert fake.free_memory() == free
    assert DEVICE_SHARE * free - 2**20 < fake.default_memory() <= DEVICE_SHARE * free
    assert fake.default_memory() % 2**20 == 0
    assert hfrnn.Network("rnn", 3, 4, 3).backend.default_memory() == HOST_MEMORY == 4 * 2**30


def test_a_plan_without_a_budget_asks_the_device(monkeypatch):
    half = Plan((0, B), 50, Keep.ALL, 1)
    monkeypatch.setattr(FakeBackend, "default_memory", lambda self: budget_of(half))
    assert make_plan(NET, T, B) == half


@pytest.mark.parametrize("use", list(Use))
def test_a_device_expects_room_for_the_copies_of_cupy(use, monkeypatch):
    plan, found = Plan((0, B), 25, Keep.ALL, 1), []
    for copies in (0, 2):
        monkeypatch.setattr(planner, "COPIES", copies)
        found.append(planner.Footprint(NET).bytes(plan, T, B, use))
    assert found[1] - found[0] == pytest.approx(planner.MARGIN * 2 * 4 * 256 * 25 * B, abs=2)  # two copies of U


@pytest.mark.parametrize(("checkpoint", "use"), one_in(2, product([None, 7], [Use.LOSS, Use.GRADIENT, Use.OPERATOR])))
def test_what_a_plan_expects_of_a_closed_loop_is_near_to_what_is_taken(checkpoint, use):
    net, T, B = hfrnn.Network("gru", 12, 24, 12, loss="squared"), 200, 128
    plan = make_plan(net, T, B, checkpoint, symbols=False, use=use, loops=True)
    plan = replace(plan, workers=2, segment=1)  # as a closed loop has them
    expected = footprint_of(net, False, loops=True).bytes(plan, T, B, use)
    measured = _measured_peak(net, lambda: _values(net, T, B, True, "none"), plan, 2, use, loop=hfrnn.ClosedLoop())
    assert 0.95 * measured <= expected <= 1.15 * measured
