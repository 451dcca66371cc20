"""The files of the package and their syntax trees, which several tests of the sources share."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import hfrnn

PACKAGE = Path(hfrnn.__file__).resolve().parent
FILES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def parsed(file: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the tree of a Python file."""
    return tuple(ast.walk(parsed(file)))
