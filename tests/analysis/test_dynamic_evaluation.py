"""Dynamic evaluation: an independent slow reference, no look at what is still to come, nothing learned for good."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import call
from support.fake_device import FakeBackend
from support.tiny_runs import TEXT as RUN_TEXT
from support.tiny_runs import snapshot, text_file, tiny_train

import hfrnn
from hfrnn.analysis.dynamic_evaluation import Dynamic, Learner, mean_square_gradient
from hfrnn.analysis.evaluation import evaluate
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.batch import Batch
from hfrnn.engine.constraints import ABSENT
from hfrnn.engine.network import Network
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import run_text

TEXT = "the cat sat on the mat, and the rat sat on the cat; the mat sat.\n" * 2
WORDS = "a cat sat on a mat\na dog sat on a cat\nthe mat sat on the dog and the cat sat\n"
SEGMENT = 7

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "char": ("char", {"arch": "mlstm", "hidden": (5, 4)}),
    "byte": ("byte", {"arch": "gru", "hidden": 5}),
    "word": ("word", {"arch": "rnn", "hidden": 5, "embedding": 3}),
    "class softmax": ("word", {"arch": "scrn", "hidden": 4, "context": 3, "loss": "class-softmax", "classes": 3}),
    "clockwork": ("char", {"arch": "clockwork", "hidden": 6, "periods": (1, 2, 4)}),
    "hornn": ("char", {"arch": "hornn-gated", "hidden": 4, "order": 3}),
}
every_case = pytest.mark.parametrize("case", CASES)
both_rules = pytest.mark.parametrize("rule", ["sgd", "rms"])


def setting(case: str = "char", **changes: Any) -> tuple[Network, Any, Vocabulary, Any]:
    """A network with random weights, its symbols, and a text."""
    level, options = CASES[case]
    text: Any = {"char": TEXT, "byte": TEXT.encode(), "word": WORDS}[level]
    vocabulary = Vocabulary.build(text, level)
    size = {"n_in": vocabulary.size, "n_out": vocabulary.size}
    net = Network(**{**size, "dtype": "float64", **options, **changes})
    return net, net.init(seed=5, scale=0.5), vocabulary, text


def rms_of(net: Network, rule: str = "rms") -> Any:
    """Mean squares over many orders of magnitude, some of them 0; for another rule None."""
    squares = 10.0 ** np.random.default_rng(0).uniform(-8, -2, net.n_parameters)
    squares[::11] = 0
    return squares if rule == "rms" else None


def slow(net: Network, theta: np.ndarray, symbols: np.ndarray, dynamic: Dynamic) -> np.ndarray:
    """The surprisals in nats: one symbol at a time, and D1 to D3 as they stand in the papers, without an offset."""
    trained, theta, state, nats = theta, theta.copy(), None, []
    for start in range(0, symbols.size - 1, dynamic.stretch):
        stop = min(start + dynamic.stretch, symbols.size - 1)
        before = state
        for t in range(start, stop):
            z, state = net.run(theta, Batch(symbols[t : t + 1, None], initial_state=state))
            p = np.exp(z[0, 0] - z.max())
            nats.append(-math.log(p[symbols[t + 1]] / p.sum()))
        segment = Batch(symbols[start:stop, None], symbols[start + 1 : stop + 1, None], initial_state=before)
        _, g = net.loss_and_gradient(theta, segment)
        g *= min(1, 10 / np.linalg.norm(g))
        if dynamic.mean_square is None:
            theta = theta - dynamic.learning_rate * g + dynamic.decay * (trained - theta)
        else:
            r = np.sqrt(dynamic.mean_square)
            authors_rate, epsilon = dynamic.learning_rate * np.mean(r), 0.1 * np.mean(r)
            pull = np.clip(dynamic.decay * r / np.mean(r), None, 1)
            theta = theta - authors_rate * g / (r + epsilon) + pull * (trained - theta)
    return np.array(nats)


def check_slow_loop(net: Network, theta: Any, vocabulary: Any, text: Any, how: Dynamic, rtol: float = 1e-12) -> Any:
    """Check the surprisals and return them."""
    found = evaluate(net, theta, vocabulary, text, dynamic=how).surprisals
    np.testing.assert_allclose(found, slow(net, theta, vocabulary.encode(text), how), rtol=rtol)
    return found


@both_rules
@every_case
def test_every_surprisal_is_that_of_a_slow_loop(case: str, rule: str) -> None:
    net, theta, vocabulary, text = setting(case)
    how = Dynamic(0.3, SEGMENT, 0.1) if rule == "sgd" else Dynamic(0.1, SEGMENT, 0.2, rms_of(net))
    found = check_slow_loop(net, theta, vocabulary, text, how)
    assert np.abs(found - evaluate(net, theta, vocabulary, text).surprisals)[SEGMENT:].max() > 0.01


@pytest.mark.parametrize("stretch", [1, 64, len(TEXT) - 2, len(TEXT) - 1, len(TEXT) + 5])
def test_segments_of_every_length_agree_with_the_slow_loop(stretch: int) -> None:
    check_slow_loop(*setting(), Dynamic(0.2, stretch))


@both_rules
def test_a_gradient_that_explodes_is_shortened(rule: str) -> None:
    net, theta, vocabulary, text = setting()
    theta, symbols = 6 * theta, vocabulary.encode(text[:60])
    segments = [Batch(symbols[n : n + 2, None], symbols[n + 1 : n + 3, None]) for n in range(0, 56, 2)]
    lengths = [np.linalg.norm(net.loss_and_gradient(theta, segment)[1]) for segment in segments]
    assert min(lengths) < 5 < 15 < max(lengths)
    check_slow_loop(net, theta, vocabulary, text[:60], Dynamic(0.01, 2, 0.0, rms_of(net, rule)), rtol=1e-9)


@every_case
def test_with_a_learning_rate_of_zero_it_is_static_to_the_bit(case: str) -> None:
    for rule, dtype in (("sgd", "float32"), ("rms", "float64")):
        net, theta, vocabulary, text = setting(case, dtype=dtype)
        how = Dynamic(0.0, SEGMENT, 0.3, rms_of(net, rule))
        found = evaluate(net, theta, vocabulary, text, dynamic=how)
        static = evaluate(net, theta, vocabulary, text, chunk=SEGMENT)
        assert found == static
        assert found.surprisals.tobytes() == static.surprisals.tobytes()


@both_rules
def test_no_score_depends_on_later_text(rule: str) -> None:
    net, theta, vocabulary, text = setting()
    how = Dynamic(0.3, SEGMENT, 0.01, rms_of(net, rule))
    symbols = evaluate(net, theta, vocabulary, text[:40], dynamic=how).surprisals
    for end in (1, 20, 21, 22):
        other = text[: end + 1] + text[end + 1 : 40][::-1]
        changed = evaluate(net, theta, vocabulary, other, dynamic=how).surprisals
        assert changed[:end].tobytes() == symbols[:end].tobytes()
        assert (changed[end:] != symbols[end:]).any()


def test_the_weights_and_the_penalty_on_them_stay_out_of_it() -> None:
    net, theta, vocabulary, text = setting()
    heavy, before = Network(**{**net.config, "l2": 3.0}), theta.copy()
    found = [evaluate(each, theta, vocabulary, text, dynamic=Dynamic(0.3, SEGMENT)) for each in (net, heavy)]
    assert found[0] == found[1]
    assert heavy.l2 == 3.0
    assert theta.tobytes() == before.tobytes()
    squares = [mean_square_gradient(each, theta, vocabulary.encode(text), SEGMENT) for each in (net, heavy)]
    assert squares[0].tobytes() == squares[1].tobytes()


def test_progress_counts_segments_and_the_symbols_of_statistics() -> None:
    net, theta, vocabulary, _ = setting()
    seen: list[tuple[int, int]] = []
    evaluate(net, theta, vocabulary, TEXT[:19], progress=lambda *n: seen.append(n), dynamic=Dynamic(0.1, SEGMENT))
    assert seen == [(7, 18), (14, 18), (18, 18)]
    seen.clear()
    mean_square_gradient(net, theta, vocabulary.encode(TEXT), 2, 130, lambda *n: seen.append(n))
    assert seen == [(64, 128), (128, 128)]


@both_rules
def test_it_has_the_bits_of_numpy_on_a_device(rule: str) -> None:
    net, theta, vocabulary, text = setting()
    fake = Network(**{**net.config, "backend": FakeBackend()})
    how, symbols, found = Dynamic(0.1, SEGMENT, 0.1, rms_of(net, rule)), vocabulary.encode(text[:50]), []
    for each, t in ((net, theta), (fake, fake.init(5, scale=0.5))):
        squares = mean_square_gradient(each, t, symbols, 3).tobytes()
        found.append((evaluate(each, t, vocabulary, text[:50], dynamic=how).surprisals.tobytes(), squares))
    assert found[0] == found[1]


@pytest.mark.parametrize(("case", "stretch", "most"), [
    ("char", 1, 10**6), ("char", 3, 40), ("char", 129, 10**6), ("clockwork", 3, 10**6), ("clockwork", 2, 1),
])  # fmt: skip
def test_mean_squares_are_those_of_a_slow_loop(case: str, stretch: int, most: int) -> None:
    net, theta, vocabulary, text = setting(case)
    symbols = vocabulary.encode(text)
    count = min(32, (symbols.size - 1) // stretch)
    length = (symbols.size - 1) // count
    rows = np.stack([symbols[b * length : (b + 1) * length + 1] for b in range(count)], axis=1)
    state, squares = None, []
    for start in range(0, length - stretch + 1, stretch):
        stop = start + stretch
        batch = Batch(rows[start:stop], rows[start + 1 : stop + 1], initial_state=state)
        squares.append(net.loss_and_gradient(theta, batch)[1] ** 2)
        _, state = net.run(theta, batch)
        if (stop + stretch) * count > most:
            break
    found = mean_square_gradient(net, theta, symbols, stretch, most)
    np.testing.assert_allclose(found, np.mean(squares, axis=0), rtol=1e-10)
    assert found.dtype == np.float64
    assert most > 1 or len(squares) == 1


def test_wrong_mean_squares_too_short_texts_and_weights_that_run_away_are_refused() -> None:
    net, theta, vocabulary, text = setting()
    for wrong in (np.ones(3), np.zeros(net.n_parameters)):
        with pytest.raises(InputError, match="mean_square"):
            evaluate(net, theta, vocabulary, text, dynamic=Dynamic(mean_square=wrong))
    for stretch, size in ((10, 10), (1, 1), (1, 0)):  # statistics need a text longer than a segment
        with pytest.raises(InputError, match="statistics"):
            mean_square_gradient(net, theta, vocabulary.encode(text)[:size], stretch)
    net, theta, vocabulary, text = setting(dtype="float32")
    with pytest.raises(NonFiniteError, match="no longer finite"):
        evaluate(net, theta, vocabulary, text, dynamic=Dynamic(1e40, SEGMENT))
    with pytest.raises(NonFiniteError, match="use another checkpoint"):
        evaluate(net, np.full_like(theta, 3e38), vocabulary, text)
    with pytest.raises(NonFiniteError, match="training gradient"):
        mean_square_gradient(net, np.full_like(theta, 3e38), vocabulary.encode(text), SEGMENT)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_train(tmp_path_factory.mktemp("dynamic"), optimizer="adam").folder


def test_the_command_shows_both_and_leaves_the_run_alone(run: Path) -> None:
    before, options = snapshot(run), ("evaluate", run, "--dynamic", "sgd", "--learning-rate", 0.5)
    net, theta, vocabulary = hfrnn.load(run)
    valid = run_text(RunFolder(run), "valid")
    dynamic = hfrnn.evaluate(net, theta, vocabulary, valid, dynamic=hfrnn.Dynamic(0.5))
    static = hfrnn.evaluate(net, theta, vocabulary, valid)
    how = {"dynamic": "sgd", "stretch": 20, "learning_rate": 0.5, "decay": 0.0}
    expected = {**dynamic.to_json(), **how, "static": static.to_json()}
    assert json.loads(call(*options, "--json").stdout) == expected
    shown = call(*options).stdout.splitlines()[3].split()
    assert shown[-2:] == [f"{static.bits_per_symbol:.4f}", f"{dynamic.bits_per_symbol:.4f}"]
    assert snapshot(run) == before


def test_rms_takes_its_statistics_from_the_training_part(run: Path, tmp_path: Path) -> None:
    text = text_file(tmp_path, RUN_TEXT[:100])
    options = ("--dynamic", "rms", "--stretch", 6, "--decay", 0.01, "--positions", 3)
    found = json.loads(call("evaluate", run, text, *options, "--json").stdout)
    net, theta, vocabulary = hfrnn.load(run)
    squares = mean_square_gradient(net, theta, vocabulary.encode(run_text(RunFolder(run), "train")), 6)
    same = hfrnn.evaluate(net, theta, vocabulary, RUN_TEXT[:100], dynamic=Dynamic(None, 6, 0.01, squares))
    assert found["nats"] == same.nats
    assert found["learning_rate"] == 0.1
    assert [part["bits"] for part in found["positions"]] == [bits for *_, bits in same.positions(3)]
    assert [part["first"] for part in found["static"]["positions"]] == [1, 34, 67]
    bits = [f"{each['positions'][2]['bits']:.4f}" for each in (found["static"], found)]
    assert call("evaluate", run, text, *options).stdout.split()[-5:] == ["67", "to", "99", *bits]


@pytest.mark.parametrize(("options", "message"), [
    *(((name, 0), f"{name} was given, and it is for --dynamic") for name in ("--stretch", "--decay")),
    (("--dynamic", "smg"), "Did you mean 'sgd'?"), (("--dynamic", "rms", "--stretch", 10**6), "shorter than the text"),
])  # fmt: skip
def test_the_command_refuses_what_does_nothing_or_does_not_fit(run: Path, options, message: str) -> None:
    assert message in " ".join(call("evaluate", run, *options, code=2).output.split())


def test_rms_needs_the_data_of_the_run(tmp_path: Path) -> None:
    folder = tiny_train(tmp_path, optimizer="adam").folder
    other = text_file(tmp_path, RUN_TEXT[:100], "other.txt")
    (tmp_path / "text.txt").unlink()
    output = call("evaluate", folder, other, "--dynamic", "rms", code=2).output
    assert f"--dynamic rms needs the training part: the data of {folder} is not as it was" in output
    call("evaluate", folder, other, "--dynamic", "sgd")


SMALL: dict[str, Any] = {"arch": "rnn", "n_in": 9, "hidden": 5, "n_out": 9, "dtype": "float64"}


@both_rules
def test_a_learning_network_keeps_its_constraints(rule: str) -> None:
    net = Network(**SMALL)
    theta = net.init(seed=5, scale=0.5)
    W = net.views(theta)["layer0.W_h"]  # half of them are absent, and the others keep their signs
    there = np.random.default_rng(3).random(W.shape) < 0.5
    constraints = hfrnn.Constraints(net, {"layer0.W_h": there}, {"layer0.W_h": np.sign(W)})
    theta, exists = constraints.nearest(theta), constraints.codes != ABSENT
    squares = 10.0 ** np.random.default_rng(0).uniform(-8, -2, net.n_parameters) if rule == "rms" else None
    how = Dynamic(0.5, SEGMENT, 0.1, squares, constraints)
    learner, now, expected, flipped = Learner(net, theta, how), theta, theta, 0
    symbols = np.random.default_rng(0).integers(net.n_in, size=200)
    for start in range(0, 180, SEGMENT):
        segment = Batch(symbols[start : start + SEGMENT, None], symbols[start + 1 : start + SEGMENT + 1, None])
        g = net.loss_and_gradient(expected, segment)[1] * exists
        g *= min(1, 10 / np.linalg.norm(g))
        s = np.ones(net.n_parameters)
        p, d = 0.5 * s, 0.1 * s
        if squares is not None:
            s = np.sqrt(squares) / np.sqrt(squares)[exists].mean()
            p, d = 0.5 / (s + 0.1), np.minimum(0.1 * s, 1)
        free = theta + (1 - d) * (expected - theta) - p * g
        expected = np.where(constraints.signs * free < 0, 0, free) * exists
        flipped += int((expected != free).sum())
        now = learner.learn(now, segment)
        np.testing.assert_allclose(now, expected, rtol=1e-10, atol=1e-12)
        assert constraints.allows(now)
    assert flipped > 0


def test_constraints_of_another_network_and_mean_squares_of_absent_weights_alone_are_refused() -> None:
    net = Network(**SMALL)
    with pytest.raises(InputError, match=r"constraints is for \d+ weights: this network has \d+"):
        Dynamic(constraints=hfrnn.Constraints(hfrnn.Network(**SMALL | {"n_in": 7}))).factors(net)
    constraints = hfrnn.Constraints(net, {"layer0.W_h": np.zeros((5, 5))})
    squares = np.where(constraints.codes == ABSENT, 1.0, 0.0)
    with pytest.raises(InputError, match="mean_square holds no mean squares"):
        Dynamic(mean_square=squares, constraints=constraints).factors(net)


def test_the_command_keeps_the_constraints_of_the_run(tmp_path: Path) -> None:
    run = tiny_train(tmp_path, density=0.3, optimizer="adam").folder
    net, theta, vocabulary = hfrnn.load(run)[:3]
    constraints = hfrnn.Constraints(net, {name: W != 0 for name, W in net.views(theta).items() if ".W_h" in name})
    assert (constraints.codes == ABSENT).any()
    train, text = run_text(RunFolder(run), "train"), run_text(RunFolder(run), "valid")
    for rule, squares in (("sgd", None), ("rms", mean_square_gradient(net, theta, vocabulary.encode(train)))):
        found = json.loads(call("evaluate", run, "--dynamic", rule, "--learning-rate", "2", "--json").stdout)
        for each, same in ((constraints, True), (None, False)):
            mine = evaluate(net, theta, vocabulary, text, dynamic=Dynamic(2.0, mean_square=squares, constraints=each))
            assert (found["nats_per_symbol"] == mine.nats_per_symbol) == same
