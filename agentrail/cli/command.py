"""The command `agentrail`: a table of subcommands; a subcommand's module is imported only when it is called."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Final, NamedTuple, Protocol, TextIO, cast

import agentrail

WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
DEBUG: Final = "AGENTRAIL_DEBUG"
"""The variable that has errors printed with their tracebacks; the option `--debug` sets it."""


class Subcommand(NamedTuple):
    """A subcommand: a row of the table."""

    name: str
    module: str
    """The module whose `main` takes the arguments after the subcommand's name, and returns the exit code."""
    purpose: str
    """Purpose of the subcommand, as the help prints it."""
    lasts: bool
    """Whether it runs for long, so that it is worth to keep what it imports out of the sight of collections."""
    options: str = ""
    """The module whose `options_parser` returns the parser of its options; empty if that is the same one."""
    is_host: bool = False
    """Whether it reads files anew at SIGHUP: one that comes while it is imported and starts is noted."""


_CLI: Final = "agentrail.cli"

SUBCOMMANDS: Final = (
    Subcommand("chat", f"{_CLI}.chat", "talk to an agent in the terminal", lasts=True, options=f"{_CLI}.chat_options"),
    Subcommand("run", f"{_CLI}.run", "answer one prompt, for scripts", lasts=True, options=f"{_CLI}.run_options"),
    Subcommand(
        "acp",
        f"{_CLI}.acp.acp_command",
        "talk to an agent in an editor such as Zed",
        lasts=True,
        options=f"{_CLI}.acp.acp_options",
    ),
    Subcommand(
        "sessions",
        f"{_CLI}.sessions",
        "list, show, move, fork and delete stored sessions",
        lasts=False,
        options=f"{_CLI}.session_options",
    ),
    Subcommand("journal", f"{_CLI}.journal", "copy a journal, look after one in PostgreSQL", lasts=False),
    Subcommand("why", f"{_CLI}.why", "tell why a stored session did what it did", lasts=False),
    Subcommand("seen", f"{_CLI}.seen", "show what the model of a stored session saw", lasts=False),
    Subcommand("replay", f"{_CLI}.record_rows", "walk through the records of a stored session", lasts=False),
    Subcommand("console", f"{_CLI}.console_page", "look at stored sessions in a browser", lasts=True),
    Subcommand("tools", f"{_CLI}.tool_list", "list the tools of an agent", lasts=False),
    Subcommand("plugins", f"{_CLI}.plugin_list", "list the plugins of an agent, and their order", lasts=False),
    Subcommand("models", f"{_CLI}.model_list", "list providers, keys, models, their prices", lasts=False),
    Subcommand("new", f"{_CLI}.new", "write a folder to begin an agent, plugin, tool, host", lasts=False),
    Subcommand("doctor", f"{_CLI}.doctor", "look at what agents need on this machine", lasts=False),
    Subcommand("trust", f"{_CLI}.trust", "allow what agentrail.toml of a folder wants", lasts=False),
    Subcommand(
        "check",
        f"{_CLI}.check",
        "check the plugins of a file",
        lasts=False,  # Hypothesis looks there
        options=f"{_CLI}.checking.check_options",
    ),
    Subcommand(
        "serve",
        f"{_CLI}.serve",
        "serve agents over HTTP",
        lasts=True,
        options=f"{_CLI}.serve_options",
        is_host=True,
    ),
    Subcommand("top", f"{_CLI}.top", "watch the sessions that run at a host", lasts=True),
    Subcommand("completion", f"{_CLI}.completion", "print a script that completes all this in a shell", lasts=False),
)
"""The subcommands by name; the first is run if no name is given."""


class Main(Protocol):
    """Type of a subcommand's function `main`."""

    def __call__(self, argv: Sequence[str]) -> int:
        """Run the subcommand with the arguments *argv*, and return the exit code."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `agentrail` with *argv*, by default those of the process, and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["--debug"]:
        os.environ[DEBUG], words = "1", words[1:]
    first = words[0] if words else ""
    if first == "--version":
        return _print(f"agentrail {agentrail.__version__}")
    if first in {"-h", "--help"}:
        return _print(overview())
    if not first or first.startswith("-"):
        return _call(SUBCOMMANDS[0], words)
    for row in SUBCOMMANDS:
        if row.name == first:
            return _call(row, words[1:])
    print(f"agentrail: {_unknown(first)}", file=sys.stderr)
    return WRONG_USAGE


def _print(text: str) -> int:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        return leave_unread()
    return 0


def overview() -> str:
    """Return the help: the usage, the table of subcommands, and how to list the options of one."""
    width = max(len(row.name) for row in SUBCOMMANDS)
    rows = "\n".join(f"  {row.name:<{width}}  {row.purpose}" for row in SUBCOMMANDS)
    return (
        f"usage: agentrail [--version] [--help] [--debug] [SUBCOMMAND] [OPTION ...]\n\n{rows}\n\n"
        f"Without a subcommand: {SUBCOMMANDS[0].name}. `agentrail SUBCOMMAND --help` lists its options.\n"
        "With --debug before it, an error is printed with its traceback."
    )


def _call(row: Subcommand, words: Sequence[str]) -> int:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # Not UTF-8 everywhere, as in a pipe of Windows: what it cannot have is escaped, instead of an error
        reconfigure(errors="backslashreplace")
    try:
        code = _call_imported(row, words)
        if sys.stdout is not None:  # it is, if it was closed before the start
            sys.stdout.flush()
    except KeyboardInterrupt:  # while it was imported: later it listens itself
        return INTERRUPTED
    except BrokenPipeError:
        return leave_unread()
    except BaseExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is not None:
            raise
        return leave_unread()
    return code


def leave_unread(*others: TextIO) -> int:
    """Return the exit code if nobody reads standard output any more, and have nothing else fail because of that.

    *others* are streams that lead there too.
    """
    for stream in (sys.stdout, *others):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return 1


def _call_imported(row: Subcommand, words: Sequence[str]) -> int:
    if not row.is_host:
        return cast("Main", _imported(row.module, freeze=row.lasts).main)(words)
    from agentrail.app.hangup import noting_hangups  # noqa: PLC0415 - no other subcommand needs it at its start

    with noting_hangups():
        return cast("Main", _imported(row.module, freeze=row.lasts).main)(words)


def _imported(name: str, *, freeze: bool) -> ModuleType:
    """Import a module without garbage collection; *freeze*: later collections ignore the objects that it created.

    Modules, classes and functions are no garbage, and to look at them took a seventh of the time in which `serve`
    begins to listen: clients of a process that is deployed wait for that.
    """
    if name in sys.modules:  # the module was imported before; freezing now would also freeze the caller's garbage
        return sys.modules[name]
    was_on = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if freeze:
            gc.freeze()
        if was_on:
            gc.enable()


def _unknown(name: str) -> str:
    from agentrail.errors.agentrail_error import advice  # noqa: PLC0415 - only an error needs it

    return f"there is no subcommand `{name}`; {advice(name, (row.name for row in SUBCOMMANDS), 'there are')}"
