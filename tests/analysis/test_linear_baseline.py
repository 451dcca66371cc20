"""Linear models by least squares and by subspaces, and their place beside the scores of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter
from support.data_runs import make_data_runs

import hfrnn
from hfrnn.analysis.linear_arx import ORDERS, arx_models
from hfrnn.analysis.linear_baseline import fit_linear
from hfrnn.analysis.linear_data import Block, simulation_error, units_of
from hfrnn.analysis.linear_subspace import subspace_models
from hfrnn.analysis.sequences import blocks, evaluate_sequences
from hfrnn.cli.evaluate import score_lines
from hfrnn.data.array_data import from_memory
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import InputError
from hfrnn.runs.folder import RunFolder

A, B = np.array([[[1.2, 0.1], [0.0, 0.5]], [[-0.5, 0.0], [0.0, 0.1]]]), np.array([[[1.0, 0.0]], [[0.3, -2.0]]])

POLES = np.array([[0.9, 0.3, 0.0], [-0.3, 0.9, 0.1], [0.0, 0.0, 0.7]])


def system(T: int, columns: int, seed: int) -> tuple[Any, Any]:
    """Inputs and outputs of y_t = y_{t-1} A_1 + y_{t-2} A_2 + u_t B_0 + u_{t-1} B_1 + (3, -1), once it has settled."""
    u = np.random.default_rng(seed).standard_normal((T + 100, columns, 1))
    y = np.zeros((T + 100, columns, 2))
    for t in range(2, T + 100):
        y[t] = y[t - 1] @ A[0] + y[t - 2] @ A[1] + u[t] @ B[0] + u[t - 1] @ B[1] + (3, -1)
    return u[100:], y[100:]


def block(u: Any, y: Any, unknown: float = 0.0) -> Block:
    weights = (np.random.default_rng(1).random(y.shape) >= unknown).astype(float)
    return Block(u, np.where(weights > 0, y, 1e6), weights)


def fit_arx(train: list[Block], valid: list[Block] | None = None, orders: Any = ORDERS) -> Any:
    """The best ARX model of some orders; None if there is none."""
    units = units_of(train)
    found = () if units is None else arx_models(train, units, orders)
    errors = [(simulation_error(model, train if valid is None else valid), n, model) for n, model in enumerate(found)]
    return min(errors, default=(0, 0, None))[2]


def test_the_coefficients_of_a_linear_system_are_found_around_missing_targets() -> None:
    u, y = system(300, 3, 0)
    later = block(*system(400, 1, 5))
    later.weights[:60] = 0  # a simulation begins with the mean
    model = fit_arx([block(u, y, 0.1)], [later], orders=((1, 1), (2, 2), (0, 20)))
    assert (model.past_outputs, model.past_inputs) == (2, 2)
    of_y, of_u = model.units.target_deviation, model.units.input_deviation
    found = model.A * of_y / of_y[:, None]
    np.testing.assert_allclose(found, A, atol=1e-10)
    found = model.B * of_y / of_u[:, None]
    np.testing.assert_allclose(found, [*B, np.zeros((1, 2))], atol=1e-10)
    u, y = system(50, 2, 2)
    np.testing.assert_allclose(model.simulate(u, y[:2]), y, atol=1e-8)
    late = model.simulate(u)[40:]  # from the mean: the system forgets its state
    np.testing.assert_allclose(late, y[40:], atol=1e-3)


def test_an_estimated_state_follows_from_the_known_first_targets() -> None:
    u, y = system(60, 3, 0)
    model = fit_arx([block(*system(300, 3, 1))], orders=((2, 2),))
    first = y[:12].copy()
    first[[0, 3, 4], :2], first[:, 2] = np.nan, np.nan
    np.testing.assert_allclose(model.simulate(u, first)[:, :2], y[:, :2], atol=1e-6)
    np.testing.assert_array_equal(model.simulate(u, first)[:, 2], model.simulate(u)[:, 2])  # nothing is known: the mean
    response = fit_arx([block(*system(900, 3, 1))], orders=((0, 20),))  # its state: the inputs before the first step
    off = [abs(response.simulate(u, given)[12:20] - y[12:20]).mean() for given in (None, y[:12])]
    assert off[1] < 0.5 * off[0]


def test_a_simulation_does_not_read_the_targets_and_pieces_do_not_matter(monkeypatch) -> None:
    u, y = system(400, 2, 3)
    whole = fit_arx([block(u, y)], orders=((3, 1),))
    monkeypatch.setattr("hfrnn.analysis.linear_arx._NUMBERS", 100 * 12)
    parts = fit_arx([block(u[:, :1], y[:, :1]), block(u[:, 1:], y[:, 1:])], orders=((3, 1),))
    np.testing.assert_allclose(parts.simulate(u), whole.simulate(u), rtol=1e-9)
    settled = np.sqrt(np.mean((whole.simulate(u)[60:] - y[60:]) ** 2))
    assert settled < 1e-6


def test_an_unstable_order_is_not_chosen_and_too_few_rows_give_no_model() -> None:
    u = np.random.default_rng(0).standard_normal((40, 1, 1))
    y = np.cumsum(np.cumsum(u, axis=0), axis=0) * 1.5 ** np.arange(40)[:, None, None]
    stable = fit_arx([block(u, y)], [block(np.ones((3000, 1, 1)), np.zeros((3000, 1, 1)))], orders=((2, 1), (0, 1)))
    assert stable.past_outputs == 0
    assert fit_arx([block(u[:10], y[:10])], orders=((5, 5),)) is None
    assert fit_linear([Block(u, y, np.zeros(y.shape))]) is None


def states(T: int, columns: int, seed: int, noise: float = 0.0) -> tuple[Any, Any]:
    """Inputs and outputs of a system of three states, which begins anywhere."""
    rng, made = np.random.default_rng(seed), np.random.default_rng(0)
    M, inputs, outputs, direct = POLES, *(made.standard_normal(shape) for shape in ((2, 3), (3, 2), (2, 2)))
    u, x, y = rng.standard_normal((T, columns, 2)), rng.standard_normal((columns, 3)), np.zeros((T, columns, 2))
    for t in range(T):
        y[t] = x @ outputs + u[t] @ direct + (3, -1)
        x = x @ M + u[t] @ inputs
    return u, y + noise * rng.standard_normal(y.shape)


def test_a_subspace_model_is_the_system_whatever_the_first_states_are() -> None:
    train = [block(*states(300, 2, 1)), block(*states(80, 1, 2))]
    [model] = subspace_models(train, units_of(train), orders=(3,))
    poles = [np.sort_complex(each) for each in (model.modes.poles, np.linalg.eigvals(POLES))]
    np.testing.assert_allclose(*poles, atol=1e-9)
    u, y = states(500, 3, 5)
    np.testing.assert_allclose(model.simulate(u)[450:], y[450:], atol=1e-6)  # the state is forgotten
    first = y[:20].copy()
    first[3:8, 0] = np.nan
    np.testing.assert_allclose(model.simulate(u, first), y, atol=1e-7)
    assert str(model) == "subspace, 3 states"


def test_the_best_kind_is_chosen_on_the_validation_part() -> None:
    train, valid = block(*states(400, 2, 1, 0.5), 0.02), block(*states(400, 2, 3))
    model = fit_linear([train], [valid])
    assert str(model) == "subspace, 3 states"  # noise in the outputs hurts ARX
    assert list(subspace_models([block(*states(29, 50, 1))], model.units)) == []  # too short for two horizons
    u, y = states(300, 1, 1)
    growing = [block(u, y * 1.1 ** np.arange(300)[:, None, None])]
    assert all(abs(each.modes.poles).max() < 1 for each in subspace_models(growing, units_of(growing)))


def test_targets_of_the_last_step_have_a_baseline_without_past_outputs() -> None:
    u = np.random.default_rng(0).standard_normal((6, 200, 2))
    y, weights = np.zeros((6, 200, 1)), np.zeros((6, 200, 1))
    y[-1, :, 0], weights[-1] = 2 * u[-1, :, 0] - u[-2, :, 1] + 4, 1
    model = fit_arx([Block(u, y, weights)], orders=((1, 1), (0, 0), (0, 2)))
    assert (model.past_outputs, model.past_inputs) == (0, 2)
    np.testing.assert_allclose(model.simulate(u)[-1], y[-1], atol=1e-10)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_data_runs(tmp_path_factory.mktemp("data"), "drive", "real", "bits", "same")


def scored(run: Path, *arguments: Any, **how: Any) -> dict[str, Any]:
    net, theta, _ = hfrnn.load(run)
    folder = RunFolder(run)
    return evaluate_sequences(net, theta, folder.config(), *arguments, folder=folder, **how)


@pytest.mark.parametrize(("name", "file", "washout", "steps"), [
    ("drive", "", None, 26 - 4), ("drive", "", 10, 26 - 10), ("drive", "", 0, 26), ("drive", "csv", None, 256),
    ("drive", "csv", 100, 160), ("real", "npz", 4, None), ("bits", "", 3, 2 * 6), ("same", "npz", 8, None),
])  # fmt: skip
def test_a_washout_leaves_out_the_first_steps_of_each_sequence(runs, name, file, washout, steps) -> None:
    path = str(runs[name].parent / f"{name}.{file}") if file else None
    if name == "same":  # sequences of 8 steps
        with pytest.raises(InputError, match="washout is 8, and the longest sequence has 8 steps"):
            scored(runs[name], path=path, washout=washout)
        return
    found = scored(runs[name], path=path, washout=washout)
    assert (found["washout"], found["initial_state"]) == (4 if washout is None else washout, "zeros")
    if steps is None:
        arrays = np.load(path)
        exists = np.arange(9) < arrays["lengths"][:, None]
        steps = int((exists & (arrays["mask"] > 0))[:, washout:].sum())
    assert found["steps"] == steps
    assert ("baseline" in found) == (name != "bits")


def test_the_baseline_is_simulated_on_the_scored_steps_with_the_figures_of_a_network(runs) -> None:
    found = scored(runs["drive"], path=str(runs["drive"].parent / "drive.csv"))
    baseline = found["baseline"]
    assert baseline["model"].startswith("ARX, ")
    assert baseline["steps"] == found["steps"]
    assert baseline["outputs"]["speed"]["fit"] > 95  # speed is linear in u, temp is not
    assert baseline["fit"] > found["fit"] + 20  # the network had 3 updates
    assert baseline["outputs"]["temp"]["fit"] == pytest.approx(100 * (1 - baseline["outputs"]["temp"]["nrmse"]))


def test_with_an_estimated_state_the_linear_model_knows_the_same_targets(runs) -> None:
    path = str(runs["drive"].parent / "drive.csv")
    from_mean = scored(runs["drive"], path=path, washout=0)
    found = scored(runs["drive"], path=path, estimate_state=20)
    assert found["baseline"]["model"] == from_mean["baseline"]["model"]
    assert found["baseline"]["steps"] == from_mean["baseline"]["steps"]
    assert found["baseline"]["rmse"] < from_mean["baseline"]["rmse"]
    later = [scored(runs["drive"], path=path, washout=20, **how)["baseline"]["rmse"]
             for how in ({}, {"estimate_state": 20})]  # fmt: skip
    assert later[1] < later[0]
    assert any("simulated from a state estimated from the same steps." in line for line in score_lines(found, "output"))
    assert not any("from the same steps" in line for line in score_lines(from_mean, "output"))


def test_a_run_may_have_a_washout_of_its_own_and_lost_data_leave_no_baseline(tmp_path: Path) -> None:
    table = make_data_runs(tmp_path, "drive")["drive"].parent / "drive.csv"
    run = hfrnn.train(
        data=str(table), inputs="u", targets="speed", window=40, washout=7, arch="rnn", hidden=2, updates=1,
        backend="numpy", out=tmp_path / "run",
    ).folder  # fmt: skip
    assert scored(run)["washout"] == 7
    assert scored(run, washout=3)["washout"] == 3
    other = table.rename(tmp_path / "other.csv")
    found = scored(run, path=str(other))
    assert found["baseline"] == {"model": None, "reason": "the training part of the run cannot be read"}
    other.rename(table)
    with pytest.raises(InputError, match="the windows of the run have 40 steps"):
        scored(run, washout=40)


def test_padding_is_no_part_of_the_mean_of_the_inputs() -> None:
    rng, xs, ys = np.random.default_rng(0), [], []
    for steps in rng.integers(20, 120, size=40):
        u = 100 + rng.standard_normal((steps, 1))
        delayed = np.concatenate([np.full((2, 1), 100.0), u[:-2]])
        y = lfilter([0.1], [1, -0.9], delayed - 100, axis=0) + 100  # at rest before the first step
        xs.append(u)
        ys.append(y)
    pool = from_memory({"x": xs, "y": ys}, fractions=(1, 0, 0)).train
    found = [*blocks(RaggedBatch(pool, slice(None)))]
    model = fit_linear(found)
    assert model is not None
    assert model.units.input_mean == pytest.approx(np.concatenate(xs).mean(), rel=1e-5)
    assert simulation_error(model, found) < 0.01
