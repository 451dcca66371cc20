"""The weights that a new run starts from: those of another run, of a file of `hfrnn.save`, or of a Python program."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.checks import shown
from hfrnn.data.kinds import kind_of, takers
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, Message
from hfrnn.kernels.registry import declared_options
from hfrnn.losses import CLASS_SOFTMAX
from hfrnn.option import argument
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.options import run_options
from hfrnn.wording import counted

OF_A_STACK = ("direct_input", "direct_output")
"""Options that have an effect in a stack only."""


@contextlib.contextmanager
def as_file(init_from: Any, ranks: int = 1) -> Iterator[Any]:
    """Store a network and its weights, given as a pair, in a temporary file, and yield its path.

    Anything else is yielded as it is. A run that is interrupted before its first state is on the disk cannot find the
    file again, and says so.
    """
    if init_from is None or isinstance(init_from, str | os.PathLike):
        yield init_from
        return
    if not isinstance(init_from, tuple | list) or len(init_from) not in (2, 3) or not isinstance(init_from[0], Network):
        raise InputError(
            f"init_from is {shown(init_from)}: give the folder of a run, a file of hfrnn.save, or a network and its "
            "weights, (net, theta)"
        )
    if ranks > 1:
        raise InputError("init_from is a network in memory, and several ranks train: give a file of hfrnn.save")
    from hfrnn.runs.load import save  # the chain of imports stays short

    with tempfile.TemporaryDirectory(prefix="hfrnn-") as folder:
        path = Path(folder) / "given.safetensors"
        net, theta, *vocabulary = init_from
        save(net, theta, path, *vocabulary)
        try:
            yield path
        except InputError as error:
            raise InputError(str(error).replace(str(path), "init_from")) from error


def with_network(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a run with those of the network that `init_from` names, where none was given.

    Options that are given stay. If they name another architecture, nothing is added, and `first_weights` refuses them.
    """
    first = values.get("init_from")
    if first is None or not os.path.exists(first):
        return values
    given = {name: value for name, value in values.items() if value is not None}
    if not os.path.isfile(first):
        stored = RunFolder(first).config()
        if given.get("arch", stored.arch) != stored.arch:
            return values
        names = _shaping(min(stored.hidden, given.get("hidden", stored.hidden), key=len))
        found = {name: getattr(stored, name) for name in names if stored.uses(name)}
        return {**{name: value for name, value in found.items() if _shape_of(value) is not None}, **given}
    from hfrnn.runs.load import load_saved

    net = load_saved(Path(first), "numpy")[0]
    chosen = net.loss_name != CLASS_SOFTMAX and kind_of(given) in takers("loss")
    loss = {"loss": net.loss_name} if chosen else {}
    return {**network_options(net), **loss, **given}


def network_options(net: Network) -> dict[str, Any]:
    """Return the options of a run that make a network of this kind."""
    found = {name: net.config[name] for name in run_options() if name in net.config and name not in ("classes", "loss")}
    found |= {"hidden": net.hidden, **net.options}
    if net.head.classes is not None:
        found["classes"] = max(net.head.classes) + 1
    if len(net.hidden) == 1:
        found = {name: value for name, value in found.items() if name not in OF_A_STACK}
    return {name: value for name, value in found.items() if value is not None}


def first_weights(config: TrainConfig, network: Mapping[str, Any], data: str) -> HostArray | None:
    """Return the weights of the run or the file that `config.init_from` names; None if it names none.

    `network` has `n_in`, `n_out`, `loss` and perhaps `recordings` of the new run's network; messages name its `data`.
    """
    from hfrnn.runs.load import load, load_saved

    if config.init_from is None:
        return None
    run = config.init_from
    if os.path.isfile(run):
        net, theta, _ = load_saved(Path(run), "numpy")
        _check_same_shape(run, TrainConfig(**network_options(net)), config)
    else:
        _check_same_shape(run, RunFolder(run).config(), config)
        net, theta, _ = load(run)
    for name, stored in (("n_in", net.n_in), ("n_out", net.n_out), ("loss", net.loss_name)):
        if stored != network[name]:
            sizes = f"have {name} {stored}, and {data} needs {network[name]}"
            raise InputError(f"the weights of {run} {sizes}: give data of that kind, or another run")
    if net.recordings != network.get("recordings", 0):
        raise InputError(Message(
            "the weights of {0} have initial states of {1}, and this run learns those of {2:,}: give as many training "
            "sequences and {learn_each_initial_state:True}, or another run", run,
            counted(net.recordings, "sequence"), network.get("recordings", 0),
        ))  # fmt: skip
    return np.asarray(theta)


def _check_same_shape(run: str, stored: TrainConfig, config: TrainConfig) -> None:
    """Raise InputError unless two configurations share all options that decide which weights a network has."""
    names = _shaping(stored.hidden if len(stored.hidden) > 1 else config.hidden)
    differing = [name for name in names if _shape_of(getattr(stored, name)) != _shape_of(getattr(config, name))]
    if differing:
        theirs, ours = (", ".join(_in_words(name, getattr(each, name)) for name in differing)
                        for each in (stored, config))  # fmt: skip
        differ = f"the weights of {{0}} are for another network: it has {theirs}, and this run {ours}"
        raise InputError(Message(f"{differ}; give the options of that run", run))


def _shaping(hidden: Sequence[int]) -> list[str]:
    """Return the options that decide which weights a network with such layers has."""
    names = [*(name for name, option in run_options().items() if option.shapes), *declared_options()]
    return names if len(hidden) > 1 else [name for name in names if name not in OF_A_STACK]


def _shape_of(value: Any) -> Any:
    """Return an option's value, with None for the number 0: no classes, as if none were asked for."""
    return None if value == 0 and not isinstance(value, bool) else value


def _in_words(name: str, value: Any) -> str:
    """Return an option with its value, as a part of a template."""
    if value is None:
        return f"no {argument(name)}"
    return argument(name, ",".join(map(str, value)) if isinstance(value, tuple) else value)
