"""`hfrnn data`: list the corpora that have names, download them, and show their contents."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from hfrnn.choices import LEVELS, PARTS, UNITS
from hfrnn.cli.completion import files
from hfrnn.cli.output import make_console, say, say_json
from hfrnn.data.kinds.data_kind import Shown
from hfrnn.errors import InputError
from hfrnn.wording import counted, one_line, shell_command

BEGINNING = 300
"""Number of characters of the training part that `show` prints."""
FREQUENT = 10
"""Number of most frequent symbols that `show` prints."""

_json = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group(short_help="List, fetch and show corpora.")
def data() -> None:
    """List the corpora known by name, fetch them, and show what is in them.

    Corpora are downloaded to the folder in the environment variable HFRNN_DATA, or to the user's cache if it is not
    set. Both places are searched.
    """


@data.command("list", short_help="List the corpora known by name.")
@_json
def list_corpora(as_json: bool) -> None:
    """List the corpora known by name, with their sizes, and the files that are on this machine.

    In the column "here", part means that only the beginning of the text is on this machine.
    """
    from hfrnn.data.corpora import PREFIXES, located
    from hfrnn.data.downloads import data_folder

    rows: list[dict[str, Any]] = []
    for name, known in _known().items():
        paths = located(known.files)
        whole = not known.files or (len(paths) > 0 and paths[0].name not in PREFIXES)
        rows.append({
            "name": name,
            "about": known.about,
            "levels": list(known.levels),
            "bytes": sum(path.stat().st_size for path in paths) if paths else known.size,
            "here": "yes" if whole else "part" if paths else "no",
            "files": list(map(str, paths)),
            "can_fetch": bool(known.files),
        })  # fmt: skip
    if as_json:
        say_json({"folder": str(data_folder()), "corpora": rows})
        return
    say(f"data folder: {data_folder()}\n")
    say(f"{'name':<17}{'size':>9}  {'here':<6}what")
    for row in rows:
        say(f"{row['name']:<17}{_megabytes(row['bytes']):>9}  {row['here']:<6}{row['about']}")
        for file in row["files"]:
            say(f"{'':34}{file}")


@data.command(short_help="Download corpora.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--mirror", "mirrors", multiple=True, metavar="URL",
    help="Address of a folder with the same files, tried before the original address (repeatable; default: the "
    "addresses in the environment variable HFRNN_MIRROR).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Download again even if the files are complete.")
def fetch(names: tuple[str, ...], mirrors: tuple[str, ...], force: bool) -> None:
    """Download each corpus NAME to the data folder, unless its files are there and complete.

    Every download is checked against its known sha256, from whatever address it comes.
    """
    from hfrnn.data.corpora import PREFIXES, folder_of, located
    from hfrnn.data.downloads import Fetched
    from hfrnn.data.downloads import fetch as fetch_files

    known = _known()
    for name in names:
        if name not in known:
            raise InputError(f"there is no corpus named {name!r}; use one of {', '.join(known)}")
    for name in dict.fromkeys(names):
        files = known[name].files
        if not files:
            say(f"{name}: comes with Python; there is nothing to download")
            continue
        others = located(files[1:])  # the same content in other files
        if others and others[0].name not in PREFIXES and not located(files[:1]) and not force:
            found = Fetched(tuple(others), (), False)
        else:
            with _shown_progress() as (tell, progress):
                found = fetch_files(folder_of(files), mirrors or None, force, tell, progress)
        if found.origins:
            say(f"{name}: sha256 as expected, from {', '.join(found.origins)}")
        elif found.checked:
            say(f"{name}: already here and complete")
        else:
            say(f"{name}: already here; you put it there, so it was not checked (--force downloads it again)")
        for file in found.files:
            say(f"  {file}")


def _known() -> dict[str, Any]:
    """The corpora and the music known by name, with their files, sizes and descriptions."""
    from hfrnn.data.corpora import CORPORA
    from hfrnn.data.music import COLLECTIONS

    return {**CORPORA, **COLLECTIONS}


@contextmanager
def _shown_progress() -> Iterator[tuple[Callable[[str], None], Callable[[str, float, float], None]]]:
    """Yield functions that show sentences and progress on stderr: a live line on a terminal, else timed lines."""
    from hfrnn.cli.progress import live_bar
    from hfrnn.live_line import PLAIN_SECONDS

    live, spoken = make_console(stderr=True).is_interactive, time.monotonic()

    def progress(text: str, done: float, total: float) -> None:
        nonlocal spoken
        line = f"{text}  {_megabytes(done)}" + (f" of {_megabytes(total)}" if total else "")
        if live:
            move(line, done, total)
        elif time.monotonic() - spoken >= PLAIN_SECONDS:
            say(line, err=True)
            spoken = time.monotonic()

    with live_bar() as move:
        yield lambda sentence: say(sentence, err=True), progress


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.1f} MB"


@data.command(short_help="Show what is in a corpus, a text file or a file of arrays.")
@click.argument("name", shell_complete=files)
@click.option("--level", type=click.Choice(LEVELS), default="char", show_default=True, help="What a symbol is.")
@_json
def show(name: str, level: str, as_json: bool) -> None:
    """Show where the corpus NAME is, the size of its parts, its symbols, and its beginning. NAME may be a text file.

    `hfrnn train --data NAME` trains on the corpus, `hfrnn train NAME` on the file. Symbols are counted in the training
    part, rare words as <unk>.

    If NAME is a file of arrays (.npz, .npy, .mat, .h5), show the names and shapes of what it holds, and a command that
    would train on it.
    """
    import numpy as np

    from hfrnn.data.corpora import CORPORA, load_corpus
    from hfrnn.data.kinds import kind_of
    from hfrnn.data.vocabulary import Vocabulary

    kind = kind_of({} if name.lower().endswith(".txt") else {"data": name})
    if (held := kind.shown(name)) is not None:
        _show_file(name, held, as_json)
        return
    if not (kind.in_bits or kind.in_memory):
        where = f"the first lines of hfrnn train --data {name} say what is in it"
        raise InputError(f"{name} is {kind.about} and has no symbols to show: {where}")
    is_file = name not in CORPORA and os.path.isfile(name)
    corpus = load_corpus(text=name, level=level) if is_file else load_corpus(name=name, level=level)
    about = "a text file" if is_file else CORPORA[name].about
    vocabulary = Vocabulary.build(corpus.train, level, corpus.min_count)
    sizes = {part: vocabulary.count(getattr(corpus, part))[0] for part in PARTS}
    counts = np.bincount(vocabulary.encode(corpus.train), minlength=vocabulary.size)
    symbols = vocabulary.to_json()["symbols"]
    frequent = [(symbols[i], int(counts[i])) for i in np.argsort(-counts, kind="stable")[:FREQUENT]]
    text = corpus.train[:BEGINNING]
    beginning = text.decode("utf-8", errors="replace") if isinstance(text, bytes) else text
    if as_json:
        say_json({
            "name": name,
            "about": about,
            "level": level,
            "source": corpus.source,
            "sha256": corpus.sha256,
            "parts": sizes,
            "symbols": vocabulary.size,
            "min_count": corpus.min_count,
            "most_frequent": [{"symbol": symbol, "count": count} for symbol, count in frequent],
            "beginning": beginning,
        })  # fmt: skip
        return
    say(f"{name}: {about}")
    say(f"from      {corpus.source}")
    for part, size in sizes.items():
        say(f"{part:<10}{counted(size, UNITS[level])}")
    rare = f" (words seen fewer than {corpus.min_count} times are <unk>)" if corpus.min_count > 1 else ""
    say(f"symbols   {vocabulary.size:,}{rare}")
    for n, (symbol, count) in enumerate(frequent):
        shown = repr(bytes([symbol]) if level == "byte" else symbol)
        say(f"{'' if n else 'frequent':<10}{shown:<12}{count / sizes['train']:6.2%}")
    say("\nbeginning:")
    say(beginning)


def _show_file(name: str, held: Shown, as_json: bool) -> None:
    """Print what a file holds, and the command that would train on it."""
    options = None if held.options is None else {"data": name, **held.options}
    command = None
    if options is not None:
        flags = [part for key, value in options.items() for part in (f"--{key}", value)]
        command = shell_command(["hfrnn", "train", *flags])
    if as_json:
        rows = [dict(zip(("name", "shape", "class"), row, strict=True)) for row in held.rows]
        say_json({"name": name, "about": held.about, "holds": rows, "options": options, "command": command})
        return
    say(f"{name}: {held.about}\n")
    titled = [("name", "shape", "class"), *((one_line(each), *others) for each, *others in held.rows)]
    widths = [max(len(row[n]) for row in titled) for n in range(2)]
    for row in titled:
        say(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip())
    if not held.rows:
        say("(nothing)")
    unknown = "no two arrays in it are likely inputs and targets: choose them with --inputs and --targets"
    say(f"\ntrain on it with\n  {command}" if command else f"\n{unknown}")
