"""How long is an epoch of word-level training, beside the same network, batches and updates in PyTorch?

A plain network with an embedding, truncated backpropagation with the state carried, SGD with momentum and clipping of
the norm. After the first updates both must have the same parameters; then updates are timed in turn. Class softmax
is timed beside them. See README.md beside this file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from common import alternate, difference
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.engine.plan import Use
from hfrnn.engine.planner import make_plan
from hfrnn.kernels.registry import vector_passes
from hfrnn.optim.compiled_steps import OnePassSGD
from hfrnn.optim.first_order import SGD, SGDOptions

TOLERANCE = 1e-4
RATE, MOMENTUM, BOUND = 0.5, 0.9, 1.0
CHECKED = 5
"""Updates after which the parameters are compared."""


def network(V: int, H: int, classes: int | None = None, backend: str = "numpy") -> hfrnn.Network:
    loss = {"loss": "softmax"} if classes is None else {"loss": "class-softmax", "classes": classes}
    return hfrnn.Network("rnn", V, H, V, embedding=H, bias=False, backend=backend, **loss)


def hfrnn_updates(net: hfrnn.Network, text: Any, T: int, B: int, threads: int) -> tuple[Callable[[], None], Any]:
    """A call that makes one update after the other, and the parameters that it changes."""
    options, passes = SGDOptions(MOMENTUM), vector_passes(net.backend.variants)
    optimizer = SGD(options, threads) if passes is None else OnePassSGD(passes, options, threads)
    plan = make_plan(net, T, B, use=Use.GRADIENT)
    carried: dict[str, Any] = {
        "theta": net.init(seed=0), "spare": None, "state": net.zero_state(B), "at": 0, "last": None, "gradient": None
    }  # fmt: skip

    def update() -> None:
        at, theta = carried["at"], carried["theta"]
        batch = hfrnn.Batch(text[at : at + T], text[at + 1 : at + T + 1], initial_state=carried["state"])
        objective = hfrnn.Objective(net, batch, threads, plan=plan, like=carried["last"])
        _, gradient = objective.loss_and_gradient(theta, out=carried["gradient"])
        optimizer.lazy_clip(gradient, BOUND)
        carried.update(theta=optimizer.step(theta, gradient, RATE, out=carried["spare"]), spare=theta)
        carried.update(state=objective.final_state(), last=objective, gradient=gradient)
        carried["at"] = (at + T) % (len(text) - T - 1)

    return update, lambda: carried["theta"]


def torch_updates(net: hfrnn.Network, text: Any, T: int, B: int, threads: int) -> tuple[Callable[[], None], Any]:
    """The same in PyTorch, beginning at the same parameters."""
    import torch

    torch.set_num_threads(threads)
    views = {name: torch.tensor(view) for name, view in net.views(net.init(seed=0)).items()}
    H = net.hidden[0]
    embedding, head = torch.nn.Embedding(net.n_in, H), torch.nn.Linear(H, net.n_out, bias=False)
    rnn = torch.nn.RNN(H, H, nonlinearity="tanh", bias=False)
    with torch.no_grad():
        embedding.weight.copy_(views["embedding.E"])
        rnn.weight_ih_l0.copy_(views["layer0.W_x"].T)
        rnn.weight_hh_l0.copy_(views["layer0.W_h"].T)
        head.weight.copy_(views["output.W_y0"].T)
    p = [embedding.weight, rnn.weight_ih_l0, rnn.weight_hh_l0, head.weight]
    optimizer = torch.optim.SGD(p, lr=RATE, momentum=MOMENTUM)
    symbols = torch.tensor(text, dtype=torch.int64)
    carried: dict[str, Any] = {"state": torch.zeros(1, B, H), "at": 0}

    def update() -> None:
        at = carried["at"]
        hs, state = rnn(embedding(symbols[at : at + T]), carried["state"])
        targets = symbols[at + 1 : at + T + 1].reshape(-1)
        loss = torch.nn.functional.cross_entropy(head(hs).reshape(T * B, -1), targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p, BOUND)
        optimizer.step()
        carried.update(state=state.detach(), at=(at + T) % (len(text) - T - 1))

    def theta() -> np.ndarray:
        blocks = {
            "embedding.E": p[0], "layer0.W_x": p[1].T, "layer0.W_h": p[2].T, "output.W_y0": p[3].T
        }  # fmt: skip
        return np.concatenate([blocks[b.name].detach().numpy().ravel() for b in net.parameters.blocks])

    return update, theta


@click.command(cls=common.Command)
@click.option("--hidden", "H", default=400, type=click.IntRange(1), help="Units, and width of the embedding.")
@click.option("--vocabulary", "V", default=10_000, type=click.IntRange(2), help="Words.")
@click.option("--steps", "T", default=30, type=click.IntRange(1), help="Steps of a window.")
@click.option("--streams", "B", default=20, type=click.IntRange(1), help="Streams.")
@click.option("--words", default=929_589, help="Words of an epoch (those of PTB).")
@click.option("--classes", default=100, type=click.IntRange(1), help="Classes of the class softmax.")
@click.option("--backend", default="numpy", type=click.Choice(["numpy", "numba"]), help="Backend of hfrnn.")
@click.option("--threads", default=2, type=click.IntRange(1), help="Threads of hfrnn and of PyTorch.")
@click.option("--rounds", default=7, type=click.IntRange(1), help="Turns of each candidate.")
@click.option("--seconds", default=1.0, help="The least length of a turn.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(H: int, V: int, T: int, B: int, words: int, classes: int, backend: str, threads: int, rounds: int,
         seconds: float, out: Path) -> None:  # fmt: skip
    """Time updates of word-level training, beside PyTorch, and of class softmax beside full softmax."""
    result: dict[str, Any] = {"machine": common.machine(threads), "H": H, "V": V, "T": T, "B": B, "words": words}
    result["backend"] = backend
    common.print_machine(result["machine"])
    # words as frequent as in a text: the n-th with a share of 1/n
    shares = 1.0 / np.arange(1, V + 1)
    text = np.random.default_rng(0).choice(V, size=(400 * T, B), p=shares / shares.sum()).astype(np.int32)
    full = network(V, H, backend=backend)
    candidates = {"hfrnn": hfrnn_updates(full, text, T, B, threads)}
    if common.available(["torch"]):
        candidates["torch"] = torch_updates(full, text, T, B, threads)
    for update, _ in candidates.values():
        for _ in range(CHECKED):
            update()
    if "torch" in candidates:
        error = difference(candidates["torch"][1](), candidates["hfrnn"][1]())
        click.echo(f"after {CHECKED} updates the parameters differ by {error:.1e}")
        if error > TOLERANCE:
            raise click.ClickException(f"PyTorch's parameters differ from hfrnn's by {error:.1e}")
        result["difference"] = error
    edges = np.searchsorted(np.cumsum(shares) / shares.sum(), np.arange(1, classes) / classes)
    class_of = np.searchsorted(np.unique(edges), np.arange(V), side="right")
    with_classes = network(V, H, np.unique(class_of, return_inverse=True)[1].tolist(), backend)
    candidates["hfrnn, class softmax"] = hfrnn_updates(with_classes, text, T, B, threads)
    timings = alternate({name: update for name, (update, _) in candidates.items()}, rounds, seconds)
    table = Table("", "update, ms", "epoch, s", "times hfrnn", title=f"rnn H={H} V={V}, {B} streams of {T} steps")
    for name, timing in timings.items():
        epoch, ratio = timing.median * words / (T * B), timing.median / timings["hfrnn"].median
        result[name] = {**dataclasses.asdict(timing), "epoch_seconds": epoch, "times_hfrnn": ratio}
        table.add_row(name, f"{timing.median * 1e3:.1f}", f"{epoch:.0f}", f"{ratio:.2f}")
    Console().print(table)
    common.write_result(out / "epoch-cpu.json", result)


if __name__ == "__main__":
    main()
