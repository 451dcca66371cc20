"""How long does a Gauss-Newton product of an nn.RNN, nn.LSTM or nn.GRU take: by hfrnn, double backward, curvlinops?

Every way gets the same vector in the order of `model.parameters()` and returns the product in it, in single precision.
Each is first compared with hfrnn on the timed arrays. Times are processor seconds, so that other programs on the
machine matter less, on one thread by default: idle threads of a pool would count as work.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import common
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.interop import TorchLayout, from_torch

KINDS = ("RNN", "LSTM", "GRU")
HIDDEN = (128, 256, 512)
T, B, V, EMBEDDING = 50, 32, 64, 32
TOLERANCE = 1e-4
"""Largest relative difference from hfrnn's product, both in float32."""
ROUNDS = 5


def make_model(kind: str, H: int) -> Any:
    """An nn.Embedding, a recurrent module and an nn.Linear as one module."""
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(V, EMBEDDING)
            self.recurrent = getattr(torch.nn, kind)(EMBEDDING, H)
            self.decoder = torch.nn.Linear(H, V)

        def forward(self, x: Any) -> Any:
            return self.decoder(self.recurrent(self.embedding(x))[0]).flatten(0, 1)

    torch.manual_seed(0)
    return Model()


def hfrnn_product(model: Any, x: Any, y: Any, v: Any, backend: str, threads: int) -> Callable[[], Any]:
    net, theta = from_torch(model, backend=backend)
    objective = hfrnn.Objective(net, hfrnn.Batch(x, y), threads)
    G = objective.gauss_newton(theta).to_torch(TorchLayout(net, model))
    return lambda: G @ v


def double_backward(model: Any, x: Any, v: Any, kept: bool) -> Callable[[], Any]:
    """J v as the derivative of J'u by u, the curvature of the softmax, then J'; the graphs are kept or made again."""
    import torch

    parameters = list(model.parameters())
    direction = v.split([p.numel() for p in parameters])
    direction = [part.view_as(p) for part, p in zip(direction, parameters, strict=True)]

    def graphs() -> Any:
        z = model(x)
        u = torch.zeros_like(z, requires_grad=True)
        return z, u, torch.autograd.grad(z, parameters, u, create_graph=True)

    made = graphs() if kept else None

    def product() -> Any:
        z, u, Jt_u = made or graphs()
        (Rz,) = torch.autograd.grad(Jt_u, u, direction, retain_graph=True)
        s = torch.softmax(z.detach(), -1)
        HRz = s * (Rz - (s * Rz).sum(-1, keepdim=True)) / len(z)
        return torch.cat([g.flatten() for g in torch.autograd.grad(z, parameters, HRz, retain_graph=kept)])

    return product


def curvlinops_product(model: Any, x: Any, y: Any, v: Any) -> Callable[[], Any]:
    import curvlinops
    import torch

    data, loss = [(x, y.flatten())], torch.nn.CrossEntropyLoss()
    G = curvlinops.GGNLinearOperator(model, loss, list(model.parameters()), data, check_deterministic=False)
    return lambda: G @ v


def ways(
    model: Any, x: Any, y: Any, v: Any, threads: int
) -> Iterator[tuple[str, bool, Callable[[], Callable[[], Any]]]]:
    """Name, whether oneDNN is on, and a function that prepares the product, for each way to compute it."""
    yield "hfrnn", True, lambda: hfrnn_product(model, x, y, v, "numpy", threads)
    if find_spec("numba") is not None:
        yield "hfrnn, numba", True, lambda: hfrnn_product(model, x, y, v, "numba", threads)
    for onednn in (True, False):
        yield "double backward", onednn, lambda: double_backward(model, x, v, kept=False)
        yield "double backward, graphs kept", onednn, lambda: double_backward(model, x, v, kept=True)
        if find_spec("curvlinops") is not None:
            yield "curvlinops", onednn, lambda: curvlinops_product(model, x, y, v)


def timed(run: Callable[[], Any], seconds: float) -> float:
    """Processor seconds per call, in at least this many seconds."""
    calls, start = 0, time.process_time()
    while True:
        run()
        calls += 1
        if (spent := time.process_time() - start) >= seconds:
            return spent / calls


def measure(kind: str, H: int, threads: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Check every way against hfrnn's product, then time the ways in turn; the faster of oneDNN on and off counts."""
    import torch

    model = make_model(kind, H)
    symbols = torch.randint(V, (T + 1, B))
    v = torch.randn(sum(p.numel() for p in model.parameters()))
    record: dict[str, Any] = {
        "kind": kind, "H": H, "T": T, "B": B, "V": V, "embedding": EMBEDDING, "parameters": len(v), "ways": {},
        "left_out": [],
    }  # fmt: skip
    runs: list[tuple[str, bool, Callable[[], Any], float]] = []
    reference = None
    for name, onednn, make in ways(model, symbols[:-1], symbols[1:], v, threads):
        with torch.backends.mkldnn.flags(enabled=onednn):
            label = name if onednn else f"{name}, without oneDNN"
            try:
                run = make()
                found = run().numpy()
            except (RuntimeError, NotImplementedError) as error:
                record["left_out"].append(f"{label}: {str(error).splitlines()[0][:120]}")
                continue
        reference = found if reference is None else reference
        difference = common.difference(found, reference)
        if difference > TOLERANCE:
            raise click.ClickException(f"{label} differs from hfrnn by {difference:.1e}")
        runs.append((name, onednn, run, difference))
    samples: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for (_, onednn, run, _), own in zip(runs, samples, strict=True):
            with torch.backends.mkldnn.flags(enabled=onednn):
                own.append(timed(run, seconds))
    for (name, onednn, _, difference), own in zip(runs, samples, strict=True):
        way = {
            "median": statistics.median(own), "minimum": min(own), "maximum": max(own), "onednn": onednn,
            "difference": difference,
        }  # fmt: skip
        if name not in record["ways"] or way["median"] < record["ways"][name]["median"]:
            record["ways"][name] = way
    first = record["ways"]["hfrnn"]["median"]
    for way in record["ways"].values():
        way["times_hfrnn"] = way["median"] / first
    return record


def show(records: list[dict[str, Any]]) -> None:
    table = Table("model", "H", "by", "processor ms", "least to most", "times hfrnn", "oneDNN", "difference")
    for record in records:
        table.add_section()
        for name, way in record["ways"].items():
            low, middle, high = (1e3 * way[key] for key in ("minimum", "median", "maximum"))
            table.add_row(
                f"nn.{record['kind']}", str(record["H"]), name, f"{middle:.1f}", f"{low:.1f} to {high:.1f}",
                f"{way['times_hfrnn']:.2f}", "on" if way["onednn"] else "off", f"{way['difference']:.0e}",
            )  # fmt: skip
    Console(width=140).print(table)
    for line in sorted({line for record in records for line in record["left_out"]}):
        click.echo(f"left out: {line}")


@click.command(cls=common.Command)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), default=KINDS, help="Module; repeatable.")
@click.option("--hidden", multiple=True, type=click.IntRange(1), default=HIDDEN, help="Units; repeatable.")
@click.option("--threads", default=1, type=click.IntRange(1), help="Threads of hfrnn and PyTorch.")
@click.option("--rounds", default=ROUNDS, type=click.IntRange(1), help="Turns of each way.")
@click.option("--seconds", default=0.3, help="The least length of a turn in processor seconds.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS / "torch-products.json", help="JSON.")
def main(kinds: tuple[str, ...], hidden: tuple[int, ...], threads: int, rounds: int, seconds: float, out: Path) -> None:
    """Time Gauss-Newton products of PyTorch's recurrent modules by hfrnn, double backward and curvlinops."""
    if not common.available(["torch"]):
        raise SystemExit(1)
    import torch

    common.available(["numba"], "fast")
    if find_spec("curvlinops") is None:
        click.echo("curvlinops is left out: it is not installed; pip install curvlinops-for-pytorch")
    warnings.filterwarnings("ignore", module=r"torch\.")
    torch.set_num_threads(threads)
    facts = common.machine(threads)
    common.print_machine(facts)
    records = [measure(kind, H, threads, rounds, seconds) for kind in kinds for H in hidden]
    show(records)
    common.write_result(out, {"machine": facts, "unit": "processor seconds", "products": records})


if __name__ == "__main__":
    main()
