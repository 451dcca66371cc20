"""Would it help to fuse passes of a sweep?

    python benchmarks/fused_passes.py

Three prototypes beside what the engine does with the backend `numba`, in processor time on one thread:

gradients  backward of a segment with its weight gradient after every n steps, while da is in the cache. The engine
           computes one weight gradient per segment. The prototype adds to the gradient by BLAS, without a scratch
           array; n = all steps shows what this alone changes.
orders     a product runs R-forward over all segments, then backward from the last one. Here every segment runs
           R-forward again just before backward, so that its tangents and coefficients are in the cache. The last
           segment needs no second R-forward.
calls      the product of one shard with one segment in a single compiled call: R-forward, head, backward and all
           gradients.

All results are compared before they are timed. See README.md beside this file.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from alternatives import checked

import hfrnn
from hfrnn.arrays.backend import Buffers
from hfrnn.arrays.threads import one_blas_thread
from hfrnn.engine.plan import Keep, segment_boundaries
from hfrnn.engine.sweep import Sweep

CASES = (("lstm", 128, 100, 32, 64), ("lstm", 256, 100, 128, 64), ("mlstm", 64, 50, 50, 103))
"""Architecture, units, steps, sequences of a shard and symbols, for gradients and orders."""
WHOLE = (("rnn", 100, 50, 50, 103), ("mlstm", 64, 50, 50, 103))
"""The same for products in one call."""
STEPS = (1, 2, 4, 8)
"""Steps between two weight gradients, besides all of a segment."""
MU = 0.1
Runs = dict[str, Callable[[], object]]


@dataclasses.dataclass
class Case(common.Case):
    """One shard of a network, after the forward pass of a product, with the segments of the engine's plan."""

    backend: str = "numba"
    whole: bool = False
    """Whether there is one segment."""

    def __post_init__(self) -> None:
        super().__post_init__()
        both = (self.inputs, self.targets)
        batch = hfrnn.Batch(*both)
        plan = hfrnn.Objective(self.net, hfrnn.Batch(*(np.repeat(each, 2, axis=1) for each in both))).plan
        self.segment = self.T if self.whole else plan.segment or self.T
        self.scratch = Buffers(self.net.backend, np.float32)
        self.sweep = Sweep(
            self.net,
            self.net.prepare(batch),
            float(self.T * self.B),
            boundaries=segment_boundaries(self.T, self.segment),
            keep=Keep.ALL,
            scratch=self.scratch,
        )
        self.out = np.zeros_like(self.v)
        self.sweep.prepare(self.theta)

    def product(self) -> np.ndarray:
        """The product of the engine."""
        self.out[...] = 0
        self.sweep.product(self.v, self.out, MU)
        return self.out

    @property
    def sizes(self) -> dict[str, Any]:
        return {"arch": self.arch, "H": self.H, "T": self.T, "B": self.B, "V": self.V, "segment": self.segment}


def processor_seconds(runs: Runs, rounds: int) -> dict[str, float]:
    """Return the median processor seconds of each run; they take turns."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            run()
            found[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in found.items()}


# ---------------------------------------------------------------------- weight gradients inside backward


def gradients(case: Case, rounds: int) -> dict[str, Any]:
    """Backward of all segments with their recurrent weight gradients, in several ways."""
    import fused_loops

    sweep, H = case.sweep, case.H
    p, kernel = sweep.p["layer0"], sweep.kernels[0]
    rng = np.random.default_rng(1)
    dhs = [rng.standard_normal(segment.hs[0].shape, dtype=np.float32) for segment in sweep.segments]
    zero = {"h": np.zeros((case.B, H), np.float32), "c": np.zeros((case.B, H), np.float32)}
    names = [name for name in p if name in ("W_h", "W_hm", "W_m")]
    sums = {name: np.zeros(p[name].shape, np.float32) for name in names}
    arguments = fused_loops.blas_arguments()
    parts = functools.partial(gates_of, H=H)

    def begin() -> None:
        for each in sums.values():
            each[...] = 0

    def plain() -> None:
        begin()
        state = zero
        for segment, own in reversed(list(zip(sweep.segments, dhs, strict=True))):
            _, state = kernel.backward(p, segment.tapes[0], own, state, sums)

    def fused(n: int) -> None:
        begin()
        last, B = sweep.segments[-1].tapes[0], case.B
        dh, dc = last.new("dh", B, H), last.new("dc", B, H)
        dh[...] = dc[...] = 0
        for segment, own in reversed(list(zip(sweep.segments, dhs, strict=True))):
            tape, K = segment.tapes[0], own.shape[0]
            k, f, k_c, hs = parts(tape["k"]), tape["f"], tape["k_c"], tape["h"]
            if case.arch == "lstm":
                dU, W_T = tape.scratch("dU", K, B, 4 * H), kernel_transpose(p, "W_h")
                fused_loops.lstm_fused(n, W_T, own, k, f, k_c, dh, dc, dU, parts(dU), hs, sums["W_h"], *arguments)
                continue
            das, dU = tape.scratch("da", K, B, 4 * H), tape.scratch("dU", K, B, 5 * H)
            dxi, dm = tape.scratch("dxi", K, B, H), tape.scratch("dm", B, H)
            fused_loops.mlstm_fused(
                n, kernel_transpose(p, "W_hm"), kernel_transpose(p, "W_m"), own, tape["U_m"], tape["xi"], k, f, k_c,
                dh, dc, das, parts(das), dm, dxi, parts(dU), tape["m"], hs, sums["W_m"], sums["W_hm"], *arguments,
            )  # fmt: skip

    plain()
    expected = {name: each.copy() for name, each in sums.items()}
    runs: Runs = {"engine": plain}
    for n in sorted({*(n for n in STEPS if n < case.segment), case.segment}):
        label = "all steps" if n == case.segment else str(n)
        runs[label] = lambda n=n: fused(n)  # type: ignore[misc]
        runs[label]()
        for name, each in sums.items():
            checked(each, expected[name], f"{name}, after every {n} steps")
    found = processor_seconds({**runs, "product": case.product}, rounds)
    return {**case.sizes, "product": found.pop("product"), "seconds": found}


def gates_of(x: np.ndarray, H: int) -> np.ndarray:
    """Return x (..., n*H) as (..., n, H)."""
    return x.reshape(*x.shape[:-1], -1, H)


def kernel_transpose(p: dict[str, Any], name: str) -> Any:
    """The contiguous transpose of a matrix, as the compiled kernels take it."""
    from hfrnn.kernels.pointwise import transpose

    return transpose(p, name)


# ---------------------------------------------------------------------- the order of the segments


def orders(case: Case, rounds: int) -> dict[str, Any]:
    """A product in the engine's order, and with R-forward of each segment again just before its backward."""
    sweep = case.sweep
    v = sweep.layout.groups(case.v)
    grad = sweep.layout.groups(case.out)
    spent: dict[str, float] = {}
    samples: dict[str, list[float]] = {}

    def clock(name: str, run: Callable[[], Any]) -> Any:
        start = time.thread_time()
        result = run()
        spent[name] = spent.get(name, 0.0) + time.thread_time() - start
        return result

    def back(segment: Any, dstate: Any) -> Any:
        dhs = [sweep.scratch.get("dhs0", segment.hs[0].shape)]
        own = [groups["output"] for groups in (sweep.p, v, grad)]
        sweep.layout.head.product(*own[:2], segment.hs, segment.Rhs, segment.scored, segment.head_tape, own[2], dhs)
        sweep._structural(segment, dhs, MU / sweep.total_weight)
        return sweep._backward(segment, dhs, dstate, grad)

    def run(again: bool) -> np.ndarray:
        case.out[...] = 0
        Rstate, states = sweep.states.initial_tangent(v), []
        for segment in sweep.segments:
            states.append([{key: x.copy() for key, x in layer.items()} for layer in Rstate])
            Rstate = clock("R-forward", lambda s=segment, R=Rstate: sweep._rforward(s, v, R))  # type: ignore[misc]
        dstate = sweep.states.zeros
        for n, segment in reversed(list(enumerate(sweep.segments))):
            if again and n < len(states) - 1:
                clock("R-forward again", lambda s=segment, R=states[n]: sweep._rforward(s, v, R))  # type: ignore[misc]
            what = "backward" if n < len(states) - 1 else "backward of the last segment"
            dstate = clock(what, lambda s=segment, d=dstate: back(s, d))  # type: ignore[misc]
        sweep.states.add_gradient(dstate, grad)
        return case.out

    expected = case.product().copy()
    for again in (False, True):
        checked(run(again), expected, "another order")
    for _ in range(rounds):
        for again in (False, True):
            spent.clear()
            run(again)
            for name, seconds in spent.items():
                samples.setdefault(f"{name}, after R-forward" if again else name, []).append(seconds)
    return {**case.sizes, "segments": len(sweep.segments),
            "seconds": {name: statistics.median(each) for name, each in samples.items()}}  # fmt: skip


# ---------------------------------------------------------------------- one call


def new(*shape: int) -> np.ndarray:
    return np.empty(shape, np.float32)


def calls(case: Case, rounds: int) -> dict[str, Any]:
    """A product of one segment by the engine, and in one compiled call."""
    import fused_loops

    sweep, H, V, B, K = case.sweep, case.H, case.V, case.B, case.T
    (segment,) = sweep.segments
    tape, N = segment.tapes[0], case.T * case.B
    p, v, g = (case.views(vector) for vector in (case.theta, case.v, case.out))
    biased = "b" in p
    symbols = np.ascontiguousarray(sweep.batch.inputs.reshape(-1))
    s, scale, mu = segment.head_tape["z"].reshape(N, V), np.float32(1 / N), np.float32(MU / N)
    W_y, v_y = (np.ascontiguousarray(each["W_y0"]) for each in (p, v))
    W_yT, g_yT, zero = np.ascontiguousarray(W_y.T), new(V, H), np.zeros(V, np.float32)
    v_b, g_b = (v["b_y"], g["b_y"]) if "b_y" in p else (zero, zero.copy())
    rest = fused_loops.blas_arguments()
    Rz, work_z, dhs, Rhs = new(K, B, V), new(K, B, V), new(K, B, H), new(K, B, H)
    Rh, dh, dc, Rc, work, Rm = (new(B, H) for _ in range(6))
    v_x = v["W_x"].copy()

    def finish() -> np.ndarray:
        g["W_y0"][...] = g_yT.T
        return case.out

    def rnn() -> np.ndarray:
        case.out[...] = g_yT[...] = 0
        if biased:
            np.add(v["W_x"], v["b"], out=v_x)
        fused_loops.rnn_product(
            symbols, tape["h"], tape["slope"], s, scale, mu, p["W_h"], W_T, W_y, W_yT, v_x, v["W_h"], v_y, v_b, RU, Ra,
            Rhs, work, Rz, work_z, dhs, dU, Rh, dh, g["W_x"], g["W_h"], g_yT, g_b, *rest,
        )  # fmt: skip
        if biased:
            g["W_x"].sum(axis=0, out=g["b"])
        return finish()

    def mlstm() -> np.ndarray:
        case.out[...] = g_yT[...] = 0
        fused_loops.mlstm_product(
            symbols, tape["h"], tape["m"], tape["U_m"], tape["xi"], k, tape["f"], tape["k_c"], s, scale, mu, p["W_hm"],
            p["W_m"], W_hm_T, W_m_T, W_y, W_yT, v_x, v["W_hm"], v["W_m"], v_y, v_b, RU, Rxi, Ra, Rc, Rhs, work, Rm,
            gates, Rz, work_z, dhs, das, dm, dxi, dU, Rh, dh, dc, g["W_x"], g["W_hm"], g["W_m"], g_yT, g_b, *rest,
        )  # fmt: skip
        return finish()

    if case.arch == "rnn":
        W_T, RU, Ra, dU = np.ascontiguousarray(p["W_h"].T), new(K, B, H), new(K, B, H), new(K, B, H)
    else:
        W_hm_T, W_m_T = np.ascontiguousarray(p["W_hm"].T), np.ascontiguousarray(p["W_m"].T)
        k, RU, Ra, das = tape["k"].reshape(K, B, 4, H), new(K, B, 5 * H), new(K, B, 4 * H), new(K, B, 4 * H)
        Rxi, dxi, dU, dm, gates = new(K, B, H), new(K, B, H), new(K, B, 5 * H), new(B, H), new(B, 4 * H)
    at_once = rnn if case.arch == "rnn" else mlstm
    expected = case.product().copy()
    checked(at_once(), expected, "the product in one call")
    return {**case.sizes, "seconds": processor_seconds({"engine": case.product, "one call": at_once}, rounds)}


@click.command(cls=common.Command)
@click.option("--rounds", default=41, type=click.IntRange(1), help="Turns of each candidate; the median counts.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(rounds: int, out: Path) -> None:
    """Time fused passes beside those of the engine, on one thread."""
    if not common.available(["numba"], "fast"):
        raise click.ClickException("the prototypes are compiled by numba, which is not installed")
    result: dict[str, Any] = {"machine": common.machine(1), "rounds": rounds}
    with one_blas_thread():
        result["gradients"] = [gradients(Case(*case), rounds) for case in CASES]
        result["orders"] = [orders(Case(*case), rounds) for case in CASES]
        result["calls"] = [calls(Case(*case, whole=True), rounds) for case in WHOLE]
    for kind in ("gradients", "orders", "calls"):
        for case in result[kind]:
            times = ", ".join(f"{name} {seconds * 1e3:.2f}" for name, seconds in case["seconds"].items())
            more = f"; product {case['product'] * 1e3:.2f}" if "product" in case else ""
            click.echo(f"{kind}, {common.label(case)}, segment {case['segment']}: {times} ms{more}")
    common.write_result(out / "fused-passes-cpu.json", result)


if __name__ == "__main__":
    main()
