"""The cells of the architectures: one step each, as in docs/specification.md, section 2.

python docs/figures/cells.py        writes docs/images/cell-*.svg
"""

from __future__ import annotations

from collections.abc import Callable

from diagram import BLUE, GREEN, ORANGE, Diagram

TIMES = r"$\times$"


def rnn() -> Diagram:
    d = Diagram(8.6, 3.4)
    d.box("h0", 1.1, 2.6, "$h_{t-1}$", "state")
    d.box("x", 4.1, 0.6, "$x_t$", "input")
    d.dot("sum", 4.1, 2.6, "+")
    d.box("f", 5.8, 2.6, "tanh", "gate")
    d.box("h", 7.6, 2.6, "$h_t$", "state")
    d.arrow("h0", "sum", "$W_h$")
    d.arrow("x", "sum", "$W_x$", at=(0.4, 0))
    d.arrow("sum", "f", "$a$")
    d.arrow("f", "h")
    return d


def mrnn() -> Diagram:
    d = Diagram(11.6, 3.4)
    d.box("h0", 1.1, 2.6, "$h_{t-1}$", "state")
    d.dot("times", 3.9, 2.6, TIMES)
    d.box("m", 5.3, 2.6, "$m$", "product", 0.8)
    d.dot("sum", 7.4, 2.6, "+")
    d.box("f", 8.9, 2.6, "tanh", "gate")
    d.box("h", 10.6, 2.6, "$h_t$", "state")
    d.box("x", 5.6, 0.6, "$x_t$", "input")
    d.arrow("h0", "times", "$W_{hm}$")
    d.arrow("times", "m")
    d.arrow("m", "sum", "$W_{mh}$")
    d.arrow("x", "times", "$W_x$: $U_m$", at=(-0.65, -0.2))
    d.arrow("x", "sum", "$W_x$: $U_h$", at=(0.75, -0.2))
    d.arrow("sum", "f")
    d.arrow("f", "h")
    return d


def _memory(d: Diagram, left: float, low: float, krause: bool) -> None:
    """Draw the memory cell of an LSTM from the gates at the height `low` to h in the upper right corner."""
    high = low + 2.4
    gates = ("f", "i", "g", "o")
    for n, gate in enumerate(gates):
        x = left + 1.5 * n + (0.6 if gate == "o" else 0)
        d.box(
            gate,
            x,
            low,
            rf"${gate}$: $\sigma$"
            if gate != "g"
            else ("$g$" if krause else "$g$: tanh"),
            "gate",
            1.25,
        )
    f, i, _, o = (d.places[gate][0] for gate in gates)
    d.box("c0", f - 2.0, high, "$c_{t-1}$", "state")
    d.dot("keep", f, high, TIMES)
    d.dot("write", i + 0.75, low + 1.2, TIMES)
    d.dot("sum", i + 0.75, high, "+")
    d.box("c", i + 2.3, high, "$c_t$", "state", 0.9)
    d.arrow("c0", "keep")
    d.arrow("keep", "sum")
    d.arrow("f", "keep")
    d.arrow("i", "write")
    d.arrow("g", "write")
    d.arrow("write", "sum")
    d.arrow("sum", "c")
    last = o + 3.4
    if krause:
        d.dot("out", o, high, TIMES)
        d.box("tanh", o + 1.6, high, "tanh", "gate")
        d.arrow("c", "out")
        d.arrow("o", "out")
        d.arrow("out", "tanh", r"$\zeta$")
        d.box("h", last, high, "$h_t$", "state")
        d.arrow("tanh", "h")
    else:
        d.box("tanh", o + 0.1, high, "tanh", "gate")
        d.dot("out", o + 1.7, high, TIMES)
        d.box("h", last, high, "$h_t$", "state")
        d.arrow("c", "tanh")
        d.arrow("tanh", "out")
        d.arrow("o", "out", corner="-|")
        d.arrow("out", "h")


def _gated(krause: bool) -> Diagram:
    d = Diagram(13.2, 5.1)
    _memory(d, 3.2, 1.9, krause)
    d.box("h0", 1.2, 0.5, "$h_{t-1}$", "state")
    d.box("x", 4.7, 0.5, "$x_t$", "input")
    for gate in ("f", "i", "g", "o"):
        d.arrow("h0", gate, color=BLUE)
        d.arrow("x", gate, color=GREEN)
    d.text(1.6, 1.35, "$W_h$", BLUE)
    d.text(8.3, 0.75, "$W_x$", GREEN)
    return d


def lstm() -> Diagram:
    return _gated(krause=False)


def lstm_krause() -> Diagram:
    return _gated(krause=True)


def mlstm() -> Diagram:
    d = Diagram(15.2, 6.6)
    _memory(d, 5.2, 3.4, krause=True)
    d.box("h0", 1.1, 1.9, "$h_{t-1}$", "state")
    d.box("x", 3.6, 0.5, "$x_t$", "input")
    d.dot("times", 3.6, 1.9, TIMES, "product")
    d.arrow("h0", "times", "$W_{hm}$")
    d.arrow("x", "times", "$U_m$", at=(-0.45, 0))
    for gate in ("f", "i", "g", "o"):
        d.arrow("times", gate, color=BLUE)
        d.arrow("x", gate, color=GREEN)
    d.text(3.75, 2.6, "$m$: $W_m$", BLUE)
    d.text(8.2, 1.5, "$W_x$", GREEN)
    return d


def hornn() -> Diagram:
    d = Diagram(9.6, 4.6)
    for n, y in enumerate((3.8, 2.6, 1.4), 1):
        d.box(f"h{n}", 1.2, y, f"$h_{{t-{n}}}$", "state")
    d.dot("sum", 5.0, 2.6, "+")
    d.box("x", 5.0, 0.6, "$x_t$", "input")
    d.box("f", 6.7, 2.6, "$f$", "gate", 0.9)
    d.box("h", 8.4, 2.6, "$h_t$", "state")
    for n, at in ((1, (0, 0.3)), (2, (0, 0.24)), (3, (0, -0.3))):
        d.arrow(f"h{n}", "sum", f"$W_{{h{n}}}$", at=at, color=BLUE)
    d.arrow("x", "sum", "$W_x$", at=(0.4, 0), color=GREEN)
    d.arrow("sum", "f", "$a$")
    d.arrow("f", "h")
    return d


def scrn() -> Diagram:
    d = Diagram(10.4, 5.0)
    d.box("s0", 1.2, 4.3, "$s_{t-1}$", "state")
    d.dot("mix", 4.2, 4.3, "+")
    d.box("s", 6.3, 4.3, "$s_t$", "state")
    d.box("h0", 1.2, 2.3, "$h_{t-1}$", "state")
    d.dot("sum", 5.2, 2.3, "+")
    d.box("f", 6.9, 2.3, r"$\sigma$", "gate", 0.9)
    d.box("h", 8.6, 2.3, "$h_t$", "state")
    d.box("x", 4.2, 0.5, "$x_t$", "input")
    d.arrow("s0", "mix", r"$\alpha$", color=ORANGE)
    d.arrow("mix", "s")
    d.arrow("x", "mix", r"$1-\alpha$", at=(-0.6, 0.75), color=GREEN)
    d.arrow("s", "sum", "$W_s$", at=(0.45, 0.15))
    d.arrow("h0", "sum", "$W_h$", at=(-0.8, 0.24))
    d.arrow("x", "sum", color=GREEN)
    d.arrow("sum", "f")
    d.arrow("f", "h")
    d.arrow("s", (9.9, 4.3))
    d.arrow("h", (9.9, 2.3))
    d.text(9.55, 3.3, "output")
    return d


def clockwork() -> Diagram:
    d = Diagram(12.2, 4.7)
    d.text(0.9, 4.3, "period")
    for column in range(9):
        d.text(2.3 + 1.15 * column, 4.3, f"t = {column}" if not column else str(column))
    for row, period in enumerate((1, 2, 4, 8)):
        y = 3.5 - 0.95 * row
        d.text(0.9, y, str(period))
        for column in range(9):
            active = column % period == 0
            d.box(
                f"{row}{column}",
                2.3 + 1.15 * column,
                y,
                "tanh" if active else "",
                "gate" if active else "plain",
                0.85,
            )
            d.shapes[f"{row}{column}"].set_alpha(1.0 if active else 0.5)
            if column:
                d.arrow(f"{row}{column - 1}", f"{row}{column}")
    for row, period in enumerate((1, 2, 4)):
        for column in range(period, 9, period):
            d.arrow(f"{row + 1}{column - 1}", f"{row}{column}", color=BLUE)
    return d


CELLS: dict[str, Callable[[], Diagram]] = {
    "rnn": rnn, "mrnn": mrnn, "lstm": lstm, "lstm-krause": lstm_krause, "mlstm": mlstm, "hornn": hornn, "scrn": scrn,
    "clockwork": clockwork,
}  # fmt: skip
"""The drawing of each cell, by the name of its architecture."""


def main() -> None:
    """Draw all cells."""
    for name, draw in CELLS.items():
        draw().save(f"cell-{name}")


if __name__ == "__main__":
    main()
