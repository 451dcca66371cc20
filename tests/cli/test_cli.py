"""The command line: what it prints, the files it makes, its exit codes, and signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.command_line import call
from support.music_files import stored
from support.tiny_runs import FLAGS, TEXT, metrics, snapshot, text_file

import hfrnn
from hfrnn.cli import main
from hfrnn.cli.arguments import flag_of
from hfrnn.kernels import architectures
from hfrnn.runs.config import all_options
from hfrnn.wording import four_digits

# ---------------------------------------------------------------------- train


def test_train_prints_a_table_a_result_and_a_sample(tmp_path: Path) -> None:
    out = call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run", "--sample-length", 40).stdout
    assert out.startswith("network   mlstm 4, ")
    assert re.search(r"^ {5}2 +0:", out, re.MULTILINE)
    assert "stopped by updates after 2 updates" in out
    assert f"run folder: {tmp_path / 'run'}" in out
    assert len(out.split("\nsample:\n")[1].removesuffix("\n")) == 40


def test_no_sample_is_drawn_for_length_zero(tmp_path: Path) -> None:
    out = call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run", "--sample-length", 0).stdout
    assert "sample:" not in out


def test_without_a_text_the_built_in_corpus_is_taken(tmp_path: Path) -> None:
    out = call("train", *FLAGS[:-2], "--gradient-symbols", 100, "--updates", 1, "--out", tmp_path / "run").stdout
    assert "text      python-manual: " in out
    assert 'data = "python-manual"' in (tmp_path / "run" / "config.toml").read_text()


def test_every_option_has_its_default_in_the_help() -> None:
    text = call("train", "--help-all").output
    for name in all_options():
        if name != "text":
            assert flag_of(name) in text
    rows = re.split(r"\n  (?=--)", text)
    for name, declared in all_options().items():
        (row,) = [row for row in rows if re.match(rf"{flag_of(name)}[ \n]", row)] or [None]
        assert name == "text" or "[default:" in row or declared.default is None, name
    flat = " ".join(text.split())
    words = "for corpora in words"
    for part in (f"mlstm; lstm {words}, rnn for tasks", f"128; 128 {words}, 100 for tasks", "0.005]", "yes]", "0.7]"):
        assert f"[default: {part}" in flat
    assert "[default: 1.015 for texts, music and tasks, 1.05 for arrays; 1.15 with --preset published]" in flat
    assert [line for line in text.splitlines() if re.fullmatch(r"[A-Z]\w+:", line)][-5:] == [
        "General:", "Data:", "Network:", "Optimizer:", "Running:",
    ]  # fmt: skip
    assert max(map(len, text.splitlines())) <= 80


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('hidden = [3, 2]\nsequence-length = 10\narch = "rnn"\nupdates = 1\ndata = "python-manual"\n')
    call("train", text_file(tmp_path), "--config", file, "--arch", "lstm", "--out", tmp_path / "run")
    config = hfrnn.runs.folder.RunFolder(tmp_path / "run").config()
    assert (config.arch, config.hidden, config.data, config.sequence_length) == ("lstm", (3, 2), None, 10)


def test_a_run_s_own_configuration_makes_the_same_run_again(run: Path, tmp_path: Path) -> None:
    call("train", "--config", run / "config.toml", "--out", tmp_path / "again")
    np.testing.assert_array_equal(hfrnn.load(run).theta, hfrnn.load(tmp_path / "again").theta)
    assert metrics(run) == metrics(tmp_path / "again")


def test_resume_goes_on_after_the_last_update(tmp_path: Path) -> None:
    call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run")
    out = call("train", "--resume", tmp_path / "run", "--updates", 3).stdout
    assert "continuing after update 2" in out
    assert [line["update"] for line in metrics(tmp_path / "run")] == [1, 2, 3]
    again = call("train", "--resume", tmp_path / "run", "--updates", 3).stdout
    assert "after update 3: --updates 3 counts from the first update, so none is left; give a larger --updates" in again
    assert "after update 3: --updates 2 counts" in call("train", "--resume", tmp_path / "run").stdout


def test_booleans_and_stacks_are_read_from_flags(tmp_path: Path) -> None:
    flags = ["--hidden", "3,2", "--no-direct-input", "--bias", "--fractions", "0.8,0.1,0.1", "--updates", "1"]
    call("train", text_file(tmp_path), "--sequence-length", 10, *flags, "--out", tmp_path / "run")
    config = hfrnn.runs.folder.RunFolder(tmp_path / "run").config()
    assert (config.hidden, config.direct_input, config.bias) == ((3, 2), False, True)
    assert config.fractions == (0.8, 0.1, 0.1)
    assert "layer1.W_x" in hfrnn.load(tmp_path / "run").net.views(hfrnn.load(tmp_path / "run").theta)  # the slot m


def test_any_file_is_text_at_the_level_of_bytes(tmp_path: Path) -> None:
    data = bytes(np.random.default_rng(0).integers(0, 256, 3000, dtype=np.uint8))
    call("train", text_file(tmp_path, data), *FLAGS, "--level", "byte", "--out", tmp_path / "run")
    text_file(tmp_path, data[:100], "part.bin")
    figures = json.loads(call("evaluate", tmp_path / "run", tmp_path / "part.bin", "--json").stdout)
    assert figures["symbols"] == 99
    assert figures["bits_per_byte"] == pytest.approx(figures["bits_per_symbol"], rel=1e-12)
    assert call("sample", tmp_path / "run", "--prime", "é", "--length", 9).stdout.startswith("é")
    out = call("evaluate", tmp_path / "run").stdout
    assert "bits per byte" in out
    assert "character" not in out


# ---------------------------------------------------------------------- tasks, music, other optimizers


TASK = ["--data", "addition", "--length", 30, "--arch", "rnn", "--hidden", 4, "--sequences", 40]


@pytest.mark.parametrize(
    "flags", [["--optimizer", "adam", "--updates", 6], ["--gradient-symbols", 300, "--updates", 2]], ids=["adam", "hf"]
)
def test_a_task_is_trained_and_scored_on_fresh_sequences(tmp_path: Path, flags: list[object]) -> None:
    out = call("train", *TASK, *flags, "--out", tmp_path / "run").stdout
    assert "task      addition, length 30: 40 new sequences an epoch\n          1,000 others to validate" in out
    assert re.search(r"^best: loss \S+ in validation, \d+\.\d% wrong, after update \d+$", out, re.MULTILINE)
    assert "sample:" not in out
    assert not (tmp_path / "run" / "vocabulary.json").exists()
    found = json.loads(call("evaluate", tmp_path / "run", "--json").stdout)
    net, theta, vocabulary = hfrnn.load(tmp_path / "run")
    config = hfrnn.runs.folder.RunFolder(tmp_path / "run").config()
    assert vocabulary is None
    assert found == hfrnn.analysis.sequences.evaluate_sequences(net, theta, config)
    assert (found["task"], found["sequences"]) == ("addition", 10_000)
    shown = call("evaluate", tmp_path / "run").stdout
    assert re.search(rf"^wrong +{four_digits(found['wrong'])}$", shown, re.MULTILINE)
    assert re.search(rf"^loss +{four_digits(found['loss'])}$", shown, re.MULTILINE)
    out = call("train", "--resume", tmp_path / "run", "--updates", 8).stdout
    assert "stopped by updates after 8 updates" in out


def test_music_is_trained_and_scored_by_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jsb").mkdir()
    (tmp_path / "jsb" / "jsb.npz").write_bytes(stored())
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    flags = ["--arch", "rnn", "--hidden", 4, "--optimizer", "adam", "--updates", 3, "--log-interval", 1]
    out = call("train", "--data", "jsb", *flags, "--out", tmp_path / "run").stdout
    assert "music     jsb: 2 pieces to train on, 2 to validate" in out
    assert "loss per time step" in out
    best = json.loads((tmp_path / "run" / "summary.json").read_text())["best"]
    found = {
        part: json.loads(call("evaluate", tmp_path / "run", "--json", *part).stdout)
        for part in ((), ("--part", "valid"), ("--part", "train"), ("--part", "test"))
    }
    assert found[()] == found["--part", "valid"]
    assert found[()]["nats_per_time_step"] == pytest.approx(best["valid_loss"], rel=1e-5)
    assert len({each["nats_per_time_step"] for each in found.values()}) == 3
    assert re.search(r"^nats per time step +[\d.]{5}$", call("evaluate", tmp_path / "run").stdout, re.MULTILINE)


def test_flags_of_other_optimizers_reach_the_run(tmp_path: Path) -> None:
    flags = ["--optimizer", "sgd", "--learning-rate", 0.25, "--momentum", 0.5, "--nesterov", "--weight-decay", 0.001]
    flags += ["--clip-norm", 2, "--clip-value", 0.5, "--max-norm", 3, "--streams", 8, "--update-every", 5]
    flags += ["--schedule", "halve", "--epochs", 2, "--patience", 9, "--log-interval", 7, "--validate-every", 14]
    call("train", text_file(tmp_path), "--hidden", 4, "--sequence-length", 10, *flags, "--out", tmp_path / "run")
    config = hfrnn.runs.folder.RunFolder(tmp_path / "run").config()
    for name, value in zip(flags[:5:2], ("sgd", 0.25, 0.5), strict=True):
        assert getattr(config, str(name)[2:].replace("-", "_")) == value
    assert (config.nesterov, config.weight_decay, config.clip_norm, config.clip_value) == (True, 0.001, 2.0, 0.5)
    assert (config.max_norm, config.streams, config.update_every, config.schedule) == (3.0, 8, 5, "halve")
    assert (config.epochs, config.patience, config.log_interval, config.validate_every) == (2, 9, 7, 14)
    lines = metrics(tmp_path / "run")
    assert lines[0]["update"] == 7
    assert lines[-1]["epoch"] == 2
    call("train", "--config", tmp_path / "run" / "config.toml", "--out", tmp_path / "again")
    assert metrics(tmp_path / "again") == lines


def test_epochs_and_patience_may_be_raised_when_a_run_goes_on(tmp_path: Path) -> None:
    flags = ["--optimizer", "sgd", "--hidden", 4, "--sequence-length", 10, "--epochs", 1, "--streams", 50]
    call("train", text_file(tmp_path), *flags, "--out", tmp_path / "run")
    out = call("train", "--resume", tmp_path / "run", "--epochs", 3, "--patience", 50).stdout
    assert "stopped by epochs" in out
    assert metrics(tmp_path / "run")[-1]["epoch"] == 3


# ---------------------------------------------------------------------- sample


def test_sample_prints_the_prime_and_what_follows(run: Path) -> None:
    out = call("sample", run, "--prime", "The fox ", "--length", 30, "--seed", 3).stdout
    assert out.startswith("The fox ")
    assert len(out) == 8 + 30 + 1
    assert out == call("sample", run, "--prime", "The fox ", "--length", 30, "--seed", 3).stdout
    assert out != call("sample", run, "--prime", "The fox ", "--length", 30, "--seed", 4).stdout


def test_sample_gives_exact_probabilities_as_json(run: Path) -> None:
    found = json.loads(call("sample", run, "--prime", "The", "--length", 25, "--json").stdout)
    assert "".join(step["symbol"] for step in found["steps"]) == found["text"]
    net, theta, vocabulary = hfrnn.load(run)
    symbols = vocabulary.encode("The" + found["text"]).reshape(-1, 1)
    log_p = net.log_probabilities(theta, hfrnn.Batch(symbols[:-1], symbols[1:]))[2:, 0]
    np.testing.assert_allclose([step["probability"] for step in found["steps"]], np.exp(log_p), rtol=1e-5)


def test_sample_draws_allowed_characters_only(run: Path) -> None:
    assert set(call("sample", run, "--allowed", "abc", "--length", 60).stdout) <= set("abc\n")
    assert "'aé'" in call("sample", run, "--allowed", "aé", code=2).output


def test_sample_takes_the_likeliest_at_temperature_zero(run: Path) -> None:
    cold = call("sample", run, "--temperature", 0, "--seed", 1).stdout
    assert cold == call("sample", run, "--top-k", 1, "--seed", 2).stdout


def test_an_unknown_prime_is_named_or_skipped(run: Path) -> None:
    assert "'é'" in call("sample", run, "--prime", "Thé", code=2).output
    assert call("sample", run, "--prime", "Thé", "--unknown", "skip", "--length", 5).stdout.startswith("Th")


# ---------------------------------------------------------------------- gradcheck, info


@pytest.mark.usefixtures("few_gradcheck_cases")
def test_gradcheck_prints_a_table_and_passes() -> None:
    out = call("gradcheck", "rnn", "--arch", "rnn").stdout
    assert re.search(r"^Gv +1e-09 +\d\.\de-\d\d$", out, re.MULTILINE)
    assert out.endswith("11 of 11 checks passed\n")


@pytest.mark.usefixtures("few_gradcheck_cases")
def test_gradcheck_gives_json() -> None:
    outcomes = json.loads(call("gradcheck", "rnn", "--json").stdout)
    assert {outcome["arch"] for outcome in outcomes} == {"rnn"}
    assert all(outcome["passed"] and outcome["error"] <= outcome["tolerance"] for outcome in outcomes)


def test_gradcheck_refuses_an_unknown_architecture() -> None:
    assert "'tnn' is not known (did you mean rnn?): use one of rnn, " in call("gradcheck", "rnn", "tnn", code=2).output


def test_info_names_versions_architectures_and_extras() -> None:
    table = json.loads(call("info", "--json").stdout)
    assert table["hfrnn"] == hfrnn.__version__
    assert table["architectures"] == list(architectures())
    assert any("[cuda12]" in extra for extra in table["extras"])
    text = call("info").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "python-manual" in text


def test_every_command_has_help_that_fits_80_columns() -> None:
    for name in (None, *main.commands):
        text = call(*([name] if name else []), "--help").output
        assert max(map(len, text.splitlines())) <= 80, name
    assert hfrnn.__version__ in call("--version").output


# ---------------------------------------------------------------------- exit codes of the process


def process(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hfrnn", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize(
    ("number", "optimizer"), [(signal.SIGINT, "hf"), (signal.SIGTERM, "hf"), (signal.SIGINT, "sgd")]
)
def test_a_signal_ends_with_130_and_a_checkpoint(tmp_path: Path, number: int, optimizer: str) -> None:
    text_file(tmp_path)
    flags = ["--hidden", "4", "--sequence-length", "10", "--updates", "1000000", "--optimizer", optimizer]
    flags += ["--gradient-symbols", "300"] if optimizer == "hf" else ["--learning-rate", "0.01", "--log-interval", "20"]
    started = process("train", "text.txt", *flags, "--out", "run", cwd=tmp_path)
    log = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (log.is_file() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    started.send_signal(number)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    assert re.fullmatch(r"interrupted after update \d+, which is saved: resume with .* --resume run\n", err)
    assert "Stopping after this update; finished work is saved." in out
    updates = json.loads((tmp_path / "run" / "summary.json").read_text())["updates"]
    assert metrics(tmp_path / "run")[-1]["update"] == updates > 0
    call("train", "--resume", tmp_path / "run", "--updates", updates + 1)


def test_a_non_finite_state_ends_with_1_and_one_sentence(tmp_path: Path) -> None:
    started = process("train", text_file(tmp_path), *FLAGS, "--init-scale", "1e30", "--out", tmp_path / "run")
    _, err = started.communicate(timeout=60)
    assert started.returncode == 1
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: the training loss or its gradient is not finite after update 0")
    assert snapshot(tmp_path / "run")["last.safetensors"]


def test_too_large_a_rate_ends_with_1_and_one_sentence(tmp_path: Path) -> None:
    flags = ["--optimizer", "sgd", "--learning-rate", "1e30", "--clip-norm", "0", "--weight-decay", "1"]
    flags += ["--hidden", "4", "--sequence-length", "10", "--updates", "50"]
    started = process("train", text_file(tmp_path), *flags, "--out", tmp_path / "run")
    _, err = started.communicate(timeout=60)
    assert started.returncode == 1
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: the training loss or its gradient is not finite after update 0, whose state is kept")


def test_a_terminal_that_lacks_a_character_does_not_end_a_command(tmp_path: Path) -> None:
    text = text_file(tmp_path, TEXT.replace("fox", "fęx"))
    call("train", text, *FLAGS, "--out", tmp_path / "run")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    drawn = process("sample", tmp_path / "run", "--allowed", "ę", "--length", 2, env=environment)
    assert drawn.communicate(timeout=60)[0] == "\\u0119\\u0119\n"
    assert drawn.returncode == 0


def test_a_full_disk_or_lost_memory_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> Any:
        def failing(*arguments: Any, **options: Any) -> None:
            raise error

        return failing

    for error, word in ((MemoryError(), "memory"), (OSError(5, "Input/output error"), "Input/output error")):
        monkeypatch.setattr("hfrnn.training.trainer.train", fail(error))
        assert word in call("train", text_file(tmp_path), code=1).output
    monkeypatch.setattr("hfrnn.training.trainer.train", fail(KeyboardInterrupt()))
    assert "Error: interrupted" in call("train", text_file(tmp_path), code=1).output


def test_the_periods_of_clockwork_reach_the_network_and_its_run(tmp_path: Path) -> None:
    flags = ["train", str(text_file(tmp_path)), *FLAGS, "--arch", "clockwork", "--periods", "1,3"]
    result = CliRunner().invoke(main, [*flags, "--sample-length", "0", "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert hfrnn.load(tmp_path / "run").net.layers[0].kernel.periods == (1, 3)  # type: ignore[attr-defined]
    wrong = CliRunner().invoke(main, [*flags[:-1], "1,2,3", "--out", str(tmp_path / "other")])
    assert wrong.exit_code == 2
    assert "3 periods were given" in wrong.stderr
