"""What a notebook shows of a training run while it goes on."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Any

from hfrnn.runs.metrics import Record
from hfrnn.training.callbacks import Callback, TimeLeft, TrainingResult
from hfrnn.wording import clock, four_digits

if TYPE_CHECKING:
    from hfrnn.training.callbacks import TrainingRun

SECONDS = 0.5
"""Least time between two changes of what is shown."""


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class NotebookDisplay(Callback):
    """Shows the progress of a run in the output of a notebook's cell. It is replaced at the end by the result."""

    def __init__(self) -> None:
        from IPython.display import display

        show: Any = display  # IPython's own types differ from version to version
        self._area = show(_Html("<p>starting</p>"), display_id=True)
        self._shown = 0.0
        self._trainer: TrainingRun | None = None
        self._left: TimeLeft | None = None

    def on_start(self, trainer: TrainingRun) -> None:
        self._trainer, self._left = trainer, TimeLeft(trainer)

    def on_update(self, record: Record) -> bool | None:
        if self._left is not None:
            self._left.note(record)
            if time.monotonic() - self._shown >= SECONDS:
                self._shown = time.monotonic()
                self._area.update(_Html(self._line(record, self._left.elapsed(), self._left())))
        return None

    def on_end(self, result: TrainingResult) -> None:
        self._area.update(_Html(f"<p>{html.escape(result.describe())}</p>"))

    def _line(self, record: Record, elapsed: float, left: float | None) -> str:
        share = 0.0 if left is None else elapsed / max(elapsed + left, 1e-9)
        best = (self._trainer.best if self._trainer is not None else None) or {}
        losses = {"training loss": record["train_loss"], "best validation loss": best.get("valid_loss")}
        parts = [f"update {record['update']:,}", *(f"{name} {four_digits(x)}" for name, x in losses.items() if x)]
        return f"<p><progress max=1 value={share:.3f}></progress> {', '.join([*parts, f'left {clock(left)}'])}</p>"


class _Html:
    """A piece of HTML, as notebooks take it."""

    def __init__(self, content: str) -> None:
        self._content = content

    def _repr_html_(self) -> str:
        return self._content
