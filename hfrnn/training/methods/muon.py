"""The optimizer `muon`: nearly orthogonal steps for hidden matrices, and Adam for all other parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hfrnn.training.methods.first_order_options import AVERAGE, FirstOrderOptimizer

if TYPE_CHECKING:
    from hfrnn.engine.network import Network
    from hfrnn.optim.blocks import MatrixBlock
    from hfrnn.optim.first_order import FirstOrder


class Muon(FirstOrderOptimizer):
    """Muon on the hidden matrices of the network (`optim/muon.py`)."""

    about = "nearly orthogonal steps for hidden matrices, Adam for the others"
    defaults: ClassVar[Mapping[str, Any]] = {"learning_rate": 0.01, "average": AVERAGE}

    @classmethod
    def step(cls, config: Any, net: Network, threads: int) -> FirstOrder:
        from hfrnn.optim.muon import Muon as Step
        from hfrnn.optim.muon import MuonOptions

        return Step(hidden_matrices(net), MuonOptions(decay=config.weight_decay), threads)


def hidden_matrices(net: Network) -> list[MatrixBlock]:
    """Return the matrices that Muon makes orthogonal steps for.

    These are the recurrent matrices and `W_below` of every layer, and with an embedding also `W_x`. Without one, the
    rows of `W_x` belong to single symbols or inputs, as those of an embedding do. The gates are those of
    `Network.gates`. A block with three axes is a matrix for each index of the first axis.
    """
    from hfrnn.optim.blocks import MatrixBlock

    found = []
    for block in net.parameters.blocks:
        group, _, name = block.name.partition(".")
        hidden = group.startswith("layer") and len(block.shape) >= 2 and (name != "W_x" or net.embedding is not None)
        if not hidden or not block.size:
            continue
        rows, columns = block.shape[-2:]
        gates, size = net.gates(block.name, columns), rows * columns
        for n in range(math.prod(block.shape[:-2])):
            found.append(MatrixBlock(block.start + n * size, rows, columns, gates))
    return found
