"""Draw the learning curves of run folders: `python benchmarks/plot_runs.py RUN... -o curves.svg` (extra `plot`)."""

from __future__ import annotations

from pathlib import Path

import click

from hfrnn.runs.folder import RunFolder


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option("-o", "--out", default="curves.svg", show_default=True, help="Picture to write (.svg, .png, .pdf).")
def main(runs: tuple[str, ...], out: str) -> None:
    """Draw validation bits per symbol, and the damping, over the seconds of training."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "hfrnn"
    from matplotlib import pyplot as plt

    figure, (bits, damping) = plt.subplots(2, 1, sharex=True, figsize=(7, 5), height_ratios=(3, 1))
    for run in runs:
        records = RunFolder(run).metrics()
        seconds = [record["seconds"] for record in records]
        train = [record["train_bits"] for record in records]
        valid = [(record["seconds"], record["valid_bits"]) for record in records if record["valid_bits"] is not None]
        (line,) = bits.plot(*zip(*valid, strict=True), label=f"{Path(run).name}, validation")
        bits.plot(seconds, train, ":", color=line.get_color(), label="training batch")
        damping.plot(seconds, [record["mu"] or record["lambda"] for record in records], color=line.get_color())
    bits.set_ylabel("bits per symbol")
    bits.grid(alpha=0.3)
    bits.legend(frameon=False)
    damping.set_yscale("log")
    damping.set_ylabel("mu")
    damping.grid(alpha=0.3)
    damping.set_xlabel("seconds")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None} if out.endswith(".svg") else None)
    click.echo(f"wrote {out}")


if __name__ == "__main__":
    main()
