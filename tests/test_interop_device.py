"""Tensors on a GPU, without one: PyTorch and CuPy are stand-ins that share memory by DLPack."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.fake_device import FakeArray, FakeBackend, counts, transfers
from support.torch_models import data, state_dict

import hfrnn
from hfrnn.interop import TorchLayout, from_torch

CUDA = 2


class DeviceTensor:
    def __init__(self, memory: FakeArray) -> None:
        self.memory, self.shape, self.ndim, self.dtype = memory, memory.shape, memory.ndim, f"torch.{memory.dtype}"

    def detach(self) -> DeviceTensor:
        return self

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0


class HostTensor(DeviceTensor):
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("fake_torch")
    module.from_dlpack = DeviceTensor
    monkeypatch.setitem(sys.modules, "fake_torch", module)
    monkeypatch.setattr(DeviceTensor, "__module__", "fake_torch")
    return module


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_products_on_a_device_read_and_write_the_memory_of_tensors(library: Any, kind: str) -> None:
    p, backend = state_dict(kind, layers=2, embedding=3), FakeBackend()
    net, theta = from_torch(p, embedding="embedding", backend=backend)
    host, on_host = from_torch(p, embedding="embedding")
    layout, host_layout = (TorchLayout(each, p, embedding="embedding") for each in (net, host))
    batch = data(p)
    G = hfrnn.Objective(net, hfrnn.Batch(*map(backend.asarray, (batch.inputs, batch.targets)))).gauss_newton(theta)
    expected = hfrnn.Objective(host, batch).gauss_newton(on_host)
    v = np.random.default_rng(0).standard_normal(layout.size)
    own, out = DeviceTensor(backend.asarray(v[: net.n_parameters])), DeviceTensor(backend.empty(theta.shape, "float64"))
    G.to_torch() @ own  # the first product arranges the symbols of the batch
    transfers.clear()
    before = counts["asnumpy"]
    found = G.to_torch() @ own
    assert G.to_torch().apply(own, out) is out
    in_order = G.to_torch(layout) @ DeviceTensor(backend.asarray(v))
    assert isinstance(found, DeviceTensor)
    assert (transfers, counts["asnumpy"]) == ([], before)
    plain = expected @ v[: net.n_parameters]
    np.testing.assert_allclose(backend.to_host(found.memory), plain, rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(backend.to_host(out.memory), backend.to_host(found.memory))
    mapped = host_layout.gradient(expected @ host_layout.direction(v))
    np.testing.assert_allclose(backend.to_host(in_order.memory), mapped, rtol=1e-10, atol=1e-14)


def test_a_tensor_on_the_other_device_is_refused(library: Any) -> None:
    p, backend = state_dict(), FakeBackend()
    net, theta = from_torch(p, backend=backend)
    batch = data(p)
    G = hfrnn.Objective(net, hfrnn.Batch(*map(backend.asarray, (batch.inputs, batch.targets)))).gauss_newton(theta)
    with pytest.raises(hfrnn.InputError, match=r"^v is a tensor in the memory of the host, and the backend of the net"):
        G.to_torch() @ HostTensor(theta)
    host, on_host = from_torch(p)
    with pytest.raises(hfrnn.InputError, match=r"^v is a tensor on a GPU, and .* is 'numpy': move the tensor with its"):
        hfrnn.Objective(host, batch).gauss_newton(on_host).to_torch() @ DeviceTensor(theta)
