"""The state of a run on disk, compared bit for bit, and a callback that acts in mid-update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.training.trainer import Callback, Trainer
from support.tiny_runs import metrics


def state(run: Path, name: str = "last") -> tuple[dict[str, bytes], dict[str, Any]]:
    """All that a checkpoint holds, bit for bit, without the seconds."""
    arrays, meta = load_checkpoint(run / f"{name}.safetensors")
    for part in (meta, meta["best"], meta["last"]):
        for key in [key for key in part or {} if key.startswith("seconds")]:
            del part[key]
    return {key: value.tobytes() for key, value in arrays.items()}, meta


def assert_same(one: Path, other: Path) -> None:
    for name in ("last", "best"):
        assert state(one, name) == state(other, name)
    assert metrics(one) == metrics(other)


def assert_close(one: Path, other: Path, rtol: float) -> None:
    """The last checkpoints hold arrays that differ by less than `rtol` times the largest entry, and the same counts."""
    (found, counts), (expected, other_counts) = (load_checkpoint(run / "last.safetensors") for run in (one, other))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=rtol * np.abs(array).max(initial=0), err_msg=name)
    for key in ("update", "symbols"):
        assert counts[key] == other_counts[key]


class At(Callback):
    """Does something at one CG iteration of one update, and counts."""

    def __init__(self, update: int, action: Any, iteration: int = 2) -> None:
        self.wanted, self.action, self.iteration = update, action, iteration
        self.updates = self.iterations = self.noted = 0

    def on_start(self, trainer: Trainer) -> None:
        self.updates = trainer.update

    def on_cg(self, iteration: int, q: float) -> None:
        if self.updates + 1 == self.wanted:
            self.iterations += 1
            if iteration == self.iteration:
                self.action()

    def on_update(self, record: dict[str, Any]) -> bool | None:
        self.updates += 1
        return None

    def on_interrupt(self) -> None:
        self.noted += 1
