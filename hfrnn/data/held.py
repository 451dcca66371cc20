"""What a file of arrays holds, by name: numbers, structs and cell arrays, before any of its numbers are read.

A name is that of a variable, `u`; of a field of a struct, `session.u`; or of a dataset of HDF5, `/session/u`. The
fields of a struct array, and the cells of a cell array, are trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from hfrnn.checks import near_hint
from hfrnn.data.array_files import check_size
from hfrnn.errors import InputError, Message
from hfrnn.wording import counted, one_line, some_of

Values = NDArray[Any]
Content = Values | list[Values]
"""One array, or a list of trials."""

NUMERIC = ("double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "logical")
"""MATLAB's classes of numbers."""
DEEPEST = 16
"""Levels of structs, cells and groups that are looked into."""
MOST = 200_000
"""Values that a file may hold in its structs, cells and groups."""
LISTED = 12  # most names in a message
_PLURALS = {
    "char": "text", "cell": "cell arrays", "struct": "structs", "sparse": "sparse matrices",
    "function_handle": "function handles", "complex": "complex numbers", "table": "tables", "string": "strings",
}  # fmt: skip
_SINGULARS = {
    "char": "text", "cell": "a cell array", "struct": "a struct array", "sparse": "a sparse matrix",
    "function_handle": "a function handle", "complex": "an array of complex numbers", "table": "a table",
    "string": "a string",
}  # fmt: skip


@dataclass
class Node:
    """A value of a file. `what` is its class in MATLAB, or that of other numbers in NumPy's words.

    `read` returns the numbers, with MATLAB's order of axes; it is None if the value holds no numbers. The elements of
    structs and cells are in MATLAB's order: the first axis changes fastest.
    """

    what: str
    shape: tuple[int, ...] = ()
    fields: dict[str, list[Node]] = field(default_factory=dict)  # of a struct: a node for each element
    cells: list[Node] | None = None
    read: Callable[[], Values] | None = None
    itemsize: int = 8


class Held(NamedTuple):
    """What a file holds under one name: the numbers of `nodes`, unless `refused` says what is there instead."""

    name: str
    nodes: tuple[Node, ...]
    trials: bool  # whether each node is a trial
    refused: str = ""

    @property
    def shape(self) -> str:
        """The shape in words: `100 x 2`, or `3 trials of 80 to 120 x 2`."""
        if self.refused:
            return ""
        if not self.trials:
            return " x ".join(map(str, self.nodes[0].shape)) or "1"
        shapes = [each.shape for each in self.nodes]
        if len({len(each) for each in shapes}) > 1:
            return counted(len(shapes), "trial")
        axes = [f"{min(axis)} to {max(axis)}" if len(set(axis)) > 1 else str(axis[0])
                for axis in zip(*shapes, strict=True)]  # fmt: skip
        return f"{counted(len(shapes), 'trial')} of {' x '.join(axes) or '1'}"

    @property
    def what(self) -> str:
        """The class of the numbers, or what is there instead of them."""
        return self.refused or "/".join(dict.fromkeys(each.what for each in self.nodes))

    def values(self, source: str, taken: int = 0) -> Content:
        """Read the numbers; raise InputError if there are none, or if they and `taken` bytes are beyond the bound."""
        if self.refused:
            raise InputError(f"{one_line(self.name)} is {self.refused}: numbers are needed")
        found = []
        for node in self.nodes:
            taken += check_size(node.shape, node.itemsize, f"{one_line(self.name)} of {source}", taken)
            assert node.read is not None
            found.append(node.read())
        return found if self.trials else found[0]


class Holding(NamedTuple):
    """What a file holds, and its hash."""

    source: str
    about: str  # "a MATLAB file of version 7.3"
    sha256: str
    held: tuple[Held, ...]
    matlab: bool  # whether MATLAB wrote it: without last axes of length 1, classes as real numbers from 1

    @property
    def names(self) -> list[str]:
        """The names of all numbers."""
        return [each.name for each in self.held if not each.refused]

    def find(self, name: str) -> Held | None:
        """Return what has a name; `/` and `.` between its parts are alike, and a first `/` may be left out."""
        wanted = name.strip()
        exact = next((each for each in self.held if each.name == wanted), None)
        return exact or next((each for each in self.held if _plain(each.name) == _plain(wanted)), None)

    def chosen(self, name: str, asked: str, texts: Sequence[str] = ()) -> Held:
        """Return what has a name; raise InputError if there is nothing.

        `asked` is the argument with the name, and `texts` are the names of texts that it accepts beside numbers.
        """
        found = self.find(name)
        if found is None:
            names = [*self.names, *texts]
            inside = [each for each in names if _plain(each).startswith(f"{_plain(name)}.")]
            hint = f" (did you mean {one_line(inside[0])}?)" if inside else near_hint(name, names)
            raise InputError(Message(
                f"{asked} has {{0!r}}, and {{1}} holds no such array{{2}}: it holds {{3}}", one_line(name[:80]),
                self.source, hint, self.listed(texts) or "nothing",
            ))  # fmt: skip
        return found

    def listed(self, texts: Sequence[str] = ()) -> str:
        """Return the names of all numbers, and of some texts, in a sentence; of everything if there are none."""
        names = [*self.names, *texts] or [each.name for each in self.held]
        return in_words(names)


def in_words(names: Iterable[str]) -> str:
    """Return names in a sentence: the first ones, and how many others there are."""
    return some_of([one_line(each[:60]) for each in names], LISTED)


def _plain(name: str) -> str:
    return name.strip("/").replace("/", ".")


def flattened(name: str, node: Node, mark: str = ".") -> Iterator[Held]:
    """Yield everything that a value holds by name; `mark` stands between a struct or a group and what is in it."""
    if node.read is not None:
        yield Held(name, (node,), trials=False)
    elif node.cells is not None:
        yield from _together(name, node.cells, "a cell array", mark)
    elif node.fields:
        if mark == "/":
            yield from groups_as_trials(name, {own: nodes[0] for own, nodes in node.fields.items()})
        for own, nodes in node.fields.items():
            if node.what == "struct array":
                yield from _together(f"{name}{mark}{own}", nodes, "a field of a struct array", mark)
            else:
                yield from flattened(f"{name}{mark}{own}", nodes[0], mark)
    else:
        yield Held(name, (node,), trials=False, refused=_SINGULARS.get(node.what) or _with_article(node.what))


def groups_as_trials(name: str, groups: Mapping[str, Node]) -> Iterator[Held]:
    """Yield what groups of HDF5 that hold the same names have in common: each group is a trial.

    `/trials/u` stands for `/trials/1/u`, `/trials/2/u` and so on.
    """
    nodes = list(groups.values())
    names = set(nodes[0].fields) if nodes else set()
    if len(nodes) > 1 and names and all(each.what == "struct" and set(each.fields) == names for each in nodes):
        for own in nodes[0].fields:
            yield from _together(f"{name}/{own}", [each.fields[own][0] for each in nodes], "groups", "/")


def _together(name: str, nodes: Sequence[Node], of: str, mark: str) -> Iterator[Held]:
    """Yield the trials that the elements of a cell array or of a field are, or the fields of cells that are structs."""
    wrong = next((each for each in nodes if each.read is None), None)
    if wrong is None and nodes:
        yield Held(name, tuple(nodes), trials=True)
    elif nodes and wrong is not None and all(each.what == "struct" and each.fields for each in nodes):
        shared = [own for own in nodes[0].fields if all(own in each.fields for each in nodes)]
        for own in shared:
            yield from _together(f"{name}{mark}{own}", [each.fields[own][0] for each in nodes], of, mark)
    else:
        what = "an empty cell array" if wrong is None else f"{of} of {plural(wrong.what)}"
        yield Held(name, tuple(nodes), trials=True, refused=what)


def _with_article(what: str) -> str:
    return f"{'an' if what[:1].lower() in 'aeiou' else 'a'} {one_line(what[:100])}"


def plural(what: str) -> str:
    """Return what several values of a class are called."""
    return _PLURALS.get(what) or f"{one_line(what[:60])} values"


def too_many(source: str) -> InputError:
    """Return the error about a file with too many values."""
    return InputError(f"{source} holds more than {MOST:,} values in structs, cells and groups: save it as plain arrays")
