"""SGD, Adam, SOAP, Muon and the online rule: truncated backpropagation, an update, the same bits, what they refuse."""

import numpy as np
import pytest
from support.method_runs import MUSIC, ONLINE, TASK, TRAINED, run
from support.run_states import assert_same
from support.slow import slow_unless
from support.tiny_runs import TEXT, callback, metrics

import hfrnn
from hfrnn.data.streams import TextStreams, training_sequences
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError
from hfrnn.runs.checkpoint import load_checkpoint
from hfrnn.runs.config import TrainConfig
from hfrnn.training.methods.first_order import StreamBatches
from hfrnn.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("small_music")
LONG = {"hidden": 12, "updates": 400}


def dense(arch, vocabulary=6, **options):
    """A network in float64 and parameters."""
    net = Network(arch, vocabulary, options.pop("hidden", 4), vocabulary, dtype="float64", **options)
    return net, net.init(seed=1, scale=0.5)


def pieces(symbols, streams):
    """The whole streams side by side."""
    return training_sequences(symbols, (len(symbols) - 1) // streams)


# ---------------------------------------------------------------------- truncated backpropagation


SYMBOLS = np.random.default_rng(0).integers(0, 6, 3 * 24 + 1)  # three streams of 24 steps
ARCHITECTURES = pytest.mark.parametrize(
    ("arch", "options"),
    [("lstm", {}), ("mlstm", {"hidden": (4, 3)}), ("clockwork", {}), ("hornn", {"order": 5}), ("scrn", {"context": 3})],
    ids=lambda value: value if isinstance(value, str) else "",
)


def stream_batches(net, back, every):
    config = TrainConfig(streams=3, sequence_length=back, update_every=every)
    return StreamBatches(config, net, SYMBOLS)


def visit(net, theta, batches):
    """The next window at theta: its batch and objective, loss and gradient."""
    batch = batches.next()
    objective = Objective(net, batch, threads=1)
    loss, gradient = objective.loss_and_gradient(theta)
    batches.done(objective)
    return batch, objective, loss, gradient


@ARCHITECTURES
def test_gradients_sent_back_to_the_beginning_add_up_to_the_whole(arch, options):
    """Also that of one window of the whole streams."""
    net, theta = dense(arch, **options)
    *_, one, gradient = visit(net, theta, stream_batches(net, 24, 24))
    batches = stream_batches(net, 24, 4)
    found = [visit(net, theta, batches) for _ in range(6)]
    whole = Objective(net, Batch(*pieces(SYMBOLS, 3)), threads=1).loss_and_gradient(theta)
    assert one == whole[0]
    np.testing.assert_array_equal(gradient, whole[1])
    assert np.mean([loss for _, _, loss, _ in found]) == pytest.approx(whole[0], rel=1e-13)
    np.testing.assert_allclose(np.mean([gradient for *_, gradient in found], axis=0), whole[1], rtol=0, atol=1e-14)


@ARCHITECTURES
@pytest.mark.parametrize(("back", "every"), [(6, 6), (3, 1), (8, 4)])
def test_windows_without_updates_carry_the_states_of_one_long_run(arch, options, back, every):
    net, theta = dense(arch, **options)
    inputs, _ = pieces(SYMBOLS, 3)

    def after(steps):
        return net.run(theta, Batch(inputs[:steps]))[1] if steps else net.zero_state(3)

    batches = stream_batches(net, back, every)
    for position in range(0, 24, every):
        batch, objective, _, _ = visit(net, theta, batches)
        start, stop = max(position + every - back, 0), position + every
        np.testing.assert_array_equal(batch.inputs, inputs[start:stop])
        for at, found in ((start, batch.initial_state), (stop, objective.final_state())):
            for layer, expected in zip(found or net.zero_state(3), after(at), strict=True):
                assert layer.keys() == expected.keys()
                for key, value in expected.items():
                    np.testing.assert_allclose(layer[key], value, rtol=0, atol=1e-14, err_msg=f"{key} at step {at}")
    assert (batches.epoch, batches.position, batches.fraction) == (1, 0, 0.0)
    assert batches.next().initial_state is None


@pytest.mark.slow
def test_states_that_are_carried_make_an_epoch_s_loss_that_of_the_whole_streams(tmp_path):
    """Through the method itself, at a rate that changes nothing."""
    result = run(tmp_path, learning_rate=1e-300, momentum=0.0, epochs=1, dtype="float64", sequence_length=8,
                 update_every=2, log_interval=10**6)  # fmt: skip
    symbols = result.vocabulary.encode(TEXT[:TRAINED])
    length = (TRAINED - 1) // 4 // 2 * 2
    streams = TextStreams(symbols, 4, 2, 2)
    loss = result.net.loss(result.theta, Batch(*streams.steps(0, length)))
    (line,) = metrics(result.folder)
    assert line["train_loss"] == pytest.approx(loss, rel=1e-12)
    assert (line["symbols"], line["update"], line["epoch"]) == (4 * length, length // 2, 1)


def test_the_online_rule_reads_all_of_every_stream_from_a_state_of_zeros_in_every_epoch(tmp_path):
    """Through the method itself, at a rate that changes nothing."""
    result = run(tmp_path, **ONLINE, learning_rate=1e-300, epochs=2, dtype="float64", log_interval=10**6)
    symbols = result.vocabulary.encode(TEXT[:TRAINED])
    loss = result.net.loss(result.theta, Batch(*pieces(symbols, 8)))
    assert [line["train_loss"] for line in metrics(result.folder)] == pytest.approx([loss, loss], rel=1e-12)


# ---------------------------------------------------------------------- one update
def first_step(folder, **options):
    """Parameters before and after an update in float64, the gradient of its window, and the network."""
    result = run(folder, updates=1, dtype="float64", **options)
    net = result.net
    theta = net.init(result.config.seed)
    symbols = result.vocabulary.encode(TEXT[:TRAINED])
    inputs, targets, weights = TextStreams(symbols, 4, 10, 10).window(0)
    _, gradient = Objective(net, Batch(inputs, targets, weights)).loss_and_gradient(theta)
    return theta, load_checkpoint(result.folder / "last.safetensors")[0]["theta"], gradient, net


STEPS = {
    # an update's options, and the change of theta that they ask for
    "plain": ({"clip_norm": 0.0, "momentum": 0.0, "learning_rate": 0.25}, lambda theta, g: -0.25 * g),
    "first momentum": ({"clip_norm": 0.0, "learning_rate": 0.25}, lambda theta, g: -0.25 * g),
    "nesterov": ({"clip_norm": 0.0, "momentum": 0.5, "nesterov": True}, lambda theta, g: -0.5 * 1.5 * g),
    "decay": (
        {"clip_norm": 0.0, "weight_decay": 0.125, "learning_rate": 0.5},
        lambda theta, g: -0.5 * (g + 0.125 * theta),
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
def test_an_update_is_what_its_options_say(tmp_path, name):
    options, change = STEPS[name]
    before, after, gradient, _ = first_step(tmp_path, **options)
    np.testing.assert_allclose(after, before + change(before, gradient), rtol=0, atol=1e-14)
    assert np.abs(gradient).max() > 0.01


@pytest.mark.parametrize("options", [{}, {"optimizer": "adam"}, {**ONLINE}], ids=["sgd", "adam", "online"])
def test_the_parameters_that_a_run_starts_from_are_not_written(tmp_path, options):
    kept = []
    keep = callback(on_start=lambda trainer: kept.append(trainer.theta))
    result = run(tmp_path, **options, updates=10, callbacks=(keep,))
    np.testing.assert_array_equal(kept[0], result.net.init(0))
    assert not np.array_equal(kept[0], result.theta)


def test_the_log_says_how_long_gradients_were_and_how_many_were_clipped(tmp_path):
    single = metrics(run(tmp_path, "single", clip_norm=1e6, updates=10, learning_rate=0.25, log_interval=1).folder)
    norms = [line["gradient_norm"] for line in single]
    assert {line["clipped"] for line in single} == {0}
    bound = sorted(norms)[7] * (1 - 1e-9)  # of ten, three are longer; the steps until the first of them are the same
    (line,) = metrics(run(tmp_path, "one line", clip_norm=bound, updates=10, learning_rate=0.25).folder)
    assert line["learning_rate"] == 0.25
    assert line["gradient_norm"] == pytest.approx(np.mean(norms), rel=0.1)
    assert 0 < line["clipped"] < 1
    assert line["clipped"] == pytest.approx(0.3, abs=0.21)


@pytest.mark.parametrize("options", [{"optimizer": "adam"}, ONLINE, TASK, MUSIC], ids=str)
def test_every_line_has_the_keys_of_the_contract_and_of_its_method(tmp_path, options):
    lines = metrics(run(tmp_path, **options, updates=20).folder, timed=True)
    null = {"cg_iterations", "cg_stop", "mu", "lambda", "rho", "step_size"}
    for line in lines:
        assert {line[key] for key in null} == {None}
        assert {"seconds", "train_loss", "train_bits", "valid_bits", "valid_perplexity", "symbols"} <= set(line)
        assert {"epoch", "learning_rate", "gradient_norm", "clipped", "valid_errors"} <= set(line)
        assert (line["train_bits"] is None) == ("data" in options)


# ---------------------------------------------------------------------- the same bits
SEEDED = {
    "sgd": {"streams": 20}, "task": {**TASK, "streams": 20}, "music": MUSIC, "online": ONLINE,
    **{name: {"streams": 20, "optimizer": name} for name in ("adam", "soap", "muon")},
}  # fmt: skip


@pytest.mark.parametrize("name", slow_unless(lambda name: name in ("sgd", "muon", "online"), SEEDED))
def test_the_same_seed_gives_the_same_bits_with_one_thread_and_two(tmp_path, name):
    options = {**SEEDED[name], "updates": 12, "hidden": 9}
    one, two = (run(tmp_path, f"{threads}", **options, threads=threads).folder for threads in (1, 2))
    assert_same(one, two)
    plans = load_checkpoint(one / "last.safetensors")[1]["plans"]
    assert len(plans) == (options.get("optimizer") != "online")
    if "streams" in options and "optimizer" not in options and "data" not in options:
        assert len(plans["gradient"]["shards"]) > 2  # there is something to share out


# ---------------------------------------------------------------------- training works
@pytest.mark.parametrize(("options", "share"), slow_unless(lambda options, _: options.get("updates", 0) < 100, [
    (LONG, 0.6), ({**LONG, "momentum": 0.5, "nesterov": True, "update_every": 5}, 0.8),
    ({**LONG, "optimizer": "adam", "learning_rate": 0.01}, 0.6),
    ({**LONG, "optimizer": "soap", "learning_rate": 0.03}, 0.6),
    ({**LONG, "optimizer": "muon", "learning_rate": 0.02}, 0.6), ({**ONLINE, "hidden": 8, "updates": 1000}, 0.95),
    ({**TASK, "updates": 300, "streams": 20, "optimizer": "adam"}, 0.8),
    ({**MUSIC, "updates": 60, "streams": 3, "optimizer": "adam", "learning_rate": 0.02}, 0.7),
    ({**TASK, "updates": 6, "optimizer": "hf", "gradient_symbols": 0}, 0.8),
]), ids=["sgd", "nesterov", "adam", "soap", "muon", "online", "task", "music", "hf"])  # fmt: skip
def test_training_lowers_the_loss(tmp_path, options, share):
    lines = metrics(run(tmp_path, **options).folder)
    assert lines[-1]["train_loss"] < share * lines[0].get("loss_before", lines[0]["train_loss"])
    trainer = Trainer.resumed(tmp_path / "run", {})
    first = trainer.validation.loss(trainer.net.init(trainer.config.seed))
    assert trainer.validation.loss(trainer.theta) < 0.97 * first


def test_without_an_architecture_the_online_rule_has_its_own():
    assert hfrnn.TrainConfig(optimizer="online").arch == "lstm-krause"
    assert hfrnn.TrainConfig(optimizer="online", arch="lstm").arch == "lstm"


# ---------------------------------------------------------------------- what a method refuses


NOT_ONLINE = ("l2", "clip_value", "clip_norm", "clip_error", "max_norm", "update_every", "state_noise", "warm_up")


@pytest.mark.parametrize(("options", "sentence"), [
    ({**ONLINE, "arch": "lstm"}, "asked for lstm with 1 layer: it is defined for one layer of lstm-krause"),
    ({**ONLINE, "hidden": (3, 2)}, "lstm-krause with 2 layers"),
    ({**ONLINE, "data": "addition"}, "learns from a text, and addition is not a text: use sgd, adam or hf"),
    *(({**ONLINE, name: 2}, f"^{name}= was given, and optimizer= is online: it is for") for name in NOT_ONLINE),
    ({**ONLINE, "learn_initial_state": True}, "learn_initial_state= was given, and optimizer= is online: it is"),
    ({**ONLINE, "schedule": "cosine"}, "schedule= is cosine, which optimizer='online' does not have"),
    ({**ONLINE, "schedule": "divide", "fractions": (1, 0, 0)}, "give a validation part"),
    ({"schedule": "halve", "fractions": (1, 0, 0)}, "schedule= is halve, which watches the validation loss"),
    ({"patience": 3, "fractions": (1, 0, 0)}, "^patience= is 3, which counts validations: give a validation part$"),
    ({"optimizer": "hf", "patience": 3, "fractions": (1, 0, 0)}, "^patience= is 3, which counts validations"),
    ({"spectral_radius": 3.0}, "^spectral_radius= was given, and initializer= is papers: it is for initializer='suts"),
    ({"constant_epochs": 9}, "^constant_epochs= was given, and schedule= was not: it is for schedule='text8'"),
    ({"direct_input": False}, "^direct_input= was given, and hidden= "),
    ({"optimizer": "adam", "nesterov": True}, "nesterov= was given, and optimizer= is adam: it is for"),
    ({"optimizer": "soap", "momentum": 0.5}, "momentum= was given, and optimizer= is soap: it is for"),
    ({"optimizer": "muon", "nesterov": True}, "nesterov= was given, and optimizer= is muon: it is for"),
    ({"nesterov": True, "momentum": 0.0}, "nesterov was asked for and momentum is 0"),
    ({"update_every": 3}, "sequence_length= is 10, and update_every= is 3: "),
    ({"update_every": 20}, "update_every= is 20: "),
    ({"streams": 1000}, "1,000 streams with an update every 10 need at least 10,001; .*fewer streams="),
    ({**TASK, "update_every": 5}, "update_every= was given, and addition is a synthetic task: it is for a text"),
    ({"memory": "3kB"}, "need at least .* KiB, and the budget is 2.9 KiB"),
], ids=str)  # fmt: skip
def test_options_that_fit_no_method_are_refused(tmp_path, options, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        run(tmp_path, **options, updates=1)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_carried_state_that_does_not_fit_is_a_damaged_checkpoint(tmp_path):
    net = dense("lstm")[0]
    batches = stream_batches(net, 6, 6)
    found = batches.state_dict()
    found["state.0.0.h"] = found["state.0.0.h"][:2]
    with pytest.raises(hfrnn.CheckpointError, match="do not fit the network"):
        batches.load_state_dict(found)
