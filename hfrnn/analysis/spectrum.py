"""The curvature of a loss as a spectrum: of the Gauss-Newton matrix G or the exact Hessian H, the eigenvalues at the
ends and the density of all, from products alone (hfrnn.optim.lanczos).

G is positive semi-definite; H is what the loss itself curves like, and its negative eigenvalues are the directions that
Gauss-Newton leaves out. Everything is in double precision, H in complex128 (SPEC 4).

Source: Ghorbani, Krishnan & Xiao 2019, "An investigation into neural net optimization via Hessian eigenvalue density".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hfrnn.arrays.backend import Array, HostArray
from hfrnn.data.music import load_music, music_batch
from hfrnn.data.streams import training_sequences
from hfrnn.data.synthetic import make_task, tasks
from hfrnn.data.vocabulary import Vocabulary, counted
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.errors import InputError, NonFiniteError
from hfrnn.optim.lanczos import Product, extreme_eigenvalues, lanczos, most_products, quadrature
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.run_folder import RunFolder, load
from hfrnn.training.sources import Pool, chosen_part

MATRICES = ("gauss-newton", "hessian")


@dataclass(frozen=True, eq=False)
class Spectrum:
    """What is known of the eigenvalues of a symmetric matrix.

    matrix : "gauss-newton" or "hessian"
    size : n, its rows
    largest, largest_residuals : eigenvalues, the largest first, and |A v - lambda v| of each; (k,)
    smallest, smallest_residuals : of the Hessian, the smallest first; (0,) of G, which has no negative ones
    nodes, weights : of the density, the smallest node first; the weights sum to 1. (0,) where none was asked for
    trace, trace_error : the sum of all eigenvalues by the density, and its standard error (None with one random vector)
    frobenius : the root of the sum of their squares, likewise; None, as these, without a density
    products : products with the matrix that it all took
    """

    matrix: str
    size: int
    largest: HostArray
    largest_residuals: HostArray
    smallest: HostArray
    smallest_residuals: HostArray
    nodes: HostArray
    weights: HostArray
    trace: float | None
    trace_error: float | None
    frobenius: float | None
    products: int

    def ranked(self, rank: int) -> tuple[float, float]:
        """About the `rank`-th largest and the `rank`-th smallest eigenvalue, rank 1 to n, by the density there is."""
        up, down = (self.size * np.cumsum(weights) for weights in (self.weights, self.weights[::-1]))
        low, high = (min(int(np.searchsorted(counts, rank - 0.5)), counts.size - 1) for counts in (up, down))
        return float(self.nodes[::-1][high]), float(self.nodes[low])

    def to_json(self) -> dict[str, Any]:
        """All figures by name."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}


def spectrum(
    objective: Objective,
    theta: Array,
    matrix: str = "gauss-newton",
    count: int = 5,
    vectors: int = 2,
    steps: int = 40,
    tolerance: float = 1e-6,
    seed: int = 0,
    progress: Callable[[str, int, int], object] | None = None,
) -> Spectrum:
    """Extreme eigenvalues of an objective's curvature at theta, and its spectral density.

    Parameters
    ----------
    objective : Objective
        Of a network in float64.
    theta : (n_parameters,) array
    matrix : {"gauss-newton", "hessian"}
        Without damping; with l2*I where the network has a penalty on its weights. Products with the exact Hessian are
        complex and on one thread: several times the seconds of the other's.
    count : int
        Eigenvalues to find at the upper end, and of the Hessian at the lower end too; 0 for none.
    vectors : int
        Random vectors of the density, 0 for none. Its sampling error falls with the root of their number.
    steps : int
        Lanczos steps from each, 1 or more: the density's resolution. They take as many vectors of memory.
    tolerance : float
        Above 0: the search ends when the residual of every eigenvalue, by estimate, is this share of it.
    seed : int
        0 or more.
    progress : callable, optional
        Called with what is looked for, the products made for it, and those that it will take at most.

    Returns
    -------
    Spectrum
        With fewer eigenvalues than asked for where the search was given up, after about 1,000 products.

    Raises
    ------
    InputError
        A number out of its range, a matrix that is not known, or a network in float32.
    NonFiniteError
        A product is not finite.
    """
    if matrix not in MATRICES:
        raise InputError(f"matrix {matrix!r} is not known: use {' or '.join(MATRICES)}")
    if objective.net.dtype != np.float64:
        raise InputError('the network is in float32, too coarse for eigenvalues: make it with dtype="float64"')
    for name, value, least in (("count", count, 0), ("vectors", vectors, 0), ("steps", steps, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name} is {value}: give a whole number, {least} or more")
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance is {tolerance}: give a number between 0 and 1")
    backend, n = objective.net.backend, objective.net.n_parameters
    with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused
        operator = objective.gauss_newton(theta) if matrix == "gauss-newton" else objective.hessian(theta)
    product = _Counted(lambda v: backend.to_host(operator @ backend.asarray(v)), progress)
    rng, none = np.random.default_rng(seed), (np.zeros(0), np.zeros(0))
    ends = {"largest": none, "smallest": none}
    for end in ("largest", "smallest") if matrix == "hessian" else ("largest",):
        if count:
            product.begin(end, most_products(n, count))
            ends[end] = extreme_eigenvalues(product, n, count, end, tolerance, rng)
    product.begin("density", vectors * min(steps, n))
    rules = [quadrature(*lanczos(product, rng.choice((-1.0, 1.0), n), steps)) for _ in range(vectors)]
    traces = [n * float(w @ t) for t, w in rules]
    nodes, weights = (np.concatenate(parts) for parts in zip(*(rules or [none]), strict=True))
    order = np.argsort(nodes, kind="stable")
    return Spectrum(
        matrix, n, *ends["largest"], *ends["smallest"],
        nodes=nodes[order],
        weights=weights[order] / max(vectors, 1),
        trace=float(np.mean(traces)) if rules else None,
        trace_error=float(np.std(traces, ddof=1)) / math.sqrt(vectors) if vectors > 1 else None,
        frobenius=math.sqrt(n * float(weights @ nodes**2) / vectors) if rules else None,
        products=product.total,
    )  # fmt: skip


class _Counted:
    """Products that are counted, and have to be finite."""

    def __init__(self, product: Product, progress: Callable[[str, int, int], object] | None) -> None:
        self._product, self._progress, self.total = product, progress, 0
        self.begin("", 0)

    def begin(self, what: str, most: int) -> None:
        """Count from 0 for what comes now."""
        self._what, self._done, self._most = what, 0, most

    def __call__(self, v: HostArray) -> HostArray:
        with np.errstate(over="ignore", invalid="ignore"):  # likewise
            found = self._product(v)
        if not np.isfinite(found).all():
            raise NonFiniteError("a product with the curvature is not finite: the weights are too large, use others")
        self.total, self._done = self.total + 1, self._done + 1
        if self._progress is not None:
            self._progress(self._what, self._done, self._most)
        return found


class RunObjective(NamedTuple):
    """The objective of a run on a batch of its data, in float64, its weights, and the batch in words."""

    objective: Objective
    theta: Array
    data: str


def load_objective(
    run: str,
    which: str = "best",
    part: str | None = None,
    symbols: int = 5000,
    seed: int = 0,
    backend: str = "numpy",
) -> RunObjective:
    """What `spectrum` takes, from a run folder: a batch of random sequences as the run is trained on.

    Parameters
    ----------
    run, which, backend : as `hfrnn.load` has them
    part : {"train", "valid", "test"}, optional
        Of the run's data, "train" by default; a synthetic task has none, its sequences are made afresh.
    symbols : int
        Steps of the batch, about; at least one sequence is taken, and all at most.
    seed : int
        Of the choice, 0 or more.

    Raises
    ------
    InputError
        As `hfrnn.load`, or the data is not there, has no such part or is too short.
    """
    if symbols < 1:
        raise InputError(f"symbols is {symbols}: give a whole number, 1 or more")
    if seed < 0:
        raise InputError(f"the seed is {seed}: give a whole number, 0 or more")
    folder, rng = RunFolder(run), np.random.default_rng(seed)
    config, (net, theta, vocabulary) = folder.config(), load(run, which, backend)
    wide = Network(**{**net.config, "dtype": "float64", "backend": backend})
    pool, name = _sequences(folder, config, vocabulary, part, symbols, rng)
    T, N = pool.inputs.shape[:2]
    length = T if pool.lengths is None else pool.lengths.mean()
    columns = np.sort(rng.permutation(N)[: max(round(symbols / length), 1)])
    batch = pool.batch(columns)
    steps = columns.size * T if batch.lengths is None else int(batch.lengths.sum())
    objective = Objective(wide, batch, config.threads, memory=config.memory_bytes)
    words = f"{counted(columns.size, 'random sequence')} of the {name}, {steps:,} steps"
    return RunObjective(objective, wide.backend.asarray(theta, dtype="float64"), words)


def _sequences(
    folder: RunFolder, config: TrainConfig, vocabulary: Vocabulary | None, part: str | None, symbols: int,
    rng: np.random.Generator,
) -> tuple[Pool, str]:  # fmt: skip
    """Sequences to choose a batch from, and what they are called."""
    part = chosen_part(config, part, "train")
    if config.data in tasks():
        count = max(symbols // config.length, 1)
        return Pool(*make_task(config.data, config.length).sequences(count, rng)), f"task {config.data}"
    name = f"{part} part of {config.data or config.text}"
    if vocabulary is None:
        music = load_music(config.data or "")
        folder.check_data(music.sha256, music.source)
        return Pool(*music_batch(getattr(music, part))), name
    corpus = folder.corpus()
    row = vocabulary.encode(getattr(corpus, part), config.unknown)
    if row.size < 2:
        raise InputError(f"the {part} part of {corpus.name} has no two symbols: give another part")
    return Pool(*training_sequences(row, min(config.sequence_length, row.size - 1))), f"{part} part of {corpus.name}"
