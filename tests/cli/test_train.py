"""`hfrnn train`: what it prints, the files it makes, its exit codes, and signals."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call, refused
from support.music_files import stored
from support.processes import ended, start, wait_until
from support.tiny_runs import FLAGS, metrics, snapshot, text_file

import hfrnn
from hfrnn.wording import four_digits


def test_a_table_a_result_and_a_sample_are_printed(tmp_path: Path) -> None:
    out = call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run", "--sample-length", 40).stdout
    assert out.startswith("network   mlstm 4, ")
    assert re.search(r"^ {5}2 +0:", out, re.MULTILINE)
    assert "stopped by updates after 2 updates" in out
    assert f"run folder: {tmp_path / 'run'}" in out
    assert len(out.split("\nsample:\n")[1].removesuffix("\n")) == 40


def test_without_a_text_the_built_in_corpus_is_taken(tmp_path: Path) -> None:
    flags = ["--gradient-symbols", 100, "--updates", 1]
    out = call("train", *FLAGS, *flags, "--out", tmp_path / "run").stdout
    assert "text      python-manual: " in out
    assert "sample:" not in out
    assert 'data = "python-manual"' in (tmp_path / "run" / "config.toml").read_text()


def test_a_run_s_own_configuration_makes_the_same_run_again(run: Path, tmp_path: Path) -> None:
    call("train", "--config", run / "config.toml", "--out", tmp_path / "again")
    np.testing.assert_array_equal(hfrnn.load(run).theta, hfrnn.load(tmp_path / "again").theta)
    assert metrics(run) == metrics(tmp_path / "again")


def test_resume_goes_on_after_the_last_update(tmp_path: Path) -> None:
    call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run")
    out = call("train", "--resume", tmp_path / "run", "--updates", 3).stdout
    assert "continuing after update 2" in out
    assert [line["update"] for line in metrics(tmp_path / "run")] == [1, 2, 3]
    again = call("train", "--resume", tmp_path / "run").stdout
    assert "after update 3: --updates 2 counts from the first update, so none is left; give a larger --updates" in again


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


# ---------------------------------------------------------------------- tasks and music


def test_a_task_is_trained_and_scored_on_fresh_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hfrnn.analysis.sequences.NEW_SEQUENCES", 500)
    flags = ["--arch", "rnn", "--hidden", 4, "--length", 30, "--sequences", 40, "--optimizer", "adam", "--updates", 6]
    out = call("train", "--data", "addition", *flags, "--out", tmp_path / "run").stdout
    assert "task      addition, length 30: 40 new sequences an epoch\n          1,000 others to validate" in out
    assert re.search(r"^best: loss \S+ in validation, \d+\.\d% wrong, after update \d+$", out, re.MULTILINE)
    assert "sample:" not in out
    assert not (tmp_path / "run" / "vocabulary.json").exists()
    found = json.loads(call("evaluate", tmp_path / "run", "--json").stdout)
    net, theta, vocabulary = hfrnn.load(tmp_path / "run")
    config = hfrnn.runs.folder.RunFolder(tmp_path / "run").config()
    assert vocabulary is None
    assert found == hfrnn.analysis.sequences.evaluate_sequences(net, theta, config)
    assert (found["task"], found["sequences"]) == ("addition", 500)
    shown = call("evaluate", tmp_path / "run").stdout
    assert re.search(rf"^wrong +{four_digits(found['wrong'])}$", shown, re.MULTILINE)
    assert re.search(rf"^loss +{four_digits(found['loss'])}$", shown, re.MULTILINE)


def test_music_is_trained_and_scored_by_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jsb").mkdir()
    (tmp_path / "jsb" / "jsb.npz").write_bytes(stored())
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    flags = ["--arch", "rnn", "--hidden", 4, "--optimizer", "adam", "--updates", 3, "--log-interval", 1]
    out = call("train", "--data", "jsb", *flags, "--out", tmp_path / "run").stdout
    assert "music     jsb: 2 pieces to train on, 2 to validate" in out
    assert "loss per time step" in out
    best = json.loads((tmp_path / "run" / "summary.json").read_text())["best"]
    whole, valid, train = (
        json.loads(call("evaluate", tmp_path / "run", "--json", *part).stdout)
        for part in ((), ("--part", "valid"), ("--part", "train"))
    )
    assert whole == valid != train
    assert whole["nats_per_time_step"] == pytest.approx(best["valid_loss"], rel=1e-5)
    assert re.search(r"^nats per time step +[\d.]{5}$", call("evaluate", tmp_path / "run").stdout, re.MULTILINE)


# ---------------------------------------------------------------------- --quiet, --json


def test_json_prints_the_log_and_the_summary_and_quiet_the_folder_alone(tmp_path: Path) -> None:
    found = call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run", "--json")
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    log = metrics(tmp_path / "run")
    assert [{k: v for k, v in line.items() if not k.startswith("seconds")} for line in lines[:-1]] == log
    assert len(log) >= 2
    assert lines[-1] == {"folder": str(tmp_path / "run"), **json.loads((tmp_path / "run" / "summary.json").read_text())}
    assert list(lines[-1])[-2:] == ["best", "last"]
    assert found.stderr == ""
    found = call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "quiet", "--quiet")
    assert (found.stdout, found.stderr) == (f"{tmp_path / 'quiet'}\n", "")


def test_ways_to_print_exclude_each_other() -> None:
    for one, other in (("--dry-run", "--print-config"), ("--print-config", "--json"), ("--quiet", "--json")):
        assert refused("train", one, other) == f"Error: {one} and {other} were given: give one of them"


# ---------------------------------------------------------------------- what ends a run


DIVERGES = [
    [*FLAGS, "--init-scale", "1e30"],
    ["--optimizer", "sgd", "--learning-rate", "1e30", "--clip-norm", "0", "--weight-decay", "1", "--hidden", "4",
     "--sequence-length", "10", "--updates", "50"],
]  # fmt: skip


@pytest.mark.parametrize(("flags", "mode"), list(zip(DIVERGES, ([], ["--json"]), strict=True)), ids=["hf", "sgd"])
def test_a_state_that_is_not_finite_ends_with_1_and_one_sentence(tmp_path, flags, mode) -> None:
    err = call("train", text_file(tmp_path), *flags, *mode, "--out", tmp_path / "run", code=1).stderr
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: the training loss or its gradient is not finite after update 0, whose state is kept")
    assert snapshot(tmp_path / "run")["last.safetensors"]


def test_a_full_disk_or_lost_memory_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: BaseException) -> Any:
        def failing(*arguments: Any, **options: Any) -> None:
            raise error

        return failing

    full = OSError(5, "Input/output error")
    for error, words in ((MemoryError(), "memory"), (full, full.strerror), (KeyboardInterrupt(), "Error: interrupted")):
        monkeypatch.setattr("hfrnn.training.trainer.train", fail(error))
        assert words in call("train", text_file(tmp_path), code=1).output


NAMES = ["a  b", pytest.param("a\nb $(touch X)", marks=pytest.mark.nightly)]


@pytest.mark.skipif(os.name == "nt", reason="SIGINT and bash")
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_run_is_saved_and_bash_runs_the_resume_command_that_it_prints(name: str, tmp_path: Path) -> None:
    run, log = tmp_path / name, tmp_path / name / "metrics.jsonl"
    with (tmp_path / "out").open("w") as out:
        started = start(tmp_path, "train", text_file(tmp_path), *FLAGS, "--updates", 10**6, "--out", run, stdout=out)
        wait_until(lambda: log.is_file() and log.stat().st_size > 0, started)
        code, err = ended(started, signal.SIGINT)
    assert code == 130
    assert "Stopping after this update; finished work is saved." in (tmp_path / "out").read_text()
    update = json.loads((run / "summary.json").read_text())["updates"]
    assert metrics(run)[-1]["update"] == update > 0
    told = rf"interrupted after update {update}, which is saved: resume with (.*)\n"
    (command,) = re.fullmatch(told, err).groups()  # type: ignore[union-attr]
    hfrnn = f'hfrnn() {{ {shlex.quote(sys.executable)} -m hfrnn "$@"; }}\n'
    script = f"{hfrnn}{command} --updates {update + 1} --quiet"
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    assert metrics(run)[-1]["update"] == update + 1
    assert not (tmp_path / "X").exists()
