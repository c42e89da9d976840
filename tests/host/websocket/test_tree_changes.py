"""Rows of the tree on a WebSocket: all at first, then what has changed, merged and made once for all who listen."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest
import trio

from agentrail import SessionSpec, Supervisor, connect, open_supervisor, tool
from agentrail.api.bodies import RowsQuery
from agentrail.host import HostLimits
from agentrail.host.health.health_parts import HealthParts
from agentrail.host.health.tree_feed import LINGERS, STEP, TreeFeed, TreeListener
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import KEYS, open_desk, scripted
from tests.host.websocket.talking import SocketMessage, Talker, problem, talking
from tests.passes import Passes
from tests.runtime.tools import quick

LIMITS = HostLimits(drain_seconds=0.5)


class Rows:
    """What a client knows of the rows, from the messages that it got."""

    def __init__(self, talker: Talker, name: str = "t") -> None:
        self.talker = talker
        self.name = name
        self.rows: dict[str, dict[str, Any]] = {}
        self.counts = (0, 0)
        self.began = 0

    async def listen(self, **query: object) -> None:
        await self.talker.say(id=self.name, listen="tree", changes=True, query=query)
        await self.hear()

    async def hear(self) -> Mapping[str, dict[str, Any] | None]:
        message = await self.talker.heard()
        assert message["id"] == self.name, message
        assert set(message) - {"first"} == {"id", "changed", "matching", "total"}
        if message.get("first"):
            self.began += 1
            self.rows.clear()
        changed = cast("dict[str, dict[str, Any] | None]", message["changed"])
        for session, row in changed.items():
            if row is None:
                self.rows.pop(session, None)
            else:
                assert row["session"] == session
                self.rows[session] = row
        self.counts = cast("int", message["matching"]), cast("int", message["total"])
        return changed

    async def until(self, **fields: object) -> dict[str, Any]:
        """Hear messages until a row has these fields, and return it."""
        while True:
            for row in self.rows.values():
                if all(row[name] == value for name, value in fields.items()):
                    return row
            await self.hear()


async def test_rows_come_at_first_then_what_has_changed_and_null_for_what_is_gone() -> None:
    gate = threading.Event()  # an ASGI server may have the host in a thread of its own

    @tool
    async def wait() -> str:
        """Wait."""
        await trio.to_thread.run_sync(gate.wait)
        return "waited"

    spec = SessionSpec(model=ScriptedModel([say(calls=[call("wait")]), "done"]), tools=[wait])
    async with open_desk(spec, limits=LIMITS) as desk, talking(desk, "boss") as boss:
        await desk.ann.post("/v1/sessions", json={"session": "trip", "title": "To Rome"})
        rows = Rows(boss)
        await rows.listen()
        (row,) = rows.rows.values()
        assert (row["session"], row["user"], row["tenant"], row["agent"]) == ("ann.trip", "ann", "acme", "desk")
        assert (row["title"], row["phase"], row["state"], row["parent"]) == ("To Rome", "idle", "running", "")
        assert (row["tokens"], row["cost_usd"]) == (0, 0.0)
        assert (rows.counts, rows.began) == ((1, 1), 1)
        await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "go"})
        row = await rows.until(phase="executing_tools", calls=1)
        assert [running["tool"] for running in row["running"]] == ["wait"]
        assert row["running"][0]["since"] >= row["turn_since"] > 0
        gate.set()
        row = await rows.until(phase="idle", turn=1, turn_since=None)
        assert (row["calls"], row["running"]) == (0, [])
        await desk.ann.post("/v1/sessions/trip/stop", json={})
        while (await rows.hear()).get("ann.trip", row) is not None:
            pass
        assert (rows.counts, rows.began) == ((0, 0), 1)


async def test_each_tenant_has_its_own_rows() -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk, talking(desk, "eve") as eve:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        rows = Rows(eve)
        await rows.listen()
        assert (rows.rows, rows.counts) == ({}, (0, 0))
        await desk.ann.post("/v1/sessions", json={"session": "other"})
        await desk.clients["eve"].post("/v1/sessions", json={"session": "own"})
        await rows.until(session="ann.own")
        assert set(rows.rows) == {"ann.own"}
        assert rows.counts == (1, 1)
        over_http = (await desk.clients["eve"].get("/v1/tree/rows")).json()
        assert [item["session"] for item in over_http["items"]] == ["ann.own"]


async def test_who_may_not_observe_gets_no_rows() -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk, talking(desk, "bob") as bob:
        await bob.say(id="t", listen="tree", changes=True)
        assert problem(await bob.heard()) == "scope-missing"
        for path in ("/v1/tree/rows", "/v1/trouble"):
            assert (await desk.clients["bob"].get(path)).status_code == 403


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ({"listen": "approvals", "changes": True}, "bad-frame"),
        ({"listen": "events", "session": "trip", "changes": True}, "bad-frame"),
        ({"listen": "tree", "query": {"limit": 1}}, "bad-frame"),
        ({"listen": "tree", "changes": "yes"}, "bad-frame"),
        ({"listen": "tree", "changes": True, "session": "trip"}, "bad-frame"),
        ({"listen": "tree", "changes": True, "query": {"limit": 0}}, "bad-query"),
        ({"listen": "tree", "changes": True, "query": {"limit": "x"}}, "bad-query"),
        ({"listen": "tree", "changes": True, "query": {"search": ""}}, "bad-query"),
        ({"listen": "tree", "changes": True, "query": {"search": "x" * 201}}, "bad-query"),
        ({"listen": "tree", "changes": True, "query": {"search": ["x"]}}, "bad-frame"),
        ({"listen": "tree", "changes": True, "query": {"tenant": "evil"}}, "bad-query"),
    ],
)
async def test_what_does_not_fit_is_refused(frame: SocketMessage, kind: str) -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk, talking(desk, "boss") as boss:
        await boss.say(id="t", **frame)
        assert problem(await boss.heard()) == kind


async def test_a_query_is_answered_by_the_host_also_while_rows_come_and_go() -> None:
    spec = SessionSpec(
        model=ScriptedModel([say(calls=[call("quick")])] * 2), tools=[quick], plugins=[HumanApproval(tools=["quick"])]
    )
    async with open_desk(spec, limits=LIMITS) as desk, talking(desk, "boss") as boss:
        for name in ("a", "b", "c"):
            await desk.ann.post("/v1/sessions", json={"session": name, "title": f"Trip {name}"})
        held = Rows(boss)
        await held.listen(held=True)
        assert (held.rows, held.counts) == ({}, (0, 3))
        await desk.ann.post("/v1/chat", json={"message": "go", "session": "a"})
        row = await held.until(session="ann.a")
        assert (row["held"], held.counts) == (1, (1, 3))
        await desk.ann.post("/v1/sessions/a/abort", json={})
        while held.rows:
            await held.hear()
        for search, names in (("TRIP B", ["ann.b"]), ("ann.", ["ann.a", "ann.b", "ann.c"]), ("none", [])):
            answer = (await desk.clients["boss"].get("/v1/tree/rows", params={"search": search})).json()
            assert [item["session"] for item in answer["items"]] == names
            assert (answer["matching"], answer["total"]) == (len(names), 3)


async def test_the_row_of_one_session_tells_of_each_of_its_records() -> None:
    spec = SessionSpec(
        model=ScriptedModel([say(calls=[call("quick")]), "done"]),
        tools=[quick],
        plugins=[HumanApproval(tools=["quick"])],
    )
    async with open_desk(spec, limits=LIMITS) as desk, talking(desk, "boss") as boss:
        for name in ("a", "ab"):
            await desk.ann.post("/v1/sessions", json={"session": name})
        rows, client = Rows(boss), desk.clients["boss"]
        await rows.listen(session="ann.a")
        assert (set(rows.rows), rows.counts) == ({"ann.a"}, (1, 2))
        await desk.ann.post("/v1/chat", json={"message": "go", "session": "a"})
        row = await rows.until(waits=True)
        page = (await client.get("/v1/sessions/ann.a/records")).json()
        detail = (await desk.ann.get("/v1/sessions/a")).json()
        assert row["records"] == page["head"] == detail["records"]
        assert detail["status"]["waits"]
        (held,) = detail["status"]["held"]
        await desk.ann.post("/v1/sessions/a/approve", json={"approval": held["id"]})
        row = await rows.until(waits=False, phase="idle", turn_since=None)
        assert row["records"] == (await client.get("/v1/sessions/ann.a/records")).json()["head"]
        assert (await client.get("/v1/tree/rows", params={"session": "b"})).json()["items"] == []
        assert (await client.get("/v1/tree/rows", params={"session": "../b"})).status_code == 404


async def test_with_a_limit_another_row_takes_the_place_of_one_that_is_gone() -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk, talking(desk, "boss") as boss:
        for name in ("a", "b", "c"):
            await desk.ann.post("/v1/sessions", json={"session": name})
        rows = Rows(boss)
        await rows.listen(limit=2)
        assert (set(rows.rows), rows.counts) == ({"ann.a", "ann.b"}, (3, 3))
        await desk.ann.post("/v1/sessions/a/stop", json={})
        await rows.until(session="ann.c")
        assert (set(rows.rows), rows.counts) == ({"ann.b", "ann.c"}, (2, 2))


async def test_trouble_is_listed_and_stands_in_the_row_until_the_session_is_erased() -> None:
    @tool
    async def boom() -> str:
        """Break."""
        raise OSError("boom")

    spec = SessionSpec(model=ScriptedModel([]), tools=[boom])
    async with open_desk(spec, limits=LIMITS) as desk, talking(desk, "boss") as boss:
        rows = Rows(boss)
        await rows.listen(trouble=True)
        await desk.ann.post("/v1/chat", json={"message": "go", "session": "trip"})
        row = await rows.until(session="ann.trip")
        client = desk.clients["boss"]
        listed = (await client.get("/v1/trouble", params={"limit": 1})).json()
        assert listed["items"] == [row["trouble"]]
        assert row["trouble"]["kind"] == "abort"
        assert row["trouble"]["text"].startswith("provider_error")
        assert (await desk.clients["eve"].get("/v1/trouble")).json() == {"items": [], "more": False, "missing": []}
        later = {"since_ms": row["trouble"]["at_ms"] + 1}
        assert (await client.get("/v1/trouble", params=later)).json()["items"] == []
        await client.delete("/v1/sessions/ann.trip")
        assert (await client.get("/v1/trouble")).json() == {"items": [], "more": False, "missing": []}


async def test_a_remote_supervisor_reads_rows_and_follows_them() -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        (row,) = (await supervisor.rows(search="trip")).items
        assert (row.session, row.phase, row.running) == ("boss.trip", "idle", ())
        assert (await supervisor.trouble()).items == ()
        async with supervisor.watch_rows(limit=5) as changes:
            first = await anext(changes)
            assert (dict(first.changed), first.first, first.total) == ({"boss.trip": row}, True, 1)
            await session.ask("hello")
            while (row := (await anext(changes)).changed.get("boss.trip") or row).turn != 1 or row.phase != "idle":
                pass
            await session.stop()
            while "boss.trip" not in (later := await anext(changes)).changed or later.changed["boss.trip"] is not None:
                pass
            assert (later.total, later.first) == (0, False)


# What it costs


async def drained(listener: TreeListener) -> int:
    """Take all messages that are ready; return how many bytes they have."""
    size = 0
    with trio.move_on_after(1.0):
        while True:
            await listener.wait()
            size += len(listener.message("t"))
    return size


async def sessions(supervisor: Supervisor, count: int) -> None:
    spec = SessionSpec(model=ScriptedModel(["well"] * 100))
    for number in range(count):
        await supervisor.spawn(spec, f"h.acme.ann.s{number}", tenant="acme", owner="ann")


async def check_cost(count: int) -> None:
    async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
        await sessions(supervisor, count)
        with HealthParts.watching(supervisor) as health:
            tree: TreeFeed = health.tree
            nursery.start_soon(tree.run)
            await supervisor.session("h.acme.ann.s0").label(["quiet"])
            await trio.testing.wait_all_tasks_blocked()
            assert tree.made_rows == 0  # nobody listens
            async with (
                tree.listening("acme", RowsQuery(limit=50)) as some,
                tree.listening("acme", RowsQuery(search="s7")) as others,
            ):
                assert tree.made_rows == count
                assert await drained(some) < 50 * 1_000
                await drained(others)
                made_rows = tree.made_rows
                for number in range(10):
                    await supervisor.session(f"h.acme.ann.s{number}").label(title=f"new {number}")
                size = await drained(some)
                assert (
                    made_rows + 10 <= tree.made_rows <= made_rows + 20
                )  # one or two ticks, not one for each row that there is
                assert 10 * 300 < size < 10 * 2 * 1_000
                assert await drained(others) < 2 * 1_000
                for _ in range(100):
                    await supervisor.session("h.acme.ann.s1").label(["a"])
                    await supervisor.session("h.acme.ann.s1").label([], ["a"])
                assert tree.made_rows <= made_rows + 30  # 200 steps of one session within one tick
        nursery.cancel_scope.cancel()


async def test_who_comes_back_soon_has_no_row_made_anew(autojump_clock: object) -> None:  # noqa: ARG001
    async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
        await sessions(supervisor, 60)
        with HealthParts.watching(supervisor) as health:
            tree: TreeFeed = health.tree
            nursery.start_soon(tree.run)
            nursery.start_soon(tree.forget)
            async with tree.listening("acme", RowsQuery(limit=50)):
                pass
            await supervisor.session("h.acme.ann.s1").label(title="new")
            await trio.sleep(LINGERS / 2)
            async with tree.listening("acme", RowsQuery(limit=50)) as listener:
                assert [row.title for row in listener.rows.items[:3]] == ["", "new", ""]
                assert tree.made_rows == 60 + 1
                await trio.sleep(2 * LINGERS)  # it is not forgotten while somebody listens
                assert len(listener.rows.items) == 50
            await trio.sleep(2 * LINGERS)
            async with tree.listening("acme", RowsQuery()) as listener:
                assert listener.rows.total == 60
            assert tree.made_rows == 60 + 1 + 60
        nursery.cancel_scope.cancel()


async def test_others_have_their_turn_while_many_rows_are_looked_at() -> None:
    async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
        with HealthParts.watching(supervisor) as health:
            tree: TreeFeed = health.tree
            async with tree.listening("acme", RowsQuery()):
                for number in range(10 * STEP):
                    tree.changed(f"h.acme.ann.s{number}")
                passes = Passes()
                trio.lowlevel.add_instrument(passes)
                nursery.start_soon(tree.run)
                await trio.testing.wait_all_tasks_blocked()
                trio.lowlevel.remove_instrument(passes)
                assert passes.count >= 10
        nursery.cancel_scope.cancel()


async def test_only_what_has_changed_is_made_anew(autojump_clock: object) -> None:  # noqa: ARG001
    await check_cost(100)


@pytest.mark.campaign
@pytest.mark.long
async def test_only_what_has_changed_is_made_anew_among_10_000(autojump_clock: object) -> None:  # noqa: ARG001
    await check_cost(10_000)
