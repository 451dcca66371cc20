"""Checks of arguments: ranges and their words, one function for each kind of value, fields of dataclasses."""

import functools
import math
from dataclasses import dataclass

import numpy as np
import pytest

from hfrnn import Batch, HessianFree, Network, checks, minimize
from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import get_backend
from hfrnn.checks import Range, check_fields, checked, choice, count, number
from hfrnn.errors import InputError
from hfrnn.optim.cg import conjugate_gradient


@pytest.mark.parametrize(
    ("allowed", "words", "inside", "outside"),
    [
        (Range(), "", [-1e300, 0.0], [math.nan]),
        (Range(1.0), ", 1 or more", [1.0, 2], [0.99, math.nan]),
        (Range(high=3), ", at most 3", [3, -1], [3.1]),
        (Range(0.0, low_open=True), " above 0", [1e-300], [0.0, -1.0, math.nan]),
        (Range(0.0, 1.0), " from 0 to 1", [0.0, 0.5, 1.0], [-1e-9, 1.000001]),
        (Range(0.0, 1.0, high_open=True), " from 0, below 1", [0.0, 0.999], [1.0]),
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


@pytest.mark.parametrize(("wrong", "message"), [
    ({"share": 1.5}, "share is 1.5: give a number from 0 to 1"),
    ({"share": math.nan}, "share is nan: give a finite number from 0 to 1"),
    ({"most": 0}, "most is 0: give a whole number, 1 or more, or None"),
    ({"most": 1.0}, "most is 1.0: give a whole number, 1 or more, or None"),
    ({"rule": "third"}, "rule is 'third': use one of first, second"),
    ({"rule": ["first"]}, "rule is a list: use one of first, second"),
])  # fmt: skip
def test_a_field_outside_its_range_is_named(wrong, message):
    with pytest.raises(InputError) as caught:
        Options(**wrong)
    assert str(caught.value) == message


def test_a_message_shows_a_value_in_a_few_words():
    for value, words in (
        ("a\x1b[2J\u202e", r"'a\x1b[2J\u202e'"), (10**5000, "a number of 16,610 bits"), (np.array(1.5), "1.5"),
        (np.zeros((2, 3)), "an array of shape (2, 3) and type float64"), ([], "an empty list"), ((1, 2), "a tuple"),
        ({}, "a table"), (dict, "the class dict"), (object(), "an object"), (math, "a module"), (1.0, "1"),
        (None, "None"),
    ):  # fmt: skip
        assert checks.shown(value) == words
    assert checks.shown("x" * 10**6).endswith("... (1,000,000 characters)")


def test_an_array_is_not_copied_without_need():
    v = np.ones(2)
    assert array("v", v, (2,), backend=get_backend("numpy")) is v
    assert array("v", v, (2,)) is v
    assert array("v", [1, 2], (None,), backend=get_backend("numpy")).tolist() == [1, 2]


def test_a_hint_stays_within_its_line() -> None:
    assert checks.near_hint("weightsb", ["weights\nb"]) == " (did you mean weights\\nb?)"


@pytest.mark.parametrize(("given", "takes"), [
    (lambda v: None, "v, out"), (lambda v, out: None, "v"), (lambda: None, "v"), (lambda v: None, ""),
    (lambda v, *, out: None, "v"), (lambda v, *, out: None, "v, out"),
])  # fmt: skip
def test_a_function_that_cannot_take_its_arguments_is_refused(given, takes):
    with pytest.raises(InputError, match=rf"^apply is a function: give a function that can be .* \({takes}\)$"):
        checks.function("apply", given, takes)
    with pytest.raises(InputError, match=r"^progress is a function: give a function that can be called with"):
        checks.function_or_flag("progress", given, takes)


def test_a_function_that_can_take_its_arguments_or_does_not_say_is_not_refused():
    @functools.wraps(np.linalg.norm)
    def adapted(v, out):
        return None

    for given in (lambda v, out=None: None, lambda *arguments: None, adapted, max, functools.partial(np.add, 1.0)):
        assert checks.function("apply", given, "v, out") is given


def test_an_object_whose_methods_take_other_arguments_is_refused():
    net = Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared")
    batch = Batch(np.zeros((2, 1, 2)), np.zeros((2, 1, 1)))
    needed = r"give an object with the methods loss\(theta\), loss_and_gradient\(theta\), gauss_newton\(theta\)$"
    for refused in (lambda: minimize(net, theta=net.init()), lambda: HessianFree().update(net.init(), net)):
        with pytest.raises(InputError, match=rf"^\w+ is a Network: {needed}"):
            refused()
    with pytest.raises(InputError, match=r"^apply is .*: give a function that can be .* \(v, out\)$"):
        conjugate_gradient(net.gauss_newton(net.init(), batch), net.init())
