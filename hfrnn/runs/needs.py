"""Which options of a run have an effect only together with others, as every declaration states by its needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hfrnn.runs.presets import KINDS_OF_ARRAYS


@dataclass(frozen=True)
class Need:
    """The values that another option must have for an option to have an effect.

    Parameters
    ----------
    option : str
        The other option.
    allowed : tuple of str
        Its values that make the option useful, or a description of them.
    """

    option: str
    allowed: tuple[str, ...]

    def unmet(self, chosen: Any) -> str:
        """Why the need is not met and what the option is for; "" where it is met.

        Parameters
        ----------
        chosen : object
            Holds the options of a run as attributes, with the defaults of its preset, and as `kind` the kind of its
            data, as `kind_of_data` names it.
        """
        if self is A_STACK:
            one_layer = len(chosen.hidden) == 1
            return f"--hidden asks for one layer: it is for {self.allowed[0]}" if one_layer else ""
        if self is GROWING_BATCHES:
            flag = "--gradient-symbols" if chosen.gradient_symbols == 0 else "--first-gradient-symbols"
            return "" if chosen.first_gradient_symbols else f"{flag} is 0: it is for {self.allowed[0]}"
        if self is WINDOWS:
            cut = chosen.kind == "a table" or chosen.window is not None
            return "" if cut else f"--window was not: it is for {self.allowed[0]}"
        if self.option == "data":
            data = chosen.text or chosen.data or "the built-in corpus"
            return "" if chosen.kind in self.allowed else f"{data} is {chosen.kind}: it is for {self._either}"
        value = getattr(chosen, self.option)
        flag = "--" + self.option.replace("_", "-")
        if value is None:
            return f"{flag} was not: it is for {flag} {self._either}"
        return "" if value in self.allowed else f"{flag} is {value}: it is for {flag} {self._either}"

    @property
    def _either(self) -> str:
        return either(self.allowed)


def either(names: Iterable[str]) -> str:
    """Names in a sentence: `sgd, adam or online`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


HF = Need("optimizer", ("hf",))
FIRST_ORDER = Need("optimizer", ("sgd", "adam", "soap", "muon", "online"))
MINI_BATCHES = Need("optimizer", ("sgd", "adam", "soap", "muon"))
MOMENTUM = Need("optimizer", ("sgd", "online"))
SEQUENCES = Need("optimizer", ("hf", "sgd", "adam", "soap", "muon"))
STRUCTURAL = Need("damping", ("structural", "structural+tikhonov"))
DAMPED = Need("damping", ("structural", "structural+tikhonov", "tikhonov"))
PRECONDITIONED = Need("preconditioner", ("diagonal", "kronecker"))
KRONECKER = Need("preconditioner", ("kronecker",))
ARMIJO = Need("line_search", ("armijo",))
TEXT8 = Need("schedule", ("text8",))
SUTSKEVER = Need("initializer", ("sutskever",))
WORDS = Need("level", ("word",))
TEXT = Need("data", ("a text",))
TASK = Need("data", ("a synthetic task",))
FILE = Need("data", ("a text", *KINDS_OF_ARRAYS, "MIDI music"))
MIDI = Need("data", ("MIDI music",))
TABLE = Need("data", ("a table",))
TABLE_OR_FILE = Need("data", ("a table", "an array file"))
ARRAYS = Need("data", ("an array file", "arrays in memory"))
RECORDING = REAL = Need("data", KINDS_OF_ARRAYS)
WINDOWS = Need("window", ("one recording that --window cuts",))
A_STACK = Need("hidden", ("a stack of layers",))
GROWING_BATCHES = Need("first_gradient_symbols", ("batches that grow",))
