"""Export a trained network as programs that run without hfrnn."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hfrnn.arrays.stored import npz_bytes
from hfrnn.checks import flag, shown, wrong
from hfrnn.checks import path as checked_path
from hfrnn.choices import EXPORTS
from hfrnn.data.tasks import make_task, tasks
from hfrnn.errors import InputError, Message, StorageError, reason_of
from hfrnn.exports.c_source import c_source
from hfrnn.exports.numpy_program import numpy_program
from hfrnn.exports.onnx_graph import onnx_graph
from hfrnn.exports.program import Program, make_program
from hfrnn.exports.torch_module import pytorch_module
from hfrnn.runs.folder import RunFolder, enclosing_run
from hfrnn.runs.load import LoadedRun, load
from hfrnn.runs.outputs import Output

WEIGHTS = "weights.npz"
"""The file with the weights, the scaling and the learned initial state."""


def export(
    run: str | os.PathLike[str], folder: str | os.PathLike[str], to: str | Iterable[str] = "numpy", *,
    which: str = "best", dtype: str | type | np.dtype[Any] | None = None, symbols: bool | None = None,
    force: bool = False,
) -> list[Path]:  # fmt: skip
    """Write a trained network as programs that run without hfrnn.

    The programs return what `hfrnn.predict` returns: real outputs in the units of the data, or probabilities. They
    read inputs in the units of the data too, and start from the learned initial state if there is one.

    Parameters
    ----------
    run : path
        A run folder, or a file of `hfrnn.save`.
    folder : path
        The folder to write to; it is made if it does not exist.
    to : {"numpy", "torch", "onnx", "c"} or several of them
        The kinds of programs, also in one string with commas. `weights.npz` is always written: the weights under their
        names in `net.views`, and the means and deviations of the data. "numpy" writes `network.py`, "torch"
        `network_torch.py` with a module, "onnx" `network.onnx`, which needs the extra `onnx`, and "c" `network.h` and
        `network.c`, one step in C99 without allocation.
    which : str
        The checkpoint, as for `hfrnn.load`.
    dtype : {"float32", "float64"} or NumPy's type of that name, optional
        Data type of the programs. By default that of the run.
    symbols : bool, optional
        Whether inputs are integer symbols. By default they are for texts, embeddings and tasks that have symbols.
    force : bool
        Whether to replace older files.

    Returns
    -------
    list of Path
        The files that were written. A text also has `vocabulary.json`, with the symbols in their order.

    Raises
    ------
    InputError
        The architecture is not one of hfrnn, a file exists already, or an argument is wrong. Nothing was written.
    MissingExtraError
        "onnx" was asked for, and the extra is not installed.
    StorageError
        A file cannot be written.

    Examples
    --------
    >>> import hfrnn
    >>> options = {"data": "sine", "length": 20, "sequences": 20, "hidden": 4, "updates": 2}
    >>> result = hfrnn.train(**options, out="run")
    >>> [path.name for path in hfrnn.export("run", "programs", to="numpy,c")]
    ['weights.npz', 'network.py', 'network.h', 'network.c']
    """
    targets = checked_targets(to)
    given, place = checked_path("run", run), checked_path("folder", folder)
    force, symbols = flag("force", force), flag("symbols", symbols, or_none=True)
    loaded = load(given, which, dtype=dtype)
    source = None if os.path.isfile(given) else RunFolder(given)
    symbols = _reads_symbols(loaded, source) if symbols is None else symbols
    if loaded.net.embedding is not None and not symbols:
        raise InputError(Message("{symbols:False} was given, and the network has an embedding: leave it out"))
    program = make_program(loaded.net, loaded.theta, None if source is None else source.scaling(), symbols)
    contents: dict[str, str | bytes] = {WEIGHTS: npz_bytes({**program.arrays, **program.scales})}
    for target in targets:
        contents |= WRITERS[target](program)
    if loaded.vocabulary is not None:
        contents["vocabulary.json"] = json.dumps(loaded.vocabulary.to_json(), ensure_ascii=False) + "\n"
    return _write(place, contents, force)


def checked_targets(to: Any) -> list[str]:
    """Return the kinds of programs, in the order in which they are written, without repetition."""
    advice = f"give one of {', '.join(EXPORTS)}, or several"
    if not isinstance(to, str | list | tuple):
        raise wrong("to", to, advice)
    asked = [each.strip() if isinstance(each, str) else each for each in (to.split(",") if isinstance(to, str) else to)]
    unknown = [each for each in asked if each not in EXPORTS]
    if unknown or not asked:
        raise InputError(Message("{to!s} has {0}: {1}", shown(unknown[0]), advice) if unknown else
                         Message("{to!s} is empty: {0}", advice))  # fmt: skip
    return [each for each in EXPORTS if each in asked]


WRITERS: dict[str, Callable[[Program], dict[str, Any]]] = {
    "numpy": lambda program: {"network.py": numpy_program(program)},
    "torch": lambda program: {"network_torch.py": pytorch_module(program)},
    "onnx": lambda program: {"network.onnx": onnx_graph(program)},
    "c": c_source,
}
"""The function of each kind of programs: the contents of its files by name."""


def _reads_symbols(loaded: LoadedRun, source: RunFolder | None) -> bool:
    """Return whether the inputs of a network are integer symbols, as far as its data tell."""
    if loaded.vocabulary is not None or loaded.net.embedding is not None:
        return True
    config = None if source is None else source.config()
    if config is None or not isinstance(config.data, str) or config.data not in tasks():
        return False
    return make_task(config.data, config.values["length"]).symbols


def _write(folder: Path, contents: dict[str, str | bytes], force: bool) -> list[Path]:
    """Write the files, after checking that each of them may be written."""
    if (run := enclosing_run(folder / "file")) is not None:
        inside = "{folder!s} is {0}, in the run folder {1}, which only the run writes to: give another folder"
        raise InputError(Message(inside, folder, run))
    made = not os.path.lexists(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        cannot = "{folder!s} is {0}, which cannot be made ({1}): give another folder"
        raise InputError(Message(cannot, folder, reason_of(error))) from error
    older = [name for name in contents if os.path.lexists(folder / name)]
    if older and not force:
        found = "{folder!s} is {0}, which holds {1} already: give another folder, or {force:True} to replace it"
        raise InputError(Message(found, folder, older[0]))
    outputs = {name: Output("folder", str(folder / name), force=True) for name in contents}
    try:
        Output.write_all([(each, contents[name]) for name, each in outputs.items()])
    except (InputError, StorageError):
        if made and not any(folder.iterdir()):
            folder.rmdir()
        raise
    return [folder / name for name in contents]
