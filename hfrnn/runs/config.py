"""Every option of a training run, once: name, type, default and help, for the command line and TOML files alike."""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hfrnn.errors import InputError
from hfrnn.runs.options import converted, option_key, option_name, parse_bytes

OPTIMIZERS = ("hf", "sgd", "adam", "online")
SCHEDULES = ("constant", "halve", "divide", "text8")
DAMPINGS = ("structural", "tikhonov", "line-search", "structural+tikhonov", "none")
METRICS = ("hidden", "matching", "preactivation")
LEVELS = ("char", "byte", "word")
DEFAULT_MINUTES = 4.0
LEARNING_RATES = {"sgd": 0.5, "adam": 0.002, "online": 0.1}
"""Of each optimizer, unless one is given."""
FIRST_GRADIENT_SYMBOLS = 10_000
"""Of Hessian-free optimization: far from a minimum a small batch shows the way as well as a large one."""


def _option(default: Any, text: str, group: str, choices: tuple[str, ...] | None = None) -> Any:
    return field(default=default, metadata={"help": text, "group": group, "choices": choices})


def _data(default: Any, text: str, choices: tuple[str, ...] | None = None) -> Any:
    return _option(default, text, "Data", choices)


def _network(default: Any, text: str, choices: tuple[str, ...] | None = None) -> Any:
    return _option(default, text, "Network", choices)


def _optimizer(default: Any, text: str, choices: tuple[str, ...] | None = None) -> Any:
    return _option(default, text, "Optimizer", choices)


def _first_order(default: Any, text: str, choices: tuple[str, ...] | None = None) -> Any:
    return _option(default, text, "SGD, Adam and online", choices)


def _running(default: Any, text: str, choices: tuple[str, ...] | None = None) -> Any:
    return _option(default, text, "Running", choices)


@dataclass(frozen=True)
class TrainConfig:
    """The options of one training run; names as on the command line, with `_` for `-`."""

    text: str | None = _data(None, "Text file to train on.")
    data: str | None = _data(None, "Corpus, task or music by name instead of a file (default: python-manual).")
    level: str = _data("char", "What a symbol is.", LEVELS)
    min_count: int | None = _data(
        None, "Rarer words become <unk>, at level word (default: the corpus's own; 1, and 11 for text8)."
    )
    max_vocabulary: int | None = _data(
        None, "Symbols at most, at level word, the most frequent words first; the others become <unk>."
    )
    valid: str | None = _data(None, "File to validate on, instead of a part of the text.")
    test: str | None = _data(None, "File to test on, instead of a part of the text.")
    fractions: tuple[float, ...] | None = _data(
        None, "Shares of train,valid,test (default: the corpus's own; 0.9,0.1,0)."
    )
    length: int = _data(100, "Length of a synthetic task.")
    sequences: int = _data(1000, "New sequences of a synthetic task in every epoch.")
    sequence_length: int = _data(50, "Steps of a training sequence.")
    unknown: str = _data(
        "skip",
        "Symbols never seen in training, and with --init-from those that its run does not know: error, skip, or a "
        "known symbol to map them to; words become <unk> where there is one.",
    )

    arch: str = _network("mlstm", "Architecture; `hfrnn info` lists them.")
    hidden: tuple[int, ...] = _network((96,), "Units; several sizes with commas make a stack.")
    embedding: int | None = _network(None, "Width of a trained embedding (default: one-hot symbols).")
    bias: bool | None = _network(None, "Biases of the hidden layers (default: the architecture's own).")
    output_bias: bool | None = _network(None, "Bias of the output (default: the architecture's own).")
    direct_input: bool = _network(True, "Layers above the first hear the input too.")
    direct_output: bool = _network(True, "Layers below the last speak to the output too.")
    activation: str = _network("tanh", "Of rnn and hornn.", ("tanh", "logistic", "relu"))
    order: int = _network(3, "Steps back that a step of hornn hears.")
    alpha: float | None = _network(None, "Of hornn-fofe (default: 0.6); of scrn's context units (default: 0.95).")
    learn_alpha: bool = _network(False, "Learn scrn's alpha, one a context unit.")
    context: int = _network(40, "Context units of each layer of scrn.")
    periods: tuple[int, ...] | None = _network(
        None, "Periods of clockwork's modules, with commas (default: 1,2,4,... as the units divide)."
    )
    classes: int | None = _network(
        None, "Classes of a class softmax, by training frequency (default, and 0: a full softmax)."
    )
    l2: float = _network(0.0, "Adds l2/2 * |theta|^2 to the objective.")
    initializer: str = _network("papers", "Initial weights.", ("papers", "sutskever"))
    spectral_radius: float = _network(1.1, "Of the recurrent weights that --initializer sutskever makes.")
    input_scale: float | None = _network(
        None, "Standard deviation of the first input weights (default: the initializer's, or --init-scale)."
    )
    init_scale: float | None = _network(
        None, "Standard deviation of all initial weights (default: the initializer's own)."
    )
    init_from: str | None = _network(None, "Run whose best weights, and symbols, a new run starts from.")
    dtype: str = _network("float32", "Type to compute in.", ("float32", "float64"))

    optimizer: str = _optimizer("hf", "How to train.", OPTIMIZERS)
    damping: str = _optimizer("structural", "Damping of the curvature.", DAMPINGS)
    mu: float | None = _optimizer(None, "First strength of structural damping (default: the damping's own).")
    lambda_: float | None = _optimizer(
        None, "First strength of Tikhonov damping; 0 beside structural makes it pure (default: the damping's own)."
    )
    metric: str = _optimizer("hidden", "What structural damping measures.", METRICS)
    gradient_symbols: int | None = _optimizer(100_000, "Symbols of a gradient batch; 0 for the whole training part.")
    first_gradient_symbols: int | None = _optimizer(
        None, "Symbols of the first gradient batch; 0 for as many as the others (default: 10000, 0 with all of them)."
    )
    batch_growth: float = _optimizer(1.15, "What the next gradient batch is larger by, up to --gradient-symbols.")
    curvature_fraction: float = _optimizer(0.2, "Share of the gradient batch that curvature is computed on.")
    curvature_symbols: int | None = _optimizer(None, "Symbols of a curvature batch, instead of a share.")
    cg_iterations: int = _optimizer(100, "CG iterations of an update, at most.")
    cg_epsilon: float = _optimizer(0.005, "CG ends when an iteration gains less than this share of q.")
    warm_start: float | None = _optimizer(
        None, "CG starts at the last solution times this (default: 0.95; 0, no warm start, for line-search)."
    )
    mu_growth: float = _optimizer(3.0, "CG ends when the damping that rho asks for has grown by this; 0 turns it off.")
    rho_model: str = _optimizer("damped", "Whether q of rho holds the damping.", ("damped", "undamped"))
    rho_objective: str = _optimizer(
        "gradient", "Batch that f of rho is measured on.", ("gradient", "curvature", "separate")
    )
    rho_low: float = _optimizer(0.5, "A rho below makes the damping stronger.")
    rho_high: float = _optimizer(1.0, "A rho above makes the damping weaker.")
    adapt: str = _optimizer("both", "Strengths that rho changes.", ("both", "mu", "lambda", "none"))
    preconditioner: str = _optimizer("none", "Of CG.", ("none", "diagonal"))
    preconditioner_exponent: float = _optimizer(0.75, "Power of the diagonal preconditioner, from 0 to 1.")
    preconditioner_shift: float | None = _optimizer(None, "Added to the diagonal (default: lambda).")
    residual_every: int = _optimizer(0, "CG iterations between true residuals; 0 for none.")
    max_failures: int = _optimizer(10, "End after so many updates in a row without a step; 0 for never.")
    line_search: str = _optimizer("armijo", "Rule of the last line search.", ("armijo", "minimum"))
    average: float = _optimizer(
        0.7, "Decay of the average of the weights that is validated and kept as the best; 0 for the weights themselves."
    )

    learning_rate: float | None = _first_order(None, "Learning rate (default: sgd 0.5, adam 0.002, online 0.1).")
    momentum: float | None = _first_order(None, "Of sgd and online (default: 0.9 for sgd, 0 for online).")
    nesterov: bool = _first_order(False, "Nesterov's momentum.")
    weight_decay: float = _first_order(0.0, "Decay of the weights, times the learning rate.")
    clip_norm: float = _first_order(1.0, "Gradients longer than this are shortened to it; 0 turns it off.")
    clip_value: float | None = _first_order(None, "Entries of the gradient are held within plus and minus this.")
    max_norm: float | None = _first_order(None, "The incoming weights of a unit are held to this length.")
    streams: int = _first_order(32, "Streams of a text that are read side by side; sequences of a batch otherwise.")
    update_every: int | None = _first_order(
        None, "Steps between updates; errors are sent back --sequence-length steps (default: as many)."
    )
    schedule: str = _first_order(
        "constant",
        "Learning rate: halve or divide when validation does not fall; text8: after some epochs halve every epoch.",
        SCHEDULES,
    )
    constant_epochs: int = _first_order(5, "Epochs with the first learning rate, in schedule text8.")
    epochs: int | None = _first_order(None, "Stop after so many passes over the training part.")
    patience: int | None = _first_order(None, "Stop after so many validations without a better one.")
    log_interval: int = _first_order(100, "Updates of a line in the log.")
    validate_every: int | None = _first_order(None, "Updates between validations (default: an epoch).")

    out: str | None = _running(None, "Run folder to make (default: a new one under runs/).")
    updates: int | None = _running(None, "Stop after so many updates.")
    minutes: float | None = _running(
        None, f"Stop after so many minutes (default: {DEFAULT_MINUTES:g} if no --updates or --epochs)."
    )
    target_bits: float | None = _running(
        None, "Stop when the validation bits (without validation, the training bits) are this or less."
    )
    keep: int = _running(0, "Checkpoints to keep beside last and best: those of the newest lines of the log.")
    seed: int = _running(0, "Of the initial weights and of every draw.")
    backend: str = _running("numpy", "Where to compute, and with what.", ("numpy", "numba", "cupy"))
    threads: int | None = _running(None, "Threads (default: all processors); results do not depend on it.")
    checkpoint: str = _running("auto", "States kept over a CG run: auto, all, sqrt, or every so many steps.")
    memory: str = _running("4GiB", "What --checkpoint auto may take for gradient and curvature.")
    sample_length: int = _running(300, "Symbols of a sample, drawn at updates 1, 2, 4, ... and at the end; 0 for none.")

    def __post_init__(self) -> None:
        for spec in dataclasses.fields(self):
            value, choices = getattr(self, spec.name), spec.metadata["choices"]
            if choices and value not in choices:
                raise InputError(f"{option_name(spec.name)} is {value!r}: use one of {', '.join(choices)}")
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, float) and not math.isfinite(number):
                    raise InputError(f"{option_name(spec.name)} is {number}: give a finite number")
                if isinstance(number, int) and not -(2**63) <= number < 2**63:
                    raise InputError(f"{option_name(spec.name)} holds a number beyond 64 bits: give a smaller one")
        for name, least in (("sequence_length", 1), ("cg_iterations", 1), ("seed", 0), ("sample_length", 0),
            ("sequences", 1), ("streams", 1), ("log_interval", 1), ("keep", 0), ("constant_epochs", 1),
        ):  # fmt: skip
            if getattr(self, name) < least:
                raise InputError(f"{option_name(name)} is {getattr(self, name)}: give a whole number, {least} or more")
        for name in ("updates", "threads", "epochs", "patience", "update_every", "validate_every"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"{option_name(name)} is {getattr(self, name)}: give a whole number, 1 or more")
        for name in ("residual_every", "max_failures"):
            if getattr(self, name) < 0:
                raise InputError(f"{option_name(name)} is {getattr(self, name)}: give a whole number, 0 or more")
        for name, least in (("first_gradient_symbols", 0), ("curvature_symbols", 1)):
            if getattr(self, name) is not None and getattr(self, name) < least:
                raise InputError(
                    f"{option_name(name)} is {getattr(self, name)}: give a number of symbols, {least} or more"
                )
        if not self.batch_growth >= 1:
            raise InputError(f"--batch-growth is {self.batch_growth:g}: give a number, 1 or more")
        if not 0 <= self.preconditioner_exponent <= 1:
            raise InputError(f"--preconditioner-exponent is {self.preconditioner_exponent:g}: give one from 0 to 1")
        if self.preconditioner_shift is not None and not self.preconditioner_shift > 0:
            raise InputError(f"--preconditioner-shift is {self.preconditioner_shift:g}: give a number above 0")
        for name, least in (("min_count", 1), ("max_vocabulary", 2)):
            value = getattr(self, name)
            if value is not None and self.level != "word":
                raise InputError(f"{option_name(name)} is {value}, and --level is {self.level}: it is for --level word")
            if value is not None and value < least:
                raise InputError(f"{option_name(name)} is {value}: give a whole number, {least} or more")
        if self.minutes is not None and not self.minutes > 0:
            raise InputError(f"--minutes is {self.minutes:g}: give a number above 0")
        if not 0 < self.curvature_fraction <= 1:
            raise InputError(f"--curvature-fraction is {self.curvature_fraction:g}: give a share above 0, at most 1")
        if self.gradient_symbols is not None and self.gradient_symbols < 0:
            raise InputError(f"--gradient-symbols is {self.gradient_symbols}: give a number of symbols, 0 for all")
        if self.classes is not None and self.classes < 0:
            raise InputError(f"--classes is {self.classes}: give a number of classes, 0 for a full softmax")
        for name in (
            "learning_rate", "clip_value", "max_norm", "target_bits", "init_scale", "input_scale", "spectral_radius",
        ):  # fmt: skip
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise InputError(f"{option_name(name)} is {getattr(self, name):g}: give a number above 0")
        for name in ("clip_norm", "weight_decay"):
            if getattr(self, name) < 0:
                raise InputError(f"{option_name(name)} is {getattr(self, name):g}: give a number, 0 or more")
        for name in ("momentum", "average"):
            if getattr(self, name) is not None and not 0 <= getattr(self, name) < 1:
                raise InputError(f"{option_name(name)} is {getattr(self, name):g}: give a number from 0, below 1")
        if self.warm_start is not None and not 0 <= self.warm_start <= 1:
            raise InputError(f"--warm-start is {self.warm_start:g}: give a number from 0 to 1")
        if self.mu_growth and not self.mu_growth > 1:
            raise InputError(f"--mu-growth is {self.mu_growth:g}: give a number above 1, or 0 to turn it off")
        if self.rho_low > self.rho_high:
            raise InputError(
                f"--rho-low is {self.rho_low:g}, and --rho-high {self.rho_high:g}: give a low one that is not above it"
            )
        if self.cg_epsilon < 0:
            raise InputError(f"--cg-epsilon is {self.cg_epsilon:g}: give a number, 0 or more")
        if self.text is not None and self.data is not None:
            raise InputError(f"both a text ({self.text}) and --data {self.data} were given: give one of them")

    @property
    def time_limit(self) -> float | None:
        """Seconds of training, or None without a limit."""
        if self.minutes is None:
            return 60 * DEFAULT_MINUTES if self.updates is None and self.epochs is None else None
        return 60 * self.minutes

    @property
    def checkpoint_argument(self) -> str | int | None:
        """`checkpoint` as `Objective` takes it."""
        if self.checkpoint == "all":
            return None
        if self.checkpoint.isdecimal() and len(self.checkpoint) < 20 and int(self.checkpoint) > 0:
            return int(self.checkpoint)
        if self.checkpoint not in ("auto", "sqrt"):
            raise InputError(
                f"--checkpoint is {self.checkpoint!r}: use auto, all, sqrt, or a number of steps, 1 or more"
            )
        return self.checkpoint

    @property
    def memory_bytes(self) -> int:
        """`memory` in bytes."""
        return parse_bytes(self.memory)

    def network_arguments(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What `Network` takes, for data that say n_in, n_out, loss and, for a class softmax, the classes."""
        names = (
            "arch", "hidden", "dtype", "backend", "embedding", "bias", "output_bias", "direct_input", "direct_output",
            "l2", "activation", "order", "alpha", "learn_alpha", "context", "periods",
        )  # fmt: skip
        return {**data, **{name: getattr(self, name) for name in names}}

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raise InputError where one of the options was given."""
        defaults = TrainConfig()
        for name in names:
            value = getattr(self, name)
            if value and value != getattr(defaults, name):
                raise InputError(f"{option_name(name)} was given, and {why}: leave it out")

    def resolved(self) -> TrainConfig:
        """The same run said in full: what is built in or a default by name, files by their whole paths."""
        files: dict[str, Any] = {}
        for name in ("text", "valid", "test", "init_from"):
            path = getattr(self, name)
            files[name] = None if path is None else os.path.abspath(path)
        warm_start = 0.0 if self.damping == "line-search" else 0.95
        first = FIRST_GRADIENT_SYMBOLS if self.gradient_symbols else 0
        rate = LEARNING_RATES.get(self.optimizer) if self.learning_rate is None else self.learning_rate
        return replace(
            self,
            learning_rate=rate,
            momentum=(0.9 if self.optimizer == "sgd" else 0.0) if self.momentum is None else self.momentum,
            warm_start=warm_start if self.warm_start is None else self.warm_start,
            first_gradient_symbols=first if self.first_gradient_symbols is None else self.first_gradient_symbols,
            data=self.data or (None if self.text else "python-manual"),
            minutes=None if self.time_limit is None else self.time_limit / 60,
            **files,
        )

    def to_toml(self) -> dict[str, Any]:
        """A table of all options that are not None, under their names on the command line."""
        pairs = {option_key(spec.name): getattr(self, spec.name) for spec in dataclasses.fields(self)}
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in pairs.items() if value is not None
        }


def config_from_mapping(options: Mapping[str, Any], source: str) -> TrainConfig:
    """A configuration from names and values, as a TOML file or a caller gives them.

    Raises
    ------
    InputError
        A name that is no option (the nearest is named), or a value that does not fit.
    """
    return TrainConfig(**checked_options(options, source))


def checked_options(options: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The options under their field names, with the types that the fields have."""
    fields = {option_key(spec.name): spec for spec in dataclasses.fields(TrainConfig)}
    values = {}
    for given, value in options.items():
        key = given.rstrip("_").replace("-", "_")
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(fields)}"
            raise InputError(f"{source} has an option {given!r} that is not known: {hint}")
        spec = fields[key]
        values[spec.name] = converted(value, str(spec.type), f"{source}: {key}")
    return values
