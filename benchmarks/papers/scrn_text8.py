"""[M] tables 3 and 4: structurally constrained networks beside plain ones and LSTM, words of text8.

The recipe is that of scrn_ptb.py on [M]'s preparation of text8: words seen more than 10 times, a line break every 1000
words, the last 1M characters as the development set. That set is what [M] reports, the part `valid` here; it also
chooses among the epochs. The learning rate stays for 5 epochs and is then halved every epoch, which [S] 4.2 says of
[M]. Without context units the network is the SRN of table 4, and table 3 has the same figures for it.

Left open, and used here: 10 epochs, one trial at the learning rate of the paper.
"""

from __future__ import annotations

from cells import Cell, Figure, Table
from script import command
from scrn_ptb import RATE, RECIPE, lstm, scrn, srn

TEXT8 = {"data": "text8", "schedule": "text8", "patience": None, "log_interval": 2000}
CONTEXTS = (10, 20, 40, 80)
SRN = {100: 245, 300: 202, 500: 184}
LSTM = {100: 193, 300: 159, 500: 156}
SCRN = {100: (215, 201, 189, 184), 300: (182, 172, 165, 164), 500: (177, 166, 162, 161)}
"""With each of `CONTEXTS`."""

NETWORKS = (
    *((f"srn-{hidden}", srn(hidden), perplexity, "4") for hidden, perplexity in SRN.items()),
    *((f"lstm-{hidden}", lstm(hidden), perplexity, "4") for hidden, perplexity in LSTM.items()),
    *(
        (f"scrn-{hidden}-{context}", scrn(hidden, context), perplexity, "3")
        for hidden, row in SCRN.items()
        for context, perplexity in zip(CONTEXTS, row, strict=True)
    ),
)
"""Name, network, perplexity and its table."""

TABLE = Table(
    name="scrn_text8",
    title="[M] tables 3 and 4: SCRN on the words of text8",
    cells=tuple(
        Cell(name, {**RECIPE, **network, **TEXT8}, {"valid": Figure(perplexity, f"[M] table {table}")})
        for name, network, perplexity, table in NETWORKS
    ),
    trials={f"rate-{RATE:g}": {"learning_rate": RATE}},
    epochs=10,
    part="valid",
    quoted={
        "5-gram": Figure(309, "[M] 3, in the text"),
        "5-gram with cache": Figure(229, "[M] 3, in the text"),
    },
)

if __name__ == "__main__":
    command(TABLE)()
