"""The options of `hfrnn train` from flags and files: configurations, refusals and nearest names."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.command_line import all_values, call, file, printed, refused
from support.tiny_runs import FLAGS, snapshot, text_file

import hfrnn
from hfrnn.choices import DAMPINGS, OPTIMIZERS
from hfrnn.cli.flags import COMPLETIONS
from hfrnn.runs.options import run_options

CONFIGURATIONS: dict[str, list[str]] = {
    "nothing": [],
    "stack": ["--hidden", "7,5", "--no-direct-input", "--bias", "--fractions", "0.8,0.1,0.1", "--epochs", "2"],
    "tikhonov": ["--damping", "tikhonov", "--lambda", "0.5", "--mu-growth", "0", "--gradient-symbols", "0"],
    "line-search": ["--damping", "line-search", "--updates", "3"],
    "sgd": ["--optimizer", "sgd", "--learning-rate", "0.25", "--momentum", "0.5", "--nesterov", "--schedule", "halve",
            "--clip-value", "0.5", "--max-norm", "3.0", "--streams", "8", "--update-every", "5", "--log-interval", "7"],
    "adam": ["--optimizer", "adam", "--clip-norm", "0"],
    "online": ["--optimizer", "online", "--arch", "lstm-krause"],
    "words": ["--level", "word", "--min-count", "3", "--classes", "5"],
    "table": ["--data", "r.csv", "--inputs", "u,2", "--targets", "y", "--window", "50", "--burn-in", "5"],
    "arrays": ["--data", "r.npz", "--standardize", "--loss", "squared", "--fractions", "0.8,0.2,0.0"],
    "matlab": ["--data", "x.mat", "--time-first"],
    "midi": ["--data", "tunes/", "--steps-per-beat", "2", "--fractions", "0.8,0.1,0.1"],
    "task": ["--data", "addition", "--length", "30", "--arch", "clockwork", "--periods", "1,3"],
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_printed_configuration_is_read_back_as_it_was(name, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = call("train", *CONFIGURATIONS[name], "--print-config").stdout
    assert snapshot(tmp_path) == {}
    assert call("train", "--config", file(tmp_path, text), "--print-config").stdout == text
    for flag, value in itertools.pairwise(CONFIGURATIONS[name]):
        if flag.startswith("--") and not value.startswith("--"):
            shown = tomllib.loads(text)[flag[2:].replace("-", "_")]  # what was given stands at the top
            assert (",".join(map(str, shown)) if isinstance(shown, list) else type(shown)(value)) in (value, shown)


def test_a_printed_configuration_is_that_which_the_run_writes(run: Path) -> None:
    written = all_values((run / "config.toml").read_text("utf-8"))
    assert printed(run.parent / "text.txt", *FLAGS, "--out", run.parent / "run") == written
    assert printed("--config", run / "config.toml") == written
    assert written["mu"] == 0.1


def test_the_configuration_of_a_run_that_goes_on_is_printed_with_its_changes(run: Path) -> None:
    own = printed("--config", run / "config.toml")
    before = snapshot(run)
    assert printed("--resume", run) == own
    del own["updates"]
    assert printed("--resume", run, "--epochs", 9) == {**own, "epochs": 9}
    assert "keeps its --hidden" in refused("train", "--resume", run, "--hidden", 5, "--print-config")
    assert snapshot(run) == before


def test_a_flag_replaces_its_counterpart_in_a_file(tmp_path: Path) -> None:
    found = printed("--config", file(tmp_path, 'hidden = 5\narch = "rnn"\nlambda = 0.5'), "--arch", "lstm")
    assert (found["hidden"], found["arch"], found["lambda"], found["seed"]) == ([5], "lstm", 0.5, 0)
    path = file(tmp_path, "curvature_symbols = 500\ndensity = 0.5")
    assert printed("--config", path)["curvature_symbols"] == 500
    found = printed("--config", path, "--curvature-fraction", 0.4, "--connectivity", tmp_path / "c.npz")
    assert (found["curvature_fraction"], found["connectivity"]) == (0.4, str(tmp_path / "c.npz"))
    assert not {"curvature_symbols", "density"} & found.keys()
    path = file(tmp_path, "curvature_fraction = 0.5")
    assert printed("--config", path, "--curvature-symbols", 500)["curvature_symbols"] == 500
    with pytest.raises(hfrnn.InputError, match=r"^curvature_fraction= is 0\.5, and curvature_symbols= is 500: give"):
        hfrnn.TrainConfig(curvature_fraction=0.5, curvature_symbols=500)


WRONG = [
    ("hiden = 3", "", "c.toml has an option 'hiden' that is not known (did you mean hidden?)"),
    ("bias = 1", "", "bias in c.toml is 1: give true or false"),
    ("seed = -1", "--seed 3", "seed in c.toml is -1: give a whole number, 0 or more"),  # also where a flag replaces it
    ("[optimizer]\nmu = 3", "", "c.toml has a table [optimizer]: write the options in it without a table"),
    ("[hidden]", "", "c.toml has a table [hidden]"),
    ("seed = 1\nseed = 2", "", "is not TOML"),
    ("lambda = -1", "", "lambda in c.toml is -1: give a number from 1e-08"),
    ('memory = "x"', "", "memory in c.toml is 'x': give a number of bytes"),
    ("alpha = 2", "--arch scrn", "alpha in c.toml is 2: give a number from 0 to 1"),
    ("rho_high = 0.4", "", "Error: --rho-low is 0.5, and rho_high in c.toml is 0.4: give a --rho-low"),
    ("rho_low = 2.5\nrho_high = 2", "", "rho_low in c.toml is 2.5, and rho_high is 2: give a rho_low"),
    ("excitatory_output = true", "", "excitatory_output = true in c.toml was given, and --excitatory was not"),
    ('optimizer = "hf"', "--learning-rate 1", "--learning-rate was given, and optimizer in c.toml is hf: it is"),
    ("mu = 1", "--mu -1", "Error: --mu is -1"),
    ("periods = [1, 2]", "--arch rnn", "periods in c.toml was given, and --arch is rnn: it is for "),
    ("length = 50", "book.txt", "length in c.toml was given, and book.txt is a text: it is for "),
]


def test_a_message_about_an_option_of_a_file_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text_file(tmp_path, name="book.txt")
    for content, flags, sentence in WRONG:
        file(tmp_path, content)
        assert sentence in refused("train", "--config", "c.toml", "--dry-run", *flags.split())


def test_options_in_a_file_may_need_flags(tmp_path: Path) -> None:
    for content, flags in (("min_count = 3", "--level word"), ("rho_low = 1.5", "--rho-high 2")):
        found = printed("--config", file(tmp_path, content), *flags.split())
        assert tomllib.loads(content).items() <= found.items()
        assert content[:3] in refused("train", "--config", tmp_path / "c.toml", "--print-config")


REFUSED = {
    "--mu 1 --optimizer sgd": "--mu was given, and --optimizer is sgd: it is for --optimizer hf; leave it out",
    "--gradient-symbols 100000 --optimizer adam": "it is for --optimizer hf",  # the default, and asked for
    "--learning-rate 0.1": "--learning-rate was given, and --optimizer is hf: it is for --optimizer sgd, adam, soap,",
    "--no-nesterov --optimizer adam": "Error: --no-nesterov was given",
    "--l2 0.1 --optimizer online --arch lstm-krause": "--l2 was given, and --optimizer is online",
    "--mu 1 --damping tikhonov": "--damping is tikhonov: it is for --damping structural or structural+tikhonov",
    "--optimizer sgd --constant-epochs 3": "was given, and --schedule was not: it is for --schedule text8; leave it",
    "--order 3 --arch lstm": "--arch is lstm: it is for --arch hornn, hornn-max, hornn-fofe, hornn-gated or fnn; leave",
    "--gradient-symbols 0 --batch-growth 1.1": "--gradient-symbols is 0: it is for batches that grow; leave it out",
    "--no-direct-input --hidden 9": "--no-direct-input was given, and --hidden asks for one layer: it is for a stack",
    "--length 30": "--length was given, and the built-in corpus is a text: it is for a synthetic task; leave it out",
    "--sequences 30 --data ptb": "--sequences was given, and ptb is a text",
    "--level word --data addition": "--level was given, and addition is a synthetic task: it is for a text",
    "--update-every 5 --data jsb --optimizer sgd": "--update-every was given, and jsb is music: it is for a text",
    "--min-count 3": "--min-count was given, and --level is char: it is for --level word",
}


def test_an_option_that_would_do_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for flags, sentence in REFUSED.items():
        for mode in ([], ["--print-config"]):
            assert sentence in refused("train", *flags.split(), *mode), flags
    assert snapshot(tmp_path) == {}


def test_the_table_of_uses_names_options_that_exist() -> None:
    for need in (need for declared in run_options().values() for need in declared.needs):
        choices = run_options()[need.option].choices
        assert set(need.allowed) <= set(choices) or not choices
    assert set(COMPLETIONS) <= set(run_options())


@pytest.mark.parametrize(("flag", "choices"), [("--optimizer", OPTIMIZERS), ("--damping", DAMPINGS)])
def test_a_full_configuration_is_that_of_another_choice_with_it_on_top(flag, choices, tmp_path) -> None:
    every = {choice: call("train", flag, choice, "--print-config").stdout for choice in choices}
    for own, other in itertools.permutations(choices, 2):
        assert printed("--config", file(tmp_path, every[own]), flag, other) == all_values(every[other]), (own, other)


def test_a_flag_supersedes_what_was_for_another_choice(tmp_path: Path) -> None:
    def over(content: str, *flags: object) -> dict[str, Any]:
        return printed("--config", file(tmp_path, content), *flags)

    assert "mu" not in over("mu = 0.3", "--optimizer", "sgd")
    assert "order" not in over('arch = "hornn"\norder = 7', "--arch", "lstm")
    assert over('arch = "hornn"\norder = 7', "--arch", "hornn-max")["order"] == 7
    assert over('arch = "hornn-fofe"\nalpha = 0.6', "--arch", "scrn")["alpha"] == 0.6
    assert over('level = "word"\nmin_count = 7', "--level", "char").get("min_count") is None
    text = text_file(tmp_path)
    table = 'data = "a.csv"\ninputs = ["a"]\ntargets = ["b"]\nwindow = 40'
    assert not {"inputs", "targets"} & over(table, "--data", "addition").keys()
    found = over(table, "--data", tmp_path / "b.npz")
    assert (found["window"], found["inputs"], found["targets"]) == (40, ["a"], ["b"])
    found = over('data = "addition"\nlength = 30', text)
    assert (found["text"], {"data", "length"} & found.keys()) == (str(text), set())
    found = over('optimizer = "sgd"\nlearning_rate = 0.3', "--optimizer", "adam")
    assert (found["learning_rate"], "momentum" in found) == (0.3, False)  # what was chosen and is of use stays


def test_what_does_nothing_in_a_file_already_is_refused(tmp_path: Path) -> None:
    path = file(tmp_path, 'optimizer = "sgd"\nmu = 0.3')
    for flags, other in (((), "optimizer is sgd"), (("--optimizer", "adam"), "--optimizer is adam")):
        sentence = f"mu in {path} was given, and {other}: it is for"
        assert sentence in refused("train", "--config", path, *flags)
    assert printed("--config", path, "--optimizer", "hf")["mu"] == 0.3


def test_data_and_files_are_given_once() -> None:
    assert "--inputs was given 3 times: give it once" in refused("train", *["--inputs=u"] * 3, "--data", "a.csv")
    assert printed("--seed", 1, "--seed", 2)["seed"] == 2


SEVERAL = {
    "--data a.npz b.npz": "there is no file",
    "--data a.csv --data b.npz": "--data names a.csv, which is a table, and b.npz",
    "--data r/*.csv --inputs u --targets y": "--data is r/*.csv, and there is no such table: give another pattern",
    "--data empty --inputs u": "empty is a folder, which is read as MIDI music, and has no files that end in",
}


def test_several_files_of_data_are_answered_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for given, problem in SEVERAL.items():
        assert problem in refused("train", *given.split())


NEAR = {
    "trian": "Did you mean 'train'?",
    "train --hiden 3": "--hidden",
    "train --optimizer adm": "Did you mean 'adam'?",
    "train --arch msltm": "architecture 'msltm' is not known (did you mean mlstm?): use one of rnn, ",
    "train --data tinyshakespere": "no corpus named 'tinyshakespere' (did you mean tinyshakespeare?)",
    "train --data additon": "(did you mean addition?)",
    "train ptb": "there is no file ptb: for the data of that name write --data ptb",
    "train --data book.txt": "book.txt: to train on its text leave out --data",
    "gradcheck rn": "architecture 'rn' is not known (did you mean rnn?)",
}


def test_a_mistyped_name_is_answered_with_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text_file(tmp_path, name="book.txt")
    for command, near in NEAR.items():
        assert near in refused(*command.split()), command
    assert refused("zzz") == "Error: No such command 'zzz'."
    assert "did you mean" not in refused("train", "--arch", "zzz")
