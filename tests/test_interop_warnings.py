"""What PyTorch models do that hfrnn cannot see is said, or refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import hfrnn
from hfrnn.interop import from_torch

torch = pytest.importorskip("torch")
utils, prune = torch.nn.utils, pytest.importorskip("torch.nn.utils.prune")


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


def test_a_model_without_a_recurrent_module_is_refused_for_that():
    for model in (torch.nn.Linear(3, 2), torch.nn.Sequential(torch.nn.Embedding(3, 2), torch.nn.Linear(2, 2))):
        with pytest.raises(hfrnn.InputError, match=r"^the model has no nn\.LSTM, nn\.GRU or nn\.RNN"):
            from_torch(model)


@pytest.mark.parametrize(("change", "why", "undo"), [
    (utils.parametrizations.spectral_norm, "is parametrized", utils.parametrize.remove_parametrizations),
    (partial(prune.random_unstructured, amount=0.3), "is pruned", prune.remove),
    (utils.spectral_norm, "has a spectral norm", utils.remove_spectral_norm),
    (utils.weight_norm, "has a weight norm", utils.remove_weight_norm),
])  # fmt: skip
@pytest.mark.parametrize("of_module", [True, False])
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_tensor_that_is_computed_from_others_is_named_with_what_undoes_it(change, why, undo, of_module):
    model = torch.nn.Sequential(torch.nn.LSTM(3, 5), torch.nn.Linear(5, 2))
    change(model[0], "weight_hh_l0")
    call = rf"{undo.__name__}\(model\.get_submodule\('0'\), 'weight_hh_l0'\) first$"
    with pytest.raises(hfrnn.InputError, match=rf"^0\.weight_hh_l0 {why}, .*: call torch\.nn\.utils\..*{call}"):
        from_torch(model if of_module else model.state_dict())
    undo(model[0], "weight_hh_l0")
    net, theta = from_torch(model)
    x = torch.randn(4, 2, 3)
    expected = model[1](model[0](x)[0]).detach().numpy()
    np.testing.assert_allclose(net.run(theta, hfrnn.Batch(x))[0], expected, rtol=1e-4, atol=1e-6)
