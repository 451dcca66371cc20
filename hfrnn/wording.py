"""How messages write counts, foreign text and shell commands."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable

_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal obeys, that reorder a line, or that no encoding has; but not tab and newline."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 symbol`, `2 symbols`, `1,000 symbols`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
    r"""Return a text that is safe on a terminal: control characters are written as `\x1b` or `\u202e`.

    Tabs and newlines stay as they are.
    """
    return _UNSAFE.sub(lambda found: _escape(ord(found[0])), text)


def one_line(text: str) -> str:
    r"""Return a text that is safe on a terminal and has one line: a newline is written as `\n`."""
    return visible(text).replace("\n", "\\n")


def escaped(document: str) -> str:
    r"""Return JSON or TOML that is safe on a terminal: in its strings, control characters are written as `\u001b`."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def shell_command(words: Iterable[str]) -> str:
    r"""Return a command on one line that bash and zsh split into exactly these words.

    A word with control characters is quoted as `$'a\nb'`, byte for byte.
    """
    return " ".join(map(_quoted, words))


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _quoted(word: str) -> str:
    if not _UNSAFE.search(word) and "\n" not in word and "\t" not in word:
        return shlex.quote(word)
    return "$'" + "".join(map(_quoted_character, word)) + "'"


def _quoted_character(character: str) -> str:
    """Return a character as it is written between `$'` and `'`."""
    if character in "\\'":
        return f"\\{character}"
    if character == "\n":
        return "\\n"
    if character == "\t" or _UNSAFE.match(character):
        return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
    return character
