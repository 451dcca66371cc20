"""Every option refuses a value of the wrong type and a value out of its range, as a flag and in a file."""

from __future__ import annotations

import json
import re

import pytest
from support.refusals import FIELDS, refused, replaced

from hfrnn.cli.arguments import flag_of
from hfrnn.kernels.registry import BUILT_IN, kernel_options
from hfrnn.option import option_key

HUGE = "0x" + "f" * 5000  # more digits than Python prints
WRONG_TYPES: dict[str, tuple[str, ...]] = {  # in TOML; the first for every option
    "str": ("true", "1.5", "[]", '["a"]', "{a = 1}", "1979-05-27", HUGE),
    "int": ("2.5", '"three"', "true", "nan", "[1]", "{a = 1}", "1" + "0" * 30, "-1" + "0" * 400, HUGE),
    "float": ('"three"', "true", "nan", "inf", "-inf", "[1.0]", "{a = 1}", "1" + "0" * 400, HUGE),
    "bool": ("1", "0", '"yes"', "[]", "{a = 1}", "nan"),
    "tuple": ('["a"]', "[]", '"a"', "true", "[true]", "[[1]]", "{a = 1}", f"[{HUGE}]", HUGE),
}
WRONG_FLAGS: dict[str, tuple[str, ...]] = {
    "str": (), "bool": ("maybe",), "int": ("2.5", "three", "", "nan", "1" + "0" * 30, "9" * 5000),
    "float": ("nan", "three", "", "inf", "1e999", "9" * 5000),
    "tuple": ("a", "", "1,,2", "9" * 5000, "1" + "0" * 30),
}  # fmt: skip
SHOWN = {"str": "level", "int": "updates", "float": "l2", "bool": "bias", "tuple": "hidden"}
"""One option of each kind, which is tried with every wrong value."""

TEXTS = ("nowhere.txt", "folder", "empty.txt", "latin1.txt", "loop", "")
FURTHER: dict[str, tuple[str, ...]] = {
    "text": TEXTS, "valid": TEXTS, "test": TEXTS, "data": ("encyclopedia", ""),
    "fractions": ("0.5,0.5,0.5", "1,0", "-1,1,1", "0,1,0", "nan,0.5,0.5", "1e999,0,0"),
    "loss": ("hubert", "class-softmax", ""),
    "length": ("20", "0", "-1"), "sequence_length": ("999999",), "inputs": ("w", "0", "u,u", ""),
    "targets": ("w", "0", "y,y", ""), "valid_inputs": ("w", ""), "valid_targets": ("w", ""), "test_inputs": ("w",),
    "test_targets": ("w",), "rows": ("5:1", "a:b", "7"), "valid_rows": ("5:1",), "test_rows": ("5:1",),
    "recording": ("w", ""), "time": ("w", ""), "unit": ("w", ""), "mask": ("w", ""), "missing": ("",),
    "initial_state": ("w", ""), "feedback": ("w",),
    "window": ("61",), "stride": ("11",), "burn_in": ("10",), "ahead": ("60",),
    "unknown": ("zz", "é", ""), "arch": ("tnn", ""), "hidden": ("0", "4,0", "big", "2.5", ",", ""),
    "connectivity": ("nowhere", "folder", "text.txt", "loop"), "periods": ("1,0", "1,2,4"), "classes": ("29",),
    "init_from": ("nowhere", "folder", "text.txt", "task", "loop"), "mu": ("-1", "1e9"), "lambda_": ("-1", "1e9"),
    "rho_low": ("1.1",), "rho_high": ("0.4",), "clip_value": ("1e300",), "streams": ("999",),
    "update_every": ("3", "20"), "out": ("folder", "run", "text.txt", "text.txt/run", "loop", "a\0b", "x" * 300),
    "checkpoint": ("some", "0", "1.5", "²", "", "9" * 5000),
    "memory": ("lots", "0", "-1GiB", "nan", "1e999", "1 XB", "20kB", "1e30", ""),
}  # fmt: skip
"""Wrong values that no declared range excludes."""


def base_kind(name: str) -> str:
    return "tuple" if FIELDS[name].many else FIELDS[name].kind.__name__


def out_of_range(name: str) -> list[str]:
    """Return values of the command line that the declaration of an option excludes, and further wrong ones."""
    option = FIELDS[name]
    found: list[float] = [-1] if option.zero else []
    if option.least is not None and not option.zero:
        found.append(option.least - 1)
    if option.above is not None and not option.zero:
        found += [option.above, option.above - 1]
    if option.most is not None:
        found.append(option.most * 1.5)
    if option.below is not None:
        found.append(option.below)
    texts = [f"{each:.17g}" for each in found]
    return [*texts, *(["nonsense"] if option.choices else []), *FURTHER.get(name, ())]


RANGES = {name: values for name in FIELDS if (values := out_of_range(name))}
SIZES = ("hidden", "embedding", "order", "context", "length", "sequences", "streams", "sequence_length", "classes")
"""Options that memory grows with."""

COLUMNS = {"data": "table.csv", "arch": "rnn", "inputs": "u,v", "targets": "y", "window": "10"}
"""Options of a run on a table."""

NEEDED: dict[str, list[str]] = {  # flags that an option needs beside it
    **{name: ["--arch", arch] for arch in sorted(BUILT_IN) for name in kernel_options(arch)},
    **{
        name: [word for key, value in COLUMNS.items() if key != name for word in (flag_of(key), value)]
        for name in (
            *("inputs", "targets", "window", "stride", "burn_in", "ahead", "loss", "standardize", "recording", "time"),
            *("washout", "split", "split_seed", "decimal", "missing", "skip_rows", "fill", "rows", "bin"),
            "initial_state",
            *(f"{part}_{name}" for part in ("valid", "test") for name in ("inputs", "targets", "rows")),
        )
    },
    "feedback": [
        *("--data", "table.csv", "--arch", "rnn", "--inputs", "u,y", "--targets", "y", "--window", "10"),
        *("--closed-loop", "0.5"),
    ],
    "unit": ["--data", "table.csv", "--arch", "rnn", "--bin", "1", "--time", "u"],
    **{name: ["--data", "tune.mid", "--arch", "rnn"] for name in ("steps_per_beat", "skip_bad")},
    **{name: ["--data", "arrays.npz", "--arch", "rnn"] for name in ("time_first", "mask")},
    **{name: ["--data", "addition", "--arch", "rnn"] for name in ("length", "sequences")},
    **{name: ["--level", "word"] for name in ("min_count", "max_vocabulary")},
    **{name: ["--hidden", "4,4"] for name in ("direct_input", "direct_output")},
    "lambda_": ["--damping", "tikhonov"],
    **{name: ["--optimizer", "sgd"] for name, spec in FIELDS.items() if getattr(spec, "group", "").startswith("First")},
}


def flags_for(name: str) -> list[str]:
    found = [*NEEDED.get(name, [])]
    if "--data" not in found and name not in ("text", "data"):
        found.insert(0, "text.txt")
    for flag, value in (("--hidden", "4"), ("--sequence-length", "10")):
        if flag not in found and flag_of(name) != flag and not (flag == "--sequence-length" and "--data" in found):
            found += [flag, value]
    if name != "backend":
        found += ["--backend", "numpy"]  # nothing is compiled before a value is refused
    return [*found, *([] if name == "updates" else ["--updates", "1"])]


def in_toml(name: str, value: str) -> str:
    if base_kind(name) == "str":
        return json.dumps(value)
    if base_kind(name) == "tuple":
        parts = [part if re.fullmatch(r"-?[\d.]+|nan", part) else json.dumps(part) for part in value.split(",")]
        return f"[{', '.join(parts)}]"
    return value


def names_the_option(found: str, name: str, value: str = "") -> bool:
    words = {flag_of(name), option_key(name), option_key(name).replace("_", " ")}
    others = {"lambda_": "lambda", "sequence_length": "sequences of", "arch": "architecture", "streams": "streams"}
    others |= {"unknown": "unknown symbols", "fractions": "share of"}
    others |= dict.fromkeys(("text", "valid", "test"), "is a folder")
    words |= {others.get(name, flag_of(name))}
    words |= {repr(value), value or "''"} if base_kind(name) == "str" else set()
    return any(word in found for word in words) and "was given, and" not in found


def test_every_option_but_a_flag_has_values_out_of_its_range() -> None:
    assert FIELDS.keys() - RANGES.keys() == {name for name in FIELDS if base_kind(name) == "bool"}
    assert {base_kind(name) for name in FIELDS} == set(WRONG_TYPES)
    assert {kind: base_kind(name) for kind, name in SHOWN.items()} == {kind: kind for kind in WRONG_TYPES}


@pytest.mark.parametrize("name", FIELDS)
def test_an_option_of_the_wrong_type_is_refused(name: str) -> None:
    every = slice(None) if name in SHOWN.values() else slice(1)
    for value in WRONG_TYPES[base_kind(name)][every] if name != "missing" else ("[]",):
        with replaced("options.toml", f"{option_key(name)} = {value}\n".encode()):
            found = refused("train", "--config", "options.toml", *flags_for(name))
            assert names_the_option(found, name), (value, found)
    for value in WRONG_FLAGS[base_kind(name)][every] if name != "missing" else ():
        found = refused("train", *flags_for(name), f"{flag_of(name)}={value}")
        assert names_the_option(found, name), (value[:40], found)


def test_a_text_of_two_lines_stays_within_one_sentence() -> None:
    with replaced("options.toml", b'text = "one\\ntwo"\nlength = 3\n'):
        found = refused("train", "--config", "options.toml")
    assert "length in options.toml was given, and one\\ntwo is a text" in found


@pytest.mark.parametrize("name", RANGES)
def test_an_option_out_of_range_is_refused(name: str) -> None:
    for number, value in enumerate(RANGES[name]):
        flag = [value] if name == "text" else [f"{flag_of(name)}={value}"]
        commands = [["train", *flags_for(name), *flag], ["train", "--dry-run", *flags_for(name), *flag]]
        commands.append(["train", "--config", "options.toml", *flags_for(name)])
        if name == "out":
            commands.pop(1)  # a dry run makes no folder
        with replaced("options.toml", f"{option_key(name)} = {in_toml(name, value)}\n".encode()):
            for arguments in commands[:: len(commands) - 1] if number == 0 else [commands[number % len(commands)]]:
                found = refused(*arguments)
                assert names_the_option(found, name, value), (arguments, found)
                if base_kind(name) in ("int", "float"):
                    assert value in found or str(float(value)).removesuffix(".0") in found, (arguments, found)


@pytest.mark.parametrize("name", SIZES)
def test_a_size_beyond_all_memory_is_refused(name: str) -> None:
    for value, command in ((2**31 - 1, ["train"]), (10**15, ["train", "--dry-run"]), (2**63 - 1, ["train"])):
        refused(*command, *flags_for(name), flag_of(name), str(value))


def test_a_network_beyond_all_memory_is_refused_whatever_is_kept() -> None:
    network = ["--hidden", str(10**9), "--sequence-length", "10"]
    for checkpoint, memory in (("all", "4GiB"), ("sqrt", "1000000000GB"), ("3", "4GiB")):
        found = refused("train", "text.txt", *network, "--checkpoint", checkpoint, "--memory", memory)
        assert f"--memory is {memory}" in found
