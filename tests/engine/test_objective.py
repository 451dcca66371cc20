"""What the objective promises beside the right numbers: no dependence on how it is computed, no side effects."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
from support.engine_cases import Case, assert_same, cases, everything, plans, replace, vectors

import hfrnn
from hfrnn.engine.plan import Keep, Plan, shard_boundaries
from hfrnn.engine.planner import make_plan

some = cases("stack", "chain", "embedding", "carried", "logistic")
every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
each = pytest.mark.parametrize("case", some, ids=lambda case: case.id)


def small(dtype: str = "float64", arch: str = "mlstm", **arguments: Any) -> tuple[hfrnn.Network, hfrnn.Batch, Any]:
    """A network, a batch and parameters."""
    net = hfrnn.Network(arch, n_in=5, hidden=6, n_out=5, dtype=dtype, **arguments)
    rng = np.random.default_rng(0)
    batch = hfrnn.Batch(rng.integers(5, size=(9, 4)), rng.integers(5, size=(9, 4)))
    return net, batch, net.init(seed=1, scale=0.5)


# ---------------------------------------------------------------------- how it is computed does not matter


@every_case
def test_results_do_not_depend_on_what_is_kept(case: Case) -> None:
    batch = case.data()
    expected = everything(case.net(), batch, *vectors(case.net(), batch))
    for name, plan in plans(batch.T, batch.B).items():
        actual = everything(case.net(), batch, *vectors(case.net(), batch), plan=plan)
        assert_same(actual, expected, rtol=1e-12, names=expected)
        assert name in ("all", "nothing") or case.batch.get("T") == 1 or (actual["gradient"] != 0).any()


@each
@pytest.mark.parametrize("checkpoint", [1, 3, "sqrt", "auto", 100])
def test_results_do_not_depend_on_the_checkpoints(case: Case, checkpoint: Any) -> None:
    batch = case.data()  # 7 steps: neither 3 nor ceil(sqrt(7)) divides them
    expected = everything(case.net(), batch, *vectors(case.net(), batch), checkpoint=None)
    actual = everything(case.net(), batch, *vectors(case.net(), batch), checkpoint=checkpoint)
    assert_same(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("case", cases("stack", "embedding"), ids=lambda case: case.id)
@pytest.mark.parametrize(
    ("keep", "dtype"), [(Keep.ALL, "float32"), (Keep.NOTHING, "float32"), (Keep.STATES, "float64")]
)
def test_any_number_of_threads_gives_the_same_bits(case: Case, keep: Keep, dtype: str) -> None:
    net, batch = case.net(dtype=dtype), case.data()
    plan = Plan((0, 1, 2, 3, 4, 5), 3, keep)
    one, two, five = (everything(net, batch, *vectors(net, batch), plan=plan, threads=threads) for threads in (1, 2, 5))
    assert_same(two, one)
    assert_same(five, one)


@each
@pytest.mark.parametrize("shards", [(0, 5), (0, 2, 5), (0, 1, 2, 3, 4, 5)])
def test_results_do_not_depend_on_the_shards(case: Case, shards: tuple[int, ...]) -> None:
    batch = case.data()
    expected = everything(case.net(), batch, *vectors(case.net(), batch), checkpoint=None)
    actual = everything(case.net(), batch, *vectors(case.net(), batch), plan=Plan(shards, None, Keep.ALL), threads=2)
    assert_same(actual, expected, rtol=1e-12)


@every_case
def test_the_network_alone_gives_the_same_as_its_objective(case: Case) -> None:
    net, batch = case.net(), case.data()
    theta, v, u = vectors(net, batch)
    f = hfrnn.Objective(net, batch, plan=Plan((0, batch.B), None, Keep.ALL))
    assert net.loss(theta, batch) == f.loss(theta)
    loss, gradient = net.loss_and_gradient(theta, batch)
    assert loss == f.loss_and_gradient(theta)[0] == pytest.approx(f.loss(theta), rel=1e-13)
    np.testing.assert_array_equal(gradient, f.loss_and_gradient(theta)[1])
    products = [
        (net.gauss_newton(theta, batch, 0.3, 0.2), f.gauss_newton(theta, structural=0.3, tikhonov=0.2)),
        (net.hessian(theta, batch), f.hessian(theta)),
        (net.jacobian(theta, batch), f.jacobian(theta)),
    ]
    for mine, theirs in products:
        np.testing.assert_array_equal(mine @ v, theirs @ v)
    np.testing.assert_array_equal(products[2][0].rmatvec(u), products[2][1].rmatvec(u))


@every_case
def test_float32_agrees_with_float64(case: Case) -> None:
    batch = case.data()
    theta, v, u = (x.astype("float32") for x in vectors(case.net(), batch))
    expected = everything(case.net(), batch, theta, v, u)
    actual = everything(case.net(dtype="float32"), batch, theta, v, u)
    assert_same(actual, expected, rtol=1e-4)
    for name in ("gradient", "G", "J v", "J' u", "logits"):
        assert actual[name].dtype == np.float32
        assert expected[name].dtype == actual["H"].dtype == np.float64


def test_l2_adds_to_loss_gradient_and_curvature() -> None:
    net, batch, theta = small()
    damped = small(l2=0.3)[0]
    v = np.random.default_rng(2).standard_normal(net.n_parameters)
    assert damped.loss(theta, batch) == pytest.approx(net.loss(theta, batch) + 0.15 * theta @ theta, rel=1e-14)
    for mine, plain, extra in (
        (damped.loss_and_gradient(theta, batch)[1], net.loss_and_gradient(theta, batch)[1], theta),
        (damped.gauss_newton(theta, batch) @ v, net.gauss_newton(theta, batch) @ v, v),
        (damped.hessian(theta, batch) @ v, net.hessian(theta, batch) @ v, v),
        (damped.gauss_newton(theta, batch, 0.2, 0.7) @ v, net.gauss_newton(theta, batch, 0.2, 0.7) @ v, v),
    ):
        np.testing.assert_allclose(mine, plain + 0.3 * extra, rtol=1e-12, atol=1e-15)


# ---------------------------------------------------------------------- fresh results, untouched inputs


@each
@pytest.mark.parametrize("keep", list(Keep))
def test_operators_stay_right_whatever_is_computed_next(case: Case, keep: Keep) -> None:
    net, batch = case.net(), case.data()
    theta, v, u = vectors(net, batch)
    other = vectors(net, batch, seed=9)[0]
    f = hfrnn.Objective(net, batch, plan=Plan((0, 2, 5), 3, keep), threads=1)
    G, J, H = f.gauss_newton(theta, structural=0.7), f.jacobian(theta), f.hessian(theta)
    expected = [G @ v, J @ v, J.rmatvec(u), H @ v]
    theta[...] = np.nan  # the caller's array is the caller's
    f.gauss_newton(other) @ v
    f.jacobian(other).rmatvec(u)
    f.loss_and_gradient(other)
    f.loss(other)
    for actual, wanted in zip([G @ v, J @ v, J.rmatvec(u), H @ v], expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@each
def test_results_are_fresh_arrays(case: Case) -> None:
    net, batch = case.net(), case.data()
    theta, v, _ = vectors(net, batch)
    f = hfrnn.Objective(net, batch)
    G = f.gauss_newton(theta)
    calls = [lambda: f.loss_and_gradient(theta)[1], lambda: G @ v, lambda: net.run(theta, batch)[0], lambda: net.init()]
    for call in calls:
        first = call()
        copy = first.copy()
        assert not np.shares_memory(first, call())
        first[...] = np.nan
        np.testing.assert_array_equal(call(), copy)


@every_case
def test_inputs_are_never_written(case: Case) -> None:
    net, batch = case.net(), case.data()
    arrays = [*vectors(net, batch), batch.inputs, batch.targets, batch.weights, batch.lengths]
    arrays += [value for layer in batch.initial_state or [] for value in layer.values() if not isinstance(value, int)]
    arrays = [x for x in arrays if x is not None]
    for x in arrays:
        x.flags.writeable = False
    for plan in ("all-3", "nothing-3"):
        everything(net, batch, *arrays[:3], plan=plans(batch.T, batch.B)[plan])


def test_apply_writes_into_the_given_array_and_returns_it() -> None:
    net, batch, theta = small()
    G, v = net.gauss_newton(theta, batch, 0.1, 0.2), theta[::-1].copy()
    out = np.full(net.n_parameters, np.nan)
    assert G.apply(v, out) is out
    np.testing.assert_array_equal(out, G @ v)


@pytest.mark.parametrize(
    ("keep", "loss"), [(Keep.ALL, "softmax"), (Keep.ALL, "squared"), (Keep.ALL, "logistic"), (Keep.NOTHING, "softmax")]
)
@pytest.mark.parametrize("arch", hfrnn.architectures())
def test_a_second_apply_allocates_neither_a_vector_nor_states(arch: str, keep: Keep, loss: str) -> None:
    """What remains is NumPy's own (at most 114 kB measured here) beside sums over outputs."""
    rng = np.random.default_rng(0)
    T, B, H, V = 24, 16, 128, 80
    net = hfrnn.Network(arch, n_in=V, hidden=H, n_out=V, loss=loss)
    targets = rng.integers(V, size=(T, B)) if loss == "softmax" else rng.random((T, B, V))
    batch = hfrnn.Batch(rng.integers(V, size=(T, B)), targets)
    f = hfrnn.Objective(net, batch, threads=1, plan=Plan((0, 8, B), 8, keep))
    G = f.gauss_newton(net.init(), structural=0.5, tikhonov=0.1)
    v, out = net.init(seed=2), net.init()
    for _ in range(2):
        G.apply(v, out)
    gc.collect()
    tracemalloc.start()
    try:
        G.apply(v, out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * v.nbytes
    assert peak < 0.7 * 4 * T * B * H


# ---------------------------------------------------------------------- the operators in solvers


def positive(arch: str = "mrnn") -> tuple[Any, Any]:
    net, batch, theta = small(arch=arch)
    f = hfrnn.Objective(net, batch)
    return f.gauss_newton(theta, structural=0.1, tikhonov=0.5), f.loss_and_gradient(theta)[1]


@pytest.mark.parametrize("solver", [scipy.sparse.linalg.cg, scipy.sparse.linalg.minres])
def test_scipys_solvers_take_the_operator(solver: Any) -> None:
    G, gradient = positive()
    step, status = solver(G, -gradient, rtol=1e-10, maxiter=2000)
    assert status == 0
    assert np.linalg.norm(G @ step + gradient) < 1e-8 * np.linalg.norm(gradient)


def test_scipys_eigsh_takes_the_operator() -> None:
    G, _ = positive()
    value, vector = scipy.sparse.linalg.eigsh(G, k=1, which="LA")
    np.testing.assert_allclose(G @ vector[:, 0], value[0] * vector[:, 0], atol=1e-9 * value[0])
    assert value[0] == pytest.approx(np.linalg.eigvalsh(G @ np.eye(G.shape[0])).max(), rel=1e-9)


def test_operators_are_scipys_with_shape_and_type() -> None:
    net, batch, theta = small("float32")
    n = net.n_parameters
    operators = [(net.gauss_newton(theta, batch), (n, n), "float32"), (net.hessian(theta, batch), (n, n), "float64")]
    operators += [(net.jacobian(theta, batch), (9 * 4 * 5, n), "float32")]
    for operator, shape, dtype in operators:
        assert isinstance(operator, scipy.sparse.linalg.LinearOperator)
        assert operator.shape == shape
        assert operator.dtype == dtype
        assert operator.T.shape == shape[::-1]
    assert (operators[0][0] @ np.ones((n, 2), "float32")).shape == (n, 2)


# ---------------------------------------------------------------------- plans


def test_shards_are_equal_and_at_most_128_sequences() -> None:
    for B in (1, 2, 15, 16, 17, 128, 129, 256, 257, 1000):
        edges = shard_boundaries(B)
        sizes = np.diff(edges)
        assert (edges[0], edges[-1]) == (0, B)
        assert sizes.max() <= 128
        assert sizes.max() - sizes.min() <= 1
        assert len(sizes) >= (2 if B >= 16 else 1)


def test_the_plan_depends_on_sizes_and_budget_only() -> None:
    net = small()[0]
    for arguments in ((None, None), ("sqrt", None), (7, None), ("auto", None), ("auto", 10**8)):
        assert make_plan(net, 30, 8, *arguments) == make_plan(small()[0], 30, 8, *arguments)
    assert make_plan(net, 30, 8, None).keep is make_plan(net, 30, 8, "auto").keep is Keep.ALL
    for checkpoint, K in (("sqrt", 6), (7, 7)):
        plan = make_plan(net, 30, 8, checkpoint)
        assert (plan.keep, plan.segment) == (Keep.NOTHING, K)


def least_budget(net: hfrnn.Network, batch: hfrnn.Batch) -> int:
    """A budget, in bytes, that is enough, while four fifths of it are not."""
    budget = 1000
    while True:
        try:
            hfrnn.Objective(net, batch, memory=budget)
        except hfrnn.InputError:
            budget = budget * 5 // 4
        else:
            return budget


@pytest.mark.parametrize("case", cases("stack", "chain", "embedding"), ids=lambda case: case.id)
def test_a_tight_budget_changes_the_plan_and_not_the_results(case: Case) -> None:
    net, batch = case.net(), replace(case.data(), lengths=None, weights=None)
    expected = everything(net, batch, *vectors(net, batch), checkpoint=None)
    least, kept = least_budget(net, batch), []
    for budget in (least, 3 * least, 30 * least):
        kept.append(hfrnn.Objective(net, batch, memory=budget).plan.keep)
        assert_same(everything(net, batch, *vectors(net, batch), memory=budget), expected, rtol=1e-12)
    assert kept[0] is Keep.NOTHING
    assert kept[-1] is Keep.ALL


def test_a_budget_that_nothing_fits_is_refused() -> None:
    net, batch, _ = small()
    with pytest.raises(hfrnn.InputError) as caught:
        hfrnn.Objective(net, batch, memory=10)
    assert "4 sequences of 9 steps need at least " in str(caught.value)
    assert "MiB, and the budget is 0.0 MiB: give more memory, fewer or shorter sequences, or a" in str(caught.value)


def test_an_objective_keeps_its_plan() -> None:
    net, batch, _ = small()
    plan = Plan((0, 1, 4), 2, Keep.STATES)
    assert hfrnn.Objective(net, batch, plan=plan).plan is plan
    assert hfrnn.Objective(net, batch, checkpoint=4).plan.segment == 4


# ---------------------------------------------------------------------- errors


REFUSED: dict[str, tuple[Any, str]] = {
    "negative structural": (
        lambda f, theta: f.gauss_newton(theta, -1.0),
        "structural is -1.0: give a number, 0 or more",
    ),
    "infinite tikhonov": (
        lambda f, theta: f.gauss_newton(theta, 0, np.inf),
        "tikhonov is inf: give a number, 0 or more",
    ),
    "nan tikhonov": (lambda f, theta: f.gauss_newton(theta, tikhonov=np.nan), "tikhonov is nan: give a number"),
    "metric": (
        lambda f, theta: f.gauss_newton(theta, metric="cell"),
        "metric 'cell' is not known: use hidden, matching or preactivation",
    ),
    "foreign metric": (
        lambda f, theta: f.gauss_newton(theta, 1.0, metric="matching"),
        "architecture 'lstm' has no metric 'matching': use hidden",
    ),
    "checkpoint 0": (lambda f, _: again(f, checkpoint=0), 'checkpoint is 0: use None, "sqrt", "auto" or a number'),
    "checkpoint name": (lambda f, _: again(f, checkpoint="all"), "checkpoint is 'all': use None"),
    "checkpoint True": (lambda f, _: again(f, checkpoint=True), "checkpoint is True: use None"),
    "memory": (lambda f, _: again(f, memory=0), "memory is 0: give a budget in bytes, more than 0"),
    "threads": (lambda f, _: again(f, threads=0), "threads is 0: give a whole number, 1 or more"),
    "no targets": (lambda f, _: again(f, targets=None), "the batch has no targets: a loss needs them"),
    "no weight": (
        lambda f, _: again(f, weights=np.zeros((9, 4))),
        "the weights of the batch sum to 0: give at least one step a weight above 0",
    ),
}


def again(f: hfrnn.Objective, **changes: Any) -> hfrnn.Objective:
    """An objective like f with something changed."""
    arguments = {name: changes.pop(name) for name in ("checkpoint", "memory", "threads") if name in changes}
    return hfrnn.Objective(f.net, replace(f.batch, **changes), **arguments)


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_arguments_are_refused_in_one_sentence(what: str) -> None:
    net, batch, theta = small(arch="lstm")
    call, message = REFUSED[what]
    with pytest.raises(hfrnn.InputError) as caught:
        call(hfrnn.Objective(net, batch, checkpoint=None), theta)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------- the state after a gradient, buffers taken over

LONG = ("stack", "carried", "embedding")


@pytest.mark.parametrize("case", cases(*LONG), ids=lambda case: case.id)
def test_the_final_state_is_that_of_a_run_whatever_the_plan(case: Case) -> None:
    net, batch = case.net(), replace(case.data(), lengths=None)
    theta = vectors(net, batch)[0]
    _, expected = net.run(theta, batch)
    for name, plan in plans(batch.T, batch.B).items():
        f = hfrnn.Objective(net, batch, plan=plan, threads=2)
        f.loss_and_gradient(theta)
        for actual, wanted in zip(f.final_state(), expected, strict=True):
            assert actual.keys() == wanted.keys()
            for key, value in wanted.items():
                if isinstance(value, int):
                    assert type(actual[key]) is int
                    assert actual[key] == value
                else:
                    assert actual[key].shape == value.shape
                    np.testing.assert_allclose(actual[key], value, rtol=0, atol=1e-14, err_msg=f"{name} {key}")


@pytest.mark.parametrize("case", cases("carried"), ids=lambda case: case.id)
def test_a_final_state_is_a_copy_that_a_next_batch_may_begin_with(case: Case) -> None:
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    first, second = (
        replace(batch, inputs=batch.inputs[part], targets=batch.targets[part]) for part in (slice(3), slice(3, 7))
    )
    f = hfrnn.Objective(net, first)
    f.loss_and_gradient(theta)
    state = f.final_state()
    copies = [{key: np.copy(value) for key, value in layer.items()} for layer in state]
    g = hfrnn.Objective(net, replace(second, initial_state=state), like=f)
    g.loss_and_gradient(theta)
    f.loss_and_gradient(-theta)  # shares its buffers with g
    for layer, copy, last, wanted in zip(state, copies, g.final_state(), net.run(theta, batch)[1], strict=True):
        for key, value in wanted.items():
            np.testing.assert_array_equal(layer[key], copy[key])
            np.testing.assert_allclose(last[key], value, rtol=0, atol=1e-14)


@pytest.mark.parametrize("threads", [1, 2, 9])
def test_a_gradient_goes_into_a_given_vector_whatever_was_there(threads: int) -> None:
    case = cases("softmax")[0]
    net, batch = case.net(), case.data()
    theta, _, _ = vectors(net, batch)
    plan = Plan(tuple(range(batch.B + 1)), None, Keep.ALL)
    loss, fresh = hfrnn.Objective(net, batch, 1, plan=plan).loss_and_gradient(theta)
    f = hfrnn.Objective(net, batch, threads, plan=plan)
    out = np.full_like(fresh, np.nan)
    for _ in range(2):
        again, gradient = f.loss_and_gradient(theta, out=out)
        assert gradient is out
        assert again == loss
        np.testing.assert_array_equal(out, fresh)


@pytest.mark.parametrize("case", cases("stack", "chain"), ids=lambda case: case.id)
def test_an_objective_in_the_buffers_of_another_gives_the_same_bits(case: Case) -> None:
    net, batch = case.net(), replace(case.data(), lengths=None)
    theta = vectors(net, batch)[0]
    plan = Plan((0, 2, 5), 3, Keep.STATES)
    parts = [
        replace(batch, inputs=x, targets=y, weights=None)
        for x, y in ((batch.inputs[:T], batch.targets[:T]) for T in (2, 7, 4, 7))  # windows of a text grow at first
    ]
    before = None
    for part in parts:
        f = hfrnn.Objective(net, part, plan=plan, threads=2, like=before)
        fresh = hfrnn.Objective(net, part, plan=plan, threads=2)
        loss, gradient = f.loss_and_gradient(theta)
        assert (f.loss(theta), loss) == (fresh.loss(theta), fresh.loss_and_gradient(theta)[0])
        np.testing.assert_array_equal(gradient, fresh.loss_and_gradient(theta)[1])
        before = f


def test_buffers_are_taken_over_only_where_they_fit() -> None:
    net, batch, theta = small()
    f = hfrnn.Objective(net, batch, threads=2, plan=Plan((0, 2, 4), None, Keep.STATES))
    f.loss_and_gradient(theta)

    def holds(**other: Any) -> Any:
        arguments = {"threads": 2, "plan": f.plan, **other}
        g = hfrnn.Objective(net, batch, like=f, **arguments)
        assert g.loss_and_gradient(theta)[0] == hfrnn.Objective(net, batch, **arguments).loss_and_gradient(theta)[0]
        return g._passing_buffers[0][0]

    assert holds() is f._passing_buffers[0][0]
    assert holds(threads=1) is not f._passing_buffers[0][0]
    assert holds(plan=Plan((0, 4), None, Keep.STATES)) is not f._passing_buffers[0][0]
