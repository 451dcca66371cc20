"""Mutants that are tried with the tests which reach their lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mutations
import pytest
from support.mutants import lines_of, mutants
from support.reach import FIRST, OUTSIDE, Reach, digest
from support.runs_of_copies import environment

PROJECT = Path(__file__).resolve().parent.parent
SUMS = """from functools import cache

def add(a, b):
    return a + b

@cache
def seven():
    return add(3, 4)

def unused(a):
    return a < 2

def in_a_process(a):
    return a - 2

def at_import():
    return 1

ONE = at_import()
"""
TESTS = """import subprocess, sys
import pytest
from hfrnn import sums

@pytest.fixture(scope="module")
def five():
    return sums.add(2, 3)

@pytest.mark.parametrize("again", [1, 2])
def test_cached(again):
    assert sums.seven() == 7

def test_fixture(five):
    assert five == 5

def test_process():
    code = "from hfrnn import sums; sums.in_a_process(4)"
    subprocess.run([sys.executable, "-c", code], check=True)

def test_wrong():
    assert sums.unused(3)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project in place of this one, with the tools of this one."""
    (tmp_path / "hfrnn").mkdir()
    (tmp_path / "tests" / "support").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n')
    (tmp_path / "hfrnn" / "__init__.py").touch()
    (tmp_path / "hfrnn" / "sums.py").write_text(SUMS)
    (tmp_path / "tests" / "test_sums.py").write_text(TESTS)
    tools = ("mutations", "mutation_table", "reached", *(f"support/{name}" for name in ("mutants", "cuda_mutants")))
    for name in (*tools, "support/__init__", "support/reach", "support/reach_plugin", "support/runs_of_copies"):
        (tmp_path / "tests" / f"{name}.py").write_bytes((PROJECT / "tests" / f"{name}.py").read_bytes())
    monkeypatch.setattr(mutations, "PROJECT", tmp_path)
    return tmp_path


def line(text: str) -> int:
    return 1 + SUMS.splitlines().index(text)


@pytest.mark.nightly
def test_a_record_names_the_tests_behind_caches_fixtures_and_processes(project: Path) -> None:
    """It leaves out a test that fails; mutants are then noticed by the tests of the record."""
    pytest.importorskip("coverage")
    command = [sys.executable, "tests/reached.py", "out.json.gz", "--processes", "1"]
    subprocess.run(command, cwd=project, check=True, env=environment(project))
    reach = Reach.read(project / "out.json.gz")
    assert reach.left_out == ["tests/test_sums.py::test_wrong"]
    reached = {
        text: {test.partition("::")[2] for test in reach.tests_of("hfrnn/sums.py", [line(text)])}
        for text in ("    return a + b", "    return add(3, 4)", "    return a < 2", "    return a - 2", "    return 1")
    }
    cached = {"test_cached[1]", "test_cached[2]"}
    assert reached == {
        "    return a + b": {*cached, "test_fixture"},
        "    return add(3, 4)": cached,
        "    return a < 2": set(),
        "    return a - 2": {"test_process"},
        "    return 1": {*cached, "test_fixture", "test_process"},
    }
    words = ["--reached", str(project / "out.json.gz"), "--seed", "1", "--json", str(project / "out.json")]
    assert mutations.main([*words, "--at-once", "1"]) == 3
    trials = json.loads((project / "out.json").read_text())["trials"]
    assert {(each["mutant"]["after"], each["verdict"]) for each in trials} == {
        ("return a - b", "noticed"),
        ("return subtract(3, 4)", "noticed"),
        ("return add(4, 4)", "noticed"),
        ("return add(3, 5)", "noticed"),
        ("return a <= 2", "not reached"),
        ("return a < 3", "not reached"),
        ("return a + 2", "survived"),
        ("return 2 - a", "survived"),
        ("return a - 3", "survived"),
        ("return 2", "survived"),
    }


def record(sums: dict[str, float], sets: list[list[int]], lines: dict[str, int], project: Path) -> Reach:
    return Reach("", digest(project), sums, [], {}, [], sets, {"hfrnn/sums.py": lines})


def test_batches_start_with_the_quickest_tests_and_end_at_the_limit(tmp_path: Path) -> None:
    seconds = {f"tests/test_a.py::test_{n}": n / 16 for n in range(40, 0, -1)}
    reach = record(seconds, [list(range(40)), [0, OUTSIDE]], {"3": 0, "4": 1}, tmp_path)
    tests = reach.tests_of("hfrnn/sums.py", [3])
    assert tests == list(reversed(seconds))
    assert reach.tests_of("hfrnn/sums.py", [4]) == tests  # a line of an import
    batches = list(reach.batches(tests, 41.0))
    assert [len(batch) for batch, _ in batches] == [FIRST, 12, 3]
    assert [expected for _, expected in batches] == [210 / 16, 318 / 16, (33 + 34 + 35) / 16]


def test_a_record_of_other_sources_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record({}, [], {}, project).write(project / "out.json.gz")
    assert mutations.main(["--reached", str(project / "out.json.gz"), "--count", "1"]) == 3
    (project / "hfrnn" / "sums.py").write_text(SUMS + "\n")
    assert mutations.main(["--reached", str(project / "out.json.gz"), "--count", "1"]) == 1
    assert "record it again" in capsys.readouterr().out


def test_the_lines_of_a_mutant_are_those_of_its_statement() -> None:
    source = b"def f(a):\n    if (\n        a < 2\n    ):\n        return (a,\n            3)\n"
    found = {mutant.after: lines_of(mutant, source) for mutant in mutants("f.py", source)}
    assert found["a <= 2"] == range(2, 5)
    assert found["4)"] == range(5, 7)
