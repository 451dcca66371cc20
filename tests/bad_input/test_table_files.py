"""Damaged and odd tables: one sentence with the line and the column, exit code 2, and nothing written."""

from __future__ import annotations

import os

import pytest
from support.array_files import ROWS, TABLE, refuse, table, trap
from support.damage import a_handful

TABLES: dict[str, tuple[str | bytes, list[str], str]] = {
    "empty": ("", TABLE, "bad.csv is empty"),
    "names only": ("u,v,y\n", TABLE, "no rows"),
    "few rows": (table(8), TABLE, "give a smaller --window"),
    "no columns given": (ROWS, [], "has 3 columns: u, v, y; name those to read with --inputs"),
    "unknown input": (ROWS, ["--inputs", "w", "--targets", "y"], "--inputs has 'w', which is no column"),
    "number 4": (ROWS, ["--inputs", "4", "--targets", "y"], "--inputs has '4'"),
    "comma in a name": (
        '"force, N",y\n' + "1,2\n" * 60, ["--inputs", "force, N", "--targets", "y"],
        "--inputs has 'force', which is no column (column 1 is 'force, N': give a column with a comma in its name by "
        "number): ",
    ),
    "huge number": (ROWS, ["--inputs", "9" * 30, "--targets", "y"], "which is no column"),
    "twice": (ROWS, ["--inputs", "u,u", "--targets", "y"], "has column u twice"),
    "same step": (ROWS, ["--inputs", "u,y", "--targets", "y", "--ahead", "0"], "--ahead 1 or more"),
    "far ahead": (ROWS, [*TABLE, "--ahead", "60"], "--ahead is 60"),
    "a word": (ROWS.replace("0.00000,1.00000", "zero,1.0"), TABLE, "line 2 of bad.csv holds 'zero' in column 1 (u)"),
    "a name of two lines": (ROWS.replace("u,v", '"u\nx",v', 1).replace("0.00000,1.00000", "zero,1.0"),
                            ["--inputs", "1,v", "--targets", "y", "--window", "10"], "in column 1 (u\\nx)"),
    "decimal comma": ("u;v;y\n" + "1,234;5,678;1\n" * 60, TABLE, "say which with --decimal , or --decimal ."),
    "a dash as input": ("u,v,y\n1,-,2\n", TABLE, "holds '-' in column 2 (v): give numbers with a decimal"),
    "empty input": (ROWS.replace("0.00000,1.00000", ",1.0"), TABLE, "holds an empty cell in column 1 (u)"),
    "NaN input": (ROWS.replace("0.00000,1.00000", "nan,1.0"), TABLE, "holds 'nan', a missing value, in column 1 (u)"),
    "infinite input": (ROWS.replace("0.00000,1.00000", "1,-inf"), TABLE, "holds -inf in column 2 (v)"),
    "large": (ROWS.replace("0.00000,1.00000", "1,1e30"), TABLE, "at most 1e+15"),
    "an empty line between rows": (ROWS.replace("-0.47943\n", "-0.47943\n\n"), TABLE, "is empty, and a row follows"),
    "no target known": ("u,v,y\n" + "1,2,\n" * 60, TABLE, "no target that is scored"),
    "underscores": (ROWS.replace("0.00000,1.00000", "1_0,1.0"), TABLE, "'1_0'"),
    "few cells": (ROWS + "1.0,2.0\n", TABLE, "line 62 of bad.csv has 2 cells, and the first line has 3"),
    "other separator": (ROWS.replace(",", "&"), TABLE, "1 column: u&v&y (columns are separated by tabs, semicolons"),
    "a comment": ("# recorded 2024\n" + ROWS, TABLE, "leave out lines before the table with --skip-rows"),
    "open quote": (ROWS + '"1.0,2.0,3.0\n', TABLE, "is no row of a table"),
    "long cell": (ROWS + "1" * 200_000 + ",2,3\n", TABLE, "is no row of a table"),
    "NUL": (ROWS + "1\0,2,3\n", TABLE, "line 62"),
    "latin1": (ROWS.replace("u,v", "ü,v").encode("latin1"), TABLE, "--inputs has 'u', which is no column"),
    "a pickle": (trap(), TABLE, "holds binary data"),
    "control characters": ("\x1b[31mu,v,y\n1,2,3\n", ["--inputs", "w", "--targets", "y"], "\\x1b[31mu"),
    "many columns": (",".join(f"c{n}" for n in range(3000)) + "\n" + "1," * 2999 + "1\n", TABLE, "and 2988 more"),
    "no rows to validate": (ROWS, [*TABLE, "--fractions", "0.999,0.001,0"], "the valid part of bad.csv has 0 rows"),
    "softmax": (ROWS, [*TABLE, "--loss", "softmax"], "are real columns"),
    "empty names": (ROWS, ["--inputs", "", "--targets", "y"], "--inputs is empty"),
}  # fmt: skip


@pytest.mark.parametrize("case", a_handful(TABLES))
def test_tables_that_do_not_fit_are_refused(case: str) -> None:
    content, more, words = TABLES[case]
    assert words in refuse("bad.csv", content, *more).replace(f"{os.getcwd()}/", "")
