"""Nothing that other people wrote reaches a terminal as a control character: every command against a hostile run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from support.command_line import call
from support.slow import slow_unless
from support.terminal import on_terminal
from support.tiny_runs import FLAGS

EVIL = "\x1b]0;owned\x07\x9b31m\x08\u202e\u2066\x85"
TEXT = f"The {EVIL} fox\n" * 120
OWN = re.compile(r"\r*\x1b\[(\?25[lh]|[0-9;]*[mKA])")
"""The codes of our own live lines."""
CODES = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?![\n\x1b])")
CASES = {
    "train": ["train", "--resume", "RUN", "--updates", "4", "--sample-length", "80"],
    "missing text": ["train", "--config", "RUN/config.toml", "--out", "o", "--valid", f"no{EVIL}"],
    "sample": ["sample", "RUN", "--length", "300"],
    "evaluate": ["evaluate", "RUN"],
    "report": ["report", "RUN", "-o", f"page{EVIL}.html"],
    "spectrum": ["spectrum", "RUN", "--matrix", "gauss-newton", "--symbols", "100", "--vectors", "0"],
    "probe": ["probe", "RUN", "--open", EVIL[0], "--close", "e", "--control", EVIL, "--steps", "20"],
    "fixed points": ["fixed-points", "RUN", "--starts", "5", "--symbols", "100"],
    "no run": ["evaluate", f"no{EVIL}"],
    "usage": ["train", f"--{EVIL}"],
    "command": [EVIL],
    "corpus": ["data", "show", EVIL],
    "gradcheck": ["gradcheck", EVIL],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run whose text, names and symbols are hostile."""
    place = tmp_path_factory.mktemp("hostile")
    text = place / f"text{EVIL}.txt"
    text.write_text(TEXT, encoding="utf-8")
    call("train", text, "--valid", text, *FLAGS, "--out", place / f"run{EVIL}", "--quiet")
    return place


@pytest.mark.parametrize("case", slow_unless(lambda case: case == "train", CASES))
def test_a_terminal_gets_no_code_of_other_people(case: str, folder: Path) -> None:
    shutil.rmtree(folder / "work", ignore_errors=True)
    shutil.copytree(folder, folder / "work")
    arguments = [word.replace("RUN", f"run{EVIL}") for word in CASES[case]]
    out = on_terminal(arguments, code=None, cwd=folder / "work").decode("utf-8")
    assert "Traceback" not in out
    rest = OWN.sub("", out)
    assert not CODES.findall(rest), rest
    assert "\\x1b" in rest or "\\u001b" in rest or case == "spectrum"


def test_a_pipe_gets_a_sample_unchanged(folder: Path) -> None:
    words = ["sample", folder / f"run{EVIL}", "--length", 300]
    plain = call(*words).stdout_bytes.decode()
    assert plain == json.loads(call(*words, "--json").stdout)["text"] + "\n"
    assert "\x1b" in plain
