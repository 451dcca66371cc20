"""How messages write counts, foreign text, shell commands and objects."""

from __future__ import annotations

import codecs
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal obeys, that reorder a line, or that no encoding has; but not tab and newline."""

_NOT_ASCII = re.compile(rf"{_UNSAFE.pattern}|[^\x00-\x7f]")
_PLAIN_ON_WINDOWS = re.compile(r"[\w.:/\\=+-]+")
"""Words that the shells of Windows read unchanged; a comma makes two words in PowerShell."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 symbol`, `2 symbols`, `1,000 symbols`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some_of(words: Sequence[str], most: int) -> str:
    """Return the first words of a list, and how many others there are: `a, b and 3 more`."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def named_part(part: str, own: Sequence[str], whole: str) -> str:
    """Return what to call a part of data: `test part of a.csv`, or `test part (b.csv)` if it has files of its own."""
    files = some_of([os.path.basename(os.path.normpath(path)) for path in own], 2)
    return f"{part} part ({files})" if own else f"{part} part of {whole}"


def left_out_note(number: int, noun: str = "sequence") -> str:
    """Return a note: `2 sequences without a scored step are left out`."""
    return f"{counted(number, noun)} without a scored step {'is' if number == 1 else 'are'} left out"


def memory_size(count: int) -> str:
    """Return a number of bytes in MiB, or in smaller units where it is small: `1,024.0 MiB`, `0.9 KiB`, `1 byte`."""
    if count < 2**9:
        return counted(count, "byte")
    return f"{count / 2**20:,.1f} MiB" if count >= 2**19 else f"{count / 2**10:,.1f} KiB"


def four_digits(value: float) -> str:
    """Return a number with four significant digits: `0.5000`, `0.001234`, `1.234e-5`, `123456`; 0 as `0`.

    It has at most eight characters unless it is negative or its size is below 1e-9 or from 1e10 on.
    """
    size = abs(value)
    if value == 0:
        return "0"
    if 1e4 <= size < 1e8:
        return format(value, ".0f")
    text = format(value, "#.4g" if 1e-3 <= size < 1e4 else ".3e")
    return text.removesuffix(".").replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def visible(text: str) -> str:
    r"""Return a text that is safe on a terminal: control characters, but not tab and newline, become `\x1b`."""
    return _UNSAFE.sub(lambda found: _escape(ord(found[0])), text)


def one_line(text: str) -> str:
    r"""Return a text that is safe on a terminal and has one line: a newline is written as `\n`."""
    return visible(text).replace("\n", "\\n")


def escaped(document: str, encoding: str = "utf-8") -> str:
    r"""Return JSON or TOML that is safe on a terminal: in its strings, control characters are written as `\u001b`.

    With another `encoding` than UTF-8, everything that is not ASCII is written so, as TOML does it.
    """
    unsafe = _UNSAFE if codecs.lookup(encoding).name == "utf-8" else _NOT_ASCII

    def escape(found: re.Match[str]) -> str:
        code = ord(found[0])
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return unsafe.sub(escape, document)


def shell_command(words: Iterable[str]) -> str:
    r"""Return a command on one line that bash and zsh split into exactly these words; on Windows, one for its shells.

    A word with control characters is quoted as `$'a\nb'`, byte for byte.
    """
    return " ".join(map(_quoted_for_windows if sys.platform == "win32" else _quoted, words))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _quoted(word: str) -> str:
    if not _UNSAFE.search(word) and "\n" not in word and "\t" not in word:
        return shlex.quote(word)
    return "$'" + "".join(map(_quoted_character, word)) + "'"


def _quoted_for_windows(word: str) -> str:
    """Return a word in quotes of cmd.exe and PowerShell; a backslash before a quote is doubled."""
    if _PLAIN_ON_WINDOWS.fullmatch(word):
        return word
    return '"' + re.sub(r'(\\*)("|$)', lambda found: found[1] * 2 + (found[2] and '\\"'), one_line(word)) + '"'


def _quoted_character(character: str) -> str:
    """Return a character as it is written between `$'` and `'`."""
    if character in "\\'":
        return f"\\{character}"
    if character == "\n":
        return "\\n"
    if character == "\t" or _UNSAFE.match(character):
        return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
    return character


# ------------------------------------------------------------------ short representations of objects


Class = TypeVar("Class", bound=type)
MOST = 60
"""Largest number of characters of a value."""
FEW = 4
"""Largest number of numbers of an array that are shown."""


def short(value: Any) -> str:
    """Return a value in a few words: `float32 (3, 4)` for an array, `0.1235` for a float, `{5 entries}` for a dict."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        if value.ndim == 0 and hasattr(value, "item"):
            return short(value.item())
        if value.ndim == 1 and value.size <= FEW and value.dtype.kind in "iufb":
            return f"[{', '.join(short(each) for each in value.tolist())}]"
        return f"{value.dtype} {tuple(value.shape)}"
    if type(value) in (tuple, list) and value and all(isinstance(each, tuple | list | dict) for each in value):
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value.value if isinstance(value, Enum) else value)
    if len(text) <= MOST and "\n" not in text:
        return text
    if isinstance(value, Mapping):
        return f"{{{len(value)} entries}}"
    if isinstance(value, str | bytes):
        return f"{value[: MOST // 2]!r}..."
    return f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple | list) else type(value).__name__


def brief(of: Class) -> Class:
    """Give a dataclass or a named tuple a representation on one line, with its arrays by type and shape."""
    names = of._fields if hasattr(of, "_fields") else None

    def __repr__(self: Any) -> str:
        fields = names or [each.name for each in self.__dataclass_fields__.values() if each.repr]
        values = ", ".join(f"{name}={short(getattr(self, name))}" for name in fields if not name.startswith("_"))
        return f"{type(self).__name__}({values})"

    of.__repr__ = __repr__  # type: ignore[assignment]
    return of


def clock(seconds: float | None) -> str:
    """Return a number of seconds as 1:05 or 2:01:05; - for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
