"""Programs that find code by themselves in the folder where they run, such as `npx`, and how that is kept from them.

Whoever writes to the folder, such as an agent, could place a program there, a package, or a setting that names another
registry. Some can be told to look elsewhere. The others are refused: what they would run cannot be digested.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final

from agentrail.adapters.user_folders import with_home
from agentrail.cli.output.bad_input import BadInputError
from agentrail.plugins.shell.command_line import Commands, lex_argv
from agentrail.plugins.shell.lexer_words import names

LAUNCHERS: Final = names(
    "Rscript asdf bun bunx bundle bundler cabal cargo conda corepack deno devbox direnv docker-compose dotnet flask go"
    " gmake gradle gradlew gunicorn hatch hypercorn java julia just lua luajit make mamba micromamba mise mix mvn nix"
    " nix-shell npm pdm pipenv pipx pixi pnpm pnpx poetry rake rye stack swift task ts-node tsx uvicorn yarn yarnpkg"
)
"""Programs that take code or settings of code from where they run, and cannot be told not to."""

WITH_COMMANDS: Final[Mapping[str, frozenset[str]]] = {
    "docker": frozenset({"run", "exec", "start", "mcp"}),
    "podman": frozenset({"run", "exec", "start"}),
}
"""Programs that do so with all commands but these."""

FLAGS: Final = names(
    "-y --yes -q --quiet --isolated --offline --no-config --no-project --no-cache -n --refresh run tool"
)
"""Options without a value that may come before the name of a package, and the sub-commands of `uv`."""

INSTEAD: Final = (
    'start its file by an interpreter, as in ["python", "server.py"] or ["node", "server.js"],'
    " or install it outside of the folder and name the program"
)


CAN_BE_TOLD: Final[Mapping[str, Callable[[Path], tuple[str, ...]]]] = {
    "npx": lambda copy: ("--prefix", str(copy)),
    "uvx": lambda _copy: ("--no-config",),
    "uv": lambda _copy: ("--no-config",),
}
"""Programs that can be told not to look where they run, but in an empty folder or nowhere: options after the name."""

UV_COMMANDS: Final = (("run",), ("tool", "run"))
"""The commands of `uv` that run a program."""

ELSEWHERE: Final = ("--directory", "--project")
"""Options of `uv` with the folder of the project, in which it looks for all that it finds by itself."""

NO_PROJECT: Final = "--no-project"
"""Option of `uv run` that leaves out the project of the folder, and its environment."""


def programs_in(command: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the command lines of the programs that *command* runs, also within a shell or another wrapper."""
    lexed = lex_argv(command)
    if isinstance(lexed, Commands):
        return [tuple(word.text for word in inner.argv) for inner in lexed if inner.argv]
    return [tuple(command)]


def check_launchers(where: str, programs: Sequence[Sequence[str]], folder: Path, *, is_direct: bool) -> None:
    """Raise `BadInputError` if one of *programs*, that are run by *where*, finds code in *folder* by itself.

    *is_direct* says whether it is the command itself, so that options can be added to it.
    """
    for words in programs:
        name = PurePath(words[0]).name
        others = WITH_COMMANDS.get(name)
        is_other = others is not None and _first_plain(words[1:]) not in others
        if name in LAUNCHERS or is_other:
            raise BadInputError(f"{where}: `{name}` finds code by itself in the folder where it runs; {INSTEAD}")
        if name in CAN_BE_TOLD and not _works_elsewhere(words, folder):
            if not is_direct:
                problem = f"`{name}` would find code in the folder where it runs; make it the command itself"
                raise BadInputError(f"{where}: {problem}, without a shell or wrapper")
            _check_package(where, name, words, folder)


def kept_out(command: Sequence[str], folder: Path, copy: Path) -> tuple[str, ...]:
    """Return *command* with the options that keep its program from code of *folder*, where it runs."""
    name = PurePath(command[0]).name
    if name not in CAN_BE_TOLD or _works_elsewhere(command, folder):
        return tuple(command)
    words = [command[0], *CAN_BE_TOLD[name](copy), *command[1:]]
    if name == "uv" and "run" in words and "tool" not in words[: words.index("run")]:
        words.insert(words.index("run") + 1, NO_PROJECT)
    return tuple(words)


def _works_elsewhere(words: Sequence[str], folder: Path) -> bool:
    """Whether `uv` is told to look in a folder outside of *folder*."""
    parts = [part for word in words for part in word.split("=", 1)]
    projects = [value for option, value in pairwise(parts) if option in ELSEWHERE]
    return bool(projects) and all(
        Path(project).is_absolute() and not _is_code_in(project, folder) for project in projects
    )


def _check_package(where: str, name: str, words: Sequence[str], folder: Path) -> None:
    """Raise `BadInputError` if a word up to the name of the package is a path: code of a folder would be run.

    What comes after it is for the program. The package is the first word that cannot be the value of an option.
    """
    if name == "uv" and not any(tuple(words[1 : 1 + len(command)]) == command for command in UV_COMMANDS):
        raise BadInputError(f"{where}: of `uv`, only `uv run FILE` and `uv tool run PACKAGE` can be started; {INSTEAD}")
    previous = ""
    for word in words[1:]:
        is_script = name == "uv" and word.endswith(".py")
        if not is_script and any(_is_code_in(part, folder) for part in word.split("=")):
            problem = f"`{name}` would run code of the folder that `{word}` names"
            raise BadInputError(f"{where}: {problem}; {INSTEAD}")
        if is_script or not (
            word.startswith("-") or word in FLAGS or (previous.startswith("-") and previous not in FLAGS)
        ):
            return
        previous = word


def _is_code_in(text: str, folder: Path) -> bool:
    """Whether *text* is a path, and relative or in *folder*: a package is not named so."""
    text = text.removeprefix("file:")
    if text.startswith(("/", "~")):
        return Path(os.path.realpath(with_home(text))).is_relative_to(folder)
    return text.startswith(".") or ("/" in text and not text.startswith("@") and "://" not in text)


def _first_plain(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")
