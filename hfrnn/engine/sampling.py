"""Draw text from a network, one symbol after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hfrnn.arrays.backend import Array
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, NonFiniteError


@dataclass(frozen=True)
class Drawn:
    """A drawn symbol, and the probabilities (n_out,) of all symbols at that step, before any restriction."""

    symbol: int
    probabilities: NDArray[np.float64]


def sample(
    net: Network,
    theta: Array,
    prime: NDArray[np.int32],
    length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
    allowed: Sequence[int] | None = None,
) -> Iterator[Drawn]:
    """Draw symbols that continue a given beginning.

    Each symbol is drawn from softmax(z / temperature), in double precision. Only the allowed symbols, and of these only
    the top_k likeliest, can be drawn; their probabilities are scaled to sum to 1.

    Parameters
    ----------
    net, theta : as `hfrnn.load` returns them
    prime : (n,) integers, n >= 1
        The beginning, which the network reads first.
    length : int
        Number of symbols to draw, 0 or more.
    temperature : float
        0 or more; 0 always takes the likeliest symbol.
    top_k : int, optional
        Draw only from this many of the likeliest symbols, 1 or more.
    seed : int
        Seed of the random generator, 0 or more; the same seed draws the same symbols.
    allowed : sequence of int, optional
        The symbols that may be drawn; all by default.

    Yields
    ------
    Drawn

    Raises
    ------
    InputError
        A number is out of its range, or no symbol is allowed.
    NonFiniteError
        The network's outputs are not finite.
    """
    if not (np.isfinite(temperature) and temperature >= 0):
        raise InputError(f"the temperature is {temperature}: give a number, 0 or more")
    if top_k is not None and top_k < 1:
        raise InputError(f"top-k is {top_k}: give a whole number, 1 or more")
    if length < 0:
        raise InputError(f"the length is {length}: give a whole number, 0 or more")
    if prime.size < 1:
        raise InputError("the beginning to sample from is empty: give at least one symbol")
    if seed < 0:
        raise InputError(f"the seed is {seed}: give a whole number, 0 or more")
    if allowed is not None and len(allowed) == 0:
        raise InputError("no symbol may be drawn: allow at least one")
    if allowed is not None and not all(0 <= symbol < net.n_out for symbol in allowed):
        raise InputError(f"the allowed symbols are {sorted(allowed)}: give numbers from 0 to {net.n_out - 1}")
    return _draw(net, theta, prime, length, temperature, top_k, seed, allowed)


def _draw(
    net: Network,
    theta: Array,
    prime: NDArray[np.int32],
    length: int,
    temperature: float,
    top_k: int | None,
    seed: int,
    allowed: Sequence[int] | None,
) -> Iterator[Drawn]:
    """Yield the symbols of `sample`, whose arguments were checked."""
    rng = np.random.Generator(np.random.PCG64(seed))
    column, state = prime.reshape(-1, 1), None
    for _ in range(length):
        with np.errstate(over="ignore", invalid="ignore"):  # logits that are not finite are refused below
            logits, state = net.run(theta, Batch(column, initial_state=state))
        z = net.backend.to_host(logits[-1, 0]).astype(np.float64)
        if not np.isfinite(z.max()):  # not all(): a class softmax may give a single symbol the probability 0
            raise NonFiniteError(
                "the network's outputs are not finite: its weights are too large, use another checkpoint"
            )
        restricted = np.full_like(z, -np.inf)
        open_to = np.arange(z.size) if allowed is None else np.asarray(allowed)
        restricted[open_to] = z[open_to]
        if top_k is not None and top_k < z.size:
            likeliest = np.argsort(-restricted, kind="stable")[:top_k]
            kept = np.full_like(z, -np.inf)
            kept[likeliest] = restricted[likeliest]
            restricted = kept
        if temperature == 0:
            symbol = int(np.argmax(restricted))
        else:
            with np.errstate(over="ignore"):  # a temperature near 0 makes all but the largest logit minus infinity
                scaled = (restricted - restricted.max()) / temperature
            symbol = int(rng.choice(z.size, p=_softmax(scaled)))
        yield Drawn(symbol, _softmax(z))
        column = np.array([[symbol]], dtype=np.int32)


def beginning(vocabulary: Vocabulary) -> NDArray[np.int32]:
    """Return the beginning of a sample without a prime: a newline (`<eos>`), or symbol 0 if there is no newline."""
    found = vocabulary.encode(b"\n" if vocabulary.level == "byte" else "\n", "skip")
    return found if found.size else np.zeros(1, np.int32)


def _softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the softmax of a vector."""
    e = np.exp(z - z.max())
    p: NDArray[np.float64] = e / e.sum()
    return p
