"""The command line of `agentrail sessions`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from agentrail.adapters.journals.journal_places import JournalPlace, place_named
from agentrail.cli.option_parser import OptionParser
from agentrail.values.value import Value

DESCRIPTION: Final = """\
Look at the sessions of a journal; move or delete them. None of them is run.

  list                  all sessions, the last used one first
  show SESSION          what it is, and its last messages
  export SESSION FILE   write it to a file that `import` reads
  import FILE           read such a file into the journal
  copy SESSION JOURNAL  copy it into another journal
  fork SESSION          begin a session with its past, for `chat --resume`
  delete SESSION        delete it and its sub-agents, for good"""

EXAMPLES: Final = "example: agentrail sessions show trip --journal ./sessions.db"

ARGUMENTS: Final = {
    "list": (),
    "show": ("SESSION",),
    "export": ("SESSION", "FILE"),
    "import": ("FILE",),
    "copy": ("SESSION", "JOURNAL"),
    "fork": ("SESSION",),
    "delete": ("SESSION",),
}
"""What follows each command."""


class SessionOptions(Value, gc=True):
    """The arguments of the command line."""

    command: str = "list"
    """What is to be done, one of `ARGUMENTS`."""
    words: tuple[str, ...] = ()
    """What follows the command."""
    journal: JournalPlace | None = None
    """The file of the journal; `None` for that of the user."""
    as_json: bool = False
    """Whether lines of JSON are printed."""
    label: str | None = None
    """For `list`: a label that the sessions have; `None`: all."""
    limit: int | None = None
    """For `list`: the most sessions that are listed, the last used ones; `None`: all."""
    at: int | None = None
    """For `fork`: the number of the last record of its past; `None`: all of it."""
    messages: int = 10
    """For `show`: the most messages that are shown, the last ones."""
    is_sure: bool = False
    """For `delete` and `export`: whether nobody is asked."""


def parsed(argv: Sequence[str]) -> SessionOptions:
    """Parse *argv*; raise `BadInputError` if it is not valid."""
    parser = options_parser()
    args = parser.parse_intermixed_args(argv)
    command, *words = args.words or ["list"]
    if command not in ARGUMENTS:
        parser.error(f"there is no command `{command}`")
    if len(words) != len(ARGUMENTS[command]):
        usage = " ".join([f"agentrail sessions {command}", *ARGUMENTS[command]])
        parser.error(f"`{command}` is followed by other words than these: `{usage}`")
    for name, least in (("messages", 0), ("limit", 1), ("at", 1)):
        number: int | None = getattr(args, name)
        if number is not None and number < least:
            parser.error(f"--{name}: {number} is less than {least}")
    journal = None if args.journal is None else place_named(args.journal)
    return SessionOptions(
        command, tuple(words), journal, args.json, args.label, args.limit, args.at, args.messages, args.yes
    )


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    usage = "agentrail sessions [COMMAND] [ARGUMENT ...] [OPTION ...]"
    parser = OptionParser("agentrail sessions", usage, DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add("words", nargs="*", metavar="|".join(ARGUMENTS), help=argparse.SUPPRESS)
    add("--journal", metavar="FILE", help="the journal (default: the one of the user)")
    add("--json", action="store_true", help="print lines of JSON")
    add("--label", metavar="LABEL", help="list: only sessions that have this label")
    add("--limit", metavar="N", type=int, help="list: only the N that were used last")
    add("--at", metavar="N", type=int, help="fork: the past up to its record N (default: all)")
    add("--messages", metavar="N", type=int, default=10, help="show: the last N messages (default: 10)")
    add("--yes", action="store_true", help="delete, export: do not ask whether to delete, or to overwrite FILE")
    return parser
