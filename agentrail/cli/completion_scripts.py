"""Completion scripts for bash, zsh and fish, from descriptions of subcommands and their options."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import Enum
from typing import Final

from agentrail.values.value import Value

GENERAL: Final = ("--version", "--help")
"""What may stand in place of a subcommand, beside the options of the default one."""


class ArgumentKind(Enum):
    """The kinds of values that completion can propose for an argument."""

    NONE = "none"
    TEXT = "text"
    FILE = "file"
    FOLDER = "folder"


class CompletedOption(Value):
    """An option of a subcommand."""

    names: tuple[str, ...]
    """Its names, such as `-h` and `--help`."""
    about: str
    """What it does."""
    argument: ArgumentKind
    """What follows it."""
    choices: tuple[str, ...] = ()
    """The words that may follow it; empty if any may."""


class CompletedCommand(Value):
    """A subcommand."""

    name: str
    """Its name."""
    purpose: str
    """What it does."""
    options: tuple[CompletedOption, ...]
    """Its options."""
    words: tuple[str, ...]
    """The words of which its first argument is one; empty if any word may be."""
    argument: ArgumentKind
    """What its arguments are, or those after the first if that is one of `words`."""


# bash: one function finds the subcommand and the option before the cursor; its tables are `case` statements

_BASH: Final = """\
# Completion of `agentrail` in bash. In ~/.bashrc: eval "$(agentrail completion bash)"
_agentrail() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local subcommand="${{COMP_WORDS[1]}}" words=""
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 && $current != -* ]]; then
        COMPREPLY=($(compgen -W "{subcommands}" -- "$current"))
        compopt +o default 2>/dev/null
        return
    fi
    [[ $subcommand == -* ]] && subcommand={default}
    case "$subcommand $previous" in
{arguments}
    esac
    if [[ $current == -* ]]; then
        case "$subcommand" in
{options}
        esac
        [[ $COMP_CWORD -eq 1 ]] && words="$words {general}"
    elif [[ $COMP_CWORD -eq 2 ]]; then
        case "$subcommand" in
{words}
        esac
    fi
    if [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        compopt +o default 2>/dev/null
        return
    fi
    case "$subcommand" in
{others}
    esac
}}
complete -o default -F _agentrail agentrail
"""

_BASH_ARGUMENT: Final = {
    ArgumentKind.TEXT: "compopt +o default 2>/dev/null",
    ArgumentKind.NONE: "compopt +o default 2>/dev/null",
    ArgumentKind.FOLDER: "compopt +o default -o dirnames 2>/dev/null",
    ArgumentKind.FILE: ":",  # `-o default` completes files
}


def bash_script(commands: Sequence[CompletedCommand]) -> str:
    """Return the script for bash; the first of *commands* is the default subcommand."""
    pairs = [(command, option) for command in commands for option in command.options]
    arguments = [
        f'        "{command.name} {name}") {_bash_argument(option)}; return ;;'
        for command, option in pairs
        if option.argument is not ArgumentKind.NONE
        for name in option.names
    ]
    options = [f'            {command.name}) words="{" ".join(_option_names(command))}" ;;' for command in commands]
    words = [
        f'            {command.name}) words="{" ".join(command.words)}" ;;' for command in commands if command.words
    ]
    others = [f"        {command.name}) {_BASH_ARGUMENT[command.argument]} ;;" for command in commands]
    return _BASH.format(
        subcommands=" ".join(command.name for command in commands),
        default=commands[0].name,
        general=" ".join(GENERAL),
        arguments="\n".join(arguments),
        options="\n".join(options),
        words="\n".join(words),
        others="\n".join(others),
    )


def _bash_argument(option: CompletedOption) -> str:
    if option.choices:
        return f'words="{" ".join(option.choices)}"; COMPREPLY=($(compgen -W "$words" -- "$current"))'
    return _BASH_ARGUMENT[option.argument]


def _option_names(command: CompletedCommand) -> list[str]:
    return [name for option in command.options for name in option.names if name.startswith("--")]


# zsh: one function for each subcommand calls `_arguments`

_ZSH: Final = """\
#compdef agentrail
# Completion of `agentrail` in zsh. In ~/.zshrc, after `compinit`: source <(agentrail completion zsh)
_agentrail() {{
    local -a subcommands
    local name
    subcommands=(
{subcommands}
    )
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe subcommand subcommands
        return
    fi
    if [[ $words[2] == -* ]]; then
        name={default}
    else
        name=$words[2]
        shift words
        (( CURRENT-- ))
    fi
    case $name in
{cases}
    esac
}}
if [[ $funcstack[1] == _agentrail ]]; then
    _agentrail "$@"
else
    compdef _agentrail agentrail
fi
"""

_ZSH_ARGUMENT: Final = {
    ArgumentKind.NONE: "",
    ArgumentKind.TEXT: ":text: ",
    ArgumentKind.FILE: ":file:_files",
    ArgumentKind.FOLDER: ":folder:_files -/",
}


def zsh_script(commands: Sequence[CompletedCommand]) -> str:
    """Return the script for zsh; the first of *commands* is the default subcommand."""
    subcommands = [f"        {shlex.quote(f'{command.name}:{command.purpose}')}" for command in commands]
    cases = [f"        {command.name}) _arguments {' '.join(_zsh_specs(command))} ;;" for command in commands]
    return _ZSH.format(subcommands="\n".join(subcommands), default=commands[0].name, cases="\n".join(cases))


def _zsh_specs(command: CompletedCommand) -> list[str]:
    specs: list[str] = []
    for option in command.options:
        about = option.about.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        argument = f":word:({' '.join(option.choices)})" if option.choices else _ZSH_ARGUMENT[option.argument]
        specs += [f"{name}[{about}]{argument}" for name in option.names]
    if command.words:
        specs.append(f"1:word:({' '.join(command.words)})")
    specs.append("*" + (_ZSH_ARGUMENT[command.argument] or _ZSH_ARGUMENT[ArgumentKind.TEXT]))
    return [shlex.quote(spec) for spec in specs]


# fish: one line for each completion, with the condition under which fish offers it

_FISH: Final = """\
# Completion of `agentrail` in fish. In ~/.config/fish/config.fish: agentrail completion fish | source
function __agentrail_first
    test (count (commandline -opc)) -eq 1
end
function __agentrail_at
    set -l words (commandline -opc)
    set -l name $words[2]
    string match -q -- '-*' $name; and set name {default}
    test "$name" = $argv[1]; or begin; test (count $words) -eq 1; and test $argv[1] = {default}; end
end
function __agentrail_word
    __agentrail_at $argv[1]; and test (count (commandline -opc)) -eq 2
end
function __agentrail_rest
    __agentrail_at $argv[1]; and test (count (commandline -opc)) -ge $argv[2]
end
complete -c agentrail -f
{general}
{lines}
"""

_FISH_ARGUMENT: Final = {
    ArgumentKind.NONE: "",
    ArgumentKind.TEXT: " -x",
    ArgumentKind.FILE: " -r -F",
    ArgumentKind.FOLDER: " -x -a '(__fish_complete_directories)'",
}


def fish_script(commands: Sequence[CompletedCommand]) -> str:
    """Return the script for fish; the first of *commands* is the default subcommand."""
    lines = [_fish_line("__agentrail_first", f"-a {command.name}", command.purpose) for command in commands]
    for command in commands:
        here = f"__agentrail_at {command.name}"
        for option in command.options:
            choices = f" -x -a '{' '.join(option.choices)}'" if option.choices else _FISH_ARGUMENT[option.argument]
            lines.append(_fish_line(here, f"{' '.join(map(_fish_name, option.names))}{choices}", option.about))
        if command.words:
            lines.append(_fish_line(f"__agentrail_word {command.name}", f"-a '{' '.join(command.words)}'", ""))
        if command.argument in {ArgumentKind.FILE, ArgumentKind.FOLDER}:
            lines.append(_fish_line(f"__agentrail_rest {command.name} {3 if command.words else 2}", "-F", ""))
    general = [_fish_line("__agentrail_first", _fish_name(name), "") for name in GENERAL]
    return _FISH.format(default=commands[0].name, general="\n".join(general), lines="\n".join(lines))


def _fish_name(name: str) -> str:
    return f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"


def _fish_line(condition: str, words: str, about: str) -> str:
    """Return one `complete` line of the script; the description *about* is quoted for fish."""
    escaped = about.replace("\\", "\\\\").replace("'", "\\'")
    description = f" -d '{escaped}'" if about else ""
    return f"complete -c agentrail -n '{condition}' {words}{description}"
