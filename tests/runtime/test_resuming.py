"""Sessions that come back from a journal in another process, which a second supervisor stands for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import frozen

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.errors import (
    PluginMismatch,
    SessionExists,
    SessionNotAlive,
    SessionParked,
    SessionStored,
    UnknownModel,
    UnknownSession,
    UsageError,
)
from agentrail.events import AgentEnd, Cursor, PluginAttached, PluginUpgraded, SessionRecovered, ToolUnknown
from agentrail.journals import ALL_SESSIONS, Journal, SessionFilter, StoredSession
from agentrail.models import Json, JsonObject, ToolMessage
from agentrail.plugins import AfterTurn, BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools import EffectClass, NotStarted, Ok, Probed, ToolContext, ToolResult, ToolSpec, ok
from tests.coded import coded
from tests.kit import Element
from tests.runtime.journals import TestJournal
from tests.runtime.tools import fake
from tests.runtime.world import settle, until


@frozen
class Turns(Plugin[int]):
    """Counts turns."""

    step: int = 1

    def init(self, ctx: Context) -> int:
        return 0

    def after_turn(self, hook: AfterTurn, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + self.step)


class NewerTurns(Turns):
    version = 2

    def upgrade(self, old: Json) -> int:
        if not isinstance(old, int):
            raise TypeError(old)
        return old * 100


NewerTurns.__name__ = "Turns"


@asynccontextmanager
async def process(journal: Journal) -> AsyncIterator[Supervisor]:
    """Open a supervisor, which stands for a process."""
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        yield supervisor


async def test_a_conversation_goes_on_where_it_was() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["hello", "you said hi"]), plugins=[Turns()])
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("hi")
        old = session.inspect()
    with pytest.raises(SessionParked, match=r"`supervisor\.resume\('s', spec\)`"):
        await session.prompt("anybody there?")
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", spec)
        assert [message.text for message in again.messages()] == ["hi", "hello"]
        assert again.inspect().plugin_states == old.plugin_states == (1,)
        async with again.subscribe(since=Cursor(old.last_seq)) as events:
            first = await anext(aiter(events))
        assert (await again.ask("what did I say?")).text == "you said hi"
    assert (first.seq, type(first.event)) == (old.last_seq + 1, SessionRecovered)


async def test_a_subscriber_goes_on_behind_what_it_had_heard() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["one", "two"]))
    heard: list[int] = []
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        async with session.subscribe(since=0) as events:
            await session.ask("hi")
            async for envelope in events:
                heard.append(envelope.seq)
                if isinstance(envelope.event, AgentEnd):
                    break
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", spec)
        await again.ask("and")
        async with again.subscribe(since=Cursor(heard[-1])) as events:
            async for envelope in events:
                if envelope.n == 0:
                    heard.append(envelope.seq)
                if isinstance(envelope.event, AgentEnd):
                    break
    assert sorted(set(heard)) == list(range(1, heard[-1] + 1))


async def test_a_turn_that_was_open_goes_on_by_itself() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(after=2)])), "s")
        await session.prompt("hi")
        await trio.sleep(1)
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", SessionSpec(model=ScriptedModel(["here I am"])))
        await until(lambda: again.inspect().turn is None)
        assert [message.text for message in again.messages()] == ["hi", "here I am"]


async def test_a_turn_rests_if_that_is_wanted() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(after=2)])), "s")
        await session.prompt("hi")
        await trio.sleep(1)
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", SessionSpec(model=ScriptedModel(["here I am"])), recovery="pause")
        await settle()
        assert again.inspect().resting
        await again.resume()
        await until(lambda: again.inspect().turn is None)
        assert [message.text for message in again.messages()] == ["hi", "here I am"]


class Witnessed:
    """A tool that notes each run, and never ends the first one."""

    def __init__(self, effect: EffectClass, probed: Probed | None = None) -> None:
        self.spec = ToolSpec("work", "works", effect=effect)
        self._found = probed
        self.runs: list[str] = []

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        self.runs.append(ctx.idempotency_key)
        if len(self.runs) == 1:
            await trio.sleep_forever()
        return ok("worked")

    async def probe(self, key: str) -> Probed:
        self.runs.append(f"probed {key}")
        await trio.lowlevel.checkpoint()
        assert self._found is not None
        return self._found


async def over_two_lives(tool: Witnessed) -> tuple[list[str], list[str]]:
    """End a process while a call to *tool* runs; return the results after the next one, and the names of all events."""
    journal = TestJournal()
    async with process(journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel([say(calls=[call("work")])]), tools=[tool])
        session = await supervisor.spawn(spec, "s")
        await session.prompt("hi")
        await trio.sleep(1)
    async with process(journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["fine"]), tools=[tool])
        again = await supervisor.resume("s", spec)
        await until(lambda: again.inspect().turn is None)
        report = [type(e.event).__name__ for record in await journal.read("s", 0, 1000) for e in record.events]
        return [message.text for message in again.messages() if hasattr(message, "call_id")], report


def keys_of(tool: Witnessed) -> list[str]:
    """Return the keys of the runs and probes, with `KEY` for the key of the first run."""
    key = tool.runs[0]
    assert key.startswith("s/c3-")
    return [run.replace(key, "KEY") for run in tool.runs]


@pytest.mark.parametrize("effect", [EffectClass.PURE, EffectClass.IDEMPOTENT])
async def test_a_tool_that_can_run_again_does_so_under_the_same_key(effect: EffectClass) -> None:
    tool = Witnessed(effect)
    results, _ = await over_two_lives(tool)
    assert results == ["worked"]
    assert keys_of(tool) == ["KEY", "KEY"]


async def test_an_unsafe_tool_never_runs_twice() -> None:
    tool = Witnessed(EffectClass.UNSAFE)
    results, report = await over_two_lives(tool)
    assert keys_of(tool) == ["KEY"]
    assert ToolUnknown.__name__ in report
    assert results == [
        "the process ended while the call ran; it may have taken effect; find out before calling it again"
    ]


async def test_a_checkable_tool_is_asked() -> None:
    tool = Witnessed(EffectClass.CHECKABLE, ok("it had worked"))
    results, _ = await over_two_lives(tool)
    assert (results, keys_of(tool)) == (["it had worked"], ["KEY", "probed KEY"])


async def test_a_checkable_tool_that_had_not_started_runs() -> None:
    tool = Witnessed(EffectClass.CHECKABLE, NotStarted())
    results, _ = await over_two_lives(tool)
    assert (results, keys_of(tool)) == (["worked"], ["KEY", "probed KEY", "KEY"])


async def test_a_probe_that_breaks_knows_nothing() -> None:
    tool = Witnessed(EffectClass.CHECKABLE)
    results, report = await over_two_lives(tool)
    assert ToolUnknown.__name__ in report
    assert "it may have taken effect; check before" in results[0]


async def test_a_tool_is_asked_what_became_of_its_call_though_no_time_is_left() -> None:
    tool = Witnessed(EffectClass.CHECKABLE, ok("it had worked"))
    journal = TestJournal()
    async with process(journal) as supervisor:
        script = [say("I work.", calls=[call("work")], delay=4.0)]
        spec = SessionSpec(model=ScriptedModel(script), tools=[tool], plugins=[BudgetGuard(max_seconds=60)])
        session = await supervisor.spawn(spec, "s")
        await session.prompt("hi")
        await trio.sleep(30)  # the model has spoken, and the tool runs
    async with process(journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["fine"]), tools=[tool], plugins=[BudgetGuard(max_seconds=2)])
        again = await supervisor.resume("s", spec)
        await until(lambda: again.inspect().turn is None)
        results = [message.text for message in again.messages() if isinstance(message, ToolMessage)]
    assert (results, keys_of(tool)) == (["it had worked"], ["KEY", "probed KEY"])


async def test_an_approval_that_waits_outlives_the_process() -> None:
    journal = TestJournal()

    async def write(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("written")

    def spec(*script: Element) -> SessionSpec:
        return SessionSpec(
            model=ScriptedModel(script),
            tools=[fake("write", write)],
            plugins=[HumanApproval(tools=frozenset({"write"}))],
        )

    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec(say(calls=[call("write")])), "s")
        reply = await session.ask("write it")
        (held,) = reply.held
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", spec("it is written"))
        assert [waiting.id for waiting in again.status().held] == [held.id]
        await again.approve(held.id)
        await until(lambda: again.inspect().turn is None)
        assert [message.text for message in again.messages()][-2:] == ["written", "it is written"]


async def test_an_answer_to_a_command_outlives_the_process() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["one", "two"]))
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        accepted = await session.prompt("hi", command="c-1")
        await until(lambda: session.inspect().turn_count == 1 and session.inspect().turn is None)
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", spec)
        assert await again.prompt("hi", command="c-1") == accepted
        assert again.inspect().turn_count == 1


# What does not fit


async def test_a_stored_id_is_not_spawned_anew() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["one", "two"]))
    async with process(journal) as supervisor:
        await (await supervisor.spawn(spec, "s")).ask("hi")
    async with process(journal) as supervisor:
        with pytest.raises(SessionStored, match=r"supervisor\.resume\('s', spec\)"):
            await supervisor.spawn(spec, "s")
        opened = await supervisor.open("s", spec)
        assert await supervisor.open("s", spec) is opened
        assert await supervisor.resume("s", spec) is opened
        with pytest.raises(SessionExists):
            await supervisor.spawn(spec, "s")
        assert (await supervisor.open("new", SessionSpec(model="demo"))).id == "new"
        assert [stored.session_id for stored in await supervisor.stored()] == ["new", "s"]


async def test_one_that_many_open_at_once_starts_once() -> None:
    journal = TestJournal(claim=1)
    spec = SessionSpec(model=ScriptedModel(["one"]), name="spec")
    for _ in range(2):  # first it is new, then it is stored
        session_handles: list[SessionHandle] = []

        async def opened(supervisor: Supervisor, session_handles: list[SessionHandle] = session_handles) -> None:
            session_handles.append(await supervisor.open("s", spec))

        async with process(journal) as supervisor, trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(opened, supervisor)
        assert len(session_handles) == 3
        assert len(set(map(id, session_handles))) == 1
    records = await journal.read("s", 0, 1000)
    assert [type(record.arrival.input).__name__ for record in records] == ["SessionOpened", "SessionReturned"]


async def test_one_that_comes_back_by_itself_can_be_opened_meanwhile() -> None:
    journal = TestJournal(claim=1)
    spec = SessionSpec(model=ScriptedModel([stall(after=1), "here I am"]), name="spec")
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.prompt("hi")
        await trio.sleep(1)
    async with open_supervisor(journal=journal, specs={"spec": lambda: spec}) as supervisor:
        await trio.sleep(0.5)
        again = await supervisor.open("s", spec)
        await until(lambda: not again.status().turn_open)
        assert again.messages()[-1].text == "here I am"


async def test_whoever_waits_for_one_that_does_not_start_starts_it_itself() -> None:
    journal = TestJournal(claim=1)
    async with process(journal) as supervisor, trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def given_up() -> None:
            with scope:
                await supervisor.open("s", SessionSpec(model=ScriptedModel([])))

        nursery.start_soon(given_up)
        await trio.sleep(0.5)
        nursery.start_soon(stopped_soon, scope)
        session = await supervisor.open("s", SessionSpec(model=ScriptedModel(["one"])))
        assert (await session.ask("hi")).text == "one"


async def stopped_soon(scope: trio.CancelScope) -> None:
    await trio.sleep(0.1)
    scope.cancel()


async def test_an_unknown_one_cannot_come_back() -> None:
    async with process(TestJournal()) as supervisor:
        with pytest.raises(UnknownSession):
            await supervisor.resume("nobody", SessionSpec(model="demo"))
        assert await supervisor.stored() == ()


async def test_one_that_has_ended_cannot_come_back() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo"), "s")
        await session.stop("enough")
        await until(lambda: not supervisor.sessions())
        with pytest.raises(SessionNotAlive, match="enough"):
            await supervisor.resume("s", SessionSpec(model="demo"))


async def test_one_that_has_ended_says_so_even_if_its_code_does_not_fit() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo", plugins=[Turns()]), "s")
        await session.stop("enough")
        with pytest.raises(SessionNotAlive, match="enough"):
            await supervisor.resume("s", SessionSpec(model="demo"))


class Named(Plugin[str]):
    """A plugin of the same name as `Turns`, with a state of another type."""

    def init(self, ctx: Context) -> str:
        return ""


Named.__name__ = "Turns"


async def test_a_state_that_the_plugin_cannot_read_leaves_the_session_as_it_is() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"]), plugins=[Turns()]), "s")
        await session.ask("hi")
    async with process(journal) as supervisor:
        with pytest.raises(PluginMismatch, match="its state cannot be read"):
            await supervisor.resume("s", SessionSpec(model=ScriptedModel([]), plugins=[Named()]))
        assert supervisor.sessions() == ()


async def test_a_plugin_that_is_missing_leaves_the_session_as_it_is() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["one", "two"]), plugins=[Turns()])
    async with process(journal) as supervisor:
        await (await supervisor.spawn(spec, "s")).ask("hi")
        head = (await supervisor.stored())[0].head
    async with process(journal) as supervisor:
        with pytest.raises(PluginMismatch, match="`Turns`: it is not in the specification"):
            await supervisor.resume("s", SessionSpec(model=ScriptedModel([])))
        assert (await supervisor.stored())[0].head == head
        assert (await (await supervisor.resume("s", spec)).ask("and")).text == "two"


async def test_a_plugin_brings_its_state_forward_but_never_back() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"]), plugins=[Turns()]), "s")
        await session.ask("hi")
    newer = SessionSpec(model=ScriptedModel(["two"]), plugins=[NewerTurns()])
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", newer)
        assert again.inspect().plugin_states == (100,)
        records = await journal.read("s", 0, 1000)
        assert PluginUpgraded("Turns", 1, 2) in [envelope.event for envelope in records[-1].events]
    async with process(journal) as supervisor:
        with pytest.raises(PluginMismatch, match="version 2, and the code is version 1"):
            await supervisor.resume("s", SessionSpec(model=ScriptedModel([]), plugins=[Turns()]))


async def test_options_that_were_updated_stay_updated() -> None:
    journal = TestJournal()
    spec = SessionSpec(model=ScriptedModel(["one", "two"]), plugins=[Turns()])
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.update_plugin(Turns, step=5)
        await session.ask("hi")
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", spec)
        await again.ask("and")
        assert again.inspect().plugin_states == (10,)


async def test_what_the_specification_has_more_joins_the_session() -> None:
    journal = TestJournal()

    async def look(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("seen")

    spec = SessionSpec(model=ScriptedModel(["one", say(calls=[call("look")]), "two"]))
    async with process(journal) as supervisor:
        await (await supervisor.spawn(spec, "s")).ask("hi")
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", spec.but(plugins=[Turns()], tools=[fake("look", look)]))
        assert PluginAttached("Turns") in [
            envelope.event for record in await journal.read("s", 0, 1000) for envelope in record.events
        ]
        assert (await again.ask("look")).text == "two"
        assert again.inspect().plugin_states == (1,)


async def test_what_was_let_go_stays_gone() -> None:
    journal = TestJournal()

    async def look(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("seen")

    spec = SessionSpec(model=ScriptedModel(["one"]), plugins=[Turns()], tools=[fake("look", look)])
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.detach_plugin(Turns)
        await session.detach_tools("look")
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", spec)
        assert (again.inspect().plugins, dict(again.inspect().tools)) == ((), {})


async def test_a_model_that_is_not_there_any_more_is_named() -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        await supervisor.spawn(SessionSpec(model=ScriptedModel(["one"], name="special")), "s")
    async with process(journal) as supervisor:
        with pytest.raises(UnknownModel, match="special"):
            await supervisor.resume("s", SessionSpec(model="demo"))


async def test_code_is_found_by_the_name_of_the_specification() -> None:
    journal = TestJournal()

    def build() -> SessionSpec:
        return SessionSpec(model=ScriptedModel(["one", "two"]), name="helper")

    async with open_supervisor(journal=journal, specs={"helper": build}) as supervisor:
        await (await supervisor.spawn(build(), "s")).ask("hi")
    async with open_supervisor(journal=journal, specs={"helper": build}) as supervisor:
        again = await supervisor.resume("s")
        assert (await again.ask("and")).text == "one"
    async with process(journal) as supervisor:
        with pytest.raises(UsageError, check=coded("spec-missing"), match="'helper'"):
            await supervisor.resume("s")


# By itself


async def test_what_was_under_way_is_brought_back_by_itself() -> None:
    journal = TestJournal()

    def build(*script: Element) -> SessionSpec:
        return SessionSpec(model=ScriptedModel(script), name="helper")

    async with process(journal) as supervisor:
        busy = await supervisor.spawn(build(stall()), "busy")
        await busy.prompt("hi")
        await supervisor.spawn(build("never asked"), "idle")
        unknown = await supervisor.spawn(build(stall()).but(name="other"), "unknown")
        await unknown.prompt("hi")
        await trio.sleep(1)
    async with open_supervisor(journal=journal, specs={"helper": lambda: build("here I am")}) as supervisor:
        await until(lambda: [session.id for session in supervisor.sessions()] == ["busy"])
        again = await supervisor.resume("busy")
        await until(lambda: again.inspect().turn is None)
        assert [message.text for message in again.messages()] == ["hi", "here I am"]


class Listing(TestJournal):
    """A journal that lists each session as one with work under way, and those that it cannot read with a *problem*."""

    problem = ""

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        found_sessions = await super().sessions(ALL_SESSIONS, after, limit)
        return tuple(item.but(at_work=True, problem=self.problem) for item in found_sessions)


@pytest.mark.parametrize("problem", ["", "its file is damaged"])
async def test_one_that_has_ended_or_cannot_be_read_is_left_alone(
    problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Listing()
    spec = SessionSpec(model=ScriptedModel([stall()]), name="helper")
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.prompt("hi")
        await settle()
        if not problem:
            await session.stop()
    journal.problem = problem
    async with open_supervisor(journal=journal, specs={"helper": lambda: spec}) as supervisor:
        await settle()
        assert supervisor.sessions() == ()
    assert caplog.text == ""


async def test_one_that_cannot_come_back_is_named_and_hinders_no_other(caplog: pytest.LogCaptureFixture) -> None:
    journal = TestJournal()

    def build(*script: Element) -> SessionSpec:
        return SessionSpec(model=ScriptedModel(script), name="helper", plugins=[Turns()])

    async with process(journal) as supervisor:
        for name in ("one", "two"):
            spec = build(stall())
            session = await supervisor.spawn(spec if name == "two" else spec.but(plugins=[Turns(), Other()]), name)
            await session.prompt("hi")
        await trio.sleep(1)
    async with open_supervisor(journal=journal, specs={"helper": lambda: build("here I am")}) as supervisor:
        await until(lambda: [session.id for session in supervisor.sessions()] == ["two"])
    (report,) = [record.getMessage() for record in caplog.records if "cannot be brought back" in record.getMessage()]
    assert "one" in report
    assert "`Other`: it is not in the specification" in report


async def test_a_specification_that_breaks_is_named_and_hinders_no_other(caplog: pytest.LogCaptureFixture) -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        for name in ("broken", "sound"):
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(after=1)]), name=name), name)
            await session.prompt("hi")
        await trio.sleep(1)

    def broken() -> SessionSpec:
        raise ZeroDivisionError

    specs = {"broken": broken, "sound": lambda: SessionSpec(model=ScriptedModel(["here I am"]), name="sound")}
    async with open_supervisor(journal=journal, specs=specs) as supervisor:
        await settle()
        assert [session.id for session in supervisor.sessions()] == ["sound"]
    assert "session broken cannot be brought back: ZeroDivisionError" in caplog.text


async def test_a_specification_that_breaks_for_a_while_is_built_again(caplog: pytest.LogCaptureFixture) -> None:
    journal = TestJournal()
    async with process(journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(after=1)]), name="helper"), "one")
        await session.prompt("hi")
        await trio.sleep(1)
    tried: list[float] = []

    def build() -> SessionSpec:
        tried.append(round(trio.current_time() - began))
        if len(tried) < 11:
            raise ConnectionError
        return SessionSpec(model=ScriptedModel(["here I am"]), name="helper")

    began = trio.current_time()
    async with open_supervisor(journal=journal, specs={"helper": build}) as supervisor:
        await trio.sleep(2000)
        (back,) = supervisor.sessions()
        assert [message.text for message in back.messages()] == ["hi", "here I am"]
    assert tried == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811]
    assert caplog.text.count("session one cannot be brought back: ConnectionError") == 10
    assert caplog.text.count("it is tried again in 300 s") == 1


async def test_a_timer_that_comes_due_brings_its_session_back() -> None:
    journal = TestJournal()

    async def write(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("written")

    def build(*script: Element) -> SessionSpec:
        return SessionSpec(
            model=ScriptedModel(script),
            name="helper",
            tools=[fake("write", write)],
            plugins=[HumanApproval(tools=frozenset({"write"}), timeout=60.0)],
        )

    async with process(journal) as supervisor:
        session = await supervisor.spawn(build(say(calls=[call("write")])), "s")
        await session.ask("write")
    async with open_supervisor(journal=journal, specs={"helper": lambda: build("fine")}) as supervisor:
        await trio.sleep(30)
        assert supervisor.sessions() == ()
        await trio.sleep(40)
        (again,) = supervisor.sessions()
        assert again.status().held == ()


async def test_a_timer_that_came_due_meanwhile_fires_once_before_what_users_say() -> None:
    journal = TestJournal()

    async def write(_args: JsonObject, _ctx: ToolContext) -> Ok:  # noqa: ASYNC124
        return ok("written")

    spec = SessionSpec(
        model=ScriptedModel([say(calls=[call("write")]), "fine"]),
        tools=[fake("write", write)],
        plugins=[HumanApproval(tools=frozenset({"write"}), timeout=60.0)],
    )
    async with process(journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("write")
    await trio.sleep(100)
    async with process(journal) as supervisor:
        again = await supervisor.resume("s", spec)
        await again.prompt("and?")
        await until(lambda: again.inspect().turn is None)
        report = [type(e.event).__name__ for record in await journal.read("s", 0, 1000) for e in record.events]
        assert report.count("ApprovalResolved") == 1
        assert report.index("ApprovalResolved") < len(report) - 1 - report[::-1].index("PromptReceived")


class Other(Turns):
    pass
