"""What the kinds of data declare, and that nothing outside their files tells them apart by name."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.parsed import FILES, PACKAGE, nodes

from hfrnn.choices import DYNAMICS
from hfrnn.data.kinds import KINDS, kind_of, kind_of_file, kinds, known_names, takers
from hfrnn.data.kinds.data_kind import DataKind
from hfrnn.errors import InputError
from hfrnn.option import ByData
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.runs.options import GENERAL, run_options

VALUES = {
    "text": (None, "python-manual", "ptb", "no such data"), "task": ("addition", "sine"),
    "table": ("a.csv", "b.TSV", "c.txt"), "tables": ("tables",),
    "arrays": ("a.npz", "dir/b.npy", "c.MAT"), "memory": ("arrays", "batches"), "music": ("jsb",),
    "midi": ("a.mid", "b.MIDI", "folder/"),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_data_has_one_kind(name: str, tmp_path: Path) -> None:
    assert VALUES.keys() == set(KINDS.names()) - set(KINDS.of_users())
    for data in (*VALUES[name], *([str(tmp_path)] if name == "midi" else [])):  # an existing folder is music
        assert kind_of({} if data is None else {"data": data}) is KINDS[name]
        assert TrainConfig(data=data).kind is KINDS[name]
        assert sum(kind.recognises(data) for kind in kinds() if data is not None) <= 1


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_a_kind_declares_what_the_rest_of_the_package_asks_for(kind: type[DataKind]) -> None:
    own = {option.name: option for option in kind.options}
    assert kind.about
    assert kind.preset in ByData._fields
    assert set(own) | set(kind.takes) <= run_options().keys()
    assert not set(own) & ({option.name for option in GENERAL} | set(kind.takes))
    assert set(kind.needed) <= set(own)
    assert all(option is run_options()[name] and option.group == "Data" for name, option in own.items())
    for name, value in {**kind.defaults, **kind.first_weights}.items():
        option = run_options()[name]
        option.check(option.convert(value))
    assert bool(kind.suits) == bool(kind.defaults)
    assert bool(kind.weights_suit) == bool(kind.first_weights)
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in (*kind.suffixes, *kind.reads))


@pytest.mark.parametrize(
    ("options", "preset"),
    [
        ({}, "text"), ({"data": "text8"}, "large_text"), ({"data": "text8", "level": "word"}, "large_text"),
        ({"data": "tinyshakespeare", "level": "word"}, "text"), ({"data": "jsb"}, "music"),
        ({"data": "a.mid"}, "music"), ({"data": "addition"}, "task"),
        *(({"data": name}, "arrays") for name in (*DYNAMICS, "a.csv", "a.npz", "arrays")),
    ],
)  # fmt: skip
def test_presets_tell_data_apart(options: dict[str, Any], preset: str) -> None:
    config = TrainConfig(**options)
    assert config.kind.preset_for(config.values) == preset


def test_a_large_text_is_known_by_the_size_of_its_file(tmp_path: Path) -> None:
    for name, size in (("small.txt", 999_999), ("large.txt", 1_000_000)):
        (tmp_path / name).write_bytes(b"a" * size)
        config = TrainConfig(text=tmp_path / name)
        assert config.kind.preset_for(config.values) == ("large_text" if name == "large.txt" else "text")


def test_a_file_of_other_data_is_no_text() -> None:
    assert kind_of_file("a.TXT") is None
    for name in ("a.csv", "b.npz", "c.midi"):
        assert kind_of_file(name) is kind_of({"data": name})
        with pytest.raises(InputError, match=f"{name} is .*, not a text: give it as data="):
            KINDS["text"].open({"text": name})


# ---------------------------------------------------------------------- no names of kinds elsewhere

ABOUTS = {kind.about for kind in map(KINDS.__getitem__, KINDS.names())}
NAMES = {*KINDS.names(), *(name for names in known_names().values() for name in names), "arrays", "batches", *ABOUTS}
SUFFIXES = {suffix for kind in kinds() for suffix in kind.suffixes}


def compared(found: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the strings that code compares with a value: by ==, != and in, in a match, and as the end of a text."""
    for node in found:
        sides: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "endswith":
            sides = [*node.args]
        for side in sides:
            values = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
            yield from ((node, each.value) for each in values
                        if isinstance(each, ast.Constant) and isinstance(each.value, str))  # fmt: skip


def on_data(node: ast.AST) -> bool:
    """Return whether a comparison looks at the data of a run or their kind: a name such as `config.data` or `kind`."""
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return bool(names & {"data", "kind", "about", "text"})


def test_no_kind_of_data_is_told_by_a_string_outside_its_file() -> None:
    for file in FILES:
        if not file.is_relative_to(PACKAGE / "data"):
            found = {value for node, value in compared(nodes(file)) if value in NAMES | SUFFIXES and on_data(node)}
            assert not found, file
    for code in ('config.data == "sine"', 'kind in ("a table", "a text")', 'data.endswith(".npz")'):
        assert [
            value for node, value in compared(ast.walk(ast.parse(code))) if value in NAMES | SUFFIXES and on_data(node)
        ]


def test_options_of_texts_that_an_optimizer_declares_are_taken_by_texts_only() -> None:
    for optimizer in OPTIMIZERS.names():
        for name in {option.name for option in OPTIMIZERS[optimizer].options} & set(KINDS["text"].takes):
            assert takers(name) == [KINDS["text"]]
