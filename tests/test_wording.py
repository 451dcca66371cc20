"""Counts, foreign text on a terminal, and shell commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfrnn.wording import counted, escaped, four_digits, memory_size, one_line, shell_command, visible

HOSTILE = "\x1b[31m\x9b2J\x08\r\x07\x7f\u202e\u2066\u200f\u061c\u2028\x00\udc9b"


def test_one_is_singular() -> None:
    assert [counted(n, "update") for n in (0, 1, 2, 1000)] == ["0 updates", "1 update", "2 updates", "1,000 updates"]


def test_a_size_of_memory_has_a_suitable_unit() -> None:
    sizes = (1, 511, 512, 2**19 - 1, 2**19, 2**30)
    assert [memory_size(n) for n in sizes] == ["1 byte", "511 bytes", "0.5 KiB", "512.0 KiB", "0.5 MiB", "1,024.0 MiB"]


def test_four_digits_are_kept() -> None:
    texts = {
        0.0: "0", 0.5: "0.5000", 12.3: "12.30", 1234.4: "1234", 123456.7: "123457", 1.23456e8: "1.235e8",
        0.0123456: "0.01235", 0.00123456: "0.001235", 0.000999999: "1.000e-3", 2.4e-10: "2.400e-10", -0.25: "-0.2500",
    }  # fmt: skip
    assert {value: four_digits(value) for value in texts} == texts


@given(st.floats(1e-9, 9.99e9))
def test_four_digits_take_eight_characters(value: float) -> None:
    assert len(four_digits(value)) <= 8
    assert float(four_digits(value)) == pytest.approx(value, rel=5.1e-4)


def test_control_characters_become_visible_and_newlines_stay() -> None:
    assert visible("a\x1b[2Jb\u202ec\n\td") == "a\\x1b[2Jb\\u202ec\n\td"
    assert visible("é 漢字 🦊 \u200d") == "é 漢字 🦊 \u200d"
    assert one_line("a\nb") == "a\\nb"
    assert all(character.isprintable() for character in visible(HOSTILE))


@given(st.text())
def test_json_is_the_same_after_escaping(text: str) -> None:
    assert json.loads(escaped(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_reads_a_command_as_the_same_words() -> None:
    words = ["a  b", "a\nb", "$(touch X)", "it's\n'", "\\n\t", "\x1b[31m", "é\u202e", "\udc9b", ""]
    command = shell_command(["printf", r"%s\0", *words])
    assert visible(command) == command
    assert "\n" not in command
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1] == words


def test_a_command_on_windows_has_the_quotes_of_its_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    spaced = ["C:\\my runs\\", 'say "no" \\', r"\\server\a b", ""]
    assert shell_command(spaced) == subprocess.list2cmdline(spaced)
    assert shell_command([r"C:\runs\book-2", "8,8", "a\nb"]) == r'C:\runs\book-2 "8,8" "a\nb"'
