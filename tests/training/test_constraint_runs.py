"""Runs with fixed connectivity and signs, and with bounds: every optimizer, files, resuming, and wrong options."""

import numpy as np
import pytest
from support.command_line import call
from support.method_runs import TRAINED, run
from support.run_states import assert_same
from support.slow import slow_unless
from support.tiny_runs import TEXT, metrics, snapshot, text_file

import hfrnn
from hfrnn.data.streams import TextStreams
from hfrnn.errors import CheckpointError, InputError
from hfrnn.files import write_atomic
from hfrnn.runs.checkpoint import checkpoint_bytes, load_checkpoint
from hfrnn.training.trainer import Callback, train

SPARSE = {"arch": "rnn", "hidden": 8, "activation": "relu", "density": 0.3}
DALE = {**SPARSE, "excitatory": 0.75, "excitatory_output": True}
HF = {"optimizer": "hf", "gradient_symbols": 300, "updates": 4}
STEPS = {"updates": 20, "log_interval": 5, "weight_decay": 1e-2}
OPTIMIZERS = {
    **{f"hf {each}": {**HF, "preconditioner": each} for each in ("none", "diagonal", "kronecker")},
    "hf line-search": {**HF, "damping": "line-search", "preconditioner": "none"},
    "sgd": {**STEPS, "momentum": 0.9, "nesterov": True, "max_norm": 0.5},
    **{each: {**STEPS, "optimizer": each} for each in ("adam", "soap", "muon")},
}


class Watch(Callback):
    """Keeps the parameters and weights at the start and after every record."""

    def on_start(self, trainer):
        self.trainer = trainer
        self.thetas, self.weights = [np.array(trainer.theta)], [np.array(trainer.weights)]

    def on_update(self, record):
        self.thetas.append(np.array(self.trainer.theta))
        self.weights.append(np.array(self.trainer.weights))


CASES = [*((name, DALE) for name in OPTIMIZERS), ("hf diagonal", SPARSE), ("sgd", SPARSE)]


@pytest.mark.parametrize(("name", "given"), slow_unless(lambda name, _: name in ("hf kronecker", "sgd", "muon"), CASES))
def test_every_optimizer_respects_constraints_in_every_update(tmp_path, name, given):
    watch = Watch()
    result = run(tmp_path, callbacks=(watch,), **{**OPTIMIZERS[name], **given})
    constraints = watch.trainer.method.constraints
    absent, signed = constraints.absent, constraints.signs != 0
    assert absent.sum() == 64 - round(0.3 * 64) + (2 * result.net.n_out if given is DALE else 0)
    assert signed.any() == (given is DALE)
    assert len(watch.thetas) >= 4
    for theta, weights in zip(watch.thetas, watch.weights, strict=True):
        assert not theta[absent].view("uint32").any()
        assert not weights[absent].view("uint32").any()
        assert constraints.allows(weights)
    moved = watch.weights[-1] != watch.weights[0]
    assert moved[~absent].mean() > 0.7
    for which in ("best", "last"):
        loaded = hfrnn.load(result.folder, which)
        assert constraints.allows(loaded.theta)
    np.testing.assert_array_equal(hfrnn.load(result.folder, "last").theta, watch.weights[-1])
    records = (result.folder / "metrics.jsonl").read_text().splitlines()
    assert len(records) == len(watch.thetas) - 1


def test_max_norm_bounds_the_weights_into_each_unit_and_not_their_variables(tmp_path):
    watch = Watch()
    run(tmp_path, callbacks=(watch,), optimizer="muon", updates=30, max_norm=0.3, **DALE)
    net, constraints = watch.trainer.net, watch.trainer.method.constraints
    theta = watch.thetas[-1]
    views = net.views(constraints.weights(theta))
    norms = np.sqrt((views["layer0.W_x"] ** 2).sum(0) + (views["layer0.W_h"] ** 2).sum(0))
    assert norms.max() <= 0.3 * (1 + 1e-5)
    assert (norms > 0.3 * (1 - 1e-5)).mean() > 0.5
    assert not theta[constraints.absent].any()


@pytest.mark.parametrize("name", ["hf kronecker", pytest.param("soap", marks=pytest.mark.slow)])
def test_a_resumed_run_gives_the_same_bits_without_the_file_of_its_connectivity(tmp_path, name):
    mask = np.random.default_rng(0).random((8, 8)) < 0.4
    file = tmp_path / "connectivity.npz"
    np.savez(file, **{"layer0.W_h": mask, "layer0.W_h.sign": np.repeat([1, -1], 4)})
    options = {**OPTIMIZERS[name], "arch": "rnn", "hidden": 8, "activation": "relu", "connectivity": file}
    updates = options.pop("updates")
    run(tmp_path, "whole", updates=updates, **options)
    run(tmp_path, "parts", updates=updates // 2, **options)
    file.unlink()
    train(resume=tmp_path / "parts", updates=updates)
    for which in ("last", "best"):
        (one, _), (other, _) = (
            load_checkpoint(tmp_path / each / f"{which}.safetensors") for each in ("whole", "parts")
        )
        assert one.keys() == other.keys() >= {"constraints"}
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


def test_no_bit_depends_on_the_number_of_threads(tmp_path):
    options = {**HF, **DALE, "gradient_symbols": 1200}
    for threads in (1, 3):
        run(tmp_path, f"run{threads}", threads=threads, **options)
    assert_same(tmp_path / "run1", tmp_path / "run3")


def test_a_connectivity_file_gives_masks_and_signs_by_name(tmp_path):
    mask, signs, file = np.eye(4, 8)[[0, 1, 2, 3] * 2], np.repeat([1, -1], 4), tmp_path / "c.npz"
    np.savez(file, **{"layer0.W_h": mask, "output.W_y0.sign": signs})
    watch = Watch()
    result = run(tmp_path, callbacks=(watch,), arch="rnn", hidden=8, updates=20, connectivity=file)
    views = result.net.views(hfrnn.load(result.folder).theta)
    np.testing.assert_array_equal(views["layer0.W_h"] != 0, mask != 0)
    assert (views["output.W_y0"] * signs[:, None] > 0).all()
    assert result.config.connectivity == str(file)


def test_a_run_starts_from_weights_that_fit_its_constraints_only(tmp_path):
    run(tmp_path, "first", updates=10, **DALE)
    watch = Watch()
    run(tmp_path, "second", (watch,), updates=10, init_from=tmp_path / "first", **DALE)
    np.testing.assert_allclose(watch.weights[0], hfrnn.load(tmp_path / "first").theta, rtol=1e-6)
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=r"init_from= is .*first, and its weights do not have the connect"):
        run(tmp_path, "third", updates=10, init_from=tmp_path / "first", **{**DALE, "seed": 1})
    assert snapshot(tmp_path) == before


def test_a_checkpoint_without_its_constraints_is_refused(tmp_path):
    folder = run(tmp_path, updates=10, **DALE).folder
    arrays, meta = load_checkpoint(folder / "last.safetensors")
    codes = arrays.pop("constraints")
    write_atomic(folder / "last.safetensors", checkpoint_bytes(arrays, meta))
    with pytest.raises(CheckpointError, match=r"lacks the constraints that config.toml asks for"):
        train(resume=folder, updates=20)
    for damaged in (codes[1:], codes + 3):
        write_atomic(folder / "last.safetensors", checkpoint_bytes({**arrays, "constraints": damaged}, meta))
        with pytest.raises(CheckpointError, match="holds damaged constraints"):
            train(resume=folder, updates=20)
    with pytest.raises(CheckpointError, match="holds damaged constraints"):
        hfrnn.load(folder, "last")


def test_averaged_weights_that_the_constraints_forbid_are_refused(tmp_path):
    folder = run(tmp_path, updates=10, **DALE).folder
    arrays, meta = load_checkpoint(folder / "best.safetensors")
    arrays["method.average"][arrays["constraints"] == -1] = 1.0
    write_atomic(folder / "best.safetensors", checkpoint_bytes(arrays, meta))
    with pytest.raises(CheckpointError, match="has weights that its constraints do not allow"):
        hfrnn.load(folder)


@pytest.mark.parametrize(("options", "message"), [
    ({"density": 0.5, "connectivity": "c.npz"}, "density= is 0.5, and connectivity= is c.npz: give one of them"),
    ({"connectivity": "wrong.npz"}, "connectivity= is .*wrong.npz: masks has an array for 'layer0.W_hh'"),
    ({"excitatory_output": True}, "excitatory_output=True was given, and excitatory= was not"),
    ({"excitatory": 0.5, "activation": "tanh"}, "Dale's law needs hidden units that are never negative"),
    ({"density": 0.0}, "density= is 0: give a number above 0, at most 1"),
    ({"density": 0.5, "optimizer": "online", "arch": "lstm-krause"}, "density= was given, and optimizer= is "),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    np.savez("wrong.npz", **{"layer0.W_hh": np.ones(1)})
    with pytest.raises(InputError, match=message):
        run(tmp_path, **{"arch": "rnn", "updates": 2, **options})
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------------- a maximum norm, and limited errors
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "soap", "muon"])
def test_a_maximum_norm_by_name_holds_after_the_steps_of_every_first_order_optimizer(tmp_path, optimizer):
    options = {"optimizer": optimizer, "arch": "hornn", "dtype": "float64", "average": 0.0}
    result = run(tmp_path, **options, max_norm={"layer0.W_h": 0.15, "output.*": 0.2}, updates=12, learning_rate=0.1)
    views = result.net.views(result.theta)
    for name, bound in (("layer0.W_h", 0.15), ("output.W_y0", 0.2)):
        norms = np.linalg.norm(views[name], axis=-2)
        assert norms.max() <= bound * (1 + 1e-12)
        assert (norms > bound * (1 - 1e-12)).mean() > 0.3
    assert np.linalg.norm(views["layer0.W_x"], axis=0).max() > 0.2


def test_maximum_norms_by_name_are_a_flag_a_list_in_toml_and_a_dict_in_python(tmp_path):
    text, (first, again, third) = text_file(tmp_path), (tmp_path / name for name in ("first", "again", "third"))
    options = {"optimizer": "sgd", "arch": "rnn", "hidden": 4, "sequence_length": 10, "updates": 5, "log_interval": 1}
    options |= {"backend": "numpy", "sample_length": 0}
    flags = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), value)]
    call("train", text, *flags, "--max-norm", "layer0.*=0.3,output.W_y0=0.25", "--out", first)
    assert 'max_norm = [\n    "layer0.*=0.3",\n    "output.W_y0=0.25",\n]' in (first / "config.toml").read_text()
    call("train", "--config", first / "config.toml", "--out", again)
    hfrnn.train(text=text, out=third, max_norm={"layer0.*": 0.3, "output.W_y0": 0.25}, **options)
    assert metrics(first) == metrics(again) == metrics(third)
    net, theta, _ = hfrnn.load(first, "last")
    norms = {name: np.linalg.norm(W, axis=0).max() for name, W in net.views(theta).items() if W.ndim > 1}
    assert norms["layer0.W_x"] <= 0.3 * (1 + 1e-5)
    assert norms["output.W_y0"] == pytest.approx(0.25, rel=1e-3)


def test_a_maximum_norm_of_a_name_that_the_network_lacks_is_refused_with_its_names(tmp_path):
    flags = ["--optimizer", "sgd", "--arch", "rnn", "--hidden", 4, "--backend", "numpy", "--max-norm", "layer0.W_hh=2"]
    found = call("train", text_file(tmp_path), *flags, "--out", tmp_path / "run", code=2).stderr
    assert "a norm bound is given for 'layer0.W_hh' (did you mean layer0.W_h?)" in found
    assert "use layer0.W_x, layer0.W_h, output.W_y0" in found


def test_an_update_has_the_gradient_with_limited_errors(tmp_path):
    options = {"clip_norm": 0.0, "momentum": 0.0, "learning_rate": 0.25, "average": 0.0}
    result = run(tmp_path, clip_error=0.01, dtype="float64", updates=1, **options)
    window = TextStreams(result.vocabulary.encode(TEXT[:TRAINED]), 4, 10, 10).window(0)
    objective, before = hfrnn.Objective(result.net, hfrnn.Batch(*window)), result.net.init(result.config.seed)
    limited, free = (objective.loss_and_gradient(before, clip_error=clip)[1] for clip in (0.01, None))
    np.testing.assert_allclose(result.theta, before - 0.25 * limited, rtol=0, atol=1e-14)
    assert np.linalg.norm(limited - free) > 1e-3 * np.linalg.norm(free)
