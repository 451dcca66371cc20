"""The exceptions of hfrnn. Messages say what was given, what was expected and what to do."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection
from typing import Any

INTERRUPTED = 130
"""Exit code of a command that a signal ended after a checkpoint was written."""

Wording = Callable[[str, str], str]
"""Returns how a reader writes an argument, given its name in Python and its value as text, or "" for no value."""
_FORMATTER = string.Formatter()
_VALUES = re.compile("[^ ,]+((, ?| or )[^ ,]+)*")  # one value, or several; a path with a space is no list


def keyword(name: str, value: str = "") -> str:
    """Return how Python users write an argument: `window=`, `optimizer='hf'`, or `optimizer='sgd', 'adam' or 'hf'`."""
    return f"{name}={each_value(value, ('True', 'False', 'None', '...'), repr)}"


def each_value(value: str, plain: Collection[str], quote: Callable[[str], str]) -> str:
    """Return a value with quotes; in a list with commas and `or`, each of its values. Numbers and `plain` have none."""

    def literal(text: str) -> str:
        return text if text in plain or text.replace(".", "", 1).isdecimal() else quote(text)

    if not _VALUES.fullmatch(value):
        return value and literal(value)
    return re.sub("[^ ,]+", lambda word: word[0] if word[0] == "or" else literal(word[0]), value)


class Message:
    """A sentence for a person that names arguments. Every reader sees them in words of their own.

    Users of Python read `window=`, users of the command line `--window`.

    Parameters
    ----------
    template : str
        `{window}` stands for the argument `window`, `{optimizer:hf}` for that argument with the value hf, and `{0}` or
        `{1:g}` for one of the values, in the notation of `str.format`. `{window!s}` is `window` for users of Python.
    *values : object
        A Message or an exception among them is written for the same reader.

    Examples
    --------
    >>> from hfrnn.errors import Message
    >>> message = Message("{window} is {0}, and {data} holds {1:,} steps: give a shorter one", 300, 200)
    >>> str(message)
    'window= is 300, and data= holds 200 steps: give a shorter one'
    >>> message.worded(lambda name, value: f"--{name}")
    '--window is 300, and --data holds 200 steps: give a shorter one'
    """

    def __init__(self, template: str, *values: object) -> None:
        self.template, self.values = template, values

    def worded(self, wording: Wording | None = None) -> str:
        """Return the sentence with all arguments as `wording` writes them; by default for users of Python."""
        text = ""
        for before, name, form, conversion in _FORMATTER.parse(self.template):
            text += before
            form = Message(form, *self.values).worded(wording) if form else ""
            if name is None:
                continue
            if name.isdigit():
                value = _FORMATTER.convert_field(worded(self.values[int(name)], wording), conversion)
                text += format(value, form)
            else:
                text += name if conversion and wording is None else (wording or keyword)(name, form)
        return text

    def __str__(self) -> str:
        return self.worded()

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"


class PerReader(Message):
    """A part of a message that has other words for users of Python than for users of the command line."""

    def __init__(self, python: str, command: str, *values: object) -> None:
        super().__init__(python, *values)
        self.command = Message(command, *values)

    def worded(self, wording: Wording | None = None) -> str:
        if wording is None:
            return super().worded()
        return self.command.worded(lambda name, value: wording(OfCommand(name), value))


class OfCommand(str):
    """The name of an argument within a command that a message tells to enter: always written as a flag."""


def worded(value: Any, wording: Wording | None = None) -> Any:
    """Return a Message, or the message of an exception of hfrnn, as a text for one reader; other values unchanged."""
    if isinstance(value, HfrnnError):
        value = value.args[0] if len(value.args) == 1 else str(value)
    return value.worded(wording) if isinstance(value, Message) else value


class HfrnnError(Exception):
    """Base class of all expected failures; the command line prints the message and exits with `exit_code`.

    Its argument is a text, or a `Message` if it names arguments.

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
    loss is 'hinge': use one of softmax, class-softmax, logistic, squared, poisson, gaussian
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


class EnvironmentWarning(HfrnnWarning):
    """The environment of the process slows hfrnn down, or asks for something that hfrnn does not do.

    The command line shows these warnings, because no line of a run says the same.
    """


class UncachedWarning(EnvironmentWarning):
    """numba cannot keep its compiled loops on disk, so that each process compiles them again."""


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
