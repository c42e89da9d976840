"""`lex`: returns the simple commands that a shell command line would run, or `Unlexable` if it cannot tell.

The line is read as a POSIX shell reads it. In place of a wrapper such as `sudo`, `env` or `sh -c`, the command that it
runs is returned. Commands inside substitutions are returned like any other. Nothing is guessed: a line that is not
understood is `Unlexable`, and the plugins hold such a call for a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from agentrail.plugins.shell.code_arguments import holds_program
from agentrail.plugins.shell.lexer_words import SimpleCommand, StuckError, Unlexable, Word, names, stop, trusted
from agentrail.plugins.shell.parser import MAX_COMMANDS, ShellParser
from agentrail.plugins.shell.wrappers import SHELLS, inside, is_interpreter
from agentrail.values.value import Value

MULTI_TOOLS: Final = names(
    "apk apt apt-get aws az brew bun bundle cargo composer conda deno dnf docker dotnet flatpak gcloud gem gh git go"
    " helm hg ip kubectl mamba nix npm pacman pdm pip pip3 pipx pnpm podman poetry rustup snap svn systemctl terraform"
    " uv yarn yum zypper"
)
"""Programs with sub-commands, such as `git`: their first argument says what they do."""

_MODULE: Final = Word("-m")
_TELLING: Final = frozenset({"doas", "sudo", "xargs"})
QUIET_WRAPPERS: Final = names("bash builtin command dash env exec ionice nice nohup sh stdbuf time timeout")
_PROGRAM: Final = re.compile(r"[!-~]+")
_MAX_WRAPPERS: Final = 8
_NOWHERE: Final = "/dev/null"


class Commands(Value, gc=True):
    """The simple commands of a line; those in substitutions come before the commands that use them."""

    commands: tuple[SimpleCommand, ...]
    """The commands, without the wrappers around them."""

    def __iter__(self) -> Iterator[SimpleCommand]:
        return iter(self.commands)

    def __len__(self) -> int:
        return len(self.commands)

    def family(self) -> str | None:
        """Return the family that an approval for always covers; `None` if it is not the same for all commands."""
        families = {family(command) for command in self.commands if command.argv or writes_file(command)}
        if len(families) != 1 or any(command.assignments for command in self.commands):
            return None
        return families.pop()


def parse_commands(text: str) -> Commands | Unlexable:
    """Return the commands that the line *text* would run; `Unlexable`, with the reason, if that is not clear."""
    try:
        return _counted(_read(text, (), 0))
    except StuckError as stuck:
        return Unlexable(stuck.reason, stuck.at)


def lex_argv(argv: Sequence[str]) -> Commands | Unlexable:
    """Return the commands that *argv*, started without a shell, would run: *argv*, or those inside a wrapper."""
    if any("\0" in text for text in argv):
        return Unlexable("a NUL character", 0)
    try:
        return _counted(_look_through(SimpleCommand(tuple(map(Word, argv))), 0))
    except StuckError as stuck:
        return Unlexable(stuck.reason, stuck.at)


def lex_words(argv: Sequence[Word]) -> Commands | Unlexable:
    """Return the commands that the words *argv* of a line would run; if it is a wrapper, the commands inside it."""
    try:
        return _counted(_look_through(SimpleCommand(tuple(argv)), 0))
    except StuckError as stuck:
        return Unlexable(stuck.reason, stuck.at)


def family(command: SimpleCommand) -> str | None:
    """Return the family of *command*: its program; for some programs with the sub-command, script or module.

    A person may approve a family for always. `None` if the family would say too little about what the command does.
    """
    if not command.argv or command.assignments or writes_file(command):
        return None
    # The command that `find` runs is in the list as a command of its own
    if command.program != "find" and holds_program(command):
        return None
    wrappers = [trusted(name) for name in command.via]
    if not set(wrappers) <= _TELLING | QUIET_WRAPPERS:
        return None
    parts = [*(name for name in wrappers if name in _TELLING), command.name]
    if command.name in MULTI_TOOLS or command.program in SHELLS or is_interpreter(command.program):
        what = command.args[: 2 if command.args[:1] == (_MODULE,) else 1]
        if not what or what[-1].expands or what[-1].text.startswith("-"):
            return None
        parts += (word.text for word in what)
    return " ".join(parts)


def writes_file(command: SimpleCommand) -> bool:
    """Whether a redirection of *command* opens a file for writing; `/dev/null` does not count."""
    return any(redirection.writes and redirection.target.text != _NOWHERE for redirection in command.redirections)


def _counted(source: Iterator[SimpleCommand]) -> Commands:
    commands = tuple(islice(source, MAX_COMMANDS + 1))
    if len(commands) > MAX_COMMANDS:
        stop(f"more than {MAX_COMMANDS} commands")
    return Commands(commands)


def _read(text: str, via: tuple[str, ...], wrappers: int, around: tuple[Word, ...] = ()) -> Iterator[SimpleCommand]:
    for command in ShellParser(text).read():
        yield from _look_through(command.but(via=via, around=around), wrappers)


def _look_through(command: SimpleCommand, wrappers: int) -> Iterator[SimpleCommand]:
    """Yield *command*; if it is a wrapper such as `sudo`, the commands that it runs."""
    if not command.argv:
        yield command
        return
    if wrappers > _MAX_WRAPPERS:
        stop(f"more than {_MAX_WRAPPERS} wrappers")
    name = command.argv[0]
    if name.expands:
        stop("a program whose name the shell expands")
    if not _PROGRAM.fullmatch(name.text):
        stop("a program whose name is empty, or has blanks or letters beyond ASCII")
    if command.program == "time" and command.redirections and command.args[:1] and command.args[0].text.startswith("-"):
        stop("a redirection and options of `time`, whose order matters")
    wrapped = inside(command.program, command.argv)
    if wrapped is None:
        yield command
        return
    via, around = (*command.via, name.text), (*command.around, *wrapped.others)
    if wrapped.keeps:
        yield command
    elif wrapped.scripts and (command.redirections or command.assignments):
        yield command.but(argv=())
    outer = () if wrapped.keeps else command.redirections
    for argv in wrapped.argvs:
        inner = SimpleCommand(argv, (*command.assignments, *wrapped.assignments), outer, via, around)
        yield from _look_through(inner, wrappers + 1)
    for script in wrapped.scripts:
        try:
            yield from _read(script, via, wrappers + 1, around)
        except StuckError as stuck:
            reason = f"in the script of `{command.program}`: {stuck.reason}"
            raise StuckError(reason, stuck.at) from stuck
