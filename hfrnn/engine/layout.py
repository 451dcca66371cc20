"""The layout of a network: its layers, head, parameter names, sizes and initial values. It holds no arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from hfrnn.arrays.array_checks import array, is_array, type_name
from hfrnn.arrays.backend import Array, Buffers, get_backend, host_copy
from hfrnn.arrays.initializers import Initializer, constant, fixed_fan_in, normal, orthogonal, with_spectral_radius
from hfrnn.arrays.parameters import ParameterLayout
from hfrnn.checks import NOT_NEGATIVE, POSITIVE, choice, count, flag, instance, is_whole, number, shown_exactly, string
from hfrnn.choices import DTYPES, INITIALIZERS
from hfrnn.engine.batch import Batch, zero_padding
from hfrnn.engine.heads.heads import losses, make_head, take_options
from hfrnn.engine.heads.output_map import INPUT
from hfrnn.engine.layers import initial_state_shapes, make_layer, state_of_rows, state_width
from hfrnn.errors import InputError, Message
from hfrnn.kernels.base import Kernel
from hfrnn.kernels.registry import first_name, kernel_options, make_kernel, resolve_backend
from hfrnn.optim.blocks import MatrixBlock
from hfrnn.wording import counted


def _hidden_sizes(hidden: Any) -> tuple[int, ...]:
    """Return the hidden sizes of the layers, given as one number or several."""
    if isinstance(hidden, np.ndarray) and hidden.ndim == 1:
        hidden = array("hidden", hidden, (None,), "iu").tolist()
    if not isinstance(hidden, list | tuple | range):
        if not is_whole(hidden):
            advice = "give a whole number of units, or a list with one number for each layer"
            raise InputError(Message("{hidden!s} is {0}: {1}", shown_exactly(hidden), advice))
        return (count("hidden", hidden),)
    if not hidden:
        raise InputError(Message("{hidden!s} is empty: give one hidden size, or one for each layer"))
    return tuple(count("hidden", size) for size in hidden)


class Layout:
    """Sizes, names and initial parameters of a network; see `hfrnn.Network` for the arguments."""

    def __init__(
        self,
        arch: str,
        n_in: int,
        hidden: int | Sequence[int],
        n_out: int,
        loss: str = "softmax",
        dtype: str | type | np.dtype[Any] = "float32",
        backend: str = "numpy",
        embedding: int | None = None,
        bias: bool | None = None,
        output_bias: bool | None = None,
        direct_input: bool = True,
        direct_output: bool = True,
        l2: float = 0.0,
        classes: int | Sequence[int] | None = None,
        learn_initial_state: bool = False,
        recordings: int = 0,
        feedthrough: bool = False,
        **options: Any,
    ) -> None:
        arch, loss = first_name(string("arch", arch)), choice("loss", loss, losses())
        dtype = choice("dtype", type_name(dtype), DTYPES)
        n_in, n_out, sizes = count("n_in", n_in, 1), count("n_out", n_out, 1), _hidden_sizes(hidden)
        embedding = count("embedding", embedding, 1, or_none=True)
        bias, output_bias = flag("bias", bias, or_none=True), flag("output_bias", output_bias, or_none=True)
        direct_input, direct_output = flag("direct_input", direct_input), flag("direct_output", direct_output)
        l2 = number("l2", l2, NOT_NEGATIVE)
        self.learn_initial_state = flag("learn_initial_state", learn_initial_state)
        self.recordings = count("recordings", recordings)
        self.learn_initial_state = self.learn_initial_state or self.recordings > 0
        self.feedthrough = flag("feedthrough", feedthrough)
        self.config: dict[str, Any] = {
            "arch": arch, "n_in": n_in, "hidden": list(sizes), "n_out": n_out, "loss": loss, "dtype": dtype,
            "embedding": embedding, "bias": bias, "output_bias": output_bias, "direct_input": direct_input,
            "direct_output": direct_output, "l2": l2, "learn_initial_state": self.learn_initial_state,
            "feedthrough": self.feedthrough, **options,
        }  # fmt: skip
        if self.recordings:
            self.config["recordings"] = self.recordings
        of_loss = take_options(loss, options)
        self.arch, self.loss_name, self.n_in, self.n_out, self.l2 = arch, loss, n_in, n_out, l2
        self.embedding, self.dtype = embedding, np.dtype(dtype)
        self.backend = get_backend(resolve_backend(backend, arch))
        kernels = [make_kernel(arch, size, options, self.backend.variants) for size in sizes]
        kernels[1:] = [kernel.above() for kernel in kernels[1:]]
        self.layers = tuple(make_layer(l, kernel, bias, direct_input) for l, kernel in enumerate(kernels))
        feeding = range(len(kernels)) if direct_output else (len(kernels) - 1,)
        has_output_bias = kernels[0].output_bias if output_bias is None else output_bias
        widths = {l: kernels[l].width for l in feeding}
        if self.feedthrough:
            widths[INPUT] = n_in if embedding is None else embedding
        self.head = make_head(loss, self.n_out, widths, has_output_bias, classes, self.backend.variants, of_loss)
        if self.head.classes is not None:
            self.config["classes"] = list(self.head.classes)
        self.metrics = tuple(m for m in kernels[0].metrics if all(m in k.metrics for k in kernels))
        self.parameters = ParameterLayout(self._shapes(), [f"output.{name}" for name in self.head.transposed])

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        n_input = self.n_in
        if self.embedding is not None:
            shapes["embedding.E"] = (self.n_in, self.embedding)
            n_input = self.embedding
        for l, layer in enumerate(self.layers):
            if layer.direct.width:
                shapes[f"layer{l}.W_x"] = (n_input, layer.direct.width)
            if layer.below.width:
                shapes[f"layer{l}.W_below"] = (self.layers[l - 1].kernel.width, layer.below.width)
            if layer.bias.width:
                shapes[f"layer{l}.b"] = (layer.bias.width,)
            own = layer.kernel.parameter_shapes()
            learned = initial_state_shapes(layer.kernel, self.recordings) if self.learn_initial_state else {}
            if taken := sorted(own.keys() & learned.keys()):
                raise InputError(
                    f"the architecture {self.arch!r} has a parameter {taken[0]!r}, which is also the name of a learned "
                    "initial state: rename one of the two, or do not learn the initial state"
                )
            shapes.update({f"layer{l}.{name}": shape for name, shape in {**own, **learned}.items()})
        shapes.update({f"output.{name}": shape for name, shape in self.head.parameter_shapes().items()})
        return shapes

    def without_penalty(self) -> Self:
        """Return this network without l2 and label smoothing, which do not belong to the score of a prediction."""
        changes: dict[str, Any] = {name: 0.0 for name in ("l2", "label_smoothing") if name in self.config}
        return self.remade(**changes)

    def remade(self, backend: str | None = None, **changes: Any) -> Self:
        """Return this network with other arguments, for example dtype="float64"; by default on the same backend."""
        return type(self)(**{**self.config, **changes}, backend=backend or self.backend)  # type: ignore[arg-type]

    @property
    def n_parameters(self) -> int:
        """Number of weights and biases."""
        return self.parameters.size

    @property
    def hidden(self) -> tuple[int, ...]:
        """The hidden size of each layer."""
        return tuple(layer.kernel.hidden for layer in self.layers)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the architecture by name, with their values: the activation, the leak, the order and so on."""
        kernel, found = self.layers[0].kernel, {}
        for name, option in kernel_options(self.arch).items():
            value = self.config.get(name)
            value = option.default if value is None else value
            found[name] = getattr(kernel, name, None) if value is None else value
        return found

    @property
    def matrix_blocks(self) -> tuple[MatrixBlock, ...]:
        """The parameter blocks as matrices, in the order of the flat vector; three axes make one tall matrix.

        The columns of a layer's block are divided into gates as wide as the layer, if that leaves no rest.
        """
        found = []
        for block in self.parameters.blocks:
            shape = block.shape[::-1] if block.transposed else block.shape
            if block.size:
                gates = self.gates(block.name, shape[-1])
                found.append(MatrixBlock(block.start, block.size // shape[-1], shape[-1], gates))
        return tuple(found)

    def gates(self, name: str, columns: int) -> int:
        """Return how many gates as wide as its layer the columns of a parameter block have; 1 if there is a rest."""
        group = name.partition(".")[0]
        width = self.layers[int(group[5:])].kernel.hidden if group.startswith("layer") else 0
        return columns // width if width and columns % width == 0 else 1

    def views(self, theta: Array) -> dict[str, Array]:
        """Return the parameter blocks of a flat vector by name, as views.

        Parameters
        ----------
        theta : (n_parameters,) array

        Returns
        -------
        dict of name to array
            `embedding.E`, `layer{l}.W_x`, `layer{l}.W_below`, `layer{l}.b`, `layer{l}.<recurrent name>`,
            `layer{l}.<state name>0`, `output.W_y{l}`, `output.W_class{l}`, `output.W_y_u`, `output.W_class_u`,
            `output.b_y` and `output.b_class`: those that the network has.
        """
        return self.parameters.views(array("theta", theta, (self.n_parameters,), "fciu"))

    def vector(self, theta: Array, name: str = "theta") -> Array:
        """Return a vector of parameters on this network's device, in its type, after checking it.

        Parameters
        ----------
        theta : (n_parameters,) array
        name : str
            Its name in messages.

        Raises
        ------
        InputError
            It has another shape or kind, or an entry is not finite.
        """
        return array(name, self.lazy_vector(theta, name), (self.n_parameters,), finite=True)

    def lazy_vector(self, theta: Array, name: str = "theta") -> Array:
        """Return `vector`, on a device without the check that all entries are finite, which waits."""
        found = array(name, theta, (self.n_parameters,), backend=self.backend)
        with np.errstate(over="ignore"):
            found = self.backend.asarray(found, dtype=self.dtype)
        return array(name, found, (self.n_parameters,), finite=self.backend.on_host)

    @property
    def separates_parts(self) -> bool:
        """Whether a gradient can have one row per part of the sequences."""
        return self.head.separates_sequences and all(layer.kernel.separates_parts for layer in self.layers)

    @functools.cached_property
    def _names_in_groups(self) -> dict[str, list[tuple[str, str]]]:
        """The names of the blocks of each group, whole and without the name of the group."""
        parts = ["embedding", "output", *(f"layer{l}" for l in range(len(self.layers)))]
        names: dict[str, list[tuple[str, str]]] = {part: [] for part in parts}
        for block in self.parameters.blocks:
            group, own = block.name.split(".", 1)
            names[group].append((block.name, own))
        return names

    def groups(
        self, theta: Array, buffers: Buffers | None = None, name: str = "", backward: bool = True
    ) -> dict[str, dict[str, Array]]:
        """Return the views grouped by the first part of their names: `embedding`, `layer0`, ..., `output`.

        With theta (P, n_parameters), one row per part, the views have the axis of P last: (n, m, P) for a matrix. With
        buffers, the groups also hold the copies of `Kernel.prepare`, in buffers whose names start with `name`; without
        `backward`, only those for forward and R-forward.
        """
        groups: dict[str, dict[str, Array]] = {part: {} for part in self._names_in_groups}
        views = self.parameters.views(theta) if theta.ndim == 1 else self.parameters.views_of_rows(theta)
        for group, names in self._names_in_groups.items():
            for whole, block in names:
                groups[group][block] = views[whole]
        if buffers is not None:
            for l, layer in enumerate(self.layers):
                layer.kernel.prepare(groups[f"layer{l}"], buffers, f"{name}{l}.", backward)
        return groups

    def init(self, seed: int = 0, initializer: str = "papers", spectral_radius: float = 1.1, **scales: float) -> Array:
        """Return random initial parameters, the same for the same seed on every backend.

        Parameters
        ----------
        seed : int
        initializer : {"papers", "sutskever", "orthogonal"}
            "papers" (SPEC 10, [K]): N(0, 0.1^2), or N(0, 0.05^2) for mrnn; an entry of the plain rnn's `W_h` is zero
            with probability 0.9. "sutskever" ([MS]): 15 non-zero entries N(0, 1) per column; square recurrent blocks
            are scaled to `spectral_radius`. "orthogonal": each square block (H, H) of a recurrent matrix is a random
            orthogonal matrix with the distribution of Haar, and the other weights are those of "papers". In all, biases
            and learned initial states are 0, and the architecture sets the initial value of a recurrent vector (`q` of
            scrn, leaky and rate).
        spectral_radius : float
            Above 0; only for "sutskever".
        **scales : float
            Standard deviations. The blocks of that name are normally distributed: `W_x=0.01`, `b=0.1`, or `scale=0.2`
            for every matrix, but not for orthogonal ones.

        Returns
        -------
        (n_parameters,) array

        Raises
        ------
        InputError
            The initializer is not known, or the network has no block of a given name.
        """
        seed, initializer = count("seed", seed), choice("initializer", initializer, INITIALIZERS)
        spectral_radius = number("spectral_radius", spectral_radius, POSITIVE)
        blocks = {block.name.split(".", 1)[1] for block in self.parameters.blocks}
        unknown = sorted(set(scales) - blocks - {"scale"})
        if unknown:
            raise InputError(f"no block is named {', '.join(unknown)}: this network has {', '.join(sorted(blocks))}")
        scales = {name: number(name, scale, NOT_NEGATIVE) for name, scale in scales.items()}
        rng = np.random.Generator(np.random.PCG64(seed))
        theta = np.empty(self.n_parameters)
        for name, view in self.views(theta).items():
            view[...] = self._initializer(name, view.shape, initializer, scales)(rng, view.shape)
        groups = self.groups(theta)
        for l, layer in enumerate(self.layers):
            matrices = groups[f"layer{l}"]
            layer.kernel.clear_unread(matrices)
            between_units = [name for name in layer.kernel.initializers() if name not in layer.kernel.not_units]
            for name in between_units if initializer == "sutskever" else ():
                if matrices[name].ndim > 1 and not {name, "scale"} & scales.keys():
                    matrices[name][...] = with_spectral_radius(matrices[name], spectral_radius)
        return self.backend.asarray(theta.astype(self.dtype))

    def _initializer(
        self, full_name: str, shape: tuple[int, ...], initializer: str, scales: dict[str, float]
    ) -> Initializer:
        group, name = full_name.split(".", 1)
        if name in scales:
            return normal(scales[name])
        kernel = self.layers[int(group[5:])].kernel if group.startswith("layer") else None
        recurrent = {} if kernel is None else kernel.initializers()
        if len(shape) == 1:  # biases, learned initial states, and recurrent vectors
            return recurrent.get(name, constant(0.0))
        if initializer == "orthogonal" and name in recurrent and _in_squares(name, shape, kernel):
            return orthogonal()
        if "scale" in scales:
            return normal(scales["scale"])
        if initializer == "sutskever":
            return fixed_fan_in()
        return recurrent.get(name, normal(self.layers[0].kernel.scale))

    def prepare(self, batch: Batch, targets_needed: bool = True) -> Batch:
        """Return a batch on this network's device, with its padding set to 0, after checking it where its arrays lie.

        Arrays that need no change are not copied. They must stay as they are while the batch is in use.
        """
        ready = functools.partial(self._prepared, targets_needed=targets_needed)
        checked: Batch = instance("batch", batch, Batch, "a hfrnn.Batch")
        return checked.made_ready(ready)

    def _prepared(self, batch: Batch, targets_needed: bool) -> Batch:
        """Return `prepare` of a batch whose arrays are all there."""
        home = batch.home(self.backend)
        exists = batch.exists(home)
        inputs = zero_padding(home, _signed(batch.inputs), exists)
        if inputs.ndim == 2:
            low, high = int(inputs.min().item()), int(inputs.max().item())
            if low < 0 or high >= self.n_in:
                raise InputError(
                    f"input symbols go from {low} to {high}: with n_in = {self.n_in} they lie in 0 to {self.n_in - 1}"
                )
        elif self.embedding is not None:
            raise InputError("a network with an embedding takes integer symbols (T, B), but real values were given")
        elif inputs.shape[2] != self.n_in:
            raise InputError(f"inputs have {inputs.shape[2]} values per step: this network has n_in = {self.n_in}")
        else:
            self._check_finite("inputs of the batch", inputs)
        self._check_output_weights(batch)
        targets = None
        if batch.targets is not None:
            targets = read = zero_padding(home, _signed(batch.targets), exists)
            if targets.dtype.kind == "f":  # those that no loss reads may be anything, also NaN
                weights = batch.output_weights(home)
                read = home.xp.where((weights if targets.ndim == 3 else weights[:, :, 0]) > 0, targets, 0)
                self._check_finite("targets of the batch", read)
            elif targets.ndim == 2 and batch.weights is not None:  # as here, for example -100
                targets = read = home.xp.where(batch.step_weights(home) > 0, targets, targets.clip(0, self.n_out - 1))
            self.head.check_targets(read, batch.T, batch.B)
        elif targets_needed:
            raise InputError("the batch has no targets: a loss needs them")
        state: Any = batch.initial_state
        if is_array(state) and state.ndim == 1:
            return self._prepared(batch.with_state(None), targets_needed).with_state(self._numbers(state))
        if is_array(state):
            batch = batch.with_state(self._state_of(host_copy(batch.initial_state)))
        state = batch.initial_state
        if state is not None:
            self._check_state(batch)
            asarray = self.backend.asarray
            state = [
                {key: asarray(x, self.dtype) if getattr(x, "shape", ()) else int(x) for key, x in layer.items()}
                for layer in state
            ]
        weights = None if batch.weights is None else home.asarray(batch.weights)
        ready = Batch(inputs, targets, weights, batch.lengths).with_state(state)
        return ready if home is self.backend else ready.moved(self.backend)

    def _check_output_weights(self, batch: Batch) -> None:
        """Raise InputError if a batch has a weight per output that does not suit this network's loss or outputs."""
        shape = () if batch.weights is None else tuple(batch.weights.shape)
        if len(shape) < 3:
            return
        if not self.head.weighs_outputs:
            raise InputError(
                f"weights have shape {shape}, but the loss {self.loss_name!r} has no weights of outputs: give an array "
                f"{shape[:2]} of weights, one per step and sequence"
            )
        if shape[2] != self.n_out:
            raise InputError(
                f"weights have shape {shape}, but this network has n_out = {self.n_out}: give an array "
                f"{(*shape[:2], self.n_out)} or {shape[:2]} of weights"
            )

    def _check_finite(self, name: str, values: Array) -> None:
        """Raise InputError unless all numbers are finite, also in this network's type."""
        array(name, values, tuple(values.shape), finite=True)
        if self._is_wider(values) and values.size:
            most = float(np.finfo(self.dtype).max)
            if not -most <= values.real.min().item() <= values.real.max().item() <= most:
                raise InputError(f"{name} holds a number beyond {most:.2g}, the largest of {self.dtype}: scale them")

    def _is_wider(self, values: Array) -> bool:
        return values.dtype.kind in "fc" and values.dtype.itemsize > np.dtype(self.dtype).itemsize

    def check_state_width(self, width: int) -> None:
        """Raise InputError unless a state of this network has so many entries."""
        if width != (n := state_width(self.layers)):
            names = "; ".join(
                ", ".join(f"{name} {shape}" for name, shape in sorted(layer.kernel.state_shapes(1).items()) if shape)
                for layer in self.layers
            )
            raise InputError(f"initial_state has {counted(width, 'column')}, and the network's state {n} entries "
                             f"({names}): give one column for each")  # fmt: skip

    def _numbers(self, numbers: Array) -> Array | None:
        """Return the recordings of the sequences on the device after checking them; None if it has learned none."""
        low, high = int(numbers.min().item()), int(numbers.max().item())
        if low < -1:
            raise InputError(f"initial_state has the recording {low}: give numbers from 0, or -1 for another recording")
        if high >= self.recordings:
            raise InputError(f"initial_state has the recording {high}: this network has learned {self.recordings}, "
                             "counted from 0; -1 stands for another one")  # fmt: skip
        return self.backend.asarray(numbers) if self.recordings else None

    def _state_of(self, rows: Any) -> list[dict[str, Any]]:
        """Return the state of rows (B, n); the time of clockwork is 0."""
        self.check_state_width(rows.shape[1])
        arrays = state_of_rows(self.layers, np.nan_to_num(rows))
        names = [layer.kernel.state_shapes(len(rows)) for layer in self.layers]
        return [{name: found.get(name, 0) for name in given} for given, found in zip(names, arrays, strict=True)]

    def _check_state(self, batch: Batch) -> None:
        state: Any = batch.initial_state or []
        if len(state) != len(self.layers):
            raise InputError(f"the initial state has {len(state)} layers: this network has {len(self.layers)}")
        for l, (given, layer) in enumerate(zip(state, self.layers, strict=True)):
            expected = layer.kernel.state_shapes(batch.B)
            shapes = {name: tuple(getattr(value, "shape", ())) for name, value in given.items()}
            if shapes != expected:
                raise InputError(
                    f"the initial state of layer {l} is {shapes}: expected {expected}, as net.run returns it"
                )
            for name, value in given.items():
                if expected[name] and self._is_wider(value):
                    self._check_finite(f"{name} of the initial state of layer {l}", value)
                plain = value.item() if hasattr(value, "item") and not expected[name] else value
                if not expected[name] and not (is_whole(plain) and plain >= 0):
                    raise InputError(
                        f"{name} of the initial state of layer {l} is {shown_exactly(value)}: give a whole number, 0 "
                        "or more, one for the whole batch"
                    )

    def zero_state(self, B: int, dtype: Any = None) -> list[dict[str, Array]]:
        """Return the state before the first step of B sequences: arrays of zeros, and 0 for integers."""
        kind, zeros = self.dtype if dtype is None else dtype, self.backend.zeros
        shapes = [layer.kernel.state_shapes(B) for layer in self.layers]
        return [{name: zeros(shape, kind) if shape else 0 for name, shape in layer.items()} for layer in shapes]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.describe()}>"

    def describe(self) -> str:
        """Return one line with the architecture, the sizes and the number of weights."""
        sizes = "-".join(str(h) for h in self.hidden)
        return (
            f"{self.arch} {sizes}, {self.n_in} in, {self.n_out} out ({self.loss_name}), {self.n_parameters:,} weights"
        )


def _signed(values: Array) -> Array:
    """Return integers of 64 bits as signed ones: of unsigned and signed ones together NumPy makes floats."""
    return values.astype("int64") if values.dtype == "uint64" else values


def _in_squares(name: str, shape: tuple[int, ...], kernel: Kernel | None) -> bool:
    """Return whether a recurrent matrix consists of square blocks (H, H) side by side, between hidden units."""
    if kernel is None or name in kernel.not_units:
        return False
    return 0 < kernel.hidden == shape[-2] and shape[-1] % kernel.hidden == 0
