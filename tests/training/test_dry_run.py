"""A dry run plans and times a run, and leaves no trace."""

import numpy as np
import pytest
from click.testing import CliRunner
from support.tiny_runs import FLAGS, snapshot, text_file, tiny_train

import hfrnn.training.methods.hessian_free as hessian_free
import hfrnn.training.trainer
from hfrnn.cli import main
from hfrnn.errors import InputError
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.runs.config import TrainConfig
from hfrnn.training.dry_run import dry_run


def config(folder, **options):
    return TrainConfig(
        text=str(text_file(folder)), hidden=(4,), sequence_length=10, gradient_symbols=300, backend="numpy", **options
    )


def test_a_dry_run_has_the_plans_that_the_run_takes(tmp_path):
    found = dry_run(config(tmp_path, checkpoint="3"))
    run = tiny_train(tmp_path, checkpoint="3")
    stored = load_checkpoint(run.folder / "last.safetensors")[1]["plans"]
    assert {role: plan.to_json() for role, plan in found.plans.items()} == stored
    assert stored["gradient"]["stretch"] == stored["curvature"]["stretch"] == 3
    assert stored["gradient"]["shards"][-1] == 30
    assert stored["curvature"]["shards"][-1] == 12


def test_a_dry_run_measures_and_adds_up(tmp_path):
    found = dry_run(config(tmp_path))
    assert min(found.gradient, found.loss, found.product) > 0
    assert found.update_seconds(3) == pytest.approx(found.gradient + 2 * found.loss + 3 * found.product)
    more = found.update_seconds(20) - found.update_seconds(10)
    assert more == pytest.approx(10 * found.product)


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path, monkeypatch):
    text = text_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)
    result = CliRunner().invoke(main, ["train", str(text), *FLAGS, "--dry-run"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == [
        "network", "gradient", "curvature", "memory", "gradient", "loss", "product", "update",
    ]  # fmt: skip
    assert " 0.0" not in result.output
    assert snapshot(tmp_path) == before


def test_a_budget_that_nothing_fits_is_refused_with_the_numbers(tmp_path):
    with pytest.raises(InputError, match=r"need at least .* [KM]iB, and the budget is"):
        dry_run(config(tmp_path, memory="20kB", preset="published"))


@pytest.mark.slow
def test_a_resumed_run_keeps_its_stored_plan(tmp_path, monkeypatch):
    whole = tiny_train(tmp_path, "whole", updates=3, checkpoint="3")
    part = tiny_train(tmp_path, "part", updates=1, checkpoint="3")
    made = hessian_free.make_plan
    monkeypatch.setattr(hessian_free, "make_plan", lambda net, T, B, *rest, **more: made(net, T, B, None))
    assert dry_run(part.config).plans["gradient"].keep.value == "all"  # a plan that is made now
    resumed = hfrnn.training.trainer.train(resume=part.folder, updates=3)
    assert load_checkpoint(resumed.folder / "last.safetensors")[1]["plans"]["gradient"]["keep"] == "nothing"
    np.testing.assert_array_equal(resumed.theta, whole.theta)


# ---------------------------------------------------------------------- other optimizers
@pytest.mark.parametrize(("options", "roles"), [
    ({"optimizer": "sgd", "streams": 300, "update_every": 2}, ["gradient"]),  # streams shorter than a window
    ({"optimizer": "adam", "data": "addition", "length": 21, "streams": 5, "arch": "rnn"}, ["gradient"]),
    ({"optimizer": "online", "streams": 4, "arch": "lstm-krause"}, []),
], ids=["short streams", "task", "online"])  # fmt: skip
def test_a_dry_run_of_another_optimizer_times_an_update_and_writes_nothing(tmp_path, monkeypatch, options, roles):
    options = {"hidden": 4, "backend": "numpy", **options}
    text = [] if "data" in options else [str(text_file(tmp_path))]
    options |= {"sequence_length": 10} if text and options["optimizer"] != "online" else {}
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    result = CliRunner().invoke(main, ["train", *text, *flags, "--dry-run"])
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.output.splitlines()] == ["network", *roles, "memory", "update"]
    assert snapshot(tmp_path) == before
    options |= {"text": text[0]} if text else {}
    found = dry_run(TrainConfig(**{**options, "hidden": (4,)}))
    assert (found.loss, found.product) == (None, None)
    assert found.update_seconds(10) == found.update_seconds(100) == found.gradient > 0
    assert list(found.plans) == roles
    stored = hfrnn.training.trainer.train(**options, updates=1, sample_length=0, out=tmp_path / "run").folder
    plans = load_checkpoint(stored / "last.safetensors")[1]["plans"]
    assert {role: plan.to_json() for role, plan in found.plans.items()} == plans
