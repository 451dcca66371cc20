"""Curvature for a model trained in PyTorch: exact Gauss-Newton products, eigenvalues, and Hessian-free steps.

    pip install . torch                             in a copy of the project
    python examples/torch_gauss_newton.py               about 20 seconds of processor time

1  PyTorch trains an nn.Embedding, an nn.LSTM and an nn.Linear on characters, with Adam.
2  hfrnn reads the model's state dict and uses its batches without a copy.
3  A product G v is compared with PyTorch's own product by double backward, and both are timed.
4  SciPy's eigsh finds the largest eigenvalues of G: the curvature in the directions where it is largest.
5  Hessian-free updates continue from Adam's weights, and the PyTorch model gets the new weights.

The text is the manual that is part of every Python, so nothing is downloaded. Another Python version has another
manual, and so other figures. Everything is computed in double precision: in single precision, rounding changes Adam's
path from one machine to the next, and with it the eigenvalues.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pydoc_data.topics import topics
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import eigsh

import hfrnn
from hfrnn.arrays.threads import default_threads
from hfrnn.interop import from_torch, gradient_to_torch, to_torch

T, B = 50, 64  # steps and sequences of a batch
EMBEDDING, HIDDEN = 32, 96
ADAM_STEPS, HF_UPDATES = 60, 3
ROUNDS = 7  # how often each call is timed


def read() -> tuple[torch.Tensor, int]:
    """Return the text as a vector of symbol numbers, and the number of different symbols."""
    text = "\n".join(topics[name] for name in sorted(topics))
    symbols, codes = np.unique(list(text), return_inverse=True)
    return torch.from_numpy(codes), len(symbols)


def batch_of(codes: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and next symbols, (T, B) each; time comes first, as in hfrnn and by default in nn.LSTM."""
    windows = codes[starts + torch.arange(T + 1)[:, None]]
    return windows[:-1], windows[1:]


def logits(model: Any, inputs: torch.Tensor) -> torch.Tensor:
    """Return the logits, (T, B, V)."""
    return model["decoder"](model["lstm"](model["embedding"](inputs))[0])


def loss(model: Any, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy in nats."""
    return torch.nn.functional.cross_entropy(logits(model, inputs).flatten(0, 1), targets.flatten())


def train_with_adam(model: Any, codes: torch.Tensor) -> None:
    """Train for a few steps in PyTorch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(ADAM_STEPS):
        f = loss(model, *batch_of(codes, torch.randint(len(codes) - T, (B,))))
        optimizer.zero_grad()
        f.backward()
        optimizer.step()
        if step % 20 == 19 or step == ADAM_STEPS - 1:
            print(f"  Adam step {step + 1}: {f.item():.3f} nats")


class DoubleBackward:
    """G v in PyTorch: J v as the derivative of J'u by u, then the Hessian of the softmax, then J'; graphs are kept."""

    def __init__(self, model: Any, inputs: torch.Tensor) -> None:
        self.parameters = dict(model.named_parameters())
        self.z = logits(model, inputs)
        self.s = torch.softmax(self.z.detach(), dim=-1)
        self.u = torch.zeros_like(self.z, requires_grad=True)
        self.Jt_u = torch.autograd.grad(self.z, list(self.parameters.values()), self.u, create_graph=True)

    def __call__(self, v: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        (Rz,) = torch.autograd.grad(self.Jt_u, self.u, [v[name] for name in self.parameters], retain_graph=True)
        HRz = self.s * (Rz - (self.s * Rz).sum(-1, keepdim=True)) / self.z[..., 0].numel()
        Gv = torch.autograd.grad(self.z, list(self.parameters.values()), HRz, retain_graph=True)
        return dict(zip(self.parameters, Gv, strict=True))


def alternately(**calls: Callable[[], Any]) -> dict[str, float]:
    """Time calls in turn; return the median seconds of each, not counting a first call for warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in seconds.items()}


def main() -> None:
    """Run the five steps."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(default_threads())
    codes, V = read()
    print(f"1  training an nn.LSTM({EMBEDDING}, {HIDDEN}) on {len(codes):,} characters")
    model = torch.nn.ModuleDict(
        {
            "embedding": torch.nn.Embedding(V, EMBEDDING),
            "lstm": torch.nn.LSTM(EMBEDDING, HIDDEN),
            "decoder": torch.nn.Linear(HIDDEN, V),
        }
    )
    train_with_adam(model, codes)

    state = model.state_dict()
    net, theta = from_torch(state, embedding="embedding")
    inputs, targets = batch_of(codes, torch.randint(len(codes) - T, (B,)))
    batch = hfrnn.Batch(np.from_dlpack(inputs), np.from_dlpack(targets))  # the same memory
    objective = hfrnn.Objective(net, batch)
    print(f"2  in hfrnn: {net.describe()}")
    print(f"   loss of one batch: {objective.loss(theta):.6f}, in PyTorch {loss(model, inputs, targets).item():.6f}")

    G = objective.gauss_newton(theta)
    v = np.random.default_rng(0).standard_normal(net.n_parameters).astype(theta.dtype)
    v_torch = to_torch(net, v, state, embedding="embedding")
    in_torch = DoubleBackward(model, inputs)
    mine, theirs = gradient_to_torch(net, G @ v, state, embedding="embedding"), in_torch(v_torch)
    difference = max(float((mine[name] - theirs[name]).norm() / theirs[name].norm()) for name in state)
    seconds = alternately(
        hfrnn=lambda: G @ v,
        kept=lambda: in_torch(v_torch),
        rebuilt=lambda: DoubleBackward(model, inputs)(v_torch),
    )
    print(f"3  a product G v, {T * B:,} symbols: largest relative difference of a tensor {difference:.1e}")
    print(f"   hfrnn {1e3 * seconds['hfrnn']:.0f} ms")
    for name, what in (("kept", "PyTorch, graphs kept"), ("rebuilt", "PyTorch, graphs rebuilt")):
        print(f"   {what} {1e3 * seconds[name]:.0f} ms, {seconds[name] / seconds['hfrnn']:.1f} times hfrnn")

    largest = eigsh(G, k=3, v0=v, tol=1e-6, return_eigenvectors=False)[::-1]
    print(f"4  largest eigenvalues of G: {', '.join(f'{value:.3f}' for value in largest)}")

    held_out = batch_of(codes, torch.randint(len(codes) - T, (B,)))
    print("5  Hessian-free updates, four times the symbols; the curvature uses a quarter of them")
    more = [batch_of(codes, torch.randint(len(codes) - T, (4 * B,))) for _ in range(HF_UPDATES)]
    optimizer = hfrnn.HessianFree(hfrnn.Damping("structural", mu=0.1))
    print(f"   before: {loss(model, *held_out).item():.4f} nats on new characters, computed by PyTorch")
    for inputs, targets in more:
        start = time.perf_counter()
        whole = hfrnn.Batch(np.from_dlpack(inputs), np.from_dlpack(targets))
        update = optimizer.update(theta, hfrnn.Objective(net, whole), hfrnn.Objective(net, whole.columns(0, B)))
        theta = update.theta
        model.load_state_dict(to_torch(net, theta, state, embedding="embedding"))
        spent = f"{update.cg_iterations} CG iterations, {time.perf_counter() - start:.1f} s"
        print(f"   after: {loss(model, *held_out).item():.4f}, rho {update.rho:.2f}, {spent}")


if __name__ == "__main__":
    main()
