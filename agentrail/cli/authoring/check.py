"""`agentrail check FILE`: the checks need an extra, and are imported when it is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from agentrail.adapters.extras import need_extra
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import tell
from agentrail.cli.output.progress_bar import ProgressBar
from agentrail.errors import BadPlugin, ExtraMissing


def main(files: Sequence[Path], seed: int, examples: int, time: float, *, orders_may_differ: bool) -> int:
    """Check the *files*, and return the exit code: 0 clean, 1 something was found, 2 wrong usage."""
    try:
        need_extra("testing", "hypothesis", "check plugins")
    except ExtraMissing as missing:
        raise BadInputError(str(missing)) from missing
    from agentrail.cli.authoring import checks  # noqa: PLC0415 - needs the extra

    options = checks.CheckOptions(tuple(files), seed, examples, time, orders_may_differ)
    try:
        return checks.run(options, ProgressBar(sys.stderr))
    except (checks.NothingToCheckError, BadPlugin) as error:
        tell(f"agentrail: {error}")
        return WRONG_USAGE
