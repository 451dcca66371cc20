"""Load what a run has learned: its network, its weights and its vocabulary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hfrnn.arrays.backend import Array, HostArray, host_copy
from hfrnn.brief import brief
from hfrnn.checks import choice, path, shown, string
from hfrnn.data.scaling import Scaling
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.network import Network
from hfrnn.errors import CheckpointError, InputError
from hfrnn.kernels.registry import declared_options
from hfrnn.names import AUTO, BACKENDS
from hfrnn.option import flag_given
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.options import run_options
from hfrnn.runs.run_folder import RunFolder
from hfrnn.runs.weights import checked_weights


@brief
class LoadedRun(NamedTuple):
    """A trained network.

    Attributes
    ----------
    net : Network
    theta : array, shape (net.n_parameters,)
        Its weights.
    vocabulary : Vocabulary or None
        Its symbols; None if it was not trained on a text.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> result = hfrnn.train(**options, out="run")
    >>> net, theta, vocabulary = hfrnn.load("run")
    >>> theta.shape, vocabulary
    ((28,), None)
    """

    net: Network
    theta: Array
    vocabulary: Vocabulary | None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the weights from the memory of the host."""
        return LoadedRun, (self.net, host_copy(self.theta), self.vocabulary)


def load(run: str | Path, which: str = "best", backend: str = "numpy") -> LoadedRun:
    """Load the network, weights and vocabulary of a run, or of a file that `hfrnn.save` wrote.

    Parameters
    ----------
    run : path
        A run folder, or a file of `hfrnn.save`.
    which : {"best", "last"} or str
        The checkpoint of the run to load; also one that `keep` has kept, such as "update-000120". A file has no others.
    backend : {"numpy", "numba", "cupy"}
        Backend of the network. It need not be the one that the run was trained with.

    Returns
    -------
    LoadedRun
        `net, theta, vocabulary`, by name or as a tuple.

    Raises
    ------
    InputError
        There is no such run or no checkpoint of that name, or the architecture is not registered.
    CheckpointError
        A file is missing, damaged or does not fit the others.

    Notes
    -----
    Hessian-free training validates an average of the parameters over the updates. `theta` is then that average.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> result = hfrnn.train(**options, out="run")
    >>> net, theta, vocabulary = hfrnn.load("run")
    >>> net
    <Network rnn 4, 1 in, 1 out (squared), 28 weights>
    """
    choice("backend", backend, (AUTO, *BACKENDS))
    string("which", which, "best, last or the name of a kept checkpoint")
    given = path("run", run)
    if os.path.isfile(given):
        if which != "best":
            raise InputError(
                f"which is {shown(which)}, and {given} is a file, which holds one set of weights: leave it out"
            )
        from hfrnn.runs.saved import load_saved

        return LoadedRun(*load_saved(given, backend))
    folder = RunFolder(given)
    vocabulary = folder.vocabulary()
    arrays, meta = folder.restore(which)
    arguments = folder.config().network_arguments(meta["network"])
    net = Network(**{**arguments, "backend": backend})
    theta = checked_weights(net, arrays, folder.path)
    if vocabulary is not None and (vocabulary.size, vocabulary.size) != (net.n_in, net.n_out):
        raise CheckpointError(
            f"the vocabulary in {folder.path} has {vocabulary.size} symbols, and the network of the checkpoint has "
            f"{net.n_in} inputs and {net.n_out} outputs: restore both from a copy"
        )
    return LoadedRun(net, theta, vocabulary)


def load_scaling(run: str | Path) -> Scaling | None:
    """Load the scaling of a run's inputs and targets.

    Parameters
    ----------
    run : path
        A run folder.

    Returns
    -------
    Scaling or None
        None if the run uses its data as they are.

    Raises
    ------
    InputError
        There is no such run.
    CheckpointError
        A file of the run is missing or damaged.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> result = hfrnn.train(**options, out="run")
    >>> hfrnn.load_scaling("run") is None  # only arrays and tables have one
    True
    """
    return RunFolder(path("run", run)).scaling()


def first_weights(config: TrainConfig, network: Mapping[str, Any], data: str) -> HostArray | None:
    """Return the best weights of the run that `config.init_from` names, for a new run to start from.

    Parameters
    ----------
    config : TrainConfig
        Options of the new run.
    network : mapping
        `n_in`, `n_out` and `loss` of the new run's network.
    data : str
        Name of the new run's data, for error messages.

    Returns
    -------
    ndarray, shape (n_parameters,), or None
        None if `config.init_from` is None.

    Raises
    ------
    InputError
        The weights are for another network, or there is no such run.
    CheckpointError
        A file of that run is missing or damaged.
    """
    if config.init_from is None:
        return None
    run = config.init_from
    _check_same_shape(run, RunFolder(run).config(), config)
    net, theta, _ = load(run)
    for name, stored in (("n_in", net.n_in), ("n_out", net.n_out), ("loss", net.loss_name)):
        if stored != network[name]:
            raise InputError(
                f"the weights of {run} have {name} {stored}, and {data} needs {network[name]}: "
                "give data of that kind, or another run"
            )
    return np.asarray(theta)


def _check_same_shape(run: str, stored: TrainConfig, config: TrainConfig) -> None:
    """Raise InputError unless two configurations share all options that decide which weights a network has."""
    pair = [replace(each, classes=each.classes or None) for each in (stored, config)]
    names = [*(name for name, option in run_options().items() if option.shapes), *declared_options()]
    differing = [name for name in names if getattr(pair[0], name) != getattr(pair[1], name)]
    if differing:
        theirs, ours = (", ".join(_flag(name, getattr(each, name)) for name in differing) for each in pair)
        raise InputError(
            f"the weights of {run} are for another network: it has {theirs}, and this run {ours}; give the options of "
            "that run"
        )


def _flag(name: str, value: Any) -> str:
    """Return an option as it is written on the command line."""
    flag = flag_given(name, value)
    if value is None:
        return f"no {flag}"
    if isinstance(value, bool):
        return flag
    return f"{flag} {','.join(map(str, value)) if isinstance(value, tuple) else value}"
