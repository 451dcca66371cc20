"""Scoring a text as one unbroken stream, the state carried from symbol to symbol."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hfrnn.backend import Array
from hfrnn.batch import Batch, State
from hfrnn.data.vocabulary import Text, Vocabulary
from hfrnn.errors import InputError
from hfrnn.model import Network

CHUNK = 1000
"""Symbols run at a time; the result does not depend on it."""


@dataclass(frozen=True)
class Evaluation:
    """How well a network predicts a text: every symbol but the first, given all before it."""

    symbols: int
    """Symbols predicted."""
    nats: float
    """Minus the log-probability of all of them."""
    text_bytes: int
    """The bytes that the predicted symbols take in the text."""
    unknown: int = 0
    """Symbols of the text outside the vocabulary, which were skipped or replaced."""

    @property
    def nats_per_symbol(self) -> float:
        return self.nats / self.symbols

    @property
    def bits_per_symbol(self) -> float:
        return self.nats_per_symbol / math.log(2)

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.text_bytes

    @property
    def perplexity(self) -> float:
        """Of a symbol."""
        return math.exp(min(self.nats_per_symbol, 700.0))

    def to_json(self) -> dict[str, float | int]:
        """All figures by name."""
        return {
            "symbols": self.symbols,
            "bits_per_symbol": self.bits_per_symbol,
            "bits_per_byte": self.bits_per_byte,
            "perplexity": self.perplexity,
            "nats_per_symbol": self.nats_per_symbol,
            "nats": self.nats,
            "unknown": self.unknown,
        }


def evaluate(
    net: Network,
    theta: Array,
    vocabulary: Vocabulary,
    text: Text,
    unknown: str = "error",
    chunk: int = CHUNK,
    progress: Callable[[int, int], object] | None = None,
) -> Evaluation:
    """Score a text as one unbroken stream, from a state of zeros: `evaluate(*hfrnn.load(run), text)`.

    Parameters
    ----------
    net, theta, vocabulary : as `hfrnn.load` returns them
    text : str for level "char", bytes for level "byte"
        At least two symbols.
    unknown : str
        What becomes of symbols outside the vocabulary: "error" refuses the text, "skip" drops them, and one known
        symbol takes their place.
    chunk : int
        Symbols run at a time, at least 1; the figures do not depend on it.
    progress : callable, optional
        Called with the number of symbols scored so far and of all.

    Returns
    -------
    Evaluation

    Raises
    ------
    InputError
        Fewer than two symbols, or unknown ones where they are refused.
    """
    if chunk < 1:
        raise InputError(f"the chunk is {chunk} symbols: give a whole number, 1 or more")
    symbols = vocabulary.encode(text, unknown)
    if symbols.size < 2:
        raise InputError(f"the text to evaluate has {symbols.size} known symbols: at least 2 are needed to predict one")
    whole = symbols.size == len(text)  # a replaced symbol counts with the bytes that it has in the text
    rest = text[1:] if whole else vocabulary.decode_bytes(symbols[1:])
    text_bytes = len(rest.encode("utf-8", errors="surrogatepass") if isinstance(rest, str) else rest)
    known = symbols.size if unknown == "error" else vocabulary.encode(text, "skip").size
    nats, state = 0.0, None
    count = symbols.size - 1
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        log_p, state = _score(net, theta, symbols[start : stop + 1], state)
        nats -= float(log_p.astype("float64").sum().item())
        if progress is not None:
            progress(stop, count)
    return Evaluation(count, nats, text_bytes, len(text) - known)


def _score(net: Network, theta: Array, symbols: NDArray[np.int32], state: State | None) -> tuple[Array, State]:
    column = symbols.reshape(-1, 1)
    return net.score(theta, Batch(column[:-1], column[1:], initial_state=state))
