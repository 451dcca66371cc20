"""The architectures by name; a user may add his own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hfrnn.errors import InputError
from hfrnn.kernels.base import Kernel

_kernels: dict[str, str | type[Kernel]] = {
    "rnn": "hfrnn.kernels.rnn:RNN",
    "mrnn": "hfrnn.kernels.mrnn:MRNN",
    "lstm": "hfrnn.kernels.lstm:LSTM",
    "lstm-krause": "hfrnn.kernels.lstm:KrauseLSTM",
    "mlstm": "hfrnn.kernels.mlstm:MLSTM",
    "mlstm-standard": "hfrnn.kernels.mlstm:StandardMLSTM",
    "hornn": "hfrnn.kernels.hornn:HORNN",
    "hornn-max": "hfrnn.kernels.hornn_max:MaxHORNN",
    "hornn-fofe": "hfrnn.kernels.hornn_fofe:FOFE",
    "hornn-gated": "hfrnn.kernels.hornn_gated:GatedHORNN",
    "scrn": "hfrnn.kernels.scrn:SCRN",
    "gru": "hfrnn.kernels.gru:GRU",
    "clockwork": "hfrnn.kernels.clockwork:Clockwork",
}
"""The reference kernels: "module:class", imported when first used, or a user's class."""

_variants: dict[str, dict[str, str]] = {
    "numba": {
        "lstm": "hfrnn.kernels.numba.lstm:LSTM",
        "lstm-krause": "hfrnn.kernels.numba.lstm:KrauseLSTM",
        "mlstm": "hfrnn.kernels.numba.mlstm:MLSTM",
        "mlstm-standard": "hfrnn.kernels.numba.mlstm:StandardMLSTM",
    },
}
"""The faster variants of a backend, by architecture; an architecture without one runs its reference."""

NEUTRAL = {"activation": "tanh", "order": 3, "alpha": 0.6, "learn_alpha": False, "context": 40, "periods": None}
"""Values of architectures' options that every architecture accepts, so that one call can be made for all of them.

None is accepted too, and stands for the architecture's own default.
"""


def register_kernel(name: str, kernel: type[Kernel] | None = None) -> Callable[[type[Kernel]], type[Kernel]]:
    """Make a kernel known by `name` to every network, command and check. Also a class decorator.

    Parameters
    ----------
    name : str
        What users write after `--arch` or in `Network(arch=...)`.
    kernel : subclass of Kernel, optional
        Its constructor takes the hidden size, and the keywords that it lists in `options`. An option that is None is
        not handed on: the constructor's own default holds.

    Raises
    ------
    InputError
        Another kernel has that name.
    """

    def register(cls: type[Kernel]) -> type[Kernel]:
        if name in _kernels and _kernels[name] is not cls:
            raise InputError(f"an architecture named {name!r} is registered already: choose another name")
        _kernels[name] = cls
        return cls

    if kernel is not None:
        register(kernel)
    return register


def import_kernels(path: str | Path) -> None:
    """Run a Python file that registers architectures, as `hfrnn --kernel FILE` does.

    Parameters
    ----------
    path : path
        It runs with a name of its own as `__name__`, not `"__main__"`; its folder is not searched for imports.

    Raises
    ------
    InputError
        It cannot be read or run, or registers nothing.
    """
    before, name = len(_kernels), f"hfrnn --kernel {path}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"the kernel file {path} is no Python file: give one whose name ends in .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InputError(
            f"the kernel file {path} cannot be run ({type(error).__name__}: {error}): `python {path}` says where"
        ) from error
    if len(_kernels) == before:
        raise InputError(f"the kernel file {path} registers no architecture: it has to call hfrnn.register_kernel")


def architectures() -> tuple[str, ...]:
    """The names of all registered architectures."""
    return tuple(_kernels)


def kernel_class(name: str, backend: str = "numpy") -> type[Kernel]:
    """Return the class of an architecture: the backend's variant if there is one, else the reference.

    Raises
    ------
    InputError
        The name is not known.
    """
    if name not in _kernels:
        raise InputError(
            f"architecture {name!r} is not known: use one of {', '.join(_kernels)}, or name the file that registers it "
            "(hfrnn --kernel FILE; in Python, import it first)"
        )
    found = _variants.get(backend, {}).get(name, _kernels[name])
    if not isinstance(found, str):
        return found
    module, _, cls = found.partition(":")
    return getattr(importlib.import_module(module), cls)  # type: ignore[no-any-return]


def resolve_backend(backend: str, arch: str) -> str:
    """Return the backend that a name stands for: "auto" is numba if it is installed and has a variant, else NumPy."""
    if backend != "auto":
        return backend
    return "numba" if arch in _variants["numba"] and importlib.util.find_spec("numba") else "numpy"


def make_kernel(name: str, hidden: int, options: dict[str, Any], backend: str = "numpy") -> Kernel:
    """Return the kernel of an architecture for `hidden` units, as the backend runs it.

    Raises
    ------
    InputError
        The name is not known, the size is too small, or an option is not the architecture's own.
    """
    cls = kernel_class(name, backend)
    if isinstance(hidden, bool) or not isinstance(hidden, int) or hidden < cls.least_hidden:
        raise InputError(f"the hidden size is {hidden!r}: give a whole number of units, {cls.least_hidden} or more")
    neutral = {option: (value, None) for option, value in NEUTRAL.items()}
    foreign = sorted(
        option
        for option, value in options.items()
        if option not in cls.options and value not in neutral.get(option, ())
    )
    if foreign:
        takes = ", ".join(cls.options) or "none"
        raise InputError(f"architecture {name!r} has no option {', '.join(foreign)}: it takes {takes}")
    own = {option: value for option, value in options.items() if option in cls.options and value is not None}
    return cls(hidden, **own)  # type: ignore[call-arg]
