"""The declaration of an option of every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hfrnn.errors import InputError
from hfrnn.option import Option
from hfrnn.runs.needs import Need


@dataclass(frozen=True)
class RunOption(Option):
    """The declaration of an option of every run.

    Parameters
    ----------
    group : str
        The heading that the option stands under in `hfrnn train --help-all`.
    needs : tuple of Need
        What else has to be chosen for the option to have an effect.
    shapes : bool
        Whether the option decides which weights the network has, so that a run can take over the weights of another
        run only if both have the same value.
    suited : str
        Other defaults in words, and the data that have them: "rnn for tasks".
    """

    group: str = ""
    needs: tuple[Need, ...] = ()
    shapes: bool = False
    suited: str = ""

    @property
    def shown_default(self) -> str:
        """The default as text, with that of other data."""
        return "; ".join(filter(None, (self.general_default, self.suited)))

    @property
    def general_default(self) -> str:
        """The default as text, without that of other data."""
        return super().shown_default

    def check(self, value: Any, where: str) -> None:
        """Raise InputError for a value outside the choices or bounds, and for an empty name."""
        if (value == "" or (self.many and value and "" in value)) and self.default is None:
            named = "the name of the text" if self.name == "text" else where
            raise InputError(f"{named} is empty: give a name, or leave it out")
        super().check(value, where)


def declaring(group: str, *always: Need) -> Callable[..., Any]:
    """Return a function that declares fields of one group, which all have the given needs."""

    def declare(default: Any, help: str, *more: Need, **declared: Any) -> Any:
        return field(default=default, metadata={"help": help, "group": group, "needs": (*always, *more), **declared})

    return declare
