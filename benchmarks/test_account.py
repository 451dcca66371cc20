"""The recorder counts what an operation does, and the account adds up."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import account
import alone
import click
import numpy as np
import pytest
import recorder
import scipy.sparse
from common import Case
from recorder import Recorded
from recording import record, recording, recording_backend
from support.slow import slow_unless

import hfrnn
from hfrnn.arrays.backend import get_backend

QUICK = ("mlstm", "gru", "rnn")
IGNORED = pytest.mark.filterwarnings("ignore::Warning")
BACKENDS = ("numpy", pytest.param("numba", marks=IGNORED))


def case_of(arch: str, backend: str, V: int = 5) -> Case:
    """Return a case whose compiled loops add weight gradients of more than one block of steps, also with AVX-512."""
    if backend == "numba":
        pytest.importorskip("numba")
    return Case(arch, 16, 9, 18, V, backend=backend)


def array(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32).view(Recorded)


def rows(*archs: str) -> list[Any]:
    """Return rows of an architecture and a backend; loops are compiled for the rnn only, unless slow tests run."""
    every = [row for arch in archs for row in ((arch, "numpy"), pytest.param(arch, "numba", marks=IGNORED))]
    return slow_unless(lambda arch, backend: arch in QUICK if backend == "numpy" else arch == "rnn", every)


def only(log: recorder.Log, name: str) -> recorder.Total:
    (found,) = (total for call, total in log.totals.items() if call.name == name)
    return found


@pytest.mark.parametrize(("arch", "backend"), rows("lstm", "mlstm", "hornn-fofe", "scrn", "rnn"))
def test_a_recorder_changes_no_bit(arch: str, backend: str) -> None:
    case = case_of(arch, backend)
    objective = hfrnn.Objective(case.net, hfrnn.Batch(case.inputs, case.targets), 1)
    expected = objective.loss_and_gradient(case.theta)[1], objective.gauss_newton(case.theta) @ case.v
    copy = Case(arch, case.H, case.T, case.B, case.V, backend=recording_backend(case.net.backend))
    runs, _ = account.operations(copy, 1, objective.plan)
    found: dict[str, Any] = {}
    for name, run in runs.items():
        record(lambda run=run, name=name: found.update({name: run()}))  # type: ignore[misc]
    assert (np.asarray(found["gradient"][1]) == expected[0]).all()
    assert (np.asarray(found["product"]) == expected[1]).all()


@pytest.mark.parametrize(("arch", "backend"), rows("lstm", "mlstm", "gru", "hornn-fofe", "rnn"))
def test_the_counted_operations_are_those_of_the_equations(arch: str, backend: str) -> None:
    case = case_of(arch, backend)
    _, plan = account.operations(case, 1)
    logs = account.recorded(case, plan)
    assert {name: log.flops for name, log in logs.items()} == {
        name: pytest.approx(account.needed(case, name), rel=1e-12) for name in account.OPERATIONS
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_real_inputs_only_the_bias_is_counted_as_well(backend: str) -> None:
    case = case_of("rnn", backend, 0)
    _, plan = account.operations(case, 1)
    n, _ = case.values
    for name, log in account.recorded(case, plan).items():  # loops multiply a column of ones by the bias
        assert log.flops in (account.needed(case, name), account.needed(case, name) + 2 * case.input_unit() / n)


@pytest.mark.parametrize(("backend", "name"), [("numpy", "matmul"), ("numba", "add_block"), ("numba", "affine")])
def test_a_product_that_is_left_out_is_noticed(backend: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of("rnn", backend)
    _, plan = account.operations(case, 1)
    monkeypatch.delitem(recorder.PRODUCTS, name)
    with pytest.raises(click.ClickException, match=r"teach (it the function|the recorder the call that it has missed)"):
        account.recorded(case, plan)


@pytest.mark.parametrize("take", [lambda x: x.ctypes, lambda x: x.__array_interface__], ids=["ctypes", "interface"])
def test_code_that_takes_an_address_is_refused(take: Callable[[Any], Any]) -> None:
    with pytest.raises(click.ClickException, match="code that the recorder does not know: teach it"):
        take(array(3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_smallest_case_makes_the_same_calls_but_for_sums_of_many_rows(backend: str) -> None:
    case = case_of("rnn", backend)
    _, plan = account.operations(case, 1)
    logs, tiny = account.recorded(case, plan), account.recorded(*account.smallest(case, plan), details=False)
    assert logs["product"].calls > (6 * case.T if backend == "numpy" else 10)  # in each of two shards
    for name in account.OPERATIONS:
        blocks = logs[name].calls - tiny[name].calls  # sums of many rows in float32 are made of sums of blocks
        assert 0 <= blocks <= 12


def test_a_taught_function_is_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    module, user = ModuleType("taught"), ModuleType("user")

    def multiply_into(out: Any, a: Any, b: Any) -> None:
        np.add(out, np.matmul(a, b), out=out)

    module.multiply_into = user.multiply_into = multiply_into  # type: ignore[attr-defined]
    for each in (module, user):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    monkeypatch.setattr(recorder, "TAUGHT", {"taught:multiply_into": "multiply_into", "taught:Not.there": "none"})
    monkeypatch.setitem(recorder.PRODUCTS, "multiply_into", lambda out, a, b: (a, b, out))
    out, a, b = array(2, 5), array(2, 3), array(3, 5)
    log = record(lambda: user.multiply_into(out, a, b))
    assert [call.name for call in log.totals] == ["multiply_into"]
    assert log.flops == 2 * 2 * 3 * 5
    assert user.multiply_into is multiply_into


def test_a_pass_reads_and_writes_its_operands() -> None:
    a, b, c = array(4, 5), array(5), array(4, 5)
    log = record(lambda: np.multiply(a, b, out=c))
    assert (log.calls, only(log, "multiply").read, only(log, "multiply").written) == (1, 100, 80)

    def change() -> None:
        c[1:3] += 1.0

    found = record(change)
    assert (only(found, "add").read, only(found, "add").written) == (40, 40)
    assert len(found.totals) == 1  # Python also assigns the result to c[1:3], which does nothing
    assert record(lambda: c.copy()).calls == 1
    assert record(lambda: c[1:3].reshape(-1)).calls == 0


def test_a_taught_function_of_a_library_is_one_pass_and_another_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, matrix = array(5, 4), scipy.sparse.csr_array(np.ones((3, 5), np.float32))
    log = record(lambda: matrix @ rows)
    sums = only(log, "sums of rows")
    assert (sums.read, sums.written) == (80 + 4 * (4 + 15) + 60, 48)  # rows, matrix (indices and numbers), sums
    assert alone.Stopwatch(0.0).work(next(iter(log.totals)), sums) > 0
    monkeypatch.setattr(recorder, "TAUGHT", {})
    with pytest.raises(click.ClickException, match=r"_sparsetools.csr_matvecs was called by code that .* teach it"):
        record(lambda: matrix @ rows)
    assert sys.getprofile() is None


def compiled_loop() -> Any:
    numba = pytest.importorskip("numba")

    @numba.njit
    def loop(W: Any, x: Any, out: Any) -> None:
        K, B, H = out.shape
        for t in range(K):
            np.dot(x[t], W, out[t])
            for b in range(B):
                for j in range(H):
                    out[t, b, j] += x[t, b, j] * x[t, b, j]

    return loop


def test_a_compiled_loop_is_products_and_one_pass_over_each_row() -> None:
    loop, W, x, out = compiled_loop(), array(4, 4), array(3, 2, 4), array(3, 2, 4)
    log = record(lambda: loop(W, x, out))
    assert (log.calls, only(log, "compiled dot").count, log.flops) == (1, 3, 3 * 2.0 * 2 * 4 * 4)
    assert (only(log, "compiled dot").read, only(log, "compiled dot").written) == (3 * (32 + 64), 3 * 32)
    passes = only(log, "loop")
    assert (passes.count, passes.read, passes.written) == (3, 3 * 2 * 32, 3 * 32)
    np.testing.assert_allclose(out, x @ W + x * x, rtol=1e-5)


def test_a_loop_that_cannot_be_read_is_refused() -> None:
    numba = pytest.importorskip("numba")

    @numba.njit
    def shifted(x: Any, out: Any) -> None:
        for j in range(out.shape[0]):
            out[j] = x[j + 1]

    with pytest.raises(click.ClickException, match="compiled loop shifted cannot be read"):
        record(lambda: shifted(array(4), array(3)))


def test_a_loop_without_products_computes_the_rest() -> None:
    loop = compiled_loop()
    W, x, out = (np.ones(shape, np.float32) for shape in ((4, 4), (3, 2, 4), (3, 2, 4)))
    alone.without_products(loop)(W, x, out)
    assert (out == 2).all()


def test_a_repeated_call_leaves_its_operands_and_strides() -> None:
    x = array(6, 8)
    log = record(lambda: np.multiply(x[:, 2:4], 0.5, out=x[:, 2:4]))
    before = x.copy()
    ((call, total),) = log.totals.items()
    run = alone.repeat(call, total)
    assert (run() == run()).all()
    assert (x == before).all()
    assert alone.alike(np.asarray(x)[::-1, 2:4]).strides == (-32, 4)


def test_the_distance_is_the_memory_used_since_the_last_use() -> None:
    a, b = array(2**12), array(2**20)  # 16 KiB, 4 MiB

    def near() -> None:
        np.negative(a, out=a)

    def far() -> None:
        near()
        np.negative(b, out=b)

    assert max(only(record(near), "negative").distances) <= 17
    distances = next(iter(record(far).totals.values())).distances
    assert max(distances) in (22, 23)


@pytest.mark.parametrize("backend", slow_unless("numpy".__eq__, BACKENDS))
def test_the_parts_add_up_to_the_total(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "WORKING_SETS", range(17, 19))
    monkeypatch.setattr(alone, "without_products", lambda loop: loop)  # which takes long to compile
    case, watch = case_of("lstm", backend), alone.Stopwatch(0.0)
    records = json.loads(json.dumps(account.account(case, (1, 2), watch, rounds=1, seconds=0.0)))
    assert [each["operation"] for each in records] == ["gradient", "product"]
    for each in records:
        assert each["shards"] == 2
        for found in each["threads"].values():
            assert sum(found["parts"].values()) == pytest.approx(found["seconds"])
            measured = {part: seconds for part, seconds in found["parts"].items() if part != "rest"}
            assert all(seconds >= 0 for seconds in measured.values())
            assert min(found["passes_in_memory"], found["passes_in_cache"]) > 0
    account.print_parts(records, "title")
    account.print_details(records[0])


class Constant(alone.Stopwatch):
    """A product takes a nanosecond for each of its operations, every kind of pass a second."""

    def call(self, call: recorder.Call, total: recorder.Total, threads: int) -> float:
        return 1e-9 * total.flops / total.count if call.kind == "product" else 1.0 / total.count

    def overhead(self, call: recorder.Call, total: recorder.Total) -> float:
        return 0.0

    def memory(self, total: recorder.Total, threads: int) -> float:
        return 0.5


def test_threads_share_the_parts() -> None:
    case = case_of("lstm", "numpy")
    for each in account.account(case, (1, 2), Constant(0.0), rounds=1, seconds=0.0):
        one, two = (each["threads"][n]["parts"] for n in "12")
        assert one["products"] == pytest.approx(1e-9 * each["flops"])
        assert one["passes"] == round(one["passes"]) > 10
        assert {name: one[name] / 2 for name in ("products", "passes", "interpreter")} == {
            name: pytest.approx(two[name]) for name in ("products", "passes", "interpreter")
        }
        assert each["threads"]["2"]["rate_of_step"] == pytest.approx(2e9)


def test_nothing_stays_replaced_after_a_recording() -> None:
    dispatcher = pytest.importorskip("numba.core.dispatcher").Dispatcher
    before = dispatcher.__call__, scipy.sparse.csr_array.__matmul__
    with recording():
        assert (dispatcher.__call__, scipy.sparse.csr_array.__matmul__) != before
    assert (dispatcher.__call__, scipy.sparse.csr_array.__matmul__) == before
    assert get_backend("numpy").empty((1,), "float32").__class__ is np.ndarray
