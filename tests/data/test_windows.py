"""Burn-in, window and validation blocks follow from the memory that a recording shows, unless they are given."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from scipy.signal import lfilter

import hfrnn
from hfrnn.data.linear_memory import Recorded, memory_of
from hfrnn.data.windows import Signals, Windows, period_of, recording_parts
from hfrnn.runs.config import read_toml

RNG = np.random.default_rng(2)
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def draws_do_not_depend_on_other_tests() -> None:
    RNG.bit_generator.state = START


def filtered(steps: int, denominator: list[float], noise: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return white inputs and the scaled outputs of a filter, with noise: (steps, 1) each."""
    u = RNG.normal(size=steps)
    y = lfilter([1.0], denominator, u)
    y = y / y.std() + noise * RNG.normal(size=steps)
    return u[:, None], y[:, None]


def memory(u: np.ndarray, y: np.ndarray, known: np.ndarray | None = None) -> int | None:
    return memory_of([Recorded(u, y, np.ones(y.shape, dtype=bool) if known is None else known)])


@pytest.mark.parametrize("tau", [5, 30, 200])
def test_the_memory_of_a_first_order_system_is_the_time_of_its_decay_to_one_percent(tau: int) -> None:
    u, y = filtered(8000, [1.0, -np.exp(-1 / tau)])
    assert memory(u, y) == pytest.approx(np.log(100) * tau, rel=0.15)
    known = RNG.uniform(size=y.shape) > 0.05
    found = memory(u, np.where(known, y + 0.01 * RNG.normal(size=y.shape), 1e6), known)
    assert found is not None
    assert tau < found < 8 * tau


def test_the_memory_of_an_oscillation_is_that_of_its_decay() -> None:
    pole = np.exp(-1 / 30 + 0.4j)
    u, y = filtered(8000, [1.0, -2 * pole.real, abs(pole) ** 2])
    assert memory(u, y) == pytest.approx(np.log(100) * 30, rel=0.2)


def test_the_longest_memory_of_several_outputs_counts_and_that_of_noise_is_unknown() -> None:
    u, slow = filtered(4000, [1.0, -np.exp(-1 / 40)])
    fast = lfilter([0.0, 1.0], [1.0], u[:, 0])[:, None]
    assert memory(u, np.hstack([fast, slow])) == memory(u, slow)
    assert memory(u, fast) <= 3
    assert memory(u, RNG.normal(size=u.shape)) is None
    assert memory(np.zeros((10, 1)), np.zeros((10, 1))) is None
    many = np.hstack([u, RNG.normal(size=(len(u), 40))])
    assert memory_of([Recorded(many, slow, np.ones(slow.shape, dtype=bool))]) is not None


def cut(steps: int, windows: Windows | None = None, tau: float = 10.0, **more):
    u, y = filtered(steps, [1.0, -np.exp(-1 / tau)])
    missing = np.zeros(y.shape, dtype=bool)
    missing[steps // 3] = True
    given = {"train": [Signals(u, y, missing)]}
    return recording_parts(given, windows or Windows(), more.get("fractions"), "r.csv")


def scored(part) -> np.ndarray:
    sequences = part.sequences("a part")
    assert sequences.lengths.size == 1
    return np.asarray(sequences.w).ravel() > 0


def test_a_short_recording_is_one_sequence_with_blocks_that_validate() -> None:
    found = cut(1000, fractions=(0.7, 0.1, 0.2))
    assert (found.window, found.blocks) == (1000, 5)
    assert 30 < found.burn_in < 60
    assert "forget their inputs within" in str(found.why)
    train, valid = scored(found.parts["train"]), scored(found.parts["valid"])
    assert len(train) == len(valid) == 800
    assert not (train & valid).any()
    left = np.flatnonzero(~(train | valid))
    assert left.tolist() == [*range(found.burn_in), 333]  # the burn-in and the missing target
    assert valid.sum() in (99, 100)
    assert np.diff(valid.astype(int)).clip(0).sum() >= 5  # five blocks
    assert scored(found.parts["test"]).sum() == 200 - found.burn_in


def test_a_long_recording_is_cut_into_windows_of_four_burn_ins() -> None:
    found = cut(20_000, tau=40)
    assert found.window == 4 * found.burn_in
    assert found.burn_in == pytest.approx(np.log(100) * 40, rel=0.15)
    assert (found.stride, found.blocks) == (found.window // 2, 0)
    given = cut(20_000, Windows(window=600, burn_in=7), tau=40)
    assert (given.window, given.burn_in, given.why) == (600, 7, "")


@pytest.mark.parametrize("steps", [60, 150, 300, 499, 1000, 6000])
@pytest.mark.parametrize("fractions", [None, (0.6, 0.2, 0.2), (1.0, 0.0, 0.0)])
def test_a_run_that_is_opened_again_cuts_its_recording_as_before(steps: int, fractions: tuple[float, ...]) -> None:
    given = {"train": [Signals(*filtered(steps, [1.0, -0.9]))]}
    found = recording_parts(given, Windows(), fractions, "r.csv")
    stored = Windows(found.window, found.stride, found.burn_in, blocks=found.blocks)
    again = recording_parts(given, stored, fractions, "r.csv")
    assert again.parts.keys() == found.parts.keys()
    for name, part in found.parts.items():
        one, other = (each.sequences("a part") for each in (part, again.parts[name]))
        for field in ("lengths", "x", "y", "w"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


def test_a_run_stores_what_followed_from_its_data(tmp_path) -> None:
    u, y = filtered(600, [1.0, -0.9])
    small = {"arch": "rnn", "hidden": 2, "updates": 1, "backend": "numpy"}
    burn_in = hfrnn.train(data={"x": u, "y": y}, window=100, **small, out=tmp_path / "a").config.burn_in
    followed = read_toml(tmp_path / "a" / "config.toml").followed
    assert 15 < burn_in == followed["burn_in"] <= 25
    assert (followed["stride"], followed["valid_blocks"], followed["l2"]) == (50, 0, 0)
    table = pandas.DataFrame({"u": u[:, 0], "y": y[:, 0]})
    names = {"inputs": ["u"], "targets": ["y"]}
    for more, l2 in (({}, 5e-4), ({"l2": 0.1}, 0.1), ({"optimizer": "adam"}, 5e-4)):
        config = hfrnn.train(data=table, **names, **{**small, **more}, out=tmp_path / f"{more}").config
        assert (config.window, config.valid_blocks, config.l2) == (600, 5, l2)


NOISE = np.random.default_rng(1).normal(size=(210, 1))


@pytest.mark.parametrize(
    ("inputs", "period"),
    [
        (np.tile(NOISE[:140].reshape(70, 2), (3, 1))[:-20], 70),
        (np.tile([1.0, 1, 0, 0, 1], 9)[:, None], 5),
        (np.tile(NOISE, (2, 1))[:-1], None),  # less than two periods
        (NOISE, None),
        (np.ones((200, 1)), None),
        ((np.arange(200.0) >= 150)[:, None], None),
        (np.append(np.tile(NOISE, (3, 1)), [[0.0]], axis=0), None),
    ],
)
def test_a_period_of_the_inputs_is_exact_and_lasts_to_their_end(inputs: np.ndarray, period: int | None) -> None:
    assert period_of(inputs) == period


def test_repeated_inputs_that_validate_too_are_noted() -> None:
    repeated, other = Signals(np.tile(NOISE[:70], (3, 1)), NOISE), Signals(NOISE, NOISE)
    windows = Windows(window=40, burn_in=5)
    (note,) = recording_parts({"train": [other, repeated]}, windows, None, "data").notes
    assert note.startswith("the inputs repeat every 70 rows")
    assert not recording_parts({"train": [other]}, windows, None, "data").notes
    assert not recording_parts({"train": [repeated], "valid": [other]}, windows, None, "data").notes
