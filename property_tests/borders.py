"""Plays sessions whose models, tools, plugins, services and journals return odd values: no value may end a session.

Each scene plays one session from a seed of its own, so that a value which breaks something can be found again.
"""

from __future__ import annotations

import gc
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NoReturn, cast

import trio
import trio.testing
from attrs import frozen

from agentrail import (
    Abort,
    Ask,
    BlockTool,
    Context,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    Plugin,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolArgs,
    ReplaceToolResult,
    SessionHandle,
    SessionSpec,
    SetSection,
    Skip,
    State,
    Supervisor,
    SwitchModel,
    open_supervisor,
)
from agentrail.errors import AgentrailError, SessionCrashed
from agentrail.events import PluginEvent
from agentrail.hooks.actions import Emission
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.journals import (
    ALL_SESSIONS,
    NO_LEASE,
    Claim,
    Latest,
    Lease,
    MemoryJournal,
    Record,
    Redaction,
    SessionFilter,
    Snapshot,
    StoredAnswer,
    StoredSession,
)
from agentrail.models import (
    CallChunk,
    Data,
    EmitChunk,
    FrozenObject,
    Image,
    JsonObject,
    ModelRequest,
    Response,
    StopReason,
    Text,
    TextChunk,
    Thinking,
    ThinkingChunk,
    ToolCall,
    Usage,
    UsageChunk,
    UserMessage,
)
from agentrail.plugins import CallModel, CallService, ChangeTools, FindFiles, Log, ReadFile, RunTool
from agentrail.runtime.handle import wake
from agentrail.tools import AskPerson, CompactNow, Effect, Err, Ok, SetTodos, Todo, ToolContext, ToolResult, ToolSpec
from agentrail.values.value import Value
from property_tests import hostile
from property_tests.hostile import Chance, draw, draw_error, draw_number, draw_usage
from tests.kit import Phase

MOST_CPU: Final = 0.050
"""Seconds of CPU that a step may take."""

LONG_TIME: Final = 50 * 31_536_000.0
"""Seconds of virtual time after which a turn that rests is aborted; longer than any time limit."""

MOST_ATTEMPTS: Final = 50
"""How often spawning a session is tried until the odd journal lets it start."""

OF_THE_JOURNAL: Final = frozenset({"BadJournal", "BadRecord", "Fenced", "ReplayDiffers"})
"""Errors by which a session may crash if its journal returns wrong values."""

COME_BACK: Final = 4
"""Every fourth scene plays a session that sleeps, wakes, crashes and comes back (`comeback`)."""

SCHEMA: Final = FrozenObject({"type": "object"})


class Source:
    """Draws odd values from a seed, and counts them by port; while `calm`, ports use none."""

    def __init__(self, seed: int) -> None:
        self.chance: Chance = random.Random(seed)
        self.given: Counter[str] = Counter()
        self.calm = False
        self._seed = seed

    def __hash__(self) -> int:
        """Return a hash of the seed: the plugin of a scene has its source as an option, which must be a value."""
        return hash(self._seed)

    def next(self, port: str, how: Callable[[Chance], object] = draw) -> object:
        """Return an odd value for a *port*."""
        self.given[port] += 1
        return how(self.chance)

    def one_in(self, few: int) -> bool:
        """Whether a port is to be odd now: in one of *few* cases, and never while `calm`."""
        return not self.calm and not self.chance.randrange(few)


# Models


def _chunk(source: Source) -> object:
    odd = source.next("model")
    return source.chance.choice(
        (
            odd,
            TextChunk(odd),  # type: ignore[arg-type]
            ThinkingChunk(odd),  # type: ignore[arg-type]
            CallChunk(odd),  # type: ignore[arg-type]
            UsageChunk(source.next("model", draw_usage)),  # type: ignore[arg-type]
            UsageChunk(Usage(source.next("model", draw_number), 3)),  # type: ignore[arg-type]
        )
    )


def _response(source: Source) -> object:
    odd = source.next("model")
    number = source.next("model", draw_number)
    return source.chance.choice(
        (
            odd,
            Response(odd),  # type: ignore[arg-type]
            Response((Text(odd),)),  # type: ignore[arg-type]
            Response((odd, Text("well"))),  # type: ignore[arg-type]
            Response((Thinking("hm", odd), Text("well"))),  # type: ignore[arg-type]
            Response((Text("well"),), odd),  # type: ignore[arg-type]
            Response((), (odd,)),  # type: ignore[arg-type]
            Response((), (ToolCall(odd, "odd"),)),  # type: ignore[arg-type]
            Response((), (ToolCall("", odd),)),  # type: ignore[arg-type]
            Response((), (ToolCall("", "odd", odd),)),  # type: ignore[arg-type]
            Response((), (ToolCall("", "odd", {"a": odd}, odd),)),  # type: ignore[arg-type, dict-item]
            Response((Text("well"),), (), odd),  # type: ignore[arg-type]
            Response((Text("well"),), usage=odd),  # type: ignore[arg-type]
            Response((Text("well"),), usage=source.next("model", draw_usage)),  # type: ignore[arg-type]
            Response((Text("well"),), usage=Usage(number, 3)),  # type: ignore[arg-type]
            Response((Text("well"),), usage=Usage(3, 3, cost_usd=number)),  # type: ignore[arg-type]
        )
    )


class OddModel:
    """A model that emits odd chunks, then calls tools; now and then it raises or returns something odd."""

    name = "odd"

    def __init__(self, source: Source, calls: int) -> None:
        self.source = source
        self.calls = calls

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer the request, oddly unless the source is calm."""
        source = self.source
        if source.calm:
            await trio.lowlevel.checkpoint()
            emit(TextChunk("fine"))
            return Response((Text("fine"),), usage=Usage(3, 3))
        for _ in range(6):
            with suppress(BaseException):
                emit(_chunk(source))  # type: ignore[arg-type]
        await trio.lowlevel.checkpoint()
        if source.one_in(6):
            raise cast("BaseException", source.next("model", draw_error))
        if source.one_in(3):
            return _response(source)  # type: ignore[return-value]
        if request.may_call and not any(getattr(message, "calls", ()) for message in request.messages[-12:]):
            return Response((), tuple(ToolCall("", "odd") for _ in range(self.calls)), StopReason.TOOL_CALLS)
        return Response((Text("well"),), usage=Usage(3, 3))


# Tools


def _result(source: Source) -> object:
    odd = source.next("tool")
    return source.chance.choice(
        (
            odd,
            Ok(odd),  # type: ignore[arg-type]
            Ok((Text(odd),)),  # type: ignore[arg-type]
            Ok((Data(odd),)),  # type: ignore[arg-type]
            Ok((Image(odd, odd), Text("x"))),  # type: ignore[arg-type]
            Ok((Text("well"),), odd),  # type: ignore[arg-type]
            Err((Text("well"),), {"a": odd}),  # type: ignore[dict-item]
            Effect(odd),  # type: ignore[arg-type]
            Effect(SetTodos(odd)),  # type: ignore[arg-type]
            Effect(SetTodos((Todo("x", odd), Todo(odd)))),  # type: ignore[arg-type]
            Effect(CompactNow(odd)),  # type: ignore[arg-type]
            Effect(AskPerson(odd, (odd,))) if source.one_in(4) else Ok((Text("well"),)),  # type: ignore[arg-type]
        )
    )


class OddTool:
    """A tool that reports, returns and raises odd values."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.spec = ToolSpec("odd", "an odd tool", SCHEMA, timeout=1e300)

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Report odd values, then return or raise one."""
        await trio.lowlevel.checkpoint()
        source = self.source
        for _ in range(2):
            with suppress(BaseException):
                ctx.report(source.next("tool"))  # type: ignore[arg-type]
        if source.one_in(4):
            raise cast("BaseException", source.next("tool", draw_error))
        return _result(source)  # type: ignore[return-value]


# Plugins


def _action(source: Source) -> object:
    odd = source.next("plugin")
    number = source.next("plugin", draw_number)
    files = (ReadFile(odd), FindFiles(odd), FindFiles((), odd), FindFiles((), (), (), odd), ChangeTools(odd, odd))  # type: ignore[arg-type]
    request = source.chance.choice(
        (*files, CallModel(odd), CallModel("well", odd), RunTool("odd", odd), CallService("odd", odd), odd)  # type: ignore[arg-type]
    )
    return source.chance.choice(
        (
            odd,
            Continue(odd),
            Continue(None, emits=odd),  # type: ignore[arg-type]
            Continue(None, emits=(Emission(odd, odd),)),  # type: ignore[arg-type]
            Continue(None, emits=(PluginEvent("odd", odd, odd),)),  # type: ignore[arg-type]
            Intervene(odd),  # type: ignore[arg-type]
            Skip(None),
            Emit(odd, odd),  # type: ignore[arg-type]
            Emit(((odd, odd),)),  # type: ignore[arg-type]
            Emit("well", odd),  # type: ignore[arg-type]
            SwitchModel(odd, odd),  # type: ignore[arg-type]
            SetSection(odd, odd),  # type: ignore[arg-type]
            SetSection("well", odd),  # type: ignore[arg-type]
            ReplacePrompt(odd),  # type: ignore[arg-type]
            ReplaceResponse(odd),  # type: ignore[arg-type]
            ReplaceMessages(odd),  # type: ignore[arg-type]
            ReplaceMessages((odd, UserMessage((Text("x"),)))),  # type: ignore[arg-type]
            ReplaceMessages((UserMessage(odd),)),  # type: ignore[arg-type]
            ReplaceToolArgs(odd),  # type: ignore[arg-type]
            ReplaceToolResult(odd),  # type: ignore[arg-type]
            ReplaceToolResult(Ok((Text(odd),), odd)),  # type: ignore[arg-type]
            BlockTool(odd),  # type: ignore[arg-type]
            HoldTool(odd, timeout=number, family=odd),  # type: ignore[arg-type]
            HoldTool("well", timeout=number),  # type: ignore[arg-type]
            Abort(odd) if source.one_in(4) else Continue(None),  # type: ignore[arg-type]
            Ask(request, deadline=number),  # type: ignore[arg-type]
            *(Ask(CallService("odd", 1), deadline=5.0),) * 6,
            Ask(CallModel("well"), deadline=number),  # type: ignore[arg-type]
        )
    )


@frozen(eq=False)
class OddPlugin(Plugin[object]):
    """A plugin that answers half of its hooks with something odd."""

    source: Source

    def on_event(self, event: object, state: object, ctx: Context) -> object:
        """Return the state, or now and then an odd log line, or raise something odd."""
        if not self.source.one_in(6):
            return state
        odd = self.source.next("plugin")
        if self.source.one_in(8):
            raise cast("BaseException", self.source.next("plugin", draw_error))
        return Log(odd, odd, odd, state) if self.source.one_in(2) else Log("info", "well", {"a": odd}, odd)  # type: ignore[arg-type, dict-item]


def _hook(self: OddPlugin, _hook: object, state: object, _ctx: Context) -> object:
    source = self.source
    if not source.one_in(2):
        return Continue(state)
    if source.one_in(8):
        raise cast("BaseException", source.next("plugin", draw_error))
    return _action(source)


for _name in HOOK_NAMES - {"session_start", "session_end"}:
    setattr(OddPlugin, _name, _hook)


def _odd_service(source: Source) -> Callable[[object], object]:
    async def service(_: object) -> object:
        await trio.lowlevel.checkpoint()
        if source.one_in(4):
            raise cast("BaseException", source.next("service", draw_error))
        return source.next("service")

    return service


# Journals


class Steps(trio.abc.Instrument):
    """Trio instrument that measures the longest step of a task, by default in CPU seconds of the thread."""

    def __init__(self, measure: Callable[[], float] = time.thread_time) -> None:
        self.longest = 0.0
        self._measure = measure
        self._began = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note the measure at the start of the step."""
        self._began = self._measure()

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Do not count what is done while this is open; nothing may be awaited in it."""
        began = self._measure()
        try:
            yield
        finally:
            self._began += self._measure() - began

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Measure the step that ends."""
        self.longest = max(self.longest, self._measure() - self._began)


def _other_field(source: Source, found: Value, depth: int = 4) -> Value:
    """Return *found* with an odd value in one of its fields, or in a value inside of it."""
    fields = sorted(type(found).__struct_fields__)
    if not fields:
        return found
    name = source.chance.choice(fields)
    held: object = getattr(found, name)
    inside = held[0] if isinstance(held, tuple) and held else held
    if depth and isinstance(inside, Value) and source.chance.randrange(3):
        odd: object = _other_field(source, inside, depth - 1)
        return found.but(**{name: (odd, *held[1:]) if isinstance(held, tuple) else odd})
    return found.but(**{name: source.next("journal", source.chance.choice((draw, draw_number)))})


def _other_records(source: Source, found: Sequence[Record]) -> Sequence[object]:
    """Return *found* with one record changed, doubled or left out."""
    place = source.chance.randrange(len(found))
    record = found[place]
    changed = source.chance.choice(
        (
            *((_other_field(source, record),),) * 4,
            (),
            (record, record),
            (record.but(events=record.events[1:]),),
            (record.but(events=record.events[::-1]),),
            (record.but(arrival=source.chance.choice(found).arrival),),
        )
    )
    return (*found[:place], *changed, *found[place + 1 :])


class OddJournal:
    """A journal in memory that does what it is asked, but now and then returns something odd.

    It encodes records within the step that calls it. A journal on disk does so in a thread of its own, so this time
    does not count for the step.
    """

    def __init__(self, steps: Steps) -> None:
        self.inner = MemoryJournal(encode=True)
        self.steps = steps
        self.source: Source | None = None

    def _odd(self, found: object) -> object:
        source = self.source
        if source is None or not source.one_in(3):
            return found
        odd = source.next("journal")
        number = source.next("journal", draw_number)
        match found:
            case Claim() as claim:
                made: Sequence[object] = (claim.but(head=number), claim.but(session_id=odd), claim.but(epoch=number))
            case Latest(snapshot, records):
                part = self._odd(records)
                made = (found.but(records=cast("tuple[Record, ...]", part)),)
                if snapshot is not None:
                    others = (snapshot.but(number=number), snapshot.but(session_id=odd), snapshot.but(state=odd), odd)
                    made += tuple(found.but(snapshot=cast("Snapshot", other)) for other in others)
            case (Record() as record, *rest):
                made = ((record.but(number=number), *rest), (record.but(session_id=odd), *rest), (odd, *rest))
                made = (*made, *(_other_records(source, cast("Sequence[Record]", found)) for _ in range(4)))
            case StoredAnswer() as answer:
                made = (_other_field(source, answer), _other_field(source, answer))
            case (StoredSession() as stored, *rest):
                made = ((stored.but(head=number), *rest), (stored.but(session_id=odd), *rest), (odd, *rest))
            case _:
                made = (number,)
        return source.chance.choice((odd, *made))

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Claim the session; maybe return an odd claim."""
        with self.steps.apart():
            found = await self.inner.claim(session_id, holder, lease, take_over=take_over)
        return cast("Claim", self._odd(found))

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Renew leases; maybe return odd claims."""
        with self.steps.apart():
            found = await self.inner.renew(claims, lease)
        return cast("tuple[Claim, ...]", self._odd(found))

    async def release(self, claims: Sequence[Claim]) -> None:
        """Release claims."""
        with self.steps.apart():
            await self.inner.release(claims)

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write the records; maybe return an odd head."""
        with self.steps.apart():
            found = await self.inner.append(claim, expected, records)
        return cast("int", self._odd(found))

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return records, maybe odd ones."""
        with self.steps.apart():
            found = await self.inner.read(session_id, after, limit)
        return cast("tuple[Record, ...]", self._odd(found))

    async def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of a record, maybe an odd one."""
        with self.steps.apart():
            found = await self.inner.record_of_seq(session_id, seq)
        return cast("int", self._odd(found))

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return a stored answer, maybe an odd one."""
        with self.steps.apart():
            found = await self.inner.answer(session_id, command)
        return cast("StoredAnswer | None", self._odd(found))

    async def sessions(
        self, wanted: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        """Return stored sessions, maybe odd ones."""
        with self.steps.apart():
            found = await self.inner.sessions(wanted, after, limit)
        return cast("tuple[StoredSession, ...]", self._odd(found))

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session, maybe an odd one."""
        with self.steps.apart():
            found = await self.inner.summary(session_id)
        return cast("StoredSession | None", self._odd(found))

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Keep a snapshot."""
        with self.steps.apart():
            await self.inner.keep(claim, snapshot)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return a snapshot and records, maybe odd ones."""
        with self.steps.apart():
            found = await self.inner.latest(session_id, upto, limit)
        return cast("Latest", self._odd(found))

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete a session, and say maybe something odd."""
        with self.steps.apart():
            found = await self.inner.delete(session_id, holder, at)
        return cast("int", self._odd(found))

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Redact a session, and say maybe something odd."""
        with self.steps.apart():
            found = await self.inner.redact(session_id, first, last, note, holder)
        return cast("int", self._odd(found))

    async def close(self) -> None:
        """Close."""
        await self.inner.close()


# Scenes


@contextmanager
def quiet() -> Iterator[None]:
    """Format log lines but write them nowhere; keep values made before out of garbage collections."""
    log = logging.getLogger("agentrail")
    nowhere = logging.Handler()
    nowhere.emit = nowhere.format  # type: ignore[assignment, method-assign]
    propagate, log.propagate = log.propagate, False
    log.addHandler(nowhere)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        log.removeHandler(nowhere)
        log.propagate = propagate


def _refuse(problem: str) -> NoReturn:
    raise AssertionError(problem)


def _check_usage(before: State, after: State) -> None:
    """Check that no count of the usage, and not the cost, fell."""
    for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cache_write_tokens"):
        if not getattr(before.usage, name) <= getattr(after.usage, name):
            _refuse(f"`{name}` fell from {before.usage} to {after.usage}")
    was, is_now = before.usage.cost_usd, after.usage.cost_usd
    if was is not None and is_now is not None and is_now < was:
        _refuse(f"the cost fell from {before.usage} to {after.usage}")


async def _turn(session: SessionHandle) -> None:
    """Play one turn; abort it if it rests or hangs."""
    with trio.move_on_after(LONG_TIME), suppress(AgentrailError):
        await session.ask("go")
    if session.inspect().phase is not Phase.IDLE or session.inspect().turn is not None:
        await session.abort()


async def scene(supervisor: Supervisor, journal: OddJournal, seed: int, turns: int = 3, calls: int = 6) -> Counter[str]:
    """Play one session, and return how many odd values each port gave it; raise if any of them harms it."""
    source = Source(seed)
    journal.source = source
    known = supervisor.crashes()  # an earlier scene's session may have crashed by its odd journal
    spec = SessionSpec(
        model=OddModel(source, calls),
        tools=[OddTool(source)],
        plugins=[OddPlugin(source)],
        services={"odd": _odd_service(source)},  # type: ignore[dict-item]
        max_rounds=6,
        max_retries=1,
    )
    name = f"odd-{seed}"
    try:
        session = await _spawned(supervisor, spec, name)
        for _ in range(turns):
            before = session.inspect()
            await _turn(session)
            _check_usage(before, session.inspect())
            with suppress(AgentrailError):
                await supervisor.stored(None, StoredSession(name[:-1], 1), 3)
            with suppress(AgentrailError):
                await (await supervisor.fork(session.id, spec)).stop()
        source.calm = True
        reply = None
        with trio.move_on_after(LONG_TIME):
            reply = await session.ask("are you there?")
        if reply is None or reply.text != "fine":
            _refuse(f"the session does not answer any more: {reply}, {session.inspect().phase}")
        await session.stop()
        crashed = [one for one in supervisor.crashes() if one not in known]
        if crashed:
            _refuse(f"it has crashed: {crashed}")
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        source.calm = True
        journal.source = None
        hostile.close_coroutines()
    return source.given


async def comeback(supervisor: Supervisor, journal: OddJournal, seed: int) -> Counter[str]:
    """Play a session that sleeps, wakes, gets command ids, is left in a turn, and comes back; return as `scene`."""
    source = Source(seed)
    spec = SessionSpec(
        model=OddModel(source, 2), tools=[OddTool(source)], max_rounds=6, max_retries=1, hibernate_after=9
    )
    name = f"back-{seed}"
    source.calm = True
    try:
        async with open_supervisor(journal=journal, seed=1, lease=LONG_TIME) as first:
            session = await first.spawn(spec, name)
            journal.source = source
            for number in range(3):
                source.calm = False
                with trio.move_on_after(LONG_TIME), suppress(AgentrailError):
                    await session.ask("go", command=f"id{number % 2}")
                with suppress(AgentrailError):
                    await trio.sleep(30)
                    await wake(session)
            with suppress(AgentrailError):
                await session.prompt("go on")
            _check_crashes(first)
        for _ in range(5):
            with suppress(AgentrailError):
                await wake(await supervisor.open(name, spec))
        source.calm = True
        with _set_aside_by_the_journal(supervisor):
            back = await supervisor.open(name, spec)
            await wake(back)
            await back.abort()
            reply = await back.ask("are you there?")
            if reply.text != "fine":
                _refuse(f"the session does not answer any more: {reply}")
            await back.stop()
        _check_crashes(supervisor)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        source.calm = True
        journal.source = None
        hostile.close_coroutines()
    return source.given


@contextmanager
def _set_aside_by_the_journal(supervisor: Supervisor) -> Iterator[None]:
    """Accept `SessionCrashed` while this is open, if wrong values of the journal were the cause.

    The journal may also say that the session has crashed, when nothing has: then no crash is reported.
    """
    try:
        yield
    except SessionCrashed as error:
        _, cause = error.args
        has_crashed = any(cause == one.reason.text for one in supervisor.crashes())
        if has_crashed and cause.partition(":")[0] not in OF_THE_JOURNAL:
            raise


def _check_crashes(supervisor: Supervisor) -> None:
    """Check that sessions crashed only by wrong values of the journal."""
    strange = [one for one in supervisor.crashes() if one.reason.kind not in OF_THE_JOURNAL]
    if strange:
        _refuse(f"it has crashed: {strange}")


async def _spawned(supervisor: Supervisor, spec: SessionSpec, name: str) -> SessionHandle:
    """Spawn the session, trying again when the odd journal makes it fail."""
    for attempt in range(MOST_ATTEMPTS):
        with suppress(AgentrailError):
            return await supervisor.spawn(spec, f"{name}-{attempt}")
    _refuse("it never began")


async def _one(supervisor: Supervisor, journal: OddJournal, seed: int) -> Counter[str]:
    """Play the scene of one seed: `scene`, or for every fourth `comeback`."""
    return await (scene if seed % COME_BACK else comeback)(supervisor, journal, seed)


def play(first: int, wanted: int) -> tuple[Counter[str], list[int], int]:
    """Play scenes from the seed *first* on until *wanted* odd values were drawn.

    Return the number of values by port, the seeds of scenes with a slow step, and the next seed.
    """
    steps = Steps()
    slow: list[int] = []

    async def main() -> tuple[Counter[str], int]:
        journal = OddJournal(steps)
        given: Counter[str] = Counter()
        seed = first
        async with open_supervisor(journal=journal, seed=1, lease=LONG_TIME) as supervisor:
            while given.total() < wanted:
                steps.longest = 0.0
                given += await _one(supervisor, journal, seed)
                if steps.longest > MOST_CPU:
                    slow.append(seed)
                seed += 1
        return given, seed

    with quiet():
        given, seed = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[steps])
    return given, slow, seed


def longest_step(seed: int, measure: Callable[[], float] = time.thread_time) -> float:
    """Play the scene of one seed alone, and return the measure of its longest step."""
    steps = Steps(measure)

    async def main() -> None:
        journal = OddJournal(steps)
        async with open_supervisor(journal=journal, seed=1, lease=LONG_TIME) as supervisor:
            await _one(supervisor, journal, seed)

    with quiet():
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[steps])
    return steps.longest
