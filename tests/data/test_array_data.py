"""Arrays of sequences: layouts, masks, lengths, losses and parts, as the network gets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_files import N, T, good, load, mat, npy, npz
from support.local_site import put

from hfrnn.data import array_files
from hfrnn.data.array_data import ArrayData, Files, from_memory, load_files
from hfrnn.data.kinds.arrays import parts_of
from hfrnn.data.named_arrays import ArrayNames
from hfrnn.data.windows import Windows
from hfrnn.errors import InputError

X, Y = good()["x"], good()["y"]
WHOLE = (1.0, 0.0, 0.0)
RNG = np.random.default_rng(1)


def whole(**changes: Any) -> ArrayData:
    """Return arrays from memory, all to train on."""
    how = {name: changes.pop(name) for name in ("time_first", "loss", "windows") if name in changes}
    return from_memory(good(**changes), fractions=WHOLE, **how)


def assert_equal(one: ArrayData, other: ArrayData) -> None:
    assert one.parts.keys() == other.parts.keys()
    for part in one.parts:
        for a, b in zip(one.parts[part], other.parts[part], strict=True):
            np.testing.assert_array_equal(a, b)


def test_real_arrays_become_time_major() -> None:
    data = whole()
    expected = (X.swapaxes(0, 1), Y.swapaxes(0, 1), np.ones((T, N)), np.full(N, T))
    for found, wanted in zip(data.train, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert (data.n_in, data.n_out, data.loss, data.symbols) == (2, 1, "squared", False)


def test_arrays_with_the_steps_first_give_the_same_data() -> None:
    mask = RNG.integers(1, 3, size=(N, T))
    assert_equal(whole(x=X.swapaxes(0, 1), y=Y.swapaxes(0, 1), mask=mask.T, time_first=True), whole(mask=mask))


def test_the_arrays_of_a_list_have_their_steps_first_whatever_time_first_says() -> None:
    mask = RNG.integers(1, 3, size=(N, T))
    assert_equal(whole(x=[*X], y=[*Y], mask=[*mask], time_first=True), whole(mask=mask))


@pytest.mark.parametrize("time_first", [False, True])
def test_targets_of_a_sequence_are_scored_at_its_last_step(time_first: bool) -> None:
    lengths, last = np.array([8, 3, 1, 5, 8, 2]), RNG.normal(size=(N, 3))
    train = whole(x=X.swapaxes(0, 1) if time_first else X, y=last, lengths=lengths, time_first=time_first).train
    assert train.weights.sum() == N
    for n, length in enumerate(lengths):
        assert train.weights[length - 1, n] == 1
        np.testing.assert_array_equal(train.targets[length - 1, n], last[n])
        assert not train.targets[: length - 1, n].any()
    np.testing.assert_array_equal(whole(y=last[:, 0]).train.targets[-1, :, 0], last[:, 0])


def test_integers_are_symbols_or_classes_at_every_step_or_at_the_last() -> None:
    classes = RNG.integers(0, 4, size=(N, T))
    classes[2, 3] = 3
    every, last = whole(y=classes), whole(y=classes[:, 3])
    assert (every.loss, every.n_out, last.loss, last.n_out) == ("softmax", 4, "softmax", 4)
    np.testing.assert_array_equal(every.train.targets, classes.T)
    np.testing.assert_array_equal(last.train.targets[-1], classes[:, 3])
    assert (every.train.weights.sum(), last.train.weights.sum()) == (N * T, N)
    assert every.train.targets.dtype == np.int32
    symbols = np.zeros((N, T), dtype=np.uint8)
    data = from_memory({"x": symbols, "y": Y, "valid_x": symbols + 6, "valid_y": Y})
    assert data.symbols
    assert data.n_in == 7
    assert data.train.inputs.dtype == np.int32


@pytest.mark.parametrize(("y", "loss"), [
    (np.round(np.abs(np.sin(Y))), "logistic"), (np.ones((N, T, 3), dtype=int), "logistic"),
    (np.ones((N, T, 3), dtype=int) * 2, "squared"), (np.ones((N, T, 3), dtype=bool), "logistic"),
    (np.ones((N, T), dtype=bool), "softmax"), (Y / 10, "squared"),
])  # fmt: skip
def test_the_loss_fits_the_targets(y: Any, loss: str) -> None:
    data = whole(y=y)
    assert data.loss == loss
    assert data.reason


def test_the_loss_that_was_asked_for_is_taken() -> None:
    bits, classes = np.ones((N, T, 1)), RNG.integers(0, 4, size=(N, T))
    assert whole(y=bits, loss="squared").loss == "squared"
    assert whole(y=bits / 2, loss="logistic").loss == "logistic"
    assert whole(y=np.ones((N, T), dtype=int), loss="logistic").train.targets.shape == (T, N, 1)
    np.testing.assert_array_equal(whole(y=classes * 1.0, loss="softmax").train.targets, classes.T)


def test_targets_that_are_not_scored_may_hold_anything_and_a_mask_may_weigh_every_output() -> None:
    mask = RNG.integers(0, 2, size=(N, T))
    mask[:, 0] = 1
    train = whole(y=np.where(mask[:, :, None], Y, np.nan), mask=mask).train
    np.testing.assert_array_equal(train.weights, mask.T)
    np.testing.assert_array_equal(train.targets, np.where(mask[:, :, None], Y, 0).swapaxes(0, 1))
    classes = np.where(mask, 2, -100)
    np.testing.assert_array_equal(whole(y=classes, mask=mask).train.targets, np.where(mask, 2, 0).T)
    mask = RNG.random((N, T, 2))
    train = whole(y=np.concatenate([Y, -Y], axis=2), mask=mask).train
    np.testing.assert_array_equal(train.weights, mask.swapaxes(0, 1).astype(np.float32))


def test_the_padding_is_zeros_without_weight() -> None:
    lengths = np.array([8, 3, 1, 5, 8, 2])
    exists = np.arange(T)[:, None] < lengths
    padded = np.where(exists.T[:, :, None], X, np.nan)
    train = whole(x=padded, y=np.where(exists.T[:, :, None], Y, np.inf), lengths=lengths).train
    np.testing.assert_array_equal(train.inputs, np.where(exists[:, :, None], X.swapaxes(0, 1), 0))
    np.testing.assert_array_equal(train.weights, exists)
    assert np.isfinite(train.targets).all()


@pytest.mark.parametrize(("count", "fractions", "sizes"), [
    (60, None, (54, 6, 0)), (3, None, (2, 1, 0)), (1, None, (1, 0, 0)), (10, (0.6, 0.3, 0.1), (6, 3, 1)),
    (3, (0.9, 0.05, 0.05), (1, 1, 1)), (5, WHOLE, (5, 0, 0)),
])  # fmt: skip
def test_the_last_sequences_validate(count: int, fractions: Any, sizes: tuple[int, ...]) -> None:
    x = np.arange(count)[:, None, None] * np.ones((count, 3, 1))
    data = from_memory({"x": x, "y": x}, fractions=fractions)
    parts = [data.train, data.valid, data.test]
    assert tuple(0 if part is None else part.lengths.size for part in parts) == sizes
    kept = np.concatenate([part.inputs[0, :, 0] for part in parts if part is not None])
    np.testing.assert_array_equal(kept, np.arange(count))


def test_parts_of_their_own_may_have_other_lengths_and_arrays_are_not_written_to() -> None:
    data = from_memory({**good(), "valid_x": X[:2, :3], "valid_y": Y[:2, :3], "test_x": X[:1], "test_y": Y[:1]})
    assert data.train.inputs.shape == (T, N, 2)
    assert data.valid is not None
    assert data.valid.inputs.shape == (3, 2, 2)
    assert list(data.parts) == ["train", "valid", "test"]
    arrays = good(mask=np.ones((N, T)))
    before = {name: array.copy() for name, array in arrays.items()}
    data = from_memory(arrays)
    data.train.inputs[...] = 7
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_with_only_a_test_part_of_its_own_the_last_sequences_validate() -> None:
    data = from_memory({**good(), "test_x": X[:1], "test_y": Y[:1]})
    assert {name: part.sequences for name, part in data.parts.items()} == {"train": N - 1, "valid": 1, "test": 1}
    with pytest.raises(InputError, match="own sequences for the test"):
        from_memory({**good(), "test_x": X[:1], "test_y": Y[:1]}, fractions=(0.6, 0.2, 0.2))


def test_all_kinds_of_files_hold_the_same_data(tmp_path: Path) -> None:
    arrays = good(mask=RNG.integers(1, 3, size=(N, T)), lengths=np.full(N, T - 1))
    expected = from_memory(arrays)
    assert_equal(load(put(tmp_path / "a.npz", npz(arrays))), expected)
    assert_equal(load(put(tmp_path / "b.npz", npz(arrays, pack=True))), expected)
    assert_equal(load(put(tmp_path / "a.mat", mat(arrays))), expected)
    assert_equal(load(put(tmp_path / "b.MAT", mat(arrays, do_compression=True))), expected)
    x, y = put(tmp_path / "x.npy", npy(X)), put(tmp_path / "y.npy", npy(Y))
    assert_equal(load(x, targets=y), from_memory(good()))


@pytest.mark.parametrize("dtype", [">f8", "<f4", "f2", "longdouble", ">i4"])
def test_types_and_orders_of_numbers_are_read(tmp_path: Path, dtype: str) -> None:
    x = np.asfortranarray(np.arange(N * T * 2).reshape(N, T, 2).astype(dtype))
    data = load(put(tmp_path / "x.npy", npy(x)), targets=put(tmp_path / "y.npy", npy(Y)), fractions=WHOLE)
    np.testing.assert_array_equal(data.train.inputs, x.swapaxes(0, 1).astype(float))
    assert data.train.inputs.dtype == (np.float32 if dtype in ("<f4", "f2") else np.float64)


def test_matlab_leaves_out_an_axis_of_one(tmp_path: Path) -> None:
    arrays = {"x": X[:, :, :1], "y": Y, "lengths": np.full(N, 5)}
    squeezed = {"x": X[:, :, 0], "y": Y[:, :, 0], "lengths": np.full(N, 5)}
    assert_equal(load(put(tmp_path / "a.mat", mat(squeezed))), from_memory(arrays))
    last = Y[:, -1, 0]  # a row
    row = load(put(tmp_path / "b.mat", mat({"x": X, "y": last})))
    assert_equal(row, from_memory({"x": X, "y": last[:, None]}))


def test_arrays_of_other_names_are_not_read_but_named(tmp_path: Path) -> None:
    content = npz(good(notes=np.array([None, {}], dtype=object), masks=np.ones(3)))
    data = load(put(tmp_path / "a.npz", content))
    assert data.notes == ("not read: notes, masks",)


def test_arrays_unpacked_ones_and_windows_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "a.npz", npz({"x": np.zeros((N, T, 20)), "y": Y}, pack=True))
    monkeypatch.setattr(array_files, "memory_share", lambda divisor: 8063)
    with pytest.raises(InputError, match=r"array y .* takes 8064 bytes with the arrays before it, and at most 8,063"):
        load(path)
    path = put(tmp_path / "a.mat", mat({"x": np.zeros((2**8, 2**8, 4)), "y": Y}, do_compression=True))
    monkeypatch.setattr(array_files, "memory_share", lambda divisor: 2**20)
    with pytest.raises(InputError, match="unpacks to more than a sixteenth of the memory"):
        load(path)
    x = np.zeros((5000, 1))
    with pytest.raises(InputError, match=r"3,002 windows of 2000 steps take too much memory: give a larger stride="):
        from_memory({"x": x, "y": x}, windows=Windows(2000, 1), fractions=WHOLE)


def test_the_checksum_is_that_of_the_arrays(tmp_path: Path) -> None:
    sums = {from_memory(arrays).sha256 for arrays in (good(), good(x=X + 1), good(mask=np.ones((N, T))))}
    assert len(sums) == 3
    assert from_memory(good()).sha256 in sums
    x, y = put(tmp_path / "x.npy", npy(X)), put(tmp_path / "y.npy", npy(Y))
    other = put(tmp_path / "z.npy", npy(-Y))
    assert load(x, targets=y).sha256 != load(x, targets=other).sha256


def test_one_recording_is_cut_into_windows_by_time() -> None:
    x, y = np.arange(100.0)[:, None], -np.arange(100.0)
    data = from_memory({"x": x, "y": y}, windows=Windows(20, 10, 4), fractions=(0.6, 0.3, 0.1))
    train, valid, test = data.parts.values()
    np.testing.assert_array_equal(train.inputs[0, :, 0], [0, 10, 20, 30, 40])
    np.testing.assert_array_equal(train.inputs[:, 2, 0], np.arange(20, 40))
    np.testing.assert_array_equal(train.targets[4:], -train.inputs[4:])
    np.testing.assert_array_equal(train.weights, np.arange(20)[:, None] >= np.full(5, 4))
    np.testing.assert_array_equal(valid.inputs[0, :, 0], [60, 76])
    np.testing.assert_array_equal(valid.lengths, [20, 14])
    scored = valid.inputs[:, :, 0][valid.weights > 0]
    np.testing.assert_array_equal(np.sort(scored), np.arange(64, 90))  # each step once
    np.testing.assert_array_equal(test.inputs[:, 0, 0], np.arange(90, 100))


def test_every_step_to_train_on_is_in_a_window() -> None:
    for rows, window, stride in ((97, 20, 7), (20, 20, 20), (55, 11, 11)):
        x = np.arange(float(rows))[:, None]
        train = from_memory({"x": x, "y": x}, windows=Windows(window, stride, 0), fractions=WHOLE).train
        assert set(train.inputs.ravel()) == set(range(rows))
        assert train.inputs.shape[0] == window


@pytest.mark.parametrize(("arrays", "words"), [
    ({"x": X, "y": Y, "vaild_x": X}, r"did you mean valid_x\?"),
    ({"x": X.tolist(), "y": Y}, "x of data is a list: give an array of numbers"),
    ({"x": np.ma.masked_array(X), "y": Y}, "x of data is a masked array"),
    ({"x": X, "y": np.array([None] * N)}, "y of data holds Python objects"),
    ({1: X}, "give a dict with arrays x, y, mask, lengths"), ([X, Y], "give a dict with arrays"),
    ({}, "has no array x"),
])  # fmt: skip
def test_arrays_in_memory_are_checked(arrays: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_memory(arrays)


def test_a_mask_by_name_keeps_the_parts_of_the_file_with_masks_of_the_same_name(tmp_path: Path) -> None:
    weights = {name: RNG.integers(1, 3, size=(N, T)) for name in ("mask", "valid_mask")}
    arrays = {**good(), "valid_x": X, "valid_y": Y, "test_x": X + 1, "test_y": Y}
    named = {name.replace("mask", "w"): each for name, each in weights.items()}
    found = load(put(tmp_path / "named.npz", npz({**arrays, **named})), mask="w")
    assert_equal(found, load(put(tmp_path / "roles.npz", npz({**arrays, **weights}))))
    assert not found.notes


def test_lengths_and_masks_of_the_training_part_are_not_those_of_others_in_its_file(tmp_path: Path) -> None:
    lengths, mask = RNG.integers(1, T + 1, size=N), RNG.integers(1, 3, size=(N, T))
    arrays = {**good(), "lengths": lengths, "w": mask, "xv": X, "yv": Y}
    names = ArrayNames(["x"], ["y"], "w"), ArrayNames(["xv"], ["yv"], "w", "valid")

    def read(**more: Any) -> Any:
        path = put(tmp_path / "a.npz", npz({**arrays, **more}))
        return load_files(
            {part: Files((str(path),), each) for part, each in zip(("train", "valid"), names, strict=True)}
        )

    with pytest.raises(InputError, match=r"a.npz holds w, which belongs to the training part: name that of the valid "
                                         r"part valid_w, or give this part a file of its own with valid="):  # fmt: skip
        read()
    found = read(valid_w=np.ones((N, T)), valid_lengths=np.full(N, T))
    assert found.train.lengths.tolist() == lengths.tolist()
    assert found.valid.lengths.tolist() == [T] * N
    assert (found.valid.weights == 1).all()


def test_a_part_of_the_same_arrays_as_the_training_part_has_its_mask(tmp_path: Path) -> None:
    x, y, mask = RNG.standard_normal((60, 2)), RNG.standard_normal((60, 1)), RNG.integers(0, 2, size=60)
    path = str(put(tmp_path / "a.npz", npz({"x": x, "y": y, "w": mask})))
    options = {"data": path, "valid": None, "test": None, "mask": "w", "rows": ":40", "valid_rows": "40:"}
    options |= dict.fromkeys(("inputs", "targets", "test_inputs", "test_targets", "test_rows"))
    for names in ({"valid_inputs": ("x",)}, {"inputs": ("x",), "valid_inputs": ("x",), "valid_targets": ("y",)}):
        given = {**options, "valid_inputs": None, "valid_targets": None, **names}
        found = load_files(parts_of(given), windows=Windows(20, 20, 0))
        assert found.valid is not None
        assert found.valid.w is not None
        assert found.valid.w.sum() == mask[40:].sum()
