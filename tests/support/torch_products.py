"""A module as a user writes it, random configurations of it, and curvature products by PyTorch's double backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

KINDS = ("RNN", "LSTM", "GRU")
LOSSES = ("softmax", "squared", "logistic")


def torch_module() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed (extra peers)")


def make_model(
    torch: Any, kind: str = "LSTM", n_in: int = 5, hidden: int = 4, n_out: int = 3, layers: int = 1,
    embedding: int | None = None, bias: bool = True, linear_bias: bool = True, dropout: float = 0.0, seed: int = 0,
    **recurrent: Any,
) -> Any:  # fmt: skip
    """A module of a user's own class with a `forward`, in float64, its parts at some depth."""

    class Body(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.core = getattr(torch.nn, kind)(embedding or n_in, hidden, layers, bias=bias, **recurrent)

    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            if embedding is not None:
                self.words = torch.nn.Embedding(n_in, embedding)
            self.body = Body()
            self.top = torch.nn.Sequential(torch.nn.Dropout(dropout), torch.nn.Linear(hidden, n_out, bias=linear_bias))

        def forward(self, x: Any) -> Any:
            return self.top(self.body.core(self.words(x) if embedding is not None else x)[0])

    torch.manual_seed(seed)
    return Tagger().double()


def random_case(torch: Any, kind: str, layers: int, seed: int) -> tuple[Any, Any, Any, str]:
    """A random model of a kind with that many layers, inputs and targets in its own order of axes, and a loss."""
    rng = np.random.default_rng((KINDS.index(kind), layers, seed))
    n_in, hidden, n_out = (int(n) for n in rng.integers((2, 2, 2), (7, 9, 7)))
    embedded, batch_first, bias, linear_bias = (bool(n) for n in rng.integers(0, 2, 4))
    own = {"nonlinearity": str(rng.choice(["tanh", "relu"]))} if kind == "RNN" else {}
    model = make_model(
        torch, kind, n_in, hidden, n_out, layers, int(rng.integers(1, 6)) if embedded else None, bias, linear_bias,
        seed=seed, batch_first=batch_first, **own,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(0.7 * rng.standard_normal(tuple(parameter.shape))))
    loss, shape = LOSSES[int(rng.integers(3))], tuple(int(n) for n in rng.integers((3, 1), (9, 6)))
    x = rng.integers(0, n_in, shape) if embedded else rng.standard_normal((*shape, n_in))
    y = rng.integers(0, n_out, shape) if loss == "softmax" else rng.random((*shape, n_out))
    return model, torch.from_numpy(x), torch.from_numpy(y), loss


def time_first(model: Any, *tensors: Any) -> list[Any]:
    return [tensor.transpose(0, 1) if model.body.core.batch_first else tensor for tensor in tensors]


def mean_loss(torch: Any, loss: str) -> Any:
    """hfrnn's loss as a function of outputs and targets: the mean over steps of the sum over outputs."""
    F = torch.nn.functional
    if loss == "softmax":
        return lambda z, y: F.cross_entropy(z.flatten(0, 1), y.flatten())
    if loss == "squared":
        return lambda z, y: 0.5 * (z - y).square().sum() / z[..., 0].numel()
    return lambda z, y: F.binary_cross_entropy_with_logits(z, y, reduction="sum") / z[..., 0].numel()


def gauss_newton_product(torch: Any, model: Any, x: Any, y: Any, loss: str, v: list[Any]) -> list[Any]:
    """J' H J v: J v by double backward, H by differentiating the gradient of the loss, J' by backward."""
    parameters, f = list(model.parameters()), mean_loss(torch, loss)
    z = model(x)
    u = torch.zeros_like(z, requires_grad=True)
    Jt_u = torch.autograd.grad(z, parameters, u, create_graph=True)
    (Rz,) = torch.autograd.grad(Jt_u, u, v, retain_graph=True)
    zs = z.detach().requires_grad_()
    (dz,) = torch.autograd.grad(f(zs, y), zs, create_graph=True)
    (HRz,) = torch.autograd.grad(dz, zs, Rz)
    return list(torch.autograd.grad(z, parameters, HRz))


def hessian_product(torch: Any, model: Any, x: Any, y: Any, loss: str, v: list[Any]) -> list[Any]:
    parameters = list(model.parameters())
    gradient = torch.autograd.grad(mean_loss(torch, loss)(model(x), y), parameters, create_graph=True)
    product = torch.autograd.grad(gradient, parameters, v, allow_unused=True)
    return [torch.zeros_like(p) if r is None else r for p, r in zip(parameters, product, strict=True)]


def flat(tensors: Any) -> Any:
    """A NumPy vector of tensors, as `parameters_to_vector` orders them."""
    return np.concatenate([tensor.detach().numpy().ravel() for tensor in tensors])
