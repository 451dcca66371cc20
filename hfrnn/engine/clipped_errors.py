"""Backpropagation through time that limits the error at every step.

The error is the adjoint of the state. Here it belongs to the sum of the loss over the steps of a sequence. Between two
steps, every entry of the error is limited to the interval from -c to c ([S] 4: "hard clipping"; Mikolov 2012). The loss
of a batch is a mean: its adjoints are those of the sum divided by the total weight w of the batch. So the bound is c/w:

    C1  dstate_t <- min(max(dstate_t, -c/w), c/w)       after each step that the error goes back

All arrays of the state are limited: h and c of an LSTM, and for a HORNN what has been collected so far for each of its
last N states. A step adds two errors, that of its output and that from the layer above; these are not limited. The
result is not the gradient of any function, and so it has no curvature.

The kernels are used as they are. Each of their calls sees a segment of one step, while the products of the input map
and of the head still see all steps of a segment.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hfrnn.arrays.backend import Array
from hfrnn.kernels.base import Arrays, Kernel, Tape


@dataclass
class StepwiseKernel:
    """The routines of a kernel for a gradient whose errors are limited to `bound`, c/w of C1."""

    kernel: Kernel
    bound: float
    tapes: dict[str, list[Tape]] = field(default_factory=dict)
    """The tapes of the steps of a segment, by the prefix of its own tape."""

    def takes_factors(self, tape: Tape) -> bool:
        """Return that the arrays are cut into steps."""
        return False

    def forward(self, p: Arrays, U: Array, state: Arrays, tape: Tape) -> tuple[Array, Arrays]:
        """Run `Kernel.forward` step by step."""
        K, B, _ = U.shape
        hs = tape.new("steps", K, B, self.kernel.width)
        for t, own in enumerate(self._tapes(tape, K)):
            own.records = tape.records
            hs[t : t + 1], state = self.kernel.forward(p, U[t : t + 1], state, own)
        return hs, state

    def backward(self, p: Arrays, tape: Tape, dhs: Array, dstate: Arrays, grad: Arrays) -> tuple[Array, Arrays]:
        """Run `Kernel.backward` step by step, and limit the error before each (C1)."""
        K, B, _ = dhs.shape
        dU = tape.scratch("steps_dU", K, B, sum(slot.width for slot in self.kernel.slots))
        for t, own in reversed(list(enumerate(self._tapes(tape, K)))):
            dU[t : t + 1], dstate = self.kernel.backward(p, own, dhs[t : t + 1], dstate, grad)
            for error in dstate.values():
                error.clip(-self.bound, self.bound, out=error)  # C1
        return dU, dstate

    def _tapes(self, tape: Tape, K: int) -> list[Tape]:
        """Return a tape for each step of the segment of a tape."""
        known = self.tapes.setdefault(tape.prefix, [])
        known += [Tape(f"{tape.prefix}{t}.", tape.kept, tape.shared) for t in range(len(known), K)]
        return known[:K]
