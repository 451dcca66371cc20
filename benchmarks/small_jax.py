"""JAX as a peer of small.py: gradients, and Gauss-Newton products with the linearization kept, of rnn and lstm."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

ARCHITECTURES = ("rnn", "lstm")
UNROLLS = (1, 4)
"""Steps of the scan that are unrolled; the faster variant counts."""


def operations(
    theta: Any, v: Any, views: Callable[[Any], dict[str, Any]], x: Any, y: Any, unroll: int
) -> dict[str, Any]:
    """Return compiled calls by name, which return a dict of blocks."""
    import jax
    import jax.numpy as jnp

    p, direction = ({name.split(".")[1]: jnp.asarray(each) for name, each in views(w).items()} for w in (theta, v))
    x, y = jnp.asarray(x), jnp.asarray(y)
    (T, B, _), H = x.shape, p["W_h"].shape[0]
    scale = 1.0 / (T * B)

    def outputs(p: Any) -> Any:
        def lstm(state: Any, u: Any) -> Any:
            h, c = state
            a = u + h @ p["W_h"]
            i, f, o = jnp.split(jax.nn.sigmoid(a[:, : 3 * H]), 3, axis=1)
            c = f * c + i * jnp.tanh(a[:, 3 * H :])
            h = o * jnp.tanh(c)
            return (h, c), h

        def rnn(state: Any, u: Any) -> Any:
            h = jnp.tanh(u + state[0] @ p["W_h"])
            return (h, state[1]), h

        zero = jnp.zeros((B, H), x.dtype)
        step = lstm if p["W_h"].shape[1] > H else rnn
        _, hs = jax.lax.scan(step, (zero, zero), x @ p["W_x"] + p.get("b", 0.0), unroll=unroll)
        return hs @ p["W_y0"] + p.get("b_y", 0.0)

    def linear(f_jvp: Any, v: Any) -> Any:
        return jax.linear_transpose(f_jvp, v)(scale * f_jvp(v))[0]

    f_jvp = jax.jit(lambda p: jax.linearize(outputs, p)[1])(p)
    gradient = jax.jit(jax.grad(lambda p: 0.5 * scale * ((outputs(p) - y) ** 2).sum()))
    product = jax.jit(linear)
    wait: Any = jax.block_until_ready
    return {"gradient": lambda: wait(gradient(p)), "product": lambda: wait(product(f_jvp, direction))}


def norm(blocks: dict[str, Any]) -> float:
    return float(np.sqrt(sum(float((np.asarray(each, "float64") ** 2).sum()) for each in blocks.values())))


def worker(threads: int) -> None:
    """Do what the worker of small.py does."""
    os.environ["NPROC"] = str(threads)  # what JAX sizes its pool of threads by
    import small

    variants: list[dict[str, Any]] = []
    fastest: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "case" in asked:
            net, x, y = small.problem(asked["case"], "numpy")
            theta, v = net.init(seed=0), net.init(seed=1)
            make = functools.partial(operations, theta, v, net.views, x, y)
            variants = [make(unroll) for unroll in UNROLLS]
            for name in ("gradient", "product"):
                times = [small.least(each[name], 4, threads) for each in variants]
                fastest[name] = variants[times.index(min(times))][name]
            answer: Any = [norm(fastest[name]()) for name in ("gradient", "product")]  # type: ignore[arg-type]
        else:
            answer = small.least(fastest[asked["run"]], asked["calls"], threads)
        print(f"{json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    worker(int(sys.argv[1]))
