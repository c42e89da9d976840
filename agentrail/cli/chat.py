"""`agentrail chat`: a conversation with a session in the terminal."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import agentrail
from agentrail.app import process
from agentrail.app.supervisor import open_supervisor
from agentrail.cli.command import INTERRUPTED
from agentrail.cli.console import Console
from agentrail.cli.default_agent import DEMO, STOP_WITHIN, spec_for, usual_model
from agentrail.cli.help_text import greeting
from agentrail.cli.screen import line
from agentrail.cli.terminal import Terminal
from agentrail.errors import AgentrailError, SupervisorStuck, UsageError
from agentrail.values.value import Value

WRONG_USAGE: Final = 2


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
"""The sample files, by path, that a fresh folder gets."""


def fill(folder: Path) -> None:
    """Write the sample files into *folder*."""
    for name, text in SAMPLES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


class ChatOptions(Value, gc=True):
    """The parsed arguments of the command line."""

    model: str = DEMO
    """Name of the model."""
    folder: Path | None = None
    """Folder to work in; `None` if a fresh one with sample files is to be made."""


def main(argv: Sequence[str]) -> int:
    """Run `agentrail chat` with the arguments *argv*, and return the exit code."""
    logging.getLogger("agentrail").addHandler(logging.NullHandler())
    options = parsed(argv)
    terminal = Terminal(sys.stdin, sys.stdout)
    code = process.run(partial(conversation, options, terminal), stop_within=STOP_WITHIN)
    if terminal.gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the last flush at exit cannot fail
    return INTERRUPTED if code is None else max(code, int(terminal.gone))


async def conversation(options: ChatOptions, terminal: Terminal) -> int:
    """Run the conversation in its folder, and return the exit code; print an `AgentrailError` that ends it."""
    try:
        with working_folder(options.folder) as folder:
            well = await talk(options, folder, terminal)
    except AgentrailError as error:
        print(f"agentrail: {error}", file=sys.stderr, flush=True)
        if isinstance(error, SupervisorStuck):
            raise
        return WRONG_USAGE if isinstance(error, UsageError) else 1
    terminal.show((line("Bye."),))
    return int(not well)


def parsed(argv: Sequence[str]) -> ChatOptions:
    """Parse *argv*; invalid arguments end the program with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="agentrail chat",
        description="Talk to an agent in the terminal; `agentrail run` answers one prompt, for scripts.",
        epilog="example: agentrail chat --model openai:gpt-5.4 --dir .",
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help=f"which model (default: of the first provider whose key is in the environment, else {DEMO}, offline)",
    )
    parser.add_argument("--dir", metavar="FOLDER", help="where its tools work (default: a fresh folder with samples)")
    args = parser.parse_args(argv)
    folder = None if args.dir is None else Path(args.dir)
    if folder is not None and not folder.is_dir():
        parser.error(f"--dir: there is no folder {args.dir!r}")
    model = usual_model(os.environ.get) if args.model is None else args.model
    return ChatOptions(model, folder)


@contextmanager
def working_folder(path: Path | None) -> Generator[Path, None, None]:
    """Use *path*, or a fresh folder with sample files that is deleted at the end."""
    if path is not None:
        yield path.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="agentrail-", ignore_cleanup_errors=True) as fresh:
        folder = Path(fresh).resolve()
        fill(folder)
        yield folder


async def talk(options: ChatOptions, folder: Path, terminal: Terminal) -> bool:
    """Open a supervisor and a session, run the conversation, and return whether it went well."""
    async with open_supervisor(stop_within=STOP_WITHIN) as supervisor:
        session = await supervisor.spawn(spec_for(options.model, folder))
        terminal.show(greeting(agentrail.__version__, options.model, folder, fresh=options.folder is None))
        return await Console(session, terminal).run()
