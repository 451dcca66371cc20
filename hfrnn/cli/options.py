"""Where the options of a run come from, which of them are of use together, and the nearest name of a wrong one."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from hfrnn.errors import InputError
from hfrnn.runs.config import TrainConfig, checked_options
from hfrnn.runs.options import option_key, option_name, read_toml

STRUCTURAL = ("structural", "structural+tikhonov")
ADAPTING = (*STRUCTURAL, "tikhonov")
NEEDS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("optimizer", ("hf",), "damping mu lambda_ metric gradient_symbols first_gradient_symbols batch_growth "
     "curvature_fraction curvature_symbols cg_iterations cg_epsilon warm_start mu_growth rho_model rho_objective "
     "rho_low rho_high line_search adapt preconditioner preconditioner_exponent preconditioner_shift residual_every "
     "max_failures average"),
    ("optimizer", ("sgd", "adam", "online"), "learning_rate weight_decay streams schedule log_interval validate_every"),
    ("optimizer", ("sgd", "online"), "momentum nesterov"),
    ("schedule", ("text8",), "constant_epochs"),
    ("optimizer", ("sgd", "adam"), "clip_norm clip_value max_norm update_every"),
    ("optimizer", ("hf", "sgd", "adam"), "sequence_length checkpoint embedding l2"),
    ("initializer", ("sutskever",), "spectral_radius"),
    ("damping", STRUCTURAL, "mu metric"),
    ("damping", ADAPTING, "lambda_ mu_growth rho_model rho_low rho_high adapt"),
    ("first_gradient_symbols", ("a part",), "batch_growth"),
    ("preconditioner", ("diagonal",), "preconditioner_exponent preconditioner_shift"),
    ("data", ("a text",), "level min_count max_vocabulary valid test fractions unknown classes sequence_length "
     "update_every sample_length target_bits"),
    ("data", ("a synthetic task",), "length sequences"),
    ("level", ("word",), "min_count max_vocabulary"),
    ("hidden", ("a stack of layers",), "direct_input direct_output"),
)  # fmt: skip
"""What has to be chosen, and how, for options to be of use. Those of an architecture are known by its kernel."""

RESOLVED = ("learning_rate", "momentum", "warm_start", "mu", "lambda_", "first_gradient_symbols")
"""Options whose default depends on another."""

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # which has no type of its choices before click 8.2


class NearChoice(_Choice):
    """One of several words; of a wrong one the nearest is named."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = nearest(str(value), self.choices)
            raise click.BadParameter(error.message + (near and f" Did you mean '{near}'?"), ctx, param) from None


def nearest(name: str, names: Iterable[str]) -> str:
    """The name that is most like it, or "" if none is."""
    return next(iter(difflib.get_close_matches(name, list(names), n=1)), "")


def near_hint(name: str, names: Iterable[str]) -> str:
    """What to put after a name that is not known."""
    near = nearest(name, names)
    return near and f" (did you mean {near}?)"


def known_data() -> dict[str, tuple[str, ...]]:
    """The names that `--data` takes, by what they are."""
    from hfrnn.data.corpora import CORPORA
    from hfrnn.data.music import FILES
    from hfrnn.data.synthetic import tasks

    return {"corpora": tuple(CORPORA), "tasks": tasks(), "music": tuple(FILES)}


def check_architecture(name: str) -> None:
    """Raise InputError, with the nearest name, unless it is an architecture's."""
    from hfrnn.kernels import architectures

    if name not in architectures():
        raise InputError(
            f"architecture {name!r} is not known{near_hint(name, architectures())}: use one of "
            f"{', '.join(architectures())}, or name the file that registers it (hfrnn --kernel FILE)"
        )


def check_data(text: str | None, data: str | None) -> None:
    """Raise InputError for a name of data that is not known, for one given as a file and a file given as one."""
    kinds = known_data()
    names = [name for group in kinds.values() for name in group]
    if text is not None and text in names and not os.path.exists(text):
        raise InputError(f"there is no file {text}: for the data of that name write --data {text}")
    if data is None or data in names:
        return
    if os.path.isfile(data):
        raise InputError(f"there is no corpus named {data!r}, and a file: to train on that write it without --data")
    listed = "; ".join(f"{kind} {', '.join(group)}" for kind, group in kinds.items())
    raise InputError(f"there is no corpus named {data!r}{near_hint(data, names)}: give a text file, or one of {listed}")


def from_file(path: str) -> tuple[dict[str, Any], bool]:
    """The options in a TOML file, checked, and whether it is of a run."""
    values = checked_options(read_toml(path), path)
    TrainConfig(**values)
    return values, "versions" in tomllib.loads(Path(path).read_text("utf-8"))


def merged(
    given: dict[str, Any], config: str | None, stored: TrainConfig | None = None
) -> tuple[dict[str, Any], TrainConfig]:
    """The options of a run: flags over a file, and nothing that would do nothing.

    Parameters
    ----------
    given : dict
        Flags; one that does nothing for what the run trains is refused.
    config : path, optional
        A file. What a flag supersedes in it (`learning_rate` by `--optimizer hf`) is left out, and so are defaults
        that depend on another option. What did nothing there already is refused, unless it is the default or a run
        wrote the file: there is everything in that.
    stored : TrainConfig, optional
        Of the run that goes on; nothing is left out then.

    Returns
    -------
    dict, TrainConfig
        What to train with, and what comes of it.

    Raises
    ------
    InputError
        An option that is not known, does not fit or would do nothing.
    """
    from hfrnn.runs.resume import resumed_config

    values, of_run = ({}, False) if config is None else from_file(config)
    kept = dict(values)
    for name, other in (("text", "data"), ("data", "text")):
        if name in given and other not in given:
            kept.pop(other, None)
    if stored is None:
        own, chosen = _choices(values), _choices({**kept, **given})
        for name, value in values.items():
            if name in given or name not in kept:
                continue
            default = value in _defaults(name, own)
            if not default and not of_run and (why := useless(name, own)) and useless(name, chosen):
                raise InputError(f"{config} gives {option_key(name)}, and {why}; leave it out")
            if (default and name in RESOLVED) or useless(name, chosen):
                del kept[name]
    kept.update(given)
    if "arch" in kept:
        check_architecture(kept["arch"])
    check_data(kept.get("text"), kept.get("data"))
    full = TrainConfig(**kept) if stored is None else resumed_config(stored, kept)
    chosen = _choices(dataclasses.asdict(full))
    for name in given:
        if why := useless(name, chosen):
            raise InputError(f"{option_name(name)} was given, and {why}; leave it out")
    return kept, full


def _choices(values: dict[str, Any]) -> SimpleNamespace:
    """What the use of options depends on."""
    chosen = SimpleNamespace(**{**dataclasses.asdict(TrainConfig()), **values})
    kinds = known_data()
    chosen.kind = {"tasks": "a synthetic task", "music": "music"}.get(
        next((kind for kind, names in kinds.items() if chosen.data in names), ""), "a text"
    )
    return chosen


def _defaults(name: str, chosen: SimpleNamespace) -> tuple[Any, ...]:
    """The values that an option in a file may have without anyone having asked for them."""
    from hfrnn.optim.damping import Damping

    resolved = TrainConfig(optimizer=chosen.optimizer, damping=chosen.damping).resolved()
    found = (getattr(TrainConfig(), name), getattr(resolved, name))
    return (*found, getattr(Damping(chosen.damping), name)) if name in ("mu", "lambda_") else found


def useless(name: str, chosen: SimpleNamespace) -> str:
    """Why an option does nothing for what was chosen, and what it is for; "" where it is of use."""
    from hfrnn.kernels.registry import NEUTRAL

    for choice, allowed, names in NEEDS:
        if name not in names.split():
            continue
        if choice == "data" and chosen.kind not in allowed:
            here = f"{chosen.text or chosen.data or 'the built-in corpus'} is {chosen.kind}"
            return f"{here}: it is for {allowed[0]}"
        if choice == "hidden" and len(chosen.hidden) == 1:
            return f"--hidden asks for one layer: it is for {allowed[0]}"
        if choice == "first_gradient_symbols":
            asked = "gradient_symbols" if chosen.first_gradient_symbols is None else choice
            if getattr(chosen, asked) == 0:
                return f"{option_name(asked)} is 0: it is for batches that grow"
        if (
            choice in ("optimizer", "damping", "preconditioner", "schedule", "level", "initializer")
            and getattr(chosen, choice) not in allowed
        ):
            return f"--{choice} is {getattr(chosen, choice)}: it is for --{choice} {_either(allowed)}"
    if name in NEUTRAL:
        known = _kernel_options(chosen.hidden[0])
        takers = [arch for arch, options in known.items() if name in options]
        if takers and chosen.arch in known and chosen.arch not in takers:
            return f"--arch is {chosen.arch}: it is for --arch {_either(takers)}"
    return ""


def _kernel_options(hidden: int) -> dict[str, tuple[str, ...]]:
    """The options that each architecture takes."""
    from hfrnn.kernels import architectures
    from hfrnn.kernels.registry import make_kernel

    found = {}
    for name in architectures():
        with contextlib.suppress(TypeError, ValueError):  # a size that it refuses: it will say so itself
            found[name] = make_kernel(name, hidden, {}).options
    return found


def _either(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last
