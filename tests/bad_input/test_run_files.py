"""A damaged, missing or foreign file of a run is refused by the commands that read it, and by no other."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from support.damage import DAMAGE, a_folder, a_handful
from support.refusals import COMMANDS, READ, RESUME, STEPS, call, refused, replaced
from support.tiny_runs import tiny_train


@pytest.mark.parametrize(("name", "kind"), a_handful([(name, kind) for name in READ for kind in DAMAGE]))
def test_a_damaged_file_of_a_run_is_refused_by_those_who_read_it_and_by_no_other(name: str, kind: str) -> None:
    path = Path("run", name)
    with replaced(path, DAMAGE[kind](path.read_bytes())):
        for command, arguments in COMMANDS.items():
            if command in READ[name]:
                found = refused(*arguments)
                assert "run" in found
                assert name in found or name.partition(".")[0] in found, found
            elif command != "resume" and kind in ("missing", "rubbish", "a folder"):
                assert call(*arguments).exit_code == 0


@pytest.mark.parametrize(("name", "content", "sentence"), [
    ("config.toml", b'arch = "tnn"\ndata = "python-manual"', "config.toml has no table of versions"),
    ("config.toml", b'hidden = true\n[versions]\nhfrnn = "1"', "config.toml is damaged (hidden is True"),
    ("metrics.jsonl", b"", "metrics.jsonl is damaged: it ends at update 0"),
])  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(name: str, content: bytes, sentence: str) -> None:
    with replaced(Path("run", name), content):
        assert sentence in refused(*RESUME)


@pytest.mark.parametrize("kind", ["missing", "rubbish", "a link to nowhere"])
def test_a_run_resumes_without_its_summary_and_writes_another(kind: str, tmp_path: Path) -> None:
    run = shutil.copytree("run", tmp_path / "run")
    path = run / "summary.json"
    with replaced(path, DAMAGE[kind](path.read_bytes())):
        assert call("train", "--resume", str(run), *RESUME[3:]).exit_code == 0
        assert json.loads(path.read_text())["updates"] == 3


def test_a_run_whose_summary_is_a_folder_does_not_resume() -> None:
    with replaced("run/summary.json", a_folder):
        assert "summary.json is a folder" in refused(*RESUME)


@pytest.mark.parametrize("run", ["nowhere", "text.txt", "void", "loop", "a\0b", ""])
def test_a_folder_that_is_not_a_run_is_refused(run: str) -> None:
    for arguments in (
        ["train", "--resume", run], ["train", "--dry-run", "--resume", run], ["evaluate", run], ["sample", run],
        ["train", "text.txt", *STEPS, "--init-from", run], ["report", run], ["report", "run", run],
    ):  # fmt: skip
        if run or "--init-from" not in arguments:
            assert re.search("is not a run folder|is empty|NUL", refused(*arguments))


@pytest.mark.parametrize("name", a_handful(name for name in READ if name != "summary.json"))
def test_a_run_that_was_made_of_two_is_refused(name: str, tmp_path: Path) -> None:
    """A file comes from a run of another network on another text."""
    tiny_train(tmp_path, "other", text=Path("foreign.txt"), hidden=3, sequence_length=5, updates=1, dtype="float64")
    with replaced(Path("run", name), (tmp_path / "other" / name).read_bytes()):
        refused(*RESUME)
        for arguments in ([], ["--which", "last"]):
            if name in ("config.toml", "vocabulary.json"):
                refused("evaluate", "run", "text.txt", *arguments)
                refused("sample", "run", *arguments)
