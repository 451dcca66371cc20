"""Sequences are put into parts in their order, at random, or with the same share of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hfrnn.data.array_data import from_memory
from hfrnn.data.splits import Split, parts_of_recordings
from hfrnn.errors import InputError

N = 200
CLASSES = (np.arange(N) < N // 10).astype(int)  # a tenth, all at the beginning
ARRAYS = {"x": np.arange(N * 3, dtype=float).reshape(N, 3, 1), "y": CLASSES}


def parts(split: Split, fractions: Any = (0.7, 0.2, 0.1), **arrays: Any) -> dict[str, Any]:
    return from_memory({**ARRAYS, **arrays}, fractions=fractions, split=split).parts


@pytest.mark.parametrize("how", ["random", "stratified"])
def test_every_sequence_is_in_one_part_and_the_seed_decides(how: str) -> None:
    found = parts(Split(how, 1))
    assert [part.sequences for part in found.values()] == [140, 40, 20]
    numbers = np.concatenate([part.origin for part in found.values()])
    assert sorted(numbers) == list(range(N))
    for part in found.values():
        np.testing.assert_array_equal(part.x.reshape(-1, 3)[:, 0], 3 * part.origin)
        np.testing.assert_array_equal(part.y, CLASSES[part.origin])
    same, other = parts(Split(how, 1)), parts(Split(how, 2))
    np.testing.assert_array_equal(found["valid"].origin, same["valid"].origin)
    assert set(found["valid"].origin) != set(other["valid"].origin)


@pytest.mark.parametrize("seed", range(5))
def test_stratified_parts_have_the_same_share_of_each_class(seed: int) -> None:
    for part in parts(Split("stratified", seed)).values():
        assert abs(part.y.sum() - part.sequences / 10) <= 1


def test_a_class_may_be_that_of_the_last_scored_step() -> None:
    y = np.zeros((N, 3), dtype=int)
    y[:, 1], mask = CLASSES, np.array([1.0, 1.0, 0.0]) * np.ones((N, 1))
    y[:, 2] = 1 - CLASSES
    assert parts(Split("stratified"), y=y, mask=mask)["valid"].y.reshape(-1, 3)[:, 1].sum() == 4


def test_whole_recordings_are_put_into_parts() -> None:
    given = {"train": [f"recording {n}" for n in range(10)]}
    found, shares = parts_of_recordings(given, Split("random"), (0.7, 0.2, 0.1), "the data")
    assert [len(each) for each in found.values()] == [7, 2, 1]
    assert sorted(each for part in found.values() for each in part) == given["train"]
    assert shares is None
    for wrong, message in (("stratified", "is for classes"), ("random", "is one recording")):
        with pytest.raises(InputError, match=message):
            parts_of_recordings({"train": ["one"]}, Split(wrong), None, "the data")


def test_a_test_share_beside_recordings_for_the_test_is_refused() -> None:
    given = {"train": [f"recording {n}" for n in range(10)], "test": ["own"]}
    with pytest.raises(InputError, match="own recordings for the test"):
        parts_of_recordings(given, Split("random"), (0.6, 0.2, 0.2), "the data")
    found, _ = parts_of_recordings(given, Split("random"), (0.8, 0.2, 0.0), "the data")
    assert [len(each) for each in found.values()] == [8, 2, 1]


@pytest.mark.parametrize(("how", "arrays", "message"), [
    ("stratified", {"y": np.ones((N, 1)) * 0.5}, "are no classes"),
    ("random", {"valid_x": ARRAYS["x"], "valid_y": CLASSES}, "leave .*split"),
])  # fmt: skip
def test_a_split_that_does_not_fit_is_refused(how: str, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parts(Split(how), None, **arrays)
