"""The project's own exceptions: each says what was given, what was expected and what to do."""

from __future__ import annotations


class HfrnnError(Exception):
    """Any failure that hfrnn foresees; the command line prints it as one sentence and exits with `exit_code`."""

    exit_code = 1


class InputError(HfrnnError, ValueError):
    """A wrong argument, configuration or input; nothing was changed."""

    exit_code = 2


class MissingExtraError(InputError, ImportError):
    """An optional package (or the device that it drives) is not there; the message names the extra to install."""


class CheckpointError(InputError):
    """A checkpoint or run folder that is damaged, foreign or already in use."""


class StorageError(HfrnnError):
    """A file cannot be written: the disk is full, failing or read-only; what was there before is whole."""


class NonFiniteError(HfrnnError, ArithmeticError):
    """The learning state is no longer finite; the last good state is kept."""
