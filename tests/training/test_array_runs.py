"""Runs on arrays and tables: every optimizer, resuming, scaling, changed data, and data from a Python program."""

import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.array_files import good, npy, npz, table
from support.command_line import call
from support.run_states import assert_same
from support.tiny_runs import metrics

import hfrnn
from hfrnn.data.scaling import Scaling
from hfrnn.errors import CheckpointError, InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import open_source
from hfrnn.training.trainer import train

OPTIONS = {"arch": "rnn", "hidden": 4, "updates": 2, "backend": "numpy", "dtype": "float64"}
RNG = np.random.default_rng(5)
X = RNG.normal(size=(12, 9, 2)) * 3 + 1
Y = X.cumsum(axis=1) + 40
MASK = RNG.integers(0, 2, size=(12, 9, 2))
MASK[:, 0] = 1
TABLE = {"inputs": ["u", "v"], "targets": ["y"], "window": 10}


def run(folder, name="run", **options):
    return train(out=folder / name, **{**OPTIONS, **options})


def file(folder, **arrays):
    (folder / "a.npz").write_bytes(npz({"x": X, "y": Y, **arrays}))
    return folder / "a.npz"


def csv(folder):
    (folder / "r.csv").write_text(table(80))
    return folder / "r.csv"


# ---------------------------------------------------------------------- training
@pytest.mark.parametrize(("optimizer", "arrays"), [
    pytest.param("hf", {"mask": MASK}, marks=pytest.mark.slow),
    pytest.param("hf", {"y": MASK[:, :, 0]}, marks=pytest.mark.slow),
    ("adam", {"y": MASK, "lengths": np.arange(12) % 9 + 1}), ("sgd", {"y": MASK[:, :, 0]}),
    pytest.param("soap", {"mask": MASK}, marks=pytest.mark.slow),
    pytest.param("muon", {"y": MASK[:, :, 0]}, marks=pytest.mark.slow),
])  # fmt: skip
def test_every_optimizer_lowers_the_loss_and_resumes_to_the_same_bits(tmp_path, optimizer, arrays):
    options = {"data": file(tmp_path, **arrays), "optimizer": optimizer, "updates": 12}
    options |= {} if optimizer == "hf" else {"streams": 5, "log_interval": 2}
    run(tmp_path, "whole", **options)
    run(tmp_path, "halves", **{**options, "updates": 6})
    train(resume=tmp_path / "halves", updates=12)
    assert_same(tmp_path / "whole", tmp_path / "halves")
    losses = [record["train_loss"] for record in metrics(tmp_path / "whole")]
    assert losses[-1] < losses[0]


def test_the_loss_is_that_of_the_network_on_the_arrays(tmp_path):
    result = run(tmp_path, data=file(tmp_path, mask=MASK, valid_x=X[:3], valid_y=Y[:3], valid_mask=MASK[:3]))
    batch = hfrnn.Batch(*(each[:3].swapaxes(0, 1) for each in (X, Y, MASK)))
    loss = result.net.loss(result.theta, batch)
    assert result.summary["best"]["valid_loss"] == pytest.approx(loss, rel=1e-12)
    difference = result.net.run(result.theta, batch)[0] - batch.targets
    weights = MASK[:3].swapaxes(0, 1)
    assert loss == pytest.approx((weights * difference**2).sum() / weights.sum(), rel=1e-12)  # n_out/2 times the mean


def test_small_weights_train_as_large_ones(tmp_path):
    small, large = (
        metrics(run(tmp_path, name, data=file(tmp_path, mask=mask), optimizer="adam").folder)[-1]["train_loss"]
        for name, mask in (("small", MASK * 2.0**-20), ("large", MASK))
    )
    assert small == pytest.approx(large, rel=1e-12)


def test_the_share_of_wrong_classes_counts_scored_steps_only(tmp_path):
    classes = RNG.integers(0, 3, size=(12, 9))
    source = open_source(TrainConfig(data=str(file(tmp_path, y=classes, mask=MASK[:, :, 0])), arch="rnn").resolved())
    assert source.counts_errors
    right = np.eye(3)[classes[-1:].T]  # (T, 1, 3)
    assert source.errors(right) == 0
    mask = MASK[-1, :, 0]
    right[4] = -right[4]
    assert source.errors(right) == mask[4] / mask.sum()
    assert source.errors(-right) >= (mask.sum() - 1) / mask.sum()


def test_few_wrong_classes_do_not_end_a_run_on_arrays(tmp_path):
    classes = np.zeros((12, 9), int)
    classes[0, 0] = 2
    result = run(
        tmp_path, data=str(file(tmp_path, y=classes)), optimizer="adam", updates=40, log_interval=20, learning_rate=0.1
    )
    assert metrics(result.folder)[-1]["valid_errors"] == 0
    assert (result.summary["stopped"], result.summary["updates"]) == ("updates", 40)


def test_arrays_need_a_share_to_train_on(tmp_path):
    with pytest.raises(InputError, match=r"leaves none of .*a\.npz to train on: give train a share above 0"):
        run(tmp_path, data=str(file(tmp_path)), fractions=(0, 1, 0))


def test_a_table_trains_in_units_of_its_deviation(tmp_path):
    run(tmp_path, data=csv(tmp_path), **TABLE)
    scaling = RunFolder(tmp_path / "run").scaling()
    source = open_source(TrainConfig(data=str(csv(tmp_path)), **TABLE).resolved())
    expected = Scaling.measure(source.data.data.train)
    np.testing.assert_array_equal(scaling.input_mean, expected.input_mean)
    np.testing.assert_array_equal(scaling.target_deviation, expected.target_deviation)
    inputs = source.pool(0).inputs
    np.testing.assert_allclose(inputs.mean(axis=(0, 1)), 0, atol=1e-6)
    np.testing.assert_allclose(inputs.std(axis=(0, 1)), 1, rtol=1e-6)


@pytest.mark.parametrize(("options", "scaled"), [
    ({}, (False, False)), ({"standardize": True}, (True, True)), ({"y": MASK, "standardize": True}, (True, False)),
])  # fmt: skip
def test_arrays_are_scaled_only_if_that_is_asked_for(tmp_path, options, scaled):
    y = options.pop("y", Y)
    run(tmp_path, data=file(tmp_path, y=y), **options)
    scaling = RunFolder(tmp_path / "run").scaling()
    assert (scaling is not None) == any(scaled)
    if scaling is not None:
        assert (scaling.input_mean is not None, scaling.target_mean is not None) == scaled
    assert (tmp_path / "run" / "scaling.json").exists() == any(scaled)


# ---------------------------------------------------------------------- resuming
def test_changed_data_are_refused(tmp_path):
    pair = tmp_path / "x.npy", tmp_path / "y.npy"
    for path, array in zip(pair, (X, Y), strict=True):
        path.write_bytes(npy(array))
    run(tmp_path, data=pair[0], targets=[str(pair[1])])
    pair[1].write_bytes(npy(-Y))
    with pytest.raises(CheckpointError, match=r"has changed since the run was started \(.*\): put the old one"):
        train(resume=tmp_path / "run", updates=3)
    pair[0].unlink()
    with pytest.raises(InputError, match=r"is not as it was when the run was started: there is no file"):
        train(resume=tmp_path / "run", updates=3)


def test_a_damaged_lost_or_foreign_scaling_is_refused(tmp_path):
    run(tmp_path, data=csv(tmp_path), **TABLE)
    path = tmp_path / "run" / "scaling.json"
    for damage in (b"{}", None, b'{"input_mean": null}'):
        path.unlink(missing_ok=True)
        if damage is not None:
            path.write_bytes(damage)
        with pytest.raises(CheckpointError, match="scaling"):
            train(resume=tmp_path / "run", updates=3)
    Scaling(np.zeros(2), np.ones(2), np.zeros(1), np.ones(1)).save(path)
    with pytest.raises(CheckpointError, match=r"scaling.json is not that of the run"):
        train(resume=tmp_path / "run", updates=3)


def test_a_run_killed_before_its_first_state_gets_its_scaling_again(tmp_path):
    run(tmp_path, data=csv(tmp_path), **TABLE)
    folder = shutil.copytree(tmp_path / "run", tmp_path / "killed")
    for path in folder.iterdir():
        if path.name != "config.toml":
            path.unlink()
    train(resume=folder, updates=2)
    assert_same(tmp_path / "run", folder)
    assert (folder / "scaling.json").read_bytes() == (tmp_path / "run" / "scaling.json").read_bytes()


@pytest.mark.parametrize("scaled", [True, False])
def test_a_run_from_the_weights_of_another_scales_as_that_run_does(tmp_path, scaled):
    run(tmp_path, "first", data=file(tmp_path), standardize=scaled)
    run(tmp_path, "second", data=file(tmp_path, x=X * 9), init_from=tmp_path / "first")
    assert RunFolder(tmp_path / "second").config().standardize is scaled
    files = [tmp_path / name / "scaling.json" for name in ("first", "second")]
    assert files[1].read_bytes() == files[0].read_bytes() if scaled else not files[1].exists()
    message = "^standardize=False was given, .* scales" if scaled else "^standardize=True was given, .* does not scale"
    with pytest.raises(InputError, match=message):
        run(tmp_path, "third", data=file(tmp_path), init_from=tmp_path / "first", standardize=not scaled)
    assert not (tmp_path / "third").exists()


# ---------------------------------------------------------------------- in Python
def draw(rng):
    x = rng.normal(size=(8, 6, 2))
    return {"x": x, "y": x.cumsum(axis=1)}


def test_arrays_in_memory_train_as_those_of_a_file(tmp_path):
    run(tmp_path, "file", data=file(tmp_path, mask=MASK))
    run(tmp_path, "memory", data={"x": X, "y": Y, "mask": MASK})
    assert metrics(tmp_path / "file") == metrics(tmp_path / "memory")


def test_arrays_in_memory_resume_if_they_are_given_again(tmp_path):
    data = {"x": X, "y": Y}
    run(tmp_path, "whole", data=data, updates=4)
    run(tmp_path, "halves", data=data)
    with pytest.raises(CheckpointError, match="has changed since the run was started"):
        train(resume=tmp_path / "halves", data={"x": X, "y": -Y}, updates=4)
    with pytest.raises(InputError, match=r"were arrays in the memory of a Python program: use them there"):
        train(resume=tmp_path / "halves", updates=4)
    train(resume=tmp_path / "halves", data=data, updates=4)
    assert_same(tmp_path / "whole", tmp_path / "halves")


@pytest.mark.parametrize("optimizer", [pytest.param("hf", marks=pytest.mark.slow), "adam"])
def test_drawn_batches_are_new_in_every_epoch_and_resume_to_the_same_bits(tmp_path, optimizer):
    drawn = []

    def batches(rng):
        found = draw(rng)
        drawn.append(found["x"])
        return hfrnn.Batch(*(each.swapaxes(0, 1) for each in found.values()))

    options = {"batches": batches, "optimizer": optimizer, "standardize": True, "updates": 6}
    options |= {} if optimizer == "hf" else {"streams": 8, "log_interval": 1}
    run(tmp_path, "whole", **options)
    assert len(drawn) >= 6
    assert all((one != other).any() for one, other in itertools.pairwise(drawn))
    run(tmp_path, "halves", **{**options, "updates": 3})
    train(resume=tmp_path / "halves", batches=draw, updates=6)  # a dict with the same sequences
    assert_same(tmp_path / "whole", tmp_path / "halves")


def test_drawn_batches_validate_on_what_is_given(tmp_path):
    valid = draw(np.random.default_rng(9))
    result = run(tmp_path, batches=draw, valid=valid)
    batch = hfrnn.Batch(*(each.swapaxes(0, 1) for each in valid.values()))
    assert result.summary["best"]["valid_loss"] == pytest.approx(result.net.loss(result.theta, batch), rel=1e-12)
    for other in ({}, {"valid": draw(np.random.default_rng(8))}):
        with pytest.raises(CheckpointError, match="since the run was started"):
            train(resume=result.folder, batches=draw, updates=9, **other)
    updates = result.summary["updates"] + 1
    assert train(resume=result.folder, batches=draw, valid=valid, updates=updates).summary["updates"] == updates


@pytest.mark.parametrize(("given", "words"), [
    ({"batches": 3}, "batches is 3: give a function"),
    ({"batches": lambda rng: None}, "batches is None: return a dict of arrays"),
    ({"batches": lambda rng: {"x": X}}, "batches has no array y"),
    ({"batches": lambda rng: {"x": X, "y": Y, "valid_x": X}}, "batches has valid_x"),
    ({"batches": lambda rng: hfrnn.Batch(X)}, "batches has no targets"),
    ({"batches": draw, "data": {"x": X}}, "both data and batches were given"),
    ({"data": (X, Y)}, "data is a tuple: give a dict with the arrays x and y, DataFrames, or the names of files"),
    ({"batches": draw, "valid": "valid.npz"}, "valid is 'valid.npz': with batches give a dict"),
    ({"batches": draw, "valid": {"x": X[:, :, :1], "y": Y}}, "validation has"),
    ({"batches": draw, "fractions": (0.5, 0.5, 0)}, "fractions= was given"),
    ({"data": {"x": X, "y": Y}, "stride": 3}, "stride= was given, and window= was not"),
    ({"data": {"x": X, "y": Y}, "optimizer": "online"}, "learns from a text"),
    ({"text": "a.csv"}, "a.csv is a table, not a text: give it as data=, with inputs= and targets="),
    ({"data": "arrays"}, "in the memory of a Python program"),
])  # fmt: skip
def test_wrong_data_in_python_are_refused(tmp_path, given, words):
    with pytest.raises(InputError, match=words):
        run(tmp_path, **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("second", "words"),
    [({"x": X[:4], "y": Y[:4]}, "return the same shapes at every call"),
     ({"x": np.full((12, 9), 5), "y": Y}, "batches returned the symbol 5, and 1 was the largest")],
)  # fmt: skip
def test_batches_of_another_kind_end_a_run(tmp_path, second, words):
    first = {"x": X, "y": Y} if second["x"].ndim == 3 else {"x": np.ones((12, 9), dtype=int), "y": Y}
    draws = iter([first, first, second])
    with pytest.raises(InputError, match=words):
        run(tmp_path, batches=lambda rng: next(draws))
    assert (tmp_path / "run" / "last.safetensors").exists()


# ---------------------------------------------------------------------- the command line
def test_the_screen_says_what_is_trained_on(tmp_path):
    flags = ["--arch", "rnn", "--hidden", "4", "--updates", "1", "--backend", "numpy", "--out", tmp_path / "run"]
    columns = ["--inputs", "u,v", "--targets", "y", "--window", "10"]
    found = call("train", "--data", csv(tmp_path), *columns, *flags).stdout
    assert "data      r.csv: 14 sequences of 10 steps to train on, 1 to validate" in found
    assert "scaling   inputs and targets in units of their deviation in the training part" in found
    assert "loss" in call("evaluate", tmp_path / "run").stdout


def test_the_files_of_arrays_are_inputs_that_no_command_writes_to(tmp_path):
    pair = [str(tmp_path / name) for name in ("x.npy", "y.npy")]
    for path, array in zip(pair, (X, Y), strict=True):
        Path(path).write_bytes(npy(array))
    table = {"data": str(csv(tmp_path)), **TABLE}
    for options, files in (({"data": pair[0], "targets": [pair[1]]}, pair), (table, [tmp_path / "r.csv"])):
        config = TrainConfig(**options).resolved()
        assert config.kind.files(config.values) == files


def test_values_that_are_large_or_far_from_0_and_not_scaled_are_noticed(tmp_path):
    def hints(**changes):
        config = TrainConfig(data=str(file(tmp_path, **changes)), arch="rnn").resolved()
        return [line for line in map(str, open_source(config).lines()) if "consider standardize=True" in line]

    near = {"x": X / 9, "y": X / 9}
    assert hints()
    assert not hints(**near)
    assert "a target is more than 2 deviations from 0" in hints(**{**near, "y": 20 + X / 9})[0]
    assert "an input is more than 2 deviations from 0" in hints(**{**near, "x": 20 + X / 9})[0]
    assert not hints(x=np.ones_like(X), y=(X < 1).astype(float))  # a constant input and logistic targets


def test_a_dry_run_plans_a_run_on_arrays(tmp_path):
    path = tmp_path / "g.npz"
    path.write_bytes(npz(good(mask=np.ones((6, 8, 1)))))
    flags = ["--arch", "rnn", "--hidden", "4", "--backend", "numpy", "--dry-run"]
    for optimizer in ("hf", "adam"):
        assert "MiB expected" in call("train", "--data", path, *flags, "--optimizer", optimizer).stdout
