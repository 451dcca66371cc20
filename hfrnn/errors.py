"""The exceptions of hfrnn. Messages say what was given, what was expected and what to do."""

from __future__ import annotations

INTERRUPTED = 130
"""Exit code of a command that a signal ended after a checkpoint was written."""


class HfrnnError(Exception):
    """Base class of all expected failures; the command line prints the message and exits with `exit_code`.

    Examples
    --------
    >>> import hfrnn
    >>> try:
    ...     hfrnn.load("no-such-run")
    ... except hfrnn.HfrnnError as error:
    ...     print(type(error).__name__)
    InputError
    """

    exit_code = 1


class InputError(HfrnnError, ValueError):
    """An argument, a configuration or an input is wrong; nothing was changed.

    Examples
    --------
    >>> import hfrnn
    >>> try:
    ...     hfrnn.Network("rnn", n_in=3, hidden=4, n_out=3, loss="hinge")
    ... except hfrnn.InputError as error:
    ...     print(error)
    loss is 'hinge': use one of softmax, class-softmax, logistic, squared
    """

    exit_code = 2


class MissingExtraError(InputError, ImportError):
    """An optional package or its device is missing; the message names the extra to install.

    Examples
    --------
    >>> import hfrnn
    >>> issubclass(hfrnn.MissingExtraError, hfrnn.HfrnnError)
    True
    """


class HfrnnWarning(UserWarning):
    """A result is right, but may not be what the caller expects; the message says why and what to do.

    Examples
    --------
    >>> import warnings
    >>> import hfrnn
    >>> warnings.simplefilter("ignore", hfrnn.HfrnnWarning)  # silence the warnings of hfrnn
    """


def how_to_install(*extras: str) -> str:
    """Return how to install an optional extra, as a part of a message; `extras` are those that serve the purpose.

    hfrnn is on no package index, so extras are installed from a copy of the project.
    """
    return f"install the extra {' or '.join(extras)} (pip install '.[{extras[-1]}]' in a copy of the project)"


class CheckpointError(InputError):
    """A checkpoint or run folder is damaged, does not fit the network or run, or is in use.

    Examples
    --------
    >>> import hfrnn
    >>> issubclass(hfrnn.CheckpointError, hfrnn.HfrnnError)
    True
    """


class StorageError(HfrnnError):
    """A file cannot be written because the disk is full, failing or read-only; the older file is unchanged.

    Examples
    --------
    >>> import hfrnn
    >>> issubclass(hfrnn.StorageError, hfrnn.HfrnnError)
    True
    """


class NonFiniteError(HfrnnError, ArithmeticError):
    """A loss, gradient or weight is not finite; the last finite state is kept.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> net = hfrnn.Network("rnn", n_in=2, hidden=3, n_out=1, loss="squared", dtype="float64")
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4, 1))  # 5 steps of 4 sequences
    >>> batch = hfrnn.Batch(x, y)
    >>> objective = hfrnn.Objective(net, batch)
    >>> try:
    ...     hfrnn.HessianFree().update(net.init(seed=0) + 1e200, objective)
    ... except hfrnn.NonFiniteError:
    ...     print("the loss is not finite")
    the loss is not finite
    """


class DeviceMemoryError(HfrnnError, MemoryError):
    """The memory of a GPU is used up; the last finished update of a run is kept.

    Examples
    --------
    >>> import hfrnn
    >>> issubclass(hfrnn.DeviceMemoryError, hfrnn.HfrnnError)
    True
    """


class RankError(HfrnnError):
    """A run on several ranks cannot go on: one of them has failed, does not answer or has other weights."""

    follows = False
    """Whether this rank ends only because another one has reported an error."""


def reason_of(error: Exception) -> str:
    """Return why a file could not be opened, read or written, for a message: the system's reason without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
