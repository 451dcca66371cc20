"""The same networks once more, in JAX and by automatic differentiation: an oracle that shares no code with hfrnn.

Written from the equations alone: forward passes step by step, every derivative from `jax.jvp`, `jax.vjp`, `jax.grad`.
Nothing here is fast, and nothing here is differentiated by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_softmax, relu, sigmoid, softplus

jax.config.update("jax_enable_x64", True)

Array = Any  # np.ndarray or jax.Array, float64 unless said
Params = Mapping[str, Array]

# name, has a bias by default, hears the layer below
SLOTS: dict[str, list[tuple[str, bool, bool]]] = {
    "rnn": [("h", True, True)],
    "mrnn": [("h", True, True), ("m", False, False)],
    "lstm": [(gate, True, True) for gate in "ifog"],
    "lstm-krause": [(gate, False, True) for gate in "ifog"],
    "mlstm": [*((gate, False, True) for gate in "ifog"), ("m", False, False)],
    "mlstm-standard": [*((gate, True, True) for gate in "ifog"), ("m", False, False)],
}
RECURRENT: dict[str, dict[str, int]] = {  # name -> columns in units of H; rows are H
    "rnn": {"W_h": 1},
    "mrnn": {"W_hm": 1, "W_mh": 1},
    "lstm": {"W_h": 4},
    "lstm-krause": {"W_h": 4},
    "mlstm": {"W_hm": 1, "W_m": 4},
    "mlstm-standard": {"W_hm": 1, "W_m": 4},
}
STATE = {arch: ("h", "c") if "lstm" in arch else ("h",) for arch in SLOTS}
OUTPUT_BIAS = {"lstm", "mlstm-standard"}  # on by default
ONE_PREACTIVATION = {"rnn", "mrnn", "lstm-krause", "mlstm"}
QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}
ACTIVATIONS = {"tanh": jnp.tanh, "logistic": sigmoid, "relu": relu}


@dataclass(frozen=True)
class Config:
    """The arguments of a network that matter here, under the names of the public contract."""

    arch: str
    n_in: int
    hidden: tuple[int, ...]
    n_out: int
    loss: str
    embedding: int | None = None
    bias: bool | None = None
    output_bias: bool | None = None
    direct_input: bool = True
    direct_output: bool = True
    l2: float = 0.0
    activation: str = "tanh"

    def direct_slots(self, layer: int) -> list[str]:
        """Slots that hear the input: all, or above the first without `direct_input` those that hear nothing else."""
        return [name for name, _, hears in SLOTS[self.arch] if layer == 0 or self.direct_input or not hears]

    def below_slots(self, layer: int) -> list[str]:
        """Slots of a layer that hear the layer below."""
        return [name for name, _, hears in SLOTS[self.arch] if layer > 0 and hears]

    def bias_slots(self) -> list[str]:
        """Slots with a bias: those marked; none if refused; if asked for where none is marked, those marked `w`."""
        marked = [name for name, has_bias, _ in SLOTS[self.arch] if has_bias]
        if self.bias is None:
            return marked
        return (marked or [name for name, _, hears in SLOTS[self.arch] if hears]) if self.bias else []

    def speaks(self, layer: int) -> bool:
        """Whether a layer speaks to the output."""
        return self.direct_output or layer == len(self.hidden) - 1

    def has_output_bias(self) -> bool:
        """Whether the output has a bias."""
        return self.arch in OUTPUT_BIAS if self.output_bias is None else self.output_bias


@dataclass(frozen=True)
class Data:
    """A batch: inputs (T, B) or (T, B, n_in), targets (T, B) or (T, B, n_out), the rest as in the public contract."""

    inputs: Array
    targets: Array
    weights: Array | None = None
    lengths: Array | None = None
    initial_state: Sequence[Mapping[str, Array]] | None = None

    def exists(self) -> Array:
        """1 for steps that exist, 0 for padding, (T, B)."""
        T, B = self.inputs.shape[:2]
        lengths = np.full(B, T) if self.lengths is None else np.asarray(self.lengths)
        return (np.arange(T)[:, None] < lengths[None, :]).astype(np.float64)

    def step_weights(self) -> Array:
        """Weights with padding at zero, (T, B)."""
        exists = self.exists()
        return exists if self.weights is None else exists * np.asarray(self.weights)


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters."""
    n_x = config.embedding or config.n_in
    result: dict[str, tuple[int, ...]] = {}
    if config.embedding:
        result["embedding.E"] = (config.n_in, config.embedding)
    for layer, H in enumerate(config.hidden):
        if slots := config.direct_slots(layer):
            result[f"layer{layer}.W_x"] = (n_x, len(slots) * H)
        if slots := config.below_slots(layer):
            result[f"layer{layer}.W_below"] = (config.hidden[layer - 1], len(slots) * H)
        if slots := config.bias_slots():
            result[f"layer{layer}.b"] = (len(slots) * H,)
        for name, columns in RECURRENT[config.arch].items():
            result[f"layer{layer}.{name}"] = (H, columns * H)
        if config.speaks(layer):
            result[f"output.W_y{layer}"] = (H, config.n_out)
    if config.has_output_bias():
        result["output.b_y"] = (config.n_out,)
    return result


def parts(name: str, array: Array, config: Config) -> dict[str, Array]:
    """A parameter block cut into its slots, so that no slot hides behind another: {"layer0.W_x[f]": ..., ...}."""
    if not name.startswith("layer"):
        return {name: array}
    layer, kind = int(name[5 : name.index(".")]), name[name.index(".") + 1 :]
    by_kind = {"W_x": config.direct_slots(layer), "W_below": config.below_slots(layer), "b": config.bias_slots()}
    slots = by_kind.get(kind) or (list("ifog") if RECURRENT[config.arch][kind] == 4 else [""])
    return {f"{name}[{slot}]": part for slot, part in cut(array, slots).items()}


def cut(array: Array, slots: Sequence[str]) -> dict[str, Array]:
    """The columns of each slot."""
    H = array.shape[-1] // len(slots)
    return {slot: array[..., k * H : (k + 1) * H] for k, slot in enumerate(slots)}


def step(config: Config, p: Params, u: Params, past: Params) -> tuple[dict[str, Array], Array]:
    """One time step: the new state and the one hidden pre-activation (zeros where the cell has none)."""
    if config.arch == "rnn":
        a = u["h"] + past["h"] @ p["W_h"]
        return {"h": ACTIVATIONS[config.activation](a)}, a
    if config.arch == "mrnn":
        m = u["m"] * (past["h"] @ p["W_hm"])
        a = u["h"] + m @ p["W_mh"]
        return {"h": jnp.tanh(a)}, a
    if config.arch in ("mlstm", "mlstm-standard"):
        heard = (u["m"] * (past["h"] @ p["W_hm"])) @ p["W_m"]
    else:
        heard = past["h"] @ p["W_h"]
    a = {gate: u[gate] + columns for gate, columns in cut(heard, "ifog").items()}
    if config.arch in ("lstm-krause", "mlstm"):
        c = sigmoid(a["f"]) * past["c"] + sigmoid(a["i"]) * a["g"]
        zeta = c * sigmoid(a["o"])
        return {"h": jnp.tanh(zeta), "c": c}, zeta
    c = sigmoid(a["f"]) * past["c"] + sigmoid(a["i"]) * jnp.tanh(a["g"])
    h = sigmoid(a["o"]) * jnp.tanh(c)
    return {"h": h, "c": c}, jnp.zeros_like(h)


def forward(params: Params, data: Data, config: Config) -> dict[str, Any]:
    """Logits (T, B, n_out); a layer's hidden states `h` and pre-activations `a`, (T, B, H), and final `state`."""
    T, B = data.inputs.shape[:2]
    x, symbols = data.inputs, np.issubdtype(np.asarray(data.inputs).dtype, np.integer)
    if config.embedding:
        x, symbols = params["embedding.E"][x], False
    logits = jnp.zeros((T, B, config.n_out))
    hs: list[Array] = []
    pre: list[Array] = []
    final: list[dict[str, Array]] = []
    for layer, H in enumerate(config.hidden):
        prefix = f"layer{layer}."
        p = {name[len(prefix) :]: value for name, value in params.items() if name.startswith(prefix)}
        u = {name: jnp.zeros((T, B, H)) for name, _, _ in SLOTS[config.arch]}
        affine = []
        if slots := config.direct_slots(layer):
            affine.append(cut(p["W_x"][x] if symbols else x @ p["W_x"], slots))
        if slots := config.below_slots(layer):
            affine.append(cut(hs[-1] @ p["W_below"], slots))
        if slots := config.bias_slots():
            affine.append(cut(p["b"], slots))
        for term in affine:
            for slot, value in term.items():
                u[slot] = u[slot] + value
        zero = {name: jnp.zeros((B, H)) for name in STATE[config.arch]}
        start = zero if data.initial_state is None else {k: jnp.asarray(data.initial_state[layer][k]) for k in zero}

        def advance(past: Params, u_t: Params, p: Params = p) -> tuple[dict[str, Array], tuple[Array, Array]]:
            new, a = step(config, p, u_t, past)
            return new, (new["h"], a)

        last, (h, a) = jax.lax.scan(advance, start, u)
        hs.append(h)
        pre.append(a)
        final.append(last)
        if config.speaks(layer):
            logits = logits + h @ params[f"output.W_y{layer}"]
    if config.has_output_bias():
        logits = logits + params["output.b_y"]
    return {"logits": logits, "h": hs, "a": pre, "state": final}


def logits(params: Params, data: Data, config: Config) -> Array:
    """Logits, (T, B, n_out)."""
    return forward(params, data, config)["logits"]


def mean_loss(z: Array, data: Data, config: Config) -> Array:
    """Weighted mean of the steps' losses at logits z, without l2."""
    if config.loss == "softmax":
        losses = -jnp.take_along_axis(log_softmax(z), jnp.asarray(data.targets)[..., None], -1)[..., 0]
    elif config.loss == "logistic":
        losses = jnp.sum(softplus(z) - data.targets * z, -1)
    else:
        losses = 0.5 * jnp.sum((z - data.targets) ** 2, -1)
    w = data.step_weights()
    return jnp.sum(w * losses) / w.sum()


def objective(params: Params, data: Data, config: Config) -> Array:
    """Mean loss plus l2/2 |theta|^2."""
    square = sum(jnp.sum(value**2) for value in params.values())
    return mean_loss(logits(params, data, config), data, config) + 0.5 * config.l2 * square


def everything(params: Params, v: Params, u: Array, data: Data, config: Config) -> dict[str, Any]:
    """All that the tests compare, along the direction `v` and for the cotangent `u` (T, B, n_out) of the logits.

    `G` holds no damping but l2; `hidden`, `preactivation` and `matching` are structural damping products with mu = 1.
    """

    def observed(params: Params) -> tuple[Array, list[Array], list[Array]]:
        result = forward(params, data, config)
        return result["logits"], result["h"], result["a"]

    def gradient(params: Params) -> Any:
        return jax.value_and_grad(objective)(params, data, config)

    result = forward(params, data, config)
    (_, (Rz, Rh, Ra)) = jax.jvp(observed, (params,), (v,))
    ((loss, grad), (_, Hv)) = jax.jvp(gradient, (params,), (v,))
    (_, HLRz) = jax.jvp(lambda z: jax.grad(mean_loss)(z, data, config), (result["logits"],), (Rz,))
    share = data.exists()[:, :, None] / data.step_weights().sum()
    slope = [h * (1 - h) if config.arch == "rnn" and config.activation == "logistic" else 1 - h**2 for h in result["h"]]
    none = [jnp.zeros_like(h) for h in Rh]
    cotangents = [
        (u, none, none),
        (HLRz, none, none),
        (jnp.zeros_like(Rz), [share * r for r in Rh], none),
        (jnp.zeros_like(Rz), none, [share * r for r in Ra]),
        (jnp.zeros_like(Rz), none, [share * s * r for s, r in zip(slope, Ra, strict=True)]),
    ]
    (_, pull_back) = jax.vjp(observed, params)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *cotangents)
    (pulled,) = jax.vmap(pull_back)(stacked)
    Jtu, Gv, hidden, preactivation, matching = [{k: leaf[i] for k, leaf in pulled.items()} for i in range(5)]
    return {
        "logits": result["logits"],
        "state": result["state"],
        "loss": loss,
        "gradient": grad,
        "Jv": Rz,
        "Jtu": Jtu,
        "G": {k: leaf + config.l2 * v[k] for k, leaf in Gv.items()},
        "hessian": Hv,
        "hidden": hidden,
        "preactivation": preactivation,
        "matching": matching,
    }


def compiled(params: Params, v: Params, u: Array, data: Data, config: Config) -> Callable[..., dict[str, Any]]:
    """`everything` as a function of (params, v, u). The options make it compile three times faster."""

    def function(params: Params, v: Params, u: Array) -> dict[str, Any]:
        return everything(params, v, u, data, config)

    lowered = jax.jit(function).lower(params, v, u)
    try:
        return lowered.compile(compiler_options=QUICK)
    except Exception:  # options come and go with versions of XLA
        return lowered.compile()


def evaluate(params: Params, v: Params, u: Array, data: Data, config: Config) -> dict[str, Any]:
    """`everything`, as NumPy arrays."""
    return jax.tree.map(np.asarray, compiled(params, v, u, data, config)(params, v, u))
