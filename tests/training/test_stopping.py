"""How a run stops: by a disk that is full, at a target; and how it is resumed, also without a GPU."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest
from support.fake_device import FakeBackend
from support.method_runs import Losses
from support.method_runs import run as tiny_method
from support.mpi import environment
from support.processes import TINY
from support.run_states import assert_same, state
from support.slow import slow_unless
from support.stops import at, load_update
from support.tiny_runs import after, callback, metrics, snapshot, text_file, tiny_train

import hfrnn
from hfrnn.errors import InputError, MissingExtraError, StorageError
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.load import load
from hfrnn.training.run_state import RunState
from hfrnn.training.trainer import train

resource = pytest.importorskip("resource", reason="these limits are those of POSIX systems")


# ---------------------------------------------------------------------- a disk that fails
@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of three updates that nothing stops."""
    return tiny_train(tmp_path_factory.mktemp("whole"), updates=3).folder


def full(count, place, monkeypatch, code=errno.ENOSPC):
    def fail():
        monkeypatch.setattr(os, place, failing)
        raise OSError(code, os.strerror(code))

    def failing(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, place, at(count, fail, getattr(os, place)))


WRITES = enumerate((errno.EIO, errno.ENOSPC, errno.EROFS, errno.EIO, errno.ENOSPC), 1)
FAILURES = [(place, count, code) for count, code in WRITES for place in ("fsync", "replace")]


@pytest.mark.parametrize(("place", "count", "code"), slow_unless(lambda place, count, code: count == 2, FAILURES))
def test_a_disk_that_fails_in_training_is_told_and_nothing_is_lost(tmp_path, whole, monkeypatch, place, count, code):
    """At every one of the writes of updates 2 and 3."""
    fills = after(1, lambda: full(count, place, monkeypatch, code))
    with monkeypatch.context(), pytest.raises(StorageError, match=os.strerror(code)) as caught:
        tiny_train(tmp_path, updates=3, keep=1, callbacks=(fills,))
    monkeypatch.undo()
    assert caught.value.exit_code == 1
    saved = load_update(tmp_path / "run")
    assert f"update {saved} is saved: resume with hfrnn.train(resume={str(tmp_path / 'run')!r})" in str(caught.value)
    assert saved >= 1
    load(tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*"))
    train(resume=tmp_path / "run")
    assert_same(whole, tmp_path / "run")


@pytest.mark.parametrize(
    "count", [1, pytest.param(2, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)]
)
def test_a_disk_that_is_full_at_the_beginning_is_told_and_is_not_in_the_way_later(tmp_path, whole, monkeypatch, count):
    with monkeypatch.context() as patch:
        full(count, "replace", patch)
        with pytest.raises(StorageError, match="No space left on device"):
            tiny_train(tmp_path, updates=3)
    if (tmp_path / "run" / "config.toml").exists():
        train(resume=tmp_path / "run")
    else:
        tiny_train(tmp_path, updates=3)
    assert_same(whole, tmp_path / "run")


@pytest.mark.nightly
def test_a_process_that_may_write_no_more_ends_with_1_and_goes_on_later(tmp_path, whole):
    """The second file of a state is twice as long as the first: it holds the last solution of CG too."""
    text_file(tmp_path)
    first = 2500 + 4 * load(whole).net.n_parameters
    flags = [*TINY, "--sample-length", "0", "--updates", "3", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-m", "hfrnn", "train", "text.txt", *flags],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (first, resource.RLIM_INFINITY)),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "File too large" in done.stderr
    assert "update 0 is saved: resume with hfrnn train --resume run" in done.stderr
    train(resume=tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_a_folder_that_cannot_be_written_to_is_wrong_input(tmp_path):
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
def test_a_run_stops_at_its_target_and_says_so(tmp_path, monkeypatch):
    watch = Losses(monkeypatch, 4.0, 3.0, 2.0, 1.0)
    options = {"updates": 10, "target_bits": 2.0 / np.log(2), "callbacks": (watch,)}
    result = tiny_train(tmp_path, **options)
    assert (result.summary["stopped"], result.summary["updates"]) == ("target", 3)
    assert train(resume=result.folder).summary["updates"] == 3
    further = train(resume=result.folder, target_bits=1.0, callbacks=(Losses(monkeypatch, 2.0, 2.0, 0.5),))
    assert (further.summary["stopped"], further.summary["updates"]) == ("target", 6)


@pytest.mark.slow
def test_without_validation_the_target_is_of_the_training_bits(tmp_path):
    options = {"fractions": (1, 0, 0), "hidden": 8, "gradient_symbols": 0}
    lines = metrics(tiny_train(tmp_path, "whole", updates=6, **options).folder)
    wanted = (lines[2]["train_bits"] + lines[3]["train_bits"]) / 2
    result = tiny_train(tmp_path, updates=6, target_bits=wanted, **options)
    assert (result.summary["stopped"], result.summary["updates"]) == ("target", 4)
    assert result.summary["best"]["train_bits"] <= wanted < lines[2]["train_bits"]


@pytest.mark.parametrize("way", ["target", "success"])
def test_a_run_killed_after_the_update_that_ends_it_makes_no_other(tmp_path, monkeypatch, way):
    good = callback(on_start=lambda trainer: monkeypatch.setattr(trainer.source, "errors", lambda logits: 0.0099))

    def killed(self, reason, sample):
        raise ZeroDivisionError

    options = {"updates": 30, "target_bits": 100.0, "optimizer": "sgd", "validate_every": 10}
    if way == "success":
        options = {"data": "addition", "length": 21, "sequences": 40, "streams": 6, "arch": "rnn", "updates": 30}
    whole = tiny_method(tmp_path, "whole", **options, callbacks=(good,))
    assert whole.summary["stopped"] == way
    with monkeypatch.context() as patch:
        patch.setattr(RunState, "write_summary", killed)
        with pytest.raises(ZeroDivisionError):
            tiny_method(tmp_path, **options, callbacks=(good,))
    assert train(resume=tmp_path / "run").summary["stopped"] == way
    assert_same(whole.folder, tmp_path / "run")


# ---------------------------------------------------------------------- elsewhere
def test_a_run_of_a_gpu_is_opened_and_goes_on_without_one(tmp_path, monkeypatch):
    def none():
        raise MissingExtraError("backend 'cupy' needs CuPy: install the extra cuda12, or use backend 'numpy'")

    options = {"arch": "hornn", "optimizer": "adam"}
    with monkeypatch.context() as patch:
        patch.setitem(hfrnn.arrays.backend._makers, "cupy", lambda: FakeBackend())
        run = tiny_method(tmp_path, **options, backend="cupy", updates=2).folder
    monkeypatch.setitem(hfrnn.arrays.backend._makers, "cupy", none)
    assert RunFolder(run).config().backend == "cupy"
    assert isinstance(load(run).theta, np.ndarray)
    before = snapshot(run)
    with pytest.raises(
        MissingExtraError, match=r"use backend 'numpy': hfrnn.train\(resume='.*run', backend='numpy'\) resumes"
    ):
        train(resume=run, updates=4)
    assert snapshot(run) == before
    train(resume=run, updates=4, backend="numpy")
    whole = tiny_method(tmp_path, "whole", **options, updates=4).folder
    assert state(run)[0] == state(whole)[0]


@pytest.mark.slow
def test_without_mpi4py_one_sentence_names_the_extra(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ImportError")
    text, found = text_file(tmp_path), []
    for rank in ("0", "1"):
        more = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": rank}
        more["PYTHONPATH"] = f"{tmp_path}:{environment()['PYTHONPATH']}"
        command = [sys.executable, "-m", "hfrnn", "train", str(text), "--out", "run"]
        options = {"cwd": tmp_path, "env": environment(**more), "capture_output": True, "text": True, "timeout": 60}
        found.append(subprocess.run(command, **options, check=False))
    assert [each.returncode for each in found] == [2, 2]
    assert found[0].stderr == (
        "Error: a run on several ranks needs mpi4py and MPI: install the extra mpi (pip install '.[mpi]' in a copy of "
        "the project)\n"
    )
    assert found[1].stderr == found[1].stdout == ""
    assert not (tmp_path / "run").exists()
