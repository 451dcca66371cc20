"""Spectra of networks, compared with dense matrices made the slow way."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from support.fake_device import FakeBackend
from support.slow import slow_unless

import hfrnn
from hfrnn.analysis.spectrum import Spectrum, spectrum
from hfrnn.choices import MATRICES
from hfrnn.errors import InputError, NonFiniteError

Matrix = np.ndarray

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
    batch = hfrnn.Batch(inputs, targets, lengths=LENGTHS)
    return hfrnn.Objective(net, batch, threads=2), net.init(seed=1, scale=0.8)


def dense(objective: hfrnn.Objective, theta: Any, matrix: str) -> Matrix:
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


def test_ranked_eigenvalues_are_read_off_the_density() -> None:
    none = np.zeros(0)
    density = np.array([-1.0, 0, 4]), np.array([0.15, 0.5, 0.35])
    known = Spectrum("hessian", 20, none, none, none, none, *density, 1, 1, 1, 1)
    expected = [-1.0] * 3 + [0.0] * 10 + [4.0] * 7
    assert [known.ranked(rank) for rank in range(1, 21)] == list(zip(expected[::-1], expected, strict=True))
    with pytest.raises(InputError, match="no density was computed"):
        spectrum(*setting(), vectors=0, count=1).ranked(1)


def test_one_vector_has_no_standard_error_and_none_has_no_density() -> None:
    objective, theta = setting()
    one, none = (spectrum(objective, theta, count=1, vectors=vectors, steps=3) for vectors in (1, 0))
    assert one.trace is not None
    assert (one.trace_error, one.nodes.size) == (None, 3)
    assert (none.trace, none.frobenius, none.nodes.size, none.weights.size) == (None, None, 0, 0)
    read = json.loads(json.dumps(one.to_json()))
    assert set(read) == set(Spectrum.__dataclass_fields__)
    assert (read["largest"], read["weights"]) == (one.largest.tolist(), one.weights.tolist())


def test_the_seed_decides_and_products_are_counted() -> None:
    objective, theta = setting()
    told: list[tuple[str, int, int]] = []
    found = spectrum(objective, theta, "hessian", 2, 2, 5, progress=lambda *state: told.append(state))
    for other, same in ((0, True), (1, False)):
        again = spectrum(objective, theta, "hessian", 2, 2, 5, seed=other)
        assert (again.nodes.tobytes() == found.nodes.tobytes()) is same
    assert found.products == len([done for _, done, _ in told if done])
    assert list(dict.fromkeys(what for what, _, _ in told)) == ["largest", "smallest", "density"]
    assert [(done, most) for what, done, most in told if what == "density"] == [(k, 10) for k in range(11)]  # from 0 on
    assert all(0 <= done <= most for _, done, most in told)


def test_the_spectrum_of_a_device_is_that_of_the_host() -> None:
    objective, theta = setting()
    net = hfrnn.Network(**{**objective.net.config, "backend": FakeBackend()})
    arrays = (net.backend.asarray(x) for x in (objective.batch.inputs, objective.batch.targets))
    fake = hfrnn.Objective(net, hfrnn.Batch(*arrays, lengths=LENGTHS))
    for matrix in ("gauss-newton", "hessian"):
        expected = spectrum(objective, theta, matrix, 1, 1, 3)
        found = spectrum(fake, net.backend.asarray(theta), matrix, 1, 1, 3)
        np.testing.assert_allclose(found.largest, expected.largest, rtol=1e-9)
        np.testing.assert_allclose(found.nodes, expected.nodes, rtol=1e-9)


def test_single_precision_and_weights_without_products_are_refused() -> None:
    objective, theta = setting(dtype="float32")
    with pytest.raises(InputError, match="float32"):
        spectrum(objective, theta)
    objective, theta = setting()
    for matrix in ("gauss-newton", "hessian"):
        with pytest.raises(NonFiniteError):
            spectrum(objective, np.full_like(theta, 1e308), matrix)
