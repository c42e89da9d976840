"""`agentrail completion`: prints a script that completes the command in a shell, made of the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, cast

from agentrail.cli.bad_input import BadInputError
from agentrail.cli.command import SUBCOMMANDS, Subcommand
from agentrail.cli.completion_scripts import (
    ArgumentKind,
    CompletedCommand,
    CompletedOption,
    bash_script,
    fish_script,
    zsh_script,
)
from agentrail.cli.exit_status import DONE, exit_status
from agentrail.cli.option_parser import OptionParser
from agentrail.errors.agentrail_error import advice

DESCRIPTION: Final = """\
Print a script that completes subcommands, options and files in a shell. It is
made of the subcommands that there are, so print it again after an upgrade.

  bash   in ~/.bashrc:                   eval "$(agentrail completion bash)"
  zsh    in ~/.zshrc, after `compinit`:  source <(agentrail completion zsh)
  fish   in ~/.config/fish/config.fish:  agentrail completion fish | source"""

EXAMPLES: Final = 'example: eval "$(agentrail completion bash)"'

SHELLS: Final[Mapping[str, Callable[[Sequence[CompletedCommand]], str]]] = MappingProxyType(
    {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
)
"""The function that makes the script, by shell."""

FILES: Final = ("FILE", "PATH", "CERT", "JOURNAL")
"""How the words begin that stand for a file in a help."""


class HasParser(Protocol):
    """A module of a subcommand that has an argument parser."""

    def options_parser(self) -> argparse.ArgumentParser:
        """Return the parser of the command line."""
        ...


def main(argv: Sequence[str]) -> int:
    """Run `agentrail completion` with the arguments *argv*, and return the exit status."""
    return exit_status(lambda: _run(argv))


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    parser = OptionParser("agentrail completion", "agentrail completion SHELL", DESCRIPTION, EXAMPLES)
    parser.add_argument("shell", metavar="|".join(SHELLS), help=argparse.SUPPRESS)
    return parser


def _run(argv: Sequence[str]) -> int:
    shell: str = options_parser().parse_args(argv).shell
    if shell not in SHELLS:
        raise BadInputError(f"there is no script for `{shell}`; {advice(shell, SHELLS, 'there are')}")
    print(SHELLS[shell]([completed(row) for row in SUBCOMMANDS]), end="")
    return DONE


def completed(row: Subcommand) -> CompletedCommand:
    """Return the description of a subcommand for completion: its options and arguments, as its parser defines them."""
    parser = cast("HasParser", import_module(row.options or row.module)).options_parser()
    actions = parser._actions  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - argparse lists them nowhere else
    options = tuple(_option(action) for action in actions if action.option_strings)
    arguments = [action for action in actions if not action.option_strings]
    words = _words(arguments[0]) if arguments else []
    return CompletedCommand(row.name, row.purpose, options, tuple(words), _argument_kind(arguments))


def _argument_kind(arguments: Sequence[argparse.Action]) -> ArgumentKind:
    """Return the kind of a subcommand's arguments; if the first one is an action word, the kind of those after it."""
    if not arguments:
        return ArgumentKind.NONE
    first, *others = arguments
    if not _words(first):
        return _kind(first)
    if first.nargs is not None:  # the arguments after the word share its metavar: sessions, or else files
        return ArgumentKind.FILE
    return _kind(others[0]) if others else ArgumentKind.NONE


def _words(action: argparse.Action) -> list[str]:
    """Return the action words in an argument's metavar, which are separated by `|`; empty if there are none."""
    metavar = action.metavar
    return metavar.split("|") if isinstance(metavar, str) and "|" in metavar else []


def _option(action: argparse.Action) -> CompletedOption:
    about = "show this help" if action.help in {None, argparse.SUPPRESS} else str(action.help)
    choices = tuple(map(str, action.choices or ()))
    return CompletedOption(tuple(action.option_strings), about.partition(" (")[0], _kind(action), choices)


def _kind(action: argparse.Action) -> ArgumentKind:
    """Return the kind of value that an argument or option takes, by its type and its metavar."""
    if action.nargs == 0:
        return ArgumentKind.NONE
    metavar = action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar or ""
    if metavar.startswith("FOLDER"):
        return ArgumentKind.FOLDER
    return ArgumentKind.FILE if action.type is Path or metavar.startswith(FILES) else ArgumentKind.TEXT
