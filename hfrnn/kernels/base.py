"""The interface of a kernel: sizes, slots, parameters and three routines over a segment of time; and its tape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

from hfrnn.arrays.backend import Array, Buffers, HostArray
from hfrnn.arrays.initializers import Initializer, normal
from hfrnn.checks import check_fields, checked, count, flag, string
from hfrnn.option import Option

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Slot:
    """A group of columns of U: name, width, bias by default, and whether the layer below and the input feed it.

    A slot with `input=False` and `below=False` holds a bias only, for a bias that must not take part in a recursion.

    Examples
    --------
    >>> import hfrnn
    >>> hfrnn.Slot("gates", 12, bias=True, below=True).width
    12
    """

    name: str = checked(MISSING, string)
    width: int = checked(MISSING, count)
    bias: bool = checked(False, flag)
    below: bool = checked(False, flag)
    input: bool = checked(True, flag)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass
class Factors:
    """An array (K, B, m) by its factors, for loops that compute a step of it where they use it: x @ W + weights * Rh.

    Attributes
    ----------
    x : (K, B, n) array
        With a small n.
    W : (n, m) array
    weights : (K, B) array, optional
    Rh : (K, B, m) array, optional
        Only with `weights`.
    gradients : (n, m) array, optional
        Only for dhs: what the loops add the sum of x.T @ h over all steps to.

    Notes
    -----
    For k tangents, W is (k, n, m). For k adjoints, x, Rh and `gradients` have a first axis of k.
    """

    x: Array
    W: Array
    weights: Array | None = None
    Rh: Array | None = None
    gradients: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (K, B, m), or (k, K, B, m)."""
        *several, K, B, _ = self.x.shape
        *tangents, _, m = self.W.shape
        return *several, *tangents, K, B, m


class Tape:
    """The arrays that forward leaves for rforward and backward, for one layer and one segment of time.

    The arrays are views of reused buffers that belong to a sweep, and their first contents are arbitrary. `new` returns
    a buffer of this segment, which keeps its contents until the same segment runs forward again. `scratch` returns a
    buffer that other routines reuse as soon as the present routine has returned and its results have been used.

    Parameters
    ----------
    prefix : str
        Put before the names of this segment's buffers.
    kept : Buffers
        Where `new` allocates.
    scratch : Buffers
        Where `scratch` allocates.

    Examples
    --------
    >>> import hfrnn
    >>> from hfrnn.arrays.backend import get_backend
    >>> from hfrnn.arrays.backend import Buffers
    >>> backend = get_backend("numpy")
    >>> tape = hfrnn.Tape("layer0.", Buffers(backend, "float64"), Buffers(backend, "float64"))
    >>> tape.new("h", 5, 4, 3).shape
    (5, 4, 3)
    """

    def __init__(self, prefix: str, kept: Buffers, scratch: Buffers) -> None:
        self.xp = kept.backend.xp
        self.backend = kept.backend
        self.prefix = prefix
        self.kept = kept
        self.shared = scratch
        self.records = True
        """Whether forward must leave what rforward and backward need; otherwise it is faster and takes less memory."""
        self.keeps_preactivation = False
        """Whether a structural metric uses the hidden pre-activation: then rforward must leave its tangent as `Ra`."""
        self.inputs: tuple[Array, Array] | None = None
        """For loops that were given `Factors` for U: x, and arrays (k, n, slots) to which they add the sum of x.T @ dU
        of each of k adjoints."""
        self.outputs: tuple[Array, Array, Array] | None = None
        """For loops that take `Factors`: W (H, n), V (k, H, n) and Rz (k, K, B, n), to which rforward writes
        Rh @ W + h @ V of each of k tangents."""
        self.start = 0
        """The time of the segment's first step, for a kernel that counts time."""
        self._named: Arrays = {}

    def new(self, name: str, *shape: int) -> Array:
        """Return a buffer of this segment."""
        buffer = self.kept.get(self.prefix + name, shape)
        self._named[name] = buffer
        return buffer

    def scratch(self, name: str, *shape: int) -> Array:
        """Return a buffer that all segments and layers share."""
        buffer = self.shared.get(name, shape)
        self._named[name] = buffer
        return buffer

    def preactivation_tangent(self, *shape: int) -> Array:
        """Return the buffer `Ra` for the tangent of the hidden pre-activation; kept if a structural metric uses it."""
        return self.new("Ra", *shape) if self.keeps_preactivation else self.scratch("Ra", *shape)

    def __getitem__(self, name: str) -> Array:
        """Return the buffer that `new` or `scratch` returned last under this name."""
        return self._named[name]


class Kernel:
    """One recurrent architecture: sizes and names, and three hand-written routines. It holds no arrays.

    The routines work on a segment of K >= 1 time steps of B sequences, on C-contiguous arrays (K, B, ...) in float32,
    float64 or complex128 (complex steps check derivatives). They write only to arrays of the tape and add to `grad`.
    `p`, `v` and `grad` hold the recurrent parameters, a direction in parameter space, and the gradient, each by name.

    A kernel that serves a structural metric other than `hidden` takes one more argument in `backward`,
    `preactivation_adjoint` (K, B, H) or None: what the metric adds to the adjoint of the hidden pre-activation.

    Examples
    --------
    >>> import hfrnn
    >>> kernel = hfrnn.Network("gru", n_in=2, hidden=3, n_out=1).layers[0].kernel
    >>> isinstance(kernel, hfrnn.Kernel), [slot.name for slot in kernel.slots]
    (True, ['r', 'z', 'g'])
    """

    slots: tuple[Slot, ...]
    """The columns of U, in order."""
    hidden: int
    """H, the units."""
    width: int
    """The width of the hidden state that the layer above and the output see (H for most kernels)."""
    output_bias: ClassVar[bool] = False
    """Whether the output has a bias by default."""
    metrics: tuple[str, ...] = ("hidden",)
    """The structural metrics that this kernel serves (SPEC 5)."""
    options: ClassVar[tuple[Option | str, ...]] = ()
    """The keywords that the constructor takes beside the hidden size.

    A declared `Option` is also a flag of `hfrnn train` and a name in its TOML files, checked and explained there. A
    plain name is taken by `Network(...)` only, and passed on unchecked.
    """
    transposed: ClassVar[tuple[str, ...]] = ()
    """The recurrent matrices whose transposes backward uses in every step (see `pointwise.transpose`)."""
    added_to: Mapping[str, tuple[str, ...]] | None = None
    """For each recurrent matrix, by name, the slots to which its product is added, in the order of its columns.

    A block with three axes has one slot for each index of its first axis, or one for all. A matrix that is not named
    feeds units of its own. By default, a matrix as wide as all slots is added to them. `hfrnn.MaxNorm` reads it.
    """
    not_units: ClassVar[tuple[str, ...]] = ()
    """Recurrent matrices whose columns do not stand for hidden units, even if there are as many columns as units."""
    one_unit: ClassVar[bool] = False
    """Whether the products of all slots are added up in the same units."""
    least_hidden: ClassVar[int] = 1
    """The smallest hidden size that makes sense."""
    scale: ClassVar[float] = 0.1
    """Standard deviation of the initial weights (SPEC 10)."""

    @property
    def separates_parts(self) -> bool:
        """Whether `backward` can keep P parts of the sequences apart: then each array of `grad` has a last axis of P.

        The helpers of `hfrnn.kernels.pointwise` do so. Every `backward` of this package uses them; a class with its own
        may set `separates_parts = True`. Otherwise parts run one after another, which is slower.
        """
        return type(self).backward.__module__.startswith("hfrnn.")

    def above(self) -> Kernel:
        """Return the kernel for a layer above the first: this one, except where the first layer is of another kind."""
        return self

    def takes_factors(self, tape: Tape) -> bool:
        """Return whether the routines also take `Factors` for U, RU and dhs, with what a tape asks for."""
        return False

    def takes_several(self, tape: Tape) -> bool:
        """Return whether the kernel has the routines for several tangents and adjoints at once, with this tape."""
        return False

    def prepare(self, p: Arrays, buffers: Buffers, name: str, backward: bool) -> None:
        """Add to p copies of the recurrent matrices in the forms that the routines use at every step.

        A sweep calls this once for all segments. The copies are buffers whose names start with `name`. Those that only
        `backward` uses are made where it will run: the transposes, `NAME.T` (see `transposed`).
        """
        for matrix in self.transposed if backward else ():
            W_T = p[matrix].swapaxes(-1, -2)
            p[f"{matrix}.T"] = buffers.get(f"{name}{matrix}.T", W_T.shape)
            p[f"{matrix}.T"][...] = W_T

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the recurrent parameters' shapes by name."""
        raise NotImplementedError

    def initializers(self) -> dict[str, Initializer]:
        """Return the recurrent parameters' initializers by name; N(0, scale^2) by default."""
        return {name: normal(self.scale) for name in self.parameter_shapes()}

    def clear_unread(self, parameters: dict[str, HostArray]) -> None:
        """Set the entries of the recurrent parameters that no step reads to 0; a kernel without any does nothing."""

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the state's arrays by name, for B sequences; the batch is on axis -2.

        The shape () stands for one integer for the whole batch. It starts at 0 and has no tangent: `rforward` and
        `backward` neither take nor return it.
        """
        raise NotImplementedError

    def slope(self, xp: Any, h: Array) -> Array:
        """Return dh/da of the hidden pre-activation a as a function of h, for metrics other than `hidden`."""
        raise NotImplementedError

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        """Run the segment forward.

        Parameters
        ----------
        p : dict of str to array
        U : (K, B, slots) array
            The input map's part of every slot.
        state : dict of str to array
            The state before the segment.
        tape : Tape
            Receives what the other two routines need, where `tape.records`.

        Returns
        -------
        hs : (K, B, width) array
        state : dict of str to array
            The state after the segment.
        """
        raise NotImplementedError

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        """Return the tangents of forward's results along the direction v, from the tangents of U and of the state."""
        raise NotImplementedError

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        """Run the segment backward.

        Parameters
        ----------
        p : dict of str to array
        tape : Tape
        dhs : (K, B, width) array
            The adjoint of hs.
        dstate : dict of str to array
            The adjoint of the state after the segment.
        grad : dict of str to array
            The gradient of each recurrent parameter, which is added to.

        Returns
        -------
        dU : (K, B, slots) array
        dstate : dict of str to array
            The adjoint of the state before the segment.
        """
        raise NotImplementedError

    def rforward_several(
        self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays
    ) -> tuple[Array, Arrays]:  # fmt: skip
        """Do what `rforward` does for k directions: RU (k, K, B, slots), the results and arrays of v have k first."""
        raise NotImplementedError

    def backward_several(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        """Do what `backward` does for k adjoints dhs (k, K, B, width); the arrays of `grad` have k first."""
        raise NotImplementedError
