"""Write the figures of README.md, docs/, and this folder's README.md and diary/ from the JSON files in results/.

    python benchmarks/tables.py             rewrite the pages
    python benchmarks/tables.py --check     only say which pages differ

A page marks its figures by comments: `<!-- figures: NAME -->`, the text that `NAME` in FIGURES returns, `<!-- end -->`.
Run this after a benchmark has written a new JSON file. A test compares the pages with the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import page_claims
import page_curvature
import page_dynamics
import page_fused
import page_gpu
import page_hf_vs_sgd
import page_methods
import page_papers
import page_presets
import page_ranks
import page_speed
import page_systems
import page_training

PROJECT = Path(__file__).resolve().parent.parent
PAGES = [
    PROJECT / "README.md",
    PROJECT / "benchmarks" / "README.md",
    *sorted((PROJECT / "docs").glob("*.md")),
    *sorted((PROJECT / "benchmarks" / "diary").glob("*.md")),
]
MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->)(.*?)(<!-- end -->)", re.S)

FIGURES: dict[str, Callable[[], str]] = {
    "speed-runs": page_speed.speed_runs,
    "versions": page_speed.versions,
    "products": page_speed.products,
    "older-jax": page_speed.older_jax,
    "peak": page_speed.peak,
    "product-over-gradient": page_speed.product_over_gradient,
    "numba-over-numpy": page_speed.numba_over_numpy,
    "hidden-64": page_speed.hidden_64,
    "small": page_speed.small,
    "small-two-threads": page_speed.small_two_threads,
    "larger": page_speed.larger,
    "small-account": page_speed.small_account,
    "account": page_speed.account,
    "account-of-passes": page_speed.account_of_passes,
    "architectures": page_speed.architectures,
    "memory": page_speed.memory,
    "memory-growth": page_speed.memory_growth,
    "planner": page_speed.planner,
    "vocabulary": page_speed.vocabulary,
    "epoch": page_speed.epoch,
    "other-lookups": page_speed.other_lookups,
    "other-steps": page_speed.other_steps,
    "fused-gradients": page_fused.gradients,
    "fused-orders": page_fused.orders,
    "fused-calls": page_fused.calls,
    "update-account": page_fused.update_account,
    "preparation": page_fused.preparation,
    "update-parts": page_fused.update_parts,
    "updates": page_speed.updates,
    "gpu-step-model": page_gpu.step_model,
    "torch-products": page_speed.torch_products,
    "hf-and-first-order": page_methods.compared,
    "hf-and-first-order-ratios": page_methods.ratios,
    "hf-and-first-order-machines": page_methods.machines,
    "ptb-share": partial(page_methods.share, "ptb-mlstm-64"),
    "processor-time-tuning": page_hf_vs_sgd.tuning,
    "processor-time": page_hf_vs_sgd.problems,
    "processor-time-block-shift": lambda: page_hf_vs_sgd.problems(page_hf_vs_sgd.BLOCK_SHIFT),
    "words-penalty": page_hf_vs_sgd.words_penalty,
    "processor-time-larger": lambda: page_hf_vs_sgd.problems(page_hf_vs_sgd.LARGER),
    "processor-time-before": page_hf_vs_sgd.before,
    "processor-time-adam": lambda: page_hf_vs_sgd.problems(page_hf_vs_sgd.ADAM),
    "processor-time-muon": lambda: page_hf_vs_sgd.problems(page_hf_vs_sgd.MUON),
    "minute": lambda: page_hf_vs_sgd.problems(page_hf_vs_sgd.MINUTE),
    "minute-tuning": lambda: page_hf_vs_sgd.tuning(page_hf_vs_sgd.MINUTE),
    "presets": page_presets.presets,
    "cheaper-updates-64": partial(page_presets.cheaper_updates, 64),
    "cheaper-updates-256": partial(page_presets.cheaper_updates, 256),
    "text-defaults-prefix": partial(page_presets.text_defaults, "prefix"),
    "text-defaults-built-in": partial(page_presets.text_defaults, "built-in"),
    "text-defaults-tinyshakespeare": partial(page_presets.text_defaults, "tinyshakespeare"),
    "weaker-damping": partial(page_presets.weaker_damping, "tinyshakespeare"),
    "weaker-damping-other": partial(page_presets.weaker_damping, "other"),
    "weaker-damping-noise": page_presets.noise_of_steps,
    "weaker-damping-rule": page_presets.damping_by_noise,
    "weaker-damping-words": partial(page_presets.weaker_damping, "words"),
    "momentum": page_presets.momentum,
    "first-order-start": page_presets.first_order_start,
    "array-trials-flip-flop": partial(page_presets.array_trials, "flip-flop"),
    "array-trials-sine": partial(page_presets.array_trials, "sine"),
    "array-batches": page_presets.array_batches,
    "array-recordings": page_presets.array_recordings,
    "defaults": page_presets.defaults,
    "signs": page_presets.signs,
    "preconditioners": page_presets.preconditioners,
    "diagonals": page_presets.diagonals,
    "as-typed": page_training.as_typed,
    "long-lags": page_training.long_lags,
    "remedies": page_training.remedies,
    "plateau": page_training.plateau,
    "first-weights": page_training.first_weights,
    "remedies-short": partial(page_training.remedies, ("curriculum", "rise-10", "mixed"), 100),
    "dynamics": page_dynamics.dynamics,
    "dynamics-ratios": page_dynamics.soap_ratios,
    "systems": page_systems.systems,
    "tanks": page_systems.tanks,
    "sysid": page_systems.sysid,
    "influence": page_curvature.influence,
    "influence-weak": page_curvature.influence_weak,
    "several-vectors": page_curvature.several_vectors,
    "ranks": page_ranks.measured,
    "ranks-model": page_ranks.predicted,
    "papers-claims": page_claims.claims,
    "papers-small": page_papers.small,
    "papers-count": page_papers.count,
    "papers-rules": page_papers.rules,
    "papers-probe": page_papers.probe,
    "papers-hornn": page_papers.hornn,
    "papers-norms": page_papers.norms,
    "papers-falling": page_papers.falling_rate,
    "papers-dynamic": page_papers.dynamic,
    "papers-ablation": page_papers.ablation,
    "papers-prefix": page_papers.prefix,
    "papers-scrn-restored": page_papers.restored,
    **{name: partial(page_papers.papers, name) for name in page_papers.TABLES},
}


def rewritten(page: str) -> str:
    """Return the text of a page with the figures of today's JSON files."""

    def fresh(found: re.Match[str]) -> str:
        start, name, old, end = found.groups()
        if name not in FIGURES:
            raise click.ClickException(f"figures {name!r} are not known: use {', '.join(FIGURES)}")
        text = FIGURES[name]()
        return f"{start}\n\n{text}\n\n{end}" if "\n" in old else f"{start}{text}{end}"

    return MARKED.sub(fresh, page)


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit with status 1 if a page differs.")
def main(check: bool) -> None:
    """Write the figures of the pages from the JSON files in benchmarks/results/."""
    stale = []
    for page in PAGES:
        old = page.read_text("utf-8")
        new = rewritten(old)
        if new != old:
            stale.append(page.relative_to(PROJECT).as_posix())
            if not check:
                page.write_text(new, "utf-8")
    click.echo(f"{'different' if check else 'rewritten'}: {', '.join(stale) or 'no page'}")
    raise SystemExit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
