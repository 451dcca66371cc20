"""The comparison of golden.py: what counts as a difference, and what is left out."""

from __future__ import annotations

import json
import math
from itertools import combinations

import golden
import numpy as np
from golden_cases import ARCHITECTURES, BACKENDS, OPTIMIZERS, SOURCES, cases


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


def test_times_are_left_out() -> None:
    assert golden.untimed({"update": 1, "seconds": 2.0, "seconds_cg": 1.0}) == {"update": 1}
    facts = {"folder": "/a", "time": "0:01", "best at": "update 3, 1:02:03", "updates": "3"}
    data = {"version": "1", "runs": [{"columns": {"update": [1], "seconds": [0.1]}, "facts": facts}]}
    page = f'<script type="application/json" id="data">{json.dumps(data)}</script><script>1</script>'
    kept = {"columns": {"update": [1]}, "facts": {"updates": "3"}}
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
