"""Defaults that suit the data: `hfrnn train --data addition` and `--data ptb --level word` learn as they are typed.

They come before the general defaults, and an option that is given comes before them. The measurements behind them are
in docs/hf-and-first-order.md (long lags) and docs/data.md (words).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfrnn.names import DYNAMICS

TASK_NETWORK = {"arch": "rnn", "hidden": (100,)}
"""Network of all synthetic tasks."""
TASK_WEIGHTS = {"initializer": "sutskever", "spectral_radius": 1.0, "input_scale": 0.1}
"""First weights of an `rnn` for tasks with long time lags. With the general ones, they are not learned."""
WORDS = {"arch": "lstm", "hidden": (128,), "embedding": 64, "classes": 100, "optimizer": "adam"}
"""Network and optimizer of a known corpus in words."""


def suited(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that suit the data, by name, where the general defaults do not.

    Parameters
    ----------
    given : mapping
        The options that were given, by name. A network that is chosen by `arch` keeps the general defaults, except for
        the first weights of an `rnn` for a task. An option of Hessian-free optimization keeps that optimizer.

    Returns
    -------
    dict
        Values of options; some may be in `given` too.
    """
    from hfrnn.data.corpora import CORPORA
    from hfrnn.data.synthetic import tasks
    from hfrnn.runs.needs import HF
    from hfrnn.runs.options import run_options

    data, text = given.get("data"), given.get("text")
    found: dict[str, Any] = {}
    if isinstance(data, str) and data in tasks():
        found = {} if "arch" in given else dict(TASK_NETWORK)
        of_weights = "initializer" in given or "init_scale" in given
        if data not in DYNAMICS and given.get("arch", TASK_NETWORK["arch"]) == TASK_NETWORK["arch"] and not of_weights:
            found |= TASK_WEIGHTS
    elif given.get("level") == "word" and "arch" not in given and text is None:
        found = dict(WORDS) if data is None or (isinstance(data, str) and data in CORPORA) else {}
        if any(HF in declared.needs for name, declared in run_options().items() if name in given):
            found.pop("optimizer", None)
    return found


def suited_text(name: str) -> str:
    """Return where the default of an option depends on the data, in words: `rnn for tasks`; "" if nowhere."""
    places = ((TASK_NETWORK, "tasks"), (TASK_WEIGHTS, "an rnn on long lags"), (WORDS, "corpora in words"))
    return ", ".join(f"{_shown(values[name])} for {place}" for values, place in places if name in values)


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
