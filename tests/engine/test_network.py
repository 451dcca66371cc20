"""The network: padding, lengths, weights, carried states, kinds of input, sizes and names, errors."""

import re
from typing import Any

import numpy as np
import pytest
from support.engine_cases import (
    SMALL,
    assert_same,
    cases,
    everything,
    moved,
    random_batch,
    random_state,
    replace,
    vectors,
)  # fmt: skip
from support.fake_device import FakeArray, FakeBackend
from support.pairwise import label, tried

import hfrnn
from hfrnn.kernels.registry import kernel_options

T, B, N_IN = 7, 5, 5

ragged = [case for case in cases() if case.batch.get("ragged")]
every_ragged_case = pytest.mark.parametrize("case", tried(of=ragged), ids=label)
every_arch = pytest.mark.parametrize("arch", hfrnn.architectures())


def network(arch: str, **changes: Any) -> hfrnn.Network:
    arguments = {"n_in": N_IN, "hidden": (4, 3), "n_out": 4, "dtype": "float64", "bias": True, "output_bias": True}
    return hfrnn.Network(arch, **{**arguments, **changes})


def sequence(batch: hfrnn.Batch, b: int, length: int) -> hfrnn.Batch:
    part = batch.columns(b, b + 1)
    weights = None if part.weights is None else part.weights[:length]
    return hfrnn.Batch(part.inputs[:length], part.targets[:length], weights, None, part.initial_state)


def steps(batch: hfrnn.Batch, start: int, stop: int, state: Any) -> hfrnn.Batch:
    weights = None if batch.weights is None else batch.weights[start:stop]
    return hfrnn.Batch(batch.inputs[start:stop], batch.targets[start:stop], weights, None, state)


@every_ragged_case
def test_what_the_padding_holds_never_matters(case):
    net, batch = case.net(), case.data()
    exists = np.arange(batch.T)[:, None] < batch.lengths
    assert not exists.all()
    inputs, targets, weights = batch.inputs.copy(), batch.targets.copy(), batch.weights.copy()
    inputs[~exists] = -(10**6) if inputs.dtype.kind == "i" else np.nan
    targets[~exists] = 10**6 if targets.dtype.kind == "i" else np.nan
    weights[~exists] = 1e9
    theta, v, u = vectors(net, batch)
    garbage = u.reshape(batch.T, batch.B, -1).copy()
    garbage[~exists] = np.nan
    dirty = replace(batch, inputs=inputs, targets=targets, weights=weights)
    for checkpoint in (None, 3):
        actual = everything(net, dirty, theta, v, garbage.ravel(), checkpoint=checkpoint)
        assert_same(actual, everything(net, batch, theta, v, u, checkpoint=checkpoint))
    for name in ("logits", "log p"):
        if name in actual:
            assert (actual[name][~exists] == 0).all()
    assert (actual["J v"].reshape(batch.T, batch.B, -1)[~exists] == 0).all()


@every_ragged_case
def test_sequences_of_mixed_lengths_are_run_as_if_each_were_alone(case):
    net, batch = case.net(), case.data()
    theta, v, _ = vectors(net, batch)
    parts = [sequence(batch, b, int(length)) for b, length in enumerate(batch.lengths)]
    shares = [0.0 if part.weights is None else float(part.weights.sum()) for part in parts]
    total = sum(shares)
    logits, state = net.run(theta, batch)
    for b, part in enumerate(parts):
        alone, end = net.run(theta, part)
        np.testing.assert_allclose(logits[: part.T, b], alone[:, 0], rtol=1e-12, atol=1e-15)
        for mine, theirs in zip(state, end, strict=True):  # each state at its own sequence's end
            for name, value in theirs.items():
                if not isinstance(value, int):  # which is one for the batch
                    np.testing.assert_allclose(mine[name][..., b : b + 1, :], value, rtol=1e-12, atol=1e-15)
    weighted = [(share / total, part) for share, part in zip(shares, parts, strict=True) if share]
    expected = sum(share * net.loss_and_gradient(theta, part)[1] for share, part in weighted)
    np.testing.assert_allclose(net.loss_and_gradient(theta, batch)[1], expected, rtol=1e-10, atol=1e-13)
    assert net.loss(theta, batch) == pytest.approx(sum(share * net.loss(theta, part) for share, part in weighted))
    G, expected = net.gauss_newton(theta, batch), sum(w * (net.gauss_newton(theta, p) @ v) for w, p in weighted)
    np.testing.assert_allclose(G @ v, expected, rtol=1e-10, atol=1e-13)


def test_the_loss_is_the_weighted_mean_of_the_log_probabilities():
    net, rng = network("rnn"), np.random.default_rng(0)
    batch = random_batch(net, rng, ragged=True)
    theta = vectors(net, batch)[0]
    w = np.where(np.arange(T)[:, None] < batch.lengths, batch.weights, 0)
    expected = -(w * net.log_probabilities(theta, batch)).sum() / w.sum()
    assert net.loss(theta, batch) == pytest.approx(expected, rel=1e-12)


@every_arch
def test_two_halves_with_the_state_carried_equal_the_whole(arch):
    split = 3
    net, rng = network(arch), np.random.default_rng(0)
    batch = random_batch(net, rng, carried=True)
    theta = vectors(net, batch)[0]
    logits, final = net.run(theta, batch)
    first, middle = net.run(theta, steps(batch, 0, split, batch.initial_state))
    second, end = net.run(theta, steps(batch, split, T, middle))
    np.testing.assert_allclose(np.concatenate([first, second]), logits, rtol=1e-12)
    for mine, theirs in zip(end, final, strict=True):
        for name, value in theirs.items():
            np.testing.assert_allclose(mine[name], value, rtol=1e-12)
    loss = net.loss(theta, steps(batch, 0, split, batch.initial_state)), net.loss(theta, steps(batch, split, T, middle))
    assert net.loss(theta, batch) == pytest.approx((split * loss[0] + (T - split) * loss[1]) / T, rel=1e-12)


@every_arch
def test_zeros_are_the_default_initial_state(arch):
    net, rng = network(arch), np.random.default_rng(0)
    batch = random_batch(net, rng)
    theta = vectors(net, batch)[0]
    plain, zeros, other = (
        net.loss_and_gradient(theta, replace(batch, initial_state=state))[1]
        for state in (None, net.zero_state(B), random_state(net, rng, B))
    )
    np.testing.assert_array_equal(zeros, plain)
    assert (other != plain).any()


def test_the_final_state_is_the_callers_own():
    net = network("lstm")
    batch = random_batch(net, np.random.default_rng(0))
    theta, *_ = vectors(net, batch)
    state = net.run(theta, batch)[1]
    kept = [{name: np.copy(value) for name, value in layer.items()} for layer in state]
    net.run(theta[::-1].copy(), batch)
    np.testing.assert_equal(state, kept)


@pytest.mark.parametrize("kind", ["uint8", "int16", "uint64"])
def test_symbols_may_be_integers_of_any_width(kind):
    net = network("lstm", embedding=3)
    batch = random_batch(net, np.random.default_rng(0))
    numbers = vectors(net, batch)
    narrow = replace(batch, inputs=batch.inputs.astype(kind), targets=batch.targets.astype(kind))
    assert_same(everything(net, narrow, *numbers), everything(net, batch, *numbers))


@every_arch
@pytest.mark.parametrize(("bias", "output_bias"), [(None, None), (True, False), (False, True)])
def test_biases_can_be_asked_for_and_refused(arch, bias, output_bias):
    net = network(arch, bias=bias, output_bias=output_bias)
    views = net.views(np.zeros(net.n_parameters))
    kernel = net.layers[0].kernel
    has = any(slot.bias for slot in kernel.slots) if bias is None else bias
    assert ("layer0.b" in views) == ("layer1.b" in views) == has
    assert ("output.b_y" in views) == (kernel.output_bias if output_bias is None else output_bias)


def test_a_network_is_remade_from_its_configuration():
    net = network("rnn", activation="relu", l2=0.2, embedding=3)
    again = hfrnn.Network(**net.config)
    assert again.config == net.config
    assert again.n_parameters == net.n_parameters
    described = hfrnn.Network("mrnn", n_in=70, hidden=(150, 130, 110), n_out=70).describe()
    assert described == "mrnn 150-130-110, 70 in, 70 out (softmax), 219,090 weights"


@pytest.mark.parametrize(("changes", "message"), [
    ({"arch": "elman"}, "architecture 'elman' is not known: use one of rnn, mrnn, "),
    ({"hidden": ()}, "hidden is empty: give one hidden size, or one for each layer"),
    ({"hidden": (3, 2.5)}, "hidden is 2.5: give a whole number"),
    ({"dtype": "float16"}, "dtype is 'float16': use one of float32, float64"),
    ({"activation": "relu"}, "architecture 'lstm' has no option activation: it takes none"),
])  # fmt: skip
def test_a_network_that_cannot_be_is_refused_in_one_sentence(changes, message):
    with pytest.raises(hfrnn.InputError, match=re.escape(message)):
        network(**{"arch": "lstm", **changes})


def zeros(B: int = 2, width: int = 4) -> dict[str, Any]:
    return {"h": np.zeros((B, width)), "c": np.zeros((B, width))}


BATCHES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a symbol too large": (
        {}, {"inputs": np.full((3, 2), 5)}, "input symbols go from 5 to 5: with n_in = 5 they lie in 0 to 4",
    ),
    "a negative symbol": ({}, {"inputs": np.full((3, 2), -1)}, "input symbols go from -1 to -1: with n_in = 5"),
    "many values": ({}, {"inputs": np.zeros((3, 2, 6))}, "inputs have 6 values per step: this network has n_in = 5"),
    "values for an embedding": (
        {"embedding": 3}, {"inputs": np.zeros((3, 2, 5))}, "a network with an embedding takes integer symbols (T, B)",
    ),
    "a missing layer": ({}, {"initial_state": [zeros()]}, "the initial state has 1 layers: this network has 2"),
    "a state too wide": (
        {}, {"initial_state": [zeros(), zeros()]},
        "the initial state of layer 1 is {'h': (2, 4), 'c': (2, 4)}: expected {'h': (2, 3), 'c': (2, 3)}, as net.run",
    ),
    "a state without c": (
        {}, {"initial_state": [{"h": np.zeros((2, 4))}, zeros(2, 3)]}, "the initial state of layer 0 is {'h': (2, 4)}:",
    ),
    "a state of other sequences": (
        {}, {"initial_state": [zeros(3), zeros(3, 3)]}, "the initial state of layer 0 is {'h': (3, 4), 'c': (3, 4)}:",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BATCHES)
def test_a_batch_that_does_not_fit_the_network_is_refused_in_one_sentence(what):
    changes, parts, message = BATCHES[what]
    net = network("lstm", **changes)
    batch = hfrnn.Batch(**{"inputs": np.zeros((3, 2), int), "targets": np.zeros((3, 2), int), **parts})
    with pytest.raises(hfrnn.InputError) as caught:
        net.loss(net.init(), batch)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_batch_without_targets_can_still_be_run():
    net = network("lstm")
    batch = hfrnn.Batch(np.zeros((3, 2), int))
    assert net.run(net.init(), batch)[0].shape == (3, 2, 4)
    for call in (net.log_probabilities, net.loss, net.loss_and_gradient):
        with pytest.raises(hfrnn.InputError, match="the batch has no targets: a loss needs them"):
            call(net.init(), batch)


def test_the_squared_loss_gives_no_probabilities():
    net = network("lstm", loss="squared")
    with pytest.raises(hfrnn.InputError, match="the loss 'squared' gives no probabilities: use "):
        net.log_probabilities(net.init(), random_batch(net, np.random.default_rng(0)))


@pytest.mark.parametrize("arch", hfrnn.architectures())
def test_options_of_other_architectures_are_accepted_at_their_neutral_values_only(arch):
    neutral = {"activation": "tanh", "order": 3, "alpha": 0.6, "learn_alpha": False, "context": 40, "periods": None}
    net = hfrnn.Network(arch, 4, 3, 4, **neutral)
    assert net.n_parameters == hfrnn.Network(arch, 4, 3, 4).n_parameters
    foreign = next(name for name in ("periods", "order") if name not in kernel_options(arch))
    with pytest.raises(hfrnn.InputError, match=f"has no option {foreign}"):
        hfrnn.Network(arch, 4, 3, 4, **{**neutral, foreign: 2})


def states_problem(arch: str, dtype: str = "float64", backend: str = "numpy", **batch: Any) -> tuple[Any, Any, Any]:
    net = hfrnn.Network(
        arch, n_in=5, hidden=(4, 3), n_out=4, loss="squared", dtype=dtype, backend=backend, **SMALL.get(arch, {})
    )
    data = random_batch(net, np.random.default_rng(3), T, 3, real=True, **batch)
    return net, vectors(net, data)[0], data


def until(batch: hfrnn.Batch, stop: int, columns: slice = slice(None)) -> hfrnn.Batch:
    state = batch.initial_state
    if state is not None:
        state = [{k: x[..., columns, :] if np.ndim(x) else x for k, x in layer.items()} for layer in state]
    return hfrnn.Batch(batch.inputs[:stop, columns], initial_state=state)


@every_arch
def test_the_state_of_every_step_is_that_of_a_run_that_ends_there(arch):
    net, theta, batch = states_problem(arch, carried=True)
    states = net.run(theta, batch, states=True)[2]
    for t in range(T):
        ended = net.run(theta, until(batch, t + 1))[1]
        assert [layer.keys() for layer in states] == [layer.keys() for layer in ended]
        for every, one in zip(states, ended, strict=True):
            for name, value in one.items():
                assert np.any(value != 0), name
                assert every[name].shape == (T, *np.shape(value)), name
                np.testing.assert_allclose(every[name][t], value, rtol=1e-12, atol=1e-13, err_msg=f"{name} {t}")


@every_arch
def test_a_sequence_among_longer_ones_has_the_states_that_it_has_alone(arch):
    net, theta, batch = states_problem(arch, ragged=True)
    assert min(batch.lengths) < T
    states = net.run(theta, batch, states=True)[2]
    for b, length in enumerate(batch.lengths):
        alone = net.run(theta, until(batch, length, slice(b, b + 1)), states=True)[2]
        for every, one in zip(states, alone, strict=True):
            for name, value in one.items():
                if every[name].ndim == 1:
                    np.testing.assert_array_equal(every[name][:length], value)
                    continue
                own = every[name][..., b : b + 1, :]
                np.testing.assert_allclose(own[:length], value, rtol=1e-12, atol=1e-13, err_msg=name)
                assert (own[length:] == 0).all(), name


@pytest.mark.parametrize("ragged", [False, True])
def test_asking_for_states_changes_no_bit_of_the_other_results(ragged):
    net, theta, batch = states_problem("lstm", ragged=ragged)
    np.testing.assert_equal(net.run(theta, batch, states=True)[:2], net.run(theta, batch))


@every_arch
def test_compiled_kernels_and_a_device_give_the_states_of_the_reference(arch):
    pytest.importorskip("numba")
    net, theta, batch = states_problem(arch, ragged=True, carried=True)
    expected, fake = net.run(theta, batch, states=True)[2], FakeBackend()
    compiled = states_problem(arch, backend="numba")[0].run(theta, batch, states=True)[2]
    device = hfrnn.Network(**net.config, backend=fake)
    found = device.run(fake.asarray(theta), moved(batch, fake), states=True)[2]
    for l, layer in enumerate(expected):
        for name, value in layer.items():
            np.testing.assert_allclose(compiled[l][name], value, rtol=1e-10, atol=1e-12, err_msg=name)
            assert isinstance(found[l][name], FakeArray), name
            np.testing.assert_array_equal(fake.to_host(found[l][name]), value, err_msg=name)
