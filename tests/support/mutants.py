"""Mutants: small changes of a Python source that its tests have to notice, made on the syntax tree."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

CITATION = re.compile(r"#.*\b[A-Z]\d+\b")
"""A comment that cites an equation: `# F1`, `# L3, R1`."""
SIGNS = {ast.Add: ast.Sub, ast.Sub: ast.Add}
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
NEGATABLE = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)  # changing these is negating them
OPPOSITES = {"add": "subtract", "subtract": "add"}
EXTREMES = {"minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min"}
ORDERED = {"matmul": 0, "subtract": 0, "divide": 0, "where": 1}
"""Calls whose two operands may be swapped, with the position of the first."""
UNTOUCHED = {
    ast.FunctionDef: {"args", "returns", "decorator_list"}, ast.ClassDef: {"bases", "keywords", "decorator_list"},
    ast.Lambda: {"args"}, ast.AnnAssign: {"annotation"}, ast.Raise: {"exc", "cause"}, ast.JoinedStr: {"values"},
}  # fmt: skip
"""Fields that no mutant changes: type hints, defaults, and texts."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file: `text` replaces the bytes from `start` to `stop` of its source."""

    file: str
    line: int
    operator: str
    start: int
    stop: int
    text: str
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.stop :]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.operator}\n    - {self.before}\n    + {self.after}"


def mutants(file: str, source: bytes, only_cited: bool = False) -> list[Mutant]:
    """Return every mutant of the function bodies of a file, or only of statements whose comment cites an equation."""
    lines = source.splitlines(keepends=True)
    starts = [0, *accumulate(len(line) for line in lines)]
    cited = {number for number, line in enumerate(lines, 1) if CITATION.search(line.decode())}
    tree, found = ast.parse(source), []
    kept = single_assignments(tree)
    for node in changeable(tree, cited if only_cited else None):
        for operator, target, text in [] if node in kept else changes(node):
            if text == ast.unparse(target):
                continue
            start = starts[target.lineno - 1] + target.col_offset
            stop = starts[target.end_lineno - 1] + target.end_col_offset
            head, tail = source[starts[target.lineno - 1] : start], source[stop : starts[target.end_lineno]]
            before, after = (
                " ".join((head + middle + tail).decode().split()) for middle in (source[start:stop], text.encode())
            )
            found.append(Mutant(file, target.lineno, operator, start, stop, text, before, after))
    return found


def changeable(node: ast.AST, cited: set[int] | None, inside: bool = False, chosen: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes of function bodies, or of those statements in them that hold a line of `cited`."""
    inside = inside or isinstance(node, ast.FunctionDef)
    for name, value in ast.iter_fields(node):
        if name in UNTOUCHED.get(type(node), ()) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or is_unknown_size(node, child):
                continue
            here = chosen
            if isinstance(child, ast.stmt):
                last = child.body[0].lineno - 1 if hasattr(child, "body") else child.end_lineno
                here = cited is None or not cited.isdisjoint(range(child.lineno, max(child.lineno, last) + 1))
            if inside and here:
                yield child
            yield from changeable(child, cited, inside, here)


def is_unknown_size(call: ast.AST, argument: ast.AST) -> bool:
    is_reshape = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "reshape"
    return is_reshape and ast.unparse(argument) == "-1"


def lines_of(mutant: Mutant, source: bytes) -> range:
    """Return the lines of the statement that a mutant changes, without the statements in it."""
    found = range(mutant.line, mutant.line + 1)
    for node in ast.walk(ast.parse(source)):  # from the outside to the inside
        if isinstance(node, ast.stmt):
            last = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno
            lines = range(node.lineno, max(node.lineno, last) + 1)
            found = lines if mutant.line in lines else found
    return found


def single_assignments(tree: ast.AST) -> set[ast.AST]:
    """Return the assignments to names that have no other value: without them nothing runs, which is no test."""
    found: set[ast.AST] = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        nodes = list(ast.walk(function))
        bound = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        bound.update(node.arg for node in nodes if isinstance(node, ast.arg))
        for node in nodes:
            if isinstance(node, ast.Assign):
                names = [name.id for target in node.targets for name in ast.walk(target) if is_stored(name)]
                if names and all(bound[name] == 1 for name in names):
                    found.add(node)
    return found


def is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield (name of the operator, the node to replace, the source text that replaces it)."""
    match node:
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return  # the body of an abstract method
        case ast.Expr(value=ast.Call()) | ast.Assign() | ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue():
            yield "drop a statement", node, "pass"
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield from negated(test)
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            yield from binary(node, left, op, right)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in SIGNS:
            yield "flip a sign", node, ast.unparse(ast.AugAssign(target, SIGNS[type(op)](), value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "flip a sign", node, bracketed(operand)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for n, op in enumerate(ops):
                changed = [*ops[:n], COMPARISONS[type(op)](), *ops[n + 1 :]]
                yield "change a comparison", node, ast.unparse(ast.Compare(left, changed, comparators))
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and <-> or", node, ast.unparse(ast.BoolOp(other, values))
        case ast.Constant(value=bool(value)):
            yield "change a constant", node, repr(not value)
        case ast.Constant(value=int(value)):
            yield "change a constant", node, repr(value + 1)
        case ast.Constant(value=float(value)):
            yield "change a constant", node, repr(2 * value or 1.0)
        case ast.Attribute(value=value, attr="T", ctx=ast.Load()):
            yield "transpose", node, bracketed(value)
        case ast.Call():
            yield from call(node)


def negated(test: ast.expr) -> Iterator[tuple[str, ast.AST, str]]:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negate a condition", test, bracketed(operand)
        case ast.Compare(ops=[op]) if isinstance(op, NEGATABLE):
            return
        case _:
            yield "negate a condition", test, f"not ({ast.unparse(test)})"


def binary(node: ast.AST, left: ast.expr, op: ast.operator, right: ast.expr) -> Iterator[tuple[str, ast.AST, str]]:
    if type(op) in SIGNS:
        yield "flip a sign", node, ast.unparse(ast.BinOp(left, SIGNS[type(op)](), right))
    if isinstance(op, ast.Sub | ast.Div | ast.MatMult):
        yield "swap operands", node, ast.unparse(ast.BinOp(right, op, left))
    if isinstance(op, ast.MatMult):
        yield from transposed(left)
        yield from transposed(right)


def transposed(factor: ast.expr) -> Iterator[tuple[str, ast.AST, str]]:
    """Transpose a factor of a matrix product that is not transposed (another operator takes a .T away)."""
    if isinstance(factor, ast.Name | ast.Subscript | ast.Attribute) and getattr(factor, "attr", "") != "T":
        yield "transpose", factor, f"{ast.unparse(factor)}.T"


def call(node: ast.Call) -> Iterator[tuple[str, ast.AST, str]]:
    function, arguments = node.func, node.args
    name = getattr(function, "attr", getattr(function, "id", ""))
    for operator, names in (("flip a sign", OPPOSITES), ("change a comparison", EXTREMES)):
        if name in names and (len(arguments) > 1 or names is EXTREMES):
            other = names[name]
            renamed = ast.Attribute(function.value, other) if isinstance(function, ast.Attribute) else ast.Name(other)
            yield operator, function, ast.unparse(renamed)
    first = ORDERED.get(name, 0 if name == "dot" and isinstance(function, ast.Attribute) else None)
    if first is not None and len(arguments) >= first + 2:
        swapped = [*arguments[:first], arguments[first + 1], arguments[first], *arguments[first + 2 :]]
        yield "swap operands", node, ast.unparse(ast.Call(function, swapped, node.keywords))
    if name in ("matmul", "dot") and isinstance(function, ast.Attribute):
        for factor in arguments[:2]:
            yield from transposed(factor)
    if name in ("swapaxes", "transpose") and isinstance(function, ast.Attribute):
        yield "transpose", node, bracketed(function.value)
    if name == "transpose" and isinstance(function, ast.Name):
        yield "transpose", node, ast.unparse(ast.Subscript(*arguments[:2]))


def bracketed(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if isinstance(node, ast.Name | ast.Constant | ast.Attribute | ast.Subscript | ast.Call) else f"({text})"
