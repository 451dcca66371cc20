"""Break hfrnn on purpose, one line at a time, and see whether the tests notice.

`python -m tests.mutations [FILTER]` copies the project once per mutation, replaces one piece of source text in the
copy, and runs there the few tests that ought to fail. It prints a line per mutation and ends with 1 if a mutant
survives, if a mutation's text is not found exactly once, or if the tests do not pass on the untouched copy. The working
tree is never written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
COPIED = ("hfrnn", "tests", "pyproject.toml")
AT_ONCE = 2
SECONDS = 120  # a mutant that runs longer than this is killed, and counts as noticed
PASSED, FAILED = 0, 1  # pytest's exit statuses; any other means that the tests did not run


@dataclass(frozen=True)
class Mutation:
    """Replace `old`, which stands exactly once in `file`, by `new`; `tests` are pytest arguments."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}: {old}  ->  {new}"

    def applicable(self, project: Path) -> bool:
        """Whether the text stands exactly once in the project's file."""
        path = project / self.file
        return path.is_file() and path.read_text(encoding="utf-8").count(self.old) == 1

    def apply(self, project: Path) -> None:
        """Replace the text in the project's file."""
        path = project / self.file
        path.write_text(path.read_text(encoding="utf-8").replace(self.old, self.new), encoding="utf-8")


ORACLE = "tests/oracle/test_oracle_networks.py"
CASES = {  # which of the oracle's cases run for a mutation
    "rnn": ("rnn-single-softmax", "rnn-stack"),
    "relu": ("rnn-relu-stack",),
    "logistic": ("rnn-logistic-stack",),
    "mrnn": ("mrnn-single-softmax", "mrnn-chain"),
    "lstm": ("lstm-single-softmax", "lstm-real-input-carried"),
    "lstm-krause": ("lstm-krause-single-softmax", "lstm-krause-real-input-carried"),
    "mlstm": ("mlstm-single-softmax", "mlstm-one-step-carried"),
    "mlstm-standard": ("mlstm-standard-single-softmax",),
    "losses": ("rnn-single-softmax", "rnn-single-logistic", "rnn-single-squared"),
    "stack": ("rnn-stack", "mrnn-no-direct-output", "mrnn-no-direct-input"),
    "padding": ("rnn-ragged", "mrnn-ragged"),
}


def mutations(file: str, *rows: tuple[str, str, str]) -> list[Mutation]:
    """One for each (key of CASES, old, new)."""
    return [
        Mutation(f"hfrnn/{file}", old, new, (ORACLE, "-k", " or ".join(f"[{case}" for case in CASES[key])))
        for key, old, new in rows
    ]


MUTATIONS = [
    *mutations(
        "kernels/rnn.py",
        ("rnn", 'hs[0] = state["h"]', "hs[0] = 0"),
        ("logistic", '1.0 if name == "tanh" else h', "1.0"),
        ("relu", "out[...] = h.real > 0", "out[...] = 1"),
        ("rnn", 'product(tape, hs[:K], v["W_h"], out=Ra)', "Ra[...] = 0"),
        ("rnn", 'xp.matmul(Rh, p["W_h"], out=work)', 'xp.matmul(Rh, p["W_h"].T, out=work)'),
        ("rnn", 'xp.matmul(da, p["W_h"].T, out=dh)', 'xp.matmul(da, p["W_h"], out=dh)'),
        ("rnn", 'dh[...] = dstate["h"]', "dh[...] = 0"),
        ("rnn", "da += tape.preactivation_adjoint[t]", "da -= tape.preactivation_adjoint[t]"),
        ("rnn", 'add_weight_gradient(tape, hs[:K], dU, grad["W_h"])', 'grad["W_h"] *= 1'),
    ),
    *mutations(
        "kernels/mrnn.py",
        ("mrnn", "work *= U_m[t]", "work *= 1"),
        ("mrnn", "xp.multiply(RU[t, :, H:], xi[t], out=Rm)", "Rm[...] = 0"),
        ("mrnn", "xp.multiply(dm, U_m[t], out=dxi[t])", "dxi[t] = dm"),
        ("mrnn", "xp.multiply(dm, xi[t], out=dU_m[t])", "xp.multiply(dm, m[t], out=dU_m[t])"),
        ("mrnn", "xp.multiply(dh, slope[t], out=da)", "da[...] = dh"),
        ("mrnn", 'xp.matmul(da, p["W_mh"].T, out=dm)', 'xp.matmul(da, p["W_mh"], out=dm)'),
        ("mrnn", 'add_weight_gradient(tape, hs[:K], dxi, grad["W_hm"])', 'grad["W_hm"] *= 1'),
    ),
    *mutations(
        "kernels/lstm.py",
        ("lstm", "Ra[t] += work", "pass"),
        ("lstm", 'Rc[...] = Rstate["c"]', "Rc[...] = 0"),
        ("lstm", 'dc[...] = dstate["c"]', "dc[...] = 0"),
        ("lstm-krause", 'p["W_h"].T, out=dh', '-p["W_h"].T, out=dh'),
        ("lstm-krause", 'tape["h"][:K], dU, grad["W_h"]', 'tape["h"][1:], dU, grad["W_h"]'),
    ),
    *mutations(
        "kernels/cells.py",
        ("lstm", 'rows + 1, B, H)[0] = state["c"]', "rows + 1, B, H)[0] = 0"),
        ("lstm", "c[...] = cs[K % cs.shape[0]]", "c[...] = cs[0]"),
        ("lstm", 'tape.new("h", K + 1, B, H)[0] = state["h"]', 'tape.new("h", K + 1, B, H)[0] = 0'),
        ("lstm-krause", "xp.multiply(f, before, out=c)", "xp.multiply(o, before, out=c)"),
        ("mlstm-standard", "xp.tanh(g, out=g)", "pass"),
        ("lstm", "slope_of_tanh(xp, g, out)", "out[...] = 1"),
        ("lstm-krause", "        out[...] = 1\n", "        out[...] = g\n"),
        ("mlstm", "gates *= work", "pass"),
        ("lstm", "xp.subtract(1.0, gates, out=work)", "xp.add(1.0, gates, out=work)"),
        ("lstm", "k_g *= i  # L4", "pass"),
        ("lstm", "i *= g  # L1", "i *= before"),
        ("lstm", "f *= before  # L2", "f *= cs[1:]"),
        ("mlstm-standard", "o *= factor", "pass"),
        ("lstm-krause", "k_o *= slope", "pass"),
        ("lstm-krause", "*k_o.shape)[...] = k_o", "*k_o.shape)[...] = k_o * slope"),
        ("lstm", 'xp.multiply(o, slope, out=tape.new("k_c", K, B, H))', 'tape.new("k_c", K, B, H)[...] = o'),
        ("lstm", 'Rc *= tape["f"][t]', 'Rc *= tape["k"][t][:, :H]'),
        ("lstm-krause", "Rc += Ri", "Rc -= Ri"),
        ("mlstm", "Rc += Rf", "pass"),
        ("mlstm-standard", "Rc += Rg", "pass"),
        ("lstm-krause", "Rh += Ro", "pass"),
        ("mlstm", 'Rzeta += tape["o"][t] * Rc', "pass"),
        ("lstm", "enumerate((dc, dc, dh, dc))", "enumerate((dc, dh, dc, dc))"),
        ("lstm-krause", "dc += work", "dc[...] = work"),
        ("mlstm", 'dc *= tape["f"][t]', "pass"),
        ("mlstm", 'dc += tape["o"][t] * extra', "pass"),
        ("lstm-krause", 'da[:, 2 * H : 3 * H] += tape["k_zo"][t] * extra', "pass"),
    ),
    *mutations(
        "kernels/mlstm.py",
        ("mlstm", "Ra += RU[:, :, : 4 * H]", "pass"),
        ("mlstm", 'product(tape, m, v["W_m"]', 'product(tape, xi, v["W_m"]'),
        ("mlstm", "Rm += work", "Rm[...] = work"),
        ("mlstm", "xp.multiply(dm, xi[t], out=dU_m[t])", "dU_m[t] = 0"),
        ("mlstm", 'xp.matmul(dxi[t], p["W_hm"].T, out=dh)', 'xp.matmul(dxi[t], p["W_hm"], out=dh)'),
        ("mlstm-standard", 'add_weight_gradient(tape, m, das, grad["W_m"])', 'grad["W_m"] *= 1'),
    ),
    *mutations(
        "kernels/pointwise.py",
        ("mrnn", "xp.subtract(1.0, out, out=out)", "xp.add(1.0, out, out=out)"),
        ("logistic", "x += 0.5", "x += 0.4"),
        ("rnn", "grad += work", "grad[...] = work"),
    ),
    *mutations(
        "heads.py",
        ("losses", "xp.multiply(p, Rz.sum(axis=-1, keepdims=True), out=work)", "work[...] = 0"),
        ("losses", "xp.subtract(1.0, p, out=work)", "work[...] = 1"),
        ("losses", "return 0.5 * (difference", "return (difference"),
        ("losses", "- targets * z).sum(axis=-1)", "- z).sum(axis=-1)"),
        ("losses", "targets.reshape(-1)] -= 1", "targets.reshape(-1)] += 1"),
        ("rnn", "self._add_map(v, hs, tape, Rz, start=False)", "pass"),
        ("lstm", 'Rz += v["b_y"]', "pass"),
        ("lstm", 'grad["b_y"] += rows(dz).sum(axis=0)', 'grad["b_y"] += rows(dz).mean(axis=0)'),
        ("stack", "z += product(tape, hs[l]", "z[...] = product(tape, hs[l]"),
    ),
    *mutations(
        "input_map.py",
        ("stack", 'terms.append((layer.below, below, own.get("W_below")))', "pass"),
        ("stack", "self.xp.matmul(rows(dU)[:, start : start + width], columns.T, out=rows(work))", "work[...] = 0"),
        ("lstm", "W, b = self._with_bias(W, biased, b), None", "b = None"),
        ("lstm", ".sum(axis=0)  # B1", ".mean(axis=0)  # B1"),
        ("stack", "terms += [(layer.below, below, vown.get", "terms += [(layer.below, Rbelow, vown.get"),
    ),
    *mutations(
        "sweep.py",
        ("padding", "p *= self.scale[stretch.span]", "p /= self.total_weight"),
        ("padding", "Rz *= self.scale[stretch.span]", "Rz /= self.total_weight"),
        ("padding", "term *= self.mask[stretch.span]", "pass"),
        ("rnn", "strength = structural / self.total_weight", "strength = structural"),
        ("rnn", 'tape["Ra"] if self.metric == "preactivation" else Rhs', "Rhs"),
        ("rnn", "Rstate = self._rforward(stretch, v, Rstate)", "self._rforward(stretch, v, Rstate)"),
        ("rnn", "dstate = self._backward(stretch, dhs, dstate, grad)", "self._backward(stretch, dhs, dstate, grad)"),
        ("stack", "below = stretch.hs[l]\n", "below = Rbelow\n"),
        ("stack", "dh[...] = 0", "pass"),
    ),
]


def copy_project(source: Path, target: Path) -> None:
    """What the tests need, and nothing else."""
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        else:
            shutil.copy(source / name, target / name)


def run_tests(folder: Path, tests: tuple[str, ...]) -> tuple[int | None, str]:
    """Pytest's exit status (None: out of time) and the end of what it said, for a copy of the project."""
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    environment = os.environ | one_thread | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, "out of time"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return done.returncode, "\n".join(lines[-4:])


def try_mutation(snapshot: Path, mutation: Mutation | None, tests: tuple[str, ...]) -> tuple[int | None, str, float]:
    """Run tests on a fresh copy of the snapshot with a mutation applied (None: untouched)."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="hfrnn-mutation-") as name:
        folder = Path(name)
        copy_project(snapshot, folder)
        if mutation is not None:
            mutation.apply(folder)
        status, words = run_tests(folder, tests)
    return status, words, time.perf_counter() - start


def try_all(snapshot: Path, chosen: list[Mutation]) -> list[str]:
    """Try the mutations, and the same tests without any; prints a line for each, returns the problems."""
    problems = [f"not found exactly once: {mutation}" for mutation in chosen if not mutation.applicable(snapshot)]
    chosen = [mutation for mutation in chosen if mutation.applicable(snapshot)]
    untouched = sorted({mutation.tests for mutation in chosen})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        baselines = [pool.submit(try_mutation, snapshot, None, tests) for tests in untouched]
        trials = [pool.submit(try_mutation, snapshot, mutation, mutation.tests) for mutation in chosen]
        for tests, baseline in zip(untouched, baselines, strict=True):
            status, words, _ = baseline.result()
            if status != PASSED:
                problems.append(f"status {status} without any mutation: pytest {' '.join(tests)}\n{words}")
        for mutation, trial in zip(chosen, trials, strict=True):
            status, words, seconds = trial.result()
            verdict = {FAILED: "noticed", None: "noticed (out of time)", PASSED: "SURVIVED"}.get(status, "DID NOT RUN")
            print(f"{verdict:10} {seconds:5.1f} s  {mutation}", flush=True)
            if verdict.isupper():
                problems.append(f"{verdict.lower()}: {mutation}\n{words}")
    return problems


def main(wanted: str = "") -> int:
    """Try every mutation whose description contains `wanted`; returns the exit status."""
    start = time.perf_counter()
    chosen = [mutation for mutation in MUTATIONS if wanted in str(mutation)]
    with tempfile.TemporaryDirectory(prefix="hfrnn-snapshot-") as name:
        copy_project(PROJECT, Path(name))
        problems = try_all(Path(name), chosen)
    print(f"{len(chosen)} mutations in {time.perf_counter() - start:.0f} s, {len(problems)} problems")
    for problem in problems:
        print(f"\n{problem}")
    return 1 if problems or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
