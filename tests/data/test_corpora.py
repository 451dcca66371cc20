"""Reading texts, cutting them, and the corpora known by name."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.data.corpora import CORPORA, load_corpus, read_text
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import InputError


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def corpus_folder(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Point HFRNN_DATA at the real corpora, or skip."""
    root = Path(os.environ.get("HFRNN_DATA") or Path(__file__).parents[3] / "shared" / "data").resolve()
    if not (root / folder).is_dir():
        pytest.skip(f"no folder {folder} under HFRNN_DATA or ../shared/data")
    monkeypatch.setenv("HFRNN_DATA", str(root))


def test_newlines_are_read_exactly_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "t", "a\r\nb\rc\né".encode())
    assert read_text(path, "char") == "a\r\nb\rc\né"
    assert read_text(path, "byte") == "a\r\nb\rc\né".encode()


def test_a_missing_file_a_folder_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        read_text(tmp_path / "none", "char")
    with pytest.raises(InputError, match="is a folder"):
        read_text(tmp_path, "char")
    with pytest.raises(InputError, match="is empty"):
        read_text(write(tmp_path / "t", b""), "byte")
    with pytest.raises(InputError, match="cannot be read"):
        read_text("a\0b", "char")


def test_undecodable_bytes_are_refused_with_their_offset_and_the_option_that_helps(tmp_path: Path) -> None:
    path = write(tmp_path / "t", b"good\xe9 bad")
    with pytest.raises(InputError, match=r"byte 0xe9 at offset 4 .*--level byte"):
        read_text(path, "char")
    assert read_text(path, "byte") == b"good\xe9 bad"


@pytest.mark.parametrize(
    ("error", "said"),
    [(PermissionError(errno.EACCES, "no"), "permission"), (OSError(errno.EIO, "bad disk"), "bad disk")],
)
def test_an_unreadable_file_is_refused_with_the_reason(monkeypatch, tmp_path: Path, error: OSError, said: str) -> None:
    def refuse(_: Path) -> bytes:
        raise error

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=said):
        read_text(tmp_path / "t", "char")


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="glyph"):
        load_corpus(write(tmp_path / "t", b"abc"), level="glyph")


def test_the_last_tenth_of_a_file_validates_by_default(tmp_path: Path) -> None:
    corpus = load_corpus(write(tmp_path / "t.txt", b"0123456789"))
    assert (corpus.train, corpus.valid, corpus.test) == ("012345678", "9", "")
    assert (corpus.name, corpus.level, corpus.source) == ("t.txt", "char", str(tmp_path / "t.txt"))


def test_fractions_cut_in_the_order_train_valid_test(tmp_path: Path) -> None:
    corpus = load_corpus(write(tmp_path / "t", b"0123456789"), level="byte", fractions=(0.5, 0.3, 0.2))
    assert (corpus.train, corpus.valid, corpus.test) == (b"01234", b"567", b"89")


@given(st.integers(1, 300), st.integers(1, 100), st.integers(0, 100), st.integers(0, 100))
def test_the_parts_put_together_are_the_text_and_have_their_shares(
    tmp_path_factory, n: int, a: int, b: int, c: int
) -> None:
    text = "".join(chr(300 + i) for i in range(n))
    path = write(tmp_path_factory.mktemp("c") / "t", text.encode())
    total = a + b + c
    if n * a / total < 0.51:
        return
    corpus = load_corpus(path, fractions=(a / total, b / total, c / total))
    assert corpus.train + corpus.valid + corpus.test == text
    for part, share in ((corpus.train, a), (corpus.valid, b), (corpus.test, c)):
        assert abs(len(part) - n * share / total) <= 1
        assert share or not part


def test_the_checksum_is_that_of_the_file_however_it_is_cut(tmp_path: Path) -> None:
    content = "añb\r\nc".encode() * 9
    path = write(tmp_path / "t", content)
    for fractions in (None, (0.4, 0.3, 0.3)):
        for level in ("char", "byte"):
            assert load_corpus(path, level=level, fractions=fractions).sha256 == hashlib.sha256(content).hexdigest()


def test_files_of_their_own_win_and_leave_their_share_to_train(tmp_path: Path) -> None:
    text, valid, test = (
        write(tmp_path / name, content) for name, content in (("a", b"0123456789"), ("b", b"v"), ("c", b"w"))
    )
    both = load_corpus(text, valid_path=valid, test_path=test)
    assert (both.train, both.valid, both.test) == ("0123456789", "v", "w")
    assert both.sha256 == hashlib.sha256(b"0123456789vw").hexdigest()
    one = load_corpus(text, valid_path=valid, fractions=(0.6, 0.2, 0.2))
    assert (one.train, one.valid, one.test) == ("01234567", "v", "89")
    other = load_corpus(text, test_path=test)
    assert (other.train, other.valid, other.test) == ("012345678", "9", "w")


@pytest.mark.parametrize(
    ("fractions", "said"),
    [
        ((0.9, 0.2, 0.0), r"sum to 1, but \(0.9, 0.2, 0\) sum to 1.1"),
        ((1.1, -0.1, 0.0), r"in \[0, 1\], not \(1.1, -0.1, 0\)"),
        ((float("nan"), 0.5, 0.5), "nan"),
        ((0.5, 0.5), "three numbers"),
        ((0.0, 1.0, 0.0), "none to train on"),
        ((0.01, 0.99, 0.0), "none to train on"),
    ],
)
def test_fractions_that_do_not_fit_are_refused_with_the_numbers(tmp_path: Path, fractions: tuple, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_corpus(write(tmp_path / "t", b"0123456789"), fractions=fractions)


def test_a_file_and_a_name_or_neither_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="either"):
        load_corpus(write(tmp_path / "t", b"abc"), name="text8")
    with pytest.raises(InputError, match="python-manual"):
        load_corpus()


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'enwik9'.*python-manual, tinyshakespeare, ptb-char, text8"):
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


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("tinyshakespeare", "tinyshakespeare/tinyshakespeare.txt"),
        ("ptb-char", "ptb/ptb.valid.txt"),
        ("text8", "text8/text8-prefix.txt"),
    ],
)
def test_a_known_corpus_that_is_not_there_says_where_to_put_it(
    monkeypatch, tmp_path: Path, name: str, file: str
) -> None:
    monkeypatch.delenv("HFRNN_DATA", raising=False)
    with pytest.raises(InputError, match=f"HFRNN_DATA.*{file}"):
        load_corpus(name=name)
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    with pytest.raises(InputError, match=f"{tmp_path / file}"):
        load_corpus(name=name)


def test_only_the_missing_files_of_a_corpus_are_asked_for(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    write(tmp_path / "ptb/ptb.train.txt", b"a")
    with pytest.raises(InputError, match=r"ptb\.valid\.txt.*ptb\.test\.txt") as error:
        load_corpus(name="ptb-char")
    assert "ptb.train.txt" not in str(error.value)


@pytest.mark.parametrize("level", ["char", "byte"])
def test_ptb_is_respelled_with_underscores_and_one_symbol_a_line(monkeypatch, tmp_path: Path, level: str) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    write(tmp_path / "ptb/ptb.train.txt", b" the <unk> cat \n sat \n")
    write(tmp_path / "ptb/ptb.valid.txt", b" a b \n")
    write(tmp_path / "ptb/ptb.test.txt", b" N \n\n c")
    corpus = load_corpus(name="ptb-char", level=level)
    expected = ("the_<unk>_cat\nsat\n", "a_b\n", "N\n\nc\n")
    parts = (corpus.train, corpus.valid, corpus.test)
    assert parts == (expected if level == "char" else tuple(part.encode() for part in expected))
    with pytest.raises(InputError, match="fractions"):
        load_corpus(name="ptb-char", level=level, fractions=(0.8, 0.1, 0.1))


def test_the_whole_of_text8_goes_before_its_beginning_and_its_last_hundredth_validates(
    monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    write(tmp_path / "text8/text8-prefix.txt", b"ab" * 100)
    corpus = load_corpus(name="text8")
    assert (len(corpus.train), corpus.valid, corpus.test) == (198, "ab", "")
    write(tmp_path / "text8/text8", b"cd" * 100)
    assert load_corpus(name="text8").valid == "cd"
    assert len(load_corpus(name="text8", fractions=(0.5, 0.5, 0.0)).valid) == 100


@pytest.mark.corpus
def test_ptb_char_has_the_symbols_that_its_papers_count(monkeypatch) -> None:
    corpus_folder(monkeypatch, "ptb")
    corpus = load_corpus(name="ptb-char")
    assert [len(part) for part in (corpus.train, corpus.valid, corpus.test)] == [5_017_482, 393_042, 442_423]
    vocabulary = Vocabulary.build(corpus.train, "char")
    assert vocabulary.size == 50
    assert len(vocabulary.encode(corpus.test)) == 442_423


@pytest.mark.corpus
def test_tinyshakespeare_and_text8_have_their_sizes_and_checksums(monkeypatch) -> None:
    for name, characters, symbols, checksum in (
        ("tinyshakespeare", 1_115_394, 65, "86c4e6aa9db7"),
        ("text8", 12_549_840, 27, "1b40ab68e13d"),
    ):
        corpus_folder(monkeypatch, name)
        corpus = load_corpus(name=name)
        if name == "text8" and not corpus.source.endswith("-prefix.txt"):
            characters, checksum = 100_000_000, corpus.sha256[:12]
        assert len(corpus.train) + len(corpus.valid) == characters
        assert Vocabulary.build(corpus.train, "char").size == symbols
        assert corpus.sha256.startswith(checksum)


def test_every_known_corpus_is_tested_here() -> None:
    assert set(CORPORA) == {"python-manual", "tinyshakespeare", "ptb-char", "text8"}
