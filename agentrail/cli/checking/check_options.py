"""The command line of `agentrail check`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentrail.cli.option_parser import OptionParser
from agentrail.testing.turns.conflicts import EXAMPLES
from agentrail.values.value import Value

DESCRIPTION: Final = """\
Check the plugins that a Python file defines or makes: each against the laws,
all together against the invariants of sessions and against the functions in the
file whose one parameter is a `Trace`."""

EXAMPLE: Final = "example: agentrail check my_plugins.py --time 60"

SECONDS: Final = 300.0
"""Seconds that the checks may take: many times what they take for a few plugins on a machine that does nothing else."""


class CheckOptions(Value, gc=True):
    """The parsed arguments of the command line."""

    files: tuple[Path, ...]
    """Python files with the plugins."""
    seed: int = 0
    """Seed of the random search."""
    examples: int = EXAMPLES
    """Number of combinations that are tried; all invariants are checked on each."""
    seconds: float = SECONDS
    """Seconds after which no more combination or order is tried; the laws are tried in any case."""
    orders_may_differ: bool = False
    """Whether the check of orders passes even if it finds two plugins whose order matters."""


def parsed(argv: Sequence[str]) -> CheckOptions:
    """Parse *argv*; raise `BadInputError` if it is not valid."""
    parser = options_parser()
    args = parser.parse_args(argv)
    files = tuple(Path(name) for name in args.files)
    for path in files:
        if not path.is_file():
            parser.error(f"there is no file {str(path)!r}")
    return CheckOptions(files, args.seed, args.examples, args.time, args.orders_may_differ)


def options_parser() -> OptionParser:
    """Return the parser of the command line."""
    parser = OptionParser("agentrail check", "agentrail check [OPTION ...] FILE ...", DESCRIPTION, EXAMPLE)
    parser.add_argument("files", nargs="+", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help="another one is another search (default: %(default)s)")
    parser.add_argument(
        "--examples",
        type=_count,
        default=EXAMPLES,
        help="combinations of plugins that are tried, each against all invariants (default: %(default)s)",
    )
    parser.add_argument(
        "--time",
        type=_seconds,
        default=SECONDS,
        metavar="SECONDS",
        help="after how long no more is tried, but for the laws (default: %(default).0f)",
    )
    parser.add_argument(
        "--orders-may-differ",
        action="store_true",
        help="only report for which two plugins the order matters, instead of counting it as a finding",
    )
    return parser


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        problem = f"{text!r} is no whole number from 1 on"
        raise argparse.ArgumentTypeError(problem)
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.inf
    if not 0 <= number < math.inf:
        problem = f"{text!r} is no number of seconds from 0 on"
        raise argparse.ArgumentTypeError(problem)
    return number
