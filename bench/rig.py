"""The job that is measured: an instant model in the process, a tool with two arguments, one subscriber."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import cache

import trio

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, open_supervisor
from agentrail.events import Envelope
from agentrail.journals import NO_LEASE, Claim, Journal, Lease, MemoryJournal, Record, Snapshot
from agentrail.models import EmitChunk, JsonObject, Model, ModelRequest, Response, Text, TextChunk, ToolCall
from agentrail.plugins import AfterResponse, AfterTurn, Attachable, BeforeFinish, BeforePrompt, BeforeRequest, Keyed
from agentrail.tools import Ok, Tool, ToolContext, ToolSpec, ok, tool
from bench import bare
from tests.kit import freeze_object


class Forgetful(MemoryJournal):
    """A journal that keeps nothing: a long run shall not measure the collector on what it has piled up."""

    async def claim(
        self,
        session_id: str,
        holder: str,
        lease: Lease = NO_LEASE,
        *,
        take_over: bool | str = False,
    ) -> Claim:
        """Note nothing of the session."""
        return Claim(session_id, 1, 0)

    async def renew(self, claims: Sequence[Claim], lease: Lease) -> tuple[Claim, ...]:
        """Lose no claim."""
        return ()

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Count the records."""
        return expected + len(records)

    async def keep(self, claim: Claim, snapshot: Snapshot) -> None:
        """Keep no snapshot either: there are no records for it to stand behind."""


@cache
def words(chunks: int) -> tuple[TextChunk, ...]:
    """Return what a model says; all models say the same, so that a thousand of them hold no more than one."""
    return tuple(TextChunk(f"word{number} ") for number in range(chunks))


@cache
def answer(chunks: int) -> Response:
    """Return what a model has said with so many chunks."""
    return Response((Text("".join(chunk.text for chunk in words(chunks))),))


class InstantModel:
    """Answers at once: first with *calls* calls, if any, then with *chunks* chunks."""

    name = "scripted:instant"

    def __init__(self, calls: int = 0, chunks: int = 20, delay: float | None = None) -> None:
        self._chunks = words(chunks)
        self._answer = answer(chunks)
        self._calls = calls
        self._delay = delay
        self._asked = 0

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        if self._calls:
            self._asked += 1
            if self._asked % 2:
                numbers = range(self._calls)
                args = ({"text": "some words", "count": self._asked * 10 + number} for number in numbers)
                return Response((), tuple(ToolCall("", "note", freeze_object(arg)) for arg in args))
        for chunk in self._chunks:
            if self._delay is not None:
                await trio.sleep(self._delay)
            emit(chunk)
        return self._answer


class WrittenModel:
    """A model as its user writes it: it makes each chunk when it says it, and the response at the end."""

    name = "scripted:written"

    def __init__(self, chunks: int = 20) -> None:
        self._texts = [chunk.text for chunk in words(chunks)]

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        for text in self._texts:
            emit(TextChunk(text))
        return Response((Text("".join(self._texts)),))


class Note:
    """A tool with two checked arguments that does nothing."""

    spec = ToolSpec(
        "note",
        "Note something.",
        freeze_object(
            {
                "type": "object",
                "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["text", "count"],
                "additionalProperties": False,
            }
        ),
    )

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        """Do nothing."""
        return ok("noted")


@tool(name="note")
async def note(text: str, count: int) -> str:  # noqa: ARG001, ASYNC124 - it does nothing
    """Note something."""
    return "noted"


async def cpu_of_function(calls: int) -> float:
    """Return the microseconds of CPU that the function behind `note` takes for one call."""
    began = time.process_time()
    for _ in range(calls):
        await note("some words", 3)
    return (time.process_time() - began) / calls * 1e6


class Nothing(Plugin[None]):
    """Does nothing at one hook."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> Continue[None]:
        """Do nothing."""
        return Continue(state)


class Attentive(Plugin[int]):
    """Has every hook of a turn, and `on_event`, and changes nothing: what the first plugin of a session costs."""

    def init(self, ctx: Context) -> int:
        """Return a state."""
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int]:
        """Do nothing."""
        return Continue(state)

    def before_request(self, hook: BeforeRequest, state: int, ctx: Context) -> Continue[int]:
        """Do nothing."""
        return Continue(state)

    def after_response(self, hook: AfterResponse, state: int, ctx: Context) -> Continue[int]:
        """Do nothing."""
        return Continue(state)

    def before_finish(self, hook: BeforeFinish, state: int, ctx: Context) -> Continue[int]:
        """Do nothing."""
        return Continue(state)

    def after_turn(self, hook: AfterTurn, state: int, ctx: Context) -> Continue[int]:
        """Do nothing."""
        return Continue(state)

    def on_event(self, event: Envelope, state: int, ctx: Context) -> int:
        """Learn nothing."""
        return state


def idle_plugins(number: int) -> tuple[Attachable, ...]:
    """Return so many plugins that do nothing at one hook."""
    return tuple(Keyed(f"nothing-{index}", Nothing()) for index in range(number))


async def listen(session: SessionHandle, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Hear everything."""
    async with session.subscribe() as events:
        task_status.started()
        async for _ in events:
            pass


@asynccontextmanager
async def listened_session(
    *,
    calls: int = 0,
    chunks: int = 20,
    plugins: Sequence[Attachable] = (),
    used: Tool = Note(),  # noqa: B008 - it has no state
    window: int | None = None,
    model: Model | None = None,
    journal: Journal | None = None,
) -> AsyncGenerator[SessionHandle, None]:
    """Open a session with one subscriber, who hears all; its *model* is one that is instant unless another is named."""
    async with open_supervisor(journal=journal) as supervisor, trio.open_nursery() as nursery:
        spec = SessionSpec(
            model=model or InstantModel(calls, chunks),
            tools=[used],
            plugins=plugins,
            repeat_pattern=1_000_000,
            context_window=window,
        )
        session = await supervisor.spawn(spec, "listened")  # ids made up at random hash differently
        await nursery.start(listen, session)
        yield session
        nursery.cancel_scope.cancel()


async def cpu_per_turn(
    turns: int,
    *,
    calls: int = 0,
    chunks: int = 20,
    plugins: Sequence[Attachable] = (),
    used: Tool = Note(),  # noqa: B008 - it has no state
) -> float:
    """Return the microseconds of CPU of one turn."""
    async with listened_session(calls=calls, chunks=chunks, plugins=plugins, used=used) as session:
        for _ in range(turns // 5):
            await session.ask("go on")
        began = time.process_time()
        for _ in range(turns):
            await session.ask("go on")
        return (time.process_time() - began) / turns * 1e6


async def cpu_of_growth(turns: int, window: int) -> float:
    """Return how much dearer the last turns of a long session are than the first."""
    async with listened_session() as session:
        costs: list[float] = []
        for _ in range(turns):
            began = time.process_time()
            await session.ask("go on")
            costs.append(time.process_time() - began)
        return sorted(costs[-window:])[window // 2] / sorted(costs[:window])[window // 2]


async def cpu_of_bare_turn(turns: int, *, calls: int = 0) -> float:
    """Return the microseconds of CPU of one turn on bare Trio."""
    async with trio.open_nursery() as nursery:
        box, events, done = bare.Wake(), bare.Wake(), bare.Wake()
        nursery.start_soon(bare.session, nursery, box, events, done, 20, None)
        nursery.start_soon(bare.subscriber, events)
        began = 0.0
        for number in range(turns + turns // 5):
            if number == turns // 5:
                began = time.process_time()
            box.put(("prompt", calls))
            await done.take()
        spent = time.process_time() - began
        nursery.cancel_scope.cancel()
    return spent / turns * 1e6
