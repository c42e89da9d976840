"""Figures over time: what sessions did and used, minute by minute, whose they are, and that they are bounded."""

from __future__ import annotations

import sys
from typing import Any

import httpx
import pytest

from agentrail import SessionSpec, State, connect, tool
from agentrail.host.health.figures_history import HOUR, KEPT, MINUTE, NAMES, POINTS, Bucket, FiguresHistory
from agentrail.models import Usage
from agentrail.plugins import HumanApproval
from agentrail.runtime.diagnosis.session_listener import SessionListener
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools.builtin import ask_user
from tests.host.hosted import KEYS, Desk, listening, open_desk, scripted
from tests.host.test_host import chat
from tests.kit import Element, Setup

USED = Usage(100, 10, cached_tokens=40, cost_usd=0.25)


@tool
async def boom() -> str:
    """Break."""
    raise OSError("boom")


async def figures(client: httpx.AsyncClient, **query: str | int) -> dict[str, Any]:
    answer = await client.get("/v1/figures", params=query)
    assert answer.status_code == 200, answer.text
    view: dict[str, Any] = answer.json()
    return view


def total(series: dict[str, Any], name: str) -> float:
    view: list[float] = [bucket[name] for bucket in series["buckets"]]
    return sum(view)


def working() -> SessionSpec:
    script = [say(calls=[call("boom")], usage=USED), say("sorry", usage=USED)]
    return SessionSpec(model=ScriptedModel(script, name="small"), tools=[boom])


async def test_figures_are_by_tenant_session_model_and_tool() -> None:
    async with open_desk(working()) as desk:
        await chat(desk.ann, "go", session="trip")
        boss = desk.clients["boss"]
        for per, name in (("tenant", "acme"), ("session", "ann.trip"), ("model", "small")):
            view = await figures(boss, per=per)
            (series,) = view["series"]
            assert (view["per"], series["name"], view["bucket_ms"], view["host"]) == (per, name, MINUTE, [])
            assert (total(series, "responses"), total(series, "input_tokens"), total(series, "output_tokens")) == (
                2,
                200,
                20,
            )
            assert total(series, "cost_usd") == 0.5
            assert all(bucket["cached_share"] in {0.4, None} for bucket in series["buckets"])
            ends = [end for bucket in series["buckets"] for end in bucket["turns"].items()]
            assert ends == [("end", 1)]
            measured = per != "session"
            for what in ("turn", "first_word"):
                assert any(bucket[what] is not None for bucket in series["buckets"]) == measured
        (series,) = (await figures(boss, per="tool"))["series"]
        assert (series["name"], total(series, "tool_errors"), total(series, "responses")) == ("boom", 1, 0)
        (took,) = [bucket["tool"] for bucket in series["buckets"] if bucket["tool"] is not None]
        assert took["count"] == 1
        assert 0 <= took["mean_s"] <= took["longest_s"]


async def decide(desk: Desk, what: str, field: str, **more: str) -> None:
    """Decide about what waits for a person."""
    (held,) = (await desk.ann.get("/v1/approvals")).json()["items"]
    answer = await desk.ann.post(f"/v1/sessions/trip/{what}", json={field: held["id"], **more})
    assert answer.is_success, answer.text


async def until_told(desk: Desk, event: str) -> None:
    async with listening(desk, "GET", "/v1/sessions/trip/events", since="0") as events:
        assert event in await events.until(lambda text: event in text)


async def test_waits_for_people_are_counted_apart_from_the_time_of_the_tool() -> None:
    script: list[Element] = [say(calls=[call("boom")]), say(calls=[call("ask_user", {"question": "Why?"})]), "Well."]
    spec = SessionSpec(
        model=ScriptedModel(script, name="small"), tools=[boom, ask_user], plugins=[HumanApproval(tools=["boom"])]
    )
    async with open_desk(spec) as desk:
        await desk.ann.post("/v1/chat", json={"message": "go", "session": "trip"})
        await decide(desk, "approve", "approval")
        await until_told(desk, "AskUser")
        await decide(desk, "respond", "ref", answer="Because.")
        await until_told(desk, "AgentEnd")
        boss = desk.clients["boss"]
        view = (await figures(boss, per="tool"))["series"]
        (tenant,) = (await figures(boss))["series"]
    people = {series["name"]: [it["person"]["count"] for it in series["buckets"] if it["person"]] for series in view}
    assert people == {"boom": [1], "ask_user": [1]}
    assert sum(it["person"]["count"] for it in tenant["buckets"] if it["person"]) == 2
    assert all(it["person"]["longest_s"] >= 0 for it in tenant["buckets"] if it["person"])


async def test_an_abort_is_counted_with_its_time() -> None:
    async with open_desk(scripted(stall())) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "go"})
        await desk.ann.post("/v1/sessions/trip/abort", json={})
        (series,) = (await figures(desk.clients["boss"]))["series"]
    assert [bucket["turns"] for bucket in series["buckets"] if bucket["turns"]] == [{"aborted": 1}]
    assert sum(bucket["abort"]["count"] for bucket in series["buckets"] if bucket["abort"]) == 1


async def test_each_tenant_sees_its_own_and_who_operates_sees_all_and_the_host() -> None:
    async with open_desk(working()) as desk:
        await chat(desk.ann, "go", session="trip")
        eve, root = desk.clients["eve"], desk.clients["root"]
        for per in ("tenant", "session", "model", "tool"):
            assert (await figures(eve, per=per))["series"] == []
        await chat(eve, "go", session="trip")
        view = await figures(root)
        assert sorted(series["name"] for series in view["series"]) == ["acme", "evil"]
        assert sum(bucket["commit"]["count"] for bucket in view["host"] if bucket["commit"]) > 0
        assert all(bucket["loop_lag_s"] >= 0 for bucket in view["host"])
        (model,) = (await figures(root, per="model"))["series"]
        assert total(model, "responses") == 2  # the second script found its end: a request that failed used nothing
        assert (await figures(root, per="session"))["series"] == []
        assert (await desk.clients["bob"].get("/v1/figures")).status_code == 403


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("per=user", 400),
        ("per=", 400),
        ("since_ms=-1", 400),
        ("since_ms=5&until_ms=4", 400),
        ("limit=0", 400),
        ("since_ms=0&until_ms=0", 200),
        ("since_ms=9007199254740991", 200),
        ("until_ms=9007199254740991&since_ms=0", 200),
        ("limit=9007199254740991", 200),
    ],
)
async def test_queries_that_do_not_fit_are_refused(query: str, status: int) -> None:
    async with open_desk(scripted("one")) as desk:
        answer = await desk.clients["boss"].get(f"/v1/figures?{query}")
        assert answer.status_code == status, answer.text


async def test_an_erased_session_has_no_figures_by_its_name() -> None:
    async with open_desk(working()) as desk:
        await chat(desk.ann, "go", session="trip")
        await desk.clients["boss"].delete("/v1/sessions/ann.trip")
        assert (await figures(desk.clients["boss"], per="session"))["series"] == []
        assert total((await figures(desk.clients["boss"]))["series"][0], "responses") == 2


async def test_a_remote_supervisor_reads_them() -> None:
    async with open_desk(working()) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        await session.ask("go")
        (series,) = (await supervisor.figures_over_time("model", limit=1)).series
        assert (series.name, series.buckets[-1].turns) == ("small", {"end": 1})


# The ring


def state(tenant: str, session: str, model: str = "m") -> State:
    return State(f"h.{tenant}.ann.{session}", Setup(tenant=tenant), model)


class Time:
    now = 1_000_000 * MINUTE

    def __call__(self) -> int:
        return self.now


def history_of(time: Time) -> FiguresHistory:
    listeners = list[SessionListener]()
    return FiguresHistory(time, listeners.append, listeners.remove)


async def test_when_nobody_has_looked_for_an_hour_nothing_is_counted_until_somebody_does() -> None:
    time, listeners = Time(), list[SessionListener]()
    history = FiguresHistory(time, listeners.append, listeners.remove)
    history.used(state("acme", "s"), "m", USED)
    time.now += HOUR
    history.lagged(0.0)
    assert listeners == [history]
    assert (await history.view("tenant", "acme", 0, None, 10)).series[0].buckets[0].responses == 1
    time.now += HOUR
    history.lagged(0.0)
    assert listeners == [history]  # somebody has looked meanwhile
    time.now += 1
    history.lagged(0.0)
    assert listeners == []
    history.lagged(0.0)
    view = await history.view("tenant", "acme", 0, None, 10)
    assert (view.series, view.kept_since_ms, listeners) == ((), time.now, [history])
    history.used(state("acme", "s"), "m", USED)
    assert len((await history.view("tenant", "acme", None, None, 10)).series) == 1


async def test_what_is_kept_is_bounded_in_time_and_in_names() -> None:
    time = Time()
    history = history_of(time)
    for minute in range(KEPT + 10):
        time.now = Time.now + minute * MINUTE
        for number in range(3 if minute else 5 * NAMES):
            history.used(state("acme", f"s{number}", f"m{number}"), f"m{number}", USED)
    everything = await history.view("tenant", "acme", 0, time.now, 10)
    assert sum(bucket.responses for bucket in everything.series[0].buckets) == 3 * KEPT
    assert len(everything.series[0].buckets) <= POINTS + 1
    assert everything.kept_since_ms == time.now - KEPT * MINUTE


async def test_names_beyond_the_bound_are_counted_together_each_tenant_for_itself() -> None:
    history = history_of(Time())
    for number in range(3 * NAMES):
        history.used(state("acme", f"s{number}"), "m", USED)
    history.used(state("evil", "own"), "m", USED)
    view = await history.view("session", "acme", None, None, 100)
    counts = {series.name: series.buckets[0].responses for series in view.series}
    assert (len(counts), counts[""], view.more) == (NAMES + 1, 2 * NAMES, 0)
    (rest,) = (await history.view("session", "evil", None, None, 100)).series
    assert (rest.name, rest.buckets[0].responses) == ("", 1)
    for number in range(3 * NAMES):
        history.used(state(f"t{number}", "s"), "m", USED)
    everybody = await history.view("tenant", None, None, None, 1_000)
    assert sum(series.buckets[0].responses for series in everybody.series) == 6 * NAMES + 1
    assert len(everybody.series) <= NAMES + 1


def test_a_bucket_takes_no_more_memory_than_is_said() -> None:
    bucket = Bucket()
    for number in range(10 * NAMES):
        for kind in ("tenant", "session", "model", "tool"):
            bucket.of(kind, f"t{number}", f"{number}" * 100)
    assert len(bucket.rows) <= 4 * (2 * NAMES + 1)
    assert all(sys.getsizeof(name) < 300 for _, _, name in bucket.rows)


async def test_a_series_that_costs_more_comes_first_and_the_others_are_counted() -> None:
    history = history_of(Time())
    for number in range(5):
        history.used(state("acme", "s"), f"m{number}", Usage(1, 1, cost_usd=float(number)))
    view = await history.view("model", "acme", None, None, 2)
    assert ([series.name for series in view.series], view.more) == (["m4", "m3"], 3)
