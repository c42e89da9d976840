"""What sessions do, and have done, is shown of all hosts, whichever is asked; one that is missing is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import trio

from agentrail import RemoteView, SessionSpec, connect
from agentrail.api.bodies import RowsQuery
from agentrail.api.views import (
    FigureBucketView,
    FiguresView,
    HostBucketView,
    LatencyView,
    RowChangesView,
    RowsView,
    RowView,
    SeriesView,
    TroublesView,
    TroubleView,
    to_json,
)
from agentrail.host.cluster.other_hosts import merge_figures, merge_metrics, merge_troubles
from agentrail.host.health.tree_feed import KnownRow, TreeListener
from agentrail.journals import Lease, MemoryJournal
from agentrail.ports.journal import SLOTS, slot_claim
from agentrail.runtime.shared.clock import Clock
from agentrail.testing import ScriptedModel
from agentrail.values.value import learned
from tests.free_port import free_port
from tests.host.cluster.played_holder import ENDS, played_holder
from tests.host.cluster.several import open_member, two_members, until_known
from tests.host.hosted import KEYS, Desk
from tests.patience import PATIENCE

MINUTE = 60_000
NAME = "h.acme.ann.trip"
ROW = json.dumps(
    {
        **dict.fromkeys(("tenant", "user", "agent", "title", "model", "parent"), ""),
        **dict.fromkeys(("restarts", "turn", "round", "calls", "queued", "steering", "held", "quarantined"), 0),
        **dict.fromkeys(("turn_since", "context_tokens", "cost_usd")),
        **dict.fromkeys(("context_window", "tokens", "records"), 0),
        **dict.fromkeys(("suspended", "waits"), False),
        "session": "ann.trip",
        "state": "running",
        "phase": "idle",
        "running": [],
    }
)


def talks() -> SessionSpec:
    return SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))


async def get_json(desk: Desk, path: str) -> Any:  # noqa: ANN401 - JSON
    answer = await desk.clients["boss"].get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def heard(
    changes: RemoteView[RowChangesView], session: str, fits: Callable[[RowView | None], bool]
) -> RowView | None:
    """Return the row of a session when it fits."""
    with trio.fail_after(PATIENCE):
        async for change in changes:
            if session in change.changed and fits(change.changed[session]):
                return change.changed[session]
    raise AssertionError


@pytest.mark.long
async def test_each_host_shows_what_the_sessions_of_all_do() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        await until_known(first, second)
        for desk, name in ((first, "trip"), (second, "food")):
            answer = await desk.ann.post("/v1/chat", json={"session": name, "message": "hi"})
            assert answer.status_code == 200
        urls = {"ann.trip": first.serving.url, "ann.food": second.serving.url}
        for desk in (first, second):
            tree = await get_json(desk, "/v1/tree")
            assert {child["name"]: child["host"] for child in tree["children"]} == urls
            rows = await get_json(desk, "/v1/tree/rows")
            assert {row["session"]: row["host"] for row in rows["items"]} == urls
            assert (rows["matching"], rows["total"], rows["missing"]) == (2, 2, [])
            limited = await get_json(desk, "/v1/tree/rows?limit=1")
            assert (len(limited["items"]), limited["matching"]) == (1, 2)
            figures = await get_json(desk, "/v1/figures?per=session")
            turns = {series["name"]: series["buckets"][0]["turns"] for series in figures["series"]}
            assert turns == {"ann.trip": {"end": 1}, "ann.food": {"end": 1}}
            (series,) = (await get_json(desk, "/v1/figures?per=tenant"))["series"]
            assert sum(bucket["turns"]["end"] for bucket in series["buckets"]) == 2
            assert (await get_json(desk, "/v1/trouble")) == {"items": [], "more": False, "missing": []}
            metrics = (await desk.clients["boss"].get("/metrics")).text.splitlines()
            for url in urls.values():
                assert f'agentrail_host_up{{host="{url}"}} 1' in metrics
                assert f'agentrail_turns_total{{host="{url}",tenant="acme",end="end"}} 1' in metrics
            assert len([line for line in metrics if line.startswith("# TYPE agentrail_turns_total ")]) == 1
        assert (await get_json(first, "/v1/tree/rows"))["items"] == (await get_json(second, "/v1/tree/rows"))["items"]


async def test_a_host_that_does_not_answer_is_named() -> None:
    journal = MemoryJournal()
    url = f"http://127.0.0.1:{free_port()}"
    for slot in range(SLOTS):
        await journal.claim(slot_claim(slot), url, Lease(Clock().now_ms(), 60_000))
    async with open_member(journal, talks()) as desk:
        await desk.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        tree = await get_json(desk, "/v1/tree")
        assert [(child["name"], child["kind"], child["state"]) for child in tree["children"]] == [
            ("ann.trip", "session", "running"),
            (url, "supervisor", "down"),
        ]
        for path in ("/v1/tree/rows", "/v1/trouble", "/v1/figures"):
            assert (await get_json(desk, path))["missing"] == [url]
        assert f'agentrail_host_up{{host="{url}"}} 0' in (await desk.clients["boss"].get("/metrics")).text


async def test_a_host_that_ends_tells_the_others() -> None:
    journal = MemoryJournal()
    async with played_holder(ENDS + b"\r\n") as other:
        for slot in range(SLOTS):
            await journal.claim(slot_claim(slot), other.address, Lease(Clock().now_ms(), 60_000))
        async with open_member(journal, talks()):
            pass
    assert [head.partition(b" HTTP")[0] for head in other.heads] == [b"POST /cluster/farewell"]


@pytest.mark.campaign
@pytest.mark.long
async def test_changes_of_rows_come_from_all_hosts() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        await until_known(first, second)
        async with connect(second.serving.url, KEYS["boss"]) as supervisor, supervisor.watch_rows() as changes:
            await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
            row = await heard(changes, "ann.trip", lambda row: row is not None and row.turn == 1)
            assert row is not None
            assert row.host == first.serving.url
            await second.ann.post("/v1/chat", json={"session": "food", "message": "hi"})
            await heard(changes, "ann.food", lambda row: row is not None and row.host == second.serving.url)
            await first.ann.post("/v1/sessions/trip/stop", json={})
            await heard(changes, "ann.trip", lambda row: row is None)


def listener(most: int, known_rows: dict[str, KnownRow]) -> TreeListener:
    return TreeListener(RowsQuery(), most, known_rows)


def sent(tree_listener: TreeListener) -> dict[str, str | None]:
    """Return the hosts of the rows of the next message, by their sessions."""
    changed = json.loads(tree_listener.message("t"))["changed"]
    return {session: None if row is None else row["host"] for session, row in changed.items()}


def test_a_row_that_moves_between_hosts_is_never_gone() -> None:
    row = msgspec.json.decode(ROW, type=learned(RowView))
    here, elsewhere = row.but(host="here"), row.but(host="there")
    known_rows: dict[str, KnownRow] = {}
    tree_listener = listener(10, known_rows)
    tree_listener.take_elsewhere(RowsView((elsewhere,), 1, 1))
    assert sent(tree_listener) == {"ann.trip": "there"}
    known_rows[NAME] = KnownRow(here, to_json(here))  # it comes here, before the other host is asked again
    tree_listener.take(NAME, here)
    assert sent(tree_listener) == {"ann.trip": "here"}
    tree_listener.take_elsewhere(RowsView((), 0, 0))
    assert sent(tree_listener) == {}
    tree_listener.take_elsewhere(RowsView((elsewhere,), 1, 1))  # it goes there, which is heard before it is gone here
    assert sent(tree_listener) == {}
    del known_rows[NAME]
    tree_listener.take(NAME, None)
    assert sent(tree_listener) == {"ann.trip": "there"}
    tree_listener.take_elsewhere(RowsView((), 0, 0, ("lost",)))
    assert json.loads(tree_listener.message("t")) == {
        "id": "t",
        "changed": {"ann.trip": None},
        "matching": 0,
        "total": 0,
        "missing": ["lost"],
    }


def test_rows_of_other_hosts_get_the_room_that_is_left() -> None:
    row = msgspec.json.decode(ROW, type=learned(RowView))
    tree_listener = listener(1, {NAME: KnownRow(row, to_json(row))})
    tree_listener.take(NAME, row)
    tree_listener.take_elsewhere(RowsView((row.but(session="ann.food"),), 1, 1))
    message = json.loads(tree_listener.message("t"))
    assert (set(message["changed"]), message["matching"], message["total"]) == ({"ann.trip"}, 2, 2)


def latency(count: int, mean: float, longest: float) -> LatencyView:
    return LatencyView(count, mean, longest)


def figures(step: int, buckets: dict[int, int]) -> FiguresView:
    views = [
        FigureBucketView(
            start_ms, 0.5, 1, count, 10, 20, 5, 0.5, {"end": count}, 1, latency(count, 1.0, count), None, None, None
        )
        for start_ms, count in buckets.items()
    ]
    host = tuple([HostBucketView(start_ms, latency(1, 0.1, 0.1), count / 10) for start_ms, count in buckets.items()])
    series = (SeriesView("acme", tuple(views)), SeriesView(f"of {step}", ()))
    return FiguresView(0, 10 * MINUTE, step, step, "tenant", series, 1, host)


def test_figures_are_added_up_in_the_longer_stretches() -> None:
    views = {"a": figures(MINUTE, {0: 1, MINUTE: 2}), "b": figures(2 * MINUTE, {0: 4})}
    merged = merge_figures(views, ("c",), 2)
    (bucket,) = merged.series[0].buckets
    assert (bucket.at_ms, bucket.responses, bucket.turns, bucket.cost_usd) == (0, 7, {"end": 7}, 1.5)
    assert bucket.turn == latency(7, 1.0, 4.0)
    assert (bucket.cached_share, bucket.abort) == (0.5, None)
    assert merged.host == (HostBucketView(0, latency(3, 0.1, 0.1), 0.4),)
    assert (merged.bucket_ms, merged.more, merged.missing, len(merged.series)) == (2 * MINUTE, 2, ("c",), 2)


def test_troubles_are_the_newest_of_all() -> None:
    views = {
        host: TroublesView(tuple([TroubleView("s", time, "crash", "", "") for time in times]), more)
        for host, times, more in (("a", (5, 1), False), ("b", (4, 3), False))
    }
    merged = merge_troubles(views, (), 3)
    assert ([trouble.at_ms for trouble in merged.items], merged.more) == ([5, 4, 3], True)
    assert not merge_troubles(views, (), 4).more


def test_metrics_of_all_hosts_are_one_text() -> None:
    text = '# HELP a b c\n# TYPE a gauge\na 1\n# HELP d e\n# TYPE d counter\nd{x="{ \\" }"} 2\n'
    assert merge_metrics({"h1": text, "h2": text}, ("h3",)) == (
        '# HELP a b c\n# TYPE a gauge\na{host="h1"} 1\na{host="h2"} 1\n# HELP d e\n# TYPE d counter\n'
        'd{host="h1",x="{ \\" }"} 2\nd{host="h2",x="{ \\" }"} 2\n'
        "# HELP agentrail_host_up Whether a host of the cluster has told its figures in time.\n"
        "# TYPE agentrail_host_up gauge\n"
        'agentrail_host_up{host="h1"} 1\nagentrail_host_up{host="h2"} 1\nagentrail_host_up{host="h3"} 0\n'
    )
