"""Losses by value, gradient and curvature: a user's own, and those of counts and of means with variances."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call, refused
from support.engine_cases import assert_same, everything, moved
from support.fake_device import FakeBackend, HostAsDevice
from support.imported import imported

import hfrnn
from hfrnn.gradcheck.cases import cases_of
from hfrnn.gradcheck.derivatives import TOLERANCES, check_case
from hfrnn.losses import LOSSES

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_loss.py"
RNN: dict[str, Any] = {"arch": "rnn", "hidden": 3, "updates": 2, "backend": "numpy", "threads": 1}


@pytest.fixture
def registered() -> Iterator[None]:
    """Forgets the losses that a test registers."""
    before = LOSSES.of_users()
    yield
    for name in set(LOSSES.of_users()) - set(before):
        LOSSES.forget(name)


def worst(loss: str) -> dict[str, float]:
    """The worst error of each check of the derivatives of a loss, divided by its tolerance."""
    found: dict[str, float] = {}
    for case in cases_of("rnn", 0):
        if case.net.loss_name == loss:
            for check, error, _ in check_case(case):
                found[check] = max(found.get(check, 0.0), error / TOLERANCES[check])
    return found


@pytest.mark.usefixtures("registered")
def test_gradcheck_covers_a_registered_loss_and_finds_a_wrong_curvature() -> None:
    huber = imported(EXAMPLE).Huber
    assert max(worst("huber").values()) <= 1

    class Wrong(huber):
        def curvature(self, xp: Any, z: Any, y: Any, Rz: Any) -> Any:
            return 1.01 * super().curvature(xp, z, y, Rz)

    class NotItsGradient(huber):
        def gradient(self, xp: Any, z: Any, y: Any) -> Any:
            return 1.01 * super().gradient(xp, z, y)

    hfrnn.register_loss("wrong-curvature", Wrong)
    hfrnn.register_loss("wrong-gradient", NotItsGradient)
    assert {check for check, error in worst("wrong-curvature").items() if error > 1} >= {"Gv", "hidden"}
    assert "gradient" in {check for check, error in worst("wrong-gradient").items() if error > 1}


@pytest.mark.usefixtures("registered")
def test_the_example_is_robust_and_its_options_are_those_of_a_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = imported(EXAMPLE)
    found = example.main(updates=12, out=str(tmp_path / "run"))
    assert found["huber"] < 0.7 * found["squared"]
    run = tmp_path / "run-huber"
    assert "delta = 0.5" in (run / "config.toml").read_text()
    net, theta, _ = hfrnn.load(run)
    assert net.head.loss.delta == 0.5
    hfrnn.save(net, theta, tmp_path / "net.safetensors")
    assert hfrnn.load(tmp_path / "net.safetensors").net.head.loss.delta == 0.5
    scored = json.loads(call("evaluate", run, "--json").stdout)
    assert scored["rmse"] == pytest.approx(found["huber"], rel=1e-4)
    assert "it is for huber" in refused(
        "train", "--data", "wild.npz", "--delta", "2", "--updates", "1", "--out", tmp_path / "bad"
    )
    assert "no loss named 'hubert'" in refused("train", "--data", "wild.npz", "--loss", "hubert")


def test_what_is_no_loss_is_refused() -> None:
    with pytest.raises(hfrnn.InputError, match=r"subclass of hfrnn\.Loss"):
        hfrnn.register_loss("softer", hfrnn.Kernel)  # type: ignore[arg-type]
    with pytest.raises(hfrnn.InputError, match="registered already"):
        hfrnn.register_loss("squared", type("Other", (hfrnn.Loss,), {}))


SOFT: dict[str, Any] = {"loss": "softmax", "label_smoothing": 0.2}


@pytest.mark.parametrize("options", [{"loss": "poisson"}, {"loss": "gaussian"}, SOFT])
def test_the_losses_run_on_a_device_with_the_same_bits(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    T, B, n = 5, 3, 4
    soft = options["loss"] == "softmax"
    targets = rng.dirichlet(np.ones(n), (T, B)) if soft else rng.poisson(2.0, (T, B, n)) * 1.0
    weights = rng.random((T, B)) if soft else rng.random((T, B, n))
    batch = hfrnn.Batch(rng.integers(3, size=(T, B)), targets, weights, np.array([5, 2, 4]))

    def net(backend: Any) -> hfrnn.Network:
        return hfrnn.Network("rnn", 3, 4, n, dtype="float64", backend=backend, output_bias=True, **options)

    host = net("numpy")
    theta, v = (0.5 * rng.standard_normal(host.n_parameters) for _ in range(2))
    u = rng.standard_normal(T * B * host.head.n_outputs)
    fake = FakeBackend()
    expected = everything(net(HostAsDevice()), batch, theta, v, u)
    assert_same(everything(net(fake), moved(batch, fake), theta, v, u), expected)


def test_a_run_on_counts_predicts_rates_and_refuses_negative_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 12, 1))
    np.savez(tmp_path / "a.npz", x=x, y=rng.poisson(np.exp(x + 1)) * 1.0)
    run = hfrnn.train(data=str(tmp_path / "a.npz"), loss="poisson", out=tmp_path / "run", **RNN).folder
    net, theta, _ = hfrnn.load(run)
    batch = hfrnn.Batch(x.swapaxes(0, 1))
    rates = hfrnn.predict(net, theta, batch).outputs
    np.testing.assert_allclose(rates, np.exp(net.run(theta, batch)[0]), rtol=1e-6)
    np.savez(tmp_path / "b.npz", x=x, y=x)
    with pytest.raises(hfrnn.InputError, match=r"loss= is poisson, and targets of .* hold a number below 0"):
        hfrnn.train(data=str(tmp_path / "b.npz"), loss="poisson", out=tmp_path / "bad", **RNN)


def test_deviations_are_in_the_units_of_the_data_and_predict_writes_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 12, 1))
    np.savez(tmp_path / "a.npz", x=x, y=500 + 40 * (x + 0.5 * rng.standard_normal(x.shape)))
    options = {**RNN, "updates": 12, "loss": "gaussian", "standardize": True}
    run = hfrnn.train(data=str(tmp_path / "a.npz"), out=tmp_path / "run", **options).folder
    call("predict", run, tmp_path / "a.npz", "-o", tmp_path / "p.npz")
    found = np.load(tmp_path / "p.npz")
    assert found["y_deviation"].shape == found["y"].shape == (20, 12, 1)
    assert 0.7 < found["y_deviation"].mean() / 20 < 1.5
    off = (np.load(tmp_path / "a.npz")["y"] - found["y"]) / found["y_deviation"]
    assert 0.7 < off.std() < 1.4
    net, theta, _ = hfrnn.load(run)
    scaling = hfrnn.load_scaling(run)
    z = net.run(theta, hfrnn.Batch(scaling.scale_inputs(x.swapaxes(0, 1))))[0]
    np.testing.assert_allclose(
        found["y_deviation"].swapaxes(0, 1), np.exp(z[..., 1:] / 2) * scaling.target_deviation, rtol=1e-5
    )
    figures = json.loads(call("evaluate", run, "--json").stdout)
    assert figures["baseline"]["model"]
    assert figures["rmse"] < 60


def test_probabilities_are_targets_of_the_softmax_and_smoothing_is_for_training_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 6, 2)), rng.dirichlet(np.ones(3), (20, 6))
    np.savez(tmp_path / "a.npz", x=x, y=y)
    options = {**RNN, "loss": "softmax", "label_smoothing": 0.4, "fractions": (0.5, 0.5, 0)}
    run = hfrnn.train(data=str(tmp_path / "a.npz"), out=tmp_path / "run", **options).folder
    net, theta, _ = hfrnn.load(run)
    z = net.run(theta, hfrnn.Batch(x[10:].swapaxes(0, 1)))[0]
    p = np.exp(z) / np.exp(z).sum(axis=2, keepdims=True)
    entropy = -(y[10:].swapaxes(0, 1) * np.log(p)).sum(axis=2).mean()
    found = json.loads(call("evaluate", run, "--json").stdout)
    assert found["loss"] == pytest.approx(entropy, rel=1e-5)
    assert found["cross_entropy"] == pytest.approx(entropy, rel=1e-5)
    assert found["accuracy"] == pytest.approx((p.argmax(2) == y[10:].swapaxes(0, 1).argmax(2)).mean())
    np.savez(tmp_path / "b.npz", x=x, y=2 * y)
    with pytest.raises(hfrnn.InputError, match="are no probabilities"):
        hfrnn.train(data=str(tmp_path / "b.npz"), loss="softmax", out=tmp_path / "bad", **RNN)
