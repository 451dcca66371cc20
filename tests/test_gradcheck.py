"""gradcheck passes on the kernels as they are, and names the check and the block when one is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.slow import slow_unless

from hfrnn.cli import main
from hfrnn.errors import InputError
from hfrnn.gradcheck import TOLERANCES, gradcheck
from hfrnn.kernels import architectures
from hfrnn.kernels.rnn import RNN

Mutation = Callable[[pytest.MonkeyPatch], None]
few_cases = pytest.mark.usefixtures("few_gradcheck_cases")


@pytest.mark.slow
@pytest.mark.parametrize("arch", architectures())
def test_every_derivative_of_every_architecture_is_right(arch: str) -> None:
    outcomes = {outcome.check: outcome for outcome in gradcheck([arch])}
    needed = {"gradient", "Jv", "adjoint", "Gv", "symmetry", "semi-definite", "hessian", "hidden", "checkpoints"}
    assert needed <= set(outcomes) <= set(TOLERANCES)
    assert arch != "rnn" or set(outcomes) == set(TOLERANCES), "the rnn has all three structural metrics"
    for outcome in outcomes.values():
        assert outcome.passed, outcome
        assert outcome.tolerance == TOLERANCES[outcome.check]


def test_the_tolerances_are_those_that_were_promised() -> None:
    exact = ("gradient", "Jv", "Gv", "hidden", "matching", "preactivation")
    assert all(TOLERANCES[check] <= 1e-9 for check in exact)
    assert TOLERANCES["adjoint"] <= 1e-11
    assert TOLERANCES["symmetry"] <= 1e-12


def backward_of(change: Callable[..., Any]) -> Mutation:
    """Breaks the backward routine of the rnn: `change` gets the gradient's views and what backward returned."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        backward = RNN.backward

        def broken(self: RNN, p: Any, tape: Any, dhs: Any, dstate: Any, grad: Any, *rest: Any, **named: Any) -> Any:
            before = {name: view.copy() for name, view in grad.items()}
            result = backward(self, p, tape, dhs, dstate, grad, *rest, **named)
            return change(before, grad, *result)

        monkeypatch.setattr(RNN, "backward", broken)

    return apply


def rforward_of(change: Callable[[Any, Any, Any], Any], zero: str | None = None) -> Mutation:
    """Breaks the rforward routine of the rnn: the direction of the block `zero` is lost, and `change` the result."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        rforward = RNN.rforward

        def broken(self: RNN, p: Any, v: Any, tape: Any, RU: Any, Rstate: Any) -> Any:
            if zero is not None:
                v = {name: view * 0 if name == zero else view for name, view in v.items()}
            return change(RU, *rforward(self, p, v, tape, RU, Rstate))

        monkeypatch.setattr(RNN, "rforward", broken)

    return apply


def _lost_block(before: Any, grad: Any, dU: Any, dstate: Any) -> Any:
    grad["W_h"][...] = before["W_h"]
    return dU, dstate


def _overwritten_block(before: Any, grad: Any, dU: Any, dstate: Any) -> Any:
    grad["W_h"] -= before["W_h"]
    return dU, dstate


MUTATIONS: dict[str, tuple[Mutation, str, str]] = {
    "a block of zeros": (backward_of(_lost_block), "gradient", "W_h"),
    "a block overwritten": (backward_of(_overwritten_block), "checkpoints", ""),
    "a wrong sign": (backward_of(lambda b, g, dU, ds: (-dU, ds)), "gradient", "layer"),
    "a dropped tangent": (rforward_of(lambda RU, Rhs, Rs: (Rhs, Rs), zero="W_h"), "Jv", "W_h"),
    "a tangent off by 1e-7": (rforward_of(lambda RU, Rhs, Rs: (Rhs * (1 + 1e-7), Rs)), "Jv", "layer"),
    "not a number": (rforward_of(lambda RU, Rhs, Rs: (Rhs * np.nan, Rs)), "Gv", ""),
}


@few_cases
@pytest.mark.parametrize("name", slow_unless({"a block of zeros", "not a number"}.__contains__, MUTATIONS))
def test_a_broken_kernel_is_named_and_ends_with_1(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, check, block = MUTATIONS[name]
    mutate(monkeypatch)
    result = CliRunner().invoke(main, ["gradcheck", "rnn"])
    assert result.exit_code == 1, result.output
    lines = result.stdout.replace("\n        ", " ").splitlines()
    assert any(line.startswith(f"FAILED  rnn: {check} is off by ") and block in line for line in lines), lines
    assert " !" in result.stdout


def test_an_unknown_architecture_is_refused_before_any_check() -> None:
    seen: list[str] = []
    with pytest.raises(InputError, match="'tnn' is not known: use one of rnn, mrnn"):
        gradcheck(["rnn", "tnn"], progress=lambda arch, case: seen.append(arch))
    assert not seen
