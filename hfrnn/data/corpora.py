"""Texts to train on: a file, a corpus known by name, or the one that every Python carries."""

from __future__ import annotations

import hashlib
import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfrnn.data.vocabulary import Text, check_level
from hfrnn.errors import InputError

DEFAULT_FRACTIONS = (0.9, 0.1, 0.0)


@dataclass(frozen=True)
class Corpus:
    """A text in its three parts, str at level "char" and bytes at level "byte"; valid and test may be empty.

    `source` says where it came from. `sha256` is that of train, valid and test one after the other (characters as
    UTF-8): for parts cut from one file, the file's own.
    """

    name: str
    level: str
    train: Text
    valid: Text
    test: Text
    source: str
    sha256: str


def read_text(path: str | os.PathLike[str], level: str) -> Text:
    """Read a whole text file exactly as it is, newlines included.

    Parameters
    ----------
    path : path
        A file; UTF-8 for level "char".
    level : {"char", "byte"}

    Returns
    -------
    str for level "char", bytes for level "byte"

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
        return data.decode("utf-8")
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
    valid, test; the share of a part with its own file stays with train.

    Parameters
    ----------
    text : path, optional
        A file to train on; this or `name`.
    name : str, optional
        One of `CORPORA`; files are looked for under the folder in the environment variable HFRNN_DATA.
    level : {"char", "byte"}
    valid_path, test_path : path, optional
        Files that take the place of the validation and the test part.
    fractions : three floats in [0, 1] with sum 1, the first above 0, optional
        Shares of train, valid and test. By default (0.9, 0.1, 0): the last tenth validates; for text8 (0.99, 0.01, 0).

    Returns
    -------
    Corpus

    Raises
    ------
    InputError
        Both or neither of `text` and `name`, an unknown name, a corpus or file that is not there, or fractions that
        do not fit.
    """
    check_level(level)
    if name is not None and text is not None:
        raise InputError(f"give either a text file or the name of a corpus, not both {str(text)!r} and {name!r}")
    own_fractions = DEFAULT_FRACTIONS
    texts: tuple[Text, ...]
    if text is not None:
        name, source, texts = Path(text).name, str(text), (read_text(text, level),)
    elif name in CORPORA:
        known = CORPORA[name]
        own_fractions = known.fractions
        source, texts = known.read(level)
    else:
        given = "nothing was given" if name is None else f"there is no corpus named {name!r}"
        raise InputError(f"{given}; give a text file or the name of a corpus: {', '.join(CORPORA)}")
    files = [None if path is None else read_text(path, level) for path in (valid_path, test_path)]
    if len(texts) == 1:
        shares = _checked(own_fractions if fractions is None else fractions)
        train, *parts = _cut(texts[0], shares, [file is not None for file in files])
    elif fractions is None:
        train, *parts = texts
    else:
        raise InputError(f"the corpus {name} has files of its own for its three parts; leave out the fractions")
    valid, test = (part if file is None else file for part, file in zip(parts, files, strict=True))
    digest = hashlib.sha256()
    for part in (train, valid, test):
        digest.update(part if isinstance(part, bytes) else part.encode("utf-8"))
    return Corpus(name, level, train, valid, test, source, digest.hexdigest())


def _checked(fractions: Sequence[float]) -> tuple[float, float, float]:
    """Three shares that make sense, or a sentence."""
    shares = tuple(float(share) for share in fractions)
    shown = ", ".join(f"{share:g}" for share in shares)
    if len(shares) != 3 or not all(0 <= share <= 1 for share in shares):
        raise InputError(f"the fractions of train, valid and test must be three numbers in [0, 1], not ({shown})")
    if not math.isclose(sum(shares), 1.0, abs_tol=1e-9):
        raise InputError(f"the fractions of train, valid and test must sum to 1, but ({shown}) sum to {sum(shares):g}")
    return shares[0], shares[1], shares[2]


def _cut(text: Text, shares: tuple[float, float, float], given: Sequence[bool]) -> list[Text]:
    """Train, valid and test out of one text; parts that are given elsewhere leave their share to train."""
    valid, test = (0.0 if elsewhere else share for share, elsewhere in zip(shares[1:], given, strict=True))
    first = round(len(text) * (1.0 - valid - test)) if valid + test else len(text)
    second = round(len(text) * (1.0 - test)) if test else len(text)
    if first < 1:
        raise InputError(
            f"the text has {len(text)} symbols, and a share of {1.0 - valid - test:g} leaves none to train on; "
            "give more text or a larger fraction for train"
        )
    return [text[:first], text[first:second], text[second:]]


def _python_manual(level: str) -> tuple[str, tuple[Text, ...]]:
    """The reference texts of the running Python, topics in sorted order joined by one newline."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[topic] for topic in sorted(topics))
    return f"pydoc_data.topics of Python {platform.python_version()}", (_at_level(text, level),)


def _tinyshakespeare(level: str) -> tuple[str, tuple[Text, ...]]:
    (path,) = _find("tinyshakespeare", [("tinyshakespeare/tinyshakespeare.txt",)])
    return str(path), (read_text(path, level),)


def _text8(level: str) -> tuple[str, tuple[Text, ...]]:
    """The whole of text8 where it is there, else its beginning."""
    (path,) = _find("text8", [("text8/text8",), ("text8/text8-prefix.txt",)])
    return str(path), (read_text(path, level),)


def _ptb_char(level: str) -> tuple[str, tuple[Text, ...]]:
    """The Penn Treebank's word files respelled in characters: `_` for a space, a newline for the end of a sentence."""
    paths = _find("ptb-char", [tuple(f"ptb/ptb.{part}.txt" for part in ("train", "valid", "test"))])
    texts = tuple(_at_level(_respelled(read_text(path, "char")), level) for path in paths)
    return f"{', '.join(map(str, paths))}, respelled in characters", texts


def _respelled(text: Text) -> str:
    """The characters of every word, `_` between words, and one newline at the end of every line."""
    lines = str(text).removesuffix("\n").split("\n")
    return "".join("_".join(line.split()) + "\n" for line in lines)


def _at_level(text: str, level: str) -> Text:
    return text if level == "char" else text.encode("utf-8")


def _find(name: str, choices: Sequence[tuple[str, ...]]) -> list[Path]:
    """The files of the first choice that is complete under HFRNN_DATA."""
    folder = os.environ.get("HFRNN_DATA")
    if not folder:
        raise InputError(
            f"the corpus {name} is not there: set the environment variable HFRNN_DATA to a folder that holds "
            f"{' or '.join(', '.join(files) for files in choices)}"
        )
    for files in choices:
        paths = [Path(folder, file) for file in files]
        if all(path.exists() for path in paths):
            return paths
    missing = " or ".join(
        ", ".join(str(Path(folder, file)) for file in files if not Path(folder, file).exists()) for files in choices
    )
    raise InputError(
        f"the corpus {name} is not there: put it at {missing}, or set HFRNN_DATA to the folder that holds it"
    )


@dataclass(frozen=True)
class NamedCorpus:
    """How a corpus known by name is read: level -> (source, one text to cut or the three parts)."""

    read: Callable[[str], tuple[str, tuple[Text, ...]]]
    fractions: tuple[float, float, float] = DEFAULT_FRACTIONS


CORPORA = {
    "python-manual": NamedCorpus(_python_manual),
    "tinyshakespeare": NamedCorpus(_tinyshakespeare),
    "ptb-char": NamedCorpus(_ptb_char),
    "text8": NamedCorpus(_text8, fractions=(0.99, 0.01, 0.0)),
}
