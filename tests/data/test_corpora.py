"""Reading texts, cutting them, and the corpora known by name."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.local_site import put

from hfrnn.data.corpora import CORPORA, Corpus, load_corpus, read_text
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import InputError


def corpus_folder(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Point HFRNN_DATA at the real corpora, or skip."""
    root = Path(os.environ.get("HFRNN_DATA") or Path(__file__).parents[3] / "shared" / "data").resolve()
    if not (root / folder).is_dir():
        pytest.skip(f"no folder {folder} under HFRNN_DATA or ../shared/data")
    monkeypatch.setenv("HFRNN_DATA", str(root))


def parts(corpus: Corpus) -> tuple[object, ...]:
    return corpus.train, corpus.valid, corpus.test


def test_a_text_is_read_exactly_as_it_is_or_refused_with_the_offset_and_the_option_that_helps(tmp_path: Path) -> None:
    path = put(tmp_path / "t", "a\r\nb\rc\né".encode())
    assert read_text(path, "char") == "a\r\nb\rc\né"
    assert read_text(path, "byte") == "a\r\nb\rc\né".encode()
    put(path, b"good\xe9 bad")
    with pytest.raises(InputError, match=r"byte 0xe9 at offset 4 .*level='byte'"):
        read_text(path, "char")
    assert read_text(path, "byte") == b"good\xe9 bad"
    for content in (b"a b\nc", b"a b\nc\n"):  # a last line of words gets its newline
        assert read_text(put(path, content), "word") == "a b\nc\n"


def test_what_is_no_readable_file_is_refused_with_the_reason(monkeypatch, tmp_path: Path) -> None:
    empty = put(tmp_path / "t", b"")
    for path, said in ((tmp_path / "no", "no file"), (tmp_path, "is a folder"), (empty, "is empty"), ("\0", "be read")):
        with pytest.raises(InputError, match=said):
            read_text(path, "char")
    errors = {"permission": PermissionError(errno.EACCES, "no"), "bad disk": OSError(errno.EIO, "bad disk")}
    for said, error in errors.items():
        monkeypatch.setattr("hfrnn.data.corpora.read_bytes", Mock(side_effect=error))
        with pytest.raises(InputError, match=said):
            read_text(tmp_path / "t", "char")


def test_a_file_is_cut_in_the_order_train_valid_test_and_its_last_tenth_validates_by_default(tmp_path: Path) -> None:
    path = put(tmp_path / "t.txt", b"0123456789")
    corpus = load_corpus(path)
    assert parts(corpus) == ("012345678", "9", "")
    assert (corpus.name, corpus.level, corpus.source) == ("t.txt", "char", str(path))
    assert parts(load_corpus(path, level="byte", fractions=(0.5, 0.3, 0.2))) == (b"01234", b"567", b"89")


@given(st.integers(1, 300), st.integers(1, 100), st.integers(0, 100), st.integers(0, 100))
def test_the_parts_put_together_are_the_text_and_have_their_shares(tmp_path_factory, n, a, b, c):
    total = a + b + c
    assume(n * a / total >= 0.51)
    text = "".join(chr(300 + i) for i in range(n))
    path = put(tmp_path_factory.mktemp("c") / "t", text.encode())
    corpus = load_corpus(path, fractions=(a / total, b / total, c / total))
    assert corpus.train + corpus.valid + corpus.test == text
    assert corpus.sha256 == hashlib.sha256(text.encode()).hexdigest()
    for part, share in zip(parts(corpus), (a, b, c), strict=True):
        assert abs(len(part) - n * share / total) <= 1
        assert share or not part


def test_files_of_their_own_win_and_leave_their_share_to_train(tmp_path: Path) -> None:
    text, valid, test = (put(tmp_path / content[:1], content.encode()) for content in ("0123456789", "v", "w"))
    both = load_corpus(text, valid_path=valid, test_path=test)
    assert parts(both) == ("0123456789", "v", "w")
    assert both.sha256 == hashlib.sha256(b"0123456789vw").hexdigest()
    assert parts(load_corpus(text, valid_path=valid, fractions=(0.6, 0.2, 0.2))) == ("01234567", "v", "89")
    assert parts(load_corpus(text, test_path=test)) == ("012345678", "9", "w")
    with pytest.raises(InputError, match="leave out the fractions"):
        load_corpus(text, valid_path=valid, test_path=test, fractions=(0.5, 0.25, 0.25))


@pytest.mark.parametrize(("fractions", "said"), [
    ((0.9, 0.2, 0.0), r"fractions is 0.9, 0.2, 0: give three numbers in \[0, 1\] that sum to 1"),
    ((1.1, -0.1, 0.0), "fractions is 1.1, -0.1, 0: give three"), ((0.01, 0.99, 0.0), "none to train on"),
])  # fmt: skip
def test_fractions_that_do_not_fit_are_refused_with_the_numbers(tmp_path: Path, fractions: tuple, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_corpus(put(tmp_path / "t", b"0123456789"), fractions=fractions)


def test_a_file_and_a_name_neither_or_an_unknown_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="either"):
        load_corpus(put(tmp_path / "t", b"abc"), name="text8")
    with pytest.raises(InputError, match="python-manual"):
        load_corpus()
    with pytest.raises(InputError, match=r"'enwik9'.*python-manual, tinyshakespeare, ptb, ptb-char, text8, w"):
        load_corpus(name="enwik9")


@pytest.mark.parametrize("level", ["char", "byte"])
def test_the_python_manual_is_the_sorted_topics_joined_by_newlines(level: str) -> None:
    from pydoc_data.topics import topics

    corpus = load_corpus(name="python-manual", level=level)
    text = "\n".join(topics[key] for key in sorted(topics))
    whole = text if level == "char" else text.encode()
    assert corpus.train + corpus.valid == whole
    assert corpus.test == whole[:0]
    assert len(corpus.valid) == pytest.approx(len(whole) / 10, abs=1)
    assert "Python" in corpus.source


@pytest.mark.parametrize("name", [name for name, known in CORPORA.items() if known.files])
def test_a_known_corpus_that_is_not_there_says_where_to_put_it(monkeypatch, tmp_path: Path, name: str) -> None:
    file = CORPORA[name].files[0][-1]
    monkeypatch.delenv("HFRNN_DATA", raising=False)
    with pytest.raises(InputError, match=f"HFRNN_DATA.*{file}"):
        load_corpus(name=name)
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    with pytest.raises(InputError, match=f"{tmp_path / file}") as error:
        load_corpus(name=name)
    assert f"hfrnn data fetch {name}," in str(error.value)
    if len(CORPORA[name].files[0]) > 1:  # only the missing files are asked for
        put(tmp_path / CORPORA[name].files[0][0], b"a")
        with pytest.raises(InputError, match=f"{tmp_path / file}") as error:
            load_corpus(name=name)
        assert CORPORA[name].files[0][0] not in str(error.value)


PTB = {"train": b" the <unk> cat \n sat \n", "valid": b" a b \n", "test": b" N \n\n c\n"}


@pytest.fixture
def ptb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    for part, content in PTB.items():
        put(tmp_path / f"ptb/ptb.{part}.txt", content)


@pytest.mark.parametrize("name", ["ptb", "ptb-char"])
@pytest.mark.parametrize("level", ["char", "byte"])
def test_ptb_is_respelled_with_underscores_and_one_symbol_a_line(ptb: None, level: str, name: str) -> None:
    expected = ("the_<unk>_cat\nsat\n", "a_b\n", "N\n\nc\n")
    found = parts(load_corpus(name=name, level=level))
    assert found == (expected if level == "char" else tuple(part.encode() for part in expected))
    with pytest.raises(InputError, match="fractions"):
        load_corpus(name=name, level=level, fractions=(0.8, 0.1, 0.1))


def test_ptb_words_are_its_files_as_they_are(ptb: None) -> None:
    corpus = load_corpus(name="ptb", level="word")
    assert parts(corpus) == tuple(content.decode() for content in PTB.values())
    assert corpus.sha256 == hashlib.sha256(b"".join(PTB.values())).hexdigest()
    assert corpus.min_count == 1


@pytest.mark.parametrize("level", ["char", "word"])
def test_wikitext_2_is_its_three_files(monkeypatch, tmp_path: Path, level: str) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    for part in ("train", "valid", "test"):
        put(tmp_path / f"wikitext-2/wiki.{part}.tokens", f" \n = {part} = \n".encode())
    found = parts(load_corpus(name="wikitext-2", level=level))
    assert found == (" \n = train = \n", " \n = valid = \n", " \n = test = \n")


def test_words_are_cut_at_the_end_of_the_line_that_the_share_ends_in_or_between_words_of_one_line(tmp_path):
    path = put(tmp_path / "t", b"a b c d\n" * 10)  # 80 characters
    for share, lines in ((0.5, 5), (0.51, 6), (0.59, 6), (0.6, 6)):
        corpus = load_corpus(path, level="word", fractions=(share, 1 - share, 0.0))
        assert parts(corpus) == ("a b c d\n" * lines, "a b c d\n" * (10 - lines), "")
    corpus = load_corpus(path, level="word", fractions=(0.31, 0.31, 0.38))  # at 25 and 50 of 80 characters
    assert [part.count("\n") for part in parts(corpus)] == [4, 3, 3]
    corpus = load_corpus(put(tmp_path / "t", b"one two three four"), level="word", fractions=(0.5, 0.2, 0.3))
    assert (*parts(corpus), corpus.min_count) == ("one two three ", "", "four\n", 1)


@given(st.text(st.sampled_from("ab \n"), min_size=3, max_size=60), st.integers(1, 99))
def test_no_cut_parts_a_word_or_loses_one(tmp_path_factory, text: str, percent: int) -> None:
    assume(len(text) * percent >= 100)
    path = put(tmp_path_factory.mktemp("c") / "t", text.encode())
    corpus = load_corpus(path, level="word", fractions=(percent / 100, 1 - percent / 100, 0.0))
    assert corpus.train.split() + corpus.valid.split() == text.split()
    assert (corpus.train + corpus.valid).removesuffix("\n") == text.removesuffix("\n")
    assert len(corpus.train) >= round(len(text) * percent / 100)
    assert corpus.train[-1].isspace()


def test_text8_is_the_whole_if_there_and_in_words_has_lines_of_a_thousand(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    put(tmp_path / "text8/text8-prefix.txt", b" ab" * 150_000)
    corpus = load_corpus(name="text8", level="word")
    line, half = (" ".join(["ab"] * count) + "\n" for count in (1000, 500))
    assert parts(corpus) == (line * 148 + half, line + half, "")
    assert corpus.min_count == 11
    assert load_corpus(name="text8").min_count == 1
    put(tmp_path / "text8/text8-prefix.txt", b"ab" * 100)
    assert parts(load_corpus(name="text8")) == ("ab" * 99, "ab", "")
    put(tmp_path / "text8/text8", b"cd" * 100)
    assert load_corpus(name="text8").valid == "cd"
    assert len(load_corpus(name="text8", fractions=(0.5, 0.5, 0.0)).valid) == 100


def test_enwik8_is_bytes_of_which_one_hundredth_validates_and_four_test(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    put(tmp_path / "enwik8/enwik8", "é".encode() * 100)
    for level, sizes in (("byte", [190, 2, 8]), ("char", [95, 1, 4])):
        assert [len(part) for part in parts(load_corpus(name="enwik8", level=level))] == sizes
    with pytest.raises(InputError, match="enwik8 has no level word: use level char or byte"):
        load_corpus(name="enwik8", level="word")


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(("name", "level", "counts", "size"), [
    ("ptb", "word", [929_589, 73_760, 82_430], 10_000), ("ptb", "char", [5_017_482, 393_042, 442_423], 50),
    ("wikitext-2", "word", [2_088_628, 217_646, 245_569], 33_278),
])  # fmt: skip
def test_a_corpus_has_the_symbols_that_its_papers_count(monkeypatch, name: str, level: str, counts, size: int) -> None:
    corpus_folder(monkeypatch, CORPORA[name].files[0][0].partition("/")[0])
    corpus = load_corpus(name=name, level=level)
    vocabulary = Vocabulary.build(corpus.train, level)
    assert [len(vocabulary.encode(part)) for part in parts(corpus)] == counts
    assert vocabulary.size == size
    if (name, level) == ("ptb", "word"):
        assert vocabulary.decode([0, 1, 2]) == "the <unk>\n"
        hashes = [hashlib.sha256(part.encode()).hexdigest()[:12] for part in parts(corpus)]
        assert hashes == ["fcea919f6cf8", "c9fe6985fe0d", "dd65dff31e70"]
        assert Vocabulary.build(corpus.train, "word", max_size=10_000) == vocabulary


@pytest.mark.slow
@pytest.mark.corpus
def test_tinyshakespeare_and_text8_have_their_sizes_and_checksums(monkeypatch) -> None:
    sizes = (("tinyshakespeare", 1_115_394, 65, "86c4e6aa9db7"), ("text8", 12_549_840, 27, "1b40ab68e13d"))
    for name, characters, symbols, checksum in sizes:
        corpus_folder(monkeypatch, name)
        corpus = load_corpus(name=name)
        if name == "text8" and not corpus.source.endswith("-prefix.txt"):
            characters, checksum = 100_000_000, corpus.sha256[:12]
        assert len(corpus.train) + len(corpus.valid) == characters
        assert Vocabulary.build(corpus.train, "char").size == symbols
        assert corpus.sha256.startswith(checksum)
