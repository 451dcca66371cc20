"""What a run starts from: its network, its constraints and its initial parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from hfrnn._version import __version__
from hfrnn.arrays.backend import Array, HostArray, get_backend
from hfrnn.arrays.devices import use_device
from hfrnn.arrays.vectors import is_finite
from hfrnn.engine.connectivity import drawn_constraints
from hfrnn.engine.constraints import Constraints
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.engine.plan import Use
from hfrnn.engine.planner import make_plan
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import DeviceMemoryError, InputError, Message
from hfrnn.option import argument
from hfrnn.ranks.one import ALONE, Ranks
from hfrnn.runs.config import TrainConfig, useless
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.runs.options import run_options
from hfrnn.runs.run_constraints import read_connectivity
from hfrnn.training.feedback_schedule import FeedbackSchedule
from hfrnn.wording import memory_size

if TYPE_CHECKING:
    from hfrnn.arrays.backend import Backend
    from hfrnn.sources.open import Source
    from hfrnn.training.run_state import RunState


def refuse_idle_options(config: TrainConfig) -> None:
    """Raise InputError if an option was given that has no effect in the run. A network refuses its own."""
    for name in config.given:
        if name in run_options() and (why := useless(name, config)):
            config.refuse((name,), why)


def build_network(config: TrainConfig, data: Mapping[str, Any]) -> Network:
    """Return the network of a run; `data` has what the data determine: `n_in`, `n_out`, `loss` and classes."""
    net = Network(**config.network_arguments(data))
    taken = net.n_parameters * net.dtype.itemsize
    if taken > config.memory_bytes:
        raise InputError(Message(
            "the network has {0:,} weights, which take {1}, and {memory} is {2}: give a smaller network or more memory",
            net.n_parameters, memory_size(taken), config.memory,
        ))  # fmt: skip
    return net


def initial_parameters(
    config: TrainConfig, net: Network, first: HostArray | None, constraints: Constraints | None = None
) -> Array:
    """Return the parameters (net.n_parameters,) that a run starts from: given ones, or random ones by the options.

    With constraints, these are the variables of the parameters.
    """
    if first is not None:
        given = net.backend.asarray(first, dtype=net.dtype)
        if constraints is not None and not constraints.allows(given):
            raise InputError(Message(
                "{init_from} is {0}, and its weights do not have the connectivity and signs of this run: leave one of "
                "the two out", config.init_from,
            ))  # fmt: skip
        return given if constraints is None else constraints.variables(given)
    given = {"scale": config.init_scale, "W_x": config.input_scale}
    scales = {name: scale for name, scale in given.items() if scale is not None}
    with np.errstate(over="ignore"):
        theta = net.init(config.seed, config.initializer, config.spectral_radius, **scales)
    if not is_finite(theta):
        wider = "" if net.dtype == "float64" else ", or {dtype:float64}"
        raise InputError(Message(
            "the first weights overflow in {0}: give a smaller {init_scale!s} or {input_scale!s}" + wider, net.dtype
        ))  # fmt: skip
    return theta if constraints is None else constraints.variables(constraints.initial(theta))


def run_constraints(config: TrainConfig, net: Network) -> Constraints | None:
    """Return the constraints that the options of a new run ask for; None if they ask for none."""
    if not config.is_constrained:
        return None
    density = 1.0 if config.density is None else config.density
    masks: dict[str, HostArray] = {}
    signs: dict[str, HostArray] = {}
    if config.density is not None or config.excitatory is not None:
        masks, signs = drawn_constraints(net, density, config.excitatory, config.excitatory_output, config.seed)
    if config.connectivity is None:
        return Constraints(net, masks, signs)
    given = read_connectivity(config.connectivity, net)
    for what, drawn, own in (("mask", masks, given[0]), ("sign", signs, given[1])):
        if twice := sorted(drawn.keys() & own.keys()):
            raise InputError(Message(
                "{0} has a {1} for {2}, which {excitatory!s} sets too: leave one of them out",
                config.connectivity, what, ", ".join(twice),
            ))  # fmt: skip
        drawn |= own
    try:
        return Constraints(net, masks, signs)
    except InputError as error:
        raise InputError(Message("{connectivity} is {0}: {1}", config.connectivity, error)) from error


# ------------------------------------------------------------------ validation


DEVICE_PART = 4
"""On a GPU, validation may use the memory budget divided by this, from what the budget leaves free."""


def validation_objective(net: Network, source: Source, config: TrainConfig, ranks: Ranks = ALONE) -> Objective | None:
    """Return the objective on the validation data, without the penalty on the weights; None without such data.

    In a run with a closed loop, it scores free runs that begin after the burn-in.
    """
    batch = source.validation
    if batch is None:
        return None
    net, batch, loop = net.without_penalty(), batch.by_length(), FeedbackSchedule(config, source).whole()
    memory = config.memory_bytes if net.backend.on_host else config.memory_bytes // DEVICE_PART
    plan = make_plan(
        net, batch.T, batch.B, "auto", memory, batch.symbols, Use.LOSS, batch.weighs_outputs, config.shards,
        lengths=batch.shard_lengths, loops=loop is not None,
    )  # fmt: skip
    return Objective(net, batch, config.threads, plan=plan, comm=ranks, closed_loop=loop)


def validate(validation: Objective | None, source: Source, weights: Array) -> tuple[float | None, float | None]:
    """Return the validation loss, and the share of wrong answers; None where answers are not right or wrong."""
    if validation is None:
        return None, None
    if not source.counts_errors:
        return validation.loss(weights), None
    if isinstance(validation.batch, RaggedBatch):
        return validation.loss_and_errors(weights)
    loss, logits = validation.loss_and_logits(weights)
    return loss, source.errors(validation.net.backend.to_host(logits))


# ------------------------------------------------------------------ memory of a GPU


def smaller_budget(config: TrainConfig) -> dict[str, str]:
    """Return the options of a run that plans with half of the memory budget; only `checkpoint="auto"` has a budget."""
    half = {"memory": f"{max(config.memory_bytes >> 21, 1)}MiB"}
    return half if config.checkpoint == "auto" else {"checkpoint": "auto", **half}


@contextmanager
def before_updates(backend: Backend, config: TrainConfig) -> Iterator[None]:
    """Tell within the context, while a run prepares its first update, which memory budget to give."""
    try:
        yield
    except backend.memory_errors as error:
        smaller = Message(", ".join(argument(*each) for each in smaller_budget(config).items()))
        raise DeviceMemoryError(Message(
            "the memory of the GPU is used up before the first update, with a budget of {0}: give a smaller one ({1})",
            config.memory, smaller,
        )) from error  # fmt: skip


def after_an_update(state: RunState) -> DeviceMemoryError:
    """Return the error of a run that has a summary: which update is saved, and how to resume with a smaller budget."""
    config = state.config
    return DeviceMemoryError(Message(
        "the memory of the GPU is used up after update {0}, which is saved, with a budget of {1}: resume with a "
        "smaller one, {2}", state.saved["update"], config.memory, state.command_to_resume(smaller_budget(config)),
    ))  # fmt: skip


# ------------------------------------------------------------------ several ranks


OWN = ("text", "data", "valid", "test", "init_from", "connectivity", "out", "threads")
"""Options that may differ between ranks: paths, whose files are compared, and the number of threads."""


def prepared(ranks: Ranks, config: TrainConfig) -> TrainConfig:
    """Return the options of a run, after all ranks have compared theirs, and each has chosen its device.

    All ranks use the memory budget of rank 0.
    """
    if ranks.size == 1:
        return config
    if not OPTIMIZERS[config.optimizer].on_ranks:
        raise InputError(Message(
            f"{{optimizer:{config.optimizer}}} works in one process, and {{0}} ranks were started: start it without "
            "mpiexec", ranks.size,
        ))  # fmt: skip
    ranks.wait_at_most(config.rank_timeout)
    config = config.completed(memory=ranks.broadcast(config.memory))
    options = {name: value for name, value in {**config.followed, **config.given}.items() if name not in OWN}
    ranks.check_data("the configuration", json.dumps([__version__, options], sort_keys=True))
    use_device(get_backend(config.backend), ranks.local_rank)
    return config


@contextmanager
def ending_together(ranks: Ranks) -> Iterator[None]:
    """Let an error within the context end all ranks."""
    try:
        yield
    except BaseException as error:
        ranks.abort(error)
        raise
