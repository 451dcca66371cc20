"""Hierarchical recurrent network: levels of units with slower and slower clocks (El Hihi and Bengio 1996).

Level j has period T_j and depends on all levels, the faster ones included. That is the difference from clockwork.py,
whose modules do not depend on faster ones:

F1  a_t[j] = U_t[j] + sum_i h_{t-1}[i] @ W_h[i, j]      where t mod T_j = 0: all i, where clockwork has T_i >= T_j

All other equations are those of clockwork.py under its numbers, with this sum. F3, by which a level that rests keeps
its value, is a linear connection over time without a weight. With all periods 1 the network is `rnn`.

[S] 2 and [S thesis] 3.2.1 describe the network without equations and report no figure of it. The abstract of the source
names delays and multiple time scales. The time scales are here; delayed connections, with weights, are `hornn`. Source:
S. El Hihi and Y. Bengio, *Hierarchical recurrent neural networks for long-term dependencies*, 1996.
"""

from __future__ import annotations

from hfrnn.kernels.clockwork import Clockwork


class Hierarchical(Clockwork):
    """`hierarchical`: H tanh units in levels of equal width, each with a period of its own, as for `clockwork`."""

    def _inputs(self, period: int, width: int) -> tuple[slice, ...]:
        return (slice(0, self.hidden),)  # F1
