"""Lion as an optimizer of your own: docs/adding-an-optimizer.md explains this file.

    L1  c = beta1*m + (1 - beta1)*g
    L2  w += -lr*sign(c) - lr*decay*w
    L3  m = beta2*m + (1 - beta2)*g

g is the gradient, m the momentum. All entries of a step have the same size, the learning rate.

    python examples/lion.py                                    trains for a few seconds
    hfrnn train --kernel examples/lion.py --optimizer lion     on the built-in text, four minutes

References
----------
X. Chen and others, Symbolic Discovery of Optimization Algorithms, 2023.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import hfrnn
from hfrnn.arrays.vectors import Vector, library, scaled
from hfrnn.optim.first_order import FirstOrder, Vectors


class LionStep(FirstOrder):
    """The steps of Lion on a flat vector."""

    kind = "lion"
    vectors = ("momentum",)

    def __init__(self, beta1: float, beta2: float, decay: float, threads: int = 1):
        super().__init__(threads)
        self.beta1, self.beta2, self.decay = beta1, beta2, decay

    def advance(
        self, new: Vector, theta: Vector, gradient: Vector, lr: float,
        kept: Vectors, after: Vectors, work: tuple[Vector, Vector],
    ) -> None:  # fmt: skip
        before, m, (c, change) = kept["momentum"], after["momentum"], work
        scaled(before, self.beta1, c)
        scaled(gradient, 1.0 - self.beta1, change)
        c += change  # L1
        scaled(library(c).sign(c), lr, change)
        scaled(theta, 1.0 - lr * self.decay, new)
        new -= change  # L2
        scaled(gradient, 1.0 - self.beta2, change)
        scaled(before, self.beta2, m)
        m += change  # L3


@hfrnn.register_optimizer("lion")
class Lion(hfrnn.FirstOrderOptimizer):
    """Lion, for the option `optimizer` of a run."""

    about = "the sign of the momentum"
    options = (
        *hfrnn.FirstOrderOptimizer.options,
        hfrnn.Option(
            "lion_beta1", float, 0.9,
            "Share of the momentum in the direction of a step.",
            least=0, below=1, group="First-order optimizers",
        ),
        hfrnn.Option(
            "lion_beta2", float, 0.99, "Decay of the momentum per step.",
            least=0, below=1, group="First-order optimizers",
        ),
    )  # fmt: skip
    defaults: ClassVar[dict[str, Any]] = {"learning_rate": 0.0005, "average": 0.995}

    @classmethod
    def step(cls, config: Any, net: hfrnn.Network, threads: int) -> LionStep:
        beta1, beta2 = config.lion_beta1, config.lion_beta2
        return LionStep(beta1, beta2, config.weight_decay, threads)


class Bits(hfrnn.Callback):
    """Print one line per record."""

    def on_update(self, record: dict[str, Any]) -> None:
        print(f"update {record['update']}: {record['train_bits']:.2f} bits per character")


def main() -> None:
    """Train on the built-in text for a few updates."""
    with tempfile.TemporaryDirectory() as folder:
        hfrnn.train(
            optimizer="lion", arch="gru", hidden=32, updates=200, log_interval=50, sample_length=0,
            out=Path(folder) / "run", callbacks=[Bits()],
        )  # fmt: skip


if __name__ == "__main__":
    main()
