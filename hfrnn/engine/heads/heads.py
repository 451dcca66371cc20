"""The heads of all losses, and the faster variants of a backend."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hfrnn.checks import choice
from hfrnn.errors import InputError
from hfrnn.losses import CLASS_SOFTMAX as CLASS_SOFTMAX
from hfrnn.losses import LOSSES, Loss

if TYPE_CHECKING:
    from hfrnn.engine.heads.output_map import Head

_VARIANTS = {"numba": {CLASS_SOFTMAX: "hfrnn.engine.heads.compiled_class_softmax:CompiledClassSoftmax"}}
"""The faster variants, by backend and loss. A loss without one runs its reference."""


def losses() -> tuple[str, ...]:
    """Return the names of all losses."""
    return LOSSES.names()


def take_options(loss: str, options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of a loss from some keywords, and return them, checked; None means the default."""
    found = {}
    for declared in LOSSES[choice("loss", loss, losses())].options:
        value = options.pop(declared.name, None)
        if value is not None:
            found[declared.name] = declared.convert(value, declared.name)
            declared.check(found[declared.name], declared.name)
    return found


def make_head(
    loss: str, n_out: int, widths: Mapping[int, int], bias: bool, classes: int | Sequence[int] | None = None,
    backend: str = "numpy", options: Mapping[str, Any] | None = None,
) -> Head:  # fmt: skip
    """Return the head of a loss, in the variant of a backend. `options` are those that the loss declares."""
    loss = choice("loss", loss, losses())
    found: Any = LOSSES[loss]
    if loss in _VARIANTS.get(backend, {}):
        module, _, name = _VARIANTS[backend][loss].partition(":")
        found = getattr(importlib.import_module(module), name)
    if loss == CLASS_SOFTMAX:
        return found(n_out, widths, bias, classes)  # type: ignore[no-any-return]
    if classes is not None:
        advice = f"leave them out, or use the loss {CLASS_SOFTMAX!r}"
        raise InputError(f"classes were given with the loss {loss!r}: {advice}")
    if issubclass(found, Loss):
        from hfrnn.engine.heads.own_loss import LossHead

        return LossHead(n_out, widths, bias, found(**(options or {})), loss)
    return found(n_out, widths, bias, **(options or {}))  # type: ignore[no-any-return]
