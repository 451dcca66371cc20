"""Vocabularies: numbering, unseen symbols, and the file they live in."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, InputError

any_text = st.text(st.characters(exclude_categories=()), min_size=1)  # lone surrogates too


@given(any_text)
def test_characters_come_back_from_encode_and_decode(text: str) -> None:
    vocabulary = Vocabulary.build(text, "char")
    ids = vocabulary.encode(text)
    assert ids.dtype == np.int32
    assert ids.shape == (len(text),)
    assert vocabulary.decode(ids) == text
    assert vocabulary.size == len(set(text)) == ids.max() + 1


@given(st.binary(min_size=1))
def test_bytes_come_back_from_encode_and_decode_bytes(data: bytes) -> None:
    vocabulary = Vocabulary.build(data, "byte")
    ids = vocabulary.encode(data)
    assert ids.dtype == np.int32
    assert vocabulary.decode_bytes(ids) == data
    assert vocabulary.decode(ids) == data.decode("utf-8", errors="replace")
    assert vocabulary.size == len(set(data))


def test_symbols_are_numbered_in_sorted_order_whatever_their_order_in_the_text() -> None:
    vocabulary = Vocabulary.build("cab\n\U0001f600a", "char")
    assert vocabulary.encode("\nabc\U0001f600").tolist() == [0, 1, 2, 3, 4]
    assert Vocabulary.build(b"\xff\x00a", "byte").to_json()["symbols"] == [0, 97, 255]


def test_all_newlines_are_symbols_of_their_own() -> None:
    text = "a\r\nb\rc\n"
    vocabulary = Vocabulary.build(text, "char")
    assert vocabulary.size == 5
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_characters_as_bytes_are_utf_8() -> None:
    vocabulary = Vocabulary.build("é€", "char")
    assert vocabulary.decode_bytes([0, 1]) == "é€".encode()


def test_unseen_symbols_are_named_with_their_counts_and_the_option_that_helps() -> None:
    with pytest.raises(InputError, match=r"5 symbols .* 'z' \(3 times\), '\\u2028' \(2 times\); .*unknown='skip'"):
        Vocabulary.build("abc", "char").encode("azzza\u2028\u2028")
    with pytest.raises(InputError, match=r"1 symbol .* 0xff \(1 time\)"):
        Vocabulary.build(b"abc", "byte").encode(b"a\xff")


def test_many_unseen_symbols_are_named_in_part() -> None:
    with pytest.raises(InputError, match="and 15 more") as error:
        Vocabulary.build("é", "char").encode("abcdefghijklmnopqrstuvwxy")
    assert str(error.value).count("(1 time)") == 10


def test_unseen_symbols_between_below_and_above_the_known_ones_are_found() -> None:
    vocabulary = Vocabulary.build("bdf", "char")
    assert vocabulary.encode("abcdefg\U0010ffff", unknown="skip").tolist() == [0, 1, 2]
    far = "".join(map(chr, range(ord("g"), 1000)))
    assert vocabulary.encode(far, unknown="skip").tolist() == []


def test_unseen_symbols_become_the_given_one() -> None:
    assert Vocabulary.build("b_", "char").encode("abc", unknown="_").tolist() == [0, 1, 0]
    assert Vocabulary.build(b"b_", "byte").encode(b"abc", unknown="_").tolist() == [0, 1, 0]
    assert Vocabulary.build(b"b\xff", "byte").encode(b"abc", unknown=b"\xff").tolist() == [1, 0, 1]


@pytest.mark.parametrize("unknown", ["z", "ab", "", "drop", b"a"])
def test_a_replacement_that_is_no_known_symbol_is_refused_even_when_not_needed(unknown: str | bytes) -> None:
    with pytest.raises(InputError, match="skip"):
        Vocabulary.build("ab", "char").encode("a", unknown=unknown)


def test_an_empty_text_encodes_to_nothing_and_back() -> None:
    vocabulary = Vocabulary.build("ab", "char")
    assert vocabulary.encode("").shape == (0,)
    assert vocabulary.decode([]) == ""


@pytest.mark.parametrize("ids", [[-1], [2], [0.0], [[0]]])
def test_decode_refuses_what_is_no_symbol_number(ids: list[object]) -> None:
    with pytest.raises(InputError, match="symbol numbers"):
        Vocabulary.build("ab", "char").decode(ids)


@pytest.mark.parametrize(
    ("text", "level", "said"),
    [
        ("ab", "byte", "bytes"),
        (b"ab", "char", "str"),
        ("", "char", "empty"),
        (b"", "byte", "empty"),
        ("a", "glyph", "glyph"),
    ],
)
def test_build_refuses_wrong_levels_types_and_empty_texts(text: str | bytes, level: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Vocabulary.build(text, level)


@given(any_text)
def test_a_vocabulary_comes_back_from_its_json(text: str) -> None:
    vocabulary = Vocabulary.build(text, "char")
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@pytest.mark.parametrize(
    "vocabulary", [Vocabulary.build("é\n\ud800\U0001f600", "char"), Vocabulary.build(b"\x00\xff", "byte")]
)
def test_a_vocabulary_comes_back_from_its_file(tmp_path, vocabulary: Vocabulary) -> None:
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary
    assert [file.name for file in tmp_path.iterdir()] == ["vocabulary.json"]


def test_the_json_is_readable() -> None:
    content = Vocabulary.build("ba", "char").to_json()
    assert content["level"] == "char"
    assert content["size"] == 2
    assert content["symbols"] == ["a", "b"]
    assert Vocabulary.build(b"ba", "byte").to_json()["symbols"] == [97, 98]


@pytest.mark.parametrize(
    "change",
    [
        {"level": "byte"},
        {"size": 3},
        {"symbols": ["a", "c"]},
        {"symbols": ["b", "a"]},
        {"symbols": None},
        {"symbols": ["ab"]},
        {"format": "other"},
        {"version": 2},
        {"sha256": "0"},
    ],
)
def test_changed_json_is_refused(change: dict[str, object]) -> None:
    content = Vocabulary.build("ab", "char").to_json()
    with pytest.raises(CheckpointError):
        Vocabulary.from_json(content | change)


@pytest.mark.parametrize("key", ["format", "version", "level", "size", "symbols", "sha256"])
def test_json_without_one_of_its_parts_is_refused(key: str) -> None:
    content = Vocabulary.build("ab", "char").to_json()
    del content[key]
    with pytest.raises(CheckpointError):
        Vocabulary.from_json(content)


@given(st.data())
def test_a_damaged_file_is_refused_by_name(tmp_path_factory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("v") / "vocabulary.json"
    Vocabulary.build("ab\n", "char").save(path)
    content = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(content) - 3))
    if data.draw(st.booleans()):
        content[where:] = b""
    else:
        content[where] = ord("~")
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"vocabulary\.json"):
        Vocabulary.load(path)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"[]", b"[" * 100_000, b"3"])
def test_what_is_no_vocabulary_is_refused(tmp_path, content: bytes | None) -> None:
    path = tmp_path / "vocabulary.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"vocabulary\.json"):
        Vocabulary.load(path)


def test_ten_megabytes_encode_within_seconds() -> None:
    text = "the quick brown fox.\n" * 500_000
    start = time.perf_counter()
    vocabulary = Vocabulary.build(text, "char")
    ids = vocabulary.encode(text)
    assert time.perf_counter() - start < 5  # a loop over symbols is far from it
    assert len(ids) == len(text)
