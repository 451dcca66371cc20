"""The exceptions of hfrnn. Messages say what was given, what was expected and what to do."""

from __future__ import annotations

INTERRUPTED = 130
"""Exit code of a command that a signal ended after a checkpoint was written."""


class HfrnnError(Exception):
    """Base class of all expected failures; the command line prints the message and exits with `exit_code`."""

    exit_code = 1


class InputError(HfrnnError, ValueError):
    """An argument, a configuration or an input is wrong; nothing was changed."""

    exit_code = 2


class MissingExtraError(InputError, ImportError):
    """An optional package or its device is missing; the message names the extra to install."""


class HfrnnWarning(UserWarning):
    """A result is right, but may not be what the caller expects; the message says why and what to do."""


def how_to_install(*extras: str) -> str:
    """Return how to install an optional extra, as a part of a message; `extras` are those that serve the purpose.

    hfrnn is on no package index, so extras are installed from a copy of the project.
    """
    return f"install the extra {' or '.join(extras)} (pip install '.[{extras[-1]}]' in a copy of the project)"


class CheckpointError(InputError):
    """A checkpoint or run folder is damaged, does not fit the network or run, or is in use."""


class StorageError(HfrnnError):
    """A file cannot be written because the disk is full, failing or read-only; the older file is unchanged."""


class NonFiniteError(HfrnnError, ArithmeticError):
    """A loss, gradient or weight is not finite; the last finite state is kept."""


class DeviceMemoryError(HfrnnError, MemoryError):
    """The memory of a GPU is used up; the last finished update of a run is kept."""


class RankError(HfrnnError):
    """A run on several ranks cannot go on: one of them has failed, does not answer or has other weights."""

    follows = False
    """Whether this rank ends only because another one has reported an error."""


def reason_of(error: Exception) -> str:
    """Return why a file could not be opened, read or written, for a message: the system's reason without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
