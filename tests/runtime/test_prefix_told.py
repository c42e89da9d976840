"""`PrefixChanged`, as subscribers hear it: when, by whom it is heard, and that it costs nothing if nobody does."""

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.events import AgentEnd, Event, MessageStart, PrefixChanged, RequestStart
from agentrail.insight.cache_prefix import CachePrefix
from agentrail.testing import ScriptedModel

MODELS = {"a": lambda _: ScriptedModel(["hello"], repeat_last=True), "b": lambda _: ScriptedModel(["hello"])}
KINDS = (RequestStart, PrefixChanged, MessageStart, AgentEnd)


async def heard_types(session: SessionHandle, *kinds: type[Event]) -> list[type[Event]]:
    """Return the types of the events of a turn, as a subscriber hears them that is there for this turn alone."""
    heard: list[type[Event]] = []
    async with session.subscribe(types=kinds) as events:
        await session.prompt("go on")
        async for envelope in events:
            heard.append(type(envelope.event))
            if isinstance(envelope.event, AgentEnd):
                return heard
    return heard


async def test_it_comes_between_the_request_and_its_response_and_is_of_their_round() -> None:
    async with open_supervisor(models=MODELS) as supervisor:
        session = await supervisor.spawn(SessionSpec(model="a:1"))
        assert await heard_types(session, *KINDS) == [RequestStart, MessageStart, AgentEnd]
        await session.switch_model("b:1")  # while nobody listens
        async with session.subscribe(types=[PrefixChanged]) as events:
            assert await heard_types(session, *KINDS) == [RequestStart, PrefixChanged, MessageStart, AgentEnd]
            report = await anext(events)
            assert (report.event, report.turn, report.round) == (PrefixChanged("model", "b:1", "", 2), 2, 1)
            assert report.n > 0


async def test_it_is_not_stored() -> None:
    async with open_supervisor(models=MODELS) as supervisor:
        session = await supervisor.spawn(SessionSpec(model="a:1"))
        await heard_types(session, *KINDS)
        await session.switch_model("b:1")
        await heard_types(session, *KINDS)
        async with session.subscribe(since=0) as events:
            async for envelope in events:
                assert not isinstance(envelope.event, PrefixChanged)
                if envelope.seq >= session.inspect().last_seq:
                    break


async def test_a_session_of_which_nobody_hears_it_does_no_work_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def followed(*_: object) -> None:
        pytest.fail("it was followed")

    monkeypatch.setattr(CachePrefix, "stepped", followed)
    async with open_supervisor(models=MODELS) as supervisor:
        session = await supervisor.spawn(SessionSpec(model="a:1"))
        assert await heard_types(session, RequestStart, MessageStart, AgentEnd) == [
            RequestStart,
            MessageStart,
            AgentEnd,
        ]


async def test_after_a_sleep_the_first_request_is_compared_with_nothing(autojump_clock: trio.testing.MockClock) -> None:
    del autojump_clock
    async with open_supervisor(models=MODELS) as supervisor:
        session = await supervisor.spawn(SessionSpec(model="a:1", hibernate_after=10))
        await heard_types(session, *KINDS)
        await session.switch_model("b:1")
        await trio.sleep(25)
        assert await heard_types(session, *KINDS) == [RequestStart, MessageStart, AgentEnd]
        await session.switch_model("a:1")
        assert await heard_types(session, *KINDS) == [RequestStart, PrefixChanged, MessageStart, AgentEnd]
