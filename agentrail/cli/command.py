"""The command `agentrail`: it calls the subcommand that its words name, and turns errors into exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import cast

import agentrail
from agentrail.cli.exit_codes import COMPLETE, DEBUG, INTERRUPTED, leave_unread
from agentrail.cli.quick_imports import uncollected


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `agentrail` with *argv*, by default those of the process, and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["--debug"]:
        os.environ[DEBUG], words = "1", words[1:]
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # Not UTF-8 everywhere, as in a pipe of Windows: what it cannot have is escaped, instead of an error
        reconfigure(errors="backslashreplace")
    try:
        code = _call(words)
        if sys.stdout is not None:  # it is, if it was closed before the start
            sys.stdout.flush()
    except KeyboardInterrupt:  # before the subcommand listens itself
        return INTERRUPTED
    except BrokenPipeError:
        return leave_unread()
    except BaseExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is not None:
            raise
        return leave_unread()
    return code


def _call(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"agentrail {agentrail.__version__}")
        return 0
    with uncollected():
        import click  # noqa: PLC0415 - it takes longer than all else that `--version` needs

        from agentrail.cli.click_commands import refuse  # noqa: PLC0415 - as above
        from agentrail.cli.subcommands import PROGRAM  # noqa: PLC0415 - as above

    if instruction := os.environ.get(COMPLETE):
        from click.shell_completion import shell_complete  # noqa: PLC0415 - as above

        return shell_complete(PROGRAM, {}, "agentrail", COMPLETE, instruction)
    try:
        with PROGRAM.make_context("agentrail", list(words)) as context:
            return cast("int", PROGRAM.invoke(context))
    except click.exceptions.Exit as end:  # a help was printed
        return end.exit_code
    except click.UsageError as error:
        return refuse(error, words)
