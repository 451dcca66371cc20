"""Guess which arrays of a file are the inputs and the targets, for the command that would train on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hfrnn.data.held import Held, Holding
from hfrnn.data.named_arrays import NAMES
from hfrnn.data.windows import WINDOW

INPUTS = ("x", "u", "input", "inputs", "in", "stim", "stimulus", "stimuli")
TARGETS = ("y", "target", "targets", "output", "outputs", "out", "label", "labels", "rates", "response")
_LONG = 10  # a matrix with one axis that many times longer than the other one is a recording


class _Pair(NamedTuple):
    inputs: Held
    target: Held
    recording: bool = False  # whether they look like one recording, which is cut into windows


def suggested(holding: Holding) -> dict[str, str] | None:
    """Return the options of `train` that would read a file, by name; None if no two of its arrays are a likely pair."""
    found = {held.name.strip("/"): held for held in holding.held if not held.refused}
    if "x" in found and "y" in found:
        return {"window": _window(found["x"])} if _is_recording(found["x"]) else {}
    arrays = [held for held in found.values() if _last(held) in ("x", "y") or _last(held) not in NAMES]
    of_trials = {id(node) for held in arrays if held.trials for node in held.nodes}
    whole = [held for held in arrays if held.trials or id(held.nodes[0]) not in of_trials]
    pairs = [pair for each in (whole, arrays) if (pair := _pair(each, holding.matlab)) is not None]
    if not pairs:
        return None
    pair = max(pairs, key=lambda each: _size(each.inputs))  # alike groups may be signals of one recording, not trials
    window = {"window": _window(pair.inputs)} if pair.recording else {}
    return {"inputs": pair.inputs.name, "targets": pair.target.name, **window}


def _pair(arrays: Sequence[Held], matlab: bool) -> _Pair | None:
    """Return inputs and targets; targets at every step unless only those of the last step have a name that says so."""
    pairs = [pair for pair in (_of_same_steps(arrays), _of_last_step(arrays, matlab)) if pair is not None]
    return next((pair for pair in pairs if _last(pair.target) in TARGETS), pairs[0] if pairs else None)


def _of_same_steps(arrays: Sequence[Held]) -> _Pair | None:
    """Return inputs and targets at every step."""
    groups: dict[object, list[Held]] = {}
    for held in arrays:
        if _size(held) > len(held.nodes):
            groups.setdefault(_steps(held), []).append(held)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return None
    group = sorted(max(several, key=lambda each: sum(map(_size, each))), key=lambda held: held.name)
    target = next((held for held in group if _last(held) in TARGETS), None)
    inputs = next((held for held in group if _last(held) in INPUTS), None)
    target = target or next(held for held in reversed(group) if held is not inputs)
    inputs = inputs or next(held for held in group if held is not target)
    real = "float" in inputs.what and len(inputs.nodes[0].shape) == 2 and not inputs.trials  # no symbols of sequences
    return _Pair(inputs, target, real or _is_recording(inputs) or _is_recording(target))


def _of_last_step(arrays: Sequence[Held], matlab: bool) -> _Pair | None:
    """Return inputs of several sequences and targets of their last steps."""
    sequences = [held for held in arrays if _size(held) > len(held.nodes) and _count(held)]
    if not sequences:
        return None
    inputs = max(sequences, key=lambda held: (_last(held) in INPUTS, _size(held)))
    targets = [held for held in arrays if held is not inputs and _is_target_of_each(held, _count(inputs), matlab)]
    if not targets:
        return None
    return _Pair(inputs, min(targets, key=lambda held: (_last(held) not in TARGETS, _size(held))))


def _count(held: Held) -> int:
    """Return the number of sequences of inputs; 0 if they may be a recording."""
    shape = held.nodes[0].shape
    return len(held.nodes) if held.trials else shape[0] if len(shape) == 3 else 0


def _is_target_of_each(held: Held, count: int, matlab: bool) -> bool:
    """Return whether an array holds one row for each of some trials, or one number for each of some sequences."""
    shapes = {node.shape for node in held.nodes}
    if held.trials:
        return len(held.nodes) == count and len(shapes) == 1 and all(not shape or shape[0] == 1 for shape in shapes)
    return (count,) in shapes or (matlab and bool({(1, count), (count, 1)} & shapes))


def _window(held: Held) -> str:
    """Return the steps of a window that fits into the training part of a recording, nine tenths of it, twice."""
    return str(min(WINDOW, max(max(held.nodes[0].shape) * 9 // 20, 1)))


def _last(held: Held) -> str:
    """Return the last part of a name."""
    return held.name.replace("/", ".").rpartition(".")[2].lower()


def _size(held: Held) -> int:
    total = 0
    for node in held.nodes:
        size = 1
        for axis in node.shape:
            size *= axis
        total += size
    return total


def _steps(held: Held) -> object:
    """Return what arrays of the same steps have in common."""
    shapes = [node.shape for node in held.nodes]
    return held.trials, tuple(shape[:2] if len(shape) > 2 else max(shape, default=1) for shape in shapes)


def _is_recording(held: Held) -> bool:
    """Return whether an array looks like one recording: a vector, or a matrix with a long axis."""
    shape = held.nodes[0].shape
    if held.trials or len(shape) > 2 or not shape:
        return False
    return len(shape) == 1 or 1 in shape or max(shape) >= _LONG * min(shape)
