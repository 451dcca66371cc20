"""Load what a run has learned: its network, its weights and its vocabulary; or save a network in one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hfrnn._version import __version__
from hfrnn.arrays.array_checks import type_name
from hfrnn.arrays.backend import Array, HostArray, host_copy
from hfrnn.checks import choice, instance, shown, string
from hfrnn.checks import path as checked_path
from hfrnn.choices import AUTO, BACKENDS, DTYPES
from hfrnn.data.scaling import Scaling
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.network import Network
from hfrnn.errors import CheckpointError, InputError, Message
from hfrnn.files import open_to_read
from hfrnn.optim.average import AVERAGE
from hfrnn.runs.checkpoint import Arrays, checkpoint_bytes, load_checkpoint
from hfrnn.runs.folder import RunFolder
from hfrnn.runs.outputs import Output
from hfrnn.runs.run_constraints import CONSTRAINTS, stored_constraints
from hfrnn.wording import brief, counted, one_line


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


def load(
    run: str | Path, which: str = "best", backend: str = "numpy", dtype: str | type | np.dtype[Any] | None = None
) -> LoadedRun:
    """Load the network, weights and vocabulary of a run, or of a file that `hfrnn.save` wrote.

    Parameters
    ----------
    run : path
        A run folder, or a file of `hfrnn.save`.
    which : {"best", "last"} or str
        The checkpoint of the run to load; also one that `keep` has kept, such as "update-000120". A file has no others.
    backend : {"numpy", "numba", "cupy"}
        Backend of the network. It need not be the one that the run was trained with.
    dtype : {"float32", "float64"} or NumPy's type of that name, optional
        Data type of the network and its weights. By default that of the run.

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
    dtype = None if dtype is None else choice("dtype", type_name(dtype), DTYPES)
    string("which", which, "best, last or the name of a kept checkpoint")
    given = checked_path("run", run)
    if os.path.isfile(given):
        if which != "best":
            single = "{which!s} is {0}, and {1} is a file, which holds one set of weights: leave it out"
            raise InputError(Message(single, shown(which), given))
        return in_dtype(LoadedRun(*load_saved(given, backend)), dtype)
    return in_dtype(load_run(RunFolder(given), which, backend), dtype)


def in_dtype(loaded: LoadedRun, dtype: str | None) -> LoadedRun:
    """Return a network and its weights in a data type; as they are for None."""
    if dtype in (None, loaded.net.dtype.name):
        return loaded
    net = loaded.net.remade(dtype=dtype)
    return LoadedRun(net, net.vector(loaded.theta), loaded.vocabulary)


def load_run(folder: RunFolder, which: str = "best", backend: str = "numpy") -> LoadedRun:
    """Load the network, weights and vocabulary of a run; parameters and errors are those of `load`."""
    vocabulary = folder.vocabulary()
    arrays, meta = folder.restore(which)
    arguments = folder.config().network_arguments(meta["network"])
    net = Network(**{**arguments, "backend": backend})
    theta = checked_weights(net, arrays, folder.path)
    if vocabulary is not None and not _fits(vocabulary, net):
        raise CheckpointError(f"{folder.path} is damaged: {_sizes(vocabulary, net)}: restore both from a copy")
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
    return RunFolder(checked_path("run", run)).scaling()


# ------------------------------------------------------------------ one file with a network


ARGUMENTS = "arguments"
"""Where the description of a file holds the arguments of its network."""


def save(net: Network, theta: Array, path: str | os.PathLike[str], vocabulary: Vocabulary | None = None) -> None:
    """Save a network and its weights in one file, which `hfrnn.load` reads.

    Parameters
    ----------
    net : Network
    theta : (n_parameters,) array
        Its weights, finite.
    path : path
        The file to write, usually NAME.safetensors. An older file is replaced in one step.
    vocabulary : Vocabulary, optional
        The symbols of its inputs and outputs.

    Raises
    ------
    InputError
        The weights or the vocabulary do not fit the network, an option of its architecture is not a value that JSON
        can hold, or the path is a folder, lies in a run folder or in no folder.
    StorageError
        The file cannot be written. An older file is unchanged.

    Notes
    -----
    The file is safetensors: its arrays are the blocks of `net.views(theta)` under their names. It holds no code. A
    network of a user's own architecture can be loaded after that architecture was registered.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> hfrnn.save(net, net.init(seed=0), "net.safetensors")
    >>> hfrnn.load("net.safetensors").net
    <Network rnn 3, 2 in, 1 out (squared), 21 weights>
    """
    weights = instance("net", net, Network, "a hfrnn.Network").vector(theta)
    instance("vocabulary", vocabulary, Vocabulary, "a vocabulary, as hfrnn.load returns it", or_none=True)
    if vocabulary is not None and not _fits(vocabulary, net):
        raise InputError(f"{_sizes(vocabulary, net)}: give the vocabulary of this network, or none")
    file = Output("path", os.fspath(checked_path("path", path)), force=True)
    file.check()
    blocks = {name: net.backend.to_host(x) for name, x in net.views(weights).items()}
    description = {
        ARGUMENTS: {name: value.tolist() if hasattr(value, "tolist") else value for name, value in net.config.items()},
        "vocabulary": None if vocabulary is None else vocabulary.to_json(),
        "hfrnn": __version__,
    }
    file.write(checkpoint_bytes(blocks, description))


def load_saved(path: Path, backend: str) -> tuple[Network, Array, Vocabulary | None]:
    """Return the network, the weights and the vocabulary of a file that `save` wrote."""
    if not _is_safetensors(path):
        raise InputError(f"{path} is not a run folder: give the folder that hfrnn train made, or a file of hfrnn.save")
    arrays, description = load_checkpoint(os.path.realpath(path))
    arguments = description.get(ARGUMENTS)
    if not isinstance(arguments, dict) or not isinstance(arguments.get("arch"), str):
        advice = "give the folder of a run, not its checkpoint, or a file of hfrnn.save"
        raise CheckpointError(f"{path} is not a file of hfrnn.save: {advice}")
    _check_sizes(path, arguments, arrays)
    try:
        net = Network(**{**arguments, "backend": backend})
    except TypeError as error:  # an argument that Python itself gives, "self"
        raise CheckpointError(f"{path} is damaged: its arguments are of no network; restore it from a copy") from error
    except InputError as error:
        why = one_line(str(error))
        raise type(error)(f"the network of {path} cannot be made: {why}") from error
    vocabulary = None
    if description.get("vocabulary") is not None:
        try:
            vocabulary = Vocabulary.from_json(description["vocabulary"])
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from error
        if not _fits(vocabulary, net):
            raise CheckpointError(f"{path}: {_sizes(vocabulary, net)}: restore it from a copy")
    return net, _weights(path, net, arrays), vocabulary


def _is_safetensors(path: Path) -> bool:
    """Return whether a file begins like one of safetensors: eight bytes, and a header of JSON. It may be damaged."""
    try:
        with open_to_read(path) as file:
            return file.read(9)[8:] == b"{"
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}): give a run folder or a file of hfrnn.save") from error


def _check_sizes(path: Path, arguments: dict[str, Any], arrays: Arrays) -> None:
    """Raise CheckpointError if a size of a network is above its number of weights; such a network may fill memory."""
    weights = sum(array.size for array in arrays.values())
    hidden = arguments.get("hidden")
    sizes = [arguments.get("n_in"), arguments.get("n_out"), *(hidden if isinstance(hidden, list) else [hidden])]
    if not all(type(size) is int and 0 <= size <= weights for size in sizes):
        raise CheckpointError(
            f"{path} is damaged: its sizes do not fit its {weights:,} weights; restore it from a copy"
        )


def _weights(path: Path, net: Network, arrays: Arrays) -> Array:
    """Return the flat vector of the blocks of a file."""
    weights = sum(array.size for array in arrays.values())
    if net.n_parameters != weights:  # the vector of another network may fill memory
        raise CheckpointError(
            f"{path} is damaged: its network needs {net.n_parameters:,} weights, and the file holds {weights:,}; "
            "restore it from a copy"
        )
    theta = np.empty(net.n_parameters, net.dtype)
    views = net.views(theta)
    for name in dict.fromkeys((*views, *arrays)):
        found, expected = arrays.get(name), views.get(name)
        if found is None or expected is None or (found.shape, found.dtype) != (expected.shape, expected.dtype):
            raise CheckpointError(f"{path} is damaged: {name} does not fit its network; restore it from a copy")
        expected[...] = found
    if not np.isfinite(theta).all():
        raise CheckpointError(f"{path} holds weights that are not finite: restore it from a copy")
    return net.backend.asarray(theta)


def _fits(vocabulary: Vocabulary, net: Network) -> bool:
    return (vocabulary.size, vocabulary.size) == (net.n_in, net.n_out)


def _sizes(vocabulary: Vocabulary, net: Network) -> str:
    return f"the vocabulary has {vocabulary.size} symbols, and the network {net.n_in} inputs and {net.n_out} outputs"


# ---------------------------------------------------------------------- weights of a checkpoint


def checked_weights(net: Network, arrays: dict[str, HostArray], path: Path) -> Array:
    """Return the weights that were validated: the average of the parameters if it is stored, else the parameters."""
    theta, name = checked_theta(net, arrays, path), f"method.{AVERAGE}"
    constraints = stored_constraints(net, arrays, path) if CONSTRAINTS in arrays else None
    if name not in arrays:
        return theta if constraints is None else constraints.weights(theta)
    average = checked_theta(net, arrays, path, name)
    if constraints is not None and not constraints.allows(average):
        wrong = "has weights that its constraints do not allow"
        raise CheckpointError(f"the checkpoint in {path} {wrong}: restore it from a copy")
    return average


def checked_theta(net: Network, arrays: dict[str, HostArray], path: Path, name: str = "theta") -> Array:
    """Return a vector of parameters among the arrays of a checkpoint, on the device of the network.

    It must be there, fit the network and be finite. Messages name the run folder `path`.
    """
    theta = arrays.get(name)
    if theta is None or theta.shape != (net.n_parameters,) or theta.dtype != net.dtype:
        found = "no parameters"
        if theta is not None:
            found = f"{counted(theta.size, 'parameter')} of type {theta.dtype}, of shape {theta.shape}"
        expected = f"this network has {net.n_parameters} of type {net.dtype}"
        raise CheckpointError(f"the checkpoint in {path} holds {found}: {expected}")
    if not np.isfinite(theta).all():
        raise CheckpointError(f"the checkpoint in {path} holds parameters that are not finite: use another one")
    return net.backend.asarray(theta)
