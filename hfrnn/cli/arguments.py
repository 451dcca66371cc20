"""Arguments of several commands: choices with a hint, names of architectures and data, and --force."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from hfrnn.choices import RECORDINGS, names_arrays, names_midi
from hfrnn.errors import InputError, MissingExtraError, how_to_install
from hfrnn.option import near_hint, nearest

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # which has no type of its choices before click 8.2


PICTURES = (".svg", ".png", ".pdf")


class NearChoice(_Choice):
    """One of several words; the message about a wrong word has the nearest one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = nearest(str(value), self.choices)
            raise click.BadParameter(error.message + (near and f" Did you mean '{near}'?"), ctx, param) from None


def known_data() -> dict[str, tuple[str, ...]]:
    """Return the names that `--data` takes, by kind."""
    from hfrnn.data.corpora import CORPORA
    from hfrnn.data.music import COLLECTIONS
    from hfrnn.data.tasks import tasks

    return {"corpora": tuple(CORPORA), "tasks": tasks(), "music": tuple(COLLECTIONS)}


def check_architecture(name: str) -> None:
    """Raise InputError, with the nearest name, unless an architecture has that name."""
    from hfrnn.kernels.registry import kernel_class

    kernel_class(name)


def check_data(text: str | None, data: str | None) -> None:
    """Raise InputError if `--data` is unknown or a folder without music, or if a file and a name were confused."""
    kinds = known_data()
    names = [name for group in kinds.values() for name in group]
    if text is not None and text in names and not os.path.exists(text):
        raise InputError(f"there is no file {text}: for the data of that name write --data {text}")
    if text is not None and data is None:
        from hfrnn.sources.read import refuse_arrays_as_text

        refuse_arrays_as_text(text)
    refuse_several([data, text])
    if data is None or data in names or names_arrays(data) or names_midi(data):
        if data is not None and data not in names and not names_arrays(data) and os.path.isdir(data):
            from hfrnn.data.midi import midi_files

            midi_files(data)
        return
    if os.path.isfile(data):
        raise InputError(
            f"there is no corpus named {data!r}, but a file: to train on it leave out --data; a table ends in .csv or "
            ".tsv, a file of arrays in .npz, .npy or .mat, and MIDI in .mid or .midi"
        )
    listed = "; ".join(f"{kind} {', '.join(group)}" for kind, group in kinds.items())
    raise InputError(f"there is no corpus named {data!r}{near_hint(data, names)}: give a text file, or one of {listed}")


def refuse_several(files: Sequence[str | None]) -> None:
    """Raise InputError if there are several files of arrays or tables: the value of `--data`, and arguments after it.

    One value may also name several files, with commas, or with a star that matches none.
    """
    first, *others = files
    if not names_arrays(first) or first is None:
        return
    if more := [each for each in others if names_arrays(each)]:
        raise InputError(f"--data is {first}, and {more[0]} was given too: give one file; {RECORDINGS}")
    parts = first.split(",")
    if not os.path.exists(first) and ("*" in first or (len(parts) > 1 and all(map(names_arrays, parts)))):
        raise InputError(f"--data is {first}, and there is no file of that name: give one file; {RECORDINGS}")


def force_option(option: str) -> Callable[[Any], Any]:
    """Return the flag `--force` of a command that writes the file which another option names."""
    return click.option("--force", is_flag=True, help=f"Replace the file of {option} if it exists.")


def check_force(force: bool, path: str | None, option: str) -> None:
    """Raise InputError if `--force` was given without the option that it is for."""
    if force and path is None:
        raise InputError(f"--force was given, and it is for {option}: give both, or leave it out")


def check_picture(path: str) -> None:
    """Raise InputError if the picture of `--plot` could not be drawn; called before long work."""
    if not path.lower().endswith(PICTURES):
        raise InputError(f"--plot is {path}: give a file that ends in {', '.join(PICTURES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"--plot needs matplotlib: {how_to_install('plot')}") from error
