"""Save a network and its weights in one file, without a run: `hfrnn.save`; `hfrnn.load` reads the file back.

The file is a checkpoint (`hfrnn.runs.checkpoint`): safetensors with a checksum and no pickle. Its arrays are the blocks
of `net.views(theta)`. Its description holds the arguments of the network, and the vocabulary if one was given.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from hfrnn._version import __version__
from hfrnn.arrays.backend import Array
from hfrnn.checks import instance
from hfrnn.checks import path as checked_path
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.network import Network
from hfrnn.errors import CheckpointError, InputError
from hfrnn.files import open_to_read
from hfrnn.runs.checkpoint import Arrays, checkpoint_bytes, load_checkpoint
from hfrnn.runs.outputs import Output

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
    blocks = {name: np.ascontiguousarray(net.backend.to_host(x)) for name, x in net.views(weights).items()}
    description = {
        ARGUMENTS: {name: value.tolist() if hasattr(value, "tolist") else value for name, value in net.config.items()},
        "vocabulary": None if vocabulary is None else vocabulary.to_json(),
        "hfrnn": __version__,
    }
    file.write(checkpoint_bytes(blocks, description))


def load_saved(path: Path, backend: str) -> tuple[Network, Array, Vocabulary | None]:
    """Return the network, the weights and the vocabulary of a file that `save` wrote.

    Raises
    ------
    InputError
        The architecture of the network is not registered, or the file is of another kind.
    CheckpointError
        The file is damaged, or `save` did not write it.
    """
    if not _is_safetensors(path):
        raise InputError(f"{path} is not a run folder: give the folder that hfrnn train made, or a file of hfrnn.save")
    arrays, description = load_checkpoint(os.path.realpath(path))
    arguments = description.get(ARGUMENTS)
    if not isinstance(arguments, dict) or not isinstance(arguments.get("arch"), str):
        raise CheckpointError(
            f"{path} is not a file of hfrnn.save: give the folder of a run, not its checkpoint, or a file of hfrnn.save"
        )
    _check_sizes(path, arguments, arrays)
    try:
        net = Network(**{**arguments, "backend": backend})
    except InputError as error:
        raise type(error)(f"the network of {path} cannot be made: {error}") from error
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
