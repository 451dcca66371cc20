"""SOAP against its formula, written once more in plain float64."""

import numpy as np
import pytest

from hfrnn.errors import InputError
from hfrnn.optim import soap as module
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.soap import SOAP, SOAPOptions

SHAPES = ((4, 6), (1, 5), (5, 3), (3, 1))
BLOCKS = tuple(MatrixBlock(start, *shape) for start, shape in zip((0, 24, 29, 44), SHAPES, strict=True))
N = 47
RATES = (0.1, 0.05, 0.2, 0.1, 0.1, 0.02, 0.1, 0.1)


def gradients(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, N)) * np.geomspace(0.2, 5, N)


def steps(optimizer, found, rates=RATES, theta=None):
    theta = np.linspace(-1, 1, N) if theta is None else theta
    for g, lr in zip(found, rates, strict=False):
        theta = optimizer.step(theta, g, lr)
    return theta


class Plain:
    """SOAP for one matrix, as the paper's pseudocode says it: eigenvectors first, then power iterations."""

    def __init__(self, W, options, bases):
        self.W, self.o, self.has = W, options, bases
        self.M = self.V = np.zeros(W.shape)
        self.F = [np.zeros((n, n)) for n in W.shape]
        self.Q = [np.eye(n) for n in W.shape]
        self.t = 0

    def step(self, G, lr):
        o, (Q_L, Q_R) = self.o, self.Q
        if self.t:
            self.M = o.beta1 * self.M + (1 - o.beta1) * G
            self.V = o.beta2 * self.V + (1 - o.beta2) * (Q_L.T @ G @ Q_R) ** 2
            mean = Q_L.T @ self.M @ Q_R / (1 - o.beta1**self.t)
            change = mean / (np.sqrt(self.V / (1 - o.beta2**self.t)) + o.epsilon)
            self.W = self.W - lr * (Q_L @ change @ Q_R.T) - lr * o.decay * self.W
        self.F = [o.factor_beta * F + (1 - o.factor_beta) * S for F, S in zip(self.F, (G @ G.T, G.T @ G), strict=True)]
        for side in (0, 1):
            F, Q = self.F[side], self.Q[side]
            if not self.has[side]:
                continue
            if self.t == 0:
                self.Q[side] = np.linalg.eigh(F)[1]
            elif self.t % o.every == 0:
                order = np.argsort(-np.diag(Q.T @ F @ Q))
                self.V = np.take(self.V, order, axis=side)
                self.Q[side] = np.linalg.qr(F @ Q[:, order])[0]
        self.t += 1


@pytest.mark.parametrize(("options", "most"), [
    (SOAPOptions(every=1), 1024), (SOAPOptions(every=3, decay=0.3), 4),
    (SOAPOptions(0.5, 0.7, 0.8, every=2, epsilon=1e-3), 1024), (SOAPOptions(0.5, 0.7, 0.8, every=2, epsilon=1e-3), 3),
    (SOAPOptions(0.0, 0.9, 0.0), 4),
])  # fmt: skip
def test_steps_are_those_of_the_formula(monkeypatch, options, most):
    monkeypatch.setattr(module, "MOST", most)
    theta, optimizer = np.linspace(-1, 1, N), SOAP(BLOCKS, options)
    plain = []
    for block in BLOCKS:
        has = tuple(min(block.rows, block.columns) > 1 and side <= most for side in (block.rows, block.columns))
        plain.append(Plain(theta[block.span].reshape(block.rows, block.columns), options, has))
    for g, lr in zip(gradients(len(RATES)), RATES, strict=True):
        theta = optimizer.step(theta, g, lr)
        for block, each in zip(BLOCKS, plain, strict=True):
            each.step(g[block.span].reshape(block.rows, block.columns), lr)
            np.testing.assert_allclose(theta[block.span], each.W.reshape(-1), rtol=1e-9, atol=1e-9)


def test_bases_stay_orthonormal_in_float32():
    found = gradients(100).astype("f4")
    found[:, 7:12] = 0  # a row that never has a gradient
    optimizer = SOAP(BLOCKS, SOAPOptions(every=2))
    theta = steps(optimizer, found, [1e-3] * 100, np.linspace(-1, 1, N).astype("f4"))
    assert theta.dtype == "f4"
    Q = optimizer.state_dict()["bases"][:16].reshape(4, 4)
    assert Q.dtype == "f4"
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-5)


@pytest.mark.parametrize(("change", "words"), [
    ({"factors": np.zeros(7)}, r"factors of the state has shape \(7,\)"),
    ({"bases": np.zeros(3)}, r"bases of the state has shape \(3,\)"),
    ({"bases": "x"}, "bases of the state"),
    ({"mean": np.zeros(N - 1)}, r"mean of the state has shape \(46,\)"),
    ({"square": np.zeros((N, 1))}, r"square of the state has shape \(47, 1\)"),
])  # fmt: skip
def test_a_state_of_other_blocks_changes_nothing(change, words):
    optimizer = SOAP(BLOCKS)
    theta = steps(optimizer, gradients(3))
    state = optimizer.state_dict()
    with pytest.raises(InputError, match=words):
        optimizer.load_state_dict({**state, **change})
    for name in optimizer.squares:
        with pytest.raises(InputError, match=f"lacks {name}"):
            optimizer.load_state_dict({key: value for key, value in state.items() if key != name})
    other = SOAP(BLOCKS)
    other.load_state_dict(state)
    assert np.array_equal(optimizer.step(theta, theta, 0.1), other.step(theta, theta, 0.1))


def test_blocks_that_do_not_cover_theta_are_refused():
    for blocks in (BLOCKS[1:], BLOCKS[:-1], [*BLOCKS, MatrixBlock(N, 2, 2)], [MatrixBlock(1, 1, N)]):
        with pytest.raises(InputError, match="give blocks that cover theta"):
            steps(SOAP(blocks), gradients(1))
