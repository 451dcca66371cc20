"""A synthetic task: new sequences in every epoch, and others for validation; or all of them, if they are few."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.choices import DYNAMICS, LENGTH
from hfrnn.data.kinds.data_kind import DataKind, Earlier, Pool, epoch_generator, refuse
from hfrnn.errors import InputError, Message
from hfrnn.option import Need, Option
from hfrnn.wording import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hfrnn.data.tasks import Task

VALIDATION_SEQUENCES = 1000
"""Number of validation sequences of a synthetic task. They are the same in every run."""

LAG = Option("length", int, LENGTH, "Length of the sequences of a synthetic task, in steps.", group="Data")
SEQUENCES = Option("sequences", int, 1000, "New sequences of a synthetic task in each epoch.", least=1, group="Data")
SHORTEST = Option(
    "shortest", int, None,
    "Smallest length of the training sequences of a synthetic task; the length of each is drawn between this and "
    "{length}. Validation sequences have the length {length}.",
    least=1, group="Data", otherwise="{length}",
)  # fmt: skip


def _one_length(chosen: Any) -> Message | None:
    return Message("{shortest} was not: it is for lengths that differ") if chosen.shortest is None else None


RISE = Option(
    "length_rise", int, 0,
    "Epochs in which the largest length of the training sequences rises from {shortest} to {length}",
    least=1, unit="epochs", group="Data", zero="for none", needs=(Need("shortest", unless=_one_length),),
)  # fmt: skip


class SyntheticTask(DataKind):
    """A synthetic task with `count` sequences in an epoch, which have lengths from `shortest` to that of the task.

    In the first `rise` epochs, the largest length rises from `shortest` to that of the task.
    """

    about = "a synthetic task"
    named = "tasks"
    options = (LAG, SHORTEST, RISE, SEQUENCES)
    preset = "task"
    defaults: ClassVar[Mapping[str, Any]] = {"arch": "rnn", "hidden": (100,)}
    suits = "tasks"
    first_weights: ClassVar[Mapping[str, Any]] = {
        "initializer": "sutskever", "spectral_radius": 1.0, "input_scale": 0.1,
    }  # fmt: skip
    weights_suit = "an rnn on long lags"
    has_parts = False
    score_names = ("task", "sequences", "loss")
    unit = "answer"
    fresh = counts_errors = ends_by_success = True

    def __init__(self, task: Task, count: int, seed: int, shortest: int | None = None, rise: int = 0) -> None:
        self.name = self.source = task.name
        self.shortest, self.rise = shortest, rise
        self.task, self.count, self.seed, self.length = task, count, seed, task.length
        self.network = {"n_in": task.n_in, "n_out": task.n_out, "loss": task.loss}

    @classmethod
    def names(cls) -> tuple[str, ...]:
        from hfrnn.data.tasks import tasks

        return tasks()

    @classmethod
    def suited(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Suggest an `rnn`, and its first weights for long time lags, which it does not learn from the general ones."""
        found = {} if "arch" in given else dict(cls.defaults)
        usual = given.get("arch", cls.defaults["arch"]) == cls.defaults["arch"]
        of_weights = any(given.get(name) is not None for name in ("initializer", "init_scale", "init_from"))
        if given["data"] not in DYNAMICS and usual and not of_weights:
            found |= cls.first_weights
        return found

    @classmethod
    def preset_for(cls, options: Mapping[str, Any]) -> str:
        """Return "arrays" for a task with a target at every step."""
        return "arrays" if options["data"] in DYNAMICS else cls.preset

    @classmethod
    def loss_name(cls, options: Mapping[str, Any]) -> str:
        return "the task's loss"

    @classmethod
    def open(cls, options: Mapping[str, Any], given: Any = None) -> SyntheticTask:
        from hfrnn.data.tasks import make_task

        task = make_task(options["data"], options["length"])
        if task.fixed_count:
            why = f"the task {task.name} has {task.fixed_count} sequences, all in every epoch"
            refuse(options, (SEQUENCES, SHORTEST, RISE), why)
        shortest = options["shortest"]
        if shortest is not None:
            make_task(task.name, shortest)
            if shortest > task.length:
                raise InputError(Message(
                    "{shortest} is {0} with a {length} of {1}: it must be at most that", shortest, task.length
                ))  # fmt: skip
        return cls(task, options["sequences"], options["seed"], shortest, options["length_rise"])

    def prepare(self, earlier: Earlier | None = None) -> None:
        self.validation = self.drawn(VALIDATION_SEQUENCES, epoch_generator(self.seed, -1))

    def pool(self, epoch: int) -> Pool:
        from hfrnn.data.tasks import mixed_sequences

        rng = epoch_generator(self.seed, epoch)
        if self.shortest is None:
            return self.drawn(self.count, rng)
        risen = 1.0 if not self.rise else min((epoch + 1) / self.rise, 1.0)
        longest = self.shortest + round(risen * (self.length - self.shortest))
        return Pool(*mixed_sequences(self.task, self.shortest, self.count, rng, longest))

    def drawn(self, count: int, rng: np.random.Generator) -> Pool:
        return Pool(*self.task.sequences(count, rng))

    def wrong(self, logits: NDArray[Any], sequences: Pool) -> NDArray[np.bool_]:
        import numpy as np

        from hfrnn.data.tasks import TaskSequences

        return self.task.wrong(logits, TaskSequences(*map(np.asarray, sequences)))

    def lines(self) -> list[str]:
        assert self.validation is not None
        begin = f"task      {self.name}, length {self.task.length}:"
        if all_of_them := self.task.fixed_count:
            return [f"{begin} all {all_of_them:,} sequences in every epoch", "          the same ones to validate"]
        new = f"{begin} {counted(self.count, 'new sequence')} an epoch"
        if self.shortest is not None:
            new += f", of lengths from {self.shortest}"
        return [new, f"          {self.validation.inputs.shape[1]:,} others to validate"]
