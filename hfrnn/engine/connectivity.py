"""Connectivity of the hidden units, drawn at random, and Dale's law."""

from __future__ import annotations

import numpy as np

from hfrnn.arrays.backend import HostArray
from hfrnn.engine.constraints import ABSENT, Constraints
from hfrnn.engine.layout import Layout
from hfrnn.errors import InputError, Message

OF_HIDDEN = ("W_h", "W_hg", "W_hm", "W_r", "W_z")
"""Recurrent parameters whose rows belong to the hidden units: row i holds the weights that leave unit i."""
NEVER_NEGATIVE = ("logistic", "relu", "softplus")
"""Activations whose value is 0 or more."""


def drawn_constraints(
    net: Layout, density: float = 1.0, excitatory: float | None = None, excitatory_output: bool = False, seed: int = 0
) -> tuple[dict[str, HostArray], dict[str, HostArray]]:
    """Return masks and signs for `Constraints`: random connectivity, and Dale's law.

    `density` is the share of the connections between the hidden units of a layer that exist. Self-connections are drawn
    like all others. The matrices of a layer, their gates and orders have one connectivity. `excitatory` is the share of
    excitatory units, the first ones of each layer. Their weights to the units of their layer and of the layer above are
    0 or more, and those of all other units 0 or less. With `excitatory_output`, the weights to the output are 0 or more
    for excitatory units, and absent for the others (Song and others 2016).
    """
    if excitatory is not None:
        _check_activation(net)
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    shapes = {block.name: block.shape for block in net.parameters.blocks}
    masks: dict[str, HostArray] = {}
    signs: dict[str, HostArray] = {}
    for l, H in enumerate(net.hidden):
        exists = np.zeros(H * H, "int8")
        exists[rng.permutation(H * H)[: round(density * H * H)]] = 1
        names = [name for each in OF_HIDDEN if (name := f"layer{l}.{each}") in shapes]
        if not names:
            raise InputError(
                f"architecture {net.arch!r} has no matrix of weights from hidden units named {', '.join(OF_HIDDEN)}: "
                "give masks by name"
            )
        others = [f"layer{l}.{each}" for each in net.layers[l].kernel.not_units]
        if odd := next((name for name in names if name in others or shapes[name][-1] % H), None):
            raise InputError(
                f"{odd} of architecture {net.arch!r} has shape {shapes[odd]}, and its columns are not those of {H} "
                "hidden units, so no connectivity is drawn for it: give masks by name"
            )
        if density < 1:
            masks |= dict.fromkeys(names, exists.reshape(H, H))
        if excitatory is None:
            continue
        unit = np.where(np.arange(H) < round(excitatory * H), 1, -1).astype("int8")
        signs |= dict.fromkeys([*names, *({f"layer{l + 1}.W_below"} & shapes.keys())], unit)
        if excitatory_output:
            outputs = [name for name in (f"output.W_y{l}", f"output.W_class{l}") if name in shapes]
            masks |= dict.fromkeys(outputs, unit > 0)
            signs |= dict.fromkeys(outputs, unit)
    return masks, signs


def constraint_words(constraints: Constraints) -> str:
    """Return what constraints hold, for a person: `51 excitatory, 13 inhibitory, density 0.30`, layer by layer.

    A unit is excitatory if all its weights to hidden units of its layer are positive. If no weights between hidden
    units are constrained, the absent weights and the signs of all parameters are counted.
    """
    views, found = constraints.net.parameters.views(constraints.codes), []
    for l, H in enumerate(constraints.net.hidden):
        blocks = [views[name] for each in OF_HIDDEN if (name := f"layer{l}.{each}") in views]
        codes = np.concatenate([np.moveaxis(block, -2, 0).reshape(H, -1) for block in blocks], axis=1)  # (H, ...)
        exists = codes != ABSENT
        signed = [int((((codes == sign) | ~exists).all(axis=1) & exists.any(axis=1)).sum()) for sign in (1, -1)]
        words = [f"{n:,} {kind}" for n, kind in zip(signed, ("excitatory", "inhibitory"), strict=True) if n]
        words += [] if exists.all() else [f"density {exists.mean():.2f}"]
        if words:
            found.append((f"layer {l}: " if len(constraints.net.hidden) > 1 else "") + ", ".join(words))
    if found:
        return "; ".join(found)
    absent, signs = int((constraints.codes == ABSENT).sum()), int(np.isin(constraints.codes, (1, -1)).sum())
    return f"{absent:,} weights absent, {signs:,} with a sign"


def _check_activation(net: Layout) -> None:
    """Raise InputError if a hidden unit of the network can be negative: the sign of its effect is not its weights'."""
    activation = getattr(net.layers[0].kernel, "activation", None)
    if activation not in NEVER_NEGATIVE:
        has = "no choice of activation" if activation is None else f"the activation {activation}"
        raise InputError(Message(
            "a share of excitatory units was given, and architecture {0!r} has {1}: Dale's law needs hidden units that "
            "are never negative: use rnn, leaky or rate with {activation:logistic or relu}, or leaky or rate with "
            "{activation:softplus}", net.arch, has,
        ))  # fmt: skip
