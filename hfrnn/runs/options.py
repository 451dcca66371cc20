"""Every option of a run, declared once: name, type, default, range, use and help.

Flags, configuration files, checks, messages and help texts are derived from these declarations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from hfrnn.checks import SHIFTS
from hfrnn.choices import (
    ADAPTED,
    AUTO,
    BACKENDS,
    DAMPINGS,
    DEVICE_SHARE,
    DTYPES,
    HOST_MEMORY,
    INITIALIZERS,
    LENGTH,
    LEVELS,
    LINE_SEARCHES,
    LOSSES,
    METRICS,
    OPTIMIZERS,
    PRECISIONS,
    PRECONDITIONERS,
    PRESETS,
    RHO_MODELS,
    RHO_OBJECTIVES,
    SCHEDULES,
    SEARCH_OBJECTIVES,
    STARTS,
    STEPS_PER_BEAT,
)
from hfrnn.errors import InputError
from hfrnn.option import Option, option_key, option_name
from hfrnn.presets import CG_EPSILON
from hfrnn.runs.defaults import DEFAULTS, KINDS_OF_ARRAYS, WEAKER, default_text, suited_text

__all__ = ["RunOption", "RunOptions", "option_key", "option_name", "run_options"]


@dataclass(frozen=True)
class Need:
    """The values that another option must have for an option to have an effect.

    Parameters
    ----------
    option : str
        The other option.
    allowed : tuple of str
        Its values that make the option useful, or a description of them.
    """

    option: str
    allowed: tuple[str, ...]

    def unmet(self, chosen: Any) -> str:
        """Why the need is not met and what the option is for; "" where it is met.

        Parameters
        ----------
        chosen : object
            Holds the options of a run as attributes, with the defaults of its preset, and as `kind` the kind of its
            data, as `kind_of_data` names it.
        """
        if self is A_STACK:
            one_layer = len(chosen.hidden) == 1
            return f"--hidden asks for one layer: it is for {self.allowed[0]}" if one_layer else ""
        if self is GROWING_BATCHES:
            flag = "--gradient-symbols" if chosen.gradient_symbols == 0 else "--first-gradient-symbols"
            return "" if chosen.first_gradient_symbols else f"{flag} is 0: it is for {self.allowed[0]}"
        if self is WINDOWS:
            cut = chosen.kind == "a table" or chosen.window is not None
            return "" if cut else f"--window was not: it is for {self.allowed[0]}"
        if self.option == "data":
            data = chosen.text or chosen.data or "the built-in corpus"
            return "" if chosen.kind in self.allowed else f"{data} is {chosen.kind}: it is for {self._either}"
        value = getattr(chosen, self.option)
        flag = "--" + self.option.replace("_", "-")
        if value is None:
            return f"{flag} was not: it is for {flag} {self._either}"
        return "" if value in self.allowed else f"{flag} is {value}: it is for {flag} {self._either}"

    @property
    def _either(self) -> str:
        return either(self.allowed)


def either(names: Iterable[str]) -> str:
    """Names in a sentence: `sgd, adam or online`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


HF = Need("optimizer", ("hf",))
FIRST_ORDER = Need("optimizer", ("sgd", "adam", "soap", "muon", "online"))
MINI_BATCHES = Need("optimizer", ("sgd", "adam", "soap", "muon"))
MOMENTUM = Need("optimizer", ("sgd", "online"))
SEQUENCES = Need("optimizer", ("hf", "sgd", "adam", "soap", "muon"))
STRUCTURAL = Need("damping", ("structural", "structural+tikhonov"))
DAMPED = Need("damping", ("structural", "structural+tikhonov", "tikhonov"))
PRECONDITIONED = Need("preconditioner", ("diagonal", "kronecker"))
KRONECKER = Need("preconditioner", ("kronecker",))
ARMIJO = Need("line_search", ("armijo",))
TEXT8 = Need("schedule", ("text8",))
SUTSKEVER = Need("initializer", ("sutskever",))
WORDS = Need("level", ("word",))
TEXT = Need("data", ("a text",))
TASK = Need("data", ("a synthetic task",))
FILE = Need("data", ("a text", *KINDS_OF_ARRAYS, "MIDI music"))
MIDI = Need("data", ("MIDI music",))
TABLE = Need("data", ("a table",))
TABLE_OR_FILE = Need("data", ("a table", "an array file"))
ARRAYS = Need("data", ("an array file", "arrays in memory"))
RECORDING = REAL = Need("data", KINDS_OF_ARRAYS)
WINDOWS = Need("window", ("one recording that --window cuts",))
A_STACK = Need("hidden", ("a stack of layers",))
GROWING_BATCHES = Need("first_gradient_symbols", ("batches that grow",))


# ------------------------------------------------------------------ the declaration of an option


@dataclass(frozen=True)
class RunOption(Option):
    """The declaration of an option of every run.

    Parameters
    ----------
    group : str
        The heading that the option stands under in `hfrnn train --help-all`.
    needs : tuple of Need
        What else has to be chosen for the option to have an effect.
    shapes : bool
        Whether the option decides which weights the network has, so that a run can take over the weights of another
        run only if both have the same value.
    suited : str
        Other defaults in words, and the data that have them: "rnn for tasks".
    """

    group: str = ""
    needs: tuple[Need, ...] = ()
    shapes: bool = False
    suited: str = ""

    @property
    def shown_default(self) -> str:
        """The default as text, with that of other data."""
        return "; ".join(filter(None, (self.general_default, self.suited)))

    @property
    def general_default(self) -> str:
        """The default as text, without that of other data."""
        return super().shown_default

    def check(self, value: Any, where: str) -> None:
        """Raise InputError for a value outside the choices or bounds, and for an empty name."""
        if (value == "" or (self.many and value and "" in value)) and self.default is None:
            named = "the name of the text" if self.name == "text" else where
            raise InputError(f"{named} is empty: give a name, or leave it out")
        super().check(value, where)


def declaring(group: str, *always: Need) -> Callable[..., Any]:
    """Return a function that declares fields of one group, which all have the given needs."""

    def declare(default: Any, help: str, *more: Need, **declared: Any) -> Any:
        return field(default=default, metadata={"help": help, "group": group, "needs": (*always, *more), **declared})

    return declare


# ------------------------------------------------------------------ options of the data


_data = declaring("Data")


@dataclass(frozen=True, init=False)
class DataOptions:
    """The fields of a run's configuration about its data, each with its declaration."""

    text: str | None = _data(None, "Text file to train on.")
    data: str | None = _data(
        None,
        "What to train on instead of a text: a corpus, task or music by name, a file of arrays (.npz, .npy, .mat), "
        "a table (.csv, .tsv) or a folder of MIDI files (.mid, .midi).",
        otherwise="python-manual",
    )
    level: str = _data("char", "What a symbol of the text is.", TEXT, choices=LEVELS)
    min_count: int | None = _data(
        None, "Words that occur fewer times become <unk>, at level word.", TEXT, WORDS, least=1,
        otherwise="the corpus's own: 11 for text8, else 1",
    )  # fmt: skip
    max_vocabulary: int | None = _data(
        None, "Largest number of symbols, at level word; the rarest words become <unk>.", TEXT, WORDS,
        least=2,
    )  # fmt: skip
    valid: str | None = _data(None, "File to validate on, instead of a part of the text.", TEXT)
    test: str | None = _data(None, "File to test on, instead of a part of the text.", TEXT)
    fractions: tuple[float, ...] | None = _data(
        None, "Shares of the data for training, validation and test, in the order of the file, or of the names of "
        "MIDI files.", FILE,
        otherwise="the corpus's own, else 0.9,0.1,0",
    )  # fmt: skip
    length: int = _data(LENGTH, "Length of the sequences of a synthetic task, in steps.", TASK)
    sequences: int = _data(1000, "New sequences of a synthetic task in each epoch.", TASK, least=1)
    sequence_length: int = _data(50, "Steps of a training sequence.", SEQUENCES, TEXT, least=1)
    unknown: str = _data(
        "skip",
        "What to do with symbols that are not in the vocabulary: error, skip, or a known symbol to replace them with. "
        "Words become <unk> where the vocabulary has it.",
        TEXT, digits=True,
    )  # fmt: skip
    inputs: tuple[str, ...] | None = _data(
        None, "Columns of a table that the network reads, by name or by number from 1.", TABLE, digits=True
    )
    targets: tuple[str, ...] | None = _data(
        None, "Columns of a table to predict, by name or by number; for --data FILE.npy, the .npy file of the targets.",
        TABLE_OR_FILE, digits=True,
    )  # fmt: skip
    window: int | None = _data(
        None, "Steps of a window; cuts one recording, a table or an array (steps, n), into sequences.",
        RECORDING, least=1, otherwise="200 for a table",
    )  # fmt: skip
    stride: int | None = _data(
        None, "Steps from the beginning of a training window to that of the next.", RECORDING, WINDOWS,
        least=1, otherwise="half of --window",
    )  # fmt: skip
    burn_in: int | None = _data(
        None, "Steps at the beginning of a window that are not scored, while the state settles.", RECORDING,
        WINDOWS, least=0, otherwise="a tenth of --window",
    )  # fmt: skip
    ahead: int | None = _data(
        None, "Rows from an input to the target that it predicts.", TABLE, least=0,
        otherwise="1 if a column is an input and a target, else 0",
    )  # fmt: skip
    steps_per_beat: int = _data(
        STEPS_PER_BEAT, "Steps per beat, a quarter note, of piano rolls from MIDI files.", MIDI, least=1
    )
    time_first: bool = _data(False, "Arrays are (steps, sequences, ...) instead of (sequences, steps, ...).", ARRAYS)
    loss: str = _data(
        "auto",
        "Loss of arrays and tables; auto: softmax for classes, logistic for targets of 0 and 1, else squared.",
        REAL, choices=LOSSES,
    )  # fmt: skip
    standardize: bool | None = _data(
        None,
        "Scale real inputs, and the targets of the squared loss, by their mean and deviation in the training part. "
        "Inputs of 0 and 1 are left as they are.",
        REAL, otherwise="yes for a table, no for arrays",
    )  # fmt: skip


# ------------------------------------------------------------------ all options


DEFAULT_MINUTES = 4.0
LEARNING_RATES = {"sgd": 0.5, "adam": 0.002, "soap": 0.005, "muon": 0.01, "online": 0.1}
"""Learning rate of each optimizer, unless one is given."""
MOMENTA = {"sgd": 0.9, "online": 0.0}
"""Momentum of each optimizer that has one, unless it is given."""
AVERAGES = {"sgd": 0.995, "adam": 0.995, "soap": 0.995, "muon": 0.995}
"""Decay of the average of the weights per update of first-order optimizers, unless it is given."""
SHARES = (
    ("curvature_fraction", "curvature_symbols"), ("preconditioner_relative_shift", "preconditioner_shift"),
)  # fmt: skip
"""Pairs of options that set one quantity, as a share and as a number. A run gives at most one of the two."""
STRENGTH = f"that of the kind of damping, divided by {WEAKER} for large texts with --preset tuned"
"""Default of `mu` and `lambda_`, in words."""
SHIFT = 1e-3
"""Shift of the preconditioner where the damping has no lambda and no relative shift is given."""


def default_schedule(optimizer: str, watched: bool) -> str:
    """Return the schedule of the learning rate, unless one is given.

    Parameters
    ----------
    optimizer : str
    watched : bool
        Whether the data are a text with a validation part.
    """
    return "divide" if watched and optimizer != "online" else "constant"


def _of_each(defaults: dict[str, float]) -> str:
    """Return the defaults of optimizers in words: `0.9 for sgd or muon, 0 for online`."""
    names: dict[float, list[str]] = {}
    for optimizer, value in defaults.items():
        names.setdefault(value, []).append(optimizer)
    return ", ".join(f"{value:g} for {either(same)}" for value, same in names.items())


_network = declaring("Network")
_shape = functools.partial(_network, shapes=True)
_optimizer = declaring("Optimizer")
_hf = declaring("Optimizer", HF)
_any_rate = declaring("First-order optimizers")
_first_order = declaring("First-order optimizers", FIRST_ORDER)
_mini_batch = declaring("First-order optimizers", MINI_BATCHES)
_momentum = declaring("First-order optimizers", MOMENTUM)
_running = declaring("Running")


@dataclass(frozen=True, init=False)
class RunOptions(DataOptions):
    """The fields of a run's configuration, each with its declaration.

    The options of `defaults.DEFAULTS` are None until `TrainConfig.resolved` fills them in. Their types are those of the
    values that they have then.
    """

    arch: str = _shape("mlstm", "Architecture of the network; `hfrnn info` lists all.")
    hidden: tuple[int, ...] = _shape((128,), "Hidden units of each layer; several sizes with commas make a stack.")
    embedding: int | None = _shape(
        None, "Size of a symbol embedding, trained with the network.", SEQUENCES, least=1, unit="columns",
        otherwise="one-hot symbols",
    )  # fmt: skip
    bias: bool | None = _shape(None, "Give the hidden layers biases.", otherwise="the architecture's own")
    output_bias: bool | None = _shape(None, "Give the output a bias.", otherwise="the architecture's own")
    direct_input: bool = _shape(True, "Connect the input to the layers above the first too.", A_STACK)
    direct_output: bool = _shape(True, "Connect all hidden layers to the output, not only the last one.", A_STACK)
    learn_initial_state: bool = _shape(
        False, "Learn the hidden state before the first step, instead of zeros.", SEQUENCES
    )
    classes: int | None = _shape(
        None, "Classes of a class softmax, formed by how often symbols occur.", TEXT, least=1, unit="classes",
        zero="for a full softmax", otherwise="a full softmax",
    )  # fmt: skip
    l2: float = _network(0.0, "Adds l2/2 * |theta|^2 to the objective.", SEQUENCES, least=0)
    state_noise: float = _network(
        0.0, "Standard deviation of noise that training adds to the input of every hidden unit at every step.",
        SEQUENCES, least=0,
    )  # fmt: skip
    initializer: str = _network(
        "papers", "Initial weights: small normal ones as in the papers, or Sutskever's sparse ones.",
        choices=INITIALIZERS,
    )  # fmt: skip
    spectral_radius: float = _network(1.1, "Spectral radius of the initial recurrent weights.", SUTSKEVER, above=0)
    input_scale: float | None = _network(
        None, "Standard deviation of the initial input weights of the first layer.", above=0,
        otherwise="--init-scale, else the initializer's own",
    )  # fmt: skip
    init_scale: float | None = _network(
        None, "Standard deviation of all initial weights.", above=0, otherwise="the initializer's own"
    )
    density: float | None = _network(
        None, "Share of the connections between hidden units that exist, drawn from --seed.", SEQUENCES,
        above=0, most=1, otherwise="all",
    )  # fmt: skip
    connectivity: str | None = _network(
        None, "NumPy file (.npz) that says which weights exist and which signs they keep, by name of the parameter.",
        SEQUENCES,
    )  # fmt: skip
    excitatory: float | None = _network(
        None, "Share of excitatory hidden units (Dale's law): no weight that leaves a hidden unit changes its sign.",
        SEQUENCES, least=0, most=1, otherwise="no fixed signs",
    )  # fmt: skip
    excitatory_output: bool = _network(
        False, "Let only excitatory units feed the output, with weights of 0 or more.", SEQUENCES
    )
    init_from: str | None = _network(None, "Run folder to start from: its best weights and its symbols.")
    dtype: str = _network("float32", "Type of the numbers to compute with.", choices=DTYPES)

    optimizer: str = _optimizer("hf", "Optimizer; hf is Hessian-free optimization.", choices=OPTIMIZERS)
    preset: str = _hf(
        "tuned",
        "Defaults of Hessian-free optimization: tuned (many cheap updates) or published (close to the papers).",
        choices=PRESETS,
    )
    damping: str = _hf("structural", "Kind of damping of the curvature.", choices=DAMPINGS)
    mu: float | None = _hf(None, "Initial strength of structural damping.", STRUCTURAL, otherwise=STRENGTH)
    lambda_: float | None = _hf(
        None, "Initial strength of Tikhonov damping; 0 leaves structural damping alone.", DAMPED,
        otherwise=STRENGTH,
    )  # fmt: skip
    metric: str = _hf("hidden", "Distance that structural damping limits.", STRUCTURAL, choices=METRICS)
    precision: str = _hf(
        "float32",
        "Precision of matrix products with the curvature: float32 means that of --dtype; tf32, on a GPU, is faster.",
        choices=PRECISIONS,
    )  # fmt: skip
    gradient_symbols: int | None = _hf(
        None, "Symbols of a gradient batch", least=1, unit="symbols", zero="for the whole training part"
    )
    first_gradient_symbols: int | None = _hf(
        None, "Symbols of the first gradient batch", least=1, unit="symbols", zero="for as many as the later ones",
        otherwise=f"{default_text('first_gradient_symbols')}; never more than --gradient-symbols",
    )  # fmt: skip
    batch_growth: float = _hf(
        None, "Growth factor of the gradient batch per update, up to --gradient-symbols.", GROWING_BATCHES,
        least=1,
    )  # fmt: skip
    sequence_starts: str = _hf(
        None, "Where a text is cut into training sequences: at the same symbols in every epoch (fixed), or a random "
        "number of symbols later in each epoch (shifted).", TEXT, choices=STARTS,
    )  # fmt: skip
    curvature_fraction: float = _hf(
        None, "Share of the gradient batch that the curvature is computed on.", above=0, most=1
    )
    curvature_symbols: int | None = _hf(
        None, "Symbols of a curvature batch, instead of a share.", least=1, unit="symbols"
    )
    cg_iterations: int = _hf(None, "Largest number of CG iterations per update.", least=1)
    noise_limit: float = _hf(
        None, "CG stops after its first iteration if noise of the gradient batch makes more than this share of the "
        "decrease", PRECONDITIONED, above=0, zero="for no limit",
    )  # fmt: skip
    cg_epsilon: float = _hf(
        CG_EPSILON, "CG stops when the mean relative decrease of q per iteration is below this value.", least=0
    )
    warm_start: float | None = _hf(
        None, "CG starts at its last solution times this factor; 0 starts at zero.", least=0, most=1,
        otherwise=f"{default_text('warm_start')}; 0 with --damping line-search",
    )  # fmt: skip
    mu_growth: float = _hf(
        None, "CG stops when rho would raise the damping by this factor", DAMPED, above=1, zero="to turn it off"
    )
    rho_model: str = _hf("damped", "Whether the quadratic q in rho includes the damping.", DAMPED, choices=RHO_MODELS)
    rho_objective: str = _hf("gradient", "Batch on which the loss in rho is measured.", choices=RHO_OBJECTIVES)
    rho_every: int = _hf(
        None, "Measure rho once in this many updates; the others take their step without a trial loss.", least=1,
    )  # fmt: skip
    search_objective: str = _hf(
        "gradient", "Batch of the final line search: that of the gradient or that of rho.", choices=SEARCH_OBJECTIVES
    )
    rho_low: float = _hf(0.5, "Damping becomes stronger when rho is below this.", DAMPED)
    rho_high: float = _hf(1.0, "Damping becomes weaker when rho is above this.", DAMPED)
    adapt: str = _hf("both", "Strengths of damping that rho changes.", DAMPED, choices=ADAPTED)
    least_damping: float = _hf(
        None, "Smallest strength of adaptive damping, as a share of the initial one.", DAMPED, least=0, most=1,
        otherwise=f"{default_text('least_damping')}; a tenth of it with --damping structural+tikhonov, a hundredth "
        "with tikhonov",
    )  # fmt: skip
    preconditioner: str = _hf(None, "Preconditioner for CG.", choices=PRECONDITIONERS)
    preconditioner_exponent: float = _hf(
        None, "Exponent of the preconditioner's diagonal, from 0 to 1.", PRECONDITIONED, least=0, most=1
    )
    preconditioner_shift: float | None = _hf(
        None, "Number added to the diagonal of the preconditioner.", PRECONDITIONED, least=SHIFTS.low,
        most=SHIFTS.high, otherwise="set by the relative shift",
    )  # fmt: skip
    preconditioner_relative_shift: float = _hf(
        None, "Shift of the preconditioner, divided by the mean of its diagonal", PRECONDITIONED, least=0,
        zero=f"for lambda, or {SHIFT:g} where the damping has none",
    )  # fmt: skip
    preconditioner_parts: int = _hf(
        None, "Parts of the curvature batch whose gradients make the factors.", KRONECKER, least=1, unit="parts"
    )
    preconditioner_every: int = _hf(
        None, "Most updates between two computations of the factors.", KRONECKER, least=1, unit="updates"
    )
    preconditioner_decay: float = _hf(
        0.7, "Weight of the earlier factors when they are computed again.", KRONECKER, least=0, most=1
    )
    residual_every: int = _hf(
        0, "CG iterations between exact computations of the residual", least=1, zero="for none", unit="iterations"
    )
    max_failures: int = _hf(
        10, "Stop after this many updates in a row without a step", least=1, zero="for never", unit="updates"
    )
    line_search: str = _hf("armijo", "Stopping rule of the final line search.", choices=LINE_SEARCHES)
    armijo: float = _hf(
        None, "Share of the decrease along the gradient that the final line search asks for.", ARMIJO, least=0,
        below=1,
    )  # fmt: skip
    average: float | None = _optimizer(
        None, "Decay per update of the running average of the weights, which is validated and saved; 0 for no average.",
        SEQUENCES, least=0, below=1, otherwise=f"{_of_each(AVERAGES)}; for hf {default_text('average')}",
    )  # fmt: skip

    validate_every: int | None = _optimizer(
        None, "Updates between validations.", least=1,
        otherwise="one epoch; with hf, as much work as 20 validations",
    )  # fmt: skip
    learning_rate: float | None = _first_order(
        None, "Learning rate.", above=0,
        otherwise=_of_each(LEARNING_RATES),
    )  # fmt: skip
    momentum: float | None = _momentum(
        None, "Momentum of sgd and online.", least=0, below=1, otherwise=_of_each(MOMENTA)
    )
    nesterov: bool = _momentum(False, "Use Nesterov's momentum.")
    weight_decay: float = _first_order(0.0, "Decay of the weights per update, in units of the learning rate.", least=0)
    clip_norm: float = _mini_batch(
        1.0, "Gradients with a larger norm are scaled down to it", above=0, zero="to turn it off"
    )
    clip_value: float | None = _mini_batch(
        None, "Entries of the gradient are limited to this absolute value.", above=0, most=1e30
    )
    clip_error: float | None = _mini_batch(
        None,
        "Limit on the absolute value of each entry of the error that passes from a time step to the one before. The "
        "error is that of the loss summed over the steps, not of the mean.",
        above=0, most=1e30,
    )  # fmt: skip
    max_norm: float | tuple[str, ...] | None = _mini_batch(
        None,
        "Largest norm of the incoming weights of a unit; larger ones are scaled down after every update. With names of "
        "matrices (layer0.W_h=2,output.W_*=1): largest norm of their columns.",
        above=0,
    )
    streams: int = _first_order(
        32, "Parts of a text that are read side by side; for other data, sequences of a batch.", least=1
    )
    update_every: int | None = _mini_batch(
        None, "Steps between updates; errors are propagated back --sequence-length steps.", TEXT, least=1,
        otherwise="--sequence-length",
    )  # fmt: skip
    schedule: str | None = _first_order(
        None,
        "How the learning rate falls: halve or divide it when validation stops improving; text8: halve it in every "
        "epoch after the first ones; cosine: let it fall until the end of the run, which it estimates for --minutes.",
        choices=SCHEDULES, otherwise="divide for a text with a validation part, else constant; constant for online",
    )  # fmt: skip
    restore_best: bool = _first_order(
        False, "Return to the weights of the best epoch whenever --schedule halve or divide lowers the learning rate."
    )
    warm_up: int = _mini_batch(0, "Updates in which the learning rate rises to its first value.", least=0)
    constant_epochs: int = _any_rate(5, "Epochs with the first learning rate, in schedule text8.", TEXT8, least=1)
    epochs: int | None = _running(
        None, "Stop after this many passes over the training part, those before --resume included.", least=1
    )
    patience: int | None = _running(None, "Stop after this many validations without an improvement.", least=1)
    log_interval: int = _first_order(100, "Updates per record of the log.", least=1)

    out: str | None = _running(None, "Run folder to create.", otherwise="a new one under runs/")
    updates: int | None = _running(None, "Stop after this many updates, those before --resume included.", least=1)
    minutes: float | None = _running(
        None, "Stop after this many minutes; --resume counts from 0 again.", above=0,
        otherwise=f"{DEFAULT_MINUTES:g} without --updates or --epochs",
    )  # fmt: skip
    target_bits: float | None = _running(
        None, "Stop when the validation loss (without validation, the training loss) is at most this, in bits.",
        TEXT, above=0,
    )  # fmt: skip
    keep: int = _running(0, "Number of latest checkpoints to keep, last included; best is always kept.", least=0)
    seed: int = _running(0, "Seed of the initial weights and of everything drawn at random.", least=0)
    backend: str = _running(
        AUTO,
        "What to compute with; auto is cupy with a usable GPU, else numba where it is installed and helps, else numpy.",
        choices=(AUTO, *BACKENDS),
    )  # fmt: skip
    threads: int | None = _running(
        None, "Number of threads; results do not depend on it.", least=1, otherwise="all processors"
    )
    shards: int | None = _running(
        None, "Least number of shards of a batch: give ranks times threads. The last bits of results depend on it.",
        SEQUENCES, least=1, otherwise="2; 1 on a GPU",
    )  # fmt: skip
    rank_timeout: float = _running(
        300.0, "Seconds that a rank of mpiexec waits for another one, before all end.", above=0, most=1e6,
    )  # fmt: skip
    checkpoint: str = _running(
        "auto", "States to store: auto, all, sqrt, or a number of steps from one to the next.", SEQUENCES,
        digits=True,
    )  # fmt: skip
    memory: str | None = _running(
        None, "Memory that --checkpoint auto may use: a number of bytes, such as 4GiB or 500MB.", digits=True,
        otherwise=f"{HOST_MEMORY // 2**30}GiB; on a GPU {DEVICE_SHARE:.0%} of its free memory",
    )  # fmt: skip
    sample_length: int = _running(
        300, "Symbols of a sample text, drawn at updates 1, 2, 4, ... and at the end", TEXT, least=1,
        zero="for none",
    )  # fmt: skip


@functools.cache
def run_options() -> dict[str, RunOption]:
    """The declarations of all options of a run, by name."""
    hints, found = get_type_hints(RunOptions), {}
    for each in fields(RunOptions):
        hint = hints[each.name]
        parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        base, *by_name = (part for part in parts if part is not NoneType)  # numbers by name are a tuple of texts
        many = get_origin(base) is tuple
        preset = {"otherwise": default_text(each.name)} if each.name in DEFAULTS else {}
        declared: dict[str, Any] = {**preset, **each.metadata}
        found[each.name] = RunOption(
            each.name, get_args(base)[0] if many else base, each.default, many=many, named=bool(by_name),
            optional=NoneType in parts, suited=suited_text(each.name), **declared,
        )  # fmt: skip
    return found
