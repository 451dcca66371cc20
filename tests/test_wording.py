"""Counts, foreign text on a terminal, and shell commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.wording import counted, escaped, one_line, shell_command, visible

HOSTILE = "\x1b[31m\x9b2J\x08\r\x07\x7f\u202e\u2066\u200f\u061c\u2028\x00\udc9b"


def test_one_is_singular() -> None:
    assert [counted(n, "update") for n in (0, 1, 2, 1000)] == ["0 updates", "1 update", "2 updates", "1,000 updates"]


def test_control_characters_become_visible_and_newlines_stay() -> None:
    assert visible("a\x1b[2Jb\u202ec\n\td") == "a\\x1b[2Jb\\u202ec\n\td"
    assert visible("é 漢字 🦊 \u200d") == "é 漢字 🦊 \u200d"
    assert one_line("a\nb") == "a\\nb"
    assert all(character.isprintable() for character in visible(HOSTILE))


@given(st.text())
def test_json_is_the_same_after_escaping(text: str) -> None:
    assert json.loads(escaped(json.dumps(text, ensure_ascii=False))) == text


def test_toml_is_the_same_after_escaping() -> None:
    document = escaped('a = "x\x9b\u202ey"\nb = 1\n')
    assert tomllib.loads(document) == {"a": "x\x9b\u202ey", "b": 1}
    assert "\x9b" not in document


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    "word", ["a  b", "a\nb", "$(touch X)", "it's\n'", "\\n\t", "\x1b[31m", "é\u202e", "\udc9b", ""]
)
def test_bash_reads_a_command_as_the_same_words(word: str) -> None:
    command = shell_command(["printf", "%s", word])
    assert visible(command) == command
    assert "\n" not in command
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout == word.encode("utf-8", "surrogateescape")
