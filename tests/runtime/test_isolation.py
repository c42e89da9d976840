"""Failures of all kinds in some sessions do not change the events of the others."""

from collections.abc import Callable

import pytest
import trio

from agentrail import Context, Continue, Plugin, SessionHandle
from agentrail.errors import AgentrailError
from agentrail.events import Envelope
from agentrail.journals import Record
from agentrail.plugins import BeforePrompt
from agentrail.testing import call, fail, say, stall
from agentrail.tools import tool
from tests.profiles import CAMPAIGN
from tests.runtime.journals import BROKEN, TestJournal
from tests.runtime.world import open_world

pytestmark = pytest.mark.long

SESSIONS, ROUNDS = (200, 5) if CAMPAIGN else (48, 2)
"""Number of sessions; every second one fails."""


class Swallowed(BaseException):
    """An error that `except Exception` does not catch."""


def nested(depth: int) -> Exception:
    return KeyError("deep") if not depth else ExceptionGroup("outer", [ValueError("a"), nested(depth - 1)])


def endless(depth: int = 0) -> int:
    return endless(depth + 1) + 1


IN_PLUGINS: dict[str, Callable[[], object]] = {
    "raise": lambda: _raise(ValueError("bug")),
    "group": lambda: _raise(nested(5)),
    "recursion": endless,
    "memory": lambda: _raise(MemoryError()),
    "exit": lambda: _raise(GeneratorExit()),
    "base": lambda: _raise(Swallowed()),
    "wrong": lambda: "no action",
}


def _raise(error: BaseException) -> None:
    raise error


class Faulty(Plugin):
    """Fails at prompts that name a kind of failure."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        expected = IN_PLUGINS.get(hook.text)
        return Continue() if expected is None else expected()  # type: ignore[return-value]  # wrong on purpose


@tool
async def break_down(how: str) -> str:
    """Break.

    Args:
        how: in which way
    """
    if how == "tool swallows":
        try:
            await trio.sleep(100)
        except trio.Cancelled:
            return "never mind"  # noqa: ASYNC103 - this is what the test is about
    elif how == "tool wrong":
        return object()  # type: ignore[return-value]
    elif how == "tool recursion":
        return f"{endless()}"
    raise nested(3) if how == "tool group" else ZeroDivisionError(how)


IN_TOOLS = ("tool raise", "tool group", "tool wrong", "tool recursion", "tool swallows")
KINDS = (*IN_PLUGINS, *IN_TOOLS, "model", "commit", "written", "timer")


async def cause(session: SessionHandle, kind: str) -> None:
    """Cause one failure, and wait until it is over."""
    with trio.move_on_after(3):
        await session.prompt(kind)
        await trio.sleep(1)
        await session.abort()


def script(kinds: list[str]) -> list[object]:
    """Return the script for the model of a session that fails in these ways."""
    values: list[object] = []
    for kind in kinds:
        if kind in IN_TOOLS:
            values += [say(calls=[call("break_down", {"how": kind})]), "so it is"]
        elif kind == "model":
            values.append(fail(TypeError("model")))
        elif kind == "timer":
            values.append(stall())
        elif kind not in IN_PLUGINS or kind == "wrong":
            values.append("fine")
    return [*values, *["fine"] * 20]


def kinds_of(number: int) -> list[str]:
    return [KINDS[(number // 2 + step * 5) % len(KINDS)] for step in range(ROUNDS)]


def events(envelopes: list[Envelope]) -> list[tuple[object, ...]]:
    return [(e.session_id, e.seq, e.n, e.turn, e.round, e.event) for e in envelopes if e.event.durable]


async def campaign(*, faulty: bool) -> tuple[dict[str, list[tuple[object, ...]]], int]:
    """Run sessions of which every second one fails (or none); return the events of the sessions that work."""
    journal = TestJournal()

    breaking: list[tuple[str, str]] = []
    after: list[tuple[str, str]] = []

    def once(places: list[tuple[str, str]]) -> Callable[[Record], Exception | None]:
        def failing(record: Record) -> Exception | None:
            index = (record.session_id, type(record.arrival.input).__name__)
            if index not in places:
                return None
            places.remove(index)
            return BROKEN

        return failing

    journal.failing, journal.fails_after = once(breaking), once(after)
    failures = 0
    async with open_world(journal) as world:
        handles = [
            await world.spawn(
                script(kinds_of(number)) if number % 2 else ["fine"] * ROUNDS,  # type: ignore[arg-type]
                f"s{number}",
                plugins=[Faulty()],
                tools=[break_down],
                max_turn_seconds=0.5,
            )
            for number in range(SESSIONS)
        ]
        for step in range(ROUNDS):
            async with trio.open_nursery() as nursery:
                for number, session in enumerate(handles):
                    if number % 2 == 0:
                        nursery.start_soon(session.ask, f"work {step}")
                    elif faulty:
                        kind = kinds_of(number)[step]
                        failures += 1
                        if kind == "commit":
                            breaking.append((session.id, "PromptSent"))
                        elif kind == "written":
                            after.append((session.id, "StreamEnded"))
                        elif kind == "timer":
                            breaking.append((session.id, "TimerFired"))
                        nursery.start_soon(_quietly, session, kind)
        return {h.id: events(world.heard(h).envelopes) for h in handles[::2]}, failures


async def _quietly(session: SessionHandle, kind: str) -> None:
    try:
        await cause(session, kind)
    except AgentrailError:
        return  # whoever fails is told; what counts here is that nobody else is


async def test_failures_stay_in_their_sessions() -> None:
    expected, none = await campaign(faulty=False)
    actual, failures = await campaign(faulty=True)
    assert (none, failures) == (0, SESSIONS // 2 * ROUNDS)
    assert len(KINDS) >= 12
    assert actual == expected
    assert all(len(heard) > 3 * ROUNDS for heard in actual.values())
