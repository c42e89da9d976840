"""The options of subcommands that look at an agent: which one, in which folder, with which mode."""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path
from typing import Final

from agentrail.app.spec import SessionSpec, check_spec
from agentrail.cli.allowed_code import unguarded
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.chat_options import MODES_ABOUT, ChatOptions, named_agent
from agentrail.cli.chosen_agent import source_of
from agentrail.cli.option_parser import OptionParser

BUILT_FOR_REQUESTS: Final = "its agent is built for each request by a function, so it has no tools and plugins before"


def add_look_options(parser: OptionParser) -> None:
    """Add the argument and the options that name an agent to look at."""
    add = parser.add_argument
    add("agent", nargs="?", metavar="FILE[:NAME]", help=argparse.SUPPRESS)
    add("--dir", metavar="FOLDER", help="where its tools work (default: here)")
    modes = parser.add_mutually_exclusive_group()
    for mode in MODES_ABOUT:
        about = f"in the mode `{mode}` of `chat`"
        modes.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, help=about)
    add("--json", action="store_true", help="print lines of JSON")


def named_spec(args: Namespace) -> SessionSpec:
    """Return the specification of the agent that *args* name; if they name none, of the agent that `chat` uses here.

    It has the plugins that its file or the settings give it, without the `AllowedCode` that each agent of the command
    line gets. Raise `BadInputError` if there is none.
    """
    file, name = named_agent(args)
    folder = Path(args.dir or ".")
    if not folder.is_dir():
        raise BadInputError(f"--dir: there is no folder {args.dir!r}")
    options = ChatOptions(file, name, mode=args.mode)
    spec = source_of(options, folder.resolve()).profile().spec
    if not isinstance(spec, SessionSpec):
        raise BadInputError(f"{file}: {BUILT_FOR_REQUESTS}")
    check_spec(spec)
    return unguarded(spec)
