"""The command `agentrail`: a table of subcommands; a subcommand's module is imported only when it is called.

Also `once`: one prompt and its answer, without a person to ask.

Also the default model: one of the first provider whose key is in the environment.

Also the sample files for a fresh folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple, Protocol, cast

import agentrail
from agentrail.adapters.models.providers import PROVIDERS
from agentrail.cli.rendering import piece_of, shown_args
from agentrail.cli.screen import Tone, line
from agentrail.cli.terminal import Terminal
from agentrail.runtime.handle import SessionHandle
from agentrail.values.events import AgentAbort, AgentEnd, ApprovalRequired, AskUser, PromptRejected

SAMPLES: Final[Mapping[str, str]] = {
    "README.md": (
        "# A folder to play in\n\n"
        "Everything here is made up, and deleted when you leave.\n"
        "The agent can list, read, write and search these files, and nothing outside of this folder.\n"
    ),
    "notes.txt": (
        "Monday: water the plants.\n"
        "Tuesday: tea with Ada at four.\n"
        "Wednesday: the session that crashed is back by itself.\n"
    ),
    "docs/guide.md": (
        "# A short guide\n\n"
        "1. A session is an actor: it owns a mailbox and handles one message at a time.\n"
        "2. What you type while it works is steering.\n"
        "3. An abort never waits.\n"
    ),
    "src/tea.py": (
        '"""How long tea takes."""\n\n'
        "# TODO: green tea wants cooler water\n"
        'MINUTES = {"black": 4, "green": 2, "herbal": 6}\n'
    ),
}
"""Names and contents of the files."""


def fill(folder: Path) -> None:
    """Write the sample files into *folder*."""
    for name, text in SAMPLES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


DEMO: Final = "demo"

USUAL: Final = (
    "anthropic:claude-sonnet-5",
    "openai:gpt-5.4",
    "gemini:gemini-flash-latest",
    "mistral:mistral-large-latest",
    "deepseek:deepseek-chat",
    "openrouter:openrouter/auto",
)
"""The models, one of each provider, in the order in which their keys are looked for."""


def usual_model(look_up: Callable[[str], str | None]) -> str:
    """Return the first of `USUAL` whose key *look_up* finds; without any key, the demo, which is offline."""
    return next((name for name in USUAL if has_key(name, look_up)), DEMO)


def has_key(model: str, look_up: Callable[[str], str | None]) -> bool:
    """Whether *look_up* finds a customary key of the provider of *model*."""
    provider = model.partition(":")[0]
    return any((look_up(key) or "").strip() for key in PROVIDERS[provider].keys)


NOBODY = "nobody is here to ask"


async def once(session: SessionHandle, terminal: Terminal, text: str) -> bool:
    """Send *text* and show the turn; return whether it finished. Calls that need approval are rejected."""
    async with session.subscribe() as events:
        ref = (await session.prompt(text)).ref
        async for envelope in events:
            piece = piece_of(envelope)
            if piece is not None:
                terminal.show((piece,))
            match envelope.event:
                case ApprovalRequired(approval_id=approval_id, tool=tool, args=args):
                    terminal.show((line(f"  ? {tool} {shown_args(args)}", Tone.ASKING),))
                    await session.reject(approval_id, NOBODY, auto_resume=True)
                case AskUser(ref=question):
                    await session.respond(question, NOBODY)
                case AgentEnd(ref=ended) if ended == ref:
                    return True
                case AgentAbort(ref=ended) | PromptRejected(ref=ended) if ended == ref:
                    return False
                case _ if terminal.gone:
                    return False
                case _:
                    pass
    return False


WRONG_USAGE: Final = 2


class Subcommand(NamedTuple):
    """A subcommand: a row of the table."""

    name: str
    module: str
    """The module whose `main` takes the words behind the name, and returns the exit code."""
    purpose: str
    """Its purpose, as the help prints it."""
    extra: str | None = None
    """The extra that must be installed for it; `None` if none."""
    package: str | None = None
    """The package of that extra without which it cannot be imported."""


SUBCOMMANDS: Final = (
    Subcommand("chat", "agentrail.cli.chat", "talk to an agent in the terminal"),
    Subcommand("check", "agentrail.cli.check", "check the plugins of a file", "testing", "hypothesis"),
)
"""The subcommands by name; the first is run if no name is given."""


class Main(Protocol):
    """The entry of a subcommand."""

    def __call__(self, argv: Sequence[str]) -> int:
        """Run the subcommand with the arguments *argv*, and return the exit code."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `agentrail` with *argv*, by default those of the process, and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    first = words[0] if words else ""
    if first == "--version":
        print(f"agentrail {agentrail.__version__}")
        return 0
    if first in {"-h", "--help"}:
        print(overview())
        return 0
    if not first or first.startswith("-"):
        return _call(SUBCOMMANDS[0], words)
    for row in SUBCOMMANDS:
        if row.name == first:
            return _call(row, words[1:])
    print(f"agentrail: {_unknown(first)}", file=sys.stderr)
    return WRONG_USAGE


def overview() -> str:
    """Return the help: the table of subcommands, and the options of all of them."""
    width = max(len(row.name) for row in SUBCOMMANDS)
    rows = "\n".join(f"  {row.name:<{width}}  {row.purpose}" for row in SUBCOMMANDS)
    return (
        f"usage: agentrail [--version] [--help] [SUBCOMMAND] [OPTION ...]\n\n{rows}\n\n"
        f"Without a subcommand: {SUBCOMMANDS[0].name}. `agentrail SUBCOMMAND --help` lists its options."
    )


def _call(row: Subcommand, words: Sequence[str]) -> int:
    try:
        module = import_module(row.module)
    except ModuleNotFoundError as error:
        if row.extra is None or error.name != row.package:
            raise
        from agentrail.errors import ExtraMissing  # noqa: PLC0415 - only an error needs it

        print(f"agentrail: {ExtraMissing(row.purpose, row.extra)}", file=sys.stderr)
        return WRONG_USAGE
    return cast("Main", module.main)(words)


def _unknown(name: str) -> str:
    from agentrail.errors.branches import nearest  # noqa: PLC0415 - only an error needs it

    names = [row.name for row in SUBCOMMANDS]
    near = nearest(name, names)
    hint = "" if near is None else f" Did you mean `{near}`?"
    return f"there is no subcommand `{name}`; there are {', '.join(f'`{known}`' for known in names)}.{hint}"
