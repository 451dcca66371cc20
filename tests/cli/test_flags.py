"""Help, completion, and what a command loads for them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete
from click.testing import CliRunner
from support.command_line import call
from support.tiny_runs import text_file

from hfrnn.cli import main
from hfrnn.cli.arguments import flag_of
from hfrnn.cli.flags import MAIN
from hfrnn.runs.config import all_options


@pytest.mark.parametrize("name", ["", *main.commands])
def test_help_fits_on_a_screen_and_ends_with_examples(name: str) -> None:
    for columns in ("80", "200"):
        lines = CliRunner(env={"COLUMNS": columns}).invoke(main, [*name.split(), "--help"]).stdout.splitlines()
        assert len(lines) <= 30  # a screen
        assert max(map(len, lines)) <= 80
    if name not in ("info", "data"):
        assert all("hfrnn" in line for line in lines[lines.index("  Examples:") + 1 :])


def test_train_shows_the_main_options_and_names_the_page_of_all() -> None:
    text = call("train", "--help").stdout
    shown = {line.split()[0] for line in text.splitlines() if line.startswith("  --")}
    assert shown == set(map(flag_of, MAIN)) - {"--help"}
    assert "[default: mlstm]" in text


def test_every_option_has_its_default_in_the_full_help() -> None:
    text = call("train", "--help-all").output
    assert max(map(len, text.splitlines())) <= 80
    rows = re.split(r"\n  (?=--)", text)
    for name, declared in all_options().items():
        if name != "text":
            (row,) = [row for row in rows if re.match(rf"{flag_of(name)}[ \n]", row)]
            assert "[default:" in row or declared.default is None, name
    flat = " ".join(text.split())
    words = "for corpora in words"
    arch, hidden = f"mlstm; lstm-krause for online; lstm {words}, rnn for tasks", f"128; 128 {words}, 100 for tasks"
    for part in (arch, hidden, "0.005]", "yes]", "0.7]"):
        assert f"[default: {part}" in flat
    assert "[default: 1.015 for texts, music and tasks, 1.05 for arrays; 1.15 with --preset published]" in flat


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
    heavy = ["numpy", "scipy", "rich", "pooch", "safetensors", "threadpoolctl", "tomli_w", "orjson", "numba"]
    heavy += ["requests", "cupy"]
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


def completions(*words: str) -> list[CompletionItem]:
    return ShellComplete(main, {}, "hfrnn", "_HFRNN_COMPLETE").get_completions(list(words[:-1]), words[-1])


def completed(*words: str) -> list[str]:
    return [item.value for item in completions(*words)]


def test_commands_options_and_names_are_completed() -> None:
    assert completed("tr") == ["train"]
    assert completed("train", "--arch", "ml") == ["mlstm", "mlstm-standard"]
    assert completed("train", "--data", "temp") == ["temporal-order", "temporal-order-3bit"]
    assert "ptb" in completed("train", "--data", "p")
    assert completed("train", "--optimizer", "s") == ["sgd", "soap"]
    assert completed("train", "--cg-it") == ["--cg-iterations"]
    assert completed("gradcheck", "rnn", "gr") == ["gru", "gru-torch"]
    assert completed("completion", "f") == ["fish"]


def test_only_run_folders_that_no_shell_expands_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("runs/a", "runs/b", "c", "runs/none", "[x]", "a b", "$(x)", "a\nb", "a'b", "a&b;c"):
        (tmp_path / name).mkdir(parents=True)
        if "none" not in name:
            (tmp_path / name / "config.toml").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert completed("evaluate", "") == ["c", "runs/a", "runs/b"]
    assert completed("sample", "ru") == completed("train", "--resume", "runs/") == ["runs/a", "runs/b"]


def test_files_are_left_to_the_shell() -> None:
    for words in (("train",), ("evaluate", "run"), ("train", "--config"), ("train", "--valid"), ("train", "--data")):
        (item,) = completions(*words, "bo")
        assert (item.type, item.value) == ("file", "bo")


def test_the_completion_script_of_a_shell_is_printed() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert f"_HFRNN_COMPLETE={shell}_complete" in call("completion", shell).stdout
