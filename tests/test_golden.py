"""The comparison of golden.py: what counts as a difference."""

from __future__ import annotations

import math

import golden
import numpy as np


def test_arrays_differ_in_any_bit() -> None:
    one, nearly = np.array([1.0, 2.0, math.nan]), np.array([1.0, np.nextafter(2.0, 3.0), math.nan])
    (found,) = golden.array_differences({"w": one, "zero": np.zeros(1)}, {"w": nearly, "zero": np.zeros(1)})
    assert found.startswith("w differs in 1 of 3 numbers: number 1 is np.float64(2.0) before")
    assert [*golden.array_differences({"w": np.array([0.0])}, {"w": np.array([-0.0])})]
    assert [*golden.array_differences({"a": one}, {"b": one})] == ["a only before", "b only after"]
    assert len([*golden.array_differences({"a": one}, {"a": one[None]})]) == 1


def test_logs_differ_in_any_value() -> None:
    for before, after in ((1.0, 2.0), ({"loss": 1.0}, {}), ([{}], [{}, {}]), (0.0, -0.0), ([1], [1.0])):
        assert len([*golden.differences(before, after, "log")]) == 1
    assert not [*golden.differences([math.nan], [math.nan], "log")]
