"""`agentrail check FILE`: parses its arguments; the checks need an extra, and are imported when it is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agentrail.adapters.extras import need_extra
from agentrail.cli.bad_input import BadInputError
from agentrail.cli.checking.check_options import parsed
from agentrail.cli.command import WRONG_USAGE
from agentrail.cli.progress_bar import ProgressBar
from agentrail.errors import BadPlugin, ExtraMissing


def main(argv: Sequence[str]) -> int:
    """Check the files that *argv* names, and return the exit code: 0 clean, 1 something was found, 2 wrong usage."""
    try:
        options = parsed(argv)
        need_extra("testing", "hypothesis", "check plugins")
    except (BadInputError, ExtraMissing) as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE
    from agentrail.cli.checking import checks  # noqa: PLC0415 - needs the extra

    try:
        return checks.run(options, ProgressBar(sys.stderr))
    except (checks.NothingToCheckError, BadPlugin) as error:
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE
