"""Write the records of a run as TensorBoard event files, without TensorFlow and PyTorch."""

from __future__ import annotations

import secrets
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hfrnn.checks import path
from hfrnn.errors import CheckpointError, Message, MissingExtraError, PerReader, StorageError, how_to_install, reason_of
from hfrnn.files import is_regular
from hfrnn.runs.metrics import Record, finite_number
from hfrnn.training.callbacks import Callback, TrainingResult, TrainingRun

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
"""Tags of scalars, and the figures of a record that they show."""
PARTS = ("update", "gradient", "products", "cg", "preconditioner", "search", "validation")
"""Parts of an update that are timed. The figure `seconds_gradient` of a record has the tag `seconds/gradient`."""
PATTERN = "events.out.tfevents.{}.*"
"""Pattern of the names of event files, with the second in which they were made."""


class TensorBoard(Callback):
    """Write every record of a run as scalars, with the update as the step, and samples as texts.

    Parameters
    ----------
    folder : path, optional
        Folder of the event files. By default the run folder, so that `tensorboard --logdir runs` shows the names of
        the runs.

    Raises
    ------
    MissingExtraError
        tensorboard is not installed.

    Notes
    -----
    A resumed run writes a new event file. It hides updates of older files that are made again, and adds records that
    no older file has. So TensorBoard shows every update once.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.plugins.text.summary_v2 import text_pb
            from tensorboard.summary.writer import event_file_writer
        except ImportError as error:
            without = PerReader("leave hfrnn.TensorBoard out", "leave {tensorboard} out")
            raise MissingExtraError(Message(
                "event files for TensorBoard need tensorboard: {0}, or {1}", how_to_install("tensorboard"), without
            )) from error  # fmt: skip
        self._event, self._summary, self._text_pb = event_pb2, summary_pb2.Summary, text_pb
        self._make_writer = event_file_writer.EventFileWriter
        self.folder = path("folder", folder, or_none=True)
        self._place: Path | None = None
        self._writer: Any = None

    def on_start(self, trainer: TrainingRun) -> None:
        folder = self.folder or trainer.path
        earlier = trainer.folder.metrics()
        files = sorted(folder.glob(PATTERN.format("*")))
        known = _steps(files)
        missing = [record for record in earlier if record["update"] not in known]
        first = missing[0]["update"] if missing else trainer.update + 1
        while any(folder.glob(PATTERN.format(int(time.time())))):
            time.sleep(0.01)  # names begin with the second, and TensorBoard reads the files sorted by name
        # nobody can put a link where the file will be, because its name ends in a random word
        self._place = folder
        self._writer = self._on_disk(self._make_writer, str(folder), filename_suffix=f".{secrets.token_hex(6)}")
        if files:  # from this step on, TensorBoard ignores what it has read from older files
            start = self._event.SessionLog(status=self._event.SessionLog.START)
            self._writer.add_event(self._event.Event(wall_time=time.time(), step=first, session_log=start))
        now = time.time()
        for record in (each for each in earlier if each["update"] >= first):
            self._write(record, now - trainer.seconds + (finite_number(record.get("seconds")) or 0.0))
        self._flush()

    def on_update(self, record: Record) -> bool | None:
        self._write(record, time.time())
        self._flush()
        return None

    def on_end(self, result: TrainingResult) -> None:
        if result.summary["sample"] is not None:
            self._write_text("sample/end", result.summary["sample"], result.summary["updates"], time.time())
        self.close()

    def close(self) -> None:
        """Close the event file, also after a run that failed; do nothing if it is closed."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._on_disk(writer.close)

    def _flush(self) -> None:
        """Write all that is waiting."""
        self._on_disk(self._writer.flush)

    def _on_disk(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return what a call returns; raise StorageError if the disk failed, in this call or in the writer's thread."""
        try:
            return call(*arguments, **named)
        except OSError as error:
            self._writer = None
            raise StorageError(
                f"cannot write the event file in {self._place} ({reason_of(error)}): free some space"
            ) from error

    def _write(self, record: Record, when: float) -> None:
        """Write a record."""
        scalars = {tag: finite_number(record.get(name)) for tag, name in TAGS.items()}
        scalars |= {f"seconds/{part}": finite_number(record.get(f"seconds_{part}")) for part in PARTS}
        known = {tag: value for tag, value in scalars.items() if value is not None}
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in known.items()]
        self._add(self._summary(value=values), record["update"], when)
        if isinstance(record.get("sample"), str):
            self._write_text("sample/training", record["sample"], record["update"], when)

    def _write_text(self, tag: str, text: str, step: int, when: float) -> None:
        """Write a text unchanged: indented by four spaces, because TensorBoard reads Markdown."""
        self._add(self._text_pb(tag, textwrap.indent(text, "    ", lambda line: True)), step, when)

    def _add(self, summary: Any, step: int, when: float) -> None:
        self._on_disk(self._writer.add_event, self._event.Event(wall_time=when, step=step, summary=summary))


def _steps(files: list[Path]) -> set[int]:
    """Return the updates that TensorBoard shows after reading event files in this order."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    steps: set[int] = set()
    for file in files:
        if not is_regular(file):
            raise CheckpointError(f"{file} is not a regular file, or it is a link: move it away")
        for event in LegacyEventFileLoader(str(file)).Load():
            if event.HasField("session_log"):
                steps = {step for step in steps if step < event.step}
            elif event.HasField("summary"):
                steps.add(event.step)
    return steps
