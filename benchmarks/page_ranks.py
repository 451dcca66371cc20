"""The figures of docs/several-machines.md, from ranks-cpu.json; each function returns Markdown. See tables.py."""

from __future__ import annotations

from typing import Any

from page_text import load, paragraph, table

RANKS = "ranks-cpu.json"
SHOWN = (1, 8, 64, 512, 1024)
"""Numbers of ranks of the table of the model."""


def measured() -> str:
    """Return the efficiency of a gradient, a product and an update, with the machine."""
    found = load(RANKS)
    H, T, B = found["size"]
    facts, rows = found["machine"], []
    for name, run in found["runs"].items():
        for operation in ("gradient", "product", "update"):
            row = run[operation]
            rows.append(
                [
                    name,
                    operation,
                    f"{row['median']:.2f}",
                    f"{row['processor']:.2f}",
                    f"{row['efficiency']:.2f}",
                    f"{row['processor_efficiency']:.2f}",
                    f"{row['vectors_sent']:.2f}",
                ]
            )
    text = paragraph(
        f"`{facts['command']}` on {facts['date'][:10]}, {facts['processor']}, load average {facts['load_before']:.1f} "
        f"before and {found['load_after']:.1f} after, an {found['arch']} with H = {H}, T = {T}, B = {B}. Efficiency "
        "compares with one rank; that of processor time counts the work of a rank and does not suffer from other "
        "programs on the machine. The machine has two cores, so four ranks only show the bytes that are sent."
    )
    head = ["started", "operation", "seconds", "processor seconds of a rank", "efficiency"]
    return f"{text}\n\n{table([*head, 'efficiency by processor time', 'vectors sent by a rank'], rows)}"


def predicted() -> str:
    """Return the efficiency that the model predicts, and where adding ranks stops paying."""
    model, rows = load(RANKS)["model"], []
    for each in model["clusters"]:
        by_ranks = {row["ranks"]: row["efficiency"] for row in each["rows"]}
        shown = [f"{by_ranks[n]:.2f}" if n in by_ranks else "" for n in SHOWN]
        rows.append([f"{each['batch']:,}", str(each["cores"]), each["network"], *shown, _pays_up_to(each)])
    check = model["check"]["2 ranks"]
    text = paragraph(
        f"The model for the network of [K] with {model['weights'] / 1e6:.1f} million weights and sequences of "
        f"{model['steps']} steps: efficiency of a CG iteration, and the largest number of ranks with an efficiency of "
        f"{model['pays']:.1f} or more. On two ranks here it predicts {check['predicted']:.2f} s for a product; "
        f"the measured time is {check['processor']:.2f} processor seconds."
    )
    head = [
        "sequences of a batch",
        "cores of a rank",
        "network",
        *(f"{n:,} rank{'s' * (n > 1)}" for n in SHOWN),
        "pays up to",
    ]
    return f"{text}\n\n{table(head, rows)}"


def _pays_up_to(cluster: dict[str, Any]) -> str:
    """Return the largest number of ranks that pays, and why it is the largest one."""
    pays, modelled = f"{cluster['pays_to']:,}", max(row["ranks"] for row in cluster["rows"])
    if cluster["pays_to"] < modelled:
        return pays
    return f"{pays} or more" if cluster["most_ranks"] > modelled else f"{pays} (as many as there are shards)"
