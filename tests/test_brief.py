"""Short representations of public objects: one line, and no array in full."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.tiny_runs import tiny_train

import hfrnn
from hfrnn.wording import short


def test_a_value_is_shown_in_a_few_words() -> None:
    for value, text in (
        (0.123456789, "0.1235"), (np.zeros((3, 4), "float32"), "float32 (3, 4)"), (np.array([1.0, 2.5]), "[1, 2.5]"),
        (np.float64(0.5), "0.5"), ({n: n for n in range(99)}, "{99 entries}"), (tuple(range(99)), "tuple of 99"),
        ("a" * 99, f"'{'a' * 30}'..."), ("char", "'char'"), (None, "None"),
    ):  # fmt: skip
        assert short(value) == text


def test_objects_have_one_line(tmp_path: Path) -> None:
    net = hfrnn.Network("rnn", n_in=2, hidden=30, n_out=1, loss="squared", dtype="float64")
    batch = hfrnn.Batch(np.zeros((50, 4, 2)), np.zeros((50, 4, 1)))
    objective, theta = hfrnn.Objective(net, batch), net.init(seed=0)
    matrices = [objective.gauss_newton(theta), objective.hessian(theta), objective.jacobian(theta)]
    constraints, minimum = hfrnn.Constraints(net), hfrnn.minimize(objective, theta=theta, max_updates=1)
    bounded = hfrnn.ConstrainedObjective(objective, constraints)
    trained = tiny_train(tmp_path)
    results = trained, hfrnn.load(trained.folder), minimum
    for each in (net, batch, objective, *matrices, constraints, *results, bounded, hfrnn.HessianFree()):
        assert "\n" not in repr(each)
        assert len(repr(each)) < 700
        assert " object at " not in repr(each)
