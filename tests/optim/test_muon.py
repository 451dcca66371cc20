"""Muon against its formula, written once more in plain float64."""

import numpy as np
import pytest

from hfrnn.errors import InputError
from hfrnn.optim import muon as module
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.first_order import Adam, AdamOptions
from hfrnn.optim.muon import Muon, MuonOptions, orthogonalized

HIDDEN = (MatrixBlock(3, 4, 6), MatrixBlock(30, 4, 12, gates=3), MatrixBlock(78, 7, 2))
N = 97
OTHERS = np.r_[0:3, 27:30, 92:97]
RATES = (0.1, 0.05, 0.2, 0.1)


def gradients(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, N)) * np.geomspace(0.2, 5, N)


def plain_orthogonalization(G, epsilon=1e-8):
    """Newton and Schulz's iteration through the singular values, on which it acts as a polynomial."""
    left, values, right = np.linalg.svd(G / (np.abs(G).max() + epsilon), full_matrices=False)
    values = values / (np.sqrt((values**2).sum()) + epsilon)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return left @ np.diag(values) @ right


@pytest.mark.parametrize("options", [MuonOptions(), MuonOptions(decay=0.3, momentum=0.5, beta1=0.5, beta2=0.9)])
def test_steps_are_those_of_the_formula(options):
    theta, w, optimizer = np.linspace(-1, 1, N), np.linspace(-1, 1, N), Muon(HIDDEN, options)
    M, m, v = np.zeros(N), np.zeros(N), np.zeros(N)
    for t, (g, lr) in enumerate(zip(gradients(4), RATES, strict=True), 1):
        theta = optimizer.step(theta, g, lr)
        M = options.momentum * M + g
        m, v = options.beta1 * m + (1 - options.beta1) * g, options.beta2 * v + (1 - options.beta2) * g**2
        change = m / (1 - options.beta1**t) / (np.sqrt(v / (1 - options.beta2**t)) + 1e-8)
        N_ = g + options.momentum * M
        for start, rows, columns, gates in ((3, 4, 6, 1), (30, 4, 12, 3), (78, 7, 2, 1)):
            block, wide = N_[start : start + rows * columns].reshape(rows, columns), columns // gates
            parts = [plain_orthogonalization(block[:, n * wide : (n + 1) * wide]) for n in range(gates)]
            size = 0.2 * np.sqrt(max(rows, wide))
            change[start : start + rows * columns] = size * np.concatenate(parts, axis=1).reshape(-1)
        w = w - lr * change - lr * options.decay * w
        np.testing.assert_allclose(theta, w, rtol=1e-9, atol=1e-10)


def test_parameters_outside_of_hidden_matrices_have_the_steps_of_adam(monkeypatch):
    monkeypatch.setattr(module, "STEP_PIECE", 2)
    muon, adam = Muon(HIDDEN, MuonOptions(decay=0.1)), Adam(AdamOptions(0.9, 0.95, decay=0.1))
    theta = other = np.linspace(-1, 1, N)
    for g, lr in zip(gradients(4), RATES, strict=True):
        theta, other = muon.step(theta, g, lr), adam.step(other, g, lr)
        assert np.array_equal(theta[OTHERS], other[OTHERS])
    assert np.array_equal(Muon(()).step(theta, g, 0.1), Adam(AdamOptions(0.9, 0.95)).step(theta, g, 0.1))


def test_the_number_that_keeps_denominators_above_zero_is_added_to_both():
    G = np.random.default_rng(2).standard_normal((1, 3, 4))
    for epsilon in (0.1, 1.0):
        np.testing.assert_allclose(orthogonalized(G, epsilon)[0], plain_orthogonalization(G[0], epsilon), rtol=1e-9)


def test_blocks_that_do_not_fit_are_refused():
    for gates, words in ((5, "12 columns and 5 gates"), (0, "gates of a block is 0"), (1.5, "gates of a block is 1.5")):
        with pytest.raises(InputError, match=words):
            Muon([MatrixBlock(0, 4, 12, gates=gates)])
    with pytest.raises(InputError, match="a block ends at 92"):
        Muon(HIDDEN).step(np.zeros(91), np.zeros(91), 0.1)
