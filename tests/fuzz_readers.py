"""The readers that `tests/fuzz.py` tries: how each reads a file, valid files to start from, and changes of them.

The valid files are made by our own writers, or by those of the formats.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import struct
import tempfile
import tomllib
import warnings
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

LONGEST = 2**16
"""Most bytes of a file that is tried."""

Read = Callable[[Path, int], object]
Change = Callable[[bytes, Callable[[bytes], bytes], random.Random], bytes]


class Reader(NamedTuple):
    """One reader: the name of its file, valid files, and how one is read.

    `read` gets the path and a number that depends on the content, for a choice of options. `change` changes a file with
    checksums such that they fit again. `run` says whether the file is one of a run folder.
    """

    file: str
    valid: Callable[[], list[bytes]]
    read: Read
    change: Change | None = None
    run: bool = False


def _run_files(name: str) -> Callable[[], list[bytes]]:
    return lambda: [(run_folder() / name).read_bytes()]


@cache
def run_folder() -> Path:
    """Return a run folder with all its files; its text is gone, so that it reads nothing else."""
    from support.tiny_runs import tiny_train

    folder = Path(tempfile.mkdtemp(prefix="hfrnn-fuzz-run-"))
    with contextlib.redirect_stderr(io.StringIO()):
        tiny_train(folder, preset="published")
    (folder / "text.txt").unlink()
    return folder / "run"


def _configurations() -> list[bytes]:
    from hfrnn.runs.config import TrainConfig

    given: list[dict[str, Any]] = [
        {}, {"optimizer": "adam", "arch": "lstm", "hidden": [4, 3], "schedule": "cosine", "warm_up": 5},
        {"data": "addition", "arch": "clockwork", "sequences": 9, "length": 20}, {"level": "word", "min_count": 2},
        {"optimizer": "muon", "max_norm": "layer0.W_h=2", "split": "order"}, {"minutes": 1.5, "memory": "100MiB"},
    ]  # fmt: skip
    found = [TrainConfig(**{"backend": "numpy", **each}).resolved().to_toml().encode() for each in given]
    return [*found, b'arch = "rnn"\nhidden = 8\n', (run_folder() / "config.toml").read_bytes()]


def _read_configuration(path: Path, choice: int) -> None:
    """Read options of a user, or those of a run."""
    from hfrnn.cli.train import merged
    from hfrnn.runs.folder import RunFolder

    if choice % 2:
        merged({}, str(path))[1].to_toml()
    else:
        folder = RunFolder(path.parent)
        folder.config().to_toml()
        folder.versions()


def _read_vocabulary(path: Path, choice: int) -> None:
    from hfrnn.data.vocabulary import Vocabulary

    found = Vocabulary.load(path, links=False)
    text = b"The quick" if found.level == "byte" else "The quick"
    if choice % 2:
        found.decode(found.encode(text, unknown="skip"))
    else:
        found.to_json()


def _vocabularies() -> list[bytes]:
    from hfrnn.data.vocabulary import Vocabulary

    text = "The quick brown fox, caf\u00e9 \U0001f3b5; over the lazy dog.\n" * 2
    of_levels = [Vocabulary.build(text.encode() if level == "byte" else text, level)
                 for level in ("char", "byte", "word")]  # fmt: skip
    return [json.dumps(each.to_json(), indent=1).encode() for each in of_levels]


def _read_log(path: Path, choice: int) -> None:
    """Read metrics.jsonl as a resumed run does, or as a report does."""
    from hfrnn.report.values import read_run
    from hfrnn.runs.folder import RunFolder
    from hfrnn.runs.metrics import MetricsFile

    if choice % 2:
        log = MetricsFile(path)
        found = log.records()
        log.until(found[-1]["update"] if found else 0)
        log.check()
    else:
        read_run(RunFolder(path.parent), "run")


def _read_checkpoint(path: Path, choice: int) -> None:
    from hfrnn.runs.checkpoint import array_sizes, check_description, load_checkpoint
    from hfrnn.runs.load import load

    array_sizes(path)
    if choice % 2:
        _, meta = load_checkpoint(path, lambda meta: 2**20)
        check_description(meta, path)
    else:
        load(path)


def _checkpoints() -> list[bytes]:
    import hfrnn

    path = Path(tempfile.mkdtemp(prefix="hfrnn-fuzz-")) / "net.safetensors"
    found = []
    for arch, more in (("rnn", {}), ("lstm", {"loss": "squared"}), ("clockwork", {"periods": [1, 2]})):
        net = hfrnn.Network(arch, n_in=2, hidden=2, n_out=2, **{"loss": "softmax", **more})
        hfrnn.save(net, net.init(seed=0), path)
        found.append(path.read_bytes())
    return [*found, (run_folder() / "last.safetensors").read_bytes(), (run_folder() / "best.safetensors").read_bytes()]


def _arrays(**changes: Any) -> dict[str, Any]:
    import numpy as np
    from support.array_files import N, T, good

    return good(mask=np.ones((N, T)), lengths=np.full(N, T - 1), **changes)


def _read_arrays(path: Path, choice: int) -> None:
    """Read arrays by their usual names or as recordings, and one accepted file in 16 by the command."""
    from support.array_files import FLAGS, load
    from support.refusals import call

    from hfrnn.data.windows import Windows

    windows = Windows(4) if choice % 4 == 1 else None
    load(path, *(("x", "y") if choice % 4 == 2 else ()), **({} if windows is None else {"windows": windows}))
    if choice % 16 == 0:
        result = call("train", "--data", str(path), *FLAGS, "--dry-run")
        assert result.exit_code in (0, 2), result.output


def _npz_files() -> list[bytes]:
    import numpy as np
    from support.array_files import N, T, npz

    classes = np.arange(N * T).reshape(N, T) % 3
    whole = np.arange(40.0).reshape(20, 2)
    return [npz(_arrays()), npz({"x": classes, "y": classes}), npz({"x": whole, "y": whole[:, :1]}),
            npz(_arrays(valid_x=_arrays()["x"], valid_y=_arrays()["y"]), pack=True)]  # fmt: skip


def _mat_files() -> list[bytes]:
    import numpy as np
    from support.array_files import PIECES, mat
    from support.matlab_files import v7

    x = np.arange(24.0).reshape(12, 2)
    trials = [{"x": x[:n], "y": x[:n, :1]} for n in (12, 9)]
    return [mat(_arrays()), mat(_arrays(), do_compression=True), mat({"x": x, "y": x}, format="4"),
            v7({"trial": trials}), v7({"x": [x, x[:5]], "y": [x, x[:5]]}), mat(PIECES)]  # fmt: skip


def _h5_files() -> list[bytes]:
    import numpy as np
    from support.matlab_files import hdf5, v73

    x = np.arange(24.0).reshape(12, 2)
    return [hdf5(_arrays()), v73({"x": x, "y": x[:, :1]}), v73({"trial": [{"x": x, "y": x}, {"x": x[:5], "y": x[:5]}]}),
            v73({"x": [x, x[:5]], "y": [x, x[:5]]})]  # fmt: skip


def _read_table(path: Path, choice: int) -> None:
    from hfrnn.data.sheets import TableFormat
    from hfrnn.data.tables import load_tables
    from hfrnn.data.windows import Windows

    forms = [
        TableFormat(("u",), ("y",)), TableFormat(("1", "2"), ("3",), fill="linear"), TableFormat(("u", "v"), ("u",)),
        TableFormat(("u",), ("y",), recording="name"), TableFormat(("u",), ("y",), time="time", missing=("-9",)),
        TableFormat(("u",), ("y",), decimal=",", skip_rows=1, fill="previous"),
        TableFormat(("a", "b"), ("a",), time="time", unit="unit", bin=0.5),
    ]  # fmt: skip
    load_tables({"train": ([str(path)], forms[choice % len(forms)])}, Windows(4))


def _tables() -> list[bytes]:
    from support.array_files import table

    named = "name,time,u;v,y\n".replace(";", ",") + "".join(
        f"{'ab'[n > 9]},2024-01-01 00:{n:02},{n}.5,{n % 3},{-n}\n" for n in range(20)
    )
    events = "time,unit\n" + "".join(f"{n * 0.3:.2f},{'ab'[n % 2]}\n" for n in range(40))
    comma = "u;v;y\nm;s;V\n" + "".join(f"{n},5;1.000,25;{n}\n" for n in range(12))
    plain = "".join(f"{n} {n * n} {-n}e-1\n" for n in range(12))
    return [each.encode() for each in (table(12), named, events, comma, plain, table(12).replace(",", "\t"))]


def _read_midi(path: Path, choice: int) -> None:
    from hfrnn.data.midi import load_midi

    load_midi(path.parent if choice % 2 else path, steps_per_beat=1 + choice % 5, fractions=(1.0, 0.0, 0.0))


def _midi_files() -> list[bytes]:
    from support.midi_files import END, midi, off, on, track, tune

    return [tune(60, 64, 67), midi(track(on(0, 60), on(5, 60), off(9, 60), END), track(END)),
            midi(track((0, b"\xff\x51\x03\x07\xa1\x20"), on(0, 50), off(1, 50), END), form=0)]  # fmt: skip


def _read_text(path: Path, choice: int) -> None:
    from hfrnn.data.corpora import read_text
    from hfrnn.data.vocabulary import Vocabulary

    level = ("char", "byte", "word")[choice % 3]
    text = read_text(path, level)
    Vocabulary.build(text, level).encode(text)


# ---------------------------------------------------------------------- changes with right checksums


def _change_json(content: bytes, mutate: Callable[[bytes], bytes], rng: random.Random) -> Any:
    """Return JSON with another value in one place; raises ValueError if the content is no JSON."""
    from support.damage import places, put

    value = json.loads(content)
    new: Any = rng.choice([None, True, -1, 0, 1, 2**31, 2**63, 10**30, 0.5, 1e308, "", "rnn", [], {}, [[]], [0, 1]])
    at = rng.choice(list(places(value)))
    if rng.random() < 0.3:
        new = mutate(str(new).encode()).decode("latin1")
    if at and rng.random() < 0.2:
        return put(value, at[:-1], {**_value_at(value, at[:-1]), f"{new}": 1} if isinstance(at[-1], str) else [])
    return put(value, at, new)


def _value_at(value: Any, at: tuple[Any, ...]) -> Any:
    """Return the value in a place of JSON."""
    for each in at:
        value = value[each]
    return value


def _change_configuration(content: bytes, mutate: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """Return options with another value, or one option more."""
    import tomli_w

    from hfrnn.option import option_key
    from hfrnn.runs.config import all_options

    given = tomllib.loads(content.decode())
    options = {option_key(name): declared for name, declared in all_options().items()}
    name = rng.choice([*given, *options] if rng.random() < 0.5 else [*options])
    words = [each for each in getattr(options.get(name), "choices", None) or () if isinstance(each, str)]
    new: Any = rng.choice(
        [True, False, -1, 0, 1, 3, 2**31, 2**63 - 1, 0.5, 1e308, float("inf"), float("nan"), "", "rnn", "word", "all",
         "hidden", "0.5", "1:9", "layer0.W_h=2", [], [1, 2], ["a", "b"], [[1]], [0.5, 0.25, 0.25], *words]
    )  # fmt: skip
    given[name] = mutate(str(new).encode()).decode("latin1") if rng.random() < 0.2 else new
    if rng.random() < 0.2 and len(given) > 1:
        del given[rng.choice([*given])]
    return tomli_w.dumps(given).encode()


def _change_vocabulary(content: bytes, mutate: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    found = _change_json(content, mutate, rng)
    if isinstance(found, dict):
        plain = {key: value for key, value in found.items() if key != "sha256"}
        found["sha256"] = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    return json.dumps(found).encode()


def _change_log(content: bytes, mutate: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    lines = content.splitlines()
    n = rng.randrange(len(lines))
    lines[n] = json.dumps(_change_json(lines[n], mutate, rng)).encode()
    return b"".join(line + b"\n" for line in lines)


def _change_checkpoint(content: bytes, mutate: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """Change the description or an array, and seal the file; or change the header."""
    from safetensors.numpy import load as arrays_of
    from support.damage import sealed_checkpoint

    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    if rng.random() < 0.3:
        changed = json.dumps(_change_json(json.dumps(header).encode(), mutate, rng)).encode()
        return struct.pack("<Q", len(changed)) + changed + content[8 + size :]
    arrays, meta = arrays_of(content), header["__metadata__"]["meta"]
    if rng.random() < 0.7:
        meta = json.dumps(_change_json(meta.encode(), mutate, rng))
    else:
        name = rng.choice(sorted(arrays))
        flat = arrays[name].reshape(-1)
        arrays[name] = rng.choice([flat, flat[:-1], flat * float("nan"), flat.astype("float16"), flat[None]])
    return sealed_checkpoint("1", meta, arrays)


def _change_npz(content: bytes, mutate: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [[each.filename, archive.read(each)[:LONGEST]] for each in archive.infolist()[:9]]
    member = rng.choice(members)
    member[1] = mutate(member[1])
    if rng.random() < 0.1:
        member[0] = rng.choice(["x.npy", "y.npy", "lengths.npy", "valid_x.npy", "initial_state.npy", "test_y.npy", "x"])
    made = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(made, "w", rng.choice([0, 0, 8])) as archive:
        warnings.simplefilter("ignore")  # of names that stand twice
        for name, data in members:
            archive.writestr(name, data)
    return made.getvalue()


READERS: dict[str, Reader] = {
    "toml": Reader("config.toml", _configurations, _read_configuration, _change_configuration),
    "vocabulary": Reader("vocabulary.json", _vocabularies, _read_vocabulary, _change_vocabulary),
    "metrics": Reader("metrics.jsonl", _run_files("metrics.jsonl"), _read_log, _change_log, run=True),
    "safetensors": Reader("net.safetensors", _checkpoints, _read_checkpoint, _change_checkpoint),
    "npz": Reader("a.npz", _npz_files, _read_arrays, _change_npz),
    "mat": Reader("a.mat", _mat_files, _read_arrays),
    "h5": Reader("a.h5", _h5_files, _read_arrays),
    "csv": Reader("a.csv", _tables, _read_table),
    "mid": Reader("a.mid", _midi_files, _read_midi),
    "text": Reader("a.txt", lambda: ["Caf\u00e9, the end.\n".encode() * 9, b"a b a b"], _read_text),
}
"""All readers by name."""
