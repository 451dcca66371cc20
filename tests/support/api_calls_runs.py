"""Small valid calls of the public functions for texts, runs, training and analysis (in the folder of bad_input)."""

from __future__ import annotations

import functools
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import hfrnn
from hfrnn.data.corpora import load_corpus
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.gradcheck import Outcome, gradcheck, table
from hfrnn.tensorboard import TensorBoard

from .api_calls import SEED, Call, N, batch, net, objective, of, theta
from .wrong_values import (
    Kind,
    any_string,
    array,
    choice,
    count,
    function,
    instance,
    new_path,
    nothing,
    number,
    path,
)

SAMPLED = {"level": "char", "text": "abcabc", "min_count": 1}


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


SPECTRUM_BASE = {"objective": objective, "theta": theta, "count": 1, "vectors": 1, "steps": 3}
RUN = path("run")
WHICH = choice("best", "last")
BACKEND = choice("numpy")
KNOWN = {"net": net, "theta": theta, "vocabulary": vocabulary}
KNOWN_SYMBOL = nothing().plus({"right": (lambda: "c", None), "bytes": (lambda: b"c", False)})
MORE_PATHS = {"a folder": (lambda: "void", False), "a missing file": (lambda: Path("nowhere"), False)}


CALLS: list[Call] = [
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
            "constraints": instance(lambda: hfrnn.Constraints(net()), net).or_none(),
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
        "bracket_probe",
        hfrnn.bracket_probe,
        {**KNOWN, "opening": "a", "closing": "b", "control": "c", "allowed": "c", "steps": 3},
        {
            "net": instance(net, batch),
            "theta": array(theta),
            "vocabulary": instance(vocabulary, net),
            **dict.fromkeys(("opening", "closing"), KNOWN_SYMBOL),
            "control": KNOWN_SYMBOL.but({"None": None}),
            "steps": costly(count(1)),
            "trials": costly(count(1)),
            "group": count(1),
            "text": nothing().plus({"right": (lambda: "cccc", True), "bytes": (lambda: b"cccc", False)}).or_none(),
            "allowed": KNOWN_SYMBOL.or_none(),
            "seed": SEED,
            "progress": function(called=False).but({"class": None}).or_none(),
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
]
if find_spec("tensorboard") is not None:
    CALLS.append(Call("TensorBoard", TensorBoard, {}, {"folder": new_path().or_none()}))
