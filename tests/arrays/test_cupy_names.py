"""Every function, method and attribute that hfrnn uses on a device exists in CuPy and takes what it is given.

The calls are those that the strict fake device records while the engine does everything it can, and while each
optimizer makes a few updates. CuPy imports without a GPU. What CuPy tells about itself decides how a call is checked:

- Python functions and `matmul` have a signature;
- array methods are compiled, and Cython leaves their signature in the first line of their docstring;
- universal functions have none: they take `nin` inputs of the types that they list, and `out=` and `dtype=`;
- operators take one operand by definition of the language.
"""

import ast
import inspect
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.engine_cases import cases, everything, moved, plans, small_problem, vectors
from support.fake_device import Call, FakeBackend, calls
from support.pairwise import each_once, tried

import hfrnn
from hfrnn.arrays.gpu import find_gpu
from hfrnn.arrays.vectors import fetch
from hfrnn.optim.average import Average
from hfrnn.optim.clipping import lazy_clip_norm, lazy_clip_values, max_norm
from hfrnn.optim.first_order import SGD, Adam, SGDOptions
from hfrnn.optim.muon import Muon
from hfrnn.optim.soap import SOAP, SOAPOptions

cupy = pytest.importorskip("cupy", reason="needs CuPy: install the extra cuda12 or cuda13")


BINARY = "add sub mul truediv matmul radd rsub rmul rtruediv rmatmul iadd isub imul itruediv pow ipow"
BINARY += " and or xor rshift lt le gt ge eq ne getitem"
OPERATORS = {f"__{name}__": 1 for name in BINARY.split()} | {"__neg__": 0, "__abs__": 0, "__setitem__": 2}


@cache
def recorded(pairs: bool) -> frozenset[Call]:
    fake = FakeBackend()
    for n, row in enumerate(tried() if pairs else each_once()):
        (case,) = row.values
        batch, net = case.data(), case.net(backend=fake)
        plan = plans(batch.T, batch.B)["all-3" if n % 2 else "nothing-3"]
        noise = hfrnn.StateNoise(0.1)
        everything(net, moved(batch, fake), *vectors(case.net(), batch), plan=plan, noise=noise)
        net.init()
    fake.synchronize()
    fake.default_memory()
    hessian_free_updates(fake)
    first_order_steps(fake)
    return frozenset(calls)


def hessian_free_updates(fake: FakeBackend) -> None:
    for n, preconditioner in enumerate(("none", "diagonal", "kronecker")):
        net, batch, theta = small_problem(backend=fake, l2=0.1)
        damping = hfrnn.Damping(("structural", "line-search", "structural+tikhonov")[n])
        options = hfrnn.HessianFreeOptions(
            preconditioner=preconditioner, preconditioner_relative_shift=0.1 if n else 0.0, residual_every=3,
            cg_iterations=9, rho_model=("undamped", "damped")[n % 2], noise_limit=100.0 if n else None,
        )  # fmt: skip
        optimizer = hfrnn.HessianFree(damping, options)
        for _ in range(3):
            theta = optimizer.update(theta, hfrnn.Objective(net, batch)).theta
        other = hfrnn.HessianFree(damping, options)
        other.load_state_dict(optimizer.state_dict())


def first_order_steps(fake: FakeBackend) -> None:
    net, batch, start = small_problem(backend=fake)
    blocks = net.matrix_blocks
    for optimizer in (SGD(SGDOptions(nesterov=True)), Adam(), SOAP(blocks, SOAPOptions(every=2)), Muon(blocks)):
        theta, spare, average, last = start.copy(), None, Average(0.9), None
        for _ in range(4):
            last = hfrnn.Objective(net, batch, like=last)
            loss, gradient = last.data_loss_and_gradient(theta)
            lazy_clip_values(gradient, 0.1)
            fetch(loss, lazy_clip_norm(gradient, 0.1))
            theta, spare = optimizer.lazy_step(theta, gradient, 0.1, out=spare), theta.copy()
            max_norm([W for W in net.groups(theta)["layer0"].values() if W.ndim == 2][:1], 1.0)
            average.add(theta)
        optimizer.check()
        optimizer.step(theta, gradient, 0.1, out=theta)
        optimizer.load_state_dict(optimizer.state_dict())


def signature(function: Any) -> inspect.Signature:
    """The signature of a Python function, or the one that Cython wrote into a docstring."""
    try:
        return inspect.signature(function)
    except ValueError:
        line = (function.__doc__ or "").splitlines()[0]
        name, _, rest = line.partition("(")
        assert name.split(".")[-1] == function.__name__, f"no signature in the docstring of {function}: {line!r}"
        arguments = re.sub(r"\b[A-Za-z_]\w* (?=[A-Za-z_])", "", rest.rpartition(")")[0])  # without C types
        scope: dict[str, Any] = {}
        exec(f"def f({arguments}): pass", scope)  # CuPy's own docstring
        return inspect.signature(scope["f"])


def found(name: str) -> Any:
    target = cupy
    for part in name.split("."):
        target = getattr(target, part)
    return target


def check(call: Call) -> None:
    kind, name, arguments, keywords, types = call
    if kind == "attribute":
        assert inspect.isdatadescriptor(getattr(cupy.ndarray, name))
        return
    function = found(name) if kind == "function" else getattr(cupy.ndarray, name)
    if isinstance(function, cupy.ufunc):
        assert arguments == function.nin
        assert keywords <= {"out", "dtype"}
        assert any(accepts(types, listed.split("->")[0]) for listed in function.types), f"{name} does not take {types}"
    elif name in OPERATORS:
        assert callable(function)
        assert (arguments, keywords) == (OPERATORS[name], frozenset())
    elif kind == "method":
        signature(function).bind("self", *range(arguments), **dict.fromkeys(keywords))
    else:
        signature(function).bind(*range(arguments), **dict.fromkeys(keywords))


def accepts(types: str, listed: str) -> bool:
    """Whether arguments of these types can be given where those listed are expected."""
    pairs = zip(types, listed, strict=True)
    return all(x == "." or (y != "E" and np.can_cast(x, y)) for x, y in pairs)  # E: half-precision complex


@pytest.mark.parametrize("pairs", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_cupy_has_everything_that_is_called(pairs):
    problems = []
    for call in sorted(recorded(pairs), key=str):
        try:
            check(call)
        except (AttributeError, AssertionError, TypeError) as error:
            problems.append(f"{call}: {error}")
    assert not problems, "\n".join(problems)
    names = {name for _, name, *_ in recorded(pairs)}
    assert names >= {"matmul", "asnumpy", "linalg.qr", "sum", "__iadd__", "tolist", "argsort", "__ipow__"}


def test_cupy_has_what_launches_kernels():
    signature(found("cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor")).bind(1, 64, 5000)
    for name in ("kernel", "max_dynamic_shared_size_bytes"):
        assert inspect.isdatadescriptor(getattr(cupy.RawKernel, name))
    if find_gpu().cupy is None:
        function = cupy.cuda.Function.__new__(cupy.cuda.Function)
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="driver"):  # and not a TypeError
            function((1,), (32,), (), shared_mem=5, enable_cooperative_groups=True)


def cupys_linear_operator() -> type[Any]:
    """CuPy's class from its own source: importing its module loads CUDA libraries that need not be there."""
    source = Path(cupy.__file__).parent.parent / "cupyx/scipy/sparse/linalg/_interface.py"
    classes = [n for n in ast.parse(source.read_text()).body if isinstance(n, ast.ClassDef)]
    module = ast.Module([n for n in classes if n.name == "LinearOperator"], [])
    scope: dict[str, Any] = {"cupy": cupy, "_util": SimpleNamespace(isshape=lambda shape: len(shape) == 2)}
    exec(compile(module, str(source), "exec"), scope)
    return scope["LinearOperator"]


def test_cupys_linear_operator_can_be_built_and_applied_as_the_engine_does():
    class OnCupysOperator(FakeBackend):
        def linear_operator_base(self):
            return cupys_linear_operator()

    backend = OnCupysOperator()
    case = cases("softmax")[0]
    net, batch = case.net(backend=backend), case.data()
    theta, v, u = (backend.asarray(x) for x in vectors(case.net(), batch))
    G, J, host = net.gauss_newton(theta, batch), net.jacobian(theta, batch), case.net()
    assert (G.shape, G.dtype) == ((net.n_parameters, net.n_parameters), np.float64)
    expected = host.gauss_newton(vectors(host, batch)[0], batch) @ vectors(host, batch)[1]
    np.testing.assert_allclose(backend.to_host(G.matvec(v)), expected, rtol=0, atol=1e-15)
    assert J.matvec(v).shape == u.shape
    assert J.rmatvec(u).shape == v.shape
    applied = backend.to_host(G.apply(v, backend.empty(v.shape, v.dtype)))
    np.testing.assert_allclose(applied, expected, rtol=0, atol=1e-15)
