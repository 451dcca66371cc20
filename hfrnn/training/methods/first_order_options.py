"""What the first-order optimizers have in common: their options, and the base class of those with mini-batches."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.choices import SCHEDULES
from hfrnn.optim.hf_options import declarations
from hfrnn.option import Need, Option
from hfrnn.runs.optimizers import Optimizer

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.optim.first_order import FirstOrder
    from hfrnn.training.methods.first_order import FirstOrderMethod

OF_SEQUENCES = (
    "sequence_length", "embedding", "learn_initial_state", "l2", "state_noise", "density", "connectivity",
    "excitatory", "excitatory_output", "average", "shards", "checkpoint", "closed_loop",
    "closed_loop_rise", "feedback",
)  # fmt: skip
"""Options of every run, and of the data, for the attribute `takes` of such an optimizer."""

_option = functools.partial(Option, group="First-order optimizers")

STEPWISE = (
    _option("learning_rate", float, None, "Learning rate.", above=0),
    _option("weight_decay", float, 0.0, "Decay of the weights per update, in units of the learning rate.", least=0),
    _option(
        "streams", int, 32, "Parts of a text that are read side by side; for other data, sequences of a batch.", least=1
    ),
    _option(
        "schedule", str, None,
        "How the learning rate falls: halve or divide it when validation stops improving; text8: halve it in every "
        "epoch after the first ones; cosine: let it fall until the end of the run, which it estimates for {minutes!s}.",
        choices=SCHEDULES, otherwise="divide for a text with a validation part, else constant",
    ),
    _option(
        "restore_best", bool, False,
        "Return to the weights of the best epoch whenever {schedule:halve} or {schedule:divide} lowers the learning "
        "rate.",
    ),
    _option(
        "constant_epochs", int, 5, "Epochs with the first learning rate, in schedule text8.",
        needs=(Need("schedule", ("text8",)),), least=1,
    ),
    _option("log_interval", int, 100, "Updates per record of the log.", least=1),
)  # fmt: skip
"""Options of all optimizers with many small steps."""
MOMENTUM = (
    next(each for each in declarations() if each.name == "momentum"),
    _option("nesterov", bool, False, "Use Nesterov's momentum."),
)
"""Options of gradient descent with momentum; `momentum` is shared with Hessian-free optimization."""
MINI_BATCHES = (
    _option(
        "clip_norm", float, 1.0, "Gradients with a larger norm are scaled down to it", above=0, zero="to turn it off"
    ),
    _option(
        "clip_value", float, None, "Entries of the gradient are limited to this absolute value.", above=0, most=1e30
    ),
    _option(
        "clip_error", float, None,
        "Limit on the absolute value of each entry of the error that passes from a time step to the one before. The "
        "error is that of the loss summed over the steps, not of the mean.",
        above=0, most=1e30,
    ),
    _option(
        "max_norm", float, None,
        "Largest norm of the incoming weights of a unit; larger ones are scaled down after every update. With names of "
        "matrices (layer0.W_h=2,output.W_*=1): largest norm of their columns.",
        above=0, named=True,
    ),
    _option(
        "update_every", int, None, "Steps between updates; errors are propagated back {sequence_length!s} steps.",
        least=1, otherwise="{sequence_length!s}",
    ),
    _option("warm_up", int, 0, "Updates in which the learning rate rises to its first value.", least=0),
)  # fmt: skip
"""Options of optimizers that make a step from the gradient of every mini-batch."""
AVERAGE = 0.995
"""Default of `average`: the decay of the average of the weights per update."""


class FirstOrderOptimizer(Optimizer):
    """Base class of optimizers that make a step from the gradient of every mini-batch.

    A subclass says how a step is made. It has the options of all such optimizers: clipping, schedules of the learning
    rate, the average of the weights.

    Examples
    --------
    Steps along the signs of the gradient; `examples/lion.py` has one with a state:

    >>> import numpy as np
    >>> import hfrnn
    >>> from hfrnn.optim.first_order import FirstOrder
    >>> class Signs(FirstOrder):
    ...     kind, vectors = "signs", ()
    ...     def advance(self, new, theta, gradient, lr, kept, after, work):
    ...         new[...] = theta - lr * np.sign(gradient)
    >>> @hfrnn.register_optimizer("signs")
    ... class SignDescent(hfrnn.FirstOrderOptimizer):
    ...     defaults = {"learning_rate": 0.001}
    ...     @classmethod
    ...     def step(cls, config, net, threads):
    ...         return Signs(threads)
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> hfrnn.train(**options, optimizer="signs", out="run").summary["updates"]
    2
    """

    options: ClassVar[tuple[Option, ...]] = (*STEPWISE, *MINI_BATCHES)
    takes = OF_SEQUENCES

    @classmethod
    def step(cls, config: Any, net: Network, threads: int) -> FirstOrder:
        """Return what makes the steps.

        Parameters
        ----------
        config : hfrnn.TrainConfig
            The options of the run, resolved.
        net : Network
        threads : int
            Threads that share the work of a step.

        Returns
        -------
        hfrnn.optim.first_order.FirstOrder
        """
        raise NotImplementedError

    @classmethod
    def make(cls, config: Any, source: Any, net: Network) -> FirstOrderMethod:
        from hfrnn.training.methods.first_order import FirstOrderMethod

        return FirstOrderMethod(config, source, net, cls.step)
