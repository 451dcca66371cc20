"""Datasets of HDF5 by name: only plain numbers that lie in the file itself are read."""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.array_files import FLAGS
from support.array_files import load as load_file
from support.corpora import corpus_file
from support.matlab_files import hdf5, trials, v7, v73
from support.refusals import call, refused, sentence_of

from hfrnn.data import array_files
from hfrnn.data.array_choice import suggested
from hfrnn.data.hdf5 import held_by_hdf5
from hfrnn.data.named_arrays import open_holding
from hfrnn.data.windows import Windows
from hfrnn.errors import InputError, MissingExtraError

h5py = pytest.importorskip("h5py")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 8, 2))
Y = X.cumsum(axis=1)[:, :, :1]
load = functools.partial(load_file, fractions=(1.0, 0.0, 0.0))


def written(folder: Path, content: bytes, name: str = "a.h5") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("how", [{}, {"chunks": (2, 8, 1), "compression": "gzip", "shuffle": True, "fletcher32": True},
                                 {"compression": "lzf"}])  # fmt: skip
def test_datasets_are_chosen_by_their_paths(tmp_path, how):
    path = written(tmp_path, hdf5({"session/u": X, "session/rates": Y.astype(">f4")}, **how))
    for inputs, targets in (("/session/u", "/session/rates"), ("session/u", "session.rates")):
        data = load(path, inputs, targets)
        assert np.array_equal(data.train.inputs, X.swapaxes(0, 1))
        assert np.array_equal(data.train.targets, Y.swapaxes(0, 1).astype("f4"))


def test_signals_of_an_nwb_file_are_suggested_though_they_look_like_trials(tmp_path):
    signals = {f"acquisition/{name}/data": each.reshape(-1, each.shape[-1]) for name, each in (("a", X), ("b", Y))}
    path = written(tmp_path, hdf5({**signals, "trials/start": np.arange(4.0), "trials/stop": np.arange(4.0)}), "a.nwb")
    found = suggested(open_holding(path))
    assert found is not None
    assert (found["inputs"], found["targets"]) == ("/acquisition/a/data", "/acquisition/b/data")
    data = load(path, "/acquisition/a/data", "/acquisition/b/data", windows=Windows(48, burn_in=0))
    assert np.array_equal(data.train.targets[:, 0], signals["acquisition/b/data"])


def test_datasets_named_x_and_y_need_no_names(tmp_path):
    path = written(tmp_path, hdf5({"x": X, "y": Y, "valid_x": X, "valid_y": Y, "more": X}))
    data = load_file(path)
    assert np.array_equal(data.valid.inputs, X.swapaxes(0, 1))
    assert data.notes == ("not read: /more",)


@pytest.mark.parametrize("root", ["", "session/trials/"])
def test_groups_that_hold_the_same_names_are_trials(tmp_path, root):
    lengths = {"1": 9, "2": 5, "10": 7}
    arrays = {f"{root}trial_{name}/{one}": X.reshape(-1, 2)[:T] * sign for name, T in lengths.items()
              for one, sign in (("x", 1), ("y", -1))}  # fmt: skip
    data = load(written(tmp_path, hdf5(arrays)), *([] if not root else [f"{root}x", f"/{root}y"]))
    assert data.train.lengths.tolist() == [9, 5, 7]
    assert np.array_equal(data.train.x, -data.train.y)
    one = load(written(tmp_path, hdf5(arrays)), f"/{root}trial_2/x", f"/{root}trial_2/y", windows=Windows(5, 5, 0))
    assert one.train.lengths.tolist() == [5]
    with pytest.raises(InputError, match="holds no such array"):
        load(written(tmp_path, hdf5({**arrays, f"{root}trial_3/x": X})), f"/{root}x", f"/{root}y")


@pytest.mark.parametrize("kind", [int, bool])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_whole_number_in_each_group_is_the_class_of_its_last_step(tmp_path, shape, kind):
    arrays = {f"trials/{n}/u": X[n, : 4 + n] for n in range(5)}
    arrays |= {f"trials/{n}/label": np.full(shape, n % 2, kind) for n in range(5)}
    data = load(written(tmp_path, hdf5(arrays)), "/trials/u", "/trials/label")
    assert (data.loss, data.n_out) == ("softmax", 2)
    assert [data.train.targets[3 + n, n] for n in range(5)] == [0, 1, 0, 1, 0]
    assert not any(note.startswith("not read") for note in data.notes)


def test_recordings_of_other_widths_are_refused(tmp_path):
    arrays = {f"trials/{n}/{role}": np.ones((40 + n, 2 + n)) for n in range(2) for role in "uy"}
    with pytest.raises(InputError, match=r"have inputs of the shapes \(steps, 2\) and \(steps, 3\): give"):
        load(written(tmp_path, hdf5(arrays)), "/trials/u", "/trials/y", windows=Windows(4))


def test_a_group_that_holds_itself_is_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("a")
        for n in range(4):
            group[f"again{n}"] = group  # 4^16 values, if all were visited
        group["root"] = file["/"]
        group["x"] = np.ones(3)
    held = open_holding(str(tmp_path / "a.h5")).held
    assert [each.name for each in held if not each.refused] == ["/a/x"]
    assert {each.refused for each in held if each.refused} == {"a value that holds itself"}


def test_axes_are_reversed_for_matlab_only(tmp_path):
    (one,) = held_by_hdf5(v73({"a": np.arange(6).reshape(2, 3)}), "a.mat").held
    assert one.values("a.mat").tolist() == [[0, 1, 2], [3, 4, 5]]
    (other,) = held_by_hdf5(hdf5({"a": np.arange(6).reshape(2, 3)}), "a.h5").held
    assert other.values("a.h5").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (one.name, other.name) == ("a", "/a")


def test_empty_arrays_of_matlab_are_empty():
    held = held_by_hdf5(v73({"a": np.zeros((0, 3)), "c": [np.zeros((0, 0)), np.ones((2, 1))]}), "a.mat").held
    assert held[0].values("a.mat").shape == (0, 3)
    assert [each.shape for each in held[1].values("a.mat")] == [(0, 0), (2, 1)]


def made(fill: Any) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as written_file:
        written_file["y"] = np.ones(3)
        fill(written_file)
    return file.getvalue()


def external_storage(file: Any) -> None:
    file.create_dataset("u", (3,), "f8", external=[("secret.bin", 0, 24)])


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource("other.h5", "u", (3,))
    file.create_virtual_dataset("u", layout)


def unknown_filter(file: Any) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((3,))
    plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (1,))
    h5py.h5d.create(file.id, b"u", h5py.h5t.NATIVE_DOUBLE, h5py.h5s.create_simple((3,)), plist)


REFUSED = {
    "external link": (lambda f: f.__setitem__("u", h5py.ExternalLink("other.h5", "/u")), "a link to another file"),
    "soft link": (lambda f: f.__setitem__("u", h5py.SoftLink("/y")), "a link, which is not followed"),
    "external storage": (external_storage, "a dataset with numbers in other files"),
    "virtual": (virtual, "a virtual dataset with numbers of other files"),
    "filter": (unknown_filter, "a dataset compressed by the filter 32015, which HDF5 does not have itself"),
    "text": (lambda f: f.__setitem__("u", "abc"), "text"),
    "complex": (lambda f: f.__setitem__("u", np.ones(3) + 1j), "an array of complex numbers"),
    "records": (lambda f: f.__setitem__("u", np.zeros(3, dtype=[("a", "f8")])), "a dataset of records"),
    "empty": (lambda f: f.__setitem__("u", h5py.Empty("f8")), "an empty dataset"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_lie_in_the_file_as_numbers_is_refused(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill, words = REFUSED[case]
    (tmp_path / "other.h5").write_bytes(hdf5({"u": np.ones(3)}))
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    path = written(tmp_path, made(fill))
    with pytest.raises(InputError, match=f"^/u is {words}: numbers are needed$"):
        load(path, "/u", "/y")


def test_groups_in_circles_end():
    def circle(file: Any) -> None:
        file.create_group("g")["again"] = file["/"]

    names = [each.name for each in held_by_hdf5(made(circle), "a.h5").held]
    assert "/y" in names


def test_a_large_shape_without_numbers_is_refused_before_it_is_read(tmp_path):
    content = made(lambda file: file.create_dataset("u", (2**40, 2**10), "f8", chunks=(2, 2)))
    with pytest.raises(InputError, match=r"and at most .* are read"):
        load(written(tmp_path, content), "/u", "/y")


def test_a_dataset_without_most_of_its_chunks_is_refused(tmp_path):
    content = made(lambda file: file.create_dataset("u", (2**20, 1), "f8", chunks=(1, 1)))
    with pytest.raises(InputError, match="lacks most of its chunks"):
        load(written(tmp_path, content), "/u", "/y")


def test_a_chunk_that_unpacks_to_more_than_it_should_is_refused(tmp_path, monkeypatch):
    import zlib

    def bomb(file: Any) -> None:
        data = file.create_dataset("u", (4, 1), "f8", chunks=(4, 1), compression="gzip")
        data.id.write_direct_chunk((0, 0), zlib.compress(bytes(2**25)))

    path = written(tmp_path, made(bomb))
    monkeypatch.setattr(array_files, "memory_share", lambda divisor: 2**20)
    with pytest.raises(InputError, match="unpacks to more than it should"):
        load(path, "/u", "/y")


def test_without_h5py_the_extra_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name: str, *more: Any, **others: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return real(name, *more, **others)

    path = written(tmp_path, hdf5({"x": X}))
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"needs h5py: install the extra hdf5 \(pip install"):
        open_holding(path)


@pytest.mark.corpus
def test_the_bouc_wen_data_are_one_recording():
    path = corpus_file("bouc-wen", "train.h5")
    data = load(path, "multisine/u", "multisine/y", windows=Windows(200), fractions=None)
    assert (data.n_in, data.n_out, data.train.inputs.shape[0]) == (1, 1, 200)
    with h5py.File(path) as file:
        assert np.array_equal(data.train.inputs[:, 0], file["multisine/u"][:200])


# ---------------------------------------------------------------------- damage

SMALL = {
    "v7.mat": v7({"trials": trials(3)}, do_compression=True),
    "plain.mat": v7({"trials": trials(3), "c": [np.ones(3), "text"]}),
    "v73.mat": v73({"trials": trials(3)}),
    "packed.mat": v73({"trials": trials(3)}, compression="gzip", chunks=True),
    "a.h5": hdf5({"trials/u": X, "trials/y": Y}, compression="gzip", shuffle=True, fletcher32=True),
}


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a content with some bytes changed, and perhaps without its end."""
    found = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5, 30])):
        found[rng.randrange(len(found))] = rng.choice([0, 1, 255, rng.randrange(256)])
    if rng.random() < 0.1:
        del found[rng.randrange(len(found)) :]
    return bytes(found)


def survives(name: str, content: bytes) -> None:
    """Check that a file is read, or refused in one sentence by both commands."""
    Path(name).write_bytes(content)
    shown = call("data", "show", name)
    assert shown.exit_code in (0, 2), shown.output
    if shown.exit_code == 2:
        sentence_of(shown.stderr)
    with contextlib.suppress(InputError):
        load_file(name, "trials.u", "trials.y")


@pytest.mark.parametrize("name", SMALL)
def test_a_damaged_file_is_refused_in_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(name)
    for _ in range(8):
        survives(name, damaged(SMALL[name], rng))


@pytest.mark.nightly
@pytest.mark.parametrize("name", SMALL)
def test_a_thousand_damaged_files_are_refused_in_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(f"nightly {name}")
    for _ in range(200):
        survives(name, damaged(SMALL[name], rng))


@pytest.mark.parametrize("name", SMALL)
def test_train_refuses_half_a_file_and_writes_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(SMALL[name][: len(SMALL[name]) // 2])
    refused("train", "--data", name, "--inputs", "trials.u", "--targets", "trials.y", *FLAGS)
    assert [each.name for each in tmp_path.iterdir()] == [name]
