"""What a kernel is: sizes, slots, parameter shapes, three routines over a segment of time; and their tape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hfrnn.arrays.backend import Array, Buffers
from hfrnn.arrays.parameters import Initializer, normal
from hfrnn.option import Option

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Slot:
    """A group of columns of U: name, width, whether it has a bias by default, whether it hears the layer below."""

    name: str
    width: int
    bias: bool = False
    below: bool = False


class Tape:
    """What forward leaves for rforward and backward over one segment of one layer, in buffers owned by the sweep.

    `new` hands out a buffer of this segment, which lives until the same segment is run again; `scratch` hands out one
    that any other routine may take over once the present one has returned and its results have been used.
    """

    def __init__(self, prefix: str, kept: Buffers, scratch: Buffers) -> None:
        self.xp = kept.backend.xp
        self.backend = kept.backend
        self.prefix = prefix
        self.kept = kept
        self.shared = scratch
        self.records = True
        """Whether forward leaves what rforward and backward need; without, a segment takes less time and memory."""
        self.keeps_preactivation = False
        """Whether a structural metric looks at the hidden pre-activation: rforward then leaves its tangent as `Ra`."""
        self.preactivation_adjoint: Array | None = None
        """(K, B, H): what a structural metric adds to the adjoint of the hidden pre-activation in backward."""
        self.start = 0
        """The time of the segment's first step, for a kernel that keeps one."""
        self._named: Arrays = {}

    @property
    def compiled(self) -> Any:
        """The compiled time loops (compiled.py) where the backend has them, for real numbers; else None."""
        if not self.backend.compiles or self.kept.dtype.kind != "f" or self.keeps_preactivation:
            return None
        from hfrnn.kernels import compiled

        return compiled

    def new(self, name: str, *shape: int) -> Array:
        """A buffer of this segment, of arbitrary contents."""
        buffer = self.kept.get(self.prefix + name, shape)
        self._named[name] = buffer
        return buffer

    def scratch(self, name: str, *shape: int) -> Array:
        """A buffer shared by all segments and layers, of arbitrary contents; `tape[name]` reads it in this routine."""
        buffer = self.shared.get(name, shape)
        self._named[name] = buffer
        return buffer

    def preactivation_tangent(self, *shape: int) -> Array:
        """The buffer for the tangent of the hidden pre-activation: kept where a structural metric wants it."""
        return self.new("Ra", *shape) if self.keeps_preactivation else self.scratch("Ra", *shape)

    def __getitem__(self, name: str) -> Array:
        return self._named[name]


class Kernel:
    """One recurrent architecture: sizes and names, and three hand-written routines. It holds no arrays.

    The routines work on a segment of K >= 1 steps of B sequences, on arrays (K, B, ...) that they never write to
    unless they made them, in float32, float64 or complex128 (for complex steps). `p`, `v` and `grad` are dicts of the
    recurrent parameters, of their tangents and of their adjoints.
    """

    slots: tuple[Slot, ...]
    """The columns of U, in order."""
    hidden: int
    """H, the units."""
    width: int
    """What the layer hands up and to the output (H unless said)."""
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
    """The recurrent matrices that backward multiplies by transposed in every step (see `pointwise.transpose`)."""
    least_hidden: ClassVar[int] = 1
    """The smallest hidden size that makes sense."""
    scale: ClassVar[float] = 0.1
    """Standard deviation of the initial weights (SPEC 10)."""

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """The recurrent parameters and their shapes."""
        raise NotImplementedError

    def initializers(self) -> dict[str, Initializer]:
        """How the recurrent parameters start; N(0, scale^2) unless a kernel says otherwise."""
        return {name: normal(self.scale) for name in self.parameter_shapes()}

    def state_shapes(self, B: int) -> dict[str, tuple[int, ...]]:
        """The arrays of a state for B sequences, the batch on axis -2.

        The shape () stands for an integer that is one for the whole batch, 0 at first, and has no tangent: `rforward`
        and `backward` neither get nor return it.
        """
        raise NotImplementedError

    def slope(self, xp: Any, h: Array) -> Array:
        """The derivative of h by the hidden pre-activation, as a function of h; for metrics other than `hidden`."""
        raise NotImplementedError

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        """U (K, B, slots) and the state before the segment -> hs (K, B, width) and the state after it."""
        raise NotImplementedError

    def rforward(self, p: Arrays, v: Arrays, tape: Tape, RU: Array, Rstate: Arrays) -> tuple[Array, Arrays]:
        """The tangents of forward's results, along the parameter direction v and the tangents RU and Rstate."""
        raise NotImplementedError

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        """Adjoints of hs and of the state after the segment -> of U and of the state before it; adds to grad."""
        raise NotImplementedError
