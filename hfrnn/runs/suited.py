"""Choose the defaults that suit the data of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfrnn.names import DYNAMICS
from hfrnn.runs.data_defaults import ARRAYS, TASK_NETWORK, TASK_WEIGHTS, WORDS
from hfrnn.runs.needs import HF
from hfrnn.runs.presets import KINDS_OF_ARRAYS, kind_of_data


def suited(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that suit the data, by name, where the general defaults do not.

    Parameters
    ----------
    given : mapping
        The options that were given, by name. A network that is chosen by `arch` keeps the general defaults, except for
        arrays and for the first weights of an `rnn` for a task. An option of Hessian-free optimization keeps that
        optimizer.

    Returns
    -------
    dict
        Values of options; some may be in `given` too.
    """
    from hfrnn.data.corpora import CORPORA
    from hfrnn.data.synthetic import tasks
    from hfrnn.runs.options import run_options

    data, text = given.get("data"), given.get("text")
    found: dict[str, Any] = {}
    if isinstance(data, str) and data in tasks():
        found = {} if "arch" in given else dict(TASK_NETWORK)
        of_weights = any(given.get(name) is not None for name in ("initializer", "init_scale", "init_from"))
        usual = _is(given.get("arch", TASK_NETWORK["arch"]), str(TASK_NETWORK["arch"]))
        if data not in DYNAMICS and usual and not of_weights:
            found |= TASK_WEIGHTS
    elif isinstance(data, str) and kind_of_data(data) in KINDS_OF_ARRAYS:
        found = dict(ARRAYS)
    elif _is(given.get("level"), "word") and "arch" not in given and text is None:
        found = dict(WORDS) if data is None or (isinstance(data, str) and data in CORPORA) else {}
        if any(HF in declared.needs for name, declared in run_options().items() if name in given):
            found.pop("optimizer", None)
    return found


def _is(value: object, name: str) -> bool:
    """Return whether an option, which is not checked yet, has this name as its value."""
    return isinstance(value, str) and value == name
