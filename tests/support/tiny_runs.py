"""Training runs small enough to take a moment, for the tests of everything above the optimizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hfrnn.data.kinds import kind_of, takers
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.training.trainer import Callback, TrainingResult, train

TEXT = "The quick brown fox, over the lazy dog; and back again.\n" * 40
OPTIONS: dict[str, Any] = {
    "hidden": 4, "sequence_length": 10, "updates": 2, "gradient_symbols": 300, "sample_length": 0,
    "backend": "numpy",
}  # fmt: skip
FLAGS = ["--backend", "numpy", "--hidden", "4", "--sequence-length", "10", "--updates", "2"]
FLAGS += ["--gradient-symbols", "300", "--sample-length", "0"]


def text_file(folder: Path, content: str | bytes = TEXT, name: str = "text.txt") -> Path:
    """A file with that content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def with_an_effect(usual: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The usual options of runs that have an effect with the data and the optimizer among some options."""
    data, optimizer = options.get("data"), options.get("optimizer", usual.get("optimizer", "hf"))
    kind = kind_of({} if data is None else {"data": str(data)})
    return {
        name: value for name, value in usual.items()
        if kind in (takers(name) or [kind]) and optimizer in (OPTIMIZERS.takers(name) or [optimizer])
    }  # fmt: skip


def tiny_train(folder: Path, name: str = "run", callbacks: tuple[Any, ...] = (), **options: Any) -> TrainingResult:
    """A run in `folder/name`, on TEXT unless another text is given."""
    options = {"text": folder / "text.txt", **with_an_effect(OPTIONS, options), **options}
    if options["text"] == folder / "text.txt" and not options["text"].exists():
        text_file(folder)
    return train(out=folder / name, callbacks=callbacks, **options)


def callback(**methods: Any) -> Callback:
    """A callback with these methods."""
    made = Callback()
    vars(made).update(methods)
    return made


def after(update: int, action: Any) -> Callback:
    """A callback that calls a function after an update."""
    return callback(on_update=lambda record: action() if record["update"] == update else None)


def metrics(run: Path, timed: bool = False) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, without the seconds unless asked for."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in record.items() if timed or not k.startswith("seconds")} for record in records]


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """All that is in a folder, to see whether it changed; a very large file counts by its size and beginning."""

    def content(path: Path) -> bytes | None:
        if not path.is_file():
            return None
        size = path.stat().st_size
        with path.open("rb") as file:
            return file.read() if size < 2**24 else b"%d %b" % (size, file.read(2**16))

    return {str(path.relative_to(folder)): content(path) for path in sorted(folder.rglob("*"))}
