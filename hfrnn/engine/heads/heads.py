"""The registry of heads: the class of every loss, and the faster variants of a backend."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hfrnn.checks import choice
from hfrnn.errors import InputError

if TYPE_CHECKING:
    from hfrnn.engine.heads.output_map import Head

CLASS_SOFTMAX = "class-softmax"
_HEADS = {
    "softmax": "hfrnn.engine.heads.losses:Softmax",
    CLASS_SOFTMAX: "hfrnn.engine.heads.class_softmax:ClassSoftmax",
    "logistic": "hfrnn.engine.heads.losses:Logistic",
    "squared": "hfrnn.engine.heads.losses:Squared",
}
"""The reference of each loss: "module:class", which is imported when first used."""
_VARIANTS = {"numba": {CLASS_SOFTMAX: "hfrnn.engine.heads.compiled_class_softmax:CompiledClassSoftmax"}}
"""The faster variants, by backend and loss. A loss without one runs its reference."""


def losses() -> tuple[str, ...]:
    """Return the names of all losses."""
    return tuple(_HEADS)


def make_head(
    loss: str, n_out: int, widths: Mapping[int, int], bias: bool, classes: int | Sequence[int] | None = None,
    backend: str = "numpy",
) -> Head:  # fmt: skip
    """Return the head of a loss, in the variant of a backend."""
    loss = choice("loss", loss, losses())
    module, _, name = _VARIANTS.get(backend, {}).get(loss, _HEADS[loss]).partition(":")
    head: type[Head] = getattr(importlib.import_module(module), name)
    if loss == CLASS_SOFTMAX:
        return head(n_out, widths, bias, classes)  # type: ignore[call-arg]
    if classes is not None:
        advice = f"leave them out, or use the loss {CLASS_SOFTMAX!r}"
        raise InputError(f"classes were given with the loss {loss!r}: {advice}")
    return head(n_out, widths, bias)
