"""Texts to train on: a file, a corpus known by name, or the manual that is part of every Python."""

from __future__ import annotations

import codecs
import hashlib
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfrnn import checks
from hfrnn.checks import shown
from hfrnn.choices import PARTS
from hfrnn.data.downloads import data_folder, data_folders, fetch
from hfrnn.data.splits import DEFAULT_FRACTIONS, checked_fractions
from hfrnn.data.text import LEVELS, Text, broken, check_level
from hfrnn.errors import InputError, Message, reason_of
from hfrnn.files import TEXT_SHARE, memory_share, read_bytes


@dataclass(frozen=True)
class Corpus:
    """A text in three parts.

    Attributes
    ----------
    name : str
    level : {"char", "byte", "word"}
    train, valid, test : str for levels "char" and "word", bytes for level "byte"
        The parts; valid and test may be empty.
    source : str
        Where the text came from, for a person to read.
    sha256 : str
        The hash of train, valid and test joined (characters as UTF-8). For parts cut from one file this is the hash of
        the file.
    min_count : int
        The usual `min_count` of this corpus's vocabulary at level "word".

    Examples
    --------
    >>> from hfrnn.data.corpora import load_corpus
    >>> corpus = load_corpus(name="python-manual")
    >>> corpus.name, corpus.level
    ('python-manual', 'char')
    """

    name: str
    level: str
    train: Text
    valid: Text
    test: Text
    source: str
    sha256: str
    min_count: int = 1


def read_text(path: str | os.PathLike[str], level: str) -> Text:
    """Read a whole text file without changing its newlines, but without a byte order mark at its beginning.

    At level "word" a missing newline at the end of the file is added, so that every line ends with one. The file is
    UTF-8 for levels "char" and "word", and has at most a sixteenth of the machine's memory.
    """
    check_level(level)
    if not str(path):
        raise InputError("the name of the text is empty: give the path of a text file")
    try:
        data = read_bytes(path, memory_share(TEXT_SHARE))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}; give the path of a text file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; give the path of a text file") from error
    except PermissionError as error:
        raise InputError(f"{path} cannot be read (permission denied); allow reading it or give another file") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read ({reason_of(error)}); give the path of a text file") from error
    data = data.removeprefix(codecs.BOM_UTF8)  # no symbol of the text
    if not data:
        raise InputError(f"{path} is empty; give a file with text in it")
    if level == "byte":
        return data
    try:
        return _at_level(data.decode("utf-8"), level)
    except UnicodeDecodeError as error:
        raise InputError(Message(
            "{0} is not UTF-8 text: byte 0x{1:02x} at offset {2} cannot be decoded; use {level:byte} or convert the "
            "file", path, data[error.start], error.start,
        )) from error  # fmt: skip


def load_corpus(
    text: str | os.PathLike[str] | None = None,
    name: str | None = None,
    level: str = "char",
    valid_path: str | os.PathLike[str] | None = None,
    test_path: str | os.PathLike[str] | None = None,
    fractions: Sequence[float] | None = None,
) -> Corpus:
    """Load a text and its validation and test parts.

    A part for which a file is given is that file. The other parts are cut from the text in the order train, valid,
    test; the share of a part that has its own file stays with train. Shares count characters, also at level "word";
    there a cut moves forward to the end of the line, or within the last line to the end of the word.

    Parameters
    ----------
    text : path, optional
        A file to train on. Give either this or `name`.
    name : str, optional
        One of `CORPORA`. Its files are searched in the folder that the environment variable HFRNN_DATA names, then in
        the user's cache. If they are in neither, they are downloaded, unless the environment variable HFRNN_OFFLINE is
        set.
    level : {"char", "byte", "word"}
    valid_path, test_path : path, optional
        Files to use as the validation and the test part.
    fractions : three floats in [0, 1] with sum 1, the first above 0, optional
        Shares of train, valid and test. The default is (0.9, 0.1, 0): the last tenth is for validation; it is
        (0.99, 0.01, 0) for text8 and (0.95, 0.01, 0.04) for enwik8.

    Returns
    -------
    Corpus

    Raises
    ------
    InputError
        Both or neither of `text` and `name` are given, the name is unknown, a file is missing, or the fractions do not
        fit.
    HfrnnError
        The corpus cannot be downloaded.

    Examples
    --------
    >>> from pathlib import Path
    >>> from hfrnn.data.corpora import load_corpus
    >>> Path("book.txt").write_text("Once upon a time. " * 10)
    180
    >>> corpus = load_corpus("book.txt")
    >>> len(corpus.train), len(corpus.valid), len(corpus.test)
    (162, 18, 0)
    """
    check_level(level)
    text = checks.path("text", text, or_none=True)
    valid_path = checks.path("valid_path", valid_path, or_none=True)
    test_path = checks.path("test_path", test_path, or_none=True)
    if name is not None and text is not None:
        raise InputError(f"give either a text file or the name of a corpus, not both {str(text)!r} and {name!r}")
    if text is not None:
        path = text  # the type checker keeps this variable's type inside the lambda
        name, known = Path(text).name, NamedCorpus(lambda level, _: (str(path), (read_text(path, level),)))
    elif isinstance(name, str) and name in CORPORA:
        known = CORPORA[name]
    else:
        given = "nothing was given" if name is None else f"there is no corpus named {shown(name)}"
        raise InputError(f"{given}; give a text file or the name of a corpus: {', '.join(CORPORA)}")
    if level not in known.levels:
        raise InputError(f"the corpus {name} has no level {level}: use level {' or '.join(known.levels)}")
    source, texts = known.read(level, find_files(str(name), known.files) if known.files else [])
    files = [None if path is None else read_text(path, level) for path in (valid_path, test_path)]
    if fractions is not None and None not in files:
        raise InputError("the validation and the test part have files of their own: leave out the fractions")
    if len(texts) == 1:
        shares = known.fractions if fractions is None else checked_fractions(fractions)
        train, *parts = _cut(texts[0], level, shares, [file is not None for file in files])
        if level == "word" and known.line is not None:
            train, parts = broken(str(train), known.line), [broken(str(part), known.line) for part in parts]
    elif fractions is None:
        train, *parts = texts
    else:
        raise InputError(f"the corpus {name} has files of its own for its three parts; leave out the fractions")
    valid, test = (part if file is None else file for part, file in zip(parts, files, strict=True))
    digest = hashlib.sha256()
    for part in (train, valid, test):
        digest.update(part if isinstance(part, bytes) else part.encode("utf-8"))
    min_count = known.min_count if level == "word" else 1
    return Corpus(name, level, train, valid, test, source, digest.hexdigest(), min_count)


def _cut(text: Text, level: str, shares: tuple[float, float, float], given: Sequence[bool]) -> list[Text]:
    """Cut one text into train, valid and test; a part that has its own file leaves its share to train."""
    valid, test = (0.0 if elsewhere else share for share, elsewhere in zip(shares[1:], given, strict=True))
    first = round(len(text) * (1.0 - valid - test)) if valid + test else len(text)
    second = round(len(text) * (1.0 - test)) if test else len(text)
    if first < 1:
        size = f"{len(text)} {'bytes' if level == 'byte' else 'characters'}"
        raise InputError(
            f"the text has {size}, and a share of {1.0 - valid - test:g} leaves none to train on; give more text or a "
            "larger fraction for train"
        )
    if level == "word":
        first, second = _after_line(str(text), first), _after_line(str(text), second)
    return [text[:first], text[first:second], text[second:]]


def _after_line(text: str, cut: int) -> int:
    """Return the end of the line that holds the character before a cut; in the last line, the end of the word."""
    end = text.find("\n", cut - 1) + 1
    if 0 < end < len(text):
        return end
    space = re.compile(r"\s").search(text, cut - 1)
    return len(text) if space is None else space.end()


def _as_it_is(level: str, paths: Sequence[Path]) -> tuple[str, tuple[Text, ...]]:
    """Read the files of a corpus: one whole text or the three parts."""
    return ", ".join(map(str, paths)), tuple(read_text(path, level) for path in paths)


def _python_manual(level: str, _: Sequence[Path]) -> tuple[str, tuple[Text, ...]]:
    """Return the reference texts of the running Python: all topics in sorted order, joined by newlines."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[topic] for topic in sorted(topics))
    return f"pydoc_data.topics of Python {platform.python_version()}", (_at_level(text, level),)


def _ptb(level: str, paths: Sequence[Path]) -> tuple[str, tuple[Text, ...]]:
    """Read the word files of the Penn Treebank; at levels "char" and "byte" respell them in characters."""
    if level == "word":
        return _as_it_is(level, paths)
    texts = tuple(_at_level(_respelled(read_text(path, "char")), level) for path in paths)
    return f"{', '.join(map(str, paths))}, respelled in characters", texts


def _respelled(text: Text) -> str:
    """Replace the spaces between words by `_`; end every line with one newline."""
    lines = str(text).removesuffix("\n").split("\n")
    return "".join("_".join(line.split()) + "\n" for line in lines)


def _at_level(text: str, level: str) -> Text:
    if level == "byte":
        return text.encode("utf-8")
    return text if level == "char" or text.endswith("\n") else text + "\n"


def located(choices: Sequence[tuple[str, ...]]) -> list[Path]:
    """Return the files of a corpus that are on this machine, searching HFRNN_DATA first, then the user's cache.

    `choices` are alternative sets of files, relative to the data folder. The first set whose files are all there is
    returned; none if no set is complete.
    """
    for folder in data_folders():
        for files in choices:
            paths = [folder / file for file in files]
            if all(os.path.exists(path) for path in paths):
                return paths
    return []


def find_files(name: str, choices: Sequence[tuple[str, ...]]) -> list[Path]:
    """Return the files of a corpus as `located` does; download missing ones, unless HFRNN_OFFLINE is set."""
    if paths := located(choices):
        return paths
    if not os.environ.get("HFRNN_OFFLINE"):
        import pooch

        return list(fetch(folder_of(choices), tell=pooch.get_logger().info).files)
    folder = data_folder()
    missing = " or ".join(
        ", ".join(str(folder / file) for file in files if not os.path.exists(folder / file)) for files in choices
    )
    held = "it" if os.environ.get("HFRNN_DATA") else " or ".join(", ".join(files) for files in choices)
    raise InputError(
        f"the corpus {name} is not there: get it with hfrnn data fetch {name}, or put it at {missing}, or "
        f"set the environment variable HFRNN_DATA to the folder that holds {held}"
    )


def folder_of(choices: Sequence[tuple[str, ...]]) -> str:
    """Return the folder of a corpus's files, relative to the data folder; "" for a corpus without files."""
    return choices[0][0].partition("/")[0] if choices else ""


@dataclass(frozen=True)
class NamedCorpus:
    """A corpus known by name."""

    read: Callable[[str, Sequence[Path]], tuple[str, tuple[Text, ...]]]
    """(level, files) -> (source, texts): reads the files, as one text to cut or as the three parts."""
    about: str = ""
    files: tuple[tuple[str, ...], ...] = ()
    """The `choices` of `located`; empty if the corpus needs no files."""
    size: int = 0
    """About how many bytes the first set of files has."""
    fractions: tuple[float, float, float] = DEFAULT_FRACTIONS
    levels: tuple[str, ...] = tuple(LEVELS)
    min_count: int = 1
    """The usual `min_count` of the vocabulary at level "word"."""
    line: int | None = None
    """At level "word", the words in a line, if the text has no lines of its own."""


PREFIXES = ("text8-prefix.txt",)
"""Names of files that hold the beginning of a corpus only."""
_PTB_FILES = (tuple(f"ptb/ptb.{part}.txt" for part in PARTS),)
_WIKITEXT_FILES = (tuple(f"wikitext-2/wiki.{part}.tokens" for part in PARTS),)
_SHAKESPEARE_FILES = (("tinyshakespeare/tinyshakespeare.txt",),)

CORPORA = {
    "python-manual": NamedCorpus(_python_manual, "the reference texts that are part of Python", size=465_000),
    "tinyshakespeare": NamedCorpus(_as_it_is, "plays of Shakespeare", _SHAKESPEARE_FILES, 1_115_394),
    "ptb": NamedCorpus(_ptb, "Penn Treebank, news in 10,000 words", _PTB_FILES, 5_951_345),
    "ptb-char": NamedCorpus(_ptb, "ptb at level char, by another name", _PTB_FILES, 5_951_345, levels=("char", "byte")),
    # [M]: words seen more than 10 times, a line break every 1000 words; 99M characters to train, 1M to validate
    "text8": NamedCorpus(
        _as_it_is, "Wikipedia in 26 letters and spaces", (("text8/text8",), (f"text8/{PREFIXES[0]}",)), 100_000_000,
        fractions=(0.99, 0.01, 0.0), min_count=11, line=1000,
    ),
    "wikitext-2": NamedCorpus(_as_it_is, "good articles of Wikipedia, in words", _WIKITEXT_FILES, 13_000_000),
    # [K] 5.2: 95M, 1M and 4M bytes
    "enwik8": NamedCorpus(
        _as_it_is, "Wikipedia's XML; papers use the level byte", (("enwik8/enwik8",),), 100_000_000,
        fractions=(0.95, 0.01, 0.04), levels=("char", "byte"),
    ),
}  # fmt: skip
