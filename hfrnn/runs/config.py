"""The configuration of a training run: checked values of its options, and their form in a TOML file."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfrnn.checks import instance
from hfrnn.choices import AUTO, DEVICES, DYNAMICS, HOST_MEMORY
from hfrnn.errors import InputError, MissingExtraError, reason_of
from hfrnn.files import CONFIGURATION, read_bytes
from hfrnn.option import Option, nearest
from hfrnn.runs.defaults import (
    ARRAY_NETWORK,
    KINDS_OF_ARRAYS,
    TASK_NETWORK,
    TASK_WEIGHTS,
    WORD_NETWORK,
    kind_of_data,
    preset_values,
    usual_values,
)
from hfrnn.runs.options import (
    AVERAGES,
    DEFAULT_MINUTES,
    HF,
    LEARNING_RATES,
    MOMENTA,
    SHARES,
    SHIFT,
    WORDS,
    RunOptions,
    option_name,
    run_options,
)
from hfrnn.wording import short

PATHS = ("text", "valid", "test", "init_from", "connectivity")
"""The options that name a file or a folder, besides `data` and `targets`."""


@dataclass(frozen=True, init=False)
class TrainConfig(RunOptions):
    """The options of one training run.

    The names are those of the command line, with `_` for `-`; `hfrnn train --help-all` explains them all.

    Parameters
    ----------
    **values
        Options of a run and of its architecture, by name. Every option has a default.

    Raises
    ------
    InputError
        An option is not known, or its value is not allowed.

    Examples
    --------
    >>> import hfrnn
    >>> config = hfrnn.TrainConfig(data="sine", hidden=50)
    >>> config
    TrainConfig(data='sine', arch='rnn', hidden=(50,))
    >>> config.resolved().cg_iterations
    30
    """

    arch_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The options of the architecture that were given, by name; they are attributes too."""

    def __init__(self, *, arch_options: Mapping[str, Any] | None = None, **values: Any) -> None:
        instance("arch_options", arch_options, Mapping, "a table of options by name", or_none=True)
        given, own = {**(arch_options or {})}, run_options()
        values = {**suited(values), **values}
        for name in [name for name in values if name not in own]:
            given[name] = values.pop(name)
        for name, declared in own.items():
            value = declared.convert(values.get(name, declared.default), declared.flag)
            declared.check(value, declared.flag)
            object.__setattr__(self, name, value)
        for name, value in given.items():
            declaration = arch_option(name, self.arch, "TrainConfig()")
            if declaration is not None:
                given[name] = declaration.convert(value, declaration.flag)
                if name in own_arch_options(self.arch):
                    declaration.check(given[name], declaration.flag)
        object.__setattr__(self, "arch_options", {name: value for name, value in given.items() if value is not None})
        self._check_pairs()

    def __repr__(self) -> str:
        """Return the options that differ from their defaults."""
        own = {name: getattr(self, name) for name, each in run_options().items() if getattr(self, name) != each.default}
        values = ", ".join(f"{name}={short(value)}" for name, value in {**own, **self.arch_options}.items())
        return f"TrainConfig({values})"

    if not TYPE_CHECKING:  # a type checker would take every misspelled attribute for an option

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or "arch_options" not in self.__dict__:
                raise AttributeError(name)
            if name in self.arch_options:
                return self.arch_options[name]
            declarations = arch_declarations().get(name)
            if declarations is None:
                raise AttributeError(f"there is no option {name}")
            return declarations[self.arch].default if self.arch in declarations else None

    def _check_pairs(self) -> None:
        """Raise InputError for options whose values do not fit together."""
        for name in ("min_count", "max_vocabulary"):
            if getattr(self, name) is not None and (why := WORDS.unmet(self)):
                raise InputError(f"{option_name(name)} is {getattr(self, name)}, and {why}")
        if self.rho_low > self.rho_high:
            raise InputError(
                f"--rho-low is {self.rho_low:g}, and --rho-high is {self.rho_high:g}: give a --rho-low that is not "
                "above --rho-high"
            )
        for share, number in SHARES:  # a resolved configuration has the usual share
            given, usual = getattr(self, share), usual_values(share, self)
            if (value := getattr(self, number)) is not None and given not in (None, 0, *usual):
                raise InputError(
                    f"{option_name(share)} is {given:g}, and {option_name(number)} is {value}: give one of them"
                )
        if self.density is not None and self.connectivity is not None:
            raise InputError(
                f"--density is {self.density:g}, and --connectivity is {self.connectivity}: give one of them"
            )
        if self.excitatory_output and self.excitatory is None:
            raise InputError(
                "--excitatory-output was given, and --excitatory was not: give a share of excitatory units"
            )
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
        """`checkpoint` as an argument of `Objective`."""
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
    def chosen_backend(self) -> str:
        """The name of the backend to compute with, where `backend` may be "auto"."""
        from hfrnn.kernels.registry import resolve_backend

        return resolve_backend(self.backend, self.arch, on_gpu=self.optimizer != "online")

    @property
    def why_backend(self) -> str:
        """Why "auto" chose that backend, in a few words; "" if another one was named."""
        from hfrnn.kernels.registry import choose_backend

        return choose_backend(self.arch, self.optimizer != "online")[1] if self.backend == AUTO else ""

    @property
    def memory_bytes(self) -> int:
        """`memory` in bytes; that of a CPU if there is none yet."""
        return HOST_MEMORY if self.memory is None else parse_bytes(self.memory)

    def network_arguments(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `Network`.

        Parameters
        ----------
        data : dict
            The arguments that the data decide: n_in, n_out, loss and, for a class softmax, the classes.
        """
        names = (
            "arch", "hidden", "dtype", "backend", "embedding", "bias", "output_bias", "direct_input", "direct_output",
            "l2", "learn_initial_state",
        )  # fmt: skip
        return {**data, **{name: getattr(self, name) for name in names}, **self.arch_options}

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Raise InputError if one of the options was given."""
        for name in names:
            value = getattr(self, name)
            if value and value != run_options()[name].default:
                raise InputError(f"{option_name(name)} was given, and {why}: leave it out")

    def resolved(self) -> TrainConfig:
        """Return a copy with every default resolved and every path absolute."""
        hf = preset_values(self)
        lacks_shift = self._lacks_shift(hf)
        if self.optimizer != "hf":
            hf = {name: value for name, value in hf.items() if name not in ("average", "mu", "lambda_")}
        computed = {
            "learning_rate": LEARNING_RATES.get(self.optimizer),
            "average": AVERAGES.get(self.optimizer, 0.0),
            "momentum": MOMENTA.get(self.optimizer, 0.0),
            **hf,
            "preconditioner_shift": SHIFT if lacks_shift else None,
        }
        changes: dict[str, Any] = {name: value for name, value in computed.items() if getattr(self, name) is None}
        for name in PATHS:
            path = getattr(self, name)
            changes[name] = None if path is None else os.path.abspath(path)
        changes |= self._resolved_data()
        defaults = {name: declared.default for name, declared in own_arch_options(self.arch).items()}
        backend = self.chosen_backend
        return replace(
            self,
            minutes=None if self.time_limit is None else self.time_limit / 60,
            backend=backend,
            memory=default_memory(backend) if self.memory is None else self.memory,
            arch_options={**defaults, **self.arch_options},
            **changes,
        )

    def _resolved_data(self) -> dict[str, Any]:
        """Return the options of arrays and tables with their defaults, and their paths absolute."""
        kind = kind_of_data(self.data)
        if kind == "MIDI music":
            name, path = str(self.data), os.path.abspath(str(self.data))
            folder = os.path.isdir(path) or name.endswith(("/", os.sep))
            return {"data": os.path.join(path, "") if folder else path}
        if kind not in KINDS_OF_ARRAYS:
            return {"data": self.data or (None if self.text else "python-manual")}
        found: dict[str, Any] = {"standardize": self._standardizes(kind)}
        if kind != "arrays in memory":
            found["data"] = os.path.abspath(str(self.data))
        if kind == "an array file" and self.targets is not None:
            found["targets"] = (os.path.abspath(",".join(self.targets)),)
        return found

    def _standardizes(self, kind: str) -> bool:
        """Return whether a run on such data scales them; one with `init_from` does what that run does."""
        first = self.init_from
        if first is None or not os.path.isfile(os.path.join(first, "config.toml")):  # opening the data says why
            return kind == "a table" if self.standardize is None else self.standardize
        scales = os.path.isfile(os.path.join(first, "scaling.json"))
        if self.standardize not in (None, scales):
            given, does = ("--standardize", "does not scale") if self.standardize else ("--no-standardize", "scales")
            raise InputError(
                f"{given} was given, and the run {first} {does} its data: leave it out, because a run from its weights "
                "has its scaling"
            )
        return scales

    def _lacks_shift(self, hf: Mapping[str, Any]) -> bool:
        """Return whether the preconditioner has neither a relative shift nor a lambda to add to its diagonal."""
        return hf["preconditioner"] != "none" and not (hf["preconditioner_relative_shift"] or hf["lambda_"])

    def to_toml(self) -> dict[str, Any]:
        """Return a table of all options that are not None, under their names on the command line."""
        pairs = {declared.key: getattr(self, name) for name, declared in run_options().items()}
        table = {**pairs, **self.arch_options}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()
                if value is not None}  # fmt: skip


def default_memory(backend: str) -> str | None:
    """Return the default of `memory` for a backend; None if its GPU cannot be used, which a network will refuse."""
    from hfrnn.arrays.backend import get_backend

    if backend not in DEVICES:
        return f"{HOST_MEMORY // 2**30}GiB"
    with contextlib.suppress(MissingExtraError):
        return f"{get_backend(backend).default_memory() // 2**20}MiB"
    return None


def arch_declarations() -> dict[str, dict[str, Option]]:
    """The options that architectures declare: name of the option, then architecture, to the declaration.

    Raises
    ------
    InputError
        An architecture declares an option that every run has.
    """
    from hfrnn.kernels.registry import declared_options

    found = declared_options()
    for name in found.keys() & run_options().keys():
        raise InputError(
            f"the architecture {next(iter(found[name]))} declares an option named {name}, which every run has: rename "
            "it"
        )
    return found


def own_arch_options(arch: str) -> Mapping[str, Option]:
    """The options that an architecture declares, by name; none if the architecture is not registered."""
    from hfrnn.kernels.registry import architectures, kernel_options

    return kernel_options(arch) if arch in architectures() else {}


def arch_option(name: str, arch: str, source: str) -> Option | None:
    """The declaration of an architecture's option.

    Parameters
    ----------
    name : str
    arch : str
        The architecture that was chosen. If it is not registered, its options cannot be known.
    source : str
        Where the option was given, for the message.

    Returns
    -------
    Option or None
        The declaration of the chosen architecture, or else that of another one; None if `arch` is not registered.

    Raises
    ------
    InputError
        No registered architecture declares the option, and it is not an option of a run either.
    """
    from hfrnn.kernels.registry import architectures

    declarations = arch_declarations()
    if name in declarations:
        return declarations[name].get(arch) or next(iter(declarations[name].values()))
    if arch not in architectures():
        return None
    known = [*(declared.key for declared in run_options().values()), *declarations]
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
    raise InputError(f"{source} has an option {name!r} that is not known: {hint}")


def all_options() -> dict[str, Option]:
    """The declarations of all options of runs and registered architectures, by name."""
    of_archs = {name: next(iter(declarations.values())) for name, declarations in arch_declarations().items()}
    return {**run_options(), **of_archs}


def checked_options(options: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return options under the names and with the types that `TrainConfig` has.

    Parameters
    ----------
    options : mapping
        Values by name, as a TOML file or a caller gives them.
    source : str
        Where they come from, for messages.

    Raises
    ------
    InputError
        An option is not known (the message has the nearest name), or its value has another type.
    """
    own = {declared.key: declared for declared in run_options().values()}
    arch = own["arch"].convert(chosen_arch(options), f"{source}: arch")
    values = {}
    for given, value in options.items():
        key = given.rstrip("_").replace("-", "_")
        declared = own.get(key) or arch_option(key, arch, source)
        values[declared.name if declared else key] = declared.convert(value, f"{source}: {key}") if declared else value
    return values


def chosen_arch(options: Mapping[str, Any]) -> Any:
    """Return the architecture that options ask for, or else the one that suits their data."""
    return {"arch": run_options()["arch"].default, **suited(options), **options}["arch"]


def check_values(values: Mapping[str, Any], source: str, arch: str) -> None:
    """Check every option by itself, but no pair of options: others may still be added.

    Parameters
    ----------
    values : mapping
        What `checked_options` returns.
    source : str
        Where the options come from, for messages.
    arch : str
        The architecture whose own options are checked.

    Raises
    ------
    InputError
        A value is outside the choices or bounds of its option.
    """
    declarations = {**run_options(), **own_arch_options(arch)}
    for name, value in values.items():
        if name in declarations:
            declarations[name].check(value, f"{source}: {declarations[name].key}")


# ------------------------------------------------------------------ sizes and TOML files


def parse_bytes(text: str) -> int:
    """Return a size such as 4GiB, 500MB or 1000000 as a number of bytes.

    Raises
    ------
    InputError
        The text is not such a size, or the size is above 2^60.
    """
    units = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
    digits = text.strip().rstrip("BbKkMmGgIi ")
    unit = text.strip()[len(digits) :].strip().lower()
    try:
        size = int(float(digits) * units[unit])
    except (ValueError, KeyError, OverflowError):
        size = 0
    if not 1 <= size <= 2**60:
        raise InputError(f"--memory is {text!r}: give a number of bytes such as 4GiB, 500MB or 1000000")
    return size


def read_toml(path: str | Path, *, links: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a TOML file with options.

    Parameters
    ----------
    path : path
        A regular file of at most 1 MiB.
    links : bool
        Whether it may be a link to a file.

    Returns
    -------
    options, versions : dict
        The options, and the table `versions` that a run's config.toml has; {} without such a table.

    Raises
    ------
    InputError
        The file cannot be read, is not TOML, or has another table.
    """
    try:
        content = read_bytes(path, CONFIGURATION, links=links)
    except (OSError, ValueError) as error:
        raise InputError(f"configuration {path} cannot be read ({reason_of(error)}): give a TOML file") from error
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, and of a number with too many digits
        raise InputError(f"configuration {path} is not TOML ({error}): correct it") from error
    options = {name: value for name, value in table.items() if name != "versions"}
    if tables := [name for name, value in options.items() if isinstance(value, dict)]:
        raise InputError(
            f"configuration {path} has a table [{tables[0]}]: write the options in it without a table, and "
            'numbers by name as max_norm = "layer0.W_h=2"'
        )
    versions = table.get("versions")
    return options, versions if isinstance(versions, dict) else {}


# ------------------------------------------------------------------ defaults that suit the data


def suited(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that suit the data, by name, where the general defaults do not.

    Parameters
    ----------
    given : mapping
        The options that were given, by name. A network that is chosen by `arch` keeps the general defaults, except for
        arrays and for the first weights of an `rnn` for a task. An option of Hessian-free optimization keeps that
        optimizer.

    Returns
    -------
    dict
        Values of options; some may be in `given` too.
    """
    from hfrnn.data.corpora import CORPORA
    from hfrnn.data.tasks import tasks
    from hfrnn.runs.options import run_options

    data, text = given.get("data"), given.get("text")
    found: dict[str, Any] = {}
    if isinstance(data, str) and data in tasks():
        found = {} if "arch" in given else dict(TASK_NETWORK)
        of_weights = any(given.get(name) is not None for name in ("initializer", "init_scale", "init_from"))
        usual = _is(given.get("arch", TASK_NETWORK["arch"]), str(TASK_NETWORK["arch"]))
        if data not in DYNAMICS and usual and not of_weights:
            found |= TASK_WEIGHTS
    elif isinstance(data, str) and kind_of_data(data) in KINDS_OF_ARRAYS:
        found = dict(ARRAY_NETWORK)
    elif _is(given.get("level"), "word") and "arch" not in given and text is None:
        found = dict(WORD_NETWORK) if data is None or (isinstance(data, str) and data in CORPORA) else {}
        if any(HF in declared.needs for name, declared in run_options().items() if name in given):
            found.pop("optimizer", None)
    return found


def _is(value: object, name: str) -> bool:
    """Return whether an option, which is not checked yet, has this name as its value."""
    return isinstance(value, str) and value == name


# ------------------------------------------------------------------ kinds of data


def is_text(config: TrainConfig) -> bool:
    """Return whether a configuration trains on a text."""
    return kind_of_data(config.data) == "a text"


def is_arrays(config: TrainConfig) -> bool:
    """Return whether a configuration trains on arrays or a table, from a file or from memory."""
    return kind_of_data(config.data) in KINDS_OF_ARRAYS


def is_music(config: TrainConfig) -> bool:
    """Return whether a configuration trains on music by name or on MIDI files."""
    return kind_of_data(config.data) in ("music", "MIDI music")
