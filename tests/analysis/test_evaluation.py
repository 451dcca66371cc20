"""Scoring a text: the figures of a plain computation, whatever the chunk, with every symbol accounted for."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call
from support.music_files import pieces_of, stored
from support.tiny_runs import text_file, tiny_train

import hfrnn
from hfrnn.analysis.evaluation import Evaluation, evaluate
from hfrnn.analysis.sequences import NEW_SEQUENCES, evaluate_sequences
from hfrnn.data.music import music_batch
from hfrnn.data.tasks import Task, make_task
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig
from hfrnn.sources.open import open_source

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


@pytest.mark.parametrize(("arch", "dtype", "rtol"), [
    ("rnn", "float64", 1e-12), ("mlstm", "float64", 1e-12), ("lstm", "float64", 1e-12), ("mlstm", "float32", 1e-4),
])  # fmt: skip
def test_the_figures_are_those_of_one_plain_run_and_surprisals_add_up_exactly(arch, dtype, rtol) -> None:
    net, theta = network(arch, dtype=dtype)
    found = evaluate(net, theta, VOCABULARY, TEXT)
    nats = plain_nats(net, theta, VOCABULARY.encode(TEXT))
    assert found.symbols == len(TEXT) - 1
    assert found.text_bytes == len(TEXT[1:].encode()) > len(TEXT) - 1
    assert found.nats == pytest.approx(nats.sum(), rel=rtol)
    assert found.nats_per_symbol == pytest.approx(nats.mean(), rel=rtol)
    assert found.bits_per_symbol == pytest.approx(nats.mean() / np.log(2), rel=rtol)
    assert found.bits_per_byte * found.text_bytes == pytest.approx(found.bits_per_symbol * found.symbols)
    assert found.perplexity == pytest.approx(np.exp(nats.mean()), rel=rtol)
    assert found.surprisals.shape == found.numbers.shape == (found.symbols,)
    assert math.fsum(found.surprisals.tolist()) == found.nats
    np.testing.assert_allclose(found.surprisals, nats, rtol=rtol)
    assert VOCABULARY.decode(found.numbers) == TEXT[1:]
    lines = [json.loads(line) for line in found.json_lines(VOCABULARY).splitlines()]
    assert [line["position"] for line in lines] == list(range(1, len(TEXT)))
    assert "".join(line["symbol"] for line in lines) == TEXT[1:]
    assert math.fsum(line["bits"] for line in lines) == pytest.approx(found.nats / math.log(2), rel=4e-16)
    np.testing.assert_array_equal([line["bits"] for line in lines], found.surprisals / math.log(2))


def test_at_byte_level_a_byte_is_a_symbol_and_the_lines_hold_any_symbol_whole() -> None:
    data = bytes([7, 255, 0, 10, 7, 255])
    vocabulary = Vocabulary.build(data, "byte")
    found = evaluate(*network(vocabulary=vocabulary), vocabulary, data)
    assert found.symbols == found.text_bytes == len(data) - 1
    assert found.bits_per_byte == found.bits_per_symbol
    lines = found.json_lines(vocabulary).splitlines()
    assert [json.loads(line)["symbol"] for line in lines] == list(data[1:])
    words = Vocabulary.build("a cat <unk> a\n", "word")
    lines = evaluate(*network(vocabulary=words), words, "a dog\na cat\n").json_lines(words).splitlines()
    assert [json.loads(line)["symbol"] for line in lines] == ["<unk>", "<eos>", "a", "cat", "<eos>"]
    text = 'a"b\\c\nd\te\r\u2028f\ud800g\x00é' * 2
    vocabulary = Vocabulary.build(text, "char")
    written = evaluate(*network(vocabulary=vocabulary), vocabulary, text).json_lines(vocabulary)
    assert written.isascii()
    assert [json.loads(line)["symbol"] for line in written.splitlines()] == list(text[1:])


def test_skipped_symbols_are_as_if_they_were_not_there_and_mapped_ones_count_with_their_own_bytes() -> None:
    net, theta = network()
    found = evaluate(net, theta, VOCABULARY, "Xdie ébrückeé", unknown="skip")
    assert found.unknown == 3
    assert dataclasses.replace(found, unknown=0) == evaluate(net, theta, VOCABULARY, "die brücke")
    lines = [json.loads(line) for line in found.json_lines(VOCABULARY).splitlines()]
    assert [(line["position"], line["symbol"]) for line in lines] == list(enumerate("ie brücke", 1))
    mapped = evaluate(net, theta, VOCABULARY, "diX brückéX", unknown="e")
    same = evaluate(net, theta, VOCABULARY, "die brückee")
    assert (mapped.unknown, mapped.symbols, mapped.nats) == (3, 10, same.nats)
    assert (mapped.text_bytes, same.text_bytes) == (len("iX brückéX".encode()), len("ie brückee".encode()))


@pytest.mark.parametrize("chunk", [1, 7, 50, len(TEXT) - 2, len(TEXT) - 1, 10**6])
def test_the_figures_do_not_depend_on_the_chunk_and_progress_counts_up_to_the_end(chunk: int) -> None:
    (net, theta), count, seen = network(), len(TEXT) - 1, list[tuple[int, int]]()
    found = evaluate(net, theta, VOCABULARY, TEXT, chunk=chunk, progress=lambda *counts: seen.append(counts)).to_json()
    assert found == pytest.approx(evaluate(net, theta, VOCABULARY, TEXT, chunk=1000).to_json(), rel=1e-12)
    assert seen == [(min(n, count), count) for n in range(chunk, count + chunk, chunk)]


def test_a_hopeless_network_still_has_a_perplexity_and_two_known_symbols_are_needed() -> None:
    assert math.isfinite(Evaluation(symbols=1, nats=1e6, text_bytes=1).perplexity)
    for text in ("", "d", "dX"):
        with pytest.raises(InputError, match="at least 2"):
            evaluate(*network(), VOCABULARY, text, unknown="skip")


@pytest.mark.parametrize("parts", [1, 7, len(TEXT) - 1])
def test_the_parts_of_a_text_hold_every_symbol_once(parts: int) -> None:
    found = evaluate(*network(), VOCABULARY, TEXT)
    shown = found.positions(parts)
    assert [symbol for first, last, _ in shown for symbol in range(first, last + 1)] == list(range(1, len(TEXT)))
    sizes = [last + 1 - first for first, last, _ in shown]
    assert max(sizes) - min(sizes) <= 1
    for first, last, bits in shown:
        assert bits == pytest.approx(found.surprisals[first - 1 : last].mean() / math.log(2), rel=1e-13)


def test_the_command_writes_a_line_a_symbol_and_shows_the_parts(tmp_path: Path) -> None:
    run, text, file = tiny_train(tmp_path, optimizer="adam").folder, "The dog and\nthe fox. ", tmp_path / "bits.jsonl"
    file.write_text("older")
    options = ["evaluate", run, text_file(tmp_path, text, "other.txt")]
    shown = call(*options, "--per-symbol", file, "--force", "--positions", "2").stdout
    found = evaluate(*hfrnn.load(run), text)
    assert file.read_text("utf-8") == found.json_lines(hfrnn.load(run).vocabulary)
    for first, last, bits in found.positions(2):
        assert re.search(rf"^{first} to {last} +{bits:.4f}$", shown, re.MULTILINE)
    parts = [{"first": a, "last": b, "bits": bits} for a, b, bits in found.positions(2)]
    assert json.loads(call(*options, "--positions", "2", "--json").stdout) == {**found.to_json(), "positions": parts}
    assert shown.startswith(call(*options).stdout)
    for wrong, message in ((("--positions", "21"), "21 parts of 20 symbols"), (("--per-symbol", tmp_path), "a folder")):
        assert message in " ".join(call(*options, *wrong, code=2).output.split())


def trained_on(data: str, **options: object) -> tuple[Network, object, TrainConfig]:
    """A network for a task or music, and the configuration of a run that might have made it."""
    config = TrainConfig(data=data, arch="rnn", hidden=(4,), backend="numpy", **options)
    net = Network(**config.network_arguments(open_source(config).network))
    return net, net.init(seed=1, scale=0.5), config


def test_a_task_is_scored_on_fresh_sequences_of_its_own() -> None:
    net, theta, config = trained_on("addition", length=21, dtype="float64")
    found = evaluate_sequences(net, theta, config)
    rng, task = np.random.default_rng([2, config.seed]), make_task("addition", 21)
    drawn = [task.sequences(1000, rng) for _ in range(10)]
    assert found["sequences"] == NEW_SEQUENCES == 10_000
    assert found["loss"] == pytest.approx(np.mean([net.loss(theta, Batch(*part)) for part in drawn]), rel=1e-12)
    wrong = np.concatenate([task.wrong(net.run(theta, Batch(*part))[0], part) for part in drawn])
    assert found["wrong"] == wrong.mean() > 0.5
    assert (found["task"], found["solved"]) == ("addition", "no")
    heavy = Network(**{**net.config, "l2": 3.0})  # the penalty is no part of an evaluation
    assert found == evaluate_sequences(heavy, theta, config)
    assert heavy.l2 == 3.0
    assert found["wrong"] != evaluate_sequences(net, theta, config.replace(seed=1))["wrong"]
    held_out = open_source(config)
    used = {column.tobytes() for part in drawn for column in np.swapaxes(part.inputs, 0, 1)}
    for known in (held_out.validation.inputs, held_out.pool(0).inputs):
        assert not used & {column.tobytes() for column in np.swapaxes(known, 0, 1)}


def test_a_task_of_few_sequences_is_scored_on_each_of_them_once_and_few_errors_count_as_solved(monkeypatch):
    found = evaluate_sequences(*trained_on("memorization-5bit", length=21))
    assert found["sequences"] == 32
    assert (found["wrong"] * 32) % 1 == 0
    net, theta, config = trained_on("addition", length=21)
    for errors, solved in ((9, "yes"), (10, "no")):
        monkeypatch.setattr(Task, "wrong", lambda self, outputs, drawn, n=errors: np.arange(drawn.lengths.size) < n)
        found = evaluate_sequences(net, theta, config)
        assert (found["wrong"], found["solved"]) == (errors / 1000, solved)


def test_music_is_scored_by_parts_in_nats_a_time_step(small_music: Path) -> None:
    small_music.write_bytes(stored())
    net, theta, config = trained_on("jsb", dtype="float64")
    for seed, part in enumerate(("train", "valid", "test")):
        found = evaluate_sequences(net, theta, config, part)
        batch = Batch(*music_batch(pieces_of(3, 5 + seed, seed=seed)))
        nats = -net.log_probabilities(theta, batch).sum() / (8 + seed)
        assert found["nats_per_time_step"] == pytest.approx(nats, rel=1e-12)
        assert (found["music"], found["part"], found["pieces"]) == ("jsb", part, 2)


@pytest.mark.parametrize("option", [{"by": "sequence"}, {"washout": 1}, {"estimate_state": 1}])
def test_piano_rolls_in_a_file_are_refused_what_music_by_name_is_refused(small_music: Path, option: Any) -> None:
    small_music.write_bytes(stored())
    messages = []
    for data in ("jsb", str(small_music)):
        with pytest.raises(InputError) as caught:
            evaluate_sequences(*trained_on(data), **option)
        messages.append(str(caught.value).replace(data, "DATA"))
    assert messages[0] == messages[1]
