"""What commands print: --quiet, --json, help, completion, terminals, pipes and the lists of info."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from support.command_line import call, refused
from support.slow import one_in
from support.terminal import COMMAND, on_terminal
from support.tiny_runs import FLAGS, metrics, text_file, tiny_train

from hfrnn.cli import main
from hfrnn.cli.arguments import flag_of
from hfrnn.cli.flags import MAIN
from hfrnn.cli.info import EXTRAS

BRIEF = 28
"""Lines of a help text that fit on a screen."""


# ---------------------------------------------------------------------- --quiet, --json


def test_quiet_prints_the_run_folder_and_nothing_else(tmp_path: Path) -> None:
    found = call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run", "--quiet")
    assert (found.stdout, found.stderr) == (f"{tmp_path / 'run'}\n", "")


@pytest.mark.parametrize("flags", [FLAGS, ["--hidden", 4, "--optimizer", "sgd", "--updates", 20, "--log-interval", 10]])
def test_json_prints_the_lines_of_the_log_and_the_summary(tmp_path: Path, flags: list[object]) -> None:
    found = call("train", text_file(tmp_path), *flags, "--out", tmp_path / "run", "--json")
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    log = metrics(tmp_path / "run")
    assert [{k: v for k, v in line.items() if not k.startswith("seconds")} for line in lines[:-1]] == log
    assert len(log) >= 2
    assert lines[-1] == {"folder": str(tmp_path / "run"), **json.loads((tmp_path / "run" / "summary.json").read_text())}
    assert found.stderr == ""


@pytest.mark.parametrize("mode", ["--quiet", "--json"])
def test_a_failure_is_told_on_stderr_in_every_mode(mode: str, tmp_path: Path) -> None:
    assert "nowhere.txt; give the path" in refused("train", tmp_path / "nowhere.txt", mode)


def test_ways_to_print_exclude_each_other() -> None:
    modes = ("--dry-run", "--print-config", "--quiet", "--json")
    for one, other in itertools.combinations(modes, 2):
        assert refused("train", one, other) == f"Error: {one} and {other} were given: give one of them"


# ---------------------------------------------------------------------- help


@pytest.mark.parametrize("columns", ["80", "200"])
@pytest.mark.parametrize("name", ["", *main.commands])
def test_help_fits_on_a_screen_and_ends_with_examples(name: str, columns: str) -> None:
    result = CliRunner(env={"COLUMNS": columns}).invoke(main, [*name.split(), "--help"])
    lines = result.stdout.splitlines()
    assert len(lines) <= BRIEF
    assert max(map(len, lines)) <= 80
    if name not in ("info", "data"):
        last = lines[lines.index("  Examples:") + 1 :]
        assert last
        assert all("hfrnn" in line for line in last)


def test_train_shows_the_main_options_and_names_the_page_of_all() -> None:
    text = call("train", "--help").stdout
    assert {line.split()[0] for line in text.splitlines() if line.startswith("  --")} == set(map(flag_of, MAIN)) - {
        "--help"
    }
    assert "  -h, --help" in text
    assert "--cg-iterations" not in text
    for default in ("[default: mlstm]", "[default: 128]", "[default: char]"):
        assert default in text
    everything = call("train", "--help-all").stdout
    assert max(map(len, everything.splitlines())) <= 80
    assert all(flag_of(name) in everything for name in MAIN)
    assert "--cg-iterations" in everything


def test_the_examples_of_train_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text_file(tmp_path, name="book.txt")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "book").symlink_to(run)
    for page in ("train --help", "--help"):
        for line in call(*page.split()).stdout.split("Examples:\n")[1].splitlines():
            command, *arguments = re.split(r"\s{3,}", line.strip())[0].split()[1:]
            if command == "train":
                call("train", *arguments, "--print-config")


def test_help_loads_nothing_heavy() -> None:
    heavy = ["numpy", "scipy", "rich", "pooch", "safetensors", "threadpoolctl", "tomli_w", "numba", "requests", "cupy"]
    code = (
        "import sys\nfrom hfrnn.cli import main\n"
        "def show(*page):\n"
        "    main(page, standalone_mode=False)\n"
        f"    print('heavy:', *sorted(set({heavy}) & set(sys.modules)))\n"
        "show('--help'), show('train', '--help'), show('completion', 'zsh'), show('train', '--help-all')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = [line for line in done.stdout.splitlines() if line.startswith("heavy:")]
    assert found == ["heavy:"] * 3 + ["heavy: numpy scipy"]  # the last page has the options of all kernels


# ---------------------------------------------------------------------- completion


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    found = ShellComplete(main, {}, "hfrnn", "_HFRNN_COMPLETE").get_completions(before, incomplete)
    return [item.value for item in found]


def test_commands_options_and_names_are_completed() -> None:
    assert completed("tr") == ["train"]
    assert completed("train", "--arch", "ml") == ["mlstm", "mlstm-standard"]
    assert completed("train", "--data", "temp") == ["temporal-order", "temporal-order-3bit"]
    assert "ptb" in completed("train", "--data", "p")
    assert completed("train", "--optimizer", "s") == ["sgd", "soap"]
    assert completed("train", "--cg-it") == ["--cg-iterations"]
    assert completed("gradcheck", "rnn", "gr") == ["gru", "gru-torch"]
    assert completed("completion", "f") == ["fish"]


def test_run_folders_are_completed(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("runs/a", "runs/b", "c", "runs/none", "[x]", "a b", "$(x)"):
        (tmp_path / name).mkdir(parents=True)
        if "none" not in name:
            (tmp_path / name / "config.toml").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert completed("evaluate", "") == ["c", "runs/a", "runs/b"]
    assert completed("sample", "ru") == completed("train", "--resume", "runs/") == ["runs/a", "runs/b"]


def test_files_are_left_to_the_shell() -> None:
    files = (("train", "bo"), ("evaluate", "run", "bo"), ("train", "--config", "bo"), ("train", "--valid", "bo"))
    for words in (*files, ("train", "--data", "bo")):
        (item,) = ShellComplete(main, {}, "hfrnn", "_HFRNN_COMPLETE").get_completions(list(words[:-1]), "bo")
        assert (item.type, item.value) == ("file", "bo")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_a_shell_is_printed(shell: str) -> None:
    script = call("completion", shell).stdout
    assert f"_HFRNN_COMPLETE={shell}_complete" in script
    assert "_hfrnn_completion" in script


# ---------------------------------------------------------------------- terminals and pipes


ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def test_a_terminal_of_80_columns_is_never_overrun(tmp_path: Path) -> None:
    out = on_terminal(["train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "r", "--sample-length", 0])
    assert b"\x1b[2K" in out  # the live line
    assert out.rindex(b"\x1b[?25h") > out.rindex(b"\x1b[?25l")  # the cursor is back
    frames = [frame.decode() for frame in re.split(rb"[\r\n]+", ESCAPE.sub(b"\r", out))]
    assert max(len(frame) for frame in frames if str(tmp_path) not in frame) <= 80
    assert sum(frame.startswith("update     time") for frame in frames) == 1
    assert sum(bool(re.match(r" {5}[12] +0:0\d", frame)) for frame in frames) == 2


@pytest.mark.parametrize("flags", [[], ["--optimizer", "adam", "--streams", "4", "--log-interval", "1"]])
def test_a_narrow_terminal_gets_fewer_columns(tmp_path: Path, flags: list[str]) -> None:
    place = tmp_path / "work"
    place.mkdir()
    text_file(place)
    words = [word for word in FLAGS if not flags or word not in ("--gradient-symbols", "300")]
    out = on_terminal(["train", "text.txt", *words, *flags, "--out", "r", "--sample-length", 0], columns=60, cwd=place)
    frames = [frame.decode() for frame in re.split(rb"[\r\n]+", ESCAPE.sub(b"\r", out))]
    assert max(map(len, frames)) <= 60
    assert any(re.match(r"update     time    left  train  valid", frame) for frame in frames)
    assert sum(bool(re.match(r" {5}[12] +0:0\d +\S+ +\d\.\d+ ", frame)) for frame in frames) == 2


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_a_terminal_gets_no_colour_or_no_codes_where_it_says_so(tmp_path: Path, name: str, value: str) -> None:
    out = on_terminal(
        ["train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "r", "--sample-length", 0], **{name: value}
    )
    codes = set(ESCAPE.findall(out))
    assert not any(re.fullmatch(rb"\x1b\[[0-9;]*(3|4|9)[0-9][0-9;]*m", code) for code in codes)
    assert bool(codes) == (name == "NO_COLOR")
    if name == "TERM":
        assert b"\x1b" not in out
        assert b"\r" not in out.replace(b"\r\n", b"\n")


def test_a_pipe_gets_no_codes_even_where_colour_is_forced(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "r"], capture_output=True, check=True,
        env={**os.environ, "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "TERM": "xterm-256color"},
    )  # fmt: skip
    assert b"\x1b" not in done.stdout + done.stderr
    assert (
        max(len(line) for line in done.stdout.decode().split("\nsample:")[0].splitlines() if "folder" not in line) <= 80
    )


@pytest.mark.parametrize(
    "arguments",
    one_in(2, [["info"], ["sample", "RUN", "--length", "20"], ["train", "TEXT"], ["train", "TEXT", "--json"]]),
)
def test_a_broken_pipe_ends_a_command_quietly(arguments: list[str], tmp_path: Path, run: Path) -> None:
    known = {"RUN": str(run), "TEXT": str(text_file(tmp_path))}
    words = [known.get(word, word) for word in arguments]
    words += [*FLAGS, "--out", str(tmp_path / "r")] if "train" in words else []
    ours, theirs = os.pipe()
    os.close(ours)
    started = subprocess.Popen([*COMMAND, *words], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    _, err = started.communicate(timeout=60)
    if "train" in words:
        assert re.fullmatch(rb"interrupted after update \d, which is saved: resume with .*\n", err)
    assert (started.returncode, err) == ((130, err) if "train" in words else (1, b""))


# ---------------------------------------------------------------------- evaluate, sample, info


def test_evaluate_and_sample_refuse_what_would_do_nothing(run: Path, tmp_path: Path) -> None:
    tiny_train(tmp_path, "task", text=None, data="addition", length=21, arch="rnn", optimizer="adam", sequences=9)
    task = tmp_path / "task"
    assert "whose sequences are generated again: leave --part out" in refused("evaluate", task, "--part", "valid")
    assert "which is not a text: leave --unknown out" in refused("evaluate", task, "--unknown", "skip")
    assert "it is for the symbols of --prime: give both, or leave it out" in refused("sample", run, "--unknown", "skip")
    text = text_file(tmp_path, "d\n" + "a b c\n" * 200, "words.txt")
    tiny_train(tmp_path, "words", text=text, level="word", min_count=2)
    assert "reads unknown words as <unk>" in refused("evaluate", tmp_path / "words", "--unknown", "skip")


def test_info_lists_all_that_data_may_name() -> None:
    table = json.loads(call("info", "--json").stdout)
    assert "temporal-order" in table["tasks"]
    assert table["music"] == ["jsb"]
    assert "ptb" in table["corpora"]


def test_info_lists_every_optional_extra() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {
        extra: tuple(re.split(r"[\[<>=;]", package)[0] for package in packages)
        for extra, packages in project["optional-dependencies"].items()
    }
    assert declared == EXTRAS
    lines = call("info").stdout
    for extra in EXTRAS:
        assert re.search(rf"\[{extra}\] +{EXTRAS[extra][0]} (not installed|[0-9])", lines)
