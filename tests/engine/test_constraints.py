"""Absent weights and signs: what masks mean, the change of variables, the initial weights, and random connectivity."""

import pickle
from typing import Any

import numpy as np
import pytest

import hfrnn
from hfrnn.engine.connectivity import constraint_words, drawn_constraints
from hfrnn.engine.constraints import ABSENT, Constraints
from hfrnn.errors import InputError

H = 5


def network(arch: str = "rnn", **options: Any) -> hfrnn.Network:
    return hfrnn.Network(arch, 3, H, 2, loss="squared", dtype="float64", **options)


def random_mask(*shape: int) -> Any:
    return (np.random.default_rng(4).random(shape) < 0.5).astype(int)


@pytest.mark.parametrize(("arch", "name", "given", "whole"), [
    ("rnn", "layer0.W_h", random_mask(H, H), random_mask(H, H)),
    ("rnn", "output.W_y0", random_mask(H), np.repeat(random_mask(H)[:, None], 2, 1)),
    ("lstm", "layer0.W_h", random_mask(H, H), np.tile(random_mask(H, H), 4)),
    ("hornn", "layer0.W_h", random_mask(H, H), np.stack([random_mask(H, H)] * 3)),
    ("hornn", "layer0.W_h", random_mask(H), np.broadcast_to(random_mask(H)[:, None], (3, H, H))),
])  # fmt: skip
def test_a_mask_has_the_shape_of_its_parameter_or_is_repeated(arch, name, given, whole):
    net = network(arch, bias=True)
    found = net.views(Constraints(net, {name: given}).absent.astype(int))
    np.testing.assert_array_equal(found.pop(name), 1 - whole)
    assert 0 < whole.sum() < whole.size
    assert not any(view.any() for view in found.values())


def test_constraints_are_told_by_units_and_density():
    net = network("lstm")
    signs = np.array([1, 1, -1, 0, -1])
    assert constraint_words(Constraints(net, {"layer0.W_h": 1 - np.eye(H)})) == "density 0.80"
    assert constraint_words(Constraints(net, {}, {"layer0.W_h": signs})) == "2 excitatory, 2 inhibitory"
    mixed = np.where(np.eye(H) > 0, -1, signs[:, None])
    assert constraint_words(Constraints(net, {}, {"layer0.W_h": mixed})) == "2 inhibitory"
    words = "2 weights absent, 8 with a sign"
    assert constraint_words(Constraints(net, {"output.W_y0": [0, 1, 1, 1, 1]}, {"output.W_y0": -np.ones(H)})) == words


def test_weights_are_absent_squared_or_free():
    net = network()
    constraints = Constraints(net, {"layer0.W_h": 1 - np.eye(H)}, {"layer0.W_h": [1, 1, -1, 0, -1]})
    v = np.random.default_rng(0).standard_normal(net.n_parameters)
    before, W, views = v.copy(), net.views(constraints.weights(v)), net.views(v)
    np.testing.assert_array_equal(v, before)
    V = views["layer0.W_h"]
    expected = np.vstack([V[:2] ** 2, -(V[2:3] ** 2), V[3:4], -(V[4:] ** 2)]) * (1 - np.eye(H))
    np.testing.assert_array_equal(W["layer0.W_h"], expected)
    signs = np.repeat([[1], [1], [-1], [0], [-1]], H, 1) * (1 - np.eye(H))
    np.testing.assert_array_equal(net.views(constraints.signs)["layer0.W_h"], signs)
    np.testing.assert_array_equal(W["output.W_y0"], views["output.W_y0"])


def test_variables_of_weights_give_these_weights_and_the_wanted_signs():
    net = network()
    constraints = Constraints(net, signs={"layer0.W_h": np.repeat([1, -1], [3, 2])})
    v = np.random.default_rng(0).standard_normal(net.n_parameters)
    w = constraints.weights(v)
    np.testing.assert_allclose(constraints.variables(w, like=v), v, rtol=1e-15)
    found = constraints.variables(w)
    np.testing.assert_array_equal(constraints.variables(w, like=np.zeros_like(w)), found)
    assert net.views(found)["layer0.W_h"].min() > 0
    np.testing.assert_array_equal(constraints.variables(constraints.weights(found)), found)


def test_weights_that_the_constraints_forbid_have_no_variables():
    net = network()
    theta = np.ones(net.n_parameters)
    for constraints in (
        Constraints(net, {"layer0.W_h": 1 - np.eye(H)}), Constraints(net, signs={"layer0.W_h": [1, 1, 1, 1, -1]}),
    ):  # fmt: skip
        assert not constraints.allows(theta)
        with pytest.raises(InputError, match="weights has an entry other than 0 for an absent weight, or one of"):
            constraints.variables(theta)
        assert constraints.allows(constraints.initial(theta))


@pytest.mark.parametrize("arch", ["rnn", "lstm", "hornn"])
def test_initial_weights_keep_the_norm_of_every_matrix(arch):
    net = network(arch)
    theta = net.init(seed=1, W_h=0.5)
    constraints = Constraints(net, {"layer0.W_h": random_mask(H, H)}, {"layer0.W_h": [1, 1, 1, -1, -1]})
    new = constraints.initial(theta)
    assert constraints.allows(new)
    before, after = net.views(theta), net.views(new)
    squares = [np.split(views["layer0.W_h"], after["layer0.W_h"].shape[-1] // H, -1) for views in (before, after)]
    for one, other in zip(*squares, strict=True):
        np.testing.assert_allclose(np.linalg.norm(other, axis=(-2, -1)), np.linalg.norm(one, axis=(-2, -1)), rtol=1e-12)
    for name in set(before) - {"layer0.W_h"}:
        np.testing.assert_array_equal(after[name], before[name])


def test_initial_weights_into_a_unit_are_balanced_and_none_with_a_sign_is_zero():
    net = network()
    constraints = Constraints(net, signs={"layer0.W_h": [1, 1, 1, -1, -1]})
    W = net.views(constraints.initial(net.init(seed=1)))["layer0.W_h"]  # nine tenths of the initial weights are 0
    np.testing.assert_allclose(W.sum(0), 0, atol=1e-15)
    assert abs(W).min() > 1e-3 * np.sqrt((W**2).mean())


@pytest.mark.parametrize("sign", [1, -1])
def test_units_that_receive_one_sign_keep_the_sizes_of_their_weights_and_none_have_zeros(sign):
    net = network()
    theta = net.init(seed=1, W_h=0.5)
    initial = Constraints(net, {"output.W_y0": np.zeros(H)}, {"layer0.W_h": [sign] * H}).initial(theta)
    assert not net.views(initial)["output.W_y0"].any()
    np.testing.assert_allclose(net.views(initial)["layer0.W_h"], sign * abs(net.views(theta)["layer0.W_h"]), rtol=1e-12)


@pytest.mark.parametrize(("density", "excitatory"), [(0.1, 0.8), (0.1, None)])
def test_the_spectral_radius_stays_near_that_of_the_initializer(density, excitatory):
    net = hfrnn.Network("rate", 3, 200, 2, activation="relu")
    theta = net.init(seed=1)
    constraints = Constraints(net, *drawn_constraints(net, density, excitatory))
    unbalanced = np.where(constraints.absent, 0, np.where(constraints.signs, abs(theta) * constraints.signs, theta))
    matrices = [net.views(each)["layer0.W_h"] for each in (theta, constraints.initial(theta), unbalanced)]
    before, after, other = (abs(np.linalg.eigvals(W / np.linalg.norm(W))).max() for W in matrices)
    assert 0.6 * before < after < 1.1 * before
    assert excitatory is None or other > 2 * after


def test_codes_and_pickles_give_the_same_constraints():
    net = network()
    first = Constraints(net, {"layer0.W_h": random_mask(H, H)}, {"layer0.W_h": [1, 1, 1, -1, 0]})
    for second in (Constraints.of_codes(net, first.codes), pickle.loads(pickle.dumps(first))):
        for name in ("codes", "absent", "signs"):
            np.testing.assert_array_equal(getattr(second, name), getattr(first, name))
        v = np.random.default_rng(0).standard_normal(net.n_parameters)
        np.testing.assert_array_equal(second.weights(v), first.weights(v))
    with pytest.raises(InputError, match=f"codes has other values than -1, 0, 1 and {ABSENT}"):
        Constraints.of_codes(net, first.codes + 2)


@pytest.mark.parametrize(("masks", "signs", "message"), [
    ({"layer0.W_g": 1}, {}, "masks has an array for 'layer0.W_g': this network has the parameters layer0.W_x, "),
    ({}, {"W_h": [1] * H}, "signs has an array for 'W_h': "),
    ({"layer0.W_h": np.ones((H, 4))}, {}, r"the mask of layer0.W_h has shape \(5, 4\) and type float64: give numb"),
    ({"layer0.W_h": np.full((H, H), "1")}, {}, "the mask of layer0.W_h has shape .* and type <U1"),
    ({"layer0.W_h": -np.eye(H)}, {}, "the mask of layer0.W_h has other values than 0, 1: "),
    ({}, {"layer0.W_h": [2, 0, 0, 0, 0]}, "the sign of layer0.W_h has other values than -1, 0, 1: "),
])  # fmt: skip
def test_wrong_masks_are_refused(masks, signs, message):
    with pytest.raises(InputError, match=message):
        Constraints(network(), masks, signs)


@pytest.mark.parametrize(
    ("arch", "names"),
    [
        ("rnn", ["W_h"]), ("gru", ["W_h", "W_hg"]), ("hornn-gated", ["W_h", "W_r"]),
        ("coupled-oscillator", ["W_h", "W_z"]),
    ],
)  # fmt: skip
def test_a_density_draws_one_connectivity_for_the_matrices_of_a_layer(arch, names):
    net = hfrnn.Network(arch, 3, (6, 4), 2)
    masks, signs = drawn_constraints(net, 0.25, seed=3)
    assert sorted(masks) == sorted(f"layer{l}.{name}" for l in (0, 1) for name in names)
    assert not signs
    for l, size in enumerate((6, 4)):
        (first, *others) = (masks[f"layer{l}.{name}"] for name in names)
        assert first.shape == (size, size)
        assert first.sum() == round(0.25 * size * size)
        assert all((first == other).all() for other in others)
    again, another = (drawn_constraints(net, 0.25, seed=seed)[0]["layer0.W_h"] for seed in (3, 4))
    np.testing.assert_array_equal(again, masks["layer0.W_h"])
    assert (another != again).any()


def test_no_connectivity_is_drawn_for_gates_that_are_no_units():
    for hidden, sublayers in ((6, 3), (4, 2), (9, 3)):  # W_hg is as wide as H, or not
        net = hfrnn.Network("gated-feedback", 3, hidden, 2, sublayers=sublayers)
        with pytest.raises(InputError, match=r"layer0\.W_hg of architecture 'gated-feedback' .*: give masks by name"):
            drawn_constraints(net, 0.25)


def test_excitatory_units_come_first_and_all_that_they_send_has_one_sign():
    net = hfrnn.Network("leaky", 3, (5, 4), 2, activation="relu")
    masks, signs = drawn_constraints(net, excitatory=0.6, excitatory_output=True)
    assert {name: value.tolist() for name, value in signs.items()} == {
        "layer0.W_h": [1, 1, 1, -1, -1], "layer1.W_below": [1, 1, 1, -1, -1], "output.W_y0": [1, 1, 1, -1, -1],
        "layer1.W_h": [1, 1, -1, -1], "output.W_y1": [1, 1, -1, -1],
    }  # fmt: skip
    assert {name: value.tolist() for name, value in masks.items()} == {
        "output.W_y0": [1, 1, 1, 0, 0], "output.W_y1": [1, 1, 0, 0],
    }  # fmt: skip
    assert not drawn_constraints(net, excitatory=0.6)[0]


@pytest.mark.parametrize(("arch", "options"), [("rnn", {}), ("rate", {"activation": "tanh"}), ("lstm", {})])
def test_a_share_of_excitatory_units_needs_units_that_are_never_negative(arch, options):
    with pytest.raises(InputError, match="Dale's law needs hidden units that are never negative"):
        drawn_constraints(network(arch, **options), excitatory=0.8)
