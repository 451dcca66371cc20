"""The options of an update of Hessian-free optimization: one declaration each, and what is derived from it."""

import subprocess
import sys
from dataclasses import fields

import pytest

import hfrnn
from hfrnn.optim.hf_options import declarations
from hfrnn.runs.options import run_options
from hfrnn.training.methods.hf import HF

DECLARED = {each.name: each for each in fields(hfrnn.HessianFreeOptions) if each.metadata["help"]}


def test_the_options_of_an_update_are_options_of_a_run():
    own = run_options()
    assert {each.name for each in declarations()} == DECLARED.keys()
    for option in declarations():
        assert option in HF.options
        assert own[option.name] == option


RANGES = {  # values out of the range of an option, and the ends of the range
    "cg_iterations": ([0], [1]), "noise_limit": ([0.0, -1.0, float("nan"), "much"], [1e-6, None]),
    "cg_window": ([0], [1]), "residual_every": ([-1], [0]), "keep_ratio": ([1.0], [1.01]),
    "warm_start": ([-0.1, 1.1], [0.0, 1.0]), "mu_growth": ([1.0], [1.01, None]), "max_failures": ([0], [1, None]),
    "line_search_factor": ([0.0, 1.0], [0.01, 0.99]), "line_search_backtracks": ([-1], [0]),
    "armijo": ([-0.1, 1.0], [0.0, 0.99]), "tau": ([0.0, 1.0], [0.01, 0.99]), "direction_backtracks": ([-1], [0]),
    "idle_directions": ([-1], [0]), "preconditioner_exponent": ([-0.1, 1.1], [0.0, 1.0]),
    "preconditioner_shift": ([0.0], [0.01, None]), "preconditioner_relative_shift": ([-0.1], [0.0, 10.0]),
    **dict.fromkeys(("preconditioner", "rho_model", "rho_objective", "line_search"), (["other"], [])),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_options_of_updates_and_runs_take_the_ends_of_their_ranges_and_refuse_what_lies_beyond(name):
    (beyond, ends), of_run = RANGES[name], run_options().get(name)  # some are of updates alone
    for value in beyond:
        with pytest.raises(hfrnn.InputError, match=name):
            hfrnn.HessianFreeOptions(**{name: value})
        if of_run is not None and (value != 0 or not of_run.zero):  # which turns it off
            with pytest.raises(hfrnn.InputError):
                of_run.check(of_run.convert(value))
    for value in ends:
        assert getattr(hfrnn.HessianFreeOptions(**{name: value}), name) == value
        if value is not None and of_run is not None:
            of_run.check(of_run.convert(value))


def test_options_default_to_the_papers():
    options = hfrnn.HessianFreeOptions()
    assert (options.cg_iterations, options.cg_epsilon, options.cg_window) == (100, 0.0005, 10)
    assert (options.warm_start, options.mu_growth, options.keep_ratio) == (0.95, 3.0, 1.3)
    assert (options.line_search_factor, options.line_search_backtracks, options.armijo) == (0.8, 60, 0.01)


def test_zero_is_off_in_a_run_and_none_in_an_update():
    off = dict.fromkeys(("noise_limit", "mu_growth", "max_failures"), 0)
    config = hfrnn.TrainConfig(data="sine", **off).resolved()
    options = hfrnn.HessianFreeOptions.from_run(config.values)
    assert {getattr(options, name) for name in off} == {None}


def test_declarations_of_optimizers_import_no_numerics():
    program = (
        "import sys\nfrom hfrnn.runs.optimizers import OPTIMIZERS\n"
        "for name in OPTIMIZERS.names(): assert OPTIMIZERS[name].options\n"
        "print([name for name in ('numpy', 'scipy', 'hfrnn.engine') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
