"""The architectures by name; a user may add his own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hfrnn.errors import InputError
from hfrnn.kernels.base import Kernel
from hfrnn.kernels.clockwork import Clockwork
from hfrnn.kernels.gru import GRU
from hfrnn.kernels.hornn import HORNN
from hfrnn.kernels.hornn_fofe import FOFE
from hfrnn.kernels.hornn_gated import GatedHORNN
from hfrnn.kernels.hornn_max import MaxHORNN
from hfrnn.kernels.lstm import LSTM, KrauseLSTM
from hfrnn.kernels.mlstm import MLSTM, StandardMLSTM
from hfrnn.kernels.mrnn import MRNN
from hfrnn.kernels.rnn import RNN
from hfrnn.kernels.scrn import SCRN

_kernels: dict[str, type[Kernel]] = {
    "rnn": RNN,
    "mrnn": MRNN,
    "lstm": LSTM,
    "lstm-krause": KrauseLSTM,
    "mlstm": MLSTM,
    "mlstm-standard": StandardMLSTM,
    "hornn": HORNN,
    "hornn-max": MaxHORNN,
    "hornn-fofe": FOFE,
    "hornn-gated": GatedHORNN,
    "scrn": SCRN,
    "gru": GRU,
    "clockwork": Clockwork,
}

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
        if _kernels.get(name, cls) is not cls:
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


def make_kernel(name: str, hidden: int, options: dict[str, Any]) -> Kernel:
    """The kernel of that name for `hidden` units.

    Raises
    ------
    InputError
        The name is not known, the size is too small, or an option is not the architecture's own.
    """
    if name not in _kernels:
        raise InputError(
            f"architecture {name!r} is not known: use one of {', '.join(_kernels)}, or name the file that registers it "
            "(hfrnn --kernel FILE; in Python, import it first)"
        )
    cls = _kernels[name]
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
