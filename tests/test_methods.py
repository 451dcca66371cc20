"""SGD, Adam and the online rule in a training run: truncated backpropagation, exact resume, schedules, limits.

What a run that was ended by a limit and then resumed shares with one that was never ended is all that training depends
on: every array and counter of `last.safetensors`. Its log has a line where the limit was, with a validation of its own;
the lines are the same up to that validation where the limit falls on a line of the unbroken run.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_music import pieces_of, stored
from test_training import At, assert_same, state
from tiny_runs import TEXT, metrics, text_file

import hfrnn
from hfrnn.batch import Batch
from hfrnn.checkpoint import load_checkpoint
from hfrnn.config import TrainConfig
from hfrnn.data.streams import TextStreams, training_sequences
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.methods.first_order import StreamBatches
from hfrnn.model import Network
from hfrnn.objective import Objective
from hfrnn.training import Callback, Interrupted, Trainer, TrainingResult, train

TRAINED = round(0.9 * len(TEXT))  # characters of TEXT to train on
SMALL: dict[str, Any] = {
    "optimizer": "sgd", "arch": "lstm", "hidden": 4, "sequence_length": 10, "streams": 4, "log_interval": 10,
    "sample_length": 0,
}  # fmt: skip
WINDOWS = (TRAINED - 1) // 4 // 10  # updates of an epoch of these
ONLINE = {"optimizer": "online", "arch": "lstm-krause", "streams": 8}
TASK = {"data": "addition", "length": 21, "sequences": 40, "streams": 6, "arch": "rnn"}
MUSIC = {"data": "jsb", "streams": 3}


def run(folder: Path, name: str = "run", callbacks: tuple[Any, ...] = (), **options: Any) -> TrainingResult:
    """A run in `folder/name`, on TEXT unless other data are given."""
    options = {**SMALL, **options}
    if "data" not in options:
        options.setdefault("text", folder / "text.txt")
        if not options["text"].exists():
            text_file(folder)
    return train(out=folder / name, callbacks=callbacks, **options)


@pytest.fixture(autouse=True)
def _music(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few short pieces under the name of the chorales."""
    pieces = pieces_of(9, 4, 7, 9, 5, 8, 6)
    packed = np.packbits(np.concatenate(pieces).astype(np.uint8), axis=1)
    (tmp_path / "jsb").mkdir()
    lengths = np.array([len(piece) for piece in pieces])
    (tmp_path / "jsb" / "jsb.npz").write_bytes(stored(train_packed=packed, train_lengths=lengths))
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))


def dense(arch: str, vocabulary: int = 6, **options: Any) -> tuple[Network, Any]:
    """A network in float64 and parameters."""
    net = Network(arch, vocabulary, options.pop("hidden", 4), vocabulary, dtype="float64", **options)
    return net, net.init(seed=1, scale=0.5)


def pieces(symbols: np.ndarray[Any, Any], streams: int) -> tuple[Any, Any]:
    """The whole streams side by side."""
    return training_sequences(symbols, (len(symbols) - 1) // streams)


# ---------------------------------------------------------------------- truncated backpropagation


SYMBOLS = np.random.default_rng(0).integers(0, 6, 3 * 24 + 1)  # three streams of 24 steps
ARCHITECTURES = pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("lstm", {}),
        ("mlstm", {"hidden": (4, 3)}),
        ("clockwork", {}),
        ("hornn", {"order": 5}),
        ("scrn", {"context": 3}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)


def stream_batches(net: Network, back: int, every: int) -> StreamBatches:
    config = TrainConfig(streams=3, sequence_length=back, update_every=every)
    return StreamBatches(config, net, SYMBOLS)


def visit(net: Network, theta: Any, batches: StreamBatches) -> tuple[Batch, Objective, float, Any]:
    """The next window at theta: its batch and objective, loss and gradient."""
    batch = batches.next()
    objective = Objective(net, batch, threads=1)
    loss, gradient = objective.loss_and_gradient(theta)
    batches.done(objective)
    return batch, objective, loss, gradient


@ARCHITECTURES
def test_a_window_of_the_whole_streams_has_their_whole_gradient(arch: str, options: dict[str, Any]) -> None:
    net, theta = dense(arch, **options)
    _, _, loss, gradient = visit(net, theta, stream_batches(net, 24, 24))
    whole = Objective(net, Batch(*pieces(SYMBOLS, 3)), threads=1).loss_and_gradient(theta)
    assert loss == whole[0]
    np.testing.assert_array_equal(gradient, whole[1])


@ARCHITECTURES
def test_gradients_sent_back_to_the_beginning_add_up_to_the_whole(arch: str, options: dict[str, Any]) -> None:
    net, theta = dense(arch, **options)
    batches = stream_batches(net, 24, 4)
    found = [visit(net, theta, batches) for _ in range(6)]
    whole = Objective(net, Batch(*pieces(SYMBOLS, 3)), threads=1).loss_and_gradient(theta)
    assert np.mean([loss for _, _, loss, _ in found]) == pytest.approx(whole[0], rel=1e-13)
    np.testing.assert_allclose(np.mean([gradient for *_, gradient in found], axis=0), whole[1], rtol=0, atol=1e-14)


@ARCHITECTURES
@pytest.mark.parametrize(("back", "every"), [(6, 6), (6, 2), (4, 4), (3, 1), (8, 4)])
def test_windows_without_updates_carry_the_states_of_one_long_run(
    arch: str, options: dict[str, Any], back: int, every: int
) -> None:
    net, theta = dense(arch, **options)
    inputs, _ = pieces(SYMBOLS, 3)

    def after(steps: int) -> Any:
        return net.run(theta, Batch(inputs[:steps]))[1] if steps else net.zero_state(3)

    batches = stream_batches(net, back, every)
    for position in range(0, 24, every):
        batch, objective, _, _ = visit(net, theta, batches)
        start, stop = max(position + every - back, 0), position + every
        np.testing.assert_array_equal(batch.inputs, inputs[start:stop])
        for at, found in ((start, batch.initial_state), (stop, objective.final_state())):
            for layer, expected in zip(found, after(at), strict=True):
                assert layer.keys() == expected.keys()
                for key, value in expected.items():
                    np.testing.assert_allclose(layer[key], value, rtol=0, atol=1e-14, err_msg=f"{key} at step {at}")
    assert (batches.epoch, batches.position, batches.fraction) == (1, 0, 0.0)
    assert all(not np.any(value) for layer in batches.next().initial_state for value in layer.values())


def test_states_that_are_carried_make_an_epoch_s_loss_that_of_the_whole_streams(tmp_path: Path) -> None:
    """Through the method itself, at a rate that changes nothing."""
    result = run(tmp_path, learning_rate=1e-300, momentum=0.0, epochs=1, dtype="float64", sequence_length=8,
                 update_every=2, log_interval=10**6)  # fmt: skip
    symbols = result.vocabulary.encode(TEXT[:TRAINED])
    length = (TRAINED - 1) // 4 // 2 * 2
    streams = TextStreams(symbols, 4, 2, 2)
    loss = result.net.loss(result.theta, Batch(*streams.steps(0, length)))
    (line,) = metrics(result.folder)
    assert line["train_loss"] == pytest.approx(loss, rel=1e-12)
    assert (line["symbols"], line["update"]) == (4 * length, length // 2)


def test_an_update_scores_its_last_steps_alone_and_counts_them(tmp_path: Path) -> None:
    lines = metrics(run(tmp_path, sequence_length=10, update_every=5, updates=20).folder)
    assert [line["symbols"] for line in lines] == [4 * 5 * 10, 4 * 5 * 20]
    assert lines[-1]["epoch"] == pytest.approx(20 * 5 / ((TRAINED - 1) // 4), abs=1e-4)


# ---------------------------------------------------------------------- one update


def first_step(folder: Path, **options: Any) -> tuple[Any, Any, Any, Network]:
    """Parameters before and after an update in float64, the gradient of its window, and the network."""
    result = run(folder, updates=1, dtype="float64", **options)
    net = result.net
    theta = net.init(result.config.seed)
    symbols = result.vocabulary.encode(TEXT[:TRAINED])
    inputs, targets, weights = TextStreams(symbols, 4, 10, 10).window(0)
    _, gradient = Objective(net, Batch(inputs, targets, weights)).loss_and_gradient(theta)
    return theta, load_checkpoint(result.folder / "last.safetensors")[0]["theta"], gradient, net


STEPS: dict[str, tuple[dict[str, Any], Any]] = {
    # an update's options, and the change of theta that they ask for
    "plain": ({"clip_norm": 0.0, "momentum": 0.0, "learning_rate": 0.25}, lambda theta, g: -0.25 * g),
    "first momentum": ({"clip_norm": 0.0, "learning_rate": 0.25}, lambda theta, g: -0.25 * g),
    "nesterov": ({"clip_norm": 0.0, "momentum": 0.5, "nesterov": True}, lambda theta, g: -0.5 * 1.5 * g),
    "decay": (
        {"clip_norm": 0.0, "weight_decay": 0.125, "learning_rate": 0.5},
        lambda theta, g: -0.5 * g - 0.5 * 0.125 * theta,
    ),
    "norm": ({"clip_norm": 1e-3}, lambda theta, g: -0.5 * g * 1e-3 / np.linalg.norm(g)),
    "long enough": ({"clip_norm": 1e3}, lambda theta, g: -0.5 * g),
    "values": ({"clip_norm": 0.0, "clip_value": 1e-3}, lambda theta, g: -0.5 * g.clip(-1e-3, 1e-3)),
    "adam": ({"optimizer": "adam", "clip_norm": 0.0}, lambda theta, g: -0.002 * g / (np.abs(g) + 1e-8)),
    "adam decay": (
        {"optimizer": "adam", "clip_norm": 0.0, "weight_decay": 0.5, "learning_rate": 0.01},
        lambda theta, g: -0.01 * g / (np.abs(g) + 1e-8) - 0.01 * 0.5 * theta,
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_an_update_is_what_its_options_say(tmp_path: Path, name: str) -> None:
    options, change = STEPS[name]
    before, after, gradient, _ = first_step(tmp_path, **options)
    np.testing.assert_allclose(after, before + change(before, gradient), rtol=0, atol=1e-14)
    assert np.abs(gradient).max() > 0.01


def test_momentum_makes_a_part_of_the_last_step_again(tmp_path: Path) -> None:
    thetas = [
        load_checkpoint(run(tmp_path, f"{m}-{n}", momentum=m, clip_norm=0.0, dtype="float64", updates=n).folder
                        / "last.safetensors")[0]["theta"]
        for m, n in ((0.0, 1), (0.75, 1), (0.75, 2))
    ]  # fmt: skip
    np.testing.assert_array_equal(thetas[0], thetas[1])
    start = hfrnn.load(tmp_path / "0.0-1").net.init(0)
    symbols = hfrnn.load(tmp_path / "0.0-1").vocabulary.encode(TEXT[:TRAINED])
    batches = StreamBatches(TrainConfig(streams=4, sequence_length=10), hfrnn.load(tmp_path / "0.0-1").net, symbols)
    net = hfrnn.load(tmp_path / "0.0-1").net
    visit(net, start, batches)  # the second window begins with the state that the first one left
    _, _, _, gradient = visit(net, thetas[1], batches)
    np.testing.assert_allclose(thetas[2], thetas[1] + 0.75 * (thetas[1] - start) - 0.5 * gradient, rtol=0, atol=1e-14)


def test_max_norm_holds_the_incoming_weights_of_every_unit(tmp_path: Path) -> None:
    _, free, _, net = first_step(tmp_path, learning_rate=3.0)
    views = net.views(free.copy())
    incoming = np.linalg.norm(np.concatenate([views["layer0.W_x"], views["layer0.W_h"]]), axis=0)
    bound = float(np.median(incoming))
    held = net.views(load_checkpoint(run(tmp_path, "held", learning_rate=3.0, max_norm=bound, updates=1,
                                         dtype="float64").folder / "last.safetensors")[0]["theta"])  # fmt: skip
    scale = np.minimum(1.0, bound / incoming)
    assert 0 < (scale < 1).sum() < scale.size
    for name in ("layer0.W_x", "layer0.W_h"):
        np.testing.assert_allclose(held[name], views[name] * scale, rtol=1e-12)
    assert np.linalg.norm(held["output.W_y0"], axis=0).max() <= bound * (1 + 1e-12)
    for name in (name for name in views if name.rsplit(".", 1)[1].startswith("b")):
        np.testing.assert_array_equal(held[name], views[name])


def test_the_log_says_how_long_gradients_were_and_how_many_were_clipped(tmp_path: Path) -> None:
    single = metrics(run(tmp_path, "single", clip_norm=1e6, updates=10, learning_rate=0.25, log_interval=1).folder)
    norms = [line["gradient_norm"] for line in single]
    assert {line["clipped"] for line in single} == {0}
    bound = sorted(norms)[7] * (1 - 1e-9)  # of ten, three are longer; the steps until the first of them are the same
    (line,) = metrics(run(tmp_path, "one line", clip_norm=bound, updates=10, learning_rate=0.25).folder)
    assert line["learning_rate"] == 0.25
    assert line["gradient_norm"] == pytest.approx(np.mean(norms), rel=0.1)
    assert 0 < line["clipped"] < 1
    assert line["clipped"] == pytest.approx(0.3, abs=0.21)


@pytest.mark.parametrize(
    "options", [{"optimizer": "adam"}, {"momentum": 0.5}, {**ONLINE}, {**TASK}, {**MUSIC}], ids=str
)
def test_every_line_has_the_keys_of_the_contract_and_of_its_method(tmp_path: Path, options: dict[str, Any]) -> None:
    lines = metrics(run(tmp_path, **options, updates=20).folder, timed=True)
    null = {"cg_iterations", "cg_stop", "mu", "lambda", "rho", "step_size"}
    for line in lines:
        assert {line[key] for key in null} == {None}
        assert {"seconds", "train_loss", "train_bits", "valid_bits", "valid_perplexity", "symbols"} <= set(line)
        assert {"epoch", "learning_rate", "gradient_norm", "clipped", "valid_errors"} <= set(line)
        assert (line["train_bits"] is None) == ("data" in options)


# ---------------------------------------------------------------------- exact resume


RESUMED: dict[str, tuple[dict[str, Any], int, int]] = {
    # a run's options, and the updates after which it is ended, first and at last
    "sgd": ({}, 30, 90),
    "sgd, every step of it": (
        {
            "momentum": 0.75, "nesterov": True, "weight_decay": 1e-3, "clip_norm": 0.5, "clip_value": 0.1,
            "max_norm": 1.0, "sequence_length": 9, "update_every": 3, "schedule": "halve", "learning_rate": 8.0,
            "streams": 20,
        },
        80,
        300,
    ),
    "sgd with fewer rates": ({"schedule": "text8", "streams": 20, "arch": "hornn"}, 50, 90),
    "adam": ({"optimizer": "adam", "arch": "clockwork", "weight_decay": 1e-3, "sequence_length": 7}, 100, 170),
    "adam, early in the first epoch": (
        {"optimizer": "adam", "arch": "scrn", "context": 3, "sequence_length": 12, "update_every": 2},
        10,
        30,
    ),
    "states alone": ({"arch": "mlstm", "hidden": (3, 2), "checkpoint": "3"}, 20, 40),
    "online": ({**ONLINE, "momentum": 0.5, "learning_rate": 0.05}, 100, 530),
    "online with fewer rates": ({**ONLINE, "streams": 100, "schedule": "text8"}, 50, 130),
    "a task": (TASK, 10, 30),
    "a task with adam": ({**TASK, "optimizer": "adam"}, 6, 18),
    "a task with hf": ({**TASK, "optimizer": "hf", "gradient_symbols": 300}, 3, 7),
    "music": (MUSIC, 4, 8),
    "validation": ({"validate_every": 20, "patience": 5, "learning_rate": 3.0}, 30, 90),
}  # fmt: skip


def training_state(folder: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """All of a checkpoint that training depends on."""
    arrays, meta = state(folder)
    return arrays, {key: value for key, value in meta.items() if key not in ("best", "last", "seconds")}


def unvalidated(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if not key.startswith("valid")}


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_equals_one_that_never_stopped(tmp_path: Path, name: str) -> None:
    options, first, total = RESUMED[name]
    whole = run(tmp_path, "whole", **options, updates=total).folder
    parts = run(tmp_path, "parts", **options, updates=first).folder
    assert load_checkpoint(parts / "last.safetensors")[1]["update"] == first
    train(resume=parts, updates=total)
    assert training_state(whole) == training_state(parts)
    one, other = metrics(whole), metrics(parts)
    if first in [line["update"] for line in one]:
        assert [unvalidated(line) for line in one] == [unvalidated(line) for line in other]
        assert [line for line in one if line["update"] != first] == [line for line in other if line["update"] != first]


def test_the_cases_of_resuming_are_what_they_are_called(tmp_path: Path) -> None:
    rates = {
        name: [line["learning_rate"] for line in metrics(run(tmp_path, name, **options, updates=total).folder)]
        for name, (options, _, total) in RESUMED.items()
        if options.get("schedule")
    }
    assert all(max(found) > min(found) for found in rates.values()), rates
    epochs = {
        name: metrics(run(tmp_path, f"{name} again", **RESUMED[name][0], updates=RESUMED[name][1]).folder)[-1]["epoch"]
        for name in ("sgd", "adam", "online", "a task")
    }
    assert all(epoch % 1 for epoch in epochs.values()), epochs


def test_a_run_that_is_ended_again_and_again_has_the_same_updates(tmp_path: Path) -> None:
    """Also where no line of the unbroken run ends."""
    whole = run(tmp_path, "whole", updates=120, arch="hornn").folder
    parts = run(tmp_path, "parts", updates=3, arch="hornn").folder
    for updates in (4, 37, 53, 111, 120):
        train(resume=parts, updates=updates)
    assert training_state(whole) == training_state(parts)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, 3),
        ({"optimizer": "adam", "arch": "clockwork", "sequence_length": 12, "update_every": 4}, 2),
        ({**TASK, "optimizer": "adam", "log_interval": 4}, 3),
        ({**MUSIC, "log_interval": 4}, 3),
        ({**ONLINE, "log_interval": 200}, 2),
        ({}, 1),
    ],
    ids=["sgd", "adam", "task", "music", "online", "first line"],
)
def test_a_run_interrupted_within_a_line_goes_on_as_if_it_had_not_been(
    tmp_path: Path, options: dict[str, Any], wanted: int
) -> None:
    steps = 1 if options.get("optimizer") != "online" else 50
    updates = 80 if "log_interval" not in options else 4 * options["log_interval"]
    whole = run(tmp_path, "whole", **options, updates=updates)
    watch = At(wanted, lambda: os.kill(os.getpid(), signal.SIGTERM), iteration=steps)
    done = 0 if wanted == 1 else metrics(whole.folder)[wanted - 2]["update"]
    with pytest.raises(Interrupted, match=f"after update {done}, which is saved: go on with .*--resume"):
        run(tmp_path, **options, updates=updates, callbacks=(watch,))
    assert watch.iterations > 0
    assert watch.noted == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["stopped"], summary["updates"]) == ("interruption", done)
    train(resume=tmp_path / "run")
    assert_same(whole.folder, tmp_path / "run")


# ---------------------------------------------------------------------- the same bits


METHODS = pytest.mark.parametrize(
    "options",
    [{"streams": 20}, {"streams": 20, "optimizer": "adam"}, {**TASK, "streams": 20}, {**MUSIC}, {**ONLINE}],
    ids=["sgd", "adam", "task", "music", "online"],
)


@METHODS
def test_the_same_seed_gives_the_same_bits_with_one_thread_and_two(tmp_path: Path, options: dict[str, Any]) -> None:
    one, two, again = (
        run(tmp_path, f"{n}", **options, updates=20, hidden=9, threads=t).folder for n, t in enumerate((1, 2, 2))
    )
    assert_same(one, two)
    assert_same(two, again)
    plans = load_checkpoint(one / "last.safetensors")[1]["plans"]
    assert len(plans) == (options.get("optimizer") != "online")
    if "streams" in options and "optimizer" not in options and "data" not in options:
        assert len(plans["gradient"]["shards"]) > 2  # there is something to share out


@METHODS
def test_another_seed_gives_other_weights(tmp_path: Path, options: dict[str, Any]) -> None:
    thetas = [run(tmp_path, f"seed{seed}", **options, seed=seed, updates=2).theta for seed in (0, 1)]
    assert not np.array_equal(*thetas)


# ---------------------------------------------------------------------- training works


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({"hidden": 12, "updates": 400}, 0.6),
        ({"hidden": 12, "updates": 400, "momentum": 0.5, "nesterov": True, "update_every": 5}, 0.8),
        ({"hidden": 12, "updates": 400, "optimizer": "adam", "learning_rate": 0.01}, 0.6),
        ({**ONLINE, "hidden": 8, "updates": 1000}, 0.95),
        ({**TASK, "updates": 300, "streams": 20, "optimizer": "adam"}, 0.8),
        ({**MUSIC, "updates": 60, "streams": 3, "optimizer": "adam", "learning_rate": 0.02}, 0.7),
        ({**TASK, "updates": 6, "optimizer": "hf", "gradient_symbols": 0}, 0.8),
    ],
    ids=["sgd", "nesterov", "adam", "online", "task", "music", "hf"],
)
def test_training_lowers_the_loss(tmp_path: Path, options: dict[str, Any], share: float) -> None:
    lines = metrics(run(tmp_path, **options).folder)
    assert lines[-1]["train_loss"] < share * lines[0].get("loss_before", lines[0]["train_loss"])
    result = RunLoss(tmp_path)
    assert result.last < 0.97 * result.first


class RunLoss:
    """The validation loss of a run's first and last parameters."""

    def __init__(self, folder: Path) -> None:
        trainer = Trainer.resumed(folder / "run", {})
        assert trainer.validation is not None
        self.last = trainer.validation.loss(trainer.theta)
        self.first = trainer.validation.loss(trainer.net.init(trainer.config.seed))


# ---------------------------------------------------------------------- epochs, schedules, patience


class Losses(Callback):
    """Puts losses in the place of those that validation finds, the last one again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *losses: float) -> None:
        self.losses, self.count, self.monkeypatch = losses, 0, monkeypatch

    def on_start(self, trainer: Trainer) -> None:
        self.monkeypatch.setattr(trainer.validation, "loss", self.loss)

    def loss(self, theta: Any) -> float:
        self.count += 1
        return self.losses[min(self.count, len(self.losses)) - 1]


EPOCH: dict[str, Any] = {"streams": 50, "log_interval": 1000}  # an epoch of four windows is a line


@pytest.mark.parametrize("online", [False, True], ids=["sgd", "online"])
def test_halving_halves_where_validation_does_not_fall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, online: bool
) -> None:
    options = {**EPOCH, "learning_rate": 0.5, "epochs": 7, "schedule": "halve"}
    watch = Losses(monkeypatch, 3.0, 2.0, 2.5, 1.0, float("nan"), 0.5, 0.5)
    lines = metrics(run(tmp_path, callbacks=(watch,), **({**ONLINE, **options} if online else options)).folder)
    assert [line["learning_rate"] for line in lines] == [0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]


def test_dividing_divides_by_one_and_a_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Losses(monkeypatch, 3.0, 4.0, 5.0)
    lines = metrics(run(tmp_path, callbacks=(watch,), **EPOCH, epochs=4, schedule="divide").folder)
    assert [line["learning_rate"] for line in lines] == pytest.approx([0.5, 0.5, 1 / 3, 2 / 9])


def test_the_schedule_of_text8_halves_after_five_epochs_whatever_validation_says(tmp_path: Path) -> None:
    lines = metrics(run(tmp_path, **EPOCH, epochs=8, schedule="text8", fractions=(1, 0, 0)).folder)
    assert [line["learning_rate"] for line in lines] == [0.5] * 5 + [0.25, 0.125, 0.0625]


@pytest.mark.parametrize("online", [False, True], ids=["sgd", "online"])
def test_a_schedule_that_is_used_up_ends_the_run_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, online: bool
) -> None:
    options = {**EPOCH, "schedule": "halve", "minutes": 5.0}
    result = run(tmp_path, callbacks=(Losses(monkeypatch, 1.0),), **({**ONLINE, **options} if online else options))
    lines = metrics(result.folder)
    assert result.summary["stopped"] == "learning rate"
    assert len(lines) == 1 + 13
    assert lines[-1]["learning_rate"] == lines[0]["learning_rate"] / 2**12
    before = training_state(result.folder)
    again = train(resume=result.folder, updates=10**6)
    assert (again.summary["stopped"], again.summary["updates"]) == ("learning rate", lines[-1]["update"])
    assert training_state(result.folder) == before
    assert "used up" in Trainer.resumed(result.folder, {}).method.lines()[0]


def test_validation_within_an_epoch_moves_no_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Losses(monkeypatch, 3.0, 4.0, 5.0, 6.0, 7.0, 1.0)  # the last is that of the epoch
    lines = metrics(run(tmp_path, callbacks=(watch,), schedule="halve", validate_every=10, epochs=2).folder)
    assert {line["learning_rate"] for line in lines} == {0.5}


@pytest.mark.parametrize(
    ("options", "updates"),
    [
        ({}, WINDOWS),
        ({"sequence_length": 10, "update_every": 5}, (TRAINED - 1) // 4 // 5),
        ({**ONLINE, "streams": 40}, (TRAINED - 1) // 40),
        ({**TASK}, 40 // 6),
        ({**MUSIC}, 7 // 3),
        ({"optimizer": "hf", "gradient_symbols": 500}, ((TRAINED - 1) // 10) // 50),
        ({"optimizer": "hf", "gradient_symbols": 0}, 1),
        ({**TASK, "optimizer": "hf", "gradient_symbols": 500}, 40 // 22),
    ],
    ids=["sgd", "windows", "online", "task", "music", "hf", "hf, all", "hf, task"],
)
def test_epochs_end_a_run_after_so_many_passes(tmp_path: Path, options: dict[str, Any], updates: int) -> None:
    result = run(tmp_path, **options, epochs=2)
    assert (result.summary["stopped"], result.summary["updates"]) == ("epochs", 2 * updates)
    again = train(resume=result.folder)
    assert (again.summary["stopped"], again.summary["updates"]) == ("epochs", 2 * updates)
    more = train(resume=result.folder, epochs=3)
    assert (more.summary["stopped"], more.summary["updates"]) == ("epochs", 3 * updates)
    assert training_state(more.folder)[0] == training_state(run(tmp_path, "whole", **options, epochs=3).folder)[0]


def test_a_new_limit_replaces_that_of_epochs(tmp_path: Path) -> None:
    folder = run(tmp_path, epochs=1).folder
    assert train(resume=folder, updates=WINDOWS + 7).summary["updates"] == WINDOWS + 7


@pytest.mark.parametrize("options", [{"validate_every": 10}, {"optimizer": "hf", "gradient_symbols": 300}], ids=str)
def test_patience_ends_a_run_and_more_of_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    watch = Losses(monkeypatch, 3.0, 2.0, 2.5, float("nan"), 1.0)
    result = run(tmp_path, callbacks=(watch,), **options, patience=2, minutes=5.0)
    assert (result.summary["stopped"], len(metrics(result.folder))) == ("patience", 4)
    assert train(resume=result.folder).summary["stopped"] == "patience"
    assert len(metrics(result.folder)) == 4
    result = train(resume=result.folder, patience=3, callbacks=(watch,))
    assert (result.summary["stopped"], len(metrics(result.folder))) == ("patience", 8)  # 1.0 four times


def test_patience_without_a_validation_ends_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, fractions=(1, 0, 0), patience=1, epochs=3).summary["stopped"] == "epochs"


# ---------------------------------------------------------------------- lines and validation


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "adam"}, {**ONLINE, "streams": 40}], ids=["sgd", "adam", "online"]
)
def test_a_line_is_so_many_updates_and_ends_with_an_epoch_or_the_run(tmp_path: Path, options: dict[str, Any]) -> None:
    lines = metrics(run(tmp_path, **options, updates=WINDOWS + 23).folder)
    tens = [*range(10, WINDOWS, 10), WINDOWS, WINDOWS + 10, WINDOWS + 20, WINDOWS + 23]
    assert (TRAINED - 1) // 40 == WINDOWS
    assert [line["update"] for line in lines] == tens
    assert [line["epoch"] == 1 for line in lines].index(True) == tens.index(WINDOWS)


@pytest.mark.parametrize("options", [{}, {**ONLINE, "streams": 40}], ids=["sgd", "online"])
def test_validation_is_that_of_every_epoch_and_of_the_end(tmp_path: Path, options: dict[str, Any]) -> None:
    lines = metrics(run(tmp_path, **options, updates=2 * WINDOWS + 13).folder)
    validated = [line["update"] for line in lines if line["valid_loss"] is not None]
    assert validated == [WINDOWS, 2 * WINDOWS, 2 * WINDOWS + 13]


@pytest.mark.parametrize("options", [{}, {**ONLINE, "streams": 40}], ids=["sgd", "online"])
def test_validate_every_counts_updates_since_the_last_validation(tmp_path: Path, options: dict[str, Any]) -> None:
    lines = metrics(run(tmp_path, **options, validate_every=15, updates=WINDOWS + 30).folder)
    validated = [line["update"] for line in lines if line["valid_loss"] is not None]
    assert validated == [20, 40, WINDOWS, WINDOWS + 20, WINDOWS + 30]
    assert all(line["valid_bits"] == pytest.approx(line["valid_loss"] / np.log(2)) for line in lines
               if line["valid_loss"] is not None)  # fmt: skip


def test_train_loss_is_the_mean_over_the_symbols_of_a_line(tmp_path: Path) -> None:
    whole = metrics(run(tmp_path, updates=20, log_interval=20).folder)
    single = metrics(run(tmp_path, "single", updates=20, log_interval=1).folder)
    assert whole[0]["train_loss"] == pytest.approx(np.mean([line["train_loss"] for line in single]), rel=1e-12)
    assert whole[0]["gradient_norm"] == pytest.approx(np.mean([line["gradient_norm"] for line in single]), rel=1e-12)


def test_the_penalty_on_the_weights_is_no_part_of_validation(tmp_path: Path) -> None:
    for options in ({}, {"optimizer": "hf", "gradient_symbols": 300}):
        name = options.get("optimizer", "sgd")
        result = run(tmp_path, name, **options, l2=0.5, init_scale=1.0, updates=2, learning_rate=1e-6)
        found = hfrnn.evaluate(*hfrnn.load(result.folder, "last"), TEXT[TRAINED:])
        assert metrics(result.folder)[-1]["valid_loss"] == pytest.approx(found.nats_per_symbol, rel=0.02)


def test_the_time_limit_ends_a_run_after_a_line_that_is_validated(tmp_path: Path) -> None:
    result = run(tmp_path, minutes=1e-6)
    assert (result.summary["stopped"], result.summary["updates"]) == ("time", 10)
    assert result.summary["best"]["update"] == 10


def test_a_solved_task_ends_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Solved(Callback):
        def on_start(self, trainer: Trainer) -> None:
            monkeypatch.setattr(trainer.source, "errors", lambda logits: 0.0099)

    result = run(tmp_path, **TASK, updates=30, callbacks=(Solved(),))
    assert (result.summary["stopped"], result.summary["updates"]) == ("success", 40 // 6)
    assert result.summary["best"]["valid_errors"] == 0.0099


# ---------------------------------------------------------------------- the best, and failure


def test_the_best_is_a_copy_that_later_updates_leave_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thetas = []

    class Remember(Losses):
        def on_update(self, record: dict[str, Any]) -> bool | None:
            thetas.append(self.trainer.theta.copy())
            return None

        def on_start(self, trainer: Trainer) -> None:
            super().on_start(trainer)
            self.trainer = trainer

    watch = Remember(monkeypatch, 3.0, 1.0, 2.0)
    result = run(tmp_path, validate_every=10, updates=40, callbacks=(watch,))
    assert result.summary["best"]["update"] == 20
    np.testing.assert_array_equal(result.theta, thetas[1])
    np.testing.assert_array_equal(hfrnn.load(result.folder).theta, thetas[1])
    np.testing.assert_array_equal(hfrnn.load(result.folder, "last").theta, thetas[3])
    assert not np.array_equal(thetas[1], thetas[2])


def test_without_validation_the_line_of_least_training_loss_is_the_best(tmp_path: Path) -> None:
    result = run(tmp_path, fractions=(1, 0, 0), updates=60, learning_rate=4.0, clip_norm=0.0)
    lines = metrics(result.folder)
    assert {line["valid_loss"] for line in lines} == {None}
    assert result.summary["best"]["train_loss"] == min(line["train_loss"] for line in lines)


def test_until_a_state_is_validated_the_last_one_stands_for_the_best(tmp_path: Path) -> None:
    watch = At(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Interrupted, match="after update 20"):
        run(tmp_path, updates=40, callbacks=(watch,))
    best, last = (hfrnn.load(tmp_path / "run", which) for which in ("best", "last"))
    np.testing.assert_array_equal(best.theta, last.theta)
    assert not np.array_equal(best.theta, best.net.init(0))


class Ends(Callback):
    def on_update(self, record: dict[str, Any]) -> bool | None:
        return True


def test_a_run_that_a_callback_ends_unvalidated_has_its_last_state(tmp_path: Path) -> None:
    result = run(tmp_path, updates=40, callbacks=(Ends(),))
    assert (result.summary["stopped"], result.summary["best"]) == ("callback", None)
    np.testing.assert_array_equal(result.theta, hfrnn.load(result.folder).theta)
    np.testing.assert_array_equal(result.theta, hfrnn.load(result.folder, "last").theta)


@pytest.mark.parametrize("bad", ["loss", "gradient", "step"])
def test_a_state_that_is_not_finite_leaves_that_of_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    compute, calls = Objective.loss_and_gradient, []

    def failing(self: Objective, theta: Any) -> Any:
        loss, gradient = compute(self, theta)
        calls.append(1)
        if len(calls) == 14:
            loss = float("nan") if bad == "loss" else loss
            gradient[3] = {"loss": 0.0, "gradient": float("inf"), "step": 3e38}[bad]
        return loss, gradient

    monkeypatch.setattr(Objective, "loss_and_gradient", failing)
    options = {"clip_norm": 0.0, "learning_rate": 2.0}
    with pytest.raises(NonFiniteError, match=r"after update 10, whose state is kept in .*smaller --learning-rate") as e:
        run(tmp_path, updates=40, **options)
    monkeypatch.undo()
    assert e.value.exit_code == 1
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["updates"] == 10
    text_file(tmp_path)
    assert training_state(tmp_path / "run") == training_state(run(tmp_path, "good", **options, updates=10).folder)
    train(resume=tmp_path / "run")
    assert training_state(tmp_path / "run") == training_state(run(tmp_path, "whole", **options, updates=40).folder)


def test_too_large_a_rate_of_the_online_rule_keeps_the_state(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"after update 0"):
        run(tmp_path, **ONLINE, learning_rate=1e38, init_scale=1.0, updates=100)
    assert np.isfinite(hfrnn.load(tmp_path / "run").theta).all()


# ---------------------------------------------------------------------- what a method refuses


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({**ONLINE, "arch": "lstm"}, "asked for lstm with 1 layers: it is defined for one layer of lstm-krause"),
        ({**ONLINE, "hidden": (3, 2)}, "lstm-krause with 2 layers"),
        ({**ONLINE, "l2": 0.1}, "takes no l2"),
        ({**ONLINE, "data": "addition"}, "learns from a text, and addition is none: use sgd, adam or hf"),
        ({**ONLINE, "clip_value": 1.0}, "--clip-value was given, and --optimizer online bounds nothing"),
        ({**ONLINE, "clip_norm": 2.0}, "--clip-norm was given"),
        ({**ONLINE, "max_norm": 2.0}, "--max-norm was given"),
        ({**ONLINE, "update_every": 5}, "--update-every was given, and --optimizer online updates at every step"),
        ({**ONLINE, "schedule": "divide", "fractions": (1, 0, 0)}, "give a validation part"),
        ({"schedule": "halve", "fractions": (1, 0, 0)}, "--schedule halve watches the validation loss"),
        ({"optimizer": "adam", "nesterov": True}, "--nesterov was given, and --optimizer adam has a momentum of its"),
        ({"optimizer": "adam", "momentum": 0.5}, "--momentum was given"),
        ({"nesterov": True, "momentum": 0.0}, "nesterov was asked for and momentum is 0"),
        ({"update_every": 3}, r"\(--sequence-length\) 10 and steps between updates \(--update-every\) 3: "),
        ({"update_every": 20}, r"\(--update-every\) 20: "),
        ({"streams": 1000}, "1000 streams with an update every 10 need at least 10001; .*fewer --streams"),
        ({**TASK, "update_every": 5}, "--update-every was given, and addition is no text"),
        ({"memory": "3kB"}, "need at least .* MiB, and the budget is"),
    ],
    ids=str,
)
def test_options_that_fit_no_method_are_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        run(tmp_path, **options, updates=1)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options", [{}, {"optimizer": "adam"}, {**ONLINE}, {**ONLINE, "clip_norm": 0.0}], ids=str)
def test_what_a_run_stores_is_not_refused_when_it_goes_on(tmp_path: Path, options: dict[str, Any]) -> None:
    folder = run(tmp_path, **options, updates=1).folder
    assert train(resume=folder, updates=2).summary["updates"] == 2


@pytest.mark.parametrize("field", ["optimizer", "learning_rate", "streams", "schedule"])
def test_a_resumed_run_keeps_its_method(tmp_path: Path, field: str) -> None:
    folder = run(tmp_path, updates=1).folder
    other = {"optimizer": "adam", "learning_rate": 0.1, "streams": 5, "schedule": "text8"}[field]
    with pytest.raises(InputError, match=f"keeps its {field}: "):
        train(resume=folder, updates=2, **{field: other})


def test_a_carried_state_that_does_not_fit_is_a_damaged_checkpoint(tmp_path: Path) -> None:
    net = dense("lstm")[0]
    batches = stream_batches(net, 6, 6)
    found = batches.state_dict()
    found["state.0.0.h"] = found["state.0.0.h"][:2]
    with pytest.raises(hfrnn.CheckpointError, match="do not fit the network"):
        batches.load_state_dict(found)


# ---------------------------------------------------------------------- memory


def test_the_updates_of_a_run_share_their_buffers(tmp_path: Path) -> None:
    held = set()

    class Watch(Callback):
        def on_start(self, trainer: Trainer) -> None:
            self.method = trainer.method

        def on_cg(self, iteration: int, q: float) -> None:
            held.add(id(self.method._last._passing_buffers))

    run(tmp_path, updates=20, update_every=5, callbacks=(Watch(),))
    assert len(held) == 1
