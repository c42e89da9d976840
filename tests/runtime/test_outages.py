"""While the journal is unavailable no actor crashes: sessions wait, callers are refused, nothing is lost or doubled."""

import logging
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from inspect import BoundArguments, iscoroutinefunction, signature
from pathlib import Path
from typing import Final, cast

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.app.supervisor import summary_of
from agentrail.errors import (
    AgentrailError,
    BadRecord,
    BrokenJournal,
    CommitUnknown,
    Fenced,
    InfrastructureError,
    JournalFailed,
    JournalFull,
    JournalUnavailable,
    SessionCrashed,
    UnknownApproval,
)
from agentrail.events import MessageDelta, SessionStarted
from agentrail.journals import (
    ALL_SESSIONS,
    Claim,
    Journal,
    Latest,
    MemoryJournal,
    Record,
    Retention,
    SessionFilter,
    StoredAnswer,
    StoredSession,
)
from agentrail.models import AskModel, Leaving, UserMessage
from agentrail.ports.journal import MAX_KEPT
from agentrail.runtime.diagnosis.journal_contract import CheckedJournal
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.journal_retry import LOG_EVERY, MAX_PAUSE, SteadyJournal, meaning
from agentrail.runtime.shared.past_records import PAGE
from agentrail.runtime.work.background_jobs import BackgroundJobs
from agentrail.runtime.work.stored_messages import StoredPast
from agentrail.sandboxes import FileSpan, FilesSnapshot, MemorySandbox, RestoredFiles, RewindPreview
from agentrail.testing import ScriptedModel, say
from tests.each_case import each_case
from tests.runtime.journals import BROKEN, TestJournal
from tests.runtime.outages import (
    APPEND,
    COURSES,
    MEETS,
    OTHERS,
    PLACES,
    OtherPlace,
    Outage,
    OutageJournal,
    Place,
    functions,
    journal_calls,
    names_in,
    other_calls,
)
from tests.runtime.test_subagents_back import Next
from tests.runtime.test_subagents_back import spec as family_spec
from tests.runtime.world import World, check_records, open_world, until

LONG = 300.0
"""Seconds for which a test watches an outage that does not end."""

WAITS = object()
"""Stands for the result of a call that has not returned after `LONG` seconds."""

SLEEPS_AFTER = 5.0

CHILD = "s.c3"
"""Id of the sub-agent of `family_spec`."""


def spec(**more: object) -> SessionSpec:
    return SessionSpec(model=Next("m", say("fine", delay=0.01)), name="n", **more)  # type: ignore[arg-type]  # any field


class Lab:
    """A journal that is unavailable at one place, and checks of what its callers meet."""

    def __init__(self, index: Place | None, course: str) -> None:
        self.outage = Outage(index, course)
        self.journal = OutageJournal(self.outage)
        self.meets = "" if index is None else MEETS[index.whose][COURSES.index(course)]
        self.crashes = 0
        self.parent = spec()

    @asynccontextmanager
    async def open(
        self, specs: dict[str, Callable[[], SessionSpec]] | None = None, retain: Sequence[Retention] = ()
    ) -> AsyncGenerator[Supervisor]:
        """Open a supervisor; leaving it must take less than 15 seconds, whatever the journal does."""
        seconds: list[float] = []
        opening = open_supervisor(journal=self.journal, seed=1, specs=specs, retain=retain, address="lab")
        async with opening as supervisor:
            try:
                yield supervisor
            finally:
                assert [report.done for report in supervisor.crashes()] == ["restarted"] * self.crashes
                seconds.append(trio.current_time())
        assert trio.current_time() - seconds[0] < 15

    async def during(self, call: Callable[[], Awaitable[object]]) -> object:
        """Do *call* while the journal is unavailable; if it is refused, do it again when the journal is back."""
        self.outage.armed = True
        got = await tried(call)
        kind = "waits" if got is WAITS else "refused" if isinstance(got, JournalUnavailable) else "done"
        assert (kind, self.outage.tries > 0) == (self.meets, True), got
        assert self.outage.tries < 4 * LONG / MAX_PAUSE, "it is not tried again without a pause"
        if self.outage.course != "never" and kind == "refused":
            assert "try again" in str(got)
            await trio.sleep(2)
            got = await tried(call)
            assert not isinstance(got, JournalUnavailable), got
        return got

    def is_back(self) -> None:
        """End the outage."""
        self.outage.armed = False


async def tried(call: Callable[[], Awaitable[object]]) -> object:
    with trio.move_on_after(LONG):
        try:
            return await call()
        except AgentrailError as error:
            return error
    return WAITS


async def eventually(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - nobody sets an event for it
        await trio.sleep(0.1)


async def answer_to(session: SessionHandle, text: str) -> str:
    return (await session.ask(text)).text


# What leads to each place


async def prompt(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await lab.during(lambda: session.ask("hi", command="c"))


async def prompt_in_doubt(lab: Lab) -> None:
    """The record was written, and the append raised nevertheless."""
    lab.outage.first = [(APPEND, "append", "s", True)]
    async with lab.open() as supervisor:
        lab.outage.first = []
        session = await supervisor.spawn(spec(), "s")
        lab.outage.first = [(APPEND, "append", "s", True)]
        await lab.during(lambda: session.ask("hi", command="c"))


async def spawn(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.spawn(spec(), "s"))


async def sleep(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(hibernate_after=SLEEPS_AFTER), "s")

        async def fall_asleep() -> str:
            await trio.sleep(4 * SLEEPS_AFTER)
            assert supervisor.tree().children[0].state == "asleep"
            return await answer_to(session, "hi")

        assert await lab.during(fall_asleep) == "fine"


async def wake(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(hibernate_after=SLEEPS_AFTER), "s")
        await answer_to(session, "hi")
        await trio.sleep(4 * SLEEPS_AFTER)
        assert supervisor.tree().children[0].state == "asleep"
        await lab.during(lambda: session.ask("are you there?"))


async def restart(lab: Lab) -> None:
    lab.crashes = 1
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await answer_to(session, "one")
        lab.outage.breaks = BROKEN
        await lab.during(lambda: session.ask("hi"))


async def set_aside(lab: Lab) -> None:
    async with open_supervisor(journal=lab.journal, max_restarts=0) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        lab.outage.breaks = BROKEN
        got = await lab.during(lambda: session.ask("hi"))
        assert isinstance(got, SessionCrashed)
        await trio.sleep(20)
        assert [report.done for report in supervisor.crashes()] == ["set_aside"]
        assert supervisor.tree().children[0].state == "quarantined"


async def subscribe(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await answer_to(session, "hi")

        async def first() -> object:
            async with session.subscribe(since=0, types=[SessionStarted]) as events:
                return await anext(aiter(events))

        await lab.during(first)


async def ask_again(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await session.ask("hi", command="c")
        await answer_to(session, "another")
        await lab.during(lambda: session.ask("hi", command="c"))


async def read_back(lab: Lab) -> None:
    """What the tool `read_history` reads; a call of it gets an error result if this fails."""
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await session.ask("hi")
        past = StoredPast(session._session.shared.journal, "s")  # noqa: SLF001 - what a call of the tool is given
        await lab.during(lambda: past.messages(0, 10))


async def command(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await session.ask("hi", command="c")
    async with lab.open() as supervisor:
        session = await supervisor.resume("s", spec())
        await lab.during(lambda: session.ask("hi", command="c"))
        if lab.outage.course == "never":
            with pytest.raises(JournalUnavailable):
                await session.prompt("more", command="d")
            assert await answer_to(session, "without an id") == "fine"
            await session.abort()


async def decide(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(
            spec(agents={"a": SessionSpec(model=Next("a", say("x")), description="x")}), "s"
        )
        got = await lab.during(lambda: session.approve("s.c1:c1", command="z"))
        assert isinstance(got, JournalUnavailable | UnknownApproval)


async def resume(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await answer_to(session, "hi")
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.resume("s", spec()))


async def resume_long(lab: Lab) -> None:
    """The session has more records than the first call reads."""
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        for _ in range(PAGE):
            await session.abort()
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.resume("s", spec()))


async def resume_large(lab: Lab) -> None:
    """The session's snapshot does not have its history."""
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(hibernate_after=SLEEPS_AFTER), "s")
        await answer_to(session, "hi" * MAX_KEPT)
        await trio.sleep(4 * SLEEPS_AFTER)
        assert supervisor.tree().children[0].state == "asleep"
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.resume("s", spec()))


async def fork(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await answer_to(session, "hi")
        await lab.during(lambda: supervisor.fork("s", spec(), at=2, id="f"))


async def fork_before(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        ref = (await session.ask("hi")).ref
        await lab.during(lambda: supervisor.fork("s", spec(), at=ref, id="f"))


class NoSnapshots:
    """Snapshots of a folder in which nothing ever changes."""

    async def take(self, owner: str) -> FilesSnapshot:
        return FilesSnapshot(owner)

    async def preview(self, spans: Sequence[FileSpan], owner: str) -> RewindPreview:
        return RewindPreview()

    async def restore(
        self, spans: Sequence[FileSpan], owner: str, paths: Iterable[str] | None = None, *, over_edits: bool = False
    ) -> RestoredFiles:
        return RestoredFiles((), (), FileSpan(owner, owner))


class KeptSandbox(MemorySandbox):
    """A sandbox with such snapshots."""

    snapshots: Final = NoSnapshots()


async def rewind(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(sandbox=KeptSandbox()), "s")
        await session.ask("hi")
        await lab.during(lambda: session.rewind(0, command="c"))


async def list_stored(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await lab.during(supervisor.stored)


async def look_for_one(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await lab.during(lambda: summary_of(supervisor, "s"))


async def look_up(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.answered("s", "c"))


async def look_at_one(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await supervisor.spawn(spec(), "s")
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.state("s"))


async def forget(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await supervisor.spawn(spec(), "s")
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.delete("s"))


async def forget_beside(lab: Lab) -> None:
    """A session is deleted with what is kept beside it; another one, whose id begins like its own, is no sub-agent."""
    async with lab.open() as supervisor:
        for name in ("s", "s.other"):
            await supervisor.spawn(spec(), name)
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.delete("s", first=trio.lowlevel.checkpoint))


async def redact(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await supervisor.spawn(spec(), "s")
    async with lab.open() as supervisor:
        await lab.during(lambda: supervisor.redact("s", by="somebody"))


async def retain(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await (await supervisor.spawn(spec(), "old")).stop()
    lab.outage.armed = True
    async with lab.open(retain=[Retention(0)]):
        inner = lab.journal.inner
        await lab.during(lambda: eventually(lambda: repr(inner) == repr(MemoryJournal())))


async def come_back(lab: Lab) -> None:
    """The supervisor is opened again, and brings back a session with an open turn."""

    def slow() -> SessionSpec:
        return SessionSpec(model=Next("m", say("fine", delay=1.0)), name="n")

    async with lab.open() as supervisor:
        session = await supervisor.spawn(slow(), "s")
        await session.prompt("hi")
        await until(lambda: session.status().turn_open)
    lab.outage.armed = True
    async with lab.open({"n": slow}) as supervisor:

        async def is_back() -> None:
            await eventually(lambda: bool(supervisor.sessions()))
            await eventually(lambda: len(supervisor.session("s").messages()) == 2)

        await lab.during(is_back)


async def task(lab: Lab) -> None:
    lab.parent = family_spec()
    async with lab.open() as supervisor:
        session = await supervisor.spawn(family_spec(), "s")
        if lab.outage.place is not None and lab.outage.place.leaf == APPEND:
            lab.outage.about = CHILD
        await lab.during(lambda: session.ask("look"))


async def task_in_doubt(lab: Lab) -> None:
    """The sub-agent has a record, and its parent's start of it failed."""
    lab.parent = family_spec()
    async with lab.open() as supervisor:
        session = await supervisor.spawn(family_spec(), "s")
        lab.outage.first = [(APPEND, "append", CHILD, True), (APPEND, "read", CHILD, False)]
        await lab.during(lambda: session.ask("look"))


async def task_comes_back(lab: Lab) -> None:
    lab.parent = family_spec()
    async with lab.open() as supervisor:
        session = await supervisor.spawn(family_spec(), "s")
        await session.prompt("look")
        await until(lambda: len(supervisor.sessions()) == 2)
        await until(lambda: supervisor.session(CHILD).status().turn_open)
    lab.outage.armed = True
    async with lab.open() as supervisor:
        session = await supervisor.resume("s", family_spec())

        async def over() -> None:
            await eventually(lambda: session.inspect().turn is None)

        await lab.during(over)


async def task_looked_up(lab: Lab) -> None:
    """A program asks for the answer of a sub-agent that ended in an earlier process."""
    lab.parent = family_spec()
    async with lab.open() as supervisor:
        session = await supervisor.spawn(family_spec(), "s")
        await session.ask("look")
    async with lab.open() as supervisor:
        session = await supervisor.resume("s", family_spec())
        await lab.during(lambda: session.task_result(CHILD))


async def leave(lab: Lab) -> None:
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await answer_to(session, "hi")

    async def close() -> None:
        async with lab.open() as supervisor:
            await supervisor.stored()

    await lab.during(close)


async def hold(lab: Lab) -> None:
    """Leases cannot be renewed; the session goes on meanwhile."""
    async with lab.open() as supervisor:
        session = await supervisor.spawn(spec(), "s")
        await lab.during(lambda: eventually(lambda: lab.journal.renewals > 0))
        assert await answer_to(session, "hi") == "fine"


async def let_go(lab: Lab) -> None:
    async with lab.open() as supervisor:
        await answer_to(await supervisor.spawn(spec(), "s"), "hi")
        other = await supervisor.spawn(spec(), "t")

        async def stop() -> None:
            await other.stop()
            await trio.sleep(1)

        await lab.during(stop)


STORIES = {
    story.__name__: story
    for story in (
        *(
            prompt,
            prompt_in_doubt,
            spawn,
            sleep,
            wake,
            restart,
            set_aside,
            subscribe,
            ask_again,
            read_back,
            command,
            decide,
        ),
        *(
            resume,
            resume_long,
            resume_large,
            fork,
            fork_before,
            rewind,
            list_stored,
            look_for_one,
            look_up,
            look_at_one,
            forget,
            forget_beside,
            redact,
            retain,
            come_back,
        ),
        *(task, task_in_doubt, task_comes_back, task_looked_up, hold, let_go, leave),
    )
}


@pytest.mark.long
@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("place_value", PLACES, ids=lambda index: f"{index.call}-{index.on}-{index.story}")
async def test_nothing_is_lost_or_doubled_while_the_journal_is_away(
    place_value: Place, course: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(place_value, course)
    await STORIES[place_value.story](lab)
    lines = [record for record in caplog.records if record.name == "agentrail.journal"]
    assert 1 <= len(lines) <= 2 + LONG / 60
    lab.is_back()
    lab.crashes = 0
    async with lab.open() as supervisor:
        stored = await supervisor.stored()
        if "s" not in [item.session_id for item in stored]:
            return
        try:
            session = await supervisor.resume("s", lab.parent)
        except SessionCrashed:
            assert place_value.story == "set_aside"
            return
        await eventually(lambda: session.inspect().turn is None)
        assert await answer_to(session, "afterwards")
        texts = [message.text for message in session.messages() if isinstance(message, UserMessage)]
        assert len(texts) == len(set(texts)), "a prompt was taken twice"
        await check_records(lab.journal.inner, session)


# The tables


@pytest.mark.long
def test_each_place_where_the_shell_awaits_a_port_is_in_the_tables() -> None:
    """A new place needs a row that says who an outage concerns there, and which story leads there."""
    shell = list(functions())
    actual = {(function.name, call) for function in shell for call in journal_calls(function.node)}
    rows = {(index.leaf, index.call) for index in PLACES}
    assert actual <= rows, f"no row says whose affair an outage is in {sorted(actual - rows)}"
    assert rows <= actual, f"there is no such place any more: {sorted(rows - actual)}"
    helpers = {leaf.rpartition(".")[2]: leaf for leaf, _ in rows if leaf.count(".") == 1}
    callers = {
        (helpers[name], function.name) for function in shell for name in names_in(function.node) & helpers.keys()
    }
    names = {name for place_value in PLACES for name in (place_value.leaf, place_value.on)}
    missing = {(leaf, caller) for leaf, caller in callers if caller not in names}
    assert not missing, f"no row says what comes of an outage in {sorted(missing)}"
    others = {(function.name, call) for function in shell for call in other_calls(function.node)}
    assert others == {(other.leaf, other.call) for other in OTHERS}


@each_case(OTHERS)
def test_each_other_port_has_a_test(other_place: OtherPlace) -> None:
    name, _, test = other_place.test.partition("::")
    assert f"def {test}(" in Path(__file__).with_name(name).read_text()


def deep(levels: int) -> Exception:
    """Return an error that is nested too deeply for its traceback to be written."""
    exceptions: list[Exception] = [OSError(5, "no model")]
    for _ in range(levels):
        exceptions.append(ExceptionGroup("around", [OSError(5, "nor another"), exceptions[-1]]))
    return exceptions[-1]


@pytest.mark.parametrize("levels", [0, 3_000])
async def test_a_compactor_that_fails_ends_no_session(world: World, levels: int) -> None:
    called = 0

    async def broken(leaving: Leaving, ask: AskModel) -> str:  # noqa: ARG001 - it fails
        nonlocal called
        called += 1
        await trio.lowlevel.checkpoint()
        raise deep(levels)

    session = await world.spawn(["one", "two", "three"], "s", compactor=broken)
    assert await answer_to(session, "word " * 1_000) == "one"
    assert await answer_to(session, "hi") == "two"
    await session.compact()
    assert await answer_to(session, "and?") == "three"
    assert (called, world.supervisor.crashes()) == (1, ())


@pytest.mark.parametrize(("levels", "problem"), [(0, "no model"), (3_000, "around")])
async def test_a_job_that_cannot_run_ends_no_session(world: World, levels: int, problem: str) -> None:
    class Broken:
        async def run(self) -> None:
            await trio.lowlevel.checkpoint()
            raise deep(levels)

    session = await world.spawn(["one"], "s")
    jobs = BackgroundJobs(world.supervisor._sessions.shared.nursery)  # noqa: SLF001 - where those of sessions run
    job = jobs.start("sleep 1", Broken())  # type: ignore[arg-type]  # no more of it is needed
    await trio.sleep(1)
    assert problem in job.problem
    assert await answer_to(session, "hi") == "one"
    assert world.supervisor.crashes() == ()


async def test_a_line_about_an_outage_counts_the_failures_since_the_line_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Away(TestJournal):
        async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
            raise OSError(5, "away")

    steady = SteadyJournal(Away(), Clock())

    async def lines(count: int) -> list[str]:
        caplog.clear()
        for _ in range(count):
            with pytest.raises(JournalUnavailable):
                await steady.read("s")
        return [record.getMessage() for record in caplog.records]

    (line,) = await lines(3)
    assert "away" in line
    assert "more failures" not in line
    await trio.sleep(2 * LOG_EVERY)
    (line,) = await lines(1)
    assert "(2 more failures since the line before)" in line


async def test_an_error_that_needs_no_translation_is_not_its_own_cause() -> None:
    class Full(TestJournal):
        async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
            raise JournalFull("x")

    with pytest.raises(JournalFull) as caught:
        await SteadyJournal(Full(), Clock()).read("s")
    assert caught.value.__cause__ is None


# What a journal's errors mean


class DriverError(Exception):
    """An error of a database client."""


OUTAGES = [
    OSError(5, "I/O error"),
    ConnectionResetError("reset"),
    TimeoutError(),
    sqlite3.OperationalError("disk I/O error"),
    DriverError("the server is gone"),
    trio.BrokenResourceError(),
    MemoryError(),
    ExceptionGroup("several", [OSError("one"), ExceptionGroup("inside", [DriverError("two")])]),
]
MISTAKES = [
    KeyError("no"),
    TypeError("no"),
    AssertionError(),
    ValueError("no"),
    RuntimeError("no"),
    NotImplementedError(),
]


class Panic(BaseException):
    """An error that an extension in another language may raise."""


NO_EXCEPTIONS = [SystemExit(1), GeneratorExit(), Panic("no"), BaseExceptionGroup("one", [Panic("no")])]


@pytest.mark.parametrize("error", OUTAGES, ids=repr)
def test_what_tells_of_the_machine_is_an_outage(error: Exception) -> None:
    meant = meaning(error, "write a record")
    assert type(meant) is JournalFailed
    assert "could not write a record" in str(meant)
    assert isinstance(meant, InfrastructureError)


BOTH = ExceptionGroup("both", [OSError(), KeyError("no")])
BESIDE_OURS = ExceptionGroup("beside", [JournalFailed("x", "y"), KeyError("no")])


@each_case([*MISTAKES, *NO_EXCEPTIONS, BOTH, BESIDE_OURS])
def test_what_tells_of_the_code_is_a_broken_contract(error: BaseException) -> None:
    meant = meaning(error, "write a record")
    assert type(meant) is BrokenJournal
    assert "report this" in str(meant)


@pytest.mark.parametrize(
    "error",
    [CommitUnknown("x"), Fenced("s", 2), BadRecord("s", 1, "x"), JournalFull("x"), JournalFailed("x", "y")],
    ids=repr,
)
def test_our_own_errors_keep_their_meaning_alone_and_in_a_group(error: AgentrailError) -> None:
    assert meaning(error, "write") is error
    assert meaning(ExceptionGroup("several", [OSError(), error]), "write") is error


class Interrupted:
    """A journal in each method of which Ctrl-C is pressed; *asked* is what the last of them was asked for."""

    def __init__(self) -> None:
        self.asked: BoundArguments | None = None

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def interrupted(*given: object, **named: object) -> None:
            self.asked = asked_for(name, *given, **named)
            await trio.lowlevel.checkpoint()
            raise KeyboardInterrupt

        return interrupted


CALLS: dict[str, tuple[object, ...]] = {
    "claim": ("s", "mine"),
    "renew": ((), None),
    "release": ((),),
    "append": (Claim("s", 1, 0), 0, ()),
    "read": ("s",),
    "record_of_seq": ("s", 1),
    "answer": ("s", "c"),
    "sessions": (),
    "summary": ("s",),
    "keep": (Claim("s", 1, 0), None),
    "latest": ("s",),
    "delete": ("s", "mine", 0),
    "redact": ("s", 1, 1, None, "mine"),
    "close": (),
}


def asked_for(method: str, *given: object, **named: object) -> BoundArguments:
    """Return what a method of the port is asked for, its defaults included."""
    request = signature(getattr(Journal, method)).bind(None, *given, **named)
    request.apply_defaults()
    return request


@pytest.mark.parametrize(
    "around", [lambda journal: SteadyJournal(journal, Clock()), CheckedJournal], ids=["steady", "held"]
)
@pytest.mark.parametrize("method", CALLS)
async def test_what_is_asked_of_a_journal_and_an_interrupt_in_it_are_passed_on(
    method: str, around: Callable[[Journal], Journal]
) -> None:
    journal = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        await getattr(around(cast("Journal", journal)), method)(*CALLS[method])
    assert journal.asked == asked_for(method, *CALLS[method])


def test_the_calls_are_those_of_the_port() -> None:
    assert CALLS.keys() == {name for name, var in vars(Journal).items() if iscoroutinefunction(var)}


# What was seen


class Away(TestJournal):
    """A journal whose methods in `away` fail."""

    def __init__(self) -> None:
        super().__init__()
        self.away: frozenset[str] = frozenset()
        self.error: BaseException = OSError(5, "the disk is away")
        self.calls: Counter[str] = Counter()

    def _check(self, call: str) -> None:
        self.calls[call] += 1
        if call in self.away:
            raise self.error

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        self._check("append")
        return await super().append(claim, expected, records)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        self._check("read")
        return await super().read(session_id, after, limit)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        self._check("read")
        return await super().latest(session_id, upto, limit)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        self._check("answer")
        return await super().answer(session_id, command)

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        self._check("sessions")
        return await super().sessions(wanted, after, limit)


ALL = frozenset({"append", "read", "answer"})


async def test_sleepers_that_are_woken_while_the_journal_cannot_be_read_go_on() -> None:
    journal = Away()
    async with open_supervisor(journal=journal) as supervisor:
        sessions = [await supervisor.spawn(spec(hibernate_after=SLEEPS_AFTER), f"s{n}") for n in range(20)]
        await trio.sleep(4 * SLEEPS_AFTER)
        assert {child.state for child in supervisor.tree().children} == {"asleep"}
        journal.away = ALL
        answers: list[str] = []

        async def ask(session: SessionHandle) -> None:
            answers.append(await answer_to(session, "hi"))

        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(ask, session)
            await trio.sleep(0.5)
            journal.away = frozenset()
        assert answers == ["fine"] * 20
        assert supervisor.crashes() == ()


@pytest.mark.parametrize("error", [OSError(5, "away"), KeyError("no"), BadRecord("s", 3, "it has changed")], ids=repr)
async def test_a_command_id_that_cannot_be_looked_up_is_refused_and_nothing_is_done(error: Exception) -> None:
    journal = Away()
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(spec(), "s")).ask("hi", command="c")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec())
        journal.away, journal.error = frozenset({"answer"}), error
        for _ in range(5):
            with pytest.raises((InfrastructureError, BrokenJournal)):
                await session.prompt("hi", command="c")
        assert (await answer_to(session, "more")) == "fine"
        assert supervisor.crashes() == ()
        journal.away = frozenset()
        assert (await session.ask("hi", command="c")).ref == "p1"
        assert [message.text for message in session.messages()] == ["hi", "fine", "more", "fine"]


@pytest.mark.parametrize("error", [*MISTAKES, *NO_EXCEPTIONS], ids=repr)
async def test_whatever_a_journal_raises_ends_no_program(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Away()
    journal.away, journal.error = frozenset({"sessions"}), error
    async with open_supervisor(journal=journal, specs={"n": spec}) as supervisor:
        await until(lambda: "are not brought back" in caplog.text)
        with pytest.raises(BrokenJournal, match="list its sessions"):
            await supervisor.stored()
        session = await supervisor.spawn(spec(), "s")
        assert (await session.ask("hi")).text == "fine"
        journal.away = frozenset({"read"})
        with pytest.raises(BrokenJournal, match="read records"):
            await supervisor.spawn(spec(), "another")
        assert supervisor.crashes() == ()


async def test_a_cancellation_goes_through_the_journal_as_it_is() -> None:
    class Groups(TestJournal):
        async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails_when_cancelled)
                await trio.sleep_forever()
            raise AssertionError

    async def fails_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError(5, "it was cut")

    async with open_supervisor(journal=Groups()) as supervisor:
        with trio.move_on_after(1) as scope:
            await supervisor.spawn(spec(), "s")
        assert scope.cancelled_caught


async def test_an_abort_whose_id_cannot_be_looked_up_stops_all_the_same_and_is_refused() -> None:
    journal = Away()
    slow = SessionSpec(model=Next("m", say("word " * 100, delay=0.1), say("fine")))
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.spawn(slow, "s")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", slow)
        await session.prompt("hi")
        await trio.sleep(0.5)
        journal.away = frozenset({"answer"})
        with pytest.raises(JournalFailed, match="try again"):
            await session.abort(command="stop it")
        journal.away = frozenset()
        await session.abort(command="stop it")
        with trio.fail_after(10):
            await eventually(lambda: session.inspect().turn is None)
        assert supervisor.crashes() == ()
        assert await answer_to(session, "and now?")


@pytest.mark.long
async def test_while_the_journal_is_away_an_abort_stops_and_leaving_works(caplog: pytest.LogCaptureFixture) -> None:
    journal = Away()
    model = ScriptedModel([say("word " * 5000, delay=0.05)])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model), "s")
        async with session.subscribe(types=[MessageDelta], capacity=100_000) as events, trio.open_nursery() as nursery:
            await session.prompt("go")
            await trio.sleep(1)
            journal.away = ALL
            nursery.start_soon(tried, session.abort)
            await trio.sleep(0.01)
            heard = events.waiting
            await trio.sleep(3600)
            assert events.waiting == heard, "the model speaks on"
            with pytest.raises(JournalFailed, match="try again"):
                await session.prompt("and now?")
            with pytest.raises(JournalFailed, match="try again"):
                await supervisor.spawn(spec(), "another")
            nursery.cancel_scope.cancel()
        assert supervisor.crashes() == ()
        assert journal.calls["append"] + journal.calls["read"] < 2 * 3600 / MAX_PAUSE
        lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(lines) <= 2 + 3600 / 60
        time = trio.current_time()
    assert trio.current_time() - time < 15


@pytest.mark.parametrize("is_behind", [False, True])
async def test_what_a_journal_did_not_say_is_looked_for_before_it_is_written_again(is_behind: bool) -> None:
    journal = TestJournal()
    async with open_world(journal) as world:
        session = await world.spawn(ScriptedModel(["one", "two"]), "s")
        errors: list[Exception] = [OSError("once"), DriverError("twice")]

        def failing(_: Record) -> Exception | None:
            return errors.pop() if errors else None

        if is_behind:
            journal.fails_after = failing
        else:
            journal.failing = failing
        assert await answer_to(session, "hi") == "one"
        assert await answer_to(session, "and?") == "two"
        assert world.supervisor.crashes() == ()


async def test_a_journal_that_was_taken_over_meanwhile_fences_as_ever() -> None:
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(), "s")
        journal.failing = lambda _: OSError("away")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tried, lambda: session.prompt("hi"))
            await trio.sleep(1)
            await journal.inner.claim("s", "thief", take_over=True)
            journal.failing = None
        assert [report.reason.kind for report in supervisor.crashes()] == ["Fenced"]
        assert supervisor.sessions() == ()
