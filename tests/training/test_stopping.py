"""How a run stops: by a signal wherever it comes, by a disk that is full, at a target; and how it goes on."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.fake_device import FakeArray, FakeBackend
from support.method_runs import ONLINE, Losses
from support.method_runs import run as tiny_method
from support.optimizer_array import OptimizerArray
from support.run_states import assert_same, state
from support.tiny_runs import metrics, snapshot, text_file, tiny_train

import hfrnn
from hfrnn.cli import main
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError, MissingExtraError, StorageError
from hfrnn.runs.metrics import Log
from hfrnn.runs.load import load
from hfrnn.runs.run_folder import RunFolder
from hfrnn.training.trainer import Callback, Interrupted, Trainer, train

resource = pytest.importorskip("resource", reason="these signals and limits are those of POSIX systems")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


# ---------------------------------------------------------------------- signals


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_validation_stops_there_and_then(tmp_path: Path, number: int) -> None:
    watch = Validation(2, lambda: send(number))
    with pytest.raises(Interrupted, match="after update 1, which is saved"):
        tiny_train(tmp_path, updates=3, callbacks=(watch,))
    assert (watch.ended, watch.noted) == (False, 1)
    train(resume=tmp_path / "run")
    assert_same(tiny_train(tmp_path, "whole", updates=3).folder, tmp_path / "run")


def test_a_signal_during_a_search_stops_after_that_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tiny_train(tmp_path, "whole", mu_growth=0.0).folder
    loss = at(1, send, Objective.loss)
    monkeypatch.setattr(Objective, "loss", loss)
    with pytest.raises(Interrupted, match="after update 0"):
        tiny_train(tmp_path, mu_growth=0.0)  # without losses on the way: CG is over, and asks no more
    assert loss.calls == 1
    monkeypatch.undo()
    train(resume=tmp_path / "run")
    assert_same(whole, tmp_path / "run")


@pytest.mark.parametrize("options", [{}, {**ONLINE, "log_interval": 200}], ids=["sgd", "online"])
def test_a_signal_in_a_step_stops_after_it(tmp_path: Path, options: dict[str, Any]) -> None:
    steps: list[int] = []

    class Sends(Callback):
        def on_cg(self, iteration: int, q: float) -> None:
            steps.append(iteration)
            if len(steps) == 2:
                send(signal.SIGTERM)

    with pytest.raises(Interrupted, match="after update 0"):
        tiny_method(tmp_path, updates=400, callbacks=(Sends(),), **options)
    assert len(steps) == 2


def test_a_signal_while_an_update_is_written_waits_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "append", at(2, send, Log.append))
    with pytest.raises(Interrupted, match="after update 2, which is saved"):
        tiny_train(tmp_path, updates=3)
    assert state(tmp_path / "run") == state(tiny_train(tmp_path, "two").folder)


@pytest.mark.parametrize("place", ["fsync", "replace"])
@pytest.mark.parametrize("count", range(1, 5))
def test_a_second_signal_in_the_middle_of_a_write_leaves_whole_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, count: int
) -> None:
    class Twice(Callback):
        def on_update(self, record: dict[str, Any]) -> bool | None:
            if record["update"] == 1:
                monkeypatch.setattr(os, place, at(count, twice, getattr(os, place)))
            return None

    with pytest.raises(Interrupted, match=r"after update [123], which is saved") as caught:
        tiny_train(tmp_path, updates=3, callbacks=(Twice(),))
    assert f"after update {load_update(tmp_path / 'run')}," in str(caught.value)
    monkeypatch.undo()
    assert not list((tmp_path / "run").glob(".*"))
    train(resume=tmp_path / "run")
    assert_same(tiny_train(tmp_path, "whole", updates=3).folder, tmp_path / "run")


def test_signals_after_the_second_leave_the_summary_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = RunFolder.write_summary

    def writes(self: RunFolder, summary: dict[str, Any]) -> None:
        send()
        write(self, summary)
        send(signal.SIGHUP)

    monkeypatch.setattr(RunFolder, "write_summary", writes)
    watch = Validation(2, twice)
    with pytest.raises(Interrupted):
        tiny_train(tmp_path, callbacks=(watch,))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stopped"] == "interruption"


def test_a_signal_before_a_resumed_run_goes_on_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tiny_train(tmp_path).folder
    before = snapshot(run)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "restore", at(1, lambda: send(signal.SIGTERM), RunFolder.restore))
        with pytest.raises(Interrupted, match=r"before the next update: go on with hfrnn train --resume .*run"):
            train(resume=run, updates=3)
    assert snapshot(run) == before
    assert train(resume=run, updates=3).summary["updates"] == 3


def test_a_signal_before_a_new_run_has_a_folder_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "_validation", lambda self: send(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        tiny_train(tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_signal_while_the_folder_is_made_leaves_the_first_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunFolder, "create", at(1, send, RunFolder.create))
    with pytest.raises(Interrupted, match="after update 0"):
        tiny_train(tmp_path)
    monkeypatch.undo()
    train(resume=tmp_path / "run")
    assert_same(tiny_train(tmp_path, "whole").folder, tmp_path / "run")


def test_a_run_under_nohup_hears_no_hangup_and_handlers_are_put_back(tmp_path: Path) -> None:
    found: list[Any] = []

    class Looks(Callback):
        def on_start(self, trainer: Trainer) -> None:
            found.append(signal.getsignal(signal.SIGHUP))

    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        before = [signal.getsignal(number) for number in SIGNALS]
        tiny_train(tmp_path, callbacks=(Looks(),))
        assert found == [signal.SIG_IGN]
        assert [signal.getsignal(number) for number in SIGNALS] == before
    finally:
        signal.signal(signal.SIGHUP, old)


def test_the_command_that_goes_on_has_the_folder_quoted_and_the_new_limits(tmp_path: Path) -> None:
    sends = Validation(1, send)
    with pytest.raises(Interrupted) as caught:
        tiny_train(tmp_path, "my 'best' run", callbacks=(sends,))
    run = tmp_path / "my 'best' run"
    command = str(caught.value).partition("go on with ")[2]
    assert shlex.split(command) == ["hfrnn", "train", "--resume", str(run)]
    with pytest.raises(Interrupted) as caught:
        train(resume=run, updates=5, callbacks=(Validation(3, send),))
    command = str(caught.value).partition("go on with ")[2]
    assert shlex.split(command) == ["hfrnn", "train", "--resume", str(run), "--updates", "5"]
    done = subprocess.run([sys.executable, "-m", *shlex.split(command)], capture_output=True, timeout=60, check=True)
    assert b"after 5 updates" in done.stdout


def test_the_command_that_goes_on_names_the_file_of_a_kernel(tmp_path: Path) -> None:
    kernel = Path(__file__).parents[2] / "examples" / "peephole_lstm.py"
    code = (
        "import sys, os, signal\n"
        "from hfrnn.kernels import import_kernels, architectures\n"
        "before = set(architectures())\n"
        "import_kernels(sys.argv[1])\n"
        "(arch,) = set(architectures()) - before\n"
        "from hfrnn.training.trainer import train, Callback, Interrupted\n"
        "class Ends(Callback):\n"
        "    def on_start(self, trainer): os.kill(os.getpid(), signal.SIGINT)\n"
        "try:\n"
        "    train(text='text.txt', arch=arch, hidden=4, optimizer='adam', streams=4, out='run', callbacks=[Ends()])\n"
        "except Interrupted as error:\n"
        "    print(error)\n"
    )
    text_file(tmp_path)
    done = subprocess.run([sys.executable, "-c", code, str(kernel)], cwd=tmp_path, capture_output=True, text=True)
    assert shlex.join(["hfrnn", "--kernel", str(kernel), "train", "--resume", "run"]) in done.stdout, done.stderr


FLAGS = ("--hidden", "4", "--sequence-length", "10", "--gradient-symbols", "300", "--updates", "1000000")


@pytest.mark.parametrize("numbers", [(signal.SIGHUP,), (signal.SIGINT, signal.SIGINT)], ids=["hangup", "twice"])
def test_a_process_ends_with_130_and_whole_files(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    text_file(tmp_path)
    command = [sys.executable, "-m", "hfrnn", "train", "text.txt", *FLAGS, "--out", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as it:
        while not (tmp_path / "run" / "metrics.jsonl").is_file() and it.poll() is None:
            time.sleep(0.01)
        for number in numbers:
            it.send_signal(number)
        _, err = it.communicate(timeout=60)
    assert it.returncode == 130, err
    assert "go on with hfrnn train --resume run" in err
    assert metrics(tmp_path / "run")[-1]["update"] == load_update(tmp_path / "run")


def test_a_terminal_that_is_closed_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    text_file(tmp_path)
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "hfrnn", "train", "text.txt", *FLAGS, "--out", "run"])
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "metrics.jsonl").is_file() and time.monotonic() < deadline:
        os.read(terminal, 10000)
    os.close(terminal)
    os.waitpid(child, 0)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["stopped"] == "interruption"
    assert not (tmp_path / "run" / ".lock").exists()
    train(resume=tmp_path / "run", updates=summary["updates"] + 1)


def load_update(run: Path) -> int:
    return int(RunFolder(run).restore("last")[1]["update"])


# ---------------------------------------------------------------------- a disk that fails


def full(count: int, place: str, monkeypatch: pytest.MonkeyPatch, code: int = errno.ENOSPC) -> None:
    def fail() -> None:
        monkeypatch.setattr(os, place, failing)
        raise OSError(code, os.strerror(code))

    def failing(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, place, at(count, fail, getattr(os, place)))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO], ids=["full", "read-only", "broken"])
@pytest.mark.parametrize("place", ["fsync", "replace"])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_disk_that_fails_in_training_is_told_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, count: int, code: int
) -> None:
    """At every one of the writes of updates 2 and 3."""

    class Fills(Callback):
        def on_update(self, record: dict[str, Any]) -> bool | None:
            if record["update"] == 1:
                full(count, place, monkeypatch, code)
            return None

    with monkeypatch.context(), pytest.raises(StorageError, match=os.strerror(code)) as caught:
        tiny_train(tmp_path, updates=4, keep=1, callbacks=(Fills(),))
    monkeypatch.undo()
    assert caught.value.exit_code == 1
    saved = load_update(tmp_path / "run")
    assert f"update {saved} is saved, and hfrnn train --resume {tmp_path / 'run'} goes on" in str(caught.value)
    assert saved >= 1
    load(tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*"))
    train(resume=tmp_path / "run")
    assert_same(tiny_train(tmp_path, "whole", updates=4).folder, tmp_path / "run")


def test_a_disk_that_is_full_at_the_beginning_is_told_and_is_not_in_the_way_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for count in (1, 2, 3, 4):
        with monkeypatch.context() as patch:
            full(count, "replace", patch)
            with pytest.raises(StorageError, match="No space left on device"):
                tiny_train(tmp_path, f"run{count}")
        run = tmp_path / f"run{count}"
        if (run / "config.toml").exists():
            train(resume=run)
        else:
            tiny_train(tmp_path, f"run{count}")
        assert_same(tiny_train(tmp_path, f"whole{count}").folder, run)


def test_a_process_that_may_write_no_more_ends_with_1_and_goes_on_later(tmp_path: Path) -> None:
    """The second file of a state is twice as long as the first: it holds the last solution of CG too."""
    whole = tiny_train(tmp_path, "whole", updates=3).folder
    first = 2500 + 4 * load(whole).net.n_parameters
    flags = ["--hidden", "4", "--sequence-length", "10", "--gradient-symbols", "300", "--sample-length", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "hfrnn", "train", "text.txt", *flags, "--updates", "3", "--out", "run"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (first, resource.RLIM_INFINITY)),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "File too large" in done.stderr
    assert "update 0 is saved, and hfrnn train --resume run goes on from there" in done.stderr
    train(resume=tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_a_folder_that_cannot_be_written_to_is_wrong_input(tmp_path: Path) -> None:
    run = tiny_train(tmp_path).folder
    run.chmod(0o555)
    try:
        if os.access(run, os.W_OK):
            pytest.skip("this user may write everywhere")
        with pytest.raises(InputError, match="run cannot be written to"):
            train(resume=run, updates=3)
    finally:
        run.chmod(0o755)


# ---------------------------------------------------------------------- a target


def test_a_run_stops_at_its_target_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Losses(monkeypatch, 4.0, 3.0, 2.0, 1.0)
    options = {"updates": 10, "target_bits": 2.0 / np.log(2), "callbacks": (watch,)}
    result = tiny_train(tmp_path, **options)
    assert (result.summary["stopped"], result.summary["updates"]) == ("target", 3)
    assert train(resume=result.folder).summary["updates"] == 3
    further = train(resume=result.folder, target_bits=1.0, callbacks=(Losses(monkeypatch, 2.0, 2.0, 0.5),))
    assert (further.summary["stopped"], further.summary["updates"]) == ("target", 6)


def test_without_validation_the_target_is_of_the_training_bits(tmp_path: Path) -> None:
    options = {"fractions": (1, 0, 0), "hidden": 8, "gradient_symbols": 0}
    lines = metrics(tiny_train(tmp_path, "whole", updates=6, **options).folder)
    wanted = (lines[2]["train_bits"] + lines[3]["train_bits"]) / 2
    result = tiny_train(tmp_path, updates=6, target_bits=wanted, **options)
    assert (result.summary["stopped"], result.summary["updates"]) == ("target", 4)
    assert result.summary["best"]["train_bits"] <= wanted < lines[2]["train_bits"]


@pytest.mark.parametrize("way", ["target", "success"])
def test_a_run_killed_after_the_update_that_ends_it_makes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    class Good(Callback):
        def on_start(self, trainer: Trainer) -> None:
            monkeypatch.setattr(trainer.source, "errors", lambda logits: 0.0099)

    def killed(self: Trainer, reason: str) -> None:
        raise ZeroDivisionError

    options: dict[str, Any] = {"updates": 30, "target_bits": 100.0, "optimizer": "sgd", "validate_every": 10}
    if way == "success":
        options = {"data": "addition", "length": 21, "sequences": 40, "streams": 6, "arch": "rnn", "updates": 30}
    whole = tiny_method(tmp_path, "whole", **options, callbacks=(Good(),))
    assert whole.summary["stopped"] == way
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_summarize", killed)
        with pytest.raises(ZeroDivisionError):
            tiny_method(tmp_path, **options, callbacks=(Good(),))
    assert train(resume=tmp_path / "run").summary["stopped"] == way
    assert_same(whole.folder, tmp_path / "run")


def test_a_target_is_refused_where_nothing_is_measured_in_bits(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--target-bits was given, and the loss of addition is not in bits"):
        tiny_method(tmp_path, data="addition", length=21, arch="rnn", target_bits=1.0)
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------------- elsewhere


def test_a_run_of_a_gpu_is_opened_and_goes_on_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Any:
        raise MissingExtraError("backend 'cupy' needs CuPy: install the extra cuda12, or use backend 'numpy'")

    options: dict[str, Any] = {"arch": "hornn", "optimizer": "adam"}
    with monkeypatch.context() as patch:
        for name in ("fill", "clip", "__pow__", "__ipow__"):
            patch.setattr(FakeArray, name, getattr(OptimizerArray, name), raising=False)
        patch.setitem(hfrnn.arrays.backend._makers, "cupy", lambda: FakeBackend())
        run = tiny_method(tmp_path, **options, backend="cupy", updates=2).folder
    monkeypatch.setitem(hfrnn.arrays.backend._makers, "cupy", none)
    assert RunFolder(run).config().backend == "cupy"
    assert isinstance(load(run).theta, np.ndarray)
    before = snapshot(run)
    with pytest.raises(
        MissingExtraError, match=r"use backend 'numpy': hfrnn train --resume .*run --backend numpy goes"
    ):
        train(resume=run, updates=4)
    assert snapshot(run) == before
    train(resume=run, updates=4, backend="numpy")
    whole = tiny_method(tmp_path, "whole", **options, updates=4).folder
    assert state(run)[0] == state(whole)[0]


def test_the_commands_take_a_checkpoint_that_was_kept(tmp_path: Path) -> None:
    run = str(tiny_train(tmp_path, updates=3, keep=2).folder)
    scores = []
    for which in ("update-2", "update-3", "last"):
        result = CliRunner().invoke(main, ["evaluate", run, "--which", which, "--json"])
        assert result.exit_code == 0, result.output
        scores.append(json.loads(result.stdout)["bits_per_symbol"])
    assert scores[0] != scores[1] == scores[2]
    refused = CliRunner().invoke(main, ["evaluate", run, "--which", "update-1"])
    assert refused.exit_code == 2
    assert "update-1" in refused.stderr
