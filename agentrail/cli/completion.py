"""`agentrail completion`: prints the script of click that completes the command in a shell."""

from __future__ import annotations

from typing import cast

from click.shell_completion import ShellComplete, get_completion_class

from agentrail.cli.exit_codes import COMPLETE
from agentrail.cli.output.exit_status import DONE
from agentrail.cli.subcommands import PROGRAM


def main(shell: str) -> int:
    """Print the script for *shell*, and return the exit status."""
    kind = cast("type[ShellComplete]", get_completion_class(shell))
    # Not by its own `source`: that of bash starts a bash to ask for its version
    print(ShellComplete.source(kind(PROGRAM, {}, "agentrail", COMPLETE)), end="")
    return DONE
