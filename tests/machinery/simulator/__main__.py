"""`python -m tests.machinery.simulator`: many seeds, in several processes, with a table of what went wrong.

The exit code is 0 if no rule was broken, and 1 if one was: then one line says how to repeat it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from agentrail.testing.simulator.__main__ import add_options, modes_of, run_seed
from agentrail.testing.simulator.fault_kinds import FAULTS
from agentrail.testing.simulator.simulator import Report
from tests.machinery.simulator.checked_simulator import CheckedSimulator, simulated

BAR: Final = 30
MAX_SHOWN: Final = 5
"""For how many of the runs that broke a rule the problem, and the command that repeats the run, are printed."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the simulations that the command line arguments *words* ask for; return the exit code."""
    options = _parser().parse_args(words)
    modes = modes_of(options.mode)
    if options.seed is not None:
        return run_seed(map(CheckedSimulator, modes), options.seed, trace=options.trace)
    began = time.monotonic()
    runs = [(modes[seed % len(modes)], seed) for seed in range(options.start, options.start + options.seeds)]
    failed = _many(runs, options.jobs, began)
    for report in failed[:MAX_SHOWN]:
        _say(f"\nseed {report.seed} broke a rule: {report.problem}\nrepeat it: {report.command}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {CheckedSimulator.program}", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many runs (300); with both modes, they take turns")
    parser.add_argument("--start", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=min(2, multiprocessing.cpu_count()), help="how many processes")
    parser.add_argument("--seed", type=int, help="run this seed alone")
    add_options(parser)
    return parser


def _many(seeds: Sequence[tuple[str, int]], jobs: int, began: float) -> list[Report]:
    """Run all (mode, seed) pairs in *jobs* processes, with a progress bar; print a table of the faults.

    Returns the reports of the runs that broke a rule.
    """
    failed: list[Report] = []
    faults: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    records = 0
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for count, report in enumerate(pool.imap(simulated, seeds, chunksize=4), 1):
            faults += report.faults
            runs.update(report.faults.keys())
            records += report.records
            if report.problem is not None:
                failed.append(report)
            _progress(count, len(seeds), len(failed), began)
    _say("")
    width = max(len(fault.name) for fault in FAULTS)
    _say(f"{'fault':<{width}} {'fired':>7} {'runs':>6}")
    for fault in FAULTS:
        _say(f"{fault.name:<{width}} {faults[fault.name]:>7} {runs[fault.name]:>6}")
    seconds = time.monotonic() - began
    rate = 60 * len(seeds) / max(seconds, 0.001)
    _say(f"{len(seeds)} seeds, {records} records, {len(failed)} broke a rule, {seconds:.0f} s, {rate:.0f} a minute")
    return failed


def _progress(count: int, of: int, failed: int, began: float) -> None:
    if not sys.stderr.isatty() and count % 100 and count != of:
        return
    bar = "█" * (BAR * count // of)
    end = "\r" if sys.stderr.isatty() and count != of else "\n"
    sys.stderr.write(f"{bar:<{BAR}} {count}/{of}  {failed} broke a rule  {time.monotonic() - began:.0f} s{end}")
    sys.stderr.flush()


_say = partial(print, flush=True)

if __name__ == "__main__":
    sys.exit(main())
