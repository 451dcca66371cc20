"""The n-gram baselines: true distributions, the figures of the definition written out plainly, the cache."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

BENCHMARKS = Path(__file__).resolve().parent
if not (BENCHMARKS / "ngrams.py").is_file():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

import ngrams  # noqa: E402

V, END = 7, 6


def sentences(count: int, seed: int = 0) -> list[np.ndarray]:
    """Random sentences of 0 to 8 words out of 0..4, each ended; word 5 never occurs."""
    rng = np.random.default_rng(seed)
    weights = np.array([0.5, 0.25, 0.13, 0.08, 0.04])
    return [np.append(rng.choice(5, rng.integers(0, 9), p=weights), END) for _ in range(count)]


def plain_model(text: list[np.ndarray], order: int, modified: bool):
    """The definition word for word, on dictionaries: a function of a word and its sentence so far."""
    padded = [("<s>", *sentence.tolist()) for sentence in text]
    runs = {
        k: Counter(s[i : i + k] for s in padded for i in range(len(s) - k + 1) if s[i : i + k] != ("<s>",))
        for k in range(1, order + 1)
    }
    a = {order: runs[order]}
    for k in range(1, order):
        before = Counter(longer[1:] for longer in runs[k + 1])
        a[k] = {gram: count if gram[0] == "<s>" else before[gram] for gram, count in runs[k].items()}
    D = {k: ngrams.discounts(np.array(list(a[k].values())), modified) for k in a}

    def probability(word: int, before: tuple, k: int) -> float:
        if k == 0:
            return 1 / V
        context = before[len(before) - k + 1 :]
        found = {gram[-1]: count for gram, count in a[k].items() if gram[:-1] == context}
        shorter = probability(word, before, k - 1)
        if not found:
            return shorter
        taken = {w: D[k][min(count, 3)] for w, count in found.items()}
        own = found[word] - taken[word] if word in found else 0
        return (own + sum(taken.values()) * shorter) / sum(found.values())

    return lambda word, before: probability(word, ("<s>", *before), min(order, len(before) + 2))


@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_sum_to_one_for_every_context_seen_or_not(order: int, modified: bool) -> None:
    model = ngrams.KneserNey(sentences(60), V, order, modified)
    contexts = [context for n in range(4) for context in itertools.product(range(6), repeat=n)]  # word 5 is never seen
    for context in [*contexts, (0, 1, 2, 3, 4, 0, 1)]:
        P = [model.probabilities([np.array([*context, word])])[-1] for word in range(V)]
        assert sum(P) == pytest.approx(1, abs=1e-12)
        assert min(P) > 0


@pytest.mark.parametrize("modified", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_the_model_is_the_definition_word_for_word(order: int, modified: bool) -> None:
    train, test = sentences(60), sentences(15, seed=1)
    P = ngrams.KneserNey(train, V, order, modified).probabilities(test)
    plain = plain_model(train, order, modified)
    expected = [plain(s[i], tuple(s[:i].tolist())) for s in test for i in range(len(s))]
    np.testing.assert_allclose(P, expected, rtol=1e-12)


def test_a_bigram_model_by_hand() -> None:
    # <s> a b E | <s> a a E | <s> b E, with a 0, b 1, E 2; bigrams sa 2, sb 1, ab 1, aa 1, aE 1, bE 2
    text = [np.array([0, 1, 2]), np.array([0, 0, 2]), np.array([1, 2])]
    model = ngrams.KneserNey(text, 3, 2, modified=False)
    # bigrams: n1 = 4, n2 = 2, D = 4/8; symbols before a: s, a; before b: s, a; before E: a, b; all 2, so D = 1/2
    assert model.discounts[0].tolist() == model.discounts[1].tolist() == [0, 0.5, 0.5, 0.5]
    P1 = (2 - 0.5) / 6 + 1.5 / 6 / 3
    assert model.unigram == pytest.approx([P1] * 3)
    after_s, after_a = [1.5 / 3 + 1 / 3 * P1, 0.5 / 3 + 1 / 3 * P1], [0.5 / 3 + 1.5 / 3 * P1] * 3
    found = model.probabilities([np.array([0, 0, 1]), np.array([1]), np.array([0, 2])])
    assert found == pytest.approx([after_s[0], after_a[0], after_a[1], after_s[1], after_s[0], after_a[2]])


def test_the_discounts_are_those_of_chen_and_goodman() -> None:
    counts = np.repeat([1, 2, 3, 4, 9], [40, 12, 6, 3, 5])
    Y = 40 / 64
    assert ngrams.discounts(counts, False) == pytest.approx([0, Y, Y, Y])
    assert ngrams.discounts(counts, True) == pytest.approx(
        [0, 1 - 2 * Y * 12 / 40, 2 - 3 * Y * 6 / 12, 3 - 4 * Y * 3 / 6]
    )


def test_too_few_counts_for_three_discounts_give_one_and_for_one_a_half() -> None:
    assert ngrams.discounts(np.array([1, 1, 2]), True) == pytest.approx([0, 0.5, 0.5, 0.5])
    assert ngrams.discounts(np.array([1, 1, 1, 1, 2, 3]), True) == pytest.approx([0, 4 / 6, 4 / 6, 4 / 6])
    assert ngrams.discounts(np.array([5, 1]), False) == pytest.approx([0, 0.5, 0.5, 0.5])


def test_no_context_reaches_over_the_start_of_its_sentence() -> None:
    model = ngrams.KneserNey(sentences(60), V, 5, True)
    first, second = sentences(2, seed=3)
    apart = np.concatenate([model.probabilities([first]), model.probabilities([second])])
    np.testing.assert_array_equal(model.probabilities([first, second]), apart)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_the_cache_is_the_share_among_the_words_before(size: int) -> None:
    words = np.random.default_rng(0).integers(0, 4, 50)
    expected = [0.0]
    for i in range(1, 50):
        before = words[max(0, i - size) : i].tolist()
        expected.append(before.count(words[i]) / len(before))
    np.testing.assert_allclose(ngrams.cache_probabilities(words, size), expected)


def test_the_cache_is_mixed_in_from_the_second_word_on() -> None:
    P, cached = np.array([0.5, 0.25]), np.array([0.0, 1.0])
    assert ngrams.perplexity(P) == pytest.approx(8**0.5)
    assert ngrams.perplexity(P, cached, 0.4) == pytest.approx((0.5 * (0.6 * 0.25 + 0.4)) ** -0.5)


def test_the_best_cache_is_better_than_any_other_of_the_grid() -> None:
    rng = np.random.default_rng(0)
    words = np.repeat(rng.integers(0, 100, 60), 20)  # the same word again and again
    P = np.full(len(words), 0.01)
    found = ngrams.best_cache(P, words)
    assert found["size"] == 50
    for weight in (found["weight"] - 0.02, found["weight"] + 0.02):
        for size in ngrams.CACHE_SIZES:
            cached = ngrams.cache_probabilities(words, size)
            assert ngrams.perplexity(P, cached, weight) > found["perplexity"]


def test_the_beginning_of_a_corpus_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "text8").mkdir()
    (tmp_path / "text8" / "text8-prefix.txt").write_text("the cat saw the dog and the dog ran " * 2000)
    monkeypatch.setenv("HFRNN_DATA", str(tmp_path))
    done = CliRunner().invoke(ngrams.main, ["--data", "text8", "--order", "2", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "nan" not in done.output
    found = json.loads((tmp_path / "ngrams-text8-prefix.json").read_text())
    assert found["corpus"]["name"] == "text8-prefix"
    assert not (tmp_path / "ngrams-text8.json").exists()


@pytest.mark.corpus
@pytest.mark.slow
def test_a_modified_5_gram_has_its_known_perplexity_on_the_penn_treebank(monkeypatch, tmp_path) -> None:
    root = Path(os.environ.get("HFRNN_DATA") or BENCHMARKS.parent.parent / "shared" / "data").resolve()
    if not (root / "ptb").is_dir():
        pytest.skip("no folder ptb under HFRNN_DATA or ../shared/data")
    monkeypatch.setenv("HFRNN_DATA", str(root))
    done = CliRunner().invoke(ngrams.main, ["--order", "5", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    plain, modified = json.loads((tmp_path / "ngrams.json").read_text())["models"]
    assert modified["perplexity"]["test"] == pytest.approx(141.2, abs=0.05)  # [S] table 2: KN 5-gram 141
    assert modified["perplexity"]["test"] < plain["perplexity"]["test"] < 145
    assert modified["cache"]["perplexity"]["test"] < 128
