"""Dynamic evaluation of networks with absent weights and fixed signs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call
from support.tiny_runs import tiny_train

import hfrnn
from hfrnn.analysis.dynamic_evaluation import Dynamic, Learner, mean_square_gradient
from hfrnn.analysis.evaluation import evaluate
from hfrnn.engine.batch import Batch
from hfrnn.engine.constraints import ABSENT
from hfrnn.engine.network import Network
from hfrnn.errors import InputError
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import run_text

SEGMENT = 7


def network(**options: Any) -> Network:
    return Network(**{"arch": "rnn", "n_in": 9, "hidden": 5, "n_out": 9, "dtype": "float64", **options})


@pytest.mark.parametrize("rule", ["sgd", "rms"])
def test_a_learning_network_keeps_its_constraints(rule: str) -> None:
    net = network()
    theta = net.init(seed=5, scale=0.5)
    W = net.views(theta)["layer0.W_h"]  # half of them are absent, and the others keep their signs
    there = np.random.default_rng(3).random(W.shape) < 0.5
    constraints = hfrnn.Constraints(net, {"layer0.W_h": there}, {"layer0.W_h": np.sign(W)})
    theta, exists = constraints.nearest(theta), constraints.codes != ABSENT
    squares = 10.0 ** np.random.default_rng(0).uniform(-8, -2, net.n_parameters) if rule == "rms" else None
    how = Dynamic(0.5, SEGMENT, 0.1, squares, constraints)
    learner, now, expected, flipped = Learner(net, theta, how), theta, theta, 0
    symbols = np.random.default_rng(0).integers(net.n_in, size=200)
    for start in range(0, 180, SEGMENT):
        segment = Batch(symbols[start : start + SEGMENT, None], symbols[start + 1 : start + SEGMENT + 1, None])
        g = net.loss_and_gradient(expected, segment)[1] * exists
        g *= min(1, 10 / np.linalg.norm(g))
        s = np.ones(net.n_parameters)
        p, d = 0.5 * s, 0.1 * s
        if squares is not None:
            s = np.sqrt(squares) / np.sqrt(squares)[exists].mean()
            p, d = 0.5 / (s + 0.1), np.minimum(0.1 * s, 1)
        free = theta + (1 - d) * (expected - theta) - p * g
        expected = np.where(constraints.signs * free < 0, 0, free) * exists
        flipped += int((expected != free).sum())
        now = learner.learn(now, segment)
        np.testing.assert_allclose(now, expected, rtol=1e-10, atol=1e-12)
        assert constraints.allows(now)
    assert flipped > 0


def test_constraints_of_another_network_and_mean_squares_of_absent_weights_alone_are_refused() -> None:
    net = network()
    with pytest.raises(InputError, match=r"constraints is for \d+ weights: this network has \d+"):
        Dynamic(constraints=hfrnn.Constraints(network(n_in=7))).factors(net)
    constraints = hfrnn.Constraints(net, {"layer0.W_h": np.zeros((5, 5))})
    squares = np.where(constraints.codes == ABSENT, 1.0, 0.0)
    with pytest.raises(InputError, match="mean_square holds no mean squares"):
        Dynamic(mean_square=squares, constraints=constraints).factors(net)


def test_the_command_keeps_the_constraints_of_the_run(tmp_path: Path) -> None:
    run = tiny_train(tmp_path, density=0.3, optimizer="adam").folder
    net, theta, vocabulary = hfrnn.load(run)[:3]
    constraints = hfrnn.Constraints(net, {name: W != 0 for name, W in net.views(theta).items() if ".W_h" in name})
    assert (constraints.codes == ABSENT).any()
    train, text = run_text(RunFolder(run), "train"), run_text(RunFolder(run), "valid")
    for rule, squares in (("sgd", None), ("rms", mean_square_gradient(net, theta, vocabulary.encode(train)))):
        found = json.loads(call("evaluate", run, "--dynamic", rule, "--learning-rate", "2", "--json").stdout)
        for each, same in ((constraints, True), (None, False)):
            mine = evaluate(net, theta, vocabulary, text, dynamic=Dynamic(2.0, mean_square=squares, constraints=each))
            assert (found["nats_per_symbol"] == mine.nats_per_symbol) == same
