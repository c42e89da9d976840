"""The command line of `agentrail acp`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentrail.cli.chat_options import ChatOptions, add_agent_options, named_agent
from agentrail.cli.option_parser import OptionParser

DESCRIPTION: Final = """\
Have an editor, such as Zed, talk to an agent. The editor starts this command,
and they exchange messages of the Agent Client Protocol over standard input and
output. Its sessions are those of `agentrail chat`: either goes on with them."""

EXAMPLES: Final = """\
example: agentrail acp --edits
         agentrail acp app.py:desk"""


def parsed(argv: Sequence[str]) -> ChatOptions:
    """Parse *argv*; raise `BadInputError` if it is not valid."""
    args = options_parser().parse_args(argv)
    file, name = named_agent(args)
    journal = None if args.journal is None else Path(args.journal)
    return ChatOptions(file, name, args.model, mode=args.mode, has_config=args.has_config, journal=journal)


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    parser = OptionParser("agentrail acp", "agentrail acp [FILE[:NAME]] [OPTION ...]", DESCRIPTION, EXAMPLES)
    add_agent_options(parser)
    return parser
