"""The table of the presets in docs/damping.md. See tables.py."""

from __future__ import annotations

from page_text import table

from hfrnn.names import PRESETS
from hfrnn.option import option_name
from hfrnn.runs.presets import DEFAULTS, shown


def presets() -> str:
    """The defaults that each preset has."""
    rows = [[f"`{option_name(name)}`", *map(shown, default)] for name, default in DEFAULTS.items()]
    return table(["option", *(f"`--preset {preset}`" for preset in PRESETS)], rows)
