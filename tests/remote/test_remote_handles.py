"""What only a handle of a session at a host does: names in place of objects, and ids as the host shows them."""

from __future__ import annotations

import attrs
import pytest
import trio

from agentrail import RemoteSession, RemoteSupervisor, Reply, SessionHandle, SessionSpec, Supervisor, connect, tool
from agentrail.api import limits as limits_module
from agentrail.errors import (
    AnswerUnfit,
    NotAtHost,
    ScopeMissing,
    SessionExists,
    SessionParked,
    UnknownAgent,
    UnknownRecord,
    UnknownSession,
    UsageError,
    WrongType,
)
from agentrail.events import ApprovalRequired, SessionStarted
from agentrail.host import HostLimits, Profile
from agentrail.journals import MemoryJournal
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.remote.remote_session import OF_SESSIONS
from agentrail.remote.remote_supervisor import OF_SUPERVISORS
from agentrail.testing import ScriptedModel, call, say, stall
from tests.coded import coded
from tests.docs.scopes import scopes
from tests.host.hosted import KEYS, open_desk
from tests.remote.playing_host import Relay


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
    desk = Profile("desk", spec, models=["demo"], tools=[pay], plugins=[BudgetGuard()])
    return [desk, Profile("other", spec)]


@pytest.mark.long
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
            assert [listed.id for listed in await other.sessions()] == ["boss.trip"]


def test_the_table_of_scopes_has_each_method_that_asks_the_host() -> None:
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in scopes()[2:]]
    method_names = {name.strip("` ") for _, _, names in rows for name in names.split(",")}
    assert method_names == (public(RemoteSession) | public(RemoteSupervisor)) - {"id", "send", "session"}
    by_name = {name.strip("` "): (own_scope, others) for own_scope, others, names in rows for name in names.split(",")}
    assert by_name["prompt"] == ("`talk`", "`admin`")
    assert by_name["monitor"] == ("`talk`", "`observe`")
    assert by_name["attach_tools"] == ("`admin`", "`admin`")


async def test_code_is_given_by_the_names_that_the_host_has_registered() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        await session.attach_tools("pay")
        await session.attach_plugin("BudgetGuard")
        with pytest.raises(UsageError, check=coded("plugin-exists")) as exists:
            await session.attach_plugin("BudgetGuard")
        assert exists.value == UsageError("plugin-exists", "BudgetGuard")
        with pytest.raises(UsageError, check=coded("not-registered")) as unknown:
            await session.attach_tools("os.system")
        assert unknown.value == UsageError("not-registered", "tool", "os.system", "`pay`")
        for doing, problem in (
            (session.replace_tools(pay), "`tools`; give names that its host has registered: `pay`"),
            (session.attach_plugin(BudgetGuard()), "`plugin`; give names that its host has registered: `BudgetGuard`"),
            (
                session.switch_model(ScriptedModel()),
                "`model`; give names that its host has registered: `demo`, `small`",
            ),
        ):
            with pytest.raises(WrongType, match=problem):
                await doing


async def test_the_records_of_a_session_and_why_it_did_what_it_did_are_read_by_its_handle() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("other", "trip")
        await session.ask("hello")
        page = await session.records(limit=2)
        assert ([record.number for record in page.records], page.more) == ([1, 2], True)
        following = await session.records(since=2)
        assert [record.number for record in following.records] == list(range(3, page.head + 1))
        assert await session.record(1) == page.records[0]
        account = await session.why(1)
        assert (account.subject, account.entries[-1].event, account.more) == ("1", "AgentEnd", False)
        assert (await session.why()).sentence == account.sentence
        with pytest.raises(UnknownRecord):
            await session.record(page.head + 1)


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
        assert (await supervisor.open("trip", "desk")).id == "boss.trip"
        with pytest.raises(SessionExists):
            await supervisor.spawn("desk", "trip")
        assert (await supervisor.fork("trip", id="copy")).id == "boss.copy"
        assert [stored_session.session_id for stored_session in await supervisor.stored()] == ["boss.copy", "boss.trip"]
        with pytest.raises(UnknownSession) as missing:
            await supervisor.session("gone").prompt("hi")
        assert missing.value == UnknownSession("boss.gone")


async def test_each_way_to_a_handle_gives_the_id_that_the_host_shows() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["ann"]) as supervisor:
        spawned = await supervisor.spawn("desk", "trip")
        opened, existing = await supervisor.open("trip", "desk"), supervisor.session("trip")
        new, full = await supervisor.open("new", "desk"), supervisor.session("ann.trip")
        (stored, _) = reversed(await supervisor.stored())
        ids = [handle.id for handle in (spawned, opened, existing, full)]
        assert ids == [stored.session_id] * len(ids) == ["ann.trip"] * len(ids)
        assert new.id == (await new.status()).session_id == "ann.new"
        assert supervisor.session("bob.trip").id == "bob.trip"
        assert supervisor.session("trip.task").id == "trip.task"  # as the host reads it: the session of a user `trip`


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
        assert parked.value == SessionParked("ann.trip")
        assert str(parked.value) == (
            "session `ann.trip` is stored at its host, and does not run now; prompt it, which brings it back"
        )
        assert len(await session.messages()) == 2
        await session.prompt("again")
        assert (await session.status()).session_id == "ann.trip"


async def test_the_end_of_a_turn_is_waited_for_while_its_host_is_started_anew() -> None:
    spec = SessionSpec(
        model=ScriptedModel([say(calls=[call("pay", {"to": "ann"})]), "done"]),
        tools=[pay],
        plugins=[HumanApproval(tools=["pay"])],
    )
    journal, relay, ended, replies = MemoryJournal(), Relay(0, lambda: 10**9), trio.Event(), list[Reply]()

    async def serve_once(*, task_status: trio.TaskStatus[None]) -> None:
        async with open_desk(spec, journal=journal) as desk:
            relay.target = int(desk.serving.url.rpartition(":")[2])
            task_status.started()
            await ended.wait()

    async with trio.open_nursery() as hosts, relay.relaying():
        await hosts.start(serve_once)
        async with connect(relay.url, KEYS["ann"]) as supervisor, trio.open_nursery() as nursery:
            session = await supervisor.spawn("desk", "trip")

            async def ask() -> None:
                replies.append(await session.ask("pay", until="end"))
                ended.set()

            async with session.subscribe(types=[ApprovalRequired]) as events:
                nursery.start_soon(ask)
                await anext(events)
            ended.set()
            ended = trio.Event()
            await hosts.start(serve_once)
            (held,) = (await supervisor.approvals())[session.id]
            await session.approve(held.id)
    assert [(reply.stop_reason, reply.text) for reply in replies] == [("end", "done")]


async def test_views_are_sent_at_first_and_when_they_have_changed() -> None:
    model = ScriptedModel([say(calls=[call("pay", {"to": "ann"})]), "done"])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])
    async with (
        open_desk(spec, limits=HostLimits(drain_seconds=0.5)) as desk,
        connect(desk.serving.url, KEYS["boss"]) as boss,
        connect(desk.serving.url, KEYS["ann"]) as ann,
        ann.watch_approvals() as waiting,
        boss.watch_rows() as rows,
    ):
        assert await anext(waiting) == {}
        assert (await anext(rows)).changed == {}
        session = await ann.spawn("desk", "trip")
        reply = await session.ask("pay")
        assert await anext(waiting) == {"ann.trip": reply.held} == await ann.approvals()
        assert set((await anext(rows)).changed) == {"ann.trip"}
        await session.approve(reply.held[0].id)
        assert await anext(waiting) == {}
        with pytest.raises(ScopeMissing) as missing:
            async with ann.watch_rows():
                pytest.fail("it is not entered")
        assert missing.value == ScopeMissing("rows", "observe")


async def test_a_view_goes_on_after_a_cut() -> None:
    async with open_desk(profiles(), limits=HostLimits(drain_seconds=0.5)) as desk:
        relay = Relay(int(desk.serving.url.rpartition(":")[2]), lambda: 10**9)
        async with relay.relaying(), connect(relay.url, KEYS["boss"]) as boss, boss.watch_rows() as rows:
            assert (await anext(rows)).first
            relay.cut_all()
            assert (await anext(rows)).first  # all of it is sent again
            await boss.spawn("desk", "trip")
            assert set((await anext(rows)).changed) == {"boss.trip"}


async def test_more_approvals_than_a_page_has_are_all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "PAGE", 2)
    models = [ScriptedModel([say(calls=[call("pay", {"to": "ann"})]), "done"]) for _ in range(3)]
    specs = [SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])]) for model in models]
    profiles = [Profile(f"desk{number}", spec) for number, spec in enumerate(specs)]
    limits = HostLimits(drain_seconds=0.5)
    async with open_desk(profiles, limits=limits) as desk, connect(desk.serving.url, KEYS["ann"]) as ann:
        held = {}
        for number in range(3):
            session = await ann.spawn(f"desk{number}", f"s{number}")
            held[session.id] = (await session.ask("pay")).held
        assert await ann.approvals() == held


def public(kind: type[object]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


async def test_what_only_local_ones_can_says_why_and_what_to_do() -> None:
    assert set(OF_SESSIONS) == public(SessionHandle) - public(RemoteSession)
    assert set(OF_SUPERVISORS) == public(Supervisor) - public(RemoteSupervisor)
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["ann"]) as supervisor:
        for has, rows in ((supervisor.session("trip"), OF_SESSIONS), (supervisor, OF_SUPERVISORS)):
            for name, (problem, advice) in rows.items():
                with pytest.raises(NotAtHost) as raised:
                    getattr(has, name)
                assert raised.value == NotAtHost(name, problem, advice)
                assert not hasattr(has, name)
            with pytest.raises(AttributeError, match="object has no attribute 'nothing'"):
                has.nothing  # type: ignore[union-attr]  # noqa: B018 - that is tried
    with pytest.raises(NotAtHost, match=r"cannot use `inspect` of what a host has: .*; use `status`, `messages` and"):
        supervisor.session("trip").inspect()  # type: ignore[attr-defined]  # it is not there


async def test_handles_show_where_they_are() -> None:
    async with open_desk(profiles()) as desk, connect(desk.serving.url, KEYS["ann"]) as supervisor:
        url = desk.serving.url.replace("http", "ws")
        session = supervisor.session("trip")
        assert repr(supervisor) == f"<RemoteSupervisor '{url}'>"
        assert repr(session) == f"<RemoteSession 'ann.trip' at '{url}'>"
        assert repr(session.subscribe()) == "<RemoteSubscription events of 'ann.trip'>"
        assert repr(supervisor.watch_rows()) == "<RemoteView tree>"
        assert repr(session.monitor()) == "<RemoteMonitor end of 'ann.trip'>"
        await trio.lowlevel.checkpoint()
