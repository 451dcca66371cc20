"""Sequences of unequal lengths: stored without padding, given as lists of arrays, and drawn so that they meet."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_files import load, npz

from hfrnn.data import array_files
from hfrnn.data.array_data import Files, from_memory, load_files
from hfrnn.data.music import KEYS, music_batch
from hfrnn.data.sampler import SequenceSampler
from hfrnn.errors import InputError

RNG = np.random.default_rng(2)
LENGTHS = [9, 3, 14, 1, 6, 14, 2]
WHOLE = (1.0, 0.0, 0.0)
X = [RNG.normal(size=(T, 2)) for T in LENGTHS]
Y = [RNG.normal(size=(T, 3)) for T in LENGTHS]
MASK = [RNG.integers(0, 2, size=(T, 3)) | (np.arange(T) == 0)[:, None] for T in LENGTHS]


def padded(arrays: list[Any], **how: Any) -> Any:
    """Pad arrays to one length and stack them."""
    longest = max(map(len, arrays))
    pads = [((0, longest - len(each)), *[(0, 0)] * (each.ndim - 1)) for each in arrays]
    return np.stack([np.pad(each, pad, **how) for each, pad in zip(arrays, pads, strict=True)])


CLASSES = [np.arange(T) % 4 for T in LENGTHS]
LAST = RNG.normal(size=(len(LENGTHS), 3))


@pytest.mark.parametrize(
    ("x", "more"),
    [
        (X, {"y": Y}),
        (X, {"y": Y, "mask": MASK}),
        (X, {"y": Y, "mask": [each[:, 0] for each in MASK]}),
        (X, {"y": [each[:, 0] for each in Y]}),
        (X, {"y": CLASSES}),
        (X, {"y": LAST}),
        (CLASSES, {"y": LAST[:, 0]}),
    ],
)
def test_a_list_of_arrays_is_the_padded_array_with_lengths(x: Any, more: dict[str, Any]) -> None:
    one = from_memory({"x": x, **more}, fractions=(0.5, 0.3, 0.2))
    given = {name: padded(each) if isinstance(each, list) else each for name, each in more.items()}
    if given["y"].ndim == 2 and given["y"].dtype.kind == "f" and isinstance(more["y"], list):
        given["y"] = given["y"][:, :, None]
    other = from_memory({"x": padded(x), "lengths": LENGTHS_ARRAY, **given}, fractions=(0.5, 0.3, 0.2))
    assert (one.loss, list(one.parts)) == (other.loss, list(other.parts))
    for part in one.parts:
        for a, b in zip(one.parts[part], other.parts[part], strict=True):
            np.testing.assert_array_equal(a, b)


LENGTHS_ARRAY = np.array(LENGTHS)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": X, "y": Y, "lengths": LENGTHS_ARRAY}, "x of data is a list .* leave lengths out"),
        ({"x": X, "y": padded(Y)}, "y of data is one array, and x is a list of arrays .* or one target for each"),
        ({"x": padded(X), "y": Y}, "y of data is a list of arrays of unequal shapes, and x is one array"),
        ({"x": X, "y": Y[:-1]}, "y of data is a list of 6 arrays, and there are 7 sequences: give as many"),
        ({"x": X, "y": [*Y[:-1], Y[0]]}, r"y of data has 9 steps for sequence 6 \(counted from 0\), and its inputs"),
        ({"x": [*X[:-1], X[-1][:, :1]], "y": Y}, r"holds an array of shape \(2, 1\) .* for sequence 6"),
        ({"x": X, "y": Y, "mask": padded(MASK)}, "mask of data is one array, and x is a list"),
        ({"x": X, "y": LAST, "mask": MASK}, "leave the mask out"),
        ({"x": [*X[:-1], X[-1] * np.nan], "y": Y}, r"x holds NaN at step 0 of sequence 6, entry 0 \(counted from 0\)"),
    ],
)
def test_lists_that_do_not_fit_are_refused(arrays: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_memory(arrays, fractions=WHOLE)


def test_a_few_sequences_are_padded_to_the_longest_of_them() -> None:
    pool = from_memory({"x": X, "y": Y}, fractions=WHOLE).train
    inputs, targets, weights, lengths = pool.select(np.array([3, 1]))
    assert (inputs.shape, targets.shape, lengths.tolist()) == ((3, 2, 2), (3, 2, 3), [1, 3])
    np.testing.assert_array_equal(inputs[:, 1], X[1])
    np.testing.assert_array_equal(weights, [[1, 1], [0, 1], [0, 1]])
    assert not inputs[1:, 0].any()
    assert pool.total_weight(np.array([3, 1])) == 4


def skewed() -> np.ndarray[Any, Any]:
    """Return 1,034 lengths, one of which is long."""
    lengths = np.random.default_rng(0).integers(20, 80, 1034)
    lengths[17] = 6146
    return lengths


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_a_skewed_collection_takes_little_more_memory_than_its_steps(kind: str) -> None:
    lengths = skewed()
    x = [np.ones((T, 20), kind) for T in lengths]
    y = [np.full((T, 10), np.arange(10), kind) for T in lengths]
    size = sum(each.nbytes for each in (*x, *y))
    tracemalloc.start()
    data = from_memory({"x": x, "y": y})
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.train.sequences == 931
    assert held <= 1.3 * size
    assert peak <= 1.3 * size


def test_music_takes_little_more_memory_than_its_steps() -> None:
    pieces = [np.ones((T, KEYS), np.float32) for T in skewed()]
    size = 2 * sum(each.nbytes for each in pieces)  # inputs and targets
    tracemalloc.start()
    pool = music_batch(pieces)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pool.longest == 6146
    assert peak <= 0.6 * size


def test_the_bound_counts_the_steps_without_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {"x": padded(X), "y": padded(Y), "lengths": LENGTHS_ARRAY}
    monkeypatch.setattr(array_files, "memory_share", lambda divisor: sum(LENGTHS) * 3 * 8)
    assert from_memory(arrays, fractions=WHOLE).train.steps == sum(LENGTHS)
    monkeypatch.setattr(array_files, "memory_share", lambda divisor: sum(LENGTHS) * 3 * 8 - 1)
    with pytest.raises(InputError, match=r"y of data has shape \(49, 3\) and takes 1176 bytes"):
        from_memory(arrays, fractions=WHOLE)


# ---------------------------------------------------------------------- sequences without a scored step


def test_sequences_without_a_scored_step_are_left_out_with_a_count(tmp_path: Path) -> None:
    mask = np.ones((len(LENGTHS), 14), int)
    mask[[1, 4]] = 0
    mask[3, 1:] = 0
    arrays = {"x": padded(X), "y": padded(Y), "mask": mask, "lengths": LENGTHS_ARRAY}
    (tmp_path / "a.npz").write_bytes(npz(arrays))
    listed = {"x": X, "y": Y, "mask": [each[:T] for each, T in zip(mask, LENGTHS, strict=True)]}
    for data in (from_memory(arrays), from_memory(listed), load(tmp_path / "a.npz")):
        assert data.notes == ("2 sequences without a scored step are left out",)
        assert data.train.lengths.tolist() == [9, 14, 1, 14]
        assert data.valid is not None
        assert data.valid.lengths.tolist() == [2]


def test_files_with_classes_at_the_last_step_at_every_step_and_masked_are_put_together(tmp_path: Path) -> None:
    x, classes, mask = np.zeros((2, 3, 1)), np.array([[0, 1, 2], [2, 1, 0]]), np.array([[1, 0, 1], [0, 0, 0]])
    arrays = {"last": {"y": classes[:, -1]}, "every": {"y": classes}, "masked": {"y": classes, "mask": mask}}
    for name, each in arrays.items():
        (tmp_path / f"{name}.npz").write_bytes(npz({"x": x, **each}))

    def weights(*names: str) -> list[Any]:
        files = Files([str(tmp_path / f"{name}.npz") for name in names])
        data = load_files({"train": files}, fractions=(1, 0, 0))
        assert (data.loss, data.left_out) == ("softmax", names.count("masked"))
        scored = data.train.weights.T > 0
        expected = np.tile(classes, (len(names), 1))[: len(scored)]
        assert (data.train.targets.T[scored] == expected[scored]).all()
        return scored.astype(int).tolist()

    assert weights("last", "last") == [[0, 0, 1]] * 4
    assert weights("every", "last") == [[1, 1, 1]] * 2 + [[0, 0, 1]] * 2
    assert weights("last", "every", "masked") == [[0, 0, 1]] * 2 + [[1, 1, 1]] * 2 + [[1, 0, 1]]


def test_data_without_any_scored_step_are_refused() -> None:
    mask = np.zeros((len(LENGTHS), 14))
    with pytest.raises(InputError, match="the train part of data has no scored step"):
        from_memory({"x": padded(X), "y": padded(Y), "mask": mask})


def test_messages_count_the_sequences_that_were_left_out() -> None:
    mask = [np.ones(T) for T in LENGTHS]
    mask[0] *= 0
    x = [*X[:-2], X[-2] * np.inf, X[-1]]
    with pytest.raises(InputError, match="x holds an infinity at step 0 of sequence 5,"):
        from_memory({"x": x, "y": Y, "mask": mask}, fractions=WHOLE)


# ---------------------------------------------------------------------- draws


def lengths_of(epoch: int) -> np.ndarray[Any, Any]:
    return np.exp(np.random.default_rng(epoch % 2).uniform(np.log(10), np.log(1000), 103)).astype(np.int64)


def test_similar_lengths_meet_and_every_sequence_is_drawn_at_most_once_in_an_epoch() -> None:
    sampler = SequenceSampler(103, 1.0, 8, seed=3, lengths=lengths_of, alike=True)
    seen: dict[int, list[int]] = {}
    padding = []
    for _ in range(3 * 12):
        drawn = sampler.draw()
        lengths = lengths_of(sampler.epoch)[drawn]
        assert (np.diff(lengths) <= 0).all()
        padding.append(lengths.max() * lengths.size / lengths.sum())
        seen.setdefault(sampler.epoch, []).extend(drawn.tolist())
    assert [len(set(each)) for each in seen.values()] == [len(each) for each in seen.values()] == [96, 96, 96]
    assert np.mean(padding) < 1.4
    left_out = [tuple(set(range(103)) - set(each)) for each in seen.values()]
    assert len(set(left_out)) == 3
    assert seen[0][:8] != seen[2][:8]  # the same lengths in another order


def test_a_loaded_sampler_draws_the_same_subsets_of_similar_lengths() -> None:
    one, other = (SequenceSampler(103, 1.0, 8, seed=3, lengths=lengths_of, alike=True) for _ in range(2))
    for _ in range(17):
        one.draw()
    other.load_state_dict(one.state_dict())
    for _ in range(10):
        np.testing.assert_array_equal(one.draw(), other.draw())


def test_equal_lengths_are_drawn_as_without_lengths() -> None:
    plain = SequenceSampler(50, 7, 70, seed=1)
    equal = SequenceSampler(50, 7, 70, seed=1, lengths=lambda epoch: np.full(50, 7), alike=True)
    for _ in range(12):
        drawn = plain.draw()
        np.testing.assert_array_equal(equal.draw(), drawn)
        np.testing.assert_array_equal(equal.draw_part(drawn, fraction=0.5), plain.draw_part(drawn, fraction=0.5))
        np.testing.assert_array_equal(equal.draw_beside(drawn, 5), plain.draw_beside(drawn, 5))


def test_an_epoch_with_fewer_sequences_than_a_subset_has_one_subset() -> None:
    sampler = SequenceSampler(6, 1, 5, lengths=lambda epoch: np.arange(6 - 2 * (epoch == 1)) + 1, alike=True)
    assert [(sampler.draw().size, sampler.epoch) for _ in range(3)] == [(5, 0), (4, 1), (5, 2)]
