"""`hfrnn completion`, and the values that the shell can complete for arguments and options."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from hfrnn.cli.output import say

PLAIN = re.compile(r"[\w+./-]+")
"""Names that click's scripts give every shell as one word. Other names are not offered: a shell could run them."""


def _starting(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files, as the shell itself completes them."""
    return [CompletionItem(incomplete, type="file")]


def folders(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders, as the shell itself completes them."""
    return [CompletionItem(incomplete, type="dir")]


def run_folders(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Run folders with plain names: those below the typed path, and those one folder deeper."""
    start = glob.escape(incomplete)
    found = [*glob.glob(f"{start}*/config.toml"), *glob.glob(f"{start}*/*/config.toml")]
    names = [str(Path(path).parent) for path in sorted(found)]
    return [CompletionItem(name) for name in names if PLAIN.fullmatch(name)]


def architectures(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The architectures of this package."""
    from hfrnn.kernels import architectures as names

    return _starting(names(), incomplete)


def data_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that `--data` takes, or files if no name begins like this."""
    from hfrnn.data.kinds import known_names

    found = _starting((name for names in known_names().values() for name in names), incomplete)
    return found or files(ctx, parameter, incomplete)


EXAMPLES = """\b
Examples:
  source <(hfrnn completion bash)        in ~/.bashrc
  source <(hfrnn completion zsh)         in ~/.zshrc, below compinit
  hfrnn completion fish | source         in ~/.config/fish/config.fish
"""


@click.command(short_help="Print a script that completes hfrnn in a shell.", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, architectures, corpora and run folders."""
    made = get_completion_class(shell)
    assert made is not None
    say(made(ctx.find_root().command, {}, "hfrnn", "_HFRNN_COMPLETE").source())
