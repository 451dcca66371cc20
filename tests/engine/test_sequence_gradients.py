"""Derivatives of each sequence or part of a batch, against objectives on it, and the matrix blocks of a network."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine_cases import VARIANTS, cases, moved, vectors
from support.fake_device import FakeBackend
from support.pairwise import each_once, label, tried

import hfrnn
from hfrnn.engine.plan import Keep, Plan, equal_boundaries
from hfrnn.engine.sequence_gradients import runs_of_parts
from hfrnn.errors import InputError

chosen = {"stack", "embedding", "learned-state", "many-symbols", "class-softmax", "output-weights", *VARIANTS}


@pytest.mark.parametrize("case", tried(of=[case for case in cases() if case.situation in chosen]), ids=label)
def test_rows_are_the_gradients_of_objectives_on_one_sequence(case):
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net, batch)
    rows = objective.per_sequence_gradients(theta)
    assert rows.shape == (batch.B, net.n_parameters)
    weights = objective.batch.step_weights(net.backend).sum(axis=0)
    for b in range(batch.B):
        expected = np.zeros(net.n_parameters)
        if weights[b]:
            alone = hfrnn.Objective(net, batch.columns(b, b + 1))
            expected = weights[b] * (alone.loss_and_gradient(theta)[1] - net.l2 * theta)
        for name, part in net.views(rows[b]).items():
            np.testing.assert_allclose(part, net.views(expected)[name], rtol=1e-10, atol=1e-13, err_msg=name)


@pytest.mark.parametrize(
    "case", tried(of=[case for case in cases() if case.situation in {"stack", *VARIANTS}]), ids=label
)
def test_compiled_kernels_give_the_rows_of_the_reference(case):
    pytest.importorskip("numba")
    batch = case.data()
    theta = vectors(case.net(), batch)[0]
    nets = (case.net(backend=backend) for backend in ("numba", "numpy"))
    found, expected = (hfrnn.Objective(net, batch).per_sequence_gradients(theta) for net in nets)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("case", cases("stack"), ids=label)
def test_rows_on_a_device_are_those_of_the_host(case):
    fake, batch = FakeBackend(), case.data()
    theta = vectors(case.net(), batch)[0]
    expected = hfrnn.Objective(case.net(), batch, threads=1).per_sequence_gradients(theta)
    device = hfrnn.Objective(case.net(backend=fake), moved(batch, fake))
    found = fake.to_host(device.per_sequence_gradients(fake.asarray(theta)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("keep", Keep)
def test_rows_do_not_depend_on_the_plan_or_the_threads(keep):
    case = cases("stack")[0]
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    expected = hfrnn.Objective(net, batch).per_sequence_gradients(theta)
    plan = Plan((0, 2, 3, 5), 3, keep)
    one, three = (hfrnn.Objective(net, batch, threads=n, plan=plan).per_sequence_gradients(theta) for n in (1, 3))
    np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(one, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("case", "keep"), each_once(Keep, of=cases("stack", "carried", "class-softmax")), ids=label)
def test_products_with_the_transposed_jacobian_of_sequences_add_up_to_the_whole(case, keep):
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    plan = Plan((0, 2, batch.B), 3, keep)
    objective = hfrnn.Objective(net, batch, plan=plan)
    jacobian, whole = objective.sequence_jacobian(theta), objective.jacobian(theta)
    u = np.random.default_rng(1).standard_normal(jacobian.shape)
    for _ in range(2):
        rows = jacobian.transpose_products(u)
        for b in range(batch.B):
            alone = np.zeros_like(u)
            alone[:, b] = u[:, b]
            np.testing.assert_allclose(rows[b], whole.rmatvec(alone.reshape(-1)), rtol=1e-10, atol=1e-13)


def test_the_result_may_overwrite_the_arguments():
    net = hfrnn.Network("rnn", 3, 4, 2, loss="squared", dtype="float64")
    rng = np.random.default_rng(0)
    batch, theta = hfrnn.Batch(rng.standard_normal((5, 2, 3)), rng.standard_normal((5, 2, 2))), net.init(0)
    objective = hfrnn.Objective(net, batch)
    rows = np.tile(theta, (2, 1))
    expected = objective.per_sequence_gradients(theta)
    assert objective.per_sequence_gradients(rows[0], out=rows) is rows
    np.testing.assert_array_equal(rows, expected)
    with pytest.raises(InputError, match="give an array of shape"):
        objective.per_sequence_gradients(theta, rows[:-1])
    jacobian = objective.sequence_jacobian(theta)
    memory = rng.standard_normal(2 * net.n_parameters)
    u = memory[:20].reshape(5, 2, 2)
    expected = jacobian.transpose_products(u.copy())
    np.testing.assert_array_equal(jacobian.transpose_products(u, out=memory.reshape(2, -1)), expected)


@pytest.mark.parametrize("case", each_once(of=cases("stack", "carried", "class-softmax", "squared")), ids=label)
def test_gradients_of_parts_are_those_of_their_own_objectives(case):
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    objective = hfrnn.Objective(net, batch)
    weights = objective.batch.step_weights(net.backend)
    for parts in (1, 2, batch.B, 100):
        found = objective.part_gradients(theta, parts)
        edges = equal_boundaries(batch.B, len(found))
        assert len(found) == min(parts, batch.B)
        for row, start, stop in zip(found, edges[:-1], edges[1:], strict=True):
            weight = weights[:, start:stop].sum()
            if weight:
                alone = hfrnn.Objective(net, batch.columns(start, stop)).loss_and_gradient(theta)[1] - net.l2 * theta
                np.testing.assert_allclose(
                    row, weight / np.sqrt(weights.sum()) * alone, rtol=1e-9, atol=1e-12 * np.abs(found).max()
                )
    single = objective.part_gradients(theta, batch.B)
    np.testing.assert_allclose((single**2).sum(0), objective.squared_gradients(theta), rtol=1e-9, atol=1e-15)


def test_gradients_of_parts_do_not_depend_on_the_threads():
    case = cases("stack")[0]
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    for shards in ((0, 1, 2, 3, 4, 5), (0, 3, 5), (0, 5)):
        plan = Plan(shards, 3, Keep.ALL)
        one, three = (hfrnn.Objective(net, batch, threads=n, plan=plan).part_gradients(theta, 4) for n in (1, 3))
        np.testing.assert_array_equal(one, three)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 70))
def test_parts_that_run_together_are_alike_and_fit(B, parts, most):
    parts = min(parts, B)
    edges = equal_boundaries(B, parts)
    sizes = np.diff(edges)
    assert (edges[0], edges[-1], len(sizes)) == (0, B, parts)
    assert sizes.max() - sizes.min() <= 1
    runs = runs_of_parts(edges, most)
    assert [first for first, _ in runs] == [0, *(after for _, after in runs[:-1])]
    assert runs[-1][1] == parts
    for first, after in runs:
        assert len(set(sizes[first:after])) == 1
        assert after == first + 1 or edges[after] - edges[first] <= most


@pytest.mark.parametrize("case", tried(), ids=label)
def test_the_blocks_of_a_network_cover_its_parameters(case):
    net = case.net()
    entries = np.zeros(net.n_parameters)
    for block in net.matrix_blocks:
        entries[block.span] += 1
    assert (entries == 1).all()
    theta = vectors(net, case.data())[0]
    views = {name: view for name, view in net.views(theta).items() if view.size}
    for block, (name, view) in zip(net.matrix_blocks, views.items(), strict=True):
        rows = theta[block.span].reshape(block.rows, block.columns)
        expected = view.reshape(-1, view.shape[-1]) if view.flags.c_contiguous else view.T
        np.testing.assert_array_equal(rows, expected, err_msg=name)


@pytest.mark.parametrize(("arch", "gates"), [
    ("rnn", {"W_x": 1, "W_h": 1, "b": 1}), ("mlstm", {"W_x": 5, "W_hm": 1, "W_m": 4, "b": 4}),
    ("gru", {"W_x": 3, "W_h": 2, "W_hg": 1, "b": 3}), ("scrn", {"W_x": 1, "W_h": 1, "W_s": 1}),
])  # fmt: skip
def test_gates_are_as_wide_as_the_layer(arch, gates):
    net = hfrnn.Network(arch, n_in=7, hidden=6, n_out=12)
    names = [block.name for block in net.parameters.blocks if block.size]
    found = {name: block.gates for name, block in zip(names, net.matrix_blocks, strict=True)}
    assert {name: number for name, number in found.items() if name.startswith("output")}.keys() >= {"output.W_y0"}
    for name, number in found.items():
        assert number == (gates[name.removeprefix("layer0.")] if name.startswith("layer") else 1), name
