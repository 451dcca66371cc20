"""What people trust of a command line: configurations, refusals, help, completion, terminals and pipes."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.command_line import all_values, call, file, printed, refused
from support.tiny_runs import FLAGS, snapshot, text_file, tiny_train

import hfrnn
from hfrnn.choices import DAMPINGS, OPTIMIZERS
from hfrnn.cli.flags import COMPLETIONS
from hfrnn.runs.options import run_options

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
    "table": ["--data", "r.csv", "--inputs", "u,2", "--targets", "y", "--window", "50", "--burn-in", "5"],
    "arrays": ["--data", "r.npz", "--standardize", "--loss", "squared", "--fractions", "0.8,0.2,0.0"],
    "matlab": ["--data", "x.mat", "--time-first"],
    "midi": ["--data", "tunes/", "--steps-per-beat", "2", "--fractions", "0.8,0.1,0.1"],
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
    assert printed("--resume", run, "--epochs", 9) == {
        **{key: value for key, value in own.items() if key != "updates"}, "epochs": 9,
    }  # fmt: skip
    assert "keeps its --hidden" in refused("train", "--resume", run, "--hidden", 5, "--print-config")
    assert snapshot(run) == before


def test_a_printed_configuration_has_the_flags_over_the_file_over_the_defaults(tmp_path: Path) -> None:
    found = printed("--config", file(tmp_path, 'hidden = 5\narch = "rnn"\nlambda = 0.5'), "--arch", "lstm")
    assert (found["hidden"], found["arch"], found["lambda"], found["seed"]) == ([5], "lstm", 0.5, 0)


def test_a_flag_replaces_its_counterpart_in_a_file(tmp_path: Path) -> None:
    path = file(tmp_path, "curvature_symbols = 500\ndensity = 0.5")
    assert printed("--config", path)["curvature_symbols"] == 500
    found = printed("--config", path, "--curvature-fraction", 0.4, "--connectivity", tmp_path / "c.npz")
    assert (found["curvature_fraction"], found["connectivity"]) == (0.4, str(tmp_path / "c.npz"))
    assert not {"curvature_symbols", "density"} & found.keys()
    path = file(tmp_path, "curvature_fraction = 0.5")
    assert printed("--config", path, "--curvature-symbols", 500)["curvature_symbols"] == 500
    with pytest.raises(hfrnn.InputError, match=r"^curvature_fraction= is 0\.5, and curvature_symbols= is 500: give"):
        hfrnn.TrainConfig(curvature_fraction=0.5, curvature_symbols=500)


def test_data_with_their_own_targets_replace_those_of_a_table(tmp_path: Path) -> None:
    path = file(tmp_path, 'data = "a.csv"\ninputs = ["a"]\ntargets = ["b"]\nwindow = 40')
    found = printed("--config", path, "--data", "addition")
    assert not {"inputs", "targets"} & found.keys()
    found = printed("--config", path, "--data", tmp_path / "b.npz")
    assert (found["window"], found["inputs"], found["targets"]) == (40, ["a"], ["b"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("hiden = 3", "c.toml has an option 'hiden' that is not known (did you mean hidden?)"),
        ('seed = "three"', "seed in c.toml is 'three': give a whole number, 0 or more"),
        ("bias = 1", "bias in c.toml is 1: give true or false"),
        ('hidden = ["a"]', "hidden in c.toml is 'a': give a whole number"),
        ("[optimizer]\nmu = 3", "c.toml has a table [optimizer]: write the options in it without a table"),
        ("[hidden]", "c.toml has a table [hidden]"),
        ("seed = -1", "seed in c.toml is -1: give a whole number, 0 or more"),
        ('optimizer = "magic"', "optimizer in c.toml is 'magic': use one of hf, sgd, adam, soap, muon, online"),
        ('dtype = "float16"', "dtype in c.toml is 'float16': use one of float32, float64"),
        ('arch = "scrn"\nalpha = 2', "alpha in c.toml is 2: give a number from 0 to 1"),
        ("seed = 1\nseed = 2", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused(content: str, sentence: str, tmp_path: Path) -> None:
    path = file(tmp_path, content)
    assert sentence in refused("train", "--config", path).replace(str(path), "c.toml")


def test_a_wrong_value_in_a_file_is_refused_also_where_a_flag_replaces_it(tmp_path: Path) -> None:
    path = file(tmp_path, "seed = -1")
    assert f"seed in {path} is -1" in refused("train", "--config", path, "--seed", 3)


@pytest.mark.parametrize(
    ("content", "flags", "sentence"),
    [
        ("mu = -1", "", "mu in c.toml is -1: give a number from 1e-08"),
        ("lambda = -1", "", "lambda in c.toml is -1: give a number from 1e-08"),
        ("hidden = [0]", "", "hidden in c.toml is 0: give a whole number of units"),
        ('memory = "x"', "", "memory in c.toml is 'x': give a number of bytes"),
        ("alpha = 2", "--arch scrn", "alpha in c.toml is 2: give a number from 0 to 1"),
        ("rho_high = 0.4", "", "Error: --rho-low is 0.5, and rho_high in c.toml is 0.4: give a --rho-low"),
        ("rho_low = 2.5\nrho_high = 2", "", "rho_low in c.toml is 2.5, and rho_high is 2: give a rho_low"),
        ("excitatory_output = true", "", "excitatory_output = true in c.toml was given, and --excitatory was not"),
        ('optimizer = "hf"', "--learning-rate 1", "--learning-rate was given, and optimizer in c.toml is hf: it is"),
        ("mu = 1", "--mu -1", "Error: --mu is -1"),
    ],
)
def test_a_message_about_an_option_of_a_file_names_the_file(
    content: str, flags: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, content)
    assert sentence in refused("train", text_file(tmp_path), "--config", "c.toml", "--dry-run", *flags.split())


@pytest.mark.parametrize(
    ("content", "flags"),
    [
        ("min_count = 3", "--level word"),
        ("max_vocabulary = 100", "--level word"),
        ("excitatory_output = true", "--arch rnn --excitatory 0.8"),
        ("rho_low = 1.5", "--rho-high 2"),
        ("rho_high = 0.4", "--rho-low 0.2"),
    ],
)
def test_options_in_a_file_may_need_flags(content: str, flags: str, tmp_path: Path) -> None:
    found = printed("--config", file(tmp_path, content), *flags.split())
    assert tomllib.loads(content).items() <= found.items()
    name = content.partition(" ")[0]
    assert name.split("_")[0] in refused("train", "--config", tmp_path / "c.toml", "--print-config")


# ---------------------------------------------------------------------- options that would do nothing


REFUSED = {
    "--mu 1 --optimizer sgd": "--mu was given, and --optimizer is sgd: it is for --optimizer hf; leave it out",
    "--gradient-symbols 100000 --optimizer adam": "it is for --optimizer hf",  # the default, and asked for
    "--damping none --optimizer adam": "--damping was given, and --optimizer is adam",
    "--learning-rate 0.1": "--learning-rate was given, and --optimizer is hf: it is for --optimizer sgd, adam, soap,",
    "--clip-norm 1": "--clip-norm was given, and --optimizer is hf: it is for --optimizer sgd, adam, soap or",
    "--clip-error 5": "--clip-error was given, and --optimizer is hf: it is for --optimizer sgd, adam, soap or muon",
    "--max-norm 3": "--max-norm was given, and --optimizer is hf: it is for --optimizer sgd, adam, soap or muon",
    "--momentum 0.5 --optimizer adam": "--momentum was given, and --optimizer is adam: it is for --optimizer sgd or",
    "--no-nesterov --optimizer adam": "Error: --no-nesterov was given",
    "--max-norm 3 --optimizer online --arch lstm-krause": "--max-norm was given, and --optimizer is online",
    "--l2 0.1 --optimizer online --arch lstm-krause": "--l2 was given, and --optimizer is online",
    "--mu 1 --damping tikhonov": "--damping is tikhonov: it is for --damping structural or structural+tikhonov",
    "--metric hidden --damping none": "--metric was given, and --damping is none",
    "--lambda 1 --damping line-search": "--lambda was given, and --damping is line-search",
    "--mu-growth 2 --damping none": "--mu-growth was given",
    "--order 3 --arch lstm": "--arch is lstm: it is for --arch hornn, hornn-max, hornn-fofe, hornn-gated or fnn; leave",
    "--gradient-symbols 0 --batch-growth 1.1": "--gradient-symbols is 0: it is for batches that grow; leave it out",
    "--context 9 --arch gru": "--context was given, and --arch is gru: it is for --arch scrn; leave it out",
    "--no-learn-alpha": "Error: --no-learn-alpha was given",
    "--no-direct-input --hidden 9": "--no-direct-input was given, and --hidden asks for one layer: it is for a stack",
    "--length 30": "--length was given, and the built-in corpus is a text: it is for a synthetic task; leave it out",
    "--sequences 30 --data ptb": "--sequences was given, and ptb is a text",
    "--level word --data addition": "--level was given, and addition is a synthetic task: it is for a text",
    "--sequence-length 30 --data addition": "--sequence-length was given",
    "--update-every 5 --data jsb --optimizer sgd": "--update-every was given, and jsb is music: it is for a text",
    "--sample-length 0 --data jsb": "--sample-length was given",
    "--min-count 3": "--min-count was given, and --level is char: it is for --level word",
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
    for need in (need for declared in run_options().values() for need in declared.needs):
        choices = run_options()[need.option].choices
        assert set(need.allowed) <= set(choices) or not choices
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
    assert over('arch = "hornn-fofe"\nalpha = 0.6', "--arch", "scrn")["alpha"] == 0.6
    assert over('level = "word"\nmin_count = 7', "--level", "char").get("min_count") is None
    text = text_file(tmp_path)
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


@pytest.mark.parametrize(
    ("content", "flags", "why"),
    [
        ("periods = [1, 2]", "--arch rnn", "--arch is rnn"),
        ("ahead = 1", "--data a.npz", "a.npz is an array file"),
        ("length = 50", "book.txt", "book.txt is a text"),
    ],
)
def test_a_useless_option_in_a_file_is_refused_for_what_the_run_has(
    content: str, flags: str, why: str, tmp_path: Path
) -> None:
    found = refused("train", "--config", file(tmp_path, content), *flags.split())
    assert f"{content.partition(' ')[0]} in {tmp_path / 'c.toml'} was given, and {why}: it is for " in found


def test_what_followed_in_the_file_of_a_run_is_not_taken_for_other_data(tmp_path: Path) -> None:
    tiny_train(tmp_path, optimizer="sgd", streams=4)
    path = tmp_path / "run" / "config.toml"
    assert 'schedule = "divide"' in path.read_text("utf-8").partition("[followed]")[2]
    assert "schedule" not in printed("--config", path, "--data", "addition", "--arch", "rnn")
    found = printed("--config", path, "--optimizer", "online", "--arch", "lstm-krause")
    assert found["schedule"] == "constant"
    for chosen in ("constant", "cosine", "halve"):
        path = file(tmp_path, f'optimizer = "adam"\nschedule = "{chosen}"')
        assert printed("--config", path)["schedule"] == chosen


def test_an_option_of_a_schedule_is_refused_where_none_is_chosen(tmp_path: Path) -> None:
    found = refused("train", text_file(tmp_path), "--optimizer", "sgd", "--constant-epochs", 3)
    assert "--constant-epochs was given, and --schedule was not: it is for --schedule text8; leave it out" in found


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--data a.csv --data b.csv", "--data was given 2 times: give it once; several recordings go into one .npz"),
        ("--inputs u --data a.csv --inputs=v --inputs w", "Error: --inputs was given 3 times: give it once"),
        ("--config a.toml --config b.toml", "Error: --config was given 2 times: give it once"),
    ],
)
def test_data_and_files_are_given_once(flags: str, sentence: str) -> None:
    assert sentence in refused("train", *flags.split())
    assert printed("--seed", 1, "--seed", 2)["seed"] == 2


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("--data a.csv b.csv --inputs u", "--data is a.csv, and b.csv was given too"),
        ("a.csv --data b.csv c.csv", "--data is b.csv, and a.csv was given too"),
        ("--data a.csv,b.csv --inputs u", "--data is a.csv,b.csv, and there is no file of that name"),
        ("--data r/*.npz", "--data is r/*.npz, and there is no file of that name"),
        ("--data tables --inputs u", "tables is a folder, which is read as MIDI music, and has no files that end in"),
        ("--data tables --config c.toml", "tables is a folder, which is read as MIDI music"),
    ],
)
def test_several_files_of_data_are_answered_with_what_to_do(
    given: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    file(tmp_path, "u,y", "tables/a.csv")
    file(tmp_path, 'inputs = "u"')
    found = refused("train", *given.split())
    assert problem in found
    assert found.endswith("; several recordings go into one .npz file, padded to one length, with their lengths")


# ---------------------------------------------------------------------- messages and nearest names


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--warm-start 2", "--warm-start is 2: give a number from 0 to 1"),
        ("--mu-growth 0.5", "--mu-growth is 0.5: give a number above 1, or 0 to turn it off"),
        ("--mu -1", "--mu is -1: give a number from 1e-08"),
        ("--lambda -1", "--lambda is -1: give a number from 1e-08"),
        ("--l2 -1", "--l2 is -1: give a number, 0 or more"),
        ("--optimizer online --arch lstm-krause --nesterov", "--nesterov was asked for and --momentum is 0"),
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
