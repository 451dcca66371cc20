"""Drawing: exact probabilities with the state carried, restricted as asked, the same for the same seed."""

from typing import Any

import numpy as np
import pytest

from hfrnn.data.vocabulary import Vocabulary
from hfrnn.engine.batch import Batch
from hfrnn.engine.network import Network
from hfrnn.engine.sampling import Drawn, beginning, sample
from hfrnn.errors import InputError, NonFiniteError

V = 7
PRIME = np.array([3, 1, 4, 1, 5], np.int32)


@pytest.fixture(scope="module", params=["mlstm", "clockwork"])
def trained(request):
    net = Network(request.param, V, (5, 4), V, dtype="float64")
    return net, net.init(2, scale=1.0)


def draw(trained: tuple[Network, Any], length: int = 40, **options: Any) -> list[Drawn]:
    return list(sample(*trained, PRIME, length, **options))


def symbols(drawn: list[Drawn]) -> list[int]:
    return [step.symbol for step in drawn]


def probabilities(trained: tuple[Network, Any], text: list[int]) -> np.ndarray:
    """Of every symbol at every step, by one run over the whole text."""
    net, theta = trained
    logits, _ = net.run(theta, Batch(np.array(text, np.int32).reshape(-1, 1)))
    e = np.exp(logits[:, 0])
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.3}, {"top_k": 2}, {"allowed": [0, 6]}, {"temperature": 0}])
def test_the_probabilities_are_the_network_s_own(trained, options):
    drawn = draw(trained, **options)
    whole = probabilities(trained, [*PRIME, *symbols(drawn)])
    given = np.array([step.probabilities for step in drawn])
    np.testing.assert_allclose(given, whole[len(PRIME) - 1 : -1], rtol=1e-12)


def test_the_same_seed_draws_the_same_symbols(trained):
    assert symbols(draw(trained, seed=5)) == symbols(draw(trained, seed=5))
    assert symbols(draw(trained, seed=5)) != symbols(draw(trained, seed=6))


def test_temperature_zero_takes_the_likeliest(trained):
    drawn = draw(trained, temperature=0.0)
    assert symbols(drawn) == [int(np.argmax(step.probabilities)) for step in drawn]
    assert symbols(drawn) == symbols(draw(trained, temperature=1e-300)) == symbols(draw(trained, top_k=1))


def test_only_the_likeliest_k_are_drawn(trained):
    ranks = [int((step.probabilities > step.probabilities[step.symbol]).sum()) for step in draw(trained, 200, top_k=3)]
    assert set(ranks) == {0, 1, 2}


def test_only_allowed_symbols_are_drawn_and_top_k_is_among_them(trained):
    assert set(symbols(draw(trained, 100, allowed=[2, 5]))) == {2, 5}
    for step in draw(trained, allowed=[6, 0, 2], top_k=1):
        assert step.symbol == max((6, 0, 2), key=lambda i: step.probabilities[i])


@pytest.mark.parametrize(("options", "exponent", "kept"), [
    ({}, 1.0, range(V)), pytest.param({"temperature": 2.0}, 0.5, range(V), marks=pytest.mark.slow),
    pytest.param({"allowed": [1, 4]}, 1.0, [1, 4], marks=pytest.mark.slow),
], ids=["plain", "temperature", "allowed"])  # fmt: skip
def test_frequencies_follow_the_probabilities(options, exponent, kept):
    net = Network("rnn", V, 3, V, dtype="float64", output_bias=True)
    theta = net.init(0, scale=1e-9)
    net.views(theta)["output.b_y"][:] = np.linspace(-1.5, 1.5, V)  # the same distribution at every step
    drawn = draw((net, theta), 4000, **options)
    expected = np.zeros(V)
    expected[list(kept)] = drawn[0].probabilities[list(kept)] ** exponent
    counts = np.bincount(symbols(drawn), minlength=V) / 4000
    np.testing.assert_allclose(counts, expected / expected.sum(), atol=0.03)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"allowed": []}, "allow"), ({"allowed": [V]}, "allowed"), ({"prime": np.zeros(0, np.int32)}, "empty"),
        ({"prime": np.array([V])}, f"{V}"),
    ],
)  # fmt: skip
def test_symbols_that_cannot_be_are_refused(options, word):
    net = Network("rnn", V, 3, V)
    assert not list(sample(net, net.init(0), PRIME, 0))
    with pytest.raises(InputError, match=word):
        list(sample(net, net.init(0), **{"prime": PRIME, "length": 3, **options}))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_allowed_symbols_without_probability_are_refused(temperature):
    """The class softmax gives symbol 1 the log-probability minus infinity, and the others finite ones."""
    net = Network("rnn", 4, 3, 4, "class-softmax", classes=2)
    theta = np.zeros(net.n_parameters, net.dtype)
    net.views(theta)["layer0.b"][:] = 5.0
    net.views(theta)["output.W_y0"][:, :2] = [1e38, -1e38]
    with np.errstate(over="ignore"):
        logits, _ = net.run(theta, Batch(np.zeros((1, 1), np.int32)))
    assert np.isneginf(logits[0, 0]).tolist() == [False, True, False, False]
    with pytest.raises(NonFiniteError, match="every allowed symbol the probability 0"):
        list(sample(net, theta, PRIME[1:2], 1, temperature, allowed=[1]))


def test_a_sample_begins_after_a_newline_where_there_is_one():
    assert beginning(Vocabulary.build("a\nb\t", "char")).tolist() == [1]
    assert beginning(Vocabulary.build(b"a\nb\t", "byte")).tolist() == [1]
    assert beginning(Vocabulary.build("ba", "char")).tolist() == [0]


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_a_network_that_does_not_predict_its_input_symbols_has_nothing_to_sample(loss):
    net = Network("rnn", V, 3, V + 1 if loss == "softmax" else V, loss=loss)
    with pytest.raises(InputError, match=f"^net was not trained on a text: its n_in is 7, .* its loss '{loss}'"):
        sample(net, net.init(0), PRIME, 3)
