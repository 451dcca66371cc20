"""How an objective plans its memory, what it refuses, the state it returns, and buffers that it uses again."""

import threading
from collections import Counter

import numpy as np
import pytest
from support.engine_cases import cases, plans, replace, small_problem, vectors
from support.pairwise import each_once, label

import hfrnn
from hfrnn.engine.plan import Keep, Plan
from hfrnn.engine.sweep import Sweep


def test_products_of_gauss_newton_and_hessian_run_on_all_threads(monkeypatch):
    net = small_problem()[0]
    symbols = np.zeros((4, 40), np.int32)
    objective = hfrnn.Objective(net, hfrnn.Batch(symbols, symbols), threads=2)
    theta, ran = net.init(0), []
    for name in ("product", "gradient"):
        run = getattr(Sweep, name)
        monkeypatch.setattr(Sweep, name, lambda *a, run=run: (ran.append(threading.get_ident()), run(*a))[1])
    for operator in (objective.gauss_newton(theta), objective.hessian(theta)):
        ran.clear()
        operator @ np.ones(net.n_parameters)
        assert len(set(ran)) == len(ran) == 2


def test_by_default_a_batch_of_little_work_runs_on_one_thread(monkeypatch):
    monkeypatch.setattr("hfrnn.arrays.threads.default_threads", lambda: 2)
    net = hfrnn.Network("rnn", 2, 48, 2)

    def threads_for(T: int) -> int:
        symbols = np.zeros((T, 40), np.int32)
        return hfrnn.Objective(net, hfrnn.Batch(symbols, symbols)).threads.threads

    assert net.n_parameters * 40 * 98 < 10_000_000 < net.n_parameters * 40 * 99
    assert (threads_for(98), threads_for(99)) == (1, 2)


@pytest.mark.parametrize("keep", Keep)
def test_segments_run_again_as_often_as_the_page_on_the_engine_says(keep, monkeypatch):
    counts: Counter[str] = Counter()
    for name in ("_forward", "_rforward", "_backward"):
        run = getattr(Sweep, name)
        monkeypatch.setattr(Sweep, name, lambda *a, n=name, run=run, **k: (counts.update([n]), run(*a, **k))[1])
    net, batch, theta = small_problem()  # 9 steps
    for K, S in ((3, 3), (9, 1)):
        again = S - 1 if keep is Keep.NOTHING else 0
        objective = hfrnn.Objective(net, batch, plan=Plan((0, batch.B), K, keep))
        counts.clear()
        objective.loss_and_gradient(theta)
        assert counts == {"_forward": S + again, "_backward": S}
        G = objective.gauss_newton(theta)
        counts.clear()
        G.apply(theta, theta.copy())
        expected = {"_forward": S + again if again else 0, "_rforward": S + again, "_backward": S}
        assert counts == +Counter(expected)


def test_what_cannot_be_computed_is_refused():
    net, batch, theta = small_problem(arch="lstm")
    with pytest.raises(hfrnn.InputError, match="architecture 'lstm' has no metric 'matching': use hidden"):
        hfrnn.Objective(net, batch).gauss_newton(theta, 1.0, metric="matching")
    with pytest.raises(hfrnn.InputError, match=r"checkpoint is 'all': use None, \"sqrt\", \"auto\" or a number"):
        hfrnn.Objective(net, batch, checkpoint="all")
    with pytest.raises(hfrnn.InputError, match=r"4 sequences of 9 steps need .* KiB, and the budget is 10 bytes: give"):
        hfrnn.Objective(net, batch, memory=10)
    with pytest.raises(hfrnn.InputError, match="the batch has no targets: a loss needs them"):
        hfrnn.Objective(net, replace(batch, targets=None))
    with pytest.raises(hfrnn.InputError, match="the weights of the batch sum to 0: give at least one step a weight ab"):
        hfrnn.Objective(net, replace(batch, weights=np.zeros((9, 4))))


@pytest.mark.parametrize("case", each_once(of=cases("stack", "carried", "embedding")), ids=label)
def test_the_final_state_is_that_of_a_run_whatever_the_plan(case):
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
                    assert (type(actual[key]), actual[key]) == (int, value)
                else:
                    np.testing.assert_allclose(actual[key], value, rtol=0, atol=1e-14, err_msg=f"{name} {key}")


@pytest.mark.parametrize("case", cases("carried"), ids=label)
def test_a_final_state_is_a_copy_that_a_next_batch_may_begin_with(case):
    net, batch = case.net(), case.data()
    theta = vectors(net, batch)[0]
    inputs, targets = batch.inputs, batch.targets
    first, second = (replace(batch, inputs=inputs[p], targets=targets[p]) for p in (slice(3), slice(3, 7)))
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


@pytest.mark.parametrize("threads", [1, 9])
def test_a_gradient_goes_into_a_given_vector_whatever_was_there(threads):
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


@pytest.mark.parametrize("case", cases("chain")[::4], ids=label)
def test_an_objective_in_the_buffers_of_another_gives_the_same_bits(case):
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


def test_buffers_are_used_again_only_where_they_fit():
    net, batch, theta = small_problem()
    f = hfrnn.Objective(net, batch, threads=2, plan=Plan((0, 2, 4), None, Keep.STATES))
    f.loss_and_gradient(theta)

    def holds(**other):
        arguments = {"threads": 2, "plan": f.plan, **other}
        g = hfrnn.Objective(net, batch, like=f, **arguments)
        assert g.loss_and_gradient(theta)[0] == hfrnn.Objective(net, batch, **arguments).loss_and_gradient(theta)[0]
        return g._passing_buffers[0][0]

    assert holds() is f._passing_buffers[0][0]
    assert holds(threads=1) is not f._passing_buffers[0][0]
    assert holds(plan=Plan((0, 4), None, Keep.STATES)) is not f._passing_buffers[0][0]
    single = hfrnn.Network(**{**net.config, "dtype": "float32"})
    wide = hfrnn.Network(**{**net.config, "hidden": [size + 1 for size in net.hidden]})
    for other in (single, wide):
        g = hfrnn.Objective(other, batch, threads=2, plan=f.plan, like=f)
        parameters = other.init(0)
        np.testing.assert_array_equal(
            g.loss_and_gradient(parameters)[1],
            hfrnn.Objective(other, batch, threads=2, plan=f.plan).loss_and_gradient(parameters)[1],
        )


@pytest.mark.parametrize("shards", [(), (1, 4), (0, 2, 2, 4), (0, 3, 2, 4), (0, 3)])
def test_a_plan_whose_shards_do_not_divide_the_batch_is_refused(shards):
    net, batch, _ = small_problem()
    with pytest.raises(hfrnn.InputError, match=r"^the plan (is for|has shards)"):
        hfrnn.Objective(net, batch, plan=Plan(shards, None, Keep.ALL))
