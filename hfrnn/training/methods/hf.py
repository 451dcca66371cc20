"""The optimizer `hf`: Hessian-free optimization. What each of its updates does is in `optim/hessian_free.py`.

The options of an update are fields of `HessianFreeOptions` (`optim/hf_options.py`); the other ones stand here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hfrnn.choices import ADAPTED, DAMPINGS, FIXED, METRICS, PRECISIONS, PRESETS, SHIFTED, STARTS
from hfrnn.errors import Message
from hfrnn.optim.hf_options import DAMPED, WEAKER, declarations
from hfrnn.option import ByData, Need, Option, Presets, argument
from hfrnn.runs.defaults import FIRST_WORDS, InSequences
from hfrnn.runs.optimizers import Optimizer
from hfrnn.training.methods.first_order_options import OF_SEQUENCES

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.training.methods.hessian_free import HessianFreeMethod


def _a_full_first_batch(chosen: Any) -> Message | None:
    """Return why the gradient batches do not grow; None if they do."""
    if chosen.first_gradient_symbols:
        return None
    name = "gradient_symbols" if chosen.gradient_symbols == 0 else "first_gradient_symbols"
    return Message(f"{argument(name)} is 0: it is for batches that grow")


STRUCTURAL = Need("damping", ("structural", "structural+tikhonov"))
GROWING_BATCHES = Need("first_gradient_symbols", unless=_a_full_first_batch)
STRENGTH = f"that of the kind of damping, divided by {WEAKER} for large texts with {{preset:tuned}}"
"""Default of `mu` and `lambda_`, in words."""

_option = functools.partial(Option, group="Optimizer")

PRESET = _option(
    "preset", str, "tuned",
    "Defaults of Hessian-free optimization: tuned (many cheap updates) or published (close to the papers).",
    choices=PRESETS,
)  # fmt: skip
DAMPING = (
    _option("damping", str, "structural", "Kind of damping of the curvature.", choices=DAMPINGS),
    _option("mu", float, None, "Initial strength of structural damping.", needs=(STRUCTURAL,), otherwise=STRENGTH),
    _option(
        "lambda_", float, None, "Initial strength of Tikhonov damping; 0 leaves structural damping alone.",
        needs=(DAMPED,), otherwise=STRENGTH,
    ),
    _option("metric", str, "hidden", "Distance that structural damping limits.", needs=(STRUCTURAL,), choices=METRICS),
    _option("rho_low", float, 0.5, "Damping becomes stronger when rho is below this.", needs=(DAMPED,)),
    _option("rho_high", float, 1.0, "Damping becomes weaker when rho is above this.", needs=(DAMPED,)),
    _option("adapt", str, "both", "Strengths of damping that rho changes.", needs=(DAMPED,), choices=ADAPTED),
    _option(
        "least_damping", float, None, "Smallest strength of adaptive damping, as a share of the initial one.",
        needs=(DAMPED,), least=0, most=1,
        otherwise="a tenth of it with {damping:structural+tikhonov}, a hundredth with {damping:tikhonov}",
        presets=Presets(ByData(text=0.1, music=0.1, task=0.0, arrays=0.0, large_text=0.1 * WEAKER), 0.0),
    ),
)  # fmt: skip
BATCHES = (
    _option(
        "gradient_symbols", int, None, "Symbols of a gradient batch", least=1, unit="symbols",
        zero="for the whole training part",
        presets=Presets(ByData(text=12_500, music=12_500, task=InSequences(125), arrays=25_000), 100_000),
    ),
    _option(
        "first_gradient_symbols", int, None, "Symbols of the first gradient batch", least=1, unit="symbols",
        zero="to begin with batches of the final size",
        otherwise=f"at least {FIRST_WORDS:,} for words with {{preset:tuned}}; never more than {{gradient_symbols!s}}",
        presets=Presets(
            ByData(text=5_000, music=5_000, task=InSequences(125), arrays=2_500, large_text=2_500), 10_000
        ),
    ),
    _option(
        "batch_growth", float, None, "Growth factor of the gradient batch per update, up to {gradient_symbols!s}.",
        needs=(GROWING_BATCHES,), least=1,
        presets=Presets(ByData(text=1.015, music=1.015, task=1.015, arrays=1.05), 1.15),
    ),
    _option(
        "grow_below", float, None,
        "Gradient batches grow only when new batches show less than this share of what updates gain on their own "
        "batches",
        needs=(GROWING_BATCHES,), least=0, most=1, zero="to grow after every update",
        presets=Presets(ByData(text=0.0, music=0.0, task=0.0, arrays=0.1), 0.0),
    ),
    _option(
        "sequence_starts", str, None,
        "Where a text is cut into training sequences: at the same symbols in every epoch (fixed), or a random "
        "number of symbols later in each epoch (shifted).",
        choices=STARTS, presets=Presets(SHIFTED, FIXED),
    ),
    _option(
        "curvature_fraction", float, None, "Share of the gradient batch that the curvature is computed on.",
        above=0, most=1,
        presets=Presets(ByData(text=0.4, music=0.4, task=0.4, arrays=1.0, large_text=0.2), 0.2),
    ),
    _option(
        "curvature_symbols", int, None, "Symbols of a curvature batch, instead of a share.", least=1, unit="symbols"
    ),
    _option(
        "precision", str, "float32",
        "Precision of matrix products with the curvature: float32 means that of {dtype!s}; tf32, on a GPU, is faster.",
        choices=PRECISIONS,
    ),
)  # fmt: skip


class HF(Optimizer):
    """Hessian-free optimization, with a record for each update."""

    about = "Hessian-free optimization"
    options = (PRESET, *DAMPING, *BATCHES, *declarations())
    takes = OF_SEQUENCES

    @classmethod
    def make(cls, config: Any, source: Any, net: Network) -> HessianFreeMethod:
        from hfrnn.training.methods.hessian_free import HessianFreeMethod

        return HessianFreeMethod(config, source, net)

    @classmethod
    def manner(cls, config: Any) -> str:
        return str(config.damping)
