"""How fast is one sweep with g tangents of an LSTM? A prototype, compared with products one after another.

The sweep carries all tangents through each time step: one matrix product for the rows of all tangents, and compiled
loops that read the coefficients of a step once for all of them. It is written for one layer, symbols and softmax, on
one thread in float32, and is checked against hfrnn. With g = 1 it makes a single product, which shows what the
prototype gains without stacking. See README.md beside this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import common
import numpy as np
from several_vectors import peak, processor_seconds

import hfrnn
from hfrnn.arrays.threads import one_blas_thread
from hfrnn.engine.plan import Keep, Plan

H, T, B, V = 128, 100, 32, 64
SEGMENT = 10
"""Steps whose large matrix products are made at once."""
Values = Any


def compiled() -> dict[str, Any]:
    """Return the elementwise loops, compiled; x is (B, g, ...), and coefficients are (B, ...)."""
    import numba

    @numba.njit(fastmath=True)
    def gather(Ra: Values, RW_x: Values, Rb: Values, symbols: Values) -> None:
        for b in range(Ra.shape[0]):
            for j in range(Ra.shape[1]):
                for u in range(Ra.shape[2]):
                    Ra[b, j, u] += RW_x[symbols[b], j, u] + Rb[j, u]

    @numba.njit(fastmath=True)
    def rcell(Ra: Values, more: Values, k: Values, k_c: Values, k_h: Values, Rc: Values, Rh: Values) -> None:
        H = k_c.shape[1]
        for b in range(Ra.shape[0]):
            for j in range(Ra.shape[1]):
                for u in range(H):
                    total = k_c[b, u] * Rc[b, j, u]
                    total += k[b, u] * (Ra[b, j, u] + more[b, j, u])
                    total += k[b, H + u] * (Ra[b, j, H + u] + more[b, j, H + u])
                    total += k[b, 3 * H + u] * (Ra[b, j, 3 * H + u] + more[b, j, 3 * H + u])
                    Rc[b, j, u] = total
                    Ro = k[b, 2 * H + u] * (Ra[b, j, 2 * H + u] + more[b, j, 2 * H + u])
                    Rh[b, j, u] = k_h[b, u] * total + Ro

    @numba.njit(fastmath=True)
    def head(Rz: Values, p: Values, scale: float) -> None:
        for b in range(Rz.shape[0]):
            for j in range(Rz.shape[1]):
                mean = Rz[b, j, 0] * p[b, 0]
                for u in range(1, Rz.shape[2]):
                    mean += Rz[b, j, u] * p[b, u]
                for u in range(Rz.shape[2]):
                    Rz[b, j, u] = p[b, u] * (Rz[b, j, u] - mean) * scale

    @numba.njit(fastmath=True)
    def bcell(dh: Values, more: Values, dc: Values, k: Values, k_c: Values, k_h: Values, da: Values) -> None:
        H = k_c.shape[1]
        for b in range(dh.shape[0]):
            for j in range(dh.shape[1]):
                for u in range(H):
                    d = dh[b, j, u] + more[b, j, u]
                    c = dc[b, j, u] + k_h[b, u] * d
                    da[b, j, u] = k[b, u] * c
                    da[b, j, H + u] = k[b, H + u] * c
                    da[b, j, 2 * H + u] = k[b, 2 * H + u] * d
                    da[b, j, 3 * H + u] = k[b, 3 * H + u] * c
                    dc[b, j, u] = k_c[b, u] * c

    @numba.njit
    def scatter(dW_x: Values, da: Values, symbols: Values) -> None:
        for b in range(da.shape[0]):
            dW_x[symbols[b]] += da[b]

    return {"gather": gather, "rcell": rcell, "head": head, "bcell": bcell, "scatter": scatter}


class Sweep:
    """The Gauss-Newton matrix of one LSTM layer at theta, for products with g vectors in one sweep."""

    def __init__(self, net: hfrnn.Network, theta: Values, symbols: Values) -> None:
        self.net, self.symbols, self.loops = net, symbols, compiled()
        p = {name.split(".")[1]: block for name, block in net.views(theta).items()}
        self.W_h, self.W_y = np.ascontiguousarray(p["W_h"]), np.ascontiguousarray(p["W_y0"])
        self.W_h_T, self.W_y_T = np.ascontiguousarray(p["W_h"].T), np.ascontiguousarray(p["W_y0"].T)
        self.h, self.k = np.zeros((T + 1, B, H), "float32"), np.empty((T, B, 4 * H), "float32")
        self.k_c, self.k_h = np.empty((2, T, B, H), "float32")
        c = np.zeros((B, H), "float32")
        for t in range(T):
            a = p["W_x"][symbols[t]] + p["b"] + self.h[t] @ self.W_h
            i, f, o = np.split(1 / (1 + np.exp(-a[:, : 3 * H])), 3, axis=1)
            g, before = np.tanh(a[:, 3 * H :]), c
            c = f * before + i * g
            z = np.tanh(c)
            self.h[t + 1] = o * z
            slopes = (g * i * (1 - i), before * f * (1 - f), z * o * (1 - o), i * (1 - g * g))
            self.k[t] = np.concatenate(slopes, axis=1)
            self.k_c[t], self.k_h[t] = f, o * (1 - z * z)
        z = np.exp(self.h[1:] @ self.W_y + p["b_y"])
        self.p = z / z.sum(axis=-1, keepdims=True)  # (T, B, V)

    def products(self, vectors: Values, g: int) -> Values:
        """Return the products with vectors (k, n), g of them in each sweep."""
        return np.concatenate([self._stacked(vectors[first : first + g]) for first in range(0, len(vectors), g)])

    def _stacked(self, vectors: Values) -> Values:
        g, parts = len(vectors), [self.net.views(v) for v in vectors]
        v = {name.split(".")[1]: np.stack([part[name] for part in parts], axis=-2) for name in parts[0]}
        Ra = np.empty((SEGMENT * B, g * 4 * H), "float32")
        dz = self._forward(v, Ra, g)
        grad = self._backward(dz, Ra, g)
        out = np.empty_like(vectors)
        for j, row in enumerate(out):
            for name, block in self.net.views(row).items():
                block[...] = grad[name.split(".")[1]][..., j, :]
        return out

    def _forward(self, v: dict[str, Values], Ra: Values, g: int) -> Values:
        """Carry the tangents forward; return the adjoints of the logits, (T, B, g, V)."""
        Rz, Rhs = np.empty((T, B, g, V), "float32"), np.zeros((SEGMENT, B, g, H), "float32")
        Rc, more = np.zeros((B, g, H), "float32"), np.empty((B * g, 4 * H), "float32")
        steps, loops = Ra.reshape(SEGMENT, B, g, 4 * H), self.loops
        for first in range(0, T, SEGMENT):
            part = slice(first, first + SEGMENT)
            np.matmul(self.h[part].reshape(-1, H), v["W_h"].reshape(H, -1), out=Ra)
            for q, t in enumerate(range(first, first + SEGMENT)):
                loops["gather"](steps[q], v["W_x"], v["b"], self.symbols[t])
                np.matmul(Rhs[q - 1].reshape(B * g, H), self.W_h, out=more)
                args = (more.reshape(B, g, 4 * H), self.k[t], self.k_c[t], self.k_h[t])
                loops["rcell"](steps[q], *args, Rc, Rhs[q])
            z = Rz[part].reshape(-1, g, V)
            np.matmul(Rhs.reshape(-1, H), self.W_y, out=z.reshape(-1, V))
            z += (self.h[1:][part].reshape(-1, H) @ v["W_y0"].reshape(H, -1)).reshape(-1, g, V) + v["b_y"]
            loops["head"](z, self.p[part].reshape(-1, V), np.float32(1 / (T * B)))
        return Rz

    def _backward(self, dz: Values, da: Values, g: int) -> dict[str, Values]:
        """Carry the adjoints backward; return the products' blocks by name, tangents on axis -2."""
        grad = {"W_x": np.zeros((V, g, 4 * H), "float32"), "W_h": np.zeros((H, g * 4 * H), "float32")}
        grad["W_y0"] = np.zeros((H, g * V), "float32")
        dh, dc = np.zeros((2, B, g, H), "float32")
        from_output, loops = np.empty((SEGMENT, B, g, H), "float32"), self.loops
        steps = da.reshape(SEGMENT, B, g, 4 * H)
        for first in reversed(range(0, T, SEGMENT)):
            part = slice(first, first + SEGMENT)
            np.matmul(dz[part].reshape(-1, V), self.W_y_T, out=from_output.reshape(-1, H))
            for q in reversed(range(SEGMENT)):
                t = first + q
                loops["bcell"](dh, from_output[q], dc, self.k[t], self.k_c[t], self.k_h[t], steps[q])
                np.matmul(steps[q].reshape(B * g, 4 * H), self.W_h_T, out=dh.reshape(B * g, H))
                loops["scatter"](grad["W_x"], steps[q], self.symbols[t])
            grad["W_h"] += self.h[part].reshape(-1, H).T @ da
            grad["W_y0"] += self.h[1:][part].reshape(-1, H).T @ dz[part].reshape(-1, g * V)
        grad["b"], grad["b_y"] = grad["W_x"].sum(axis=0), dz.sum(axis=(0, 1))
        grad["W_h"], grad["W_y0"] = grad["W_h"].reshape(H, g, 4 * H), grad["W_y0"].reshape(H, g, V)
        return grad


@click.command(cls=common.Command)
@click.option("--vectors", "k", default=16, type=click.IntRange(2), help="Vectors k.")
@click.option("--rounds", default=7, type=click.IntRange(1), help="Rounds; the least time counts.")
@click.option("--out", type=click.Path(path_type=Path), default=common.RESULTS, help="The folder of the JSON.")
def main(k: int, rounds: int, out: Path) -> None:
    """Time k products of an LSTM in sweeps of g tangents, and one after another with hfrnn, in processor time."""
    facts, rate, rng = common.machine(1), peak(), np.random.default_rng(0)
    x = rng.integers(V, size=(T + 1, B))
    case: dict[str, Any] = {"H": H, "T": T, "B": B, "k": k, "hfrnn": {}, "stacked": {}}
    for backend in ("numpy", "numba"):
        for shards in ((0, B // 2, B), (0, B)):
            net = hfrnn.Network("lstm", V, H, V, backend=backend)
            theta, plan = net.init(0), Plan(shards, None, Keep.ALL)
            vectors = rng.standard_normal((k, net.n_parameters)).astype(net.dtype)
            G = hfrnn.Objective(net, hfrnn.Batch(x[:-1], x[1:]), threads=1, plan=plan).gauss_newton(theta)
            seconds = processor_seconds(lambda G=G, vectors=vectors: [G @ v for v in vectors], rounds)
            case["hfrnn"][f"{backend}, {len(shards) - 1} shards"] = seconds
            click.echo(f"hfrnn, {backend}, {len(shards) - 1} shards: {k} products {seconds * 1e3:.0f} ms")
    sweep, expected = Sweep(net, theta, x[:-1]), np.stack([G @ v for v in vectors])
    with one_blas_thread():
        for g in (g for g in (1, 2, 4, 8, 16) if k % g == 0):
            error = np.linalg.norm(sweep.products(vectors, g) - expected) / np.linalg.norm(expected)
            if error > 1e-5:
                raise click.ClickException(f"the products of {g} tangents differ from hfrnn's by {error:.1e}")
            case["stacked"][g] = processor_seconds(lambda g=g: sweep.products(vectors, g), rounds)
            click.echo(f"{g} tangents in a sweep: {k} products {case['stacked'][g] * 1e3:.0f} ms")
    case["at_peak"] = k * 2 * T * B * 4 * (H * 4 * H + H * V) / rate
    click.echo(f"matrix products at their peak: {case['at_peak'] * 1e3:.0f} ms")
    common.write_result(out / "stacked-tangents-cpu.json", {"machine": facts, "peak": rate, **case})


if __name__ == "__main__":
    main()
