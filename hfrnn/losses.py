"""The registry of losses, and the base class of those that are given by value, gradient and curvature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from hfrnn.checks import wrong
from hfrnn.entries import Entries
from hfrnn.option import Option

CLASS_SOFTMAX = "class-softmax"
SUMS_TO_1 = 1e-4
"""How far the sum of a row of probabilities may be from 1."""
LABEL_SMOOTHING = Option(
    "label_smoothing", float, 0.0,
    "Share of a target's probability that all classes have alike while the network is trained, for the softmax loss.",
    least=0, below=1, group="Network",
)  # fmt: skip


class LossDeclaration:
    """What every loss declares.

    Attributes
    ----------
    options : tuple of Option
        Its options, keywords of `Network` and of a run.
    integer_targets : bool
        Whether targets are integer symbols, not real values.
    scales_targets : bool
        Whether `standardize` scales the targets.
    real_values : bool
        Whether the prediction is a real value of the target's kind, so that errors such as the RMSE make sense.
    """

    options: ClassVar[tuple[Option, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = ()
    integer_targets = False
    scales_targets = False
    real_values = False

    @classmethod
    def why_not(cls, targets: Any) -> str:
        """Return why values cannot be targets of this loss, after "targets of the ... loss "; "" if they can."""
        return ""


class Loss(LossDeclaration):
    """A loss on real targets by its value, gradient and curvature: the base class of losses of your own.

    The loss of a step is the sum over its targets. `outputs` is the number of outputs of the network for each target:
    the outputs z of a step are (..., outputs * n_out), first those of one kind for all targets, then those of the next.
    Targets y are (..., n_out). `xp` is NumPy or CuPy. No method may change its arguments. With complex z, all must
    return the analytic continuation: use `z.real` in comparisons.

    Attributes
    ----------
    outputs : int
        Outputs of the network for each target.
    exact : bool
        Whether `curvature` is the Hessian of the loss in z. If not, it has to be positive semi-definite, and stands in
        for the Hessian in Gauss-Newton products.

    Examples
    --------
    >>> import hfrnn
    >>> @hfrnn.register_loss("log-cosh")
    ... class LogCosh(hfrnn.Loss):
    ...     def value(self, xp, z, y):
    ...         return xp.log(xp.cosh(z - y))
    ...
    ...     def gradient(self, xp, z, y):
    ...         return xp.tanh(z - y)
    ...
    ...     def curvature(self, xp, z, y, Rz):
    ...         return Rz * (1 - xp.tanh(z - y) ** 2)
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="log-cosh")
    >>> net.loss_name
    'log-cosh'
    """

    outputs: ClassVar[int] = 1
    exact: ClassVar[bool] = True
    real_values = True

    def value(self, xp: Any, z: Any, y: Any) -> Any:
        """Return the loss of each target, (..., n_out)."""
        raise NotImplementedError

    def gradient(self, xp: Any, z: Any, y: Any) -> Any:
        """Return the derivatives of the values' sum in z."""
        raise NotImplementedError

    def curvature(self, xp: Any, z: Any, y: Any, Rz: Any) -> Any:
        """Return the Hessian of the values' sum in z, or what stands in for it, times Rz, which has the shape of z."""
        raise NotImplementedError

    def prediction(self, xp: Any, z: Any) -> Any:
        """Return the predicted targets, (..., n_out)."""
        return z

    def deviation(self, xp: Any, z: Any) -> Any:
        """Return the predicted standard deviation of each target, (..., n_out); None if the loss predicts none."""
        return None


LOSSES: Entries[LossDeclaration] = Entries(
    "loss",
    LossDeclaration,
    {
        "softmax": "hfrnn.engine.heads.losses:Softmax",
        CLASS_SOFTMAX: "hfrnn.engine.heads.class_softmax:ClassSoftmax",
        "logistic": "hfrnn.engine.heads.losses:Logistic",
        "squared": "hfrnn.engine.heads.losses:Squared",
        "poisson": "hfrnn.engine.heads.poisson:Poisson",
        "gaussian": "hfrnn.engine.heads.gaussian:Gaussian",
    },
)
"""The losses by name: heads, or subclasses of `Loss`."""


def register_loss(name: str, loss: type[Loss] | None = None) -> Callable[[type[Loss]], type[Loss]]:
    """Register a loss under a name, for networks, commands and checks. Can be used as a class decorator.

    Parameters
    ----------
    name : str
        The name of the loss, as in `--loss NAME` and `Network(loss=NAME)`.
    loss : subclass of Loss, optional
        Its constructor takes the options that it declares in `options` as keywords.

    Returns
    -------
    callable
        The class decorator; not needed if `loss` is given.

    Raises
    ------
    InputError
        Another loss has that name, or the class is no subclass of Loss.

    Examples
    --------
    >>> import hfrnn
    >>> @hfrnn.register_loss("quartic")
    ... class Quartic(hfrnn.Loss):
    ...     def value(self, xp, z, y):
    ...         return (z - y) ** 4
    ...
    ...     def gradient(self, xp, z, y):
    ...         return 4 * (z - y) ** 3
    ...
    ...     def curvature(self, xp, z, y, Rz):
    ...         return 12 * (z - y) ** 2 * Rz
    >>> hfrnn.Network("rnn", n_in=1, hidden=2, n_out=1, loss="quartic").n_parameters
    10
    """
    if loss is not None and not (isinstance(loss, type) and issubclass(loss, Loss)):
        raise wrong("loss", loss, "give a subclass of hfrnn.Loss")
    return LOSSES.register(name, loss)  # type: ignore[return-value]


def loss_options() -> dict[str, Option]:
    """Return the options that losses declare, by name, without importing the built-in ones."""
    own = [option for name in LOSSES.of_users() for option in LOSSES[name].options]
    return {option.name: option for option in (LABEL_SMOOTHING, *own)}
