"""Bounds of the weights into each unit: which weights count as one vector, names, and wrong names."""

import re
from typing import Any

import numpy as np
import pytest
from support.fake_device import FakeBackend

import hfrnn
from hfrnn.engine.max_norm import MaxNorm
from hfrnn.engine.network import Network
from hfrnn.errors import InputError

C = 0.7


def made(arch: str = "rnn", **options: Any) -> tuple[Network, Any]:
    net = Network(arch, 7, options.pop("hidden", 5), 6, dtype="float64", **options)
    return net, np.random.default_rng(3).standard_normal(net.n_parameters) * 0.35


def imposed(net: Network, theta: Any, bound: Any) -> Any:
    """The views of the weights with a bound; nothing else of theta may be written."""
    held = theta.copy()
    MaxNorm(net, bound).impose(held)
    return net.views(held)


def shortened(W: Any, bound: float, axes: Any) -> Any:
    """N1, the slow way: vectors along `axes` of an array, each cut to the bound."""
    length = np.sqrt((W**2).sum(axis=axes, keepdims=True))
    short = length > bound
    assert 0 < short.sum() < short.size
    return np.where(short, W * (bound / length), W)


def test_a_number_bounds_the_weights_into_a_unit_as_one_vector():
    net, theta = made("hornn", order=2)
    views, held = net.views(theta), imposed(net, theta, 2 * C)
    joint = np.concatenate([views["layer0.W_x"], *views["layer0.W_h"]])
    expected = shortened(joint, 2 * C, 0)
    np.testing.assert_allclose(held["layer0.W_x"], expected[:7], rtol=1e-14)
    np.testing.assert_allclose(held["layer0.W_h"].reshape(10, 5), expected[7:], rtol=1e-14)


def test_a_named_matrix_is_bounded_alone_and_every_order_of_a_hornn_by_itself():
    net, theta = made("hornn", order=3)
    views, held = net.views(theta), imposed(net, theta, {"layer0.W_h": C})
    expected = shortened(views["layer0.W_h"], C, 1)  # (N, H, H): over the inputs of each order
    np.testing.assert_allclose(held["layer0.W_h"], expected, rtol=1e-14)
    for name in views.keys() - {"layer0.W_h"}:
        np.testing.assert_array_equal(held[name], views[name])


@pytest.mark.parametrize("bound", [C, {"embedding.E": C}])
def test_the_vectors_of_an_embedding_are_its_rows(bound):
    net, theta = made(embedding=4)
    expected = shortened(net.views(theta)["embedding.E"], C, 1)
    np.testing.assert_allclose(imposed(net, theta, bound)["embedding.E"], expected, rtol=1e-14)


H = 5
INTO_UNITS: dict[str, list[list[tuple[str, Any]]]] = {  # arch: matrices with H columns each that feed the same units
    "gru": [
        [("W_x", np.s_[:, :H]), ("W_h", np.s_[:, :H])], [("W_x", np.s_[:, H : 2 * H]), ("W_h", np.s_[:, H:])],
        [("W_x", np.s_[:, 2 * H :]), ("W_hg", ...)],
    ],
    "mrnn": [[("W_x", np.s_[:, :H]), ("W_mh", ...)], [("W_x", np.s_[:, H:])], [("W_hm", ...)]],
    "mlstm": [
        *([("W_x", np.s_[:, k : k + H]), ("W_m", np.s_[:, k : k + H])] for k in range(0, 4 * H, H)),
        [("W_x", np.s_[:, 4 * H :])], [("W_hm", ...)],
    ],
    "hornn-gated": [
        [("W_x", np.s_[:, :H]), *(("W_h", n) for n in range(3))],
        *([("W_x", np.s_[:, n * H + H : n * H + 2 * H]), ("W_r", n)] for n in range(3)),
    ],
    "fnn": [[("W_x", np.s_[:, k : k + H]) for k in range(0, 3 * H, H)]],
    "scrn": [[("W_x", np.s_[:, :H]), ("W_h", ...), ("W_s", ...)], [("W_x", np.s_[:, H:])]],
    "state-space": [
        [("W_x", np.s_[:, :H]), ("A", ...), ("W_3", ...)], [("W_x", np.s_[:, H:]), ("W_1", ...)],
    ],
}  # fmt: skip


@pytest.mark.parametrize("arch", INTO_UNITS)
def test_a_number_bounds_the_weights_into_each_gate(arch):
    net, theta = made(arch, hidden=H)
    views, held = net.views(theta), imposed(net, theta, 2 * C)
    for group in INTO_UNITS[arch]:
        before, after = ([all_of[f"layer0.{name}"][at] for name, at in group] for all_of in (views, held))
        factor = np.minimum(1.0, 2 * C / np.linalg.norm(np.concatenate(before), axis=0))
        for W, new in zip(before, after, strict=True):
            np.testing.assert_allclose(new, W * factor, rtol=1e-14)
    assert not np.array_equal(held["layer0.W_x"], views["layer0.W_x"])


def test_outputs_and_as_many_classes_do_not_count_together():
    net, theta = made(loss="class-softmax", classes=6)
    views, held = net.views(theta), imposed(net, theta, C)
    for name in ("output.W_y0", "output.W_class0"):
        np.testing.assert_allclose(held[name], shortened(views[name], C, 0), rtol=1e-14)


def test_matrices_into_different_units_do_not_count_together():
    net, theta = made("gated-feedback", hidden=6)
    views, held = net.views(theta), imposed(net, theta, C)
    assert views["layer0.W_up"].shape == (2, 2, 5)  # a matrix for each layer inside, as wide as W_x
    for name, axis in (("layer0.W_up", 1), ("layer0.W_x", 0)):
        factor = np.minimum(1.0, C / np.linalg.norm(views[name], axis=axis, keepdims=True))
        np.testing.assert_allclose(held[name], views[name] * factor, rtol=1e-14)
        assert (factor < 1).sum() > 0


def test_an_output_that_hears_several_layers_has_one_vector_for_each_of_its_units():
    net, theta = made(hidden=(5, 4))
    views, held = net.views(theta), imposed(net, theta, 1.5 * C)
    joint = shortened(np.concatenate([views["output.W_y0"], views["output.W_y1"]]), 1.5 * C, 0)
    np.testing.assert_allclose(np.concatenate([held["output.W_y0"], held["output.W_y1"]]), joint, rtol=1e-14)


def test_a_star_stands_for_any_characters_and_later_names_replace_earlier_ones():
    net, theta = made(hidden=(5, 4))
    views, held = net.views(theta), imposed(net, theta, {"*": C, "layer1.*": 1.5 * C, "output.W_y1": 99.0})
    bounds = {name: C if name.startswith(("layer0", "output")) else 1.5 * C for name, W in views.items() if W.ndim > 1}
    assert len(bounds) == 7
    for name, bound in (bounds | {"output.W_y1": 99.0}).items():
        factor = np.minimum(1.0, bound / np.linalg.norm(views[name], axis=0))
        np.testing.assert_allclose(held[name], views[name] * factor, rtol=1e-14)


@pytest.mark.parametrize("bound", [1e-3, {"*": 1e-3}])
def test_vectors_have_no_bound(bound):
    net, theta = made("scrn", context=3, learn_alpha=True, learn_initial_state=True, output_bias=True)
    views, held = net.views(theta), imposed(net, theta, bound)
    vectors = [name for name, W in views.items() if W.ndim == 1]
    assert len(vectors) >= 4
    for name in vectors:
        np.testing.assert_array_equal(held[name], views[name])


@pytest.mark.parametrize("bound", [C, {"*": C}])
def test_bounds_on_a_strict_device_have_the_bits_of_numpy(bound):
    device = FakeBackend()
    net, theta = made("hornn", order=2, embedding=3)
    twin = Network("hornn", 7, 5, 6, dtype="float64", order=2, embedding=3, backend=device)
    there = device.asarray(theta.copy())
    MaxNorm(twin, bound).impose(there)
    MaxNorm(net, bound).impose(theta)
    np.testing.assert_array_equal(device.to_host(there), theta)


@pytest.mark.parametrize(("bound", "message"), [
    (0.0, "bound is 0:"), ({}, "bound has no names: give numbers for some of layer0.W_x, layer0.W_h, output.W_y0"),
    ({"layer0.W_r": 1.0}, "a norm bound is given for 'layer0.W_r' (did you mean layer0.W_"),
    ({"layer1.*": 1.0}, "which is not a matrix of this network: use layer0.W_x, layer0.W_h, output.W_y0"),
    ({3: 1.0}, "a norm bound is given for 3"), ({"*": 0.0}, "bound of * is 0:"),
])  # fmt: skip
def test_a_wrong_bound_or_name_is_refused(bound, message):
    with pytest.raises(InputError, match=re.escape(message)):
        MaxNorm(hfrnn.Network("rnn", 3, 4, 3, bias=True), bound)
