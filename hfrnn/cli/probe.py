"""`hfrnn probe`: how far after an opening bracket a network still expects the closing one."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from hfrnn.cli.arguments import check_force, check_picture, checked_outputs, force_option, kernel_option, write_outputs
from hfrnn.cli.completion import files, run_folders
from hfrnn.cli.evaluate import as_text, backend_option, part_option, text_content, which_option
from hfrnn.cli.output import say, say_lines, telling_of_compilation
from hfrnn.errors import InputError
from hfrnn.wording import counted

if TYPE_CHECKING:
    from hfrnn.analysis.probe import BracketProbe

MOST_ROWS = 20
"""Most rows of a table that has all groups of distances."""
ROWS = 12
"""Approximate number of rows of a table of more groups: near distances have more rows than far ones."""
EXAMPLES = """\b
Examples:
  hfrnn probe runs/book --open "(" --close ")"
  hfrnn probe runs/wiki --open "[[" --close "]]" --plot probe.svg
  hfrnn probe runs/book --part valid --steps 200 --json probe.json
"""


@click.command(short_help="Show how long a network remembers an open bracket.", epilog=EXAMPLES)
@click.argument("run", shell_complete=run_folders)
@click.argument("text", required=False, metavar="[FILE]", shell_complete=files)
@kernel_option
@click.option(
    "--open", "opening", metavar="TEXT", default="(", show_default=True, help="Opening bracket, one symbol or more."
)
@click.option(
    "--close", "closing", metavar="TEXT", default=")", show_default=True, help="Closing bracket, one symbol or more."
)
@click.option("--control", metavar="TEXT", help="Context that opens nothing.  [default: Th; for words: the]")
@click.option("--steps", metavar="N", default=1000, show_default=True, type=int, help="Largest distance in symbols.")
@click.option("--trials", metavar="N", default=10, show_default=True, type=int, help="Number of trials per context.")
@click.option("--group", metavar="N", default=10, show_default=True, type=int, help="Number of distances per mean.")
@click.option("--allowed", metavar="TEXT", help="Symbols that may follow.  [default: letters and the space]")
@part_option("Part of the data to read passages from")
@click.option("--seed", metavar="N", default=0, show_default=True, type=int, help="Seed of the samples.")
@click.option("--json", "json_file", metavar="FILE", shell_complete=files, help="Write the curves as JSON.")
@click.option("--plot", metavar="FILE", shell_complete=files, help="Plot the curves to a .svg, .png or .pdf file.")
@force_option("--json or --plot")
@which_option
@backend_option
def probe(
    run: str, text: str | None, opening: str, closing: str, control: str | None, allowed: str | None, part: str | None,
    json_file: str | None, plot: str | None, force: bool, which: str, backend: str, **numbers: Any,
) -> None:  # fmt: skip
    """Measure the probability of the closing bracket at every distance after an opening one, with the network in the
    run folder RUN. Letters and spaces follow: samples of the network, or passages of FILE or of --part.
    """
    from hfrnn.analysis.probe import bracket_probe
    from hfrnn.live_line import working
    from hfrnn.runs.folder import RunFolder
    from hfrnn.runs.load import load_run

    if text is not None and part is not None:
        raise InputError("give either a FILE or --part, not both")
    check_force(force, json_file or plot, "--json or --plot")
    folder = RunFolder(run)
    outputs = checked_outputs(folder.config(), {"json_file": json_file, "plot": plot}, force, text)
    if plot is not None:
        check_picture(plot)
    net, theta, vocabulary = load_run(folder, which, backend)
    if vocabulary is None:
        raise InputError(f"{run} was not trained on a text: it has no brackets")
    content, source = None, "samples of the network"
    if text is not None or part is not None:
        content, source = text_content(folder, vocabulary.level, text, part or "valid")
    words = {"opening": opening, "closing": closing, "control": control, "allowed": allowed}
    given: dict[str, Any] = {name: as_text(each, vocabulary.level) for name, each in words.items() if each is not None}
    with working() as show, telling_of_compilation(net.backend.name):
        found = bracket_probe(net, theta, vocabulary, text=content, progress=partial(show, "steps"), **given, **numbers)
    about = f"{counted(numbers['trials'], 'trial')}, followed by {source}"
    contents: dict[str, bytes | str] = {}
    if "json_file" in outputs:
        content = {"network": net.describe(), "followed_by": source, **found.to_json()}
        contents["json_file"] = json.dumps(content, indent=1) + "\n"
    if plot is not None:
        from hfrnn.cli.plots import probe_picture

        contents["plot"] = probe_picture(found, plot.rpartition(".")[2].lower(), f"{net.describe()}\n{about}")
    write_outputs(outputs, contents)
    say(f"{net.describe()}\n{about}\n")
    say_lines(_lines(found))


def _lines(found: BracketProbe) -> list[str]:
    """Return the table and what it shows."""
    opened, unopened = found.opened.to_json(), found.unopened.to_json()
    close, begin = (f"P('{symbol}')" for symbol in (found.closing_symbol, found.opening_symbol))
    lines = [f"{'':>11}{f'{close} after':>24}{f'log10 {close}/{begin} after':>32}"]
    names = (found.opening, found.control) * 2
    lines.append(f"{'distance':>11}" + "".join(f"{each:>{w}}" for each, w in zip(names, (12, 12, 20, 12), strict=True)))
    groups = found.first.size
    chosen = list(range(groups))
    if groups > MOST_ROWS:
        chosen = sorted({round(groups ** (row / (ROWS - 1))) - 1 for row in range(ROWS)})
    for k in chosen:
        distance = f"{found.first[k]:,}-{found.last[k]:,}" if found.last[k] > found.first[k] else f"{found.first[k]:,}"
        closing = "".join(f"{curves['closing'][k]:>12.3g}" for curves in (opened, unopened))
        ratios = f"{opened['log_ratio'][k]:>20.3f}{unopened['log_ratio'][k]:>12.3f}"
        lines.append(f"{distance:>11}{closing}{ratios}")
    if len(chosen) < groups:
        lines.append(f"{len(chosen)} of {groups:,} groups of steps are shown; --json has all")
    above = f"in {int(found.above.sum()):,} of {counted(groups, 'group')} of steps"
    far = f"up to distance {found.remembered:,}, and {above}" if found.remembered else f"{above}, not in the first"
    return [*lines, "", f"the ratio is higher after {found.opening} {far}"]
