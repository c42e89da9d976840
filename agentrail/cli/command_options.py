"""Options and arguments that several subcommands have, each declared once, and what their values have to be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar, cast

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from agentrail.adapters.journals.journal_addresses import JournalAddress

T = TypeVar("T")

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""How the shell may go on with a word."""

ALL: Final = "all"
"""What `--cores` is given for as many processes as there are cores."""

CHOSEN: Final = "?"
"""What `--resume` is given for a session that the person chooses."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{16,128}")


class NamedAgent(NamedTuple):
    """A file with an agent."""

    file: Path
    """The file, as it was written."""
    name: str
    """Name of the agent in the file; empty for the first one."""


def options_of(make: Callable[..., T], words: Mapping[str, object]) -> T:
    """Return what *make* makes of the arguments of a command, which click gives by their names."""
    return make(**words)


class Option(click.Option):
    """An option whose value is no option: that would mean that the value was left out."""

    def type_cast_value(self, ctx: click.Context, value: object) -> object:
        """Return *value* as the type of the option has it; raise `BadOptionUsage` if it is an option."""
        several = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
        for word in several:
            if isinstance(word, str) and word.startswith("--"):
                raise click.BadOptionUsage(self.name, f"{self.opts[0]} needs a value, and `{word}` is an option", ctx)
        return super().type_cast_value(ctx, value)


# What values are


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    def __init__(self, least: int, most: int | None = None, what: str = "whole number") -> None:
        super().__init__(least, most)
        self._what = what

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number in *value*; raise `BadParameter` if there is none."""
        try:
            return super().convert(cast("int", value), param, ctx)  # a text
        except click.BadParameter:
            bounds = f"from {self.min} on" if self.max is None else f"from {self.min} to {self.max}"
            self.fail(f"{str(value)!r} is no {self._what} {bounds}", param, ctx)


class Number(click.FloatRange):
    """A number from 0 on, or above it; it is finite."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number in *value*; raise `BadParameter` if there is none."""
        try:
            number = super().convert(cast("float", value), param, ctx)  # a text
        except click.BadParameter:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{str(value)!r} is no number {'above 0' if self.min_open else 'from 0 on'}", param, ctx)
        return number


class OneOf(click.Choice[str]):
    """One of some words."""

    def __init__(self, words: Sequence[str], unknown: str) -> None:
        super().__init__(words)
        self._unknown = unknown

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return what is wrong with *value*, and the nearest word."""
        from agentrail.errors.agentrail_error import advice  # noqa: PLC0415 - only an error needs it

        return f"{self._unknown} `{value}`; {advice(str(value), self.choices, 'there are')}"


def utf8_text(text: str) -> str:
    """Return *text*; raise `BadParameter` if it was no UTF-8, which no session can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:  # Python decodes a byte that is no UTF-8 as half a surrogate pair
        raise click.BadParameter(f"{text!r} is no UTF-8") from None
    return text


def filled_text(text: str) -> str:
    """Return *text*; raise `BadParameter` if it is empty, as the value of a variable that is not set is."""
    if not text.strip():
        raise click.BadParameter("its value is empty; give one, or leave the option out")
    return utf8_text(text)


def filled_path(text: str) -> Path:
    """Return the path *text*; raise `BadParameter` if it is empty."""
    return Path(filled_text(text))


def existing_folder(text: str) -> Path:
    """Return the folder *text*; raise `BadParameter` if there is none."""
    if not Path(text).is_dir():
        raise click.BadParameter(f"there is no folder {text!r}")
    return Path(text)


def existing_file(text: str) -> Path:
    """Return the file *text*; raise `BadParameter` if there is none."""
    if not Path(text).is_file():
        raise click.BadParameter(f"there is no file {text!r}")
    return Path(text)


def agent_named(text: str) -> NamedAgent:
    """Return the file and the name in it that *text* has; raise `BadParameter` if there is no such file."""
    from agentrail.adapters.python_file import split_name  # noqa: PLC0415 - a help does not need it

    path, name = split_name(text)
    return NamedAgent(existing_file(path), name)


def journal_address(text: str) -> JournalAddress:
    """Return the address of a journal that *text* names: a file, or a server."""
    from agentrail.adapters.journals.journal_addresses import address_named  # noqa: PLC0415 - a help does not need it

    return address_named(utf8_text(text))


def journal_file(text: str) -> Path:
    """Return the file of a journal that *text* names; raise `BadParameter` for the URL of a server."""
    from agentrail.cli.journal_file import file_named  # noqa: PLC0415 - a help does not need it
    from agentrail.cli.output.bad_input import BadInputError  # noqa: PLC0415 - as below

    try:
        return file_named(utf8_text(text))
    except BadInputError as error:
        raise click.BadParameter(str(error)) from error


def cores_named(text: str) -> int:
    """Return how many processes *text* asks for; raise `BadParameter` if it is no number from 1 on, nor `all`."""
    if text == ALL:
        from agentrail.adapters.system import core_count  # noqa: PLC0415 - sockets, which few commands need

        return core_count()
    count = int(text) if text.isdecimal() else 0
    if count < 1:
        raise click.BadParameter(f"{text!r} is no number of processes; give one from 1 on, or `{ALL}`")
    return count


def token_named(text: str) -> str:
    """Return *text*; raise `BadParameter` if it is no token: it stands in an address, and nobody guesses it."""
    if not is_token(text):
        raise click.BadParameter(
            "that is no token; give 16 to 128 letters, digits, `_` and `-` that nobody guesses, or leave it out"
        )
    return text


def sandbox_option(text: str) -> str:
    """Return *text*; raise `BadParameter` if it names no engine and image."""
    from agentrail.app.named_sandbox import sandbox_problem  # noqa: PLC0415 - most commands need no sandbox

    if problem := sandbox_problem(text):
        raise click.BadParameter(problem)
    return text


def is_token(text: str) -> bool:
    """Whether *text* can be a token."""
    return _TOKEN.fullmatch(text) is not None


# How words go on


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the path of a file."""
    del ctx, param
    return [CompletionItem(incomplete, type="file")]


def folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete the path of a folder."""
    del ctx, param
    return [CompletionItem(incomplete, type="dir")]


# Options and arguments


PORT: Final = 8765
"""The port of `agentrail serve`, if none is given."""

MODES_ABOUT: Final[Mapping[str, str]] = {
    "ask": "ask before it writes, runs or fetches (default)",
    "edits": "do not ask before it writes files",
    "yes": "ask only where the guard is not sure",
    "plan": "change nothing: explore, and write a plan",
}
"""What the agent of the command line may do without asking, by option."""


def path_option(
    name: str,
    metavar: str,
    about: str,
    kind: Callable[[str], object] = Path,
    dest: str = "",
    *,
    complete: Completer = files,
) -> Option:
    """Return an option whose value is the path of a file, or of another *kind*."""
    return Option([name, dest or name[2:]], metavar=metavar, help=about, type=kind, shell_complete=complete)


def flag_option(name: str, dest: str, about: str) -> Option:
    """Return an option without a value."""
    return Option([name, dest], is_flag=True, help=about)


def text_option(
    name: str,
    metavar: str,
    about: str,
    kind: Callable[[str], object] | click.ParamType[object] = utf8_text,
    default: object = None,
    dest: str = "",
) -> Option:
    """Return an option whose value is a text, or a number or word of a *kind*."""
    return Option([name, dest or name[2:].replace("-", "_")], metavar=metavar, help=about, type=kind, default=default)


def one_of(dest: str, abouts: Mapping[str, str]) -> tuple[Option, ...]:
    """Return options of which one may be given: the value is its name, or `None`. One without a text shares a line."""
    return tuple(
        Option([f"--{word}", dest], flag_value=word, multiple=True, callback=_only_one, help=about)
        for word, about in abouts.items()
    )


def _only_one(ctx: click.Context, param: click.Parameter, words: Sequence[str]) -> str | None:
    del param
    first, *others = dict.fromkeys(words) or [None]
    if others:
        raise click.UsageError(f"--{others[0]}: not allowed with --{first}", ctx)
    return first


def argument(
    name: str,
    metavar: str,
    kind: Callable[[str], object] | click.ParamType[object] | None = None,
    *,
    complete: Completer | None = None,
) -> click.Argument:
    """Return an argument; one whose *metavar* is in brackets may be left out. The path of a file may be no UTF-8."""
    kind = kind or (utf8_text if complete is None else str)
    return click.Argument(
        [name], metavar=metavar, type=kind, required=not metavar.startswith("["), shell_complete=complete
    )


def journal_option(about: str = "the journal (default: the one of the user)", metavar: str = "FILE") -> Option:
    """Return the option that names the journal of a command that looks: a file, or a server."""
    return path_option("--journal", metavar, about, journal_address)


def json_option(of: str = "") -> Option:
    """Return the option for lines of JSON; *of* says what a line is."""
    return flag_option("--json", "as_json", f"print lines of JSON{of and f', {of}'}")


SANDBOX: Final = text_option(
    "--sandbox", "ENGINE:IMAGE", "run its commands in a container of docker or podman", sandbox_option
)
AGENT: Final = argument("agent", "[FILE[:NAME]]", agent_named, complete=files)
SESSION: Final = argument("session", "SESSION")
MODEL: Final = text_option("--model", "NAME", "which model (default: by the keys that are set)")
FOLDER: Final = path_option(
    "--dir", "FOLDER", "where its tools work (default: here)", existing_folder, "folder", complete=folders
)
NO_CONFIG: Final = Option(
    ["--no-config", "has_config"],
    flag_value=False,
    default=True,
    help="do without agentrail.toml of the folder",
)
MODES: Final = one_of("mode", MODES_ABOUT)
KEPT_JOURNAL: Final = path_option("--journal", "FILE", "where sessions are kept (default: the user's)", journal_file)
"""The journal of sessions that are run, which is a file."""
