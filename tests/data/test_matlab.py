"""Variables of MATLAB files by name: struct and cell arrays are trials, with the same result for v7 and v7.3."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from support.array_files import load as load_file
from support.corpora import corpus_file
from support.matlab_files import trials, v7, v73

from hfrnn.data.array_data import ArrayData, Files, load_files
from hfrnn.data.matlab import held_by_mat
from hfrnn.data.named_arrays import ArrayNames, open_holding
from hfrnn.data.windows import Windows
from hfrnn.errors import InputError

pytest.importorskip("h5py")
FORMS = pytest.mark.parametrize("form", [v7, v73], ids=["v7", "v7.3"])
load = functools.partial(load_file, fractions=(1.0, 0.0, 0.0))


def written(folder: Path, content: bytes, name: str = "a.mat") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def assert_trials(data: ArrayData, of: list[dict]) -> None:
    assert data.train.lengths.tolist() == [len(each["u"]) for each in of]
    for n, each in enumerate(of):
        T = len(each["u"])
        assert np.array_equal(data.train.inputs[:T, n], each["u"])
        assert np.array_equal(data.train.targets[:T, n], each["y"])
        assert not data.train.weights[T:, n].any()


@FORMS
def test_a_struct_array_is_trials_of_unequal_length(form, tmp_path):
    of = trials()
    assert_trials(load(written(tmp_path, form({"trials": of})), "trials.u", "trials.y"), of)


@FORMS
def test_vectors_of_trials_are_one_column_of_steps_whichever_way_they_lie(form, tmp_path):
    of = [{"u": np.arange(5.0)[:, None] + n, "y": np.arange(5.0)[:, None] * n} for n in range(3)]
    for turned in (("u",), ("y",), ("u", "y")):
        rows = [{name: x.T if name in turned else x for name, x in each.items()} for each in of]
        assert_trials(load(written(tmp_path, form({"trials": rows})), "trials.u", "trials.y"), of)


@FORMS
def test_arrays_named_x_and_y_lose_their_last_axis_of_one_only(form, tmp_path):
    x, y = np.arange(24.0).reshape(3, 4, 2), np.arange(12.0).reshape(3, 4)
    for sequences, steps in ((3, 4), (1, 4), (3, 1)):
        data = load(written(tmp_path, form({"x": x[:sequences, :steps], "y": y[:sequences, :steps]})))
        assert data.train.lengths.tolist() == [steps] * sequences
        np.testing.assert_array_equal(data.train.inputs.swapaxes(0, 1), x[:sequences, :steps])
        np.testing.assert_array_equal(data.train.targets.swapaxes(0, 1)[..., 0], y[:sequences, :steps])


@FORMS
def test_cell_arrays_are_trials_of_unequal_length(form, tmp_path):
    of = trials()
    content = form({"u": [each["u"] for each in of], "y": [each["y"] for each in of]})
    assert_trials(load(written(tmp_path, content), "u", "y"), of)


def test_trials_are_read_alike_with_time_first_and_whole_numbers_as_classes(tmp_path):
    same = [{"u": np.arange(10.0).reshape(5, 2) + n, "y": np.full((5, 1), n + 1.0)} for n in range(4)]
    path = written(tmp_path, v7({"trials": same}))
    assert_trials(load(path, "trials.u", "trials.y", time_first=True, loss="squared"), same)
    for steps in (5, 4):  # of the last trial
        same[3] = {name: each[:steps] for name, each in same[3].items()}
        data = load(written(tmp_path, v7({"trials": same})), "trials.u", "trials.y", loss="softmax")
        assert (data.loss, data.first_class, data.n_out) == ("softmax", 1, 4)
        assert data.train.targets[0].tolist() == [0, 1, 2, 3]


@FORMS
def test_cells_named_x_and_y_need_no_names(form, tmp_path):
    of = trials()
    path = written(tmp_path, form({"x": [each["u"] for each in of], "y": [each["y"] for each in of]}))
    assert_trials(load(path), of)


@FORMS
def test_fields_of_structs_in_structs_and_in_cells_have_names(form, tmp_path):
    of = trials(3)
    path = written(
        tmp_path, form({"a": {"b": {"t": of}}, "c": [dict(each) for each in of], "s": {"u": np.ones((3, 1))}})
    )
    names = open_holding(path).names
    assert {"a.b.t.u", "a.b.t.y", "a.b.t.label", "c.u", "s.u"} <= set(names)
    assert_trials(load(path, "a.b.t.u", "a.b.t.y"), of)


@FORMS
def test_trials_with_the_steps_on_their_second_axis_are_turned_and_a_note_says_so(form, tmp_path):
    of = trials()
    turned = [{"u": each["u"].T, "y": each["y"].T} for each in of]
    data = load(written(tmp_path, form({"trials": turned})), "trials.u", "trials.y")
    assert_trials(data, of)
    assert "trials.u: its second axis holds the steps" in data.notes


@FORMS
def test_trials_of_equal_length_keep_the_steps_first(form, tmp_path):
    rng = np.random.default_rng(1)
    of = [{"u": (u := rng.normal(size=(9, 2))), "y": u[:, :1]} for _ in range(4)]
    data = load(written(tmp_path, form({"t": of})), "t.u", "t.y")
    assert_trials(data, of)
    assert not any("axis" in note for note in data.notes)


@FORMS
def test_several_names_are_columns(form, tmp_path):
    of = trials()
    split = [{"a": each["u"][:, :1], "b": each["u"][:, 1:], "y": each["y"]} for each in of]
    assert_trials(load(written(tmp_path, form({"t": split})), "t.a,t.b", "t.y"), of)


@FORMS
def test_several_vectors_of_a_recording_are_columns(form, tmp_path):
    u = np.random.default_rng(0).normal(size=(60, 2))
    content = form({"force": u[:, 0][None], "speed": u[:, 1:], "y": u[:, 1][None]})
    data = load(written(tmp_path, content), "force,speed", "y", windows=Windows(60, burn_in=0))
    assert np.array_equal(data.train.inputs[:, 0], u)
    assert np.array_equal(data.train.targets[:, 0, 0], u[:, 1])


@FORMS
def test_a_mask_of_trials_leaves_steps_out(form, tmp_path):
    of = trials(4)
    for each in of:
        each["known"] = np.arange(len(each["u"]))[:, None] % 2
    data = load(written(tmp_path, form({"t": of})), "t.u", "t.y", "t.known")
    assert data.train.weights[:8, 0].ravel().tolist() == [0, 1, 0, 1, 0, 1, 0, 1]


@FORMS
def test_classes_that_count_from_one_are_recognised_and_said(form, tmp_path):
    of = trials()
    data = load(written(tmp_path, form({"t": of})), "t.u", "t.label")
    assert (data.loss, data.n_out, data.first_class) == ("softmax", 3, 1)
    last = [data.train.targets[len(each["u"]) - 1, n] for n, each in enumerate(of)]
    assert last == [each["label"] - 1 for each in of]
    assert data.train.weights.sum() == len(of)
    assert any(note.startswith("classes count from 1") for note in data.notes)


@FORMS
def test_one_vector_of_classes_goes_with_trials(form, tmp_path):
    of = trials()
    content = form({"t": of, "label": np.array([[each["label"]] for each in of])})
    data = load(written(tmp_path, content), "t.u", "label")
    assert (data.loss, data.n_out) == ("softmax", 3)


def test_classes_from_zero_and_numbers_stay_as_they_are(tmp_path):
    of = trials()
    for n, each in enumerate(of):
        each["zero"], each["half"] = float(n % 3), n + 0.5
    path = written(tmp_path, v7({"t": of}))
    assert load(path, "t.u", "t.zero", loss="softmax").first_class == 0
    assert load(path, "t.u", "t.half").loss == "squared"
    assert load(path, "t.u", "t.label", loss="squared").train.targets.max() == 3


@FORMS
def test_each_trial_is_a_recording_with_windows(form, tmp_path):
    path = written(tmp_path, form({"t": trials()}))
    data = load(path, "t.u", "t.y", windows=Windows(10, 10, 0), fractions=None)
    assert data.train.inputs.shape[0] == 10
    assert data.valid is not None


@FORMS
def test_other_values_are_refused_by_their_name_in_matlab(form, tmp_path):
    of = [{"u": np.ones((3, 1)), "name": "a"}, {"u": np.ones((4, 1)), "name": "b"}]
    path = written(
        tmp_path, form({"t": of, "text": "abc", "c": ["a", "b"], "y": np.ones((2, 1)), "z": np.ones(2) + 1j})
    )
    for name, words in (
        ("t.name", "t.name is a field of a struct array of text: numbers are needed"),
        ("text", "text is text: numbers are needed"),
        ("c", "c is a cell array of text: numbers are needed"),
    ):
        with pytest.raises(InputError, match=f"^{words}$"):
            load(path, name, "y")
    if form is v7:
        with pytest.raises(InputError, match=r"^z is an array of complex numbers: numbers are needed$"):
            load(path, "z", "y")


def test_function_handles_and_sparse_matrices_are_refused_by_their_class():
    held = held_by_mat(v7({"f": [np.ones(1), np.ones(1)], "s": scipy.sparse.eye(3).tocsc()}), "a.mat")
    assert [(each.name, each.refused) for each in held.held if each.refused] == [("s", "a sparse matrix")]
    for code, words in ((16, "a cell array of function handles"), (5, "a cell array of sparse matrices")):
        changed = bytearray(v7({"trials": [np.ones(3), np.ones(4)]}))
        at = 0
        while (at := changed.find(b"\x06\x00\x00\x00\x08\x00\x00\x00\x06", at)) >= 0:  # the flags of a double
            changed[at + 8] = code
            at += 9
        (held_cells,) = held_by_mat(bytes(changed), "a.mat").held
        assert held_cells.refused == words
        with pytest.raises(InputError, match=f"^trials is {words}: numbers are needed$"):
            held_cells.values("a.mat")


def _element(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(4, "little") + len(content).to_bytes(4, "little") + content + bytes(-len(content) % 8)


def _matrix(flags: int, axes: tuple[int, ...], name: bytes, rest: bytes) -> bytes:
    shape = b"".join(each.to_bytes(4, "little") for each in axes)
    return _element(
        14, _element(6, bytes([flags, 0, 0, 0, 0, 0, 0, 0])) + _element(5, shape) + _element(1, name) + rest
    )


def test_an_opaque_object_is_refused_by_its_class():
    words = _element(1, b"T") + _element(1, b"MCOS") + _element(1, b"table")
    inner = _matrix(6, (1, 1), b"", _element(9, bytes(8)))
    body = _element(14, _element(6, bytes([17, 0, 0, 0, 0, 0, 0, 0])) + words + inner)
    (held,) = held_by_mat(v7({"x": np.ones(2)})[:128] + body, "a.mat").held
    assert (held.name, held.refused) == ("T", "a table")


def test_cells_in_cells_are_followed_to_a_bound_only():
    content = _matrix(6, (1, 1), b"", _element(9, bytes(8)))
    for _ in range(3000):
        content = _matrix(1, (1, 1), b"", content)
    content = _matrix(1, (1, 1), b"deep", content)
    with pytest.raises(InputError, match="levels deep"):
        held_by_mat(v7({"x": np.ones(2)})[:128] + content, "a.mat")


def test_a_cell_array_with_more_cells_than_bytes_is_damaged(tmp_path):
    content = v7({"x": np.ones(2)})[:128] + _matrix(1, (2**15, 2**15), b"c", b"")
    with pytest.raises(InputError, match=r"cannot be read as a .mat file"):
        open_holding(written(tmp_path, content))


def test_several_files_are_joined_and_a_file_of_its_own_validates(tmp_path):
    one, two, three = (written(tmp_path, v7({"t": trials(n, seed=n)}), f"{n}.mat") for n in (3, 4, 5))
    names = ArrayNames(["t.u"], ["t.y"])
    data = load_files({"train": Files((one, two), names), "valid": Files((three,), names)})
    assert data.train.lengths.tolist() == [8, 9, 10, 8, 9, 10, 11]
    assert data.valid.lengths.tolist() == [8, 9, 10, 11, 12]
    assert len(data.files) == 3


def test_rows_and_names_of_their_own_choose_the_validation(tmp_path):
    t = np.arange(100.0)[None]
    path = written(tmp_path, v7({"u": t, "y": t + 1, "uv": t + 200, "yv": t + 300}))
    parts = {"train": Files((path,), ArrayNames(["u"], ["y"]), (10, 50)),
             "valid": Files((path,), ArrayNames(["uv"], ["yv"], part="valid"), (90, None))}  # fmt: skip
    data = load_files(parts, windows=Windows(10, 10, 0))
    assert (data.train.inputs.min(), data.train.inputs.max()) == (10, 49)
    assert data.valid.inputs.ravel().tolist() == list(range(290, 300))


def test_targets_that_are_nan_or_masked_are_not_scored_beside_a_window(tmp_path):
    t = np.arange(40.0)
    y = t.copy()
    y[3] = np.nan
    mask = np.ones(40)
    mask[5] = 0
    path = str(tmp_path / "a.npz")
    np.savez(path, x=t, y=y, mask=mask, valid_x=t[:20], valid_y=y[:20])
    data = load_files({"train": Files((path,))}, windows=Windows(40, 40, 0))
    assert np.flatnonzero(data.train.weights.ravel() == 0).tolist() == [3, 5]
    assert data.valid.lengths.tolist() == [20]


def test_the_message_without_x_offers_the_names(tmp_path):
    path = written(tmp_path, v7({"trials": trials(2)}))
    with pytest.raises(InputError, match=r"has no array x: it holds trials.u, trials.y, trials.label; name it x, or"):
        load_files({"train": Files((path,))})
    with pytest.raises(InputError, match=r"has 'trials', and .* no such array \(did you mean trials.u\?\)"):
        load(path, "trials", "trials.y")
    with pytest.raises(InputError, match=r"has 'trials.v', and .* no such array \(did you mean trials.y\?\)"):
        load(path, "trials.v", "trials.y")


def test_one_recording_without_a_window_is_refused_with_the_advice(tmp_path):
    path = written(tmp_path, v7({"u": np.arange(50.0)[None], "y": np.arange(50.0)[None]}))
    with pytest.raises(InputError, match="looks like one recording: give window= to cut it"):
        load(path, "u", "y")


def test_trials_that_disagree_are_named(tmp_path):
    of = trials(3)
    of[1]["y"] = of[1]["y"][:-1]
    with pytest.raises(InputError, match=r"trial 2 of .* has 9 steps in t.u and 8 in t.y"):
        load(written(tmp_path, v7({"t": of})), "t.u", "t.y")


@pytest.mark.corpus
def test_the_silverbox_is_one_recording():
    path = corpus_file("silverbox", "SNLS80mV.mat")
    files = Files((str(path),), ArrayNames(["V1"], ["V2"]), (40000, 60000))
    data = load_files({"train": files}, windows=Windows(200))
    assert (data.n_in, data.n_out, len(data.valid.lengths)) == (1, 1, 13)
    V1 = scipy.io.loadmat(path, variable_names=["V1"])["V1"].ravel()
    assert np.array_equal(data.train.inputs[:, 0, 0], V1[40000:40200])
