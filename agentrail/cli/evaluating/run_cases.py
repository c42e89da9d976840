"""`agentrail evals run`: runs the cases of a file, and compares what came of it with a baseline."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

import trio
from msgspec.structs import replace

from agentrail import SessionSpec
from agentrail.adapters.python_file import NothingUsableError, find_member
from agentrail.cli.command_options import NamedAgent, options_of
from agentrail.cli.evaluating.report_output import print_report
from agentrail.cli.exit_codes import INTERRUPTED
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.output.exit_status import DONE, FAILED, tell
from agentrail.cli.output.progress_bar import ProgressBar
from agentrail.errors import AgentrailError
from agentrail.evals import (
    Comparison,
    Dataset,
    Progress,
    Results,
    Scorer,
    calls_match,
    compare,
    contains,
    exact,
    experiment,
    matches,
)
from agentrail.journals import SqliteJournal

SPENT: Final = 5
"""The exit status if the money ended it: that of `agentrail run` for a limit."""

KEEP_EVERY: Final = 2.0
"""Seconds between two writings of the results so far."""

SHOWN: Final = 5
"""The most names that an error lists."""

SCORERS: Final = {"exact": exact, "contains": contains, "matches": matches, "calls": calls_match()}
"""The scorers that the option `--score` names."""

USUAL: Final = ("contains", "calls")
"""The scorers if none are named, and the file of the agent has none."""


class RunCasesOptions(NamedTuple):
    """The arguments of `agentrail evals run`."""

    cases: Path
    """File of the cases."""
    agent: NamedAgent
    """File with the agent, and the scorers beside it."""
    model: str | None
    """The model in place of that of the agent; `None` if the agent keeps its own."""
    score: Sequence[str]
    """Names of scorers that ship."""
    repeats: int
    """How often each case is run."""
    at_once: int
    """How many sessions run at the same time."""
    max_usd: float | None
    """The most that may be spent."""
    baseline: Path | None
    """File of the results to compare with."""
    fail_if: str | None
    """`worse`: the status is 1 if a scorer is worse than the baseline."""
    to: Path | None
    """File of the results."""
    resume: bool
    """Whether to go on with the results in that file."""
    journal: Path | None
    """File in which the sessions are kept."""
    junit: Path | None
    """File of a report for what shows tests."""
    markdown: Path | None
    """File of a report for people."""

    @property
    def target(self) -> Path:
        """The file of the results."""
        return self.to or self.cases.with_suffix(".results.json")


def main(**words: object) -> int:
    """Run the cases with the arguments *words* of `RunCasesOptions`, and return the exit status."""
    logging.getLogger("agentrail").addHandler(logging.NullHandler())  # failed runs are in the report
    options = options_of(RunCasesOptions, words)
    if options.fail_if and options.baseline is None:
        raise BadInputError("--fail-if needs --baseline, with which the results are compared")
    dataset = Dataset.read(options.cases)
    baseline = None if options.baseline is None else Results.read(options.baseline)
    earlier = Results.read(options.target) if options.resume else None
    spec, scorers = _agent_of(options)
    if baseline is not None:
        _check_baseline(baseline, dataset, scorers)
    bar = ProgressBar(sys.stderr)
    results = trio.run(_run, options, dataset, spec, scorers, earlier, bar)
    bar.wipe()
    results = replace(results, dataset=options.cases.stem)
    results.write(options.target)  # first: what is done is kept, whatever the comparison says
    comparison = None if baseline is None or not results.runs else compare(baseline, results)
    if baseline is not None and comparison is not None:
        results = replace(results, baseline=baseline.name, verdict=comparison.verdict)
        results.write(options.target)
    print_report(results, comparison, options.junit, options.markdown)
    tell(f"agentrail: the results are in {options.target}")
    return _status(results, comparison, options)


def _agent_of(options: RunCasesOptions) -> tuple[SessionSpec, list[Scorer]]:
    """Return the agent, and the scorers: those that are named, and those of its file."""
    file, name = options.agent
    try:
        spec = cast("SessionSpec", find_member(file, name, (SessionSpec,)).value)
    except NothingUsableError as error:
        raise BadInputError(f"--agent {file}: {error}") from None
    if options.model is not None:
        spec = spec.but(model=options.model)
    scorers = file_scorers(file)
    names = options.score or (() if scorers else USUAL)
    return spec, [*(SCORERS[name] for name in names), *scorers]


def _check_baseline(baseline: Results, dataset: Dataset, scorers: Sequence[Scorer]) -> None:
    """Raise `BadInputError` if nothing could be compared with *baseline*, before anything is spent."""
    for what, old, new in (
        ("case", baseline.cases, [case.name for case in dataset]),
        ("scorer", baseline.scorers, [scorer.name for scorer in scorers]),
    ):
        if not {*old} & {*new}:
            problem = (
                f"--baseline has no {what} of these: it has {', '.join(old[:SHOWN])}, and not {', '.join(new[:SHOWN])}"
            )
            raise BadInputError(problem)


def file_scorers(file: Path) -> list[Scorer]:
    """Return the scorers that the imported *file* makes; those that ship are none of them."""
    shipped = {id(scorer) for scorer in SCORERS.values()}
    values = vars(sys.modules[file.stem]).values()
    return [value for value in values if isinstance(value, Scorer) and id(value) not in shipped]


async def _run(
    options: RunCasesOptions,
    dataset: Dataset,
    spec: SessionSpec,
    scorers: Sequence[Scorer],
    earlier: Results | None,
    bar: ProgressBar,
) -> Results:
    """Run the experiment; a signal ends it, and what is done is kept."""
    progress = Progress(lambda progress: _show(bar, progress))
    journal = None if options.journal is None else SqliteJournal(options.journal)
    problem: AgentrailError | None = None
    results: list[Results] = []
    async with trio.open_nursery() as nursery:  # noqa: TID251 - it listens to signals meanwhile
        await nursery.start(_stop_at_signal, progress)
        nursery.start_soon(_keep, progress, options.target)
        try:
            results.append(
                await experiment(
                    dataset,
                    spec,
                    scorers,
                    repeats=options.repeats,
                    at_once=options.at_once,
                    max_usd=options.max_usd,
                    journal=journal,
                    resume=earlier,
                    progress=progress,
                )
            )
        except AgentrailError as error:
            problem = error  # raised below: the nursery would put it into a group
        finally:
            if journal is not None:
                await journal.close()  # noqa: ASYNC102 - nothing cancels this
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem
    return results[0]


async def _keep(progress: Progress, target: Path) -> None:
    """Write the results so far every few seconds, so that `--resume` finds them if this process is killed."""
    count = 0
    while True:
        await trio.sleep(KEEP_EVERY)
        if progress.results is not None and progress.done > count:
            count = progress.done
            await trio.to_thread.run_sync(progress.results().write, target)


async def _stop_at_signal(progress: Progress, *, task_status: trio.TaskStatus[None]) -> None:
    """Stop the experiment at the first signal that ends a program."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            progress.stop()


def _show(bar: ProgressBar, progress: Progress) -> None:
    cost = "" if progress.usd is None else f", {progress.usd:.4f} USD"
    failed = f", {progress.failed} failed" if progress.failed else ""
    bar.show(progress.done / progress.total, "runs", f": {progress.done} of {progress.total}{cost}{failed}")


def _status(results: Results, comparison: Comparison | None, options: RunCasesOptions) -> int:
    """Return the exit status of an experiment that has results."""
    if results.stopped == "interrupted":
        return INTERRUPTED
    if results.stopped:
        return SPENT
    if options.fail_if == "worse" and comparison is not None and comparison.is_worse:
        return FAILED
    return DONE
