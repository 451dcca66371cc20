"""Names, shapes and slots of every architecture's parameters and states, as the oracle reads them in the definition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # np.ndarray or jax.Array, float64 unless said

# name, has a bias by default, hears the layer below; slots in BIAS_ONLY do not hear the input
SLOTS: dict[str, list[tuple[str, bool, bool]]] = {
    "rnn": [("h", True, True)], "mrnn": [("h", True, True), ("m", False, False)],
    "lstm": [(gate, True, True) for gate in "ifog"], "lstm-krause": [(gate, False, True) for gate in "ifog"],
    "mlstm": [*((gate, False, True) for gate in "ifog"), ("m", False, False)],
    "mlstm-standard": [*((gate, True, True) for gate in "ifog"), ("m", False, False)],
    "gru": [(gate, True, True) for gate in "rzg"],
    "hornn": [("h", False, True)], "hornn-max": [("h", False, True)], "hornn-fofe": [("h", False, True)],
    "hornn-gated": [("h", False, True)],  # and r1, r2, ... up to the order
    "scrn": [("h", False, True), ("s", False, True)],
    "clockwork": [("h", True, True)], "leaky": [("h", True, True)], "rate": [("x", True, True)],
    "gru-torch": [(gate, True, True) for gate in "rzn"], "lstm-1997": [(gate, True, True) for gate in "iog"],
    "fnn": [("h", True, True)],  # and h1, h2, ... for the inputs before
    "fofe-fnn": [("b", True, False)],  # after s0, s1, ... for the codes
    "gated-feedback": [("h", True, True), ("g", False, True), ("u", True, False)],
    "hierarchical": [("h", True, True)],
    "state-space": [("h", True, True), ("g", True, True)], "low-rank": [("x", True, True)],
    "coupled-oscillator": [("z", True, True)],
}  # fmt: skip
BIAS_ONLY = {("fofe-fnn", "b"), ("gated-feedback", "u")}
GATED_COLUMNS = {  # recurrent matrices whose columns are several gates'
    **{(arch, "W_h"): "ifog" for arch in ("lstm", "lstm-krause")},
    **{(arch, "W_m"): "ifog" for arch in ("mlstm", "mlstm-standard")},
    ("gru", "W_h"): "rz",
    ("gru-torch", "W_h"): "rzn",
    ("lstm-1997", "W_h"): "iog",
}
OUTPUT_BIAS = {"lstm", "lstm-1997", "mlstm-standard", "gru", "gru-torch", "state-space"}  # on by default
ONE_PREACTIVATION = {"rnn", "mrnn", "lstm-krause", "mlstm", "hornn", "hornn-max", "hornn-fofe", "hornn-gated", "rate"}
ONE_PREACTIVATION |= {"fnn", "fofe-fnn", "gated-feedback", "low-rank"}
NEVER_READ = ", never read"


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
    order: int = 3
    alpha: float | None = None
    learn_alpha: bool = False
    context: int = 40
    leak: float = 0.2
    learn_leak: bool = False
    candidate_bias: bool = True
    periods: tuple[int, ...] | None = None
    sublayers: int | None = None
    codes: int = 1
    units: int = 16
    rank: int = 2
    dt: float = 0.042
    gamma: float = 2.7
    epsilon: float = 4.7
    label_smoothing: float = 0.0
    classes: int | tuple[int, ...] | None = None
    learn_initial_state: bool = False
    feedthrough: bool = False

    def kind(self, layer: int) -> str:
        """The architecture of a layer: above the first, a feed-forward network has plain layers, `fnn` of order 1."""
        return "fnn" if layer > 0 and self.arch == "fofe-fnn" else self.arch

    def steps(self, layer: int) -> int:
        """The order of a layer: how many states, inputs or codes it reads."""
        if self.arch in ("fnn", "fofe-fnn"):
            return 1 if layer > 0 else self.order if self.arch == "fnn" else self.codes
        return self.order

    def inside(self, layer: int) -> int:
        """How many layers a layer of gated-feedback has inside."""
        return self.sublayers or max(n for n in (1, 2, 3) if self.hidden[layer] % n == 0)

    def slots(self, layer: int) -> list[tuple[str, bool, bool]]:
        """All slots of a layer: name, has a bias by default, hears the layer below."""
        kind, n = self.kind(layer), self.steps(layer)
        before = [(f"s{k}", False, k == 0) for k in range(n)] if kind == "fofe-fnn" else []
        after = {
            "hornn-gated": [(f"r{k}", False, True) for k in range(1, n + 1)],
            "fnn": [(f"h{k}", False, False) for k in range(1, n)],
        }
        return before + SLOTS[kind] + after.get(kind, [])

    def widths(self, layer: int, names: Sequence[str]) -> dict[str, int]:
        H, n = self.hidden[layer], self.inside(layer) if self.arch == "gated-feedback" else 1
        special = {
            "scrn": {"s": self.context},
            "state-space": {"g": self.units},
            "gated-feedback": {"h": H // n, "g": n, "u": H - H // n},
        }
        return {name: special.get(self.arch, {}).get(name, H) for name in names}

    def up(self, layer: int) -> int:
        """The width of what a layer hands to the output and to the layer above."""
        return self.hidden[layer] + (self.context if self.arch == "scrn" else 0)

    def direct_slots(self, layer: int) -> list[str]:
        """Slots that hear the input: all, or above the first without `direct_input` those that hear nothing else."""
        slots = [each for each in self.slots(layer) if (self.kind(layer), each[0]) not in BIAS_ONLY]
        return [name for name, _, hears in slots if layer == 0 or self.direct_input or not hears]

    def below_slots(self, layer: int) -> list[str]:
        return [name for name, _, hears in self.slots(layer) if layer > 0 and hears]

    def bias_slots(self, layer: int) -> list[str]:
        """Slots with a bias: those marked; none if refused; if asked for where none is marked, those marked `w`."""
        marked = [name for name, has_bias, _ in self.slots(layer) if has_bias]
        if self.bias is None:
            return marked
        return (marked or [name for name, _, hears in self.slots(layer) if hears]) if self.bias else []

    def recurrent(self, layer: int) -> dict[str, tuple[int, ...]]:
        H, C, N = self.hidden[layer], self.context, self.steps(layer)
        if self.arch in ("fnn", "fofe-fnn"):
            return {}
        if self.arch == "gated-feedback":
            L = self.inside(layer)
            return {"W_h": (H, H), "W_hg": (H, L * L), "W_up": (L - 1, H // L, H // L + L)}
        if self.arch.startswith("hornn"):
            return {"W_h": (N, H, H)} | ({"W_r": (N, H, H)} if self.arch == "hornn-gated" else {})
        if self.arch == "scrn":
            return {"W_h": (H, H), "W_s": (C, H)} | ({"q": (C,)} if self.learn_alpha else {})
        if self.arch == "mrnn":
            return {"W_hm": (H, H), "W_mh": (H, H)}
        if self.arch in ("mlstm", "mlstm-standard"):
            return {"W_hm": (H, H), "W_m": (H, 4 * H)}
        if self.arch == "lstm-1997":
            return {"W_h": (H, 3 * H)}
        if self.arch == "state-space":
            return {"A": (H, H), "W_1": (H, self.units), "W_3": (self.units, H)}
        if self.arch == "low-rank":
            return {"N": (H, self.rank), "M": (self.rank, H)} | ({"q": (H,)} if self.learn_leak else {})
        if self.arch == "coupled-oscillator":
            return {"W_h": (H, H), "W_z": (H, H)}
        if self.arch == "gru-torch":
            return {"W_h": (H, 3 * H)} | ({"b_hn": (H,)} if self.candidate_bias else {})
        if self.arch == "gru":
            return {"W_h": (H, 2 * H), "W_hg": (H, H)}
        return {"W_h": (H, 4 * H if "lstm" in self.arch else H)} | ({"q": (H,)} if self.learn_leak else {})

    def state(self, layer: int, B: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the state of a layer; of clockwork's time none."""
        H = self.hidden[layer]
        if self.arch.startswith("hornn"):
            return {"history": (self.steps(layer), B, H)}
        if self.arch in ("fnn", "fofe-fnn"):
            n = self.steps(layer)
            codes = {"s": (B, H)} if self.kind(layer) == "fofe-fnn" else {}
            return codes | ({"partial": (n - 1, B, H)} if n > 1 else {})
        if self.arch in ("rate", "low-rank"):
            return {"x": (B, H)}
        if self.arch == "coupled-oscillator":
            return {"y": (B, H), "z": (B, H)}
        more = {"scrn": {"s": (B, self.context)}, "clockwork": {"t": ()}, "hierarchical": {"t": ()}}
        return {"h": (B, H)} | ({"c": (B, H)} if "lstm" in self.arch else more.get(self.arch, {}))

    def initial_states(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the learned initial states of a layer: a row for each array of its state."""
        rows = {f"{name}0": shape[-1:] for name, shape in self.state(layer, 1).items() if shape}
        return rows if self.learn_initial_state else {}

    def unit_periods(self, layer: int) -> np.ndarray:
        """The period of every unit of clockwork; by default as many modules, up to 8, as divide the units equally."""
        H = self.hidden[layer]
        modules = max(n for n in range(1, 9) if H % n == 0)
        periods = self.periods or tuple(2**k for k in range(modules))
        return np.repeat(periods, H // len(periods))

    def outputs(self) -> int:
        """The outputs of a step: two for each target of the gaussian loss."""
        return (1 + (self.loss == "gaussian")) * self.n_out

    def symbol_classes(self) -> np.ndarray:
        """The class of each symbol, (n_out,); a number of classes must divide the symbols."""
        if isinstance(self.classes, int):
            return np.repeat(np.arange(self.classes), self.n_out // self.classes)
        return np.array(self.classes)

    def n_classes(self) -> int:
        """How many classes there are; 0 where the loss has none."""
        return 0 if self.loss != "class-softmax" else int(self.symbol_classes().max()) + 1

    def speaks(self, layer: int) -> bool:
        return self.direct_output or layer == len(self.hidden) - 1

    def has_output_bias(self) -> bool:
        return self.arch in OUTPUT_BIAS if self.output_bias is None else self.output_bias


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    n_x, C = config.embedding or config.n_in, config.n_classes()
    result: dict[str, tuple[int, ...]] = {}
    if config.embedding:
        result["embedding.E"] = (config.n_in, config.embedding)
    for layer in range(len(config.hidden)):
        if slots := config.direct_slots(layer):
            result[f"layer{layer}.W_x"] = (n_x, sum(config.widths(layer, slots).values()))
        if slots := config.below_slots(layer):
            result[f"layer{layer}.W_below"] = (config.up(layer - 1), sum(config.widths(layer, slots).values()))
        if slots := config.bias_slots(layer):
            result[f"layer{layer}.b"] = (sum(config.widths(layer, slots).values()),)
        own = config.recurrent(layer) | config.initial_states(layer)
        result |= {f"layer{layer}.{name}": shape for name, shape in own.items()}
        if config.speaks(layer):
            result[f"output.W_y{layer}"] = (config.up(layer), config.outputs())
            result |= {f"output.W_class{layer}": (config.up(layer), C)} if C else {}
    if config.feedthrough:
        result["output.W_y_u"] = (n_x, config.outputs())
        result |= {"output.W_class_u": (n_x, C)} if C else {}
    if config.has_output_bias():
        result["output.b_y"] = (config.outputs(),)
        result |= {"output.b_class": (C,)} if C else {}
    return result


def parts(name: str, array: Array, config: Config) -> dict[str, Array]:
    """A parameter block cut so that no slot, order or module hides behind another: {"layer0.W_x[f]": ..., ...}.

    Parts without any entry are left out; those with NEVER_READ in their name are 0 in every derivative.
    """
    if not name.startswith("layer"):
        return {name: array}
    layer, kind = int(name[5 : name.index(".")]), name[name.index(".") + 1 :]
    by_kind = {"W_x": config.direct_slots(layer), "W_below": config.below_slots(layer), "b": config.bias_slots(layer)}
    if kind in config.initial_states(layer):
        cuts = {"": array}
    elif kind in by_kind:
        cuts = cut(array, config.widths(layer, by_kind[kind]))
    elif gates := GATED_COLUMNS.get((config.arch, kind)):
        cuts = cut(array, dict.fromkeys(gates, config.hidden[layer]))
    elif config.arch.startswith("hornn"):
        cuts = {str(n + 1): array[n] for n in range(config.steps(layer))}
    elif config.arch == "gated-feedback":
        L = config.inside(layer)
        M = config.hidden[layer] // L
        units = {f"{j}": slice(j * M, j * M + M) for j in range(L)}
        if kind == "W_h":
            cuts = {f"{i} to {j}": array[units[i], units[j]] for i in units for j in units}
        elif kind == "W_hg":
            cuts = {f"{i} to {j}": array[:, j * L + i] for i in range(L) for j in range(L)}
        else:
            cuts = {f"{j}{part}": array[j][:, M * (part == "g") :][:, :M] for j in range(L - 1) for part in ("h", "g")}
    elif config.arch in ("clockwork", "hierarchical"):
        period = config.unit_periods(layer)
        cuts = {
            f"{i} to {j}" + (NEVER_READ if i < j and config.arch == "clockwork" else ""): array[
                np.ix_(period == i, period == j)
            ]
            for i in np.unique(period)
            for j in np.unique(period)
        }
    else:
        cuts = {"": array}
    return {f"{name}[{label}]": part for label, part in cuts.items() if part.size}


def cut(array: Array, widths: Mapping[str, int]) -> dict[str, Array]:
    """The columns of each slot."""
    ends = np.cumsum(list(widths.values()))
    return {slot: array[..., end - width : end] for (slot, width), end in zip(widths.items(), ends, strict=True)}
