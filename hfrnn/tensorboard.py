"""A run's log as TensorBoard event files (extra `tensorboard`; neither TensorFlow nor PyTorch is needed)."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any

from hfrnn.errors import MissingExtraError
from hfrnn.training.trainer import Callback, Record, Trainer, TrainingResult

TAGS = {
    "loss/train": "train_loss",
    "loss/valid": "valid_loss",
    "bits/train": "train_bits",
    "bits/valid": "valid_bits",
    "perplexity/valid": "valid_perplexity",
    "errors/valid": "valid_errors",
    "damping/mu": "mu",
    "damping/lambda": "lambda",
    "damping/rho": "rho",
    "cg/iterations": "cg_iterations",
    "cg/chosen_iteration": "chosen_iteration",
    "cg/residual_norm": "residual_norm",
    "step/size": "step_size",
    "step/norm": "step_norm",
    "step/gradient_norm": "gradient_norm",
    "step/learning_rate": "learning_rate",
    "step/clipped": "clipped",
    "progress/symbols": "symbols",
    "progress/seconds": "seconds",
    "progress/epoch": "epoch",
}
"""Tags of scalars, and the keys of the log that they show."""
PARTS = ("update", "gradient", "products", "cg", "preconditioner", "search", "validation")
"""Of the key `seconds_gradient` and the like, whose tags are `seconds/gradient` and the like."""
PATTERN = "events.out.tfevents.{}.*"
"""Names of event files, with the second that they were made in."""


class TensorBoard(Callback):
    """Writes every line of the log as scalars, its step the update, and samples as texts.

    A resumed run goes on in a file of its own. What an event file holds of updates that were done again counts no
    more, and lines of the log that none holds are written too: every update is there once.

    Parameters
    ----------
    folder : path, optional
        Where the event files go (default: the run folder, so that `tensorboard --logdir runs` names runs as they are).

    Raises
    ------
    MissingExtraError
        tensorboard is not installed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.plugins.text.summary_v2 import text_pb
            from tensorboard.summary.writer import event_file_writer
        except ImportError as error:
            raise MissingExtraError(
                "event files for TensorBoard need tensorboard: install the extra tensorboard "
                "(pip install 'hfrnn[tensorboard]'), or leave --tensorboard out"
            ) from error
        self._event, self._summary, self._text_pb = event_pb2, summary_pb2.Summary, text_pb
        self._make_writer = event_file_writer.EventFileWriter
        self.folder = None if folder is None else Path(folder)
        self._writer: Any = None

    def on_start(self, trainer: Trainer) -> None:
        assert trainer.folder is not None
        folder = self.folder or trainer.path
        earlier = trainer.folder.metrics()
        files = sorted(folder.glob(PATTERN.format("*")))
        known = _steps(files)
        missing = [record for record in earlier if record["update"] not in known]
        first = missing[0]["update"] if missing else trainer.update + 1
        while any(folder.glob(PATTERN.format(int(time.time())))):
            time.sleep(0.01)  # names begin with the second, and TensorBoard reads files in their order
        self._writer = self._make_writer(str(folder))
        if files:  # of the steps from there on, what the other files hold is over
            start = self._event.SessionLog(status=self._event.SessionLog.START)
            self._writer.add_event(self._event.Event(wall_time=time.time(), step=first, session_log=start))
        now = time.time()
        for record in earlier:
            if record["update"] >= first:
                self._write(record, now - trainer.seconds + record["seconds"])
        self._writer.flush()

    def on_update(self, record: Record) -> bool | None:
        self._write(record, time.time())
        self._writer.flush()
        return None

    def on_end(self, result: TrainingResult) -> None:
        if result.summary["sample"] is not None:
            self._write_text("sample/end", result.summary["sample"], result.summary["updates"], time.time())
        self.close()

    def close(self) -> None:
        """Close the event file, also after a run that failed; nothing happens if it is closed."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, record: Record, when: float) -> None:
        """One line of the log."""
        scalars = {tag: record.get(name) for tag, name in TAGS.items()}
        scalars |= {f"seconds/{part}": record.get(f"seconds_{part}") for part in PARTS}
        values = [
            self._summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items() if value is not None
        ]
        self._add(self._summary(value=values), record["update"], when)
        if record.get("sample") is not None:
            self._write_text("sample/training", record["sample"], record["update"], when)

    def _write_text(self, tag: str, text: str, step: int, when: float) -> None:
        """A text, letter for letter: TensorBoard takes it for Markdown, where what is indented is code."""
        self._add(self._text_pb(tag, textwrap.indent(text, "    ", lambda line: True)), step, when)

    def _add(self, summary: Any, step: int, when: float) -> None:
        self._writer.add_event(self._event.Event(wall_time=when, step=step, summary=summary))


def _steps(files: list[Path]) -> set[int]:
    """The updates that event files, in their order, hold and that still count."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    steps: set[int] = set()
    for file in files:
        for event in LegacyEventFileLoader(str(file)).Load():
            if event.HasField("session_log"):
                steps = {step for step in steps if step < event.step}
            elif event.HasField("summary"):
                steps.add(event.step)
    return steps
