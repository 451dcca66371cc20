"""What PyTorch models do that hfrnn cannot see is said, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import hfrnn
from hfrnn.interop import from_torch

torch = pytest.importorskip("torch")


class Projected(torch.nn.Module):
    """A model whose first nn.Linear comes before the recurrent layer."""

    def __init__(self, last=False):
        super().__init__()
        self.project = torch.nn.Linear(3, 4)
        self.rnn = torch.nn.GRU(4, 5)
        if last:
            self.head = torch.nn.Linear(5, 4)


@pytest.mark.parametrize("last", [False, True])
def test_a_linear_layer_before_the_recurrent_one_is_refused(last):
    with pytest.raises(hfrnn.InputError, match=r"project is an nn\.Linear that was made before the recurrent layer"):
        from_torch(Projected(last))


def test_batch_first_is_warned_of():
    model = torch.nn.Sequential(torch.nn.LSTM(2, 3, batch_first=True), torch.nn.Linear(3, 1))
    with pytest.warns(hfrnn.HfrnnWarning, match=r"transpose\(0, 1\)"):
        from_torch(model)


def test_a_state_dict_in_bfloat16_is_converted_if_the_type_is_given():
    model = torch.nn.Sequential(torch.nn.LSTM(2, 3), torch.nn.Linear(3, 1)).bfloat16()
    net, theta = from_torch(model.state_dict(), dtype="float32")
    expected = from_torch({name: each.float() for name, each in model.state_dict().items()})[1]
    np.testing.assert_array_equal(theta, expected)
    assert net.dtype == "float32"
    with pytest.raises(hfrnn.InputError, match="dtype"):
        from_torch(model.state_dict())
