"""Limits of providers: they are never exceeded, sessions take turns, and a cancelled request frees its slot."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import define, field

from agentrail import Secret, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.errors import BadChoice, RateLimited, TurnAborted, WrongType
from agentrail.events import StreamStalled
from agentrail.models import Chunk, EmitChunk, Json, Limit, ModelRequest, Response, Text, TextChunk, Usage, UserMessage
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.permits import LimitKey, Waiter
from agentrail.runtime.shared.provider_limits import Lane, ProviderLimits, Ticket
from agentrail.runtime.shared.timers import Timers
from tests.profiles import CAMPAIGN

TIMES = 500 if CAMPAIGN else 30


@define
class Provider:
    """Answers after a while, and notes who asked at which time."""

    name: str = "acme:large"
    takes: float = 1.0
    usage: Usage = field(factory=Usage)
    errors: list[RateLimited] = field(factory=list)
    asked: list[tuple[str, float]] = field(factory=list)
    out: int = 0
    most: int = 0

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        self.asked.append((request.session_id, trio.current_time()))
        self.out += 1
        self.most = max(self.most, self.out)
        try:
            if self.errors:
                raise self.errors.pop(0)
            emit(TextChunk("well"))
            await trio.sleep(self.takes)
        finally:
            self.out -= 1
        return Response((Text("well"),), usage=self.usage)

    @property
    def whom(self) -> str:
        return "".join(session_id for session_id, _ in self.asked)

    def times(self, start: float) -> list[float]:
        return [round(time - start, 3) for _, time in self.asked]


@asynccontextmanager
async def limited(**limits: Limit) -> AsyncIterator[Supervisor]:
    async with open_supervisor(limits=limits) as supervisor:
        yield supervisor


async def ask(session: SessionHandle, times: int = 1) -> None:
    for _ in range(times):
        await session.ask("hello")


async def all_ask(supervisor: Supervisor, provider: Provider, names: str, times: int = 1) -> float:
    """Let sessions of these *names* ask at once, *times* times each; return the time at which they began."""
    sessions = [await supervisor.spawn(SessionSpec(model=provider), name) for name in names]
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(ask, session, times)
    return began


# Through a supervisor


async def test_no_more_requests_are_out_than_may_be() -> None:
    provider = Provider()
    async with limited(acme=Limit(concurrency=2)) as supervisor:
        began = await all_ask(supervisor, provider, "abcde")
    assert (provider.most, provider.times(began)) == (2, [0, 0, 1, 1, 2])


async def test_sessions_take_turns() -> None:
    provider = Provider()
    async with limited(acme=Limit(concurrency=1)) as supervisor:
        await all_ask(supervisor, provider, "abc", times=3)
    assert sorted(provider.whom[:3]) == ["a", "b", "c"]
    assert provider.whom == provider.whom[:3] * 3


async def test_a_minute_has_no_more_requests_than_may_be() -> None:
    provider = Provider(takes=0.0)
    async with limited(acme=Limit(requests_per_minute=2)) as supervisor:
        began = await all_ask(supervisor, provider, "abcde")
    assert provider.times(began) == [0, 0, 60, 60, 120]


async def test_tokens_are_counted_when_they_are_known() -> None:
    provider = Provider(usage=Usage(30, 20))
    async with limited(acme=Limit(concurrency=1, tokens_per_minute=100)) as supervisor:
        began = await all_ask(supervisor, provider, "abcd")
    assert provider.times(began) == [0, 1, 60, 61]


async def test_each_key_has_a_lane_of_its_own_and_other_providers_have_none() -> None:
    limits = {"acme": Limit(concurrency=1)}
    provider, other = Provider(), Provider("other:large")
    async with open_supervisor(limits=limits) as supervisor, trio.open_nursery() as nursery:
        began = trio.current_time()
        for name, key in (("a", "ONE"), ("b", "TWO"), ("c", "ONE")):
            spec = SessionSpec(model=provider, model_options={"api_key": Secret(key)})
            nursery.start_soon(ask, await supervisor.spawn(spec, name))
            nursery.start_soon(ask, await supervisor.spawn(SessionSpec(model=other)))
    assert sorted(provider.asked) == [("a", began), ("b", began), ("c", began + 1)]
    assert (other.most, other.times(began)) == (3, [0, 0, 0])


async def test_each_region_and_address_of_a_cloud_has_a_lane_of_its_own() -> None:
    provider = Provider()
    accounts: list[dict[str, Json]] = [
        {"region": "us-east-1"},
        {"region": "us-west-2"},
        {"region": "us-east-1", "profile": "work"},
        {"project": "lamps-1"},
        {"token": Secret("ENTRA")},
        {"base_url": "https://lamps.openai.azure.com"},
    ]
    async with open_supervisor(limits={"acme": Limit(concurrency=1)}) as supervisor, trio.open_nursery() as nursery:
        began = trio.current_time()
        for options in (*accounts, accounts[0]):
            nursery.start_soon(ask, await supervisor.spawn(SessionSpec(model=provider, model_options=options)))
    assert provider.times(began) == [0] * len(accounts) + [1]


async def test_waiting_for_a_turn_is_no_stall() -> None:
    provider = Provider(takes=25.0)
    async with limited(acme=Limit(concurrency=1)) as supervisor:
        first, second = [await supervisor.spawn(SessionSpec(model=provider), name) for name in "ab"]
        async with second.subscribe(types=[StreamStalled]) as events, trio.open_nursery() as nursery:
            nursery.start_soon(ask, first, 3)
            nursery.start_soon(ask, second, 2)
            await trio.sleep(200)
            with trio.move_on_after(0.1):
                async for envelope in events:
                    raise AssertionError(envelope)
    assert provider.whom in {"ababa", "babaa"}


async def test_the_tree_shows_what_waits() -> None:
    provider = Provider()
    async with limited(acme=Limit(concurrency=1)) as supervisor, trio.open_nursery() as nursery:
        for name in "abc":
            session = await supervisor.spawn(SessionSpec(model=provider), name)
            nursery.start_soon(ask, session)
        for number in (2, 1, 0):
            await trio.sleep(0.5)
            waiting = {child.name: child.limited for child in supervisor.tree().children}
            assert sorted(waiting.values()) == [0] * (3 - number) + [1] * number
            assert all(waiting[session_id] == 0 for session_id in provider.whom)
            await trio.sleep(0.5)


@pytest.mark.parametrize("name", ["antropic", "Anthropic", "openai_chat", "acm", "Acme", "anthropic:claude-sonnet-5"])
async def test_the_limit_of_a_misspelt_provider_is_refused(name: str) -> None:
    with pytest.raises(BadChoice, match=rf"limits='{name}' is not a choice; use one of `acme`, `anthropic`, .* `xai`"):
        async with open_supervisor(limits={name: Limit()}, models={"acme": Provider}):
            pass


@pytest.mark.parametrize("name", ["anthropic", "demo", "acme", "a-model-of-ones-own"])
async def test_any_provider_may_have_a_limit(name: str) -> None:
    async with open_supervisor(limits={name: Limit()}, models={"acme": Provider}):
        pass


async def test_when_a_provider_asks_to_wait_everybody_does() -> None:
    provider = Provider(errors=[RateLimited("slower", 20.0)])
    async with limited(acme=Limit()) as supervisor:
        first, second = [await supervisor.spawn(SessionSpec(model=provider), name) for name in "ab"]
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, first)
            await trio.sleep(5)
            nursery.start_soon(ask, second)
    assert sorted(provider.asked) == [("a", began), ("a", pytest.approx(began + 20, abs=0.01)), ("b", began + 20)]


async def test_a_provider_that_asks_to_wait_for_hours_is_tried_again_after_a_minute() -> None:
    provider = Provider(errors=[RateLimited("slower", 7_200.0)])
    async with limited(acme=Limit()) as supervisor:
        first, second = [await supervisor.spawn(SessionSpec(model=provider, max_retries=0), name) for name in "ab"]
        began = trio.current_time()
        with pytest.raises(TurnAborted):
            await ask(first)
        await ask(second)
    assert provider.times(began) == [0, 60]


async def test_an_abort_in_the_queue_takes_no_slot_along() -> None:
    provider = Provider()
    async with limited(acme=Limit(concurrency=2)) as supervisor:
        sessions = [await supervisor.spawn(SessionSpec(model=provider), name) for name in "abcd"]
        for _ in range(TIMES):
            for session in sessions:
                await session.prompt("hello")
            await trio.sleep(0.5)
            for session in sessions[1:]:
                await session.abort()
            await trio.sleep(1.5)  # longer than what began when the others were aborted
        assert provider.out == 0
        provider.asked.clear()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(ask, session)
    assert (provider.most, provider.times(began)) == (2, [0, 0, 1, 1])


async def test_what_is_no_limit_is_refused() -> None:
    limits: Any = {"acme": 3}
    with pytest.raises(WrongType, match=r"cannot take .* as `limits`"):
        async with open_supervisor(limits=limits):
            pass


# Cancelled at any moment


def request(session_id: str) -> ModelRequest:
    return ModelRequest("acme:large", (UserMessage((Text("hello"),)),), session_id=session_id)


@asynccontextmanager
async def lanes(limits: Mapping[str, Limit]) -> AsyncIterator[ProviderLimits]:
    async with trio.open_nursery() as nursery:
        timers = Timers(Clock())
        nursery.start_soon(timers.run)
        yield ProviderLimits(limits, timers)
        nursery.cancel_scope.cancel()


async def test_whoever_is_cancelled_before_its_request_goes_out_has_used_nothing() -> None:
    provider = Provider()
    async with lanes({"acme": Limit(concurrency=1, requests_per_minute=2)}) as limits:
        for _ in range(TIMES):
            provider.asked.clear()
            began = trio.current_time()
            for wait in (0.0, 0.5):
                async with trio.open_nursery() as nursery:
                    if wait:
                        nursery.start_soon(limits.stream, "a", provider, request("a"), unheard)
                        await trio.sleep(0.1)
                    with trio.move_on_after(wait) as scope:
                        await limits.stream("b", provider, request("b"), unheard)
                    assert scope.cancelled_caught
            await limits.stream("c", provider, request("c"), unheard)
            assert (provider.whom, provider.times(began)) == ("ac", [0, 1])
            await trio.sleep(60)


async def test_whoever_is_cancelled_just_when_its_turn_comes_leaves_the_slot_to_the_next() -> None:
    provider = Provider()
    async with lanes({"acme": Limit(concurrency=1)}) as limits:
        for _ in range(TIMES):
            provider.asked.clear()
            scope = trio.CancelScope()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_then_cancel, limits, provider, scope)
                await trio.sleep(0.1)
                nursery.start_soon(_within, limits, provider, scope)
                await trio.sleep(0.1)
                with trio.fail_after(2):
                    await limits.stream("c", provider, request("c"), unheard)
            assert (provider.whom.replace("b", ""), provider.most, provider.out) == ("ac", 1, 0)


async def _then_cancel(limits: ProviderLimits, provider: Provider, scope: trio.CancelScope) -> None:
    await limits.stream("a", provider, request("a"), unheard)
    scope.cancel()  # b was given the slot in this very step


async def _within(limits: ProviderLimits, provider: Provider, scope: trio.CancelScope) -> None:
    with scope:
        await limits.stream("b", provider, request("b"), unheard)


def unheard(_: Chunk) -> None:
    """Ignore a chunk: nobody listens."""


# Lanes, without time


class Timeless:
    """A lane, the requests that it has sent, and when it has room for the next one."""

    def __init__(self, limit: Limit) -> None:
        self.lane = Lane(limit)
        self.sent = ""
        self.room_at = math.inf
        self.now = 0.0

    def ask(self, whom: str, tokens: int = 0) -> tuple[Waiter, Ticket]:
        """Append a request."""
        ticket = Ticket(tokens)
        return self.lane.queue.join(whom, partial(self._look, whom, ticket), (("acme", ""),)), ticket

    def look(self, now: float) -> tuple[str, float]:
        """Let all look at a time; return those that went, and when the next one may."""
        self.now, self.sent, self.room_at = now, "", math.inf
        self.lane.queue.look()
        return self.sent, self.room_at

    def _look(self, whom: str, ticket: Ticket) -> LimitKey | None:
        self.room_at = self.lane.room_at(ticket, self.now)
        if self.room_at > self.now:
            return ("acme", "")
        self.lane.send(ticket, self.now)
        self.sent, self.room_at = self.sent + whom, math.inf
        return None


def test_a_session_with_many_requests_does_not_keep_another_waiting() -> None:
    lane = Timeless(Limit(requests_per_minute=4))
    lane.lane.close(1)
    for whom in "aaaaab":
        lane.ask(whom)
    assert (lane.look(1), len(lane.lane.queue)) == (("abaa", 61), 2)


def test_a_request_that_is_larger_than_the_limit_goes_when_nothing_else_has_gone_for_a_minute() -> None:
    lane = Timeless(Limit(tokens_per_minute=100))
    lane.now = 5
    _, small = lane.ask("a", 10)
    lane.ask("b", 500)
    assert (lane.sent, lane.room_at) == ("a", 65)
    lane.lane.release(small, None)
    assert lane.look(64) == ("", 65)
    assert (lane.look(65), lane.lane.out) == (("b", math.inf), 1)


async def test_who_leaves_before_it_was_sent_or_heard_of_it_has_used_nothing() -> None:
    lane = Timeless(Limit(requests_per_minute=1))
    first, second = lane.ask("a"), lane.ask("b")
    assert (lane.sent, lane.room_at) == ("a", 60)
    await _leave(lane, *first)
    assert lane.sent == "ab"
    await _leave(lane, *second)
    assert (lane.lane.out, len(lane.lane.queue), lane.look(0)) == (0, 0, ("", math.inf))


def test_a_lane_that_was_closed_opens_in_time() -> None:
    lane = Timeless(Limit())
    lane.lane.close(30)
    lane.lane.close(20)
    lane.ask("a")
    assert lane.look(0) == ("", 30)
    assert lane.look(30) == ("a", math.inf)


async def test_the_next_may_go_although_a_larger_one_has_left() -> None:
    lane = Timeless(Limit(tokens_per_minute=100))
    lane.ask("a", 90)
    large, _ = lane.ask("b", 90), lane.ask("c", 5)
    assert (lane.sent, lane.room_at) == ("a", 60)
    await _leave(lane, *large)
    assert lane.sent == "ac"


async def _leave(lane: Timeless, waiter: Waiter, ticket: Ticket) -> None:
    with trio.move_on_after(0) as scope:
        await lane.lane.queue.wait(waiter, partial(lane.lane.take_back, ticket))
    assert scope.cancelled_caught
