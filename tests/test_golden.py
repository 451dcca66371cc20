"""The comparison of golden.py: what counts as a difference, and what is left out."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import golden
import numpy as np
import pytest
from golden_cases import ARCHITECTURES, BACKENDS, OPTIMIZERS, SOURCES, cases

GOLDEN = Path(golden.__file__)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([1.0, 2.0], [1.0, np.nextafter(2.0, 3.0)], "w differs in 1 of 2 numbers: number 1 is np.float64(2.0) before"),
        ([0.0], [-0.0], "w differs in 1 of 1 numbers"),
        ([1.0], [[1.0]], "w is float64 (1,) before, float64 (1, 1) after"),
    ],
)
def test_arrays_differ_in_any_bit(before: list[float], after: list[float], told: str) -> None:
    (found,) = golden.array_differences({"w": np.array(before)}, {"w": np.array(after)})
    assert found.startswith(told)


def test_arrays_with_the_same_bits_are_equal() -> None:
    arrays = {"w": np.array([math.nan, -0.0]), "empty": np.zeros((0, 3)), "single": np.array(1.0)}
    assert not list(golden.array_differences(arrays, {name: array.copy() for name, array in arrays.items()}))


def test_an_array_of_one_commit_only_is_a_difference() -> None:
    assert list(golden.array_differences({"a": np.ones(1)}, {"b": np.ones(1)})) == ["a only before", "b only after"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([{"loss": 1.0}], [{"loss": 2.0}], ["log [1] loss is 1.0 before, 2.0 after"]),
        ([{"loss": 1.0}], [{}], ["log [1] loss only before"]),
        ([{}], [{}, {}], ["log has 1 entries before, 2 after"]),
        (0.0, -0.0, ["log is 0.0 before, -0.0 after"]),
        (1, 1.0, ["log is 1 before, 1.0 after"]),
        (math.nan, math.nan, []),
        ([{"loss": None}], [{"loss": None}], []),
    ],
)
def test_differences_of_logs(before: object, after: object, told: list[str]) -> None:
    assert list(golden.differences(before, after, "log")) == told


def test_times_are_left_out() -> None:
    assert golden.untimed({"update": 1, "seconds": 2.0, "seconds_cg": 1.0}) == {"update": 1}
    facts = {"folder": "/a", "time": "0:01", "best at": "update 3, 1:02:03", "updates": "3"}
    data = {"version": "1", "runs": [{"columns": {"update": [1], "seconds": [0.1]}, "facts": facts}]}
    page = f'<script type="application/json" id="data">{json.dumps(data)}</script><script>1</script>'
    kept = {"columns": {"update": [1]}, "facts": {"best at": "update 3", "updates": "3"}, "options": {}}
    assert golden.report_data(page) == {"runs": [kept]}


def test_every_pair_of_choices_occurs() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)
    grid = [
        case for case in cases() if case.name.startswith(tuple(f"{o}-{a}-" for o in OPTIMIZERS for a in ARCHITECTURES))
    ]
    seen = set()
    for case in grid:
        words = case.commands[0].split()
        flags = tuple(words[words.index(f"--{name}") + 1] for name in ("optimizer", "arch", "backend", "threads"))
        seen |= set(combinations((*flags, case.name.split("-", 2)[2]), 2))
    kinds = (OPTIMIZERS, ARCHITECTURES, BACKENDS, ("1", "2"), tuple(SOURCES))
    missing = {(x, y) for a, b in combinations(kinds, 2) for x in a for y in b} - seen
    assert {f"default-{optimizer}-{source}" for optimizer, source in missing} <= set(names)


def test_list_prints_the_chosen_cases() -> None:
    command = [sys.executable, str(GOLDEN), "--list", "--only", "resumed-*"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split(":")[0] for line in shown] == [f"resumed-{name}" for name in (*OPTIMIZERS, "online")]
