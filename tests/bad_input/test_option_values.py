"""Every option refuses a value of the wrong type and a value out of its range, as a flag and in a file."""

from __future__ import annotations

import json
import re

import pytest
from support.refusals import FIELDS, refused, replaced

from hfrnn.cli.arguments import flag_of
from hfrnn.option import option_key

HUGE = "0x" + "f" * 5000  # more digits than Python prints


WRONG_TYPES: dict[str, tuple[str, ...]] = {  # in TOML
    "str": ("true", "1.5", "[]", '["a"]', "{a = 1}", "1979-05-27", HUGE),
    "int": ('"three"', "2.5", "true", "nan", "[1]", "{a = 1}", "1" + "0" * 30, "-1" + "0" * 400, HUGE),
    "float": ('"three"', "true", "nan", "inf", "-inf", "[1.0]", "{a = 1}", "1" + "0" * 400, HUGE),
    "bool": ("1", "0", '"yes"', "[]", "{a = 1}", "nan"),
    "tuple": ("[]", '"a"', "true", '["a"]', "[true]", "[[1]]", "{a = 1}", f"[{HUGE}]", HUGE),
}  # fmt: skip

RANGES: dict[str, tuple[str, ...]] = {  # on the command line
    "text": ("nowhere.txt", "folder", "empty.txt", "latin1.txt", "loop", ""),
    "data": ("encyclopedia", ""),
    "level": ("verse", ""),
    "min_count": ("0", "-1"),
    "max_vocabulary": ("1", "-5"),
    "valid": ("nowhere.txt", "folder", "empty.txt", "latin1.txt", "loop", ""),
    "test": ("nowhere.txt", "folder", "empty.txt", "latin1.txt", "loop", ""),
    "fractions": ("0.5,0.5,0.5", "1,0", "-1,1,1", "0,1,0", "nan,0.5,0.5", "1e999,0,0", "a,b"),
    "length": ("20", "0", "-1"),
    "sequences": ("0", "-1"),
    "sequence_length": ("0", "-3", "999999"),
    "inputs": ("w", "0", "u,u", ""),
    "targets": ("w", "0", "y,y", ""),
    "window": ("0", "-1", "61"),
    "stride": ("0", "-1", "11"),
    "burn_in": ("-1", "10"),
    "ahead": ("-1", "60"),
    "steps_per_beat": ("0", "-1"),
    "time_first": (),
    "loss": ("cubic", ""),
    "standardize": (),
    "unknown": ("zz", "é", ""),
    "arch": ("tnn", ""),
    "hidden": ("0", "-5", "4,0", "big", "2.5", ",", ""),
    "embedding": ("0", "-1"),
    "bias": (),
    "output_bias": (),
    "direct_input": (),
    "direct_output": (),
    "learn_initial_state": (),
    "state_noise": ("-1", "1e999", "nan"),
    "density": ("0", "-0.1", "1.5"),
    "connectivity": ("nowhere", "folder", "text.txt", "loop"),
    "excitatory": ("-0.1", "1.5"),
    "excitatory_output": (),
    "activation": ("cube", ""),
    "order": ("0", "-1"),
    "codes": ("0", "-1"),
    "sublayers": ("0", "-1"),
    "alpha": ("-0.1", "1.5"),
    "learn_alpha": (),
    "context": ("-1",),
    "leak": ("0", "-0.1", "1.5"),
    "learn_leak": (),
    "candidate_bias": (),
    "periods": ("0", "-1", "1,0", "1,2,4", "a"),
    "classes": ("-1", "29"),
    "l2": ("-1",),
    "initializer": ("zeros",),
    "spectral_radius": ("0", "-1"),
    "input_scale": ("0", "-1"),
    "init_scale": ("0", "-1"),
    "init_from": ("nowhere", "folder", "text.txt", "task", "loop"),
    "dtype": ("float16",),
    "optimizer": ("magic",),
    "preset": ("quick",),
    "damping": ("heavy",),
    "mu": ("-1", "1e9"),
    "lambda_": ("-1", "1e9"),
    "metric": ("cubic",),
    "precision": ("float16",),
    "gradient_symbols": ("-1",),
    "first_gradient_symbols": ("-1",),
    "least_damping": ("-0.1", "1.5"),
    "batch_growth": ("0.9", "-1"),
    "average": ("-0.1", "1", "1.5"),
    "sequence_starts": ("anywhere",),
    "curvature_fraction": ("0", "2", "-1"),
    "curvature_symbols": ("0", "-1"),
    "cg_iterations": ("0", "-1"),
    "noise_limit": ("-0.1",),
    "cg_epsilon": ("-1",),
    "warm_start": ("-0.1", "2"),
    "mu_growth": ("1", "0.5", "-1"),
    "rho_model": ("flat",),
    "rho_objective": ("train",),
    "rho_every": ("0", "-1"),
    "search_objective": ("loss", ""),
    "line_search": ("exact",),
    "armijo": ("-0.1", "1"),
    "rho_low": ("1.1",),
    "rho_high": ("0.4",),
    "adapt": ("all", ""),
    "preconditioner": ("full",),
    "preconditioner_exponent": ("-0.1", "1.1"),
    "preconditioner_parts": ("0", "-1"),
    "preconditioner_every": ("0", "-1"),
    "preconditioner_decay": ("-0.1", "1.1"),
    "preconditioner_shift": ("0", "-1", "1e-31", "1e31", "1e300"),
    "preconditioner_relative_shift": ("-0.1",),
    "residual_every": ("-1",),
    "max_failures": ("-1",),
    "learning_rate": ("0", "-1"),
    "momentum": ("-0.1", "1"),
    "nesterov": (),
    "weight_decay": ("-1",),
    "clip_norm": ("-1",),
    "clip_value": ("0", "-1", "1e300"),
    "clip_error": ("0", "-1", "1e300"),
    "max_norm": ("0", "-1"),
    "streams": ("0", "-1", "999"),
    "update_every": ("0", "3", "20"),
    "schedule": ("linear",),
    "constant_epochs": ("0", "-1"),
    "restore_best": (),
    "warm_up": ("-1",),
    "epochs": ("0", "-1"),
    "patience": ("0", "-1"),
    "log_interval": ("0", "-1"),
    "validate_every": ("0", "-1"),
    "out": ("folder", "run", "text.txt", "text.txt/run", "loop", "a\0b", "x" * 300),
    "updates": ("0", "-1"),
    "minutes": ("0", "-1"),
    "target_bits": ("0", "-1"),
    "keep": ("-1",),
    "seed": ("-1",),
    "backend": ("abacus",),
    "threads": ("0", "-1"),
    "shards": ("0", "-1"),
    "rank_timeout": ("0", "-1", "1e7"),
    "checkpoint": ("some", "0", "-1", "1.5", "²", "", "9" * 5000),
    "memory": ("lots", "0", "-1GiB", "nan", "1e999", "1 XB", "20kB", "1e30", ""),
    "sample_length": ("-1",),
}  # fmt: skip
"""Values out of range of every option."""

SIZES = ("hidden", "embedding", "order", "context", "length", "sequences", "streams", "sequence_length", "classes")
"""Options that memory grows with."""

COLUMNS = {"data": "table.csv", "arch": "rnn", "inputs": "u,v", "targets": "y", "window": "10"}
"""Options of a run on a table."""

NEEDED: dict[str, list[str]] = {  # flags that an option needs beside it
    **{
        name: [word for key, value in COLUMNS.items() if key != name for word in (flag_of(key), value)]
        for name in ("inputs", "targets", "window", "stride", "burn_in", "ahead", "loss", "standardize")
    },
    "steps_per_beat": ["--data", "tune.mid", "--arch", "rnn"],
    "time_first": ["--data", "arrays.npz", "--arch", "rnn"],
    **{name: ["--data", "addition", "--arch", "rnn"] for name in ("length", "sequences")},
    **{name: ["--level", "word"] for name in ("min_count", "max_vocabulary")},
    **{name: ["--hidden", "4,4"] for name in ("direct_input", "direct_output")},
    **{name: ["--arch", "scrn"] for name in ("alpha", "learn_alpha", "context")},
    **{name: ["--arch", "leaky"] for name in ("leak", "learn_leak")},
    "activation": ["--arch", "rnn"],
    "candidate_bias": ["--arch", "gru-torch"],
    "order": ["--arch", "hornn"],
    "codes": ["--arch", "fofe-fnn"],
    "sublayers": ["--arch", "gated-feedback"],
    "periods": ["--arch", "clockwork"],
    "lambda_": ["--damping", "tikhonov"],
    **{name: ["--optimizer", "sgd"] for name, spec in FIELDS.items() if getattr(spec, "group", "").startswith("First")},
}


def base_kind(name: str) -> str:
    return "tuple" if FIELDS[name].many else FIELDS[name].kind.__name__


def flags_for(name: str) -> list[str]:
    """Return the flags that an option needs beside it."""
    found = [*NEEDED.get(name, [])]
    if "--data" not in found and name not in ("text", "data"):
        found.insert(0, "text.txt")
    for flag, value in (("--hidden", "4"), ("--sequence-length", "10")):
        if flag not in found and flag_of(name) != flag and not (flag == "--sequence-length" and "--data" in found):
            found += [flag, value]
    return [*found, *([] if name == "updates" else ["--updates", "1"])]


def in_toml(name: str, value: str) -> str:
    """Write a value of the command line as TOML."""
    if base_kind(name) == "str":
        return json.dumps(value)
    if base_kind(name) == "tuple":
        parts = [part if re.fullmatch(r"-?[\d.]+|nan", part) else json.dumps(part) for part in value.split(",")]
        return f"[{', '.join(parts)}]"
    return value


def names_the_option(found: str, name: str, value: str = "") -> bool:
    """Tell whether a sentence is about the value of that option."""
    words = {flag_of(name), option_key(name), option_key(name).replace("_", " ")}
    words |= {"lambda"} if name == "lambda_" else set()
    words |= {"sequences of"} if name == "sequence_length" else set()
    words |= {"architecture"} if name == "arch" else set()
    words |= {"unknown symbols"} if name == "unknown" else set()
    words |= {"share of"} if name == "fractions" else set()
    words |= {"streams"} if name == "streams" else set()
    words |= {"is a folder"} if name in ("text", "valid", "test") else set()
    words |= {repr(value), value or "''"} if base_kind(name) == "str" else set()
    return any(word in found for word in words) and "was given, and" not in found


def test_every_option_has_values_out_of_its_range() -> None:
    assert set(RANGES) == set(FIELDS)
    bare = {name for name, values in RANGES.items() if not values}
    assert bare == {name for name in FIELDS if base_kind(name) == "bool"}
    assert {base_kind(name) for name in FIELDS} == set(WRONG_TYPES)


@pytest.mark.parametrize("name", FIELDS)
def test_an_option_of_the_wrong_type_is_refused(name: str) -> None:
    for value in WRONG_TYPES[base_kind(name)]:
        with replaced("options.toml", f"{option_key(name)} = {value}\n".encode()):
            found = refused("train", "--config", "options.toml", *flags_for(name))
            assert names_the_option(found, name), (value, found)


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "text"])
def test_a_flag_of_the_wrong_type_is_refused(name: str) -> None:
    kind = base_kind(name)
    wrong = {
        "str": (), "bool": ("maybe",), "int": ("three", "2.5", "", "nan", "1" + "0" * 30, "9" * 5000),
        "float": ("three", "", "nan", "inf", "1e999", "9" * 5000),
        "tuple": ("a", "", "1,,2", "9" * 5000, "1" + "0" * 30),
    }[kind]  # fmt: skip
    for value in wrong:
        found = refused("train", *flags_for(name), f"{flag_of(name)}={value}")
        assert names_the_option(found, name), (value[:40], found)


@pytest.mark.parametrize("name", [name for name, values in RANGES.items() if values])
def test_an_option_out_of_range_is_refused(name: str) -> None:
    for value in RANGES[name]:
        flag = [value] if name == "text" else [f"{flag_of(name)}={value}"]
        commands = [["train", *flags_for(name), *flag], ["train", "--dry-run", *flags_for(name), *flag]]
        if name == "out":
            commands.pop()  # a dry run makes no folder
        with replaced("options.toml", f"{option_key(name)} = {in_toml(name, value)}\n".encode()):
            for arguments in [*commands, ["train", "--config", "options.toml", *flags_for(name)]]:
                found = refused(*arguments)
                assert names_the_option(found, name, value), (arguments, found)
                if base_kind(name) in ("int", "float"):
                    assert value in found or str(float(value)).removesuffix(".0") in found, (arguments, found)


@pytest.mark.parametrize("name", SIZES)
def test_a_size_beyond_all_memory_is_refused(name: str) -> None:
    for value in (2**31 - 1, 10**15, 2**63 - 1):
        for command in (["train"], ["train", "--dry-run"]):
            refused(*command, *flags_for(name), flag_of(name), str(value))


def test_a_network_beyond_all_memory_is_refused_whatever_is_kept() -> None:
    network = ["--hidden", str(10**9), "--sequence-length", "10"]
    for checkpoint in ("all", "sqrt", "3"):
        for memory in ("4GiB", "1000000000GB"):
            found = refused("train", "text.txt", *network, "--checkpoint", checkpoint, "--memory", memory)
            assert f"--memory is {memory}" in found
