"""The known kinds of data: their registry, and which kind a value of the option `data` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hfrnn.data.kinds.data_kind import DataKind
from hfrnn.entries import Entries

KINDS: Entries[DataKind] = Entries(
    "kind of data",
    DataKind,
    {
        "text": "hfrnn.data.kinds.text:Text",
        "task": "hfrnn.data.kinds.task:SyntheticTask",
        "table": "hfrnn.data.kinds.table:Table",
        "arrays": "hfrnn.data.kinds.arrays:ArrayFile",
        "memory": "hfrnn.data.kinds.memory:ArraysInMemory",
        "tables": "hfrnn.data.kinds.table:TablesInMemory",
        "music": "hfrnn.data.kinds.music:Music",
        "midi": "hfrnn.data.kinds.midi:MidiFiles",
    },
)
"""The kinds of data by name, in the order in which they are asked whether they recognise a value."""

FALLBACK = "text"
"""The kind of a text file, and of a name that no kind recognises."""


def register_data(name: str, kind: type[DataKind] | None = None) -> Callable[[type[DataKind]], type[DataKind]]:
    """Register a kind of data, for all commands and for `hfrnn.train`. Can be used as a class decorator.

    Parameters
    ----------
    name : str
        The name of the kind, for lists of them.
    kind : subclass of DataKind, optional

    Returns
    -------
    callable
        The class decorator; not needed if `kind` is given.

    Raises
    ------
    InputError
        Another kind has that name, or the class is no subclass of DataKind.

    Notes
    -----
    Kinds of users are asked first whether they recognise a value of the option `data`, the latest one at the very
    beginning.

    Examples
    --------
    >>> import hfrnn
    >>> @hfrnn.register_data("pendulum")
    ... class Pendulum(hfrnn.DataKind):
    ...     about = "a pendulum"
    ...     suffixes = (".pendulum",)
    >>> hfrnn.TrainConfig(data="swing.pendulum").kind is Pendulum
    True
    """
    return KINDS.register(name, kind)


def kinds() -> tuple[type[DataKind], ...]:
    """Return the classes of all kinds, in the order in which they are asked for a value of `data`."""
    return KINDS.classes()


def recognised(data: object) -> type[DataKind] | None:
    """Return the kind that recognises a value of the option `data`, or each of several; None if no kind does."""
    if isinstance(data, tuple):
        found = {recognised(each) for each in data}
        return found.pop() if len(found) == 1 else None
    return next((kind for kind in kinds() if kind.recognises(data)), None) if isinstance(data, str) else None


def kind_of(options: Mapping[str, Any]) -> type[DataKind]:
    """Return the kind of the data that the options of a run name; `data` is among them if it was given."""
    return recognised(options.get("data")) or KINDS[FALLBACK]


def kind_of_file(path: object) -> type[DataKind] | None:
    """Return the kind of a file by its suffix; None if no kind has that suffix."""
    found = (kind for kind in kinds() if kind.suffixes and str(path).lower().endswith(kind.suffixes))
    return None if path is None else next(found, None)


def known_names() -> dict[str, tuple[str, ...]]:
    """Return the names that the option `data` takes, by what they are called in lists."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in kinds():
        if kind.named:
            found[kind.named] = (*found.get(kind.named, ()), *kind.names())
    return found


def takers(option: str) -> list[type[DataKind]]:
    """Return the kinds of data that an option is for: those that declare or take it; none if it is for all."""
    return [KINDS[name] for name in KINDS.takers(option)]
