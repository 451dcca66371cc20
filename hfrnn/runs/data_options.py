"""The options of a run about its data."""

from __future__ import annotations

from dataclasses import dataclass

from hfrnn.names import LENGTH, LEVELS, LOSSES, STEPS_PER_BEAT
from hfrnn.runs import needs
from hfrnn.runs.declare import declaring

_data = declaring("Data")


@dataclass(frozen=True, init=False)
class DataOptions:
    """The fields of a run's configuration about its data, each with its declaration."""

    text: str | None = _data(None, "Text file to train on.")
    data: str | None = _data(
        None,
        "What to train on instead of a text: a corpus, task or music by name, a file of arrays (.npz, .npy, .mat), "
        "a table (.csv, .tsv) or a folder of MIDI files (.mid, .midi).",
        otherwise="python-manual",
    )
    level: str = _data("char", "What a symbol of the text is.", needs.TEXT, choices=LEVELS)
    min_count: int | None = _data(
        None, "Words that occur fewer times become <unk>, at level word.", needs.TEXT, needs.WORDS, least=1,
        otherwise="the corpus's own: 11 for text8, else 1",
    )  # fmt: skip
    max_vocabulary: int | None = _data(
        None, "Largest number of symbols, at level word; the rarest words become <unk>.", needs.TEXT, needs.WORDS,
        least=2,
    )  # fmt: skip
    valid: str | None = _data(None, "File to validate on, instead of a part of the text.", needs.TEXT)
    test: str | None = _data(None, "File to test on, instead of a part of the text.", needs.TEXT)
    fractions: tuple[float, ...] | None = _data(
        None, "Shares of the data for training, validation and test, in the order of the file, or of the names of "
        "MIDI files.", needs.FILE,
        otherwise="the corpus's own, else 0.9,0.1,0",
    )  # fmt: skip
    length: int = _data(LENGTH, "Length of the sequences of a synthetic task, in steps.", needs.TASK)
    sequences: int = _data(1000, "New sequences of a synthetic task in each epoch.", needs.TASK, least=1)
    sequence_length: int = _data(50, "Steps of a training sequence.", needs.SEQUENCES, needs.TEXT, least=1)
    unknown: str = _data(
        "skip",
        "What to do with symbols that are not in the vocabulary: error, skip, or a known symbol to replace them with. "
        "Words become <unk> where the vocabulary has it.",
        needs.TEXT, digits=True,
    )  # fmt: skip
    inputs: tuple[str, ...] | None = _data(
        None, "Columns of a table that the network reads, by name or by number from 1.", needs.TABLE, digits=True
    )
    targets: tuple[str, ...] | None = _data(
        None, "Columns of a table to predict, by name or by number; for --data FILE.npy, the .npy file of the targets.",
        needs.TABLE_OR_FILE, digits=True,
    )  # fmt: skip
    window: int | None = _data(
        None, "Steps of a window; cuts one recording, a table or an array (steps, n), into sequences.",
        needs.RECORDING, least=1, otherwise="200 for a table",
    )  # fmt: skip
    stride: int | None = _data(
        None, "Steps from the beginning of a training window to that of the next.", needs.RECORDING, needs.WINDOWS,
        least=1, otherwise="half of --window",
    )  # fmt: skip
    burn_in: int | None = _data(
        None, "Steps at the beginning of a window that are not scored, while the state settles.", needs.RECORDING,
        needs.WINDOWS, least=0, otherwise="a tenth of --window",
    )  # fmt: skip
    ahead: int | None = _data(
        None, "Rows from an input to the target that it predicts.", needs.TABLE, least=0,
        otherwise="1 if a column is an input and a target, else 0",
    )  # fmt: skip
    steps_per_beat: int = _data(
        STEPS_PER_BEAT, "Steps per beat, a quarter note, of piano rolls from MIDI files.", needs.MIDI, least=1
    )
    time_first: bool = _data(
        False, "Arrays are (steps, sequences, ...) instead of (sequences, steps, ...).", needs.ARRAYS
    )
    loss: str = _data(
        "auto",
        "Loss of arrays and tables; auto: softmax for classes, logistic for targets of 0 and 1, else squared.",
        needs.REAL, choices=LOSSES,
    )  # fmt: skip
    standardize: bool | None = _data(
        None,
        "Scale real inputs, and the targets of the squared loss, by their mean and deviation in the training part. "
        "Inputs of 0 and 1 are left as they are.",
        needs.REAL, otherwise="yes for a table, no for arrays",
    )  # fmt: skip
