"""`hfrnn evaluate`: its figures, unknown symbols, and the parts of a run's own data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.command_line import call
from support.tiny_runs import FLAGS, TEXT, text_file

import hfrnn


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
    assert call("evaluate", tmp_path / "run", "--part", "train").stdout.startswith("train part of text.txt: ")
    assert "of the valid part (other.txt), " in hfrnn.load_objective(tmp_path / "run", part="valid").data


def test_evaluate_prints_the_figures_of_the_library(run: Path, tmp_path: Path) -> None:
    text = text_file(tmp_path, "The dog and the fox.")
    found = hfrnn.evaluate(*hfrnn.load(run), "The dog and the fox.")
    assert json.loads(call("evaluate", run, text, "--json").stdout) == found.to_json()
    out = call("evaluate", run, text).stdout
    assert re.search(rf"^bits per character +{found.bits_per_symbol:.4f}$", out, re.MULTILINE)
    assert re.search(rf"^bits per byte +{found.bits_per_byte:.4f}$", out, re.MULTILINE)
    assert re.search(rf"^perplexity +{found.perplexity:.4f}$", out, re.MULTILINE)
    assert re.search(rf"^nats per character +{found.nats_per_symbol:.4f}$", out, re.MULTILINE)


def test_evaluate_agrees_with_the_validation_of_training(run: Path) -> None:
    best = json.loads((run / "summary.json").read_text())["best"]["valid_bits"]
    figures = json.loads(call("evaluate", run, "--json").stdout)
    assert figures["bits_per_symbol"] == pytest.approx(best, rel=1e-3)  # one stream against pieces with a warm-up


def test_evaluate_names_skips_or_maps_unknown_symbols(run: Path, tmp_path: Path) -> None:
    text = text_file(tmp_path, "The döner döner")
    assert "'ö' (2 times)" in call("evaluate", run, text, code=2).output
    assert (
        "2 characters never seen in training: --unknown skip" in call("evaluate", run, text, "--unknown", "skip").stdout
    )
    assert json.loads(call("evaluate", run, text, "--unknown", "o", "--json").stdout)["symbols"] == 14


def test_evaluate_treats_unknown_symbols_of_the_own_data_as_the_run_did(tmp_path: Path) -> None:
    text = text_file(tmp_path, TEXT + "ö")  # only the validation part has it
    call("train", text, *FLAGS, "--out", tmp_path / "run")
    found = call("evaluate", tmp_path / "run").stdout
    assert "1 character never seen in training: --unknown skip" in found
    assert "'ö' (1 time)" in call("evaluate", tmp_path / "run", "--unknown", "error", code=2).output


def test_a_part_that_the_run_does_not_have_is_refused(run: Path) -> None:
    assert "no test part" in call("evaluate", run, "--part", "test", code=2).output


def test_the_own_data_of_a_run_has_to_be_unchanged(tmp_path: Path) -> None:
    call("train", text_file(tmp_path), *FLAGS, "--out", tmp_path / "run")
    text_file(tmp_path, TEXT[1:])
    assert "has changed" in call("evaluate", tmp_path / "run", code=2).output
    call("evaluate", tmp_path / "run", tmp_path / "text.txt")
