"""A command writes over none of its inputs, into no run folder, and over an existing file only with --force."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pictures import needs_matplotlib
from support.refusals import STEPS, call, refused, replaced
from support.tiny_runs import tiny_train

from hfrnn.errors import InputError
from hfrnn.report import write_report
from hfrnn.runs.outputs import Output

SPECTRUM = ["spectrum", "run", "--symbols", "30", "--steps", "2", "--count", "1", "--matrix", "gauss-newton"]
OUTPUTS = {
    "--per-symbol": ["evaluate", "run", "text.txt", "--per-symbol"],
    "--plot": [*SPECTRUM, "--plot"],
    "--json": ["probe", "run", "--open", "T", "--close", ".", "--control", "h", "--steps", "3", "--json"],
    "--output": ["report", "run", "--output"],
}


@pytest.fixture(autouse=True, scope="module")
def links(home: Path) -> Iterator[None]:
    """Other names of the text and of the run, and an output that exists."""
    os.symlink("text.txt", "link.txt")
    os.link("text.txt", "second.txt")
    os.symlink("run", "run-link")
    os.symlink("run/best.safetensors", "best-link")
    for name in ("old.svg", "old.html", "old.jsonl"):
        Path(name).write_text("old")
    yield
    for name in ("link.txt", "second.txt", "run-link", "best-link"):
        os.unlink(name)


@pytest.mark.parametrize("name", ["text.txt", "folder/../text.txt", "link.txt", "second.txt"])
def test_an_input_is_never_written_over(name: str) -> None:
    words = f"is {name}, which is a file that the command reads"
    assert words in refused("evaluate", "run", "--per-symbol", name, "--force")  # the run's own text
    for option, command in OUTPUTS.items():
        assert f"{option} {words}" in refused(*command, name, "--force")


@pytest.mark.parametrize("option", OUTPUTS)
def test_a_run_folder_is_never_written_into(option: str) -> None:
    for name in ("run/last.safetensors", "run-link/vocabulary.json", "best-link", "folder/../run/x.html"):
        assert f"{option} is {name}, inside the run folder" in refused(*OUTPUTS[option], name, "--force")
    assert f"{option} is task/new" in refused(*OUTPUTS[option], "task/new")  # of another run too


def test_a_new_run_does_not_begin_inside_another_one() -> None:
    for out in ("run/summary", "run-link/new", "run/a/b"):
        assert f"{out} lies in the run folder" in refused("train", "text.txt", *STEPS, "--out", out)


@pytest.mark.parametrize(("option", "name"), [
    ("--per-symbol", "old.jsonl"),
    pytest.param("--plot", "old.svg", marks=[pytest.mark.slow, needs_matplotlib]),
    ("--output", "old.html"),
])  # fmt: skip
def test_an_existing_file_is_replaced_only_with_force(option: str, name: str) -> None:
    words = f"{option} is {name}, which exists already: give another file, or --force to replace it"
    assert words in refused(*OUTPUTS[option], name)
    with replaced("dangling", lambda path: path.symlink_to("nowhere")):
        assert "exists already" in refused(*OUTPUTS[option], "dangling")
    with replaced(name, b"old"):
        assert call(*OUTPUTS[option], name, "--force").exit_code == 0
        assert Path(name).read_bytes() != b"old"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are of POSIX systems")
@pytest.mark.parametrize("option", OUTPUTS)
def test_what_is_not_a_regular_file_is_never_replaced(option: str) -> None:
    with replaced("pipe.svg", os.mkfifo):
        for name in ("pipe.svg", os.devnull):
            assert "which is not a regular file" in refused(*OUTPUTS[option], name, "--force")


@pytest.mark.parametrize("option", OUTPUTS)
def test_a_name_that_cannot_be_written_is_refused_before_the_work(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for work in ("analysis.evaluation.evaluate", "analysis.spectrum.spectrum", "report.page.make_page"):
        monkeypatch.setattr(f"hfrnn.{work}", None)
    for name in ("folder", "none/x.svg", "x" * 300):
        assert option in refused(*OUTPUTS[option], name)


def test_force_without_a_file_to_write_is_refused() -> None:
    assert "--force was given, and it is for --per-symbol" in refused("evaluate", "run", "--force")
    assert "--force was given, and it is for --plot" in refused(*SPECTRUM, "--force")


def test_a_file_that_appears_during_the_work_is_not_replaced(tmp_path: Path) -> None:
    output = Output("--plot", str(tmp_path / "x.svg"))
    output.check()
    (tmp_path / "x.svg").write_text("other")
    with pytest.raises(InputError, match="exists already"):
        output.write("mine")
    assert (tmp_path / "x.svg").read_text() == "other"


def test_the_report_of_the_default_name_replaces_an_older_report_and_nothing_else(tmp_path, monkeypatch):
    run = Path("run").absolute()
    monkeypatch.chdir(tmp_path)
    assert call("report", str(run)).stdout == call("report", str(run)).stdout == "report.html\n"
    assert "--output is report.html, which exists already" in refused("report", str(run), "-o", "report.html")
    Path("report.html").write_text("<html>mine</html>")
    with pytest.raises(InputError, match="exists already"):
        write_report([run])
    assert "exists already" in refused("report", str(run))
    assert write_report([run], "report.html", force=True) == Path("report.html")
    assert call("report", str(run)).exit_code == 0


def test_the_data_of_a_run_are_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = tmp_path / "tinyshakespeare" / "tinyshakespeare.txt"
    corpus.parent.mkdir()
    shutil.copy("text.txt", corpus)
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    run = tiny_train(tmp_path, text=None, data="tinyshakespeare", valid="other.txt").folder
    for name in ("other.txt", str(corpus)):
        found = refused("evaluate", str(run), "--per-symbol", name, "--force")
        assert "which is a file that the command reads" in found
