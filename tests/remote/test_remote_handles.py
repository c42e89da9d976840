"""What only a handle of a session at a host does: names in place of objects, and ids as the host shows them."""

from __future__ import annotations

import attrs
import pytest
import trio

from agentrail import SessionSpec, tool
from agentrail.errors import (
    AnswerUnfit,
    NotRegistered,
    PluginExists,
    ScopeMissing,
    SessionExists,
    SessionParked,
    UnknownAgent,
    UnknownSession,
    WrongType,
)
from agentrail.events import SessionStarted
from agentrail.host.profiles import Profile
from agentrail.journals import MemoryJournal
from agentrail.plugins import BudgetGuard
from agentrail.remote.remote_supervisor import connect
from agentrail.testing import ScriptedModel, stall
from agentrail.wire.limits import HostLimits
from tests.host.hosted import KEYS, open_desk


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@attrs.frozen
class Even:
    """A number that must be even."""

    number: int

    def __attrs_post_init__(self) -> None:
        if self.number % 2:
            problem = "it is odd"
            raise ValueError(problem)


def profiles() -> list[Profile]:
    spec = SessionSpec(model=ScriptedModel(['{"number": 3}', "two"], name="small"))
    desk = Profile("desk", spec, models=["big"], tools=[pay], plugins=[BudgetGuard()])
    return [desk, Profile("other", spec)]


async def test_handles_wait_when_they_are_faster_than_the_host_lets_their_tenant_be() -> None:
    spec = SessionSpec(model=ScriptedModel([stall()]), max_prompt_queue=100)
    limits = HostLimits(drain_seconds=0.5)
    texts = [f"text {number}" for number in range(limits.burst + 5)]
    async with open_desk(spec, limits=limits) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        await session.prompt("begin")
        async with trio.open_nursery() as nursery:
            for text in texts:
                nursery.start_soon(session.prompt, text)
        assert sorted(prompt.text for prompt in await session.queued()) == sorted(texts)
        async with trio.open_nursery() as nursery:
            for _ in texts:
                nursery.start_soon(session.queued)
        async with session.subscribe(since=0) as events:
            assert isinstance((await anext(events)).event, SessionStarted)
        async with trio.open_nursery() as nursery:
            for _ in texts:
                nursery.start_soon(session.queued)
        async with connect(desk.serving.url, KEYS["boss"]) as other:
            assert [each.id for each in await other.sessions()] == ["boss.trip"]


async def test_code_is_given_by_the_names_that_the_host_has_registered() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        await session.attach_tools("pay")
        await session.attach_plugin("BudgetGuard")
        with pytest.raises(PluginExists) as exists:
            await session.attach_plugin("BudgetGuard")
        assert exists.value == PluginExists("BudgetGuard")
        with pytest.raises(NotRegistered) as unknown:
            await session.attach_tools("os.system")
        assert unknown.value == NotRegistered("tool", "os.system", "`pay`")
        for doing, wanted in (
            (session.replace_tools(pay), "`tools`; give names that its host has registered: `pay`"),
            (session.attach_plugin(BudgetGuard()), "`plugin`; give names that its host has registered: `BudgetGuard`"),
            (session.switch_model(ScriptedModel()), "`model`; give names that its host has registered: `big`, `small`"),
        ):
            with pytest.raises(WrongType, match=wanted):
                await doing


async def test_a_session_is_started_of_a_profile_by_its_name() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        with pytest.raises(WrongType, match="give the name of a profile of the host: `desk`, `other`"):
            await supervisor.spawn(SessionSpec(model="demo"))  # type: ignore[arg-type]  # it is code
        with pytest.raises(UnknownAgent) as unknown:
            await supervisor.spawn("des")
        assert unknown.value == UnknownAgent("des", "did you mean `desk`?")
        with pytest.raises(WrongType) as taken_apart:
            await supervisor.spawn("desk", labels="red")
        assert taken_apart.value == WrongType.of("labels", "red", "a list of texts")
        session = await supervisor.spawn("desk", "trip", title="A trip", command="k")
        assert (await supervisor.spawn("desk", "trip", title="A trip", command="k")).id == session.id == "boss.trip"
        assert (await supervisor.open("trip", "desk")).id == "trip"
        with pytest.raises(SessionExists):
            await supervisor.spawn("desk", "trip")
        assert (await supervisor.fork("trip", id="copy")).id == "boss.copy"
        assert [each.session_id for each in await supervisor.stored()] == ["boss.copy", "boss.trip"]
        with pytest.raises(UnknownSession) as missing:
            await supervisor.session("gone").prompt("hi")
        assert missing.value == UnknownSession("gone")


async def test_an_answer_that_its_class_refuses_is_told_to_the_caller() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["ann"]) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        with pytest.raises(AnswerUnfit, match="it is odd"):
            await session.ask("a number", returns=Even)


async def test_a_key_that_does_not_allow_a_call_is_told_as_that() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["bob"]) as supervisor:
        with pytest.raises(ScopeMissing) as missing:
            await supervisor.tree()
        assert missing.value == ScopeMissing("tree", "observe")


async def test_a_stored_session_has_no_status_until_a_call_brings_it_back() -> None:
    journal = MemoryJournal()
    async with open_desk(profiles(), journal=journal) as desk, connect(desk.serving.url, KEYS["ann"]) as supervisor:
        await (await supervisor.spawn("desk", "trip")).ask("hi")
    async with open_desk(profiles(), journal=journal) as desk, connect(desk.serving.url, KEYS["ann"]) as supervisor:
        session = supervisor.session("trip")
        with pytest.raises(SessionParked) as parked:
            await session.status()
        assert parked.value == SessionParked("trip")
        assert len(await session.messages()) == 2
        await session.prompt("again")
        assert (await session.status()).session_id == "ann.trip"


async def test_handles_show_where_they_are() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["ann"]) as supervisor:
        at = desk.serving.url.replace("http", "ws")
        session = supervisor.session("trip")
        assert repr(supervisor) == f"<RemoteSupervisor '{at}'>"
        assert repr(session) == f"<RemoteSession 'trip' at '{at}'>"
        assert repr(session.subscribe()) == "<RemoteSubscription events of 'trip'>"
        assert repr(session.monitor()) == "<RemoteMonitor end of 'trip'>"
        await trio.lowlevel.checkpoint()
