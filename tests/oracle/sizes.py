"""Names, shapes and slots of every architecture's parameters and states, as the oracle reads them in the definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # np.ndarray or jax.Array, float64 unless said

# name, has a bias by default, hears the layer below
SLOTS: dict[str, list[tuple[str, bool, bool]]] = {
    "rnn": [("h", True, True)],
    "mrnn": [("h", True, True), ("m", False, False)],
    "lstm": [(gate, True, True) for gate in "ifog"],
    "lstm-krause": [(gate, False, True) for gate in "ifog"],
    "mlstm": [*((gate, False, True) for gate in "ifog"), ("m", False, False)],
    "mlstm-standard": [*((gate, True, True) for gate in "ifog"), ("m", False, False)],
    "gru": [(gate, True, True) for gate in "rzg"],
    "hornn": [("h", False, True)],
    "hornn-max": [("h", False, True)],
    "hornn-fofe": [("h", False, True)],
    "hornn-gated": [("h", False, True)],  # and r1, r2, ... up to the order
    "scrn": [("h", False, True), ("s", False, True)],
    "clockwork": [("h", True, True)],
    "leaky": [("h", True, True)],
    "rate": [("x", True, True)],
    "gru-torch": [(gate, True, True) for gate in "rzn"],
    "lstm-1997": [(gate, True, True) for gate in "iog"],
}
GATED_COLUMNS = {  # recurrent matrices whose columns are several gates'
    **{(arch, "W_h"): "ifog" for arch in ("lstm", "lstm-krause")},
    **{(arch, "W_m"): "ifog" for arch in ("mlstm", "mlstm-standard")},
    ("gru", "W_h"): "rz",
    ("gru-torch", "W_h"): "rzn",
    ("lstm-1997", "W_h"): "iog",
}
OUTPUT_BIAS = {"lstm", "lstm-1997", "mlstm-standard", "gru", "gru-torch"}  # on by default
ONE_PREACTIVATION = {"rnn", "mrnn", "lstm-krause", "mlstm", "hornn", "hornn-max", "hornn-fofe", "hornn-gated", "rate"}
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
    classes: int | tuple[int, ...] | None = None
    learn_initial_state: bool = False

    def slots(self) -> list[tuple[str, bool, bool]]:
        """All slots of a layer: name, has a bias by default, hears the layer below."""
        gates = range(1, self.order + 1) if self.arch == "hornn-gated" else []
        return SLOTS[self.arch] + [(f"r{n}", False, True) for n in gates]

    def widths(self, layer: int, names: Sequence[str]) -> dict[str, int]:
        """The width of each of these slots."""
        return {name: self.context if (self.arch, name) == ("scrn", "s") else self.hidden[layer] for name in names}

    def up(self, layer: int) -> int:
        """The width of what a layer hands to the output and to the layer above."""
        return self.hidden[layer] + (self.context if self.arch == "scrn" else 0)

    def direct_slots(self, layer: int) -> list[str]:
        """Slots that hear the input: all, or above the first without `direct_input` those that hear nothing else."""
        return [name for name, _, hears in self.slots() if layer == 0 or self.direct_input or not hears]

    def below_slots(self, layer: int) -> list[str]:
        """Slots of a layer that hear the layer below."""
        return [name for name, _, hears in self.slots() if layer > 0 and hears]

    def bias_slots(self) -> list[str]:
        """Slots with a bias: those marked; none if refused; if asked for where none is marked, those marked `w`."""
        marked = [name for name, has_bias, _ in self.slots() if has_bias]
        if self.bias is None:
            return marked
        return (marked or [name for name, _, hears in self.slots() if hears]) if self.bias else []

    def recurrent(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the recurrent parameters of a layer."""
        H, C, N = self.hidden[layer], self.context, self.order
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
        if self.arch == "gru-torch":
            return {"W_h": (H, 3 * H)} | ({"b_hn": (H,)} if self.candidate_bias else {})
        if self.arch == "gru":
            return {"W_h": (H, 2 * H), "W_hg": (H, H)}
        return {"W_h": (H, 4 * H if "lstm" in self.arch else H)} | ({"q": (H,)} if self.learn_leak else {})

    def state(self, layer: int, B: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the state of a layer; of clockwork's time none."""
        H = self.hidden[layer]
        if self.arch.startswith("hornn"):
            return {"history": (self.order, B, H)}
        if self.arch == "rate":
            return {"x": (B, H)}
        more = {"scrn": {"s": (B, self.context)}, "clockwork": {"t": ()}}
        return {"h": (B, H)} | ({"c": (B, H)} if "lstm" in self.arch else more.get(self.arch, {}))

    def initial_states(self, layer: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the learned initial states of a layer: a row for each array of its state."""
        rows = {f"{name}0": shape[-1:] for name, shape in self.state(layer, 1).items() if shape}
        return rows if self.learn_initial_state else {}

    def unit_periods(self, layer: int) -> np.ndarray:
        """Clockwork: the period of every unit; by default as many modules, up to 8, as divide the units equally."""
        H = self.hidden[layer]
        modules = max(n for n in range(1, 9) if H % n == 0)
        periods = self.periods or tuple(2**k for k in range(modules))
        return np.repeat(periods, H // len(periods))

    def symbol_classes(self) -> np.ndarray:
        """The class of each symbol, (n_out,); a number of classes must divide the symbols."""
        if isinstance(self.classes, int):
            return np.repeat(np.arange(self.classes), self.n_out // self.classes)
        return np.array(self.classes)

    def n_classes(self) -> int:
        """How many classes there are; 0 where the loss has none."""
        return 0 if self.loss != "class-softmax" else int(self.symbol_classes().max()) + 1

    def speaks(self, layer: int) -> bool:
        """Whether a layer speaks to the output."""
        return self.direct_output or layer == len(self.hidden) - 1

    def has_output_bias(self) -> bool:
        """Whether the output has a bias."""
        return self.arch in OUTPUT_BIAS if self.output_bias is None else self.output_bias


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Names and shapes of all parameters."""
    n_x, C = config.embedding or config.n_in, config.n_classes()
    result: dict[str, tuple[int, ...]] = {}
    if config.embedding:
        result["embedding.E"] = (config.n_in, config.embedding)
    for layer in range(len(config.hidden)):
        if slots := config.direct_slots(layer):
            result[f"layer{layer}.W_x"] = (n_x, sum(config.widths(layer, slots).values()))
        if slots := config.below_slots(layer):
            result[f"layer{layer}.W_below"] = (config.up(layer - 1), sum(config.widths(layer, slots).values()))
        if slots := config.bias_slots():
            result[f"layer{layer}.b"] = (sum(config.widths(layer, slots).values()),)
        own = config.recurrent(layer) | config.initial_states(layer)
        result |= {f"layer{layer}.{name}": shape for name, shape in own.items()}
        if config.speaks(layer):
            result[f"output.W_y{layer}"] = (config.up(layer), config.n_out)
            result |= {f"output.W_class{layer}": (config.up(layer), C)} if C else {}
    if config.has_output_bias():
        result["output.b_y"] = (config.n_out,)
        result |= {"output.b_class": (C,)} if C else {}
    return result


def parts(name: str, array: Array, config: Config) -> dict[str, Array]:
    """A parameter block cut so that no slot, order or module hides behind another: {"layer0.W_x[f]": ..., ...}.

    Parts without any entry are left out; those with NEVER_READ in their name are 0 in every derivative.
    """
    if not name.startswith("layer"):
        return {name: array}
    layer, kind = int(name[5 : name.index(".")]), name[name.index(".") + 1 :]
    by_kind = {"W_x": config.direct_slots(layer), "W_below": config.below_slots(layer), "b": config.bias_slots()}
    if kind in config.initial_states(layer):
        cuts = {"": array}
    elif kind in by_kind:
        cuts = cut(array, config.widths(layer, by_kind[kind]))
    elif gates := GATED_COLUMNS.get((config.arch, kind)):
        cuts = cut(array, dict.fromkeys(gates, config.hidden[layer]))
    elif config.arch.startswith("hornn"):
        cuts = {str(n + 1): array[n] for n in range(config.order)}
    elif config.arch == "clockwork":
        period = config.unit_periods(layer)
        cuts = {
            f"{i} to {j}" + (NEVER_READ if i < j else ""): array[np.ix_(period == i, period == j)]
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
