"""How fast are the loss, the gradient and the Gauss-Newton product, against PyTorch, JAX and the machine's own peak?

Each candidate computes the same thing from the same arrays. A peer may compute it in several ways (variants): all are
checked against hfrnn, the fastest that agrees is timed. See README.md beside this file.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
import peer_process
from common import REFERENCE, Candidate, Case, alternate, choose

import hfrnn
from hfrnn.arrays.backend import get_backend
from hfrnn.arrays.threads import product_peak
from hfrnn.optim.cg import conjugate_gradient

TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
SIZES = ((128, 100, 64), (256, 100, 256), (512, 50, 256))
SMALL = (16, 7, 5)
"""(H, T, B) of the check in float64."""
UNROLLS = (1, 2, 4)
UNITS = {"loss": 1, "gradient": 3, "product": 4, "CG iteration": 4}
"""The forward passes' worth of matrix products in each operation, forward states kept."""
COMPILED = "hfrnn, numba"
OPERATIONS = ("loss", "gradient", "product", "CG iteration", "HF update")
PEER_SECONDS = 75
"""The longest time of a peer's process on a GPU, for each case."""
DAMPING = 0.1
"""lambda of the CG run that is timed, so that its directions have positive curvature in float32 too."""


# ---------------------------------------------------------------------- hfrnn


def hfrnn_candidates(case: Case, threads: int, name: str, cg_iterations: int) -> Iterable[Candidate]:
    backend = case.net.backend
    theta, v = backend.asarray(case.theta), backend.asarray(case.v)

    def objective(columns: int = case.B) -> Any:
        return hfrnn.Objective(case.net, hfrnn.Batch(case.inputs[:, :columns], case.targets[:, :columns]), threads)

    def blocking(run: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: (run(), backend.synchronize())[0]

    def loss() -> Callable[[], Any]:
        f = objective()
        return blocking(lambda: f.loss(theta))

    def gradient() -> Callable[[], Any]:
        f = objective()
        return blocking(lambda: f.loss_and_gradient(theta)[1])

    def product() -> Callable[[], Any]:
        G, out = objective().gauss_newton(theta), backend.empty(theta.shape, theta.dtype)
        return blocking(lambda: G.apply(v, out))

    def cg() -> Callable[[], Any]:
        f = objective()
        G, b = f.gauss_newton(theta, tikhonov=DAMPING), -f.loss_and_gradient(theta)[1]
        options = {"max_iterations": cg_iterations, "epsilon": 0.0, "residual_tolerance": 0.0}
        return blocking(lambda: conjugate_gradient(G.apply, b, **options))

    def update() -> Callable[[], Any]:
        options = hfrnn.HessianFreeOptions(cg_iterations=cg_iterations, cg_epsilon=0.0, mu_growth=None)
        columns = max(case.B // 4, 1)
        # a training run draws its batches anew, so an update makes its objectives
        return blocking(lambda: hfrnn.HessianFree(options=options).update(theta, objective(), objective(columns)))

    variant, host = "GPU" if not backend.on_host else f"threads: {threads}", backend.to_host
    yield Candidate(name, "loss", variant, loss)
    yield Candidate(name, "gradient", variant, gradient, host)
    yield Candidate(name, "product", variant, product, host)
    yield Candidate(name, "CG iteration", variant, cg, lambda r: host(r.x), cg_iterations, slack=100)
    yield Candidate(name, "HF update", variant, update, lambda r: host(r.theta), slack=100)


def update_units(update: Any, share: float) -> float:
    """The forward passes' worth of matrix products that an update made; its curvature batch is that share of all."""
    return 3 + update.evaluations + share * (1 + 4 * update.products)


# ---------------------------------------------------------------------- JAX


def jax_candidates(case: Case, threads: int) -> Iterable[Candidate]:
    if case.arch not in ("lstm", "mlstm"):
        return
    os.environ.setdefault("NPROC", str(threads))  # what JAX sizes its pool of threads by
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # it would leave no memory of a GPU to hfrnn
    import jax
    import jax.numpy as jnp

    if case.backend == "cupy":
        if jax.default_backend() != "gpu":
            return
        jax.config.update("jax_default_matmul_precision", "highest")  # its default on a GPU is TF32
    jax.config.update("jax_enable_x64", case.dtype == "float64")
    H, scale, standard = case.H, 1.0 / (case.T * case.B), case.arch == "lstm"

    def logits(p: Any, x: Any, looks_up: bool, unroll: int) -> Any:
        U = p["W_x"][x] if looks_up else jax.nn.one_hot(x, case.V, dtype=p["W_x"].dtype) @ p["W_x"]

        def step(state: Any, u: Any) -> Any:
            h, c = state
            a = u + h @ p["W_h"] if standard else u[:, : 4 * H] + (u[:, 4 * H :] * (h @ p["W_hm"])) @ p["W_m"]
            i, f, o = jnp.split(jax.nn.sigmoid(a[:, : 3 * H]), 3, axis=1)
            g = jnp.tanh(a[:, 3 * H :]) if standard else a[:, 3 * H :]
            c = f * c + i * g
            h = o * jnp.tanh(c) if standard else jnp.tanh(c * o)
            return (h, c), h

        U, zero = U + p["b"] if standard else U, jnp.zeros((case.B, H), U.dtype)
        _, hs = jax.lax.scan(step, (zero, zero), U, unroll=unroll)
        z = hs @ p["W_y0"]
        return z + p["b_y"] if "b_y" in p else z

    def curvature(z: Any, Rz: Any) -> Any:
        s = jax.nn.softmax(z)
        return scale * (s * Rz - s * (s * Rz).sum(-1, keepdims=True))

    def candidates(looks_up: bool, unroll: int) -> Iterable[Candidate]:
        model = functools.partial(logits, looks_up=looks_up, unroll=unroll)
        p, v = ({k: jnp.asarray(w) for k, w in case.views(vector).items()} for vector in (case.theta, case.v))
        x, y = jnp.asarray(case.inputs), jnp.asarray(case.targets)

        def loss(p: Any, x: Any, y: Any) -> Any:
            z = model(p, x)
            return (jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, y[..., None], -1)[..., 0]).mean()

        def product(p: Any, x: Any, v: Any) -> Any:
            z, Rz = jax.jvp(lambda p: model(p, x), (p,), (v,))
            return jax.vjp(lambda p: model(p, x), p)[1](curvature(z, Rz))[0]

        def linear(f_jvp: Any, z: Any, v: Any) -> Any:
            return jax.linear_transpose(f_jvp, v)(curvature(z, f_jvp(v)))[0]

        def timed(function: Any, *arguments: Any) -> Callable[[], Any]:
            compiled = jax.jit(function)
            return lambda: jax.block_until_ready(compiled(*arguments))

        def kept() -> Callable[[], Any]:
            return timed(linear, *jax.jit(lambda p, x: jax.linearize(lambda p: model(p, x), p))(p, x)[::-1], v)

        variant = f"{'look-up' if looks_up else 'one-hot product'}, unroll {unroll}"
        value_and_gradient = jax.value_and_grad(loss)
        yield Candidate("jax", "loss", variant, lambda: timed(loss, p, x, y))
        yield Candidate(
            "jax", "gradient", variant, lambda: timed(value_and_gradient, p, x, y), lambda result: case.join(result[1])
        )
        yield Candidate("jax", "product", variant, lambda: timed(product, p, x, v), case.join)
        yield Candidate("jax kept", "product", variant, kept, case.join)

    for looks_up in (True, False):
        for unroll in UNROLLS:
            yield from candidates(looks_up, unroll)


# ---------------------------------------------------------------------- PyTorch


def torch_candidates(case: Case, threads: int) -> Iterable[Candidate]:
    if case.arch != "lstm":
        return
    import torch

    torch.set_num_threads(threads)
    if case.backend == "cupy":
        if not torch.cuda.is_available():
            return
        torch.set_default_device("cuda")
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    H, scale = case.H, 1.0 / (case.T * case.B)
    names = ("W_x", "W_h", "b", "W_y0", "b_y")

    def tensor(values: np.ndarray) -> Any:
        return torch.asarray(np.ascontiguousarray(values)).to(torch.get_default_device())

    x, y = tensor(case.inputs).long(), tensor(case.targets).long()
    one_hot = torch.nn.functional.one_hot(x, case.V).to(getattr(torch, case.dtype))

    def swapped(w: np.ndarray) -> np.ndarray:
        """hfrnn's gates i, f, o, g as nn.LSTM's i, f, g, o, and back."""
        return np.concatenate([w[..., : 2 * H], w[..., 3 * H :], w[..., 2 * H : 3 * H]], axis=-1)

    def own(vector: np.ndarray) -> list[Any]:
        return [tensor(case.views(vector)[n].copy()) for n in names]

    def module_like(vector: np.ndarray) -> list[Any]:
        w = case.views(vector)
        gates = [swapped(w["W_x"]).T, swapped(w["W_h"]).T, swapped(w["b"])]
        return [tensor(a) for a in (*gates, w["W_y0"].T, w["b_y"])]

    def from_own(result: Any) -> np.ndarray:
        return case.join(dict(zip(names, (g.cpu().numpy() for g in result), strict=True)))

    def from_module(result: Any) -> np.ndarray:
        W_x, W_h, b, W_y, b_y = (g.cpu().numpy() for g in result)
        return case.join({"W_x": swapped(W_x.T), "W_h": swapped(W_h.T), "b": swapped(b), "W_y0": W_y.T, "b_y": b_y})

    def loop() -> tuple[Callable[[], Any], list[Any]]:
        p = [w.requires_grad_() for w in own(case.theta)]

        def logits() -> Any:
            W_x, W_h, b, W_y, b_y = p
            h = c = torch.zeros(case.B, H, dtype=b.dtype)
            hs = []
            for u in (torch.nn.functional.embedding(x, W_x) + b).unbind():
                a = torch.addmm(u, h, W_h)
                i, f, o = torch.sigmoid(a[:, : 3 * H]).chunk(3, 1)
                c = f * c + i * torch.tanh(a[:, 3 * H :])
                h = o * torch.tanh(c)
                hs.append(h)
            return torch.stack(hs) @ W_y + b_y

        return logits, p

    def module(mkldnn: bool) -> tuple[Callable[[], Any], list[Any]]:
        lstm, linear = torch.nn.LSTM(case.V, H, dtype=one_hot.dtype), torch.nn.Linear(H, case.V, dtype=one_hot.dtype)
        lstm.bias_hh_l0.requires_grad_(False).zero_()
        p = [lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, linear.weight, linear.bias]
        with torch.no_grad():
            for parameter, value in zip(p, module_like(case.theta), strict=True):
                parameter.copy_(value)

        def logits() -> Any:
            with torch.backends.mkldnn.flags(enabled=mkldnn):
                return linear(lstm(one_hot)[0])

        return logits, p

    def candidates(variant: str, build: Any, to: Any, back: Any) -> Iterable[Candidate]:
        def cost(logits: Any) -> Any:
            return torch.nn.functional.cross_entropy(logits().flatten(0, 1), y.flatten())

        def loss() -> Callable[[], Any]:
            logits, _ = build()
            return torch.no_grad()(lambda: cost(logits).item())

        def gradient() -> Callable[[], Any]:
            logits, p = build()
            return lambda: torch.autograd.grad(cost(logits), p)

        def transposed(logits: Any, p: Any) -> tuple[Any, Any, Any]:
            """The logits, and J' u as a function of u that autograd can differentiate."""
            z = logits()
            u = torch.zeros_like(z, requires_grad=True)
            return z, u, torch.autograd.grad(z, p, u, create_graph=True)

        def multiply(z: Any, u: Any, Jt_u: Any, p: Any, v: Any, keep: bool) -> Any:
            (Rz,) = torch.autograd.grad(Jt_u, u, v, retain_graph=True)
            s = torch.softmax(z.detach(), -1)
            HRz = scale * (s * Rz - s * (s * Rz).sum(-1, keepdim=True))
            return torch.autograd.grad(z, p, HRz, retain_graph=keep)

        def product() -> Callable[[], Any]:
            (logits, p), v = build(), to(case.v)
            return lambda: multiply(*transposed(logits, p), p, v, keep=False)

        def kept() -> Callable[[], Any]:
            (logits, p), v = build(), to(case.v)
            graph = transposed(logits, p)
            return lambda: multiply(*graph, p, v, keep=True)

        def blocking(make: Callable[[], Any]) -> Callable[[], Any]:
            run = make()
            return lambda: (run(), torch.cuda.synchronize() if case.backend == "cupy" else None)[0]

        for name, operation, make in (
            ("torch", "loss", loss), ("torch", "gradient", gradient), ("torch", "product", product),
            ("torch kept", "product", kept),
        ):  # fmt: skip
            flat = (back,) if operation != "loss" else ()
            yield Candidate(name, operation, variant, functools.partial(blocking, make), *flat)

    yield from candidates("nn.LSTM", lambda: module(True), module_like, from_module)
    if case.backend != "cupy":
        yield from candidates("nn.LSTM without oneDNN", lambda: module(False), module_like, from_module)
    yield from candidates("Python loop", loop, own, from_own)


PEERS = {"jax": jax_candidates, "torch": torch_candidates}


# ---------------------------------------------------------------------- the runs


def checked(case: Case, peers: list[str], threads: int, cg_iterations: int) -> dict[str, list[Candidate]]:
    """All candidates of a case: hfrnn's on `threads` and on one, the peers'; on a GPU hfrnn's on the CPU to compare."""
    candidates = list(hfrnn_candidates(case, threads, REFERENCE, cg_iterations))
    if case.backend != "numpy":
        on_cpu = dataclasses.replace(case, backend="numpy")
        cpu = hfrnn_candidates(on_cpu, threads, "hfrnn on the CPU", cg_iterations)
        candidates += [c for c in cpu if c.operation in ("loss", "gradient", "product")]
    elif threads > 1:
        candidates += hfrnn_candidates(case, 1, "hfrnn, 1 thread", cg_iterations)
    if "numba" in peers:
        compiled = dataclasses.replace(case, backend="numba")
        candidates += hfrnn_candidates(compiled, threads, COMPILED, cg_iterations)
        if threads > 1:
            candidates += hfrnn_candidates(compiled, 1, f"{COMPILED}, 1 thread", cg_iterations)
    return common.grouped([*candidates, *(c for peer in peers if peer in PEERS for c in PEERS[peer](case, threads))])


def small_check(case: Case, peers: list[str], threads: int, names: tuple[str, ...]) -> dict[str, float]:
    """The largest difference from hfrnn in float64 on a small case, for each of these operations."""
    H, T, B = SMALL
    small = dataclasses.replace(case, H=H, T=T, B=B, V=11, dtype="float64")
    operations = checked(small, peers, threads, cg_iterations=3)
    return {name: choose(operations[name], TOLERANCE["float64"])[0].largest_error for name in names}


def measure(
    case: Case, peers: list[str], threads: int, cg: int, rounds: int, seconds: float, operations: tuple[str, ...],
    end: float,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Check, then time in turn; yield the record of one case after each operation. On a GPU, peers come last.

    `end` is the time of `time.monotonic` when the last peer's process must have ended.
    """
    here = [] if case.backend == "cupy" else peers
    record: dict[str, Any] = {
        "arch": case.arch, "H": case.H, "T": case.T, "B": case.B, "V": case.V, "dtype": case.dtype,
        "parameters": case.net.n_parameters, "unit_flops": case.unit(), "peak": 0.0,
        "largest_difference_float64": small_check(case, here, threads, operations), "operations": {},
    }  # fmt: skip
    results = {}
    for operation, group in checked(case, here, threads, cg).items():
        if operation not in operations:
            continue
        chosen, first = choose(group, TOLERANCE["float32"])
        results[operation] = group[0].flat(first)
        record["peak"] = max(record["peak"], product_peak(threads, seconds, case.net.backend))
        if case.backend != "numpy":
            chosen.best.pop("hfrnn on the CPU", None)
        runs = {name: candidate.make() for name, candidate in chosen.best.items()}
        timings = alternate(runs, rounds, seconds)
        timings = {name: timing.per(chosen.best[name].parts) for name, timing in timings.items()}
        units = UNITS.get(operation) or update_units(first, max(case.B // 4, 1) / case.B)
        record["operations"][operation] = {
            "units": units,
            "candidates": {
                name: {
                    **dataclasses.asdict(timing),
                    "times_hfrnn": timing.median / timings[REFERENCE].median,
                    "variant": chosen.best[name].variant,
                    "difference": chosen.errors[name],
                    "seconds_of_variants": chosen.seconds[name],
                }
                for name, timing in timings.items()
            },
            "left_out": chosen.left_out,
        }
        yield record
    for peer in peers if case.backend == "cupy" else ():
        bound = min(PEER_SECONDS, end - time.monotonic())
        if bound > 0:
            add_peer(record, results, *peer_process.measured_in_process(
                peer, case, threads, rounds, seconds, results, bound
            ))  # fmt: skip
        yield record


def add_peer(record: dict[str, Any], results: dict[str, Any], found: list[peer_process.Measured], ended: str) -> None:
    """Add what a peer's process measured to the record of a case."""
    for operation, expected in results.items():
        into = record["operations"][operation]
        own = into["candidates"][REFERENCE]["median"]
        of_operation = [each for each in found if each.operation == operation]
        best, left_out = peer_process.records(of_operation, expected, own, TOLERANCE["float32"])
        into["candidates"] |= best
        into["left_out"] += [*left_out, *([ended] if ended else [])]


@click.command(cls=common.Command)
@click.option("--arch", "archs", multiple=True, default=("lstm", "mlstm"), help="Architecture; repeatable.")
@click.option("--size", "sizes", multiple=True, type=int, nargs=3, default=SIZES, help="H T B; repeatable.")
@click.option("--vocabulary", "V", default=64, type=click.IntRange(2), help="Symbols in and out.")
@click.option("--threads", default=2, type=click.IntRange(1), help="Threads of hfrnn, the peers and the peak.")
@click.option("--rounds", default=7, type=click.IntRange(1), help="Turns of each candidate.")
@click.option("--seconds", default=0.3, help="The least length of a turn.")
@click.option("--cg-iterations", "cg", default=10, type=click.IntRange(1), help="Iterations of a CG run.")
@click.option(
    "--backend", default="numpy", type=click.Choice(["numpy", "cupy"]), help="hfrnn's; cupy: all compute on the GPU."
)
@click.option(
    "--operation", "operations", multiple=True, type=click.Choice(OPERATIONS), default=OPERATIONS, help="Repeatable."
)
@click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), default=tuple(PEERS), help="Peers.")
@click.option("--no-peers", is_flag=True, help="hfrnn alone.")
@click.option("--minutes", default=9.0, help="No case and no peer's process begins after this time, on a GPU.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
@click.option("--plot", "plot_path", type=click.Path(path_type=Path), help="A PNG or SVG to write.")
def main(archs: tuple[str, ...], sizes: tuple[tuple[int, ...], ...], V: int, threads: int, rounds: int, seconds: float,
         cg: int, backend: str, operations: tuple[str, ...], peers: tuple[str, ...], no_peers: bool, minutes: float,
         out: Path, plot_path: Path | None) -> None:  # fmt: skip
    """Time loss, gradient, Gauss-Newton product, CG iteration and HF update, beside the peers and the peak."""
    device = get_backend(backend)
    gpu = None if device.on_host else device
    kind = "cpu" if gpu is None else "gpu"
    result: dict[str, Any] = {"machine": common.machine(threads, gpu)}
    common.print_machine(result["machine"])
    end = time.monotonic() + 60 * minutes
    found = [] if no_peers else common.available(peers)
    found += [] if gpu is not None else common.available(["numba"], "fast")
    peak = product_peak(threads, seconds, device)
    finished: list[dict[str, Any]] = []
    records = finished
    for case in (Case(arch, H, T, B, V, backend=backend) for arch in archs for H, T, B in sizes):
        if gpu is not None and time.monotonic() > end:
            click.echo(f"left out for lack of time: {case}")
            continue
        click.echo(f"checking and timing {case}")
        for record in measure(case, found, threads, cg, rounds, seconds, operations, end):
            records = [*finished, record]
            peak = max(peak, record["peak"])
            for each in records:
                common.add_floors(each, peak)
            common.write_result(out / f"products-{kind}.json", {**result, "peak": peak, "cases": records})
        finished = records
    click.echo(f"float32 matrix-product peak: {peak / 1e9:.0f} GFLOP/s")
    for record in records:
        common.print_record(record)
    if plot_path is not None:
        common.plot_records(plot_path, records, ("gradient", "product"))


if __name__ == "__main__":
    main()
