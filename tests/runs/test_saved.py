"""`hfrnn.save` and `hfrnn.load` of its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.engine_cases import SMALL

import hfrnn
from hfrnn.data.vocabulary import Vocabulary
from hfrnn.errors import CheckpointError, InputError
from hfrnn.kernels import registry
from hfrnn.runs.checkpoint import checkpoint_bytes, load_checkpoint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A saved network."""
    net = hfrnn.Network("leaky", 3, (5, 4), 2, loss="squared", leak=0.3, l2=0.1)
    hfrnn.save(net, net.init(seed=1), tmp_path / "net.safetensors")
    return tmp_path / "net.safetensors"


@pytest.mark.parametrize("arch", hfrnn.architectures())
def test_a_saved_network_comes_back_with_its_arguments_and_the_bits_of_its_weights(tmp_path: Path, arch: str) -> None:
    dtype = "float64" if arch in ("rnn", "gru", "scrn") else "float32"
    options = {"dtype": dtype, "embedding": 2, "l2": 0.5, "direct_output": False, **SMALL.get(arch, {})}
    net = hfrnn.Network(arch, 4, (4, 3), 4, **options)
    theta = net.init(seed=5) + np.arange(net.n_parameters, dtype=dtype)
    hfrnn.save(net, theta, tmp_path / "net.safetensors")
    found = hfrnn.load(tmp_path / "net.safetensors")
    assert found.net.config == net.config
    assert found.theta.dtype == net.dtype
    np.testing.assert_array_equal(found.theta, theta)
    blocks = load_file(tmp_path / "net.safetensors")
    assert blocks.keys() == net.views(theta).keys()
    for name, view in net.views(theta).items():
        np.testing.assert_array_equal(blocks[name], view)
    assert found.vocabulary is None


def test_options_and_classes_come_back(tmp_path: Path) -> None:
    for net in (
        hfrnn.Network("clockwork", 3, 6, 3, periods=(1, 5)),
        hfrnn.Network("scrn", 3, 0, 3, context=np.int64(4), learn_alpha=True, alpha=np.float32(0.5)),
        hfrnn.Network("rnn", 3, 4, 5, loss="class-softmax", classes=[1, 0, 1, 2, 0]),
    ):
        hfrnn.save(net, net.init(), tmp_path / "net.safetensors")
        found = hfrnn.load(tmp_path / "net.safetensors").net
        assert found.describe() == net.describe()
        assert {k: list(v) if isinstance(v, tuple) else v for k, v in net.config.items()} == found.config


def test_a_vocabulary_is_saved_with_its_network(tmp_path: Path) -> None:
    vocabulary = Vocabulary.build("hello", "char")
    net = hfrnn.Network("rnn", vocabulary.size, 3, vocabulary.size)
    hfrnn.save(net, net.init(), tmp_path / "net", vocabulary)
    found = hfrnn.load(tmp_path / "net").vocabulary
    assert found is not None
    assert found.to_json() == vocabulary.to_json()
    other = hfrnn.Network("rnn", 3, 3, 3)
    with pytest.raises(InputError, match="4 symbols, and the network 3 inputs"):
        hfrnn.save(other, other.init(), tmp_path / "net", vocabulary)


def test_a_file_is_replaced_in_one_step_and_left_alone_by_an_error(file: Path) -> None:
    before, net = file.read_bytes(), hfrnn.Network("rnn", 1, 1, 1)
    with pytest.raises(InputError, match="theta"):
        hfrnn.save(net, np.full(net.n_parameters, np.nan), file)
    assert file.read_bytes() == before
    with pytest.raises(InputError, match="no folder"):
        hfrnn.save(net, net.init(), file.parent / "nowhere" / "net")
    hfrnn.save(net, net.init(), file)
    assert hfrnn.load(file).net.config == net.config
    net.config["colour"] = object()
    with pytest.raises(InputError, match="JSON"):
        hfrnn.save(net, net.init(), file.with_name("other"))
    assert os.listdir(file.parent) == [file.name]
    file.write_bytes(b"\x80\x04N.")
    with pytest.raises(InputError, match=r"net\.safetensors is not a run folder"):
        hfrnn.load(file)


def test_an_architecture_must_be_registered_to_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_kernels", {**registry._kernels, "mine": registry.kernel_class("rnn")})
    net = hfrnn.Network("mine", 2, 2, 2)
    hfrnn.save(net, net.init(), tmp_path / "net")
    assert hfrnn.load(tmp_path / "net").net.config == net.config
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"'mine' is not known: .*, or import the module that registers it"):
        hfrnn.load(tmp_path / "net")


def test_a_file_has_one_set_of_weights(file: Path) -> None:
    with pytest.raises(InputError, match="which is 'last'"):
        hfrnn.load(file, which="last")


def changed(**given: Any) -> Any:
    """Change arguments of the network."""
    return lambda arrays, meta: (arrays, {**meta, "arguments": {**meta["arguments"], **given}})


OTHER = Vocabulary.build("ab", "char")
DAMAGED: dict[str, Any] = {
    "no arguments": lambda arrays, meta: (arrays, {}),
    "the description of a run": lambda arrays, meta: (arrays, {"network": {"n_in": 3, "n_out": 2}, "update": 3}),
    "a huge size": changed(n_in=10**12),
    "a huge embedding": changed(embedding=10**12),
    "an embedding": changed(embedding=5),
    "an unknown option": changed(colour=1),
    "an unknown option of two lines": changed(**{"one\ntwo": 1}),
    "a name of Python's own": changed(**{"self": 1}),
    "an option out of range": changed(leak=3.0),
    "another type": changed(dtype="float64"),
    "a block less": lambda arrays, meta: ({k: v for k, v in arrays.items() if k != "layer0.W_h"}, meta),
    "a block of another shape": lambda arrays, meta: ({**arrays, "layer0.W_h": arrays["layer0.W_h"][:-1]}, meta),
    "a block of another type": lambda arrays, meta: ({**arrays, "layer0.W_h": arrays["layer0.W_h"].astype(int)}, meta),
    "a block with NaN": lambda arrays, meta: ({**arrays, "layer0.W_h": arrays["layer0.W_h"] * np.nan}, meta),
    "a damaged vocabulary": lambda arrays, meta: (arrays, {**meta, "vocabulary": {"format": "x"}}),
    "another vocabulary": lambda arrays, meta: (arrays, {**meta, "vocabulary": OTHER.to_json()}),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_file_that_does_not_fit_itself_is_refused_in_one_sentence(file: Path, damage: str) -> None:
    arrays, meta = DAMAGED[damage](*load_checkpoint(file))
    file.write_bytes(checkpoint_bytes(arrays, meta))
    with pytest.raises(InputError) as refused:
        hfrnn.load(file)
    assert file.name in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_cut_and_every_flipped_byte_is_noticed(file: Path) -> None:
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 40).tolist():
        file.write_bytes(content[:position])
        with pytest.raises(CheckpointError if position > 8 else InputError):
            hfrnn.load(file)
        file.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(InputError):
            hfrnn.load(file)
