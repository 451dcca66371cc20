"""The shares of data for training, validation and test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.checks import number, wrong
from hfrnn.errors import InputError, Message
from hfrnn.wording import counted

DEFAULT_FRACTIONS = (0.9, 0.1, 0.0)
"""The last tenth validates, unless shares are given."""


class Split(NamedTuple):
    """How sequences are put into parts: one of `choices.SPLITS`, and the seed of what is random."""

    how: str = "order"
    seed: int = 0

    def order(self, number: int, classes: NDArray[Any] | None = None) -> NDArray[np.int64] | None:
        """Return the sequences in the order in which they are cut into parts; None for the order of the file.

        `classes` (number,) are those of the sequences, for "stratified": each run of sequences in the new order holds
        its share of each class.
        """
        if self.how == "order":
            return None
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([3, self.seed])))
        shuffled = rng.permutation(number)
        if self.how == "random":
            return shuffled
        assert classes is not None
        place = np.empty(number)  # from 0 to 1 within the class
        for each in np.unique(classes):
            members = shuffled[classes[shuffled] == each]
            place[members] = (np.arange(members.size) + rng.random()) / members.size
        return np.argsort(place, kind="stable")


BY_ORDER = Split()


def checked_fractions(fractions: Sequence[float]) -> tuple[float, float, float]:
    """Return three valid shares or raise an error."""
    expected = "give three numbers in [0, 1] that sum to 1, the shares for training, validation and test"
    given: Any = fractions
    given = given.tolist() if isinstance(given, np.ndarray) and given.ndim == 1 else given
    if not isinstance(given, list | tuple):
        raise wrong("fractions", fractions, expected)
    shares = tuple(number("a share of fractions", share) for share in given)
    allowed = len(shares) == 3 and all(0 <= share <= 1 for share in shares)
    if not (allowed and math.isclose(sum(shares), 1.0, abs_tol=1e-9)):
        listed = ", ".join(f"{share:g}" for share in shares)
        raise InputError(Message("{fractions!s} is {0}: {1}", listed, expected))
    return shares[0], shares[1], shares[2]


def part_ranges(number: int, fractions: Sequence[float] | None, source: str, noun: str) -> dict[str, tuple[int, int]]:
    """Return the first and the end of each part of a number of sequences, cut in their order.

    Every share above 0 has a sequence if there are enough; training has at least one. `noun` is what a sequence is
    called.
    """
    shares = checked_fractions(DEFAULT_FRACTIONS if fractions is None else fractions)
    if not shares[0] > 0:
        raise InputError(Message("{fractions} leaves none of {0} to train on: give train a share above 0", source))
    test = min(max(round(number * shares[2]), 1), number - 1) if shares[2] else 0
    valid = min(max(round(number * shares[1]), 1), number - 1 - test) if shares[1] else 0
    if fractions is not None and sum(share > 0 for share in shares) > number:
        held = counted(number, noun)
        raise InputError(Message("{0} has {1}, too few for these {fractions!s}: give others", source, held))
    first, second = number - valid - test, number - test
    return {"train": (0, first), "valid": (first, second), "test": (second, number)}


def own_test_error(source: str, noun: str = "recordings") -> InputError:
    """Return the error about a share for the test of data that have a test part of their own."""
    return InputError(Message("{0} has its own {1} for the test: give {fractions} that end in 0", source, noun))


def parts_of_recordings(
    given: Mapping[str, Sequence[Any]], split: Split, fractions: Sequence[float] | None, source: str
) -> tuple[dict[str, Sequence[Any]], Sequence[float] | None]:
    """Return whole recordings in parts, and the shares that are still to be cut by time."""
    if split.how == "order":
        return dict(given), fractions
    if split.how == "stratified":
        raise InputError(
            Message("{split:stratified} is for classes, and {0} holds recordings: use {split:random}", source)
        )
    if "valid" in given:
        raise InputError(Message("{0} has its own recordings for validation: leave {split} out", source))
    train = given["train"]
    if len(train) < 2:
        raise InputError(
            Message("{0} is one recording, and {split:random} puts whole ones into parts: leave it out", source)
        )
    if "test" in given and checked_fractions(DEFAULT_FRACTIONS if fractions is None else fractions)[2]:
        raise own_test_error(source)
    order = split.order(len(train))
    assert order is not None
    edges = part_ranges(len(train), fractions, source, "recording")
    cut = {name: [train[n] for n in np.sort(order[a:b])] for name, (a, b) in edges.items() if b > a}
    own = {"test": given["test"]} if "test" in given else {}
    return {**cut, **own}, None if "valid" in cut else (1.0, 0.0, 0.0)
