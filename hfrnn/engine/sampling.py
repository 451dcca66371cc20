"""Draw text from a network, one symbol after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hfrnn.arrays.array_checks import array
from hfrnn.arrays.backend import Array, get_backend
from hfrnn.arrays.threads import one_blas_thread
from hfrnn.checks import NOT_NEGATIVE, count, instance, number
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.wording import brief

Symbols: TypeAlias = NDArray[np.int32]


@brief
@dataclass(frozen=True)
class Drawn:
    """A drawn symbol, and the probabilities (n_out,) of all symbols at that step, before any restriction.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"arch": "lstm", "hidden": 4, "optimizer": "adam", "updates": 2, "sample_length": 0}
    >>> result = hfrnn.train(**options, out="run")  # on the built-in text
    >>> net, theta, vocabulary = hfrnn.load("run")
    >>> (drawn,) = hfrnn.sample(net, theta, vocabulary.encode("A "), 1, seed=0)
    >>> drawn.probabilities.shape == (net.n_out,)
    True
    """

    symbol: int
    probabilities: NDArray[np.float64]


def sample(
    net: Network,
    theta: Array,
    prime: Symbols,
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
        A number is out of its range, no symbol is allowed, or the network does not predict its own input symbols.
    NonFiniteError
        The network's outputs are not finite, or all allowed symbols have the probability 0.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"arch": "lstm", "hidden": 4, "optimizer": "adam", "updates": 2, "sample_length": 0}
    >>> result = hfrnn.train(**options, out="run")  # on the built-in text
    >>> net, theta, vocabulary = hfrnn.load("run")
    >>> drawn = hfrnn.sample(net, theta, vocabulary.encode("A "), length=5, seed=0)
    >>> len(vocabulary.decode([each.symbol for each in drawn]))
    5
    """
    theta = instance("net", net, Network, "a hfrnn.Network").vector(theta)
    if not net.head.integer_targets or net.n_in != net.n_out:
        raise InputError(
            f"net was not trained on a text: its n_in is {net.n_in}, its n_out {net.n_out} and its loss "
            f"{net.loss_name!r}, so there is nothing to sample; give a network that predicts its own input symbols, as "
            "hfrnn.load returns it for a run on a text"
        )
    temperature, length = number("temperature", temperature, NOT_NEGATIVE), count("length", length)
    top_k, seed = count("top_k", top_k, 1, or_none=True), count("seed", seed)
    prime = _symbols("prime", prime, net.n_in)
    chosen = np.arange(net.n_out, dtype=np.int32) if allowed is None else _symbols("allowed", allowed, net.n_out)
    return _draw(net, theta, prime, length, temperature, net.n_out if top_k is None else top_k, seed, chosen)


def _symbols(name: str, given: ArrayLike, most: int) -> Symbols:
    """Return one or more symbols, which lie from 0 up to, but not including, `most`."""
    if isinstance(given, list | tuple) and not given:  # NumPy makes it an array of floats
        raise InputError(f"{name} is empty: give at least one symbol")
    symbols: Symbols = array(name, given, (None,), "iu", backend=get_backend("numpy"))
    if not symbols.size:
        raise InputError(f"{name} is empty: give at least one symbol")
    if symbols.min() < 0 or symbols.max() >= most:
        raise InputError(f"{name} has symbols from {symbols.min()} to {symbols.max()}: give 0 to {most - 1}")
    return symbols


def _draw(
    net: Network, theta: Array, prime: Symbols, length: int, temperature: float, top_k: int, seed: int, allowed: Symbols
) -> Iterator[Drawn]:
    """Yield the symbols of `sample`, whose arguments were checked."""
    rng = np.random.Generator(np.random.PCG64(seed))
    column, state = prime.reshape(-1, 1), None
    for _ in range(length):
        # logits that are not finite are refused below; one thread, as in training: products of one row need no more
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            logits, state = net.continued(theta, Batch(column).with_state(state))
        z = net.backend.to_host(logits[-1, 0]).astype(np.float64)
        if not np.isfinite(z.max()):  # not all(): a class softmax may give a single symbol the probability 0
            raise NonFiniteError(
                "the network's outputs are not finite: its weights are too large, use another checkpoint"
            )
        restricted = np.full_like(z, -np.inf)
        restricted[allowed] = z[allowed]
        if top_k < z.size:
            restricted[np.argsort(-restricted, kind="stable")[top_k:]] = -np.inf
        if restricted.max() == -np.inf:
            raise NonFiniteError("the network gives every allowed symbol the probability 0: allow other symbols too")
        if temperature == 0:
            symbol = int(np.argmax(restricted))
        else:
            with np.errstate(over="ignore"):  # a temperature near 0 makes all but the largest logit minus infinity
                scaled = (restricted - restricted.max()) / temperature
            symbol = int(rng.choice(z.size, p=_softmax(scaled)))
        yield Drawn(symbol, _softmax(z))
        column = np.array([[symbol]], dtype=np.int32)


def beginning(vocabulary: Vocabulary) -> Symbols:
    """Return the beginning of a sample without a prime: a newline (`<eos>`), or symbol 0 if there is no newline."""
    found = vocabulary.encode(b"\n" if vocabulary.level == "byte" else "\n", "skip")
    return found if found.size else np.zeros(1, np.int32)


def draw_text(net: Network, theta: Array, vocabulary: Vocabulary | None, length: int) -> str | None:
    """Return a text that the network writes; None without a vocabulary, for a length of 0, or for infinite outputs."""
    if vocabulary is None or not length:
        return None
    try:
        drawn = list(sample(net, theta, beginning(vocabulary), length))
    except NonFiniteError:
        return None
    return vocabulary.decode([step.symbol for step in drawn])


def _softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the softmax of a vector."""
    e = np.exp(z - z.max())
    p: NDArray[np.float64] = e / e.sum()
    return p
