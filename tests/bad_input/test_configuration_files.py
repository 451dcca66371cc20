"""A damaged configuration file is refused in one sentence, and so is a configuration of random options."""

from __future__ import annotations

import pytest
from support.refusals import call, refused, replaced
from support.tiny_runs import FLAGS

CONFIGS: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "cannot be read"),
    "no quotes": (b"arch = mlstm", "is not TOML"),
    "a bracket open": (b"hidden = [4", "is not TOML"),
    "twice": (b"seed = 1\nseed = 2", "is not TOML"),
    "latin-1": (b'text = "caf\xe9"', "is not TOML"),
    "nested too deeply": (b"seed = " + b"[" * 100_000, "is not TOML"),
    "an endless number": (b"seed = " + b"9" * 5000, "is not TOML"),
    "an unknown option": (b"hiden = 3", "did you mean hidden?"),
    "an option with a line break": (b'"hid\\nden" = 3', "not known"),
    "a table": (b"[hidden]\nsize = 3", "hidden"),
    "a date": (b"seed = 2020-01-01", "seed"),
    "a text and a corpus": (b'text = "text.txt"\ndata = "ptb"', "give one of them"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONFIGS)
def test_a_damaged_configuration_is_refused(case: str) -> None:
    content, words = CONFIGS[case]
    with replaced("options.toml", content):
        found = refused("train", "--config", "options.toml")
    assert "options.toml" in found or "both a text" in found
    assert words in found


@pytest.mark.parametrize("path", ["folder", "a\0b", ""])
def test_a_configuration_that_is_not_a_file_is_refused(path: str) -> None:
    assert "cannot be read" in refused("train", "--config", path)


def test_an_empty_configuration_asks_for_nothing() -> None:
    with replaced("options.toml", b""):
        assert call("train", "text.txt", *FLAGS, "--dry-run", "--config", "options.toml").exit_code == 0
