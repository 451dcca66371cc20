"""Ranges of numbers: membership, words, and the check of a dataclass."""

import math
from dataclasses import dataclass

import pytest

from hfrnn.errors import InputError
from hfrnn.optim.ranges import Range, check_fields, choice, number, require


@pytest.mark.parametrize(
    ("allowed", "words", "inside", "outside"),
    [
        (Range(1.0), "of at least 1", [1.0, 2, math.inf], [0.99, math.nan]),
        (Range(0.0, low_open=True), "above 0", [1e-300], [0.0, -1.0, math.nan]),
        (Range(0.0, 1.0), "from 0 to 1", [0.0, 0.5, 1.0], [-1e-9, 1.000001]),
        (Range(0.0, 1.0, high_open=True), "from 0 up to but not 1", [0.0, 0.999], [1.0]),
        (Range(0.0, 1.0, low_open=True, high_open=True), "between 0 and 1", [0.5], [0.0, 1.0]),
        (Range(0.0, high_open=True), "of at least 0", [0.0, 1e300], [math.inf]),
    ],
    ids=str,
)
def test_a_range_knows_its_numbers_and_its_words(allowed, words, inside, outside):
    assert str(allowed) == words
    assert all(value in allowed for value in inside)
    assert not any(value in allowed for value in outside)


@dataclass(frozen=True)
class Options:
    share: float = number(0.5, Range(0.0, 1.0))
    most: int | None = number(3, Range(1.0), or_none=True)
    rule: str = choice("first", "second")
    free: float = -7.0


def test_fields_within_their_ranges_pass():
    for options in (Options(), Options(1.0, None, "second", math.nan)):
        check_fields(options)
    assert Options().rule == "first"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"share": 1.5}, "share is 1.5, expected a number from 0 to 1."),
        ({"most": 0}, "most is 0, expected a number of at least 1, or None."),
        ({"rule": "third"}, "rule is 'third', expected one of first, second."),
    ],
)
def test_a_field_outside_its_range_is_named(wrong, message):
    with pytest.raises(InputError, match=message):
        check_fields(Options(**wrong))


@pytest.mark.parametrize("value", [math.inf, math.nan, 0.5])
def test_a_single_number_has_to_be_finite_and_inside(value):
    with pytest.raises(InputError, match=f"patience is {value}, expected a number of at least 1."):
        require("patience", value, Range(1.0))
