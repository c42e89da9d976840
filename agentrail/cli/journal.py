"""`agentrail journal`: copies a whole journal, and looks after one in PostgreSQL; none of its sessions is run."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, cast

import trio

from agentrail.cli.exit_status import exit_status
from agentrail.cli.journal_copy import copy
from agentrail.cli.journal_upkeep import restored, vacuum
from agentrail.cli.option_parser import OptionParser

DESCRIPTION: Final = """\
Look after a whole journal. None of its sessions is run.

  copy FROM TO  copy all sessions, and compare what was written; each is a file
                with a journal, the URL of one in PostgreSQL, or an export file
  restored URL  after a restore from a backup, and before anybody uses it: let
                no claim from before count, and check all records
  vacuum URL    write the tables anew, so that deleted texts are gone from the
                files of the server; whoever uses the journal waits meanwhile

FROM is only read. At TO nothing is overwritten: what is there is compared, and
what is missing is added. Each command may be repeated if it was cut."""

EXAMPLES: Final = """\
exit status: 0 all well, 1 not all is copied or undamaged, 2 usage
example: agentrail journal copy ./sessions.db postgresql://host/agentrail"""

USAGE: Final = "agentrail journal copy FROM TO | restored URL | vacuum URL"


class JournalCommand(NamedTuple):
    """A command of `agentrail journal`."""

    run: Callable[..., Awaitable[int]]
    """Carries it out for the places that are given, and returns the exit status."""
    takes: int
    """How many places it takes."""


COMMANDS: Final = {
    "copy": JournalCommand(copy, 2),
    "restored": JournalCommand(restored, 1),
    "vacuum": JournalCommand(vacuum, 1),
}
"""The commands by name."""


def main(argv: Sequence[str]) -> int:
    """Run `agentrail journal` with the arguments *argv*, and return the exit status."""
    return exit_status(lambda: trio.run(_run, argv))


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    parser = OptionParser("agentrail journal", USAGE, DESCRIPTION, EXAMPLES)
    parser.add_argument("command", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("places", metavar="PLACE", nargs="+", help=argparse.SUPPRESS)
    return parser


async def _run(argv: Sequence[str]) -> int:
    parser = options_parser()
    args = parser.parse_args(argv)
    places = cast("list[str]", args.places)
    command = COMMANDS.get(args.command)
    if command is None:
        parser.error(f"there is no command `{args.command}`; there are {', '.join(COMMANDS)}")
    if len(places) != command.takes:
        noun = "place" if command.takes == 1 else "places"
        parser.error(f"`{args.command}` takes {command.takes} {noun}, not {len(places)}")
    return await command.run(*places)
