"""`hfrnn completion`, and the values that the shell can complete for arguments and options."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from hfrnn.cli.completion_scripts import script_of
from hfrnn.cli.screen import say

INSTALL = {
    "bash": ("source <(hfrnn completion bash)", "~/.bashrc"),
    "zsh": ("source <(hfrnn completion zsh)", "~/.zshrc, below compinit"),
    "fish": ("hfrnn completion fish | source", "~/.config/fish/config.fish"),
}
"""The line that turns completion on, and the file to put it in."""


def _starting(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def files(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files, as the shell itself completes them."""
    return [CompletionItem(incomplete, type="file")]


def folders(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Folders, as the shell itself completes them."""
    return [CompletionItem(incomplete, type="dir")]


def run_folders(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Run folders: those below the typed path, and those one folder deeper."""
    start = glob.escape(incomplete)
    found = [*glob.glob(f"{start}*/config.toml"), *glob.glob(f"{start}*/*/config.toml")]
    names = [str(Path(path).parent) for path in sorted(found)]
    return [CompletionItem(name, type="run") for name in names if _is_unicode(name)]


def _is_unicode(name: str) -> bool:
    """Return whether a name can be written; one whose bytes are not UTF-8 cannot, and is not offered."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def architectures(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The architectures of this package."""
    from hfrnn.kernels import architectures as names

    return _starting(names(), incomplete)


def data_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that `--data` takes, or files if no name begins like this."""
    from hfrnn.cli.options import known_data

    found = _starting((name for names in known_data().values() for name in names), incomplete)
    return found or files(ctx, parameter, incomplete)


EXAMPLES = """\b
Examples:
  source <(hfrnn completion bash)        for this bash only
  hfrnn completion fish | source         for this fish only
"""


@click.command(short_help="Print a script that completes hfrnn in a shell.", epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(tuple(INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, architectures, corpora and run folders.

    Its first lines say how to install it.
    """
    line, file = INSTALL[shell]
    head = [f"# To install this completion of hfrnn for {shell}, put this line into {file}:", f"#   {line}"]
    script = script_of(shell, ctx.find_root().command).strip("\n").split("\n")
    at = 1 if script[0].startswith("#compdef") else 0  # zsh wants that line first
    say("\n".join([*script[:at], *head, *script[at:]]))
