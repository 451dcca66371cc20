"""How a table is written is found where it is certain; a table that may be read in two ways is refused."""

from __future__ import annotations

import pytest

from hfrnn.data.table_text import BLANK, decoded, how_written
from hfrnn.errors import InputError


@pytest.mark.parametrize(
    ("text", "separator", "decimal", "thousands", "columns"),
    [
        ("u,y\n1,2\n3,4\n", ",", ".", "", 2),
        ("u;y\n0,5;1,25\n", ";", ",", "", 2),
        ("0,5;1,5\n0,25;3\n", ";", ",", "", 2),
        ("u\ty\n0,5\t1\n", "\t", ",", "", 2),
        ("u|y\n1|2\n", "|", ".", "", 2),
        ("u  y\n1   2\n 3 4\n", BLANK, ".", "", 2),
        ("level\n0,3772\n0,4\n", ";", ",", "", 1),
        ('u,y\n"0,5","1,25"\n', ",", ",", "", 2),
        ('u,y\n"1,234.5",2\n', ",", ".", ",", 2),
        ("u;y\n1.234,5;2\n", ";", ",", ".", 2),
        ('u,y\n"1,234,567",2\n', ",", ".", ",", 2),
        ("u,y\n1,2,\n3,4,\n", ",", ".", "", 3),
        ("time,value\n2024-01-01,1\n", ",", ".", "", 2),
    ],
)  # fmt: skip
def test_separator_and_decimal_mark_are_found(text, separator, decimal, thousands, columns):
    found = how_written(text, "t.csv")
    assert (found.separator, found.decimal, found.thousands, found.columns) == (separator, decimal, thousands, columns)


@pytest.mark.parametrize(
    "text",
    [
        "0,3772\n0,4101\n",  # one column with decimal commas, or two
        "-0,3963\n0,4101\n",
        "u;y\n1,234;5,678\n",  # 1.234 or 1234
        "u;y\n0,5;1.5\n",  # two decimal marks
        "u;y\n0,265;1.5\n",  # and three digits after the comma
        "u,y\n0,5,1,5\n",
    ],
)
def test_a_table_that_may_be_read_in_two_ways_is_refused(text):
    with pytest.raises(InputError, match="decimal"):
        how_written(text, "t.csv")


def test_the_decimal_mark_that_was_given_decides():
    assert how_written("0,3772\n0,4101\n", "t.csv", ",").columns == 1
    assert how_written("0,3772\n0,4101\n", "t.csv", ".").columns == 2
    assert how_written("u;y\n1,234;5\n", "t.csv", ".").thousands == ","


def test_a_line_of_units_and_lines_before_the_table_are_left_out():
    found = how_written("u,y\nV,A\n1,2\n", "t.csv")
    assert found.begin == 2
    assert found.notes == ("line 2 of the table holds units (V, A)",)
    assert how_written("made by X\n\nu,y\n1,2\n", "t.csv", skip=2).names == ("u", "y")


def test_texts_in_other_encodings_are_read():
    for content in ("Größe,y\n1,2\n".encode("utf-16"), "Größe,y\n1,2\n".encode("cp1252"), "\ufeffGröße,y\n".encode()):
        assert decoded(content, "t.csv")[0].startswith("Größe,y")
    with pytest.raises(InputError, match="binary"):
        decoded(b"a\0b", "t.csv")
