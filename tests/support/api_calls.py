"""Calls of public functions, and the kinds of their arguments: networks, batches, objectives and constraints.

The other tables are in `api_calls_curvature.py`, `api_calls_optim.py`, `api_calls_kernels.py` and `api_calls_runs.py`.
The kind of an argument follows from its declaration, or from its name (`USUAL`), unless a table gives another one.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import hfrnn
from hfrnn import checks
from hfrnn.choices import DTYPES, INITIALIZERS, METRICS
from hfrnn.kernels.registry import kernel_options

from .wrong_values import Kind, any_string, array, choice, count, flag, function, instance, nothing, number, string
from .wrong_values import of_option as kind_of_option

N, T, B = 18, 4, 2
"""Weights of `net()`, steps and sequences of `batch()`."""


@dataclass(frozen=True)
class Call:
    """A public function with a valid call, and the kinds of the arguments that are tried.

    `base` holds the arguments of a valid call: values, or factories (callables without arguments); a method gets its
    object as `self`. `about` tells the call from others of the same function.
    """

    function: Callable[..., Any]
    base: Mapping[str, Any]
    kinds: Mapping[str, Kind]
    about: str = ""

    @property
    def name(self) -> str:
        of = type(self.base["self"]()).__name__ + "." if "self" in self.base else ""
        name = self.function.__name__ if of else getattr(self.function, "__qualname__", "")
        return f"{of}{name}{self.about and f' {self.about}'}"

    def run(self, **changed: Any) -> object:
        base = {name: make() if callable(make) else make for name, make in self.base.items() if name not in changed}
        return self.function(**{**base, **changed})


def declared(cls: Any) -> dict[str, Kind]:
    """Return the kinds of the fields of a dataclass that `checked` made."""
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    checked = {each.name: each.metadata["check"] for each in fields if "check" in each.metadata}
    return {name: of_check(*check) for name, check in checked.items()}


def of_check(check: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Kind:
    """Return the kind of the values that a function of `hfrnn.checks` allows."""
    if check is checks.number:
        allowed = arguments[0] if arguments else checks.ANY
        kind = number(allowed.low, allowed.high, allowed.low_open, allowed.high_open)
    else:
        make: dict[Any, Callable[..., Kind]] = {checks.count: count, checks.flag: flag, checks.string: any_string}
        make |= {checks.choice: lambda choices: choice(*choices), checks.function: function}
        kind = make[check](*arguments)
    return kind.or_none() if keywords.get("or_none") else kind


def tried(function: Any, base: Mapping[str, Any], **kinds: Kind | None) -> Call:
    """Return a call that tries every argument of a function but those whose kind is None."""
    found: dict[str, Kind | None] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
            usual = FLAG if isinstance(parameter.default, bool) else USUAL.get(name)
            found[name] = declared(function).get(name) or usual
    found |= kinds
    missing = [name for name, kind in found.items() if kind is None and name not in kinds]
    assert not missing, f"{function}: no kind for {missing}"
    return Call(function, base, {name: kind for name, kind in found.items() if kind is not None})


@functools.cache
def net() -> hfrnn.Network:
    return hfrnn.Network("rnn", 3, 2, 3, dtype="float64")


@functools.cache
def squared() -> hfrnn.Network:
    return hfrnn.Network("rnn", 3, 2, 3, loss="squared", dtype="float64")


def theta() -> Any:
    return np.linspace(-1.0, 1.0, N) + 0.01


def symbols() -> Any:
    return np.arange(T * B).reshape(T, B) % 3


def real() -> Any:
    return np.linspace(-1.0, 1.0, T * B * 3).reshape(T, B, 3)


def weights() -> Any:
    return np.linspace(0.5, 1.5, T * B).reshape(T, B)


@functools.cache
def batch() -> hfrnn.Batch:
    return hfrnn.Batch(symbols(), symbols())


@functools.cache
def objective() -> hfrnn.Objective:
    return hfrnn.Objective(net(), batch(), threads=1)


@functools.cache
def constraints() -> hfrnn.Constraints:
    """No weight is absent, and every weight from the first hidden unit to the others is 0 or more."""
    return hfrnn.Constraints(net(), {"layer0.W_h": np.ones((2, 2))}, {"layer0.W_h": [1, 0]})


@functools.cache
def constrained() -> hfrnn.ConstrainedObjective:
    return hfrnn.ConstrainedObjective(objective(), constraints())


def max_norm() -> hfrnn.MaxNorm:
    return hfrnn.MaxNorm(net(), 2.0)


def allowed() -> Any:
    return np.linspace(0.01, 1.0, N)


def vector(size: int) -> Callable[[], Any]:
    return lambda: np.linspace(-1.0, 1.0, size)


def output(size: int, strided: bool | None = None) -> Kind:
    """Arrays that a function writes to."""
    kind = array(lambda: np.zeros(size), finite=False, lists=False, integers=False)
    return kind.but({"read-only": False, "other byte order": False, "strided": strided})


THETA, FLAG, SEED = array(theta), flag(), count(0).but({"10**30": None})
SIZES: dict[str, bool | None] = {"one entry less": True, "no entries": None, "empty array": None}
ANY_SIZE = array(theta, lists=False, integers=False).but(SIZES)
ABOVE_0, STRENGTH = number(0, open_low=True), number(0)
NETWORK, BATCH, OBJECTIVE = instance(net, batch), instance(batch, net), instance(objective, net)
CALLBACK = function(called=False).but({"class": None}).or_none()
USUAL = {
    "net": NETWORK, "batch": BATCH, "objective": OBJECTIVE, "theta": THETA, "variables": THETA, "seed": SEED,
    "progress": CALLBACK, "structural": STRENGTH, "tikhonov": STRENGTH, "metric": choice(*METRICS), "l2": number(0),
    "clip_error": ABOVE_0.or_none(), "out": output(N).or_none(), "dtype": choice(*DTYPES),
    "loss": choice("softmax", "logistic", "squared"), "n_in": count(1), "n_out": count(1),
    "tolerance": number(0, 1, open_low=True, open_high=True), "max_iterations": count(1),
    "constraints": instance(constraints, net),
}  # fmt: skip
"""The kinds of arguments that have one meaning in all functions."""

NETWORK_OF = {"arch": "rnn", "n_in": 3, "hidden": 2, "n_out": 3}
HIDDEN = count(1).plus({
    "a stack": (lambda: (2, 3), True), "a list": (lambda: [2], True),
    "numbers of NumPy": (lambda: np.array([2, 3]), True), "a stack of strings": (lambda: ("2", "3"), False),
    "a stack with 0": (lambda: (2, 0), False), "a stack with 1.5": (lambda: (2, 1.5), False),
    "a stack in a stack": (lambda: ((2,), 3), False),
})  # fmt: skip
CLASSES = count(1, 3).plus({
    "of each": (lambda: [0, 1, 0], True), "strings": (lambda: ["0", "1", "0"], False),
    "a gap": (lambda: [0, 2, 0], False), "masked": (lambda: np.ma.array([0, 1, 0], mask=True), False),
})  # fmt: skip
PERIODS = nothing().or_none().but({"array without axes": None, "1": None, "NumPy's 1": None}).plus({
    "right": (lambda: (1, 2), True), "with 0": (lambda: (0, 2), False), "strings": (lambda: ("1", "2"), False),
    "1.5": (lambda: (1.5, 2), False),
})  # fmt: skip
TABLE = nothing().or_none().plus({
    "a table": (lambda: {"layer0.W_h": np.ones((2, 2))}, True),
    "of a wrong name": (lambda: {"W_h": np.ones((2, 2))}, False),
})  # fmt: skip
BOUND = number(0, np.inf, True, True).plus({
    "a table": (lambda: {"layer0.W_h": 2.0}, True), "a table of a wrong name": (lambda: {"W_h": 2.0}, False),
    "a table of a wrong number": (lambda: {"layer0.W_h": -2.0}, False),
})  # fmt: skip


def of_network(arch: str) -> Call:
    """Return a call that tries the options of an architecture."""
    kinds = {
        name: PERIODS if name == "periods" else kind_of_option(each) for name, each in kernel_options(arch).items()
    }
    return Call(hfrnn.Network, {**NETWORK_OF, "arch": arch}, kinds, f"of {arch}")


def loss_of_values(inputs: Any, targets: Any) -> float:
    return squared().loss(theta(), hfrnn.Batch(inputs, targets))


def operator(make: Callable[[], Any], rows: int) -> Call:
    """Return a product of an operator with `rows` rows."""
    given = array(vector(N)).but({"NaN inside": None, "infinity inside": None})  # CG notices them itself
    base = {"self": make, "v": vector(N), "out": vector(rows)}
    return Call(type(make()).apply, base, {"v": given, "out": output(rows)})


TARGETS = array(symbols, lists=False).but({"real numbers": None, "trailing axis": None}).or_none()
REAL = array(real, lists=False, integers=False)
REAL_TARGETS = array(real, lists=False).but({"integers": None, "one axis more": None})
LOOPS = nothing().or_none().plus({
    "right": (lambda: [0, None, 2], True), "below 0": (lambda: [0, -1], False), "words": (lambda: ["a"], False),
})  # fmt: skip
CHECKPOINT = count(1).or_none().plus({"sqrt": (lambda: "sqrt", True), "auto": (lambda: "auto", True)})
AT, ON = {"self": net, "theta": theta}, {"self": objective, "theta": theta}

DTYPE = choice(*DTYPES).plus({"NumPy's type": (lambda: np.float32, True), "an integer type": (lambda: np.int32, False)})

CALLS: list[Call] = [
    tried(hfrnn.Network, NETWORK_OF, arch=string("rnn").but({"string": False}), hidden=HIDDEN, classes=None,
        dtype=DTYPE, backend=choice("numpy", "auto"),
        embedding=count(1).or_none(), bias=FLAG.or_none(), output_bias=FLAG.or_none(), recordings=count(0)),
    Call(hfrnn.Network, {**NETWORK_OF, "loss": "class-softmax", "classes": 2}, {"classes": CLASSES}, "of classes"),
    *(of_network(arch) for arch in hfrnn.architectures() if kernel_options(arch)),
    tried(hfrnn.Network.init, {"self": net}, initializer=choice(*INITIALIZERS), spectral_radius=ABOVE_0,
        scale=number(0), W_x=number(0)),
    tried(hfrnn.Network.views, AT, theta=array(theta, finite=False, lists=False).but({"complex numbers": True})),
    *(
        tried(getattr(hfrnn.Network, name), {**AT, "batch": batch})
        for name in (
            "run", "log_probabilities", "score", "loss", "loss_and_gradient", "gauss_newton", "hessian", "jacobian",
        )
    ),
    tried(hfrnn.Batch, {"inputs": symbols, "targets": symbols}, inputs=array(symbols, lists=False), targets=TARGETS,
        weights=array(weights, lists=False, bools=True).or_none(), lengths=array(lambda: np.array([4, 2])).or_none(),
        initial_state=nothing().or_none().but({"empty list": None})),
    Call(hfrnn.Batch, {"inputs": real, "targets": real}, about="of values",
        kinds={
            "inputs": array(real, lists=False, integers=False, finite=False),
            "targets": REAL_TARGETS.but({"NaN inside": True, "infinity inside": True}).or_none(),
        }),
    Call(loss_of_values, {"inputs": real, "targets": real},
        {"inputs": REAL, "targets": REAL_TARGETS.but({"trailing axis": None})}),
    tried(hfrnn.Batch.columns, {"self": batch, "start": 0, "stop": 2}, start=count(0, 1), stop=count(1, 2)),
    tried(hfrnn.Objective, {"net": net, "batch": batch, "threads": 1}, threads=count(1).or_none(),
        shards=count(1).or_none(), memory=count(1).or_none().but({"1": None, "NumPy's 1": None}),
        checkpoint=CHECKPOINT, plan=nothing().or_none(), comm=nothing().or_none(), like=OBJECTIVE.or_none(),
        noise=instance(lambda: hfrnn.StateNoise(0.1), net).or_none(), closed_loop=nothing().or_none()),
    tried(hfrnn.ClosedLoop, {"share": 0.5}, share=number(0, 1), feedback=LOOPS, warm_up=count(1), seed=count(0),
        scaling=nothing().or_none(), draw=count(0),
        sequences=array(lambda: np.array([4, 0])).but({"one entry less": True, "no entries": None}).or_none()),
    tried(hfrnn.StateNoise, {"scale": 0.1}, scale=number(0), seed=count(0), draw=count(0),
        sequences=array(lambda: np.array([4, 0])).but({"one entry less": True, "no entries": None}).or_none()),
    *(
        tried(getattr(hfrnn.Objective, name), ON)
        for name in (
            "loss_and_gradient", "data_loss_and_gradient", "loss", "lazy_loss", "loss_and_logits",
            "squared_gradients", "hessian", "jacobian", "gauss_newton",
        )
    ),
    operator(lambda: objective().gauss_newton(theta()), N),
    operator(lambda: objective().hessian(theta()), N),
    operator(lambda: objective().jacobian(theta()), T * B * 3),
    tried(hfrnn.Constraints, {"net": net}, masks=TABLE, signs=TABLE),
    *(
        tried(getattr(hfrnn.Constraints, name), {"self": constraints, argument: allowed},
              **{argument: array(allowed), "like": array(theta).or_none() if name == "variables" else None})
        for name, argument in (
            ("weights", "variables"), ("variables", "weights"), ("nearest", "weights"), ("allows", "weights"),
            ("initial", "theta"),
        )
    ),
    tried(hfrnn.MaxNorm, {"net": net, "bound": 2.0}, bound=BOUND),
    tried(hfrnn.MaxNorm.impose, {"self": max_norm, "theta": theta}, theta=output(N, strided=False)),
    tried(hfrnn.ConstrainedObjective, {"objective": objective, "constraints": constraints}),
    *(
        tried(getattr(hfrnn.ConstrainedObjective, name), {"self": constrained, "variables": theta})
        for name in (
            "loss", "penalty", "squared_gradients", "hessian", "jacobian", "loss_and_gradient", "gauss_newton",
        )
    ),
    tried(hfrnn.ConstrainedObjective.part_gradients, {"self": constrained, "variables": theta}, parts=None),
]  # fmt: skip
