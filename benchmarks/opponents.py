"""Optimizers of other packages, as opponents in hf_vs_sgd.py and long_lags.py: PSGD and L-BFGS.

    pip install torch kron-torch opt-einsum

The packages get the gradients of hfrnn, so all methods of a comparison share one gradient code. Their state is not
kept, so their runs cannot be resumed: an interrupted cell begins again.

    psgd     PSGD with Kronecker-factored preconditioners (`kron_torch.Kron`), with the defaults of its package. Gates
             that are side by side are one matrix, which is faster than one for each gate. The package is not compiled,
             because compilation takes longer than it saves here, and it needs opt-einsum: without it, each product of
             factors is formed whole.
    lbfgs    L-BFGS (`torch.optim.LBFGS`) with a history of 100 steps. The learning rate is the length of a step, as a
             share of the one that the estimate of the curvature asks for.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

import hfrnn
from hfrnn.arrays.vectors import Scalar, Vector
from hfrnn.errors import InputError
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.optim.first_order import FirstOrder, Vectors
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.training.methods.first_order_options import AVERAGE

HISTORY = 100
"""Steps that L-BFGS remembers."""


class PackageStep(FirstOrder):
    """Steps of an optimizer of PyTorch, on two vectors of its own that the tensors of PyTorch share."""

    vectors = ()
    _optimizer: Any = None

    def advance_all(self, new: Vector, theta: Vector, gradient: Vector, lr: float, kept: Vectors) -> Scalar:
        if self._optimizer is None:
            os.environ["TORCHDYNAMO_DISABLE"] = "1"
            import torch

            torch.set_num_threads(1)
            torch.manual_seed(0)
            self._weights, self._gradient = theta.copy(), np.zeros_like(theta)
            weights, gradients = torch.from_numpy(self._weights), torch.from_numpy(self._gradient)
            self._optimizer = self.start(weights, gradients)
        self._weights[:], self._gradient[:] = theta, gradient
        self._optimizer.param_groups[0]["lr"] = lr
        with contextlib.redirect_stdout(io.StringIO()):  # the first step of PSGD prints sizes
            self.move(self._optimizer)
        new[:] = self._weights
        return bool(np.isfinite(new).all())

    def start(self, weights: Any, gradients: Any) -> Any:
        """Return the optimizer, given tensors (n,) of the weights and of their gradients."""
        raise NotImplementedError

    def move(self, optimizer: Any) -> None:
        """Make a step; the gradients are those of the present weights."""
        optimizer.step()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        raise InputError(f"a run of {self.kind} cannot be resumed: delete its folder, and run its cell again")


class PSGDStep(PackageStep):
    """Steps of `kron_torch.Kron` on the matrices of a network."""

    kind = "psgd"

    def __init__(self, blocks: Sequence[MatrixBlock]) -> None:
        super().__init__()
        self.blocks = blocks

    def start(self, weights: Any, gradients: Any) -> Any:
        from kron_torch import Kron

        parts = []
        for block in self.blocks:
            shape = (block.rows, block.columns) if block.rows > 1 else (block.columns,)
            part = weights[block.span].view(shape)
            part.grad = gradients[block.span].view(shape)
            parts.append(part)
        return Kron(parts)


class LBFGSStep(PackageStep):
    """Steps of `torch.optim.LBFGS`, one iteration each, without a line search."""

    kind = "lbfgs"

    def start(self, weights: Any, gradients: Any) -> Any:
        from torch.optim import LBFGS

        weights.grad = gradients
        return LBFGS([weights], max_iter=1, history_size=HISTORY, tolerance_grad=0.0, tolerance_change=0.0)

    def move(self, optimizer: Any) -> None:
        optimizer.step(lambda: 0.0)  # the loss decides nothing without a line search


class PSGD(hfrnn.FirstOrderOptimizer):
    """PSGD on all matrices of the network."""

    about = "PSGD with Kronecker-factored preconditioners, of the package kron-torch"
    defaults: ClassVar[dict[str, Any]] = {"learning_rate": 0.003, "average": AVERAGE}

    @classmethod
    def step(cls, config: Any, net: hfrnn.Network, threads: int) -> PSGDStep:
        return PSGDStep(net.matrix_blocks)


class LBFGS(hfrnn.FirstOrderOptimizer):
    """L-BFGS, for batches that are the whole training part."""

    about = "L-BFGS of PyTorch"
    defaults: ClassVar[dict[str, Any]] = {"learning_rate": 1.0, "average": 0.0}

    @classmethod
    def step(cls, config: Any, net: hfrnn.Network, threads: int) -> LBFGSStep:
        return LBFGSStep()


def register() -> None:
    """Make these optimizers known to `hfrnn.train`."""
    for name, optimizer in (("psgd", PSGD), ("lbfgs", LBFGS)):
        if name not in OPTIMIZERS.of_users():
            hfrnn.register_optimizer(name)(optimizer)


def forget() -> None:
    """Undo `register`."""
    for name in ("psgd", "lbfgs"):
        if name in OPTIMIZERS.of_users():
            OPTIMIZERS.forget(name)
