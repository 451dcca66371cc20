"""Rows become recordings by name and by time; no window crosses a border; gaps are filled only on request."""

from __future__ import annotations

import numpy as np
import pytest

import hfrnn
from hfrnn.data.recordings import filled, growing_times
from hfrnn.data.sheets import TableFormat
from hfrnn.data.tables import load_tables, read_table, read_tables
from hfrnn.data.windows import Windows
from hfrnn.errors import InputError
from hfrnn.sources.open import open_source

COLUMNS = TableFormat(["u"], ["y"])


def write(folder, text, name="t.csv"):
    path = folder / name
    path.write_text(text)
    return str(path)


def rows(values, before=""):
    return "".join(f"{before}{u},{y}\n" for u, y in values)


def test_no_window_crosses_the_border_of_a_recording(tmp_path):
    one = write(tmp_path, "u,y\n" + rows([(k, k) for k in range(40)]), "a.csv")
    other = write(tmp_path, "u,y\n" + rows([(k, k) for k in range(100, 125)]), "b.csv")
    data, _ = load_tables({"train": ([one, other], COLUMNS)}, Windows(10, 5, 0), fractions=(1.0, 0.0, 0.0))
    x = data.train.inputs[:, :, 0]
    assert (np.diff(x, axis=0) == 1).all()
    assert set(np.unique(x)) == {*range(40), *range(100, 125)}


def test_a_recording_that_is_shorter_than_a_window_is_one_by_itself(tmp_path):
    one = write(tmp_path, "u,y\n" + rows([(k, k) for k in range(40)]), "a.csv")
    short = write(tmp_path, "u,y\n" + rows([(k, k) for k in range(100, 106)]), "b.csv")
    data, _ = load_tables({"train": ([one, short], COLUMNS)}, Windows(10, 10, 2), fractions=(1.0, 0.0, 0.0))
    assert sorted(data.train.lengths) == [6, 10, 10, 10, 10]
    tiny = write(tmp_path, "u,y\n1,1\n2,2\n", "c.csv")
    data, _ = load_tables({"train": ([one, tiny], COLUMNS)}, Windows(10, 10, 2), fractions=(1.0, 0.0, 0.0))
    assert "1 recording of the train part not read: no longer than the burn-in" in data.notes


def test_parts_of_their_own_have_names_and_rows_of_their_own(tmp_path):
    text = "uEst,uVal,yEst,yVal\n" + "".join(f"{k},{k + 100},{k / 2},{k / 4}\n" for k in range(30))
    path = write(tmp_path, text)
    own = TableFormat(["uVal"], ["yVal"], rows=(20, None))
    data, _ = load_tables(
        {"train": ([path], TableFormat(["uEst"], ["yEst"])), "valid": ([path], own)}, Windows(10, 10, 0)
    )
    assert data.train.inputs.max() == 29
    assert data.valid.inputs[:, 0, 0].tolist() == list(range(120, 130))
    assert data.test is None


def test_a_column_names_the_recording_of_each_row(tmp_path):
    text = "id,u,y\n" + "".join(f"{'ab'[k % 2]},{k},{k}\n" for k in range(20))
    found = read_table(write(tmp_path, text), COLUMNS._replace(recording="id")).found
    assert [(each.name, each.inputs[:, 0].tolist()) for each in found] == [
        ("a", list(range(0, 20, 2))), ("b", list(range(1, 20, 2)))
    ]  # fmt: skip


def test_a_new_recording_begins_where_the_time_jumps(tmp_path):
    times = [0, 1, 2, 3.4, 10, 11, 12]
    text = "t,u,y\n" + "".join(f"{t},{k},{k}\n" for k, t in enumerate(times))
    read = read_table(write(tmp_path, text), COLUMNS._replace(time="t"))
    assert [len(each.inputs) for each in read.found] == [4, 3]
    assert read.found[1].times.tolist() == [10, 11, 12]
    assert read.step == 1.0
    assert "the time jumps at 1 place: a new recording begins there" in read.notes


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (["2024-01-31 23:59:58", "2024-02-01 00:00:00"], 2.0),
        (["31/01/2024", "01/02/2024"], 86400.0),
        (["01/31/2024", "02/01/2024"], 86400.0),
        (["0,5", "0,75"], 0.25),
    ],
)
def test_times_are_numbers_or_dates(words, seconds):
    assert np.diff(growing_times(words, "t", range(2, 9).__getitem__)).tolist() == [seconds]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["3", "2", "1"], "turn the table round"),
        (["1", "2", "2"], "does not grow from line 3 to 4"),
        (["noon", "night"], "neither a number nor a date"),
        (["01/02/2024", "02/03/2024"], "may begin with the day or with the month"),
    ],
)
def test_times_that_do_not_grow_or_are_unclear_are_refused(words, problem):
    with pytest.raises(InputError, match=problem):
        growing_times(words, "t", range(2, 9).__getitem__)


def test_times_that_fall_back_ask_for_the_column_of_recordings(tmp_path):
    path = write(tmp_path, "trial,t,u,y\n" + "".join(f"{k // 5},{k % 5},{k},{k}\n" for k in range(10)))
    with pytest.raises(InputError, match=r"from line 6 to 7 \(4, then 0\): if .* several recordings, .* recording="):
        read_table(path, COLUMNS._replace(time="t"))


def test_times_that_do_not_grow_within_a_recording_are_named_by_column_file_and_line(tmp_path):
    path = write(tmp_path, "trial,t,u,y\n" + "".join(f"{k % 2},{k % 8},{k},{k}\n" for k in range(12)))
    with pytest.raises(InputError) as caught:
        read_table(path, COLUMNS._replace(time="t", recording="trial"))
    assert str(caught.value) == (
        f"the time of t in recording 0 (column trial) of {path} does not grow from line 8 to 10 (6, then 0): sort the "
        "rows, and leave out repeated ones"
    )


def test_recordings_of_different_rates_are_refused(tmp_path):
    paths = [
        write(tmp_path, "t,u,y\n" + "".join(f"{k * step},{k},{k}\n" for k in range(9)), f"{step}.csv")
        for step in (1, 2)
    ]
    with pytest.raises(InputError, match="resample them to one rate"):
        read_tables(paths, COLUMNS._replace(time="t"))


def test_gaps_of_inputs_are_filled_only_on_request(tmp_path):
    path = write(tmp_path, "u,y\n1,1\n,2\n-200,3\n4,4\n")
    with pytest.raises(InputError, match=r"line 3 of .* column 1 \(u\)"):
        read_table(path, COLUMNS)
    form = COLUMNS._replace(missing=["-200"])
    for how, values in (("previous", [1, 1, 1, 4]), ("linear", [1, 2, 3, 4])):
        read = read_table(path, form._replace(fill=how))
        assert read.found[0].inputs[:, 0].tolist() == values
        assert f"2 gaps of inputs filled ({how})" in read.notes
    assert filled(np.array([[np.nan], [1.0]]), "previous") is None


@pytest.mark.parametrize(
    ("cell", "held"), [("", "an empty cell"), ("NA", "'NA', a missing value,"), (" -200 ", "'-200'")]
)
def test_a_gap_is_named_by_what_its_cell_holds(tmp_path, cell, held):
    path = write(tmp_path, f'u,y\n1,1\n"{cell}",2\n\n')
    with pytest.raises(InputError, match=f"line 3 of .* holds {held}.* in column 1"):
        read_table(path, COLUMNS._replace(missing=["-200"]))


def test_values_that_mean_missing_are_not_scored(tmp_path):
    path = write(tmp_path, "u,y\n1,-200\n2,?\n3,NULL\n4,-200.0\n5,7\n")
    read = read_table(path, COLUMNS._replace(missing=["-200", "?", "NULL"]))
    assert read.found[0].missing[:, 0].tolist() == [True] * 4 + [False]


def test_a_repeated_name_gets_a_number_and_a_note(tmp_path):
    path = write(tmp_path, "V_C,V_C,y\n1,2,3\n4,5,6\n")
    read = read_table(path, TableFormat(["V_C.1"], ["y"]))
    assert read.found[0].inputs[:, 0].tolist() == [2, 5]
    assert "two columns are named V_C: the later one is V_C.1" in read.repeated


def test_a_cell_that_is_no_number_is_named_by_its_line(tmp_path):
    for text, line in (("u,y\n1,2\n3,x\n", 3), ('u,y\n"1,000",2\n"1,5",2\n"1,000.5",1\n', 3), ("a\nu,y\n1,2\n", 3)):
        with pytest.raises(InputError, match=f"line {line} of"):
            read_table(write(tmp_path, text), COLUMNS)


def test_a_point_in_a_number_with_a_decimal_comma_stands_between_thousands(tmp_path):
    text = "u;y\n" + "0,5;1\n" * 200
    cells = [(cell, ",") for cell in ("1.5", "0.125", "1.2345", "1.23.456", "1.5e3", "1,5.5")]
    for cell, given in (*cells, ("1.234", None)):
        with pytest.raises(InputError, match=f"line 202 of .* holds '{cell}' .* give numbers with a decimal comma"):
            read_table(write(tmp_path, f"{text}{cell};1\n"), COLUMNS._replace(decimal=given))
    path = write(tmp_path, f"{text}1.234.567,5;1\n-12.345;1\n")
    read = read_table(path, COLUMNS._replace(decimal=","))
    assert read.found[0].inputs[-2:, 0].tolist() == [1234567.5, -12345]


def test_the_numbers_of_a_text_are_those_that_python_reads(tmp_path):
    words = ["0.1", "1e-3", "123456789.123456789", "5e-324", "0.30000000000000004", "1e15", "-7"]
    path = write(tmp_path, "u,y\n" + "".join(f"{word},1\n" for word in words))
    assert read_table(path, COLUMNS).found[0].inputs[:, 0].tolist() == [float(word) for word in words]
    path = write(tmp_path, "u;y\n" + "".join(f"{word.replace('.', ',')};1\n" for word in words))
    assert read_table(path, COLUMNS).found[0].inputs[:, 0].tolist() == [float(word) for word in words]


def test_frames_and_excel_files_are_tables(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"u": [1.0, 2.0, 3.0], "y": [1, None, 3], "note": ["a", "b", "c"]})
    read = read_table(frame, COLUMNS)
    assert read.found[0].inputs[:, 0].tolist() == [1, 2, 3]
    assert read.found[0].missing[:, 0].tolist() == [False, True, False]
    with pytest.raises(InputError, match=r"row 0 .* holds 'a'"):
        read_table(frame, TableFormat(["u"], ["note"]))
    pytest.importorskip("openpyxl")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "t.xlsx", COLUMNS).found[0].inputs, read.found[0].inputs)


def test_other_columns_of_a_frame_may_hold_anything():
    pandas = pytest.importorskip("pandas")
    for cell in ([1, 2], np.arange(3), {"a": 1}):
        frame = pandas.DataFrame({"u": [1.0, 2.0], "y": [1.0, 2.0], "note": [cell, "none"]})
        read = read_table(frame, COLUMNS)
        assert read.found[0].inputs[:, 0].tolist() == [1, 2]
        assert read.sha256 != read_table(frame.assign(note=["none", cell]), COLUMNS).sha256
        with pytest.raises(InputError, match=r"row 0 .* in column 3 \(note\): give numbers"):
            read_table(frame, TableFormat(["u"], ["note"]))


def test_dates_durations_and_complex_numbers_of_a_frame_are_no_numbers():
    pandas = pytest.importorskip("pandas")
    days = pandas.Series(pandas.date_range("1999-12-30", periods=2))
    for cells in (days, days - days[0], days.dt.to_period("D"), pandas.Series([1 + 2j, 3.0])):
        frame = pandas.DataFrame({"u": cells, "y": [1.0, 2.0]})
        with pytest.raises(InputError, match=r"^row 0 \(counted from 0\) of .* holds '.+' in column 1 \(u\): give num"):
            read_table(frame, COLUMNS)


def test_a_missing_name_in_a_frame_is_an_empty_cell_as_in_a_text(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"u": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0], "kind": ["a", None, "b"]})
    form = COLUMNS._replace(by="kind")
    text = read_table(write(tmp_path, frame.to_csv(index=False)), form)
    assert text.found[0].conditions == read_table(frame, form).found[0].conditions == ["a", "", "b"]
    assert [each.name for each in read_table(frame, COLUMNS._replace(recording="kind")).found] == ["a", "", "b"]


@pytest.mark.parametrize(("above", "skip", "columns"), [
    ([], 0, "12"), ([["u", "y"]], 0, "uy"), ([["logger", 2], [None, None], ["u", "y"], ["V", "A"]], 1, "uy"),
])  # fmt: skip
def test_what_stands_above_the_rows_of_an_excel_file_is_found_as_in_a_text(tmp_path, monkeypatch, above, skip, columns):
    pandas = pytest.importorskip("pandas")
    cells = [*above, [0.5, 1], [1.5, None], [2.5, 3]]
    monkeypatch.setattr(pandas, "read_excel", lambda content, **how: pandas.DataFrame(cells, dtype=how["dtype"]))
    read = read_table(write(tmp_path, "cells", "t.xlsx"), TableFormat([columns[0]], [columns[1]], skip_rows=skip))
    assert read.found[0].inputs[:, 0].tolist() == [0.5, 1.5, 2.5]
    assert read.found[0].missing[:, 0].tolist() == [False, True, False]
    assert read.notes == (("line 4 of the table holds units (V, A)",) if skip else ())


def test_rows_to_skip_are_refused_where_no_table_has_lines(tmp_path):
    options = {"data": write(tmp_path, "cells", "t.parquet"), "inputs": ["u"], "targets": ["y"], "skip_rows": 2}
    with pytest.raises(InputError, match=r"^skip_rows= is 2, and only texts and Excel files have lines "):
        open_source(hfrnn.TrainConfig(**options).resolved())
