"""Run folders for reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hfrnn.training.trainer import train
from support.method_runs import ONLINE, TASK
from support.method_runs import run as tiny_method
from support.tiny_runs import metrics, tiny_train

HOSTILE = "</script><img src=x onerror=window.hit=1><script>window.hit=1</script><!--\u2028&amp;{{data}}"


def make_runs(folder: Path) -> dict[str, Path]:
    """A run of every optimizer and of every kind of data that needs no file; "hf" was resumed and keeps samples."""
    words = {"optimizer": "adam", "level": "word", "epochs": 2, "sample_length": 5}
    tiny_train(folder, "hf", updates=3, sample_length=30, keep=2)
    train(resume=folder / "hf", updates=6)
    return {
        "hf": folder / "hf",
        "tikhonov": tiny_train(folder, "tikhonov", damping="tikhonov", arch="lstm", updates=4, rho_low=0.3).folder,
        "sgd": tiny_method(folder, "sgd", epochs=3, updates=60, sample_length=30).folder,
        "words": tiny_method(folder, "words", **words).folder,
        "online": tiny_method(folder, "online", **ONLINE, updates=30).folder,
        "task": tiny_method(folder, "task", **TASK, updates=40).folder,
    }


def rewrite(run: Path, change: Any) -> None:
    """Change the lines of a log: `change(line)` for each."""
    lines = metrics(run, timed=True)
    for line in lines:
        change(line)
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
