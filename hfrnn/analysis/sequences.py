"""Sequences to score and to predict: those of a run's own data, or of a file with data of the same kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hfrnn.analysis.conditions import MOST_CONDITIONS, array_labels, at_last_step, by_condition
from hfrnn.analysis.initial_states import estimated
from hfrnn.analysis.linear_baseline import fit_linear
from hfrnn.analysis.linear_data import Block
from hfrnn.analysis.prediction import exists_in, parts_of, score, scored_rows
from hfrnn.analysis.scores import figures
from hfrnn.arrays.array_checks import is_array
from hfrnn.arrays.backend import Array, HostArray, get_backend
from hfrnn.data.kinds import FALLBACK, KINDS, kind_of_file
from hfrnn.data.kinds.data_kind import Pool, Reading
from hfrnn.data.kinds.number_sequences import NumberSequences
from hfrnn.data.kinds.table import Table
from hfrnn.data.named_arrays import open_holding
from hfrnn.data.scaling import Scaling
from hfrnn.data.tables import check_rates
from hfrnn.data.tasks import SUCCESS
from hfrnn.engine.batch import Batch, chosen_states
from hfrnn.engine.network import Network
from hfrnn.engine.objective import Objective
from hfrnn.engine.ragged_batch import RaggedBatch
from hfrnn.errors import HfrnnError, InputError, Message
from hfrnn.losses import LOSSES
from hfrnn.option import either, listed
from hfrnn.runs.config import TrainConfig
from hfrnn.runs.folder import RunFolder
from hfrnn.sources.open import Source, chosen_part, open_source
from hfrnn.wording import counted

NEW_SEQUENCES = 10_000
"""New sequences on which a run is scored whose data have no parts (docs/specification.md, section 9)."""
AT_ONCE = 1000
"""New sequences that are drawn at once."""
MOST_STEPS = 1_000_000
"""Scored steps of new sequences after which errors are measured on no more of them, so that they fit in memory."""

EACH = "sequence"
"""The name of conditions, beside those of columns and arrays, that stands for each sequence by its number."""


class Given(NamedTuple):
    """Sequences to predict, in the units of the data."""

    name: str  # what they are, for a person
    batch: Batch  # without targets if there are none
    scaling: Scaling | None  # that of the run
    recording: bool = False  # whether the batch is one recording, whose file has no axis of sequences
    input_names: tuple[str, ...] = ()  # columns of a table
    output_names: tuple[str, ...] = ()
    ahead: int = 0  # rows of a table from an input to the target that it predicts
    note: str | Message = ""  # why there are no targets
    washout: int = 0  # steps at the beginning of each sequence that are not scored
    state: str = "zeros"  # the states before the first steps: "zeros", "learned", "given" or "estimated"
    estimated_from: int = 0  # steps whose targets gave estimated states
    first: HostArray | None = None  # these targets of real values (steps, sequences, n_out), NaN where not known
    times: HostArray | None = None  # of the rows of a recording, (steps,); None if no column holds them
    conditions: HostArray | None = None  # strings, (sequences,) or (steps, sequences)
    notes: tuple[str, ...] = ()  # how events were read, and what was left out

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the outputs, for figures; None if they have none."""
        return self.output_names or None


def times_of_rows(times: HostArray, rows: HostArray) -> HostArray:
    """Return the times of rows, counted from 0; those after the last row follow at the usual distance."""
    beyond = np.maximum(rows - len(times) + 1, 0)
    usual = float(np.median(np.diff(times)))
    return np.asarray(times[np.minimum(rows, len(times) - 1)] + beyond * usual)


def own_sequences(folder: RunFolder, part: str | None = None, washout: int | None = None) -> Given:
    """Return the sequences of a part of a run's own data, "valid" by default; those of a task have no parts.

    The first `washout` steps of a sequence are not scored; by default this is the burn-in of the run.
    """
    return _own(folder.config(), folder, part, washout)[0]


def with_estimates(net: Network, theta: Array, given: Given, steps: int, washout: int = 0) -> Given:
    """Return sequences that begin with states estimated from the targets of their first steps.

    `given` has no washout, so that these targets are there. The first `washout` steps are then not scored.
    """
    batch, steps = estimated(net, theta, given.batch, steps, given.scaling), min(steps, given.batch.T)
    batch = _washed(batch, washout) if washout else batch
    first = _first_targets(given.batch, steps) if LOSSES[net.loss_name].real_values else None
    return given._replace(batch=batch, state="estimated", estimated_from=steps, first=first, washout=washout)


def _first_targets(batch: Batch, steps: int) -> HostArray:
    """Return the targets of the first steps of all sequences, (steps, sequences, n_out), NaN where not known."""
    found = []
    for block in blocks(batch):
        known = np.where(block.weights > 0, block.targets, np.nan)[:steps]
        found.append(np.pad(known, ((0, steps - len(known)), (0, 0), (0, 0)), constant_values=np.nan))
    return np.concatenate(found, axis=1)


def _own(
    config: TrainConfig, folder: RunFolder | None, part: str | None, washout: int | None = None, by: str | None = None
) -> tuple[Given, Source]:
    """Return the sequences of a part of a run's own data, and the data.

    Windows overlap by the washout, so that each step is scored once.
    """
    part, run = chosen_part(config, part, "valid"), "the run" if folder is None else folder.path
    if config.kind.in_bits:
        raise InputError(f"{run} was trained on {config.kind.about}: its network predicts symbols, see hfrnn evaluate")
    if config.kind.in_memory:
        raise InputError(
            f"the data of {run} were in the memory of a Python program, and are not stored: give a file ending in "
            f"{either(config.kind.reads)}"
        )
    cut = config.values.get("window") is not None
    if washout is not None and cut:
        if washout >= config.window:
            raise InputError(Message(
                "{washout} is {0:,}, and the windows of the run have {1}: give a smaller number, or a file, which is "
                "not cut", washout, counted(config.window, "step"),
            ))  # fmt: skip
        config = config.completed(burn_in=washout)
    source = open_source(config, folder)
    if not config.kind.has_parts:
        if washout:
            raise _no_sequences("{washout}", config)
        assert source.validation is not None
        return Given(f"validation sequences of {source.name}", source.validation, None, state=_start(config)), source
    batch = source.batch(source.plain_part(part))
    batch = _washed(batch, washout) if washout and not cut else batch
    names, begun = (source.input_names, source.output_names), source.burn_in if washout is None else washout
    found = Given(source.part_name(part), batch, source.scaling, False, *names, source.ahead, washout=begun)
    conditions = None if by in (None, EACH) else _own_conditions(source, config, part, by)
    return found._replace(state=_start(config, batch), conditions=conditions), source


def _no_sequences(option: str, config: TrainConfig) -> InputError:
    return InputError(Message(f"{option} was given, and {{0}} has no sequences of its own: leave it out", config.data))


def _start(config: TrainConfig, batch: Batch | None = None) -> str:
    """Return where sequences begin: "given" if their data say it for one of them, else "learned" or "zeros"."""
    each = bool(config.values.get("learn_each_initial_state"))
    state: Any = None if batch is None else batch.initial_state
    if state is not None and not each:
        return "zeros" if is_array(state) and np.isnan(state).all() else "given"  # rows of NaN stand for zeros
    return "learned" if config.learn_initial_state or each else "zeros"


def file_sequences(
    folder: RunFolder, net: Network, path: str, washout: int | None = None, by: str | None = None,
    rows: str | None = None,
) -> Given:  # fmt: skip
    """Return the sequences of a file of the same kind as the data of a run, perhaps without targets.

    A table, and an array of one recording, are not cut into windows. The first `washout` steps of a sequence are not
    scored; by default this is the burn-in of the run. Of a file with several parts, only `x`, `y`, `mask` and `lengths`
    are read; of each recording, the rows "A:B" if they are given.
    """
    config = folder.config()
    own = config.kind
    if not own.reads:
        raise InputError(
            f"{folder.path} was trained on {config.data or own.about}, which has no such files: leave {path} out"
        )
    if not path.lower().endswith(own.reads):
        kind = (kind_of_file(path) or KINDS[FALLBACK]).about
        raise InputError(
            f"{path} is {kind}, and {folder.path} was trained on {own.about}: give a file ending in {either(own.reads)}"
        )
    if rows is not None and not issubclass(own, NumberSequences):
        raise InputError(Message("{rows} was given, and {0} is {1}: it is for tables and arrays", path, own.about))
    versions = folder.versions()
    options = {**config.values, "by": by, "rows": rows, "trials": versions.get("trials") == "yes"}
    options |= {} if washout is None else {"burn_in": washout}
    if washout is not None and options.get("window") is not None:
        options["window"] = max(options["window"], washout + 1)  # a file is not cut
    read = own.read_file(options, path, net.n_out, net.loss_name)
    if read.inputs.ndim == 2 and versions.get("symbols") != "yes":
        raise InputError(
            f"the inputs of {path} are integers, which are symbols, and {folder.path} was trained on real values: give "
            "floats of shape (sequences, steps, n_in)"
        )
    check_rates([float(versions.get("step", 0)), read.step], path)
    targets = _counted_from_zero(read, int(versions.get("first_class", 0)), path)
    batch = Batch(read.inputs, targets, read.weights, read.lengths, read.initial_state)
    if washout and read.burn_in != washout and targets is not None:
        batch = _washed(batch, washout)
    labels = read.conditions
    if by is not None and labels is None:
        labels = array_labels([path], by)
        if len(labels) != batch.B:
            raise _as_many(by, len(labels), batch.B)
    names, begun = (read.input_names, read.output_names), washout or read.burn_in
    found = Given(read.name, batch, folder.scaling(), read.recording, *names, read.ahead, read.note, begun)
    return found._replace(state=_start(config, batch), times=read.times, conditions=labels, notes=read.notes)


def _washed(batch: Batch, steps: int) -> Batch:
    """Return a batch with weights of 0 at the first steps of each sequence."""
    if isinstance(batch, RaggedBatch) and not batch.pool.last_only:
        pool = batch.pool
        at, lengths = pool.rows(), pool.lengths
        place = np.arange(at.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        weights = np.ones(len(pool.y), np.float32) if pool.w is None else pool.w.copy()
        weights[at[place < steps]] = 0
        return RaggedBatch(replace(pool, w=weights), batch.numbers, batch.initial_state)
    batch = batch.padded()
    weights = np.ones((batch.T, batch.B)) if batch.weights is None else np.array(batch.weights)
    weights[:steps] = 0
    return Batch(batch.inputs, batch.targets, weights, batch.lengths, batch.initial_state)


def _counted_from_zero(read: Reading, first: int, path: str) -> HostArray | None:
    """Return classes of a file as they are counted in a run whose data begin with the class `first`."""
    if read.targets is None or not first or read.targets.ndim > 2:
        return read.targets
    assert read.weights is not None
    scored = read.weights > 0
    if (read.targets[scored] < first).any():
        raise InputError(f"{path} holds the class 0, and the classes of the run count from {first}: count from {first}")
    return np.where(scored, read.targets - first, 0)


def evaluate_sequences(
    net: Network, theta: Array, config: TrainConfig, part: str | None = None, folder: RunFolder | None = None,
    path: str | None = None, washout: int | None = None, by: str | None = None, estimate_state: int | None = None,
    rows: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the figures of a network that was trained on other data than a text.

    Without a path, the run's own data are scored: a part, "valid" by default, or 10,000 new sequences of a task. The
    figures are the name and size of the data, the loss (that of training, the mean over all scored steps), and those of
    `hfrnn.score`, of each output too, except for music. `left_out` counts the sequences of a file without a scored
    step, if there are any, and `notes` say how a table of events was read. A task also has `wrong`, the share of wrong
    answers, and `solved`, "yes" or "no". The folder is needed for a path, and if the run may scale its data.

    Other data also have `washout`, the steps at the beginning of each sequence that are not scored (by default
    the option `washout` of the run, or its burn-in), and `initial_state`, "zeros", "learned", "given" or "estimated".
    With `estimate_state`, the states are estimated from the targets of that many steps, `estimated_from`. By default
    every step is scored then, and windows of the own data do not overlap. `rows`, "A:B", are those
    of each recording of a file that are read. Real values have `baseline`: the `model`, a linear one that was fitted on
    the training part of the run, and its figures; with `estimate_state`, its state is estimated from the same targets.
    """
    net = net.without_penalty()
    _check_options(config, config.kind.scores_outputs, by, washout, estimate_state)
    washout = config.values.get("washout") if washout is None else washout
    cut = washout if estimate_state is None else 0
    if path is not None:
        assert folder is not None
        given = file_sequences(folder, net, path, cut, None if by == EACH else by, rows)
        if given.batch.targets is None:
            raise InputError(Message(
                "{0} has no targets to score ({1}): give them, or use hfrnn predict", path, given.note
            ))  # fmt: skip
        if estimate_state is not None:
            given = with_estimates(net, theta, given, estimate_state, washout or 0)
        if given.recording:
            _check_recording(given)
        given = _numbered(given, by)
        given, left_out = _scored_only(given)
        found = {"data": path, **_scores(net, theta, given, ("sequences", "loss"), outputs=True)}
        found |= {"left_out": left_out} if left_out else {}
        found |= {"notes": list(given.notes)} if given.notes else {}
        try:
            source = None if config.kind.in_memory else open_source(config, folder)
        except HfrnnError:
            source = None
        return {**found, **_beside(net, given, source), **_trials(net, theta, given, by)}
    part = chosen_part(config, part, "valid")
    if not config.kind.has_parts:
        return _figures_of_new_sequences(net, theta, open_source(config, folder), config.seed)
    given, source = _own(config, folder, part, cut, by)
    _check_options(config, source.scores_outputs, by, washout, estimate_state)  # a file of arrays may hold piano rolls
    if estimate_state is not None:
        given = with_estimates(net, theta, given, estimate_state, washout or 0)
    given = _numbered(given, by)
    what, *names = source.score_names
    own = source.own_files.get(part, ())
    data = own[0] if len(own) == 1 else list(own) or config.data
    found = {what: data, "part": part, **_scores(net, theta, given, names, outputs=source.scores_outputs)}
    if not source.scores_outputs:
        return found
    return {**found, **_beside(net, given, source), **_trials(net, theta, given, by)}


def _check_options(
    config: TrainConfig, scores_outputs: bool, by: str | None, washout: int | None, estimate_state: int | None
) -> None:
    """Raise InputError if an option was given that is not for these data."""
    if by is not None and not (config.kind.reads and scores_outputs):
        raise InputError(Message("{by} was given, and {0} has no trials with conditions: leave it out", config.data))
    for name, value in (("{washout}", washout), ("{estimate_state}", estimate_state)):
        if value is not None and not (config.kind.has_parts and scores_outputs):
            raise _no_sequences(name, config)


def _trials(net: Network, theta: Array, given: Given, by: str | None) -> dict[str, Any]:
    """Return the share of trials with the right class at their last scored step, and the figures of each condition."""

    def accuracy(batch: Batch) -> dict[str, Any]:
        if not net.head.integer_targets:
            return {}
        last = score(net, theta, at_last_step(batch), given.names, given.scaling)
        return {"trial_accuracy": last.overall["accuracy"]}

    def figures_of(batch: Batch) -> dict[str, Any]:
        found = score(net, theta, batch, given.names, given.scaling)
        return {"steps": found.steps, **found.overall, **accuracy(batch)}

    found = accuracy(given.batch)
    if by is None:
        return found
    assert given.conditions is not None
    most = given.batch.B if by == EACH else MOST_CONDITIONS
    return {**found, "by": by, "conditions": by_condition(given.conditions, given.batch, figures_of, most)}


def _numbered(given: Given, by: str | None) -> Given:
    """Return the sequences; if `by` asks for each alone, their conditions are their numbers, counted from 0."""
    return given._replace(conditions=np.arange(given.batch.B).astype(str)) if by == EACH else given


def _own_conditions(source: Source, config: TrainConfig, part: str, by: str) -> HostArray:
    """Return the condition of each sequence in a part of files of arrays, or of each step in the windows of tables."""
    values, own = config.values, part != "train"
    if issubclass(config.kind, Table):
        return np.asarray(config.kind.window_conditions(values, part, by))
    if source.burn_in or values["window"] is not None or (own and values[f"{part}_inputs"] is not None):
        raise InputError(Message(
            "{by} was given, and the sequences of this part are windows or arrays of other names: give a file, which "
            "is not cut"
        ))  # fmt: skip
    paths = (own and listed(values[part])) or listed(config.data)
    prefixed = own and not values[part] and open_holding(paths[0]).find(f"{part}_x") is not None
    pool, found = source.plain_part(part), array_labels(paths, f"{part}_{by}" if prefixed else by)
    numbers = np.arange(pool.sequences) if pool.origin is None else pool.origin
    if numbers.max() >= len(found) or (pool.origin is None and len(found) != numbers.size):
        raise _as_many(by, len(found), pool.sequences)
    return np.asarray(found[numbers])


def _as_many(by: str, given: int, sequences: int) -> InputError:
    return InputError(Message(
        "{by} is {0}, which holds {1:,} values, and there are {2:,} sequences: give one value for each", by, given,
        sequences,
    ))  # fmt: skip


def _beside(net: Network, given: Given, source: Source | None) -> dict[str, Any]:
    """Return how the scored sequences begin, and the linear baseline for real values.

    `source` holds the data of the run, if they can be read.
    """
    found: dict[str, Any] = {"washout": given.washout, "initial_state": given.state}
    if given.estimated_from:
        found["estimated_from"] = given.estimated_from
    if not LOSSES[net.loss_name].real_values or given.batch.symbols:
        return found
    if source is None:
        return {**found, "baseline": {"model": None, "reason": "the training part of the run cannot be read"}}
    train = blocks(source.batch(source.plain_part("train")))
    valid = None if source.validation is None else blocks(source.batch(source.plain_part("valid")))
    model = fit_linear(train, valid)
    if model is None:
        reason = "the training part is too short for one, or has too many inputs"
        return {**found, "baseline": {"model": None, "reason": reason}}
    rows, start = [], 0
    for part in parts_of(given.batch):
        first = None if given.first is None else given.first[:, start : start + part.B]
        rows.append(scored_rows(model.simulate(np.asarray(part.inputs), first), part))
        start += part.B
    z, y, w = (np.concatenate(each) for each in zip(*rows, strict=True))
    if not np.isfinite(z).all():
        return {**found, "baseline": {"model": None, "reason": f"its simulation is unstable ({model})"}}
    return {**found, "baseline": {"model": str(model), **figures("squared", z, y, w, given.names).to_json()}}


def blocks(batch: Batch) -> Iterator[Block]:
    """Yield the sequences of a batch for a linear baseline. Each input of the padding is the mean of that input."""
    numpy = get_backend("numpy")
    for part in parts_of(batch):
        x, y, exists = np.asarray(part.inputs), np.asarray(part.targets, np.float64), exists_in(part)[:, :, None]
        x = np.where(exists, x, x.mean(axis=(0, 1), where=exists))
        yield Block(x, y, np.broadcast_to(part.output_weights(numpy), y.shape))


def _scores(net: Network, theta: Array, given: Given, names: Any, outputs: bool) -> dict[str, Any]:
    """Return the size of some sequences, their loss and their figures; `names` are those of the first two."""
    if given.washout >= given.batch.T:
        raise InputError(Message(
            "{washout!s} is {0:,}, and the longest sequence has {1}: give a smaller number", given.washout,
            counted(given.batch.T, "step"),
        ))  # fmt: skip
    found = score(net, theta, given.batch, given.names, given.scaling)
    size, batch = given.batch.B, scaled(given)
    loss = Objective(net, batch.by_length()).loss(theta) if isinstance(batch, RaggedBatch) else net.loss(theta, batch)
    return {names[0]: size, names[1]: loss, **(found.to_json() if outputs else found.overall)}


def _scored_only(given: Given) -> tuple[Given, int]:
    """Return the sequences of a file that have a scored step, if any has one, and the number of the others."""
    batch = given.batch
    weights = np.asarray(batch.output_weights(get_backend("numpy")))
    scored = (weights > 0).any(axis=(0, 2))
    if scored.all() or not scored.any():
        return given, 0
    targets, mask = (None if x is None else x[:, scored] for x in (batch.targets, batch.weights))
    lengths = None if batch.lengths is None else batch.lengths[scored]
    labels = None if given.conditions is None else given.conditions[..., scored]
    state = chosen_states(batch.initial_state, scored)
    batch = Batch(batch.inputs[:, scored], targets, mask, lengths, state)
    first = None if given.first is None else given.first[:, scored]
    return given._replace(batch=batch, conditions=labels, first=first), int((~scored).sum())


def _check_recording(given: Given) -> None:
    """Raise InputError unless a recording has a target after the burn-in."""
    if np.any(given.batch.weights):
        return
    has, begun = f"{given.name} has {counted(given.batch.T, 'row')}", given.washout
    burn_in = f"and the first {begun:,} {'is' if begun == 1 else 'are'} not scored"
    if begun + given.ahead < given.batch.T:
        raise InputError(f"{has}{f', {burn_in}' if begun else ''}, and no other target is known: give targets")
    ahead = f"; a target is {counted(given.ahead, 'row')} after its input" if given.ahead else ""
    fewer = ", or a smaller {washout!s}" if begun else ""
    raise InputError(Message("{0}, {1}{2}: give more rows" + fewer, has, burn_in, ahead))


def scaled(given: Given) -> Batch:
    """Return sequences as the network reads and learns them."""
    batch, scaling = given.batch, given.scaling
    if scaling is None:
        return batch
    if isinstance(batch, RaggedBatch):
        return RaggedBatch(scaling.scale(batch.pool), batch.numbers, batch.initial_state)
    x, y = np.asarray(batch.inputs), np.asarray(batch.targets)
    x, y = scaling.scale_inputs(x) if x.ndim == 3 else x, scaling.scale_targets(y) if y.ndim == 3 else y
    return Batch(x, y, batch.weights, batch.lengths, batch.initial_state)


def _figures_of_new_sequences(net: Network, theta: Array, source: Source, seed: int) -> dict[str, Any]:
    """Return the figures of real or binary answers on new sequences, and the share of wrong ones if they are known."""
    rng, wrong, losses, count = np.random.default_rng([2, seed]), 0, 0.0, 0
    rows: list[tuple[HostArray, HostArray, HostArray]] = []
    while count < NEW_SEQUENCES:
        asked = min(NEW_SEQUENCES - count, AT_ONCE)
        drawn: Pool = source.drawn(asked, rng)
        batch, size = Batch(*drawn), drawn.inputs.shape[1]
        losses += net.loss(theta, batch) * size
        outputs = net.backend.to_host(net.run(theta, batch)[0])
        if source.counts_errors:
            wrong += int(source.wrong(outputs, drawn).sum())
        if not net.head.integer_targets and sum(len(z) for z, _, _ in rows) < MOST_STEPS:
            rows.append(scored_rows(outputs, batch))
        count += size
        if size < asked:  # there are no others
            break
    what, sequences, loss = source.score_names
    found: dict[str, Any] = {what: source.name, sequences: count, loss: losses / count}
    if source.counts_errors:
        found |= {"wrong": wrong / count, "solved": "yes" if wrong / count < SUCCESS else "no"}
    if rows:
        z, y, w = (np.concatenate(each) for each in zip(*rows, strict=True))
        found |= figures(net.loss_name, z, y, w).overall
    return found
