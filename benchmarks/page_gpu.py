"""The table of docs/gpu.md with a model of the time of cooperative launches: no GPU has run them yet. See tables.py."""

from __future__ import annotations

from page_text import table

from hfrnn.kernels.cuda.grid import Passes, best_sharing, cycles_of_launches, model, sharings
from hfrnn.kernels.registry import make_kernel

PROCESSORS, SHARED_MEMORY, GIGAHERTZ, ITEM = 132, 232448, 1.7, 4
"""An H200, in float32."""
SIZES = (("rnn", 256), ("rnn", 1024), ("lstm", 256), ("lstm", 512), ("lstm", 1024), ("mlstm", 256), ("mlstm", 512))
BATCHES = (32, 256)


def step_model() -> str:
    """What the recurrence of a step of a product costs by the model, R-forward and backward."""
    head = ("network", "sequences", "blocks of a team", "teams", "MFLOP", "MB read from L2", "barriers",
            "microseconds", "single steps", "chosen")  # fmt: skip
    return table(list(head), [_row(arch, H, B) for arch, H in SIZES for B in BATCHES])


def _row(arch: str, H: int, B: int) -> list[str]:
    passes: Passes = make_kernel(arch, H, {}, "cupy").products()  # type: ignore[attr-defined]
    chosen = best_sharing(passes, B, ITEM, SHARED_MEMORY, PROCESSORS)

    def cycles(way: object) -> float:
        return sum(model(products, B, way.parts, way.teams, ITEM).cycles for products in passes)  # type: ignore[attr-defined]

    way = chosen or min(sharings(passes, B, ITEM, SHARED_MEMORY, PROCESSORS), key=cycles)
    steps = [model(products, B, way.parts, way.teams, ITEM) for products in passes]
    launches = sum(cycles_of_launches(products, B, ITEM, PROCESSORS) for products in passes)
    work = sum(2 * B * product.rows * sum(product.widths) for products in passes for product in products)
    return [
        f"`{arch}` {H}", f"{B}", f"{way.parts}", f"{way.teams}", f"{work / 1e6:.0f}",
        f"{way.blocks * sum(step.bytes_read for step in steps) / 1e6:.1f}", f"{sum(step.barriers for step in steps)}",
        f"{sum(step.cycles for step in steps) / GIGAHERTZ / 1e3:.0f}", f"{launches / GIGAHERTZ / 1e3:.0f}",
        "cooperative" if chosen else "single steps",
    ]  # fmt: skip
