"""Commands without a shell: a short list of programs that only look, each with the arguments it may have."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import trio

from agentrail.errors import ToolError
from agentrail.values.value import Value, value

MAX_OUTPUT: Final = 20_000
"""Bytes of output after which a command is stopped."""

GRACE: Final = 0.2
"""Seconds between asking a process to end and making it."""

PATIENCE: Final = 5.0
"""Seconds that the system gets to end a process that was killed."""

_COUNT: Final = re.compile(r"-[0-9]{1,6}")
_SECONDS: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?")


@value
class Allowed(Value):
    """What a program may be given."""

    letters: str = ""
    """The options, each one letter without a value of its own."""
    takes: str = "nothing"
    """What the rest is: `nothing`, `paths`, `words` or `seconds`."""
    least: int = 0
    """How many of them there must be."""
    counts: bool = False
    """Whether `-5` means five lines."""


ALLOWED: Final[Mapping[str, Allowed]] = {
    "cat": Allowed("n", "paths", 1),
    "date": Allowed("u"),
    "echo": Allowed("n", "words"),
    "head": Allowed("", "paths", 1, counts=True),
    "ls": Allowed("1aFhlrt", "paths"),
    "pwd": Allowed(),
    "sleep": Allowed("", "seconds", 1),
    "tail": Allowed("", "paths", 1, counts=True),
    "uname": Allowed("amrs"),
    "wc": Allowed("clw", "paths", 1),
    "whoami": Allowed(),
}
"""The programs, and what each may be given."""


def refuse(problem: str) -> NoReturn:
    """Refuse a call: the model is told the *problem*."""
    raise ToolError(problem)


def argv_of(command: str, root: str, inside: Callable[[str, str], Path]) -> tuple[str, ...]:
    """Return the program and arguments that *command* is, each path as *inside* finds it; refuse any other command."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        refuse(f"cannot read the command: {error}")
    if not words:
        refuse("the command is empty")
    program, *rest = words
    allowed = ALLOWED.get(program)
    if allowed is None:
        refuse(f"cannot run {program!r}, only {', '.join(ALLOWED)}; there is no shell")
    options: list[str] = []
    while rest and rest[0].startswith("-"):
        options.append(_option(program, allowed, rest.pop(0)))
    if len(rest) < allowed.least or (rest and allowed.takes == "nothing"):
        refuse(f"{program} takes {'more' if allowed.least else 'no'} arguments")
    return (program, *options, *(_operand(program, allowed, word, root, inside) for word in rest))


def _option(program: str, allowed: Allowed, word: str) -> str:
    if (allowed.counts and _COUNT.fullmatch(word)) or (len(word) > 1 and set(word[1:]) <= set(allowed.letters)):
        return word
    refuse(f"{program} may not have the option {word!r} here")


def _operand(program: str, allowed: Allowed, word: str, root: str, inside: Callable[[str, str], Path]) -> str:
    if allowed.takes == "paths":
        return str(inside(root, word))
    if allowed.takes == "seconds" and not _SECONDS.fullmatch(word):
        refuse(f"{program} takes a number of seconds, not {word!r}")
    return word


async def output_of(argv: Sequence[str], folder: str) -> str:
    """Run *argv* in *folder* and return what it prints; cancelled, the process and all it started are gone."""
    try:
        process = await trio.lowlevel.open_process(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
    except OSError as error:
        refuse(f"cannot run {argv[0]!r}: {error.strerror}")
    output = b""
    try:
        if process.stdout is not None:
            async with process.stdout as pipe:
                async for chunk in pipe:
                    output += chunk
                    if len(output) > MAX_OUTPUT:
                        break
        if len(output) <= MAX_OUTPUT:
            await process.wait()
    finally:
        if process.returncode is None:
            with trio.move_on_after(PATIENCE, shield=True):
                await _end(process)
    return _said(output, process.returncode)


def _said(output: bytes, code: int | None) -> str:
    text = output[:MAX_OUTPUT].decode(errors="replace").rstrip()
    if len(output) > MAX_OUTPUT:
        return f"{text}\n[stopped: only the first {MAX_OUTPUT} bytes]"
    if code:
        refuse(f"exit code {code}: {text}")
    return text or "(no output)"


async def _end(process: trio.Process) -> None:
    """End the process and its whole group, first by asking."""
    for number, grace in ((signal.SIGTERM, GRACE), (signal.SIGKILL, PATIENCE)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with trio.move_on_after(grace):
            await process.wait()
