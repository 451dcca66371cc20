"""Vocabularies: numbering, unseen symbols, and the file they live in."""

from __future__ import annotations

import json

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


def test_all_newlines_are_symbols_of_their_own() -> None:
    assert Vocabulary.build("a\r\nb\rc\n", "char").size == 5


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
    assert Vocabulary.build(b"b\xff", "byte").encode(b"abc", unknown=b"\xff").tolist() == [1, 0, 1]


@pytest.mark.parametrize("unknown", ["z", "ab", "", "drop", b"a"])
def test_a_replacement_that_is_no_known_symbol_is_refused_even_when_not_needed(unknown: str | bytes) -> None:
    with pytest.raises(InputError, match="skip"):
        Vocabulary.build("ab", "char").encode("a", unknown=unknown)


def test_an_empty_text_encodes_to_nothing_and_back() -> None:
    vocabulary = Vocabulary.build("ab", "char")
    assert vocabulary.encode("").shape == (0,)
    assert vocabulary.decode([]) == ""


@pytest.mark.parametrize(("text", "level", "said"), [
    ("ab", "byte", "bytes"), (b"ab", "char", "str"), ("", "char", "empty"), (b"", "byte", "empty"),
    ("a", "glyph", "glyph"),
])  # fmt: skip
def test_build_refuses_wrong_levels_types_and_empty_texts(text: str | bytes, level: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Vocabulary.build(text, level)


@pytest.mark.parametrize(("text", "level", "symbols"), [
    ("é\n\ud800\U0001f600", "char", ["\n", "é", "\ud800", "\U0001f600"]), (b"\xff\x00a", "byte", [0, 97, 255]),
    ("das Kätzchen\nsaß 他\n", "word", ["<eos>", "Kätzchen", "das", "saß", "他"]),
])  # fmt: skip
def test_a_vocabulary_comes_back_from_its_file(tmp_path, text: str | bytes, level: str, symbols: list[object]) -> None:
    vocabulary, path = Vocabulary.build(text, level), tmp_path / "vocabulary.json"
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    assert [file.name for file in tmp_path.iterdir()] == ["vocabulary.json"]
    content = json.loads(path.read_text())
    assert (content["level"], content["size"], content["symbols"]) == (level, len(symbols), symbols)


CHANGES = [
    {"level": "byte"}, {"size": 3}, {"symbols": ["a", "c"]}, {"symbols": ["b", "a"]}, {"symbols": None},
    {"symbols": ["ab"]}, {"format": "other"}, {"version": 2}, {"sha256": "0"},
]  # fmt: skip


@pytest.mark.parametrize("change", [*CHANGES, "format", "version", "level", "size", "symbols", "sha256"], ids=str)
def test_json_that_was_changed_or_lacks_a_part_is_refused(change: dict[str, object] | str) -> None:
    content = Vocabulary.build("ab", "char").to_json()
    if isinstance(change, str):
        del content[change]
    else:
        content |= change
    with pytest.raises(CheckpointError):
        Vocabulary.from_json(content)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"[]", b"[" * 100_000, b"3"])
def test_what_is_no_vocabulary_is_refused(tmp_path, content: bytes | None) -> None:
    path = tmp_path / "vocabulary.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"vocabulary\.json"):
        Vocabulary.load(path)
