"""Small valid calls of the public functions for texts, runs, training and analysis (in the folder of bad_input)."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

import hfrnn
from hfrnn.data.corpora import load_corpus
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.gradcheck import Outcome, gradcheck, table
from hfrnn.runs.config import all_options
from hfrnn.tensorboard import TensorBoard

from .api_calls import SEED, Call, N, batch, net, objective, of, theta
from .wrong_values import (
    Kind,
    any_string,
    array,
    choice,
    count,
    flag,
    function,
    instance,
    new_path,
    nothing,
    number,
    path,
)

SAMPLED = {"level": "char", "text": "abcabc", "min_count": 1}
NUMBERED_STRINGS = ("checkpoint", "memory", "unknown", "inputs", "targets")
"""Options that take strings, and whole numbers for their digits."""
PAIRED = ("min_count", "max_vocabulary", "rho_low", "rho_high")
"""Options that are valid with other options only."""
PATHS = ("text", "valid", "test", "out", "init_from")


@functools.cache
def vocabulary() -> Vocabulary:
    return Vocabulary.build("abc", "char")


@functools.cache
def scored() -> hfrnn.Evaluation:
    return hfrnn.evaluate(net(), theta(), vocabulary(), "abcabc")


@functools.cache
def density() -> hfrnn.Spectrum:
    return hfrnn.spectrum(objective(), theta(), count=1, vectors=1, steps=3)


def sampled(**arguments: Any) -> list[Any]:
    return list(hfrnn.sample(**arguments))


def numbers() -> Any:
    return np.arange(60) % 3


def costly(kind: Kind) -> Kind:
    """The wrong values of a kind only, because a valid call takes long or fails for other reasons."""

    def accepts(label: str, value: Any) -> bool | None:
        return False if kind.accepts(label, value) is False else None

    return Kind(accepts, {label: (make, None if valid else False) for label, (make, valid) in kind.more.items()})


def of_option(name: str) -> Kind:
    """The kind of an option of a run."""
    option = all_options()[name]
    if option.kind is bool:
        kind = flag()
    elif option.choices:
        kind = choice(*option.choices)
    elif option.kind is str:
        kind = any_string()
        if name in NUMBERED_STRINGS:
            kind = kind.but(dict.fromkeys(("0", "1", "-1", "NumPy's 1", "10**30", "-10**30", "10**5000"), None))
        if name in PATHS:
            kind = kind.but(dict.fromkeys(("empty string", "string with NUL", "string with escapes"), None))
    else:
        low = option.least if option.least is not None else option.above
        high = option.most if option.most is not None else option.below
        if option.kind is int:
            kind = count(-(2**63) if low is None else int(low))
        else:
            bounds = -np.inf if low is None else low, np.inf if high is None else high
            kind = number(*bounds, option.above is not None, option.below is not None)
            kind = kind.but({"10**30": False, "-10**30": False})
        if option.zero:
            kind = kind.but({"0": True, "end 0": True, "below": None})
        if name in PAIRED:
            kind = costly(kind)
    if option.kind is str and option.default is None and name not in PATHS:
        kind = kind.but({"empty string": False})
    if option.many:
        kind = kind.but({"list of a number": option.kind is float})
    if option.optional or option.default is None:
        kind = kind.or_none()
    return kind


SPECTRUM_BASE = {"objective": objective, "theta": theta, "count": 1, "vectors": 1, "steps": 3}
RUN = path("run")
WHICH = choice("best", "last")
BACKEND = choice("numpy")
KNOWN = {"net": net, "theta": theta, "vocabulary": vocabulary}
TRAIN = {"text": "text.txt", "hidden": 4, "updates": 1, "out": "never"}
MORE_PATHS = {"a folder": (lambda: "void", False), "a missing file": (lambda: Path("nowhere"), False)}


def train(**options: Any) -> Any:
    """Train with arguments of which one is wrong; the valid call is tried elsewhere."""
    same = options.keys() == TRAIN.keys() and all(options[name] is TRAIN[name] for name in TRAIN)
    return None if same else hfrnn.train(**options)


@functools.cache
def sequences() -> dict[str, Any]:
    return {"x": np.ones((5, 4, 2)), "y": np.ones((5, 4, 1))}


def train_on_arrays(**options: Any) -> Any:
    """Train on arrays in memory with arguments of which one is wrong; the valid call is tried elsewhere."""
    right = options.keys() == ARRAYS.keys() and options["data"] is sequences()
    return None if right else hfrnn.train(**options)


ARRAYS = {"data": sequences, "arch": "rnn", "hidden": 4, "updates": 1, "out": "never"}


CALLS: list[Call] = [
    Call(
        "train on arrays",
        train_on_arrays,
        ARRAYS,
        {
            "data": nothing()
            .but({"None": None})
            .plus(
                {
                    "x of a list": (lambda: {**sequences(), "x": [1.0]}, False),
                    "objects": (lambda: {**sequences(), "y": np.array([None])}, False),
                    "another name": (lambda: {**sequences(), "z": np.ones(3)}, False),
                    "no y": (lambda: {"x": np.ones((5, 4, 2))}, False),
                    "other lengths": (lambda: {**sequences(), "y": np.ones((4, 4, 1))}, False),
                }
            ),
            "batches": nothing().but({"None": None}),
            "valid": nothing().but({"None": None}),
        },
    ),
    Call(
        "TrainConfig",
        hfrnn.TrainConfig,
        {},
        {
            **{
                name: of_option(name)
                for name in all_options()
                if name
                not in ("order", "activation", "alpha", "learn_alpha", "context", "periods", "leak", "learn_leak")
            },
            "arch_options": nothing().or_none().but({"dict": None}),
        },
    ),
    Call(
        "TrainConfig of hornn-fofe",
        hfrnn.TrainConfig,
        {"arch": "hornn-fofe"},
        {name: of_option(name) for name in ("order", "activation", "alpha")},
    ),
    Call(
        "TrainConfig of scrn",
        hfrnn.TrainConfig,
        {"arch": "scrn"},
        {name: of_option(name) for name in ("alpha", "learn_alpha", "context")},
    ),
    Call(
        "TrainConfig of leaky",
        hfrnn.TrainConfig,
        {"arch": "leaky"},
        {name: of_option(name) for name in ("leak", "learn_leak")},
    ),
    Call(
        "train",
        train,
        TRAIN,
        {
            "config": nothing().but({"None": None}),
            "resume": path().but({"None": None}).plus(MORE_PATHS),
            "callbacks": nothing().but({"empty list": None}).plus({"a class": (lambda: [hfrnn.Callback], False)}),
            "text": path().but({"None": None}).plus(MORE_PATHS),
            "out": costly(of_option("out")),
            **{name: costly(of_option(name)) for name in ("hidden", "updates", "minutes", "optimizer", "seed", "l2")},
        },
    ),
    Call("load", hfrnn.load, {"run": "run"}, {"run": RUN.plus(MORE_PATHS), "which": WHICH, "backend": BACKEND}),
    Call(
        "evaluate",
        hfrnn.evaluate,
        {**KNOWN, "text": "abcabc"},
        {
            "net": instance(net, batch),
            "theta": array(theta),
            "vocabulary": instance(vocabulary, net),
            "text": nothing().plus({"bytes": (lambda: b"abc", False), "one symbol": (lambda: "a", False)}),
            "unknown": choice("error", "skip"),
            "chunk": count(1),
            "progress": function(called=False).but({"class": None}).or_none(),
            "dynamic": instance(hfrnn.Dynamic, net).or_none(),
        },
    ),
    Call("Evaluation.positions", of("positions"), {"self": scored, "parts": 2}, {"parts": count(1, 5)}),
    Call(
        "Evaluation.json_lines",
        of("json_lines"),
        {"self": scored, "vocabulary": vocabulary},
        {"vocabulary": instance(vocabulary, net)},
    ),
    Call(
        "Dynamic",
        hfrnn.Dynamic,
        {},
        {
            "learning_rate": number(0).or_none(),
            "stretch": count(1),
            "decay": number(0, 1).or_none(),
            "mean_square": array(lambda: np.linspace(0.1, 1.0, N))
            .but({"one entry less": None, "no entries": None, "empty array": None, "empty list": None})
            .or_none(),
        },
    ),
    Call("Dynamic.factors", of("factors"), {"self": hfrnn.Dynamic, "net": net}, {"net": instance(net, batch)}),
    Call(
        "mean_square_gradient",
        hfrnn.mean_square_gradient,
        {"net": net, "theta": theta, "symbols": numbers, "stretch": 5},
        {
            "net": instance(net, batch),
            "theta": array(theta),
            "symbols": array(numbers)
            .but({"one entry less": True, "list of numbers": True})
            .plus({"too large": (lambda: numbers() + 3, False)}),
            "stretch": count(1, 59).but({"60": None}),
            "most": count(1),
            "progress": function(called=False).but({"class": None}).or_none(),
        },
    ),
    Call(
        "spectrum",
        hfrnn.spectrum,
        SPECTRUM_BASE,
        {
            "objective": instance(objective, net),
            "theta": array(theta),
            "matrix": choice("gauss-newton", "hessian"),
            "count": count(0),
            "vectors": count(0).but({"1e300": None}),
            "steps": count(1),
            "tolerance": number(0, 1, open_low=True, open_high=True),
            "seed": SEED,
            "progress": function(called=False).but({"class": None}).or_none(),
        },
    ),
    Call("Spectrum.ranked", of("ranked"), {"self": density, "rank": 1}, {"rank": count(1, N)}),
    Call(
        "load_objective",
        hfrnn.load_objective,
        {"run": "run", "symbols": 50},
        {
            "run": RUN.plus(MORE_PATHS),
            "which": WHICH,
            "part": choice("train", "valid").or_none(),
            "symbols": count(1),
            "seed": SEED,
            "backend": BACKEND,
        },
    ),
    Call(
        "sample",
        sampled,
        {"net": net, "theta": theta, "prime": lambda: numbers()[:3], "length": 2},
        {
            "net": instance(net, batch),
            "theta": array(theta),
            "prime": array(lambda: numbers()[:3])
            .but({"one entry less": True})
            .plus({"too large": (lambda: numbers()[:3] + 3, False)}),
            "length": costly(count(0)),
            "temperature": number(0),
            "top_k": count(1).or_none(),
            "seed": SEED,
            "allowed": array(lambda: numbers()[:3])
            .but({"one entry less": True})
            .or_none()
            .plus({"too large": (lambda: [3], False)}),
        },
    ),
    Call(
        "load_corpus",
        load_corpus,
        {"text": "text.txt"},
        {
            "text": path("text.txt").plus(MORE_PATHS),
            "level": choice("char", "byte", "word"),
            "valid_path": path("text.txt").or_none().plus(MORE_PATHS),
            "test_path": path("text.txt").or_none(),
            "fractions": nothing()
            .or_none()
            .plus(
                {
                    "right": (lambda: (0.5, 0.25, 0.25), True),
                    "array": (lambda: np.array([0.5, 0.25, 0.25]), True),
                    "strings": (lambda: ("0.5", "0.25", "0.25"), False),
                    "NaN": (lambda: (np.nan, 0.5, 0.5), False),
                    "two": (lambda: (0.5, 0.5), False),
                }
            ),
        },
    ),
    Call("load_corpus by name", load_corpus, {"name": "python-manual"}, {"name": nothing()}),
    Call(
        "Vocabulary.build",
        Vocabulary.build,
        {"text": "abc abc", "level": "word"},
        {
            "text": any_string().but({"empty string": False}),
            "level": choice("char", "word"),
            "min_count": count(1),
            "max_size": count(2).or_none(),
        },
    ),
    Call(
        "Vocabulary.encode",
        of("encode"),
        {"self": vocabulary, "text": "abc"},
        {
            "text": nothing().but({"empty string": True}),
            "unknown": choice("error", "skip").but({"bytes": False}),
        },
    ),
    Call("Vocabulary.count", of("count"), {"self": vocabulary, "text": "abc"}, {"text": any_string()}),
    Call("Vocabulary.after_first", of("after_first"), {"self": vocabulary, "text": "abc"}, {"text": any_string()}),
    *(
        Call(
            f"Vocabulary.{name}",
            of(name),
            {"self": vocabulary, "ids": numbers},
            {
                "ids": array(numbers, empty=True).but(
                    {"one entry less": True, "empty list": True, "empty array": True}
                ),
            },
        )
        for name in ("decode", "decode_bytes")
    ),
    Call(
        "Vocabulary.from_json",
        Vocabulary.from_json,
        {"content": lambda: vocabulary().to_json()},
        {"content": nothing()},
    ),
    Call("Vocabulary.save", of("save"), {"self": vocabulary, "path": "saved.json"}, {"path": new_path()}),
    Call(
        "Vocabulary.load",
        Vocabulary.load,
        {"path": "run/vocabulary.json"},
        {"path": path("run/vocabulary.json").plus(MORE_PATHS)},
    ),
    Call(
        "gradcheck",
        gradcheck,
        {"archs": []},
        {
            "archs": nothing().but({"None": None, "empty list": None}),
            "seed": SEED,
            "progress": function(called=False).or_none(),
        },
    ),
    Call(
        "table",
        table,
        {"outcomes": [Outcome("rnn", "gradient", 0.0, 1.0, "")]},
        {"outcomes": nothing().but({"empty list": None})},
    ),
    Call("TensorBoard", TensorBoard, {}, {"folder": new_path().or_none()}),
]
