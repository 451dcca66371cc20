"""Spikes are counted in bins, and none is lost at an edge."""

from __future__ import annotations

import numpy as np
import pytest
from support.command_line import call

from hfrnn.analysis.sequences import file_sequences
from hfrnn.data.sheets import NoColumnError, TableFormat
from hfrnn.data.spikes import binned_trials
from hfrnn.data.tables import load_tables, read_table, read_tables
from hfrnn.data.windows import Windows
from hfrnn.errors import InputError
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load_run

FORM = TableFormat(None, None, recording="trial", time="t", unit="neuron", bin=0.1)


def events(folder, rows, name="spikes.csv"):
    path = folder / name
    path.write_text("trial,neuron,t\n" + "".join(f'{trial},"{unit}",{t}\n' for trial, unit, t in rows))
    return str(path)


def test_no_spike_is_lost_at_an_edge(tmp_path):
    times = [0.0, 0.1, 0.2, 0.3, 0.6, 0.7, 0.7, 1.0]  # multiples of the bin, which division rounds to either side
    found = read_table(events(tmp_path, [(0, 3, t) for t in times]), FORM).found[0]
    assert found.inputs[:, 0].tolist() == [1, 1, 1, 1, 0, 0, 1, 2, 0, 0, 1]
    rng = np.random.default_rng(0)
    rows = [(k % 3, k % 4, t) for k, t in enumerate(rng.uniform(-1, 5, size=300))]
    assert sum(each.inputs.sum() for each in read_table(events(tmp_path, rows), FORM).found) == 300


def test_an_event_at_the_end_has_a_bin_of_its_own_and_none_lies_behind_targets():
    at_end = [[np.array([0.05, 0.3])]]
    assert [each.tolist() for each in binned_trials({"x": at_end}, 0.1, "data")["x"]] == [[[1], [0], [0], [1]]]
    assert np.histogram(at_end[0][0], [0, 0.1, 0.2, 0.3])[0].tolist() == [1, 0, 1]  # the last bin has both edges
    with pytest.raises(InputError, match="its 3 bins end at"):
        binned_trials({"x": at_end, "y": np.zeros((1, 3, 1))}, 0.1, "data")


def test_each_unit_is_a_column_and_each_trial_a_recording(tmp_path):
    read = read_table(events(tmp_path, [("b", 10, 0.05), ("a", 2, 0.25), ("b", 2, 0.19)]), FORM)
    assert read.input_names == ("2", "10")
    assert [(each.name, each.inputs.tolist()) for each in read.found] == [
        ("b", [[0, 1], [1, 0]]), ("a", [[0, 0], [0, 0], [1, 0]])
    ]  # fmt: skip
    assert read_table(events(tmp_path, [("b", 10, 0.05)]), FORM._replace(inputs=["10"])).input_names == ("10",)


@pytest.mark.parametrize("role", ["inputs", "targets"])
def test_a_unit_that_is_given_twice_is_refused_as_a_column_is(tmp_path, role):
    path, form = events(tmp_path, [("b", 10, 0.05), ("b", 2, 0.19)]), FORM._replace(**{role: ["2", "10", "2"]})
    with pytest.raises(InputError, match=rf"^{role}= has unit 2 twice: give each unit once"):
        read_table(path, form)


def test_notes_on_events_count_those_of_the_rows_that_are_read(tmp_path):
    path = events(tmp_path, [("a", 1, 0.05), ("a", 2, 0.15), ("a", 1, 0.25), ("a", 3, 0.35)])
    assert read_table(path, FORM._replace(rows=(0, 1))).notes == (
        "1 event of 1 unit in bins of 0.1 s", f"{path} has no event of 2, 3: zeros in each bin"
    )  # fmt: skip
    with pytest.raises(InputError, match=r"has no event of the units 2 that are counted \(it has 1\)"):
        read_table(path, FORM._replace(rows=(0, 1), inputs=["2"], targets=["2"]))


def test_a_note_says_that_trials_have_the_times_of_a_whole_session(tmp_path):
    noted = "go on from recording to recording, so each begins with empty bins until its first event"
    for first, begins in ((20.0, True), (5.0, True), (0.5, False)):
        rows = [(0, 1, 0.0), (0, 2, 1.0), (1, 1, first), (1, 2, first + 1)]
        assert any(noted in note for note in read_table(events(tmp_path, rows), FORM).notes) is begins
    assert not any(noted in note for note in read_table(events(tmp_path, rows[:2]), FORM).notes)


def test_wrong_events_are_refused(tmp_path):
    with pytest.raises(NoColumnError, match="no unit"):
        read_table(events(tmp_path, [(0, 1, 0.5)]), FORM._replace(inputs=["7"]))
    with pytest.raises(InputError, match=r"column neuron of .* is empty in the row"):
        read_table(events(tmp_path, [(0, 1, 0.5), (0, "", 0.6)]), FORM)
    with pytest.raises(InputError, match="unit="):
        read_table(events(tmp_path, [(0, 1, 0.5)]), FORM._replace(unit=None))
    for useless, name in (({"by": "trial"}, "by"), ({"states": ["t"]}, "initial_state"), ({"fill": "linear"}, "fill")):
        with pytest.raises(InputError, match=f"{name}= is for the steps of a table"):
            read_table(events(tmp_path, [(0, 1, 0.5)]), FORM._replace(**useless))
    with pytest.raises(InputError, match="in seconds"):
        read_table(events(tmp_path, [(0, 1, "soon")]), FORM)
    for times in ((0.5, 1e30), (-1e308, 1e308)):
        with pytest.raises(InputError, match=r"the bins of 0 has shape .* and takes 2\^65 bytes"):
            read_table(events(tmp_path, [(0, 1, time) for time in times]), FORM)


def test_the_units_of_the_training_part_are_the_columns_of_the_other_parts(tmp_path):
    train = events(tmp_path, [(0, unit, 0.1 * k) for k in range(9) for unit in (1, 2, 3)])
    valid = events(tmp_path, [(0, 1, 0.0), (0, 4, 0.1), (0, 2, 0.7), (0, 2, 0.71)], "valid.csv")
    for units in (None, ["1", "2", "3"]):
        form = FORM._replace(inputs=units, targets=units)
        data, found = load_tables({"train": ([train], form), "valid": ([valid], form)}, Windows(4, 4, 0))
        assert found["valid"].input_names == found["valid"].target_names == data.input_names == ("1", "2", "3")
        assert found["valid"].found[0].inputs.T.tolist() == [[1, *[0] * 7], [*[0] * 7, 2], [0] * 8]
        assert f"{valid} has no event of 3: zeros in each bin" in data.notes
        assert f"units that the network neither reads nor predicts are left out of {valid}: 4" in data.notes
    own = FORM._replace(inputs=["4", "2", "3"], asked={"inputs": "valid_inputs"})  # names of the part itself count too
    found = load_tables({"train": ([train], form), "valid": ([valid], own)}, Windows(4, 4, 0))[1]
    assert found["valid"].found[0].inputs.T.tolist() == [[0, 1, *[0] * 6], [*[0] * 7, 2], [0] * 8]
    with pytest.raises(NoColumnError, match=r"valid_inputs= has '7', which is no unit of .*: it has 1, 2, 4"):
        load_tables({"train": ([train], form), "valid": ([valid], own._replace(inputs=["7", "2", "3"]))})
    others = events(tmp_path, [(0, 8, 0.0), (0, 9, 0.1)], "others.csv")
    with pytest.raises(InputError, match=r"no event of the units 1, 2, 3 that are counted \(it has 8, 9\)"):
        load_tables({"train": ([train], FORM), "valid": ([others], FORM)})


def test_tables_of_the_training_part_have_the_units_of_all_of_them(tmp_path):
    both = [("a", 1, 0.0), ("a", 3, 0.1)], [("b", 2, 0.0), ("b", 3, 0.1)]
    tables = [events(tmp_path, rows, f"{n}.csv") for n, rows in enumerate(both)]
    for units in (None, ["1", "2", "3"]):
        read = read_tables(tables, FORM._replace(inputs=units))
        assert read.input_names == read.units == ("1", "2", "3")
        assert [each.inputs.tolist() for each in read.found] == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]]]


def test_another_file_is_read_with_the_units_of_the_run(tmp_path):
    rng = np.random.default_rng(1)
    rows = [(0, ("1", "2", "3 a, b")[k % 3], f"{t:.3f}") for k, t in enumerate(rng.uniform(0, 30, size=900))]
    path = events(tmp_path, rows)
    other = events(tmp_path, [row for row in rows if row[1] != "2"] + [(0, 4, 1)], "other.csv")
    flags = ["--bin", 0.1, "--time", "t", "--unit", "neuron", "--window", 20, "--arch", "rnn", "--hidden", 3]
    flags += ["--updates", 1, "--backend", "numpy"]
    call("train", "--data", path, *flags, "--out", tmp_path / "all")
    scored = call("evaluate", tmp_path / "all", other).output.splitlines()
    assert [line.split()[0] for line in scored[2:5]] == ["1", "2", "3"]
    notes = [
        "600 events of 2 units in bins of 0.1 s", f"{other} has no event of 2: zeros in each bin",
        f"units that the network neither reads nor predicts are left out of {other}: 4",
    ]  # fmt: skip
    assert {f"{note}." for note in notes} <= {*scored}
    assert {*notes} <= {*call("predict", tmp_path / "all", other, "--output", tmp_path / "o.csv").output.splitlines()}
    ahead = call("evaluate", tmp_path / "all", other, "--steps-ahead", 2)
    assert {f"{note}." for note in notes} <= {*ahead.output.splitlines()}
    folder = RunFolder(tmp_path / "all")
    given = file_sequences(folder, load_run(folder).net, other)
    assert given.input_names == given.output_names == ("1", "2", "3 a, b")
    assert [int(n) for n in given.batch.inputs.sum(axis=(0, 1))] == [300, 0, 300]
    call("train", "--data", path, *flags, "--inputs", "1", "--targets", "2", "--out", tmp_path / "named")
    call("predict", tmp_path / "named", other, "--output", tmp_path / "y.csv")
    assert (tmp_path / "y.csv").read_text().splitlines()[0] == "row,time,2"


def test_spikes_train_a_network_on_the_command_line(tmp_path):
    rng = np.random.default_rng(1)
    path = events(tmp_path, [(k % 4, k % 3, f"{t:.3f}") for k, t in enumerate(rng.uniform(0, 6, size=800))])
    flags = ["--bin", 0.1, "--time", "t", "--unit", "neuron", "--recording", "trial", "--window", 20, "--arch", "rnn"]
    flags += ["--hidden", 3, "--updates", 1, "--backend", "numpy", "--out", tmp_path / "run"]
    output = call("train", "--data", path, *flags, "--ahead", 1).output
    assert "800 events of 3 units in bins of 0.1 s" in output
