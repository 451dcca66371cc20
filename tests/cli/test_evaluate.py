"""`hfrnn evaluate` and `hfrnn sample`: figures, unknown symbols, the parts of a run's own data, and what is drawn."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.command_line import call, refused
from support.data_runs import TRAINED, oscillator, write_table
from support.tiny_runs import FLAGS, TEXT, text_file, tiny_train

import hfrnn
from hfrnn.cli import main


def test_evaluate_scores_the_validation_part_unless_told(run: Path) -> None:
    out = call("evaluate", run).stdout
    assert out == call("evaluate", run, "--part", "valid").stdout
    count = len(TEXT) - round(0.9 * len(TEXT)) - 1
    assert f"valid part of text.txt: {count} characters predicted" in out
    assert out != call("evaluate", run, "--part", "train").stdout
    assert out != call("evaluate", run, "--which", "last", "--part", "train").stdout


def test_a_part_that_is_a_file_of_its_own_has_the_name_of_that_file(tmp_path: Path) -> None:
    other = text_file(tmp_path, TEXT[:60]).rename(tmp_path / "other.txt")
    call("train", text_file(tmp_path), "--valid", other, *FLAGS, "--out", tmp_path / "run")
    assert call("evaluate", tmp_path / "run").stdout.startswith("valid part (other.txt): 59 characters predicted")
    assert "of the valid part (other.txt), " in hfrnn.load_objective(tmp_path / "run", part="valid").data


def test_a_part_that_is_tables_of_its_own_has_their_names(tmp_path: Path) -> None:
    names = ["a.csv", "b.csv", "c.csv", "d.csv"]
    a, b, c, d = (str(write_table(tmp_path / name, oscillator())) for name in names)
    options: dict[str, Any] = {"inputs": "pos", "targets": "vel", **TRAINED}
    run = hfrnn.train(data=a, valid=b, test=[c, d], out=tmp_path / "run", **options).folder
    for part, own, name in (("valid", b, "valid part (b.csv)"), ("test", [c, d], "test part (c.csv, d.csv)")):
        assert call("evaluate", run, "--part", part).stdout.startswith(f"{name}: ")
        assert json.loads(call("evaluate", run, "--part", part, "--json").stdout)["data"] == own
        assert f"of the {name}, " in hfrnn.load_objective(str(run), part=part).data
        assert call("predict", run, "--part", part, "-o", tmp_path / f"{part}.npz").stdout.startswith(f"{name}: ")
    assert call("evaluate", run, "--part", "train").stdout.startswith(f"train part of {a}: ")


def test_evaluate_prints_the_figures_of_the_library(run: Path, tmp_path: Path) -> None:
    text = text_file(tmp_path, "The dog and the fox.")
    found = hfrnn.evaluate(*hfrnn.load(run), "The dog and the fox.")
    assert json.loads(call("evaluate", run, text, "--json").stdout) == found.to_json()
    out = call("evaluate", run, text).stdout
    for name, value in {"bits per character": found.bits_per_symbol, "perplexity": found.perplexity}.items():
        assert re.search(rf"^{name} +{value:.4f}$", out, re.MULTILINE)
    best = json.loads((run / "summary.json").read_text())["best"]["valid_bits"]
    figures = json.loads(call("evaluate", run, "--json").stdout)
    assert figures["bits_per_symbol"] == pytest.approx(best, rel=1e-3)  # one stream against pieces with a warm-up


def test_evaluate_names_skips_or_maps_unknown_symbols(run: Path, tmp_path: Path) -> None:
    text = text_file(tmp_path, "The döner döner")
    assert "'ö' (2 times)" in call("evaluate", run, text, code=2).output
    skipped = call("evaluate", run, text, "--unknown", "skip").stdout
    assert "2 characters never seen in training: --unknown skip" in skipped
    assert json.loads(call("evaluate", run, text, "--unknown", "o", "--json").stdout)["symbols"] == 14


def test_evaluate_treats_unknown_symbols_of_the_own_data_as_the_run_did(tmp_path: Path) -> None:
    text = text_file(tmp_path, TEXT + "ö")  # only the validation part has it
    call("train", text, *FLAGS, "--out", tmp_path / "run")
    found = call("evaluate", tmp_path / "run").stdout
    assert "1 character never seen in training: --unknown skip" in found
    assert "'ö' (1 time)" in call("evaluate", tmp_path / "run", "--unknown", "error", code=2).output


def test_a_part_or_data_that_are_not_there_any_more_are_refused(tmp_path: Path) -> None:
    call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run")
    assert "no test part" in refused("evaluate", tmp_path / "run", "--part", "test")
    text_file(tmp_path, TEXT[1:])
    assert "has changed" in refused("evaluate", tmp_path / "run")
    call("evaluate", tmp_path / "run", tmp_path / "text.txt")


def test_options_that_would_do_nothing_are_refused(run: Path, tmp_path: Path) -> None:
    tiny_train(tmp_path, "task", text=None, data="addition", length=21, arch="rnn", optimizer="adam", sequences=9)
    task = tmp_path / "task"
    assert "whose sequences are generated again: leave --part out" in refused("evaluate", task, "--part", "valid")
    assert "which is not a text: leave --unknown out" in refused("evaluate", task, "--unknown", "skip")
    assert "it is for the symbols of --prime: give both, or leave it out" in refused("sample", run, "--unknown", "skip")
    text = text_file(tmp_path, "d\n" + "a b c\n" * 200, "words.txt")
    tiny_train(tmp_path, "words", text=text, level="word", min_count=2)
    assert "reads unknown words as <unk>" in refused("evaluate", tmp_path / "words", "--unknown", "skip")


# ---------------------------------------------------------------------- sample


def test_sample_prints_the_prime_and_what_follows(run: Path) -> None:
    out = call("sample", run, "--prime", "The fox ", "--length", 30, "--seed", 3).stdout
    assert out.startswith("The fox ")
    assert len(out) == 8 + 30 + 1
    for seed in (3, 4):
        again = call("sample", run, "--prime", "The fox ", "--length", 30, "--seed", seed).stdout
        assert (again == out) == (seed == 3)


def test_sample_gives_exact_probabilities_as_json(run: Path) -> None:
    found = json.loads(call("sample", run, "--prime", "The", "--length", 25, "--json").stdout)
    assert "".join(step["symbol"] for step in found["steps"]) == found["text"]
    net, theta, vocabulary = hfrnn.load(run)
    symbols = vocabulary.encode("The" + found["text"]).reshape(-1, 1)
    log_p = net.log_probabilities(theta, hfrnn.Batch(symbols[:-1], symbols[1:]))[2:, 0]
    np.testing.assert_allclose([step["probability"] for step in found["steps"]], np.exp(log_p), rtol=1e-5)


def test_sample_draws_allowed_characters_only_and_the_likeliest_at_temperature_zero(run: Path) -> None:
    assert set(call("sample", run, "--allowed", "abc", "--length", 60).stdout) <= set("abc\n")
    assert "'aé'" in refused("sample", run, "--allowed", "aé")
    cold = call("sample", run, "--temperature", 0, "--seed", 1).stdout
    assert cold == call("sample", run, "--top-k", 1, "--seed", 2).stdout


def test_an_unknown_prime_is_named_or_skipped(run: Path) -> None:
    assert "'é'" in refused("sample", run, "--prime", "Thé")
    assert call("sample", run, "--prime", "Thé", "--unknown", "skip", "--length", 5).stdout.startswith("Th")


def test_what_lacks_a_character_gets_its_number_but_a_sample_is_unchanged(tmp_path: Path) -> None:
    run = tiny_train(tmp_path, text=text_file(tmp_path, TEXT.replace("fox", "fęx"))).folder
    latin = CliRunner(charset="latin-1")
    assert latin.invoke(main, ["evaluate", "ę"]).stderr_bytes.startswith(b"Error: \\u0119 is not a run folder")
    drawn = latin.invoke(main, ["sample", str(run), "--allowed", "ę", "--length", "2"])
    assert (drawn.exit_code, drawn.stdout_bytes) == (0, "ęę\n".encode())
