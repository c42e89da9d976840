"""Scenes of the runtime: what is kept, read, started and shown."""

# ruff: noqa: SLF001 - what is kept, and not told, is looked at

import logging
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import trio
import trio.testing

from agentrail import Plugin, Secret, TracedStep, open_supervisor
from agentrail.api.command_checks import name_of
from agentrail.core.supervision_rules import ChildFacts, Ending, Policy, decide
from agentrail.errors import (
    CommandRefused,
    FileFailed,
    OutsideError,
    RateLimited,
    ToolError,
    UsageError,
    WrongType,
)
from agentrail.events import (
    AgentStart,
    Cursor,
    Envelope,
    Gap,
    MessageDelta,
    SubagentEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.hooks.attachments import attached_plugin
from agentrail.hooks.plugin_checks import MAX_SCREENED
from agentrail.journals import (
    ALL_SESSIONS,
    Claim,
    Latest,
    MemoryJournal,
    Record,
    SessionFilter,
    Snapshot,
    StoredSession,
)
from agentrail.models import JsonObject, Limit, ModelRequest
from agentrail.plugins import BudgetGuard, FindFiles, WriteFile
from agentrail.runtime.access.status import subscription
from agentrail.runtime.actor import journal_log
from agentrail.runtime.actor.journal_log import SNAPSHOT_EVERY
from agentrail.runtime.diagnosis.crash_reports import Reason, reason_of
from agentrail.runtime.diagnosis.plugin_complaints import Complaints
from agentrail.runtime.events.log import EventLog
from agentrail.runtime.events.replay import Replay
from agentrail.runtime.inbox.command_results import CommandResults
from agentrail.runtime.shared.admission import Gate
from agentrail.runtime.shared.clock import Clock, Steady
from agentrail.runtime.shared.provider_limits import Lane, ProviderLimits, Ticket
from agentrail.runtime.shared.threads import WorkerThreads
from agentrail.runtime.shared.timers import Timers
from agentrail.runtime.shared.untrusted_calls import traced as told
from agentrail.runtime.supervision.restore import left_behind
from agentrail.runtime.work import plugin_files
from agentrail.runtime.work.background_jobs import MAX_KEPT, BackgroundJobs
from agentrail.runtime.work.plugin_asks import _text_of_file, _write
from agentrail.runtime.work.plugin_files import find_files
from agentrail.runtime.work.screening import STEP, HeldReports, HeldText, longest_screened
from agentrail.sandboxes import Execution, Heard, MemorySandbox
from agentrail.testing import ScriptedModel, say
from agentrail.tools import Ok
from agentrail.values.json import canonical
from agentrail.values.session_ids import follows_grammar
from agentrail.values.untrusted_values import described
from tests.cells.bench import Bench
from tests.kit import DONE, Arrival, TimerFired, freeze_object
from tests.limits import scene, smaller
from tests.runtime.families import agent, task, tasks
from tests.runtime.journals import TestJournal
from tests.runtime.recorded import Session
from tests.runtime.test_limits import Provider
from tests.runtime.world import open_world, settle, spec_of, until

# What is kept


@scene("runtime.inbox.command_results.MAX_KEPT")
async def answers_at_hand(count: int) -> bool:
    journal = MemoryJournal()
    answers = CommandResults("s", journal, new=True)
    for number in range(count):
        answers.remember(f"c{number}", b"", DONE)
    assert answers.has(f"c{count - 1}")
    assert answers.are_all_kept is answers.has("c0")
    return answers.has("c0")


class Keeping(TestJournal):
    """A journal that notes the numbers of the records at which snapshots were stored."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[int] = []

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        self.kept.append(snapshot.number)
        await trio.sleep(1)  # records come meanwhile
        await super().keep(claim, snapshot)


@scene("runtime.actor.journal_log.SNAPSHOT_EVERY", last=-1)
async def records_without_a_snapshot(count: int) -> bool:
    """The second snapshot comes after as many records as the first."""
    journal = Keeping()
    async with open_world(journal) as world:
        session = await world.spawn([])
        (written,) = await journal.read(session.id)
        for _ in range(written.number, count):
            await session.abort()
        await settle()
        first = list(journal.kept)
        for _ in range(count):
            await session.abort()
        await settle()
        assert journal.kept == [SNAPSHOT_EVERY, 2 * SNAPSHOT_EVERY][: 2 * count // SNAPSHOT_EVERY]
    return not first


@scene("runtime.actor.journal_log.SNAPSHOT_AFTER_RETURN", last=-1)
async def records_to_come_back_from(count: int) -> bool:
    """A session that came back from so many records keeps a snapshot after as many."""
    journal, spec = Keeping(), spec_of(ScriptedModel([]))
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        while len(await journal.read("s")) < count:
            await session.abort()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec)
        while len(await journal.read("s")) < 2 * count:
            await session.abort()
        await settle()
    return not journal.kept


class Reading(TestJournal):
    """Notes which sessions are read."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions_read: list[str] = []

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        self.sessions_read.append(session_id)
        return await super().read(session_id, after, limit)


@scene("core.vocabulary.tool_calls.MAX_ENDED_TASKS")
async def tasks_that_have_ended(count: int) -> bool:
    """The answer of the first one is at hand; that of one too many is read from the journal."""
    journal = Reading()
    async with open_world(journal) as world:
        expected = [task("finder", background=True) for _ in range(count)]
        script = [*expected, *("fine" for _ in range(count + 1))]
        session = await world.spawn(script, "p", agents={"finder": agent(["x"] * count)}, max_rounds=1000)
        await session.ask("go")
        await settle()
        first = "p.c3"  # `p.c1` and `p.c2` are the first request and its call
        journal.sessions_read.clear()
        assert isinstance(await session.task_result(first), Ok)
        return first not in journal.sessions_read


@scene("runtime.supervision.tree.MAX_REPORTS")
async def reports_of_crashes(count: int) -> bool:
    async with open_supervisor(max_restarts=10 * count) as supervisor:
        crashes = 0

        async def service(task_status: trio.TaskStatus[None]) -> None:
            nonlocal crashes
            task_status.started()
            if crashes < count:
                crashes += 1
                raise ValueError(crashes)
            await trio.sleep_forever()

        await supervisor.start_service(service, "a")
        await until(lambda: crashes == count)
        await settle()
        return supervisor.crashes()[0].reason.text == "ValueError: 1"


@scene("runtime.supervision.tree.MAX_QUARANTINED")
async def sessions_set_aside(count: int) -> bool:
    numbers: list[int] = []
    async with open_supervisor() as supervisor:
        tree = supervisor._sessions.tree

        def let_go(number: int) -> None:
            numbers.append(number)
            tree.forget(f"s{number}")

        for number in range(count):
            tree.quarantine(f"s{number}", partial(let_go, number))
        assert len(tree._aside) == count - len(numbers)
    assert numbers == list(range(len(numbers)))
    return not numbers


class Job:
    """A command in a sandbox that ends at once, or when it is killed."""

    execution = None

    def __init__(self, *, ends: bool) -> None:
        self._killed = trio.Event()
        if ends:
            self._killed.set()

    async def run(self) -> Execution:
        await self._killed.wait()
        return Execution(0)

    def heard(self, since: int = 0) -> Heard:
        return Heard(next=since)

    def kill(self) -> None:
        self._killed.set()


@scene("runtime.work.background_jobs.MAX_RUNNING")
async def jobs_that_run(count: int) -> bool:
    async with trio.open_nursery() as nursery:
        jobs = BackgroundJobs(nursery)
        ended = jobs.start("one that has ended does not count", Job(ends=True))
        await until(lambda: ended.has_ended)
        try:
            for number in range(count):
                jobs.start(f"{number}", Job(ends=False))
        except CommandRefused:
            return False
        finally:
            jobs.close()
    return True


@scene("runtime.work.background_jobs.MAX_KEPT")
async def jobs_that_can_be_read(count: int) -> bool:
    async with trio.open_nursery() as nursery:
        jobs = BackgroundJobs(nursery)
        for number in range(count):
            job = jobs.start(f"{number}", Job(ends=True))
            await until(partial(getattr, job, "has_ended"))
        assert len(jobs.all()) == min(count, MAX_KEPT)
        return jobs.find("job-1") is not None


@scene("runtime.work.background_jobs.MAX_SHOWN")
async def characters_of_a_job(count: int) -> bool:
    async with trio.open_nursery() as nursery:
        jobs = BackgroundJobs(nursery)
        jobs.start("x" * count, Job(ends=False))
        (visible,) = jobs.names()
        jobs.close()
    return "x" * count in visible


@scene("runtime.diagnosis.plugin_complaints.MAX_KEPT")
def hooks_of_which_the_last_line_is_remembered(count: int) -> bool:
    """A hook that is remembered is not logged again at once."""
    texts: list[str] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    complaints, attached, noting = Complaints(lambda: 0.0), attached_plugin("b", BudgetGuard()), Noting()
    log = logging.getLogger("agentrail.plugin")
    log.addHandler(noting)
    try:
        for number in (*range(count), 0):
            complaints.tell(attached, f"hook{number}", "why", None)
    finally:
        log.removeHandler(noting)
    return len(texts) == count


@scene("runtime.shared.provider_limits.MAX_RESTING")
async def lanes_that_rest(count: int) -> bool:
    timers = Timers(Clock())
    limits = ProviderLimits({"acme": Limit(concurrency=1)}, timers)
    model = Provider(takes=0.0)
    for number in range(count):
        request = ModelRequest("acme:large", (), options={"api_key": Secret(f"KEY{number}")})
        await limits.stream("s", model, request, lambda _: None)
        await trio.sleep(61)
    return len(limits._lanes) == count


@scene("runtime.shared.timers.SLACK")
async def timers_that_were_replaced(count: int) -> bool:
    """Only the last of them is set."""
    timers = Timers(Clock())
    for number in range(count):
        timers.set(("s", "t"), number, lambda: None)
    return timers.size == count


# Subscribers


@scene("runtime.events.subscription.CAPACITY")
async def events_that_wait_for_a_subscriber(count: int) -> bool:
    session = Session()
    async with subscription(session.events, None, None, "drop", None) as events:
        for number in range(count):
            session.publish(AgentStart(f"{number}"))
        session.events.close()
        heard = [envelope.event async for envelope in events]
    assert len(heard) == count
    return not isinstance(heard[-1], Gap)


@scene("runtime.events.subscription.MAX_MERGED", last=-1)
async def delta_that_takes_in_another(size: int) -> bool:
    session = Session()
    async with session.subscribe(capacity=1) as events:
        session.publish_ephemeral(MessageDelta("x" * size))
        session.publish_ephemeral(MessageDelta("y"))
        first = (await anext(events)).event
        return first == MessageDelta("x" * size + "y")


@scene("core.vocabulary.options.Options.event_buffer_size", 3)
async def deltas_for_who_comes_late(count: int) -> bool:
    session = Session(buffer_size=3)
    session.publish(AgentStart("p"))
    for number in range(count):
        session.publish_ephemeral(MessageDelta(f"{number}"))
    async with session.subscribe(since=Cursor(1)) as events:
        return (await anext(events)).event == MessageDelta("0")


def traced() -> TracedStep:
    return TracedStep(TimerFired("t"), 0, "idle", "idle", (), ())


@scene("runtime.events.tracing.CAPACITY")
async def steps_that_wait_for_a_reader(count: int) -> bool:
    async with open_world() as world:
        trace = (await world.spawn([])).trace()
        for _ in range(count):
            trace.offer(traced())
        for _ in range(min(count, 256)):
            trace._steps.popleft()
        trace.offer(traced())
        return trace._steps[-1].missed == 0


# Pages


class Counting:
    """Records of a session; notes how many are read at once."""

    def __init__(self, count: int) -> None:
        self.asked: list[int] = []
        self._session = Session()
        for number in range(count):
            self._session.commit(AgentStart(f"{number}"))

    async def read(self, after: int, limit: int) -> Sequence[Record]:
        self.asked.append(limit)
        await trio.lowlevel.checkpoint()
        return self._session.records[after : after + limit]

    async def record_of_seq(self, seq: int) -> int:
        await trio.lowlevel.checkpoint()
        return seq


@scene("runtime.events.replay.PAGE")
async def records_that_a_subscriber_reads_at_once(count: int) -> bool:
    records = Counting(count)
    log = EventLog("s", 0, records, Gate(math.inf), count)
    past = Replay(log, Cursor(0), None, with_deltas=False)
    for _ in range(count):
        assert await past.next() is not None
    assert await past.next() is None
    return len(records.asked) == 1


class Paged(TestJournal):
    """A journal that notes how many records are read at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.listed = 0

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        self.asked.append(limit)
        return await super().latest(session_id, upto, limit)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        self.asked.append(limit)
        return await super().read(session_id, after, limit)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        self.listed += 1
        return await super().sessions(wanted, after, limit)


@scene("runtime.actor.journal_log.PAGE", last=-1)
async def records_that_are_done_again_at_once(count: int) -> bool:
    """After a full page there may be another one, so one more page is read."""
    journal = Paged()
    async with open_world(journal) as world:
        session = await world.spawn([])
        while len(await journal.read(session.id)) < count:
            await session.abort()
        journal.asked.clear()
        await journal_log.rebuild_state(journal, session.id)
        return len(journal.asked) == 1


# Limits of providers


def ticket(tokens: int = 0) -> Ticket:
    return Ticket(tokens)


def all_sent(limit: Limit, *tickets: Ticket, now: float = 0.0) -> bool:
    lane = Lane(limit)
    for ticket_ in tickets:
        if lane.room_at(ticket_, now) > now:
            return False
        lane.send(ticket_, now)
    return True


@scene("values.usage.Limit.concurrency", 3)
def requests_that_are_out(count: int) -> bool:
    return all_sent(Limit(concurrency=3), *(ticket() for _ in range(count)))


@scene("values.usage.Limit.requests_per_minute", 3)
def requests_of_a_minute(count: int) -> bool:
    return all_sent(Limit(requests_per_minute=3), *(ticket() for _ in range(count)))


@scene("values.usage.Limit.tokens_per_minute", 100)
def tokens_of_a_minute(count: int) -> bool:
    return all_sent(Limit(tokens_per_minute=100), ticket(count - 1), ticket(1))


@scene("runtime.shared.provider_limits.MAX_PAUSE")
async def seconds_that_a_provider_closes_a_lane_for(seconds: int) -> bool:
    provider = Provider(errors=[RateLimited("slower", float(seconds))])
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        timers = Timers(Clock())
        nursery.start_soon(timers.run)
        limits = ProviderLimits({"acme": Limit(concurrency=1)}, timers)
        with suppress(RateLimited):
            await limits.stream("s", provider, ModelRequest("acme:large", ()), lambda _: None)
        await limits.stream("s", provider, ModelRequest("acme:large", ()), lambda _: None)
        nursery.cancel_scope.cancel()
    return provider.times(start)[1] == seconds


# Threads


@scene("runtime.shared.threads.MAX_WORKING")
async def threads_that_are_waited_for(count: int) -> bool:
    places = WorkerThreads().limiter
    try:
        for number in range(count):
            places.acquire_on_behalf_of_nowait(number)
    except trio.WouldBlock:
        return False
    return True


@scene("runtime.shared.threads.MAX_LEFT", last=-1)
async def threads_that_were_left_behind(count: int) -> bool:
    """Only threads for which nobody waits count."""
    threads = WorkerThreads()
    for number in range(count):
        threads.note(f"tool{number}", 1)
    for number in range(5):
        threads.note("waited for", 1)
        threads.limiter.acquire_on_behalf_of_nowait(number)
    try:
        threads.check()
    except ToolError:
        return False
    return True


# What plugins ask for, and what is shown


@scene("api.command_checks.LONGEST_NAME")
def characters_of_a_title(size: int) -> bool:
    try:
        return name_of("title", "x" * size) == "x" * size
    except WrongType:
        return False


@scene("core.machine.configuration.MAX_LABELS")
async def labels_at_the_start_of_a_session(count: int) -> bool:
    async with open_supervisor() as supervisor:
        try:
            session = await supervisor.spawn(spec_of(ScriptedModel([])), labels=map(str, range(count)))
        except UsageError:
            return False
        return len(session.inspect().labels) == count


@scene("core.machine.configuration.MAX_LABELS")
async def labels_that_a_session_gets_later(count: int) -> bool:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec_of(ScriptedModel([])), labels=["0"])
        try:
            await session.label(map(str, range(1, count)))
        except UsageError:
            return False
        return len(session.inspect().labels) == count


@scene("runtime.work.plugin_asks.MAX_READ")
async def bytes_of_a_file_that_a_plugin_reads(size: int) -> bool:
    sandbox = MemorySandbox({"a": b"x" * size})
    try:
        return len(await _text_of_file(sandbox, "a")) == size
    except OutsideError:
        return False


@scene("runtime.work.plugin_asks.MAX_WRITTEN")
async def bytes_of_a_file_that_a_plugin_writes(size: int) -> bool:
    sandbox = MemorySandbox({})
    try:
        await _write(sandbox, WriteFile("a", "x" * size))
    except FileFailed:
        return False
    return (await sandbox.read("a")).size == size


@scene("runtime.work.plugin_files.MAX_FOUND")
async def paths_that_are_found(count: int) -> bool:
    sandbox = MemorySandbox({f"{number}/.env": b"" for number in range(count)})
    try:
        return len(await find_files(sandbox, FindFiles((".env",), (".",)))) == count
    except OutsideError:
        return False


@scene("runtime.work.plugin_files.MAX_LISTED", 5)
async def files_of_a_folder_that_are_looked_at(count: int) -> bool:
    sandbox = MemorySandbox({str(number): b"" for number in range(count)})
    with smaller(plugin_files, "MAX_LISTED", 5), suppress(OutsideError):
        return await find_files(sandbox, FindFiles((".env",), (".",))) == ()
    return False


@scene("values.session_ids.MAX_ID")
def characters_of_an_id(size: int) -> bool:
    return follows_grammar("a" * size)


def chained(count: int) -> Exception:
    error: Exception | None = None
    for number in reversed(range(count + 1)):
        value_error = ValueError(number)
        value_error.__cause__ = error
        error = value_error
    assert error is not None
    return error


@scene("runtime.diagnosis.crash_reports.MAX_DEPTH")
def causes_of_a_report(count: int) -> bool:
    reason: Reason | None = reason_of(chained(count))
    depth = -1
    while reason is not None:
        depth, reason = depth + 1, reason.cause
    return depth == count


@scene("runtime.diagnosis.crash_reports.MAX_WIDTH")
def errors_of_a_group_in_a_report(count: int) -> bool:
    return len(reason_of(ExceptionGroup("many", [ValueError(n) for n in range(count)])).parts) == count


@scene("values.untrusted_values.MAX_SHOWN")
def errors_of_a_group_in_words(count: int) -> bool:
    return described(ExceptionGroup("many", [ValueError(n) for n in range(count)])).count("ValueError") == count


# Restarts


def crashed(policy: Policy, times: Sequence[float], *, session: bool) -> list[bool]:
    """Return, for each crash, whether the child goes on after it."""
    ward, restarts, went_on = ChildFacts("a", session=session), tuple[float, ...](), list[bool]()
    for time in times:
        decided = decide(policy, {"a": ward}, restarts, "a", Ending(crashed=True), now=time)
        ward, restarts = decided.facts or ward, decided.restarts
        went_on.append(not decided.fails and not decided.quarantine)
    return went_on


@scene("core.supervision_rules.Policy.max_restarts", 3)
def restarts_of_a_service(count: int) -> bool:
    return all(crashed(Policy(max_restarts=3), [0.0] * count, session=False))


@scene("core.supervision_rules.Policy.max_restarts", 3)
def restarts_of_a_session(count: int) -> bool:
    return all(crashed(Policy(max_restarts=3), [0.0] * count, session=True))


@scene("core.supervision_rules.Policy.max_restarts", 3)
def restarts_behind_older_ones_that_count_no_more(count: int) -> bool:
    policy, old = Policy(max_restarts=3, period=5.0), [0.0, 0.0, 0.0]
    return all(crashed(policy, [*old, *[5.1] * count], session=True))


@scene("core.supervision_rules.Policy.period", 5)
def seconds_that_a_restart_counts(seconds: int) -> bool:
    """A restart still counts at the very end of the period."""
    return not all(crashed(Policy(max_restarts=1, period=5.0), [0.0, float(seconds)], session=False))


@scene("core.supervision_rules.Policy.max_restarts", 2)
async def restarts_of_services_of_a_supervisor_that_was_started_again(count: int) -> bool:
    """A restarted supervisor starts to count at 0."""
    async with open_supervisor(max_restarts=100) as root:
        below = await root.start_supervisor("below", max_restarts=2)
        breaking = trio.Event()

        async def service() -> None:
            nonlocal breaking
            breaking = trio.Event()
            await breaking.wait()
            raise ValueError

        await below.start_service(service, "a")
        for _ in range(3 + count):  # the first three fail it
            await settle()
            breaking.set()
        await settle()
        done = [report.done for report in root.crashes() if report.kind == "supervisor"]
        assert done[:1] == ["restarted"]
        return len(done) == 1


@scene("core.supervision_rules.SAME_INPUT", last=-1)
def crashes_on_one_message(count: int) -> bool:
    return not set_aside(["PromptSent 1"] * count)


@scene("core.supervision_rules.SAME_INPUT", last=-1)
def crashes_on_one_message_behind_those_on_another(count: int) -> bool:
    return not set_aside(["PromptSent 1", "PromptSent 1", *["PromptSent 2"] * count])


@scene("core.supervision_rules.SAME_INPUT", last=-1)
def crashes_on_one_message_behind_one_on_none(count: int) -> bool:
    return not set_aside(["PromptSent 1", "PromptSent 1", "", *["PromptSent 1"] * count])


@scene("core.supervision_rules.SAME_COMMAND", last=-1)
def crashes_on_one_command(count: int) -> bool:
    ward = ChildFacts("a", session=True)
    for index in range(count):
        ending = Ending(crashed=True, input="PromptSent 1", is_command=True)
        decided = decide(Policy(max_restarts=9), {"a": ward}, (), "a", ending, now=100.0 * index)
        assert decided.facts is not None
        ward = decided.facts
        if decided.drops_input:
            assert (decided.start, ward.restarts, ward.crashes) == (("a",), (), 0)
            return False
    return True


def set_aside(inputs: Sequence[str]) -> bool:
    ward = ChildFacts("a", session=True)
    for index, input_ in enumerate(inputs):
        decided = decide(
            Policy(max_restarts=1), {"a": ward}, (), "a", Ending(crashed=True, input=input_), now=100.0 * index
        )
        assert decided.facts is not None
        ward = decided.facts
        if decided.quarantine:
            assert decided.same_input
            return True
    return False


# Sub-agents


@scene("core.vocabulary.options.Options.max_agents", 3)
async def sub_agents_at_once_of_a_whole_tree(count: int) -> bool:
    """The sub-agent and its own ones count together, twice in a row: those that have ended count no more."""
    async with open_world() as world:
        inmost = agent([say("done", delay=5.0)] * 20, "inner")
        expected_tasks = tasks(*["inner"] * (count - 1))
        middle = agent([expected_tasks, "middle", expected_tasks, "middle"], agents={"inner": inmost}, max_agents=20)
        script = [task(), task(), "fine"]
        session = await world.spawn(script, "p", agents={"finder": middle}, max_agents=3)
        await session.ask("go")
        await settle()
        assert len(world.heard(session).of(SubagentEnd)) == 2
        refused = [
            envelope.event
            for stored in await world.journal.sessions()
            for record in await world.journal.read(stored.session_id)
            for envelope in record.events
            if isinstance(envelope.event, ToolExecutionEnd) and envelope.event.is_error
        ]
    return not refused


@scene("core.vocabulary.options.Options.max_agent_depth", 2)
async def sub_agents_under_each_other(count: int) -> bool:
    async with open_world() as world:
        new_agent = agent(["deepest"], "a0")
        for depth in range(1, count):
            new_agent = agent([task("finder"), f"at {depth}"], f"a{depth}", agents={"finder": new_agent})
        session = await world.spawn([task("finder"), "fine"], "p", agents={"finder": new_agent}, max_agent_depth=2)
        await session.ask("go")
        return bool(await world.journal.read("p" + ".c3" * count))


class Started:
    """The records of a session that has started one call."""

    def __init__(self, args: JsonObject) -> None:
        envelope = Envelope("s", 1, 0, 0, 1, 1, ToolExecutionStart("c1", "store", args, 1))
        self._record = Record("s", 1, Arrival(TimerFired("t"), 0), events=(envelope,))

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        await trio.lowlevel.checkpoint()
        return () if after else (self._record,)


@scene("runtime.supervision.restore.MAX_SHOWN")
async def characters_of_what_a_fork_left_behind(size: int) -> bool:
    args = canonical(freeze_object({"x": ""}))
    journal = MemoryJournal()
    started = Started(freeze_object({"x": "y" * (size - len(args))}))
    journal.read = started.read  # type: ignore[method-assign]  # its records are written by hand
    (visible,) = await left_behind(journal, "s", 0, Bench().state)
    return visible.endswith("}")


@scene("runtime.shared.untrusted_calls.MAX_FRAMES")
def frames_of_a_trace(count: int) -> bool:
    """Two functions call each other, because Python shows only three of many equal lines."""

    def one(number: int) -> None:
        if number:
            other(number - 1)
        raise ValueError

    def other(number: int) -> None:
        if number:
            one(number - 1)
        raise ValueError

    try:
        one(count - 2)
    except ValueError as error:
        return "in frames_of_a_trace" in told(error)
    return False


@scene("runtime.shared.clock.FURTHEST")
def seconds_of_a_clock(seconds: int) -> bool:
    clock = trio.testing.MockClock()
    steady = Steady(clock)
    clock.jump(seconds - clock.current_time())
    return steady.now() > 0.0


# Text that is held until it is screened


def is_held(*pieces: str) -> bool:
    """Whether nothing is told when the last piece comes."""
    held = HeldText(lambda text: text, longest_screened(Plugin()))
    return [held.feed(piece) for piece in pieces][-1] == ("", "")


@scene("hooks.plugin_checks.MAX_SCREENED", last=-1)
def characters_after_a_sentence_that_is_held(size: int) -> bool:
    return is_held("So. " + "x" * size)


@scene("runtime.work.screening.LONGEST", last=-1)
def characters_of_a_sentence_that_is_held(size: int) -> bool:
    return is_held("x" * (size + MAX_SCREENED))


@scene("runtime.work.screening.STEP", last=-1)
def characters_between_two_searches(size: int) -> bool:
    return is_held("So. ".ljust(MAX_SCREENED, "x"), "x" * size)


@scene("runtime.work.screening.STEP", last=-1)
def characters_between_two_searches_behind_a_cut(size: int) -> bool:
    """A second sentence ends one character too late for the first search, which cuts behind the first sentence."""
    return is_held("So. ".ljust(MAX_SCREENED, "x") + ". " + "x" * (MAX_SCREENED - 1), "x" * size)


@scene("runtime.work.screening.STEPS")
def searches_while_what_is_looked_at_comes(count: int) -> bool:
    """Whether a part of what is looked at, one of *count*, is enough for the next search."""
    held = HeldText(lambda text: text, 8 * STEP * MAX_SCREENED)
    held.feed("x" * (8 * STEP * MAX_SCREENED))
    return held.feed("x" * (8 * STEP * MAX_SCREENED // count)) != ("", "")


@scene("runtime.work.screening.MAX_HELD")
def characters_of_reports_that_are_held(size: int) -> bool:
    return not HeldReports(lambda text: f"{len(text)}", MAX_SCREENED).reports("x" * size)


@scene("runtime.work.screening.TRIES")
def places_where_a_text_may_be_cut(count: int) -> bool:
    """Something is replaced that begins behind the first of *count* places, and crosses all others."""
    held = HeldText(lambda text: re.sub(r"(b\. )*x", "-", text), MAX_SCREENED)
    return held.feed("a. " + "b. " * (count - 1) + "x" * MAX_SCREENED) != ("", "")
