"""Guess which arrays of a file are the inputs and the targets, for the command that would train on them."""

from __future__ import annotations

from hfrnn.data.held import Held, Holding
from hfrnn.data.named_arrays import NAMES
from hfrnn.data.windows import WINDOW

INPUTS = ("x", "u", "input", "inputs", "in", "stimulus", "stimuli")
TARGETS = ("y", "target", "targets", "output", "outputs", "out", "label", "labels", "rates", "response")
_LONG = 10  # a matrix with one axis that many times longer than the other one is a recording


def suggested(holding: Holding) -> dict[str, str] | None:
    """Return the options of `train` that would read a file, by name; None if it has no two arrays that agree."""
    found = {held.name.strip("/"): held for held in holding.held if not held.refused}
    if "x" in found and "y" in found:
        return {"window": _window(found["x"])} if _is_recording(found["x"]) else {}
    groups: dict[object, list[Held]] = {}
    for held in found.values():
        if _size(held) > len(held.nodes) and held.name.strip("/") not in NAMES:
            groups.setdefault(_steps(held), []).append(held)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return None
    group = sorted(max(several, key=lambda each: sum(map(_size, each))), key=lambda held: held.name)
    target = next((held for held in group if _last(held) in TARGETS), None)
    inputs = next((held for held in group if _last(held) in INPUTS), None)
    target = target or next(held for held in reversed(group) if held is not inputs)
    inputs = inputs or next(held for held in group if held is not target)
    window = {"window": _window(inputs)} if _is_recording(inputs) or _is_recording(target) else {}
    return {"inputs": inputs.name, "targets": target.name, **window}


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
