"""Calls of the public functions for texts, runs, training and analysis, in the folder of tests/bad_input."""

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
from hfrnn.kernels.registry import kernel_options
from hfrnn.report import make_page, write_report
from hfrnn.runs.options import run_options
from hfrnn.tensorboard import TensorBoard

from .api_calls import CALLBACK, DTYPE, FLAG, Call, N, batch, net, theta, tried
from .wrong_values import any_string, array, choice, costly, count, instance, new_path, nothing, number, of_option, path


@functools.cache
def vocabulary() -> Vocabulary:
    return Vocabulary.build("abc", "char")


@functools.cache
def scored() -> hfrnn.Evaluation:
    return hfrnn.evaluate(net(), theta(), vocabulary(), "abcabc")


@functools.wraps(hfrnn.sample)
def sample(**arguments: Any) -> list[Any]:
    return list(hfrnn.sample(**arguments))


def numbers() -> Any:
    return np.arange(60) % 3


@functools.cache
def sequences() -> dict[str, Any]:
    return {"x": np.ones((5, 4, 2)), "y": np.ones((5, 4, 1))}


TRAIN = {"text": "text.txt", "hidden": 4, "updates": 1, "out": "never"}
ARRAYS = {"data": sequences, "arch": "rnn", "hidden": 4, "updates": 1, "out": "never"}


def train(**options: Any) -> Any:
    """Train with arguments of which one is wrong; the valid calls are tried elsewhere."""
    base = {**ARRAYS, "data": sequences()} if "data" in options else TRAIN
    changed = [name for name, value in options.items() if name not in base or value is not base[name]]
    valid = not changed or (changed == ["progress"] and isinstance(options["progress"], bool | np.bool_))
    return None if valid else hfrnn.train(**options)


def fitting(kind: str) -> Any:
    """Return a function that fits an estimator whose arguments are tried, under the name of its class."""

    def fit(**arguments: Any) -> Any:
        y = np.arange(6) % 2
        return getattr(hfrnn, kind)(arch="rnn", **{"hidden": 1, "updates": 1, **arguments}).fit(np.eye(6)[:, :2], y)

    fit.__qualname__ = kind
    return fit


KNOWN = {"net": net, "theta": theta, "vocabulary": vocabulary}
NET, VOCABULARY = instance(net, batch), instance(vocabulary, net)
KNOWN_SYMBOL = nothing().plus({"right": (lambda: "c", None), "bytes": (lambda: b"c", False)})
MORE_PATHS = {"a folder": (lambda: "void", False), "a missing file": (lambda: Path("nowhere"), False)}
RUN = path("run").plus(MORE_PATHS)
WHICH, BACKEND = choice("best", "last"), choice("numpy")
PRIME = array(lambda: numbers()[:3]).but({"one entry less": True})
TEXT_FILE = path("text.txt").or_none()
FRACTIONS = nothing().or_none().plus({
    "right": (lambda: (0.5, 0.25, 0.25), True), "array": (lambda: np.array([0.5, 0.25, 0.25]), True),
    "strings": (lambda: ("0.5", "0.25", "0.25"), False), "NaN": (lambda: (np.nan, 0.5, 0.5), False),
    "two": (lambda: (0.5, 0.5), False),
})  # fmt: skip
IDS = array(numbers, empty=True).but({"one entry less": True, "empty list": True, "empty array": True})
RUNS = nothing().plus({"a number in a list": (lambda: [1], False), "a string": (lambda: "run", False)})
ODD_NAMES = dict.fromkeys(("None", "string", "string of a number", "string with escapes", "long string"))
SYMBOLS = array(numbers).but({"one entry less": True, "list of numbers": True})
MEAN_SQUARE = array(lambda: np.linspace(0.1, 1.0, N)).but(
    dict.fromkeys(("one entry less", "no entries", "empty array", "empty list"))
)
DATA = nothing().but({"None": None}).plus({
    "x of a list": (lambda: {**sequences(), "x": [1.0]}, False),
    "objects": (lambda: {**sequences(), "y": np.array([None])}, False),
    "another name": (lambda: {**sequences(), "z": np.ones(3)}, False),
    "no y": (lambda: {"x": np.ones((5, 4, 2))}, False),
    "other lengths": (lambda: {**sequences(), "y": np.ones((4, 4, 1))}, False),
})  # fmt: skip
NOT_GIVEN = nothing().but({"None": None})


CALLS: list[Call] = [
    tried(hfrnn.load, {"run": "run"}, run=RUN, which=WHICH, backend=BACKEND, dtype=DTYPE.or_none()),
    tried(hfrnn.export, {"run": "run", "folder": "programs", "force": True}, run=RUN, folder=costly(new_path()),
        to=choice("numpy", "torch", "c"), which=WHICH, dtype=DTYPE.or_none(), symbols=FLAG.or_none(),
        force=None),
    tried(hfrnn.evaluate, {**KNOWN, "text": "abcabc"}, net=NET, vocabulary=VOCABULARY,
        text=nothing().plus({"bytes": (lambda: b"abc", False), "one symbol": (lambda: "a", False)}),
        unknown=choice("error", "skip"), chunk=count(1), dynamic=instance(hfrnn.Dynamic, net).or_none()),
    tried(hfrnn.Evaluation.positions, {"self": scored, "parts": 2}, parts=count(1, 5)),
    tried(hfrnn.Evaluation.json_lines, {"self": scored, "vocabulary": vocabulary}, vocabulary=VOCABULARY),
    tried(hfrnn.Dynamic, {}, learning_rate=number(0).or_none(), stretch=count(1), decay=number(0, 1).or_none(),
        mean_square=MEAN_SQUARE.or_none(), constraints=instance(lambda: hfrnn.Constraints(net()), net).or_none()),
    tried(hfrnn.Dynamic.factors, {"self": hfrnn.Dynamic, "net": net}),
    tried(hfrnn.mean_square_gradient, {"net": net, "theta": theta, "symbols": numbers, "stretch": 5},
        symbols=SYMBOLS.plus({"too large": (lambda: numbers() + 3, False)}), stretch=count(1, 59).but({"60": None}),
        most=count(1)),
    tried(hfrnn.load_objective, {"run": "run", "symbols": 50}, run=RUN, which=WHICH, backend=BACKEND, symbols=count(1),
        part=choice("train", "valid").or_none()),
    tried(sample, {"net": net, "theta": theta, "prime": lambda: numbers()[:3], "length": 2},
        prime=PRIME.plus({"too large": (lambda: numbers()[:3] + 3, False)}), length=costly(count(0)),
        temperature=number(0), top_k=count(1).or_none(),
        allowed=PRIME.or_none().plus({"too large": (lambda: [3], False)})),
    tried(hfrnn.bracket_probe, {**KNOWN, "opening": "a", "closing": "b", "control": "c", "allowed": "c", "steps": 3},
        vocabulary=VOCABULARY, opening=KNOWN_SYMBOL, closing=KNOWN_SYMBOL, control=KNOWN_SYMBOL.but({"None": None}),
        steps=costly(count(1)), trials=costly(count(1)), group=count(1), allowed=KNOWN_SYMBOL.or_none(),
        text=nothing().plus({"right": (lambda: "cccc", True), "bytes": (lambda: b"cccc", False)}).or_none()),
    tried(load_corpus, {"text": "text.txt"}, text=path("text.txt").plus(MORE_PATHS), name=None,
        level=choice("char", "byte", "word"), valid_path=TEXT_FILE.plus(MORE_PATHS), test_path=TEXT_FILE,
        fractions=FRACTIONS),
    Call(load_corpus, {"name": "python-manual"}, {"name": nothing()}, "by name"),
    tried(Vocabulary.build, {"text": "abc abc", "level": "word"}, text=any_string().but({"empty string": False}),
        level=choice("char", "word"), min_count=count(1), max_size=count(2).or_none()),
    tried(Vocabulary.encode, {"self": vocabulary, "text": "abc"}, text=nothing().but({"empty string": True}),
        unknown=choice("error", "skip").but({"bytes": False})),
    tried(Vocabulary.count, {"self": vocabulary, "text": "abc"}, text=any_string()),
    tried(Vocabulary.after_first, {"self": vocabulary, "text": "abc"}, text=any_string()),
    tried(Vocabulary.decode, {"self": vocabulary, "ids": numbers}, ids=IDS),
    tried(Vocabulary.decode_bytes, {"self": vocabulary, "ids": numbers}, ids=IDS),
    tried(Vocabulary.from_json, {"content": lambda: vocabulary().to_json()}, content=nothing()),
    tried(Vocabulary.save, {"self": vocabulary, "path": "saved.json"}, path=new_path()),
    tried(
        Vocabulary.load, {"path": "run/vocabulary.json"}, path=path("run/vocabulary.json").plus(MORE_PATHS)
    ),
    tried(gradcheck, {"archs": []}, archs=nothing().but({"None": None, "empty list": None}), progress=CALLBACK),
    tried(
        table, {"outcomes": [Outcome("rnn", "gradient", 0.0, 1.0, "")]}, outcomes=nothing().but({"empty list": None})
    ),
    tried(hfrnn.load_scaling, {"run": "run"},
        run=path("run").plus({"a folder": (lambda: "void", False), "a file": (lambda: "text.txt", False)})),
    tried(hfrnn.save, {"net": net, "theta": theta, "path": "net.safetensors"}, vocabulary=VOCABULARY.or_none(),
        path=new_path().plus({"a folder": (lambda: "void", False)})),
    tried(make_page, {"runs": ["run"]}, runs=RUNS),
    tried(write_report, {"runs": ["run"], "output": "report.html", "force": True}, runs=RUNS,
        output=new_path().or_none().but(ODD_NAMES), force=None),
    Call(hfrnn.TrainConfig, {},
        {
            **{name: of_option(each) for name, each in run_options().items() if name != "excitatory_output"},
            "arch_options": nothing().or_none().but({"dict": None}),
        }),
    Call(hfrnn.TrainConfig, {"arch": "rnn", "excitatory": 0.8},
        {"excitatory_output": of_option(run_options()["excitatory_output"])}, "with signs"),
    *(
        Call(
            hfrnn.TrainConfig, {"arch": arch}, {name: of_option(each) for name, each in kernel_options(arch).items()},
            f"of {arch}",
        )
        for arch in hfrnn.architectures() if kernel_options(arch)
    ),
    Call(train, TRAIN,
        {
            "config": NOT_GIVEN, "resume": path().but({"None": None}).plus(MORE_PATHS),
            "progress": FLAG,
            "callbacks": nothing().but({"empty list": None}).plus({"a class": (lambda: [hfrnn.Callback], False)}),
            "text": path().but({"None": None}).plus(MORE_PATHS),
            **{
                name: costly(of_option(run_options()[name]))
                for name in ("out", "hidden", "updates", "minutes", "optimizer", "seed", "l2")
            },
        }),
    Call(train, ARRAYS, {"data": DATA, "batches": NOT_GIVEN, "valid": NOT_GIVEN}, "on arrays"),
]  # fmt: skip
for name in ("SequenceRegressor", "SequenceClassifier") if find_spec("sklearn") is not None else ():
    CALLS.append(
        Call(fitting(name), {},
            {
                "window": costly(count(1).or_none()), "burn_in": costly(count().or_none()),
                "hidden": costly(count(1).or_none()), "validation_fraction": costly(number(0, 1, open_high=True)),
            })
    )  # fmt: skip
if find_spec("tensorboard") is not None:
    CALLS.append(tried(TensorBoard, {}, folder=new_path().or_none()))
