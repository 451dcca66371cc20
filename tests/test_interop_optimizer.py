"""`hfrnn.torch.HessianFree`: it minimises the criterion of the user, or says why not."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from support.torch_products import make_model, torch_module

import hfrnn


@pytest.fixture
def torch() -> Any:
    return torch_module()


def case(torch: Any, loss: str, batch_first: bool = False, kind: str = "GRU") -> tuple[Any, Any, Any, Any]:
    """A model in double precision, a criterion, and a batch."""
    model = make_model(torch, kind, layers=2, embedding=3, batch_first=batch_first, seed=1)
    x, y = torch.randint(5, (9, 6)), torch.rand(9, 6, 3).double()
    criteria = {
        "squared": torch.nn.MSELoss,
        "logistic": torch.nn.BCEWithLogitsLoss,
        "softmax": torch.nn.CrossEntropyLoss,
    }
    return model, criteria[loss](), x, torch.randint(3, (9, 6)) if loss == "softmax" else y


def loss_of(model: Any, criterion: Any, x: Any, y: Any) -> Any:
    z = model(x)
    return criterion(z.flatten(0, 1), y.flatten()) if y.ndim == 2 else criterion(z, y)


@pytest.mark.parametrize(("loss", "factor"), [("softmax", 1), ("squared", 2 / 3), ("logistic", 1 / 3)])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_step_lowers_the_criterion_as_it_says(torch: Any, loss: str, factor: float, batch_first: bool) -> None:
    model, criterion, x, y = case(torch, loss, batch_first)
    optimizer = hfrnn.torch.HessianFree(model, criterion)
    before = loss_of(model, criterion, x, y).item()
    update = optimizer.step(x, y)
    after = loss_of(model, criterion, x, y).item()
    np.testing.assert_allclose([before, after], [factor * update.loss_before, factor * update.loss_after], rtol=1e-12)
    assert after < before


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_classes_ignored_symbols_and_smoothing_count(torch: Any, smoothing: float, weighted: bool) -> None:
    model, _, x, y = case(torch, "softmax")
    y[:2] = -100
    w = torch.tensor([0.5, 1.0, 3.0]).double() if weighted else None
    criterion = torch.nn.CrossEntropyLoss(weight=w, label_smoothing=smoothing)
    optimizer = hfrnn.torch.HessianFree(model, criterion)
    loss, gradient = optimizer.objective(x, y).loss_and_gradient(optimizer.theta)
    expected = loss_of(model, criterion, x, y)
    theirs = torch.autograd.grad(expected, list(model.parameters()))
    constant = loss / expected.item()  # 1 unless both change the sum of the weights
    assert (abs(constant - 1) < 1e-12) == (not (smoothing and weighted))
    mine = hfrnn.interop.TorchLayout(optimizer.net, model).gradient(gradient)
    flat = torch.nn.utils.parameters_to_vector(theirs).numpy()
    np.testing.assert_allclose(mine, constant * flat, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("preconditioner", ["none", "diagonal", "kronecker"])
def test_frozen_parameters_and_second_biases_stay(torch: Any, preconditioner: str) -> None:
    model, criterion, x, y = case(torch, "softmax", kind="LSTM")
    frozen = {"words.weight", "body.core.bias_ih_l0", "top.1.weight"}
    for name, each in model.named_parameters():
        each.requires_grad_(name not in frozen)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    damping = hfrnn.Damping(kind="tikhonov", lambda_=0.1)
    options = hfrnn.HessianFreeOptions(preconditioner=preconditioner)
    update = hfrnn.torch.HessianFree(model, criterion, damping=damping, options=options).step(x, y)
    assert update.loss_after < update.loss_before
    np.testing.assert_allclose(loss_of(model, criterion, x, y).item(), update.loss_after, rtol=1e-12)
    moved = {name for name, each in model.named_parameters() if not torch.equal(each, before[name])}
    assert not moved & (frozen | {"body.core.bias_hh_l1"})
    assert {"body.core.bias_hh_l0", "body.core.weight_hh_l0", "top.1.bias"} <= moved


def test_a_step_follows_requires_grad_and_goes_on_as_a_new_optimizer_with_its_damping(torch: Any) -> None:
    model, criterion, x, y = case(torch, "softmax", kind="LSTM")
    words, top = model.words.weight, model.top[1].weight
    words.requires_grad_(False)
    options = hfrnn.HessianFreeOptions(preconditioner="kronecker", momentum=0.5)
    optimizer = hfrnn.torch.HessianFree(model, criterion, options=options)
    optimizer.step(x, y), optimizer.step(x, y)
    words.requires_grad_(True), top.requires_grad_(False)
    before, kept = (words.clone(), top.clone()), copy.deepcopy(model)
    update = optimizer.step(x, y)
    assert torch.equal(top, before[1])
    assert not torch.equal(words, before[0])
    np.testing.assert_allclose(loss_of(model, criterion, x, y).item(), update.loss_after, rtol=1e-12)
    damping = hfrnn.Damping(mu=update.mu, lambda_=update.lambda_)
    again = hfrnn.torch.HessianFree(kept, criterion, damping=damping, options=options).step(x, y)
    np.testing.assert_array_equal(update.theta, again.theta)
    with pytest.raises(hfrnn.InputError, match="no parameter of the model requires a gradient"):
        model.requires_grad_(False), optimizer.step(x, y)


def test_steps_are_those_of_hfrnn_and_go_on_from_a_state(torch: Any) -> None:
    model, criterion, x, y = case(torch, "softmax")
    net, theta = hfrnn.interop.from_torch(model)
    mine, batch, reference = hfrnn.torch.HessianFree(model, criterion), hfrnn.Batch(x, y), hfrnn.HessianFree()
    theta = reference.update(theta, hfrnn.Objective(net, batch)).theta
    mine.step(x, y)
    np.testing.assert_allclose(mine.theta, theta, rtol=1e-12, atol=1e-14)
    again = hfrnn.torch.HessianFree(model, criterion)
    again.load_state_dict(mine.state_dict())
    kept = {name: each.clone() for name, each in model.state_dict().items()}
    first = mine.step(x, y, curvature=(x[:, :3], y[:, :3]))
    model.load_state_dict(kept)
    np.testing.assert_array_equal(again.step(x, y, curvature=(x[:, :3], y[:, :3])).theta, first.theta)


def test_another_loss_than_that_of_the_user_is_refused(torch: Any) -> None:
    model, _, x, y = case(torch, "softmax")
    nn = torch.nn
    refused = [
        (nn.NLLLoss(), "criterion is NLLLoss, and hfrnn does not compute it"), ("softmax", "criterion is str"),
        (nn.BCEWithLogitsLoss(pos_weight=torch.ones(3)), "pos_weight is given"), (nn.MSELoss, "criterion is MSELoss"),
        (nn.CrossEntropyLoss(reduction="none"), "reduction is 'none'"),
    ]  # fmt: skip
    for criterion, message in refused:
        with pytest.raises(hfrnn.InputError, match=message):
            hfrnn.torch.HessianFree(model, criterion)
    optimizer, forward = hfrnn.torch.HessianFree(model, nn.CrossEntropyLoss()), model.forward
    before = optimizer.theta
    for hidden, message in ((torch.relu, "outputs of the model and of hfrnn differ"), (lambda z: z[-1], "every step")):
        model.forward = lambda x, hidden=hidden: hidden(forward(x))
        with pytest.raises(hfrnn.InputError, match=message):
            optimizer.step(x, y)
    np.testing.assert_array_equal(optimizer.theta, before)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("of_class", [None, [0.5, 1.0, 3.0]])
def test_targets_that_are_no_classes_are_refused(torch: Any, smoothing: float, of_class: list[float] | None) -> None:
    model, _, x, y = case(torch, "softmax")
    weight = None if of_class is None else torch.tensor(of_class)
    optimizer = hfrnn.torch.HessianFree(model, torch.nn.CrossEntropyLoss(weight, label_smoothing=smoothing))
    y[:2] = -100
    for targets, message in (
        (y.float(), "targets have shape .* needs integer symbols"),
        (y.masked_fill(y == 1, 7), "target symbols go from 0 to 7: with n_out = 3"),
        (y.masked_fill(y == 1, -1), "target symbols go from -1 to 2: with n_out = 3"),
    ):
        with pytest.raises(hfrnn.InputError, match=message):
            optimizer.step(x, targets)
    y[5:], lengths = 9, torch.full((6,), 5)  # symbols after the end are not read
    loss = optimizer.objective(x, y, lengths=lengths).loss(optimizer.theta)
    assert loss == optimizer.objective(x, y.int().clamp(max=2), lengths=lengths).loss(optimizer.theta)


def test_probabilities_with_label_smoothing_are_refused(torch: Any) -> None:
    model, _, x, _ = case(torch, "softmax")
    optimizer = hfrnn.torch.HessianFree(model, torch.nn.CrossEntropyLoss(label_smoothing=0.1))
    with pytest.raises(hfrnn.InputError, match=r"targets have shape \(9, 6, 3\), and the criterion has weight"):
        optimizer.step(x, torch.full((9, 6, 3), 1 / 3))


def test_weights_of_classes_that_do_not_fit_the_outputs_are_refused(torch: Any) -> None:
    with pytest.raises(hfrnn.InputError, match=r"criterion has shape \(2,\), and the model has 3 outputs"):
        hfrnn.torch.HessianFree(case(torch, "softmax")[0], torch.nn.CrossEntropyLoss(torch.ones(2)))


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_steps_are_a_tensor_in_the_order_of_the_inputs(torch: Any, weighted: bool) -> None:
    model, _, x, y = case(torch, "softmax", batch_first=True)
    criterion = torch.nn.CrossEntropyLoss(torch.ones(3) if weighted else None)
    optimizer = hfrnn.torch.HessianFree(model, criterion)
    for weights in (torch.ones(6), torch.ones(6, 9), torch.ones(9, 6, 3), np.ones((9, 6)), 2.0):
        with pytest.raises(hfrnn.InputError, match=r"^weights is .*: give a torch\.Tensor of shape \(9, 6\)"):
            optimizer.step(x, y, weights)
    assert optimizer.step(x, y, torch.ones(9, 6)).failed is None
