"""The systems that the examples simulate, each against its definition."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.imported import imported
from support.slow import slow_unless

import hfrnn

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def example(name: str) -> Any:
    return imported(EXAMPLES / f"{name}.py")


def test_lorenz_trajectories_follow_the_equations() -> None:
    lorenz = example("lorenz")
    found = lorenz.trajectories(3, 200, np.random.default_rng(0))  # (points, count, 3)
    x, y, z = np.moveaxis(found[1:-1], -1, 0)
    velocity = (found[2:] - found[:-2]) / 0.02
    expected = np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], axis=-1)
    assert abs(velocity - expected).max() < 0.02 * abs(expected).max()  # the differences have errors of order 0.01^2


def test_context_trials_ask_for_the_sign_of_the_cued_stream() -> None:
    context = example("context_integration")
    found = context.trials(2000, np.random.default_rng(0))
    x, y, mask = found["x"], found["y"][..., 0], found["mask"]
    assert (x[..., 2:].sum(-1) == 1).all()
    assert (x[..., 2:] == x[:, :1, 2:]).all()
    assert not x[:, :20, :2].any()
    assert not x[:, 70:, :2].any()
    cued = np.where(x[:, 0, 2] == 1, x[:, 20:70, 0].mean(1), x[:, 20:70, 1].mean(1))
    assert (np.sign(cued) == y[:, -1]).mean() > 0.99
    other = np.where(x[:, 0, 2] == 1, x[:, 20:70, 1].mean(1), x[:, 20:70, 0].mean(1))
    assert abs((np.sign(other) == y[:, -1]).mean() - 0.5) < 0.05
    assert (abs(y[:, 70:]) == 1).all()
    assert not y[:, :70].any()
    assert (mask[:, 70:80] == 0).all()
    assert (np.delete(mask, np.s_[70:80], axis=1) == 1).all()


@pytest.mark.parametrize(
    "name", slow_unless("lorenz".__eq__, ["context_integration", "lorenz", "neurogym_task", "wiener_hammerstein"])
)
def test_an_example_trains_and_scores_its_network(name: str, tmp_path: Path) -> None:
    if name == "neurogym_task":
        pytest.importorskip("neurogym")
    table = {"path": str(tmp_path / "table.csv"), "samples": 3000} if name == "wiener_hammerstein" else {}
    assert 0 <= example(name).main(minutes=0.02, out=str(tmp_path / "run"), **table) < 10
    assert hfrnn.load(tmp_path / "run").net.n_parameters > 0


@pytest.mark.slow
def test_policies_learn_within_their_constraints() -> None:
    cue, point = example("trust_region"), example("gaussian_policy")
    history = cue.train(updates=40)
    assert np.mean([reward for reward, _ in history[:5]]) < 0.65
    assert np.mean([reward for reward, _ in history[-15:]]) > 0.85
    assert all(moved <= cue.DIVERGENCE for _, moved in history)
    deviations, history = point.train(updates=40)
    assert np.mean([reward for reward, _ in history[:3]]) < -2.5
    assert np.mean([reward for reward, _ in history[-3:]]) > -0.6
    assert all(0 < moved <= point.DIVERGENCE for _, moved in history)
    assert deviations[1] < deviations[0] < 0.5  # errors of the second coordinate cost more


def test_the_fisher_matrix_of_a_gaussian_policy_is_the_mean_of_the_outer_products_of_its_scores() -> None:
    found = example("gaussian_policy")
    net = hfrnn.Network("gru", n_in=2, hidden=3, n_out=2, loss="squared", dtype="float64")
    rng, B = np.random.default_rng(0), 3
    x, phi = found.inputs(B, rng), np.concatenate([net.init(1, scale=0.5), np.log([0.3, 0.8])])
    now = found.policy(net, phi, x)
    # three nodes for each normal variable: exact up to the degree 5, and the products of scores have at most 4
    nodes = (np.array([-math.sqrt(3), 0.0, math.sqrt(3)]), np.array([1, 4, 1]) / 6)
    expected = np.zeros((phi.size, phi.size))
    for chosen in itertools.product(range(3), repeat=found.ACTIONS * 2):
        normal = nodes[0][list(chosen)].reshape(found.ACTIONS, 1, 2)
        scores = found.Fisher(net, phi, x, now.means + now.deviations * normal).scores()
        expected += nodes[1][list(chosen)].prod() * scores.T @ scores / B
    actual, fisher = np.empty_like(expected), found.Fisher(net, phi, x, now.means)
    for row, unit in zip(actual, np.eye(phi.size), strict=True):
        fisher.apply(unit, row)
    actual -= found.DAMPING * np.eye(phi.size)
    for rows in (slice(-2), slice(-2, None)):
        for columns in (slice(-2), slice(-2, None)):
            block, right = actual[rows, columns], expected[rows, columns]
            assert abs(block - right).max() < 1e-10 * abs(expected[rows, rows]).max()


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page shows figures for the manual of Python 3.11")
def test_the_example_of_pytorch_prints_what_the_page_says() -> None:
    page = (EXAMPLES.parent / "docs" / "pytorch.md").read_text("utf-8")
    pytest.importorskip("torch")
    (shown,) = re.findall(r"```text\n(1  training.*?)\n```", page, re.S)
    script = str(EXAMPLES / "torch_gauss_newton.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    printed = done.stdout.strip().splitlines()
    assert len(printed) == len(shown.splitlines())
    for line, expected in zip(printed, shown.splitlines(), strict=True):
        assert re.fullmatch(re.escape(expected).replace(r"\.\.\.", r"\S+"), line), line


def test_the_example_of_pytorch_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    torch, found = pytest.importorskip("torch"), example("torch_gauss_newton")
    for name, value in {"T": 6, "B": 4, "HIDDEN": 8, "ADAM_STEPS": 2, "HF_UPDATES": 1, "ROUNDS": 1}.items():
        monkeypatch.setattr(found, name, value)
    monkeypatch.setattr(found, "topics", {"one": "to be or not to be, that is the question " * 5})
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(torch, "set_default_dtype", lambda dtype: None)
    found.main()
    said = capsys.readouterr().out
    assert float(re.search(r"difference of a tensor (\S+)", said)[1]) < 1e-4
    assert len(re.findall("after: ", said)) == 1
