"""The command line of `agentrail chat`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentrail.adapters.python_file import split_name
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.default_agent import Mode
from agentrail.cli.journal_file import file_named
from agentrail.cli.option_parser import OptionParser
from agentrail.values.value import Value

DESCRIPTION: Final = """\
Talk to an agent in the terminal; `agentrail run` answers one prompt, for
scripts. Sessions are kept: they outlive the terminal, and several terminals
may talk in one of them. Without FILE, it is an agent that works in a folder."""

EXAMPLES: Final = """\
example: agentrail chat --continue
         agentrail chat app.py:desk --dir ~/project"""

MODES_ABOUT: Final[dict[Mode, str]] = {
    "ask": "ask before it writes, runs commands or fetches pages (default)",
    "edits": "do not ask before it writes files",
    "yes": "ask only where the guard against accidents is not sure",
    "plan": "change nothing: explore, and write a plan",
}
"""What the agent of the command line may do without asking, by option."""

LAST: Final = ""
"""In place of the id of a session: the last used one."""


class ChatOptions(Value, gc=True):
    """The arguments of the command line."""

    file: Path | None = None
    """The file with the agent; `None` for the agent that the command line has."""
    name: str = ""
    """Name of the agent in the file; empty for the first one."""
    model: str | None = None
    """Name of the model; `None` for that of the file, or the usual one."""
    folder: Path = Path()
    """Where the tools work."""
    has_samples: bool = False
    """Whether they work in a fresh folder with samples; then nothing is kept."""
    mode: Mode | None = None
    """What the agent of the command line may do without asking; `None`: what it may already, in a new session `ask`."""
    session: str | None = None
    """Id of the session to go on with, or `LAST`; `None` for a new one."""
    chooses_session: bool = False
    """Whether the person chooses the session to go on with."""
    has_config: bool = True
    """Whether the settings of the folder count."""
    journal: Path | None = None
    """The file of the journal; `None` for that of the user."""
    has_page: bool = True
    """Whether browsers of this machine can open the page, if this process serves the sessions."""


def parsed(argv: Sequence[str]) -> ChatOptions:
    """Parse *argv*; raise `BadInputError` if it is not valid."""
    parser = options_parser()
    args = parser.parse_args(argv)
    file, name = named_agent(args)
    folder = Path() if args.dir is None else Path(args.dir)
    if not folder.is_dir():
        raise BadInputError(f"--dir: there is no folder {str(folder)!r}")
    chooses = args.resume is True
    session: str | None = LAST if args.last else None if chooses else args.resume
    goes_on = chooses or session is not None
    if args.mode == "plan" and goes_on:
        raise BadInputError("--plan: a session keeps the tools that it began with; `agentrail chat --plan` begins one")
    if args.samples and (goes_on or args.dir is not None or args.journal is not None):
        raise BadInputError("--samples: it has a folder and a journal of its own, in which no session is yet")
    return ChatOptions(
        file,
        name,
        args.model,
        folder.resolve(),
        args.samples,
        args.mode,
        session,
        chooses,
        args.has_config,
        None if args.journal is None else file_named(args.journal),
        args.has_page,
    )


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    parser = OptionParser("agentrail chat", "agentrail chat [FILE[:NAME]] [OPTION ...]", DESCRIPTION, EXAMPLES)
    add_agent_options(parser)
    add = parser.add_argument
    add("--dir", metavar="FOLDER", help="where its tools work (default: the current folder)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--continue", dest="last", action="store_true", help="go on with the last session of the folder")
    which.add_argument(
        "--resume", metavar="SESSION", nargs="?", const=True, help="go on with this session (default: choose one)"
    )
    add("--samples", action="store_true", help="work in a fresh folder with samples; keep nothing")
    add("--no-page", dest="has_page", action="store_false", help="open no port for the page in a browser")
    return parser


def add_agent_options(parser: OptionParser) -> None:
    """Add the options that choose the agent, its permissions, and the journal for its sessions."""
    add = parser.add_argument
    add("agent", nargs="?", metavar="FILE[:NAME]", help=argparse.SUPPRESS)
    add("--model", metavar="NAME", help="which model (default: of the first provider whose key is in the environment)")
    add("--journal", metavar="FILE", help="where sessions are kept (default: the journal of the user)")
    add("--no-config", dest="has_config", action="store_false", help="do without agentrail.toml of the folder")
    modes = parser.add_mutually_exclusive_group()
    for mode, about in MODES_ABOUT.items():
        modes.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, help=about)


def named_agent(args: argparse.Namespace) -> tuple[Path | None, str]:
    """Return the file that contains the agent, and the agent's name in this file; `None` for the default agent."""
    file, name = split_name(args.agent or "")
    if not file:
        return None, name
    if not Path(file).is_file():
        raise BadInputError(f"there is no file {file!r}")
    if args.mode is not None:
        raise BadInputError(f"--{args.mode}: {file!r} says itself what its agent may do")
    return Path(file).resolve(), name
