"""`agentrail trust`: shows what the settings of a folder want to run or to loosen, and allows it once and for all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentrail.cli.bad_input import BadInputError
from agentrail.cli.exit_status import DONE, FAILED, exit_status
from agentrail.cli.option_parser import OptionParser
from agentrail.cli.own_commands import PLACE, read_commands
from agentrail.cli.project_settings import Surface, read_settings
from agentrail.cli.screen import escaped
from agentrail.cli.trust_question import says_yes
from agentrail.cli.trust_store import allow, described, forget, unallowed

DESCRIPTION: Final = """\
Show what `agentrail.toml` of a folder wants to run, to loosen, or to read
outside of it, and its own commands, and allow it after a question. What is allowed is kept for this
user, with its exact content: if that changes, you are asked again."""

EXAMPLES: Final = """\
exit status: 0 if all is allowed, 1 if not, 2 usage
example: agentrail trust ~/project"""


def main(argv: Sequence[str]) -> int:
    """Run `agentrail trust` with the arguments *argv*, and return the exit status."""
    return exit_status(lambda: _run(argv))


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    parser = OptionParser("agentrail trust", "agentrail trust [FOLDER] [OPTION ...]", DESCRIPTION, EXAMPLES)
    parser.add_argument("folder", nargs="?", default=".", metavar="FOLDER", help="the folder (default: here)")
    answers = parser.add_mutually_exclusive_group()
    answers.add_argument("--yes", action="store_true", help="allow it without a question")
    answers.add_argument("--forget", action="store_true", help="allow nothing of this folder any more")
    return parser


def _run(argv: Sequence[str]) -> int:
    args = options_parser().parse_args(argv)
    folder = Path(args.folder)
    if not folder.is_dir() and not args.forget:  # what is gone may be forgotten
        raise BadInputError(f"there is no folder {args.folder!r}")
    if args.forget:
        print(f"forgotten: {forget(folder)} allowed before")
        return DONE
    settings, commands = read_settings(folder), read_commands(folder)
    is_allowed = settings is None or _is_allowed(folder, settings.path, settings.surfaces, yes=args.yes)
    if commands.surfaces:
        is_allowed &= _is_allowed(folder, folder.joinpath(*PLACE), commands.surfaces, yes=args.yes)
    return DONE if is_allowed else FAILED


def _is_allowed(folder: Path, place: Path, surfaces: Sequence[Surface], *, yes: bool) -> bool:
    surfaces = unallowed(folder, surfaces)
    if not surfaces:
        print(f"nothing in {escaped(str(place))} has to be allowed, or all is")
        return True
    print(f"{escaped(str(place))} wants:\n{described(surfaces)}")
    if yes or says_yes(surfaces):
        allow(folder, surfaces)
        print("allowed")
        return True
    print("not allowed")
    return False
