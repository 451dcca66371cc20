"""What people trust of a command line: configurations, refusals, help, completion, terminals and pipes."""

from __future__ import annotations

import itertools
import json
import os
import re
import struct
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from support.slow import one_in
from support.tiny_runs import FLAGS, metrics, snapshot, text_file, tiny_train

from hfrnn.cli import main
from hfrnn.cli.completion import INSTALL
from hfrnn.cli.flags import COMPLETIONS, MAIN
from hfrnn.names import DAMPINGS, OPTIMIZERS
from hfrnn.runs import needs
from hfrnn.runs.options import option_name, run_options

BRIEF = 26
"""Lines of a help text that fit on a screen."""


def call(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result


def printed(*arguments: object) -> dict[str, Any]:
    return tomllib.loads(call("train", *arguments, "--print-config").stdout)


def refused(*arguments: object) -> str:
    result = call(*arguments, code=2)
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def file(folder: Path, content: str, name: str = "c.toml") -> Path:
    (folder / name).write_text(content, encoding="utf-8")
    return folder / name


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("line")
    call("train", text_file(folder), *FLAGS, "--out", folder / "run", "--quiet")
    return folder / "run"


# ---------------------------------------------------------------------- --print-config, --config


CONFIGURATIONS: dict[str, list[str]] = {
    "nothing": [],
    "stack": ["--hidden", "7,5", "--no-direct-input", "--fractions", "0.8,0.1,0.1", "--epochs", "2"],
    "tikhonov": ["--damping", "tikhonov", "--lambda", "0.5", "--mu-growth", "0", "--gradient-symbols", "0"],
    "line-search": ["--damping", "line-search", "--updates", "3"],
    "sgd": ["--optimizer", "sgd", "--learning-rate", "0.25", "--nesterov", "--schedule", "halve"],
    "adam": ["--optimizer", "adam", "--clip-norm", "0"],
    "online": ["--optimizer", "online", "--arch", "lstm-krause"],
    "words": ["--level", "word", "--min-count", "3", "--classes", "5"],
    "task": ["--data", "addition", "--length", "30", "--arch", "clockwork", "--periods", "1,3"],
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_printed_configuration_is_read_back_as_it_was(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = call("train", *CONFIGURATIONS[name], "--print-config").stdout
    assert snapshot(tmp_path) == {}
    assert call("train", "--config", file(tmp_path, text), "--print-config").stdout == text
    for flag, value in itertools.pairwise(CONFIGURATIONS[name]):
        if flag.startswith("--") and not value.startswith("--"):
            shown = tomllib.loads(text)[flag[2:].replace("-", "_")]
            assert (",".join(map(str, shown)) if isinstance(shown, list) else type(shown)(value)) in (value, shown)


def test_a_printed_configuration_is_that_which_the_run_writes(run: Path) -> None:
    written = tomllib.loads((run / "config.toml").read_text("utf-8"))
    del written["versions"]
    assert printed(run.parent / "text.txt", *FLAGS, "--out", run.parent / "run") == written
    assert printed("--config", run / "config.toml") == written
    assert written["mu"] == 0.1


def test_the_configuration_of_a_run_that_goes_on_is_printed_with_its_changes(run: Path) -> None:
    own = printed("--config", run / "config.toml")
    before = snapshot(run)
    assert printed("--resume", run) == own
    assert printed("--resume", run, "--epochs", 9) == {
        **{key: value for key, value in own.items() if key != "updates"}, "epochs": 9,
    }  # fmt: skip
    assert "keeps its hidden" in refused("train", "--resume", run, "--hidden", 5, "--print-config")
    assert snapshot(run) == before


def test_a_printed_configuration_has_the_flags_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    found = printed("--config", file(tmp_path, 'hidden = 5\narch = "rnn"\nlambda = 0.5'), "--arch", "lstm")
    assert (found["hidden"], found["arch"], found["lambda"], found["seed"]) == ([5], "lstm", 0.5, 0)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("hiden = 3", "c.toml has an option 'hiden' that is not known: did you mean hidden?"),
        ('seed = "three"', "c.toml: seed is 'three': give a whole number, 0 or more"),
        ("bias = 1", "c.toml: bias is 1: give true or false"),
        ('hidden = ["a"]', "c.toml: hidden is 'a': give a whole number"),
        ("[optimizer]\nmu = 3", "c.toml has a table [optimizer]: write the options in it without a table"),
        ("[hidden]", "c.toml has a table [hidden]"),
        ("seed = -1", "--seed is -1"),
        ('optimizer = "magic"', "--optimizer is 'magic': use one of hf, sgd, adam, online"),
        ("seed = 1\nseed = 2", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused(content: str, sentence: str, tmp_path: Path) -> None:
    assert sentence in refused("train", "--config", file(tmp_path, content))


# ---------------------------------------------------------------------- options that would do nothing


REFUSED = {
    "--mu 1 --optimizer sgd": "--mu was given, and --optimizer is sgd: it is for --optimizer hf; leave it out",
    "--gradient-symbols 100000 --optimizer adam": "it is for --optimizer hf",  # the default, and asked for
    "--damping none --optimizer adam": "--damping was given, and --optimizer is adam",
    "--learning-rate 0.1": "--learning-rate was given, and --optimizer is hf: it is for --optimizer sgd, adam or",
    "--clip-norm 1": "--clip-norm was given, and --optimizer is hf: it is for --optimizer sgd or adam",
    "--momentum 0.5 --optimizer adam": "--momentum was given, and --optimizer is adam: it is for --optimizer sgd or",
    "--no-nesterov --optimizer adam": "--nesterov was given",
    "--validate-every 3": "--validate-every was given",
    "--max-norm 3 --optimizer online --arch lstm-krause": "--max-norm was given, and --optimizer is online",
    "--l2 0.1 --optimizer online --arch lstm-krause": "--l2 was given, and --optimizer is online",
    "--mu 1 --damping tikhonov": "--damping is tikhonov: it is for --damping structural or structural+tikhonov",
    "--metric hidden --damping none": "--metric was given, and --damping is none",
    "--lambda 1 --damping line-search": "--lambda was given, and --damping is line-search",
    "--mu-growth 2 --damping none": "--mu-growth was given",
    "--order 3 --arch lstm": "--arch is lstm: it is for --arch hornn, hornn-max, hornn-fofe or hornn-gated; leave",
    "--gradient-symbols 0 --batch-growth 1.1": "--gradient-symbols is 0: it is for batches that grow; leave it out",
    "--context 9 --arch gru": "--context was given, and --arch is gru: it is for --arch scrn; leave it out",
    "--no-learn-alpha": "--learn-alpha was given",
    "--no-direct-input --hidden 9": "--hidden asks for one layer: it is for a stack of layers",
    "--length 30": "--length was given, and the built-in corpus is a text: it is for a synthetic task; leave it out",
    "--sequences 30 --data ptb": "--sequences was given, and ptb is a text",
    "--level word --data addition": "--level was given, and addition is a synthetic task: it is for a text",
    "--sequence-length 30 --data addition": "--sequence-length was given",
    "--update-every 5 --data jsb --optimizer sgd": "--update-every was given, and jsb is music: it is for a text",
    "--sample-length 0 --data jsb": "--sample-length was given",
    "--min-count 3": "--min-count is 3, and --level is char",
}


@pytest.mark.parametrize("flags", REFUSED)
def test_an_option_that_would_do_nothing_is_refused(
    flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert REFUSED[flags] in refused("train", *flags.split())
    assert REFUSED[flags] in refused("train", *flags.split(), "--print-config")
    assert snapshot(tmp_path) == {}


def test_epochs_and_patience_are_of_use_to_every_optimizer() -> None:
    for optimizer in OPTIMIZERS:
        found = printed("--optimizer", optimizer, "--epochs", 2, "--patience", 3)
        assert (found["epochs"], found["patience"]) == (2, 3)


def test_the_table_of_uses_names_options_that_exist() -> None:
    for need in (each for each in vars(needs).values() if isinstance(each, needs.Need)):
        (choices,) = [declared.choices for name, declared in run_options().items() if name == need.option]
        assert set(need.allowed) <= set(choices) or not choices
        assert any(need in declared.needs for declared in run_options().values())
    assert set(COMPLETIONS) <= set(run_options())


@pytest.mark.parametrize("own", OPTIMIZERS)
@pytest.mark.parametrize("other", OPTIMIZERS)
def test_a_full_configuration_is_that_of_another_optimizer_with_it_on_top(own: str, other: str, tmp_path: Path) -> None:
    path = file(tmp_path, call("train", "--optimizer", own, "--print-config").stdout)
    assert printed("--config", path, "--optimizer", other) == printed("--optimizer", other)


def test_a_full_configuration_is_that_of_another_damping_with_it_on_top(tmp_path: Path) -> None:
    for own, other in itertools.permutations(DAMPINGS, 2):
        path = file(tmp_path, call("train", "--damping", own, "--print-config").stdout)
        assert printed("--config", path, "--damping", other) == printed("--damping", other)


def test_a_flag_supersedes_what_was_for_another_choice(tmp_path: Path) -> None:
    def over(content: str, *flags: object) -> dict[str, Any]:
        return printed("--config", file(tmp_path, content), *flags)

    assert "mu" not in over("mu = 0.3", "--optimizer", "sgd")
    assert "order" not in over('arch = "hornn"\norder = 7', "--arch", "lstm")
    assert over('arch = "hornn"\norder = 7', "--arch", "hornn-max")["order"] == 7
    assert over('arch = "hornn-fofe"\nalpha = 0.6', "--arch", "scrn")["alpha"] == 0.95
    assert over('level = "word"\nmin_count = 7', "--level", "char").get("min_count") is None
    text = text_file(tmp_path)
    found = over('data = "addition"\nlength = 30', text)
    assert (found["text"], found.get("data"), found["length"]) == (str(text), None, 100)
    found = over('optimizer = "sgd"\nlearning_rate = 0.3', "--optimizer", "adam")
    assert (found["learning_rate"], found["momentum"]) == (0.3, 0.0)  # what was chosen and is of use stays


def test_what_does_nothing_in_a_file_already_is_refused(tmp_path: Path) -> None:
    path = file(tmp_path, 'optimizer = "sgd"\nmu = 0.3')
    sentence = f"{path} gives mu, and --optimizer is sgd: it is for --optimizer hf; leave it out"
    assert sentence in refused("train", "--config", path)
    assert sentence in refused("train", "--config", path, "--optimizer", "adam")
    assert printed("--config", path, "--optimizer", "hf")["mu"] == 0.3


def test_a_file_that_a_run_wrote_is_taken_with_all_that_is_in_it(tmp_path: Path) -> None:
    tiny_train(tmp_path, optimizer="sgd", streams=4)  # with a size of HF's batches, which SGD has no use for
    assert "gradient_symbols = 300" in (tmp_path / "run" / "config.toml").read_text("utf-8")
    assert printed("--config", tmp_path / "run" / "config.toml")["gradient_symbols"] == 100_000


# ---------------------------------------------------------------------- messages and nearest names


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--warm-start 2", "--warm-start is 2: give a number from 0 to 1"),
        ("--mu-growth 0.5", "--mu-growth is 0.5: give a number above 1, or 0 to turn it off"),
        ("--mu -1", "--mu is -1.0, expected a number from 1e-08"),
        ("--lambda -1", "--lambda is -1.0, expected a number from 1e-08"),
        ("--l2 -1", "--l2 is -1: give a number, 0 or more"),
        ("--optimizer online --arch lstm-krause --nesterov", "--nesterov was asked for and momentum is 0"),
        ("--alpha 2 --arch scrn", "--alpha is 2: give a number from 0 to 1"),
    ],
)
def test_messages_name_the_flags(flags: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"Error: {sentence}" in refused("train", *flags.split(), "--dry-run")


@pytest.mark.parametrize(
    ("command", "near"),
    [
        ("trian", "Did you mean 'train'?"),
        ("train --hiden 3", "'--hidden'"),
        ("train --optimizer adm", "Did you mean 'adam'?"),
        ("train --damping tikonov", "Did you mean 'tikhonov'?"),
        ("train --arch msltm", "architecture 'msltm' is not known (did you mean mlstm?): use one of rnn, "),
        ("train --data tinyshakespere", "no corpus named 'tinyshakespere' (did you mean tinyshakespeare?)"),
        ("train --data additon", "(did you mean addition?)"),
        ("train ptb", "there is no file ptb: for the data of that name write --data ptb"),
        ("train --data book.txt", "no corpus named 'book.txt', but a file: to train on it leave out --data"),
        ("gradcheck rn", "architecture 'rn' is not known (did you mean rnn?)"),
        ("completion bsh", "bash"),
        ("evaluate run --part tst", "Did you mean 'test'?"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(
    command: str, near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text_file(tmp_path, name="book.txt")
    assert near in refused(*command.split())


def test_what_is_like_nothing_gets_no_hint() -> None:
    assert refused("zzz") == "Error: No such command 'zzz'."
    assert "did you mean" not in refused("train", "--arch", "zzz")


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
    modes = ("--dry-run", "--print-config", "--quiet", "--json", "--profile")
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
    assert {line.split()[0] for line in text.splitlines() if line.startswith("  --")} == set(map(option_name, MAIN))
    assert "--cg-iterations" not in text
    for default in ("[default: mlstm]", "[default: 96]", "[default: char]"):
        assert default in text
    everything = call("train", "--help-all").stdout
    assert max(map(len, everything.splitlines())) <= 80
    assert all(option_name(name) in everything for name in MAIN)
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
    assert completed("train", "--optimizer", "s") == ["sgd"]
    assert completed("train", "--cg-it") == ["--cg-iterations"]
    assert completed("gradcheck", "rnn", "gr") == ["gru"]
    assert completed("completion", "f") == ["fish"]


def test_run_folders_are_completed(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("runs/a", "runs/b", "c", "runs/none", "[x]"):
        (tmp_path / name).mkdir(parents=True)
        if "none" not in name:
            (tmp_path / name / "config.toml").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert completed("evaluate", "") == ["[x]", "c", "runs/a", "runs/b"]
    assert completed("sample", "ru") == completed("train", "--resume", "runs/") == ["runs/a", "runs/b"]
    assert completed("sample", "[x]") == ["[x]"]


def test_files_are_left_to_the_shell() -> None:
    for words in (("train", "bo"), ("evaluate", "run", "bo"), ("train", "--config", "bo"), ("train", "--valid", "bo")):
        (item,) = ShellComplete(main, {}, "hfrnn", "_HFRNN_COMPLETE").get_completions(list(words[:-1]), "bo")
        assert (item.type, item.value) == ("file", "bo")


@pytest.mark.parametrize("shell", INSTALL)
def test_a_completion_script_says_first_how_to_install_it(shell: str) -> None:
    lines = call("completion", shell).stdout.splitlines()
    if shell == "zsh":
        assert lines.pop(0) == "#compdef hfrnn"
    assert lines[0].startswith(f"# To install this completion of hfrnn for {shell}, put this line into ~/.")
    assert lines[1] == f"#   {INSTALL[shell][0]}"
    assert "_HFRNN_COMPLETE" in "\n".join(lines[2:])
    assert "_hfrnn_completion" in "\n".join(lines[2:])


# ---------------------------------------------------------------------- terminals and pipes


COMMAND = [sys.executable, "-m", "hfrnn"]
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def on_terminal(arguments: list[object], **environment: str) -> bytes:
    """What a terminal of 80 columns gets."""
    fcntl, pty, termios = (pytest.importorskip(name, exc_type=ImportError) for name in ("fcntl", "pty", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    names = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    started = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**names, "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(theirs)
    out = b""
    try:
        while part := os.read(ours, 65536):
            out += part
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(ours)
    assert started.wait(timeout=60) == 0, out
    return out


def test_a_terminal_of_80_columns_is_never_overrun(tmp_path: Path) -> None:
    out = on_terminal(["train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "r", "--sample-length", 0])
    assert b"\x1b[2K" in out  # the live line
    assert out.rindex(b"\x1b[?25h") > out.rindex(b"\x1b[?25l")  # the cursor is back
    frames = [frame.decode() for frame in re.split(rb"[\r\n]+", ESCAPE.sub(b"\r", out))]
    assert max(len(frame) for frame in frames if str(tmp_path) not in frame) <= 80
    assert sum(frame.startswith("update     time") for frame in frames) == 1
    assert sum(bool(re.match(r" {5}[12] +0:0\d", frame)) for frame in frames) == 2


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
    assert err == b""
    assert started.returncode == 1


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
