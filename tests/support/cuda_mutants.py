"""Mutants of CUDA sources: small changes of the lines that cite an equation, made on the text."""

from __future__ import annotations

import re

from support.mutants import Mutant

CITATION = re.compile(r"//.*\b[FRBL]\d")
CHANGES = (
    ("flip a sign", re.compile(r" \+ "), " - "),
    ("flip a sign", re.compile(r" - "), " + "),
    ("flip a sign", re.compile(r" \+= "), " -= "),
    ("flip a sign", re.compile(r"(?<=[=(,] )-(?=\w)"), ""),
    ("add instead of multiplying", re.compile(r"(?<!const real) \* "), " + "),
    ("change a function", re.compile(r"\btanh_of(?=\()"), "sigma"),
    ("change a function", re.compile(r"\bsigma(?=\()"), "tanh_of"),
    ("change a comparison", re.compile(r" > (?=\w)"), " < "),
    ("drop a condition", re.compile(r"\bif \((?:recorded && )?learned\) "), "if (0) "),
    ("drop a value", re.compile(r"(?<= = )\w[\w\[\] *+().>-]*(?=;)"), "0"),
)
"""Name of each operator, what it finds, and what it puts there."""


def cuda_mutants(file: str, source: bytes) -> list[Mutant]:
    """Return every mutant of the lines of a CUDA source that cite an equation; see `mutants`."""
    found, start = [], 0
    for number, line in enumerate(source.decode().splitlines(keepends=True), 1):
        code = line.partition("//")[0]
        if CITATION.search(line) and code.strip():
            for operator, pattern, text in CHANGES:
                for match in pattern.finditer(code):
                    after = line[: match.start()] + text + line[match.end() :]
                    where = (start + match.start(), start + match.end())  # the sources are ASCII
                    found.append(Mutant(file, number, operator, *where, text, line.strip(), after.strip()))
        start += len(line)
    return found
