"""The public class of networks. Its methods run a batch as one shard in one thread, and serve as the reference."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Literal, overload

from hfrnn.arrays.backend import Array
from hfrnn.checks import flag, instance
from hfrnn.engine.batch import Batch
from hfrnn.engine.layout import Layout
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Keep, Plan, segment_boundaries
from hfrnn.engine.states import States
from hfrnn.engine.sweep import Sweep
from hfrnn.errors import InputError


class Network(Layout):
    """A recurrent network: an input map, a stack of layers of one architecture, and an output map with a loss.

    Parameters
    ----------
    arch : str
        The architecture's name (`hfrnn.architectures()`).
    n_in : int
        Size of the input alphabet, or number of real values per step.
    hidden : int or sequence of int
        Number of units of each layer, from the lowest to the highest.
    n_out : int
        Number of outputs per step.
    loss : {"softmax", "class-softmax", "logistic", "squared", "poisson", "gaussian"}
        Or the name of a loss that was registered with `register_loss`. With "gaussian" the network has 2 n_out outputs
        per step: the means of all targets, then the logarithms of their variances.
    dtype : {"float32", "float64"} or NumPy's type of that name
    backend : {"numpy", "numba", "cupy", "auto"}
        "auto" means cupy with a GPU that CuPy can use, else numba if it is installed and has a compiled variant of the
        architecture, else numpy.
    label_smoothing : float
        For the softmax loss: the share e of `(1 - e)*target + e/n_out`, from 0, below 1; default 0.
    embedding : int, optional
        Width of a trained embedding of the input symbols; without one, symbols are one-hot.
    bias : bool, optional
        Whether hidden layers have biases. By default, slots have them as the architecture defines. False: no slot has
        one. True: as the architecture defines or, if it defines none, every slot that the layer below can feed.
    output_bias : bool, optional
        Whether the outputs have a bias. The default depends on the architecture.
    direct_input : bool
        Whether the input also feeds the layers above the first. It always feeds slots that nothing else feeds.
    direct_output : bool
        Whether the layers below the last also feed the output.
    l2 : float
        Adds `l2/2 * |theta|^2` to the objective.
    activation : {"tanh", "logistic", "relu", "softplus"}
        For `rnn`, the four `hornn`, `leaky`, `rate`, `low-rank`, `fnn` and `fofe-fnn`: the activation function of the
        hidden units; for `state-space`, of the units in the transition. "softplus" is for `leaky`, `rate`, `low-rank`
        and `state-space`.
    order : int
        For the four `hornn`: number of previous steps that a step depends on, 1 or more. For `fnn`: number of inputs
        that a step of the first layer reads, its own included. Default 3.
    codes : int
        For `fofe-fnn`: number of codes that a step of the first layer reads, its own included, 1 or more. Default 1.
    alpha : float
        From 0 to 1. For `hornn-fofe` and `fofe-fnn`: weight of a previous step relative to the step after it; default
        0.6. For `scrn`: fraction of its value that a context unit keeps per step; default 0.95.
    learn_alpha : bool
        For `scrn`: whether to learn one alpha per context unit, starting at `alpha`.
    context : int
        For `scrn`: number of context units of each layer, 0 or more; default 40. With context units, the hidden size
        may be 0.
    leak : float
        For `leaky`, `rate` and `low-rank`: share of the way to its new value that a unit moves in a step, dt/tau, above
        0 and at most 1; default 0.2.
    learn_leak : bool
        For `leaky`, `rate` and `low-rank`: whether to learn one leak per unit, starting at `leak`.
    periods : sequence of int, optional
        For `clockwork` and `hierarchical`: the period of each module, 1 or more, in any order. The number of modules
        must divide every hidden size. By default 1, 2, 4, ..., with the largest number of modules up to 8 that divides
        the hidden size.
    sublayers : int, optional
        For `gated-feedback`: number of layers of equal width inside each layer, which feed back into each other; it
        must divide every hidden size. By default the largest of 3, 2 and 1 that does.
    units : int
        For `state-space`: number of nonlinear units in the transition, 1 or more; default 16.
    rank : int
        For `low-rank`: rank of the recurrent matrix, 1 or more; default 2.
    dt, gamma, epsilon : float
        For `coupled-oscillator`: time step, above 0 and at most 1, default 0.042; squared frequency of an uncoupled
        oscillator, 0 or more, default 2.7; damping, 0 or more, default 4.7.
    candidate_bias : bool
        For `gru-torch`: whether the recurrent part of the candidate has a bias of its own, b_hn; default True.
    learn_initial_state : bool
        Whether to learn the state before the first step, starting at zeros. Each array `name` of the state of layer l
        is then a row of parameters, `layer{l}.{name}0`, the same for all sequences and, in a HORNN, for all states of
        its history. A batch's own `initial_state` takes its place. The time `t` of clockwork is not learned.
    recordings : int
        Number of recordings with a learned initial state of their own, or 0. Recording r then begins with
        `layer{l}.{name}0` plus row r of `layer{l}.{name}0_each`, where the rows follow one another in a vector. A
        batch names the recordings of its sequences in its `initial_state`; unknown ones begin with `layer{l}.{name}0`.
    feedthrough : bool
        Whether the outputs also depend directly on the input of their step, by the matrix `output.W_y_u` (n_in, n_out):
        the direct term D of a state-space model.
    classes : int or sequence of int
        For the class softmax ([M]): a number of classes, or the class of each symbol, from 0 to C-1. Every class has
        at least one symbol. With a number, the symbols are divided in their order into classes of nearly equal sizes.
        The columns of `output.W_y{l}` are in class order: a stable sort of the symbols by class.
    **options
        Options of an architecture that the user registered.

    Raises
    ------
    InputError
        A value is not known or out of range.
    MissingExtraError
        The backend is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> net
    <Network rnn 3, 2 in, 1 out (squared), 21 weights>
    >>> theta = net.init(seed=0)
    >>> sorted(net.views(theta))
    ['layer0.W_h', 'layer0.W_x', 'layer0.b', 'output.W_y0']
    >>> logits, state = net.run(theta, batch)
    >>> logits.shape, state[0]["h"].shape
    ((5, 4, 1), (4, 3))
    >>> loss, gradient = net.loss_and_gradient(theta, batch)
    >>> round(loss, 4), gradient.shape
    (0.593, (21,))
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments and the name of the backend: a network holds no arrays."""
        return functools.partial(type(self), **self.config, backend=self.backend.name), ()

    @overload
    def run(self, theta: Array, batch: Batch, states: Literal[False] = False) -> tuple[Array, States]: ...

    @overload
    def run(self, theta: Array, batch: Batch, states: Literal[True]) -> tuple[Array, States, States]: ...

    def run(self, theta: Array, batch: Batch, states: bool = False) -> tuple[Any, ...]:
        """Run the network, and return its logits and final state.

        Parameters
        ----------
        theta : (n_parameters,) array
        batch : Batch
            Targets are not needed.
        states : bool
            Whether to return the state after every step too. This runs one step at a time and takes longer.

        Returns
        -------
        logits : (T, B, n_out) array
            0 in the padding. The class softmax returns the log-probabilities of all symbols instead.
        state : list of dict
            The state after the last step of each sequence, one dict of arrays per layer. The time `t` of clockwork is
            that of the longest sequence.
        states : list of dict
            Only with `states`: the state after every step, one dict of arrays per layer. Each array has time as a new
            first axis, (T, B, H) for a hidden state (B, H), and is 0 in the padding. The time `t` of clockwork is an
            array of T integers.
        """
        states, ready = flag("states", states), self.prepare(batch, targets_needed=False).padded()
        theta = self.vector(theta)
        if ready.lengths is None:
            found = self._sweep(ready, Keep.STATES).logits(theta)
        else:
            found = self._run_mixed_lengths(theta, ready, sorted({0, ready.T, *ready.lengths.tolist()}))
        return (*found, self._every_state(theta, ready)) if states else found

    def continued(self, theta: Array, batch: Batch) -> tuple[Array, States]:
        """Return `run` for sequences of equal length without a check of theta, a vector that `vector` returned."""
        return self._sweep(self.prepare(batch, targets_needed=False), Keep.STATES).logits(theta)

    def log_probabilities(self, theta: Array, batch: Batch) -> Array:
        """Return the log-probability of each target, (T, B) in nats, 0 in the padding.

        Weights are ignored. A step whose target is NaN has NaN. A step without weight may have a target symbol out of
        range: the symbol that is nearest to it is scored.

        Raises
        ------
        InputError
            The loss gives no probabilities (squared), or the batch has no targets.
        """
        return self.score(theta, batch)[0]

    def score(self, theta: Array, batch: Batch) -> tuple[Array, States]:
        """Return `log_probabilities` and the state after the last step, for sequences of equal length."""
        if not self.head.probabilistic:
            raise InputError(
                f"the loss {self.loss_name!r} gives no probabilities: use softmax, class-softmax or logistic"
            )
        if self.config.get("label_smoothing"):
            return self.without_penalty().score(theta, batch)
        return self._sweep(self.prepare(batch).padded(), Keep.STATES).log_probabilities(self.vector(theta))

    def loss(self, theta: Array, batch: Batch) -> float:
        """Return `Objective.loss`, computed on one shard."""
        return self._objective(batch).loss(theta)

    def loss_and_gradient(self, theta: Array, batch: Batch) -> tuple[float, Array]:
        """Return `Objective.loss_and_gradient`, computed on one shard."""
        return self._objective(batch).loss_and_gradient(theta)

    def gauss_newton(
        self, theta: Array, batch: Batch, structural: float = 0.0, tikhonov: float = 0.0, metric: str = "hidden"
    ) -> Any:
        """Return `Objective.gauss_newton`, computed on one shard."""
        return self._objective(batch).gauss_newton(theta, structural, tikhonov, metric)

    def hessian(self, theta: Array, batch: Batch) -> Any:
        """Return `Objective.hessian`, computed on one shard."""
        return self._objective(batch).hessian(theta)

    def jacobian(self, theta: Array, batch: Batch) -> Any:
        """Return `Objective.jacobian`, computed on one shard."""
        return self._objective(batch).jacobian(theta)

    def _objective(self, batch: Batch) -> Objective:
        instance("batch", batch, Batch, "a hfrnn.Batch")
        return Objective(self, batch, threads=1, plan=Plan((0, batch.B), None, Keep.ALL))

    def _sweep(self, batch: Batch, keep: Keep) -> Sweep:
        return Sweep(self, batch, 1.0, boundaries=segment_boundaries(batch.T, None), keep=keep)

    def _every_state(self, theta: Array, batch: Batch) -> States:
        """Return the state after every step, with time on the first axis; see `run`."""
        exists, state = batch.exists(self.backend), batch.initial_state
        shapes, zeros = [layer.kernel.state_shapes(batch.B) for layer in self.layers], self.backend.zeros
        every: States = [
            {name: zeros((batch.T, *shape), self.dtype if shape else "int64") for name, shape in layer.items()}
            for layer in shapes
        ]
        for t in range(batch.T):
            _, state = self._sweep(Batch(batch.inputs[t : t + 1]).with_state(state), Keep.STATES).logits(theta)
            for layer, collected in zip(state, every, strict=True):
                for name, value in layer.items():
                    collected[name][t] = value
                    if exists is not None and not isinstance(value, int):
                        collected[name][t] = self.backend.xp.where(exists[t][:, None], value, 0)
        return every

    def _run_mixed_lengths(self, theta: Array, batch: Batch, edges: list[int]) -> tuple[Array, States]:
        """Run in parts that stop at each sequence's end, and collect the state of each sequence there."""
        xp = self.backend.xp
        lengths = self.backend.asarray(batch.lengths).reshape(1, batch.B, 1)
        longest = int(lengths.max().item())
        logits, state = [], batch.initial_state
        final: States = [{} for _ in self.layers]
        for start, stop in itertools.pairwise(edges):
            part = Batch(batch.inputs[start:stop]).with_state(state)
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
