"""The configuration of a training run: the options that were given, and all values that follow from them."""

from __future__ import annotations

import codecs
import contextlib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple, NoReturn

from hfrnn.checks import instance, near_hint
from hfrnn.choices import AUTO, DEVICES, HOST_MEMORY
from hfrnn.data.kinds import kind_of, takers
from hfrnn.data.kinds.data_kind import DataKind
from hfrnn.errors import InputError, Message, MissingExtraError, reason_of
from hfrnn.files import CONFIGURATION, read_bytes
from hfrnn.losses import LOSSES, loss_options
from hfrnn.option import SLASHES, Option, absolute, argument, either, listed, option_key
from hfrnn.runs.defaults import dependent, suited
from hfrnn.runs.optimizers import OPTIMIZERS
from hfrnn.runs.options import DEFAULT_MINUTES, run_options
from hfrnn.wording import one_line, short

ONE_OF = (
    ("text", "data"), ("curvature_fraction", "curvature_symbols"), ("density", "connectivity"),
    ("preconditioner_relative_shift", "preconditioner_shift"),
)  # fmt: skip
"""Pairs of options that say one thing in two ways. A run is given at most one of the two."""

GIVEN = "# The options that were given. As a configuration file, these make the same run.\n"
FOLLOWED = "# What followed from them. To change one of these values, write it above.\n"


class Tables(NamedTuple):
    """The content of a TOML file with options: those that were given, those that followed, and versions."""

    given: dict[str, Any]
    followed: dict[str, Any]
    versions: dict[str, Any]


class TrainConfig:
    """The options of one training run.

    The names are those of the command line, with `_` for `-`; `hfrnn train --help-all` explains them all. Every option
    is an attribute.

    Parameters
    ----------
    arch_options : mapping, optional
        More options, usually those of the architecture, by name.
    **values
        Options of a run and of its architecture, by name. Every option has a default, which None stands for.

    Attributes
    ----------
    given : dict
        The options that were given, by name.
    values : dict
        The values of all options of a run, by name. Those whose default depends on others are None before `resolved`.
    arch_options : dict
        The options of the architecture that were given, by name.
    kind : subclass of DataKind
        The kind of the data.
    is_resolved : bool
        Whether every default has its value.
    why_backend : str
        Why "auto" chose the backend, in a few words; "" if it was named.

    Raises
    ------
    InputError
        An option is not known, or its value is not allowed.

    Examples
    --------
    >>> import hfrnn
    >>> config = hfrnn.TrainConfig(data="sine", hidden=50)
    >>> config
    TrainConfig(data='sine', hidden=(50,))
    >>> config.arch, config.resolved().cg_iterations
    ('rnn', 30)
    """

    given: dict[str, Any]
    values: dict[str, Any]
    arch_options: dict[str, Any]
    kind: type[DataKind]
    is_resolved: bool
    why_backend: str

    def __init__(self, *, arch_options: Mapping[str, Any] | None = None, **values: Any) -> None:
        instance("arch_options", arch_options, Mapping, "a table of options by name", or_none=True)
        self._set(_without_none(checked_options({**(arch_options or {}), **values}, "TrainConfig()")))
        for name, declared in own_arch_options(self.arch).items():
            if name in self.arch_options:
                declared.check(self.arch_options[name])
        self._check_pairs()

    def _set(self, given: dict[str, Any], values: Mapping[str, Any] | None = None, why_backend: str = "") -> None:
        """Set all attributes from the options that were given, and from known values of others."""
        own = run_options()
        defaults = {name: declared.default for name, declared in own.items()}
        found = {**defaults, **(suited(given) if values is None else values), **given}
        self.__dict__.update(
            given=given,
            values={name: value for name, value in found.items() if name in own},
            arch_options={name: value for name, value in found.items() if name not in own},
            kind=kind_of(given),
            why_backend=why_backend,
            is_resolved=values is not None,
        )

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a TrainConfig does not change: config.replace({name}=...) returns another one")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "is_resolved" not in self.__dict__:
            raise AttributeError(name)
        for values in (self.values, self.arch_options):
            if name in values:
                return values[name]
        declarations = arch_declarations().get(name)
        if declarations is None:
            raise AttributeError(f"there is no option {name}")
        return declarations[self.arch].default if self.arch in declarations else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TrainConfig):
            return NotImplemented
        return (self.values, self.arch_options) == (other.values, other.arch_options)

    def __hash__(self) -> int:
        return hash(tuple(self.values.items()))

    def __repr__(self) -> str:
        """Return the options that were given."""
        return f"TrainConfig({', '.join(f'{name}={short(value)}' for name, value in self.given.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return stored_config, (self.given, self._all if self.is_resolved else None)

    @property
    def _all(self) -> dict[str, Any]:
        """The values of all options of the run and of its architecture, by name."""
        return {**self.values, **self.arch_options}

    def replace(self, **changes: Any) -> TrainConfig:
        """Return a copy with other values of some options; None takes back what was given.

        In a configuration that is resolved, all other options keep their values.

        Raises
        ------
        InputError
            An option is not known, or its value is not allowed.
        """
        if not changes:
            return self
        changes = checked_options(changes, "replace()")
        given = _without_none({**self.given, **changes})
        if not self.is_resolved:
            return TrainConfig(**given)
        why = self.why_backend
        if changes.get("backend") == AUTO:
            changes["backend"], why = stored_config(given, self._all).chosen_backend()
            del given["backend"]
        config = stored_config(given, {**self._all, **changes}, why)
        config._check_pairs()
        return config

    def completed(self, **values: Any) -> TrainConfig:
        """Return a copy of a resolved configuration with other values of some options, which nobody gave."""
        given = {name: values.get(name, value) for name, value in self.given.items()}
        return stored_config(given, {**self._all, **values}, self.why_backend)

    def _check_pairs(self) -> None:
        """Raise InputError for options whose values do not fit together."""
        for one, other in ONE_OF:
            if self.given.get(one) and other in self.given:
                both = f"{argument(one)} is {{0}}, and {argument(other)} is {{1}}: give one of them"
                raise InputError(Message(both, self.given[one], self.given[other]))
        if self.rho_low > self.rho_high:
            crossed = "{rho_low} is {0:g}, and {rho_high} is {1:g}: give a {rho_low} that is not above {rho_high}"
            raise InputError(Message(crossed, self.rho_low, self.rho_high))
        if self.excitatory_output and self.excitatory is None:
            alone = "{excitatory_output:True} was given, and {excitatory} was not: give a share of excitatory units"
            raise InputError(Message(alone))

    # ------------------------------------------------------------------ what follows from the options

    @property
    def followed(self) -> dict[str, Any]:
        """The values of the options that were not given and have a value and an effect in this run, by name."""
        others = {name: value for name, value in _without_none(self._all).items() if name not in self.given}
        return {name: value for name, value in others.items() if self.uses(name)}

    def uses(self, name: str) -> bool:
        """Return whether an option is for the optimizer and the kind of data of the run."""
        optimizers, kinds = OPTIMIZERS.takers(name), takers(name)
        return (not optimizers or self.optimizer in optimizers) and (not kinds or self.kind in kinds)

    @property
    def is_constrained(self) -> bool:
        """Whether some weights are absent or keep their signs."""
        return any(value is not None for value in (self.density, self.connectivity, self.excitatory))

    @property
    def time_limit(self) -> float | None:
        """Seconds of training, or None without a limit."""
        if self.minutes is None:
            return 60 * DEFAULT_MINUTES if self.updates is None and self.epochs is None else None
        return float(60 * self.minutes)

    @property
    def checkpoint_argument(self) -> str | int | None:
        """`checkpoint` as an argument of `Objective`."""
        if self.checkpoint == "all":
            return None
        if self.checkpoint.isdecimal() and len(self.checkpoint) < 20 and int(self.checkpoint) > 0:
            return int(self.checkpoint)
        if self.checkpoint not in ("auto", "sqrt"):
            expected = "use auto, all, sqrt, or a number of steps, 1 or more"
            raise InputError(Message("{checkpoint} is {0!r}: {1}", self.checkpoint, expected))
        return str(self.checkpoint)

    def chosen_backend(self) -> tuple[str, str]:
        """Return the backend to compute with, and why "auto" chose it; "" if it was named."""
        from hfrnn.kernels.registry import choose_backend

        if self.backend != AUTO:
            return self.backend, ""
        return choose_backend(self.arch, OPTIMIZERS[self.optimizer].on_gpu)

    @property
    def memory_bytes(self) -> int:
        """`memory` in bytes; that of a CPU if there is none yet."""
        return HOST_MEMORY if self.memory is None else parse_bytes(self.memory)

    def network_arguments(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `Network`; `data` are those that the data decide: n_in, n_out, loss and perhaps classes."""
        names = (
            "arch", "hidden", "dtype", "backend", "embedding", "bias", "output_bias", "direct_input", "direct_output",
            "learn_initial_state", "feedthrough",
        )  # fmt: skip
        of_loss = {option.name for option in LOSSES[data["loss"]].options}
        for name in loss_options().keys() - of_loss:
            takers = [loss for loss in LOSSES.names() if name in {each.name for each in LOSSES[loss].options}]
            loss = Message(f"the loss is {data['loss']}: it is for {either(takers)}")
            self.refuse((name,), loss)
        found = {**data, **{name: getattr(self, name) for name in (*names, *of_loss)}, **self.arch_options}
        learned = self.learn_initial_state or "recordings" in data
        return {**found, "l2": self.l2 or 0.0, "learn_initial_state": learned}

    def refuse(self, names: Iterable[str], why: str | Message) -> None:
        """Raise InputError if one of the options was given with an effect."""
        for name in names:
            value, default = self.given.get(name), run_options()[name].default
            if (value or (value is False and default is True)) and value != default:
                raise InputError(Message(f"{argument(name)} was given, and {{0}}: leave it out", why))

    def resolved(self) -> TrainConfig:
        """Return a copy with every default resolved and every path absolute; itself if it is resolved."""
        if self.is_resolved:
            return self
        values = {**self.values, **dependent(self)}
        values["minutes"] = None if self.time_limit is None else self.time_limit / 60
        values["backend"], why = self.chosen_backend()
        values["memory"] = default_memory(values["backend"]) if self.memory is None else self.memory
        paths = {name: absolute(value) for name, option in run_options().items()
                 if option.path and (value := values[name]) is not None}  # fmt: skip
        values |= paths | self.kind.resolved({**values, **paths})
        given = {name: values.get(name, value) for name, value in self.given.items()
                 if (name, value) != ("backend", AUTO)}  # fmt: skip
        given |= {name: self.given[name] for name in ("minutes", "memory") if name in given}
        defaults = {name: declared.default for name, declared in own_arch_options(self.arch).items()}
        return stored_config(given, {**values, **defaults, **self.arch_options}, why)

    def to_toml(self, versions: Mapping[str, str] | None = None) -> str:
        """Return the content of config.toml: what was given, what followed from it, and a table of versions, if any."""
        import tomli_w

        given, followed = map(_as_table, (self.given, self.followed))
        parts = [GIVEN, tomli_w.dumps(given), "\n", FOLLOWED, tomli_w.dumps({"followed": followed})]
        return "".join(parts if versions is None else [*parts, "\n", tomli_w.dumps({"versions": dict(versions)})])


def stored_config(
    given: Mapping[str, Any], values: Mapping[str, Any] | None = None, why_backend: str = ""
) -> TrainConfig:  # fmt: skip
    """Return the configuration of options that were checked one by one; it is resolved if the values of all are given.

    Whether options fit together is not checked: others may be given later.
    """
    config = TrainConfig.__new__(TrainConfig)
    config._set(dict(given), values, why_backend)
    return config


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def read_toml(path: str | Path, *, links: bool = True) -> Tables:
    """Read a TOML file with options of at most 1 MiB: one of a user, or config.toml of a run. `links` allows links."""
    try:
        content = read_bytes(path, CONFIGURATION, links=links)
    except (OSError, ValueError) as error:
        raise InputError(f"configuration {path} cannot be read ({reason_of(error)}): give a TOML file") from error
    try:
        utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as `>` of Windows' PowerShell writes
        table = tomllib.loads(content.decode("utf-16" if utf_16 else "utf-8-sig"))
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, and of a number with too many digits
        raise InputError(f"configuration {path} is not TOML ({error}): correct it") from error
    followed, versions = (found if isinstance(found := table.pop(name, {}), dict) else {}
                          for name in ("followed", "versions"))  # fmt: skip
    if tables := [name for name, value in table.items() if isinstance(value, dict)]:
        advice = 'write the options in it without a table, and numbers by name as max_norm = "layer0.W_h=2"'
        raise InputError(f"configuration {path} has a table [{tables[0]}]: {advice}")
    return Tables(table, followed, versions)


def _as_table(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the keys and types of TOML."""
    return {option_key(name): list(value) if isinstance(value, tuple) else value for name, value in options.items()}


def default_memory(backend: str) -> str | None:
    """Return the default of `memory` for a backend; None if its GPU cannot be used, which a network will refuse."""
    from hfrnn.arrays.backend import get_backend

    if backend not in DEVICES:
        return f"{HOST_MEMORY // 2**30}GiB"
    with contextlib.suppress(MissingExtraError):
        return f"{get_backend(backend).default_memory() // 2**20}MiB"
    return None


def parse_bytes(text: str) -> int:
    """Return a size such as 4GiB, 500MB or 1000000, at most 2^60, as a number of bytes."""
    units = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
    digits = text.strip().rstrip("BbKkMmGgIi ")
    unit = text.strip()[len(digits) :].strip().lower()
    try:
        size = int(float(digits) * units[unit])
    except (ValueError, KeyError, OverflowError):
        size = 0
    if not 1 <= size <= 2**60:
        raise InputError(Message("{memory} is {0!r}: give a number of bytes such as 4GiB, 500MB or 1000000", text))
    return size


# ---------------------------------------------------------------------- options by name


def useless(name: str, config: TrainConfig) -> Message | None:
    """Return why an option has no effect in a resolved configuration, and what it is for; None where it has one."""
    from hfrnn.kernels.registry import architectures

    if name not in run_options():
        archs = arch_declarations().get(name, {})
        if not archs or config.arch in archs or config.arch not in architectures():
            return None
        return Message(f"{{arch}} is {{0}}: it is for {argument('arch', either(archs))}", config.arch)
    if (optimizers := OPTIMIZERS.takers(name)) and config.optimizer not in optimizers:
        useful = argument("optimizer", either(optimizers))
        return Message(f"{{optimizer}} is {{0}}: it is for {useful}", config.optimizer)
    if (kinds := takers(name)) and config.kind not in kinds:
        named = config.given.get("text") or config.given.get("data")
        first = next(iter(listed(named)), "")
        data = os.path.basename(first) or first or "the built-in corpus"
        about = either(dict.fromkeys(kind.about for kind in kinds))
        return Message("{0} is {1}: it is for {2}", one_line(data), config.kind.about, about)
    return next((why for need in run_options()[name].needs if (why := need.unmet(config))), None)


def arch_declarations() -> dict[str, dict[str, Option]]:
    """The options that architectures declare: name of the option, then architecture, to the declaration."""
    from hfrnn.kernels.registry import declared_options

    found = declared_options()
    for name in found.keys() & run_options().keys():
        arch = next(iter(found[name]))
        raise InputError(f"the architecture {arch} declares an option named {name}, which every run has: rename it")
    return found


def own_arch_options(arch: str) -> Mapping[str, Option]:
    """The options that an architecture declares, by name; none if the architecture is not registered."""
    from hfrnn.kernels.registry import architectures, kernel_options

    return kernel_options(arch) if arch in architectures() else {}


def arch_option(name: str, arch: str, source: str) -> Option | None:
    """The declaration of an option of the chosen architecture, or else of another one.

    None if the chosen one is not registered, so that its options are not known. If no architecture declares the option,
    the InputError says where it was given: in `source`.
    """
    from hfrnn.kernels.registry import architectures

    declarations = arch_declarations()
    if name in declarations:
        return declarations[name].get(arch) or next(iter(declarations[name].values()))
    if arch not in architectures():
        return None
    known = [*(declared.key for declared in run_options().values()), *declarations]
    hint = near_hint(name, known) or f": there are {', '.join(known)}"
    raise InputError(f"{source} has an option {name!r} that is not known{hint}")


def all_options() -> dict[str, Option]:
    """The declarations of all options of runs and registered architectures, by name."""
    of_archs = {name: next(iter(declarations.values())) for name, declarations in arch_declarations().items()}
    return {**run_options(), **of_archs}


def checked_options(options: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return options, as a TOML file or a caller gives them, under their names in Python and with their types.

    Each is checked by itself. Where they come from (`source`) is for the message about a name that is not known.
    """
    from hfrnn.kernels.registry import first_name

    by_key = {declared.key: declared for declared in run_options().values()}
    values = {given.rstrip("_").replace("-", "_"): value for given, value in options.items()}
    if not isinstance(values.get("dtype"), str | None):
        from hfrnn.arrays.array_checks import type_name

        values["dtype"] = type_name(values["dtype"])
    found: dict[str, Any] = {}
    for key, declared in ((key, by_key[key]) for key in values if key in by_key):
        found[declared.name] = values[key] if values[key] is None else declared.convert(values[key])
        if found[declared.name] is not None:
            declared.check(found[declared.name])
    if "arch" in found:
        found["arch"] = first_name(found["arch"])
    arch = found.get("arch") or {"arch": by_key["arch"].default, **suited(_without_none(found))}["arch"]
    for key, value in values.items():
        if key not in by_key:
            own = arch_option(key, arch, source)
            found[own.name if own else key] = value if own is None or value is None else own.convert(value)
    return found


# ---------------------------------------------------------------------- files of data that lie elsewhere


PATHS = ("text", "data", "valid", "test", "targets")
"""The options that may name files of data."""


def files_of(config: TrainConfig, name: str) -> tuple[str, ...]:
    """Return the paths that an option names; none if it names something else, such as a corpus or columns."""
    paths = tuple(map(str, listed(config.values.get(name))))
    if name == "targets" and not {*paths} <= {str(each) for each in config.kind.files(config.values)}:
        return ()  # names of columns, or of datasets such as /session/rates
    return paths if all(map(_is_absolute, paths)) else ()


def _is_absolute(path: str) -> bool:
    """Return whether a path begins at a root of POSIX or of Windows: the run may come from another system."""
    return PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()


def beside(config: TrainConfig, run: Path) -> TrainConfig:
    """Return the configuration of a run with files that are gone, but lie beside it.

    Beside it means: in the folder that holds the run folder, in the run folder, or in the current folder. Whether they
    are the same files is checked when they are opened, by their hashes.
    """
    found: dict[str, Any] = {}
    for name in PATHS:
        paths = files_of(config, name)
        if any(not os.path.exists(path) for path in paths):
            moved = tuple(_beside(path, run) for path in paths)
            found[name] = moved if isinstance(config.values[name], tuple) else moved[0]
    return config.completed(**found) if found else config


def _beside(path: str, run: Path) -> str:
    name = (PureWindowsPath if PureWindowsPath(path).is_absolute() else PurePath)(path).name
    end = os.sep if path.endswith(SLASHES) else ""
    places = (os.path.join(folder, name) for folder in (run.absolute().parent, run.absolute(), os.getcwd()))
    return path if os.path.exists(path) else next((place + end for place in places if os.path.exists(place)), path)


def with_files(config: TrainConfig, given: Mapping[str, Any]) -> TrainConfig:
    """Return the configuration of a run whose data are in other files, by the options that name them.

    Raises
    ------
    InputError
        The run has no files of that option, or other data are no files of that kind.
    """
    found = {}
    for name, value in given.items():
        known = [each for each in PATHS if files_of(config, each)]
        if name not in known:
            others = f"give {either(map(argument, known))}" if known else "it has no files of data"
            raise InputError(Message(f"the run has no {argument(name)} that is a file: {others}"))
        values = {**config.values, name: value}
        if name == "data" and not config.kind.recognises(listed(value)[0]):
            about = config.kind.about
            raise InputError(Message("{data} is {0}, and the run was trained on {1}: give that", value, about))
        found[name] = config.kind.resolved(values).get(name) or absolute(value)
    return config.completed(**found)
