"""Texts to train on: a file, a corpus known by name, or the one that every Python carries."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfrnn.data.downloads import data_folder, data_folders, fetch
from hfrnn.data.remotes import DOWNLOADS
from hfrnn.data.text import LEVELS, Text, check_level
from hfrnn.data.words import broken
from hfrnn.errors import InputError

DEFAULT_FRACTIONS = (0.9, 0.1, 0.0)
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Corpus:
    """A text in its three parts, str at levels "char" and "word", bytes at level "byte"; valid and test may be empty.

    `source` says where it came from. `sha256` is that of train, valid and test one after the other (characters as
    UTF-8): for parts cut from one file, the file's own. `min_count` is the least count of a word of its own that is
    usual for this corpus at level "word".
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
    """Read a whole text file exactly as it is, newlines included.

    At level "word" a last line without its newline gets one, so that every line has an end.

    Parameters
    ----------
    path : path
        A file; UTF-8 for levels "char" and "word".
    level : {"char", "byte", "word"}

    Returns
    -------
    str for levels "char" and "word", bytes for level "byte"

    Raises
    ------
    InputError
        The file is missing, a folder, empty, unreadable or not UTF-8.
    """
    check_level(level)
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}; give the path of a text file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; give the path of a text file") from error
    except PermissionError as error:
        raise InputError(f"{path} cannot be read (permission denied); allow reading it or give another file") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"{str(path)!r} cannot be read ({reason}); give the path of a text file") from error
    if not data:
        raise InputError(f"{path} is empty; give a file with text in it")
    if level == "byte":
        return data
    try:
        return _at_level(data.decode("utf-8"), level)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start} cannot be decoded; "
            "use --level byte or convert the file"
        ) from error


def load_corpus(
    text: str | os.PathLike[str] | None = None,
    name: str | None = None,
    level: str = "char",
    valid_path: str | os.PathLike[str] | None = None,
    test_path: str | os.PathLike[str] | None = None,
    fractions: Sequence[float] | None = None,
) -> Corpus:
    """Load a text and its validation and test parts.

    A part that has a file of its own is that file. The others are cut from the training text, in the order train,
    valid, test; the share of a part with its own file stays with train. At level "word" the shares are of characters
    too, but a cut moves on to the end of its line, or in the last line to the end of its word.

    Parameters
    ----------
    text : path, optional
        A file to train on; this or `name`.
    name : str, optional
        One of `CORPORA`; files are looked for under the folder in the environment variable HFRNN_DATA, then in the
        user's cache; else they are downloaded, unless the environment variable HFRNN_OFFLINE is set.
    level : {"char", "byte", "word"}
    valid_path, test_path : path, optional
        Files that take the place of the validation and the test part.
    fractions : three floats in [0, 1] with sum 1, the first above 0, optional
        Shares of train, valid and test. By default (0.9, 0.1, 0): the last tenth validates; for text8 (0.99, 0.01, 0),
        for enwik8 (0.95, 0.01, 0.04).

    Returns
    -------
    Corpus

    Raises
    ------
    InputError
        Both or neither of `text` and `name`, an unknown name, a corpus or file that is not there, or fractions that
        do not fit.
    HfrnnError
        A corpus cannot be downloaded.
    """
    check_level(level)
    if name is not None and text is not None:
        raise InputError(f"give either a text file or the name of a corpus, not both {str(text)!r} and {name!r}")
    if text is not None:
        path = text  # for the reader below
        name, known = Path(text).name, NamedCorpus(lambda level, _: (str(path), (read_text(path, level),)))
    elif name in CORPORA:
        known = CORPORA[name]
    else:
        given = "nothing was given" if name is None else f"there is no corpus named {name!r}"
        raise InputError(f"{given}; give a text file or the name of a corpus: {', '.join(CORPORA)}")
    if level not in known.levels:
        raise InputError(f"the corpus {name} has no level {level}: use level {' or '.join(known.levels)}")
    source, texts = known.read(level, _find(str(name), known.files) if known.files else [])
    files = [None if path is None else read_text(path, level) for path in (valid_path, test_path)]
    if len(texts) == 1:
        shares = _checked(known.fractions if fractions is None else fractions)
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


def _checked(fractions: Sequence[float]) -> tuple[float, float, float]:
    """Three shares that make sense, or a sentence."""
    shares = tuple(float(share) for share in fractions)
    shown = ", ".join(f"{share:g}" for share in shares)
    if len(shares) != 3 or not all(0 <= share <= 1 for share in shares):
        raise InputError(f"the fractions of train, valid and test must be three numbers in [0, 1], not ({shown})")
    if not math.isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise InputError(f"the fractions of train, valid and test must sum to 1, but ({shown}) sum to {sum(shares):g}")
    return shares[0], shares[1], shares[2]


def _cut(text: Text, level: str, shares: tuple[float, float, float], given: Sequence[bool]) -> list[Text]:
    """Train, valid and test out of one text; parts that are given elsewhere leave their share to train."""
    valid, test = (0.0 if elsewhere else share for share, elsewhere in zip(shares[1:], given, strict=True))
    first = round(len(text) * (1.0 - valid - test)) if valid + test else len(text)
    second = round(len(text) * (1.0 - test)) if test else len(text)
    if first < 1:
        unit = "bytes" if level == "byte" else "characters"
        raise InputError(
            f"the text has {len(text)} {unit}, and a share of {1.0 - valid - test:g} leaves none to train on; "
            "give more text or a larger fraction for train"
        )
    if level == "word":
        first, second = _after_line(str(text), first), _after_line(str(text), second)
    return [text[:first], text[first:second], text[second:]]


def _after_line(text: str, cut: int) -> int:
    """The end of the line that a cut falls into or stands behind; in the last line, the end of the word."""
    end = text.find("\n", cut - 1) + 1
    if 0 < end < len(text):
        return end
    space = re.compile(r"\s").search(text, cut - 1)
    return len(text) if space is None else space.end()


def _as_it_is(level: str, paths: Sequence[Path]) -> tuple[str, tuple[Text, ...]]:
    """The files of a corpus, one whole text or the three parts."""
    return ", ".join(map(str, paths)), tuple(read_text(path, level) for path in paths)


def _python_manual(level: str, _: Sequence[Path]) -> tuple[str, tuple[Text, ...]]:
    """The reference texts of the running Python, topics in sorted order joined by one newline."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[topic] for topic in sorted(topics))
    return f"pydoc_data.topics of Python {platform.python_version()}", (_at_level(text, level),)


def _ptb(level: str, paths: Sequence[Path]) -> tuple[str, tuple[Text, ...]]:
    """The Penn Treebank's word files; respelled in characters unless words are asked for."""
    if level == "word":
        return _as_it_is(level, paths)
    texts = tuple(_at_level(_respelled(read_text(path, "char")), level) for path in paths)
    return f"{', '.join(map(str, paths))}, respelled in characters", texts


def _respelled(text: Text) -> str:
    """The characters of every word, `_` for a space between words, and one newline at the end of every line."""
    lines = str(text).removesuffix("\n").split("\n")
    return "".join("_".join(line.split()) + "\n" for line in lines)


def _at_level(text: str, level: str) -> Text:
    if level == "byte":
        return text.encode("utf-8")
    return text if level == "char" or text.endswith("\n") else text + "\n"


def located(choices: Sequence[tuple[str, ...]]) -> list[Path]:
    """The files of a corpus, where all of one choice are there: under HFRNN_DATA first, then in the user's cache.

    Parameters
    ----------
    choices : sequence of tuples of str
        Files relative to the data folder; of the choices that are complete the first counts.

    Returns
    -------
    list of Path
        Empty where no choice is complete.
    """
    for folder in data_folders():
        for files in choices:
            paths = [folder / file for file in files]
            if all(os.path.exists(path) for path in paths):
                return paths
    return []


def _find(name: str, choices: Sequence[tuple[str, ...]]) -> list[Path]:
    """The files of a corpus, downloaded if need be, or a sentence about how to get them."""
    if paths := located(choices):
        return paths
    if folder_of(choices) in DOWNLOADS and not os.environ.get("HFRNN_OFFLINE"):
        import pooch

        return list(fetch(folder_of(choices), tell=pooch.get_logger().info).files)
    folder = data_folder()
    missing = " or ".join(
        ", ".join(str(folder / file) for file in files if not os.path.exists(folder / file)) for files in choices
    )
    get = f"get it with hfrnn data fetch {name}, or " if folder_of(choices) in DOWNLOADS else ""
    held = "it" if os.environ.get("HFRNN_DATA") else " or ".join(", ".join(files) for files in choices)
    raise InputError(
        f"the corpus {name} is not there: {get}put it at {missing}, or set the environment variable HFRNN_DATA to the "
        f"folder that holds {held}"
    )


def folder_of(choices: Sequence[tuple[str, ...]]) -> str:
    """The folder that the files of a corpus lie in, relative to the data folder; "" for a corpus without files."""
    return choices[0][0].partition("/")[0] if choices else ""


@dataclass(frozen=True)
class NamedCorpus:
    """What a corpus known by name is, and how it is read.

    read : (level, its files) -> (source, one text to cut or the three parts)
    about : what it is, in a few words
    files : its files relative to the data folder, in choices: of those that are complete the first counts
    size : bytes of the files of the first choice, about
    min_count, line : at level "word", the usual least count of a word of its own, and the words of a line where there
        are no lines
    """

    read: Callable[[str, Sequence[Path]], tuple[str, tuple[Text, ...]]]
    about: str = ""
    files: tuple[tuple[str, ...], ...] = ()
    size: int = 0
    fractions: tuple[float, float, float] = DEFAULT_FRACTIONS
    levels: tuple[str, ...] = tuple(LEVELS)
    min_count: int = 1
    line: int | None = None


_PTB_FILES = (tuple(f"ptb/ptb.{part}.txt" for part in PARTS),)

CORPORA = {
    "python-manual": NamedCorpus(_python_manual, "the reference texts that Python carries", size=465_000),
    "tinyshakespeare": NamedCorpus(
        _as_it_is, "plays of Shakespeare", (("tinyshakespeare/tinyshakespeare.txt",),), 1_115_394
    ),
    "ptb": NamedCorpus(_ptb, "Penn Treebank, news in 10,000 words", _PTB_FILES, 5_951_345),
    "ptb-char": NamedCorpus(_ptb, "ptb by its older name", _PTB_FILES, 5_951_345, levels=("char", "byte")),
    # [M]: words seen more than 10 times, a line break every 1000 words; of the whole, 99M characters train, 1M validate
    "text8": NamedCorpus(
        _as_it_is,
        "Wikipedia in 26 letters and spaces",
        (("text8/text8",), ("text8/text8-prefix.txt",)),
        100_000_000,
        fractions=(0.99, 0.01, 0.0),
        min_count=11,
        line=1000,
    ),
    "wikitext-2": NamedCorpus(
        _as_it_is,
        "good articles of Wikipedia, in words",
        (tuple(f"wikitext-2/wiki.{part}.tokens" for part in PARTS),),
        13_000_000,
    ),
    "enwik8": NamedCorpus(  # [K] 5.2: 95M, 1M and 4M bytes
        _as_it_is,
        "Wikipedia's XML; papers use --level byte",
        (("enwik8/enwik8",),),
        100_000_000,
        fractions=(0.95, 0.01, 0.04),
        levels=("char", "byte"),
    ),
}
