"""Training with the presets, with every kind of damping and of data."""

import math

import pytest
from support.music_files import stored
from support.slow import slow_unless
from support.tiny_runs import metrics, tiny_train

import hfrnn
from hfrnn.choices import DAMPINGS
from hfrnn.optim.hf_options import declarations
from hfrnn.runs.config import TrainConfig, useless

TINY = {"hidden": 6, "backend": "numpy", "sample_length": 0, "updates": 8}


def check_updates(run):
    records = metrics(run)
    assert all(record["failed"] is None and record["step_size"] > 0 for record in records)
    assert records[-1]["train_loss"] < records[0]["train_loss"]


KINDS = {None: "text", "ptb": "large_text", "jsb": "music", "addition": "task", "sine": "arrays", "a.csv": "arrays"}


@pytest.mark.parametrize("preset", ["tuned", "published"])
@pytest.mark.parametrize(("data", "kind"), KINDS.items())
def test_hessian_free_options_of_a_preset_are_those_of_a_run(preset, data, kind):
    config = TrainConfig(data=data, preset=preset).resolved()
    of_preset = getattr(hfrnn.HessianFreeOptions, preset)
    assert of_preset(kind) == hfrnn.HessianFreeOptions.from_run(config.values)
    assert of_preset(kind, cg_iterations=7).cg_iterations == 7
    with pytest.raises(hfrnn.InputError, match="data is 'words'"):
        of_preset("words")


@pytest.mark.slow
@pytest.mark.parametrize(("options", "kind"), [
    *(({"damping": damping}, ("text", "large_text")[at % 2]) for at, damping in enumerate(DAMPINGS)),
    ({"preconditioner": "none"}, "large_text"),
    ({"lambda_": 0.0}, "text"),  # large texts: one run of ten refuses steps at first (benchmarks/diary/presets.md)
], ids=str)  # fmt: skip
def test_the_tuned_preset_trains_with_every_damping(tmp_path, options, kind):
    tuned = hfrnn.HessianFreeOptions.tuned(kind)
    config = TrainConfig(**options)
    names = [option.name for option in declarations() if option.presets is not None]
    of_kind = {name: getattr(tuned, name) for name in names if not useless(name, config)}
    run = hfrnn.train(out=tmp_path / "run", **{**TINY, **of_kind, **options}).folder
    check_updates(run)
    assert all(record["cg_iterations"] <= 3 for record in metrics(run))
    used = metrics(run, timed=True)[0]["seconds_preconditioner"] > 0
    assert used == (options.get("preconditioner") != "none")


@pytest.mark.parametrize("options", [{"rho_every": 5, "search_objective": "rho"}, {"optimizer": "adam"}], ids=str)
def test_the_training_loss_of_a_record_is_without_the_penalty(tmp_path, options):
    """At first the network knows nothing, and the penalty is large."""
    small = {"learning_rate": 1e-9} if "optimizer" in options else {"mu": 1e3}
    run = tiny_train(tmp_path, "run", **{"updates": 1, "l2": 1e3, **small, **options}).folder
    net = hfrnn.load(run).net
    assert metrics(run)[0]["train_loss"] == pytest.approx(math.log(net.n_out), rel=0.2)


@pytest.mark.parametrize("options", slow_unless(lambda options: options.get("data") == "jsb", [
    {"data": "addition", "length": 21, "sequences": 60, "arch": "rnn", "seed": 1},  # seed 0 has a step undone
    {"data": "jsb", "arch": "lstm"}, {"classes": 5, "embedding": 4}, {"hidden": (5, 4)},
]), ids=["task", "music", "class softmax", "stack"])  # fmt: skip
def test_the_tuned_preset_trains_on_all_kinds_of_data(tmp_path, monkeypatch, options):
    (tmp_path / "jsb").mkdir()
    (tmp_path / "jsb" / "jsb.npz").write_bytes(stored())
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    run = hfrnn.train(out=tmp_path / "run", **{**TINY, **options}).folder
    check_updates(run)
    assert max(record["cg_iterations"] for record in metrics(run)) == (4 if options.get("data") == "addition" else 3)
