"""The numbers of trained weights that the papers' tables imply."""

from typing import Any

import pytest

import hfrnn

CHARACTERS = [  # arch, hidden, V, weights ([K] tables 4.5, 5.1, 5.2)
    ("rnn", 400, 70, 216_400),
    ("mrnn", 280, 70, 215_880),
    ("lstm-krause", 195, 70, 220_350),
    ("mrnn", (150, 130, 110), 70, 219_090),
    ("mlstm", 170, 70, 215_900),
    ("mlstm", 300, 85, 603_000),
    ("mlstm", 800, 85, 3_608_000),
    ("mlstm", 2000, 99, 21_188_000),
]
# [S] on PTB: embedding 400, H = 400, V = 10,000, no biases; hornn of order 3
WORDS = [("rnn", 8_320_000), ("hornn", 8_640_000), ("lstm", 9_280_000), ("hornn-gated", 9_600_000)]


def network(**arguments: Any) -> hfrnn.Network:
    return hfrnn.Network(loss="softmax", **arguments)


@pytest.mark.parametrize(("arch", "hidden", "V", "weights"), CHARACTERS)
def test_character_models_have_the_weights_of_the_table(arch, hidden, V, weights):
    assert network(arch=arch, n_in=V, hidden=hidden, n_out=V).n_parameters == weights


@pytest.mark.parametrize(("arch", "weights"), WORDS)
def test_word_models_without_biases_have_the_weights_of_the_table(arch, weights):
    net = network(arch=arch, n_in=10_000, hidden=400, n_out=10_000, embedding=400, bias=False, output_bias=False)
    assert net.n_parameters == weights
