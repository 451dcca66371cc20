"""The bracket probe: the curve of a network with known weights, passages and samples, and the command `hfrnn probe`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call, refused
from support.fake_device import FakeBackend
from support.pictures import needs_matplotlib
from support.tiny_runs import snapshot, text_file, tiny_train

import hfrnn
from hfrnn.analysis.probe import BracketProbe, ProbeCurves, bracket_probe
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.network import Network
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import run_text

DECAY, STRENGTH = 0.9, 3.0
WORDS = "Th abcde"


def remembering(text: str = WORDS + "()[]", decay: float = DECAY) -> tuple[Network, Any, Vocabulary]:
    """A network whose one unit is set to 1 by each opening symbol and decays; it raises the closing symbols' logits."""
    vocabulary = Vocabulary.build(text, "char")
    net = Network("rnn", vocabulary.size, 1, vocabulary.size, dtype="float64", bias=False, activation="relu")
    theta = np.zeros(net.n_parameters)
    views = net.views(theta)
    for name, value in (("([", 1.0), (")]", 0.0)):
        at = vocabulary.encode(name, "skip")
        views["layer0.W_x"][at, 0] = value
        views["output.W_y0"][0, at] = 0.0 if value else STRENGTH
    views["layer0.W_h"][:] = decay
    return net, theta, vocabulary


def log_ratio(distance: Any, depth: int = 1) -> Any:
    """log10 P(closing)/P(opening) of that network after `depth` opening symbols."""
    start = sum(DECAY**n for n in range(depth))
    return STRENGTH * start * DECAY ** (np.asarray(distance) - 1.0) / np.log(10)


@pytest.mark.parametrize("text", [None, WORDS * 9])
def test_a_known_network_shows_its_exact_curve(text: str | None) -> None:
    net, theta, vocabulary = remembering()
    found = bracket_probe(net, theta, vocabulary, steps=24, trials=3, group=1, text=text)
    assert found.first.tolist() == found.last.tolist() == list(range(1, 25))
    np.testing.assert_allclose(found.opened.log_ratio, np.tile(log_ratio(found.first), (3, 1)), rtol=1e-12)
    z = np.log(10) * log_ratio(found.first)  # of both closing symbols; all other logits are 0
    np.testing.assert_allclose(found.opened.closing[1], np.exp(z) / (2 * np.exp(z) + vocabulary.size - 2), rtol=1e-12)
    np.testing.assert_allclose(found.opened.opening[2], 1 / (2 * np.exp(z) + vocabulary.size - 2), rtol=1e-12)
    np.testing.assert_array_equal(found.unopened.log_ratio, 0.0)
    np.testing.assert_allclose(found.unopened.closing, 1 / vocabulary.size, rtol=1e-12)
    assert found.remembered == 24
    assert found.above.all()


def test_a_context_of_several_symbols_is_read_whole_and_measured_by_its_first() -> None:
    told: list[tuple[int, int]] = []
    options = {"opening": "[[", "closing": "])", "steps": 25, "trials": 1, "group": 10}
    found = bracket_probe(*remembering(), **options, progress=lambda *n: told.append(n))
    assert (found.first.tolist(), found.last.tolist()) == ([1, 11, 21], [10, 20, 25])
    expected = [log_ratio(np.arange(a, b + 1), 2).mean() for a, b in zip(found.first, found.last, strict=True)]
    np.testing.assert_allclose(found.opened.log_ratio[0], expected, rtol=1e-12)  # means of logarithms
    assert (found.opening, found.closing, found.control) == ("[[", "])", "Th")
    assert (found.opening_symbol, found.closing_symbol) == ("[", "]")
    assert told == [(n, 50) for n in range(1, 51)]


def probe_of(one: Any, other: Any, paired: bool = False) -> BracketProbe:
    """A result with those log ratios (trials, groups)."""
    curves = [ProbeCurves(np.zeros_like(ratios), np.zeros_like(ratios), np.array(ratios)) for ratios in (one, other)]
    at = 10 * np.arange(len(one[0]))
    return BracketProbe("(", ")", "Th", "(", ")", at + 1, at + 10, *curves, paired)


def test_remembered_ends_before_the_first_group_not_above_twice_the_standard_error_and_a_hundredth() -> None:
    for ratios, remembered in (([1.0, 1.0, 0.0, 1.0], 20), ([1.0, 1.0], 20), ([0.0, 1.0], 0)):
        assert probe_of([ratios], [[0.0] * len(ratios)]).remembered == remembered
    net, theta, vocabulary = remembering(decay=0.0)
    found = bracket_probe(net, theta, vocabulary, steps=6, trials=2, group=2)
    assert (found.above.tolist(), found.remembered) == ([True, False, False], 2)
    net.views(theta)["output.W_y0"][:] *= -1
    assert bracket_probe(net, theta, vocabulary, steps=6, trials=2, group=2).remembered == 0
    one, other = [[1.0, 0.009], [1.4, 0.009]], [[0.7, 0.0], [1.1, 0.0]]
    mean, error = probe_of(one, other).difference
    np.testing.assert_allclose(mean, [0.3, 0.009])
    np.testing.assert_allclose(error, [(0.08 / 2 + 0.08 / 2) ** 0.5, 0.0])
    assert probe_of(one, other).above.tolist() == [False, False]
    assert probe_of(one, other, paired=True).above.tolist() == [True, False]
    assert bracket_probe(*remembering(), steps=3).paired is False
    assert bracket_probe(*remembering(), steps=3, text="abc").paired is True


def setting(arch: str = "rnn") -> tuple[Network, Any, Vocabulary]:
    """A network with random weights."""
    vocabulary = Vocabulary.build(WORDS + "()", "char")
    net = Network(arch, vocabulary.size, 4, vocabulary.size, dtype="float64")
    return net, net.init(3, scale=1.0), vocabulary


@pytest.mark.parametrize("arch", ["mlstm", "clockwork", "hornn"])
def test_the_probabilities_are_those_of_one_run_over_context_and_passage(arch: str) -> None:
    net, theta, vocabulary = setting(arch)
    text = "abc de Th" * 4
    found = bracket_probe(net, theta, vocabulary, steps=len(text), trials=1, group=1, text=text)
    begin, close = vocabulary.encode("()")
    for context, curves in (("(", found.opened), ("Th", found.unopened)):
        column = vocabulary.encode(context + text[:-1]).reshape(-1, 1)
        z = net.run(theta, hfrnn.Batch(column))[0][len(context) - 1 :, 0]
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(curves.closing[0], p[:, close], rtol=1e-10)
        np.testing.assert_allclose(curves.log_ratio[0], np.log10(p[:, close] / p[:, begin]), rtol=1e-9, atol=1e-12)


def heard(monkeypatch: pytest.MonkeyPatch, setting: Any = None, **options: Any) -> list[np.ndarray]:
    """Return all columns of symbols that a network was given, in order."""
    columns, continued = list[np.ndarray](), Network.continued

    def listening(self: Network, theta: Any, batch: hfrnn.Batch) -> Any:
        columns.append(np.array(batch.inputs))
        return continued(self, theta, batch)

    with monkeypatch.context() as patch:
        patch.setattr(Network, "continued", listening)
        bracket_probe(*(setting or remembering()), **options)
    return columns


def test_only_letters_and_spaces_follow_and_each_trial_draws_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, vocabulary = remembering()
    columns = heard(monkeypatch, steps=60, trials=4)
    assert [each.shape for each in (columns[0], columns[1], columns[60])] == [(1, 4), (1, 4), (2, 4)]
    opened, control = np.concatenate(columns[1:60]), np.concatenate(columns[61:])
    assert set(vocabulary.decode(opened.ravel())) == set(WORDS)
    rows = [*opened.T.tolist(), *control.T.tolist()]
    assert all(row not in rows[:n] for n, row in enumerate(rows))
    for seed in (0, 1):
        again = heard(monkeypatch, steps=60, trials=4, seed=seed)
        assert (np.concatenate(again[1:60]) == opened).all() == (seed == 0)
    letters = np.concatenate(heard(monkeypatch, opening="a", closing="b", steps=60, trials=4)[1:60])
    assert set(vocabulary.decode(letters.ravel())) == set(WORDS) - set("ab")  # brackets themselves do not follow


def test_draws_follow_the_softmax_of_the_allowed_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    net, theta, vocabulary = remembering()
    net.views(theta)["output.W_y0"][0, vocabulary.encode("a")] = 2.0
    drawn = heard(monkeypatch, (net, theta, vocabulary), steps=2, trials=4000, allowed="ab")[1]
    a, b = ((drawn == number).mean() for number in vocabulary.encode("ab"))
    assert a + b == 1
    assert a == pytest.approx(np.exp(2) / (np.exp(2) + 1), abs=4 * (0.25 / 4000) ** 0.5)


def test_passages_are_the_allowed_symbols_of_the_text_after_both_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, vocabulary = remembering()
    columns = heard(monkeypatch, steps=4, trials=3, text="ab(c)\n[d]e? dcb")
    np.testing.assert_array_equal(columns[1:4], columns[5:8])
    passages = [vocabulary.decode(row) for row in np.concatenate(columns[1:4]).T]
    assert passages == ["abc", "cde", " dc"]  # of "abcde dcb", at 0, 2 and 5; the last symbol is only predicted


@pytest.mark.parametrize(("level", "text", "control"), [
    ("byte", b"The (fox) \xe9", "Th"), ("word", "the ( fox ) ran", "the"),
])  # fmt: skip
def test_bytes_words_and_a_class_softmax_have_a_probe_too(level: str, text: Any, control: str) -> None:
    vocabulary, brackets = Vocabulary.build(text, level), (b"(", b")") if level == "byte" else ("(", ")")
    classes = {"loss": "class-softmax", "classes": np.arange(vocabulary.size) % 3} if level == "word" else {}
    net = Network("lstm", vocabulary.size, 3, vocabulary.size, **classes)
    found = bracket_probe(net, net.init(0), vocabulary, *brackets, steps=7, trials=2)
    assert (found.opening, found.control, found.opened.closing.shape) == ("(", control, (2, 1))
    assert ((found.opened.closing > 0) & (found.opened.closing < 1)).all()
    assert json.loads(json.dumps(found.to_json()))["opening"] == "("


def test_means_and_errors_of_json_are_those_over_the_trials_and_a_device_gives_the_same_curves() -> None:
    opened = bracket_probe(*setting(), steps=6, trials=5, group=2).opened
    np.testing.assert_allclose(opened.to_json()["closing"], opened.closing.mean(axis=0))
    np.testing.assert_allclose(opened.to_json()["log_ratio_error"], opened.log_ratio.std(axis=0, ddof=1) / 5**0.5)
    assert bracket_probe(*setting(), steps=6, trials=1).to_json()["opened"]["log_ratio_error"] == [0.0]
    net, theta, vocabulary = setting()
    fake = Network(**{**net.config, "backend": FakeBackend()})
    pairs = ((net, theta), (fake, fake.backend.asarray(theta)))
    expected, found = (bracket_probe(*pair, vocabulary, steps=8, trials=2).opened.log_ratio for pair in pairs)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("options", "message"), [
    ({"opening": "{"}, "opening is '{', and the network does not know every symbol of it"),
    ({"closing": ""}, "closing is empty"), ({"control": "The!"}, "control is 'The!'"),
    ({"opening": "(", "closing": "(("}, "opening and closing begin with the same symbol, '('"),
    ({"allowed": "ab)"}, "allowed is 'ab)', which opens or closes a bracket"),
    ({"allowed": "a?"}, "allowed is 'a?', and the network does not know"),
    ({"text": "abc " * 5, "steps": 21}, "the text has 20 symbols that may follow a bracket, and a passage has 21"),
])  # fmt: skip
def test_what_cannot_be_probed_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hfrnn.InputError, match=re.escape(message)):
        bracket_probe(*remembering(), **options)


def test_a_vocabulary_without_letters_needs_the_symbols_that_may_follow() -> None:
    net, theta, vocabulary = remembering("12()")
    with pytest.raises(hfrnn.InputError, match="no letters and no space"):
        bracket_probe(net, theta, vocabulary, control="1", steps=3)
    assert bracket_probe(net, theta, vocabulary, control="1", steps=3, allowed="12").remembered == 3
    with pytest.raises(hfrnn.NonFiniteError, match="use another checkpoint"):
        bracket_probe(net, np.full_like(theta, 1e308), vocabulary, control="1", steps=4, allowed="12")


BOOK = "The (quick) brown fox (over the) lazy dog (again). Then it ran.\n" * 40
QUICK = ("--steps", 30, "--trials", 3, "--group", 5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("probe")
    return tiny_train(folder, text=text_file(folder, BOOK), optimizer="adam").folder


def test_the_command_writes_and_prints_what_the_library_finds(run: Path, tmp_path: Path) -> None:
    before = snapshot(run)
    shown = call("probe", run, *QUICK, "--seed", 3, "--json", tmp_path / "a.json").stdout
    net, theta, vocabulary = hfrnn.load(run)
    found = bracket_probe(net, theta, vocabulary, steps=30, trials=3, group=5, seed=3)
    expected = {"network": net.describe(), "followed_by": "samples of the network", **found.to_json()}
    assert json.loads((tmp_path / "a.json").read_text()) == expected
    both = [curves.to_json() for curves in (found.opened, found.unopened)]
    row = [f"{each['closing'][0]:.3g}" for each in both] + [f"{each['log_ratio'][0]:.3f}" for each in both]
    assert shown.splitlines()[5].split() == ["1-5", *row]
    assert f"{int(found.above.sum())} of 6 groups of steps" in shown
    many = call("probe", run, "--steps", 21, "--trials", 2, "--group", 1).stdout
    assert "10 of 21 groups of steps are shown; --json has all" in many
    assert snapshot(run) == before


@pytest.mark.parametrize("given", ["valid", "file"])
def test_passages_come_from_a_part_or_a_file(run: Path, tmp_path: Path, given: str) -> None:
    part, file = given == "valid", tmp_path / "a.json"
    arguments = ("--part", "valid") if part else (text_file(tmp_path, BOOK),)
    shown = call("probe", run, *arguments, *QUICK, "--json", file).stdout
    content = run_text(RunFolder(run), "valid") if part else BOOK
    found = bracket_probe(*hfrnn.load(run), steps=30, trials=3, group=5, text=content)
    assert json.loads(file.read_text())["opened"] == found.opened.to_json()
    assert ("valid part of text.txt" if part else "text.txt") in shown


@needs_matplotlib
@pytest.mark.slow
def test_the_picture_is_drawn(run: Path, tmp_path: Path) -> None:
    from hfrnn.cli.plots import probe_picture

    call("probe", run, *QUICK, "--plot", tmp_path / "probe.PNG")
    assert (tmp_path / "probe.PNG").read_bytes().startswith(b"\x89PNG")
    call("probe", run, *QUICK, "--plot", tmp_path / "probe.svg")
    content = (tmp_path / "probe.svg").read_text()
    assert all(words in content for words in ("<?xml", "after (", "after Th", "distance"))
    vocabulary, net = Vocabulary.build("$_^ab", "char"), Network("rnn", 5, 2, 5)  # symbols of formulas
    found = bracket_probe(net, net.init(0), vocabulary, "$", "^", control="_", steps=4)
    assert len(probe_picture(found, "svg", "a$_b")) > 1000


@pytest.mark.parametrize(("options", "message"), [
    (("--open", "{"), "--open is '{'"), (("--part", "test"), "has no test part"),
    (("--part", "valid", "text.txt"), "either a FILE or --part"), (("--plot", "x.jpeg"), "a file that ends in .svg,"),
    (("--force",), "--force was given, and it is for --json or --plot"), (("--json", "no/x"), "there is no folder no"),
    (("--json", "x.svg", "--plot", "./X.svg"), "--json and --plot are both x.svg: give two files"),
])  # fmt: skip
def test_the_command_refuses_what_does_not_fit(run: Path, options: tuple[object, ...], message: str) -> None:
    assert message in refused("probe", run, *options)


def test_what_is_missing_is_named_before_the_work(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"data": "addition", "length": 21, "arch": "rnn", "sequences": 20, "optimizer": "adam"}
    assert "was not trained on a text" in refused("probe", tiny_train(tmp_path, "task", text=None, **options).folder)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("hfrnn.analysis.probe.bracket_probe", None)
    assert "pip install '.[plot]'" in refused("probe", run, "--plot", "x.svg")
