"""The corpora known by name train from their files."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.tiny_runs import metrics

import hfrnn
from hfrnn.cli import main
from hfrnn.sources.open import run_text

FLAGS = ["--hidden", "8", "--sequence-length", "20", "--gradient-symbols", "2000", "--validate-every", "1"]
DATA = Path(os.environ.get("HFRNN_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
FIRST = {"tinyshakespeare": "tinyshakespeare/tinyshakespeare.txt", "ptb-char": "ptb/ptb.train.txt"}


@pytest.fixture(params=FIRST)
def corpus(request, monkeypatch):
    if not (DATA / FIRST[request.param]).is_file():
        pytest.skip(f"{request.param} is not under HFRNN_DATA")
    monkeypatch.setenv("HFRNN_DATA", str(DATA))
    return str(request.param)


@pytest.mark.slow
@pytest.mark.corpus
def test_a_corpus_trains_samples_and_is_scored(corpus, tmp_path):
    run = tmp_path / "run"
    arguments = ["train", "--data", corpus, *FLAGS, "--updates", "2", "--out", str(run), "--sample-length", "20"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert f"text      {corpus}: " in result.stdout
    lines = metrics(run)
    assert lines[1]["valid_bits"] < lines[0]["valid_bits"] < lines[0]["loss_before"] / 0.6931
    part = run_text(hfrnn.runs.folder.RunFolder(run), "valid")[:3000]
    found = hfrnn.evaluate(*hfrnn.load(run), part, unknown="skip")
    assert found.bits_per_symbol == pytest.approx(lines[1]["valid_bits"], abs=0.5)
