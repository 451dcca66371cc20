"""Where mutations.py breaks the project, which tests ought to notice, and which mutants change no result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Files to mutate, with the tests that ought to notice.

    files : str
        A glob; the first target that matches a file counts.
    tests : tuple of str
        Arguments of pytest, tried one after another until one fails: the fastest first. `{stem}` is the file's name
        with `-` for `_`, `{module}` the same unchanged. A path with `*` is a glob, and may match nothing.
    only_cited : bool
        Whether to change only lines that cite an equation; otherwise all function bodies.
    """

    files: str
    tests: tuple[str, ...]
    only_cited: bool = False


@dataclass(frozen=True)
class Equivalent:
    """A mutant that changes no result: the file (a glob), the source line before and after, and the reason."""

    file: str
    before: str
    after: str
    reason: str


KERNEL_TESTS = "tests/kernels/test_kernels.py"
ORACLE = "tests/oracle/test_oracle_networks.py"
SMALL_RNN = "[rnn-single or [rnn-stack or [rnn-ragged or [rnn-real or [rnn-learned"

ENGINE = (
    "tests/engine/test_losses.py tests/engine/test_derivatives.py tests/engine/test_{module}*.py",
    "tests/engine/test_output_weights.py",
    f"{ORACLE} -k '{SMALL_RNN}'",
    "tests/engine/test_network.py tests/engine/test_class_softmax.py tests/kernels/test_clockwork.py",
    "tests/engine/test_objective.py",
)

CUDA = tuple(f"tests/kernels/test_cuda.py -m '' -k '{names}'" for names in ("odd_sizes", "float64"))

TARGETS = (
    Target("hfrnn/kernels/cuda/*.cu", CUDA, True),
    Target("hfrnn/kernels/cuda/*.cuh", CUDA, True),
    Target("hfrnn/kernels/cuda/*.py", CUDA, True),
    Target("hfrnn/kernels/numba/passes.py", ("tests/optim/test_compiled_steps.py",)),
    Target("hfrnn/kernels/numba/groups.py", ("tests/engine/test_compiled_class_softmax.py",)),
    Target("hfrnn/kernels/numba/*.py", ("tests/kernels/test_numba.py -m '' -k float64",), True),
    Target("hfrnn/kernels/cells.py", (f"{KERNEL_TESTS} -k lstm]", f"{ORACLE} -k '[lstm or [mlstm'"), True),
    Target("hfrnn/kernels/clockwork.py", (f"{KERNEL_TESTS} -k [clockwork", "tests/kernels/test_clockwork.py"), True),
    Target("hfrnn/kernels/pointwise.py", ("tests/kernels/test_leaky.py", KERNEL_TESTS), True),
    Target(  # its softplus is for leaky and rate
        "hfrnn/kernels/rnn.py",
        (f"{KERNEL_TESTS} -k '[rnn'", "tests/kernels/test_leaky.py", f"{ORACLE} -k '[rnn-'"),
        True,
    ),
    Target(
        "hfrnn/kernels/*.py",
        (f"{KERNEL_TESTS} -k '[{{stem}}'", "tests/kernels/test_{module}*.py", f"{ORACLE} -k '[{{stem}}-'"),
        True,
    ),
    Target("hfrnn/optim/average.py", ("tests/training/test_average.py", "tests/training/test_restore_best.py")),
    Target("hfrnn/optim/trace.py", ("tests/optim/test_trace.py",)),
    Target("hfrnn/optim/lanczos.py", ("tests/optim/test_lanczos.py", "tests/analysis/test_spectrum.py")),
    Target(
        "hfrnn/optim/first_order.py",
        ("tests/optim/test_first_order_formulas.py tests/optim/test_clipping.py", "tests/optim"),
    ),
    Target("hfrnn/optim/cg.py", ("tests/optim/test_cg*.py", "tests/optim")),
    *(
        Target(f"hfrnn/optim/{name}.py", (f"tests/optim/test_{name}.py", "tests/optim/test_first_order.py"))
        for name in ("soap", "muon")
    ),
    Target("hfrnn/optim/schedules.py", ("tests/optim/test_schedules.py",)),
    Target(
        "hfrnn/optim/blocks.py",
        ("tests/optim/test_kronecker.py", "tests/optim/test_soap.py", "tests/optim/test_first_order.py"),
    ),
    Target(
        "hfrnn/training/methods/method.py",
        (
            "tests/training/test_learning_rates.py",
            "tests/training/test_methods.py tests/training/test_method_limits.py",
        ),
    ),
    Target("hfrnn/training/methods/muon.py", ("tests/training/test_optimizers.py",)),
    Target("hfrnn/optim/*.py", ("tests/optim/test_{module}*.py", "tests/optim")),
    Target(
        "hfrnn/engine/heads/class_softmax.py",
        ("tests/engine/test_class_softmax.py", f"{ORACLE} -k 'class-softmax and ([rnn or [mlstm)'"),
    ),
    Target("hfrnn/engine/heads/compiled_class_softmax.py", ("tests/engine/test_compiled_class_softmax.py",)),
    Target(
        "hfrnn/engine/plan*.py",
        ("tests/engine/test_plan*.py", "tests/engine/test_objective.py -k 'shards or plan or budget or checkpoint'"),
    ),
    *(
        Target(
            f"hfrnn/engine/{name}.py",
            ("tests/engine/test_constraints.py", "tests/engine/test_constrained_objective.py"),
        )
        for name in ("constraints", "connectivity", "constrained_objective")
    ),
    Target("hfrnn/engine/several_vectors.py", ("tests/engine/test_several_vectors.py",)),
    Target("hfrnn/engine/states.py", ("tests/engine/test_initial_state.py", "tests/engine/test_objective.py")),
    *(
        Target(f"hfrnn/engine/{name}.py", (f"tests/engine/test_{name}.py",))
        for name in ("noise", "max_norm", "clipped_errors", "closed_loop")
    ),
    *(Target(f"hfrnn/engine/{name}.py", ENGINE) for name in ("sweep", "input_map", "heads/output_map", "heads/losses")),
)
"""The files to mutate. The first target that matches a file counts."""

PIECES = "pieces = min(self._threads.threads, -(-n // size)) if on_host and n else 1"
SIZE = "size = min(STEP_PIECE, n) if on_host else n # pieces stay in the cache from the first pass to the last"
WORKERS = "The number of workers changes no bit; a vector without elements is an error either way."

FACTORS = "return FullStep(search.x, cg.q_history[0] + search.q_change, search.f, last_gain, cg, (1.0, 1.0)) # H5"

SHARDS = "return [largest.segment], [size for n in range(SHARD.bit_length()) if (size := SHARD >> n) <= max(B, 2)]"
FEW = "workers = threads if threads is not None and self.diagonal.shape[0] >= FEW else Threads(1)"
PIECES_OF_NOISE = "most = 1 + PIECE // (1 + B * words)"
RESHAPED = "z = n.reshape(stop - start, 1, words) * self._golden + self._keys[l] # (steps, B, words)"
TURN = "turned = F @ Q"
BOTH = "if F is None or Q is None:"
KRYLOV = "kept = max(2 * count + 1, 20)"

EQUIVALENTS = (
    Equivalent(
        "hfrnn/engine/clipped_errors.py",
        "own.records = tape.records",
        "pass",
        "A tape that records more than is needed changes no result.",
    ),
    Equivalent(
        "hfrnn/engine/planner.py", "roles = corners[1, 1]", "roles = corners[1, 2]", "All corners have the same roles."
    ),
    Equivalent("hfrnn/optim/first_order.py", PIECES, PIECES.replace(" and ", " or "), WORKERS),
    Equivalent("hfrnn/optim/first_order.py", PIECES, PIECES.replace("min", "max"), WORKERS),
    Equivalent("hfrnn/optim/first_order.py", PIECES, PIECES.replace("else 1", "else 2"), WORKERS),
    Equivalent("hfrnn/optim/first_order.py", PIECES, PIECES.replace("on_host and n", "not (on_host and n)"), WORKERS),
    Equivalent("hfrnn/optim/first_order.py", SIZE, SIZE.replace("min", "max"), "One piece gives the same bits."),
    Equivalent(
        "hfrnn/optim/first_order.py", SIZE, SIZE.replace("on_host", "not (on_host)"), "One piece gives the same bits."
    ),
    Equivalent("hfrnn/engine/planner.py", SHARDS, SHARDS.replace("max(B, 2)", "max(B, 3)"), "Sizes are powers of 2."),
    *(
        Equivalent(
            "hfrnn/optim/full_step.py",
            FACTORS,
            FACTORS.replace("(1.0, 1.0)", factors),
            "Line-search damping has no strength that adapts.",
        )
        for factors in ("(2.0, 1.0)", "(1.0, 2.0)")
    ),
    Equivalent(
        "hfrnn/optim/lanczos.py",
        "kept = max(2 * count + 1, 20)",
        "kept = max(2 * count - 1, 20)",
        "The size of the Krylov space changes the speed only.",
    ),
    *(
        Equivalent("hfrnn/engine/noise.py", PIECES_OF_NOISE, changed, "The size of a piece changes no number.")
        for changed in (PIECES_OF_NOISE.replace("1 + P", "2 + P"), PIECES_OF_NOISE.replace("(1", "(2"))
    ),
    Equivalent(
        "hfrnn/engine/noise.py",
        RESHAPED,
        RESHAPED.replace("stop - start", "start - stop"),
        "NumPy computes a size that is given as a negative number.",
    ),
    Equivalent("hfrnn/optim/kronecker.py", FEW, FEW.replace("(1)", "(2)"), WORKERS),
    Equivalent("hfrnn/optim/kronecker.py", FEW, FEW.replace(">=", ">"), WORKERS),
    Equivalent("hfrnn/optim/soap.py", TURN, "turned = F.T @ Q", "L and R are symmetric."),
    Equivalent("hfrnn/optim/soap.py", BOTH, BOTH.replace("or", "and"), "A side has both matrices or neither."),
    Equivalent(
        "hfrnn/optim/quadratic.py", "self.finite += 1", "self.finite += 2", "The only question is whether it is 0."
    ),
)
"""Matched by their text, so that a line may move; the spaces are those of one line."""
