"""`hfrnn export`: programs that run a trained network without hfrnn."""

from __future__ import annotations

import os

import click

from hfrnn.choices import DTYPES
from hfrnn.cli.arguments import NearChoice, kernel_option
from hfrnn.cli.completion import folders, run_folders
from hfrnn.cli.evaluate import which_option
from hfrnn.cli.output import say
from hfrnn.wording import memory_size

EXAMPLES = """\b
Examples:
  hfrnn export runs/plant programs
  hfrnn export runs/plant programs --to numpy,c
  hfrnn export runs/book programs --to torch,onnx --dtype float32
"""


@click.command(short_help="Write a trained network as NumPy, PyTorch, ONNX or C.", epilog=EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@click.argument("folder", shell_complete=folders)
@kernel_option
@click.option(
    "--to", metavar="LIST", default="numpy", show_default=True,
    help="Programs to write: numpy, torch, onnx and c, with commas.",
)  # fmt: skip
@click.option("--dtype", type=NearChoice(DTYPES), help="Data type of the programs.  [default: that of the run]")
@click.option(
    "--symbols/--no-symbols", default=None,
    help="Whether inputs are integer symbols.  [default: yes for texts, embeddings and tasks with symbols]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace older files in FOLDER.")
@which_option
def export(
    run: str, folder: str, to: str, dtype: str | None, symbols: bool | None, force: bool, which: str
) -> None:  # fmt: skip
    """Write the network in the run folder RUN, or in a file of hfrnn.save, to FOLDER as programs that run without
    hfrnn. They read inputs and return outputs in the units of the data, as hfrnn predict does. The weights are in
    weights.npz.
    """
    from hfrnn.exports.export import export as write

    for path in write(run, folder, to, which=which, dtype=dtype, symbols=symbols, force=force):
        say(f"{path}  {memory_size(os.path.getsize(path))}")
