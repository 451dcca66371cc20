"""Runs at the level of words: trained, evaluated and sampled like those of characters."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from support import command_line
from support.tiny_runs import metrics, text_file, tiny_train

import hfrnn
from hfrnn.analysis.evaluation import evaluate
from hfrnn.cli import main
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.network import Network
from hfrnn.engine.sampling import beginning

TEXT = "the cat saw the dog\nthe dog saw a cat\n\nthe end is near the dog\n" * 30 + "one bird\n" * 2


def call(*arguments):
    return command_line.call(*arguments).stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    text_file(folder, TEXT)
    path = folder / "run"
    tiny_train(
        folder, level="word", min_count=40, arch="rnn", embedding=5, classes=3, fractions=(0.9, 0.1, 0.0), updates=3
    )
    return path


def test_a_run_of_words_learns_with_an_embedding_and_classes(run):
    net, _, vocabulary = hfrnn.load(run)
    assert (vocabulary.level, vocabulary.size) == ("word", 6)
    assert net.n_in == net.n_out == vocabulary.size
    assert json.loads((run / "vocabulary.json").read_text())["symbols"][0] == "the"
    lines = metrics(run)
    assert lines[-1]["valid_bits"] < lines[0]["loss_before"] / np.log(2)
    assert lines[-1]["valid_perplexity"] == pytest.approx(2 ** lines[-1]["valid_bits"])


def test_evaluation_is_in_bits_and_perplexity_of_a_word(run, tmp_path):
    text = text_file(tmp_path, "the cat saw the dog\nthe dog")
    found = json.loads(call("evaluate", run, text, "--json"))
    assert found["symbols"] == 9 - 1  # seven words, the newline between them, and one that is added at the end
    assert found["perplexity"] == pytest.approx(2 ** found["bits_per_symbol"])
    shown = call("evaluate", run, text)
    assert "8 words predicted" in shown
    assert "bits per word" in shown
    unseen = call("evaluate", run, text_file(tmp_path, "the unicorn\n", "other.txt"))
    assert "1 word never seen in training: scored as <unk>" in unseen


def test_a_sample_is_of_known_words_and_goes_on_from_its_prime(run):
    vocabulary = hfrnn.load(run).vocabulary
    text = call("sample", run, "--prime", "the cat", "--length", 40)
    assert text.startswith("the cat")
    assert vocabulary.count(text) == (42 + 1, 0)  # click ends what it prints with a newline
    found = json.loads(call("sample", run, "--length", 5, "--json"))
    assert [step["symbol"] for step in found["steps"]] == [
        vocabulary.decode([i]) for i in vocabulary.encode(found["text"])
    ]


def test_a_sample_may_be_held_to_some_words(run):
    text = call("sample", run, "--length", 30, "--allowed", "dog cat", "--seed", 1)
    assert set(text.split()) == {"dog", "cat"}
    result = CliRunner().invoke(main, ["sample", str(run), "--allowed", "dog unicorn"])
    assert result.exit_code == 2
    assert "unicorn" in result.stderr


def test_a_sample_begins_after_the_end_of_a_line():
    vocabulary = Vocabulary.build("a b\na c\n", "word")
    assert vocabulary.decode(beginning(vocabulary)) == "\n"


def test_words_never_seen_are_scored_as_unk_and_counted_with_their_own_bytes():
    vocabulary = Vocabulary.build("a a b c\n", "word", min_count=2)
    net = Network("rnn", vocabulary.size, 3, vocabulary.size, dtype="float64")
    theta = net.init(0, scale=0.7)
    known, other = (evaluate(net, theta, vocabulary, f"a {word} a\n") for word in ("<unk>", "giraffe"))
    assert other.nats == known.nats
    assert (known.unknown, other.unknown) == (0, 1)
    assert (known.symbols, other.symbols) == (3, 3)
    assert (known.text_bytes, other.text_bytes) == (len("<unk> a\n"), len("giraffe a\n"))


def test_the_least_count_and_the_largest_size_reach_the_vocabulary(tmp_path):
    text_file(tmp_path, TEXT)
    sizes = [
        tiny_train(tmp_path, f"run{i}", level="word", **limits).vocabulary.size
        for i, limits in enumerate(({}, {"min_count": 40}, {"max_vocabulary": 5}))
    ]
    assert sizes[0] == len(set(TEXT.split())) + 1 - 2  # `one` and `bird` are in the validation part
    assert sizes[1:] == [6, 5]  # the, cat, saw, dog and the two symbols; one word less
