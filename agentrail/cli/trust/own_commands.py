"""Commands of a project: `.agentrail/commands/NAME.md` has the prompt that `/NAME` sends.

The model takes it for words of the user, and the folder may be a stranger's. So the user allows each of them once, with
its exact content, as the settings of the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from agentrail.adapters.sandboxes.confined_open import FOLDER, Root, open_file
from agentrail.adapters.system import HAS_FOLDERS
from agentrail.cli.folder.surface import Surface
from agentrail.cli.output.screen import clean, clipped, escaped, one_line
from agentrail.cli.trust.trust_store import TO_ALLOW, Ask, nobody_to_ask, unallowed
from agentrail.errors import PathRefused
from agentrail.values.json import canonical
from agentrail.values.value import Value

FOLDER_PARTS: Final = (".agentrail", "commands")
FOLDER_NAME: Final = "/".join(FOLDER_PARTS)

ENDING: Final = ".md"

ARGUMENTS: Final = "$ARGUMENTS"
"""In the text: what is typed behind the name."""

MAX_BYTES: Final = 16 * 1024
"""The most bytes of the file of a command."""

MAX_COMMANDS: Final = 50

MAX_ENTRIES: Final = 1_000
"""The most names of the folder that are read."""

PURPOSE: Final = 60
"""The most columns of the first line of a command in the menu and in the help."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


class OwnCommand(Value):
    """A command of the project."""

    name: str
    """What is typed, such as `/review`."""
    text: str
    """The prompt that it sends."""

    @property
    def purpose(self) -> str:
        """Its first line, as far as it is shown."""
        first = next((line for line in self.text.splitlines() if line.strip()), "")
        return clipped(one_line(clean(first)).lstrip("# "), PURPOSE)

    @property
    def surface(self) -> Surface:
        """What the user has to allow."""
        return Surface(f"commands.{self.name[1:]}", canonical(self.text))

    def prompt(self, arguments: str) -> str:
        """Return the prompt with *arguments* in their place, or below it if it has none for them."""
        if ARGUMENTS in self.text or not arguments:
            return self.text.replace(ARGUMENTS, arguments)
        return f"{self.text.rstrip()}\n\n{arguments}"


class OwnCommands(Value, gc=True):
    """The commands of a project, and what is wrong with others."""

    commands: tuple[OwnCommand, ...] = ()
    """Those that can be used, in order of their names."""
    problems: tuple[str, ...] = ()
    """A sentence about each that is left out."""

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """What the user has to allow."""
        return tuple([command.surface for command in self.commands])


class _Unusable(Exception):  # noqa: N818 - it is no error of the program
    """Why a file is no command."""


def allowed_commands(folder: Path, others: Collection[str], ask: Ask = nobody_to_ask) -> OwnCommands:
    """Return the commands of *folder*; *ask* about those that are not allowed yet, and leave out what is not then.

    *others* are the names of commands that there are already.
    """
    own_commands = read_commands(folder, others)
    surfaces = unallowed(folder, own_commands.surfaces)
    if not surfaces or ask(folder, FOLDER_NAME, surfaces):
        return own_commands
    names = [command.name for command in own_commands.commands if command.surface in surfaces]
    problem = f"{', '.join(names)} of {FOLDER_NAME}: nobody has allowed this yet; {TO_ALLOW}"
    allowed = [command for command in own_commands.commands if command.surface not in surfaces]
    return OwnCommands(tuple(allowed), (*own_commands.problems, problem))


def may_have_commands(folder: Path) -> bool:
    """Whether *folder* has what its commands would be in, even if it cannot be read: then that is told."""
    try:
        os.lstat(folder / FOLDER_PARTS[0])
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def read_commands(folder: Path, others: Collection[str] = ()) -> OwnCommands:
    """Return the commands of *folder*, allowed or not; *others* are names that they cannot have."""
    if not HAS_FOLDERS:
        return OwnCommands()
    from agentrail.adapters.sandboxes.hidden_paths import HiddenPaths  # noqa: PLC0415 - few folders have commands
    from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS  # noqa: PLC0415 - as above

    commands, problems = list[OwnCommand](), list[str]()
    try:
        with Root(os.path.realpath(folder), HiddenPaths(BLOCKED_PATHS)) as root:
            files, has_more = _files_in(root)
            for file in files:
                try:
                    commands.append(_command(root, file, others))
                except _Unusable as error:
                    problems.append(f"{FOLDER_NAME}/{escaped(file)} is left out: {error}")
    except (FileNotFoundError, NotADirectoryError):
        return OwnCommands()
    except (OSError, PathRefused) as error:
        return OwnCommands((), (f"{FOLDER_NAME} is left out: {_reason(error)}",))
    if has_more:
        problems.append(f"{FOLDER_NAME}: only {MAX_COMMANDS} commands are read")
    return OwnCommands(tuple(commands), tuple(problems))


def _files_in(root: Root) -> tuple[Sequence[str], bool]:
    """Return the names of the files that may be commands, and whether there are more."""
    descriptor = root.open(FOLDER_PARTS, FOLDER)
    try:
        with os.scandir(descriptor) as entries:
            names = [entry.name for entry in islice(entries, MAX_ENTRIES + 1)]
    finally:
        os.close(descriptor)
    files = sorted(name for name in names if name.endswith(ENDING))
    return files[:MAX_COMMANDS], len(files) > MAX_COMMANDS or len(names) > MAX_ENTRIES


def _command(root: Root, file: str, others: Collection[str]) -> OwnCommand:
    name = file.removesuffix(ENDING)
    if not _NAME.fullmatch(name):
        raise _Unusable("its name may have letters, digits, `-` and `_`, at most 40")
    if f"/{name}" in others:
        raise _Unusable(f"there is a command /{name} already; rename the file")
    try:
        with os.fdopen(open_file(root, (*FOLDER_PARTS, file), hard_links=True), "rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except (OSError, PathRefused) as error:
        raise _Unusable(_reason(error)) from None
    if len(content) > MAX_BYTES:
        raise _Unusable(f"it has more than {MAX_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Unusable("it is no UTF-8") from None
    if not text.strip():
        raise _Unusable("it is empty")
    return OwnCommand(f"/{name}", text)


def _reason(error: OSError | PathRefused) -> str:
    return error.why if isinstance(error, PathRefused) else error.strerror or str(error)


def command_rows(commands: Sequence[OwnCommand]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each command, what may follow it, and what it is for."""
    for command in commands:
        yield command.name, "TEXT" if ARGUMENTS in command.text else "", command.purpose
