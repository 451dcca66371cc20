"""Registries: classes by name. Built-in ones are imported when first used; users add their own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from hfrnn.checks import near_hint, shown, wrong
from hfrnn.errors import InputError

if TYPE_CHECKING:
    from hfrnn.option import Option


class Taker(Protocol):
    """What every entry declares."""

    options: ClassVar[tuple[Option, ...]]
    takes: ClassVar[tuple[str, ...]]


T = TypeVar("T", bound=Taker)

OF_A_FILE = "the file "
"""The names of modules that were made from files of users begin with this; the path follows."""
_registered: list[type] = []


def note_registered(cls: type) -> None:
    """Remember that a user registered a class."""
    _registered.append(cls)


def count_registered() -> int:
    """Return how often users registered classes so far."""
    return len(_registered)


def file_of(cls: type) -> str:
    """Return the path of the user's file that has defined a class; "" for other classes."""
    return cls.__module__.partition(OF_A_FILE)[2]


class Entries(Generic[T]):
    """Classes by name, all derived from `base`.

    `what` is what an entry is, for messages: "optimizer". The built-in ones are given as "module:class", which is
    imported when the entry is first used.
    """

    def __init__(self, what: str, base: type[T], built_in: Mapping[str, str]) -> None:
        self._what, self._base = what, base
        self._built_in = dict(built_in)
        self._found: dict[str, type[T]] = {}
        self._of_users: list[str] = []
        self._classes: tuple[type[T], ...] = ()
        self._takers: dict[str, tuple[str, ...]] = {}

    def names(self) -> tuple[str, ...]:
        """Return the names of all entries: the built-in ones, then those of users."""
        return (*self._built_in, *self._of_users)

    def of_users(self) -> tuple[str, ...]:
        """Return the names of the entries that users registered."""
        return tuple(self._of_users)

    def classes(self) -> tuple[type[T], ...]:
        """Return the classes of all entries: those of users, the latest one first, then the built-in ones."""
        if not self._classes:
            self._classes = tuple(self[name] for name in (*self._of_users[::-1], *self._built_in))
        return self._classes

    def takers(self, option: str) -> tuple[str, ...]:
        """Return the names of the entries that declare or take an option; none if it is for all."""
        if not self._takers:
            for name in self.names():
                for each in (*(declared.name for declared in self[name].options), *self[name].takes):
                    self._takers[each] = (*self._takers.get(each, ()), name)
        return self._takers.get(option, ())

    def __getitem__(self, name: str) -> type[T]:
        """Return the class of an entry; raise InputError if there is none of that name."""
        if name not in self._found:
            if name not in self._built_in:
                near, known = near_hint(name, self.names()), ", ".join(self.names())
                raise InputError(f"there is no {self._what} named {shown(name)}{near}: use one of {known}")
            module, _, cls = self._built_in[name].partition(":")
            self._found[name] = getattr(importlib.import_module(module), cls)
        return self._found[name]

    def register(self, name: str, entry: type[T] | None = None) -> Callable[[type[T]], type[T]]:
        """Add an entry, or return a class decorator that adds one."""
        if not isinstance(name, str) or not name or not name.isprintable():
            raise wrong("name", name, "give a string of printable characters")

        def add(cls: type[T]) -> type[T]:
            if not (isinstance(cls, type) and issubclass(cls, self._base)):
                raise wrong(self._what.partition(" ")[0], cls, f"give a subclass of hfrnn.{self._base.__name__}")
            if name in self.names() and self._found.get(name) is not cls:
                raise InputError(f"the {self._what} named {name!r} is registered already: choose another name")
            if name not in self._found:
                self._of_users.append(name)
            self._found[name], self._classes = cls, ()
            self._takers.clear()
            note_registered(cls)
            return cls

        if entry is not None:
            add(entry)
        return add

    def forget(self, name: str) -> None:
        """Remove an entry that a user registered."""
        self._of_users.remove(name)
        del self._found[name]
        self._classes = ()
        self._takers.clear()
