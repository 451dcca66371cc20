"""Scoring a text: the figures of a plain computation, whatever the chunk, with every symbol accounted for."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hfrnn.batch import Batch
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import InputError
from hfrnn.evaluation import Evaluation, evaluate
from hfrnn.model import Network

TEXT = "daß über die brücke, 他 geht 他 nicht über die brücke\n" * 3
VOCABULARY = Vocabulary.build(TEXT, "char")


def network(arch: str = "mlstm", vocabulary: Vocabulary = VOCABULARY, dtype: str = "float64") -> tuple[Network, object]:
    net = Network(arch, vocabulary.size, (5, 4), vocabulary.size, dtype=dtype)
    return net, net.init(3, scale=0.7)


def plain_nats(net: Network, theta: object, symbols: np.ndarray) -> np.ndarray:
    """Minus the log-probability of every symbol but the first, all steps in one run."""
    logits, _ = net.run(theta, Batch(symbols[:-1].reshape(-1, 1)))
    z = logits[:, 0].astype(np.float64)
    return np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), symbols[1:]]


@pytest.mark.parametrize("arch", ["rnn", "mlstm", "lstm"])
def test_the_figures_are_those_of_one_plain_run(arch: str) -> None:
    net, theta = network(arch)
    found = evaluate(net, theta, VOCABULARY, TEXT)
    nats = plain_nats(net, theta, VOCABULARY.encode(TEXT))
    assert found.symbols == len(TEXT) - 1
    assert found.nats == pytest.approx(nats.sum(), rel=1e-12)
    assert found.nats_per_symbol == pytest.approx(nats.mean(), rel=1e-12)
    assert found.bits_per_symbol == pytest.approx(nats.mean() / np.log(2), rel=1e-12)
    assert found.perplexity == pytest.approx(np.exp(nats.mean()), rel=1e-12)


@pytest.mark.parametrize("chunk", [1, 2, 7, 64, len(TEXT) - 2, len(TEXT) - 1, len(TEXT), 10**6])
def test_the_figures_do_not_depend_on_the_chunk(chunk: int) -> None:
    net, theta = network()
    found, reference = (evaluate(net, theta, VOCABULARY, TEXT, chunk=size) for size in (chunk, 1000))
    for name, value in found.to_json().items():
        assert value == pytest.approx(reference.to_json()[name], rel=1e-12), name


def test_bits_per_byte_count_every_byte_of_a_character() -> None:
    net, theta = network()
    found = evaluate(net, theta, VOCABULARY, TEXT)
    assert found.text_bytes == len(TEXT[1:].encode()) > len(TEXT) - 1
    assert found.bits_per_byte * len(TEXT[1:].encode()) == pytest.approx(found.bits_per_symbol * (len(TEXT) - 1))


def test_at_byte_level_a_byte_is_a_symbol() -> None:
    data = TEXT.encode()
    vocabulary = Vocabulary.build(data, "byte")
    net, theta = network(vocabulary=vocabulary)
    found = evaluate(net, theta, vocabulary, data)
    assert found.symbols == found.text_bytes == len(data) - 1
    assert found.bits_per_byte == found.bits_per_symbol


def test_unknown_symbols_are_refused_by_name() -> None:
    net, theta = network()
    with pytest.raises(InputError, match=r"'X' \(2 times\), 'é' \(1 times\)"):
        evaluate(net, theta, VOCABULARY, "die XbrückeX é")


def test_skipped_symbols_are_as_if_they_were_not_there() -> None:
    net, theta = network()
    found = evaluate(net, theta, VOCABULARY, "Xdie ébrückeé", unknown="skip")
    assert found.unknown == 3
    assert dataclasses.replace(found, unknown=0) == evaluate(net, theta, VOCABULARY, "die brücke")


def test_mapped_symbols_count_with_their_own_bytes() -> None:
    net, theta = network()
    found = evaluate(net, theta, VOCABULARY, "diX brückéX", unknown="e")
    same = evaluate(net, theta, VOCABULARY, "die brückee")
    assert (found.unknown, found.symbols, found.nats) == (3, 10, same.nats)
    assert (found.text_bytes, same.text_bytes) == (len("iX brückéX".encode()), len("ie brückee".encode()))


def test_a_symbol_to_map_to_has_to_be_known() -> None:
    net, theta = network()
    with pytest.raises(InputError, match="'Q'"):
        evaluate(net, theta, VOCABULARY, "die", unknown="Q")


@pytest.mark.parametrize("text", ["", "d", "dX"])
def test_fewer_than_two_known_symbols_are_refused(text: str) -> None:
    net, theta = network()
    with pytest.raises(InputError, match="at least 2"):
        evaluate(net, theta, VOCABULARY, text, unknown="skip")


def test_progress_counts_up_to_the_end() -> None:
    net, theta = network()
    seen: list[tuple[int, int]] = []
    evaluate(net, theta, VOCABULARY, TEXT, chunk=50, progress=lambda *counts: seen.append(counts))
    count = len(TEXT) - 1
    assert seen == [(min(n, count), count) for n in range(50, count + 50, 50)]


def test_a_chunk_below_one_is_refused() -> None:
    net, theta = network()
    with pytest.raises(InputError, match="chunk"):
        evaluate(net, theta, VOCABULARY, TEXT, chunk=0)


def test_a_hopeless_network_still_has_a_perplexity() -> None:
    assert math.isfinite(Evaluation(symbols=1, nats=1e6, text_bytes=1).perplexity)
