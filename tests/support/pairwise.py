"""Few rows of a large table of networks: those that show each of its values, or each pair of values."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations, product
from typing import Any, TypeVar

import pytest

from support.engine_cases import VARIANTS, Case, cases

Row = TypeVar("Row")


def covering(rows: Sequence[Row], things: Callable[[Row], Iterable[Hashable]], begin: Iterable[Row] = ()) -> list[Row]:
    """Return `begin` and a few more rows, so that everything is in one of them that is in any row (greedily)."""
    found, of_rows = list(begin), [set(things(row)) for row in rows]
    missing = set().union(*of_rows).difference(*(things(row) for row in found))
    heap = [(-len(own & missing), n) for n, own in enumerate(of_rows)]
    heapify(heap)
    while missing:
        _, n = heappop(heap)
        gain = len(of_rows[n] & missing)
        if heap and -gain > heap[0][0]:
            heappush(heap, (-gain, n))
        else:
            found.append(rows[n])
            missing -= of_rows[n]
    return found


def each_once(*columns: Iterable[Any], of: Iterable[Case] | None = None) -> list[Any]:
    """Return rows (case, a value of each column) that show every architecture, situation and value once."""
    rows = covering(list(product(cases() if of is None else of, *columns)), _singles)
    return [pytest.param(*row) for row in rows]


def tried(*columns: Iterable[Any], of: Iterable[Case] | None = None) -> list[Any]:
    """Return rows (case, a value of each column) for `parametrize`: those of `each_once`, then some that are slow.

    Together they show every variant, and every pair of architecture, loss, number of layers, kind of input, mixed
    lengths, carried state and values.
    """
    rows = list(product(cases() if of is None else of, *columns))
    quick = covering(rows, _singles)
    every = covering(rows, lambda row: [row[0].situation, *combinations(_values(row), 2)], quick)
    return [pytest.param(*row, marks=[] if n < len(quick) else pytest.mark.slow) for n, row in enumerate(every)]


def _singles(row: Any) -> list[Hashable]:
    situation = row[0].situation
    return [row[0].arch, *enumerate(row[1:]), *([] if situation in VARIANTS else [("situation", situation)])]


def _values(row: Any) -> list[Hashable]:
    network, batch = row[0].network, row[0].batch
    inputs = "embedding" if "embedding" in network else batch.get("real", False)
    layers = 1 if isinstance(network["hidden"], int) else 2
    own = (row[0].arch, network.get("loss"), layers, inputs, batch.get("ragged"), batch.get("carried"))
    return [*enumerate(own), *enumerate(row[1:], len(own))]


def label(value: Any) -> Any:
    """Return how a value is shown in the name of a test."""
    return getattr(value, "id", None)
