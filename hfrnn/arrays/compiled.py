"""Whether numba can compile loops here."""

from __future__ import annotations

import importlib.util

from hfrnn.errors import MissingExtraError, how_to_install

MISSING = "numba is not installed"


def why_no_numba() -> str:
    """Return why numba cannot be used; "" if it can."""
    if importlib.util.find_spec("numba") is None:
        return MISSING
    try:
        import numba  # noqa: F401
    except ImportError as error:  # it does not go with this NumPy, for example
        return f"numba cannot be imported ({' '.join(str(error).split())})"
    return ""


def check_numba() -> None:
    """Raise MissingExtraError if numba cannot be used."""
    why = why_no_numba()
    if why == MISSING:
        raise MissingExtraError(f"backend 'numba' needs numba: {how_to_install('fast')}, or use 'numpy'")
    if why:
        raise MissingExtraError(f"{why}: install versions of numba and NumPy that go together, or use 'numpy'")
