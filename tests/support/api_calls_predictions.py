"""Small valid calls of the public functions that predict, score and save networks, and write reports."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import hfrnn
from hfrnn.data.scaling import Scaling
from hfrnn.report import make_page, write_report

from .api_calls import FLAG, Call, batch, net, real, squared, theta
from .api_calls_runs import vocabulary
from .wrong_values import array, count, instance, new_path, nothing, path


@functools.cache
def values() -> hfrnn.Batch:
    return hfrnn.Batch(real(), real())


@functools.cache
def scaling() -> Scaling:
    return Scaling(np.zeros(3), np.full(3, 2.0), np.ones(3), np.full(3, 0.5))


def weights() -> Any:
    return np.resize(theta(), squared().n_parameters)


KNOWN = {"net": squared, "theta": weights, "batch": values}
KINDS = {
    "net": instance(squared, values),
    "theta": array(weights),
    "batch": instance(values, net).plus({"symbols": (batch, None)}),
    "scaling": instance(scaling, net).or_none(),
}
NAMES = (
    nothing()
    .or_none()
    .plus(
        {
            "right": (lambda: ["a", "b", "c"], True),
            "two": (lambda: ["a", "b"], False),
            "numbers": (lambda: [1, 2, 3], False),
        }
    )
)

CALLS: list[Call] = [
    Call("predict", hfrnn.predict, KNOWN, {**KINDS, "states": FLAG}),
    Call("score", hfrnn.score, KNOWN, {**KINDS, "names": NAMES}),
    Call("free_run", hfrnn.free_run, {**KNOWN, "steps": 2}, {**KINDS, "steps": count(1)}),
    Call(
        "load_scaling",
        hfrnn.load_scaling,
        {"run": "run"},
        {"run": path("run").plus({"a folder": (lambda: "void", False), "a file": (lambda: "text.txt", False)})},
    ),
    Call(
        "save",
        hfrnn.save,
        {"net": net, "theta": theta, "path": "net.safetensors"},
        {
            "net": instance(net, batch),
            "theta": array(theta),
            "path": new_path().plus({"a folder": (lambda: "void", False)}),
            "vocabulary": instance(vocabulary, net).or_none(),
        },
    ),
    Call(
        "make_page",
        make_page,
        {"runs": ["run"]},
        {
            "runs": nothing().plus({"a number in a list": (lambda: [1], False), "a string": (lambda: "run", False)}),
        },
    ),
    Call(
        "write_report",
        write_report,
        {"runs": ["run"], "output": "report.html", "force": True},
        {
            "runs": nothing(),
            "output": new_path()
            .or_none()
            .but(dict.fromkeys(("None", "string", "string of a number", "string with escapes", "long string"))),
        },
    ),
]
