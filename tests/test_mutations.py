"""The mutator of mutations.py: what each operator does to a snippet, what is left alone, and what it reports."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import mutations
import pytest
from mutation_table import EQUIVALENTS, TARGETS, Equivalent, Target
from support.mutants import mutants

PROJECT = Path(__file__).resolve().parent.parent
EXAMPLE = PROJECT / "examples" / "peephole_lstm.py"
IN_MOTION = {"hfrnn/kernels/compiled.py", "hfrnn/kernels/numba/*.py", "hfrnn/kernels/cells.py"}
"""Targets that may match no file."""


def changed(statement: str, operator: str) -> set[str]:
    source = f"def f(a, b, c, x, xp):\n    {statement}\n"
    return {mutant.after for mutant in mutants("f.py", source.encode()) if mutant.operator == operator}


@pytest.mark.parametrize(("operator", "statement", "expected"), [
    ("drop a statement", "x.fill(0)", {"pass"}),
    ("drop a statement", "x[0] = a", {"pass"}),
    ("drop a statement", "a = b", {"pass"}),  # the argument keeps its value
    ("flip a sign", "x = a - (b - c)", {"x = a + (b - c)", "x = a - (b + c)"}),
    ("flip a sign", "x = -(a + b) * c", {"x = (a + b) * c", "x = -(a - b) * c"}),
    ("flip a sign", "xp.add(a, b, out=x)", {"xp.subtract(a, b, out=x)"}),
    ("transpose", "x = a @ b.T", {"x = a.T @ b.T", "x = a @ b"}),
    ("transpose", "xp.matmul(a, b[0], out=x)", {"xp.matmul(a.T, b[0], out=x)", "xp.matmul(a, b[0].T, out=x)"}),
    ("transpose", "x = a.swapaxes(-1, -2)", {"x = a"}),
    ("swap operands", "x = a - b - c", {"x = b - a - c", "x = c - (a - b)"}),
    ("swap operands", "x = a - a", set()),  # the same tree
    ("swap operands", "xp.where(a, b, c)", {"xp.where(a, c, b)"}),
    ("swap operands", "dot(a, b)", set()),  # of two vectors
    ("change a constant", "x = 3", {"x = 4"}),
    ("change a constant", "x = True", {"x = False"}),
    ("change a constant", "x = 'text', None", set()),
    ("change a comparison", "x = a < b <= c", {"x = a <= b <= c", "x = a < b < c"}),
    ("change a comparison", "x = a == b, a != c", {"x = a != b, a != c", "x = a == b, a == c"}),
    ("change a comparison", "x = max(a, b)", {"x = min(a, b)"}),
    ("and <-> or", "x = a and (b or c)", {"x = a or (b or c)", "x = a and (b and c)"}),
    ("negate a condition", "x = a if b else c", {"x = a if not b else c"}),
    ("negate a condition", "x = a if b == c else c", set()),  # changed as a comparison
])  # fmt: skip
def test_an_operator_changes_what_it_names_and_nothing_else(operator: str, statement: str, expected: set[str]) -> None:
    def trees(statements: set[str]) -> set[str]:
        return {ast.dump(ast.parse(each)) for each in statements}

    assert trees(changed(statement, operator)) == trees(expected)


# ---------------------------------------------------------------------- the table


@pytest.mark.nightly
def test_every_file_has_tests_and_every_equivalent_a_reason_and_a_source_line() -> None:
    found = mutations.every_mutant(PROJECT)
    files = mutations.targets(PROJECT)
    assert {"hfrnn/optim/cg.py", "hfrnn/engine/sweep.py", "hfrnn/kernels/rnn.py"} <= {mutant.file for mutant in found}
    assert {target.files for target in TARGETS} - {target.files for target in files.values()} <= IN_MOTION
    for file, target in files.items():
        commands = mutations.pytest_commands(PROJECT, file, target)
        paths = [word for command in commands for word in command if word.startswith("tests")]
        assert commands, file
        assert all((PROJECT / path).exists() for path in paths), file
    assert all(entry.reason.endswith(".") for entry in EQUIVALENTS)
    listed = {mutations.equivalent(mutant) for mutant in found} - {None}
    assert listed == set(EQUIVALENTS)


# ---------------------------------------------------------------------- a project of one file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project in place of this one: `add` is tested, `unused` is not."""
    (tmp_path / "hfrnn").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "hfrnn" / "__init__.py").touch()
    sums = "def add(a, b):\n    return a + b\n\ndef unused(a):\n    return a < 2\n"
    (tmp_path / "hfrnn" / "sums.py").write_text(sums)
    test = "from hfrnn.sums import add\n\ndef test_add():\n    assert add(2, 3) == 5\n"
    (tmp_path / "tests" / "test_sums.py").write_text(test)
    monkeypatch.setattr(mutations, "PROJECT", tmp_path)
    monkeypatch.setattr(mutations, "TARGETS", (Target("hfrnn/[!_]*.py", ("tests/test_{module}*.py",)),))
    listed = Equivalent("hfrnn/sums.py", "return a < 2", "return a <= 2", "No one calls it.")
    monkeypatch.setattr(mutations, "EQUIVALENTS", (listed, Equivalent("hfrnn/sums.py", "gone", "pass", "Gone.")))
    return tmp_path


def lines_of(text: str, verdict: str) -> list[str]:
    lines = text.splitlines()
    return [lines[n + 2].strip() for n, line in enumerate(lines) if line.startswith(verdict)]


@pytest.mark.nightly
def test_survivors_and_stale_equivalents_are_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (project / "hfrnn" / "sums.py").read_text()
    assert mutations.main(["--seed", "1"]) == 1
    text = capsys.readouterr().out
    assert lines_of(text, "noticed") == ["+ return a - b"]
    assert set(lines_of(text, "SURVIVED")) == {"+ return a < 3"}
    assert "No one calls it." in text
    assert "listed as equivalent, but nothing matches: Equivalent(file='hfrnn/sums.py', before='gone'" in text
    assert (project / "hfrnn" / "sums.py").read_text() == before


# ---------------------------------------------------------------------- a user's kernel


@pytest.mark.nightly
def test_a_users_kernel_is_broken_line_by_line_and_every_break_is_noticed(tmp_path: Path) -> None:
    kernel = tmp_path / "mine.py"
    kernel.write_text(EXAMPLE.read_text("utf-8").replace('"lstm-peephole"', '"mine"'), encoding="utf-8")
    command = [sys.executable, "tests/mutations.py", "--kernel", str(kernel), "--count", "5", "--seed", "1"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(lines_of(done.stdout, "noticed")) == 5
