"""The plots of predictions, of a bracket probe and of a spectrum. They need matplotlib (extra `plot`)."""

from __future__ import annotations

import io
import math
from typing import Any, Literal

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from hfrnn.analysis.free_runs import free_lengths
from hfrnn.analysis.prediction import Prediction, most_varied, scored_targets
from hfrnn.analysis.probe import BracketProbe
from hfrnn.analysis.sequences import Given, times_of_rows
from hfrnn.analysis.spectrum import Spectrum
from hfrnn.arrays.backend import host_copy
from hfrnn.engine.feedback import Feedback
from hfrnn.engine.network import Network
from hfrnn.losses import LOSSES

SEQUENCES, OUTPUTS = 3, 4
"""Most sequences and outputs that are drawn: the first sequences, and the outputs that vary most."""
STEPS_BEFORE = 200
"""Most steps that are drawn before a free run."""


def prediction_picture(
    net: Network, given: Given, begun: Given, found: Prediction, kind: str, free: Feedback | None = None,
    sequence: int | None = None,
) -> bytes:  # fmt: skip
    """Return a picture of targets and predictions over the steps, as svg, png or pdf.

    The panels of an output share their y range, those of probabilities all of them. Steps that are not scored are
    shaded. Predicted standard deviations give a band of two of them on each side.

    Parameters
    ----------
    net : Network
    given : Given
        The sequences of the data.
    begun : Given
        Those that the network read; the first steps of `given` for a free run.
    found : Prediction
    kind : {"svg", "png", "pdf"}
    free : Feedback, optional
        For the predictions of a free run: its feedback. Inputs of `given` are then its targets, one step ahead.
    sequence : int, optional
        The only sequence to draw, counted from 0. By default the first ones.
    """
    n_out = found.outputs.shape[2]
    names = given.output_names or tuple(
        f"{'class' if net.head.integer_targets else 'output'} {k}" for k in range(n_out)
    )
    targets = _targets(net, given, n_out, free)
    chosen = most_varied(found.outputs if targets is None else targets, OUTPUTS)
    drawn = range(min(given.batch.B, SEQUENCES)) if sequence is None else range(sequence, sequence + 1)
    columns, rows = len(drawn), len(chosen)
    figure = Figure(figsize=(11.0 if columns == 1 else 4.5 * columns, 1.2 + 1.7 * rows), layout="constrained")
    figure.suptitle(f"{given.name}\n{net.describe()}", fontsize="medium")
    same: Literal["row", "all"] = "row" if LOSSES[net.loss_name].real_values else "all"
    axes = figure.subplots(rows, columns, squeeze=False, sharex="col", sharey=same)
    timed = given.recording and given.times is not None and len(given.times) > 1
    for column, b in enumerate(drawn):
        shown, known_at, at = _places(given, begun, found, b, free)
        dark, scored = (None, None) if free is not None else _shaded(net, given, b, len(at))
        for row, k in enumerate(chosen):
            place, predicted = axes[row, column], found.outputs[: len(at), b, k]
            if dark is not None and scored is not None:
                _shade(place, at, dark, "0.75", "burn-in")
                _shade(place, at, ~scored[:, k] & ~dark, "0.9", "not scored")
            if targets is not None:
                _draw_known(place, known_at, targets[shown, b, k], "target" if free is None else "data")
            place.plot(at, predicted, color="C0", linewidth=1, label="prediction")
            if found.deviations is not None:
                band = 2 * found.deviations[: len(at), b, k]
                place.fill_between(
                    at, predicted - band, predicted + band, color="C0", alpha=0.2, linewidth=0,
                    label="two standard deviations",
                )  # fmt: skip
            place.grid(alpha=0.3)
            place.set_ylabel(names[k] if column == 0 else "")
        if not given.recording:
            axes[0, column].set_title(f"sequence {b}", fontsize="small")
        axes[rows - 1, column].set_xlabel("time" if timed else "row" if given.recording else "step")
    pairs = [zip(*each.get_legend_handles_labels(), strict=True) for each in axes.flat]
    labelled = {text: handle for each in pairs for handle, text in each}
    figure.legend(labelled.values(), labelled, loc="outside upper right", frameon=False, fontsize="small", ncols=2)
    return rendered(figure, kind)


def _targets(net: Network, given: Given, n_out: int, free: Feedback | None) -> NDArray[Any] | None:
    """Return what is drawn beside the predictions, NaN where it is unknown; None without it."""
    if free is not None:
        x = host_copy(given.batch.inputs)
        targets = np.full((*x.shape[:2], n_out), np.nan)
        targets[:, :, free.outputs] = x[:, :, free.inputs]
        return targets
    return None if given.batch.targets is None else scored_targets(net, given.batch)


def _places(
    given: Given, begun: Given, found: Prediction, b: int, free: Feedback | None
) -> tuple[slice, NDArray[Any], NDArray[Any]]:
    """Return the steps of the targets of sequence b that are drawn, their places and those of the predictions."""
    length = _length(given, b)
    first = 1 if given.recording else 0  # rows of a recording are counted from 1
    if free is not None:
        start, T = _length(begun, b), int(free_lengths(given.batch, free, begun.batch.T, len(found.outputs))[b])
        shown, at = slice(max(start - STEPS_BEFORE, 0), min(start + T, length)), np.arange(start, start + T) + first
        known_at = np.arange(length)[shown] + first
    else:
        shown = slice(length)
        known_at = at = np.arange(length) + first + (given.ahead if given.recording else 0)
    if given.recording and given.times is not None and len(given.times) > 1:
        return shown, times_of_rows(given.times, known_at - first), times_of_rows(given.times, at - first)
    return shown, known_at, at


def _shaded(net: Network, given: Given, b: int, steps: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which steps of sequence b belong to the burn-in, (steps,), and which are scored, (steps, n_out)."""
    batch = given.batch.columns(b, b + 1)
    weights = net.backend.to_host(batch.output_weights(net.backend)) if batch.targets is not None else batch.weights
    counted = np.ones((steps, 1)) if weights is None else host_copy(weights)[:steps].reshape(steps, -1)
    scored = np.broadcast_to(counted > 0, (steps, net.n_out))
    return (np.arange(steps) < given.washout) & ~scored.any(axis=1), scored


def _shade(place: Any, at: NDArray[Any], where: NDArray[np.bool_], colour: str, label: str) -> None:
    """Shade the steps where a condition holds, over the whole height of a panel."""
    if not where.any():
        return
    middle = (at[1:] + at[:-1]) / 2
    half = (at[1] - at[0]) / 2 if len(at) > 1 else 0.5
    edges = np.concatenate([[at[0] - half], middle, [at[-1] + half]])
    changes = np.flatnonzero(np.diff(np.concatenate([[False], where, [False]]).astype(int)))
    spans = [(edges[low], edges[high] - edges[low]) for low, high in changes.reshape(-1, 2)]
    style = {"color": colour, "alpha": 0.6, "linewidth": 0, "zorder": 0, "label": label}
    place.broken_barh(spans, (0, 1), transform=place.get_xaxis_transform(), **style)


def _draw_known(place: Any, at: NDArray[Any], values: NDArray[Any], label: str) -> None:
    """Draw values as a line, and those between two unknown ones as dots."""
    known = np.concatenate([[False], np.isfinite(values), [False]])
    lone = known[1:-1] & ~known[:-2] & ~known[2:]
    place.plot(at, values, color="0.45", linewidth=1.2, label=label)
    place.plot(at[lone], values[lone], "o", markersize=4, color="0.45")


def _length(given: Given, b: int) -> int:
    return given.batch.T if given.batch.lengths is None else int(given.batch.lengths[b])


# ------------------------------------------------------------------ a bracket probe


def probe_picture(found: BracketProbe, kind: str, about: str = "") -> bytes:
    """Return a picture of both curves over the distance, as svg, png or pdf; figure 5.1 of [K] is its left half.

    Lines are means over the trials. Bands are one standard error wide on each side.
    """
    at = (found.first + found.last) / 2
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    figure.suptitle(_plain(f"{found.closing} after {found.opening}\n{about}".strip()), fontsize="medium")
    ratio, closing = figure.subplots(1, 2)
    for colour, curves, name in (("C0", found.opened, found.opening), ("C1", found.unopened, found.control)):
        means = {key: np.array(values) for key, values in curves.to_json().items()}
        low, high = (means["log_ratio"] + sign * means["log_ratio_error"] for sign in (-1, 1))
        ratio.fill_between(at, low, high, color=colour, alpha=0.25, linewidth=0)
        ratio.plot(at, means["log_ratio"], color=colour, label=_plain(f"after {name}"), linewidth=1.2)
        closing.plot(at, means["closing"], color=colour, label=_plain(f"after {name}"), linewidth=1.2)
    close, begin = _plain(found.closing_symbol), _plain(found.opening_symbol)
    ratio.set(xlabel="distance", ylabel=f"log10 P('{close}')/P('{begin}')", title="Closing rather than opening")
    closing.set(xlabel="distance", ylabel=f"P('{close}')", yscale="log", title="Probability of closing")
    for axes in (ratio, closing):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return rendered(figure, kind)


def _plain(text: str) -> str:
    """Return a text that Matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


# ------------------------------------------------------------------ a spectrum


BULK = 0.1
"""Share of all eigenvalues up to which they are counted; the rest lies near 0, where few steps do not resolve it."""


def spectrum_picture(spectra: list[Spectrum], kind: str, about: str = "") -> bytes:
    """Return a picture of the densities and of the number of eigenvalues above each size, as svg, png or pdf.

    The title names the matrices; `about` is the rest of it: the network and its data.

    Each node is drawn as a bell curve whose width is 1/200 of the whole range. Values below a third of the height of a
    single eigenvalue are cut off. Ticks mark the eigenvalues that were computed one by one.
    """
    everything = np.concatenate([part for s in spectra for part in (s.nodes, s.largest, s.smallest)])
    low, high = float(everything.min()), float(everything.max())
    width = (high - low or 1.0) / 200
    at = np.linspace(low - 4 * width, high + 4 * width, 2000)
    peak = 1 / (width * math.sqrt(2 * math.pi))
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    names = " and ".join({"gauss-newton": "Gauss-Newton matrix", "hessian": "Hessian"}[each.matrix] for each in spectra)
    figure.suptitle(f"Eigenvalues of the {names}\n{about}".strip(), fontsize="medium")
    density, counts = figure.subplots(1, 2)
    for number, found in enumerate(spectra):
        colour, name = f"C{number}", found.matrix
        bells = np.exp(-(((at[:, None] - found.nodes) / width) ** 2) / 2) * peak
        density.plot(at, bells @ found.weights, color=colour, label=name, linewidth=1)
        ends = np.concatenate([found.largest, found.smallest])
        density.plot(ends, np.full(ends.size, peak / found.size), "|", color=colour, markersize=12)
        for sign, line, side in ((1, "-", "above 0"), (-1, "--", "below 0")):
            order = np.argsort(-sign * found.nodes, kind="stable")
            size, count = sign * found.nodes[order], found.size * np.cumsum(found.weights[order])
            shown = (size > 0) & (count <= BULK * found.size)
            if shown.any():
                style = {"color": colour, "label": f"{name}, {side}", "linewidth": 1, "drawstyle": "steps-post"}
                counts.plot(size[shown], count[shown], line, **style)
    n = max(found.size for found in spectra)
    density.set(yscale="log", ylim=(peak / n / 3, 2 * peak), xlabel="eigenvalue", ylabel="density", title="Density")
    counts.set(
        xscale="log",
        yscale="log",
        xlabel="size",
        ylabel="eigenvalues of at least that size, about",
        title="Number above each size",
    )
    counts.set_ylim(bottom=0.5)
    for axes in (density, counts):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False)
    return rendered(figure, kind)


# ------------------------------------------------------------------ files of pictures


def rendered(figure: Figure, kind: str) -> bytes:
    """Return a figure as svg, png or pdf. The same figure gives the same bytes of svg: no date, no random names."""
    drawn = io.BytesIO()
    with rc_context({"svg.hashsalt": "hfrnn"}):
        figure.savefig(drawn, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return drawn.getvalue()
