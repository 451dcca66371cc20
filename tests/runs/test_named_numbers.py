"""Options that take one number, or numbers by name: their forms, and what is no such value."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest

from hfrnn.errors import InputError
from hfrnn.option import by_name
from hfrnn.runs.config import TrainConfig


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (2, 2.0), (np.float32(2.5), 2.5), ("a = 1, b=2.5", ("a=1.0", "b=2.5")), (None, None),
        ({"a": 1, "b": np.float64(2.5)}, ("a=1.0", "b=2.5")), (("b=3.0", "a=1.0"), ("b=3.0", "a=1.0")),
    ],
)  # fmt: skip
def test_a_number_stays_one_and_numbers_by_name_become_texts(given: Any, value: Any) -> None:
    found = TrainConfig(optimizer="sgd", max_norm=given)
    assert found.max_norm == value
    assert found.resolved().max_norm == value
    table = tomllib.loads(found.to_toml())
    assert TrainConfig(**{name: each for name, each in table.items() if name != "followed"}).max_norm == value
    assert hash(found) == hash(TrainConfig(optimizer="sgd", max_norm=value))
    assert (by_name(("a=1.0", "b=2.5")), by_name(2.5)) == ({"a": 1.0, "b": 2.5}, 2.5)


@pytest.mark.parametrize(
    "given",
    ["a", "=1", "a=x", "a=1,", "a=1,a=2", "a=1,b", [], ["a=1", 2.0], {"a": "1"}, {1: 2.0}, {"a": True}, True],
    ids=repr,
)
def test_what_is_neither_is_refused_with_both_forms(given: Any) -> None:
    with pytest.raises(InputError, match=r"^max_norm= is .*give a number above 0, or NAME=NUMBER with commas$"):
        TrainConfig(max_norm=given)


@pytest.mark.parametrize("given", ["a=1,b=0", {"b": float("nan")}, {"b": 10**400}])
def test_a_number_by_name_has_the_range_of_the_option(given: Any) -> None:
    with pytest.raises(InputError, match=r"^max_norm= of b is (0|nan|inf): give a (finite )?number above 0"):
        TrainConfig(max_norm=given)
