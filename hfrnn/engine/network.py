"""The public network: a layout with the calls that run it on one shard, everything kept, no threads. The reference."""

from __future__ import annotations

import itertools
from typing import Any

from hfrnn.arrays.backend import Array
from hfrnn.engine.batch import Batch
from hfrnn.engine.layout import Layout
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Keep, Plan, segment_boundaries
from hfrnn.engine.sweep import States, Sweep
from hfrnn.errors import InputError


class Network(Layout):
    """A recurrent network: input map, a stack of one architecture, output map with its loss.

    Parameters
    ----------
    arch : str
        The architecture's name (`hfrnn.architectures()`).
    n_in : int
        Symbols of the input alphabet, or real values a step.
    hidden : int or sequence of int
        Units of each layer, the first first.
    n_out : int
        Outputs a step.
    loss : {"softmax", "class-softmax", "logistic", "squared"}
    dtype : {"float32", "float64"}
    backend : {"numpy", "numba", "cupy", "auto"}
        "auto" is numba where it is installed and has a compiled variant of the architecture, else numpy.
    embedding : int, optional
        Width of a trained embedding of the input symbols; without one, symbols are one-hot.
    bias : bool, optional
        Biases of the hidden layers. By default those of the architecture's definition; False for none; True for those
        of the definition or, where it has none, of every slot that hears the layer below.
    output_bias : bool, optional
        Bias of the output; by default the architecture's own.
    direct_input : bool
        Whether layers above the first hear the input too (slots that hear nothing else always do).
    direct_output : bool
        Whether layers below the last speak to the output too.
    l2 : float
        Adds `l2/2 * |theta|^2` to the objective.
    activation : {"tanh", "logistic", "relu"}
        For `rnn` and the four `hornn`.
    order : int
        For the four `hornn`: how many steps back a step hears, 1 or more; 3 by default.
    alpha : float
        From 0 to 1. For `hornn-fofe`, what a step back counts beside the step after it, 0.6 by default. For `scrn`, how
        much of its value a context unit keeps in a step, 0.95 by default.
    learn_alpha : bool
        For `scrn`: learn alpha, one for each context unit, from there.
    context : int
        For `scrn`: context units of each layer, 0 or more; 40 by default. Its hidden size may then be 0.
    periods : sequence of int, optional
        For `clockwork`: the period of each module, 1 or more, in any order; their number divides every hidden size. By
        default 1, 2, 4, ..., as many as the largest number up to 8 that divides the layer's hidden size.
    classes : int or sequence of int
        For the class softmax ([M]): the class of each symbol, numbered 0, ..., C-1, each of at least one symbol; or a
        number of classes, of nearly equal sizes, in the symbols' order. The columns of `output.W_y{l}` are in class
        order: a stable sort of the symbols by class, which is the symbols' own order where classes ascend.
    **options
        The options of an architecture that a user registered.

    Raises
    ------
    InputError
        A value that is not known or out of its range.
    MissingExtraError
        The backend is not installed.
    """

    def run(self, theta: Array, batch: Batch) -> tuple[Array, States]:
        """Logits (T, B, n_out), 0 in the padding, and the state after each sequence's last step, a dict per layer.

        The time `t` in clockwork's state is one for the whole batch: that of the longest sequence. Of
        the class softmax the logits are the log-probabilities of all symbols; the others' are as they are.
        """
        ready = self.prepare(batch, targets_needed=False)
        if ready.lengths is None:
            return self._sweep(ready, Keep.STATES).logits(self._theta(theta))
        edges = sorted({0, ready.T, *ready.lengths.tolist()})
        return self._run_mixed_lengths(theta, ready, edges)

    def log_probabilities(self, theta: Array, batch: Batch) -> Array:
        """The log-probability of each target, (T, B) in nats, 0 in the padding.

        Raises
        ------
        InputError
            The loss is no probability (squared), or the batch has no targets.
        """
        return self.score(theta, batch)[0]

    def score(self, theta: Array, batch: Batch) -> tuple[Array, States]:
        """`log_probabilities` and the state after the last step (of equally long sequences)."""
        if not self.head.probabilistic:
            raise InputError(
                f"the loss {self.loss_name!r} gives no probabilities: use softmax, class-softmax or logistic"
            )
        return self._sweep(self.prepare(batch), Keep.STATES).log_probabilities(self._theta(theta))

    def loss(self, theta: Array, batch: Batch) -> float:
        """`Objective.loss` on one shard."""
        return self._objective(batch).loss(theta)

    def loss_and_gradient(self, theta: Array, batch: Batch) -> tuple[float, Array]:
        """`Objective.loss_and_gradient` on one shard."""
        return self._objective(batch).loss_and_gradient(theta)

    def gauss_newton(
        self, theta: Array, batch: Batch, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> Any:
        """`Objective.gauss_newton` on one shard."""
        return self._objective(batch).gauss_newton(theta, structural, tikhonov, metric)

    def hessian(self, theta: Array, batch: Batch) -> Any:
        """`Objective.hessian` on one shard."""
        return self._objective(batch).hessian(theta)

    def jacobian(self, theta: Array, batch: Batch) -> Any:
        """`Objective.jacobian` on one shard."""
        return self._objective(batch).jacobian(theta)

    def _objective(self, batch: Batch) -> Objective:
        return Objective(self, batch, threads=1, plan=Plan((0, batch.B), None, Keep.ALL))

    def _theta(self, theta: Array) -> Array:
        return self.backend.asarray(theta, dtype=self.dtype)

    def _sweep(self, batch: Batch, keep: Keep) -> Sweep:
        return Sweep(self, batch, 1.0, boundaries=segment_boundaries(batch.T, None), keep=keep)

    def _run_mixed_lengths(self, theta: Array, batch: Batch, edges: list[int]) -> tuple[Array, States]:
        """Run from one sequence's end to the next, and take each state where its sequence ends."""
        xp, theta = self.backend.xp, self._theta(theta)
        lengths = self.backend.asarray(batch.lengths).reshape(1, batch.B, 1)
        longest = int(lengths.max().item())
        logits, state = [], batch.initial_state
        final: States = [{} for _ in self.layers]
        for start, stop in itertools.pairwise(edges):
            part = Batch(batch.inputs[start:stop], initial_state=state)
            z, state = self._sweep(part, Keep.STATES).logits(theta)
            logits.append(xp.where(xp.arange(start, stop).reshape(-1, 1, 1) < lengths, z, 0))
            ended = (lengths[0] == stop).astype(bool)
            for layer, last in zip(state, final, strict=True):
                for name, value in layer.items():
                    if isinstance(value, int):
                        last[name] = value if stop <= longest else last[name]
                    else:
                        last[name] = xp.where(ended, value, last[name]) if start else value.copy()
        return xp.concatenate(logits), final
