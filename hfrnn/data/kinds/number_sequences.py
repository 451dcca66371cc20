"""What arrays and tables have in common: sequences of numbers of one's own, which a run may scale."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.choices import AUTO, SPLITS
from hfrnn.data.kinds.data_kind import DataKind, Earlier, Reading, own_files
from hfrnn.errors import InputError, Message
from hfrnn.losses import CLASS_SOFTMAX, LOSSES
from hfrnn.option import Need, Option, argument
from hfrnn.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hfrnn.data.array_data import ArrayData
    from hfrnn.data.ragged import RaggedPool
    from hfrnn.data.scaling import Scaling
    from hfrnn.data.splits import Split
    from hfrnn.data.windows import Windows

REASONABLE = 30.0
"""With larger absolute values of inputs or targets, a run prints a hint to scale them."""
FAR = 2.0
"""If the mean of an input or a target is more deviations away from 0 than this, a run prints the same hint."""
_MANY = 20  # classes of which most have to occur
_LISTED = 8  # most constant columns that are named


def _uncut(chosen: Any) -> Message | None:
    cut = chosen.window or chosen.kind.always_cut
    return None if cut else Message("{window} was not: it is for one recording that {window} cuts")


WINDOWS = Need("window", unless=_uncut)

FRACTIONS = Option(
    "fractions", float, None,
    "Shares of the data for training, validation and test, in the order of the file, or of the names of MIDI files.",
    many=True, group="Data", otherwise="the corpus's own, else 0.9,0.1,0",
)  # fmt: skip
SPLIT = Option(
    "split", str, "order",
    "How sequences, or whole recordings with random, are put into parts: in their order, at random, or at random with "
    "the same share of each class in every part.",
    choices=SPLITS, group="Data",
)  # fmt: skip
SPLIT_SEED = Option(
    "split_seed", int, 0, "Seed of a random {split}; {seed} does not change it.", least=0, group="Data",
    needs=(Need("split", SPLITS[1:]),),
)  # fmt: skip
DIVIDED = (FRACTIONS, SPLIT, SPLIT_SEED)
VALID = Option(
    "valid", str, None,
    "File, or folder of MIDI files, to validate on, instead of a part of the data; several tables or files of arrays.",
    path=True, several=True, group="Data",
)  # fmt: skip
TEST = Option(
    "test", str, None,
    "File, or folder of MIDI files, to test on, instead of a part of the data; several tables or files of arrays.",
    path=True, several=True, group="Data",
)  # fmt: skip
INPUTS = Option(
    "inputs", str, None,
    "Columns of a table that the network reads, by name or by number from 1; or arrays of a file by name, such as "
    "trials.u or /session/rates.",
    many=True, digits=True, group="Data", otherwise="the array x of a file",
)  # fmt: skip
TARGETS = Option(
    "targets", str, None,
    "Columns of a table, or arrays of a file, to predict; for {data:FILE.npy}, the .npy file of the targets.",
    many=True, digits=True, group="Data", otherwise="the array y of a file",
)  # fmt: skip
INITIAL_STATE = Option(
    "initial_state", str, None,
    "Columns of a table with the state before a row, one for each entry. Recordings and windows begin with that of "
    "their first row; empty cells mean zeros after the first row of a recording.",
    many=True, digits=True, group="Data",
)  # fmt: skip
EACH_STATE = Option(
    "learn_each_initial_state", bool, False,
    "Learn an initial state for each training sequence: the state for all, which other sequences begin with, and a "
    "deviation from it.",
    group="Data",
)  # fmt: skip
OTHER_PARTS, _OWN = ("valid", "test"), ("inputs", "targets", "rows")
"""Parts that may have files of their own, and the options that each of them has beside these."""
ROWS = Option(
    "rows", str, None,
    "Rows of each table, or of each recording in a file of arrays, to read, A:B: from row A, counted from 0, up to but "
    "not including B.",
    group="Data",
)  # fmt: skip
BIN = Option(
    "bin", float, None,
    "Seconds of a bin: each row of the table is then a spike or another event, which is counted. {inputs} and "
    "{targets} name units. Arrays in memory hold the times for each trial and unit.",
    above=0, group="Data", otherwise="the rows are steps",
)  # fmt: skip
OF_PARTS = tuple(
    Option(
        f"{part}_{name}", str, None, help.format(part), many=many, digits=True, group="Data", otherwise=f"{{{name}}}"
    )
    for part in OTHER_PARTS
    for name, many, help in (
        ("inputs", True, "Columns of a table, or arrays of a file, that the network reads in the {} part."),
        ("targets", True, "Columns of a table, or arrays of a file, to predict in the {} part."),
        ("rows", False, "Rows of the tables or recordings for the {} part, A:B."),
    )
)
WINDOW = Option(
    "window", int, None, "Steps of a window; cuts one recording, a table or an array (steps, n), into sequences.",
    least=1, group="Data",
    otherwise="for a table four times its memory, or {burn_in} if given, and at least 200; all steps of a short one",
)  # fmt: skip
STRIDE = Option(
    "stride", int, None, "Steps from the beginning of a training window to that of the next.", least=1, group="Data",
    needs=(WINDOWS,), otherwise="half of {window}",
)  # fmt: skip
BURN_IN = Option(
    "burn_in", int, None, "Steps at the beginning of a window that are not scored, while the state settles.", least=0,
    group="Data", needs=(WINDOWS,), otherwise="the memory that linear models of the data show",
)  # fmt: skip
WASHOUT = Option(
    "washout", int, None,
    "Steps at the beginning of each sequence that scores of the finished run leave out; training is not changed.",
    least=0, group="Data", otherwise="{burn_in}",
)  # fmt: skip
BLOCKS = Option(
    "valid_blocks", int, None, "Blocks of each recording, spread over it, that validate", least=1, unit="blocks",
    zero="for its last part", group="Data", needs=(WINDOWS,), otherwise="5 for a recording that is not cut, else 0",
)  # fmt: skip
CUT = (WINDOW, STRIDE, BURN_IN, BLOCKS, WASHOUT)
LOSS = Option(
    "loss", str, "auto",
    "Loss of arrays and tables: squared, gaussian, poisson, logistic, softmax or one of your own; auto: softmax for "
    "classes, logistic for targets of 0 and 1, else squared.",
    group="Data",
)  # fmt: skip
STANDARDIZE = Option(
    "standardize", bool, None,
    "Scale real inputs, and the targets of the squared and gaussian losses, by their mean and deviation in the "
    "training part. Inputs of 0 and 1 are left as they are.",
    group="Data", otherwise="yes for a table, no for arrays",
)  # fmt: skip


RECORDINGS: Mapping[str, Any] = {"arch": "gru", "hidden": (16,)}
"""Options of the network that suit recordings: a small network, because most recordings are short."""


def _no_loop(chosen: Any) -> Message | None:
    return None if chosen.closed_loop else Message("{closed_loop} was not: it is for training in a closed loop")


CLOSED_LOOP = (
    Option(
        "closed_loop", float, 0.0,
        "Share of the steps whose inputs are the network's own outputs of the step before, where the data have both.",
        least=0, most=1, group="Data",
    ),
    Option(
        "closed_loop_rise", int, 20, "Updates in which the share {closed_loop} rises from 0.", least=0, unit="updates",
        needs=(Need("closed_loop", unless=_no_loop),), group="Data",
    ),
    Option(
        "feedback", str, None,
        "For each output, the input that it is one step later, by name or by number from 1; 0 for none.",
        many=True, digits=True, group="Data", needs=(Need("closed_loop", unless=_no_loop),),
        otherwise="the columns that are inputs and targets; for arrays all inputs",
    ),
)  # fmt: skip
"""Options of training through the feedback."""


class NumberSequences(DataKind):
    """Sequences of numbers, scaled if the options ask for it. `data` holds them before that."""

    defaults: ClassVar[Mapping[str, Any]] = {"hidden": (96,)}
    suits = "arrays of sequences"
    standardizes: ClassVar[bool] = False
    """Whether such data are scaled, unless the option `standardize` is given."""

    def __init__(self, options: Mapping[str, Any], data: ArrayData) -> None:
        self._each_state = bool(options["learn_each_initial_state"])
        data = _numbered(data) if self._each_state else data
        self.name, self.source, self.sha256, self.data = data.name, data.source, data.sha256, data
        self.input_names, self.output_names = data.input_names, data.target_names
        self.burn_in = data.burn_in
        given = data.train.states is not None and not self._each_state
        self.state_width = data.train.states.shape[1] if given and data.train.states is not None else 0
        self._dtype, self._standardize = options["dtype"], options["standardize"]
        self.own_files = {part: own_files(options, part) for part in OTHER_PARTS}

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums of the data, and "yes" for symbols and for trials, which other files have to be as well."""
        marks = {"symbols": self.data.symbols, "trials": self.data.trials}
        return {**super().checksums, **{name: "yes" for name, holds in marks.items() if holds}}

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        if options["loss"] in (CLASS_SOFTMAX, "") or (options["loss"] != AUTO and not LOSSES[options["loss"]]):
            expected = "give auto, squared, gaussian, poisson, logistic or softmax"
            raise InputError(Message("{loss} is {0}: {1}", options["loss"], expected))
        return {**super().resolved(options), "standardize": _standardizes(options, cls.standardizes)}

    @classmethod
    def suited(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().suited(given), **(RECORDINGS if cls.always_cut or given.get("window") else {})}

    @property
    def chosen(self) -> dict[str, Any]:
        """How recordings are cut."""
        return {} if self.data.cut is None else self.data.cut.chosen

    @classmethod
    def advice(cls, options: Mapping[str, Any]) -> Message | None:
        smaller = "fewer {hidden!s} units or {l2!s}"
        if options["window"] is None or options["valid_blocks"]:
            return Message(f"try {smaller}")
        return Message(
            "the state is zero at the beginning of a window and may need more steps to settle; try a {burn_in} above "
            f"{{0}} and a {{window}} above {{1}}, then {smaller}", options["burn_in"], options["window"],
        )  # fmt: skip

    def prepare(self, earlier: Earlier | None = None) -> None:
        data = self.data
        if earlier is None:
            _check_targets(data)
        self.network = {"n_in": data.n_in, "n_out": data.n_out, "loss": data.loss}
        if self._each_state:
            self.network["recordings"] = data.train.sequences
        self.counts_errors = data.loss == "softmax"
        self.scaling = self._scaling(earlier)
        self._pool = self._ready(data.train)
        self.validation = None if data.valid is None else self._ready(data.valid)

    def pool(self, epoch: int) -> RaggedPool:
        return self._pool

    def part(self, name: str) -> RaggedPool:
        return self._ready(self._sequences(name))

    def plain_part(self, name: str) -> RaggedPool:
        found = self._sequences(name)
        return replace(found, states=None) if self._each_state else found  # scores begin with the state for all

    def lines(self) -> list[str | Message]:
        data, T = self.data, self._pool.longest
        short = " at most" if self._pool.ragged else ""
        sizes = f"{counted(data.train.lengths.size, 'sequence')} of{short} {counted(T, 'step')} to train on"
        valid = "none to validate" if data.valid is None else f"{data.valid.lengths.size:,} to validate"
        inputs = counted(data.n_in, "symbol" if data.symbols else "input") + _named(data.input_names)
        outputs = f"{data.n_out:,} classes" if self.counts_errors else counted(data.n_out, "output")
        lines: list[str | Message] = [f"data      {self.name}: {sizes}, {valid}"]
        lines.append(f"          {inputs}, {outputs}{_named(data.target_names)}")
        lines.append(f"loss      {data.loss}: {data.reason}")
        if data.cut is not None and data.cut.why:
            lines.append(f"burn-in   {counted(data.cut.burn_in, 'step')} not scored: {data.cut.why}")
        if self.scaling is not None:
            means = {"inputs": self.scaling.input_mean, "targets": self.scaling.target_mean}
            scaled = [what for what, mean in means.items() if mean is not None]
            lines.append(f"scaling   {' and '.join(scaled)} in units of their deviation in the training part")
        lines += [Message("hint      {0}", hint) for hint in self.hints()]
        return [*lines, *(f"          {note}" for note in data.notes)]

    def hints(self) -> list[str | Message]:
        return self._hints

    @cached_property
    def _hints(self) -> list[str | Message]:
        """The hints, which look at all numbers of the training part."""
        found: list[str | Message] = []
        if self.scaling is None and (why := self._unscaled()):
            found.append(Message("the data are not scaled, though {0}: consider {standardize:True}", why))
        if constant := self._constant():
            found.append(f"check the data: in the training part there is only one value of {constant}")
        train = self.data.train
        if self.counts_errors and train.y.ndim == 1 and self.data.n_out > _MANY:
            counts = slice(None) if train.w is None or train.last_only else train.w > 0
            distinct = len(set(train.y[counts].tolist()))
            if 2 * distinct < self.data.n_out:
                found.append(Message(
                    "the targets are whole numbers, {0:,} different ones, and are taken for {1:,} classes: if they are "
                    "quantities, give {loss:squared}", distinct, self.data.n_out,
                ))  # fmt: skip
        if self.data.loss == "logistic" and self.data.n_out > 2 and _one_hot(train):
            found.append(
                "the targets are one-hot: for exactly one class at each step, give its number in place of 0 and 1"
            )
        return found

    def errors(self, logits: NDArray[Any]) -> float:
        """Return the share of scored steps with a wrong class, given logits of shape (T, B, n_out)."""
        valid = self.data.valid
        assert valid is not None
        _, targets, weights, _ = valid
        classes = targets if targets.ndim == 2 else targets.argmax(axis=2)
        return float((logits.argmax(axis=2) != classes)[weights > 0].mean())

    def _sequences(self, name: str) -> RaggedPool:
        """Return the sequences of a part in the units of the data; raise InputError if there is no such part."""
        if name not in self.data.parts:
            raise InputError(f"{self.name} has no {name} part: use {' or '.join(self.data.parts)}")
        return self.data.parts[name]

    def _ready(self, sequences: RaggedPool) -> RaggedPool:
        """Return sequences as the network reads them: scaled, in the type of its numbers."""
        scaled = sequences if self.scaling is None else self.scaling.scale(sequences, self._dtype)
        return replace(scaled, dtype=self._dtype)

    def _scaling(self, earlier: Earlier | None) -> Scaling | None:
        """Return the scaling of an earlier run, or that of the training part; None if nothing is scaled."""
        from hfrnn.data.scaling import Scaling

        data = self.data
        scaling = None if earlier is None else earlier.scaling
        if earlier is None and self._standardize:
            scaling = Scaling.measure(data.train, targets=LOSSES[data.loss].scales_targets)
        if scaling is None or (scaling.input_mean is None and scaling.target_mean is None):
            return None
        means = (scaling.input_mean, data.n_in, "inputs"), (scaling.target_mean, data.n_out, "outputs")
        for mean, size, what in means:
            if mean is not None and len(mean) != size:
                raise InputError(
                    f"the scaling of {earlier and earlier.path} is for {len(mean)} {what}, and {data.name} has {size}: "
                    "give data of that kind, or another run"
                )
        return scaling

    def _unscaled(self) -> str | None:
        """Return what is unusual about real inputs or targets of the training part; None if nothing is."""
        from hfrnn.data.scaling import Scaling

        arrays = (self.data.train.x, self.data.train.y)
        if any(each.ndim == 2 and max(-float(each.min()), float(each.max())) > REASONABLE for each in arrays):
            return f"there are values above {REASONABLE:g}"
        scaling = Scaling.measure(self.data.train, targets=LOSSES[self.data.loss].scales_targets)
        inputs = ("an input", scaling.input_mean, scaling.input_deviation)
        for what, mean, deviation in (inputs, ("a target", scaling.target_mean, scaling.target_deviation)):
            if mean is not None and deviation is not None and (abs(mean) > FAR * deviation).any():
                return f"the mean of {what} is more than {FAR:g} deviations from 0"
        return None

    def _constant(self) -> str:
        """Return which real inputs and targets of the training part have one value only; "" if none has."""
        train = self.data.train
        inputs = _constant_columns("input", train.x, None, self.input_names)
        return " and ".join(filter(None, (inputs, _constant_columns("target", train.y, train.w, self.output_names))))


def windows_of(options: Mapping[str, Any]) -> Windows:
    """Return how the options of a run cut recordings."""
    from hfrnn.data.windows import Windows

    return Windows(options["window"], options["stride"], options["burn_in"], blocks=options["valid_blocks"])


def recording(inputs: Any, targets: Any, missing: Any, ahead: int, burn_in: int) -> tuple[Any, Any, Any]:
    """Return one recording as a sequence: inputs, targets and weights, time-major; None for what is not there.

    Inputs (steps, n_in) and targets (steps, n_out) predict `ahead` steps. Targets that are `missing`, (steps, n_out),
    and those of the first `burn_in` steps are not scored.
    """
    import numpy as np

    x = inputs.astype(np.float64)[:, None]
    if targets is None:
        return x, None, None
    known = np.zeros((len(x), 1, targets.shape[1]), dtype=bool)
    y = np.zeros(known.shape)
    reached = max(len(x) - ahead, 0)
    y[:reached, 0], known[:reached] = targets[ahead:], True
    if missing is not None:
        known[:reached, 0] &= ~missing[ahead:]
    known[:burn_in] = False
    return x, y, known.astype(np.float32)


def _standardizes(options: Mapping[str, Any], usual: bool) -> bool:
    """Return whether a run scales its data; one with `init_from` does what that run does.

    The weights of a file may be for other scales, so data are scaled only if asked for.
    """
    first, given = options["init_from"], options["standardize"]
    if first is not None and os.path.isfile(first):
        return bool(given)
    if first is None or not os.path.isfile(os.path.join(first, "config.toml")):  # opening the data says why
        return bool(usual if given is None else given)
    scales = os.path.isfile(os.path.join(first, "scaling.json"))
    if given not in (None, scales):
        raise InputError(Message(
            f"{{standardize:{given}}} was given, and the run {{0}} {{1}} its data: leave it out, because a run from "
            "its weights has its scaling", first, "scales" if scales else "does not scale",
        ))  # fmt: skip
    return scales


def _check_targets(data: ArrayData) -> None:
    """Raise InputError if the training part scores an output nowhere: nothing would train its weights."""
    known = None if data.train.w is None or data.train.w.ndim == 1 else (data.train.w > 0).any(axis=0)
    if known is None or known.all():
        return
    k = int(known.argmin())
    if data.target_names:
        name, advice = data.target_names[k], "leave it out of {targets}, or give other {fractions}"
    else:
        name, advice = f"output {k} (counted from 0) of {data.name}", "leave it out of y, or give other sequences"
    raise InputError(Message(f"{{0}} has no known target in the training part that is scored: {advice}", name))


def _one_hot(sequences: RaggedPool) -> bool:
    """Return whether exactly one target of every scored step is 1, and all others 0."""
    y, weights = sequences.y, sequences.w
    if weights is not None and not sequences.last_only:
        y = y[weights.reshape(len(weights), -1).min(axis=1) > 0]
    return bool(len(y) and (y.sum(axis=1) == 1).all() and ((y == 0) | (y == 1)).all())


def _constant_columns(what: str, values: NDArray[Any], weights: Any, names: tuple[str, ...]) -> str:
    """Name the columns of (rows, n) values that have one value where their weights are above 0; "" if none has."""
    import numpy as np

    if values.ndim == 1:
        return ""
    counts = True if weights is None else weights.reshape(len(weights), -1) > 0
    lowest = values.min(axis=0, initial=np.inf, where=counts)
    highest = values.max(axis=0, initial=-np.inf, where=counts)
    columns = np.flatnonzero(lowest == highest)
    listed = [names[k] if names else str(k) for k in columns[:_LISTED]]
    listed += [f"{len(columns) - _LISTED:,} more"] if len(columns) > _LISTED else []
    counted_from = "" if names else " (counted from 0)"
    return f"{what}{'' if len(columns) == 1 else 's'} {', '.join(listed)}{counted_from}" if listed else ""


def _named(names: tuple[str, ...]) -> str:
    """Return names in parentheses; nothing without names."""
    return f" ({', '.join(names)})" if names else ""


def slice_of(text: str | None, name: str) -> tuple[int | None, int | None]:
    """Return the first row and the end of a range `A:B`, which may leave one of them out."""
    if text is None:
        return None, None
    first, mark, end = text.partition(":")
    known = bool(mark) and len(text) <= 40 and all(each.isdecimal() or not each for each in (first, end))
    start, stop = (int(each) if known and each else None for each in (first, end))
    if not known or (start is not None and stop is not None and start >= stop):
        raise InputError(
            Message(f"{argument(name)} is {{0!r}}: give A:B with A below B, such as 0:1000 or 1000:", text)
        )
    return start, stop


def split_of(options: Mapping[str, Any]) -> Split:
    """Return how sequences are put into parts."""
    from hfrnn.data.splits import Split

    return Split(options["split"], options["split_seed"])


def parts_of_their_own(options: Mapping[str, Any]) -> list[str]:
    """Return which of the parts for validation and test have files, names or rows of their own."""
    return [part for part in OTHER_PARTS
            if any(options[name] is not None for name in (part, *(f"{part}_{each}" for each in _OWN)))]  # fmt: skip


def one_or_all(paths: Sequence[str]) -> str | tuple[str, ...] | None:
    """Return paths as the value of an option that takes one or several."""
    return paths[0] if len(paths) == 1 else tuple(paths) or None


def _numbered(data: ArrayData) -> ArrayData:
    """Return data whose training sequences name themselves as recordings with states of their own."""
    import numpy as np

    if any(part.states is not None for part in data.parts.values()):
        raise InputError(Message(
            "{learn_each_initial_state} was given, and {0} has initial states: leave one of them out", data.source
        ))  # fmt: skip
    return replace(data, train=replace(data.train, states=np.arange(data.train.sequences)))


def first_states(states: Sequence[Any]) -> Any:
    """Return the states before the first rows of recordings, (recordings, n); None if there are none."""
    import numpy as np

    return None if states[0] is None else np.stack([each[0] for each in states])


def reading_of(name: str, found: Sequence[tuple[Any, Any, Any]], times: Any = None, **more: Any) -> Reading:
    """Return the recordings of a file, each as `recording` returns it; several are padded to the longest with zeros.

    `times` are those of the only recording, and `more` other fields of the reading.
    """
    import numpy as np

    if len(found) == 1:
        return Reading(name, *found[0], recording=True, times=times, **more)
    lengths = np.array([len(x) for x, _, _ in found])

    def beside(arrays: Sequence[Any]) -> Any:  # (steps, 1, n) each
        if arrays[0] is None:
            return None
        padded = [np.pad(each, ((0, lengths.max() - len(each)), (0, 0), (0, 0))) for each in arrays]
        return np.concatenate(padded, axis=1)

    x, y, weights = map(beside, zip(*found, strict=True))
    return Reading(name, x, y, weights, lengths, **more)
