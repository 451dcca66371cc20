"""Spectra: extreme eigenvalues and densities of known matrices, and of networks beside dense ones made the slow way."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.fake_device import FakeBackend
from support.slow import one_in
from support.tiny_runs import snapshot, tiny_train

import hfrnn
from hfrnn.analysis.spectrum import Spectrum, load_objective, spectrum
from hfrnn.cli import main
from hfrnn.cli.long_work import working
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim import lanczos as room
from hfrnn.optim.lanczos import extreme_eigenvalues, lanczos, most_products, quadrature
from hfrnn.runs.run_folder import RunFolder

Matrix = np.ndarray


def times(A: Matrix) -> Callable[[Matrix], Matrix]:
    return lambda v: A @ v


def symmetric(eigenvalues: Any, seed: int = 0) -> Matrix:
    """A matrix of those eigenvalues in random directions."""
    values = np.asarray(eigenvalues, dtype=float)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(values.size, values.size)))
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


spectra_of_matrices = st.lists(
    st.one_of(st.sampled_from([0.0, 1.0, -1.0, 2.0]), st.floats(-100, 100, allow_subnormal=False)),
    min_size=1,
    max_size=30,
)

# ---------------------------------------------------------------------- the ends


@given(values=spectra_of_matrices, count=st.integers(1, 4), seed=st.integers(0, 9))
def test_the_extremes_of_any_matrix_are_its_own(values: list[float], count: int, seed: int) -> None:
    A = symmetric(values, seed)
    for end, expected in (("largest", -np.sort(-np.array(values))), ("smallest", np.sort(values))):
        found, residuals = extreme_eigenvalues(times(A), len(values), count, end, 1e-10, rng(seed))
        assert found.shape == residuals.shape == (min(count, len(values)),)
        scale = max(np.abs(values).max(), 1e-300)
        assert (residuals <= 1e-9 * scale).all()
        assert abs(found[0] - expected[0]) <= 1e-8 * scale
        nearest = np.abs(found[:, None] - np.array(values)).min(axis=1)
        assert (nearest <= residuals + 1e-12 * scale).all()


@pytest.mark.parametrize("n", [1, 2, 20, 21, 60])
@pytest.mark.parametrize("end", ["largest", "smallest"])
def test_every_count_of_distinct_eigenvalues_comes_from_the_outside_in(n: int, end: str) -> None:
    values = np.linspace(-3, 5, n) ** 3
    expected = np.sort(values) if end == "smallest" else -np.sort(-values)
    for count in (1, 5, n, n + 3):
        found, residuals = extreme_eigenvalues(times(symmetric(values)), n, count, end, 1e-10, rng())
        np.testing.assert_allclose(found, expected[:count], atol=1e-9)
        assert residuals.size == found.size


@pytest.mark.parametrize("n", [1, 5, 50])
def test_matrices_of_one_eigenvalue(n: int) -> None:
    for value in (0.0, 2.0, -3.0):
        for end in ("largest", "smallest"):
            found, residuals = extreme_eigenvalues(times(value * np.eye(n)), n, 3, end, 1e-8, rng())
            np.testing.assert_allclose(found, np.full(min(3, n), value), rtol=1e-12)
            assert residuals.max() <= 1e-12


def test_residuals_say_how_far_an_eigenvalue_may_be_off() -> None:
    A = symmetric(np.linspace(0, 1, 300))
    loose, residuals = extreme_eigenvalues(times(A), 300, 3, "largest", 0.05, rng())
    assert residuals.max() > 1e-6
    distance = np.abs(loose[:, None] - np.linspace(0, 1, 300)).min(axis=1)
    assert (distance <= residuals).all()


def test_a_search_that_is_given_up_keeps_what_it_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_PRODUCTS", 60)
    values, calls = np.concatenate([[50.0, 20.0], np.linspace(0, 1, 498)]), [0]

    def product(v: Matrix) -> Matrix:
        calls[0] += 1
        return values * v

    found, residuals = extreme_eigenvalues(product, 500, 4, "largest", 1e-12, rng())
    assert 2 <= found.size < 4
    np.testing.assert_allclose(found[:2], [50, 20], rtol=1e-10)
    assert residuals.size == found.size
    assert calls[0] <= most_products(500, 4)


@pytest.mark.parametrize(("n", "count"), [(1, 1), (10, 3), (20, 5), (21, 5), (300, 5), (300, 12)])
def test_the_products_stay_below_what_is_said(n: int, count: int) -> None:
    calls = [0]
    A = symmetric(np.linspace(1, 2, n) ** 4)

    def product(v: Matrix) -> Matrix:
        calls[0] += 1
        return A @ v

    extreme_eigenvalues(product, n, count, "largest", 1e-8, rng())
    assert count <= calls[0] <= most_products(n, count)


# ---------------------------------------------------------------------- the density


@given(values=spectra_of_matrices, steps=st.integers(1, 35), seed=st.integers(0, 9))
def test_the_rule_has_the_moments_of_the_matrix_below_twice_its_steps(
    values: list[float], steps: int, seed: int
) -> None:
    A, r = symmetric(values, seed), rng(seed).normal(size=len(values))
    nodes, weights = quadrature(*lanczos(times(A), r, steps))
    assert nodes.shape == weights.shape
    assert nodes.size <= min(steps, len(values))
    assert (np.diff(nodes) >= 0).all()
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    scale = max(np.abs(values).max(), 1e-300)
    x = r / np.linalg.norm(r)
    for k in range(1, min(2 * steps, 12)):
        x = A @ x
        moment = r @ x / np.linalg.norm(r)
        assert weights @ nodes**k == pytest.approx(moment, abs=1e-9 * scale**k)


@pytest.mark.parametrize("n", [1, 2, 3, 40, 120])
def test_after_n_steps_the_nodes_are_the_eigenvalues(n: int) -> None:
    values = np.sort(np.random.default_rng(n).normal(size=n))
    values[n // 2 :] *= 100
    values.sort()
    nodes, weights = quadrature(*lanczos(times(symmetric(values)), rng().choice((-1.0, 1.0), n), 10 * n))
    np.testing.assert_allclose(nodes, values, atol=1e-10)
    assert weights.sum() == pytest.approx(1, abs=1e-12)


def test_a_multiple_eigenvalue_is_one_node_with_the_weight_of_all_its_copies() -> None:
    values, r = np.repeat([-1.0, 0.0, 4.0], [3, 10, 7]), np.ones(20)
    nodes, weights = quadrature(*lanczos(lambda v: values * v, r, 20))
    np.testing.assert_allclose(nodes, [-1, 0, 4], atol=1e-12)
    np.testing.assert_allclose(weights, [0.15, 0.5, 0.35], atol=1e-12)


def test_a_matrix_of_zeros_is_a_node_at_zero() -> None:
    nodes, weights = quadrature(*lanczos(lambda v: 0 * v, np.ones(7), 5))
    assert (nodes.tolist(), weights.tolist()) == ([0.0], [1.0])


def test_the_start_need_not_be_of_length_one_and_is_not_written() -> None:
    A, r = symmetric(np.arange(8.0)), np.arange(1.0, 9.0)
    expected = lanczos(times(A), r / 7, 5)
    for found, same in zip(lanczos(times(A), r, 5), expected, strict=True):
        np.testing.assert_allclose(found, same, rtol=1e-12)
    assert r.tolist() == list(range(1, 9))


def test_over_all_unit_vectors_trace_and_frobenius_norm_are_exact() -> None:
    A = symmetric(np.linspace(-2, 7, 12))
    rules = [quadrature(*lanczos(times(A), unit, 2)) for unit in np.eye(12)]
    assert sum(w @ t for t, w in rules) == pytest.approx(np.trace(A), rel=1e-12)
    assert sum(w @ t**2 for t, w in rules) == pytest.approx((A**2).sum(), rel=1e-12)


# ---------------------------------------------------------------------- networks

NETWORKS: dict[str, dict[str, Any]] = {
    "mlstm": {"arch": "mlstm", "hidden": 3},
    "stack with an embedding": {"arch": "rnn", "hidden": (3, 2), "embedding": 2, "l2": 0.3},
    "class softmax": {"arch": "gru", "hidden": 3, "loss": "class-softmax", "classes": 2},
    "squared": {"arch": "lstm", "hidden": 3, "loss": "squared"},
}
LENGTHS = np.array([6, 6, 4, 2, 5])
every_network = pytest.mark.parametrize("name", NETWORKS)
every_matrix = pytest.mark.parametrize("matrix", ["gauss-newton", "hessian"])


def setting(name: str = "mlstm", **changes: Any) -> tuple[hfrnn.Objective, Any]:
    """A small objective and weights that are no optimum."""
    net = hfrnn.Network(**{"n_in": 4, "n_out": 4, "dtype": "float64", **NETWORKS[name], **changes})
    random = np.random.default_rng(3)
    inputs = random.integers(0, 4, (6, 5))
    targets = random.normal(size=(6, 5, 4)) if net.loss_name == "squared" else random.integers(0, 4, (6, 5))
    batch = hfrnn.Batch(inputs, targets, lengths=LENGTHS)
    return hfrnn.Objective(net, batch, threads=2), net.init(seed=1, scale=0.8)


def dense(objective: hfrnn.Objective, theta: Any, matrix: str) -> Matrix:
    """The matrix from its products with unit vectors."""
    operator = objective.gauss_newton(theta) if matrix == "gauss-newton" else objective.hessian(theta)
    return np.stack([operator @ unit for unit in np.eye(objective.net.n_parameters)])


@every_matrix
@every_network
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


def test_eigenvalues_of_the_hessian_are_those_of_automatic_differentiation() -> None:
    jax = pytest.importorskip("jax", reason="the oracle needs JAX: install hfrnn[oracle]")
    from oracle import reference, sizes

    objective, theta = setting("mlstm")
    net, batch = objective.net, objective.batch
    config = sizes.Config(arch="mlstm", n_in=4, hidden=net.hidden, n_out=4, loss="softmax")
    data = reference.Data(batch.inputs, batch.targets, None, LENGTHS)
    second = jax.jit(jax.hessian(lambda t: reference.objective(net.views(t), data, config))).lower(theta)
    try:
        compiled = second.compile(compiler_options=reference.QUICK)
    except Exception:  # options come and go with versions of XLA
        compiled = second.compile()
    H = compiled(theta)
    expected = np.linalg.eigvalsh(np.asarray(H))
    found = spectrum(objective, theta, "hessian", count=4, vectors=0, tolerance=1e-9)
    np.testing.assert_allclose(found.largest, expected[::-1][:4], atol=1e-8 * expected[-1])
    np.testing.assert_allclose(found.smallest, expected[:4], atol=1e-8 * expected[-1])


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


@every_matrix
def test_trace_and_norm_come_near_those_of_the_dense_matrix(matrix: str) -> None:
    objective, theta = setting("squared")
    A = dense(objective, theta, matrix)
    found = spectrum(objective, theta, matrix, count=0, vectors=40, steps=12)
    assert abs(found.trace - np.trace(A)) < 4 * found.trace_error < 0.5 * abs(np.trace(A)) + 4
    assert found.frobenius == pytest.approx(np.linalg.norm(A), rel=0.2)


def test_ranked_eigenvalues_are_read_off_the_density() -> None:
    none = np.zeros(0)
    known = Spectrum(
        "hessian", 20, none, none, none, none, np.array([-1.0, 0, 4]), np.array([0.15, 0.5, 0.35]), 1, 1, 1, 1
    )
    expected = [-1.0] * 3 + [0.0] * 10 + [4.0] * 7
    assert [known.ranked(rank) for rank in range(1, 21)] == list(zip(expected[::-1], expected, strict=True))
    objective, theta = setting("squared")
    values = np.linalg.eigvalsh(dense(objective, theta, "hessian"))
    found = spectrum(objective, theta, "hessian", count=0, vectors=15, steps=values.size)
    for rank in range(1, values.size + 1):
        high, low = found.ranked(rank)
        near = slice(max(rank - 6, 0), rank + 5)
        assert values[::-1][near].min() - 1e-6 <= high <= values[::-1][near].max() + 1e-6
        assert values[near].min() - 1e-6 <= low <= values[near].max() + 1e-6


def test_one_vector_has_no_standard_error_and_none_has_no_density() -> None:
    objective, theta = setting()
    one, none = (spectrum(objective, theta, count=1, vectors=vectors, steps=3) for vectors in (1, 0))
    assert one.trace is not None
    assert one.trace_error is None
    assert one.nodes.size == 3
    assert (none.trace, none.frobenius, none.nodes.size, none.weights.size) == (None, None, 0, 0)


def test_the_seed_decides_and_products_are_counted() -> None:
    objective, theta = setting()
    told: list[tuple[str, int, int]] = []
    found = spectrum(objective, theta, "hessian", 2, 2, 5, progress=lambda *state: told.append(state))
    for other, same in ((0, True), (1, False)):
        again = spectrum(objective, theta, "hessian", 2, 2, 5, seed=other)
        assert (again.nodes.tobytes() == found.nodes.tobytes()) is same
    assert found.products == len(told)
    assert list(dict.fromkeys(what for what, _, _ in told)) == ["largest", "smallest", "density"]
    assert [(done, most) for what, done, most in told if what == "density"] == [(k, 10) for k in range(1, 11)]
    assert all(0 < done <= most for _, done, most in told)


def test_the_spectrum_of_a_device_is_that_of_the_host() -> None:
    objective, theta = setting()
    net = hfrnn.Network(**{**objective.net.config, "backend": FakeBackend()})
    fake = hfrnn.Objective(
        net,
        hfrnn.Batch(
            *(net.backend.asarray(x) for x in (objective.batch.inputs, objective.batch.targets)),
            lengths=LENGTHS,
        ),
    )
    for matrix in ("gauss-newton", "hessian"):
        expected = spectrum(objective, theta, matrix, 3, 1, 4)
        found = spectrum(fake, net.backend.asarray(theta), matrix, 3, 1, 4)
        np.testing.assert_allclose(found.largest, expected.largest, rtol=1e-9)
        np.testing.assert_allclose(found.nodes, expected.nodes, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"matrix": "fisher"}, "matrix 'fisher' is not known"),
        ({"count": -1}, "count is -1"),
        ({"vectors": -1}, "vectors is -1"),
        ({"steps": 0}, "steps is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        spectrum(*setting(), **options)


def test_single_precision_and_weights_without_products_are_refused() -> None:
    objective, theta = setting(dtype="float32")
    with pytest.raises(InputError, match="float32"):
        spectrum(objective, theta)
    objective, theta = setting()
    for matrix in ("gauss-newton", "hessian"):
        with pytest.raises(NonFiniteError):
            spectrum(objective, np.full_like(theta, 1e308), matrix)


def test_all_figures_go_into_json() -> None:
    found = spectrum(*setting(), "hessian", 2, 1, 4)
    read = json.loads(json.dumps(found.to_json()))
    assert set(read) == set(Spectrum.__dataclass_fields__)
    assert read["largest"] == found.largest.tolist()
    assert read["weights"] == found.weights.tolist()


# ---------------------------------------------------------------------- runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_train(tmp_path_factory.mktemp("spectrum"), l2=0.1).folder


def call(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result


def test_a_run_is_taken_on_random_sequences_of_its_part_in_double_precision(run: Path) -> None:
    net, theta, vocabulary = hfrnn.load(run)
    objective, wide, data = load_objective(str(run), symbols=52)
    assert (objective.net.dtype, objective.net.l2, wide.dtype) == (np.float64, 0.1, np.float64)
    assert data == "5 random sequences of the train part of text.txt, 50 steps"
    np.testing.assert_array_equal(wide, theta)
    assert objective.loss(wide) == pytest.approx(net.loss(theta, objective.batch), rel=1e-5)
    row = vocabulary.encode(RunFolder(run).corpus().train)
    starts = {row[k * 10 : k * 10 + 11].tobytes() for k in range((row.size - 1) // 10)}
    for b in range(5):
        symbols = np.append(objective.batch.inputs[:, b], objective.batch.targets[-1, b]).astype(row.dtype)
        assert symbols.tobytes() in starts
    other = load_objective(str(run), symbols=52, seed=1).objective
    assert (other.batch.inputs != objective.batch.inputs).any()
    sizes = [load_objective(str(run), symbols=symbols).objective.batch.B for symbols in (1, 10**9)]
    assert sizes == [1, (row.size - 1) // 10]
    assert load_objective(str(run), "last", "valid", 30).data.startswith("3 random sequences of the valid part")


def test_a_part_shorter_than_a_sequence_is_one(tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("the fox")
    short = tiny_train(tmp_path, valid=str(tmp_path / "valid.txt")).folder
    assert load_objective(str(short), part="valid").data == "1 random sequence of the valid part of text.txt, 6 steps"


def test_a_task_and_music_have_batches_of_their_own(tmp_path: Path, small_music: Path) -> None:
    task = tiny_train(
        tmp_path, "task", text=None, data="addition", length=21, arch="rnn", sequences=20, sequence_length=100
    )
    objective, theta, data = load_objective(str(task.folder), symbols=100)
    assert re.fullmatch(r"4 random sequences of the task addition, \d+ steps", data)
    assert objective.batch.total_weight(objective.net.backend) == 4
    assert spectrum(objective, theta, count=2, vectors=0).largest.size == 2
    with pytest.raises(InputError, match="has no parts"):
        load_objective(str(task.folder), part="train")
    music = tiny_train(tmp_path, "music", text=None, data="jsb", sequence_length=100).folder
    objective, theta, data = load_objective(str(music), symbols=10)
    assert re.fullmatch(r"\d random sequences? of the train part of jsb, \d+ steps", data)
    assert spectrum(objective, theta, count=2, vectors=0).largest.size == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [({"symbols": 0}, "symbols is 0"), ({"seed": -1}, "the seed is -1"), ({"part": "tset"}, "'tset' is not known")],
)
def test_a_batch_that_cannot_be_is_refused(run: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_objective(str(run), **options)


def test_the_command_prints_what_the_library_finds(run: Path) -> None:
    before = snapshot(run)
    options = ("spectrum", run, "--symbols", 60, "--count", 3, "--vectors", 2, "--steps", 6, "--seed", 2)
    found = json.loads(call(*options, "--json").stdout)
    objective, theta, data = load_objective(str(run), symbols=60, seed=2)
    assert (found["network"], found["data"]) == (objective.net.describe(), data)
    assert [each.pop("matrix") for each in found["matrices"]] == ["gauss-newton", "hessian"]
    shown = call(*options).stdout
    found_g = spectrum(objective, theta, "gauss-newton", 3, 2, 6, seed=2)
    for name, read in zip(("gauss-newton", "hessian"), found["matrices"], strict=True):
        same = spectrum(objective, theta, name, 3, 2, 6, seed=2)
        assert read.pop("seconds") > 0
        assert read == {key: value for key, value in same.to_json().items() if key != "matrix"}
        assert f"\n{name}: {same.products:,} products in " in shown
        for value, residual in zip(same.largest, same.largest_residuals, strict=True):
            assert re.search(rf"^ +{value:.6g} +{residual:.1e}( |$)", shown, re.MULTILINE)
        assert f"trace {same.trace:.4g} (standard error {same.trace_error:.2g})" in shown
    for value, residual in zip(same.smallest, same.smallest_residuals, strict=True):
        assert re.search(rf" {value:.6g} +{residual:.1e}$", shown, re.MULTILINE)
    high, low = same.ranked(10)
    assert re.search(rf"^ +10th +{high:.3g} +{low:.3g}$", shown, re.MULTILINE)
    assert re.search(rf"^ +100th +{found_g.ranked(100)[0]:.3g}$", shown, re.MULTILINE)
    assert max(map(len, shown.splitlines())) <= 80
    assert snapshot(run) == before


def test_the_command_can_leave_parts_out(run: Path) -> None:
    shown = call("spectrum", run, "--matrix", "gauss-newton", "--symbols", 30, "--vectors", 0, "--count", 1).stdout
    assert "hessian" not in shown
    assert "trace" not in shown
    shown = call("spectrum", run, "--matrix", "hessian", "--symbols", 30, "--vectors", 1, "--count", 0).stdout
    assert "gauss-newton" not in shown
    assert "residual" not in shown
    assert re.search(r"^trace \S+, Frobenius norm \S+$", shown, re.MULTILINE)


def test_eigenvalues_that_were_not_found_are_counted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_PRODUCTS", 20)
    options = ("--symbols", 30, "--vectors", 0, "--count", 9, "--tolerance", 1e-14)
    shown = call("spectrum", run, "--matrix", "hessian", *options).stdout
    assert re.search(r"^\d+ more were not found in time: give a larger --tolerance", shown, re.MULTILINE)


@pytest.mark.parametrize("name", one_in(3, ["spectrum.svg", "spectrum.png", "spectrum.PDF"]))
def test_the_picture_is_drawn(run: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: install hfrnn[plot]")
    path = tmp_path / name
    call("spectrum", run, "--symbols", 30, "--steps", 4, "--count", 2, "--plot", path)
    begins = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
    assert path.read_bytes().startswith(begins[name[-3:].lower()])
    if name.endswith("svg"):
        again = path.read_bytes()
        call("spectrum", run, "--symbols", 30, "--steps", 4, "--count", 2, "--plot", path)
        assert path.read_bytes() == again
        drawn = again.decode()
        for words in ("gauss-newton, above 0", "density", "eigenvalue"):
            assert words in drawn


@pytest.mark.filterwarnings("error")
def test_a_spectrum_of_zeros_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib: install hfrnn[plot]")
    from hfrnn.cli.spectrum_plot import draw

    none, zeros = np.zeros(0), np.zeros(2)
    draw(
        [Spectrum("hessian", 9, zeros, zeros, none, none, zeros, zeros + 0.5, 0.0, 0.0, 0.0, 4)],
        str(tmp_path / "a.svg"),
    )
    assert (tmp_path / "a.svg").stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plot", "x.jpeg"), "give a file that ends in .svg, .png, .pdf"),
        (("--plot", "no/x.svg"), "there is no folder no"),
        (("--plot", "x.svg", "--vectors", 0), "--vectors is 0"),
        (("--symbols", 0), "symbols is 0"),
        (("--count", -1), "count is -1"),
        (("--tolerance", 0), "tolerance is 0.0"),
        (("--matrix", "hesian"), "Did you mean 'hessian'?"),
        (("--part", "test"), "has no two symbols"),
        (("--which", "worst"), "checkpoint 'worst' is not known"),
    ],
)
def test_the_command_refuses_what_does_not_fit(run: Path, options: tuple[object, ...], message: str) -> None:
    assert message in " ".join(call("spectrum", run, *options, code=2).output.split())


def test_without_matplotlib_the_extra_is_named_before_the_work(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("hfrnn.analysis.spectrum.load_objective", None)
    assert "pip install 'hfrnn[plot]'" in call("spectrum", run, "--plot", "x.svg", code=2).output


def test_progress_is_told_in_lines_off_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    now = [0.0]
    monkeypatch.setattr("hfrnn.cli.long_work.time.monotonic", lambda: now[0])
    with working() as show:
        for step in range(1, 13):
            now[0] += 2.0
            show("density", step, 12)
        now[0] += 4.0
        show("other", 0, 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["density: 5 of 12, left 0:11", "density: 10 of 12, left 0:04"]


@pytest.mark.parametrize(("matrix", "count"), [("gauss-newton", 3), ("hessian", 0)])
def test_an_interrupt_ends_in_one_word(run: Path, monkeypatch: pytest.MonkeyPatch, matrix: str, count: int) -> None:
    def interrupted(show: object, matrix: str, what: str, done: int, most: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["hfrnn.cli.spectrum"], "_tell", interrupted)
    result = call("spectrum", run, "--matrix", matrix, "--count", count, "--symbols", 100, code=1)
    assert result.output.splitlines() == ["Error: interrupted"]
