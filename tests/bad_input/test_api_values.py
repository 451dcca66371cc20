"""Wrong values for the arguments of every public function: each is refused in a sentence that names the argument."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import (
    api_calls,
    api_calls_curvature,
    api_calls_dynamics,
    api_calls_kernels,
    api_calls_optim,
    api_calls_runs,
)
from support.api_calls import Call

import hfrnn
from hfrnn.errors import HfrnnError

TABLES = (api_calls, api_calls_curvature, api_calls_dynamics, api_calls_optim, api_calls_kernels, api_calls_runs)
CALLS = [call for table in TABLES for call in table.CALLS]
LONGEST_MESSAGE = 600
RESULTS = {
    "BracketProbe", "Components", "Evaluation", "FixedPoints", "Influence", "Laplace", "LaplacePrediction",
    "Linearization", "LoadedRun", "Lyapunov", "Minimum", "Perturbation", "Pool", "Prediction", "ProbeCurves",
    "Score", "Spectrum", "TraceEstimate", "TrainingResult", "Trajectories",
}  # fmt: skip
"""Classes whose objects hfrnn makes."""
BASES = {"Callback", "DataKind", "FirstOrderOptimizer", "Kernel", "Loss", "Optimizer", "Tape"}
"""Classes that users derive from, or that hfrnn hands to their kernels."""

Case = tuple[Call, str, str, Any, bool]


def cases() -> Iterator[Case]:
    """Yield all calls with one argument changed: the call, the argument, and the label, factory and validity."""
    for call in CALLS:
        for argument, kind in call.kinds.items():
            for label, make, valid in kind.cases():
                yield call, argument, label, make, valid


@pytest.fixture(autouse=True, scope="module")
def on_numpy() -> Iterator[None]:
    """Let the backend `auto` be NumPy: no loop is compiled for a call that is to be refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hfrnn.kernels.registry.choose_backend", lambda arch, on_gpu=True: ("numpy", "for the tests"))
        yield


ALL = list(cases())
QUICK = {
    "None", "True", "0", "10**5000", "1.5", "NaN", "string", "list", "object", "array", "array of strings", "below",
    "upper case", "another 0", "one entry less", "NaN inside", "masked", "strings",
}  # fmt: skip
"""Labels of the values that are tried by default."""


def fault(call: Call, argument: str, make: Any, valid: bool) -> str:
    """Make a call, and say what is wrong with its outcome; "" if nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call.run(**{argument: make()})
    except HfrnnError as error:
        return f"a valid value was refused: {error}" if valid else fault_of_message(str(error), argument, make())
    except Exception as error:
        return f"raised {type(error).__name__}: {str(error)[:200]}"
    return "" if valid else "accepted"


def fault_of_message(message: str, argument: str, value: object) -> str:
    """Say what is wrong with a message about an argument; one about a file or a name may show it instead."""
    name = argument.rstrip("_")
    shown = (str(value) or "''", repr(value)[:60]) if isinstance(value, str | Path) else ()
    named = any(text in message for text in shown)
    if not named and name not in message and name.replace("_", "-") not in message:
        return f"the message does not name the argument: {message[:300]}"
    if len(message) > LONGEST_MESSAGE or not message.isprintable():
        return f"the message is long or has control characters: {message[:300]!r}"
    if re.search(r"object at 0x|<class|<function|Traceback", message):
        return f"the message shows an object of Python: {message[:300]}"
    return ""


def test_the_base_of_every_call_is_valid() -> None:
    for call in CALLS:
        call.run()


def test_every_public_function_and_class_is_tried() -> None:
    names = [(of, name) for of in (hfrnn, hfrnn.dynamics) for name in of.__all__]
    public = {name: getattr(of, name) for of, name in names if callable(getattr(of, name))}
    checked = {name for name, each in public.items() if not (inspect.isclass(each) and issubclass(each, Exception))}
    assert checked - {call.name.partition(" ")[0] for call in CALLS} == RESULTS | BASES | {"architectures"}
    assert len(ALL) > 5000


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_wrong_values_are_refused_and_right_ones_are_not(call: Call, quick: bool) -> None:
    tried = [case for case in ALL if case[0] is call and (case[2] in QUICK) == quick]
    found = {f"{argument} = {label}": fault(call, argument, make, valid) for _, argument, label, make, valid in tried}
    assert {case: problem for case, problem in found.items() if problem} == {}
