"""Choose arrays of a file by name, for the roles x, y and mask."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hfrnn.checks import near_hint
from hfrnn.choices import HDF5_FILES
from hfrnn.data.array_files import NUMBERS, check_size, damage_reported, file_content, npz_headers, read_array_file
from hfrnn.data.hdf5 import held_by_hdf5
from hfrnn.data.held import Content, Held, Holding, Node, Values, in_words
from hfrnn.data.matlab import held_by_mat, is_hdf5
from hfrnn.data.trials import Trials, beside
from hfrnn.errors import InputError, Message
from hfrnn.option import argument
from hfrnn.wording import one_line

PREFIXES = {"train": "", "valid": "valid_", "test": "test_"}
"""The beginning of the names of a part's arrays."""
ROLES = ("x", "y", "mask", "lengths", "initial_state")
NAMES = tuple(prefix + role for prefix in PREFIXES.values() for role in ROLES)
"""The names of arrays that are read without being chosen."""
_CHOSEN = {"x": "inputs", "y": "targets", "mask": "mask"}


class ArrayNames(NamedTuple):
    """Which arrays of a file are read; without them those named `x`, `y` and `mask`.

    For a .npy file `targets` is the path of the file of targets. `part` is the part that has these names of its own,
    and `beside` says whether its file is also that of the training part.
    """

    inputs: Sequence[str] | None = None
    targets: Sequence[str] | None = None
    mask: str | None = None
    part: str = ""
    beside: bool = False

    def given(self, role: str) -> tuple[str, ...]:
        """Return the names of the arrays of a role; none if they were not given."""
        value = {"x": self.inputs, "y": self.targets, "mask": self.mask}.get(role)
        return () if value is None else (value,) if isinstance(value, str) else tuple(value)

    @property
    def chosen(self) -> bool:
        """Whether inputs or targets were chosen."""
        return self.inputs is not None or self.targets is not None

    def asked(self, role: str) -> str:
        """Return the part of a message that stands for the argument with the names of a role."""
        option = _CHOSEN[role]
        return argument(f"{self.part}_{option}" if self.part and role != "mask" else option)


class FileArrays(NamedTuple):
    """Arrays by the names above, from a file or from memory; a list holds trials.

    `called` says what the user calls each role. `lacks` says, for each role without an array, what the file holds.
    """

    content: dict[str, Content]
    source: str
    sha256: str
    matlab: bool = False
    others: tuple[str, ...] = ()
    called: Mapping[str, str] = {}
    lacks: Mapping[str, Message] = {}
    hashes: tuple[str, ...] = ()
    stacked: frozenset[str] = frozenset()  # roles with columns of several names
    trials: bool = True  # whether lists hold trials; else the sequences of a list have their steps first
    listed: frozenset[str] = frozenset()  # arrays from memory that were lists of sequences


def read_file_arrays(path: str, names: ArrayNames, windowed: bool = False) -> FileArrays:
    """Read the arrays of a file.

    Parameters
    ----------
    path : str
    names : ArrayNames
    windowed : bool
        Whether an array without an axis of sequences is one recording.

    Raises
    ------
    InputError
        The file is damaged or too large, holds nothing by a name, or no numbers by it.
    """
    if path.lower().endswith(".npy"):
        return _npy_pair(path, names)
    chosen_some = names.chosen or names.mask is not None
    if path.lower().endswith(".npz") and not chosen_some:
        own = read_array_file(path, NAMES.__contains__)
        held = in_words([*own.arrays, *own.others])
        lacks = {role: _no_array(path, role, own.others, held) for role in ("x", "y") if role not in own.arrays}
        return FileArrays(dict(own.arrays), path, own.sha256, others=own.others, lacks=lacks, hashes=(own.sha256,))
    holding = open_holding(path)
    if not names.chosen:
        return _by_role(holding, names)
    content: dict[str, Content] = {}
    called, lacks, stacked, taken, used = dict[str, str](), dict[str, Message](), set[str](), 0, list[Held]()
    for role in ROLES:
        chosen, missing = _chosen(holding, names, role)
        if missing is not None:
            if role in ("x", "y") or names.given(role):
                lacks[role] = missing
            continue
        used += chosen
        read: list[Content] = []
        for each in chosen:
            with damage_reported(path):
                read.append(each.values(path, taken))
            taken += _size(read[-1])
        each_name = [each.name for each in chosen]
        called[role] = ",".join(each_name)
        content[role] = read[0] if len(read) == 1 else _columns(read, each_name, holding, windowed)
        if len(read) > 1:
            stacked.add(role)
    return FileArrays(
        content, path, holding.sha256, holding.matlab, _others(holding, used), called, lacks, (holding.sha256,),
        frozenset(stacked),
    )  # fmt: skip


def _others(holding: Holding, used: Iterable[Held]) -> tuple[str, ...]:
    """Return the names of what was not read. Trials count as read if their group was read."""
    read = {id(node) for held in used for node in held.nodes}
    return tuple(each.name for each in holding.held if not all(id(node) in read for node in each.nodes))


def _chosen(holding: Holding, names: ArrayNames, role: str) -> tuple[list[Held], Message | None]:
    """Return what was chosen for a role, or why there is nothing; without a name that of the role is taken."""
    given = names.given(role)
    if names.beside and names.part and role not in ("x", "y"):
        return _beside_training(holding, names.part, given[0] if given else role)
    if not given:
        own = holding.find(role)
        if own is None:
            return [], _no_array(holding.source, role, holding.names, holding.listed())
        return [own], None
    try:
        return [holding.chosen(name, names.asked(role)) for name in given], None
    except InputError as error:
        return [], Message("{0}", error)


def _beside_training(holding: Holding, part: str, name: str) -> tuple[list[Held], Message | None]:
    """Return the mask, lengths or states of a part in the file of the training part, which calls its own `name`."""
    wanted = _with(PREFIXES[part], name)
    found = holding.find(wanted)
    if found is None and holding.find(name) is not None:
        raise InputError(Message(
            f"{{0}} holds {{1}}, which belongs to the training part: name that of the {part} part {{2}}, or give this "
            f"part a file of its own with {argument(part)}", holding.source, name, wanted,
        ))  # fmt: skip
    if found is None:
        return [], _no_array(holding.source, wanted, holding.names, holding.listed())
    return [found], None


def _with(prefix: str, name: str) -> str:
    """Return a name whose last part has a prefix: `valid_` makes `session.valid_w` of `session.w`."""
    at = max(name.rfind("."), name.rfind("/")) + 1
    return f"{name[:at]}{prefix}{name[at:]}"


def _size(content: Content) -> int:
    return sum(each.nbytes for each in content) if isinstance(content, list) else content.nbytes


def _by_role(holding: Holding, names: ArrayNames) -> FileArrays:
    """Return the arrays whose names are those of roles. If the mask w was chosen, that of validation is valid_w."""
    found = {name: held for name in NAMES if (held := holding.find(name)) is not None}
    called, lacks = {name: name for name in found}, dict[str, Message]()
    for mask in names.given("mask"):
        masks = {f"{prefix}mask": held for prefix in PREFIXES.values() if (held := holding.find(_with(prefix, mask)))}
        found |= masks
        called |= {name: held.name for name, held in masks.items()}
        missing = _chosen(holding, names, "mask")[1]
        lacks |= {} if missing is None else {"mask": missing}
    content: dict[str, Content] = {}
    taken = 0
    with damage_reported(holding.source):
        for name, held in found.items():
            content[name] = held.values(holding.source, taken)
            taken += _size(content[name])
    all_names, listed = holding.names, holding.listed()
    lacks |= {role: _no_array(holding.source, role, all_names, listed) for role in ("x", "y") if role not in found}
    return FileArrays(
        content, holding.source, holding.sha256, holding.matlab, _others(holding, found.values()), called, lacks,
        (holding.sha256,),
    )  # fmt: skip


def _no_array(source: str, role: str, names: Sequence[str], listed: str) -> Message:
    """Return what to say about a file without an array of a role, and without a name for it."""
    option = argument(_CHOSEN.get(role, role))
    return Message(
        f"{{0}} has no array {role}{{1}}: it holds {{2}}; name it {role}, or choose arrays by name with {option}",
        source, near_hint(role, names), listed or "nothing",
    )  # fmt: skip


def _columns(read: Sequence[Content], names: Sequence[str], holding: Holding, windowed: bool) -> Content:
    """Return the columns of several names side by side."""
    if any(isinstance(each, list) for each in read):
        if not all(isinstance(each, list) for each in read):
            one, other = (next(name for name, each in zip(names, read, strict=True) if isinstance(each, list) is kind)
                          for kind in (True, False))  # fmt: skip
            raise InputError(f"{one} of {holding.source} holds trials and {other} does not: choose arrays of one kind")
        return beside([each for each in read if isinstance(each, list)], names, holding.source)
    arrays = [each for each in read if not isinstance(each, list)]
    if windowed or all(each.ndim < 2 or (holding.matlab and 1 in each.shape) for each in arrays):
        return beside([[each] for each in arrays], names, holding.source)[0]
    arrays = [each[:, :, None] if each.ndim == 2 else each for each in arrays]
    if len({each.shape[:2] for each in arrays}) > 1 or any(each.ndim != 3 for each in arrays):
        shapes = " and ".join(str(each.shape) for each in read if not isinstance(each, list))
        raise InputError(f"{' and '.join(names)} of {holding.source} have shapes {shapes}: give as many steps in each")
    return np.concatenate(arrays, axis=2)


def _npy_pair(path: str, names: ArrayNames) -> FileArrays:
    """Return the inputs of a .npy file and the targets of another one."""
    if names.inputs is not None or names.mask is not None:
        role = "x" if names.inputs is not None else "mask"
        raise InputError(Message(f"{names.asked(role)} was given, and {{0}} holds one array: leave it out", path))
    found = read_array_file(path, NAMES.__contains__)
    targets = None if names.targets is None else ",".join(names.targets)
    content: dict[str, Content] = {"x": found.arrays["x"]}
    if targets is None:
        lacks = Message(f"{{0}} holds the inputs only: give {names.asked('y')}, a .npy file with the targets", path)
        return FileArrays(content, path, found.sha256, called={"x": "x"}, lacks={"y": lacks}, hashes=(found.sha256,))
    if not targets.lower().endswith(".npy"):
        asked = names.asked("y")
        raise InputError(Message(f"{asked} is {{0}}, and the inputs are in a .npy file: give a .npy file", targets))
    other = read_array_file(targets, NAMES.__contains__)
    digest = hashlib.sha256(f"{found.sha256} {other.sha256}".encode()).hexdigest()
    content["y"] = other.arrays["x"]
    return FileArrays(content, path, digest, called={"x": "x", "y": "y"}, hashes=(found.sha256, other.sha256))


def holds_trials(file: FileArrays, prefix: str) -> bool:
    """Return whether arrays of one part of a file are lists of trials."""
    return file.trials and any(isinstance(file.content.get(prefix + role), list) for role in ROLES)


def together(file: FileArrays, prefix: str) -> tuple[dict[str, Content], tuple[str, ...]]:
    """Return the arrays of one part of a file by role, with the steps of trials first, and notes for a person."""
    roles: dict[str, Content] = {role: file.content[prefix + role] for role in ROLES if prefix + role in file.content}
    if not holds_trials(file, prefix):
        return roles, ()
    called = {role: file.called.get(prefix + role, prefix + role) for role in roles}
    x = roles["x"]
    if not isinstance(x, list):
        other = next(called[role] for role, each in roles.items() if isinstance(each, list))
        raise InputError(
            f"{other} of {file.source} holds trials, and {called['x']} is one array: choose inputs that hold trials"
        )
    y = roles.get("y")
    last: dict[str, Content] = {} if isinstance(y, list) or y is None else {"y": y}  # a target for each trial
    last |= {"initial_state": roles["initial_state"]} if "initial_state" in roles else {}
    found = Trials(
        {role: each for role, each in roles.items() if isinstance(each, list) and role != "initial_state"}, called,
        file.source,
    )  # fmt: skip
    return {**found.sequences(), **last}, tuple(found.notes)


# ---------------------------------------------------------------------- files


def open_holding(path: str | os.PathLike[str]) -> Holding:
    """Return what a file of arrays holds, by its suffix; raise InputError if it is damaged."""
    source, suffix = str(path), Path(path).suffix.lower()
    content = file_content(path)
    with damage_reported(path):
        if suffix in HDF5_FILES or (suffix == ".mat" and is_hdf5(content)):
            return held_by_hdf5(content, source)
        if suffix == ".mat":
            return held_by_mat(content, source)
        return _held_by_numpy(content, source, suffix)


def _held_by_numpy(content: bytes, source: str, suffix: str) -> Holding:
    """Return what a .npz file holds, or that a .npy file holds an array x."""
    digest = hashlib.sha256(content).hexdigest()
    if suffix == ".npy":
        array = read_array_file(source, NAMES.__contains__).arrays["x"]
        held = (Held("x", (Node(str(array.dtype), array.shape, read=lambda: array),), trials=False),)
        return Holding(source, "a file of one array", digest, held, matlab=False)
    listed = []
    for name, (shape, dtype) in npz_headers(content).items():
        known = dtype is not None and dtype.kind in NUMBERS and all(size >= 0 for size in shape)
        role = name in NAMES  # whose reader says what is wrong
        what = "value of an unknown kind" if dtype is None else one_line(str(dtype)[:40])
        size = dtype.itemsize if dtype else 8
        node = Node(what, shape if known else (), read=_npz_reader(source, name), itemsize=size)
        refused = "" if known or role else f"an array of {what}"
        listed.append(Held(name, (node,), trials=False, refused=refused))
    return Holding(source, "a file of arrays", digest, tuple(listed), matlab=False)


def _npz_reader(source: str, name: str) -> Any:
    return lambda: read_array_file(source, {name}.__contains__).arrays[name]


def read_labels(path: str, name: str) -> Values:
    """Return an array of a file with one value for each sequence as strings, (sequences,); whole numbers as such."""
    texts = _npz_texts(path)
    if name in texts:
        check_size(*texts[name], f"{name} of {path}")
        with damage_reported(path), np.load(path, allow_pickle=False) as arrays:
            strings = np.asarray(arrays[name])
    else:
        holding = open_holding(path)
        with damage_reported(path):
            values = holding.chosen(name, argument("by"), tuple(texts)).values(path)
        parts = values if isinstance(values, list) else [values]
        if isinstance(values, list) and any(each.size != 1 for each in parts):
            raise _no_label(path, name)
        flat = np.concatenate([each.ravel() for each in parts])
        shape = flat.shape if isinstance(values, list) else values.shape
        whole = flat.dtype.kind in "iub" or (np.isfinite(flat).all() and (flat == np.round(flat)).all())
        words = [str(int(each) if whole else each).removesuffix(".0") for each in flat]  # with all digits
        strings = np.array(words).reshape(shape)
    if strings.size != max(strings.shape, default=0):
        raise _no_label(path, name)
    return strings.ravel()


def _no_label(path: str, name: str) -> InputError:
    return InputError(Message("{by} is {0}, which is no list in {1}: give one value for each sequence", name, path))


def _npz_texts(path: str) -> dict[str, tuple[tuple[int, ...], int]]:
    """Return the shape and the bytes of an element of each array of strings in a .npz file, by name."""
    if not path.lower().endswith(".npz"):
        return {}
    with damage_reported(path):
        headers = npz_headers(file_content(path))
    return {
        name: (shape, dtype.itemsize)
        for name, (shape, dtype) in headers.items()
        if dtype is not None and dtype.kind == "U"
    }
