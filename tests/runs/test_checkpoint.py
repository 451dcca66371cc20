"""Checkpoints: what is written comes back, and nothing else loads."""

from __future__ import annotations

import builtins
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_np
from safetensors.numpy import load_file, save_file

from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, InputError, StorageError
from hfrnn.files import append_line, write_atomic
from hfrnn.runs.checkpoint import array_sizes, checkpoint_bytes, load_checkpoint

ARRAYS = {"theta": np.linspace(-1, 1, 7, dtype=np.float32), "seconds": np.array(2.5), "nothing": np.zeros((0, 3), int)}
META = {"update": 12, "best": float("inf"), "names": ["a", None, True], "rng": {"state": 2**100}}


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("checkpoints") / "last.safetensors"
    write_atomic(path, checkpoint_bytes(ARRAYS, META))
    return path, path.read_bytes()


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


names = st.text(st.characters(min_codepoint=32, max_codepoint=126))
array_types = st.sampled_from([np.float32, np.float64, np.int64, np.int32, np.uint8, np.bool_, np.float16])
any_array = array_types.flatmap(lambda kind: st_np.arrays(kind, st_np.array_shapes(min_dims=0, max_dims=3, min_side=0)))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=15)
@given(st.dictionaries(names, any_array, max_size=3), st.dictionaries(st.text(), json_values, max_size=3))
def test_arrays_and_meta_come_back_bit_for_bit(tmp_path_factory, arrays: dict, meta: dict) -> None:
    path = tmp_path_factory.mktemp("c") / "c.safetensors"
    write_atomic(path, checkpoint_bytes(arrays, meta))
    found, found_meta = load_checkpoint(path)
    assert found.keys() == arrays.keys() == load_file(path).keys()  # ordinary safetensors
    for name, array in arrays.items():
        assert_same_bits(found[name], array)
        assert found[name].flags.writeable
    assert found_meta == meta


def test_views_foreign_byte_orders_and_odd_numbers_come_back_as_plain_arrays(tmp_path: Path) -> None:
    base = np.arange(12.0).reshape(3, 4)
    odd = np.array([0x7FC00001, 0x80000000, 0xFF800000, 0x00000001], dtype=np.uint32).view(np.float32)
    arrays = {"T": base.T, "step": base[::2, ::-1], "big": base.astype(">f8"), "odd": odd}
    write_atomic(tmp_path / "c", checkpoint_bytes(arrays, {}))
    found, _ = load_checkpoint(tmp_path / "c")
    for name in ("T", "step", "big"):
        np.testing.assert_array_equal(found[name], arrays[name])
    assert_same_bits(found["odd"], odd)


@given(st.data())
@settings(max_examples=100)
def test_a_flipped_bit_never_loads(tmp_path_factory, written: tuple[Path, bytes], data: st.DataObject) -> None:
    content = bytearray(written[1])
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = written[0].with_name("flipped.safetensors")
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"flipped\.safetensors"):
        load_checkpoint(path)


@given(st.data())
def test_a_truncated_or_lengthened_file_never_loads(written: tuple[Path, bytes], data: st.DataObject) -> None:
    path, whole = written[0].with_name("cut.safetensors"), written[1]
    path.write_bytes(data.draw(st.integers(0, len(whole) - 1).map(lambda n: whole[:n]) | st.just(whole + b"\0")))
    with pytest.raises(CheckpointError, match=r"cut\.safetensors"):
        load_checkpoint(path)


@given(st.binary(max_size=60), st.booleans())
@example(b"[" * 100_000, True)
@example(b"{}", True)
@example(b'{"__metadata__":3}', True)
@example(b'{"__metadata__":{"format":"hfrnn-checkpoint"}}', True)
def test_arbitrary_bytes_never_load(written: tuple[Path, bytes], content: bytes, with_size: bool) -> None:
    path = written[0].with_name("noise.safetensors")
    path.write_bytes(len(content).to_bytes(8, "little") + content if with_size else content)
    with pytest.raises(CheckpointError, match=r"noise\.safetensors"):
        load_checkpoint(path)


def test_other_files_and_formats_are_refused_with_the_reason(tmp_path: Path, monkeypatch) -> None:
    save_file({"x": np.zeros(3)}, tmp_path / "plain")
    save_file({"x": np.zeros(3)}, tmp_path / "torch", metadata={"format": "pt"})
    monkeypatch.setattr("hfrnn.runs.checkpoint.VERSION", 2)
    write_atomic(tmp_path / "newer", checkpoint_bytes(ARRAYS, META))
    monkeypatch.undo()
    (tmp_path / "folder").mkdir()
    for name, reason in {
        "none": "there is no checkpoint .*none", "folder": "it is a folder, not a regular file", "torch": "'pt'",
        "plain": "not a checkpoint of hfrnn", "newer": "format version 2, and this hfrnn reads version 1",
    }.items():  # fmt: skip
        with pytest.raises(CheckpointError, match=reason):
            load_checkpoint(tmp_path / name)


@pytest.mark.parametrize("shape", [["a", 3], {"a": 2}, "ab", [True], None])
def test_what_is_no_shape_is_refused(shape: Any, tmp_path: Path) -> None:
    path, header = tmp_path / "a.safetensors", json.dumps({"theta": {"shape": shape}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(CheckpointError, match="its header cannot be read"):
        array_sizes(path)


def test_an_error_of_the_reader_stays_within_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: bytes) -> None:
        raise ValueError("one\ntwo")

    (tmp_path / "a.safetensors").write_bytes(checkpoint_bytes(ARRAYS, META))
    monkeypatch.setattr("hfrnn.runs.checkpoint.parse_safetensors", fail)
    with pytest.raises(CheckpointError, match=r"cut short \(one\\ntwo\); use"):
        load_checkpoint(tmp_path / "a.safetensors")


def test_foreign_words_stay_within_one_sentence(tmp_path: Path) -> None:
    path, foreign = tmp_path / "a.safetensors", "one\ntwo"
    errors = []
    for metadata in ({"format": foreign}, {"format": "hfrnn-checkpoint"}):
        save_file({}, path, {"version": foreign, "meta": "{}", "sha256": "", **metadata})
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(path)
        errors.append(str(caught.value))
    with pytest.raises(CheckpointError) as caught:
        Vocabulary.from_json({"format": "hfrnn-vocabulary", "version": foreign})
    for error in (*errors, str(caught.value)):
        assert "one\\ntwo" in error
        assert "\n" not in error


@pytest.mark.parametrize("change", ["meta", "theta", "name", "shape"])
def test_the_checksum_covers_meta_names_shapes_and_values(tmp_path: Path, change: str) -> None:
    write_atomic(tmp_path / "c", checkpoint_bytes(ARRAYS, META))
    arrays = load_file(tmp_path / "c")
    content = (tmp_path / "c").read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    theta = arrays.pop("theta")
    arrays["phi" if change == "name" else "theta"] = theta.reshape(1, 7) if change == "shape" else theta
    if change == "meta":
        metadata["meta"] = metadata["meta"].replace("12", "13")
    elif change == "theta":
        theta[-1] += 1
    save_file(arrays, tmp_path / "c", metadata=metadata)
    with pytest.raises(CheckpointError, match="checksum"):
        load_checkpoint(tmp_path / "c")


@pytest.mark.parametrize(
    "arrays",
    [{"x": np.array([{}], dtype=object)}, {"x": np.array(["a"])}, {"x": [1.0]}, {"__metadata__": np.zeros(1)},
     {3: np.zeros(1)}, {"\ud800": np.zeros(1)}],
)  # fmt: skip
def test_arrays_that_a_checkpoint_cannot_hold_are_refused(arrays: dict) -> None:
    with pytest.raises(InputError, match="of a checkpoint"):
        checkpoint_bytes(arrays, {})
    with pytest.raises(InputError, match="JSON"):
        checkpoint_bytes({}, {"x": np.float32(1)})


def failing(error: BaseException):
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("where", "error"), [("fsync", FULL), ("replace", FULL), ("fsync", KeyboardInterrupt())])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch, where: str, error) -> None:
    (tmp_path / "last").write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os, where, failing(error))
        with pytest.raises(BaseException, match=r"last.*No space left on device" if error is FULL else None) as caught:
            write_atomic(tmp_path / "last", "new")
    assert caught.type is (StorageError if error is FULL else KeyboardInterrupt)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]


def test_a_place_that_cannot_be_written_to_is_reported_with_the_reason(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for path in ("none/f", "f\0g", "", "x" * 300, "folder"):
        with pytest.raises(StorageError, match="Is a directory" if path == "folder" else "cannot write"):
            write_atomic(path, "new")
    monkeypatch.setattr(builtins, "open", failing(OSError(errno.EROFS, os.strerror(errno.EROFS))))
    with pytest.raises(StorageError, match="Read-only file system"):
        write_atomic(tmp_path / "f", "new")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


def test_content_and_folder_reach_the_disk_around_the_rename(tmp_path: Path, monkeypatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        state = os.fstat(descriptor)
        done.append("folder" if stat.S_ISDIR(state.st_mode) else f"file of {state.st_size}")
        fsync(descriptor)

    def noted_replace(source: Path, target: Path) -> None:
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_atomic(tmp_path / "f", "é\r\n\n")
    assert done == ["file of 5", "rename", "folder"]
    assert (tmp_path / "f").read_bytes() == "é\r\n\n".encode()
    (tmp_path / "g").write_text("")
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "g").stat().st_mode


def test_lines_are_added_and_reach_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_size))
    append_line(tmp_path / "f", "é")
    append_line(tmp_path / "f", "b")
    assert (tmp_path / "f").read_bytes() == "é\nb\n".encode()
    assert flushed == [3, 5]


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()])
def test_a_line_that_cannot_be_written_leaves_none(tmp_path: Path, monkeypatch, error: BaseException) -> None:
    append_line(tmp_path / "f", "a")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(error))
        with pytest.raises((StorageError, KeyboardInterrupt)):
            append_line(tmp_path / "f", "b")
    assert (tmp_path / "f").read_bytes() == b"a\n"
