"""Hessian-free updates of a PyTorch model: `hfrnn.torch.HessianFree`. PyTorch is imported when it is first used."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from hfrnn.arrays.backend import Array, HostArray, host_copy
from hfrnn.checks import flag, shown
from hfrnn.engine.batch import Batch
from hfrnn.engine.objective import Objective
from hfrnn.errors import HfrnnWarning, InputError, MissingExtraError, how_to_install
from hfrnn.interop.torch_vectors import TorchLayout
from hfrnn.optim.damping import Damping, LevenbergMarquardt
from hfrnn.optim.hessian_free import HessianFree as Optimizer
from hfrnn.optim.hessian_free import HessianFreeOptions, Update

__all__ = ["HessianFree"]

OF_CRITERIA = {"CrossEntropyLoss": "softmax", "MSELoss": "squared", "BCEWithLogitsLoss": "logistic"}
"""hfrnn's loss for each of PyTorch's."""
AGREEMENT = {"float32": 1e-3, "float64": 1e-8}
"""Largest difference of the model's outputs and hfrnn's, relative to the largest output, by data type."""


class HessianFree:
    """Hessian-free optimization of a PyTorch model of an nn.LSTM, nn.GRU or nn.RNN; it writes the model's parameters.

    Parameters
    ----------
    model : torch.nn.Module
        A model that `hfrnn.interop.from_torch` takes. Parameters that require no gradient stay as they are; each step
        reads `requires_grad` anew.
    criterion : torch.nn.CrossEntropyLoss, MSELoss or BCEWithLogitsLoss
        The loss that you minimise. Class weights, `ignore_index` and `label_smoothing` count. A loss that hfrnn does
        not compute, for example with `pos_weight`, is refused.
    damping, options, rule, lambda_rule
        As for `hfrnn.HessianFree`; the preconditioner is an option.
    embedding : str, optional
        As for `from_torch`.
    **network_options
        `dtype`, `backend` and `l2`, as for `from_torch`: `dtype="float64"` computes in double precision.

    Attributes
    ----------
    net : Network
        The model in hfrnn.
    optimizer : hfrnn.HessianFree
        With `damping`, `updates`, `ended`.

    Raises
    ------
    InputError
        hfrnn does not compute this model or this loss.

    Notes
    -----
    Dropout is left out, as in evaluation mode. A second bias of a layer keeps its value, unless the first one requires
    no gradient. After a change of `requires_grad`, the optimizer keeps its damping and its count of updates. It forgets
    the rest of its state: the warm start, the last step, the preconditioner and the failures.

    Examples
    --------
    >>> import torch
    >>> import hfrnn
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.core, self.top = torch.nn.LSTM(2, 3), torch.nn.Linear(3, 1)
    ...
    ...     def forward(self, x):
    ...         return self.top(self.core(x)[0])
    >>> model = Model()
    >>> optimizer = hfrnn.torch.HessianFree(model, torch.nn.MSELoss())
    >>> update = optimizer.step(torch.randn(5, 4, 2), torch.randn(5, 4, 1))
    >>> update.loss_after < update.loss_before
    True
    """

    def __init__(
        self, model: Any, criterion: Any, *, damping: Damping | None = None, options: HessianFreeOptions | None = None,
        rule: LevenbergMarquardt | None = None, lambda_rule: LevenbergMarquardt | None = None,
        embedding: str | None = None, **network_options: Any,
    ) -> None:  # fmt: skip

        from hfrnn.interop import from_torch  # the chain of imports stays short

        self.torch = _torch()
        if not isinstance(model, self.torch.nn.Module):
            raise InputError(f"model is {shown(model)}: give a torch.nn.Module, not its state dict")
        self.criterion, loss = criterion, _loss_of(self.torch, criterion)
        if "loss" in network_options:
            raise InputError("loss cannot be chosen, because the criterion determines it: leave it out")
        self.model, self._embedding, self._checked = model, embedding, False
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HfrnnWarning)
            self.net, _ = from_torch(model, embedding=embedding, loss=loss, **network_options)
        of_class = getattr(criterion, "weight", None)
        if of_class is not None and tuple(of_class.shape) != (self.net.n_out,):
            raise InputError(
                f"weight of the criterion has shape {tuple(of_class.shape)}, and the model has {self.net.n_out} "
                "outputs: give one weight for each class"
            )
        for each in caught:
            if not any(text in str(each.message) for text in ("batch_first=True", "requires_grad is False")):
                warnings.warn(each.message, stacklevel=2)
        self._batch_first = any(getattr(module, "batch_first", False) for module in model.modules())
        self._all = TorchLayout(self.net, model, embedding=embedding)
        self._find_trained()
        self.optimizer = Optimizer(damping, options, rule, lambda_rule)

    def __repr__(self) -> str:
        return f"<HessianFree of {type(self.model).__name__}: {self.net.describe()}; {self.optimizer!r}>"

    @property
    def theta(self) -> Array:
        """The model's parameters now, in the order of theta."""
        vector = self._all.direction(dict(self.model.named_parameters(remove_duplicate=False)))
        return self.net.vector(vector)

    def objective(self, inputs: Any, targets: Any, weights: Any = None, lengths: Any = None) -> Objective:
        """Return the objective of a batch; parameters are those of `step`."""
        return Objective(self.net, self._batch(inputs, targets, weights, lengths))

    def step(
        self, inputs: Any, targets: Any, weights: Any = None, lengths: Any = None, *, curvature: Any = None,
        check: bool | None = None,
    ) -> Update:  # fmt: skip
        """Make one update on a batch, and write the new parameters to the model.

        Parameters
        ----------
        inputs, targets : tensor
            As the model and the criterion take them: (T, B, ...), or (B, T, ...) if the model has `batch_first=True`.
            Targets are symbols (T, B) for cross entropy, else real values (T, B, n_out).
        weights : tensor, optional
            Weights of the steps, of the shape (T, B), or (B, T) with `batch_first=True`. They are multiplied by those
            of the criterion.
        lengths : tensor, optional
            Numbers of steps of the sequences, (B,). All steps count by default.
        curvature : tuple of tensors, optional
            Another batch for the curvature products, (inputs, targets), usually a part of the first.
        check : bool, optional
            Whether to compare the model's own outputs with hfrnn's first. By default only in the first step.

        Returns
        -------
        Update
            As `hfrnn.HessianFree.update` returns it. Its losses are means over the weights of the steps. For cross
            entropy they are those of the criterion; nn.MSELoss is 2/n_out times and nn.BCEWithLogitsLoss 1/n_out times
            as much, because hfrnn adds up the outputs of a step.

        Raises
        ------
        InputError
            The batch does not fit the model; no parameter requires a gradient; or the model's outputs differ from
            hfrnn's, because its `forward` does something that hfrnn cannot see.
        NonFiniteError
            The loss or the gradient is not finite.
        """
        batch = self._batch(inputs, targets, weights, lengths)
        check = flag("check", check, or_none=True)
        if check or (check is None and not self._checked):
            self._compare(inputs, batch)
            self._checked = True
        self._follow_requires_grad()
        gradient = _Trained(Objective(self.net, batch), self._exists)
        of_curvature = None
        if curvature is not None:
            if not isinstance(curvature, tuple | list) or not 2 <= len(curvature) <= 4:
                raise InputError(f"curvature is {shown(curvature)}: give the inputs and targets of a batch")
            of_curvature = _Trained(self.objective(*curvature), self._exists)
        theta = self.theta
        update = self.optimizer.update(theta, gradient, of_curvature)
        self._write(update.theta - theta)
        return update

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer: damping, warm start, counts. The parameters are those of the model."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a `state_dict` of an optimizer that trained the same parameters with the same kind of damping."""
        self.optimizer.load_state_dict(state)

    # ------------------------------------------------------------------ trained parameters

    def _requiring_grad(self) -> set[str]:
        """Return the names of the parameters that require a gradient; raise InputError if there are none."""
        parameters = self.model.named_parameters(remove_duplicate=False)
        names = {name for name, each in parameters if each.requires_grad}
        if not names:
            raise InputError(
                "no parameter of the model requires a gradient, so none would move: call requires_grad_(True) "
                "on those to train"
            )
        return names

    def _find_trained(self) -> None:
        """Set which parameters of the model move, and which entries of theta."""
        self._requiring_grad()
        self._trained = TorchLayout(self.net, self.model, embedding=self._embedding, trainable=True)
        moves = self._trained.direction(np.ones(self._trained.size, self.net.dtype)) != 0
        self._exists = self.net.backend.asarray(moves, dtype=self.net.dtype)

    def _follow_requires_grad(self) -> None:
        """Find the trained parameters again if they have changed; vectors of the optimizer do not fit them then."""
        if self._requiring_grad() == set(self._trained.names):
            return
        self._find_trained()
        self.optimizer.restart()

    # ------------------------------------------------------------------ batches

    def _time_first(self, tensor: Any) -> Any:
        return tensor.transpose(0, 1) if self._batch_first else tensor

    def _batch(self, inputs: Any, targets: Any, weights: Any, lengths: Any) -> Batch:
        """Return a batch of hfrnn with the weights of the criterion."""
        for name, each in (("inputs", inputs), ("targets", targets)):
            if not isinstance(each, self.torch.Tensor) or each.ndim < 2:
                raise InputError(f"{name} is {shown(each)}: give a tensor of steps of sequences")
        softmax, steps = self.net.loss_name == "softmax", tuple(inputs.shape[:2])
        if weights is not None:
            axes = None if softmax else 2  # the other losses also take weights of outputs
            if not isinstance(weights, self.torch.Tensor) or tuple(weights.shape[:axes]) != steps:
                raise InputError(
                    f"weights is {shown(weights)}: give a torch.Tensor of shape {steps}, one weight for each step of "
                    "each sequence"
                )
            weights = self._time_first(weights.detach()).contiguous()
        x, y = (self._time_first(each.detach()).contiguous() for each in (inputs, targets))
        batch = Batch(x, y, weights, lengths)
        return self._of_cross_entropy(batch, y, weights) if softmax else batch

    def _of_cross_entropy(self, batch: Batch, targets: Any, weights: Any) -> Batch:
        """Return a batch whose targets and weights make cross entropy the criterion, given those of the user.

        With label smoothing, the targets are probabilities. Together with weights of classes, the weight of a step is
        the sum over classes of target times weight, so that the loss is that of the criterion times a constant.
        """
        smoothing, of_class, n_out = self.criterion.label_smoothing, self.criterion.weight, self.net.n_out
        plain = of_class is None and not smoothing
        if targets.ndim == 3 and plain:  # probabilities; PyTorch has no ignore_index for them
            return batch
        if targets.ndim == 3:
            raise InputError(
                f"targets have shape {tuple(targets.shape)}, and the criterion has weight or label_smoothing: give "
                "integer symbols, one for each step of each sequence"
            )
        ignored = targets == self.criterion.ignore_index
        if plain and not bool(ignored.any()):
            return batch
        weights = self.torch.ones_like(targets, dtype=self._float) if weights is None else weights
        counted = weights.masked_fill(ignored, 0)
        # raise InputError for a symbol that is no class
        self.net.prepare(Batch(batch.inputs, batch.targets, counted, batch.lengths))
        known = targets.long().clamp(0, n_out - 1)  # also where nothing is predicted
        of_class = self.torch.ones(n_out) if of_class is None else of_class
        of_class = of_class.to(targets.device, self._float)
        own = of_class[known]
        if smoothing:
            one_hot = self.torch.nn.functional.one_hot(known, n_out).to(self._float)
            soft = ((1 - smoothing) * one_hot + smoothing / n_out) * of_class
            own = soft.sum(dim=-1)
            targets = soft / own[..., None]
        return Batch(batch.inputs, targets, own * counted, batch.lengths)

    @property
    def _float(self) -> Any:
        return getattr(self.torch, self.net.dtype.name)

    def _compare(self, inputs: Any, batch: Batch) -> None:
        """Raise InputError if the model computes other outputs than the network."""
        training = self.model.training
        self.model.eval()
        try:
            with self.torch.no_grad():
                outputs = self.model(inputs)
        finally:
            self.model.train(training)
        if not isinstance(outputs, self.torch.Tensor) or outputs.ndim != 3:
            shape = tuple(outputs.shape) if isinstance(outputs, self.torch.Tensor) else shown(outputs)
            raise InputError(
                f"the model returns {shape}, and hfrnn computes outputs of every step, three axes: let forward return "
                "them, with weights of 0 where there is no target, or give check=False"
            )
        own = host_copy(self.net.run(self.theta, batch)[0])
        theirs: HostArray = self._time_first(outputs).cpu().numpy()
        exists = (
            host_copy(batch.exists(self.net.backend)) if batch.lengths is not None else np.ones(own.shape[:2], bool)
        )
        error = float(np.abs(own - theirs)[exists].max()) if own.shape == theirs.shape else np.inf
        most = AGREEMENT["float64" if theirs.dtype == own.dtype == np.float64 else "float32"]
        if not error <= most * max(float(np.abs(theirs).max()), 1.0):
            raise InputError(
                f"the outputs of the model and of hfrnn differ by {error:.2g}: its forward does something that hfrnn "
                "cannot see, and the update would minimise another loss; see hfrnn.interop.from_torch"
            )

    def _write(self, change: Array) -> None:
        """Add a change of theta to the model's parameters."""
        parts = self._trained.split(self._trained.parameters(change))
        parameters = dict(self.model.named_parameters(remove_duplicate=False))
        with self.torch.no_grad():
            for name, part in parts.items():
                tensor = (
                    self.torch.from_dlpack(part) if not isinstance(part, np.ndarray) else self.torch.from_numpy(part)
                )
                parameters[name].add_(tensor.to(parameters[name]))


class _Trained:
    """An objective in which the entries of theta that are not trained do not move."""

    def __init__(self, objective: Objective, exists: Array) -> None:
        self.objective, self.exists = objective, exists

    def __getattr__(self, name: str) -> Any:
        return getattr(self.objective, name)

    def loss_and_gradient(self, theta: Array) -> tuple[float, Array]:
        loss, gradient = self.objective.loss_and_gradient(theta)
        return loss, gradient * self.exists

    def squared_gradients(self, theta: Array) -> Array:
        return self.objective.squared_gradients(theta) * self.exists

    def part_gradients(self, theta: Array, parts: int) -> Array:
        return self.objective.part_gradients(theta, parts) * self.exists

    def loss(self, theta: Array) -> float:
        return self.objective.loss(theta)

    def gauss_newton(
        self, theta: Array, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> _TrainedProduct:
        return _TrainedProduct(self.objective.gauss_newton(theta, structural, tikhonov, metric), self.exists)


class _TrainedProduct:
    """The curvature matrix of the entries that are trained."""

    def __init__(self, operator: Any, exists: Array) -> None:
        self.operator, self.exists = operator, exists

    def apply(self, v: Array, out: Array) -> None:
        """Write the product into `out`."""
        self.operator.apply(v * self.exists, out)
        out *= self.exists


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtraError(f"hfrnn.torch needs PyTorch: {how_to_install('torch')}") from error


def _loss_of(torch: Any, criterion: Any) -> str:
    """Return hfrnn's loss of a criterion; raise InputError if hfrnn does not minimise it."""
    kind = next((name for name in OF_CRITERIA if isinstance(criterion, getattr(torch.nn, name))), None)
    why = ""
    if kind is None:
        why = "hfrnn does not compute it"
    elif getattr(criterion, "pos_weight", None) is not None:
        why = "pos_weight is given"
    elif kind == "BCEWithLogitsLoss" and criterion.weight is not None:
        why = "weight is given, which belongs to the weights of step()"
    elif criterion.reduction not in ("mean", "sum"):
        why = f"reduction is {criterion.reduction!r}"
    if kind is None or why:
        name = criterion.__name__ if isinstance(criterion, type) else type(criterion).__name__
        raise InputError(
            f"the criterion is {name}, and {why}, so an update would minimise another loss than yours: give an object "
            "of nn.CrossEntropyLoss (with weight and ignore_index if you like), nn.MSELoss or nn.BCEWithLogitsLoss"
        )
    return OF_CRITERIA[kind]
