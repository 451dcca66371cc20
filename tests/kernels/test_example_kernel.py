"""examples/peephole_lstm.py: an architecture from outside, held to all that those of the package are held to."""

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import kernel_promises as promises
from support.command_line import call_then_forget as call
from support.cuda_on_cpu import FusedFakeBackend
from support.engine_cases import SITUATIONS, Case, assert_same, everything, moved, plans, vectors
from support.fake_device import FakeBackend
from support.imported import imported
from support.tiny_runs import FLAGS, text_file

import hfrnn
from hfrnn.gradcheck import TOLERANCES, check_case, gradcheck
from hfrnn.gradcheck import Case as CheckCase
from hfrnn.kernels import registry

PROJECT = Path(__file__).resolve().parents[2]
EXAMPLE = PROJECT / "examples" / "peephole_lstm.py"
NAME = "lstm-peephole"


@pytest.fixture
def fresh_registry(monkeypatch):
    monkeypatch.setattr(registry, "_kernels", dict(registry._kernels))


@pytest.fixture
def example(fresh_registry):
    return imported(EXAMPLE)


def case(situation: str, **changes: Any) -> Case:
    network, batch = SITUATIONS[situation]
    return Case(NAME, situation, {"n_in": 5, "hidden": 4, "n_out": 4, **network, **changes}, batch)


def sigma(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def test_a_run_is_that_of_the_definition_unit_by_unit(example):
    chosen = case("carried", bias=None)
    net, batch = chosen.net(), chosen.data()
    theta = vectors(net, batch)[0]
    p, H = net.views(theta), 4
    logits, end = net.run(theta, batch)
    for b in range(batch.B):
        h, c = (list(batch.initial_state[0][name][b]) for name in ("h", "c"))
        for t in range(batch.T):
            symbol, old_h, old_c = batch.inputs[t, b], h, c
            h, c = [], []
            for n in range(H):
                i, f, o, g = (
                    p["layer0.W_x"][symbol, column]
                    + p["layer0.b"][column]
                    + sum(old_h[m] * p["layer0.W_h"][m, column] for m in range(H))
                    for column in (n, H + n, 2 * H + n, 3 * H + n)
                )
                i = sigma(i + p["layer0.p_i"][n] * old_c[n])
                f = sigma(f + p["layer0.p_f"][n] * old_c[n])
                c.append(f * old_c[n] + i * np.tanh(g))
                o = sigma(o + p["layer0.p_o"][n] * c[n])
                h.append(o * np.tanh(c[n]))
            z = [p["output.b_y"][k] + sum(h[n] * p["output.W_y0"][n, k] for n in range(H)) for k in range(net.n_out)]
            np.testing.assert_allclose(logits[t, b], z, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(end[0]["h"][b], h, rtol=1e-12)
        np.testing.assert_allclose(end[0]["c"][b], c, rtol=1e-12)


def test_without_peepholes_it_is_the_lstm(example):
    chosen = case("stack")
    net, batch = chosen.net(), chosen.data()
    plain = hfrnn.Network(**{**net.config, "arch": "lstm"})
    theta = vectors(net, batch)[0]
    of_plain = np.zeros(plain.n_parameters)
    for name, view in net.views(theta).items():
        if ".p_" in name:
            view[...] = 0
        else:
            plain.views(of_plain)[name][...] = view
    f, expected = net.loss_and_gradient(theta, batch), plain.loss_and_gradient(of_plain, batch)
    assert f[0] == pytest.approx(expected[0], rel=1e-13)
    for name, block in plain.views(expected[1]).items():
        np.testing.assert_allclose(net.views(f[1])[name], block, rtol=1e-11, atol=1e-15)
    assert all(np.linalg.norm(net.views(f[1])[f"layer{l}.p_{gate}"]) > 1e-6 for l in (0, 1) for gate in "ifo")


@pytest.mark.parametrize("situation", ["class-softmax", "chain", "embedding", "real", "learned-state", "output-mask"])
def test_the_engine_agrees_with_itself_in_every_situation(example, situation):
    chosen = case(situation)
    net, batch = chosen.net(), chosen.data()
    theta, v, u = vectors(net, batch)
    expected = everything(net, batch, theta, v, u)
    for plan in plans(batch.T, batch.B).values():
        assert_same(everything(net, batch, theta, v, u, plan=plan), expected, rtol=1e-12)
    fake = FakeBackend()
    on_device = everything(chosen.net(backend=fake), moved(batch, fake), theta, v, u)
    assert_same(on_device, expected, rtol=1e-13)
    single = chosen.net(dtype="float32")
    names = [name for name in expected if name != "H"]
    assert_same(everything(single, batch, theta, v, u), expected, rtol=1e-4, names=names)


@pytest.mark.slow
def test_every_derivative_is_right(example):
    outcomes = gradcheck([NAME], 0)
    assert {outcome.check for outcome in outcomes} == set(TOLERANCES) - {"matching", "preactivation"}
    for outcome in outcomes:
        assert outcome.passed, outcome


def test_gradients_of_parts_are_right_though_the_kernel_sums_over_all_sequences(example):
    net = hfrnn.Network(NAME, 4, 5, 4, dtype="float64")
    symbols = np.random.default_rng(0).integers(4, size=(7, 5))
    batch, theta = hfrnn.Batch(symbols[:-1], symbols[1:]), net.init(seed=0)
    objective = hfrnn.Objective(net, batch)
    assert not net.separates_parts
    rows = objective.per_sequence_gradients(theta)
    for b, row in enumerate(rows):
        alone = hfrnn.Objective(net, batch.columns(b, b + 1)).loss_and_gradient(theta)[1]
        np.testing.assert_allclose(row, 6 * alone, rtol=1e-10, atol=1e-13)
    parts = objective.part_gradients(theta, 2) * np.sqrt(30)
    np.testing.assert_allclose(parts, [rows[:3].sum(0), rows[3:].sum(0)], rtol=1e-10, atol=1e-13)


def test_built_in_kernels_keep_parts_apart():
    for arch, backend in product(hfrnn.architectures(), ("numpy", "auto", FusedFakeBackend())):
        assert hfrnn.Network(arch, 4, 6, 4, backend=backend).separates_parts, arch


def test_it_keeps_what_every_kernel_promises(example):
    promises.check_all(NAME)


LINEARISED = "gradient Jv Gv hidden"  # R-forward and backward agree with each other, and not with forward
RFORWARD = "Jv adjoint Gv symmetry semi-definite hidden"
BACKWARD = "gradient adjoint Gv symmetry semi-definite hidden"
CARRIED = "checkpoints"  # right on a single segment
COMPLEX = "hessian"  # right on real numbers

BROKEN: dict[str, tuple[str, str, str]] = {
    # name: what stands in the file, what takes its place, the checks that then fail
    "F1 without U": ("a += U[t]  # F1", "pass", LINEARISED),
    "F4 where o sees the cell before": ('xp.multiply(c, p["p_o"]', 'xp.multiply(before, p["p_o"]', LINEARISED),
    "a cell that is not carried": ('hs[0], cs[0] = state["h"], state["c"]', 'hs[0], cs[0] = state["h"], 0', CARRIED),
    "L5 and L6 without peepholes": ("whole += through  # L5, L6", "pass", LINEARISED),
    "R1 without R(p)": ("Ra += seen", "pass", RFORWARD),
    "R2 without Rc of the step before": ("Rc *= k_c[t]", "Rc[...] = 0", RFORWARD),
    "a tangent that is not carried": ('Rc[...] = Rstate["c"]', "Rc[...] = 0", CARRIED),
    "B1 that overwrites": ("dc += work  # B1", "dc[...] = work", BACKWARD),
    "B2 for real numbers only": ("(slope, adjoint, out=da)", "(slope.real, adjoint, out=da)", COMPLEX),
    "B4 without the transposed": ('transpose(p, "W_h")', 'p["W_h"].reshape(-1, dhs.shape[2])', BACKWARD),
    "B6 that overwrites": ("grad[name] += rows", "grad[name][...] = rows", CARRIED),
    "R1 and B6 where o sees the cell before": ('("p_o", cs[1:], o)', '("p_o", cs[:-1], o)', LINEARISED),
    "an adjoint that is not carried": ('dstate["h"], dstate["c"]', 'dstate["h"], 0', CARRIED),
}


def broken(folder: Path, old: str, new: str) -> None:
    source = EXAMPLE.read_text(encoding="utf-8")
    assert source.count(old) == 1
    (folder / "broken.py").write_text(source.replace(old, new), encoding="utf-8")
    imported(folder / "broken.py")


@pytest.mark.parametrize("name", BROKEN)
def test_a_missing_term_is_noticed(fresh_registry, tmp_path, name):
    old, new, expected = BROKEN[name]
    broken(tmp_path, old, new)
    sizes = {"n_in": 3, "hidden": 3, "n_out": 2, "output_bias": True, "l2": 0.01}
    chosen = Case(NAME, "broken", sizes, {"carried": True, "T": 5, "B": 2})
    net, batch = chosen.net(), chosen.data()
    found = check_case(CheckCase("broken", net, vectors(net, batch)[0], batch))
    failed = {check for check, error, _ in found if not error <= TOLERANCES[check]}
    assert failed == set(expected.split())


@pytest.mark.usefixtures("few_gradcheck_cases")
def test_the_command_checks_a_kernel_of_a_file():
    lines = call("gradcheck", "--kernel", EXAMPLE, NAME).stdout.splitlines()
    assert lines[0].split() == ["allowed", NAME]
    assert lines[-1] == "9 of 9 checks passed"
    assert NAME in json.loads(call("info", "--kernel", EXAMPLE, "--json").stdout)["architectures"]


def test_a_run_with_it_resumes_and_is_read_back_where_the_file_is_named(tmp_path):
    run = tmp_path / "run"
    flags = [*FLAGS, "--arch", NAME, "--peephole-scale", 0.5]
    call("train", "--kernel", EXAMPLE, text_file(tmp_path), *flags, "--out", run)
    assert "peephole_scale = 0.5" in (run / "config.toml").read_text("utf-8")
    call("train", "--kernel", EXAMPLE, "--resume", run, "--updates", 3)
    assert "bits per character" in call("evaluate", "--kernel", EXAMPLE, run).stdout
    for command in ("evaluate", "sample"):
        assert "name the file that registers it: --kernel FILE" in call(command, run, code=2).output


@pytest.mark.parametrize(("name", "content", "problem"), [
    ("notes.txt", "import hfrnn\n", "is not a Python file: give one whose name ends in .py"),
    ("fails.py", "1 / 0\n", "cannot be run (ZeroDivisionError: division by zero): `python "),
    ("empty.py", "import hfrnn\n", "registers nothing: it has to call hfrnn.register_kernel"),
    ("taken.py", "import hfrnn\nhfrnn.register_kernel('rnn', type('X', (hfrnn.Kernel,), {}))\n", "choose another"),
])  # fmt: skip
def test_a_file_that_adds_nothing_is_refused(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content, encoding="utf-8")
    output = call("info", "--kernel", tmp_path / name, code=2).output
    assert f"the kernel file {tmp_path / name} " in output
    assert problem in output


@pytest.mark.slow
def test_the_script_checks_and_trains():
    environment = os.environ | {"PYTHONPATH": str(PROJECT)}
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "9 of 9 checks passed" in lines
    bits = [float(line.split()[2]) for line in lines if line.startswith("update ")]
    assert len(bits) == 5
    assert bits[-1] < bits[0] < 8


@pytest.mark.usefixtures("few_gradcheck_cases")
def test_the_script_ends_with_1_where_a_derivative_is_wrong(example, monkeypatch, capsys):
    class Wrong(example.PeepholeLSTM):
        def rforward(self, p, v, *rest):
            return super().rforward(p, {**v, "p_o": 0 * v["p_o"]}, *rest)

    monkeypatch.setitem(registry._kernels, NAME, Wrong)
    monkeypatch.delattr(hfrnn.training.trainer, "train")
    assert example.main() == 1
    out = capsys.readouterr().out
    assert f"FAILED  {NAME}: Jv is off by 1.0e+00\n        " in out
    assert "layer0.p_o" in out
