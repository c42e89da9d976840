"""`experiment`: runs each case several times, each time in a session of its own, and scores what came of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

import trio

from agentrail import SessionSpec, Supervisor, open_supervisor
from agentrail.errors import AgentrailError, OutsideError, UsageError, WrongType
from agentrail.evals.case_sessions import LABEL, all_records, begin_session, past_records, play_case, store_past
from agentrail.evals.cases import NAME, Case
from agentrail.evals.datasets import Dataset
from agentrail.evals.recorded_tools import UNRECORDED, shown_call, with_case_tools
from agentrail.evals.results import MOST_REPEATS, Results, ScoredRun
from agentrail.evals.runs import Run, run_of
from agentrail.evals.scores import FailedScoreError, Score, ScoreFunction, Scorer, as_scorer, scored
from agentrail.journals import Journal, MemoryJournal
from agentrail.values.argument_checks import checked

LONGEST: Final = 500
"""The most characters of an error that are kept."""

LONGEST_NAMES: Final = 119
"""The most characters of the names of an experiment and a case: ids of sessions, of up to 128, have a number, too."""


class Progress:
    """How far an experiment is; `stop` ends it, and what is done is kept."""

    @checked
    def __init__(self, show: Callable[[Progress], None] | None = None) -> None:
        self.total = 0
        """Number of runs that there are to be, those that are done included."""
        self.done = 0
        """Number of runs that are done."""
        self.failed = 0
        """Number of runs that have failed."""
        self.usd: float | None = 0.0
        """Cost so far in US dollars; `None` if a price is unknown."""
        self.scope = trio.CancelScope()
        """Cancelled by `stop`."""
        self.stopped = ""
        """Why the experiment ends early; empty if it does not."""
        self.results: Callable[[], Results] | None = None
        """Returns the results of the runs that are done so far; `None` before the first one begins."""
        self._show = show
        """Called when a run is done."""

    def stop(self, why: str = "interrupted") -> None:
        """Cancel what runs, and begin no more."""
        self.stopped = self.stopped or why
        self.scope.cancel()

    def note(self, run: ScoredRun) -> None:
        """Count a run that is done."""
        self.done += 1
        self.failed += bool(run.error)
        self.usd = None if self.usd is None or run.usd is None else self.usd + run.usd
        if self._show is not None:
            self._show(self)


@checked
async def experiment(  # noqa: PLR0913 - each is an option of its own
    dataset: Dataset | Iterable[Case],
    spec: SessionSpec | Callable[[Case], SessionSpec],
    scorers: Iterable[Scorer | ScoreFunction],
    *,
    name: str = "",
    repeats: int = 5,
    at_once: int = 8,
    max_usd: float | None = None,
    journal: Journal | None = None,
    resume: Results | None = None,
    progress: Progress | None = None,
) -> Results:
    """Run each case *repeats* times in sessions of *spec*, *at_once* at a time, and have *scorers* score each run.

    A run that fails is counted and named, and has no score; if all fail, an `OutsideError` is raised. With *max_usd*,
    no run is begun once so much is spent: those that are under way go on. The sessions stay in *journal*, under ids
    that begin with *name*, which is made up by default; without a journal, nothing of them is kept. With *resume*, the
    runs of earlier results that have not failed are kept, and the others are made.
    """
    cases = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    if journal is not None and not hasattr(journal, "claim"):
        raise WrongType.of("journal", journal, "a journal, such as `SqliteJournal(path)`")
    plan = _Plan(cases, spec, tuple(map(as_scorer, scorers)), name, repeats, resume)
    if at_once < 1:
        raise UsageError("bad-evaluation", "run the experiment", "`at_once` is a number from 1 on")
    if max_usd is not None and not max_usd > 0:
        raise UsageError("bad-evaluation", "run the experiment", "`max_usd` is an amount above 0")
    is_kept = journal is not None
    store = MemoryJournal() if journal is None else journal
    progress = progress or Progress()
    for case in cases:
        if case.past is not None:
            await past_records(case.past, case, cases.folder)
    work = _Experiment(plan, store, is_kept, max_usd, progress)
    progress.results = lambda: plan.results(work.runs, progress.stopped, work.left_out)
    await work.run(at_once)
    results = progress.results()
    if results.runs and all(run.error for run in results.runs):
        raise OutsideError("experiment-failed", results.name, results.runs[0].error)
    return results


class _Plan:
    """What an experiment is to run: its arguments, checked."""

    def __init__(
        self,
        dataset: Dataset,
        spec: SessionSpec | Callable[[Case], SessionSpec],
        scorers: Sequence[Scorer],
        name: str,
        repeats: int,
        resume: Results | None,
    ) -> None:
        self.dataset = dataset
        """The cases."""
        self.scorers = scorers
        """The scorers."""
        self.repeats = repeats
        """How often each case is run."""
        self.name = (resume.name if resume else name) or f"evals-{secrets.token_hex(4)}"
        """Name of the experiment."""
        self.resumes = resume is not None
        """Whether sessions of this experiment may be in the journal already."""
        self._spec = spec
        """Specification of the sessions, or the function that makes one for each case."""
        self._resume = resume
        """Earlier results of the experiment; `None` if it is a new one."""
        self._check()
        names = {case.name for case in dataset}
        earlier = [] if resume is None else [run for run in resume.runs if not run.error and not run.errors]
        self.kept = tuple(run for run in earlier if run.case in names and run.repeat <= repeats)
        """The runs of earlier results that are not made again."""

    def _check(self) -> None:
        """Raise `UsageError` if nothing of this could run; an agent that lacks a tool of a case is found here."""
        attempt = "run the experiment"
        names = [scorer.name for scorer in self.scorers]
        if not len(self.dataset):
            raise UsageError("bad-evaluation", attempt, "there is no case")
        if not names:
            raise UsageError("bad-evaluation", attempt, "there is no scorer")
        if len({*names}) < len(names):
            raise UsageError("bad-evaluation", attempt, f"two scorers have one name: {', '.join(sorted(names))}")
        if self._resume is not None and self._resume.scorers != tuple(names):
            problem = f"the earlier results have the scorers {', '.join(self._resume.scorers)}; give the same ones"
            raise UsageError("bad-evaluation", "go on with the experiment", problem)
        specs = [self._spec_of(case) for case in self.dataset]
        wrong = [spec for spec in cast("list[object]", specs) if not isinstance(spec, SessionSpec)]
        if wrong:
            raise WrongType.of("spec", wrong[0], "a function that returns a `SessionSpec`")
        if not 1 <= self.repeats <= MOST_REPEATS:
            raise UsageError("bad-evaluation", attempt, f"`repeats` is a number from 1 to {MOST_REPEATS}")
        if not NAME.fullmatch(self.name):
            raise UsageError(
                "bad-evaluation", attempt, f"`{self.name}` is no name: 1 to 64 letters, digits, `.`, `_`, `-`"
            )
        longest = max((case.name for case in self.dataset), key=len)
        if len(self.name) + len(longest) > LONGEST_NAMES:
            problem = f"`{self.name}` and the case `{longest}` have more than {LONGEST_NAMES} characters together"
            raise UsageError("bad-evaluation", attempt, f"{problem}: ids of sessions have both names")
        for case, spec in zip(self.dataset, specs, strict=True):
            with_case_tools(spec, case)

    def _spec_of(self, case: Case) -> SessionSpec:
        return self._spec if isinstance(self._spec, SessionSpec) else self._spec(case)

    def spec_for(self, case: Case) -> SessionSpec:
        """Return a new specification for one session of *case*: recorded tools count what they have answered."""
        return with_case_tools(self._spec_of(case), case)

    def past_id(self, case: Case) -> str:
        """Return the id of the session with which the sessions of *case* begin, if it has a past."""
        return f"{self.name}-{case.name}-past"

    def due(self) -> Iterator[tuple[Case, int]]:
        """Yield the runs to be made: all cases once, then all again, so that an early end leaves some of each."""
        kept_runs = {(run.case, run.repeat) for run in self.kept}
        for repeat in range(1, self.repeats + 1):
            yield from ((case, repeat) for case in self.dataset if (case.name, repeat) not in kept_runs)

    def results(self, runs: Iterable[ScoredRun], stopped: str, left_out: Mapping[str, Sequence[str]]) -> Results:
        """Return the results of *runs* and of those kept.

        *left_out* are the plugins of which a past has a state that is left out, by case.
        """
        order = {case.name: index for index, case in enumerate(self.dataset)}
        all_runs = sorted((*self.kept, *runs), key=lambda run: (order[run.case], run.repeat))
        names = tuple(scorer.name for scorer in self.scorers)
        notes = [
            f"{case}: its past has a state of the plugin `{key}`, which the agent lacks; it is left out"
            for case, keys in sorted(left_out.items())
            for key in keys
        ]
        return Results(self.name, tuple(order), names, self.repeats, tuple(all_runs), stopped, tuple(notes))


class _Experiment:
    """Runs the cases of a plan."""

    def __init__(self, plan: _Plan, journal: Journal, is_kept: bool, max_usd: float | None, progress: Progress) -> None:
        self.runs: list[ScoredRun] = []
        """The runs that are done."""
        self._plan = plan
        """What is to be run."""
        self._journal = journal
        """Where the sessions are."""
        self._is_kept = is_kept
        """Whether the sessions stay in the journal after the experiment."""
        self._max_usd = max_usd
        """The most that may be spent; `None` if there is no limit."""
        self._progress = progress
        """How far the experiment is."""
        self._due = plan.due()
        """The runs that have not begun; all workers take from it."""
        self.left_out: dict[str, tuple[str, ...]] = {}
        """The plugins that the pasts of cases have and the agent does not have, by case."""
        self._runs_to_forget: list[str] = []
        """Ids of sessions that are done and are to be deleted."""

    async def run(self, at_once: int) -> None:
        """Run all that is due, *at_once* at a time, until all is done, the money is spent, or somebody stops it."""
        progress, plan = self._progress, self._plan
        progress.total = len(plan.dataset) * plan.repeats
        for case in plan.dataset:
            await store_past(self._journal, case, plan.dataset.folder, plan.past_id(case))
        for run in plan.kept:
            progress.note(run)
        with progress.scope:
            async with (
                open_supervisor(journal=self._journal) as supervisor,
                trio.open_nursery() as nursery,  # noqa: TID251 - a program on agentrail, as users write them
            ):
                for _ in range(at_once):
                    nursery.start_soon(self._work, supervisor)

    async def _work(self, supervisor: Supervisor) -> None:
        """Make one run after the other."""
        for case, repeat in self._due:
            if self._is_spent():
                return
            run = await self._scored(supervisor, case, repeat)
            self.runs.append(run)
            self._progress.note(run)

    def _is_spent(self) -> bool:
        """Whether no run may begin any more, because of what the others have cost; a cost that is unknown ends it."""
        spent = self._progress.usd
        if self._max_usd is None or (spent is not None and spent < self._max_usd):
            return False
        why = f"{self._max_usd:g} USD are spent"
        if spent is None:
            why = "the cost of a run is unknown, so no limit can be kept; give prices by `SessionSpec(prices=…)`"
        self._progress.stopped = self._progress.stopped or why
        return True

    async def _scored(self, supervisor: Supervisor, case: Case, repeat: int) -> ScoredRun:
        """Run *case* once and score it; whatever goes wrong is noted, and is no score of 0."""
        session_id = f"{self._plan.name}-{case.name}-{repeat}"
        try:
            run = await self._earlier(supervisor, case, session_id)
            usd = None if run is None else run.cost
            if run is None:
                usd, error = await self._play(supervisor, case, session_id)
                if error:
                    return ScoredRun(case.name, repeat, session_id, error=error, usd=usd)
                run = run_of(case, await all_records(self._journal, session_id))
                usd = run.cost if usd is None else usd  # the cost of a past may be the one that is unknown
        except Exception as error:  # noqa: BLE001 - a model, tool or plugin of a user may raise whatever it likes
            return ScoredRun(case.name, repeat, session_id, error=_text_of(error))
        finally:
            if not self._is_kept:
                self._runs_to_forget.append(session_id)
        scored_run = await self._judged(run, repeat, usd)
        await self._forget(supervisor)
        return scored_run

    async def _earlier(self, supervisor: Supervisor, case: Case, session_id: str) -> Run | None:
        """Return the run that an earlier experiment of this name has finished; delete one that was cut short."""
        if not self._plan.resumes:
            return None
        records = await all_records(self._journal, session_id)
        if not records:
            return None
        if LABEL not in (await supervisor.state(session_id)).labels:  # the name of the experiment may be another's
            problem = f"the session `{session_id}` is stored and is no run of an experiment; give another name"
            raise UsageError("bad-evaluation", "go on with the experiment", problem)
        run = run_of(case, records)
        if run.turns >= len(case.prompts):
            return run
        await _delete(supervisor, session_id)
        return None

    async def _play(self, supervisor: Supervisor, case: Case, session_id: str) -> tuple[float | None, str]:
        """Run *case* in a new session; return what it cost, and why it failed, which is empty if it did not."""
        spec = self._plan.spec_for(case)
        session, left_out = await begin_session(supervisor, spec, case, self._plan.past_id(case), session_id)
        self.left_out.setdefault(case.name, left_out)
        before = session.status().usage  # a fork has used what its past has
        problem = ""
        try:
            await play_case(session, case)
        except Exception as error:  # noqa: BLE001 - as above
            problem = _text_of(error)
        usd = session.status().usage.minus(before).spent_usd
        await session.stop()
        return usd, problem

    async def _judged(self, run: Run, repeat: int, usd: float | None) -> ScoredRun:
        """Return *run* with its scores; its session has cost *usd*."""
        scores, errors = dict[str, Score](), dict[str, str]()
        for scorer in self._plan.scorers:
            try:
                score = await scored(scorer, run)
            except FailedScoreError as error:
                errors[scorer.name] = error.text[:LONGEST]
                usd = None if usd is None or error.usd is None else usd + error.usd
                continue
            except Exception as error:  # noqa: BLE001 - as above
                errors[scorer.name] = _text_of(error)
                continue
            if score is not None:
                scores[scorer.name] = score
                usd = None if usd is None or score.usd is None else usd + score.usd
        unrecorded = tuple(shown_call(call.name, call.args) for call in run.calls if call.result == UNRECORDED)
        return ScoredRun(
            run.case.name, repeat, run.session, run.reply, scores, errors, "", unrecorded, usd, run.seconds
        )

    async def _forget(self, supervisor: Supervisor) -> None:
        """Delete the sessions that are done, if nobody is to see them: memory would grow with what was run."""
        while self._runs_to_forget:
            await _delete(supervisor, self._runs_to_forget.pop())


async def _delete(supervisor: Supervisor, session_id: str) -> None:
    """Delete the session of a run, if it is there: one that never started is not."""
    with suppress(AgentrailError):
        await supervisor.delete(session_id)


def _text_of(error: BaseException) -> str:
    """Return *error* in one line, with its class if agentrail did not raise it on purpose."""
    text = " ".join(str(error).split())[:LONGEST]
    return text if isinstance(error, AgentrailError) and text else f"{type(error).__name__}: {text}"
