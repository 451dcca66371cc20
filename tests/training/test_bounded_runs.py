"""Runs with a maximum norm or limited errors: first-order optimizers, the forms of the options, who refuses them."""

import numpy as np
import pytest
from support.command_line import call
from support.method_runs import TRAINED, run
from support.tiny_runs import TEXT, metrics, text_file

import hfrnn
from hfrnn.data.streams import TextStreams


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
    options["backend"] = "numpy"
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
