"""How long does a network remember that a bracket is open? [K] 5.2.4 and figure 5.1.

A network that remembers it expects the closing symbol more than another opening one. The probe measures log10
P(closing)/P(opening) at every distance, and for comparison after a control context, which opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from hfrnn.arrays.backend import Array
from hfrnn.arrays.threads import one_blas_thread
from hfrnn.checks import count, function, instance, shown, subject
from hfrnn.data.text import LEVELS, Text
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, Message, NonFiniteError
from hfrnn.wording import counted

CONTROLS: dict[str, Text] = {"char": "Th", "byte": b"Th", "word": "the"}
"""The control context of each level; [K] has "Th"."""
LEAST = -690.0
"""Smallest log-probability that counts: exp(-690) is about 1e-300."""
NOTICED = 0.01
"""Smallest difference of log10 ratios that counts."""

Follow = Callable[[int, NDArray[np.float64]], NDArray[np.int32]]
"""Returns the next symbols (trials,) from the number of the step and the logits (trials, V)."""


@dataclass(frozen=True, eq=False)
class ProbeCurves:
    """What a network expects after one context, in each trial; means over groups of steps, (trials, groups) each.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> closing, opening = np.array([[0.2, 0.1]]), np.array([[0.02, 0.1]])  # one trial, two groups
    >>> curves = hfrnn.ProbeCurves(closing, opening, np.log10(closing / opening))
    >>> [round(ratio, 6) for ratio in curves.to_json()["log_ratio"]]
    [1.0, 0.0]
    """

    closing: NDArray[np.float64]
    """The probability of the closing symbol."""
    opening: NDArray[np.float64]
    """The probability of the opening symbol."""
    log_ratio: NDArray[np.float64]
    """log10 of the closing probability over the opening one; the logarithm is taken first, then the mean."""

    def to_json(self) -> dict[str, list[float]]:
        """Return the means over the trials, and the standard errors of the mean log ratio (0 with one trial)."""
        trials = len(self.log_ratio)
        errors = self.log_ratio.std(axis=0, ddof=1) / trials**0.5 if trials > 1 else np.zeros(self.log_ratio.shape[1])
        means = {name: curve.mean(axis=0) for name, curve in vars(self).items()}
        return {name: values.tolist() for name, values in {**means, "log_ratio_error": errors}.items()}


@dataclass(frozen=True, eq=False)
class BracketProbe:
    """The result of `bracket_probe`.

    Examples
    --------
    >>> import hfrnn
    >>> from hfrnn.data.vocabulary import Vocabulary
    >>> vocabulary = Vocabulary.build("The (a) bc", "char")
    >>> net = hfrnn.Network("rnn", n_in=vocabulary.size, hidden=5, n_out=vocabulary.size)
    >>> probe = hfrnn.bracket_probe(net, net.init(seed=0), vocabulary, steps=20, trials=2)
    >>> probe.last.tolist(), probe.remembered  # this network has not been trained
    ([10, 20], 0)
    """

    opening: str
    closing: str
    control: str
    opening_symbol: str
    """The first symbol of the opening, whose probability is measured."""
    closing_symbol: str
    """The first symbol of the closing bracket, whose probability is measured."""
    first: NDArray[np.int64]
    """The first distance of each group, (groups,). Distance 1 is the symbol right after the context."""
    last: NDArray[np.int64]
    """The last distance of each group, (groups,)."""
    opened: ProbeCurves
    """What the network expects after the opening."""
    unopened: ProbeCurves
    """What it expects after the control."""
    paired: bool
    """Whether the same passage followed both contexts of a trial."""

    @property
    def difference(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The mean log ratio after the opening minus that after the control, and its standard error, (groups,) each."""
        one, other = self.opened.log_ratio, self.unopened.log_ratio
        mean, trials = one.mean(axis=0) - other.mean(axis=0), len(one)
        if trials == 1:
            return mean, np.zeros_like(mean)
        terms = [one - other] if self.paired else [one, other]
        variance = sum(term.var(axis=0, ddof=1) for term in terms)
        return mean, np.sqrt(variance / trials)

    @property
    def above(self) -> NDArray[np.bool_]:
        """Whether the difference is above 0.01 and twice its standard error, (groups,)."""
        mean, error = self.difference
        return np.asarray(mean > np.maximum(2 * error, NOTICED))

    @property
    def remembered(self) -> int:
        """The last distance before the first group that is not `above`; 0 if that is the first group."""
        below = np.flatnonzero(~self.above)
        groups = int(below[0]) if below.size else self.above.size
        return int(self.last[groups - 1]) if groups else 0

    def to_json(self) -> dict[str, Any]:
        """Return everything by name, the curves as `ProbeCurves.to_json` gives them."""
        names = ("opening", "closing", "control", "opening_symbol", "closing_symbol")
        difference, error = self.difference
        return {name: getattr(self, name) for name in names} | {
            "trials": len(self.opened.log_ratio),
            "first": self.first.tolist(),
            "last": self.last.tolist(),
            "opened": self.opened.to_json(),
            "unopened": self.unopened.to_json(),
            "difference": difference.tolist(),
            "difference_error": error.tolist(),
            "groups_above": int(self.above.sum()),
            "remembered": self.remembered,
        }


def bracket_probe(
    net: Network,
    theta: Array,
    vocabulary: Vocabulary,
    opening: Text = "(",
    closing: Text = ")",
    control: Text | None = None,
    steps: int = 1000,
    trials: int = 10,
    group: int = 10,
    text: Text | None = None,
    allowed: Text | None = None,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> BracketProbe:
    """Measure how far after an opening bracket the network still expects the closing one.

    The state starts from zeros, or from the state that the network has learned. The network reads the opening, then
    `steps` symbols that neither open nor close anything, and gives the probabilities of all symbols at each of them.

    Parameters
    ----------
    net, theta, vocabulary : as `hfrnn.load` returns them
    opening, closing : str, or bytes at level "byte"
        One symbol or more, such as `"[["` and `"]]"`. The probabilities are those of the first symbol of each.
    control : str or bytes, optional
        A context that opens nothing; "Th" by default, and "the" at level "word".
    steps : int
        The greatest distance, 1 or more.
    trials : int
        Number of times that the network reads each context, with other symbols after it; 1 or more.
    group : int
        Number of steps in each mean, 1 or more.
    text : str or bytes, optional
        A text for the symbols after both contexts: `trials` passages of its allowed symbols, which begin at equal
        distances. By default the network draws the symbols.
    allowed : str or bytes, optional
        The symbols that may follow a context; all letters and the space by default (at level "word", all words of
        letters).
    seed : int
        Seed of the draws, 0 or more. It is ignored with a text.
    progress : callable, optional
        Called with the number of steps made so far and the number in all.

    Returns
    -------
    BracketProbe

    Raises
    ------
    InputError
        A number is out of its range, the vocabulary lacks a symbol, opening and closing begin with the same symbol, no
        symbol is allowed, or the text is too short.
    NonFiniteError
        The network's outputs are not finite.

    Examples
    --------
    >>> import hfrnn
    >>> from hfrnn.data.vocabulary import Vocabulary
    >>> vocabulary = Vocabulary.build("The (a) bc", "char")
    >>> net = hfrnn.Network("rnn", n_in=vocabulary.size, hidden=5, n_out=vocabulary.size)
    >>> probe = hfrnn.bracket_probe(net, net.init(seed=0), vocabulary, steps=20, trials=2)
    >>> probe.opened.closing.shape  # P(")") after "(": trials, and groups of 10 steps
    (2, 2)
    """
    theta = instance("net", net, Network, "a hfrnn.Network").vector(theta)
    instance("vocabulary", vocabulary, Vocabulary, "the vocabulary of the network")
    steps, trials, group = (count(*each, 1) for each in (("steps", steps), ("trials", trials), ("group", group)))
    seed, progress = count("seed", seed), function("progress", progress, "done, total", or_none=True)
    control = CONTROLS[vocabulary.level] if control is None else control
    given = {"opening": opening, "closing": closing, "control": control}
    contexts = {name: _known(name, each, vocabulary) for name, each in given.items()}
    begin, close = (int(contexts[name][0]) for name in ("opening", "closing"))
    if close == begin:
        raise InputError(f"opening and closing begin with the same symbol, {shown(opening[:1])}: give different ones")
    follows = _allowed(allowed, vocabulary, {close, begin})
    passages = None if text is None else _passages(text, vocabulary, follows, steps, trials)
    starts, curves = np.arange(0, steps, group), []
    for number, name in enumerate(("opening", "control")):
        rng = np.random.default_rng([seed, number])
        follow = partial(_drawn, follows, rng) if passages is None else partial(_read, passages)
        tell = None if progress is None else partial(_tell, progress, number * steps, 2 * steps)
        columns = np.repeat(contexts[name][:, None], trials, axis=1)
        with one_blas_thread():  # the products of single steps are small
            log_p = _expectations(net, theta, columns, (close, begin), steps, follow, tell)
        curves.append(_means(log_p, starts))
    about: dict[str, Any] = {name: vocabulary.decode(each) for name, each in contexts.items()}
    about |= {"opening_symbol": vocabulary.decode([begin]), "closing_symbol": vocabulary.decode([close])}
    about |= {"first": starts + 1, "last": np.append(starts[1:], steps), "paired": passages is not None}
    return BracketProbe(**about, opened=curves[0], unopened=curves[1])


def _tell(progress: Callable[[int, int], object], before: int, total: int, step: int) -> None:
    progress(before + step, total)


def _known(name: str, given: Text, vocabulary: Vocabulary) -> NDArray[np.int32]:
    """Return the numbers of one or more symbols, all of which the vocabulary has."""
    instance(name, given, LEVELS[vocabulary.level], "bytes" if vocabulary.level == "byte" else "a string")
    symbols, unknown = vocabulary.count(given)
    if not symbols or unknown:
        problem = "is empty" if not symbols else f"is {shown(given)}, and the network does not know every symbol of it"
        raise InputError(Message("{0} {1}: give one or more symbols of its training text", subject(name), problem))
    return vocabulary.encode(given)


def _allowed(given: Text | None, vocabulary: Vocabulary, brackets: set[int]) -> NDArray[np.int32]:
    """Return the numbers of the symbols that may follow a context."""
    if given is not None:
        numbers = set(_known("allowed", given, vocabulary).tolist())
        if numbers & brackets:
            raise InputError(Message(
                "{allowed!s} is {0}, which opens or closes a bracket: leave those symbols out", shown(given)
            ))  # fmt: skip
    else:
        listed = vocabulary.symbols.to_list()
        names = [chr(code) if code < 128 else "" for code in listed] if vocabulary.level == "byte" else listed
        numbers = {n for n, name in enumerate(names) if name.isalpha() or name == " "} - brackets
        if not numbers:
            raise InputError("the vocabulary has no letters and no space: give the symbols that may follow, allowed")
    return np.array(sorted(numbers), np.int32)


def _passages(
    text: Text, vocabulary: Vocabulary, allowed: NDArray[np.int32], steps: int, trials: int
) -> NDArray[np.int32]:
    """Return passages of the allowed symbols of a text, (steps, trials), which begin at equal distances."""
    row = vocabulary.encode(text, "skip")
    row = row[np.isin(row, allowed)]
    if row.size < steps:
        raise InputError(
            f"the text has {counted(row.size, 'symbol')} that may follow a bracket, and a passage has {steps:,}: give "
            "a longer text or fewer steps"
        )
    begins = np.linspace(0, row.size - steps, trials).astype(np.int64)
    return np.asarray(row[begins + np.arange(steps)[:, None]])


def _drawn(allowed: NDArray[np.int32], rng: np.random.Generator, step: int, z: NDArray[np.float64]) -> NDArray[Any]:
    """Draw symbols (trials,) from the softmax of the allowed ones."""
    noisy = z[:, allowed] + rng.gumbel(size=(len(z), allowed.size))  # its largest entry is such a draw
    return np.asarray(allowed[noisy.argmax(axis=1)])


def _read(passages: NDArray[np.int32], step: int, z: NDArray[np.float64]) -> NDArray[Any]:
    """Return the symbols of passages, (trials,), at a step."""
    return np.asarray(passages[step])


def _expectations(
    net: Network, theta: Array, columns: NDArray[np.int32], pair: tuple[int, int], steps: int, follow: Follow,
    tell: Callable[[int], object] | None,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the log-probabilities (2, trials, steps) of two symbols at each step after the contexts in `columns`."""
    found, state = np.empty((2, columns.shape[1], steps)), None
    for step in range(steps):
        with np.errstate(over="ignore", invalid="ignore"):  # logits that are not finite are refused below
            logits, state = net.continued(theta, Batch(columns).with_state(state))
        z = net.backend.to_host(logits[-1]).astype(np.float64)  # (trials, V)
        if not np.isfinite(z.max(axis=1)).all():  # a class softmax may give a single symbol the probability 0
            raise NonFiniteError("the outputs are not finite: the weights are too large, use another checkpoint")
        found[:, :, step] = log_softmax(z, axis=1)[:, pair].T
        columns = follow(step, z)[None]
        if tell is not None:
            tell(step + 1)
    return found


def _means(log_p: NDArray[np.float64], starts: NDArray[np.int64]) -> ProbeCurves:
    """Return the means over groups of steps, which begin at `starts`."""
    log_p = np.maximum(log_p, LEAST)
    sizes = np.diff(starts, append=log_p.shape[2])
    rows = (*np.exp(log_p), (log_p[0] - log_p[1]) / np.log(10))
    return ProbeCurves(*(np.add.reduceat(row, starts, axis=1) / sizes for row in rows))
