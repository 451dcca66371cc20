"""Commands that write files on a disk that fails: one sentence, exit code 1, and all files as they were before."""

from __future__ import annotations

import builtins
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.pictures import needs_matplotlib
from support.refusals import call, sentence_of
from support.tiny_runs import snapshot

import hfrnn
from hfrnn.errors import StorageError
from hfrnn.tensorboard import TensorBoard

WRITERS: dict[str, list[str]] = {
    "evaluate": ["evaluate", "RUN/run", "--per-symbol", "new.jsonl"],
    "predict": ["predict", "RUN/task", "-o", "new.npz"],
    "report": ["report", "RUN/run", "-o", "new.html"],
    "export": ["export", "RUN/run", "programs", "--to", "numpy,c"],
    "fixed-points": ["fixed-points", "RUN/task", "-o", "new.npz", "--starts", "2", "--symbols", "60"],
    "probe": [
        "probe",
        "RUN/run",
        "--open",
        "T",
        "--close",
        ".",
        "--control",
        "h",
        "--steps",
        "3",
        "--json",
        "new.json",
    ],
}
PICTURES = {
    "spectrum": ["spectrum", "RUN/run", "--symbols", "30", "--steps", "2", "--count", "1", "--plot", "new.svg"],
    "two files": [*WRITERS["predict"], "--plot", "new.svg"],
    "lyapunov": ["lyapunov", "RUN/task", "--symbols", "60", "--count", "1", "--plot", "new.svg"],
}


class Closing:
    """A file whose error comes when it is closed, as on NFS."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Closing:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))


def failing(code: int, last: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that raises an error: at each call, or from the second one on."""
    calls = []

    def fail(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        if last and len(calls) == 1:
            return original(*arguments, **named)
        raise OSError(code, os.strerror(code))

    return fail


def late(*arguments: Any, **named: Any) -> Any:
    file = OPEN(*arguments, **named)
    return Closing(file) if ".tmp" in str(arguments[0]) else file


def read_only(*arguments: Any, **named: Any) -> Any:
    if ".tmp" in str(arguments[0]):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    return OPEN(*arguments, **named)


OPEN = builtins.open
FAILURES: dict[str, tuple[Any, str, Any, int]] = {
    "full": (os, "fsync", failing(errno.ENOSPC, False, os.fsync), errno.ENOSPC),
    "full at the second file": (os, "fsync", failing(errno.ENOSPC, True, os.fsync), errno.ENOSPC),
    "no rename": (os, "replace", failing(errno.EPERM, False, os.replace), errno.EPERM),
    "read-only": (builtins, "open", read_only, errno.EROFS),
    "error at close": (builtins, "open", late, errno.EDQUOT),
}
SECOND = ("export", "two files")
CASES = [
    pytest.param(name, failure, marks=[*([needs_matplotlib] if name in PICTURES else []),
                                       *([] if failure == "full at the second file" or n == m else [pytest.mark.slow])])
    for n, name in enumerate(WRITERS | PICTURES) for m, failure in enumerate(FAILURES)
    if failure != "full at the second file" or name in SECOND
]  # fmt: skip


@pytest.mark.parametrize(("name", "failure"), CASES)
def test_a_command_on_a_disk_that_fails_changes_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, failure: str
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [each.replace("RUN", str(home)) for each in (WRITERS | PICTURES)[name]]
    olds = ["new.html", "new.jsonl", "new.json", "new.npz", "new.svg"]
    for old in olds:
        Path(old).write_text("old")
    if name == "export":
        os.mkdir("programs")
        for file in ("weights.npz", "network.py"):
            Path("programs", file).write_text("old")
    before, run = snapshot(tmp_path), snapshot(home)
    module, place, function, code = FAILURES[failure]
    with monkeypatch.context() as patch:
        patch.setattr(module, place, function)
        result = call(*command, "--force")
    assert result.exit_code == 1
    said = sentence_of(result.stderr)
    assert os.strerror(code) in said
    assert "cannot write" in said
    assert "stdout" not in said
    assert (snapshot(tmp_path), snapshot(home)) == (before, run)


def test_event_files_on_a_full_disk_end_a_run_after_its_last_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    board = TensorBoard()
    options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 3, "updates": 3, "backend": "numpy"}

    class Full(hfrnn.Callback):
        def on_update(self, record: dict[str, Any]) -> None:
            if record["update"] == 2:
                monkeypatch.setattr(board._writer, "flush", failing(errno.ENOSPC, False, len))

    with pytest.raises(StorageError, match=r"cannot write .*No space left.*; update 2 is saved: resume with"):
        hfrnn.train(**options, out=tmp_path / "run", callbacks=[Full(), board])
    monkeypatch.undo()
    assert hfrnn.train(resume=tmp_path / "run").summary["updates"] == 3
