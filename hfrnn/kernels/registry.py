"""The registry of architectures. Users can add their own."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hfrnn.arrays import gpu
from hfrnn.arrays.gpu import why_no_numba
from hfrnn.checks import count, is_number, near_hint, shown, wrong
from hfrnn.choices import AUTO
from hfrnn.entries import OF_A_FILE, count_registered, note_registered
from hfrnn.errors import InputError, Message, PerReader
from hfrnn.kernels.base import Kernel
from hfrnn.option import Option

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
    "leaky": "hfrnn.kernels.leaky:Leaky",
    "rate": "hfrnn.kernels.rate:Rate",
    "gru-torch": "hfrnn.kernels.gru_torch:TorchGRU",
    "lstm-1997": "hfrnn.kernels.lstm_1997:LSTM1997",
    "fnn": "hfrnn.kernels.fnn:FNN",
    "fofe-fnn": "hfrnn.kernels.fofe_fnn:FOFEFNN",
    "gated-feedback": "hfrnn.kernels.gated_feedback:GatedFeedback",
    "hierarchical": "hfrnn.kernels.hierarchical:Hierarchical",
    "state-space": "hfrnn.kernels.state_space:StateSpace",
    "low-rank": "hfrnn.kernels.low_rank:LowRank",
    "coupled-oscillator": "hfrnn.kernels.coupled_oscillator:CoupledOscillator",
}
"""The reference kernels: "module:class", which is imported when first used, or the class of a user."""

SECOND_NAMES = {"multiplicative-lstm": "mlstm"}
"""Other names that users may give to architectures. Networks and runs store the first name."""

_variants: dict[str, dict[str, str]] = {
    "numba": {
        "rnn": "hfrnn.kernels.numba.rnn:RNN",
        "mrnn": "hfrnn.kernels.numba.mrnn:MRNN",
        "gru": "hfrnn.kernels.numba.gru:GRU",
        "hornn": "hfrnn.kernels.numba.hornn:HORNN",
        "hornn-fofe": "hfrnn.kernels.numba.hornn:FOFE",
        "hornn-max": "hfrnn.kernels.numba.hornn_max:MaxHORNN",
        "hornn-gated": "hfrnn.kernels.numba.hornn_gated:GatedHORNN",
        "scrn": "hfrnn.kernels.numba.scrn:SCRN",
        "lstm": "hfrnn.kernels.numba.lstm:LSTM",
        "lstm-krause": "hfrnn.kernels.numba.lstm:KrauseLSTM",
        "mlstm": "hfrnn.kernels.numba.mlstm:MLSTM",
        "mlstm-standard": "hfrnn.kernels.numba.mlstm:StandardMLSTM",
        "leaky": "hfrnn.kernels.numba.leaky:Leaky",
        "rate": "hfrnn.kernels.numba.rate:Rate",
        "gru-torch": "hfrnn.kernels.numba.gru_torch:TorchGRU",
        "lstm-1997": "hfrnn.kernels.numba.lstm_1997:LSTM1997",
        "clockwork": "hfrnn.kernels.numba.clockwork:Clockwork",
        "hierarchical": "hfrnn.kernels.numba.clockwork:Hierarchical",
        "gated-feedback": "hfrnn.kernels.numba.gated_feedback:GatedFeedback",
        "fofe-fnn": "hfrnn.kernels.numba.fofe_fnn:FOFEFNN",
        "state-space": "hfrnn.kernels.numba.state_space:StateSpace",
        "low-rank": "hfrnn.kernels.numba.low_rank:LowRank",
        "coupled-oscillator": "hfrnn.kernels.numba.coupled_oscillator:CoupledOscillator",
    },
    "cupy": {
        "rnn": "hfrnn.kernels.cuda.rnn:RNN",
        "mrnn": "hfrnn.kernels.cuda.mrnn:MRNN",
        "lstm": "hfrnn.kernels.cuda.lstm:LSTM",
        "lstm-krause": "hfrnn.kernels.cuda.lstm:KrauseLSTM",
        "mlstm": "hfrnn.kernels.cuda.mlstm:MLSTM",
        "mlstm-standard": "hfrnn.kernels.cuda.mlstm:StandardMLSTM",
        "hornn": "hfrnn.kernels.cuda.hornn:HORNN",
        "hornn-max": "hfrnn.kernels.cuda.hornn:MaxHORNN",
        "hornn-fofe": "hfrnn.kernels.cuda.hornn:FOFE",
        "hornn-gated": "hfrnn.kernels.cuda.hornn:GatedHORNN",
        "scrn": "hfrnn.kernels.cuda.scrn:SCRN",
        "gru": "hfrnn.kernels.cuda.gru:GRU",
        "clockwork": "hfrnn.kernels.cuda.clockwork:Clockwork",
        "leaky": "hfrnn.kernels.cuda.leaky:Leaky",
        "rate": "hfrnn.kernels.cuda.rate:Rate",
        "gru-torch": "hfrnn.kernels.cuda.gru_torch:TorchGRU",
        "lstm-1997": "hfrnn.kernels.cuda.lstm_1997:LSTM1997",
        "hierarchical": "hfrnn.kernels.cuda.clockwork:Hierarchical",
        "state-space": "hfrnn.kernels.cuda.state_space:StateSpace",
        "low-rank": "hfrnn.kernels.cuda.low_rank:LowRank",
        "coupled-oscillator": "hfrnn.kernels.cuda.coupled_oscillator:CoupledOscillator",
    },
}
"""The faster variants, by backend and architecture. An architecture without one runs its reference kernel."""

_passes = {"numba": "hfrnn.kernels.numba.passes"}
"""The modules with compiled passes over flat vectors, by backend."""

BUILT_IN = frozenset(_kernels)
"""The architectures of this package. Users registered all others."""


def register_kernel(name: str, kernel: type[Kernel] | None = None) -> Callable[[type[Kernel]], type[Kernel]]:
    """Register a kernel under a name, for all networks, commands and checks. Can be used as a class decorator.

    Parameters
    ----------
    name : str
        The name of the architecture, as in `--arch NAME` and `Network(arch=NAME)`.
    kernel : subclass of Kernel, optional
        Its constructor takes the hidden size, and the options that it declares in `options` as keywords. Options
        that are None are not passed, so that the constructor's own defaults apply.

    Returns
    -------
    callable
        The class decorator; not needed if `kernel` is given.

    Raises
    ------
    InputError
        Another kernel has that name.

    Examples
    --------
    >>> import hfrnn
    >>> from hfrnn.kernels.rnn import RNN
    >>> @hfrnn.register_kernel("plain")
    ... class Plain(RNN):
    ...     pass
    >>> "plain" in hfrnn.architectures()
    True
    """

    if not isinstance(name, str) or not name or not name.isprintable():
        raise wrong("name", name, "give a string of printable characters")

    def register(cls: type[Kernel]) -> type[Kernel]:
        if not (isinstance(cls, type) and issubclass(cls, Kernel)):
            raise wrong("kernel", cls, "give a subclass of hfrnn.Kernel")
        if name in SECOND_NAMES or (name in _kernels and _kernels[name] is not cls):
            raise InputError(f"an architecture named {name!r} is registered already: choose another name")
        _kernels[name] = cls
        note_registered(cls)
        return cls

    if kernel is not None:
        register(kernel)
    return register


def import_kernels(path: str | Path) -> None:
    """Run a Python file of a user that registers architectures, optimizers, kinds of data or losses.

    Parameters
    ----------
    path : str or path
        The file. Its `__name__` is not `"__main__"`, and its folder is not searched for imports.

    Raises
    ------
    InputError
        The file cannot be read or run, or registers nothing.
    """
    before, name = count_registered(), f"{OF_A_FILE}{path}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"the kernel file {path} is not a Python file: give one whose name ends in .py")
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise InputError(f"the kernel file {path} is not a regular file: give one whose name ends in .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())
        raise InputError(
            f"the kernel file {path} cannot be run ({type(error).__name__}: {said}): `python {path}` says where"
        ) from error
    if count_registered() == before:
        raise InputError(
            f"the kernel file {path} registers nothing: it has to call hfrnn.register_kernel, "
            "hfrnn.register_optimizer, hfrnn.register_data or hfrnn.register_loss"
        )


def architectures() -> tuple[str, ...]:
    """Return the names of all registered architectures.

    Examples
    --------
    >>> import hfrnn
    >>> hfrnn.architectures()[:4]
    ('rnn', 'mrnn', 'lstm', 'lstm-krause')
    """
    return tuple(_kernels)


def user_architectures() -> tuple[str, ...]:
    """Return the names of the architectures that users registered."""
    return tuple(name for name in _kernels if name not in BUILT_IN)


def first_name(name: str) -> str:
    """Return the name under which an architecture is registered and stored.

    Examples
    --------
    >>> from hfrnn.kernels.registry import first_name
    >>> first_name("multiplicative-lstm"), first_name("gru")
    ('mlstm', 'gru')
    """
    return SECOND_NAMES.get(name, name) if isinstance(name, str) else name


def kernel_class(name: str, backend: str = "numpy") -> type[Kernel]:
    """Return the class of an architecture: the backend's variant if there is one, else the reference.

    Raises
    ------
    InputError
        The name is not known.
    """
    name = first_name(name)
    if not isinstance(name, str) or name not in _kernels:
        register = PerReader("import the module that registers it", "name the file that registers it: {kernel:FILE}")
        raise InputError(Message(
            "architecture {0} is not known{1}: use one of {2}, or {3}",
            shown(name), near_hint(name, _kernels), ", ".join(_kernels), register,
        ))  # fmt: skip
    found = _variants.get(backend, {}).get(name, _kernels[name])
    if not isinstance(found, str):
        return found
    module, _, cls = found.partition(":")
    return getattr(importlib.import_module(module), cls)  # type: ignore[no-any-return]


def vector_passes(backend: str) -> Any:
    """Return the module with a backend's compiled passes over flat vectors, for `OnePass` optimizers; None without one.

    Parameters
    ----------
    backend : str
        `Backend.variants`.
    """
    return importlib.import_module(_passes[backend]) if backend in _passes else None


def kernel_options(name: str) -> dict[str, Option]:
    """Return the options that an architecture declares, by name."""
    return {option.name: option for option in kernel_class(name).options if isinstance(option, Option)}


def declared_options() -> dict[str, dict[str, Option]]:
    """Return the options of all architectures: for each option name, a dict from architecture to declaration.

    Raises
    ------
    InputError
        Two architectures declare an option of the same name with different types.
    """
    found: dict[str, dict[str, Option]] = {}
    for arch in architectures():
        for name, option in kernel_options(arch).items():
            declarations = found.setdefault(name, {})
            for other, known in declarations.items():
                if (known.kind, known.many) != (option.kind, option.many):
                    raise InputError(
                        f"the architectures {other} and {arch} declare the option {name} with different types: rename "
                        "one of the two options"
                    )
            declarations[arch] = option
    return found


def resolve_backend(backend: str, arch: str, on_gpu: bool = True) -> str:
    """Return the backend for a name; `auto` means the one that `choose_backend` returns.

    Parameters
    ----------
    backend : str
        `auto`, or the name of a backend, which is returned unchanged.
    arch, on_gpu
        As for `choose_backend`.
    """
    return choose_backend(arch, on_gpu)[0] if isinstance(backend, str) and backend == AUTO else backend


def choose_backend(arch: str, on_gpu: bool = True) -> tuple[str, str]:
    """Return the fastest backend that there is here, and the reason in a few words.

    It is cupy with a GPU that CuPy can use, else numba if it is installed and has a variant of `arch`, else numpy.

    Parameters
    ----------
    arch : str
        The architecture.
    on_gpu : bool
        Whether what is to be computed can run on a GPU.
    """
    cupy, why = gpu.find_gpu() if on_gpu else (None, "online learning runs on the CPU")
    if cupy is not None:
        return "cupy", gpu.gpu_name(cupy)
    if arch not in _variants["numba"]:
        return "numpy", f"{why}; numba has no loops for {arch}"
    if no_numba := why_no_numba():
        return "numpy", f"{why}; {no_numba}"
    return "numba", why


def _is_one_of(value: Any, defaults: Sequence[Any]) -> bool:
    return is_number(value) | isinstance(value, str | bool | tuple) and value in defaults


def make_kernel(name: str, hidden: int, options: dict[str, Any], backend: str = "numpy") -> Kernel:
    """Return the kernel of an architecture, in the variant of a backend.

    Parameters
    ----------
    name : str
        The architecture.
    hidden : int
        Number of hidden units.
    options : dict
        Options by name. None means the architecture's own default. Options of other architectures are accepted if
        they have their default value, so that the same options can be passed for every architecture.
    backend : str

    Raises
    ------
    InputError
        The architecture is not known, the size is too small, an option is out of range, or the architecture does not
        have it.
    """
    cls = kernel_class(name, backend)
    hidden = count("hidden", hidden, cls.least_hidden, unit="units")
    known = {option if isinstance(option, str) else option.name for option in cls.options}
    given = {option: value for option, value in options.items() if value is not None}
    if foreign := sorted(given.keys() - known):
        defaults = {each: [one.default for one in of.values()] for each, of in declared_options().items()}
        foreign = [option for option in foreign if not _is_one_of(given.pop(option), defaults.get(option, ()))]
    if foreign:
        hint = near_hint(foreign[0], known)
        takes = ", ".join(option if isinstance(option, str) else option.name for option in cls.options) or "none"
        raise InputError(f"architecture {name!r} has no option {', '.join(foreign)}{hint}: it takes {takes}")
    for option, declared in kernel_options(name).items():
        if option in given and not declared.many:  # a sequence of numbers is checked with the size, by the kernel
            given[option] = declared.convert(given[option], option)
            declared.check(given[option], option)
    return cls(hidden, **given)  # type: ignore[call-arg]
