"""A text that cannot be read, holds too little or has changed is refused; an unusual text is learned as it is."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from support.refusals import RESUME, STEPS, call, refused, replaced, sentence_of
from support.tiny_runs import FLAGS, TEXT, snapshot, text_file, tiny_train

BAD_TEXTS: dict[str, str] = {
    "nowhere.txt": "nowhere.txt; give the path of a text file", "folder": "folder is a folder",
    "empty.txt": "empty.txt is empty", "latin1.txt": "byte 0xe9 at offset 3", "loop": "loop' cannot be read",
    "x" * 300: "cannot be read",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_text_that_cannot_be_read_is_refused(name: str) -> None:
    train = ["train", "text.txt", *STEPS]
    for arguments in (["train", name, *STEPS], [*train, "--valid", name], [*train, "--test", name, "--dry-run"],
                      ["evaluate", "run", name]):  # fmt: skip
        assert BAD_TEXTS[name] in refused(*arguments), arguments


@pytest.mark.parametrize(("name", "words"), [
    ("one.txt", "leaves none to train on|1 symbol; sequences of 10 need"),
    ("short.txt", "9 symbols; sequences of 10 need at least 11"),
    ("same.txt", "'a'"),
    ("newlines.txt", "one symbol"),
])  # fmt: skip
def test_a_text_that_holds_too_little_is_refused(name: str, words: str) -> None:
    for more in (["--dry-run"], ["--optimizer", "sgd", "--streams", "2"]):
        assert re.search(words + "|at least|one symbol", refused("train", name, *STEPS, *more))


@pytest.mark.parametrize(("name", "symbol"), [("nul.txt", "\0")])
def test_a_text_is_learned_as_it_is(name: str, symbol: str) -> None:
    out = Path("trained")
    assert call("train", name, *FLAGS, "--updates", "1", "--out", str(out), "--sample-length", "0").exit_code == 0
    assert symbol in json.loads((out / "vocabulary.json").read_text())["symbols"]
    shutil.rmtree(out)


@pytest.mark.parametrize(("name", "words"), [
    ("one.txt", "1 known symbol: at least 2"),
    ("foreign.txt", "3 symbols .*: 'é' \\(2 times\\), 'ö' \\(1 time\\)"),
])  # fmt: skip
def test_a_text_that_cannot_be_scored_is_refused(name: str, words: str) -> None:
    assert re.search(words, refused("evaluate", "run", name))


def test_several_files_for_a_part_of_a_text_are_refused() -> None:
    message = refused("train", "text.txt", *STEPS, "--valid", "one.txt", "--valid", "short.txt")
    assert "--valid names 2 files, and a text has one for each part: give one text file" in message


def test_unknown_symbols_of_a_validation_file_are_refused_where_that_is_asked_for() -> None:
    assert "'é'" in refused("train", "text.txt", *STEPS, "--valid", "foreign.txt", "--unknown", "error")
    with replaced("valid.txt", "éöéöé".encode()):
        assert "0 symbols" in refused("train", "text.txt", *STEPS, "--valid", "valid.txt")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything may be read by root")
def test_a_file_without_permission_is_refused() -> None:
    for path, arguments in (("other.txt", ["train", "other.txt", *STEPS]), ("run/last.safetensors", RESUME)):
        mode = os.stat(path).st_mode
        os.chmod(path, 0)
        try:
            result = call(*arguments)
        finally:
            os.chmod(path, mode)
        assert result.exit_code == 2
        sentence_of(result.stderr)


def test_a_file_name_that_is_not_utf_8_is_refused_before_anything_is_written() -> None:
    path = "t\udce9xt.txt"
    shutil.copy("text.txt", path)
    try:
        assert "UTF-8" in refused("train", path, *FLAGS, "--out", "new")
        assert "UTF-8" in refused("train", "text.txt", *FLAGS, "--valid", path, "--out", "new")
        assert "UTF-8" in refused("train", "text.txt", *FLAGS, "--out", "n\udce9w")
    finally:
        os.unlink(path)


@pytest.mark.parametrize("change", ["missing", "other", "folder"])
def test_a_text_that_has_changed_is_refused(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_train(tmp_path)
    (tmp_path / "text.txt").unlink()
    if change == "other":
        text_file(tmp_path, TEXT.replace("fox", "dog"))
    elif change == "folder":
        (tmp_path / "text.txt").mkdir()
    for arguments in (["train", "--resume", str(tmp_path / "run"), *RESUME[3:]], ["evaluate", str(tmp_path / "run")]):
        before = snapshot(tmp_path)
        found = refused(*arguments)
        assert "text.txt" in found
        assert "has changed" in found or change != "other"
        assert snapshot(tmp_path) == before
