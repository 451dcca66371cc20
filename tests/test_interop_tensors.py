"""Vectors and batches of PyTorch: their order, their memory, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.torch_products import KINDS, flat, gauss_newton_product, make_model, random_case, time_first, torch_module

import hfrnn
from hfrnn.interop import TorchLayout, from_torch, gradient_to_torch, to_torch


@pytest.fixture
def torch() -> Any:
    return torch_module()


def case(torch: Any, kind: str = "LSTM", dtype: str = "float64") -> tuple[Any, hfrnn.Objective, Any]:
    """A model with an embedding, an objective on symbols, and theta."""
    model = make_model(torch, kind, layers=2, embedding=3).to(getattr(torch, dtype))
    net, theta = from_torch(model)
    return model, hfrnn.Objective(net, hfrnn.Batch(torch.arange(12).reshape(4, 3) % 5, torch.ones(4, 3).long())), theta


# ---------------------------------------------------------------------- PyTorch's order


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_is_that_of_parameters_to_vector(torch: Any, kind: str) -> None:
    model, objective, theta = case(torch, kind)
    layout = TorchLayout(objective.net, model)
    assert layout.names == tuple(name for name, _ in model.named_parameters())
    vector = torch.nn.utils.parameters_to_vector(model.parameters())
    assert layout.size == vector.numel()
    np.testing.assert_array_equal(layout.direction(vector), theta)
    back = layout.parameters(theta)
    for name, value in to_torch(objective.net, theta, model).items():
        np.testing.assert_array_equal(layout.split(back)[name], value, err_msg=name)
    g = np.random.default_rng(0).standard_normal(theta.size)
    for name, value in gradient_to_torch(objective.net, g, model).items():
        np.testing.assert_array_equal(layout.split(layout.gradient(g))[name], value, err_msg=name)
    v = np.random.default_rng(1).standard_normal(layout.size)
    assert layout.gradient(g) @ v == pytest.approx(g @ layout.direction(v), rel=1e-13)


def test_a_vector_comes_and_goes_as_tensor_matrix_or_dict(torch: Any) -> None:
    model, x, y, loss = random_case(torch, "GRU", 2, 0)
    net, theta = from_torch(model, loss=loss)
    layout = TorchLayout(net, model)
    G = hfrnn.Objective(net, hfrnn.Batch(*time_first(model, x, y))).gauss_newton(theta).to_torch(layout)
    assert G.shape == (layout.size, layout.size)
    assert G.dtype == np.float64
    V = torch.randn(layout.size, 3, dtype=torch.float64)
    products = G @ V
    assert isinstance(products, torch.Tensor)
    for k in range(3):
        expected = flat(gauss_newton_product(torch, model, x, y, loss, list(layout.split(V[:, k]).values())))
        np.testing.assert_allclose(G @ V[:, k], expected, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(products[:, k], expected, rtol=1e-9, atol=1e-13)
    there = G @ layout.split(V[:, 0])
    assert list(there) == [name for name, _ in model.named_parameters()]
    assert {name: value.shape for name, value in there.items()} == {n: p.shape for n, p in model.named_parameters()}
    np.testing.assert_array_equal(torch.cat([value.flatten() for value in there.values()]), G @ V[:, 0])
    out = torch.empty(layout.size, dtype=torch.float64)
    assert G.apply(V[:, 0], out) is out
    np.testing.assert_array_equal(out, G @ V[:, 0])


def test_scipy_takes_the_operator(torch: Any) -> None:
    from scipy.sparse.linalg import aslinearoperator, cg, eigsh

    model, objective, theta = case(torch)
    G = objective.gauss_newton(theta, tikhonov=0.1).to_torch(TorchLayout(objective.net, model))
    dense = aslinearoperator(G) @ np.eye(G.shape[0])
    np.testing.assert_allclose(dense, (G @ torch.eye(G.shape[0], dtype=torch.float64)).numpy(), rtol=0, atol=1e-15)
    np.testing.assert_allclose(eigsh(G, k=2, return_eigenvectors=False).max(), np.linalg.eigvalsh(dense).max())
    b = np.random.default_rng(0).standard_normal(G.shape[0])
    np.testing.assert_allclose(cg(G, b, rtol=1e-12)[0], np.linalg.solve(dense, b), rtol=1e-8)


def test_a_layout_may_leave_out_frozen_parameters(torch: Any) -> None:
    model, objective, theta = case(torch)
    whole = TorchLayout(objective.net, model)
    full = objective.gauss_newton(theta, tikhonov=0.1).to_torch(whole) @ np.eye(whole.size)
    for frozen in (["words.weight"], ["body.core.bias_ih_l0"], ["body.core.bias_hh_l0", "top.1.bias"]):
        for name, each in model.named_parameters():
            each.requires_grad_(name not in frozen)
        layout = TorchLayout(objective.net, model, trainable=True)
        assert layout.names == tuple(name for name, each in model.named_parameters() if each.requires_grad)
        sizes = [int(np.prod(shape)) for shape in whole.shapes]
        kept = np.repeat([name not in frozen for name in whole.names], sizes)
        G = objective.gauss_newton(theta, tikhonov=0.1).to_torch(layout)
        np.testing.assert_allclose(G @ np.eye(layout.size), full[np.ix_(kept, kept)], rtol=0, atol=1e-15)
        rng = np.random.default_rng(0)
        v, g = rng.standard_normal(layout.size), rng.standard_normal(theta.size)
        assert layout.gradient(g) @ v == pytest.approx(g @ layout.direction(v), rel=1e-13)
    model.requires_grad_(False)
    with pytest.raises(hfrnn.InputError, match=r"^trainable needs the model: a state dict does not tell"):
        TorchLayout(objective.net, model.state_dict(), embedding="words", trainable=True)
    with pytest.raises(hfrnn.InputError, match=r"^no parameter of the model requires a gradient"):
        TorchLayout(objective.net, model, trainable=True)


# ---------------------------------------------------------------------- tensors without copies


def test_an_operator_reads_and_writes_the_memory_of_tensors(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, objective, theta = case(torch)
    G = objective.gauss_newton(theta)
    seen = []
    inner_apply = G._apply
    monkeypatch.setattr(G, "_apply", lambda v, out: (seen.append((v, out)), inner_apply(v, out)))
    monkeypatch.setattr(G, "_apply_adjoint", G._apply)
    v, out = torch.randn(theta.size, dtype=torch.float64), torch.empty(theta.size, dtype=torch.float64)
    expected = G @ v.numpy()
    seen.clear()
    result = G.to_torch() @ v
    G.to_torch().apply(torch.nn.Parameter(v), out)  # one that requires a gradient
    assert [given.ctypes.data for given, _ in seen] == [v.data_ptr()] * 2
    assert [written.ctypes.data for _, written in seen] == [result.data_ptr(), out.data_ptr()]
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(out, expected)


def test_a_batch_reads_tensors_where_they_are(torch: Any) -> None:
    shapes = {"inputs": (3, 2), "targets": (3, 2), "weights": (3, 2), "lengths": (2,)}
    given = {name: torch.ones(shape, dtype=torch.int64) for name, shape in shapes.items()}
    batch = hfrnn.Batch(**given)
    for name, tensor in given.items():
        assert getattr(batch, name).ctypes.data == tensor.data_ptr(), name


def test_a_batch_takes_a_state_of_tensors_and_transposed_tensors(torch: Any) -> None:
    model = make_model(torch, layers=2, batch_first=True)
    net, theta = from_torch(model)
    x, (h, c) = torch.randn(3, 6, 5, dtype=torch.float64), torch.randn(2, 2, 3, 4, dtype=torch.float64)
    state = [{"h": h[l], "c": c[l]} for l in range(2)]
    with torch.no_grad():
        expected = model.top(model.body.core(x, (h, c))[0]).transpose(0, 1)
    found = net.run(theta, hfrnn.Batch(x.transpose(0, 1), initial_state=state))[0]
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-12, atol=1e-14)


# ---------------------------------------------------------------------- refusals


def test_tensors_that_cannot_be_shared_are_refused(torch: Any) -> None:
    x = torch.zeros(3, 2, 4)
    for odd, reason in ((x.bfloat16(), "Unsupported dtype"), (x.to("meta"), "meta"), (x.to_sparse(), "layout")):
        with pytest.raises(hfrnn.InputError, match=f"^inputs is .* cannot be shared .*{reason}.*: give float32"):
            hfrnn.Batch(odd)


def test_vectors_that_do_not_fit_an_operator_are_refused(torch: Any) -> None:
    model, objective, theta = case(torch)
    layout, G = TorchLayout(objective.net, model), objective.gauss_newton(theta)
    plain, mapped, v = G.to_torch(), G.to_torch(layout), torch.zeros(theta.size, dtype=torch.float64)
    names = layout.split(torch.zeros(layout.size, dtype=torch.float64))
    odd = {**names, "top.1.bias": torch.zeros(4)}
    for call, message in (
        (lambda: plain.apply(v.numpy(), v), r"^v is an array of shape .*: give a tensor, or use the operator without"),
        (lambda: plain @ [v], r"^v is a list, and the operator has no names: use to_torch\(layout\)"),
        (lambda: mapped @ [0.5, 1], r"^v has 2 tensors, and the model has 11 parameters: give one for"),
        (lambda: plain @ v.long(), r"^v has shape .* type int64: give an array .* of floating-point"),
        (lambda: mapped @ {**names, "more": v}, r"^v and the model differ in more: give a tensor for each"),
        (lambda: mapped @ odd, r"^top\.1\.bias has the shape \(4,\): the model's has \(3,\)"),
        (lambda: plain.apply(v, np.zeros(theta.size)), r"^out is an array .*: give a tensor"),
        (lambda: mapped.apply(torch.zeros(layout.size), v), r"^out is .*: give a tensor of shape"),
        (lambda: objective.jacobian(theta).to_torch(), r"^a Jacobian has no form for tensors: use to_torch of gauss"),
        (lambda: G.to_torch(7), r"^layout is 7: give an object with the methods direction"),
    ):
        with pytest.raises(hfrnn.InputError, match=message):
            call()
