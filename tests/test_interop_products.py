"""Products in PyTorch's order against double backward and curvlinops: random nn.RNN, nn.LSTM and nn.GRU, float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import torch_products as of
from support.torch_products import KINDS, random_case, time_first

import hfrnn
from hfrnn.interop import TorchLayout, from_torch

CASES = [(kind, layers, seed) for kind in KINDS for layers in (1, 2, 3) for seed in range(2)]


@pytest.fixture
def torch() -> Any:
    return of.torch_module()


def converted(model: Any, x: Any, y: Any, loss: str) -> tuple[hfrnn.Objective, Any, TorchLayout]:
    net, theta = from_torch(model, loss=loss)
    return hfrnn.Objective(net, hfrnn.Batch(*time_first(model, x, y))), theta, TorchLayout(net, model)


def largest_difference(layout: TorchLayout, found: Any, expected: Any) -> float:
    """The largest relative difference of a tensor; a tensor of zeros counts absolutely."""
    differences = []
    for name, value in layout.split(np.asarray(found)).items():
        other = layout.split(np.asarray(expected))[name]
        differences.append(np.linalg.norm(value - other) / (np.linalg.norm(other) or 1.0))
    return float(max(differences))


@pytest.mark.parametrize(("kind", "layers", "seed"), CASES)
def test_products_are_those_of_double_backward(torch: Any, kind: str, layers: int, seed: int) -> None:
    model, x, y, loss = random_case(torch, kind, layers, seed)
    objective, theta, layout = converted(model, x, y, loss)
    torch_loss = of.mean_loss(torch, loss)(model(x), y)
    f, gradient = objective.loss_and_gradient(theta)
    assert f == pytest.approx(torch_loss.item(), rel=1e-12)
    expected = of.flat(torch.autograd.grad(torch_loss, model.parameters()))
    assert largest_difference(layout, layout.gradient(gradient), expected) < 1e-10
    v = [torch.randn_like(parameter) for parameter in model.parameters()]
    vector = torch.nn.utils.parameters_to_vector(v)
    for operator, product in ((objective.gauss_newton(theta), of.gauss_newton_product),
                              (objective.hessian(theta), of.hessian_product)):  # fmt: skip
        expected = of.flat(product(torch, model, x, y, loss, v))
        assert np.linalg.norm(expected) > 1e-4
        assert largest_difference(layout, operator.to_torch(layout) @ vector, expected) < 1e-10


def test_losses_of_pytorch_are_means_over_outputs_and_over_targets_that_are_not_ignored(torch: Any) -> None:
    model, x = of.make_model(torch), torch.randn(7, 3, 5, dtype=torch.float64)
    z, y, symbols = model(x), torch.rand(7, 3, 3, dtype=torch.float64), torch.arange(21).reshape(7, 3) % 3
    scored, F = symbols > 0, torch.nn.functional
    ignored = F.cross_entropy(z.flatten(0, 1), torch.where(scored, symbols, -100).flatten())
    for loss, factor, expected, batch in (
        ("squared", 2 / 3, F.mse_loss(z, y), hfrnn.Batch(x, y)),
        ("logistic", 1 / 3, F.binary_cross_entropy_with_logits(z, y), hfrnn.Batch(x, y)),
        ("softmax", 1, ignored, hfrnn.Batch(x, symbols, scored.double())),
    ):
        net, theta = from_torch(model, loss=loss)
        assert factor * net.loss(theta, batch) == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize(("kind", "layers", "seed"), CASES[::2])
def test_products_are_those_of_curvlinops(torch: Any, kind: str, layers: int, seed: int) -> None:
    curvlinops = pytest.importorskip("curvlinops", reason="curvlinops-for-pytorch is not installed")
    model, x, y, _ = random_case(torch, kind, layers, seed)
    y = torch.arange(x[..., 0].numel() if x.dtype.is_floating_point else x.numel()).reshape(x.shape[:2]) % 2
    objective, theta, layout = converted(model, x, y, "softmax")
    parameters, v = list(model.parameters()), torch.randn(layout.size, dtype=torch.float64)
    steps = torch.nn.Sequential(model, torch.nn.Flatten(0, 1))
    with torch.backends.mkldnn.flags(enabled=False):  # oneDNN has no forward mode
        data = [(x, y.flatten())]
        for operator, theirs in ((objective.gauss_newton(theta), curvlinops.GGNLinearOperator),
                                 (objective.hessian(theta), curvlinops.HessianLinearOperator)):  # fmt: skip
            A = theirs(steps, torch.nn.CrossEntropyLoss(), parameters, data, check_deterministic=False)
            assert largest_difference(layout, operator.to_torch(layout) @ v, A @ v) < 1e-10
