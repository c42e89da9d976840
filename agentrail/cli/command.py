"""The command `agentrail`: it calls the subcommand that its words name, and turns errors into exit statuses."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final, cast

import agentrail
from agentrail.cli.exit_codes import COMPLETE, DEBUG, INTERRUPTED, leave_unread
from agentrail.cli.quick_imports import imported

OF_COMPLETION: Final = ("COMP_WORDS", "COMP_CWORD")
"""The variables in which the script of a shell gives the words that are typed, and which of them is to be completed."""

COMPLETES: Final = "_complete"
"""How `COMPLETE` ends, behind the name of the shell, if words are to be completed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `agentrail` with *argv*, by default those of the process, and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    while words[:1] == ["--debug"]:
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
    except OSError as error:  # such as a full disk, to which a help is written
        from agentrail.cli.output.exit_status import status_of_error  # noqa: PLC0415 - `--version` does without

        return status_of_error(error)
    except BaseExceptionGroup as group:
        if group.split(BrokenPipeError)[1] is not None:
            raise
        return leave_unread()
    return code


def _call(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"agentrail {agentrail.__version__}")
        return 0
    imported("agentrail.cli.subcommands", freeze=True)
    import click  # noqa: PLC0415 - it takes longer than all else that `--version` needs

    from agentrail.cli.click_commands import refuse  # noqa: PLC0415 - as above
    from agentrail.cli.subcommands import PROGRAM, SHELLS  # noqa: PLC0415 - as above

    instruction = os.environ.get(COMPLETE, "")
    # Anything else comes from no script of ours, and click would end without a word, or fail
    if instruction.removesuffix(COMPLETES) in SHELLS and {*OF_COMPLETION} <= os.environ.keys():
        from click.shell_completion import shell_complete  # noqa: PLC0415 - as above

        return shell_complete(PROGRAM, {}, "agentrail", COMPLETE, instruction)
    try:
        with PROGRAM.make_context("agentrail", list(words)) as context:
            return cast("int", PROGRAM.invoke(context))
    except click.exceptions.Exit as end:  # a help was printed
        return end.exit_code
    except click.UsageError as error:
        return refuse(error, words)
