"""The optimizer on arrays that refuse the host: only operators and methods that NumPy and CuPy share."""

import numpy as np
import pytest
from support.fake_device import FakeArray

from hfrnn.optim.damping import Damping
from hfrnn.optim.hessian_free import HessianFree, HessianFreeOptions


class Device:
    """An objective on the device, carried out by one on the host."""

    def __init__(self, host):
        self.host = host

    def loss(self, theta):
        return self.host.loss(theta._host)

    def loss_and_gradient(self, theta):
        f, g = self.host.loss_and_gradient(theta._host)
        return f, FakeArray(g)

    def gauss_newton(self, theta, **damping):
        self.matrix = self.host.gauss_newton(theta._host, **damping)
        return self

    def apply(self, v, out):
        self.matrix.apply(v._host, out._host)


class Host:
    """|tanh(A theta) - y|^2 / 2."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.a = rng.standard_normal((30, 20)).astype(np.float32)
        self.y = rng.uniform(-0.9, 0.9, 30).astype(np.float32)

    def loss(self, theta):
        return self.loss_and_gradient(theta)[0]

    def loss_and_gradient(self, theta):
        h = np.tanh(self.a @ theta)
        return float(((h - self.y).astype(np.float64) ** 2).sum()) / 2, self.a.T @ ((h - self.y) * (1 - h * h))

    def gauss_newton(self, theta, structural=0.0, tikhonov=0.0, metric="hidden"):
        j = (1 - np.tanh(self.a @ theta) ** 2)[:, None] * self.a
        self.g = (j.T @ j + (structural + tikhonov) * np.eye(20, dtype=np.float32)).astype(np.float32)
        return self

    def apply(self, v, out):
        out[:] = self.g @ v


@pytest.mark.parametrize("kind", ["structural", "line-search"])
@pytest.mark.parametrize("choices", [{}, {"rho_model": "undamped", "residual_every": 4}])
def test_updates_on_a_device_give_the_bits_of_the_host(kind, choices):
    theta = np.zeros(20, np.float32)
    on_host, on_device = (HessianFree(Damping(kind), HessianFreeOptions(**choices)) for _ in range(2))
    for _ in range(3):
        host = on_host.update(theta, Host())
        device = on_device.update(FakeArray(theta), Device(Host()))
        assert isinstance(device.theta, FakeArray)
        assert np.array_equal(host.theta, device.theta._host)
        assert (host.rho, host.q, host.evaluations) == (device.rho, device.q, device.evaluations)
        assert host.success
        theta = host.theta
    resumed = HessianFree(Damping(kind), HessianFreeOptions(**choices))
    resumed.load_state_dict(on_device.state_dict())
    again = resumed.update(FakeArray(theta), Device(Host()))
    assert np.array_equal(again.theta._host, on_host.update(theta, Host()).theta)
