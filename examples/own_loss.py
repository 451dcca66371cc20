"""A robust loss of your own: docs/adding-a-loss.md explains this file.

The Huber loss of the error e = z - y is e^2/2 up to delta and delta*|e| - delta^2/2 beyond, so that a few wild
measurements do not decide what a network learns.

    python examples/own_loss.py                     compares it with the squared loss on data with outliers
    hfrnn train --kernel examples/own_loss.py --data wild.npz --loss huber --delta 0.5 --out runs/wild
    hfrnn evaluate runs/wild --kernel examples/own_loss.py
    hfrnn gradcheck --kernel examples/own_loss.py rnn
"""

from __future__ import annotations

from typing import Any

import numpy as np

import hfrnn


@hfrnn.register_loss("huber")
class Huber(hfrnn.Loss):
    """The loss of P. J. Huber, *Robust estimation of a location parameter*, 1964."""

    options = (
        hfrnn.Option(
            "delta", float, 1.0,
            "Error above which the huber loss grows linearly.",
            above=0, group="Network",
        ),
    )  # fmt: skip
    scales_targets = True

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = delta

    def value(self, xp: Any, z: Any, y: Any) -> Any:
        e, d = z - y, self.delta
        size = xp.where(e.real < 0, -e, e)  # |e|, also of a complex e
        return xp.where(size.real <= d, 0.5 * e * e, d * size - 0.5 * d * d)

    def gradient(self, xp: Any, z: Any, y: Any) -> Any:
        e, d = z - y, self.delta
        return xp.where(e.real > d, d, xp.where(e.real < -d, -d, e))

    def curvature(self, xp: Any, z: Any, y: Any, Rz: Any) -> Any:
        return xp.where(abs((z - y).real) <= self.delta, Rz, 0)


def wild_data(sequences: int = 60, steps: int = 40) -> dict[str, Any]:
    """Return a driven system whose measured training outputs are off by 8 at one step in ten."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((sequences, steps, 1))
    y = np.zeros_like(x)
    for t in range(1, steps):
        y[:, t] = 0.8 * y[:, t - 1] + x[:, t]
    measured = y + 8 * (rng.random(y.shape) < 0.1)
    last = sequences - sequences // 5
    return {"x": x[:last], "y": measured[:last], "valid_x": x[last:], "valid_y": y[last:]}


def main(updates: int = 15, out: str = "runs/wild") -> dict[str, float]:
    """Train with both losses, and return the RMSE on clean data."""
    data, found = wild_data(), {}
    np.savez("wild.npz", **data)
    batch = hfrnn.Batch(*(data[name].swapaxes(0, 1) for name in ("valid_x", "valid_y")))
    for loss, delta in (("squared", None), ("huber", 0.5)):
        run = hfrnn.train(
            data="wild.npz", loss=loss, delta=delta, arch="rnn", hidden=8, updates=updates, out=f"{out}-{loss}"
        )  # fmt: skip
        net, theta, _ = hfrnn.load(run.folder)
        found[loss] = float(hfrnn.score(net, theta, batch).overall["rmse"] or 0)
        print(f"{loss}: RMSE {found[loss]:.3g} on data without outliers")
    return found


if __name__ == "__main__":
    main()
