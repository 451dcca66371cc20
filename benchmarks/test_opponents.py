"""The steps of opponents.py are those of their packages, with the gradients that they are given."""

from __future__ import annotations

import numpy as np
import pytest
from opponents import LBFGSStep, PackageStep, PSGDStep

import hfrnn
from hfrnn.errors import InputError
from hfrnn.optim.blocks import MatrixBlock

CURVATURE = np.array([1.0, 4.0, 0.5, 2.0, 3.0, 0.25])


def steps(optimizer: PackageStep, count: int, rate: float) -> np.ndarray:
    theta = np.linspace(-1.0, 1.0, 6)
    for _ in range(count):
        theta = optimizer.step(theta, CURVATURE * theta, rate)
    return theta


def test_lbfgs_minimises_a_quadratic_from_gradients_alone() -> None:
    pytest.importorskip("torch")
    assert np.abs(steps(LBFGSStep(), 30, 1.0)).max() < 1e-8


def test_psgd_makes_the_steps_of_its_package() -> None:
    torch, package = pytest.importorskip("torch"), pytest.importorskip("kron_torch")
    found = steps(PSGDStep([MatrixBlock(0, 2, 2, 1), MatrixBlock(4, 1, 2, 1)]), 5, 0.01)
    torch.manual_seed(0)
    parts = [
        torch.linspace(-1, 1, 6, dtype=torch.float64)[a:b].view(shape) for a, b, shape in ((0, 4, (2, 2)), (4, 6, (2,)))
    ]
    curvature = [
        torch.from_numpy(CURVATURE[a:b]).view_as(part) for (a, b), part in zip(((0, 4), (4, 6)), parts, strict=True)
    ]
    plain = package.Kron(parts, lr=0.01)
    for _ in range(5):
        for part, diagonal in zip(parts, curvature, strict=True):
            part.grad = diagonal * part
        plain.step()
    np.testing.assert_allclose(found, torch.cat([part.flatten() for part in parts]).numpy(), rtol=1e-12)


@pytest.mark.usefixtures("registered")
def test_a_run_of_a_package_is_not_resumed() -> None:
    with pytest.raises(InputError, match="a run of psgd cannot be resumed"):
        PSGDStep([]).load_state_dict({})
    assert hfrnn.TrainConfig(data="sine", optimizer="psgd").resolved().average > 0
