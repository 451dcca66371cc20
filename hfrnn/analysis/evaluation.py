"""Score a text as one unbroken stream, with fixed weights or with dynamic evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.dynamic_evaluation import Dynamic, Learner
from hfrnn.arrays.backend import Array
from hfrnn.checks import count, function, instance, is_whole, shown
from hfrnn.data.text import Text
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.wording import brief, counted

CHUNK = 1000
"""Symbols in one forward pass; the result depends on it by rounding only."""


def _none() -> NDArray[Any]:
    return np.zeros(0)


@brief
@dataclass(frozen=True)
class Evaluation:
    """How well a network predicts every symbol of a text except the first, given all earlier symbols.

    Examples
    --------
    >>> import hfrnn
    >>> found = hfrnn.Evaluation(symbols=18, nats=18.0, text_bytes=18)
    >>> found.nats_per_symbol, round(found.bits_per_byte, 2)
    (1.0, 1.44)
    """

    symbols: int
    """The number of predicted symbols."""
    nats: float
    """Minus the log-probability of all predicted symbols."""
    text_bytes: int
    """The size of the predicted symbols in the text, in bytes; words have one space between them."""
    unknown: int = 0
    """The number of symbols outside the vocabulary, which were skipped or replaced (words by `<unk>`)."""
    numbers: NDArray[np.int32] = field(default_factory=_none, compare=False, repr=False)
    """The numbers of the predicted symbols, (symbols,)."""
    surprisals: NDArray[np.float64] = field(default_factory=_none, compare=False, repr=False)
    """Minus the log-probability of each predicted symbol in nats, (symbols,); `nats` is their sum, rounded once."""

    @property
    def nats_per_symbol(self) -> float:
        """The mean loss of a symbol in nats."""
        return self.nats / self.symbols

    @property
    def bits_per_symbol(self) -> float:
        """The mean loss of a symbol in bits."""
        return self.nats_per_symbol / math.log(2)

    @property
    def bits_per_byte(self) -> float:
        """The loss of all symbols in bits, divided by `text_bytes`."""
        return self.nats / math.log(2) / self.text_bytes

    @property
    def perplexity(self) -> float:
        """The perplexity of a symbol: exp(nats_per_symbol)."""
        return math.exp(min(self.nats_per_symbol, 700.0))

    def positions(self, parts: int) -> list[tuple[int, int, float]]:
        """Return the bits per symbol in consecutive parts of the text.

        Parameters
        ----------
        parts : int
            The number of parts, 1 or more and at most one per symbol; their sizes differ by at most 1.

        Returns
        -------
        list of (first, last, mean bits)
            Positions count from 1, the first predicted symbol.
        """
        if not is_whole(parts) or not 1 <= parts <= self.surprisals.size:
            symbols = counted(self.surprisals.size, "symbol")
            raise InputError(f"{shown(parts)} parts of {symbols}: give 1 part or more, of one symbol or more each")
        edges = [self.surprisals.size * part // parts for part in range(parts + 1)]
        bits = self.surprisals / math.log(2)
        return [(a + 1, b, math.fsum(bits[a:b]) / (b - a)) for a, b in pairwise(edges)]

    def json_lines(self, vocabulary: Vocabulary) -> str:
        """Return one line of JSON for each predicted symbol, from the vocabulary with which the text was scored.

        The keys are `position` (from 1), `symbol`, and `bits`, its surprisal. Symbols are written as in
        vocabulary.json: characters and words as strings, bytes as numbers, unknown words as `<unk>`.
        """
        instance("vocabulary", vocabulary, Vocabulary, "the vocabulary of the network")
        names = [json.dumps(symbol) for symbol in vocabulary.to_json()["symbols"]]
        bits = (self.surprisals / math.log(2)).tolist()
        return "".join(
            f'{{"position": {n}, "symbol": {names[symbol]}, "bits": {json.dumps(b)}}}\n'
            for n, (symbol, b) in enumerate(zip(self.numbers.tolist(), bits, strict=True), 1)
        )

    def to_json(self) -> dict[str, float | int]:
        """Return all figures by name."""
        names = ("symbols", "bits_per_symbol", "bits_per_byte", "perplexity", "nats_per_symbol", "nats", "unknown")
        return {name: getattr(self, name) for name in names}


def evaluate(
    net: Network,
    theta: Array,
    vocabulary: Vocabulary,
    text: Text,
    unknown: str = "error",
    chunk: int = CHUNK,
    progress: Callable[[int, int], object] | None = None,
    dynamic: Dynamic | None = None,
) -> Evaluation:
    """Score a text as one unbroken stream: `evaluate(*hfrnn.load(run), text)`.

    The stream starts from a state of zeros, or from the state that the network has learned.

    Parameters
    ----------
    net, theta, vocabulary : as `hfrnn.load` returns them
    text : str for levels "char" and "word", bytes for level "byte"
        At least two symbols.
    unknown : str
        How to treat symbols outside the vocabulary: "error" refuses the text, "skip" drops them, and a known symbol
        replaces them. It is ignored if the vocabulary has `<unk>`: unknown words always become `<unk>`.
    chunk : int
        Symbols in one forward pass, at least 1; the figures depend on it by rounding only. It is ignored with
        `dynamic`, whose segments are used instead.
    progress : callable, optional
        Called with the number of symbols scored so far and the number in all.
    dynamic : Dynamic, optional
        Dynamic evaluation: how the network learns from each segment of the text after scoring it. By default the
        weights are fixed. `theta` itself is never changed.

    Returns
    -------
    Evaluation

    Raises
    ------
    InputError
        The text has fewer than two symbols, or it has unknown symbols and they are refused.
    NonFiniteError
        The network's outputs are not finite, or its weights became so in dynamic evaluation.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"arch": "lstm", "hidden": 4, "optimizer": "adam", "updates": 2, "sample_length": 0}
    >>> result = hfrnn.train(**options, out="run")  # on the built-in text
    >>> hfrnn.evaluate(*hfrnn.load("run"), "A module is a file.").symbols
    18
    """
    theta = instance("net", net, Network, "a hfrnn.Network").vector(theta)
    instance("vocabulary", vocabulary, Vocabulary, "the vocabulary of the network")
    instance("dynamic", dynamic, Dynamic, "a hfrnn.Dynamic", or_none=True)
    chunk = count("chunk", chunk, 1, unit="symbols")
    progress = function("progress", progress, "done, total", or_none=True)
    symbols = vocabulary.encode(text, unknown)
    if symbols.size < 2:
        raise InputError(
            f"the text to evaluate has {counted(symbols.size, 'known symbol')}: at least 2 are needed to predict one"
        )
    total, foreign = vocabulary.count(text)
    whole = symbols.size == total  # no symbol was dropped, so the bytes are those of the text
    text_bytes = len(vocabulary.after_first(text) if whole else vocabulary.decode_bytes(symbols[1:]))
    done, parts = 0, []
    learner = None if dynamic is None else Learner(net, theta, dynamic)
    for part in _surprisals(net, theta, symbols, chunk if dynamic is None else dynamic.stretch, learner):
        if np.isnan(part).any():
            raise NonFiniteError(
                "the network's outputs are not finite: its weights are too large, "
                + ("use another checkpoint" if dynamic is None else "give a smaller learning rate")
            )
        parts.append(part)
        done += part.size
        if progress is not None:
            progress(done, symbols.size - 1)
    surprisals = np.concatenate(parts)
    return Evaluation(done, math.fsum(surprisals), text_bytes, foreign, symbols[1:], surprisals)


def _surprisals(
    net: Network, theta: Array, symbols: NDArray[np.int32], size: int, learner: Learner | None
) -> Iterator[NDArray[np.float64]]:
    """Yield the surprisals of all symbols but the first, `size` at a time; the learner learns after each part."""
    column, count, state = symbols.reshape(-1, 1), symbols.size - 1, None
    for start in range(0, count, size):
        stop = min(start + size, count)
        batch = Batch(column[start:stop], column[start + 1 : stop + 1]).with_state(state)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses results that are not finite
            log_p, state = net.score(theta, batch)
        yield -net.backend.to_host(log_p)[:, 0].astype(np.float64)
        if learner is not None and stop < count:
            theta = learner.learn(theta, batch)
