"""Gradients with limited errors, against automatic differentiation whose cotangents are cut between two steps."""

from functools import cache
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="the oracle needs JAX: install the extra oracle")

import jax
import jax.numpy as jnp
from support.slow import slow_unless

from . import reference, sizes
from .settings import CHECKPOINTS, LOSSES, SMALL, Case, assert_blocks, setting

STACK: dict[str, Any] = {"hidden": (4, 2)}
KINDS: list[Any] = [  # name, loss, network, batch
    ("stack", 1, STACK, {"ragged": True}),
    ("single-carried", 2, {"embedding": 3, "l2": 0.3}, {"carried": True}),
    ("learned-state", 0, STACK | {"learn_initial_state": True}, {"ragged": True}),
]
CASES = [
    Case(name, arch, LOSSES[(k + loss) % 4], SMALL.get(arch, {}) | network, **batch)
    for k, arch in enumerate(sizes.SLOTS)
    for name, loss, network, batch in (KINDS[k % 3],)
] + [Case("order-beyond-the-start-carried", "hornn", "softmax", {"order": 5, **STACK}, T=4, carried=True)]
QUICK = ("lstm-1997", "hornn-gated")
CLIP = 0.03
"""Small enough that every case has errors beyond it."""


@cache
def limited(case: Case) -> Any:
    """Return the gradient of a case, with errors of the summed losses limited to `CLIP`, as NumPy arrays."""
    s = setting(case)
    data, config = s.data, s.config

    def limited_objective(params: reference.Params) -> Any:
        square = sum(jnp.sum(value**2) for value in params.values())
        z = reference.forward(params, data, config, CLIP / data.total_weight())["logits"]
        return reference.mean_loss(z, data, config) + 0.5 * config.l2 * square

    params = dict(s.net.views(s.theta))
    lowered = jax.jit(jax.grad(limited_objective)).lower(params)
    try:
        found = lowered.compile(compiler_options=reference.QUICK)
    except Exception:  # options come and go with versions of XLA
        found = lowered.compile()
    return jax.tree.map(np.asarray, found(params))


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=["kept", "segments"])
@pytest.mark.parametrize(
    "case", slow_unless(lambda case: case.arch in QUICK, CASES), ids=lambda case: case.id, scope="module"
)
def test_a_gradient_with_limited_errors_agrees_block_by_block(case, checkpoint):
    s = setting(case)
    loss, gradient = s.objective(checkpoint).loss_and_gradient(s.theta, clip_error=CLIP)
    expected = limited(case)
    assert loss == pytest.approx(float(s.expected["loss"]), rel=1e-13)
    assert_blocks(s, gradient, expected)
    free = s.expected["gradient"]
    changed = {
        name for name, block in expected.items() if np.linalg.norm(block - free[name]) > 1e-3 * np.linalg.norm(block)
    }
    assert changed >= {name for name in expected if name.startswith("layer0.W_")}
    assert not {name for name in changed if name.startswith("output.")}


def test_a_bound_beyond_all_errors_changes_nothing():
    s = setting(next(case for case in CASES if case.arch in QUICK))
    free = s.objective(None).loss_and_gradient(s.theta)[1]
    np.testing.assert_allclose(s.objective(None).loss_and_gradient(s.theta, clip_error=1e6)[1], free, rtol=1e-12)
