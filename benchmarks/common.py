"""What the benchmarks share: facts about the machine, cases, candidates checked and timed in turn, JSON and plots."""

from __future__ import annotations

import datetime
import gc
import importlib.metadata
import importlib.util
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

import hfrnn
from hfrnn.arrays.threads import blas_pools
from hfrnn.errors import HfrnnError, how_to_install
from hfrnn.files import write_atomic
from hfrnn.kernels.clockwork import Clockwork
from hfrnn.training.trainer import Interrupted

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
PACKAGES = (
    "hfrnn", "numpy", "scipy", "jax", "jaxlib", "torch", "curvlinops-for-pytorch", "kron-torch", "numba",
    "cupy-cuda12x", "cupy-cuda13x",
)  # fmt: skip
BLAS_VARIABLES = ("OPENBLAS_", "OMP_", "MKL_", "GOTO_", "BLIS_", "XLA_", "NPY_")
REFERENCE = "hfrnn"
REST = 0.02
"""Seconds between candidates, for the idle threads of the one before to fall asleep."""


class Command(click.Command):
    """Shows the errors that hfrnn foresees as one sentence, and every option's default; says how to go on.

    A command that trains goes on with its runs where an interruption left them.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        context = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}
        super().__init__(*arguments, context_settings=context, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Interrupted:
            click.echo("interrupted: the same command goes on from here", err=True)
            raise SystemExit(Interrupted.exit_code) from None
        except HfrnnError as error:
            raise click.ClickException(str(error)) from error


# ---------------------------------------------------------------------- the machine


def machine(threads: int, backend: Any = None) -> dict[str, Any]:
    """The facts that a figure depends on; `backend` is the one in use if it is a GPU's."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command(),
        "commit": commit(),
        "processor": processor(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpu": None if backend is None else _gpu_name(backend),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES if version(name)},
        "blas": [
            f"{pool['internal_api']} {pool['version']}, {pool.get('architecture')} kernels" for pool in blas_pools()
        ],
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(BLAS_VARIABLES)},
        "threads": threads,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def command() -> str:
    """The command line of this process, with the names alone of files elsewhere on the machine."""
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(HERE.parent).as_posix() if script.is_relative_to(HERE.parent) else script.name
    arguments = [Path(each).name if Path(each).is_absolute() else each for each in sys.argv[1:]]
    return shlex.join(["python", shown, *arguments])


def _gpu_name(backend: Any) -> str:
    name = backend.xp.cuda.runtime.getDeviceProperties(0)["name"]
    return str(name.decode() if isinstance(name, bytes) else name)


def version(package: str) -> str | None:
    """The installed version, None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """The processor's name, with family and model where the system tells them."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        pairs = (line.split(":", 1) for line in info.read_text().split("\n\n")[0].splitlines() if ":" in line)
        facts = {key.strip(): value.strip() for key, value in pairs}
        if "model name" in facts:
            return f"{facts['model name']} (family {facts.get('cpu family')}, model {facts.get('model')})"
    return platform.processor() or platform.machine()


def commit(folder: Path = HERE) -> str | None:
    """The commit of the checkout that holds a folder, with "-dirty" if files differ; None outside a checkout."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def print_machine(facts: Mapping[str, Any]) -> None:
    """The facts on the screen; a warning where the environment holds BLAS to other kernels than the machine's own."""
    for name, value in facts.items():
        if value:
            click.echo(f"{name:12} {_inline(value)}")
    if "OPENBLAS_CORETYPE" in facts["environment"]:
        click.echo(
            "warning: OPENBLAS_CORETYPE is set: NumPy's products (hfrnn's and the peak's) may not run on the kernels "
            "made for this processor, while PyTorch and JAX are not held back; unset it for figures to compare",
            err=True,
        )


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


def available(peers: Iterable[str], extra: str = "peers") -> list[str]:
    """Those of the peers that are installed; a line on the screen for each that is not."""
    found = [peer for peer in peers if importlib.util.find_spec(peer) is not None]
    for peer in peers:
        if peer not in found:
            click.echo(f"{peer} is left out: it is not installed; {how_to_install(extra)}")
    return found


# ---------------------------------------------------------------------- timing


@dataclass(frozen=True)
class Timing:
    """Seconds a call: median, least and most of several rounds."""

    median: float
    minimum: float
    maximum: float
    rounds: int

    def per(self, parts: int) -> Timing:
        """The same for one of `parts` equal parts of the call."""
        return Timing(self.median / parts, self.minimum / parts, self.maximum / parts, self.rounds)


def seconds_a_call(run: Callable[[], object], seconds: float) -> float:
    """Call again and again until `seconds` have passed; `run` returns when its work is done."""
    calls, start = 0, time.perf_counter()
    while True:
        run()
        calls += 1
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return elapsed / calls


def alternate(candidates: Mapping[str, Callable[[], object]], rounds: int, seconds: float) -> dict[str, Timing]:
    """Time the candidates in turn, `rounds` times over, each turn at least `seconds` long, after a call to warm up."""
    for run in candidates.values():
        run()
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            time.sleep(REST)
            samples[name].append(seconds_a_call(run, seconds))
    return {
        name: Timing(statistics.median(values), min(values), max(values), len(values))
        for name, values in samples.items()
    }


# ---------------------------------------------------------------------- cases and candidates


@dataclass
class Case:
    """The arrays that all candidates share: V symbols in and out, or `values`, real inputs and outputs for V = 0."""

    arch: str
    H: int
    T: int
    B: int
    V: int
    dtype: str = "float32"
    backend: str = "numpy"
    values: tuple[int, int] = (3, 2)
    net: Any = field(init=False)

    def __post_init__(self) -> None:
        rng, (n, m) = np.random.default_rng(0), (self.V, self.V) if self.V else self.values
        settings: dict[str, Any] = {"dtype": self.dtype, "backend": self.backend}
        if self.V:
            self.net = hfrnn.Network(self.arch, n, self.H, m, **settings)
            symbols = rng.integers(0, n, (self.T + 1, self.B)).astype(np.int32)
            self.inputs, self.targets = symbols[:-1].copy(), symbols[1:].copy()
        else:
            self.net = hfrnn.Network(self.arch, n, self.H, m, loss="squared", **settings)
            self.inputs, self.targets = (
                rng.standard_normal((self.T, self.B, k)).astype(self.dtype) for k in (n, m)
            )  # fmt: skip
        self.theta = self.net.backend.to_host(self.net.init(seed=0))
        self.v = rng.standard_normal(self.net.n_parameters).astype(self.dtype)

    def views(self, vector: np.ndarray) -> dict[str, np.ndarray]:
        """The blocks of a host vector under their last names."""
        return {name.split(".")[1]: view for name, view in self.net.views(vector).items()}

    def join(self, blocks: dict[str, Any]) -> np.ndarray:
        return np.concatenate([np.asarray(blocks[b.name.split(".")[1]]).ravel() for b in self.net.parameters.blocks])

    def unit(self) -> float:
        """The operations of all matrix products of one forward pass; a one-hot input is a look-up, which has none."""
        maps = [b for b in self.net.parameters.blocks if len(b.shape) > 1 and not b.name.endswith((".W_x", ".E"))]
        sizes = {b.name: float(b.size) for b in maps}
        for l, layer in enumerate(self.net.layers):
            if isinstance(layer.kernel, Clockwork):  # what a module hears, in the steps that it takes
                heard = ((part, run.stop - run.start) for part in layer.kernel.groups for run in part.inputs)
                sizes[f"layer{l}.W_h"] = sum(part.width * rows / part.period for part, rows in heard)
        return 2.0 * self.T * self.B * sum(sizes.values())

    def input_unit(self) -> float:
        """The operations of the input maps of real inputs in one forward pass."""
        maps = [b for b in self.net.parameters.blocks if not self.V and b.name.endswith(".W_x")]
        return 2.0 * self.T * self.B * sum(b.size for b in maps)

    def __str__(self) -> str:
        kind = f"V={self.V}" if self.V else "{} inputs, {} outputs".format(*self.values)
        return f"{self.arch} H={self.H} T={self.T} B={self.B} {kind} {self.dtype}"


@dataclass(frozen=True)
class Candidate:
    """One way to compute an operation. `make` prepares, untimed, and returns what is timed: it blocks until done."""

    name: str
    operation: str
    variant: str
    make: Callable[[], Callable[[], Any]]
    flat: Callable[[Any], np.ndarray] = np.atleast_1d
    """The result as a vector to compare."""
    parts: int = 1
    """How many of the operation one call makes."""
    slack: float = 1.0
    """How much further than other operations' its result may be off: a CG run amplifies the rounding of products."""


def grouped(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """By operation, in order."""
    operations: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        operations.setdefault(candidate.operation, []).append(candidate)
    return operations


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """|a - b| / |b|, infinite where something is not finite."""
    error = float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b.astype(np.float64)))
    return error if np.isfinite(error) else np.inf


@dataclass
class Chosen:
    """The fastest variant that agrees, of each name; how far it is off; what was left out and why."""

    best: dict[str, Candidate] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def largest_error(self) -> float:
        return max(self.errors.values())


def choose(candidates: list[Candidate], tolerance: float) -> tuple[Chosen, Any]:
    """Check all candidates of one operation against the first; choose each name's fastest variant that agrees."""
    chosen, reference, first = Chosen(), None, None
    for candidate in candidates:
        label = f"{candidate.name} ({candidate.variant})"
        try:
            run = candidate.make()
            result = run()
        except (RuntimeError, NotImplementedError) as error:  # a peer that cannot do it says so
            if candidate.name == REFERENCE:
                raise
            chosen.left_out.append(f"{label}: {str(error).splitlines()[0][:120]}")
            continue
        flat = candidate.flat(result)
        if reference is None:
            reference, first = flat, result
        error = difference(flat, reference)
        if error > tolerance * candidate.slack:
            if candidate.name.startswith(REFERENCE):
                raise click.ClickException(f"{label} differs from {REFERENCE} by {error:.1e} in {candidate.operation}")
            chosen.left_out.append(f"{label}: differs by {error:.1e}")
            continue
        seconds = chosen.seconds.setdefault(candidate.name, {})
        seconds[candidate.variant] = min(seconds_a_call(run, 0.0) for _ in range(2))
        click.echo(f"  {candidate.operation}: {label} {seconds[candidate.variant] * 1e3:.2f} ms, agrees to {error:.0e}")
        if seconds[candidate.variant] == min(seconds.values()):
            chosen.best[candidate.name] = candidate
            chosen.errors[candidate.name] = error
        del run
        gc.collect()
    names = {candidate.name for candidate in candidates}
    if names - set(chosen.best):
        raise click.ClickException(
            f"no variant of {', '.join(sorted(names - set(chosen.best)))} agrees with {REFERENCE} in "
            f"{candidates[0].operation}: {'; '.join(chosen.left_out)}"
        )
    return chosen, first


# ---------------------------------------------------------------------- results


def add_floors(record: dict[str, Any], peak: float) -> None:
    """The time of the matrix products alone at the peak, and the share of the peak that each candidate reaches."""
    for operation in record["operations"].values():
        operation["floor"] = operation["units"] * record["unit_flops"] / peak
        for timing in operation["candidates"].values():
            timing["share_of_peak"] = operation["floor"] / timing["median"]


def label(record: dict[str, Any]) -> str:
    return f"{record['arch']}, H {record['H']}, T {record['T']}, B {record['B']}"


def print_record(record: dict[str, Any]) -> None:
    table = Table("operation", "by", "ms", "least to most", "times hfrnn's", "of peak", "variant", title=label(record))
    for operation, found in record["operations"].items():
        table.add_section()
        for name, t in found["candidates"].items():
            low, high = t["minimum"] * 1e3, t["maximum"] * 1e3
            table.add_row(
                operation, name, f"{t['median'] * 1e3:.2f}", f"{low:.2f} to {high:.2f}", f"{t['times_hfrnn']:.2f}",
                f"{t['share_of_peak']:.0%}", t["variant"],
            )  # fmt: skip
    Console(width=140).print(table)
    for operation, found in record["operations"].items():
        for line in found["left_out"]:
            click.echo(f"left out of {operation}: {line}")


def plot_records(path: Path, records: list[dict[str, Any]], operations: Iterable[str]) -> None:
    """A panel of bars for each record and operation, with a line at the floor; PNG or SVG by the path's ending."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [(operation, record) for record in records for operation in operations]
    rows = -(-len(panels) // 2)
    figure, axes = pyplot.subplots(rows, 2, figsize=(12, 1 + 2.2 * rows), squeeze=False, layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (operation, record) in zip(axes.flat, panels, strict=False):
        found = record["operations"][operation]
        names = list(found["candidates"])
        low, middle, high = (
            np.array([1e3 * found["candidates"][name][key] for name in names])
            for key in ("minimum", "median", "maximum")
        )
        colours = ["tab:blue" if name.startswith(REFERENCE) else "tab:grey" for name in names]
        axis.barh(names, middle, color=colours, xerr=[middle - low, high - middle], error_kw={"elinewidth": 1})
        axis.axvline(found["floor"] * 1e3, color="tab:red", linestyle="--", linewidth=1)
        axis.invert_yaxis()
        axis.set_title(f"{operation}: {label(record)}", fontsize=9)
        axis.set_xlabel("ms; dashed: the floor, its matrix products at peak", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    click.echo(f"wrote {path}")


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write the result as JSON, whole or not at all; its machine gets the load at the end, this process's included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if "machine" in result and hasattr(os, "getloadavg"):
        result = {**result, "machine": {**result["machine"], "load_after": os.getloadavg()[0]}}
    write_atomic(path, json.dumps(result, indent=2) + "\n")
    click.echo(f"wrote {path}")
