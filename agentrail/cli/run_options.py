"""The command line of `agentrail run`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agentrail.cli.bad_input import BadInputError
from agentrail.cli.journal_file import file_named
from agentrail.cli.option_parser import NamedChoice, OptionParser
from agentrail.cli.prompt_input import STDIN
from agentrail.codec.json_text import from_text
from agentrail.errors import BadReturns, BadText
from agentrail.tools.answer_forms import form_of
from agentrail.values.json import JsonObject
from agentrail.values.value import Value

DESCRIPTION: Final = """\
Have an agent answer one prompt: the answer alone goes to standard output.
What a pipe brings is placed below the prompt; without one, it is the prompt."""

EXAMPLES: Final = """\
exit status: 0 done, 1 failed, 2 usage, 3 held, 4 refused, 5 limit, 6 provider
example: git diff | agentrail run "Write a commit message." > message.txt"""


class RunOptions(Value, gc=True):
    """The arguments of the command line."""

    prompt: str | None = None
    """The prompt; `-` or `None` if standard input is the prompt."""
    model: str | None = None
    """Name of the model; `None` for that of the agent, or the usual one."""
    agent: str = ""
    """A file with a `SessionSpec`, and its name there; empty for the agent that `chat` has."""
    folder: Path | None = None
    """Where the tools work; `None` for the folder that the agent names, or the current one."""
    schema: JsonObject | None = None
    """The schema of the answer; `None` if it is text."""
    form: str = "text"
    """What standard output gets: `text` (the answer), `json` (one object) or `events`."""
    decision: str = "ask"
    """What happens with calls that wait for a person: `ask`, `yes`, `deny` or `answers` (from standard input)."""
    progress: bool | None = None
    """Whether progress is shown; `None`: if standard error is a terminal."""
    max_usd: float | None = None
    """The highest cost."""
    max_rounds: int | None = None
    """The most requests to the model."""
    max_seconds: float | None = None
    """The most seconds of the turn."""
    has_config: bool = True
    """Whether the settings of the folder count."""
    is_kept: bool = False
    """Whether the session is one of those of `chat`, in the user's journal; else it ends with the run."""
    session: str | None = None
    """Name of the session to go on with; `None` for a new one."""
    journal: Path | None = None
    """The file of the journal of sessions that are kept; `None` for that of the user."""


def parsed(argv: Sequence[str]) -> RunOptions:
    """Parse *argv*; raise `BadInputError` if it is not valid."""
    parser = options_parser()
    args = parser.parse_args(argv)
    if len(args.prompt) > 1:
        parser.error(f"the prompt is one argument, and here are {len(args.prompt)}: put quotes around it")
    prompt = args.prompt[0] if args.prompt else None
    if args.dir is not None and not Path(args.dir).is_dir():
        parser.error(f"--dir: there is no folder {args.dir!r}")
    if args.decision == "answers" and prompt in {None, STDIN}:
        parser.error("--answers: standard input has the answers, so give the prompt as an argument")
    if args.resume is not None:
        for name, begun_with in (
            *(("agent", args.agent), ("dir", args.dir), ("max-usd", args.max_usd), ("max-rounds", args.max_rounds)),
            *(("max-seconds", args.max_seconds), ("no-config", None if args.has_config else True)),
        ):
            if begun_with is not None:
                parser.error(f"--{name}: a session keeps what it began with, so it cannot be given with --resume")
    return RunOptions(
        prompt,
        args.model,
        args.agent or "",
        None if args.dir is None else Path(args.dir),
        None if args.schema is None else schema_of(args.schema),
        args.form or "text",
        args.decision or "ask",
        None if args.progress is None else args.progress == "verbose",
        args.max_usd,
        args.max_rounds,
        args.max_seconds,
        args.has_config,
        args.keep or args.resume is not None or args.journal is not None,
        args.resume,
        None if args.journal is None else file_named(args.journal),
    )


def wants_json(argv: Sequence[str]) -> bool:
    """Whether *argv*, which is invalid, asks for JSON, so that the error is reported as JSON too."""
    return not {"--json", "--events"}.isdisjoint(argv)


def schema_of(text: str) -> JsonObject:
    """Return the JSON Schema in *text*, or in the file called *text*; raise `BadInputError` if it is invalid."""
    source = "--schema"
    if not text.lstrip().startswith("{"):
        source = f"--schema {text}"
        try:
            text = Path(text).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise BadInputError(f"{source}: the file is no UTF-8; give a JSON Schema") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise BadInputError(f"{source}: it is no JSON object, and no file that can be read: {reason}") from None
    try:
        schema = from_text(text)
    except BadText as error:
        raise BadInputError(f"{source}: {error}") from None
    if not isinstance(schema, Mapping):
        raise BadInputError(f"{source}: a JSON Schema is an object, in braces")
    try:
        return form_of(schema).schema
    except BadReturns as error:
        raise BadInputError(f"{source}: {error}") from None


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    usage = "agentrail run [OPTION ...] [PROMPT | -]"
    parser = OptionParser("agentrail run", usage, DESCRIPTION, EXAMPLES)
    add = parser.add_argument
    add(
        "prompt", nargs="*", metavar="PROMPT", help=argparse.SUPPRESS
    )  # the description says more about these options, so that the help fits on one screen
    add("--model", metavar="NAME", help="which model (default: as `chat` chooses it)")
    add("--agent", metavar="FILE[:NAME]", help="a file with a SessionSpec (default: that of `chat`)")
    add("--dir", metavar="FOLDER", help="where its tools work (default: here)")
    add("--schema", metavar="FILE|JSON", help="a JSON Schema: the answer is an object that fits it")
    add("--json", "--events", dest="form", action=NamedChoice, help="print one object at the end; or each event, too")
    add("--yes", "--deny", dest="decision", action=NamedChoice, help="approve, or reject, calls that wait for a person")
    about = "read what a person would answer from standard input"
    add("--answers", dest="decision", action=NamedChoice, help=about)
    add("--max-usd", type=_positive, metavar="X", help="stop before it costs more")
    add("--max-rounds", type=_count, metavar="N", help="stop after so many requests to the model")
    add("--max-seconds", type=_positive, metavar="X", help="stop after so many seconds")
    add("--no-config", dest="has_config", action="store_false", help="do without agentrail.toml of the folder")
    add("--keep", action="store_true", help="keep the session: `chat --resume` shows it")
    add("--resume", metavar="SESSION", help="go on with a session that is kept")
    add("--journal", metavar="FILE", help="keep it there (default: the journal of the user)")
    add("--verbose", "--quiet", dest="progress", action=NamedChoice, help="show progress anyway, or never")
    return parser


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        problem = f"{text!r} is no number above 0"
        raise argparse.ArgumentTypeError(problem)
    return number


def _count(text: str) -> int:
    try:
        number = int(text) if text.isascii() and text.isdecimal() else 0
    except ValueError:  # the number has thousands of digits
        number = 0
    if number < 1:
        problem = f"{text!r} is no whole number from 1 on"
        raise argparse.ArgumentTypeError(problem)
    return number
