"""Words as symbols: lines, rare words, numbers by frequency, and the file they live in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.data.text import broken, spelled, words_of
from hfrnn.data.vocabulary import Vocabulary, _checksum
from hfrnn.errors import CheckpointError, InputError

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


def test_words_below_the_least_count_become_unk() -> None:
    # cat, saw, sat and end: 4; ties by code point
    assert symbols(TEXT, min_count=2) == ["<eos>", "<unk>", "the", "dog"]
    vocabulary = Vocabulary.build(TEXT, "word", min_count=2)
    assert vocabulary.decode(vocabulary.encode(TEXT)) == "the <unk> <unk> the dog\nthe dog <unk>\n\nthe <unk>\n"
    assert symbols("a a a b b c d e f\n", min_count=2) == ["<unk>", "a", "b", "<eos>"]


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


def test_an_unk_of_the_text_is_that_very_symbol() -> None:
    text = "the <unk> sat\n<unk> the the\nrare\n"
    assert symbols(text) == ["<eos>", "the", "<unk>", "rare", "sat"]
    assert symbols(text, min_count=2) == ["<unk>", "<eos>", "the"]
    assert symbols(text, max_size=5) == symbols(text)
    assert symbols(text, max_size=4) == ["<eos>", "<unk>", "the", "rare"]


def test_words_never_seen_become_unk_where_there_is_one_whatever_is_asked() -> None:
    vocabulary = Vocabulary.build(TEXT, "word", min_count=2)
    for unknown in ("error", "skip", "the"):
        assert vocabulary.decode(vocabulary.encode("the bird\n", unknown)) == "the <unk>\n"
    assert vocabulary.count("the bird\n") == (3, 1)


def test_words_never_seen_are_dealt_with_as_asked_where_there_is_no_unk() -> None:
    vocabulary = Vocabulary.build(TEXT, "word")
    assert vocabulary.stand_in is None
    with pytest.raises(InputError, match=r"3 symbols .* 'bird' \(2 times\), 'fox' \(1 time\); .*unknown='skip'"):
        vocabulary.encode("bird the bird fox\n")
    assert vocabulary.decode(vocabulary.encode("the bird sat\n", "skip")) == "the sat\n"
    assert vocabulary.decode(vocabulary.encode("the bird sat\n", "dog")) == "the dog sat\n"
    assert vocabulary.decode(vocabulary.encode("the bird sat", "\n")) == "the\nsat"
    assert vocabulary.count("the bird sat\n") == (4, 1)


def test_what_follows_the_first_word_is_spelled_with_single_spaces() -> None:
    vocabulary = Vocabulary.build(TEXT, "word")
    assert vocabulary.after_first("  the  cät \n sat\n") == "cät\nsat\n".encode()
    assert vocabulary.after_first("\nthe") == b"the"


def test_lines_are_broken_every_so_many_words() -> None:
    assert broken("a b\nc d e", 2) == "a b\nc d\ne\n"
    assert broken("a b c d", 2) == "a b\nc d\n"
    assert broken(" \n", 2) == ""


@pytest.mark.parametrize("text", ["", " \t", b"a"])
def test_build_refuses_what_makes_no_vocabulary(text: str | bytes) -> None:
    with pytest.raises(InputError, match="str" if isinstance(text, bytes) else "empty"):
        Vocabulary.build(text, "word")


def test_limits_are_for_words() -> None:
    for level, text in (("char", "ab"), ("byte", b"ab")):
        for limits in ({"min_count": 2}, {"max_size": 5}):
            with pytest.raises(InputError, match="for words"):
                Vocabulary.build(text, level, **limits)


@pytest.mark.parametrize("words", [["a", "a"], ["a", ""], ["a b"], ["a", 3], [], None, "\n", [["a"]]], ids=repr)
def test_words_that_are_no_vocabulary_are_refused_even_with_a_right_checksum(words: object) -> None:
    content = {**Vocabulary.build("a b\n", "word").to_json(), "symbols": words}
    del content["sha256"]
    with pytest.raises(CheckpointError, match="damaged"):
        Vocabulary.from_json(content | {"sha256": _checksum(content)})
