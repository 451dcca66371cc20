"""A log of trials as a kind of data of your own: docs/adding-a-kind-of-data.md explains this file.

A log is a text with a line for each step: numbers with spaces between them, the inputs first, then the targets. An
empty line ends a trial. Trials may have different lengths.

    python examples/own_data.py                     writes swing.trials and trains for half a minute
    hfrnn train --kernel examples/own_data.py --data swing.trials --log-targets 1 --out runs/swing
    hfrnn evaluate runs/swing --kernel examples/own_data.py
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hfrnn

Numbers = NDArray[np.float64]


@hfrnn.register_data("trials")
class Trials(hfrnn.DataKind):
    """Trials of a log, side by side. The last tenth validates."""

    about = "a log of trials"
    suffixes = (".trials",)
    options = (
        hfrnn.Option(
            "log_targets", int, 1,
            "Numbers at the end of a line of a log of trials that are targets.",
            least=1, group="Data",
        ),
    )  # fmt: skip

    def __init__(self, path: str, content: bytes, n_out: int) -> None:
        self.name, self.source = Path(path).name, path
        self.sha256 = hashlib.sha256(content).hexdigest()
        trials = read_trials(content.decode("utf-8"), path)  # arrays (steps, n_in + n_out)
        n_in, last = trials[0].shape[1] - n_out, len(trials) - max(len(trials) // 10, 1)
        if n_in < 1 or last < 1:
            raise hfrnn.InputError(f"{path} has too few trials or numbers in a line: give more, or fewer log_targets")
        self.network = {"n_in": n_in, "n_out": n_out, "loss": "squared"}
        self.parts = {"train": side_by_side(trials[:last], n_in), "valid": side_by_side(trials[last:], n_in)}
        self.validation = self.parts["valid"]

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> Trials:
        path = options["data"]
        try:
            return cls(path, Path(path).read_bytes(), options["log_targets"])
        except (OSError, UnicodeDecodeError) as error:
            raise hfrnn.InputError(f"{path} cannot be read ({error}): give a log of trials") from error

    def pool(self, epoch: int) -> hfrnn.Pool:
        return self.parts["train"]

    def part(self, name: str) -> hfrnn.Pool:
        if name not in self.parts:
            raise hfrnn.InputError(f"{self.name} has no {name} part: use train or valid")
        return self.parts[name]

    def lines(self) -> list[str]:
        train, valid = (self.parts[name].inputs.shape[1] for name in ("train", "valid"))
        return [f"trials    {self.name}: {train:,} to train on, {valid:,} to validate"]


def read_trials(text: str, path: str) -> list[Numbers]:
    """Return the trials of a log, each as an array (steps, numbers of a line)."""
    try:
        blocks = [[line.split() for line in block.splitlines()] for block in text.strip().split("\n\n")]
        trials = [np.array(block, dtype=np.float64) for block in blocks]
    except ValueError as error:
        raise hfrnn.InputError(f"{path} is no log of trials ({error}): give as many numbers in each line") from error
    if len({trial.shape[1:] for trial in trials}) > 1 or trials[0].ndim != 2:
        raise hfrnn.InputError(f"{path} is no log of trials: give as many numbers in each line")
    return trials


def side_by_side(trials: list[Numbers], n_in: int) -> hfrnn.Pool:
    """Return trials as inputs (T, N, n_in) and targets (T, N, n_out), with zeros and weight 0 after their end."""
    lengths = np.array([len(trial) for trial in trials])
    values = np.zeros((lengths.max(), len(trials), trials[0].shape[1]), dtype=np.float32)
    for n, trial in enumerate(trials):
        values[: len(trial), n] = trial
    weights = (np.arange(len(values))[:, None] < lengths).astype(np.float32)
    return hfrnn.Pool(values[..., :n_in], values[..., n_in:], weights, lengths)


def write_log(path: str, trials: int = 200) -> None:
    """Write trials of a pendulum that a random torque drives: the torque and the angle at each of 40 to 60 steps."""
    rng, step = np.random.default_rng(0), 0.1
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(trials):
            angle, speed = rng.uniform(-1, 1), 0.0
            for torque in np.repeat(rng.uniform(-1, 1, 6), 10)[: rng.integers(40, 61)]:
                file.write(f"{torque:.4f} {angle:.4f}\n")
                speed += step * (torque - np.sin(angle) - 0.2 * speed)
                angle += step * speed
            file.write("\n")


def main(minutes: float = 0.5, out: str = "runs/swing", path: str = "swing.trials") -> float:
    """Train a network on a log, and return its loss on the last trials."""
    write_log(path)
    result = hfrnn.train(data=path, arch="rnn", hidden=32, minutes=minutes, out=out)
    loss = float(result.summary["best"]["valid_loss"])
    print(f"{result.summary['updates']} updates, validation loss {loss:.4g}")
    return loss


if __name__ == "__main__":
    main()
