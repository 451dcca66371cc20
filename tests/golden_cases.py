"""The cases of golden.py: commands of hfrnn and calls of `hfrnn.train`, and their data.

The commands use only flags that stay when modules are moved. The networks are tiny, and the texts, arrays, tables and
music are drawn from fixed seeds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from support.midi_files import write_tunes

OPTIMIZERS = ("hf", "sgd", "adam", "soap", "muon")
ARCHITECTURES = ("rnn", "lstm", "mlstm", "gru")
BACKENDS = ("numpy", "numba")
TEXT = "DATA/text.txt --sequence-length 10"
TABLE = "--data DATA/table.csv --inputs force --targets position"
DEFAULTS = {
    "text": "DATA/text.txt", "arrays": "--data DATA/arrays.npz", "table": TABLE, "music": "--data DATA/tunes",
    "addition": "--data addition",
}  # fmt: skip
"""Data with the defaults that they get; DATA stands for the folder of the data."""
SOURCES = DEFAULTS | {
    "text": TEXT, "table": f"{TABLE} --window 20 --burn-in 3", "addition": "--data addition --length 22 --sequences 50",
}  # fmt: skip
"""The data of the grid."""
SMALL = "--hidden 6 --updates 3"
RNN = "--arch rnn --backend numpy"
SINGLE = {
    "online-lstm-krause": f"DATA/text.txt {SMALL} --optimizer online --arch lstm-krause",
    **{
        f"damping-{kind}": f"{TEXT} {SMALL} {RNN} --damping {kind} --updates 4"
        for kind in ("structural", "tikhonov", "structural+tikhonov", "line-search", "none")
    },
    "published-text": f"{TEXT} {SMALL} --arch mlstm --preset published",
    "published-arrays": f"--data DATA/arrays.npz {SMALL} --arch lstm --preset published --damping structural+tikhonov",
    "density-hf": f"{TEXT} {SMALL} {RNN} --density 0.5",
    "noise-hf": f"--data DATA/arrays.npz {SMALL} {RNN} --state-noise 0.1",
    "stack-hf": f"{TEXT} --hidden 6,5 --updates 3 --arch lstm",
    "words-classes-hf": f"{TEXT} {SMALL} --level word --classes 4 --arch mlstm",
    "bytes-muon": f"{TEXT} {SMALL} --level byte --arch gru --optimizer muon",
    "fractions": f"{TEXT} {SMALL} {RNN} --fractions 0.7,0.2,0.1 --seed 5",
    "masked-arrays": f"--data DATA/masked.npz {SMALL} {RNN}",
    "sine": f"--data sine --length 20 --sequences 30 {SMALL}",
    "long-hf-text": f"{TEXT} --hidden 6 --updates 45 --arch mlstm",
    "long-hf-published": "--data addition --length 22 --sequences 50 --hidden 6 --updates 12 --preset published",
    "long-sgd": f"{TEXT} --hidden 6 --updates 150 --arch lstm --optimizer sgd",
    "default-sine": "--data sine --hidden 6 --updates 2",
    "default-words": "DATA/text.txt --level word --hidden 6 --updates 2",
    "default-large": "DATA/large.txt --hidden 5 --updates 2",
    "default-large-words": "DATA/large-words.txt --level word --hidden 5 --updates 2",
}
RESUMED = {
    "hf": f"{TEXT} --arch mlstm --backend numba",
    "sgd": "--data DATA/arrays.npz --arch lstm --backend numba",
    "adam": f"{SOURCES['table']} --arch gru --backend numpy",
    "soap": "--data addition --length 22 --sequences 50 --arch rnn --backend numpy",
    "muon": f"{TEXT} --arch rnn --backend numba",
    "online": "DATA/text.txt --arch lstm-krause",
}


@dataclass(frozen=True)
class Case:
    """Arguments of hfrnn, or names of functions of `CALLS`, that run in a folder of their own; is output compared?"""

    name: str
    commands: tuple[str, ...]
    prints: bool = False


def cases() -> list[Case]:
    """Return all cases.

    Every two of optimizer, architecture, data, backend and threads occur together. The grid lacks five pairs of
    optimizer and data; the cases of defaults have all of them.
    """
    trained: dict[str, tuple[str, ...]] = {}
    for i, optimizer in enumerate(OPTIMIZERS):
        for j, arch in enumerate(ARCHITECTURES):
            source = list(SOURCES)[(i + 2 * j) % len(SOURCES)]
            choices = f"--optimizer {optimizer} --arch {arch} --hidden {5 + (i + j) % 4} --updates {3 + j % 2}"
            where = f"--backend {BACKENDS[(i + j) % 2]} --threads {1 + (i // 2 + j // 2) % 2}"
            trained[f"{optimizer}-{arch}-{source}"] = (f"{SOURCES[source]} {choices} {where}",)
    for source, words in DEFAULTS.items():
        for optimizer in OPTIMIZERS:
            chosen = "" if optimizer == "hf" else f"--optimizer {optimizer}"
            trained[f"default-{optimizer}-{source}"] = (f"{words} --hidden 6 --updates 2 {chosen}",)
    trained |= {name: (words,) for name, words in SINGLE.items()}
    for optimizer, words in RESUMED.items():
        begin = f"{words} --optimizer {optimizer} --hidden 6 --updates 3"
        trained[f"resumed-{optimizer}"] = (begin, "--resume run --updates 6")
    report = "report run -o report.html"
    found = [Case(name, (*map(train_command, runs), report)) for name, runs in trained.items()]
    found += [Case(name, (name, report)) for name in CALLS]
    two = train_command(f"{TEXT} {SMALL} {RNN}"), f"train {TEXT} {SMALL} --optimizer adam --out other"
    found.append(Case("report-of-two", (*two, "report run other -o report.html")))
    return found + [Case(f"gradcheck-{arch}", (f"gradcheck {arch} --json",), True) for arch in ("rnn", "mlstm", "gru")]


def train_command(words: str) -> str:
    return f"train {words}" if "--resume" in words else f"train {words} --out run"


def sequences(rng: np.random.Generator, count: int = 40) -> dict[str, Any]:
    x = rng.standard_normal((count, 12, 2))
    return {"x": x, "y": np.tanh(x.cumsum(axis=1)) @ rng.standard_normal((2, 1))}


def words(seed: int, characters: int, vocabulary: str) -> str:
    draw, parts, length = random.Random(seed), [], 0
    choices = vocabulary.split()
    while length < characters:
        parts.append(draw.choice(choices) + draw.choice(("", "", "", "", ",", ".\n")))
        length += len(parts[-1]) + 1
    return " ".join(parts) + "\n"


def write_data(folder: Path) -> None:
    folder.mkdir()
    vocabulary = "the quick brown fox café runs over lazy dogs and back again"
    for name, seed, characters in (("text", 0, 6000), ("large", 3, 1_050_000)):
        (folder / f"{name}.txt").write_text(words(seed, characters, vocabulary), "utf-8")
    (folder / "large-words.txt").write_text(
        words(4, 5_100_000, "recurrent networks sequence gradient curvature"), "utf-8"
    )
    rng = np.random.default_rng(0)
    arrays = sequences(rng)
    x = arrays["x"]
    lengths = rng.integers(5, 13, len(x))
    np.savez(folder / "arrays.npz", **arrays)
    np.savez(folder / "masked.npz", **arrays, lengths=lengths, mask=1.0 * (rng.random(x.shape[:2]) < 0.8))
    force = np.repeat(rng.uniform(-1, 1, 240), 10)
    position = np.convolve(force, 0.8 ** np.arange(30))[: len(force)]
    rows = [f"{a!r},{b!r}" for a, b in zip(force.tolist(), position.tolist(), strict=True)]
    (folder / "table.csv").write_text("\n".join(["force,position", *rows]) + "\n")
    write_tunes(folder / "tunes", 10)


def train_arrays() -> None:
    import hfrnn

    hfrnn.train(data=sequences(np.random.default_rng(1)), arch="lstm", hidden=6, updates=3, out="run")


def train_batches() -> None:
    import hfrnn

    valid = sequences(np.random.default_rng(2), 10)
    hfrnn.train(batches=sequences, valid=valid, arch="rnn", hidden=6, optimizer="adam", updates=3, out="run")
    hfrnn.train(batches=sequences, valid=valid, resume="run", updates=6)


CALLS = {"memory-arrays": train_arrays, "memory-batches": train_batches}
"""Cases that call `hfrnn.train`."""
