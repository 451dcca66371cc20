"""What perplexity do n-grams reach: interpolated Kneser-Ney, plain and modified, with and without a unigram cache?

The models are bounded by sentences: the context of a word reaches back to the start of its sentence at most, and the
end of the sentence is predicted like a word. See README.md beside this file.

No library serves: NLTK's Kneser-Ney has a single discount, which is given by hand, and KenLM and SRILM are C++ programs
to be built from their sources. Sorted arrays do the same in a hundred lines.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from common import RESULTS, Command, machine, print_machine, write_result
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize_scalar

from hfrnn.data.corpora import PREFIXES, load_corpus
from hfrnn.data.text import EOS
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import InputError

CACHE_SIZES = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)
SMOOTHINGS = {"Kneser-Ney": False, "modified Kneser-Ney": True}

Array = np.ndarray[Any, Any]


class Stream:
    """Sentences in one row, each behind a start symbol, which is number V; `place` 0 is a start, 1 its first word."""

    def __init__(self, sentences: Sequence[Array], V: int) -> None:
        sizes = np.array([len(sentence) + 1 for sentence in sentences])
        starts = np.cumsum(sizes) - sizes
        self.place = np.arange(sizes.sum()) - np.repeat(starts, sizes)
        self.symbols = np.full(len(self.place), V, np.int64)
        self.words = np.flatnonzero(self.place > 0)  # where something is predicted
        self.symbols[self.words] = np.concatenate(sentences)

    def ends(self, k: int) -> Array:
        """The positions at which a run of k symbols within a sentence ends, for k > 1."""
        return np.flatnonzero(self.place >= k - 1)


class Grams:
    """All k-grams of a text (k > 1), sorted: each a (k-1)-gram, its context, and the word behind it."""

    def __init__(self, keys: Array, counts: Array, n_contexts: int, V: int) -> None:
        self.keys, self.counts, self.V = keys, counts, V
        self.contexts = keys // (V + 1)
        self.totals = np.bincount(self.contexts, counts, n_contexts)

    def discount(self, discounts: Array) -> None:
        """Take from every count its discount; what that frees is each context's weight for the shorter context."""
        taken = discounts[np.minimum(self.counts, 3)]
        freed = np.bincount(self.contexts, taken, len(self.totals))
        seen = self.totals > 0
        self.left = (self.counts - taken) / self.totals[self.contexts]
        self.freed = np.divide(freed, self.totals, out=np.ones_like(freed), where=seen)  # all of an unseen context's

    def find(self, contexts: Array, words: Array) -> Array:
        """The numbers of k-grams; -1 where there is no such k-gram."""
        if not len(self.keys):
            return np.full(len(words), -1)
        wanted = contexts * (self.V + 1) + words
        found = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where((contexts >= 0) & (self.keys[found] == wanted), found, -1)


class KneserNey:
    """An interpolated Kneser-Ney model (Chen & Goodman 1998, section 3).

    P_k(w | c) = (a(cw) - D(a(cw))) / a(c) + freed(c) P_{k-1}(w | c without its first symbol), P_0 uniform. a is the
    count for k = order and for k-grams that begin with the start of a sentence, else the number of different symbols
    that stand before the k-gram; a(c) sums over w, and freed(c) is the sum of the discounts over a(c).

    Parameters
    ----------
    sentences : sequence of (n,) integers in [0, V), the end of the sentence included
    V : int
    order : int, 1 or more
    modified : bool
        Three discounts, for a = 1, 2 and more, instead of one. Each is estimated from the counts of counts of its k.
    """

    def __init__(self, sentences: Sequence[Array], V: int, order: int, modified: bool) -> None:
        self.V, self.order, stream = V, order, Stream(sentences, V)
        numbers = [np.full(0, 0), stream.symbols]  # numbers[k][i]: which k-gram ends at position i
        keys, firsts, raw = [], [], [np.bincount(stream.symbols[stream.words], minlength=V + 1)]
        for k in range(2, order + 1):
            at = stream.ends(k)
            gram = numbers[k - 1][at - 1] * (V + 1) + stream.symbols[at]
            found, first, inverse, count = np.unique(gram, return_index=True, return_inverse=True, return_counts=True)
            numbers.append(np.full(len(stream.symbols), -1))
            numbers[k][at] = inverse
            keys.append(found), firsts.append(at[first]), raw.append(count)
        adjusted = []
        for k in range(1, order):
            before = np.bincount(numbers[k][firsts[k - 1]], minlength=len(raw[k - 1]))
            adjusted.append(np.where(before > 0, before, raw[k - 1]))  # nothing stands before a start
        adjusted.append(raw[order - 1])
        self.discounts = [discounts(counts, modified) for counts in adjusted]
        counts, D = adjusted[0][:V], self.discounts[0]
        taken = D[np.minimum(counts, 3)]
        self.unigram = (counts - taken + taken.sum() / V) / counts.sum()
        self.grams = []
        for k in range(2, order + 1):
            self.grams.append(Grams(keys[k - 2], adjusted[k - 1], len(adjusted[k - 2]), V))
            self.grams[-1].discount(self.discounts[k - 1])

    def probabilities(self, sentences: Sequence[Array]) -> Array:
        """Of every word of the sentences, given those before it in its sentence; in one row."""
        stream = Stream(sentences, self.V)
        P = np.zeros(len(stream.symbols))
        P[stream.words] = self.unigram[stream.symbols[stream.words]]
        numbers = stream.symbols
        for k, grams in enumerate(self.grams, 2):
            at = stream.ends(k)
            at = at[numbers[at - 1] >= 0]  # where the context was seen
            contexts = numbers[at - 1]
            found = grams.find(contexts, stream.symbols[at])
            P[at] = np.where(found >= 0, grams.left[found], 0) + grams.freed[contexts] * P[at]
            numbers = np.full(len(P), -1)
            numbers[at] = found
        return P[stream.words]


def discounts(counts: Array, modified: bool) -> Array:
    """What is taken from a count of 0, 1, 2, and 3 or more.

    Where too few k-grams occur once to four times for the three of the modified model, the one discount of the plain
    model is taken for all; where too few occur once or twice for that one, it is a half.
    """
    n1, n2, n3, n4 = (int((counts == c).sum()) for c in (1, 2, 3, 4))
    if not n1 or not n2:
        return np.array([0, 0.5, 0.5, 0.5])
    Y = n1 / (n1 + 2 * n2)
    if not modified or not n3 or not n4:
        return np.array([0, Y, Y, Y])
    found = np.array([0, 1 - 2 * Y * n2 / n1, 2 - 3 * Y * n3 / n2, 3 - 4 * Y * n4 / n3])
    return np.clip(found, 0, [0, 1, 2, 3])


def cache_probabilities(words: Array, size: int) -> Array:
    """The share of each word among the `size` words before it, fewer at the beginning; of the first word 0."""
    N = len(words)
    keys = np.sort(words.astype(np.int64) * N + np.arange(N))  # all places of each word, in order
    place = np.arange(N)
    counts = np.searchsorted(keys, words * N + place) - np.searchsorted(keys, words * N + np.maximum(place - size, 0))
    return counts / np.maximum(np.minimum(place, size), 1)


def perplexity(P: Array, cached: Array | None = None, weight: float = 0.0) -> float:
    """Of a text, its cache mixed in from the second word on."""
    if cached is not None:
        P = np.concatenate([P[:1], (1 - weight) * P[1:] + weight * cached[1:]])
    return float(np.exp(-np.log(P).mean()))


def best_cache(P: Array, words: Array) -> dict[str, Any]:
    """The cache's size and weight with the least perplexity."""
    found = []
    for size in CACHE_SIZES:
        cached = cache_probabilities(words, size)
        least = minimize_scalar(lambda weight, c=cached: perplexity(P, c, weight), bounds=(0, 0.99), method="bounded")
        found.append({"size": size, "weight": float(least.x), "perplexity": float(least.fun)})
    return min(found, key=lambda one: one["perplexity"])


def measure(parts: dict[str, Array], ends: int, V: int, order: int, smoothing: str) -> dict[str, Any]:
    """Perplexities of one model; its cache is chosen on the validation part and starts empty with every part."""
    start = time.perf_counter()
    sentences = {name: np.split(words, np.flatnonzero(words == ends)[:-1] + 1) for name, words in parts.items()}
    model = KneserNey(sentences["train"], V, order, SMOOTHINGS[smoothing])
    P = {name: model.probabilities(sentences[name]) for name in parts if name != "train"}
    record: dict[str, Any] = {
        "smoothing": f"{smoothing}, interpolated", "order": order, "bounded_by": "sentences",
        "discounts": [found[1:].tolist() for found in model.discounts],
        "perplexity": {name: perplexity(p) for name, p in P.items()},
    }  # fmt: skip
    cache = best_cache(P["valid"], parts["valid"])
    record["cache"] = {
        "size": cache["size"], "weight": cache["weight"], "perplexity": {
            name: perplexity(p, cache_probabilities(parts[name], cache["size"]), cache["weight"])
            for name, p in P.items()
        },
    }  # fmt: skip
    return record | {"seconds": time.perf_counter() - start}


def print_table(records: list[dict[str, Any]], title: str) -> None:
    names = list(records[0]["perplexity"])
    table = Table("model", *names, "cache", *names, "seconds", title=title)
    for record in records:
        found, cache = record["perplexity"], record["cache"]
        table.add_row(
            f"{record['order']}-gram, {record['smoothing']}", *(f"{found[n]:.1f}" for n in names),
            f"{cache['weight']:.3f} of {cache['size']}",
            *(f"{cache['perplexity'][n]:.1f}" for n in names), f"{record['seconds']:.1f}",
        )  # fmt: skip
    Console(width=120).print(table)


@click.command(cls=Command)
@click.option("--data", default="ptb", help="Corpus by name.")
@click.option("--order", "orders", multiple=True, type=click.IntRange(1), default=(3, 5), help="n; repeatable.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, help="The folder of the JSON.")
def main(data: str, orders: tuple[int, ...], out: Path) -> None:
    """Measure the perplexity of n-gram models on the words of a corpus."""
    facts = machine(1)
    print_machine(facts)
    corpus = load_corpus(name=data, level="word")
    if not corpus.valid:
        raise InputError(f"the corpus {data} has no validation part to choose the cache on: give another --data")
    vocabulary = Vocabulary.build(corpus.train, "word", corpus.min_count)
    texts = {"train": corpus.train, "valid": corpus.valid, "test": corpus.test}
    parts = {name: vocabulary.encode(text).astype(np.int64) for name, text in texts.items() if text}
    (ends,) = vocabulary.encode("\n")
    records = [
        measure(parts, int(ends), vocabulary.size, order, smoothing) for order in orders for smoothing in SMOOTHINGS
    ]
    name = f"{data}-prefix" if Path(corpus.source).name in PREFIXES else data
    print_table(records, f"{name}, {vocabulary.size:,} words, {EOS} counted")
    about = {
        "name": name,
        "sha256": corpus.sha256,
        "V": vocabulary.size,
        "words": {n: len(p) for n, p in parts.items()},
    }
    write_result(
        out / ("ngrams.json" if data == "ptb" else f"ngrams-{name}.json"),
        {"machine": facts, "corpus": about, "models": records},
    )


if __name__ == "__main__":
    main()
