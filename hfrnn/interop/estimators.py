"""Estimators with scikit-learn's interface: `fit`, `predict` and `score` on sequences.

X is one recording, an array or a DataFrame (steps, n_in); or sequences, an array (sequences, steps, n_in) or a list of
recordings. y has a target for each step, or, for sequences, one for each sequence: the last step is scored then.

scikit-learn is imported with this file, which `hfrnn` imports when an estimator is first used.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hfrnn.analysis.prediction import predict
from hfrnn.checks import BELOW_ONE, count, instance, number, shown
from hfrnn.data.sheets import frame_of
from hfrnn.data.windows import window_starts
from hfrnn.engine.batch import Batch
from hfrnn.errors import InputError, MissingExtraError, how_to_install
from hfrnn.runs.load import load_scaling
from hfrnn.training.trainer import train

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.metrics import accuracy_score, r2_score
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
except ImportError:
    check_random_state = None
    BaseEstimator, ClassifierMixin, RegressorMixin = (
        type(name, (), {}) for name in ("Base", "Classifier", "Regressor")
    )

Values = NDArray[Any]
OWN = ("window", "burn_in", "validation_fraction", "random_state", "options")
"""Arguments of an estimator that are no options of `hfrnn.train`, or have another meaning."""
WINDOW = 200
"""Steps of a window of sequences, and of a recording with classes, by default."""
LEAST_VALIDATION = 10
"""Rows of a recording below which nothing is left out to validate on."""


class Sequences(NamedTuple):
    """Sequences one after another: all rows (steps of all, n), and the steps of each.

    `form` says how they were given: "recording", "array" or "list".
    """

    rows: Values
    lengths: list[int]
    form: str

    def split(self, values: Values) -> list[Values]:
        """Return values (steps of all, ...) as an array for each sequence."""
        return np.split(values, np.cumsum(self.lengths)[:-1])

    def as_given(self, values: Values) -> Any:
        """Return values (steps of all, ...) in the form in which the sequences were given."""
        if self.form == "recording":
            return values
        found = self.split(values)
        return np.stack(found) if self.form == "array" else found


def as_sequences(X: Any) -> Sequences:
    """Return the rows of a recording or of sequences; they are not checked, but all have as many columns."""
    if isinstance(X, list | tuple) and X and all(getattr(each, "ndim", 0) == 2 for each in X):
        widths = {each.shape[1] for each in X}
        if len(widths) > 1 or any(not each.shape[0] for each in X):
            shapes = ", ".join(map(str, [each.shape for each in X][:4]))
            raise InputError(
                f"X holds sequences of shapes {shapes}, ...: give (steps, n), one step or more, the same n"
            )
        rows = np.concatenate([np.asarray(each) for each in X])
        return Sequences(rows, [each.shape[0] for each in X], "list")
    if getattr(X, "ndim", 0) == 3:
        array = np.asarray(X)
        if not array.size:
            raise InputError(f"X has shape {array.shape}, which holds nothing: give sequences")
        return Sequences(array.reshape(-1, array.shape[2]), [array.shape[1]] * len(array), "array")
    return Sequences(X, [], "recording")


class SequenceEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators have in common: options, sequences, training and predictions."""

    def __init__(
        self, arch: str = "lstm", hidden: int | Sequence[int] = 32, *, optimizer: str = "hf", updates: int | None = 50,
        minutes: float | None = None, patience: int | None = None, l2: float | None = None, window: int | None = None,
        burn_in: int | None = None, standardize: bool = True, validation_fraction: float = 0.1,
        dtype: str = "float32", backend: str = "auto", threads: int | None = None, random_state: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if check_random_state is None:
            raise MissingExtraError(f"scikit-learn is not installed: {how_to_install('sklearn')}")
        self.arch, self.hidden, self.optimizer = arch, hidden, optimizer
        self.updates, self.minutes, self.patience, self.l2 = updates, minutes, patience, l2
        self.window, self.burn_in, self.standardize = window, burn_in, standardize
        self.validation_fraction = validation_fraction
        self.dtype, self.backend, self.threads = dtype, backend, threads
        self.random_state, self.options = random_state, options

    def fit(self, X: Any, y: Any) -> Any:
        """Train a network on sequences.

        Parameters
        ----------
        X : (steps, n_in) array or DataFrame, (sequences, steps, n_in) array, or list of (steps, n_in)
            One recording, or sequences.
        y : array, DataFrame, or list of arrays
            Targets of each step: (steps,) or (steps, n_out) for a recording, and the same for each sequence in a list,
            or (sequences, steps, n_out); or one target for each sequence: (sequences,) or (sequences, n_out).

        Returns
        -------
        self

        Raises
        ------
        InputError
            X and y do not fit each other, or an argument is wrong.
        NonFiniteError
            The loss is no longer finite.
        """
        sequences = self._read(X, y, reset=True)
        targets, self.last_step_ = self._targets(sequences, y)
        random = check_random_state(self.random_state)
        encoded = self._encoded(targets)
        by_memory = sequences.form == "recording" and self.window is None and self._loss == "squared"
        data = self._recording(sequences.rows, encoded) if by_memory else self._parts(sequences, encoded, random)
        instance("options", self.options, Mapping, "a dict of options of hfrnn.train", or_none=True)
        own = {name: value for name, value in self.get_params().items() if name not in OWN}
        given = {**own, "loss": self._loss, "seed": int(random.randint(2**31 - 1)), **(self.options or {})}
        with tempfile.TemporaryDirectory(prefix="hfrnn-") as folder:
            run = Path(folder) / "run"
            result = train(progress=False, **{**data, "out": run, **given})
            self.scaling_ = load_scaling(result.folder)
            self.log_ = result.log
        self.network_, self.weights_, self.n_iter_ = result.net, result.theta, result.summary["updates"]
        return self

    def _read(self, X: Any, y: Any = None, *, reset: bool = False) -> Sequences:
        """Return checked sequences; with `reset`, those to train on."""
        found = as_sequences(X)
        least = 2 if reset and found.form == "recording" else 1
        how = {"reset": reset, "dtype": [np.float64, np.float32], "ensure_min_samples": least}
        if found.form != "recording":
            return found._replace(rows=validate_data(self, found.rows, **how))
        if reset:
            rows, _ = validate_data(self, X, y, multi_output=True, **how)
        else:
            rows = validate_data(self, X, **how)
        return Sequences(rows, [len(rows)], found.form)

    def _targets(self, sequences: Sequences, y: Any) -> tuple[Values, bool]:
        """Return targets (steps of all, ...) and False, or one for each sequence (sequences, ...) and True."""
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        last_step = False
        listed = isinstance(y, list | tuple) and len(y) > 0 and all(hasattr(each, "__len__") for each in y)
        if listed and not isinstance(y[0], str) and sequences.form != "recording":
            steps = [len(each) for each in y]
            if steps != sequences.lengths:
                raise InputError(
                    f"y holds {len(y)} sequences of {shown(steps[:4])}, ... steps, and X {len(sequences.lengths)} of "
                    f"{shown(sequences.lengths[:4])}, ...: give as many"
                )
            found = np.concatenate([np.asarray(each) for each in y])
        else:
            found = np.asarray(y)
            N, T, several = len(sequences.lengths), sequences.lengths[0], sequences.form != "recording"
            if several and len(found) != N:
                raise InputError(f"y has shape {found.shape}, and X holds {N} sequences: give targets of each")
            at_steps = several and sequences.lengths == [T] * N and found.shape[:2] == (N, T)
            if at_steps and (found.ndim == 3 or (sequences.form == "array" and self._at_each_step(T))):
                found = found.reshape(N * T, *found.shape[2:])
            else:
                last_step = several
        if found.ndim not in (1, 2):
            raise InputError(f"y has shape {found.shape}: give a target, or (n_out) targets, at each step or sequence")
        return self._checked(found), last_step

    def _recording(self, x: Values, y: Values) -> dict[str, Any]:
        """Return the options to train on a recording as on a table: its memory says how it is cut."""
        share = number("validation_fraction", self.validation_fraction, BELOW_ONE)
        share = share if round(share * len(x)) >= LEAST_VALIDATION else 0.0
        names = [[f"{role}{n}" for n in range(values.shape[1])] for role, values in (("x", x), ("y", y))]
        table = frame_of(dict(zip([*names[0], *names[1]], np.concatenate([x, y], axis=1).T, strict=True)))
        return {"data": table, "inputs": names[0], "targets": names[1], "burn_in": self.burn_in,
                "fractions": (1 - share, share, 0.0)}  # fmt: skip

    def _parts(self, sequences: Sequences, targets: Values, random: Any) -> dict[str, Any]:
        """Return the options to train on arrays, cut into those to train and to validate on."""
        share = number("validation_fraction", self.validation_fraction, BELOW_ONE)
        x, N = sequences.split(sequences.rows), len(sequences.lengths)
        y = list(targets) if self.last_step_ else sequences.split(targets)
        if N == 1 and not self.last_step_:
            edge = len(x[0]) - round(share * len(x[0]))
            edge = len(x[0]) if len(x[0]) - edge <= self._cut()[1] else edge
            parts = {"": ([x[0][:edge]], [y[0][:edge]]), "valid_": ([x[0][edge:]], [y[0][edge:]])}
        else:
            order = random.permutation(N)
            chosen = {"valid_": order[: int(share * N)], "": order[int(share * N) :]}
            parts = {part: ([x[k] for k in each], [y[k] for k in each]) for part, each in chosen.items()}
        found: dict[str, Any] = {}
        for part, (inputs, outputs) in parts.items():
            if inputs and len(inputs[0]):
                arrays = self._arrays(inputs, outputs, part, later=N == 1 and part != "")
                found |= {f"{part}{role}": each for role, each in arrays.items()}
        return {"data": found}

    def _cut(self) -> tuple[int, int]:
        """Return the steps of a window, and those at its beginning that are not scored."""
        window = count("window", WINDOW if self.window is None else self.window, 1)
        burn_in = count("burn_in", self.burn_in, or_none=True)
        burn_in = window // 10 if burn_in is None else burn_in
        if burn_in >= window:
            raise InputError(f"burn_in is {burn_in}, and window is {window}: give a burn_in below it")
        return window, burn_in

    def _arrays(self, x: list[Values], y: list[Values], part: str, later: bool) -> dict[str, Any]:
        """Return x, y and mask of one part; sequences with targets at every step are cut into windows.

        `later` says that the only sequence is the end of a recording.
        """
        if self.last_step_ and not y[0].ndim:
            return {"x": x, "y": np.stack(y)}
        if self.last_step_:  # (sequences, n_out) might also be one target at each of n_out steps
            ends = [np.arange(len(one)) == len(one) - 1 for one in x]
            outputs = [np.where(end[:, None], targets, 0.0) for end, targets in zip(ends, y, strict=True)]
            return {"x": x, "y": outputs, "mask": [end.astype(np.float32) for end in ends]}
        window, burn_in = self._cut()
        inputs, outputs, masks = [], [], []
        for one, targets in zip(x, y, strict=True):
            for begin in window_starts(len(one), window, window - burn_in, 0, not part):
                rows = slice(begin, begin + window)
                mask = np.ones(len(one[rows]), np.float32)
                mask[: burn_in if begin or later else 0] = 0  # a whole sequence does begin with a state of zero
                if mask.any():
                    inputs.append(one[rows])
                    outputs.append(targets[rows])
                    masks.append(mask)
        return {"x": inputs, "y": outputs, "mask": masks}

    def _outputs(self, X: Any) -> tuple[Sequences, Values]:
        """Return sequences, and the outputs at each of their steps (steps of all, n_out), or of each sequence."""
        check_is_fitted(self, "network_")
        sequences = self._read(X)
        if self.last_step_ and sequences.form == "recording":
            raise InputError(
                f"X is one recording, and {type(self).__name__} was fitted to one target for each sequence: give a "
                "list of sequences, or an array (sequences, steps, n)"
            )
        lengths = np.array(sequences.lengths)
        inputs = np.zeros((lengths.max(), len(lengths), sequences.rows.shape[1]))
        for n, each in enumerate(sequences.split(sequences.rows)):
            inputs[: len(each), n] = each
        found = predict(self.network_, self.weights_, Batch(inputs, lengths=lengths), scaling=self.scaling_).outputs
        if self.last_step_:
            return sequences, found[lengths - 1, np.arange(len(lengths))]
        return sequences, np.concatenate([found[:steps, n] for n, steps in enumerate(lengths)])

    def _as_given(self, sequences: Sequences, values: Values) -> Any:
        return values if self.last_step_ else sequences.as_given(values)

    def _flat(self, X: Any, y: Any) -> tuple[Values, Values]:
        """Return the targets and the predictions of all steps, or of all sequences."""
        sequences, outputs = self._outputs(X)
        targets, _ = self._targets(sequences, y)
        if len(targets) != len(outputs):
            raise InputError(f"y has {len(targets)} targets, and there are {len(outputs)} predictions: give as many")
        return targets, self._decoded(outputs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class SequenceRegressor(RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """A recurrent network that predicts numbers, with scikit-learn's interface.

    Parameters
    ----------
    arch, hidden, optimizer, updates, minutes, patience, l2, standardize, dtype, backend, threads
        Options of `hfrnn.train`.
    window, burn_in : int, optional
        A sequence with a target at each step is cut into windows of so many steps (200 by default). The first `burn_in`
        steps of a window (by default a tenth) are not scored, except at the beginning of a sequence. Without `window`,
        a single recording of real targets is cut as `hfrnn.train` cuts tables: by the memory that linear models show.
    validation_fraction : float
        Share of the sequences that chooses the best weights; of a single recording, its last part, or blocks of a short
        one. 0 for none: the lowest training loss chooses then.
    random_state : int, RandomState or None
        Draws the initial weights and the sequences for validation.
    options : dict, optional
        More options of `hfrnn.train` by name, which override the others; `out` keeps the run folder.

    Attributes
    ----------
    network_, weights_ : Network and its parameters
        What `hfrnn.predict` takes.
    scaling_ : Scaling or None
        The scaling of inputs and targets.
    log_ : list of dict
        The records of all updates.
    n_iter_ : int
        The number of updates.
    n_features_in_ : int
        The number of inputs of a step.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> rng = np.random.default_rng(0)
    >>> X = [rng.normal(size=(steps, 1)) for steps in (20, 25, 30)]
    >>> y = [np.cumsum(x, axis=0)[:, 0] for x in X]
    >>> model = hfrnn.SequenceRegressor("rnn", 8, updates=10, random_state=0).fit(X, y)
    >>> [each.shape for each in model.predict(X)]
    [(20,), (25,), (30,)]
    """

    _loss = "squared"

    def predict(self, X: Any) -> Any:
        """Predict the targets.

        Parameters
        ----------
        X : as for `fit`
            The state of the network is zero before the first step of each sequence.

        Returns
        -------
        array or list of arrays
            In the form of X: for each step, or for each sequence if that was fitted.
        """
        sequences, outputs = self._outputs(X)
        return self._as_given(sequences, self._decoded(outputs))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R2 of the predictions of all steps, or of all sequences."""
        return float(r2_score(*self._flat(X, y), sample_weight=sample_weight))

    def _at_each_step(self, steps: int) -> bool:
        if steps == 1:
            return True
        raise InputError(
            f"y is one value at each of {steps} steps or {steps} values for each sequence: give (sequences, steps, 1), "
            "or a list of arrays"
        )

    def _checked(self, y: Values) -> Values:
        found: Values = check_array(y, ensure_2d=False, dtype="numeric", input_name="y").astype(np.float64)
        return found

    def _encoded(self, y: Values) -> Values:
        self._columns = None if y.ndim == 1 else y.shape[1]
        return y[:, None] if y.ndim == 1 else y

    def _decoded(self, outputs: Values) -> Values:
        return outputs[:, 0] if self._columns is None else outputs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class SequenceClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """A recurrent network that predicts classes, of each step or of each sequence, with scikit-learn's interface.

    Parameters and attributes are those of `SequenceRegressor`.

    Attributes
    ----------
    classes_ : array
        The labels of the classes, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> import hfrnn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 10, 1))
    >>> y = np.where(X.sum(axis=(1, 2)) > 0, "up", "down")  # one class for each sequence
    >>> model = hfrnn.SequenceClassifier("rnn", 8, updates=15, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape, model.score(X, y) > 0.8
    ((40, 2), True)
    """

    _loss = "softmax"

    def predict(self, X: Any) -> Any:
        """Predict the classes; X and the result are as for `SequenceRegressor.predict`."""
        sequences, outputs = self._outputs(X)
        return self._as_given(sequences, self._decoded(outputs))

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes, (n_classes,) for each step or sequence, in the form of X.

        The network lacks the last classes if no scored step has them: their probability is 0.
        """
        sequences, outputs = self._outputs(X)
        outputs = np.pad(outputs, ((0, 0), (0, len(self.classes_) - outputs.shape[1])))
        return self._as_given(sequences, outputs / outputs.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of steps, or of sequences, whose class is right."""
        return float(accuracy_score(*self._flat(X, y), sample_weight=sample_weight))

    def _at_each_step(self, steps: int) -> bool:
        return True

    def _checked(self, y: Values) -> Values:
        if y.ndim == 2 and y.shape[1] > 1:
            raise InputError(f"y has shape {y.shape}: give one class for each step or sequence")
        found: Values = column_or_1d(y, warn=True)
        check_classification_targets(found)
        return found

    def _encoded(self, y: Values) -> Values:
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y holds only one class, {shown(self.classes_[0])}: give two or more")
        return codes.astype(np.int64)

    def _decoded(self, outputs: Values) -> Values:
        found: Values = self.classes_[outputs.argmax(axis=1)]
        return found
