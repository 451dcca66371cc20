"""The flat vector, its views, and how parameters start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hfrnn
from hfrnn.arrays.initializers import constant, fixed_fan_in, normal, orthogonal, sparse_normal, with_spectral_radius
from hfrnn.arrays.parameters import ParameterLayout
from hfrnn.choices import INITIALIZERS


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@given(st.dictionaries(st.text("abc", min_size=1), st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1))
def test_views_cover_the_vector_once_in_order_without_copies(shapes):
    layout = ParameterLayout(shapes)
    flat = np.arange(float(layout.size))
    views = layout.views(flat)
    assert list(views) == list(shapes)
    assert {name: view.shape for name, view in views.items()} == shapes
    np.testing.assert_array_equal(np.concatenate([view.ravel() for view in views.values()]), flat)
    assert all(np.shares_memory(view, flat) for view in views.values())


def test_a_vector_of_the_wrong_length_is_refused_with_the_right_one():
    net = hfrnn.Network("rnn", n_in=3, hidden=4, n_out=3)
    n = net.n_parameters
    wrong = rf"theta has shape \({n - 1},\) and type float\d\d: give an array \({n},\) of "
    with pytest.raises(hfrnn.InputError, match=wrong):
        net.views(np.zeros(n - 1))


def test_constant_and_normal_and_sparse_normal():
    assert (constant(2.5)(rng(), (3, 2)) == 2.5).all()
    values = normal(0.3)(rng(), (200, 200))
    assert values.std() == pytest.approx(0.3, rel=0.01)
    assert abs(values.mean()) < 0.01
    values = sparse_normal(0.1)(rng(), (300, 300))
    assert np.mean(values != 0) == pytest.approx(0.1, abs=0.005)
    assert values[values != 0].std() == pytest.approx(0.1, rel=0.03)


@pytest.mark.parametrize("shape", [(40, 160), (50, 30), (3, 40, 40)])
def test_fixed_fan_in_has_15_entries_a_column(shape):
    values = fixed_fan_in()(rng(), shape)
    assert values.shape == shape
    assert (np.count_nonzero(values, axis=-2) == 15).all()
    assert values[values != 0].std() == pytest.approx(1.0, rel=0.1)
    assert (fixed_fan_in()(rng(), (6, 24)) != 0).all()  # of fewer rows all


@pytest.mark.parametrize("shape", [(40, 160), (3, 40, 40)])
def test_every_square_block_has_the_spectral_radius(shape):
    values = with_spectral_radius(fixed_fan_in()(rng(), shape), 1.1)
    for matrix in values.reshape(-1, *shape[-2:]):
        for block in np.split(matrix, shape[-1] // shape[-2], axis=1):
            assert np.abs(np.linalg.eigvals(block)).max() == pytest.approx(1.1, rel=1e-9)


@pytest.mark.slow
def test_a_large_block_has_the_spectral_radius_too():  # whose largest eigenvalues are close together
    values = with_spectral_radius(fixed_fan_in()(np.random.default_rng(2), (1100, 1100)), 1.1)
    assert np.abs(np.linalg.eigvals(values)).max() == pytest.approx(1.1, rel=1e-9)


def blocks(arch: str, seed: int = 0, **arguments: object) -> dict[str, np.ndarray]:
    net = hfrnn.Network(arch, n_in=80, hidden=60, n_out=80, dtype="float64", bias=True, output_bias=True)
    return net.views(net.init(seed, **arguments))


@pytest.mark.parametrize("arch", hfrnn.architectures())
@pytest.mark.parametrize("initializer", INITIALIZERS)
def test_the_same_seed_gives_the_same_bits_and_biases_start_at_0(arch, initializer):
    net = hfrnn.Network(arch, n_in=5, hidden=20, n_out=5, bias=True, output_bias=True)
    theta = net.init(3, initializer)
    assert theta.tobytes() == net.init(3, initializer).tobytes()
    assert (theta != net.init(4, initializer)).any()
    assert theta.dtype == np.float32
    assert (net.views(theta)["layer0.b"] == 0).all()
    assert (net.views(theta)["output.b_y"] == 0).all()


OWN_FIRST_WEIGHTS = ("rnn", "state-space", "low-rank")


@pytest.mark.parametrize("arch", [arch for arch in hfrnn.architectures() if arch not in OWN_FIRST_WEIGHTS])
def test_weights_start_with_deviation_a_tenth_or_in_mrnn_a_twentieth(arch):
    matrices = {name: view for name, view in blocks(arch).items() if view.ndim >= 2 and view.size > 1000}
    own = hfrnn.Network(arch, n_in=80, hidden=60, n_out=80).layers[0].kernel.parameter_shapes()
    assert {"layer0.W_x", "output.W_y0"} <= matrices.keys()
    assert len(matrices) >= (3 if own else 2)
    for view in matrices.values():
        assert view[view != 0].std() == pytest.approx(0.05 if arch == "mrnn" else 0.1, rel=0.05)


def test_the_recurrent_matrix_of_the_plain_rnn_starts_sparse():
    views = blocks("rnn")
    assert np.mean(views["layer0.W_h"] != 0) == pytest.approx(0.1, abs=0.02)
    assert views["layer0.W_x"].std() == pytest.approx(0.1, rel=0.05)
    assert (views["layer0.W_x"] != 0).all()


def test_sutskevers_initialiser_is_sparse_everywhere_and_scaled_where_recurrent():
    views = blocks("lstm", initializer="sutskever")
    for name in ("layer0.W_x", "layer0.W_h", "output.W_y0"):
        assert (np.count_nonzero(views[name], axis=0) == 15).all()
    for gate in np.split(views["layer0.W_h"], 4, axis=1):
        assert np.abs(np.linalg.eigvals(gate)).max() == pytest.approx(1.1, rel=1e-9)
    assert views["layer0.W_x"][views["layer0.W_x"] != 0].std() == pytest.approx(1.0, rel=0.05)


def test_sutskevers_initialiser_has_the_spectral_radius_asked_for():
    views = blocks("rnn", initializer="sutskever", spectral_radius=0.9, W_x=0.01)
    for arch in ("rnn", "clockwork"):  # whose slow modules do not read the fast ones
        W_h = blocks(arch, initializer="sutskever", spectral_radius=0.9)["layer0.W_h"]
        assert np.abs(np.linalg.eigvals(W_h)).max() == pytest.approx(0.9, rel=1e-9)
    assert views["layer0.W_x"].std() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_orthogonal_matrices_have_the_distribution_of_haar(n: int) -> None:
    draws, generator = 2000, rng()
    Q = np.stack([orthogonal()(generator, (n, n)) for _ in range(draws)])
    np.testing.assert_allclose(Q @ Q.swapaxes(1, 2), np.broadcast_to(np.eye(n), Q.shape), atol=1e-14)
    traces, bound = Q.trace(axis1=1, axis2=2), 4 / np.sqrt(draws)  # QR alone has one determinant, and traces below 0
    assert (np.linalg.det(Q) > 0).mean() == pytest.approx(0.5, abs=bound / 2)
    assert traces.mean() == pytest.approx(0, abs=bound)
    assert (traces**2).mean() == pytest.approx(1, abs=2 * bound)
    assert (n * Q**2).mean(axis=0) == pytest.approx(np.ones((n, n)), abs=2 * bound)


def test_square_recurrent_blocks_start_orthogonal_and_the_rest_as_in_the_papers() -> None:
    gates = {"lstm": {"W_h": 4}, "gru": {"W_h": 2, "W_hg": 1}, "hornn": {"W_h": 1}, "mlstm": {"W_m": 4}}
    for arch, blocks_of in gates.items():
        views = blocks(arch, initializer="orthogonal", scale=0.3)
        for name, number in blocks_of.items():
            for gate in np.split(views[f"layer0.{name}"], number, axis=-1):
                identity = np.broadcast_to(np.eye(60), gate.shape)
                np.testing.assert_allclose(gate.swapaxes(-1, -2) @ gate, identity, atol=1e-13)
        assert views["layer0.W_x"].std() == pytest.approx(0.3, rel=0.05)
    views = blocks("low-rank", initializer="orthogonal")
    assert views["layer0.M"].std() == pytest.approx(1, rel=0.2)  # (2, 60): no square block
    assert blocks("low-rank", initializer="orthogonal", M=0.1)["layer0.M"].std() == pytest.approx(0.1, rel=0.2)


def test_gates_of_layers_are_no_square_block_of_units() -> None:
    net = hfrnn.Network("gated-feedback", 3, 4, 3, sublayers=2, dtype="float64")  # W_hg is (4, 4)
    W_hg = net.views(net.init(initializer="orthogonal"))["layer0.W_hg"]
    assert np.abs(W_hg.T @ W_hg - np.eye(4)).max() > 0.5
    W_hg = net.views(net.init(initializer="sutskever", spectral_radius=1e-3))["layer0.W_hg"]
    assert np.abs(np.linalg.eigvals(W_hg)).max() > 0.1


def test_scales_are_by_block_name_or_for_all_that_is_no_bias():
    views = blocks("lstm", W_x=0.01, b=0.5, scale=0.2)
    expected = {"layer0.W_x": 0.01, "layer0.b": 0.5, "layer0.W_h": 0.2, "output.W_y0": 0.2, "output.b_y": 0.0}
    assert views.keys() == expected.keys()
    for name, scale in expected.items():
        assert views[name].std() == pytest.approx(scale, rel=0.15)


def test_unknown_initialisers_and_blocks_are_refused():
    net = hfrnn.Network("rnn", n_in=3, hidden=4, n_out=3)
    with pytest.raises(hfrnn.InputError, match="initializer is 'xavier': use one of papers, sutskever, orthogonal"):
        net.init(initializer="xavier")
    with pytest.raises(hfrnn.InputError, match="no block is named W_z: this network has W_h, W_x, W_y0, b"):
        net.init(W_z=0.1)
