"""The figures on fused passes and on the parts of an update, from the JSON files in results/."""

from __future__ import annotations

from typing import Any

from page_text import listed, load, ms, paragraph, table

FUSED = "fused-passes-cpu.json"
UPDATE, PARTS = "update-account-cpu.json", "update-parts-cpu.json"


def gradients() -> str:
    """Weight gradients inside backward."""
    cases = load(FUSED)["gradients"]
    steps = list(dict.fromkeys(name for case in cases for name in case["seconds"] if name.isdigit()))
    names = ["engine", *sorted(steps, key=int), "all steps"]
    rows = []
    for case in cases:
        found = case["seconds"]
        cells = [ms(found[name]) if name in found else "-" for name in names]
        rows.append([f"{case['arch']}, {case['H']}, {case['B']}, {case['segment']}", *cells, ms(case["product"])])
    heads = [name if name in ("engine", "all steps") else f"every {name}" for name in names]
    return table(["network, units, sequences, steps of a segment", *heads, "product"], rows)


def orders() -> str:
    """Backward of a segment just after its R-forward, and later."""
    rows = []
    for case in load(FUSED)["orders"]:
        found = case["seconds"]
        what = f"{case['arch']}, {case['H']}, {case['B']}; {case['segments']} segments"
        names = ("R-forward", "backward", "backward, after R-forward", "R-forward again, after R-forward")
        rows.append([what, *(ms(found[name]) for name in names)])
    heads = ["network, units, sequences", "R-forward", "backward", "backward in the cache", "second R-forward"]
    return table(heads, rows)


def calls() -> str:
    """Products in one compiled call."""
    found = []
    for case in load(FUSED)["calls"]:
        seconds = case["seconds"]
        name = f"{case['arch']} with {case['H']} units"
        found.append(f"{ms(seconds['engine'])} to {ms(seconds['one call'])} ms ({name})")
    return paragraph(f"Prototypes of one call for a whole product change its time from {listed(found)}.")


def update_account() -> str:
    """The parts of an update that one call per sweep and threads in compiled code could save."""
    content = load(UPDATE)
    rows = []
    for network in content["networks"]:
        whole = network["update"]
        handovers = whole["switches"] * content["handover"]
        rows.append(
            [
                network["name"],
                ms(whole["processor"]),
                f"{ms(whole['interpreter'])} ({whole['interpreter'] / whole['processor']:.1%})",
                ms(whole["two threads"]),
                f"{whole['switches']:.0f}",
                f"{ms(handovers)} ({handovers / whole['two threads']:.1%})",
            ]
        )
    heads = ["network", "one thread", "interpreter", "two threads", "waits", "handovers"]
    return table(heads, rows)


def preparation() -> str:
    """The forward pass before the products as a share of an update."""
    found = []
    for network in load(UPDATE)["networks"]:
        share = network["operations"]["preparation"]["processor"] / network["update"]["processor"]
        found.append(f"{share:.1%} ({network['name']})")
    return listed(found)


def update_parts() -> str:
    """The parts of an update of `hf` on a large text, in gradients, before and now, and the symbols that each reads."""
    networks = load(PARTS)["networks"]
    rows = []
    for name in networks[0]["now"]["parts"]:
        row = [name]
        for each in networks:
            row += [f"{each[when]['parts'][name]['seconds'] / _gradient(each[when]):.2f}" for when in ("before", "now")]
            symbols = each["now"]["parts"][name]["symbols"]
            row.append(f"{symbols:,.0f}" if symbols else "")
        rows.append(row)
    whole = [[each[when]["seconds"] / each[when]["updates"] for when in ("before", "now")] for each in networks]
    shown = [
        cell
        for each, (before, now) in zip(networks, whole, strict=True)
        for cell in (f"{before / _gradient(each['before']):.2f}", f"{now / _gradient(each['now']):.2f}", "")
    ]
    heads = [f"{each['arch']} {each['hidden']}, {what}" for each in networks for what in ("before", "now", "symbols")]
    return table(["part", *heads], [*rows, ["update", *shown]])


def _gradient(found: dict[str, Any]) -> float:
    return float(found["parts"]["gradient"]["seconds"])
