"""Scoring a text as one unbroken stream, the state carried from symbol to symbol."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hfrnn.backend import Array
from hfrnn.batch import Batch, State
from hfrnn.config import TrainConfig
from hfrnn.data.corpora import PARTS
from hfrnn.data.music import load_music, music_batch
from hfrnn.data.synthetic import SUCCESS, make_task, tasks
from hfrnn.data.vocabulary import Text, Vocabulary, counted
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.model import Network

CHUNK = 1000
"""Symbols run at a time; the result does not depend on it."""
TASK_SEQUENCES = 10_000
"""Fresh sequences that a synthetic task is judged by (SPEC 9)."""


@dataclass(frozen=True)
class Evaluation:
    """How well a network predicts a text: every symbol but the first, given all before it."""

    symbols: int
    """Symbols predicted."""
    nats: float
    """Minus the log-probability of all of them."""
    text_bytes: int
    """The bytes that the predicted symbols take in the text; of words, with one space between them."""
    unknown: int = 0
    """Symbols of the text outside the vocabulary, which were skipped or replaced (words by `<unk>`)."""

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
    text : str for levels "char" and "word", bytes for level "byte"
        At least two symbols.
    unknown : str
        What becomes of symbols outside the vocabulary: "error" refuses the text, "skip" drops them, and one known
        symbol takes their place. Unknown words become `<unk>` where the vocabulary has it, whatever is given here.
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
    NonFiniteError
        The network's outputs are not finite.
    """
    if chunk < 1:
        raise InputError(f"the chunk is {chunk} symbols: give a whole number, 1 or more")
    symbols = vocabulary.encode(text, unknown)
    if symbols.size < 2:
        raise InputError(
            f"the text to evaluate has {counted(symbols.size, 'known symbol')}: at least 2 are needed to predict one"
        )
    total, foreign = vocabulary.count(text)
    whole = symbols.size == total  # a replaced symbol counts with the bytes that it has in the text
    text_bytes = len(vocabulary.after_first(text) if whole else vocabulary.decode_bytes(symbols[1:]))
    nats, state = 0.0, None
    count = symbols.size - 1
    for start in range(0, count, chunk):
        stop = min(start + chunk, count)
        log_p, state = _score(net, theta, symbols[start : stop + 1], state)
        nats -= float(log_p.astype("float64").sum().item())
        if math.isnan(nats):
            raise NonFiniteError(
                "the network's outputs are not finite: its weights are too large, use another checkpoint"
            )
        if progress is not None:
            progress(stop, count)
    return Evaluation(count, nats, text_bytes, foreign)


def _score(net: Network, theta: Array, symbols: NDArray[np.int32], state: State | None) -> tuple[Array, State]:
    column = symbols.reshape(-1, 1)
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused
        return net.score(theta, Batch(column[:-1], column[1:], initial_state=state))


def evaluate_sequences(net: Network, theta: Array, config: TrainConfig, part: str | None = None) -> dict[str, Any]:
    """Score a network on a synthetic task or on music.

    Parameters
    ----------
    net : Network
    theta : (n_parameters,) array
    config : TrainConfig
        Of the run: says the data.
    part : {"train", "valid", "test"}, optional
        Of the music, "valid" by default; a task has none, and is scored on 10,000 fresh sequences.

    Returns
    -------
    dict
        `loss` (a mean over all scored steps, in nats for music) and what it is of; of a task `wrong`, the share of
        wrong answers, and whether it counts as solved.

    Raises
    ------
    InputError
        A part of a task or one that is not known, or the music is not there.
    """
    if config.data in tasks() and part is not None:
        raise InputError(f"{config.data} has no parts, its sequences are made afresh: leave {part!r} out")
    part = part or "valid"
    if part not in PARTS:
        raise InputError(f"part {part!r} is not known: use {', '.join(PARTS)}")
    net = copy.copy(net)
    net.l2 = 0.0  # a penalty on the weights is no part of how well they predict
    if config.data in tasks():
        task = make_task(config.data, config.length)
        rng, wrong, losses, count = np.random.default_rng([2, config.seed]), 0, 0.0, 0
        while count < TASK_SEQUENCES:
            drawn = task.sequences(min(TASK_SEQUENCES - count, 1000), rng)
            batch, size = Batch(*drawn), drawn.lengths.size
            losses += net.loss(theta, batch) * size
            wrong += int(task.wrong(net.backend.to_host(net.run(theta, batch)[0]), drawn).sum())
            count += size
            if task.fixed_count:  # these are all there are
                break
        share = wrong / count
        solved = "yes" if share < SUCCESS else "no"
        return {"task": task.name, "sequences": count, "loss": losses / count, "wrong": share, "solved": solved}
    pieces = getattr(load_music(config.data or ""), part)
    loss = net.loss(theta, Batch(*music_batch(pieces)))
    return {"music": config.data, "part": part, "pieces": len(pieces), "nats_per_time_step": loss}
