"""A run stops at a signal wherever it comes, and resumes exactly."""

import errno
import importlib
import json
import os
import shlex
import signal
import time
from itertools import product

import pytest
from support.command_line import call
from support.run_states import assert_same
from support.slow import slow_unless
from support.stops import Validation, at, load_update, send, twice
from support.tiny_runs import after, callback, snapshot, tiny_train

import hfrnn
from hfrnn.cli.arguments import told
from hfrnn.engine.objective import Objective
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.metrics import MetricsFile
from hfrnn.training.signals import handle_signals
from hfrnn.training.trainer import Interrupted, train

pytest.importorskip("resource", reason="these signals are those of POSIX systems")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of three updates that nobody stops."""
    return tiny_train(tmp_path_factory.mktemp("whole"), updates=3).folder


def assert_resumes(run, whole):
    train(resume=run, updates=3)
    assert_same(whole, run)


@pytest.mark.parametrize("number", slow_unless(lambda number: number == signal.SIGHUP, SIGNALS))
def test_a_signal_during_validation_stops_there_and_then(tmp_path, whole, number):
    watch = Validation(2, lambda: send(number))
    with pytest.raises(Interrupted, match="after update 1, which is saved"):
        tiny_train(tmp_path, updates=3, callbacks=(watch,))
    assert (watch.ended, watch.noted) == (False, 1)
    assert_resumes(tmp_path / "run", whole)


@pytest.mark.slow
def test_a_signal_during_a_search_stops_after_that_loss(tmp_path, monkeypatch):
    whole = tiny_train(tmp_path, "whole", mu_growth=0.0).folder
    loss = at(1, send, Objective.loss)
    monkeypatch.setattr(Objective, "loss", loss)
    with pytest.raises(Interrupted, match="after update 0"):
        tiny_train(tmp_path, mu_growth=0.0)  # without losses on the way: CG is over, and asks no more
    assert loss.calls == 1
    monkeypatch.undo()
    train(resume=tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_a_signal_while_an_update_is_written_waits_for_that(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(MetricsFile, "append", at(2, send, MetricsFile.append))
    with pytest.raises(Interrupted, match="after update 2, which is saved"):
        tiny_train(tmp_path, updates=3)
    assert load_update(tmp_path / "run") == 2
    monkeypatch.undo()
    assert_resumes(tmp_path / "run", whole)


PLACES = slow_unless(lambda *at: at in (("fsync", 1), ("replace", 2)), product(("fsync", "replace"), range(1, 5)))


@pytest.mark.parametrize(("place", "count"), PLACES)
def test_a_second_signal_in_the_middle_of_a_write_leaves_whole_files(tmp_path, whole, monkeypatch, place, count):
    watch = after(1, lambda: monkeypatch.setattr(os, place, at(count, twice, getattr(os, place))))
    with pytest.raises(Interrupted, match=r"after update [123], which is saved") as caught:
        tiny_train(tmp_path, updates=3, callbacks=(watch,))
    assert f"after update {load_update(tmp_path / 'run')}," in str(caught.value)
    monkeypatch.undo()
    assert not list((tmp_path / "run").glob(".*"))
    assert_resumes(tmp_path / "run", whole)


@pytest.mark.parametrize("when", ["during training", pytest.param("at the end", marks=pytest.mark.slow)])
def test_a_signal_ends_a_long_sample(tmp_path, monkeypatch, when):
    uninterrupted = tiny_train(tmp_path, "whole", updates=3, sample_length=9).folder
    drawn = []

    def sample(*arguments, **options):
        for n, step in enumerate(module.sample_before(*arguments, **options)):
            drawn.append(n)
            if len(drawn) == (3 if when == "during training" else 21):  # samples are drawn after updates 1, 2 and 3
                send(signal.SIGTERM)
            yield step

    module = hfrnn.engine.sampling
    monkeypatch.setattr(module, "sample_before", module.sample, raising=False)
    monkeypatch.setattr(module, "sample", sample)
    with pytest.raises(Interrupted, match="after update 0" if when == "during training" else "after update 3"):
        tiny_train(tmp_path, updates=3, sample_length=9)
    assert len(drawn) == (3 if when == "during training" else 21)
    monkeypatch.undo()
    result = train(resume=tmp_path / "run")
    assert_same(uninterrupted, tmp_path / "run")
    assert result.summary["sample"] == json.loads((uninterrupted / "summary.json").read_text())["sample"]


def test_a_signal_ends_a_blocked_read_on_resume(tmp_path, whole, monkeypatch):
    def blocks():
        send(signal.SIGTERM)
        time.sleep(60)

    run = tiny_train(tmp_path).folder
    before, start = snapshot(run), time.monotonic()
    for name in ("config", "restore", "make_consistent"):
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, name, at(1, blocks, getattr(RunFolder, name)))
            with pytest.raises(Interrupted, match=r"before the next update: resume with hfrnn.train\(resume=.*run"):
                train(resume=run, updates=3)
        assert snapshot(run) == before
    assert time.monotonic() - start < 60
    assert_resumes(run, whole)


@pytest.mark.parametrize("code", [errno.EPIPE, pytest.param(errno.EIO, marks=pytest.mark.slow), errno.ENOSPC])
def test_a_closed_output_is_an_interruption_and_a_full_disk_is_not(tmp_path, whole, code):
    def prints(record):
        raise OSError(code, os.strerror(code))

    expected = OSError if code == errno.ENOSPC else Interrupted
    with pytest.raises(expected, match=os.strerror(code) if code == errno.ENOSPC else "after update 1, which is saved"):
        tiny_train(tmp_path, callbacks=(callback(on_update=prints),))
    assert_resumes(tmp_path / "run", whole)


def test_a_signal_after_the_last_update_names_it(tmp_path):
    with pytest.raises(Interrupted, match="after update 2, which is saved"):
        tiny_train(tmp_path, callbacks=(callback(on_end=lambda result: send()),))


# ---------------------------------------------------------------------- when a signal raises KeyboardInterrupt
@pytest.mark.slow
def test_a_signal_during_an_import_takes_effect_after_it(tmp_path, monkeypatch):
    (tmp_path / "slow_module.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhole = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with handle_signals() as interruption:
        whole = importlib.import_module("slow_module").whole
        assert (whole, interruption.seen) == (True, True)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(30)


def test_a_signal_that_only_imports_have_seen_makes_no_run_folder(tmp_path):
    with handle_signals() as interruption:
        interruption.seen = True
        with pytest.raises(KeyboardInterrupt):
            tiny_train(tmp_path)
    assert not (tmp_path / "run").exists()


def test_signals_do_not_disturb_the_cleanup_after_the_first(monkeypatch):
    cleaned = []

    def work():
        try:
            send()
        finally:
            twice()
            cleaned.append(True)

    with handle_signals():
        with pytest.raises(KeyboardInterrupt):
            work()
        monkeypatch.setattr("hfrnn.training.signals.CLEANUP_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            send()
    assert cleaned


def test_a_run_inside_a_command_shares_its_handlers(tmp_path):
    with handle_signals() as outer:
        tiny_train(tmp_path)
        assert signal.getsignal(signal.SIGTERM) == outer.on_signal
        assert outer.saved is not None
        with pytest.raises(Interrupted):
            tiny_train(tmp_path, "other", callbacks=(Validation(1, send),))
        twice()  # the status is decided: nothing is raised
    assert signal.getsignal(signal.SIGTERM) != outer.on_signal


# ---------------------------------------------------------------------- before and at the beginning
def test_a_signal_before_a_new_run_has_a_folder_makes_none(tmp_path, monkeypatch):
    monkeypatch.setattr(hfrnn.training.trainer, "validation_objective", lambda *_: send(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        tiny_train(tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_signal_while_the_folder_is_made_leaves_the_first_state(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(RunFolder, "create", at(1, send, RunFolder.create))
    with pytest.raises(Interrupted, match="after update 0"):
        tiny_train(tmp_path)
    monkeypatch.undo()
    assert_resumes(tmp_path / "run", whole)


def test_a_run_under_nohup_hears_no_hangup_and_handlers_are_put_back(tmp_path):
    found = []
    looks = callback(on_start=lambda trainer: found.append(signal.getsignal(signal.SIGHUP)))
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        before = [signal.getsignal(number) for number in SIGNALS]
        tiny_train(tmp_path, callbacks=(looks,))
        assert found == [signal.SIG_IGN]
        assert [signal.getsignal(number) for number in SIGNALS] == before
    finally:
        signal.signal(signal.SIGHUP, old)


def test_the_command_that_goes_on_has_the_folder_quoted_and_the_new_limits(tmp_path):
    sends = Validation(1, send)
    with pytest.raises(Interrupted) as caught:
        tiny_train(tmp_path, "my 'best' run", callbacks=(sends,))
    run = tmp_path / "my 'best' run"
    command = told(caught.value).partition("resume with ")[2]
    assert shlex.split(command) == ["hfrnn", "train", "--resume", str(run)]
    with pytest.raises(Interrupted) as caught:
        train(resume=run, updates=5, callbacks=(Validation(3, send),))
    command = told(caught.value).partition("resume with ")[2]
    assert shlex.split(command) == ["hfrnn", "train", "--resume", str(run), "--updates", "5"]
    assert "after 5 updates" in call(*shlex.split(command)[1:]).stdout
