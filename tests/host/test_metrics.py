"""`/metrics`: read by the parser of Prometheus, whole; and whose figures are whose."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

import httpx
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.api.operation_table import CALLS, ROUTES
from agentrail.host import ApiKeys, HostLimits, Identity, host_server
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.host.health import health_parts
from agentrail.host.health.prometheus import AT_ONCE, FAMILIES, MetricCalls, head, lines
from agentrail.host.operations.call import OperationCall
from agentrail.host.operations.event_frames import EventFrames
from agentrail.models import Usage
from agentrail.plugins import HumanApproval
from agentrail.runtime.diagnosis.figures import BOUNDS, TURN_BOUNDS
from agentrail.telemetry import MetricFamily
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.values.events.policies import SubscriptionPolicy
from tests.each_case import each_case
from tests.host.hosted import Desk, listening, open_desk, scripted
from tests.host.test_host import chat, until
from tests.host.websocket.talking import talking
from tests.kit import Element
from tests.patience import PATIENCE

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


HISTOGRAM: Final = "agentrail_abort_seconds"


def read(text: str) -> Samples:
    """Return each sample of a document, by its name and labels; the parser of Prometheus reads it."""
    values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type != "unknown"
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in values
            values[key] = sample.value
    return values


async def metrics(client: httpx.AsyncClient) -> Samples:
    answer = await client.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert (
        answer.text.count("# TYPE ")
        == answer.text.count("# HELP ")
        == len(re.findall(r"^# TYPE", answer.text, re.MULTILINE))
    )
    return read(answer.text)


def of(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, tuple(sorted(labels.items()))))


@tool
async def remove(path: str) -> str:
    """Remove a file."""
    return path


def approving() -> SessionSpec:
    used = Usage(100, 20, cached_tokens=30, reasoning_tokens=5, cost_usd=0.25, cache_write_tokens=7)
    script: list[Element] = [say("one", usage=used), say(calls=[call("remove", {"path": "a"})]), "done", stall()]
    return SessionSpec(model=ScriptedModel(script), tools=[remove], plugins=[HumanApproval(tools=("remove",))])


async def test_the_figures_are_those_of_what_has_happened() -> None:
    async with open_desk(approving()) as desk:
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
        assert (await chat(desk.ann, "go", session="trip")).status_code == 202
        model = (await desk.ann.get("/v1/sessions/trip")).json()["status"]["model"]
        values = await metrics(desk.clients["root"])
        labels = {"tenant": "acme"}
        assert of(values, "agentrail_sessions", phase="idle", **labels) == 1
        assert of(values, "agentrail_turns_total", end="end", **labels) == 1
        assert of(values, "agentrail_held_calls", **labels) == 1
        assert of(values, "agentrail_quarantined_calls", **labels) == 0
        tokens = {
            kind: of(values, "agentrail_tokens_total", model=model, kind=kind, **labels)
            for kind in ("input", "output", "cached", "cache_write", "reasoning")
        }
        assert tokens == {"input": 100, "output": 20, "cached": 30, "cache_write": 7, "reasoning": 5}
        assert of(values, "agentrail_cost_usd_total", model=model, **labels) == 0.25
        assert (of(values, "agentrail_commits_total") or 0) >= 5
        assert of(values, "agentrail_connections") == 2  # that of the user, and that of the operator
        assert of(values, "agentrail_journal_failures_total") == 0
        await desk.ann.post("/v1/sessions/trip/approve", json={"approval": held(await waiting(desk))})
        await until(lambda: desk.serving.supervisor.session("h.acme.ann.trip").status().phase == "idle")
        for message in ("stall", "later", "last"):
            await desk.ann.post("/v1/sessions/trip/prompt", json={"message": message})
        await desk.ann.post("/v1/sessions/trip/steer", json={"text": "hush"})
        values = await metrics(desk.clients["root"])
        assert of(values, "agentrail_turns_total", end="end", **labels) == 2
        assert (
            of(values, "agentrail_held_calls", **labels),
            of(values, "agentrail_held_oldest_seconds", **labels),
        ) == (0, 0)
        assert (
            of(values, "agentrail_queued_prompts", **labels),
            of(values, "agentrail_queued_steering", **labels),
        ) == (2, 1)
        aborted = await desk.ann.post("/v1/sessions/trip/abort", json={"clear_queue": True})
        assert aborted.status_code == 204
        values = await metrics(desk.clients["root"])
        assert of(values, "agentrail_turns_total", end="aborted", **labels) == 1
        assert of(values, "agentrail_aborts_total", kind="user", **labels) == 1
        assert (
            of(values, "agentrail_queued_prompts", **labels),
            of(values, "agentrail_queued_steering", **labels),
        ) == (0, 0)
        assert of(values, f"{HISTOGRAM}_count", **labels) == of(values, f"{HISTOGRAM}_bucket", le="+Inf", **labels) == 1
        buckets = [of(values, f"{HISTOGRAM}_bucket", le=repr(bound), **labels) or 0 for bound in BOUNDS]
        assert buckets == sorted(buckets)


async def waiting(desk: Desk) -> dict[str, Any]:
    values: dict[str, Any] = (await desk.ann.get("/v1/sessions/trip")).json()["status"]
    return values


def held(status: dict[str, Any]) -> str:
    return str(status["held"][0]["id"])


async def test_the_table_is_what_is_written() -> None:
    async with open_desk(approving()) as desk:
        await chat(desk.ann, "hi", session="trip")
        text = (await desk.clients["root"].get("/metrics")).text
        assert re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE) == [
            (row.name, row.kind) for row in FAMILIES.values()
        ]
        values = read(text)
        names = {name for name, _ in values}
        missing = {name for name, row in FAMILIES.items() if row.kind != "histogram"} - names
        assert missing == {"agentrail_aborts_total"}  # none was carried out
        for name, labels in values:
            family = FAMILIES.get(name)
            if family is not None:
                assert tuple(sorted(key for key, _ in labels)) == tuple(sorted(family.labels))


# Requests, turns and memory


ROUTES_OF_ALL: Final = {(route.method, route.path) for route in ROUTES} | {("", "")}


async def test_requests_are_counted_by_route_and_status() -> None:
    async with open_desk(scripted("one", "two", "three")) as desk:
        for session in ("a", "b"):
            assert (await chat(desk.ann, "hi", session=session)).status_code == 200
            assert (await desk.ann.get(f"/v1/sessions/{session}")).status_code == 200
        assert (await desk.ann.get("/v1/sessions/gone")).status_code == 404
        assert (await desk.ann.head("/healthz")).status_code == 200
        for path in ("/v1/nowhere", "/%22", "/v1/sessions/a/prompt"):
            assert (await desk.ann.get(path)).status_code in {404, 405}
        assert (await desk.ann.request("X-EVIL", "/v1/chat")).status_code in {404, 405, 501}
        async with talking(desk) as talker:
            assert (await talker.ask("commands"))["status"] == 200
            assert (await talker.ask("show_session", session="gone"))["status"] == 404
        values = await metrics(desk.clients["root"])

    def counted(method: str, route: str, status: int) -> float | None:
        return of(values, "agentrail_requests_total", method=method, route=route, status=str(status))

    assert counted("POST", "/v1/chat", 200) == 2
    assert counted("GET", "/v1/sessions/{id}", 200) == 2
    assert counted("GET", "/v1/sessions/{id}", 404) == 1
    assert counted("GET", "/healthz", 200) == 1
    assert counted("GET", "/v1/ws", 101) == 1
    assert counted("WS", "/v1/ws/commands", 200) == 1
    assert counted("WS", "/v1/ws/show_session", 404) == 1
    routes = {
        (labels["method"], labels["route"])
        for name, pairs in values
        if name.startswith("agentrail_request")
        for labels in [dict(pairs)]
    }
    assert {pair for pair in routes if pair[0] != "WS"} <= ROUTES_OF_ALL
    of_chat = {"method": "POST", "route": "/v1/chat"}
    assert of(values, "agentrail_request_seconds_count", **of_chat) == 2
    assert of(values, "agentrail_request_seconds_bucket", le="+Inf", **of_chat) == 2
    buckets = [of(values, "agentrail_request_seconds_bucket", le=repr(bound), **of_chat) or 0 for bound in BOUNDS]
    assert buckets == sorted(buckets)
    assert (of(values, "agentrail_request_seconds_sum", **of_chat) or 0) > 0
    unknown = sum(
        figure for (name, labels), figure in values.items() if name.endswith("s_total") and ("route", "") in labels
    )
    assert unknown == 4


async def test_a_request_whose_client_has_gone_is_counted_without_a_status() -> None:
    model = ScriptedModel([stall()])
    async with open_desk(SessionSpec(model=model)) as desk:
        async with listening(desk, "GET", "/v1/sessions") as listener:
            assert listener.status == 200
        async with trio.open_nursery() as nursery:
            nursery.start_soon(chat, desk.ann, "stay")
            await until(lambda: bool(model.requests))
            nursery.cancel_scope.cancel()
        values: Samples = {}
        while of(values, "agentrail_requests_total", method="POST", route="/v1/chat", status="0") is None:
            values = await metrics(desk.clients["root"])
        assert of(values, "agentrail_requests_total", method="GET", route="/v1/sessions", status="200") == 1


async def test_turns_and_their_first_words_are_timed() -> None:
    script: list[Element] = [say("", calls=[call("remove", {"path": "a"})]), "done", "again", stall()]
    async with open_desk(SessionSpec(model=ScriptedModel(script), tools=[remove])) as desk:
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
        await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "stay"})
        values = await metrics(desk.clients["root"])
        labels = {"tenant": "acme"}
        assert of(values, "agentrail_turn_seconds_count", **labels) == 2
        assert of(values, "agentrail_first_word_seconds_count", **labels) == 2, (
            "one for each turn, not for each response"
        )
        assert (await desk.ann.post("/v1/sessions/trip/abort", json={})).status_code == 204
        values = await metrics(desk.clients["root"])
        assert of(values, "agentrail_turn_seconds_count", **labels) == 3
        assert of(values, "agentrail_first_word_seconds_count", **labels) == 2
        for name in ("agentrail_turn_seconds", "agentrail_first_word_seconds"):
            buckets = [of(values, f"{name}_bucket", le=repr(bound), **labels) or 0 for bound in TURN_BOUNDS]
            assert buckets == sorted(buckets)
            assert of(values, f"{name}_bucket", le="+Inf", **labels) == of(values, f"{name}_count", **labels)


async def test_the_time_of_a_turn_has_what_it_waited_for_a_person(autojump_clock: object) -> None:  # noqa: ARG001
    model = ScriptedModel([say(calls=[call("remove", {"path": "a"})]), "done"])
    spec = SessionSpec(model=model, tools=[remove], plugins=[HumanApproval(tools=("remove",), timeout=None)])
    async with open_supervisor() as supervisor:
        figures = supervisor.figures(10)
        session = await supervisor.spawn(spec)
        await session.prompt("go")
        await trio.sleep(3600)
        await session.approve(session.status().held[0].id)
        await trio.sleep(1)
        (tenant_figures,) = figures.tenants.values()
    assert 3600 <= tenant_figures.turn_times.total < 3700
    assert tenant_figures.turn_times.counts == [0] * len(TURN_BOUNDS) + [1]
    assert sum(tenant_figures.first_words.counts) == 1


async def test_memory_is_that_of_the_process() -> None:
    pages = int((await trio.Path("/proc/self/statm").read_text("ascii")).split()[1])
    async with open_desk(scripted("one")) as desk:
        size = of(await metrics(desk.clients["root"]), "agentrail_resident_memory_bytes")
    assert size is not None
    assert size == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE"), rel=0.3)


# Whose figures are whose


async def test_a_tenant_sees_its_own_figures_alone() -> None:
    async with open_desk(scripted("one", "two", "three")) as desk:
        await chat(desk.ann, "hi")
        await chat(desk.clients["eve"], "hi")
        for user, tenant in (("boss", "acme"), ("eve", "evil")):
            values = await metrics(desk.clients[user])
            assert {value for _, labels in values for key, value in labels if key == "tenant"} == {tenant}
            assert of(values, "agentrail_turns_total", tenant=tenant, end="end") == 1
            assert {name for name, _ in values if not FAMILIES.get(name, FAMILIES[HISTOGRAM]).of_tenant} == set()
        of_all = await metrics(desk.clients["root"])
        assert {value for _, labels in of_all for key, value in labels if key == "tenant"} == {"acme", "evil"}


async def test_metrics_need_a_key_with_the_scope() -> None:
    async with open_desk(scripted("one")) as desk:
        refused = await desk.ann.get("/metrics")
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:agentrail:problem:scope-missing")
        async with httpx.AsyncClient(base_url=desk.serving.url, trust_env=False, timeout=PATIENCE) as nobody:
            assert (await nobody.get("/metrics")).status_code == 401


async def test_only_so_many_tenants_are_counted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (health_parts, host_server):
        monkeypatch.setattr(module, "METRIC_TENANTS", 2)
    keys_by_tenant = {name: new_key(name, "u", ("talk", "observe")) for name in ("t1", "t2", "t3", "t4")}
    operator, key = new_key("ops", "root", ("observe", "operate"))
    keys = ApiKeys(lines=render_keys([*[row for row, _ in keys_by_tenant.values()], operator]))
    async with open_desk(scripted(*["one"] * 4), keys=keys) as desk:
        for _, tenant_key in keys_by_tenant.values():
            desk.ann.headers["authorization"] = f"Bearer {tenant_key}"
            assert (await chat(desk.ann, "hi")).status_code == 200
        late = await desk.ann.get("/metrics")  # as the last one
        assert late.text.startswith("# More tenants are there than are counted by name")
        assert read(late.text) == {}
        desk.ann.headers["authorization"] = f"Bearer {key}"
        values = await metrics(desk.ann)
        turns = {dict(labels)["tenant"]: figure for (name, labels), figure in values.items() if "turns" in name}
        assert turns == {"t1": 1, "t2": 1, "": 2}


class Named:
    """Authenticator: the tenant is what it is given."""

    def __init__(self, tenant: str) -> None:
        self.who = Identity(tenant, "u", frozenset(["talk", "observe", "admin"]))

    async def identify(self, headers: object) -> Identity:
        del headers
        await trio.lowlevel.checkpoint()
        return self.who


@pytest.mark.parametrize("tenant", ['a"b\\', "{x=}", "é ☃", 'x"} 9', "\\n"], ids=range(5))
async def test_hostile_names_of_tenants_are_labels(tenant: str) -> None:
    async with open_desk(scripted("one"), keys=Named(tenant)) as desk:  # type: ignore[arg-type]
        assert (await chat(desk.ann, "hi")).status_code == 200
        values = await metrics(desk.ann)
        assert of(values, "agentrail_turns_total", tenant=tenant, end="end") == 1
        assert {value for _, labels in values for key, value in labels if key == "tenant"} == {tenant}


@each_case(["", "a\nb", 'x"} 1\nfake 2', "\\", "\\\\n", "\ud800", "\r", "\u2028", "\x00", "x" * 5000])
def test_any_text_is_a_label(value: str) -> None:
    family = MetricFamily("agentrail_test_total", "counter", "A test.", ("model",))
    text = head(family) + lines(family, [((value,), 3.0), (("other",), 4)])
    text.encode()
    (parsed,) = text_string_to_metric_families(text)
    expected = value.replace("\ud800", "\ufffd")
    assert [(sample.labels, sample.value) for sample in parsed.samples] == [
        ({"model": expected}, 3.0),
        ({"model": "other"}, 4.0),
    ]


async def test_many_tenants_are_written_in_pieces_and_none_is_left_out() -> None:
    async with open_supervisor() as supervisor:
        figures = supervisor.figures()
        for number in range(AT_ONCE * 3 + 1):
            figures.of(f"t{number}").use("demo", Usage(1, 1))
        calls = MetricCalls(figures)
        operator = Identity("ops", "root", frozenset(["observe", "operate"]))
        answer = await calls.metrics(OperationCall(CALLS["metrics"], operator, "", HostLimits()))
    values = read(answer.text)
    queued = {dict(labels)["tenant"] for name, labels in values if name == "agentrail_queued_prompts"}
    assert queued == {f"t{number}" for number in range(AT_ONCE * 3 + 1)}
    assert of(values, "agentrail_tokens_total", tenant="t30", model="demo", kind="input") == 1


# Slow clients


async def goes_on(frames: bytes) -> bool:
    await trio.lowlevel.checkpoint()
    return b"event: AgentEnd" not in frames and b"event: gap" not in frames


@pytest.mark.parametrize("policy", ["coalesce", "drop"])
async def test_what_a_slow_client_loses_is_counted(policy: SubscriptionPolicy) -> None:
    model = ScriptedModel([say(chunks=[*(["a"] * 20)]), "two"])
    async with open_supervisor() as supervisor:
        figures = supervisor.figures()
        frames = EventFrames(HostLimits(), figures)
        session = await supervisor.spawn(SessionSpec(model=model), "h.acme.ann.trip", tenant="acme")
        async with session.subscribe(capacity=8, policy=policy) as events:
            await session.ask("hi")
            await frames.give_each(events, goes_on)
        values = figures.tenants["acme"]
        assert (values.merged > 0, values.dropped > 0) == (policy == "coalesce", True)
        assert (events.merged, events.dropped) == (0, 0)
