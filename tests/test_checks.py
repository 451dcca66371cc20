"""Checks of arguments: ranges and their words, one function for each kind of value, fields of dataclasses."""

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hfrnn import checks
from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import get_backend
from hfrnn.checks import Range, check_fields, checked, choice, count, number
from hfrnn.errors import InputError


@pytest.mark.parametrize(
    ("allowed", "words", "inside", "outside"),
    [
        (Range(), "", [-1e300, 0.0], [math.nan]),
        (Range(1.0), ", 1 or more", [1.0, 2], [0.99, math.nan]),
        (Range(high=3), ", at most 3", [3, -1], [3.1]),
        (Range(high=3, high_open=True), " below 3", [2.9], [3]),
        (Range(0.0, low_open=True), " above 0", [1e-300], [0.0, -1.0, math.nan]),
        (Range(0.0, 1.0), " from 0 to 1", [0.0, 0.5, 1.0], [-1e-9, 1.000001]),
        (Range(0.0, 1.0, high_open=True), " from 0, below 1", [0.0, 0.999], [1.0]),
        (Range(0.0, 1.0, low_open=True), " above 0, at most 1", [0.5, 1.0], [0.0]),
        (Range(0.0, 1.0, low_open=True, high_open=True), " above 0, below 1", [0.5], [0.0, 1.0]),
    ],
    ids=str,
)
def test_a_range_knows_its_numbers_and_its_words(allowed, words, inside, outside):
    assert str(allowed) == words
    assert all(value in allowed for value in inside)
    assert not any(value in allowed for value in outside)


@dataclass(frozen=True)
class Options:
    share: float = checked(0.5, number, Range(0.0, 1.0))
    most: int | None = checked(3, count, 1, or_none=True)
    rule: str = checked("first", choice, ("first", "second"))
    free: float = -7.0

    def __post_init__(self):
        check_fields(self)


def test_fields_are_stored_in_their_plain_types():
    options = Options(np.float32(0.5), np.int64(4))
    assert [type(each) for each in (options.share, options.most)] == [float, int]
    assert Options(1.0, None, "second", math.nan).most is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"share": 1.5}, "share is 1.5: give a number from 0 to 1"),
        ({"share": math.nan}, "share is nan: give a finite number from 0 to 1"),
        ({"most": 0}, "most is 0: give a whole number, 1 or more, or None"),
        ({"most": 1.0}, "most is 1.0: give a whole number, 1 or more, or None"),
        ({"rule": "third"}, "rule is 'third': use one of first, second"),
        ({"rule": ["first"]}, "rule is a list: use one of first, second"),
    ],
)
def test_a_field_outside_its_range_is_named(wrong, message):
    with pytest.raises(InputError) as caught:
        Options(**wrong)
    assert str(caught.value) == message


def test_numbers_of_every_library_become_floats_and_infinity_is_none():
    for value in (2, 2.0, np.float32(2), np.int8(2), Fraction(4, 2)):
        found = number("x", value)
        assert (found, type(found)) == (2.0, float)
    for value in (math.inf, -math.inf, math.nan, True, np.True_, "2", 1j, [2.0], np.array([2.0]), 10**400, None):
        with pytest.raises(InputError, match=r"^x is "):
            number("x", value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("a\x1b[2J\u202e", r"'a\x1b[2J\u202e'"),
        (10**5000, "a number of 16,610 bits"),
        (np.zeros((2, 3)), "an array of shape (2, 3) and type float64"),
        (np.array(1.5), "1.5"),
        ([], "an empty list"),
        ((1, 2), "a tuple"),
        ({}, "a table"),
        (dict, "the class dict"),
        (object(), "an object"),
        (math, "a module"),
        (1.0, "1"),
        (None, "None"),
    ],
    ids=lambda value: checks.shown(value),
)
def test_a_message_shows_a_value_in_a_few_words(value, words):
    assert checks.shown(value) == words


def test_a_long_value_is_cut():
    assert len(checks.shown("x" * 10**6)) < 130
    assert checks.shown("x" * 10**6).endswith("... (1,000,000 characters)")


def test_paths_are_strings_or_path_objects():
    assert checks.path("run", "a/b") == checks.path("run", Path("a/b")) == Path("a/b")
    for value in ("", "a\0b", b"a", 3, None, ["a"]):
        with pytest.raises(InputError, match=r"^run (is|holds) .*: give a path( as a string or a Path)?$"):
            checks.path("run", value)


@pytest.mark.parametrize(
    "wrong",
    [
        np.ma.array([1.0, 2.0], mask=[True, False]), np.ones(2, complex), np.array(["a", "b"]), np.array([None, 1]),
        [[1.0], [1.0, 2.0]], {"a": 1}, {1.0, 2.0}, iter([1.0, 2.0]), "ab", None, 1.0, np.ones(3), np.ones((1, 2)),
        np.array([1.0, np.nan]), np.array([1.0, np.inf]), np.array([True, False]),
    ],
    ids=lambda value: checks.shown(value) if not isinstance(value, np.ndarray) else str(value)[:20],
)  # fmt: skip
def test_an_array_of_another_kind_is_refused_by_its_name(wrong):
    with pytest.raises(InputError, match=r"^v (is|has|holds) "):
        array("v", wrong, (2,), backend=get_backend("numpy"), finite=True)


def test_an_array_is_not_copied_without_need():
    v = np.ones(2)
    assert array("v", v, (2,), backend=get_backend("numpy")) is v
    assert array("v", v, (2,)) is v
    assert array("v", [1, 2], (None,), backend=get_backend("numpy")).tolist() == [1, 2]
