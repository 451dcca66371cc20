"""Cut recordings into parts, and each part into windows. No window crosses the border of a recording.

The state of the network is zero at the beginning of a window. The first steps of a window, the burn-in, therefore
carry weight 0: the state settles before anything is scored. Training windows overlap. Validation and test windows
overlap by the burn-in only, so every step is scored once, except the burn-in of the part's first window.

Parts are cut by time, or blocks spread over each recording validate. In the second case the windows of both parts hold
all steps, and targets of the other part carry weight 0. The state then runs through the blocks.

What is not given follows from the data: the burn-in is the memory of linear models (`hfrnn/data/linear_memory.py`), a
window is several times as long, and short recordings are not cut at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.choices import PARTS
from hfrnn.data.array_files import check_size
from hfrnn.data.array_shapes import LARGEST, UncheckedPart, as_float64, joined
from hfrnn.data.linear_memory import Recorded, memory_of
from hfrnn.data.splits import DEFAULT_FRACTIONS, checked_fractions, own_test_error
from hfrnn.errors import InputError, Message
from hfrnn.wording import counted, left_out_note

WINDOW = 200
"""Least steps of a window that nobody gave."""
BURN_INS = 4
"""A window that nobody gave has so many burn-ins or, if no burn-in was given, so many times the memory of the data."""
WHOLE = 2_500
"""Most steps of all recordings that are not cut, unless a window is given."""
WINDOWS_OF_WHOLE = 2
"""A recording of fewer windows than this is not cut, unless a window is given."""
WHOLE_BURN_IN = 0.1
"""Largest share of a recording that is not cut, for a burn-in that nobody gave."""
PENALTY, MOST_PENALTY = 0.3, 1e-3
"""The option `l2` of recordings that are not cut, times their steps, and its largest value, unless it is given."""
_COMPARED = 64  # rows that rule most periods out, and the most periods that are compared as a whole
VALID_BLOCKS, LEAST_BLOCK = 5, 10
"""Validation blocks of a recording that is not cut, and the least steps of such a block."""

Values = NDArray[Any]


class Windows(NamedTuple):
    """How recordings are cut; numbers of steps. What is None follows from the data."""

    window: int | None = None
    stride: int | None = None  # from the beginning of a training window to that of the next; half a window
    burn_in: int | None = None  # not scored at the beginning of a window
    ahead: int = 0  # from an input to the target that it predicts
    blocks: int | None = None  # that validate in each recording; 0: the last part of it


class Cut(NamedTuple):
    """The parts of some recordings, cut into windows."""

    parts: dict[str, UncheckedPart]
    window: int
    stride: int
    burn_in: int
    blocks: int
    why: str | Message
    l2: float | None  # of short recordings, which are not cut
    notes: tuple[str, ...] = ()

    @property
    def chosen(self) -> dict[str, Any]:
        """How the recordings are cut, and the penalty of short ones, as options of a run."""
        found = {"window": self.window, "stride": self.stride, "burn_in": self.burn_in, "valid_blocks": self.blocks}
        return found if self.l2 is None else {**found, "l2": self.l2}


class Signals(NamedTuple):
    """One recording: a row for each step."""

    inputs: Values  # (steps, n_in)
    targets: Values  # (steps, n_out)
    missing: NDArray[np.bool_] | None = None  # (steps, n_out): targets that are not known
    states: Values | None = None  # (steps, n): the state before each step, NaN where it is not given

    def checked(self, source: str, ahead: int) -> Signals:
        """Return finite numbers with two axes, with the targets `ahead` rows later beside the inputs of a row."""
        missing = self.missing
        targets = self.targets if missing is None else np.where(missing, 0.0, self.targets)
        x, y = two_axes(self.inputs, "x", source), two_axes(targets, "y", source)
        if len(x) != len(y):
            raise InputError(f"x has {len(x)} steps and y {len(y)} in {source}: give as many in both")
        unknown = np.zeros(y.shape, dtype=bool) if missing is None else missing
        states = None if self.states is None else self.states[: len(x) - ahead]
        return Signals(x[: len(x) - ahead], y[ahead:], unknown[ahead:], states)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which targets are known, (steps, n_out)."""
        return np.ones(self.targets.shape, dtype=bool) if self.missing is None else ~self.missing

    def rows(self, start: int, stop: int) -> Signals:
        """Return some rows."""
        missing = None if self.missing is None else self.missing[start:stop]
        states = None if self.states is None else self.states[start:stop]
        return Signals(self.inputs[start:stop], self.targets[start:stop], missing, states)


def recording_parts(
    given: Mapping[str, Sequence[Signals]], windows: Windows, fractions: Sequence[float] | None, source: str
) -> Cut:
    """Cut some recordings into parts and windows.

    Parameters
    ----------
    given : mapping of str to sequence of Signals
        The recordings of each part that has some of its own, "train" at least. Without a part "valid" the recordings
        for training are cut into parts, each by itself.
    windows : Windows
    fractions : sequence of three float, optional
        The shares of the rows for training, validation and test, if the recordings are cut into parts.
    source : str
        The data, for messages.

    Raises
    ------
    InputError
        The numbers are not finite or too large, or a recording is too short for a part.
    """
    found = {part: [each.checked(source, windows.ahead) for each in recordings] for part, recordings in given.items()}
    missing = sum(int(each.missing.sum()) for part in found.values() for each in part if each.missing is not None)
    notes = [f"{counted(missing, 'missing target')} not scored"] if missing else []
    if "valid" in found and fractions is not None:
        raise InputError(Message("{0} has its own recordings for validation: leave {fractions} out", source))
    shares = checked_fractions(DEFAULT_FRACTIONS if fractions is None else fractions)
    shares = (1.0, 0.0, 0.0) if "valid" in found else shares
    steps = [len(each.inputs) for each in found["train"]]
    longest = round(max(steps) * shares[0])
    if not longest:
        raise InputError(Message("{fractions} leaves none of {0} to train on: give train a share above 0", source))
    cut = _chosen(found["train"], windows, shares, source)
    window, stride, burn_in = cut.window, cut.stride, cut.burn_in
    if longest < window and len(steps) == 1 and not cut.blocks and windows.window:
        raise InputError(Message(
            "{0} has {1}, {2:,} of them to train on, and {window} is {3}: give a smaller {window}",
            source, counted(steps[0], "row"), longest, window,
        ))  # fmt: skip
    if "valid" not in found:
        notes += _repeats(found["train"]) if shares[0] < 1 else []
        own_test = {"test": list(found["test"])} if "test" in found else {}
        if own_test and shares[2]:
            raise own_test_error(source)
        found = _in_blocks(found, cut, shares) if cut.blocks else _by_time(found, burn_in, shares, source)
        found |= own_test
    columns = found["train"][0].inputs.shape[1] + 2 * found["train"][0].targets.shape[1]
    _check_windows([len(each.inputs) for each in found["train"]], window, stride, columns, source)
    left_out = 0
    for name, recordings in found.items():
        step = stride if name == "train" else window - burn_in
        begins = [window_starts(len(each.inputs), window, step, burn_in, name == "train") for each in recordings]
        made = [_cut(each, at, window, burn_in) for each, at in zip(recordings, begins, strict=True) if len(at)]
        whole = joined([part for part in made if part.lengths.size])
        if whole is None:
            raise InputError(
                Message("the {0} part of {1} has no target that is scored: give other {fractions}", name, source)
            )
        cut.parts[name] = whole
        left_out += sum(map(len, begins)) - whole.lengths.size
        if short := sum(not len(at) for at in begins):
            notes.append(f"{counted(short, 'recording')} of the {name} part not read: no longer than the burn-in")
    notes += [left_out_note(left_out, "window")] if left_out and not cut.blocks else []
    return cut._replace(notes=tuple(notes))


def period_of(inputs: Values) -> int | None:
    """Return the least number of rows after which inputs (steps, n_in) repeat exactly, to their end.

    None if they do not, if they never change, or if there are fewer than two periods.
    """
    changes = np.flatnonzero((inputs[1:] != inputs[:-1]).any(axis=1))
    periods = changes[1:] - changes[:1]  # the first change comes again after a period
    periods = periods[2 * periods <= len(inputs)]
    for row in range(min(_COMPARED, len(inputs) // 2)):
        periods = periods[(inputs[periods + row] == inputs[row]).all(axis=1)]
    for period in periods[:_COMPARED].tolist():
        if np.array_equal(inputs[period:], inputs[:-period]):
            return int(period)
    return None


def _repeats(recordings: Sequence[Signals]) -> list[str]:
    """Return a note if a recording that is cut into parts repeats its inputs."""
    for each in recordings:
        if period := period_of(each.inputs):
            return [
                f"the inputs repeat every {counted(period, 'row')}, so validation has inputs that are also trained on: "
                "its error may be far below that on other inputs"
            ]
    return []


# ---------------------------------------------------------------------- what follows from the data


def _chosen(recordings: Sequence[Signals], given: Windows, shares: tuple[float, float, float], source: str) -> Cut:
    """Return how recordings are cut, with no parts yet; raise InputError if what was given does not fit."""
    steps = [len(each.inputs) for each in recordings]
    longest, trained = max(steps), max(round(max(steps) * shares[0]), 1)
    memory, burn_in, why = None, given.burn_in, ""
    if burn_in is None:
        memory = memory_of([Recorded(each.inputs, each.targets, each.known) for each in recordings])
        why = "linear models show no memory of the inputs"
        if memory is not None:
            why = f"linear models forget their inputs within {counted(memory, 'step')}"
    usual = max(WINDOW, BURN_INS * (burn_in or memory or 0))
    whole = given.window is None and given.stride is None
    whole = whole and (sum(steps) <= WHOLE or trained < WINDOWS_OF_WHOLE * usual)
    window = given.window or (longest if whole else min(usual, max(trained // 2, 1)))
    blocks = given.blocks
    if blocks is None:
        blocks = VALID_BLOCKS if whole and min(steps) * shares[1] >= VALID_BLOCKS * LEAST_BLOCK else 0
    blocks = blocks if shares[1] else 0
    if burn_in is None:
        most = round(longest * WHOLE_BURN_IN) if whole else window // BURN_INS
        if shares[1] and not blocks:  # the parts for validation and test lose it too
            most = min(most, round(longest * min(share for share in shares[1:] if share)) // 2)
        wanted = min(window, WINDOW) // 10 if memory is None else memory
        burn_in = min(wanted, most)
        why += f", of which {counted(burn_in, 'step')} can be spared" if memory and burn_in < memory else ""
    if whole and not blocks and len(steps) == 1:
        window = trained  # the run stores it; when it is opened again, the window must fit the training part
    if burn_in >= window:
        expected = "{burn_in} is {0}, and {window} is {1}: give a {burn_in} below {window}"
        raise InputError(Message(expected, burn_in, window))
    stride = max(window // 2, 1) if given.stride is None else given.stride
    if stride > window:
        expected = "{stride} is {0}, and {window} is {1}: give a {stride} of at most {window}"
        raise InputError(Message(expected, stride, window))
    l2 = float(f"{min(PENALTY / sum(steps), MOST_PENALTY):.3g}") if whole else None
    return Cut({}, window, stride, burn_in, blocks, why, l2)


def _in_blocks(
    found: Mapping[str, Sequence[Signals]], cut: Cut, shares: tuple[float, float, float]
) -> dict[str, list[Signals]]:
    """Return recordings with known targets in blocks for validation, between them for training, and the last ones."""
    parts: dict[str, list[Signals]] = {"train": [], "valid": [], **({"test": []} if shares[2] else {})}
    for each in found["train"]:
        steps = len(each.inputs)
        end = round(steps * (shares[0] + shares[1]))
        length = max(round(steps * shares[1] / cut.blocks), 1)
        middles = (np.arange(cut.blocks) + 0.75) * end / cut.blocks  # behind a burn-in of a tenth
        near = np.abs(np.arange(end)[:, None] + 0.5 - middles) < length / 2  # (end, blocks)
        validates = near.any(axis=1, keepdims=True)
        first = each.rows(0, end)
        parts["train"].append(first._replace(missing=~first.known | validates))
        parts["valid"].append(first._replace(missing=~first.known | ~validates))
        if shares[2]:
            parts["test"].append(each.rows(end, steps))
    return parts


def _by_time(
    found: Mapping[str, Sequence[Signals]], burn_in: int, shares: Sequence[float], source: str
) -> dict[str, list[Signals]]:
    """Cut each recording into parts by time; one of several that is too short for that is for training alone."""
    cut: dict[str, list[Signals]] = {name: [] for name, share in zip(PARTS, shares, strict=True) if share}
    for each in found["train"]:
        edges = [round(len(each.inputs) * share) for share in (0.0, shares[0], shares[0] + shares[1], 1.0)]
        rows = {name: each.rows(a, b) for name, a, b in zip(PARTS, edges[:-1], edges[1:], strict=True) if name in cut}
        short = next((name for name in list(rows)[1:] if len(rows[name].inputs) <= burn_in), None)
        if short is not None and len(found["train"]) == 1:
            raise InputError(Message(
                "the {0} part of {1} has {2}, and {burn_in} is {3}: give other {fractions} or a smaller {burn_in}",
                short, source, counted(len(rows[short].inputs), "row"), burn_in,
            ))  # fmt: skip
        for name, part in (rows if short is None else {"train": each}).items():
            cut[name].append(part)
    return cut


def window_starts(steps: int, window: int, stride: int, burn_in: int, overlapping: bool) -> NDArray[np.int64]:
    """Return where the windows of a recording begin; nowhere if it is no longer than the burn-in.

    The last training window ends with the recording; a recording that is shorter than a window is one by itself.
    """
    if steps <= burn_in:
        return np.zeros(0, dtype=np.int64)
    if not overlapping:
        return np.arange(0, steps - burn_in, stride)
    last = max(steps - window, 0)
    return np.array([*range(0, last, stride), last])


def two_axes(values: Values, name: str, source: str) -> Values:
    """Return the values of one recording as (steps, n), finite and as float64."""
    found = values[:, None] if values.ndim == 1 else values
    if found.ndim != 2:
        expected = "{0} of {1} has shape {2}: with {window} give one recording (steps, n)"
        raise InputError(Message(expected, name, source, values.shape))
    found = as_float64(found)
    wrong = ~(np.abs(found) <= LARGEST)
    if wrong.any():
        t, k = (int(each) for each in np.argwhere(wrong)[0])
        raise InputError(
            f"{name} of {source} holds {found[t, k]:g} at step {t}, entry {k} (counted from 0): give finite numbers of "
            f"at most {LARGEST:g} in size"
        )
    return found


def _check_windows(steps: Sequence[int], window: int, stride: int, columns: int, source: str) -> None:
    """Raise InputError if overlapping windows of the training part would take too much memory."""
    count = sum(max(each - window, 0) // stride + 2 for each in steps)
    try:
        check_size((count, window, columns), 8, source)
    except InputError as error:
        windows = counted(count, "window")
        raise InputError(
            Message("{0} of {1} steps take too much memory: give a larger {stride}", windows, window)
        ) from error


def _cut(each: Signals, begins: Values, window: int, burn_in: int) -> UncheckedPart:
    """Return windows of a recording that begin at some steps, without those that nothing scores."""
    x, y, unknown, states = each
    assert unknown is not None
    lengths = np.minimum(window, len(x) - begins)
    T = int(lengths.max())
    rows = begins + np.arange(T)[:, None]  # (T, N)
    exists = np.arange(T)[:, None] < lengths
    rows = np.where(exists, rows, 0)
    weights = exists & (np.arange(T)[:, None] >= burn_in)
    if unknown.any():
        weights = weights[:, :, None] & ~unknown[rows]
        weights = weights[:, :, 0] if y.shape[1] == 1 else weights
    kept = weights.reshape(T, len(begins), -1).any(axis=(0, 2))
    weights, rows, lengths = weights[:, kept], rows[:, kept], lengths[kept]
    part = UncheckedPart.of_padded(x[rows], y[rows], weights.astype(np.float32), lengths.astype(np.int64))
    return part if states is None else replace(part, states=states[begins[kept]])
