"""Read the lines of a program and have a target's machine compute them: the part of Python of `equations.py`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Protocol

OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


class Machine(Protocol):
    """The operations of a target. Values are its own; plain numbers are Python's."""

    def assign(self, name: str, value: Any) -> Any:
        """Return a value that has been given a name."""

    def binary(self, operator: str, a: Any, b: Any) -> Any:
        """Return a + b, a - b or a * b of each column; one of the two may be a number."""

    def product(self, x: Any, W: Any) -> Any:
        """Return x @ W."""

    def call(self, function: str, arguments: Sequence[Any]) -> Any:
        """Return the value of a function that keeps columns apart, or of a softmax."""

    def columns(self, x: Any, start: int | None, stop: int | None) -> Any:
        """Return columns of a value or of a matrix."""

    def rows(self, W: Any, start: int | None, stop: int | None) -> Any:
        """Return rows of a matrix."""

    def entry(self, x: Any, number: int) -> Any:
        """Return one entry along the first axis of three."""

    def look_up(self, W: Any, symbols: Any) -> Any:
        """Return the row of each symbol."""

    def split(self, x: Any, parts: int) -> tuple[Any, ...]:
        """Return parts of equal width."""

    def concat(self, parts: Sequence[Any]) -> Any:
        """Return values side by side."""

    def stack(self, parts: Sequence[Any]) -> Any:
        """Return values along a new first axis."""

    def zeros(self, width: int) -> Any:
        """Return a value of zeros."""

    def every(self, period: int, t: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """Return the first value where the count of steps t is a multiple of the period, else the second."""


def compute(lines: Sequence[str], names: dict[str, Any], machine: Machine) -> None:
    """Compute lines one after another; `names` holds the values by name, and receives the new ones."""
    for statement in ast.parse("\n".join(lines)).body:
        assert isinstance(statement, ast.Assign)
        (target,) = statement.targets
        value = _value(statement.value, names, machine)
        if isinstance(target, ast.Tuple):
            for name, part in zip(target.elts, value, strict=True):
                names[name.id] = part  # type: ignore[attr-defined]
        else:
            assert isinstance(target, ast.Name)
            names[target.id] = machine.assign(target.id, value)


def evaluate(expression: str, names: dict[str, Any], machine: Machine) -> Any:
    """Return the value of one expression."""
    return _value(ast.parse(expression, mode="eval").body, names, machine)


def _value(node: ast.expr, names: dict[str, Any], machine: Machine) -> Any:
    """Return the value of an expression."""

    def value(each: ast.expr) -> Any:
        return _value(each, names, machine)

    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id]
        case ast.BinOp(left, ast.MatMult(), right):
            return machine.product(value(left), value(right))
        case ast.BinOp(left, operator, right):
            a, b, sign = value(left), value(right), OPERATORS[type(operator)]
            if isinstance(a, int | float) and isinstance(b, int | float):
                return {"+": a + b, "-": a - b, "*": a * b}[sign]
            return machine.binary(sign, a, b)
        case ast.IfExp(ast.Compare(ast.BinOp(t, ast.Mod(), ast.Constant(int(period)))), then, otherwise):
            return machine.every(period, value(t), lambda: value(then), lambda: value(otherwise))
        case ast.Subscript():
            return _subscript(node, names, machine)
        case ast.Call(ast.Name(function), arguments):
            found = [value(each) for each in arguments]
            if function in ("concat", "stack"):
                return getattr(machine, function)(found)
            if function in ("split", "zeros"):
                return getattr(machine, function)(*found)
            return machine.call(function, found)
    raise NotImplementedError(ast.unparse(node))


def _subscript(node: ast.Subscript, names: dict[str, Any], machine: Machine) -> Any:
    """Return x[:, i:j], x[i:j, k:l], x[n], x[symbols], or b[i:j] of a vector."""
    x = _value(node.value, names, machine)
    match node.slice:
        case ast.Tuple([ast.Slice() as rows, ast.Slice() as columns]):
            if rows.lower is not None or rows.upper is not None:
                x = machine.rows(x, *_ends(rows))
            return machine.columns(x, *_ends(columns))
        case ast.Slice() as columns:
            return machine.columns(x, *_ends(columns))
        case ast.Constant(int(number)):
            return machine.entry(x, number)
        case ast.Name(name):
            return machine.look_up(x, names[name])
    raise NotImplementedError(ast.unparse(node))


def _ends(part: ast.Slice) -> tuple[int | None, int | None]:
    """Return the two ends of a slice; None where it has none."""
    start, stop = (None if end is None else ast.literal_eval(end) for end in (part.lower, part.upper))
    return start, stop
