"""Tests of hornn_dynamic.py, on networks of one epoch on a text of a few sentences."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.tiny_runs import TEXT, text_file

sys.path.append(str(Path(__file__).resolve().parent))

import hornn_dynamic
from hornn_norms import FALLING

import hfrnn
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import run_text


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the runs of two networks."""
    monkeypatch.setattr(hornn_dynamic, "BEGINNING", 400)
    monkeypatch.setattr(hornn_dynamic, "TRIALS", {"sgd-0.1": ("sgd", 0.1), "rms-0.1": ("rms", 0.1)})
    text = text_file(tmp_path, "".join(f"{line}\n" for line in TEXT.split(". ")) * 20)
    for name, arch in (("rnn", "rnn"), ("fofe-3", "hornn-fofe")):
        hfrnn.train(
            text=text, arch=arch, hidden=6, level="word", optimizer="sgd", epochs=1, fractions=(0.6, 0.15, 0.25),
            sample_length=0, backend="numpy", out=hornn_dynamic.run_of(name, tmp_path),
        )  # fmt: skip
    return tmp_path


def call(runs: Path, *names: str) -> Result:
    return CliRunner().invoke(hornn_dynamic.main, [*names, "--runs", str(runs), "--out", str(runs / "out")])


def written(runs: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((runs / "out" / "hornn_dynamic" / f"{name}.json").read_text())
    return found


def test_the_rule_is_chosen_with_rnn_and_every_network_is_scored_once_on_the_test_part(runs: Path) -> None:
    found = call(runs, "fofe-3")
    assert found.exit_code == 0, found.output
    trials = written(runs, "trials")["valid_beginning"]
    rnn, folder = hfrnn.load(hornn_dynamic.run_of("rnn", runs)), RunFolder(hornn_dynamic.run_of("rnn", runs))
    valid = str(run_text(folder, "valid"))
    head = valid[: valid.rindex("\n", 0, 400) + 1]
    sgd = hfrnn.Dynamic(0.1)
    for trial, how in (("static", None), ("sgd-0.1", sgd)):
        scored = hfrnn.evaluate(*rnn, head, unknown="skip", dynamic=how)
        assert trials[trial] == pytest.approx(scored.perplexity, rel=1e-6)
    result = written(runs, "fofe-3")
    assert result["trial"] == min(hornn_dynamic.TRIALS, key=lambda name: trials[name])
    net, theta, vocabulary = hfrnn.load(hornn_dynamic.run_of("fofe-3", runs))
    squares = hfrnn.mean_square_gradient(net, theta, vocabulary.encode(str(run_text(folder, "train"))))
    dynamic = sgd if result["trial"] == "sgd-0.1" else hfrnn.Dynamic(0.1, mean_square=squares)
    for part, how in (("static", None), ("dynamic", dynamic)):
        scored = hfrnn.evaluate(net, theta, vocabulary, str(run_text(folder, "test")), unknown="skip", dynamic=how)
        assert result["test"][part] == pytest.approx(scored.perplexity, rel=1e-6)


def test_a_second_call_keeps_the_trials_and_scores_all_networks_that_were_trained(runs: Path) -> None:
    call(runs, "rnn")
    path = runs / "out" / "hornn_dynamic" / "trials.json"
    path.write_text(json.dumps({"valid_beginning": {"static": 9.0, "sgd-0.1": 1.0, "rms-0.1": 2.0}}))
    call(runs)
    assert [written(runs, name)["trial"] for name in ("rnn", "fofe-3")] == ["sgd-0.1", "sgd-0.1"]


def test_a_network_without_a_run_is_named_with_the_command_that_trains_it(runs: Path) -> None:
    found = call(runs, "gated-3")
    assert found.exit_code == 1
    assert f"train it with benchmarks/papers/hornn_norms.py gated-3-{FALLING}" in found.output
