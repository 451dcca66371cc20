"""Tables: columns by name and number, missing targets, steps ahead, and separators."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from support.array_files import table

from hfrnn.data.sheets import TableFormat
from hfrnn.data.tables import load_tables, read_table
from hfrnn.data.windows import Windows
from hfrnn.errors import InputError

Columns = namedtuple("Columns", "inputs targets missing input_names target_names")
VALUES = np.loadtxt(table(60).splitlines(), delimiter=",", skiprows=1)
WHOLE = (1.0, 0.0, 0.0)


def write(folder: Path, text: str, name: str = "r.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def read_columns(path, inputs, targets):
    """Return the one recording of a table, with the names of its columns."""
    read = read_table(path, TableFormat(inputs, targets))
    found = read.found[0]
    return Columns(found.inputs, found.targets, found.missing, read.input_names, read.target_names)


def load_table(path, inputs, targets, windows=None, ahead=None, **options):
    return load_tables({"train": ([path], TableFormat(inputs, targets))}, windows, ahead, **options)[0]


def test_columns_are_chosen_by_name_or_by_number_from_1(tmp_path: Path) -> None:
    path = write(tmp_path, table(60))
    for inputs, targets in ((["v", "u"], ["y"]), (["2", "1"], ["3"]), ([" v", "u "], ["3"])):
        found = read_columns(path, inputs, targets)
        np.testing.assert_array_equal(found.inputs, VALUES[:, [1, 0]])
        np.testing.assert_array_equal(found.targets, VALUES[:, 2:])
        assert (found.input_names, found.target_names) == (("v", "u"), ("y",))


def test_a_number_that_is_the_name_of_another_column_is_refused(tmp_path: Path) -> None:
    """A row of data without names above it, for example, if one of its cells is no number."""
    path = write(tmp_path, "2020-01-01,7,2,3\n2020-01-02,8,1,4\n2020-01-03,9,2,5\n")
    with pytest.raises(InputError, match=r"^inputs= has '2', the number of a column of .* the name of another one"):
        read_columns(path, ["2"], ["1"])
    named = write(tmp_path, "time,2,x\n0,7,8\n1,9,10\n", "named.csv")
    assert read_columns(named, ["2"], ["x"]).inputs.tolist() == [[7.0], [9.0]]


def test_a_first_line_of_numbers_is_data(tmp_path: Path) -> None:
    found = read_columns(write(tmp_path, table(60).partition("\n")[2]), ["1", "3"], ["2"])
    np.testing.assert_array_equal(found.inputs, VALUES[:, [0, 2]])
    assert (found.input_names, found.target_names) == (("1", "3"), ("2",))
    with pytest.raises(InputError, match=r"3 columns: 1, 2, 3 \(its first line holds numbers only, so it is data\)$"):
        read_columns(write(tmp_path, "2019,2020,2021\n1,2,3\n"), ["2019"], ["2020"])


@pytest.mark.parametrize("gap", ["", "nan", "NA"])
def test_the_first_row_of_a_table_without_names_may_lack_a_target(tmp_path: Path, gap: str) -> None:
    found = read_columns(write(tmp_path, f"2,1,{gap}\n4,3,6\n"), ["1"], ["3"])
    np.testing.assert_array_equal(found.inputs, [[2.0], [4.0]])
    np.testing.assert_array_equal(found.missing, [[True], [False]])
    assert found.input_names == ("1",)
    named = read_columns(write(tmp_path, "nan,na,\n2,1,5\n"), ["nan"], ["na"])
    assert (named.input_names, len(named.inputs)) == (("nan",), 1)


@pytest.mark.parametrize("text", [
    table(60).replace(",", ";"), table(60).replace(",", "\t"), table(60).replace("\n", "\r\n"), "\ufeff" + table(60),
    "# " + table(60), table(60) + "\n\n", "\n" + table(60), table(60).replace("u,v,y", '"u","v","y"'),
    table(60).replace(",", " , "),
])  # fmt: skip
def test_tables_of_other_programs_are_read(tmp_path: Path, text: str) -> None:
    found = read_columns(write(tmp_path, text), ["u", "v"], ["y"])
    np.testing.assert_array_equal(np.hstack([found.inputs, found.targets]), VALUES)


def test_columns_that_are_not_used_may_hold_anything(tmp_path: Path) -> None:
    lines = table(60).splitlines()
    text = "\n".join([lines[0] + ",when", *(f'{line},"2020, 1"' for line in lines[1:])])
    np.testing.assert_array_equal(read_columns(write(tmp_path, text), ["u"], ["y"]).inputs, VALUES[:, :1])


def test_real_columns_are_no_classes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"loss= is softmax, and the targets of .* are real columns"):
        load_table(write(tmp_path, table(60)), ["u"], ["y"], Windows(10, 10, 0), loss="softmax", fractions=WHOLE)


def test_the_targets_are_those_of_the_same_row(tmp_path: Path) -> None:
    data = load_table(write(tmp_path, table(60)), ["u"], ["y"], Windows(10, 10, 0), fractions=WHOLE)
    np.testing.assert_array_equal(data.train.inputs[:, 0, 0], VALUES[:10, 0])
    np.testing.assert_array_equal(data.train.targets[:, 0, 0], VALUES[:10, 2])
    assert (data.notes, data.loss, data.input_names, data.target_names) == ((), "squared", ("u",), ("y",))


@pytest.mark.parametrize("ahead", [None, 1, 3])
def test_inputs_predict_later_targets_if_a_column_is_both(tmp_path: Path, ahead: int | None) -> None:
    data = load_table(write(tmp_path, table(60)), ["u", "y"], ["y"], Windows(10, 10, 0), ahead, fractions=WHOLE)
    steps = ahead or 1
    np.testing.assert_array_equal(data.train.inputs[:, 0], VALUES[:10, [0, 2]])
    np.testing.assert_array_equal(data.train.targets[:, 0, 0], VALUES[steps : 10 + steps, 2])
    np.testing.assert_array_equal(data.train.targets[-1, -1, 0], VALUES[-1, 2])
    assert f"{steps} row" in data.notes[0]


@pytest.mark.parametrize("cell", ["", " ", "nan", "NaN", "NA"])
def test_a_cell_of_a_target_without_a_number_is_not_scored(tmp_path: Path, cell: str) -> None:
    text = "u,a,b\n" + "".join(f"{t},{t if t % 3 else cell},{-t}\n" for t in range(30))
    data = load_table(write(tmp_path, text), ["u"], ["a", "b"], Windows(10, 10, 2), fractions=WHOLE)
    t = np.arange(30).reshape(3, 10).T
    expected = np.stack([t % 3 != 0, np.ones_like(t, dtype=bool)], axis=2) & (np.arange(10) >= 2)[:, None, None]
    np.testing.assert_array_equal(data.train.weights, expected)
    assert data.notes == ("10 missing targets not scored",)
    one = load_table(write(tmp_path, text), ["u"], ["a"], Windows(10, 10, 2), fractions=WHOLE)
    np.testing.assert_array_equal(one.train.weights, expected[:, :, 0])


def test_windows_without_a_known_target_are_left_out(tmp_path: Path) -> None:
    text = "u,y\n" + "".join(f"{t},{t % 2 if t >= 10 else ''}\n" for t in range(30))
    data = load_table(write(tmp_path, text), ["u"], ["y"], Windows(10, 10, 2), fractions=WHOLE)
    np.testing.assert_array_equal(data.train.inputs[0, :, 0], [10, 20])
    assert data.loss == "logistic"
