"""The completion scripts of the shells, which keep every character of a run folder's name.

Those of click split values at spaces or newlines, let bash expand them, or offer them unquoted.
"""

from __future__ import annotations

from typing import Any

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

BASH = r"""%(complete_func)s() {
    local IFS=$'\n' line type value
    COMPREPLY=()
    while IFS= read -r line; do
        type=${line%%%%,*}
        value=${line#*,}
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            run)  # bash quotes what it inserts
                compopt -o filenames
                printf -v value '%%b' "$value"
                COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
ZSH = r"""#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described runs response
    local type key descr
    (( ! $+commands[%(prog_name)s] )) && return 1

    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \
%(complete_var)s=zsh_complete %(prog_name)s)}")

    for type key descr in "${response[@]}"; do
        case $type in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            run) runs+=("${(g::)key}") ;;
            plain) if [[ $descr == _ ]]; then plain+=("$key"); else described+=("$key:$descr"); fi ;;
        esac
    done

    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
    (( $#runs )) && compadd -U -f -V unsorted -a runs  # zsh quotes what it inserts
    return 0
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
FISH = r"""function %(complete_func)s
    for line in (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) \
COMP_CWORD=(commandline -t) %(prog_name)s)
        set -l parts (string split -m 1 -- , $line)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain run
                printf '%%s\n' $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


def _escaped(value: str) -> str:
    r"""Return a value on one line, as the scripts of bash and zsh read it: with `\\` and `\n`."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


@add_completion_class
class _Bash(BashComplete):
    source_template = BASH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"{item.type},{_escaped(item.value) if item.type == 'run' else item.value}"


@add_completion_class
class _Zsh(ZshComplete):
    source_template = ZSH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        if item.type == "run":
            return f"run\n{_escaped(item.value)}\n_"
        return super().format_completion(item)


@add_completion_class
class _Fish(FishComplete):
    """A line is a value for fish, and a tab ends it: a folder with either in its name is not offered."""

    source_template = FISH

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        found = super().get_completions(args, incomplete)
        return [item for item in found if not set("\n\t") & set(item.value)]


def script_of(shell: str, command: Any) -> str:
    """Return the completion script of hfrnn for a shell: "bash", "zsh" or "fish"."""
    made: type[ShellComplete] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}[shell]
    return made(command, {}, "hfrnn", "_HFRNN_COMPLETE").source()
