"""The equations of one step of every architecture, in a small part of Python that every target of an export reads.

The text is Python: the NumPy program and the PyTorch module contain it as it is, and `walk.py` translates it to C and
to ONNX. Each row of an array is one sequence. `U` (B, slots) is the part of the input map (SPEC 1). The other names are
the recurrent parameters and the state of the layer: they hold the previous step's values until they are assigned.

    x @ W, + - *, numbers, a[:, i:j], W[n], W[i:j, k:l]
    tanh, sigmoid, relu, softplus, maximum(a, b)
    split(a, n)                      n parts of equal width
    concat(a, ...), stack(a, ...)    side by side; along a new first axis
    a if t % n == 0 else b           t counts the steps from 0

The equations are those of the kernel files, F1, F2, ..., joined where that is as easy to read.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from hfrnn.errors import InputError
from hfrnn.kernels.base import Kernel
from hfrnn.kernels.registry import BUILT_IN, kernel_class

FUNCTION = {"tanh": "tanh", "logistic": "sigmoid", "relu": "relu", "softplus": "softplus"}
"""The function of each activation."""


def columns(name: str, start: int, stop: int, width: int) -> str:
    """Return `name[:, start:stop]`, or the name alone if these are all its columns.

    Examples
    --------
    >>> from hfrnn.exports.equations import columns
    >>> columns("U", 0, 4, 8), columns("U", 4, 8, 8), columns("U", 0, 8, 8)
    ('U[:, :4]', 'U[:, 4:]', 'U')
    """
    if (start, stop) == (0, width):
        return name
    return f"{name}[:, {start or ''}:{'' if stop == width else stop}]"


def equations(kernel: Kernel, arch: str) -> tuple[list[str], str]:
    """Return the lines of one step, and the name of what the layer hands to the output and to the layer above.

    Parameters
    ----------
    kernel : Kernel
        Of the layer; that of a layer above the first may be of another architecture.
    arch : str
        Of the network.

    Raises
    ------
    InputError
        There are no equations of this architecture: a user registered it.
    """
    own = {kernel_class(name): name for name in EQUATIONS}
    found = next((own[cls] for cls in type(kernel).__mro__ if cls in own), None)
    if arch not in BUILT_IN or found is None:
        raise InputError(
            f"the architecture {arch} is not one of hfrnn, so that its equations are not known as text: export a "
            f"network of one of {', '.join(EQUATIONS)}"
        )
    text = EQUATIONS[found](kernel)
    lines = textwrap.dedent(text).strip().splitlines()
    return lines, HANDED_UP.get(found, "h")


def _rnn(k: Any) -> str:
    return f"h = {FUNCTION[k.activation]}(U + h @ W_h)"


def _share(share: Any) -> str:
    """Return the value of a share of kernels/share.py."""
    return "sigmoid(q)" if share.learned else repr(float(share.start))


def _leaky(k: Any) -> str:
    return f"""
        leak = {_share(k.leak)}
        h = (1 - leak) * h + leak * {FUNCTION[k.activation]}(U + h @ W_h)
    """


def _rate(k: Any) -> str:
    f = FUNCTION[k.activation]
    return f"""
        leak = {_share(k.leak)}
        x = (1 - leak) * x + leak * (U + {f}(x) @ W_h)
        r = {f}(x)
    """


STANDARD_CELL = """
        i, f, o, g = split(a, 4)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
    """
KRAUSE_CELL = """
        i, f, o, g = split(a, 4)
        c = sigmoid(f) * c + sigmoid(i) * g
        h = tanh(c * sigmoid(o))
    """


def _lstm(k: Any) -> str:
    return f"\n        a = U + h @ W_h{STANDARD_CELL}"


def _lstm_krause(k: Any) -> str:
    return f"\n        a = U + h @ W_h{KRAUSE_CELL}"


def _lstm_1997(k: Any) -> str:
    return """
        i, o, g = split(U + h @ W_h, 3)
        c = c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
    """


def _multiplicative(k: Any) -> str:
    H = k.hidden
    return f"""
        m = {columns("U", 4 * H, 5 * H, 5 * H)} * (h @ W_hm)
        a = {columns("U", 0, 4 * H, 5 * H)} + m @ W_m"""


def _mlstm(k: Any) -> str:
    return _multiplicative(k) + KRAUSE_CELL


def _mlstm_standard(k: Any) -> str:
    return _multiplicative(k) + STANDARD_CELL


def _mrnn(k: Any) -> str:
    H = k.hidden
    return f"""
        m = {columns("U", H, 2 * H, 2 * H)} * (h @ W_hm)
        h = tanh({columns("U", 0, H, 2 * H)} + m @ W_mh)
    """


def _gru(k: Any) -> str:
    H = k.hidden
    return f"""
        r, z = split(sigmoid({columns("U", 0, 2 * H, 3 * H)} + h @ W_h), 2)
        g = tanh({columns("U", 2 * H, 3 * H, 3 * H)} + (r * h) @ W_hg)
        h = z * h + (1 - z) * g
    """


def _gru_torch(k: Any) -> str:
    gates, candidate = (0, 2 * k.hidden, 3 * k.hidden), (2 * k.hidden, 3 * k.hidden, 3 * k.hidden)
    m = f"({columns('s', *candidate)} + b_hn)" if k.candidate_bias else columns("s", *candidate)
    return f"""
        s = h @ W_h
        r, z = split(sigmoid({columns("U", *gates)} + {columns("s", *gates)}), 2)
        n = tanh({columns("U", *candidate)} + r * {m})
        h = (1 - z) * n + z * h
    """


def _scrn(k: Any) -> str:
    H, C = k.hidden, k.context
    context = f"""
        alpha = {_share(k.alpha)}
        s = (1 - alpha) * {columns("U", H, H + C, H + C)} + alpha * s"""
    if H == 0:
        return f"{context}\n        y = concat(s)"
    hidden = f"h = sigmoid({columns('U', 0, H, H + C)} + {'s @ W_s + ' if C else ''}h @ W_h)"
    if C == 0:
        return f"\n        {hidden}\n        y = concat(h)"
    return f"{context}\n        {hidden}\n        y = concat(h, s)"


def _products(k: Any) -> list[str]:
    return [f"history[{n}] @ W_h[{n}]" for n in range(k.order)]


def _hornn_step(k: Any, a: str) -> str:
    """Return h = f(a), and the history with h as its latest state."""
    earlier = "".join(f", history[{n}]" for n in range(k.order - 1))
    return f"h = {FUNCTION[k.activation]}({a})\nhistory = stack(h{earlier})"


def _hornn(k: Any) -> str:
    return _hornn_step(k, " + ".join(["U", *_products(k)]))


def _hornn_fofe(k: Any) -> str:
    terms = (f"{power!r} * ({x})" for power, x in zip(k.powers, _products(k), strict=True))
    return _hornn_step(k, " + ".join(["U", *terms]))


def _hornn_max(k: Any) -> str:
    largest, *others = _products(k)
    for each in others:
        largest = f"maximum({largest}, {each})"
    return _hornn_step(k, f"U + {largest}")


def _hornn_gated(k: Any) -> str:
    H, N = k.hidden, k.order
    gates = [f"r{n} = sigmoid({columns('U', (n + 1) * H, (n + 2) * H, (N + 1) * H)} + history[{n}] @ W_r[{n}])"
             for n in range(N)]  # fmt: skip
    terms = (f"r{n} * ({x})" for n, x in enumerate(_products(k)))
    return "\n".join([*gates, _hornn_step(k, " + ".join([columns("U", 0, H, (N + 1) * H), *terms]))])


def _slot(k: Any, n: int) -> str:
    return columns("U", n * k.hidden, (n + 1) * k.hidden, sum(slot.width for slot in k.slots))


def _partial(k: Any) -> list[str]:
    """Return the sums of the next n-1 steps: what the inputs up to now add to each."""
    if k.order == 1:
        return []
    known = [f"partial[{n}] + {_slot(k, n)}" for n in range(1, k.order - 1)]
    return [f"partial = stack({', '.join([*known, _slot(k, k.order - 1)])})"]


def _fnn(k: Any) -> str:
    begun = " + partial[0]" if k.order > 1 else ""
    return "\n".join([f"h = {FUNCTION[k.activation]}({_slot(k, 0)}{begun})", *_partial(k)])


def _fofe_fnn(k: Any) -> str:
    begun = " + partial[0]" if k.order > 1 else ""
    s = f"s = {float(k.alpha)!r} * s + {_slot(k, 0)}{begun}"
    return "\n".join([s, f"h = {FUNCTION[k.activation]}(s + {_slot(k, k.order)})", *_partial(k)])


def _clockwork(k: Any) -> str:
    H, lines = k.hidden, []
    for n, group in enumerate(k.groups):
        own = group.columns.start, group.columns.stop, H
        sums = [columns("U", *own)]
        for i in group.inputs:
            all_rows, rows = (i.start, i.stop) == (0, H), f"{i.start or ''}:{'' if i.stop == H else i.stop}"
            W = columns("W_h", *own) if all_rows else f"W_h[{rows}, {own[0]}:{own[1]}]"
            sums.append(f"{columns('h', i.start, i.stop, H)} @ {W}")
        rests = "" if group.period == 1 else f" if t % {group.period} == 0 else {columns('h', *own)}"
        lines.append(f"h{n} = tanh({' + '.join(sums)}){rests}")
    modules = ", ".join(f"h{n}" for n in range(len(k.groups)))
    return "\n".join([*lines, f"h = concat({modules})", "t = t + 1"])


def _gated_feedback(k: Any) -> str:
    H, L, M = k.hidden, k.sublayers, k.M
    slots, gates = H + L, L * L
    lines = [f"x{i} = {columns('h', i * M, (i + 1) * M, H)} @ {_rows('W_h', i * M, (i + 1) * M, H)}" for i in range(L)]
    lines.append("q = h @ W_hg")
    for j in range(L):
        own = f"{columns('q', j * L, (j + 1) * L, gates)}"
        if j == 0:
            lines.append(f"g0 = sigmoid({columns('U', M, M + L, slots)} + {own})")
            sums = [columns("U", 0, M, slots)]
        else:
            lines.append(f"up{j} = h{j - 1} @ W_up[{j - 1}]")
            lines.append(f"g{j} = sigmoid({columns(f'up{j}', M, M + L, M + L)} + {own})")
            sums = [columns(f"up{j}", 0, M, M + L), columns("U", L + j * M, L + (j + 1) * M, slots)]
        sums += [f"{columns(f'g{j}', i, i + 1, L)} * {columns(f'x{i}', j * M, (j + 1) * M, H)}" for i in range(L)]
        lines.append(f"h{j} = tanh({' + '.join(sums)})")
    return "\n".join([*lines, f"h = concat({', '.join(f'h{j}' for j in range(L))})"])


def _rows(name: str, start: int, stop: int, height: int) -> str:
    return name if (start, stop) == (0, height) else f"{name}[{start or ''}:{'' if stop == height else stop}, :]"


def _state_space(k: Any) -> str:
    n, slots = k.hidden, k.hidden + k.units
    return f"""
        g = {FUNCTION[k.activation]}({columns("U", n, slots, slots)} + h @ W_1)
        h = {columns("U", 0, n, slots)} + h @ A + g @ W_3
    """


def _low_rank(k: Any) -> str:
    f = FUNCTION[k.activation]
    return f"""
        leak = {_share(k.leak)}
        s = {1 / k.hidden!r} * ({f}(x) @ N)
        x = (1 - leak) * x + leak * (U + s @ M)
        r = {f}(x)
    """


def _coupled_oscillator(k: Any) -> str:
    return f"""
        a = U + y @ W_h + z @ W_z
        z = z + {float(k.dt)!r} * (tanh(a) - {float(k.gamma)!r} * y - {float(k.epsilon)!r} * z)
        y = y + {float(k.dt)!r} * z
    """


EQUATIONS: dict[str, Callable[[Any], str]] = {
    "rnn": _rnn, "mrnn": _mrnn, "lstm": _lstm, "lstm-krause": _lstm_krause, "mlstm": _mlstm,
    "mlstm-standard": _mlstm_standard, "hornn": _hornn, "hornn-max": _hornn_max, "hornn-fofe": _hornn_fofe,
    "hornn-gated": _hornn_gated, "scrn": _scrn, "gru": _gru, "clockwork": _clockwork, "leaky": _leaky, "rate": _rate,
    "gru-torch": _gru_torch, "lstm-1997": _lstm_1997, "fnn": _fnn, "fofe-fnn": _fofe_fnn,
    "gated-feedback": _gated_feedback, "hierarchical": _clockwork, "state-space": _state_space,
    "low-rank": _low_rank, "coupled-oscillator": _coupled_oscillator,
}  # fmt: skip
"""The equations of each architecture, given the kernel of a layer."""
HANDED_UP = {"scrn": "y", "rate": "r", "low-rank": "r", "coupled-oscillator": "y"}
"""What a layer hands up, where it is not `h`."""
