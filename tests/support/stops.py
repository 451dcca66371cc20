"""Ways to stop a run: signals, and actions at a certain call or in a certain validation."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hfrnn.runs.folder import RunFolder
from hfrnn.training.trainer import Callback, Trainer


def send(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def twice() -> None:
    send()
    send()


def at(count: int, action: Callable[[], None], function: Callable[..., Any]) -> Any:
    """The function, with an action before so many calls of it; `calls` counts."""

    def counted(*arguments: Any, **options: Any) -> Any:
        counted.calls += 1  # type: ignore[attr-defined]
        if counted.calls == count:  # type: ignore[attr-defined]
            action()
        return function(*arguments, **options)

    counted.calls = 0  # type: ignore[attr-defined]
    return counted


class Validation(Callback):
    """Does something in one validation; `ended` where that validation came to its end."""

    def __init__(self, update: int, action: Callable[[], None]) -> None:
        self.update, self.action, self.ended, self.noted = update, action, False, 0

    def on_start(self, trainer: Trainer) -> None:
        assert trainer.validation is not None
        self.trainer, self.loss = trainer, trainer.validation.loss
        trainer.validation.loss = self.validated  # type: ignore[method-assign]

    def validated(self, theta: Any) -> float:
        if self.trainer.update == self.update:
            self.action()
            self.ended = True
        return self.loss(theta)

    def on_interrupt(self) -> None:
        self.noted += 1


def load_update(run: Path) -> int:
    return int(RunFolder(run).restore("last")[1]["update"])
