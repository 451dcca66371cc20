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
    """What an operator makes of a statement in a function."""
    source = f"def f(a, b, c, x, xp):\n    {statement}\n"
    return {mutant.after for mutant in mutants("f.py", source.encode()) if mutant.operator == operator}


@pytest.mark.parametrize(
    ("operator", "statement", "expected"),
    [
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
    ],
)  # fmt: skip
def test_an_operator_changes_what_it_names_and_nothing_else(operator: str, statement: str, expected: set[str]) -> None:
    def trees(statements: set[str]) -> set[str]:
        return {ast.dump(ast.parse(each)) for each in statements}

    assert trees(changed(statement, operator)) == trees(expected)


SOURCE = '''"""A docstring of 1 line, 1 < 2."""
ÄÖÜ = 1
class A(B, n=1):
    n: int = 2

    @cached(3)
    def f(self, x: Literal[4] = 5) -> Literal[6]:
        """Return 7."""
        y = "äöü"; z = x @ (x -  # why
            8)  # F1
        if z > 9:  # a comment
            return lambda k=10: k
        return y  # (K, B, 4H), see page 3
'''


def test_only_function_bodies_change_and_comments_elsewhere_stay() -> None:
    source = SOURCE.encode()
    found = mutants("a.py", source)
    constants = {mutant.before for mutant in found if mutant.operator == "change a constant"}
    assert constants == {"8) # F1", "if z > 9: # a comment"}
    for mutant in found:
        before, after = SOURCE.splitlines(), mutant.apply(source).decode().splitlines()
        ast.parse("\n".join(after))
        assert after[: mutant.line - 1] == before[: mutant.line - 1]
        assert after[-1] == before[-1]
    assert {mutant.line for mutant in mutants("a.py", SOURCE.encode(), only_cited=True)} == {9, 10}
    assert {mutant.line for mutant in mutants("a.py", SOURCE.encode())} == {9, 10, 11}


# ---------------------------------------------------------------------- the table


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


def test_an_equivalent_is_found_by_its_text_wherever_the_line_is(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Equivalent("hfrnn/*.py", "x = a < b", "x = a <= b", "A reason.")
    monkeypatch.setattr(mutations, "EQUIVALENTS", (entry,))
    one, two = (
        mutants("hfrnn/a.py", f"def f():\n{lines}    x = a  <  b\n    y = a < b\n".encode())
        for lines in ("", "    z()\n")
    )
    assert [m.line for m in one + two if mutations.equivalent(m) is entry] == [2, 3]
    assert all(mutations.equivalent(m) is None for m in mutants("other/a.py", b"def f():\n    x = a < b\n"))


# ---------------------------------------------------------------------- a project of one file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project in place of this one: `add` is tested, `unused` is not."""
    (tmp_path / "hfrnn").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "hfrnn" / "__init__.py").touch()
    (tmp_path / "hfrnn" / "sums.py").write_text(
        "def add(a, b):\n    return a + b\n\ndef unused(a):\n    return a < 2\n"
    )
    (tmp_path / "tests" / "test_sums.py").write_text(
        "from hfrnn.sums import add\n\ndef test_add():\n    assert add(2, 3) == 5\n"
    )
    monkeypatch.setattr(mutations, "PROJECT", tmp_path)
    monkeypatch.setattr(mutations, "TARGETS", (Target("hfrnn/[!_]*.py", ("tests/test_{module}*.py",)),))
    monkeypatch.setattr(mutations, "EQUIVALENTS", ())
    return tmp_path


def lines_of(text: str, verdict: str) -> list[str]:
    lines = text.splitlines()
    return [lines[n + 2].strip() for n, line in enumerate(lines) if line.startswith(verdict)]


def test_survivors_are_reported_and_the_source_is_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (project / "hfrnn" / "sums.py").read_text()
    assert mutations.main(["--seed", "1"]) == 3
    text = capsys.readouterr().out
    assert lines_of(text, "noticed") == ["+ return a - b"]
    assert set(lines_of(text, "SURVIVED")) == {"+ return a <= 2", "+ return a < 3"}
    assert "2 problems" in text
    assert (project / "hfrnn" / "sums.py").read_text() == before


def test_listed_equivalents_are_not_tried_and_stale_ones_are_problems(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [
        Equivalent("hfrnn/sums.py", "return a < 2", after, "No one calls it.")
        for after in ("return a <= 2", "return a < 3")
    ]
    monkeypatch.setattr(mutations, "EQUIVALENTS", tuple(entries))
    assert mutations.main([]) == 0
    assert capsys.readouterr().out.count("No one calls it.") == 2
    monkeypatch.setattr(mutations, "EQUIVALENTS", (*entries, Equivalent("hfrnn/sums.py", "gone", "pass", "Gone.")))
    assert mutations.main(["--list"]) == 1
    assert (
        "listed as equivalent, but nothing matches: Equivalent(file='hfrnn/sums.py', before='gone'"
        in capsys.readouterr().out
    )


# ---------------------------------------------------------------------- a user's kernel


@pytest.mark.nightly
def test_a_users_kernel_is_broken_line_by_line_and_every_break_is_noticed(tmp_path: Path) -> None:
    kernel = tmp_path / "mine.py"
    kernel.write_text(EXAMPLE.read_text("utf-8").replace('"lstm-peephole"', '"mine"'), encoding="utf-8")
    command = [sys.executable, "tests/mutations.py", "--kernel", str(kernel), "--count", "5", "--seed", "1"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(lines_of(done.stdout, "noticed")) == 5
