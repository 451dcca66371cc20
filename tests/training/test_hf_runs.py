"""What a run of Hessian-free optimization makes of its options: batches, preconditioner, failures."""

from itertools import pairwise

import pytest
from support.tiny_runs import OPTIONS, callback, metrics, text_file, tiny_train

from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError
from hfrnn.optim.hessian_free import HessianFree
from hfrnn.runs.config import TrainConfig
from hfrnn.sources.open import open_source
from hfrnn.training.methods.hessian_free import HessianFreeMethod
from hfrnn.training.trainer import train


def test_gradient_batches_grow_up_to_the_largest_and_curvature_keeps_its_symbols(tmp_path):
    tiny_train(
        tmp_path, updates=5, gradient_symbols=400, first_gradient_symbols=50, batch_growth=2.0, curvature_symbols=30
    )
    lines = metrics(tmp_path / "run")
    totals = [line["symbols"] for line in lines]
    assert {line["curvature_symbols"] for line in lines} == {30}
    assert [after - before for before, after in pairwise([0, *totals])] == [50, 100, 200, 400, 400]


@pytest.mark.parametrize(("options", "first"), [
    ({}, 5_000), ({"preset": "published"}, 10_000), ({"gradient_symbols": 0}, 0),
    ({"gradient_symbols": 0, "first_gradient_symbols": 300}, 300),
    ({"first_gradient_symbols": 0}, 0),
])  # fmt: skip
def test_batches_grow_by_default_unless_they_hold_the_whole_training_part(options, first):
    assert TrainConfig(**options).resolved().first_gradient_symbols == first


def test_batches_do_not_grow_from_zero_symbols(tmp_path):
    tiny_train(tmp_path, gradient_symbols=400, first_gradient_symbols=0)
    assert [line["symbols"] for line in metrics(tmp_path / "run")] == [400, 800]


def test_the_objectives_of_an_update_are_of_the_sizes_asked_for(tmp_path, monkeypatch):
    seen = []
    update = HessianFree.update

    def watched(self, theta, *objectives, **more):
        seen.append([objective.batch.B for objective in objectives])
        return update(self, theta, *objectives, **more)

    monkeypatch.setattr(HessianFree, "update", watched)
    tiny_train(tmp_path, gradient_symbols=400, curvature_symbols=30, rho_objective="separate")
    tiny_train(tmp_path, "share", gradient_symbols=400, curvature_fraction=0.5)
    assert seen == [[40, 3, 3], [40, 3, 3], [40, 20], [40, 20]]


def test_a_separate_batch_shares_no_sequence_with_that_of_the_gradient(tmp_path):
    options = {**OPTIONS, "gradient_symbols": 900, "rho_objective": "separate"}
    config = TrainConfig(text=str(text_file(tmp_path)), **options).resolved()
    source = open_source(config)
    method = HessianFreeMethod(config, source, Network(**config.network_arguments(source.network)))
    sampler = method.sequences.sampler
    for _ in range(5):
        subset = sampler.draw()
        beside = sampler.draw_beside(subset, 30)
        assert len(set(beside.tolist())) == 30
        assert not set(beside.tolist()) & set(subset.tolist())


def test_a_separate_batch_needs_something_to_be_left_over(tmp_path):
    with pytest.raises(InputError, match="rho_objective= is separate, and the gradient batch holds the whole"):
        tiny_train(tmp_path, gradient_symbols=0, rho_objective="separate")
    assert not (tmp_path / "run").exists()


def test_a_preconditioned_run_computes_its_diagonal_and_takes_other_steps(tmp_path):
    """While CG is far from its solution, which is the same for all."""
    runs = []
    for n, options in enumerate((
        {}, {"preconditioner": "diagonal"}, {"preconditioner": "kronecker", "preconditioner_parts": 2},
        {"preconditioner": "diagonal", "preconditioner_shift": 1e-5, "preconditioner_exponent": 0.5},
    )):  # fmt: skip
        run = tiny_train(tmp_path, f"run{n}", preset="published", cg_iterations=1, **options)
        runs.append(metrics(run.folder, timed=True))
    assert len({round(lines[-1]["train_loss"], 5) for lines in runs}) == len(runs)
    assert [lines[0]["seconds_preconditioner"] > 0 for lines in runs] == [False, True, True, True]


def test_the_gradients_of_the_preconditioner_fit_a_quarter_of_the_memory(tmp_path):
    for memory, most, few in (("4GiB", 2**32, False), ("2MiB", 2**21, True)):
        seen = []
        options = {"preconditioner": "kronecker", "preconditioner_parts": 5000, "gradient_symbols": 200}
        tiny_train(tmp_path, memory, callbacks=[callback(on_start=seen.append)], memory=memory, **options)
        parts, vector = seen[0].method.parts, 4 * seen[0].net.n_parameters
        assert (parts < 5000) == few
        assert parts * vector <= most // 4
        assert seen[0].method.expected_bytes > parts * vector


@pytest.mark.slow
def test_only_the_strength_asked_for_adapts(tmp_path):
    both = {"damping": "structural+tikhonov", "mu": 0.5, "lambda_": 0.01, "updates": 3, "validate_every": 9}
    for adapt, moves in {"both": (True, True), "mu": (True, False), "lambda": (False, True)}.items():
        lines = metrics(tiny_train(tmp_path, adapt, adapt=adapt, **both).folder)
        assert tuple(len({line[name] for line in lines}) > 1 for name in ("mu", "lambda")) == moves, adapt


@pytest.mark.parametrize(("low", "high", "factor"), [(-9.0, 0.0, 2 / 3), (99.0, 100.0, 3 / 2)])
def test_the_bounds_of_rho_say_when_the_damping_changes(tmp_path, low, high, factor):
    result = tiny_train(tmp_path, updates=3, gradient_symbols=400, rho_low=low, rho_high=high, mu_growth=0.0)
    mus = [line["mu"] for line in metrics(result.folder)]
    assert [after / before for before, after in pairwise(mus)] == pytest.approx([factor, factor])


def test_updates_that_fail_in_a_row_end_a_run_and_leave_its_parameters(tmp_path, monkeypatch):
    monkeypatch.setattr(Objective, "loss", lambda self, theta: float("inf"))
    result = tiny_train(tmp_path, preset="published", max_failures=3, updates=50, fractions=(1.0, 0.0, 0.0))
    lines = metrics(result.folder)
    assert [line["failures"] for line in lines] == [1, 2, 3]
    assert all(line["failed"] == "non_finite" and line["step_norm"] == 0.0 for line in lines)
    assert all(line["train_loss"] == line["loss_before"] for line in lines)
    assert result.summary["stopped"] == "no progress"
    again = train(resume=result.folder, updates=60)
    assert (again.summary["stopped"], again.summary["updates"]) == ("no progress", 3)
