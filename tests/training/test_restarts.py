"""Restarts: each has the bits of a single run with its seed, the best is copied, and interruptions lose nothing."""

import json

import numpy as np
import pytest
from support.command_line import call, refused
from support.run_states import assert_same
from support.tiny_runs import callback

import hfrnn
from hfrnn.errors import CheckpointError, InputError, NonFiniteError
from hfrnn.files import write_atomic
from hfrnn.ranks.one import Ranks
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.lock import FolderLock
from hfrnn.training.restarts import wanted_restarts
from hfrnn.training.signals import Interrupted


def trained(folder, name="run", callbacks=(), **options):
    """A run on a few short sequences."""
    rng = np.random.default_rng(0)
    if not (folder / "data.npz").exists():
        np.savez(folder / "data.npz", x=rng.normal(size=(8, 5, 1)), y=rng.normal(size=(8, 5, 1)))
    options = {"data": folder / "data.npz", "hidden": 3, "updates": 2, "backend": "numpy", **options}
    return hfrnn.train(**options, out=folder / name, callbacks=list(callbacks))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("restarts")
    return trained(folder, restarts=3, seed=4), folder


def test_each_restart_has_the_bits_of_a_single_run_and_the_best_is_copied(done):
    result, folder = done
    for number in (1, 2, 3):
        alone = trained(folder, f"alone-{number}", seed=3 + number)
        assert_same(alone.folder, folder / f"run/restart-{number}")
    rows = result.summary["restarts"]
    best = min(rows, key=lambda row: row["valid_loss"])
    assert [row["seed"] for row in rows] == [4, 5, 6]
    assert result.summary["restart"] == best["restart"]
    assert list(result.summary)[-2:] == ["best", "last"]
    assert json.loads((folder / "run/restarts.json").read_text())["best"] == best["restart"]
    assert result.config.seed == best["seed"]
    assert result.config.out == str(folder / "run")
    assert_same(folder / "run", folder / f"run/restart-{best['restart']}")
    assert np.array_equal(result.theta, hfrnn.load(folder / f"run/restart-{best['restart']}").theta)
    assert not list(folder.rglob(".lock"))
    again = hfrnn.train(resume=folder / "run", updates=3)
    hfrnn.train(resume=folder / f"alone-{best['restart']}", updates=3)
    assert_same(again.folder, folder / f"alone-{best['restart']}")


def test_interrupted_restarts_are_resumed_where_they_stopped(done, tmp_path):
    def stop(record):
        count.append(record)
        if len(count) == 3:
            raise KeyboardInterrupt

    count: list = []
    with pytest.raises(Interrupted, match="after update 1 in restart-2, which is saved") as caught:
        trained(tmp_path, callbacks=[callback(on_update=stop)], restarts=3, seed=4)
    run = tmp_path / "run"
    assert str(caught.value).endswith(f"resume with hfrnn.train(resume='{run}')")
    with pytest.raises(InputError, match="restarts that have not all ended"):
        hfrnn.load(run)
    with pytest.raises(InputError, match=r"updates= was given, and 1 of 3 restarts in .* have ended"):
        hfrnn.train(resume=run, updates=9)
    held = FolderLock(run)
    held.acquire()
    with pytest.raises(InputError, match="is in use by"):
        hfrnn.train(resume=run)
    held.release()
    del count[2:]
    with pytest.raises(Interrupted, match="in restart-2, which is saved") as caught:
        hfrnn.train(resume=run, callbacks=[callback(on_update=stop)])
    assert str(caught.value).endswith(f"resume with hfrnn.train(resume='{run}')")
    result = hfrnn.train(resume=run, threads=1)
    for number in (1, 2, 3):
        assert_same(run / f"restart-{number}", done[1] / f"run/restart-{number}")
    assert [row["valid_loss"] for row in result.summary["restarts"]] == [
        row["valid_loss"] for row in done[0].summary["restarts"]
    ]


def test_an_interrupted_restart_gets_what_is_left_of_its_minutes(tmp_path):
    def stop(record):
        noted.append(record["seconds_update"])
        if len(noted) == 2:
            raise KeyboardInterrupt

    noted, limits = [], []
    with pytest.raises(Interrupted, match="after update 2 in restart-1"):
        trained(tmp_path, callbacks=[callback(on_update=stop)], restarts=2, updates=3, minutes=5)
    watch = callback(on_start=lambda trainer: limits.append(trainer.config.time_limit))
    hfrnn.train(resume=tmp_path / "run", callbacks=[watch])
    assert limits == pytest.approx([300 - sum(noted), 300], abs=1e-9)
    assert RunFolder(tmp_path / "run/restart-1").config().time_limit == 300


def test_a_restart_without_time_left_ends_after_an_update(tmp_path):
    def stop(record):
        folder = RunFolder(tmp_path / "run/restart-1")
        records = folder.metrics()
        records[-1]["seconds_update"] = 301.0
        (folder.path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        trained(tmp_path, callbacks=[callback(on_update=stop)], restarts=2, updates=3, minutes=5)
    result = hfrnn.train(resume=tmp_path / "run")
    assert [(row["updates"], row["stopped"]) for row in result.summary["restarts"]] == [(2, "time"), (3, "updates")]


def test_a_restart_whose_loss_is_not_finite_counts_with_its_best_state(tmp_path):
    def spoil(trainer):
        if trainer.config.seed in bad:
            raise NonFiniteError("the loss is not finite")

    bad, watch = {0}, callback(on_start=spoil)
    result = trained(tmp_path, callbacks=[watch], restarts=2, updates=1)
    assert [row["valid_loss"] is None for row in result.summary["restarts"]] == [True, False]
    assert result.config.seed == 1
    bad.add(1)
    with pytest.raises(NonFiniteError):
        trained(tmp_path, "none", callbacks=[watch], restarts=2, updates=1)


def test_what_cannot_be_restarted_is_refused_and_nothing_is_written(tmp_path):
    ranks = Ranks()
    ranks.size = 2
    with pytest.raises(InputError, match="2 ranks were started: start it without mpiexec"):
        wanted_restarts(hfrnn.TrainConfig(restarts=2), ranks)
    with pytest.raises(InputError):
        trained(tmp_path, restarts=2, data=tmp_path / "missing.npz")
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    for content in ("{", '{"seeds": [0], "best": null, "runs": [{"restart": 2}]}', '{"seeds": 3}'):
        (tmp_path / "run/restarts.json").write_text(content)
        with pytest.raises(CheckpointError, match="damaged"):
            hfrnn.train(resume=tmp_path / "run")
    assert "restarts" not in trained(tmp_path, "one", restarts=1).config.given


def test_restarts_killed_while_the_best_is_copied_are_copied_again(done, tmp_path, monkeypatch):
    class Stops(BaseException):
        """Ends a process in the middle of its writes, as nothing but a kill does."""

    def write(path, content):
        if path.name == "config.toml":
            raise Stops
        write_atomic(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(hfrnn.training.restarts, "write_atomic", write)
        with pytest.raises(Stops):
            trained(tmp_path, restarts=3, seed=4)
    assert hfrnn.train(resume=tmp_path / "run").config.seed == done[0].config.seed
    assert_same(tmp_path / "run", done[1] / f"run/restart-{done[0].summary['restart']}")


def test_the_command_prints_a_table_of_all(done, tmp_path):
    flags = ["--data", done[1] / "data.npz", "--hidden", 3, "--updates", 1, "--backend", "numpy", "--restarts", 2]
    printed = call("train", *flags, "--out", tmp_path / "run").stdout
    assert "restart   2 of 2, seed 1" in printed
    assert f"run folder: {tmp_path / 'run'}" in printed
    assert "restart  seed   train   valid  at update  after  ended by" in printed
    *records, last = map(json.loads, call("train", *flags, "--out", tmp_path / "json", "--json").stdout.splitlines())
    assert [record["restart"] for record in records] == [1, 2]
    assert len(last["restarts"]) == 2
    assert "2 such runs, one after another" in call("train", *flags, "--dry-run").stdout
    assert "keeps its --restarts" in refused("train", "--resume", tmp_path / "run", "--restarts", 3)
