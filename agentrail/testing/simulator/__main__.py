"""`python -m agentrail.testing.simulator --seed 17`: simulates one supervisor, and says whether it broke a rule.

The exit code is 0 if no rule was broken, and 1 if one was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from functools import partial

from agentrail.testing.simulator.simulator import MODES, PROGRAM, Simulator


def main(words: Sequence[str] | None = None) -> int:
    """Run the simulation that the command line arguments *words* ask for; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}", description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="the seed")
    add_options(parser)
    options = parser.parse_args(words)
    return run_seed(map(Simulator, modes_of(options.mode)), options.seed, trace=options.trace)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add to *parser* the options of a run from one seed, beside the seed."""
    parser.add_argument("--mode", choices=(*MODES, "both"), default="both", help="which mode (both)")
    parser.add_argument("--trace", action="store_true", help="with --seed: say what happened, line by line")


def modes_of(mode: str) -> tuple[str, ...]:
    """Return the modes that the option *mode* stands for."""
    return (mode,) if mode in MODES else MODES


def run_seed(simulators: Iterable[Simulator], seed: int, *, trace: bool) -> int:
    """Run *seed* with each of *simulators*, and print what came of it; return the exit code."""
    failed = 0
    for simulator in simulators:
        report = simulator.run(seed, trace=trace)
        for line in report.lines:
            _say(line)
        _say(f"seed {seed}, {report.mode}: {report.problem or 'no rule was broken'} [{report.digest[:16]}]")
        failed |= report.problem is not None
    return int(failed)


_say = partial(print, flush=True)

if __name__ == "__main__":
    sys.exit(main())
