"""The options of subcommands that look at an agent: which one, in which folder, with which mode."""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path
from typing import Final

from agentrail.app.spec import SessionSpec, check_spec
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.chat_options import MODES_ABOUT
from agentrail.cli.chosen_agent import chosen_source
from agentrail.cli.option_parser import OptionParser
from agentrail.cli.trust_store import settings_of

BUILT_FOR_REQUESTS: Final = "its agent is built for each request by a function, so it has no tools and plugins before"


def add_agent_options(parser: OptionParser) -> None:
    """Add the argument and the options that name an agent."""
    add = parser.add_argument
    add("agent", nargs="?", metavar="FILE[:NAME]", help=argparse.SUPPRESS)
    add("--dir", metavar="FOLDER", help="where its tools work (default: here)")
    modes = parser.add_mutually_exclusive_group()
    for mode in MODES_ABOUT:
        about = f"in the mode `{mode}` of `chat`"
        modes.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, help=about)
    add("--json", action="store_true", help="print lines of JSON")


def named_spec(args: Namespace) -> SessionSpec:
    """Return the specification of the agent that *args* name, by default of the one that `chat` has here.

    Raise `BadInputError` if there is none.
    """
    file, _, name = (args.agent or "").partition(":")
    if file and not Path(file).is_file():
        raise BadInputError(f"there is no file {file!r}")
    folder = Path(args.dir or ".")
    if not folder.is_dir():
        raise BadInputError(f"--dir: there is no folder {args.dir!r}")
    if file and args.mode is not None:
        raise BadInputError(f"--{args.mode}: {file!r} says itself what its agent may do")
    path = Path(file) if file else None
    settings = None if file else settings_of(folder)
    spec = chosen_source(folder, path, name, None, args.mode, settings).profile().spec
    if not isinstance(spec, SessionSpec):
        raise BadInputError(f"{file}: {BUILT_FOR_REQUESTS}")
    check_spec(spec)
    return spec
