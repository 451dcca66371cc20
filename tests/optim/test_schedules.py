"""Learning rates from epoch to epoch, early stopping, and how both resume."""

import json
import math

import pytest

from hfrnn.errors import InputError
from hfrnn.optim.schedules import Cosine, EarlyStopping, Plateau, Schedule, Stepped, warm_up

LOSSES = (5.0, 4.0, 4.5, 4.2, 3.9, 3.9, 3.8)


def rates(schedule, losses=LOSSES):
    return [schedule.after_epoch(loss) for loss in losses]


def test_a_constant_rate_stays():
    assert rates(Schedule(0.3), (1.0, 2.0, math.nan, None)) == [0.3] * 4


def test_the_rate_is_halved_when_the_loss_does_not_fall_below_the_least_so_far():
    assert rates(Plateau(0.8)) == [0.8, 0.8, 0.4, 0.2, 0.2, 0.1, 0.1]
    assert rates(Plateau(0.9, divisor=1.5), (5.0, 5.0, 6.0)) == pytest.approx([0.9, 0.6, 0.4])


def test_with_patience_the_rate_waits_for_as_many_epochs_in_a_row():
    assert rates(Plateau(0.8, patience=2)) == [0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.4]
    assert rates(Plateau(0.8, patience=2), (5.0, 6.0, 6.0, 6.0, 6.0, 6.0)) == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]


def test_a_fall_smaller_than_the_gain_does_not_count_and_is_not_the_new_least():
    assert rates(Plateau(0.8, gain=0.01), (5.0, 4.96, 4.94, 4.93)) == [0.8, 0.4, 0.4, 0.2]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_does_not_fall_and_is_not_remembered(bad):
    assert rates(Plateau(0.8), (bad, 5.0, bad, 4.0)) == [0.4, 0.4, 0.2, 0.2]
    assert rates(Plateau(0.8, patience=2), (bad, bad)) == [0.8, 0.4]


def test_on_text8_the_rate_stays_five_epochs_and_is_then_halved_after_every_one():
    assert rates(Stepped(0.8), [None] * 7) == [0.8, 0.8, 0.8, 0.8, 0.4, 0.2, 0.1]
    assert rates(Stepped(0.9, epochs=1, divisor=3.0), (1.0, 2.0)) == pytest.approx([0.3, 0.1])


@pytest.mark.parametrize("schedule", [Plateau(0.8, least=0.2), Stepped(0.8, epochs=1, least=0.2)])
def test_a_rate_below_the_least_ends_the_run_for_good(schedule):
    assert rates(schedule, (5.0, 5.0, 5.0, 5.0, 1.0))[-2:] == [None, None]
    assert schedule.lr is None
    fresh = type(schedule)(0.8, least=0.2)
    assert 0.2 in rates(fresh, [5.0] * 9)


def test_a_rate_that_underflows_ends_the_run():
    assert rates(Stepped(1e-300, epochs=1, divisor=1e200), (1.0, 1.0)) == [None, None]


def test_a_cosine_has_its_values_at_known_points():
    schedule = Cosine(0.8, 12, least=0.2)
    known = {0: 0.8, 3: 0.2 + 0.3 * (1 + math.sqrt(0.5)), 4: 0.65, 6: 0.5, 8: 0.35, 12: 0.2, 13: 0.2, 10**9: 0.2}
    assert {k: schedule.rate(k) for k in known} == pytest.approx(known, rel=1e-14)
    assert Cosine(0.8, 2).rate(2) == 0.0
    assert rates(schedule, (1.0, 9.0, None)) == [0.8] * 3  # epochs change nothing


@pytest.mark.parametrize("schedule", [Schedule(0.8), Plateau(0.8), Stepped(0.8), Cosine(0.8)])
def test_the_rate_of_an_update_is_that_of_its_epoch_and_a_cosine_without_a_horizon_is_constant(schedule):
    assert [schedule.rate(k) for k in (0, 5, 10**6)] == [0.8] * 3


def test_a_horizon_is_shortened_once_and_never_made_longer():
    for planned, measured, horizon in ((None, 7, 7), (5, 7, 5), (9, 7, 7), (3, 1, 1)):
        schedule = Cosine(0.8)
        schedule.plan(planned, fixed=False)
        schedule.shorten(measured)
        assert (schedule.horizon, schedule.fixed) == (horizon, True)
        schedule.shorten(1)
        assert schedule.horizon == horizon
    fixed = Cosine(0.8, 5)
    fixed.shorten(3)
    assert fixed.horizon == 5


@pytest.mark.parametrize(
    ("own", "horizon", "fixed"),
    [((None, False), 7, True), ((None, True), 7, True), ((9, False), 7, True), ((5, False), 5, False),
     ((12, True), 12, True)],
)  # fmt: skip
def test_a_loaded_cosine_keeps_its_horizon_unless_another_one_is_planned(own, horizon, fixed):
    saved, loaded = Cosine(0.8), Cosine(0.8)
    saved.plan(9, fixed=False)
    saved.shorten(7)
    loaded.plan(*own)
    loaded.load_state_dict(json.loads(json.dumps(saved.state_dict())))
    assert (loaded.horizon, loaded.fixed) == (horizon, fixed)
    again = Cosine(0.8)
    again.load_state_dict(loaded.state_dict())
    assert again.state_dict() == loaded.state_dict()


@pytest.mark.parametrize("horizon", [None, 1])
def test_a_cosine_resumes_with_any_horizon(horizon):
    loaded = Cosine(0.8)
    loaded.load_state_dict(Cosine(0.8, horizon).state_dict())
    assert (loaded.horizon, loaded.planned, loaded.fixed) == (horizon, horizon, True)


@pytest.mark.parametrize(("name", "value"), [("horizon", 0), ("horizon", "x"), ("planned", 1.5), ("fixed", 3)])
def test_a_cosine_refuses_a_damaged_state(name, value):
    schedule = Cosine(0.8, 5)
    with pytest.raises(InputError, match=f"{name} of the state is"):
        schedule.load_state_dict({**schedule.state_dict(), name: value})
    with pytest.raises(InputError, match=f"lacks {name}"):
        schedule.load_state_dict({key: number for key, number in schedule.state_dict().items() if key != name})
    assert schedule.state_dict() == Cosine(0.8, 5).state_dict()


def test_a_warm_up_rises_to_one():
    assert [warm_up(k, 4) for k in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert [warm_up(k, 1) for k in range(2)] == [1.0, 1.0]
    assert warm_up(0, 0) == 1.0


@pytest.mark.parametrize("make", [
    lambda: Cosine(0.8, 7), lambda: Schedule(0.8), lambda: Plateau(0.8, patience=2, gain=0.01, least=0.1),
    lambda: Stepped(0.8, 3, least=0.1),
])  # fmt: skip
@pytest.mark.parametrize("done", [0, 3, 7])
def test_a_schedule_resumes_from_json_where_it_stood(make, done):
    schedule, resumed = make(), make()
    rates(schedule, LOSSES[:done])
    resumed.load_state_dict(json.loads(json.dumps(schedule.state_dict())))
    more = LOSSES[done:] + (9.0,) * 6
    assert resumed.lr == schedule.lr
    assert rates(resumed, more) == rates(schedule, more)


def test_early_stopping_waits_for_as_many_evaluations_in_a_row():
    stopping = EarlyStopping(2)
    found = [stopping.after_evaluation(loss) for loss in (5.0, 6.0, 4.0, 4.0, math.nan, 4.5)]
    assert found == [False] * 4 + [True] * 2
    assert stopping.best == 4.0
    assert [EarlyStopping(2).after_evaluation(loss) for loss in (math.nan, 5.0)] == [False, False]
    resumed = EarlyStopping(3)
    resumed.load_state_dict(json.loads(json.dumps(stopping.state_dict())))
    assert resumed.after_evaluation(4.0)
    assert resumed.best == 4.0


def test_a_state_that_does_not_fit_changes_nothing():
    schedule = Plateau(0.8)
    rates(schedule, (5.0, 6.0))
    before = schedule.state_dict()
    for words, state in (
        ("lacks best", {"kind": "plateau", "lr": 1.0, "idle": 0}),
        ("of kind", before | {"kind": "x"}),
    ):
        with pytest.raises(InputError, match=words):
            schedule.load_state_dict(state)
    assert schedule.state_dict() == before


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Schedule(0.0), "lr"), (lambda: Schedule(math.nan), "lr"),
    (lambda: Plateau(0.5).after_epoch(None), "validation"), (lambda: Plateau(0.5, divisor=1.0), "divisor"),
    (lambda: Plateau(0.5, patience=0), "patience"), (lambda: Plateau(0.5, gain=1.0), "gain"),
    (lambda: Plateau(0.5, least=0.6), "least"), (lambda: Stepped(0.5, epochs=0), "epochs"),
    (lambda: Stepped(0.5, least=-0.1), "least"), (lambda: Cosine(0.5, 9, least=0.6), "least"),
    (lambda: Cosine(0.5).shorten(0), "horizon"), (lambda: Cosine(0.5).plan(3, fixed=1), "fixed"),
    (lambda: EarlyStopping(0), "patience"), (lambda: EarlyStopping(1, gain=-0.1), "gain"),
])  # fmt: skip
def test_numbers_out_of_range_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()
