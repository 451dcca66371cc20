"""Do influence scores tell what leaving a sequence out of the training does?

An LSTM regression is trained to a minimum. Then it is trained again without each of some sequences, from the weights
found, and the change of its validation loss is compared with the score. See README.md beside this file.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from scipy.optimize import minimize
from scipy.stats import pearsonr, spearmanr

import hfrnn

T = 20


def sequences(B: int, noise: float, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Inputs (T, B, 2), targets (T, B, 1) at the last step, weights: a nonlinear function of two decaying sums."""
    x, y, w = rng.standard_normal((T, B, 2)), np.zeros((T, B, 1)), np.zeros((T, B))
    m, s = (x * (0.8 ** np.arange(T)[::-1, None, None])).sum(axis=0).T
    y[-1, :, 0], w[-1] = np.sin(m) + 0.5 * np.tanh(m * s) + noise * rng.standard_normal(B), 1.0
    return x, y, w


def network(hidden: int, l2: float) -> hfrnn.Network:
    return hfrnn.Network("lstm", 2, hidden, 1, loss="squared", dtype="float64", l2=l2)


def trained(net: hfrnn.Network, batch: hfrnn.Batch, theta: Any) -> tuple[Any, float]:
    """The minimum that L-BFGS finds from theta, and the norm of the gradient there."""
    objective = hfrnn.Objective(net, batch, threads=1)
    options = {"maxiter": 5000, "maxfun": 9000, "gtol": 1e-12, "ftol": 0.0, "maxcor": 50}
    found = minimize(objective.loss_and_gradient, theta, jac=True, method="L-BFGS-B", options=options).x
    return found, float(np.linalg.norm(objective.loss_and_gradient(found)[1]))


def left_out(B: int, hidden: int, l2: float, noise: float, count: int, share: float, seed: int) -> dict[str, Any]:
    """Train, score, train again without a share of the weight of each of `count` sequences, and compare."""
    rng = np.random.default_rng(seed)
    x, y, w = sequences(B, noise, rng)
    validation, net = hfrnn.Batch(*sequences(100, noise, rng)), network(hidden, l2)
    theta, gradient = trained(net, hfrnn.Batch(x, y, w), net.init(0))
    objective = hfrnn.Objective(net, hfrnn.Batch(x, y, w), threads=1)
    plain = net.without_penalty()
    before, chosen = plain.loss(theta, validation), rng.choice(B, count, replace=False)
    changes, gradients = [], [gradient]
    for b in chosen:
        weights = w.copy()
        weights[:, b] *= 1.0 - share
        # the loss is a mean over less weight now: the same minimum as of the sum over it with the old l2
        again, gradient = trained(network(hidden, l2 * B / (B - share)), hfrnn.Batch(x, y, weights), theta)
        changes.append((plain.loss(again, validation) - before) / share)
        gradients.append(gradient)
    result: dict[str, Any] = {
        "weights": net.n_parameters, "sequences": B, "l2": l2, "noise": noise, "left_out": count,
        "share": share,
        "training_loss": plain.loss(theta, hfrnn.Batch(x, y, w)), "validation_loss": before,
        "largest_gradient": max(gradients), "changes": changes,
    }  # fmt: skip
    for matrix, tolerance in (("gauss-newton", 1e-4), ("gauss-newton", 1e-1), ("hessian", 1e-4)):
        start = time.process_time()
        found = hfrnn.influence(objective, theta, validation, matrix=matrix, tolerance=tolerance)
        scores = found.scores[0, chosen]
        result[f"{matrix}, tolerance {tolerance:g}"] = {
            "spearman": float(spearmanr(scores, changes).statistic),
            "pearson": float(pearsonr(scores, changes)[0]),
            "slope": float(np.polyfit(scores, changes, 1)[0]),
            "cg_iterations": int(found.iterations[0]),
            "rank_correlation_with_earlier": float(found.rank_correlations[0]),
            "largest_change": float(found.changes.max()),
            "largest_score": float(np.abs(found.scores).max()),
            "processor_seconds": time.process_time() - start,
            "scores": scores.tolist(),
        }
    return result


@click.command(cls=common.Command)
@click.option("--sequences", "B", default=200, type=click.IntRange(10), help="Training sequences.")
@click.option("--hidden", default=14, type=click.IntRange(1), help="Hidden units.")
@click.option("--l2", default=0.01, type=float, help="l2 penalty.")
@click.option("--noise", default=0.2, type=float, help="Standard deviation of the noise on the targets.")
@click.option("--count", default=60, type=click.IntRange(3), help="Sequences to leave out.")
@click.option("--share", default=1.0, type=click.FloatRange(0, 1, min_open=True), help="Share of its weight left out.")
@click.option("--seed", default=0, type=int, help="Seed of the data.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(B: int, hidden: int, l2: float, noise: float, count: int, share: float, seed: int, out: Path) -> None:
    """Compare influence scores with leaving sequences out and training again."""
    facts = common.machine(1)
    result = left_out(B, hidden, l2, noise, count, share, seed)
    for name, found in result.items():
        if isinstance(found, dict):
            click.echo(f"{name}: Spearman {found['spearman']:.3f}, {found['cg_iterations']} iterations of CG")
    common.write_result(out / "influence-cpu.json", {"machine": facts, **result})


if __name__ == "__main__":
    main()
