"""Runs on a device, NumPy arrays in place of CuPy's: their budget, their move to and from a CPU, and used-up memory."""

import json

import numpy as np
import pytest
from support.command_line import call
from support.fake_device import HostAsDevice, OutOfMemoryError, register_device
from support.slow import slow_unless
from support.tiny_runs import metrics, snapshot, text_file, tiny_train

import hfrnn
from hfrnn.choices import DEVICE_SHARE
from hfrnn.engine.objective import Objective
from hfrnn.runs.folder import RunFolder
from hfrnn.training import setup
from hfrnn.training.dry_run import dry_run
from hfrnn.training.trainer import Trainer, train

BUDGET = f"{int(DEVICE_SHARE * HostAsDevice.FREE) >> 20}MiB"
MOVES = [  # of the runs of an optimizer, from a backend to another
    ("hf", "cupy", "numpy"), ("hf", "numpy", "cupy"), ("sgd", "cupy", "numpy"), ("adam", "numpy", "cupy"),
    ("soap", "numpy", "cupy"), ("muon", "cupy", "numpy"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def device(monkeypatch):
    register_device(monkeypatch)


def device_run(folder, **options):
    """A run of two updates on the device, which auto chooses."""
    return tiny_train(folder, **{"backend": "auto", **options}).folder


def resumed(run, **options):
    """The trainer of a run that would go on."""
    trainer = Trainer.resumed(run, {"updates": 4, **options})
    trainer.folder.lock.release()
    return trainer


def stored_plans(run):
    return RunFolder(run).restore("last")[1]["plans"]


def test_a_run_on_a_device_has_one_shard(tmp_path):
    plans = stored_plans(device_run(tmp_path, optimizer="hf", gradient_symbols=1000))
    assert {tuple(plan["shards"]) for plan in plans.values()} == {(0, 100), (0, 40)}


def test_a_resumed_run_keeps_the_plan_when_less_memory_is_free(tmp_path, monkeypatch):
    run = device_run(tmp_path)
    plans = stored_plans(run)
    monkeypatch.setattr(HostAsDevice, "FREE", 2**20)
    trainer = resumed(run)
    assert {role: plan.to_json() for role, plan in trainer.method.plans.items()} == plans
    assert trainer.config.memory == RunFolder(run).config().memory == BUDGET


@pytest.mark.parametrize(
    ("optimizer", "first", "then"),
    slow_unless(lambda optimizer, first, then: (optimizer, first) == ("adam", "numpy"), MOVES),
)
def test_a_run_moves_between_a_device_and_a_cpu(tmp_path, optimizer, first, then):
    options = {"optimizer": optimizer, "dtype": "float64", **({} if optimizer == "hf" else {"log_interval": 1})}
    if optimizer != "hf":
        options["gradient_symbols"] = None
    whole = device_run(tmp_path, name="whole", backend=first, updates=4, **options)
    run = device_run(tmp_path, backend=first, **options)
    train(resume=run, backend=then, updates=4)
    for one, other in zip(metrics(run), metrics(whole), strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-6)
    weights = [hfrnn.load(each, "last").theta for each in (run, whole)]
    assert np.linalg.norm(weights[0] - weights[1]) <= 1e-6 * np.linalg.norm(weights[1])


@pytest.mark.parametrize(("first", "then", "memory", "shards"), [
    ("cupy", "numpy", "4GiB", 2), pytest.param("numpy", "cupy", BUDGET, 1, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_run_that_moves_gets_the_budget_and_the_plan_of_its_new_place(tmp_path, first, then, memory, shards):
    run = device_run(tmp_path, backend=first)
    train(resume=run, backend=then, updates=3)
    trainer = resumed(run, backend=then)
    assert trainer.config.memory == memory
    assert len(trainer.method.plans["gradient"].parts) == shards
    assert resumed(run, backend=first, memory="7MiB").config.memory == "7MiB"
    if first == "numpy":  # no move
        on_cpu = device_run(tmp_path, name="cpu", backend="numpy", memory="8MiB")
        assert resumed(on_cpu, backend="numba").config.memory == "8MiB"


def test_the_spectrum_of_a_run_of_a_device_has_the_budget_of_its_own_backend(tmp_path):
    run, budgets = device_run(tmp_path), []
    with pytest.MonkeyPatch.context() as patch:
        inner = Objective.__init__
        patch.setattr(Objective, "__init__", lambda *a, **b: (budgets.append(b["memory"]), inner(*a, **b))[1])
        for backend in ("numpy", "cupy"):
            hfrnn.load_objective(run, symbols=100, backend=backend)
    assert budgets == [None, RunFolder(run).config().memory_bytes]


@pytest.mark.parametrize(("backend", "share"), [("cupy", 4), ("numpy", 1)])
def test_validation_on_a_device_takes_a_quarter_of_the_budget(tmp_path, backend, share, monkeypatch):
    budgets = []
    inner = setup.make_plan
    monkeypatch.setattr(setup, "make_plan", lambda *a, **b: (budgets.append(a[4]), inner(*a, **b))[1])
    device_run(tmp_path, backend=backend, memory="8MiB")
    assert budgets == [8 * 2**20 // share]


@pytest.mark.parametrize("optimizer", ["hf", "adam"])
def test_a_dry_run_waits_for_the_device_before_it_stops_the_clock(tmp_path, optimizer, monkeypatch):
    waits = []
    monkeypatch.setattr(HostAsDevice, "synchronize", lambda self: waits.append(1))
    config = hfrnn.TrainConfig(text=text_file(tmp_path), hidden=3, optimizer=optimizer, sequence_length=10)
    dry_run(config)
    assert len(waits) == (9 if optimizer == "hf" else 3)  # three calls of each of three parts, or three updates


# ---------------------------------------------------------------------- the memory of the device is used up
def full(*_, **__):
    raise OutOfMemoryError("Out of memory allocating 123 bytes")


def run_out(patch, calls=0):
    """Let the device have no memory for another objective after so many."""
    inner, made = Objective.gauss_newton, []

    def gauss_newton(*arguments, **options):
        made.append(1)
        return (full if len(made) > calls else inner)(*arguments, **options)

    patch.setattr(Objective, "gauss_newton", gauss_newton)


def test_used_up_memory_is_told_with_the_update_the_budget_and_how_to_go_on(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        run_out(patch, calls=2)
        with pytest.raises(hfrnn.DeviceMemoryError) as told:
            device_run(tmp_path, updates=4)
    half = f"{int(BUDGET[:-3]) // 2}MiB"
    command = f"hfrnn.train(resume={str(tmp_path / 'run')!r}, memory={half!r})"
    assert str(told.value) == (
        "the memory of the GPU is used up after update 2, which is saved, with a budget of "
        f"{BUDGET}: resume with a smaller one, {command}"
    )
    assert isinstance(told.value, MemoryError)
    run = tmp_path / "run"
    assert json.loads((run / "summary.json").read_text())["stopped"] == "a GPU without free memory"
    train(resume=run, memory=half)
    assert metrics(run) == metrics(device_run(tmp_path, name="whole", updates=4))


def test_used_up_memory_has_exit_code_1(tmp_path, monkeypatch):
    run_out(monkeypatch)
    flags = ["--hidden", 4, "--updates", 1, "--quiet", "--out", tmp_path / "run"]
    result = call("train", text_file(tmp_path), *flags, code=1)
    assert result.stderr.startswith("Error: the memory of the GPU is used up after update 0, which is saved")
    assert result.stderr.count("\n") == 1


def test_a_run_without_a_budget_is_told_to_use_one(tmp_path, monkeypatch):
    run_out(monkeypatch)
    with pytest.raises(hfrnn.DeviceMemoryError, match=r"checkpoint='auto', memory='19MiB'\)$"):
        device_run(tmp_path, checkpoint="5")


def test_used_up_memory_before_an_update_leaves_all_folders_as_they_are(tmp_path, monkeypatch):
    run = device_run(tmp_path)
    before = snapshot(tmp_path)
    monkeypatch.setattr(HostAsDevice, "asarray", full)
    with pytest.raises(hfrnn.DeviceMemoryError, match="is used up before"):
        train(resume=run, updates=4)
    with pytest.raises(hfrnn.DeviceMemoryError, match=rf"before the first update, with a budget of {BUDGET}: .*19MiB"):
        device_run(tmp_path, name="new")
    assert snapshot(tmp_path) == before
