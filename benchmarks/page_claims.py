"""The claims of the papers with a verdict for each, computed from the rows of papers/reproduction.py. See tables.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import page_papers

# isort: split
import hornn_norms
from page_text import listed, table
from reproduction import BEST_ALPHA, MATCHED, Row

REPRODUCED, IN_PART, NOT_REPRODUCED, NOT_RUN = "reproduced", "in part", "not reproduced", "not run"
NETWORKS = {"mlstm-structural": "mlstm", "mrnn-structural": "mrnn", "mrnn-stacked": "stacked mrnn",
            "lstm-structural": "lstm", "rnn-structural": "rnn"}  # fmt: skip
"""The rows of [K]'s table 4.5 with structural damping, and their names here."""
HIGHER = {"hornn-gated-3": "gated", "hornn-fofe-3": "FOFE", "hornn-max-3": "max", "hornn-3": "plain"}
"""The networks of order 3 of [S]'s table 2, and their names here."""

Rows = Mapping[str, Row]


class Claim(NamedTuple):
    """A claim of a paper in words, the figures there and here, and the verdict with its reason."""

    claim: str
    published: str
    ours: str
    verdict: str


def claims() -> str:
    """Return the table of all claims, in the order of the papers."""
    made = [
        kinds_of_networks(), dampings(), online_rule(), whole_wikipedia(),
        higher_orders(), higher_orders_as_printed(), kinds_of_orders(), orders_of_fofe(), beside_the_lstm(),
        best_forgetting(),
        contexts(), context_beside_the_lstm(), learned_contexts(), learned_contexts_alone(), cache(),
    ]  # fmt: skip
    return table(["claim", "published", "ours", "verdict"], [list(each) for each in made])


# ---------------------------------------------------------------------- [K]


def kinds_of_networks() -> Claim:
    """[K]'s order of architectures."""
    rows = _rows("papers-hf-ptb", "hf_ptb-hours")
    holds = _same_order(NETWORKS, rows)
    whole = all(row.ours for row in _rows("papers-hf-ptb", "hf_ptb").values())
    verdict = NOT_REPRODUCED if not holds else REPRODUCED if whole else f"{IN_PART}: the order, in runs of 15 minutes"
    return Claim(
        "[K] 4: with equal numbers of weights and structural damping, mlstm is best, then mrnn, lstm, rnn (bits)",
        *_both(NETWORKS, rows), verdict,
    )  # fmt: skip


def dampings() -> Claim:
    """Line-search damping against structural damping."""
    rows = _rows("papers-hf-ptb", "hf_ptb-hours")
    ran = [name for name in ("mrnn-line-search", "mrnn-line-search-curvature") if rows[name].ours]
    searched = min(ran, key=lambda name: _ours(rows, name))
    names = {searched: "line search", "mrnn-structural": "structural"}
    updates = [rows[name].epochs.removesuffix(" updates") for name in names]
    reached = _ours(rows, searched) <= _ours(rows, "mrnn-structural")
    short = f"{NOT_REPRODUCED} in 15 minutes: {updates[0]} updates against {updates[1]}"
    return Claim(
        "[K] 4: damping by line search alone ends slightly ahead of structural damping (mrnn, bits)",
        *_both(names, rows), REPRODUCED if reached else short,
    )  # fmt: skip


def online_rule() -> Claim:
    """Hessian-free optimization against the online rule."""
    rows = _rows("papers-hf-ptb", "hf_ptb-small")
    names = {"lstm-structural": "Hessian-free", "lstm-online": "online"}
    holds = _ours(rows, "lstm-structural") < _ours(rows, "lstm-online")
    there = _rows("papers-hf-ptb", "hf_ptb")
    return Claim(
        "[K] 4: Hessian-free optimization trains an lstm better than the online rule of 1997 (bits)",
        _figures(_there, names, there), _figures(_ours, names, rows),
        f"{IN_PART}: with 20,000 weights, in two minutes" if holds else NOT_REPRODUCED,
    )  # fmt: skip


def whole_wikipedia() -> Claim:
    """[K] on Wikipedia."""
    rows = _rows("papers-hf-wikipedia", "hf_wikipedia")
    there = ", ".join(f"{name.removeprefix('mlstm-')} {row.published['test']:.2f}" for name, row in rows.items())
    ours, verdict = _one("mlstm-structural", rows)
    return Claim("[K] 5: an mlstm of 21 million weights on enwik8 (bits)", there, ours, verdict)


# ---------------------------------------------------------------------- [S]


def higher_orders() -> Claim:
    """What orders gain over a plain network."""
    rows = _rows("papers-hornn-ptb", "hornn_ptb")
    return Claim(
        "[S] 4: a network of order 3 is far better than a plain rnn (perplexity below that of rnn, PTB words)",
        *_gains(rows, "rnn", HIGHER),
    )


def higher_orders_as_printed() -> Claim:
    """What orders gain over a plain network with the recipe that [S] prints, at first and in the end."""
    rows, recipe = _rows("papers-hornn-norms", "hornn_norms"), hornn_norms.FALLING
    cells = {cell: f"{name}-{recipe}" for name, cell in hornn_norms.NETWORKS.items()}
    names = {cells[cell]: short for cell, short in HIGHER.items() if rows[cells[cell]].ours}
    plain = cells["rnn"]
    there, here, verdict = _gains(rows, plain, names)
    curves = {name: [point["valid_perplexity"] for point in rows[name].curves[0]] for name in (plain, *names)}
    first, last = (", ".join(f"{short} {curves[plain][n] - curves[name][n]:.0f}" for name, short in names.items())
                   for n in (0, -1))  # fmt: skip
    return Claim(
        "[S] 4: the same with the recipe that is printed (SGD with momentum, a rate that is halved)",
        there, f"{here} (rnn {_ours(rows, plain):.1f})",
        f"{verdict}; in validation {first} after the first epoch, {last} after the last",
    )  # fmt: skip


def _gains(rows: Rows, plain: str, names: Mapping[str, str]) -> tuple[str, str, str]:
    """Return how far networks are below a plain one, there and here, and the verdict."""
    there, here = ({short: figure(rows, plain) - figure(rows, name) for name, short in names.items()}
                   for figure in (_there, _ours))  # fmt: skip
    kept = [short for short in here if here[short] >= there[short] / 3]
    verdict = NOT_REPRODUCED if not kept else f"{IN_PART}: only {listed(kept)} keeps a third of the gain or more"
    if all(here[short] >= there[short] / 2 for short in there):
        verdict = REPRODUCED
    shown = (", ".join(f"{short} {gain:.0f}" for short, gain in gains.items()) for gains in (there, here))
    return *shown, verdict


def kinds_of_orders() -> Claim:
    """The order of the four kinds."""
    rows = _rows("papers-hornn-ptb", "hornn_ptb")
    holds = _same_order(HIGHER, rows, near=0.015)
    return Claim(
        "[S] 4: gated and FOFE networks are better than max and plain ones (perplexity, order 3)", *_both(HIGHER, rows),
        f"{REPRODUCED}: the order" if holds else NOT_REPRODUCED,
    )  # fmt: skip


def orders_of_fofe() -> Claim:
    """FOFE networks of orders 2 to 4."""
    rows = _rows("papers-hornn-ptb", "hornn_ptb")
    names = {f"hornn-fofe-{order}": f"order {order}" for order in (4, 3, 2)}
    holds = _same_order(names, rows)
    return Claim(
        "[S] 4: a FOFE network is better with a higher order (perplexity)", *_both(names, rows),
        f"{IN_PART}: the order, but two seeds may differ by as much" if holds else NOT_REPRODUCED,
    )  # fmt: skip


def beside_the_lstm() -> Claim:
    """FOFE and gated networks against the LSTM."""
    rows = _rows("papers-hornn-ptb", "hornn_ptb")
    names = {"lstm": "lstm", **{name: HIGHER[name] for name in ("hornn-gated-3", "hornn-fofe-3")}}
    holds = max(_ours(rows, name) for name in list(names)[1:]) < _ours(rows, "lstm")
    return Claim(
        "[S] 4: gated and FOFE networks are better than an lstm (perplexity)", *_both(names, rows),
        REPRODUCED if holds else f"{NOT_REPRODUCED}: the lstm is far better than the figure that [S] quotes",
    )  # fmt: skip


def best_forgetting() -> Claim:
    """[S] figure 6."""
    rows = _rows("papers-hornn-forgetting", "hornn_forgetting")
    ran = {name: row for name, row in rows.items() if row.ours}
    good = bool(ran) and all(row.state == MATCHED for row in ran.values())
    ours = ", ".join(f"{name} {_ours(rows, name):.4g}" for name in ran)
    verdict = NOT_RUN if not ran else REPRODUCED if good else NOT_REPRODUCED
    inside = [name.removeprefix("alpha-") for name in BEST_ALPHA]
    return Claim(
        "[S] 4.1.2: the forgetting factor alpha of FOFE is best between 0.5 and 0.7", f"{inside[0]} to {inside[-1]}",
        ours, verdict,
    )  # fmt: skip


# ---------------------------------------------------------------------- [M]


def contexts() -> Claim:
    """What a context gains over a plain network."""
    rows = _rows("papers-scrn-ptb", "scrn_ptb")
    names = ("lstm-100", "scrn-100-40")
    there, here = ([value(rows, "srn-100") - value(rows, name) for name in names] for value in (_there, _ours))
    holds = all(b >= a / 2 for a, b in zip(there, here, strict=True))
    return Claim(
        "[M] 5: slow context units make a plain network of 100 units far better (perplexity below it, PTB words)",
        *(f"SCRN {gains[1]:.1f}, lstm {gains[0]:.1f}" for gains in (there, here)),
        REPRODUCED if holds else NOT_REPRODUCED,
    )  # fmt: skip


def context_beside_the_lstm() -> Claim:
    """An SCRN against an LSTM of more weights."""
    rows = _rows("papers-scrn-ptb", "scrn_ptb")
    names = {"lstm-100": "lstm", "scrn-100-40": "SCRN"}
    holds = _ours(rows, "scrn-100-40") <= 1.03 * _ours(rows, "lstm-100")
    return Claim(
        "[M] 5: with 100 units and half of the weights, an SCRN is as good as an lstm (perplexity)",
        *_both(names, rows), REPRODUCED if holds else NOT_REPRODUCED,
    )  # fmt: skip


def learned_contexts() -> Claim:
    """[M] table 2: context units beside 100 others."""
    claim = "[M] 5: learned context weights do not help beside 100 units (perplexity)"
    return _learned(claim, "100-40", lambda fixed, learned: learned >= 0.97 * fixed)


def learned_contexts_alone() -> Claim:
    """[M] table 2: nothing but context units."""
    claim = "[M] 5: with 50 context units and no others, learned context weights are far better (perplexity)"
    return _learned(claim, "0-50", lambda fixed, learned: learned <= fixed / 1.5)


def _learned(claim: str, cell: str, holds: Callable[[float, float], bool]) -> Claim:
    """Judge a claim by the perplexities with fixed and with learned context weights."""
    rows = _rows("papers-scrn-learned", "scrn_learned")
    names = {cell: "fixed", f"{cell}-learned": "learned"}
    there = _in_order(_there, names, rows)
    if not all(rows[name].ours for name in names):
        return Claim(claim, there, "", NOT_RUN)
    verdict = REPRODUCED if holds(*(_ours(rows, name) for name in names)) else NOT_REPRODUCED
    return Claim(claim, there, _in_order(_ours, names, rows), verdict)


def cache() -> Claim:
    """What a cache of words gains for n-grams."""
    rows = _rows("papers-scrn-ptb", "scrn_ptb")
    names = {"n-gram": "5-gram", "n-gram with cache": "with a cache"}
    good = all(rows[name].state == MATCHED for name in names)
    return Claim(
        "[M] 5: a cache of recent words improves a 5-gram model (perplexity, PTB words)",
        *(_in_order(value, names, rows) for value in (_there, _ours)),
        REPRODUCED if good else NOT_REPRODUCED,
    )  # fmt: skip


# ---------------------------------------------------------------------- figures


def _rows(figure: str, folder: str) -> dict[str, Row]:
    """Return the rows of a table of the papers, at the scale of its folder of results."""
    return {row.name: row for each in page_papers.TABLES[figure] if each.folder == folder for row in each.rows}


def _ours(rows: Rows, name: str) -> float:
    found = rows[name].mean()
    if found is None:
        raise LookupError(f"{name} has no result: a claim needs it")
    return found


def _there(rows: Rows, name: str) -> float:
    return rows[name].published[rows[name].part]


def _one(name: str, rows: Rows) -> tuple[str, str]:
    """Return our figure and the verdict of a claim that is one figure."""
    row = rows[name]
    if not row.ours:
        return "", NOT_RUN
    return f"{_ours(rows, name):.4g}", REPRODUCED if row.state == MATCHED else NOT_REPRODUCED


def _figures(value: Callable[[Rows, str], float], names: Mapping[str, str], rows: Rows) -> str:
    """Return published figures (`_there`) or ours (`_ours`), the lowest first."""
    found = sorted(names, key=lambda name: (value(rows, name), names[name]))
    return _in_order(value, {name: names[name] for name in found}, rows)


def _in_order(value: Callable[[Rows, str], float], names: Mapping[str, str], rows: Rows) -> str:
    """Return the same figures in the order of the names."""
    return ", ".join(f"{short} {value(rows, name):.4g}" for name, short in names.items())


def _both(names: Mapping[str, str], rows: Rows) -> tuple[str, str]:
    return _figures(_there, names, rows), _figures(_ours, names, rows)


def _same_order(names: Mapping[str, str], rows: Rows, near: float = 0.0) -> bool:
    """Whether our figures have the published order; rows whose published figures are near may have either.

    Figures are near if they differ by at most this share of them.
    """
    return all(
        _ours(rows, a) < _ours(rows, b)
        for a in names for b in names if _there(rows, a) < (1 - near) * _there(rows, b)
    )  # fmt: skip
