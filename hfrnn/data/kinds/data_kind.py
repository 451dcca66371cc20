"""What a kind of data declares, and what the data of a run are when they are opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from hfrnn.data.pool import Pool as Pool
from hfrnn.errors import InputError, Message
from hfrnn.option import Option, argument, listed
from hfrnn.wording import named_part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hfrnn.data.ragged import RaggedPool
    from hfrnn.data.scaling import Scaling
    from hfrnn.data.text import Text as Content
    from hfrnn.data.vocabulary import Vocabulary


class Reading(NamedTuple):
    """The sequences of a file that a command reads for a trained network, time-major, in the units of the data.

    `targets` is None if there are none; `note` says why. A recording is one sequence, from a file without an axis of
    sequences; its first `burn_in` steps are not scored. Only tables have names of columns, `times` of one recording if
    a column holds them, and `ahead`: the rows from an input to the target that it predicts. `conditions` (steps,
    sequences) are strings from a column, if one was asked for. `initial_state` (sequences, n) holds the states before
    the first steps, if the file has them. `step` is the time between two rows, if a column of a table says it. `notes`
    say how events were read, and which of them were left out.
    """

    name: str
    inputs: NDArray[Any]
    targets: NDArray[Any] | None = None
    weights: NDArray[Any] | None = None
    lengths: NDArray[Any] | None = None
    recording: bool = False
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    ahead: int = 0
    note: str | Message = ""
    burn_in: int = 0
    times: NDArray[Any] | None = None
    conditions: NDArray[Any] | None = None
    initial_state: NDArray[Any] | None = None
    step: float | None = None
    notes: tuple[str, ...] = ()


class Shown(NamedTuple):
    """What a file holds, for a person: what it is, the name, shape and class of each value, and options of `train`.

    `options` are those that would read the file, by name; None if it has nothing to train on.
    """

    about: str
    rows: tuple[tuple[str, str, str], ...]
    options: Mapping[str, str] | None


@dataclass(frozen=True)
class Earlier:
    """What new data take over from an earlier run: the run that is resumed, or that of the option `init_from`.

    `path` is the folder of that run, for messages. `network` returns `n_in`, `n_out`, `loss` and the classes of its
    network, which are read from its checkpoint.
    """

    path: str
    network: Callable[[], dict[str, Any]]
    vocabulary: Vocabulary | None = None
    scaling: Scaling | None = None


def own_files(options: Mapping[str, Any], part: str) -> tuple[str, ...]:
    """Return the files of a part that was given as files of its own (`--valid FILE`); empty for other parts."""
    return () if part == "train" else tuple(map(str, listed(options.get(part))))


class DataKind:
    """Base class of the kinds of data. An instance holds the data of one run.

    A kind of data is a class in a file of its own. `hfrnn.register_data` adds one. The class says what it takes; its
    instances hold the data. `open` reads them. `prepare` then makes them ready for a network.

    Attributes
    ----------
    about : str
        What such data are, with an article, for messages: "a table".
    named : str
        What the names of such data are called in lists: "tasks". Empty if they have no names.
    suffixes : tuple of str
        Suffixes of the files with such data, in lower case.
    reads : tuple of str
        Suffixes of other files with such data, which commands can read for a trained network; see `read_file`.
    options : tuple of Option
        The options that such data have. Kinds may share the same objects.
    takes : tuple of str
        Options of a run that only some kinds of data use, and this one does: "sample_length".
    needed : tuple of str
        Options that such data cannot be read without.
    preset : {"text", "large_text", "music", "task", "arrays"}
        Which defaults of Hessian-free optimization suit the data (`hfrnn/runs/defaults.py`).
    defaults : mapping
        Options of the network and the optimizer that suit the data, by name.
    suits : str
        The data that have these defaults, in words: "arrays and tables".
    first_weights : mapping
        Options of the first weights that suit the data, by name.
    weights_suit : str
        The networks that have these first weights, in words: "an rnn on long lags".
    several : bool
        Whether the option `data` may name several files.
    in_memory : bool
        Whether the data are objects of a Python program, not files.
    has_parts : bool
        Whether the data have a part for training, for validation and for the test. If not, `drawn` makes sequences.
    names_columns : bool
        Whether `inputs` and `targets` name columns of a table, not files.
    in_bits : bool
        Whether the loss is that of a symbol, which is shown in bits.
    score_names : tuple of three str
        What scores call the data, their sequences and the loss: "music", "pieces", "nats_per_time_step".
    always_cut : bool
        Whether such data are recordings, which are cut into windows without the option `window` too.
    scores_outputs : bool
        Whether scores show each output by itself.
    name : str
        Name of the data.
    source : str
        Where the data came from, for messages: usually a path.
    unit : str
        What is predicted: a character, byte, word, answer or time step.
    network : dict
        `n_in`, `n_out` and `loss` of the network, and the classes of a class softmax.
    validation : Pool, RaggedPool or None
        The validation data.
    sha256 : str
        Checksum of the data; empty if the data are generated.
    fresh : bool
        Whether every epoch has new sequences.
    counts_errors : bool
        Whether answers are right or wrong.
    ends_by_success : bool
        Whether a run ends when few answers are wrong.
    scaling : Scaling or None
        The scaling of real inputs and targets; None if they are used as they are.
    vocabulary : Vocabulary or None
        The symbols of a text.
    own_files : mapping of str to tuple of str
        The files of the parts that were given as files of their own, by part.
    input_names, output_names : tuple of str
        Names of the inputs and outputs; empty if they have none.
    ahead : int
        Rows of a table from an input to the target that it predicts.
    burn_in : int
        Steps at the beginning of each window that are not scored.
    state_width : int
        How many entries of a state the data give for each sequence; 0 if they give none.
    length : int
        About how many steps a sequence has that `drawn` makes.

    Examples
    --------
    The kind of a name, whose sequences are drawn anew in every epoch:

    >>> import numpy as np
    >>> import hfrnn
    >>> class Sums(hfrnn.DataKind):
    ...     about, fresh, name, source = "sums", True, "sums", "sums"
    ...     network = {"n_in": 1, "n_out": 1, "loss": "squared"}
    ...
    ...     @classmethod
    ...     def names(cls):
    ...         return ("sums",)
    ...
    ...     @classmethod
    ...     def open(cls, options, given=None):
    ...         return cls()
    ...
    ...     def pool(self, epoch):
    ...         x = np.random.default_rng(epoch).normal(size=(20, 50, 1))
    ...         return hfrnn.Pool(x, x.cumsum(axis=0))
    >>> registered = hfrnn.register_data("sums", Sums)
    >>> hfrnn.train(data="sums", arch="rnn", hidden=3, updates=1, out="run").summary["updates"]
    1
    """

    about: ClassVar[str] = ""
    named: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[Option, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = ()
    needed: ClassVar[tuple[str, ...]] = ()
    preset: ClassVar[str] = "arrays"
    defaults: ClassVar[Mapping[str, Any]] = {}
    suits: ClassVar[str] = ""
    first_weights: ClassVar[Mapping[str, Any]] = {}
    weights_suit: ClassVar[str] = ""
    several: ClassVar[bool] = False
    in_memory: ClassVar[bool] = False
    has_parts: ClassVar[bool] = True
    names_columns: ClassVar[bool] = False
    in_bits: ClassVar[bool] = False
    score_names: ClassVar[tuple[str, str, str]] = ("data", "sequences", "loss")
    scores_outputs: ClassVar[bool] = True
    always_cut: ClassVar[bool] = False

    name: str
    source: str
    unit: str = "time step"
    network: dict[str, Any]
    validation: Pool | RaggedPool | None = None
    sha256: str = ""
    fresh: bool = False
    counts_errors: bool = False
    ends_by_success: bool = False
    scaling: Scaling | None = None
    vocabulary: Vocabulary | None = None
    own_files: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    ahead: int = 0
    burn_in: int = 0
    state_width: int = 0
    length: int = 1

    # ------------------------------------------------------------------ what the kind is

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of such data that the option `data` takes."""
        return ()

    @classmethod
    def recognises(cls, data: str) -> bool:
        """Return whether a value of the option `data` names such data: by name, or as a file by its suffix."""
        return data in cls.names() or (bool(cls.suffixes) and data.lower().endswith(cls.suffixes))

    @classmethod
    def check(cls, data: str) -> None:
        """Raise InputError if there cannot be such data, before anything else is said about the options of a run."""

    @classmethod
    def suited(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return options that suit the data, by name.

        Parameters
        ----------
        given : mapping
            The options that were given, by name; they win over the suited ones.
        """
        return {**cls.defaults, **cls.first_weights}

    @classmethod
    def preset_for(cls, options: Mapping[str, Any]) -> str:
        """Return which defaults of Hessian-free optimization suit the data: a value of the attribute `preset`."""
        return cls.preset

    @classmethod
    def penalty(cls, options: Mapping[str, Any]) -> float:
        """Return the option `l2` that suits the data with the preset tuned of Hessian-free optimization."""
        return 0.0

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options of such data with absolute paths and with defaults that depend on others, by name."""
        data = options["data"]
        return {"data": data if data in cls.names() else os.path.abspath(data)}

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[str | os.PathLike[str]]:
        """Return the files that the data are read from."""
        return [] if options["data"] in cls.names() else [Path(options["data"])]

    @classmethod
    def level(cls, options: Mapping[str, Any]) -> str:
        """Return the level of the symbols, "char", "byte" or "word"; "" if the data have no vocabulary."""
        return ""

    @classmethod
    def loss_name(cls, options: Mapping[str, Any]) -> str:
        """Return what the loss of the data is called."""
        return "loss per time step"

    @classmethod
    def keyword(cls, options: Mapping[str, Any]) -> str:
        """Return the argument of `hfrnn.train` that the data are given as."""
        return "data"

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> DataKind:
        """Read the data.

        Parameters
        ----------
        options : mapping
            The values of all options of the run, by name.
        given : hfrnn.data.kinds.memory.Given, optional
            Data that a Python program has given as objects; for kinds with `in_memory`.

        Raises
        ------
        InputError
            The data are missing or damaged, or the options do not fit them.
        """
        raise NotImplementedError

    @classmethod
    def read_file(cls, options: Mapping[str, Any], path: str, n_out: int, loss: str) -> Reading:
        """Read another file with such data, for a trained network. Kinds with suffixes in `reads` have this.

        Parameters
        ----------
        options : mapping
            The options of the run, by name.
        path : str
        n_out : int
            The number of outputs of the network.
        loss : str
            The loss of the network.

        Raises
        ------
        InputError
            The file cannot be read, or does not fit the options.
        """
        raise NotImplementedError

    @classmethod
    def shown(cls, path: str) -> Shown | None:
        """Return what a file of such data holds; None if the kind does not say.

        Raises
        ------
        InputError
            The file cannot be read.
        """
        return None

    @classmethod
    def advice(cls, options: Mapping[str, Any]) -> Message | None:
        """Return what to try if the validation loss rises while the training loss falls; None if there is no advice."""
        return None

    # ------------------------------------------------------------------ the data of a run

    def prepare(self, earlier: Earlier | None = None) -> None:
        """Make the data ready for a network, with the symbols and the scaling of an earlier run if there is one."""

    @property
    def chosen(self) -> dict[str, Any]:
        """Values of options that follow from the data, by name. What was given takes precedence."""
        return {}

    @property
    def checksums(self) -> dict[str, str]:
        """Checksums of the data, its parts and its scaling, under the names that config.toml uses."""
        scaling = {} if self.scaling is None else {"scaling_sha256": self.scaling.sha256}
        return {"data_sha256": self.sha256, **scaling}

    def changed(self, stored: Mapping[str, Any]) -> str:
        """Return what differs from data with these checksums: the files, for a message; "" if nothing does."""
        return "" if stored.get("data_sha256") == self.sha256 else self.source

    def pool(self, epoch: int) -> Pool | RaggedPool:
        """Return the training sequences of an epoch."""
        raise NotImplementedError

    def part(self, name: str) -> Pool | RaggedPool:
        """Return the sequences of a part, as the network reads them; raise InputError if there is none."""
        raise NotImplementedError

    def plain_part(self, name: str) -> Pool | RaggedPool:
        """Return the sequences of a part in the units of the data; raise InputError if there is none."""
        return self.part(name)

    def part_name(self, name: str) -> str:
        """Return what to call a part in messages and scores."""
        return named_part(name, self.own_files.get(name, ()), self.name)

    def drawn(self, count: int, rng: np.random.Generator) -> Pool:
        """Return new sequences. Kinds without parts have this; `count` is an upper bound if there are fewer in all."""
        raise NotImplementedError

    def wrong(self, logits: NDArray[Any], sequences: Pool) -> NDArray[np.bool_]:
        """Return which sequences have a wrong answer, (B,), given logits (T, B, n_out).

        Kinds without parts whose answers are right or wrong have this.
        """
        raise NotImplementedError

    def text(self) -> NDArray[np.int32] | None:
        """Return all training symbols in order, if they are one text; else None."""
        return None

    def content(self, part: str) -> Content:
        """Return a part of a text as it was read. Kinds with a vocabulary have this; it works before `prepare`."""
        raise NotImplementedError

    def lines(self) -> Sequence[str | Message]:
        """Return lines for the screen about the training and validation data."""
        return [f"data      {self.name}"]

    def hints(self) -> Sequence[str | Message]:
        """Return what is unusual about the data: users of Python read it as warnings, others among the lines."""
        return []

    def errors(self, logits: NDArray[Any]) -> float:
        """Return the share of validation sequences with a wrong answer, given logits of shape (T, B, n_out)."""
        assert isinstance(self.validation, Pool)
        return float(self.wrong(logits, self.validation).mean())


def epoch_generator(seed: int, epoch: int) -> np.random.Generator:
    """Return the random generator of an epoch; epoch -1 is validation, which is the same for every seed."""
    import numpy as np

    entropy = [0, 0] if epoch < 0 else [1, seed, epoch]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def refuse(options: Mapping[str, Any], declared: Iterable[Option], why: Message | str) -> None:
    """Raise InputError if one of some declared options has an effect although the data have no use for it."""
    for option in declared:
        value = options.get(option.name)
        if value and value != option.default:
            raise InputError(Message(f"{argument(option.name)} was given, and {{0}}: leave it out", why))
