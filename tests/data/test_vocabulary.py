"""Vocabularies of characters, bytes and words: numbering, unseen symbols, rare words, and the file they live in."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.data.text import broken, spelled, words_of
from hfrnn.data.vocabulary import Vocabulary, _checksum
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


def test_symbols_are_numbered_in_sorted_order_all_newlines_count_and_characters_as_bytes_are_utf_8() -> None:
    vocabulary = Vocabulary.build("cab\n\U0001f600a", "char")
    assert vocabulary.encode("\nabc\U0001f600").tolist() == [0, 1, 2, 3, 4]
    assert Vocabulary.build("a\r\nb\rc\n", "char").size == 5
    vocabulary = Vocabulary.build("é€", "char")
    assert vocabulary.decode_bytes([0, 1]) == "é€".encode()


def test_unseen_symbols_are_named_in_part_with_their_counts_and_the_option_that_helps() -> None:
    with pytest.raises(InputError, match=r"5 symbols .* 'z' \(3 times\), '\\u2028' \(2 times\); .*unknown='skip'"):
        Vocabulary.build("abc", "char").encode("azzza\u2028\u2028")
    with pytest.raises(InputError, match=r"1 symbol .* 0xff \(1 time\)"):
        Vocabulary.build(b"abc", "byte").encode(b"a\xff")
    with pytest.raises(InputError, match="and 15 more") as error:
        Vocabulary.build("é", "char").encode("abcdefghijklmnopqrstuvwxy")
    assert str(error.value).count("(1 time)") == 10


def test_unseen_symbols_are_found_anywhere_and_become_the_given_one() -> None:
    vocabulary = Vocabulary.build("bdf", "char")
    assert vocabulary.encode("abcdefg\U0010ffff", unknown="skip").tolist() == [0, 1, 2]
    far = "".join(map(chr, range(ord("g"), 1000)))
    assert vocabulary.encode(far, unknown="skip").tolist() == []
    assert Vocabulary.build("b_", "char").encode("abc", unknown="_").tolist() == [0, 1, 0]
    assert Vocabulary.build(b"b\xff", "byte").encode(b"abc", unknown=b"\xff").tolist() == [1, 0, 1]
    vocabulary = Vocabulary.build("ab", "char")
    assert vocabulary.encode("").shape == (0,)
    assert vocabulary.decode([]) == ""


@pytest.mark.parametrize("unknown", ["z", "ab", "", "drop", b"a"])
def test_a_replacement_that_is_no_known_symbol_is_refused_even_when_not_needed(unknown: str | bytes) -> None:
    with pytest.raises(InputError, match="skip"):
        Vocabulary.build("ab", "char").encode("a", unknown=unknown)


@pytest.mark.parametrize(("text", "level", "limits", "said"), [
    ("ab", "byte", {}, "bytes"), (b"ab", "char", {}, "str"), (b"a", "word", {}, "str"), ("a", "glyph", {}, "glyph"),
    ("", "char", {}, "empty"), (b"", "byte", {}, "empty"), ("", "word", {}, "empty"), (" \t", "word", {}, "empty"),
    ("ab", "char", {"min_count": 2}, "for words"), (b"ab", "byte", {"max_size": 5}, "for words"),
])  # fmt: skip
def test_build_refuses_wrong_levels_types_limits_and_empty_texts(text, level, limits, said) -> None:
    with pytest.raises(InputError, match=said):
        Vocabulary.build(text, level, **limits)


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


TEXT = "the cat saw the dog\nthe dog sat\n\nthe end\n"  # 10 words, 4 newlines


def symbols(text: str, **limits: int) -> list[str]:
    """The words of a vocabulary in the order of their numbers."""
    return Vocabulary.build(text, "word", **limits).to_json()["symbols"]


def test_every_newline_is_one_eos_and_nothing_else_ends_a_line() -> None:
    assert words_of("a b\n\n c\tb \n") == ["a", "b", "<eos>", "<eos>", "c", "b", "<eos>"]
    assert words_of("\n") == ["<eos>"]
    assert words_of("a\r\nb") == ["a", "<eos>", "b"]
    assert words_of("a\x0cb\u2028c\u00a0d\re") == ["a", "b", "c", "d", "e"]


def test_words_are_numbered_by_falling_frequency_and_equals_by_code_points() -> None:
    assert symbols("b c a\nb é Z\nb c\n") == ["<eos>", "b", "c", "Z", "a", "é"]
    assert symbols("a b c\nc b\n") == symbols("c c b\nb a\n")  # the order of the text does not matter


@given(st.lists(st.text(st.sampled_from("ab\n\u00e9 "), min_size=1), min_size=1))
def test_words_come_back_from_encode_and_decode(parts: list[str]) -> None:
    text = " ".join(["a\n", *parts])
    vocabulary = Vocabulary.build(text, "word")
    ids = vocabulary.encode(text)
    assert ids.dtype == np.int32
    assert words_of(vocabulary.decode(ids)) == words_of(text)
    assert vocabulary.encode(vocabulary.decode(ids)).tolist() == ids.tolist()
    counts = np.bincount(ids)
    assert (np.diff(counts) <= 0).all()
    assert len(counts) == vocabulary.size


def test_decode_puts_one_space_between_words_and_none_around_newlines() -> None:
    vocabulary = Vocabulary.build(TEXT, "word")
    assert vocabulary.decode(vocabulary.encode("  the   cat \n\n  sat\n")) == "the cat\n\nsat\n"
    assert vocabulary.decode_bytes(vocabulary.encode("the cat\n")) == b"the cat\n"
    assert spelled([]) == vocabulary.decode([]) == ""


def test_words_below_the_least_count_become_unk_and_an_unk_of_the_text_is_that_very_symbol() -> None:
    assert symbols(TEXT, min_count=2) == ["<eos>", "<unk>", "the", "dog"]
    vocabulary = Vocabulary.build(TEXT, "word", min_count=2)
    assert vocabulary.decode(vocabulary.encode(TEXT)) == "the <unk> <unk> the dog\nthe dog <unk>\n\nthe <unk>\n"
    assert symbols("a a a b b c d e f\n", min_count=2) == ["<unk>", "a", "b", "<eos>"]
    text = "the <unk> sat\n<unk> the the\nrare\n"
    assert symbols(text) == ["<eos>", "the", "<unk>", "rare", "sat"]
    assert symbols(text, min_count=2) == ["<unk>", "<eos>", "the"]
    assert symbols(text, max_size=5) == symbols(text)
    assert symbols(text, max_size=4) == ["<eos>", "<unk>", "the", "rare"]


def test_the_largest_size_counts_eos_and_unk_and_keeps_the_most_frequent() -> None:
    text = "a a a a b b b c c d\n"
    assert symbols(text, max_size=5) == ["a", "b", "c", "<eos>", "d"]  # all fit: nothing is unknown
    assert symbols(text, max_size=4) == ["a", "<unk>", "b", "<eos>"]
    assert symbols(text, max_size=3) == ["<unk>", "a", "<eos>"]
    assert symbols(text, max_size=2) == ["<unk>", "<eos>"]
    assert symbols(text, max_size=4, min_count=3) == ["a", "<unk>", "b", "<eos>"]
    assert symbols(text.strip(), max_size=4) == ["a", "b", "c", "d"]
    assert symbols(text.strip(), max_size=3) == ["a", "<unk>", "b"]


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60), st.integers(2, 10), st.integers(1, 4))
def test_no_vocabulary_is_larger_than_asked_or_leaves_room_that_a_word_could_take(words, most, least):
    text = " ".join(words) + "\n"
    found = symbols(text, max_size=most, min_count=least)
    frequent = [word for word in set(words) if words.count(word) >= least]
    assert len(found) <= most
    kept = [word for word in found if word not in ("<eos>", "<unk>")]
    assert set(kept) <= set(frequent)
    assert len(kept) == len(frequent) or len(found) == most
    assert ("<unk>" in found) == (len(kept) < len(set(words)))


def test_words_never_seen_become_unk_where_there_is_one_or_are_dealt_with_as_asked() -> None:
    vocabulary = Vocabulary.build(TEXT, "word", min_count=2)
    for unknown in ("error", "skip", "the"):
        assert vocabulary.decode(vocabulary.encode("the bird\n", unknown)) == "the <unk>\n"
    assert vocabulary.count("the bird\n") == (3, 1)
    vocabulary = Vocabulary.build(TEXT, "word")
    assert vocabulary.stand_in is None
    with pytest.raises(InputError, match=r"3 symbols .* 'bird' \(2 times\), 'fox' \(1 time\); .*unknown='skip'"):
        vocabulary.encode("bird the bird fox\n")
    assert vocabulary.decode(vocabulary.encode("the bird sat\n", "skip")) == "the sat\n"
    assert vocabulary.decode(vocabulary.encode("the bird sat\n", "dog")) == "the dog sat\n"
    assert vocabulary.decode(vocabulary.encode("the bird sat", "\n")) == "the\nsat"
    assert vocabulary.count("the bird sat\n") == (4, 1)


def test_what_follows_the_first_word_has_single_spaces_and_lines_are_broken_every_so_many_words() -> None:
    vocabulary = Vocabulary.build(TEXT, "word")
    assert vocabulary.after_first("  the  cät \n sat\n") == "cät\nsat\n".encode()
    assert vocabulary.after_first("\nthe") == b"the"
    assert broken("a b\nc d e", 2) == "a b\nc d\ne\n"
    assert broken("a b c d", 2) == "a b\nc d\n"
    assert broken(" \n", 2) == ""


@pytest.mark.parametrize("words", [["a", "a"], ["a", ""], ["a b"], ["a", 3], [], None, "\n", [["a"]]], ids=repr)
def test_words_that_are_no_vocabulary_are_refused_even_with_a_right_checksum(words: object) -> None:
    content = {**Vocabulary.build("a b\n", "word").to_json(), "symbols": words}
    del content["sha256"]
    with pytest.raises(CheckpointError, match="damaged"):
        Vocabulary.from_json(content | {"sha256": _checksum(content)})
