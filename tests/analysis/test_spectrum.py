"""Spectra compared with dense matrices made the slow way, the batch taken from a run, and `hfrnn spectrum`."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from support.command_line import call
from support.fake_device import FakeBackend
from support.pictures import needs_matplotlib
from support.slow import slow_unless
from support.tiny_runs import snapshot, tiny_train

import hfrnn
from hfrnn.analysis.run_objective import load_objective
from hfrnn.analysis.spectrum import Spectrum, spectrum
from hfrnn.choices import MATRICES
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.live_line import working
from hfrnn.optim import lanczos
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import run_text

NETWORKS: dict[str, dict[str, Any]] = {
    "mlstm": {"arch": "mlstm", "hidden": 3},
    "stack with an embedding": {"arch": "rnn", "hidden": (3, 2), "embedding": 2, "l2": 0.3},
    "class softmax": {"arch": "gru", "hidden": 3, "loss": "class-softmax", "classes": 2},
    "squared": {"arch": "lstm", "hidden": 3, "loss": "squared"},
}
LENGTHS = np.array([6, 6, 4, 2, 5])
every_matrix = pytest.mark.parametrize("matrix", MATRICES)


def setting(name: str = "mlstm", **changes: Any) -> tuple[hfrnn.Objective, Any]:
    """A small objective and weights that are no optimum."""
    net = hfrnn.Network(**{"n_in": 4, "n_out": 4, "dtype": "float64", **NETWORKS[name], **changes})
    random = np.random.default_rng(3)
    inputs = random.integers(0, 4, (6, 5))
    targets = random.normal(size=(6, 5, 4)) if net.loss_name == "squared" else random.integers(0, 4, (6, 5))
    return hfrnn.Objective(net, hfrnn.Batch(inputs, targets, lengths=LENGTHS), threads=2), net.init(seed=1, scale=0.8)


def dense(objective: hfrnn.Objective, theta: Any, matrix: str) -> np.ndarray:
    """The matrix from its products with unit vectors."""
    operator = objective.gauss_newton(theta) if matrix == "gauss-newton" else objective.hessian(theta)
    return np.stack([operator @ unit for unit in np.eye(objective.net.n_parameters)])


@pytest.mark.parametrize(
    ("name", "matrix"),
    slow_unless(lambda name, matrix: name in ("mlstm", "squared"), itertools.product(NETWORKS, MATRICES)),
)
def test_eigenvalues_of_a_network_are_those_of_the_dense_matrix(name: str, matrix: str) -> None:
    objective, theta = setting(name)
    n = objective.net.n_parameters
    assert n > 40
    found = spectrum(objective, theta, matrix, count=4, vectors=0, tolerance=1e-9)
    expected = np.linalg.eigvalsh(dense(objective, theta, matrix))
    np.testing.assert_allclose(found.largest, expected[::-1][:4], atol=1e-8 * expected[-1])
    if matrix == "hessian":
        np.testing.assert_allclose(found.smallest, expected[:4], atol=1e-8 * expected[-1])
        assert (found.smallest < (0.1 if name.startswith("stack") else 0)).all()
    else:
        assert found.smallest.size == found.smallest_residuals.size == 0
    assert max(*found.largest_residuals, *found.smallest_residuals, 0) <= 1e-8 * expected[-1]
    assert (found.matrix, found.size, found.trace, found.frobenius) == (matrix, n, None, None)


@every_matrix
def test_a_density_of_all_steps_holds_every_eigenvalue(matrix: str) -> None:
    objective, theta = setting("squared")
    A, n = dense(objective, theta, matrix), objective.net.n_parameters
    found = spectrum(objective, theta, matrix, count=0, vectors=3, steps=n)
    assert found.weights.sum() == pytest.approx(1, abs=1e-12)
    assert (np.diff(found.nodes) >= 0).all()
    values = np.linalg.eigvalsh(A)
    far = np.abs(found.nodes[:, None] - values).min(axis=1)
    assert far[found.weights > 1e-9].max() <= 1e-9 * values[-1]
    signs = np.random.default_rng(0)
    starts = [signs.choice((-1.0, 1.0), n) for _ in range(3)]
    traces = [r @ A @ r for r in starts]
    assert found.trace == pytest.approx(np.mean(traces), rel=1e-10)
    assert found.trace_error == pytest.approx(np.std(traces, ddof=1) / np.sqrt(3), rel=1e-8)
    assert found.frobenius == pytest.approx(np.sqrt(np.mean([r @ A @ A @ r for r in starts])), rel=1e-10)
    assert found.largest.size == found.smallest.size == 0


def test_ranked_eigenvalues_are_read_off_the_density_which_needs_vectors() -> None:
    none = np.zeros(0)
    density = np.array([-1.0, 0, 4]), np.array([0.15, 0.5, 0.35])
    known = Spectrum("hessian", 20, none, none, none, none, *density, 1, 1, 1, 1)
    expected = [-1.0] * 3 + [0.0] * 10 + [4.0] * 7
    assert [known.ranked(rank) for rank in range(1, 21)] == list(zip(expected[::-1], expected, strict=True))
    with pytest.raises(InputError, match="no density was computed"):
        spectrum(*setting(), vectors=0, count=1).ranked(1)
    objective, theta = setting()
    one, none = (spectrum(objective, theta, count=1, vectors=vectors, steps=3) for vectors in (1, 0))
    assert one.trace is not None
    assert (one.trace_error, one.nodes.size) == (None, 3)
    assert (none.trace, none.frobenius, none.nodes.size, none.weights.size) == (None, None, 0, 0)
    assert json.loads(json.dumps(one.to_json())).keys() == Spectrum.__dataclass_fields__.keys()


def test_the_seed_decides_and_products_are_counted() -> None:
    objective, theta = setting()
    told: list[tuple[str, int, int]] = []
    found = spectrum(objective, theta, "hessian", 2, 2, 5, progress=lambda *state: told.append(state))
    for seed in (0, 1):
        again = spectrum(objective, theta, "hessian", 2, 2, 5, seed=seed)
        assert (again.nodes.tobytes() == found.nodes.tobytes()) == (seed == 0)
    assert found.products == len([done for _, done, _ in told if done])
    assert list(dict.fromkeys(what for what, _, _ in told)) == ["largest", "smallest", "density"]
    assert [(done, most) for what, done, most in told if what == "density"] == [(k, 10) for k in range(11)]  # from 0 on
    assert all(0 <= done <= most for _, done, most in told)


def test_the_spectrum_of_a_device_is_that_of_the_host() -> None:
    objective, theta = setting()
    net = hfrnn.Network(**{**objective.net.config, "backend": FakeBackend()})
    arrays = (net.backend.asarray(x) for x in (objective.batch.inputs, objective.batch.targets))
    fake = hfrnn.Objective(net, hfrnn.Batch(*arrays, lengths=LENGTHS))
    for matrix in MATRICES:
        expected = spectrum(objective, theta, matrix, 1, 1, 3)
        found = spectrum(fake, net.backend.asarray(theta), matrix, 1, 1, 3)
        np.testing.assert_allclose(found.largest, expected.largest, rtol=1e-9)
        np.testing.assert_allclose(found.nodes, expected.nodes, rtol=1e-9)


def test_single_precision_and_weights_without_products_are_refused() -> None:
    with pytest.raises(InputError, match="float32"):
        spectrum(*setting(dtype="float32"))
    objective, theta = setting()
    for matrix in MATRICES:
        with pytest.raises(NonFiniteError):
            spectrum(objective, np.full_like(theta, 1e308), matrix)


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


def test_a_batch_of_all_sequences_has_them_in_the_order_of_the_file_and_a_short_part_is_one(tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((20, 6, 1))
    options: dict[str, Any] = {"arch": "rnn", "hidden": 2, "optimizer": "adam", "updates": 1, "backend": "numpy"}
    np.savez(tmp_path / "a.npz", x=x, y=x)
    hfrnn.train(data=str(tmp_path / "a.npz"), out=tmp_path / "run", **options)
    objective = load_objective(str(tmp_path / "run"), symbols=10**9).objective
    np.testing.assert_allclose(objective.batch.inputs, x[:18].swapaxes(0, 1), rtol=1e-6)
    (tmp_path / "valid.txt").write_text("the fox")
    short = tiny_train(tmp_path, "short", valid=str(tmp_path / "valid.txt"), optimizer="adam").folder
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


def test_the_slow_hessian_is_computed_only_on_request_and_what_was_not_found_is_counted(run: Path, monkeypatch) -> None:
    shown = call("spectrum", run, "--symbols", 30, "--vectors", 0, "--count", 1).stdout
    assert "\ngauss-newton: " in shown
    assert not re.search("hessian|trace", shown)
    shown = call("spectrum", run, "--matrix", "hessian", "--symbols", 30, "--vectors", 1, "--count", 0).stdout
    assert not re.search("gauss-newton|residual", shown)
    assert re.search(r"^trace \S+, Frobenius norm \S+$", shown, re.MULTILINE)
    monkeypatch.setattr(lanczos, "MOST_PRODUCTS", 20)
    options = ("--symbols", 30, "--vectors", 0, "--count", 9, "--tolerance", 1e-14)
    shown = call("spectrum", run, "--matrix", "hessian", *options).stdout
    assert re.search(r"^\d+ more were not found in time: give a larger --tolerance", shown, re.MULTILINE)


@needs_matplotlib
@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_the_picture_is_drawn_even_of_zeros(run: Path, tmp_path: Path) -> None:
    from hfrnn.cli.plots import spectrum_picture

    options = ("spectrum", run, "--symbols", 30, "--steps", 4, "--count", 2, "--plot")
    for name, begin in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.PDF", b"%PDF")):
        call(*options, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin)
    drawn = (tmp_path / "a.svg").read_text()
    call(*options, tmp_path / "a.svg", "--force")
    assert (tmp_path / "a.svg").read_text() == drawn
    for words in ("density", "Eigenvalues of the Gauss-Newton matrix", "mlstm 4", "random sequences of the train part"):
        assert words in drawn
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


def test_without_matplotlib_the_extra_is_named_before_the_work_and_an_interrupt_ends_in_one_word(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with monkeypatch.context() as patch:
        patch.setattr("hfrnn.analysis.run_objective.load_objective", None)
        assert "pip install '.[plot]'" in call("spectrum", run, "--plot", "x.svg", code=2).output
    monkeypatch.setattr(sys.modules["hfrnn.cli.spectrum"], "_tell", Mock(side_effect=KeyboardInterrupt))
    assert call("spectrum", run, code=1).output.splitlines() == ["Error: interrupted"]


def test_progress_is_told_in_lines_off_a_terminal_and_the_time_left_is_a_bound(capsys, monkeypatch, run):
    now = [0.0]
    monkeypatch.setattr("hfrnn.live_line.time.monotonic", lambda: now[0])
    with working() as show:
        for step in range(1, 13):
            now[0] += 2.0
            show("density", step, 12)
        now[0] += 4.0
        show("other", 0, 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["density: 5 of 12, left 0:11", "density: 10 of 12, left 0:04"]
    monkeypatch.undo()
    monkeypatch.setattr("hfrnn.live_line.PLAIN_SECONDS", 0.0)
    lines = call("spectrum", run, "--symbols", 30, "--vectors", 1, "--steps", 3).stderr.splitlines()
    assert re.fullmatch(r"gauss-newton, largest: 0 of [\d,]+, left at most -", lines[0])
    assert re.fullmatch(r"gauss-newton, density: 3 of 3, left at most 0:00", lines[-1])
