"""The records that training writes to metrics.jsonl."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hfrnn.runs.metrics import Record
from hfrnn.training.sources import LN2

if TYPE_CHECKING:
    from hfrnn.training.run_state import RunState

NOT_APPLICABLE = ("cg_iterations", "cg_stop", "mu", "lambda", "rho", "step_size")
"""Names in every record; the value is None where the method has no such figure."""


def make_record(
    state: RunState, found: Record, valid: float | None, errors: float | None, seconds: float, sample: str | None
) -> Record:
    """Return the record of an update. Its times are filled in later; infinities and NaN become None.

    Parameters
    ----------
    state : RunState
        The state after the update.
    found : dict
        Figures of the method.
    valid : float or None
        Validation loss in nats.
    errors : float or None
        Share of wrong answers, from 0 to 1.
    seconds : float
        Duration of the validation.
    sample : str or None
        A text that the network has written.

    Returns
    -------
    dict
    """
    loss, in_bits = found["train_loss"], state.source.in_bits
    record = {
        "update": state.update,
        "seconds": 0.0,
        "seconds_processor": 0.0,
        "train_loss": loss,
        "train_bits": loss / LN2 if in_bits else None,
        "valid_loss": valid,
        "valid_bits": None if valid is None or not in_bits else valid / LN2,
        "valid_perplexity": None if valid is None or not in_bits else math.exp(min(valid, 700.0)),
        "valid_errors": errors,
        **dict.fromkeys(NOT_APPLICABLE),
        "symbols": state.symbols,
        **found,
        "seconds_validation": round(seconds, 4),
        "sample": sample,
    }
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
