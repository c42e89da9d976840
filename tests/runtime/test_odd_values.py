"""Numbers, texts and errors that a type checker would reject end at most the turn in which they occur."""

import math
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Final, cast

import pytest
import trio
import trio.testing
from attrs import frozen

from agentrail import (
    Accepted,
    Ask,
    Context,
    Continue,
    HoldTool,
    Plugin,
    ReplaceMessages,
    SessionHandle,
    SessionSpec,
    open_supervisor,
)
from agentrail.app.build import policy
from agentrail.core.vocabulary.changes import Change
from agentrail.errors import (
    BadJournal,
    BadRecord,
    BadResponse,
    RateLimited,
    ReplayDiffers,
    TransientModelError,
    TurnAborted,
)
from agentrail.events import ApprovalRequired, AskStarted, PluginError, Retry
from agentrail.journals import (
    ALL_SESSIONS,
    NO_LEASE,
    Claim,
    Latest,
    Lease,
    MemoryJournal,
    Record,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
)
from agentrail.models import (
    Chunk,
    EmitChunk,
    JsonObject,
    Limit,
    Model,
    ModelRequest,
    Response,
    Text,
    TextChunk,
    UserMessage,
)
from agentrail.plugins import BeforeRequest, BeforeTool, BudgetGuard, CallService, Log
from agentrail.runtime.actor.journal_log import rebuild_state, with_plugins_of
from agentrail.runtime.diagnosis.journal_contract import CheckedJournal
from agentrail.runtime.shared.clock import Clock, Steady
from agentrail.testing import ScriptedModel, call, fail, say
from agentrail.tools import Ok, ToolContext, ToolResult
from agentrail.values.untrusted_content import MAX_TEXT, fit_response
from agentrail.values.untrusted_values import TEN_YEARS
from tests.kit import EMPTY, PromptSent
from tests.runtime.tools import fake, quick
from tests.runtime.world import World, settle

YEAR = 31_536_000.0


class Answering:
    """A model that gives the same answer each time, or raises it if it is an error."""

    name = "answering"

    def __init__(self, answer: object, chunk: object = None) -> None:
        self.answer = answer
        self.chunk = chunk

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await trio.lowlevel.checkpoint()
        if self.chunk is not None:
            emit(self.chunk)  # type: ignore[arg-type]  # on purpose
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # on purpose


async def lives(world: World, model: Model, max_retries: int = 5) -> None:
    """Check that a turn with *model* ends with a `provider_error`, and that the session works with another model."""
    session = await world.spawn(model, max_retries=max_retries)
    with pytest.raises(TurnAborted, match="provider_error"):
        await session.ask("go")
    await session.switch_model(ScriptedModel(["fine"]))
    assert (await session.ask("go")).text == "fine"


# Times that a provider asks for


@pytest.mark.parametrize("wait", [1e17, YEAR, 10**400, 700])
async def test_a_provider_is_waited_for_ten_minutes_at_most(world: World, wait: float) -> None:
    session = await world.spawn([fail(RateLimited("later", wait)), "fine"])
    began = trio.current_time()
    assert (await session.ask("go")).text == "fine"
    assert trio.current_time() - began == pytest.approx(600, abs=1)
    assert world.heard(session).only(Retry).delay_ms == 600_000


@pytest.mark.parametrize("wait", [math.nan, math.inf, -5.0, "soon", None, True])
async def test_what_is_no_time_to_wait_is_none(world: World, wait: float) -> None:
    session = await world.spawn([fail(RateLimited("later", wait)), "fine"], retry_base=1.0)
    assert (await session.ask("go")).text == "fine"
    assert world.heard(session).only(Retry).delay_ms <= 1000


async def test_a_provider_that_asks_for_long_leaves_the_turn_to_the_next_of_the_chain(world: World) -> None:
    first, second = ScriptedModel([fail(RateLimited("later", 700.0))], name="a"), ScriptedModel(["fine"], name="b")
    began = trio.current_time()
    session = await world.supervisor.spawn(SessionSpec(model=[first, second]))
    assert (await session.ask("go")).text == "fine"
    assert trio.current_time() - began == pytest.approx(0, abs=1)


@pytest.mark.long
async def test_a_session_may_try_again_thousands_of_times(world: World) -> None:
    tries = 1_100  # a float has no room for 2 to the power of 1,024
    session = await world.spawn([fail(TransientModelError("later"))] * tries + ["fine"], max_retries=tries)
    assert (await session.ask("go")).text == "fine"


# What a model counts and says

OVERSIZED = {
    "text": (Response((Text("x" * (MAX_TEXT + 1)),)), None),
    "chunk": (Response((Text("well"),)), TextChunk("x" * (MAX_TEXT + 1))),
}


@pytest.mark.parametrize(("response", "chunk"), OVERSIZED.values(), ids=OVERSIZED)
async def test_a_response_above_a_limit_is_told_as_one_and_is_no_fault_of_the_model(
    world: World, response: Response, chunk: Chunk | None
) -> None:
    session = await world.spawn(Answering(response, chunk))
    with pytest.raises(TurnAborted, match=r"longer than a session takes: .*; have the model say less"):
        await session.ask("go")


@pytest.mark.long
async def test_the_longest_text_that_a_model_may_say_is_taken_in_any_number_of_pieces(world: World) -> None:
    pieces = say(chunks=["x" * (MAX_TEXT // 2)] * 2)
    session = await world.spawn([pieces, say(chunks=["x" * (MAX_TEXT // 2)] * 2 + ["é"])])
    assert len((await session.ask("go")).text) == MAX_TEXT
    with pytest.raises(TurnAborted, match=r"it has more than 2,097,152 characters of text, thoughts and arguments"):
        await session.ask("go")


def _nested(levels: int) -> Exception:
    exception: Exception = ValueError("inside")
    for _ in range(levels):
        exception = cast("Exception", ExceptionGroup("around", [exception]))
    return exception


def _without_facts() -> Exception:
    error = TransientModelError("later", 3.0)
    error.args = ()
    return error


class Ungroupable(ExceptionGroup[Exception]):
    def derive(self, _: object) -> "Ungroupable":  # type: ignore[override]
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "error", [_nested(3_000), Ungroupable("several", [ValueError()]), GeneratorExit(), BaseException("well")]
)
async def test_an_error_that_cannot_even_be_logged_is_a_provider_error(world: World, error: BaseException) -> None:
    await lives(world, Answering(error))


async def test_an_error_that_has_lost_its_facts_is_tried_again(world: World) -> None:
    await lives(world, Answering(_without_facts()), max_retries=1)


# What it costs


@pytest.mark.parametrize("seconds", [10**400, math.nan, -1, "1", True])
async def test_a_price_function_that_returns_no_cost_knows_none(world: World, seconds: float) -> None:
    session = await world.spawn(["fine"], prices=lambda *_: seconds)
    await session.ask("go")
    assert session.inspect().usage.cost_usd is None


# Times of tools and plugins


class Holder(Plugin):
    """Holds each call, with a timeout of 1e300 seconds."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | HoldTool[None]:
        return HoldTool("wait", timeout=1e300)


async def test_a_hold_ends_after_ten_years(world: World) -> None:
    session = await world.spawn([say(calls=[call("quick")]), "fine"], tools=[quick()], plugins=[Holder()])
    await session.ask("go")
    await settle()
    required = world.heard(session).at(ApprovalRequired)[0]
    assert [time - required for _, time in session.inspect().timers] == [TEN_YEARS * 1000]
    await session.abort()
    assert (await session.ask("go")).text == "fine"


class Asker(Plugin):
    """Asks a service before each request, with a deadline of 1e306 seconds."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Continue(None) if hook.answer is not None else Ask(CallService("odd"), deadline=1e306)


async def test_a_question_waits_for_ten_years(world: World) -> None:
    async def never(_: object) -> None:
        await trio.sleep_forever()

    session = await world.spawn(["fine"], plugins=[Asker()], services={"odd": never})
    await session.prompt("go")
    await settle()
    request = world.heard(session).at(AskStarted)[0]
    assert [time - request for _, time in session.inspect().timers] == [TEN_YEARS * 1000]
    await session.abort()


async def test_the_timeout_of_a_tool_is_cut_to_ten_years(world: World) -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return Ok((Text("done"),))

    tool = fake("odd", body, timeout=1e300)
    session = await world.spawn([say(calls=[call("odd")]), "fine"], tools=[tool])
    assert (await session.ask("go")).text == "fine"
    assert tool.spec.timeout == TEN_YEARS


# Plugins


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise SystemExit


@frozen(eq=False)
class Odd(Plugin[object]):
    """Calls a given function before each request, and another one at each event."""

    doing: Callable[[], object]
    heard: Callable[[], object] | None = None

    def before_request(self, hook: BeforeRequest, state: object, ctx: Context) -> Continue[object]:
        doing = self.doing()
        if isinstance(doing, BaseException):
            raise doing
        return doing  # type: ignore[return-value]

    def on_event(self, event: object, state: object, ctx: Context) -> object:
        return state if self.heard is None else self.heard()


@pytest.mark.parametrize(
    "doing",
    [
        UnspeakableError(),
        SystemExit(3),
        BaseException("well"),
        ValueError("half a pair: \ud800"),
        ReplaceMessages((UserMessage((Text(42),)),)),  # type: ignore[arg-type]
        ReplaceMessages((UserMessage(42),)),  # type: ignore[arg-type]
        Continue(None, emits=UnspeakableError),  # type: ignore[arg-type]
    ],
)
async def test_whatever_a_plugin_does_is_reported_and_the_turn_goes_on(world: World, doing: object) -> None:
    session = await world.spawn(["fine"], plugins=[Odd(lambda: doing)])
    assert (await session.ask("go")).text == "fine"
    assert world.heard(session).of(PluginError)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
async def test_a_line_for_the_log_has_its_level(world: World, level: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "agentrail.plugin")
    session = await world.spawn(
        ["fine"], plugins=[Odd(lambda: Continue(None), lambda: Log(level, "well", EMPTY, None))]
    )
    await session.ask("go")
    assert {record.levelname for record in caplog.records if record.getMessage() == "well"} == {level.upper()}


# What users define


@pytest.mark.parametrize("name", ["max_turn_seconds", "stall_timeout", "retry_base", "hibernate_after", "shutdown"])
def test_a_time_of_a_specification_is_cut_to_ten_years(name: str) -> None:
    spec = SessionSpec(model="demo").but(**{name: 1e300})
    spec.check()
    assert getattr(spec.options, name) == TEN_YEARS


def test_a_policy_is_cut_to_what_can_be_counted() -> None:
    assert policy("one_for_one", 3, 10**400).period == TEN_YEARS


# Journals and clocks


class OddJournal(MemoryJournal):
    """Returns *odd* from one of its methods."""

    def __init__(self, method: str, odd: object) -> None:
        super().__init__(encode=True)
        self.method = method
        self.odd = odd

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        found_claim = await super().claim(session_id, holder, lease, take_over=take_over)
        return self.odd if self.method == "claim" else found_claim  # type: ignore[return-value]

    async def append(self, claim: Claim, expected: int, records: object) -> int:
        actual = await super().append(claim, expected, records)  # type: ignore[arg-type]
        return self.odd if self.method == "append" else actual  # type: ignore[return-value]

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        records = await super().read(session_id, after, limit)
        return self.odd if self.method == "read" else records  # type: ignore[return-value]

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        actual = await super().answer(session_id, command)
        return self.odd if self.method == "answer" else actual  # type: ignore[return-value]

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        found_latest = await super().latest(session_id, upto, limit)
        if self.method == "snapshot":
            return found_latest.but(snapshot=self.odd)
        if self.method == "read":
            return found_latest.but(records=self.odd)
        return self.odd if self.method == "latest" else found_latest  # type: ignore[return-value]

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        found_sessions = await super().sessions(wanted, after, limit)
        return self.odd if self.method == "sessions" else found_sessions  # type: ignore[return-value]

    async def summary(self, session_id: str) -> StoredSession | None:
        actual = await super().summary(session_id)
        return self.odd if self.method == "summary" else actual  # type: ignore[return-value]


@pytest.mark.parametrize("head", [None, -3, 0, 10**400, "7", math.nan])
async def test_a_journal_that_tells_of_another_head_is_written_on(head: object) -> None:
    async with open_supervisor(journal=OddJournal("append", head)) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine", "well"])))
        assert (await session.ask("go")).text == "fine"
        assert (await session.ask("go")).text == "well"


@pytest.mark.parametrize("expected", [None, 3, Claim("another", 1, 0), Claim("mine", 1, "0")])  # type: ignore[arg-type]
async def test_a_journal_that_gives_no_claim_starts_no_session(expected: object) -> None:
    async with open_supervisor(journal=OddJournal("claim", expected)) as supervisor:
        with pytest.raises(BadJournal, match="claim"):
            await supervisor.spawn(SessionSpec(model=ScriptedModel([])), "mine")


@pytest.mark.parametrize("expected", [(3,), [None], ("record",)])
async def test_a_journal_that_reads_no_records_is_told_so(expected: object) -> None:
    journal = OddJournal("", expected)
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["fine", "well"]))
        session = await supervisor.spawn(spec)
        await session.ask("go")
        journal.method = "read"
        with pytest.raises(BadRecord, match="the journal gave"):
            await supervisor.fork(session.id, spec)
        assert (await session.ask("go")).text == "well"


@pytest.mark.parametrize("ids", [("c", "b"), ("b", "b"), ("a",), ("0",)])
async def test_a_journal_that_lists_sessions_out_of_order_or_twice_is_refused(ids: tuple[str, ...]) -> None:
    held = CheckedJournal(OddJournal("sessions", tuple(StoredSession(name, 1) for name in ids)))
    with pytest.raises(BadJournal, match="a session that comes later"):
        await held.sessions(after=StoredSession("a", 1))


@pytest.mark.parametrize("odd", [StoredSession("b", 1), "a", StoredSession("a", "1"), ()])  # type: ignore[arg-type]
async def test_a_journal_that_gives_no_summary_of_the_session_is_refused(odd: object) -> None:
    with pytest.raises(BadJournal, match="`summary`"):
        await CheckedJournal(OddJournal("summary", odd)).summary("a")


class Exits:
    """Raises `SystemExit` when an attribute of it is asked for."""

    def __getattr__(self, name: str) -> object:
        raise SystemExit


STRANGE: Final[tuple[Callable[[Record], Record], ...]] = (
    lambda record: record.but(number=record.number + 1),
    lambda record: record.but(session_id="another"),
    lambda record: record.but(events=tuple(event.but(session_id="another") for event in record.events)),
    lambda record: record.but(events=record.events[::-1] * 2),
    lambda record: record.but(change=Change(history=Exits())),
)


@pytest.mark.parametrize("strange", STRANGE)
async def test_a_record_of_something_else_is_refused_when_it_is_read(strange: Callable[[Record], Record]) -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])))
        (first, *_) = await journal.read(session.id)
        with pytest.raises(BadRecord):
            await CheckedJournal(OddJournal("read", (strange(first),))).read(session.id)


async def test_a_snapshot_of_another_session_is_not_believed() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])))
        await session.ask("go")
        state = session.inspect()
        for other in (Snapshot("another", 1, state), Snapshot(session.id, 1, state.but(session_id="another"))):
            held = CheckedJournal(OddJournal("snapshot", other))
            assert (await held.latest(session.id)).snapshot is None


async def test_a_snapshot_with_a_field_of_a_wrong_type_is_not_believed() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])))
        await session.ask("go")
        odd = Snapshot(session.id, 1, session.inspect().but(timers=(("turn", 1.5),)))
        held = CheckedJournal(OddJournal("snapshot", odd))
        assert (await held.latest(session.id)).snapshot is None


async def test_the_beginning_of_another_session_is_not_believed() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])))
        (first, *_) = await journal.read(session.id)
        assert first.opening is not None
        odd = first.but(opening=first.opening.but(session_id="another"))
        held = CheckedJournal(OddJournal("read", (odd,)))
        with pytest.raises(BadRecord, match="which begins as `another`"):
            await held.read(session.id)


@pytest.mark.parametrize("name", sorted({*Record.__struct_fields__} - {"number", "session_id"}))
async def test_each_field_of_a_record_is_looked_at_when_it_is_read(name: str) -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])))
        (first, *_) = await journal.read(session.id)
        held = CheckedJournal(OddJournal("read", (first.but(**{name: object()}),)))
        with pytest.raises(BadRecord, match=f"its `{name}` is an `object`"):
            await held.read(session.id)


async def test_so_is_each_part_of_an_arrival() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])))
        (first, *_) = await journal.read(session.id)
        for name in ("input", "partial", "at", "random"):
            odd = first.but(arrival=first.arrival.but(**{name: object()}))
            with pytest.raises(BadRecord, match=rf"its `arrival\.{name}` is an `object`"):
                await CheckedJournal(OddJournal("read", (odd,))).read(session.id)


async def test_events_that_do_not_follow_each_other_are_named() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])))
        (first, *_) = await journal.read(session.id)
        held = CheckedJournal(OddJournal("read", (first.but(events=first.events * 2),)))
        with pytest.raises(BadRecord, match=f"event 1 of session '{session.id}', where 2 follows"):
            await held.read(session.id)


async def test_records_without_their_beginning_and_no_records_at_all_cannot_be_replayed() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])))
        (first, *more) = await journal.read(session.id)
        journal = OddJournal("read", (first.but(opening=None), *more))
        with pytest.raises(BadRecord, match="it does not say what the session was spawned as"):
            await rebuild_state(journal, session.id)
        journal.odd = ()
        with pytest.raises(BadRecord, match="there are no records"):
            await rebuild_state(journal, session.id)


async def test_states_of_plugins_that_are_not_those_of_the_records_cannot_be_taken_over() -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([]), plugins=[BudgetGuard(max_rounds=1)]))
        live = session.inspect()
        assert with_plugins_of(live, live, 1) == live
        with pytest.raises(ReplayDiffers, match="the states of its plugins"):
            with_plugins_of(live.but(plugin_states=(7,)), live, 1)


class OddInt(int):
    """An `int` that raises when something is added."""

    def __add__(self, _: object) -> int:
        raise ZeroDivisionError


async def test_the_place_of_a_snapshot_is_a_plain_number() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])))
        await session.ask("go")
        held = CheckedJournal(OddJournal("snapshot", Snapshot(session.id, OddInt(1), session.inspect())))
        assert (await held.latest(session.id)).snapshot is None


@pytest.mark.parametrize(
    ("index", "since", "believed"),
    [(1, None, True), (1, 1, True), (1, 0, True), (1, 2, False), (0, None, False), (-1, None, False), (1, -1, False)],
)
async def test_a_snapshot_is_of_a_record_that_is_there_and_not_of_one_before_it(
    index: int, since: int | None, *, believed: bool
) -> None:
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"])))
        snapshot = Snapshot(session.id, index, session.inspect(), since)
        held = CheckedJournal(OddJournal("snapshot", snapshot))
        assert ((await held.latest(session.id)).snapshot == snapshot) is believed


class EqualToAll(str):
    """A text that says of itself that it equals everything."""

    __slots__ = ()

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = str.__hash__


async def test_the_id_in_a_claim_is_a_plain_text() -> None:
    held = CheckedJournal(OddJournal("claim", Claim(EqualToAll("another"), 1, 0)))
    with pytest.raises(BadJournal, match="`claim`"):
        await held.claim("mine", "me")


async def test_a_change_that_cannot_be_written_is_refused_when_it_is_read() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])))
        (first, *_) = await journal.read(session.id)
        held = CheckedJournal(OddJournal("read", (first.but(change=Change(todos=(1.5,))),)))
        with pytest.raises(BadRecord, match="todos"):
            await held.read(session.id)


@pytest.mark.parametrize("parts", [(Text(42),), 42, (None,), (Text("go"), 1.5)])  # type: ignore[arg-type]
async def test_what_is_inside_an_answer_is_refused_and_ends_no_session(parts: object) -> None:
    journal = OddJournal("", None)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["fine"]), hibernate_after=5.0))
        await trio.sleep(60)
        await session.resume()
        journal.method = "answer"
        journal.odd = StoredAnswer(PromptSent(parts), Accepted("p1", "started"))  # type: ignore[arg-type]
        with pytest.raises(BadJournal, match="`answer`"):
            await session.ask("go", command="once")
        journal.method = ""
        assert (await session.ask("go", command="once")).text == "fine"
        assert not supervisor.crashes()


class OddClock(trio.abc.Clock):
    """Shows the given times, one per call."""

    def __init__(self, times: list[object]) -> None:
        self.times = times

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.times.pop(0)  # type: ignore[return-value]

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0.0


def test_time_never_goes_back_and_is_always_a_time() -> None:
    odd = [math.nan, math.inf, -math.inf, 1e300, -1e300, None, "7", True, 10**400]
    clock = Steady(OddClock([5.0, 6.0, 3.0, *odd, 4, 1e300, 5.5, 9e10, 9e10 + 1]))
    assert [clock.now() for _ in range(2 + len(odd))] == [1.0] * (2 + len(odd))
    later = [2.0, 2.0, 3.5, 3.5 + TEN_YEARS, 4.5 + TEN_YEARS]
    assert [clock.now() for _ in range(5)] == pytest.approx(later, abs=1e-3)


def test_time_has_come_for_what_trio_has_waited_for() -> None:
    clock = Steady(OddClock([5.0, 6.0, 6.5, 2.0, 3.0]))
    assert clock.now() == 1.0
    assert clock.deadline(4.0) == 9.0
    clock.reached(4.0)
    clock.reached(2.0)
    assert [clock.now() for _ in range(3)] == [4.5, 4.5, 5.5]
    assert clock.deadline(6.0) == 3.5


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300, 10**400, None, "late", -5.0])
def test_a_time_of_day_that_is_none_begins_in_1970(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrail.runtime.shared.clock.time", SimpleNamespace(time=lambda: value))

    async def main() -> None:
        await trio.lowlevel.checkpoint()
        assert Clock().now_ms() == 0

    trio.run(main, clock=trio.testing.MockClock())


async def test_a_time_of_the_clock_is_a_time_of_day_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrail.runtime.shared.clock.time", SimpleNamespace(time=lambda: 1e9 + 0.0005))
    await trio.sleep(5)
    clock = Clock()
    assert clock.now_ms() == 1_000_000_000_000
    assert clock.ms(clock.now() + 2.0) == clock.now_ms() + 2000
    assert clock.ms(clock.trio_time(clock.now_ms() + 2000)) == clock.now_ms() + 2000


def test_a_session_lives_by_a_clock_that_jumps() -> None:
    class Jumping(OddClock):
        def __init__(self) -> None:
            self.count = 0

        def current_time(self) -> float:
            self.count += 1
            return self.count * 3600.0 - (YEAR if self.count % 5 == 0 else 0.0)

    async def main() -> None:
        assert isinstance(Clock().now_ms(), int)
        async with open_supervisor(stop_within=None) as supervisor:
            model = ScriptedModel(["fine"], repeat_last=True)
            session = await supervisor.spawn(SessionSpec(model=model, stall_timeout=2 * YEAR))  # each look is an hour
            for _ in range(5):
                assert (await session.ask("go")).text == "fine"

    trio.run(main, clock=Jumping())


class Leaping(trio.abc.Clock):
    """A virtual clock that shows another time while `shown` is set."""

    def __init__(self) -> None:
        self.inner = trio.testing.MockClock()
        self.shown: float | None = None

    def start_clock(self) -> None:
        self.inner.start_clock()

    def current_time(self) -> float:
        return self.inner.current_time() if self.shown is None else self.shown

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return self.inner.deadline_to_sleep_time(deadline)


class Steps(trio.abc.Instrument):
    """Counts how often each task runs."""

    def __init__(self) -> None:
        self.of: Counter[trio.lowlevel.Task] = Counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task] += 1


def test_no_task_spins_while_a_clock_shows_infinity() -> None:
    clock = Leaping()
    steps = Steps()
    fired = trio.Event()

    async def main() -> None:
        async with open_supervisor(stop_within=None) as supervisor:
            await trio.testing.wait_all_tasks_blocked()
            clock.shown = math.inf
            supervisor._sessions.shared.timers.set(("s", "due"), 0.0, fired.set)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            trio.lowlevel.add_instrument(steps)
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            trio.lowlevel.remove_instrument(steps)
            clock.shown = None
            steps.of.pop(trio.lowlevel.current_task())
            assert fired.is_set()

    trio.run(main, clock=clock)
    assert not steps.of


class FailsOnce:
    """Asks to be called again in 5 seconds, and then answers."""

    name = "fails-once"

    def __init__(self) -> None:
        self.failed = False

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await trio.lowlevel.checkpoint()
        if not self.failed:
            self.failed = True
            raise RateLimited("later", 5.0)
        return Response((Text("fine"),))


@pytest.mark.parametrize("seconds", [math.inf, 1e300, 4e9, 1e8, math.nan, -math.inf, -1e300, -1000.0])
@pytest.mark.parametrize("limits", [{}, {"fails-once": Limit(requests_per_minute=1)}], ids=["free", "limited"])
def test_no_timer_is_lost_to_a_clock_that_leaps_meanwhile(seconds: float, limits: dict[str, Limit]) -> None:
    clock = Leaping()
    ended: list[str] = []

    async def ask(session: SessionHandle) -> None:
        try:
            ended.append((await session.ask("go")).text)
        except TurnAborted:  # a request that begins while no timeout can be added to the time is over at once
            ended.append("cut")

    async def main() -> None:
        async with open_supervisor(stop_within=None, limits=limits) as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.spawn(SessionSpec(model=FailsOnce()))
            nursery.start_soon(ask, session)
            for _ in range(1_000):
                if session.inspect().timers:
                    break
                await trio.lowlevel.checkpoint()
            clock.shown = seconds
            for _ in range(100):
                await trio.lowlevel.checkpoint()
            clock.shown = None
            for _ in range(3):
                clock.inner.jump(600.0)
                for _ in range(200):
                    await trio.lowlevel.checkpoint()
            assert ended == ["fine"] or (seconds + YEAR == seconds and ended == ["cut"])

    trio.run(main, clock=clock)


@pytest.mark.parametrize("response", [None, "text", 5])
def test_what_is_no_response_is_the_fault_of_the_model(response: object) -> None:
    with pytest.raises(BadResponse):
        fit_response(response)
