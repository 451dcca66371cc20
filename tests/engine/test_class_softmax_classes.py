"""The classes of a class softmax: their parameters, their choice, wrong classes, and runs with classes."""

import json
import re

import numpy as np
import pytest
from support.class_softmax_cases import network, problem
from support.engine_cases import CLASSES
from support.tiny_runs import TEXT, tiny_train

import hfrnn
from hfrnn.analysis.evaluation import evaluate
from hfrnn.data.vocabulary import frequency_classes
from hfrnn.engine.heads.class_softmax import classes_of_symbols
from hfrnn.engine.sampling import sample


def test_parameters_are_a_matrix_a_layer_and_a_bias_of_symbols_and_of_classes():
    shapes = {b.name: b.shape for b in network().parameters.blocks if b.name.startswith("output.")}
    assert shapes == {
        "output.W_y0": (4, 6), "output.W_y1": (3, 6), "output.W_class0": (4, 3), "output.W_class1": (3, 3),
        "output.b_y": (6,), "output.b_class": (3,),
    }  # fmt: skip
    assert not any(".b_" in b.name for b in network(output_bias=False).parameters.blocks)


def test_a_number_of_classes_cuts_the_symbols_in_order_into_nearly_equal_parts():
    assert classes_of_symbols(7, 3) == (0, 0, 0, 1, 1, 2, 2)
    assert classes_of_symbols(4, 4) == (0, 1, 2, 3)
    for count in range(1, 31):
        sizes = np.bincount(classes_of_symbols(30, count))
        assert sizes.size == count
        assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("classes", [3, np.array(CLASSES)])
def test_the_configuration_goes_through_json(classes):
    net = network(classes)
    again = hfrnn.Network(**json.loads(json.dumps(net.config)))
    batch, theta, _ = problem(net)
    assert again.config == net.config
    assert again.loss(theta, batch) == net.loss(theta, batch)


REFUSED = {
    "none": (None, "classes is None: the loss 'class-softmax' needs a number of classes, or the class of each symbol"),
    "more classes than symbols": (7, "classes is 7: with n_out = 6 give 1 to 6 classes"),
    "a Boolean": (True, "classes is True: the loss 'class-softmax' needs a number of classes"),
    "an empty class": ([0, 0, 2, 2, 2, 2], "are 2 different numbers from 0 to 2: number them from 0 up and leave none"),
    "a negative class": ([-1, 0, 0, 1, 1, 1], "are 3 different numbers from -1 to 1: number them from 0 up"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_classes_that_do_not_fit_are_refused(what):
    classes, message = REFUSED[what]
    with pytest.raises(hfrnn.InputError, match=re.escape(message)):
        network(classes)


def test_classes_for_another_loss_are_refused():
    with pytest.raises(hfrnn.InputError, match="classes were given with the loss 'softmax': leave them out, or use"):
        hfrnn.Network("rnn", 5, 4, 6, classes=3)


@pytest.mark.parametrize("n_classes", [1, 7])
def test_classes_by_frequency_have_about_equal_shares(n_classes):
    assert frequency_classes([1, 4, 2, 1], 2).tolist() == [1, 0, 1, 1]
    assert frequency_classes([3, 3, 3, 3], 2).tolist() == [0, 0, 1, 1]
    counts = 10**9 // np.arange(1, 5001)
    classes = frequency_classes(counts[::-1], n_classes)[::-1]
    assert (np.diff(classes) >= 0).all()
    so_far = np.cumsum(counts)
    for c in range(n_classes - 1):
        members = np.flatnonzero(classes == c)
        assert so_far[members[-1]] >= (c + 1) / n_classes * counts.sum()
        assert members.size == 1 or so_far[members[-2]] < (c + 1) / n_classes * counts.sum()


@pytest.mark.parametrize("counts", [[10**6, 1, 1, 1, 1], [0, 0, 0, 0, 0], [2**62, 2**61, 7, 0, 0]])
@pytest.mark.parametrize("n_classes", [1, 3, 5])
def test_classes_by_frequency_are_never_empty(counts, n_classes):
    classes = frequency_classes(counts, n_classes)
    assert np.unique(classes).tolist() == list(range(n_classes))
    order = np.argsort(-np.array(counts), kind="stable")
    assert (np.diff(classes[order]) >= 0).all()


@pytest.mark.parametrize("wrong", [([1, 2], 3), ([1, -2], 1), ([[1, 2]], 1)])
def test_wrong_counts_and_numbers_of_classes_are_refused(wrong):
    with pytest.raises(hfrnn.InputError, match=r"classes were asked for: with|must be a row of whole numbers"):
        frequency_classes(*wrong)


def test_a_run_with_classes_resumes_loads_evaluates_and_samples(tmp_path):
    result = tiny_train(tmp_path, arch="rnn", classes=4, updates=1)
    result = hfrnn.train(resume=result.folder, updates=2)
    net, theta, vocabulary = hfrnn.load(result.folder)
    symbols = vocabulary.encode(TEXT[: int(0.9 * len(TEXT))])
    expected = frequency_classes(np.bincount(symbols, minlength=vocabulary.size), 4)
    assert net.loss_name == "class-softmax"
    assert net.config == result.net.config
    assert net.config["classes"] == expected.tolist()
    assert net.config["classes"] != sorted(net.config["classes"])
    (drawn,) = sample(net, theta, vocabulary.encode("The "), 1)
    assert drawn.probabilities.sum() == pytest.approx(1, rel=1e-12)
    found = evaluate(net, theta, vocabulary, TEXT)
    symbols = vocabulary.encode(TEXT).reshape(-1, 1)
    logits, _ = net.run(theta, hfrnn.Batch(symbols[:-1]))
    nats = -np.take_along_axis(logits[:, 0].astype(float), symbols[1:], axis=1).sum()
    assert found.nats == pytest.approx(nats, rel=1e-5)
