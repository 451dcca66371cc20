"""Spectra of runs: the batch that is taken from a run's data, and the command `hfrnn spectrum`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from support.command_line import call
from support.pictures import needs_matplotlib
from support.tiny_runs import snapshot, tiny_train

import hfrnn
from hfrnn.analysis.run_objective import load_objective
from hfrnn.analysis.spectrum import Spectrum, spectrum
from hfrnn.cli.progress import working
from hfrnn.errors import InputError
from hfrnn.optim import lanczos
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import run_text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_train(tmp_path_factory.mktemp("spectrum"), l2=0.1, optimizer="adam").folder


def test_a_run_is_taken_on_random_sequences_of_its_part_in_double_precision(run: Path) -> None:
    net, theta, vocabulary = hfrnn.load(run)
    objective, wide, data = load_objective(str(run), symbols=52)
    assert (objective.net.dtype, objective.net.l2, wide.dtype) == (np.float64, 0.1, np.float64)
    assert data == "5 random sequences of the train part of text.txt, 50 steps"
    np.testing.assert_array_equal(wide, theta)
    assert objective.loss(wide) == pytest.approx(net.loss(theta, objective.batch), rel=1e-5)
    row = vocabulary.encode(run_text(RunFolder(run), "train"))
    starts = {row[k * 10 : k * 10 + 11].tobytes() for k in range((row.size - 1) // 10)}
    for b in range(5):
        symbols = np.append(objective.batch.inputs[:, b], objective.batch.targets[-1, b]).astype(row.dtype)
        assert symbols.tobytes() in starts
    other = load_objective(str(run), symbols=52, seed=1).objective
    assert (other.batch.inputs != objective.batch.inputs).any()
    sizes = [load_objective(str(run), symbols=symbols).objective.batch.B for symbols in (1, 10**9)]
    assert sizes == [1, (row.size - 1) // 10]
    assert load_objective(str(run), "last", "valid", 30).data.startswith("3 random sequences of the valid part")


def test_a_batch_of_all_sequences_has_them_in_the_order_of_the_file(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((20, 6, 1))
    options: dict[str, Any] = {"arch": "rnn", "hidden": 2, "optimizer": "adam", "updates": 1, "backend": "numpy"}
    np.savez(tmp_path / "a.npz", x=x, y=x)
    hfrnn.train(data=str(tmp_path / "a.npz"), out=tmp_path / "run", **options)
    objective = load_objective(str(tmp_path / "run"), symbols=10**9).objective
    np.testing.assert_allclose(objective.batch.inputs, x[:18].swapaxes(0, 1), rtol=1e-6)


def test_a_part_shorter_than_a_sequence_is_one(tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("the fox")
    short = tiny_train(tmp_path, valid=str(tmp_path / "valid.txt"), optimizer="adam").folder
    assert load_objective(str(short), part="valid").data == "1 random sequence of the valid part (valid.txt), 6 steps"


def test_a_task_and_music_have_batches_of_their_own(tmp_path: Path, small_music: Path) -> None:
    options = {"text": None, "arch": "rnn", "optimizer": "adam"}
    task = str(tiny_train(tmp_path, "task", data="addition", length=21, sequences=20, **options).folder)
    objective, theta, data = load_objective(task, symbols=100)
    assert re.fullmatch(r"4 random sequences of the task addition, \d+ steps", data)
    assert objective.batch.total_weight(objective.net.backend) == 4
    assert spectrum(objective, theta, count=2, vectors=0).largest.size == 2
    with pytest.raises(InputError, match="has no parts"):
        load_objective(task, part="train")
    music = str(tiny_train(tmp_path, "music", data="jsb", **options).folder)
    objective, theta, data = load_objective(music, symbols=10)
    assert re.fullmatch(r"\d random sequences? of the train part of jsb, \d+ steps", data)
    assert spectrum(objective, theta, count=2, vectors=0).largest.size == 2


def test_the_command_prints_what_the_library_finds(run: Path) -> None:
    before = snapshot(run)
    options = ("--symbols", 60, "--count", 3, "--vectors", 2, "--steps", 6, "--seed", 2, "--matrix", "both")
    found = json.loads(call("spectrum", run, *options, "--json").stdout)
    shown = call("spectrum", run, *options).stdout
    objective, theta, data = load_objective(str(run), symbols=60, seed=2)
    assert (found["network"], found["data"]) == (objective.net.describe(), data)
    both = [spectrum(objective, theta, name, 3, 2, 6, seed=2) for name in ("gauss-newton", "hessian")]
    for same, read in zip(both, found["matrices"], strict=True):
        assert read.pop("seconds") > 0
        assert read == same.to_json()
        assert f"\n{same.matrix}: {same.products:,} products in " in shown
        for value, residual in zip(same.largest, same.largest_residuals, strict=True):
            assert re.search(rf"^ +{value:.6g} +{residual:.1e}( |$)", shown, re.MULTILINE)
        assert f"trace {same.trace:.4g} (standard error {same.trace_error:.2g})" in shown
    for value, residual in zip(same.smallest, same.smallest_residuals, strict=True):
        assert re.search(rf" {value:.6g} +{residual:.1e}$", shown, re.MULTILINE)
    high, low = same.ranked(10)
    assert re.search(rf"^ +10th +{high:.3g} +{low:.3g}$", shown, re.MULTILINE)
    assert snapshot(run) == before


def test_the_slow_hessian_is_computed_only_on_request(run: Path) -> None:
    shown = call("spectrum", run, "--symbols", 30, "--vectors", 0, "--count", 1).stdout
    assert "\ngauss-newton: " in shown
    assert not re.search("hessian|trace", shown)
    shown = call("spectrum", run, "--matrix", "hessian", "--symbols", 30, "--vectors", 1, "--count", 0).stdout
    assert not re.search("gauss-newton|residual", shown)
    assert re.search(r"^trace \S+, Frobenius norm \S+$", shown, re.MULTILINE)


def test_eigenvalues_that_were_not_found_are_counted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanczos, "MOST_PRODUCTS", 20)
    options = ("--symbols", 30, "--vectors", 0, "--count", 9, "--tolerance", 1e-14)
    shown = call("spectrum", run, "--matrix", "hessian", *options).stdout
    assert re.search(r"^\d+ more were not found in time: give a larger --tolerance", shown, re.MULTILINE)


@needs_matplotlib
@pytest.mark.slow
def test_the_picture_is_drawn(run: Path, tmp_path: Path) -> None:
    options = ("spectrum", run, "--symbols", 30, "--steps", 4, "--count", 2, "--plot")
    for name, begin in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.PDF", b"%PDF")):
        call(*options, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
    drawn = (tmp_path / "a.svg").read_text()
    call(*options, tmp_path / "a.svg", "--force")
    assert (tmp_path / "a.svg").read_text() == drawn
    for words in ("density", "Eigenvalues of the Gauss-Newton matrix", "mlstm 4", "random sequences of the train part"):
        assert words in drawn


@needs_matplotlib
@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_spectrum_of_zeros_can_be_drawn() -> None:
    from hfrnn.cli.plots import spectrum_picture

    none, zeros = np.zeros(0), np.zeros(2)
    found = Spectrum("hessian", 9, zeros, zeros, none, none, zeros, zeros + 0.5, 0.0, 0.0, 0.0, 4)
    assert len(spectrum_picture([found], "svg")) > 1000


@pytest.mark.parametrize(("options", "message"), [
    (("--plot", "x.jpeg"), "give a file that ends in .svg"), (("--plot", "no/x.svg"), "there is no folder no"),
    pytest.param(("--plot", "x.svg", "--vectors", 0), "--vectors is 0", marks=needs_matplotlib),
    (("--count", 10**7), "--count is 10,000,000, and the network has 752 weights"),
    (("--count", 0, "--vectors", 0), "--count and --vectors are 0, so nothing would be computed"),
    (("--matrix", "hesian"), "Did you mean 'hessian'?"), (("--part", "test"), "has fewer than two symbols"),
])  # fmt: skip
def test_the_command_refuses_what_does_not_fit(run: Path, options: tuple[object, ...], message: str) -> None:
    assert message in " ".join(call("spectrum", run, *options, code=2).output.split())


def test_without_matplotlib_the_extra_is_named_before_the_work(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("hfrnn.analysis.run_objective.load_objective", None)
    assert "pip install '.[plot]'" in call("spectrum", run, "--plot", "x.svg", code=2).output


def test_progress_is_told_in_lines_off_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    now = [0.0]
    monkeypatch.setattr("hfrnn.cli.progress.time.monotonic", lambda: now[0])
    with working() as show:
        for step in range(1, 13):
            now[0] += 2.0
            show("density", step, 12)
        now[0] += 4.0
        show("other", 0, 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["density: 5 of 12, left 0:11", "density: 10 of 12, left 0:04"]


def test_the_time_left_of_a_spectrum_is_a_bound(run: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr("hfrnn.cli.progress.PLAIN_SECONDS", 0.0)
    lines = call("spectrum", run, "--symbols", 30, "--vectors", 1, "--steps", 3).stderr.splitlines()
    assert re.fullmatch(r"gauss-newton, largest: 0 of [\d,]+, left at most -", lines[0])
    assert re.fullmatch(r"gauss-newton, density: 3 of 3, left at most 0:00", lines[-1])


def test_an_interrupt_ends_in_one_word(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["hfrnn.cli.spectrum"], "_tell", Mock(side_effect=KeyboardInterrupt))
    for matrix, count in (("gauss-newton", 3), ("hessian", 0)):
        result = call("spectrum", run, "--matrix", matrix, "--count", count, code=1)
        assert result.output.splitlines() == ["Error: interrupted"]
