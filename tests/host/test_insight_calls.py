"""The state at a record, the timeline and what the model saw, over HTTP: bounded, and cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from agentrail import Secret, SessionSpec, connect, tool
from agentrail.api.insight_views import TimelineRowView
from agentrail.host.operations import record_calls
from agentrail.host.operations.record_views import ITEMS, TEXT
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.models import Json, Usage
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import KEYS, open_desk, scripted
from tests.host.test_host import chat
from tests.host.test_records import get_view

LONG: Final = "x" * 5_000


@tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


def with_echo(text: str = "hi") -> SessionSpec:
    used = Usage(100, 10, cached_tokens=50)
    model = ScriptedModel(
        [say("one moment", calls=[call("echo", {"text": text})], usage=used), say("done", usage=used)]
    )
    return SessionSpec(
        model=model, tools=[echo], plugins=[BudgetGuard(max_usd=5, unknown_price="allow")], system="Be brief."
    )


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_the_state_at_each_record_is_there_with_what_has_changed(kind: str, tmp_path: Path) -> None:
    journal = MemoryJournal() if kind == "memory" else SqliteJournal(tmp_path / "s.db")
    async with open_desk(with_echo(), journal=journal) as desk:
        await chat(desk.ann, "go", session="trip")
        boss = desk.clients["boss"]
        page = await get_view(boss, "records")
        states = [await get_view(boss, "at", record=number) for number in range(1, page["head"] + 1)]
    assert [state["record"] for state in states] == [record["number"] for record in page["records"]]
    assert all(state["head"] == page["head"] for state in states)
    for record, state in zip(page["records"], states, strict=True):
        assert state["state"]["phase"] == record["phase_after"]
        changed = {change["field"].partition(".")[0].partition("[")[0] for change in state["changes"]}
        assert changed <= set(state["state"])
        phases = [change for change in state["changes"] if change["field"] == "phase"]
        assert bool(phases) == ("phase" in record["changed"])
    last = states[-1]["state"]
    assert [message["$"] for message in last["history"]] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "AssistantMessage",
    ]
    assert (last["turn_count"], last["turn"], list(last["plugin_states"])) == (1, None, ["BudgetGuard"])
    assert isinstance(last["plugin_states"]["BudgetGuard"], dict)
    assert "h.acme" not in json.dumps(states)


async def test_long_parts_of_a_state_are_cut_unless_it_is_wanted_whole() -> None:
    async with open_desk(with_echo(LONG)) as desk:
        await chat(desk.ann, "go", session="trip")
        boss = desk.clients["boss"]
        head = (await get_view(boss, "records"))["head"]
        cut = await get_view(boss, "at", record=head)
        complete = await get_view(boss, "at", record=head, whole="true")
    assert LONG[: TEXT + 1] not in json.dumps(cut)
    assert LONG in json.dumps(complete)
    assert complete["folded"] == []
    assert {fold["length"] for fold in cut["folded"]} >= {len(LONG)}


async def test_a_timeline_has_rows_page_by_page_and_the_spans_that_go_with_them() -> None:
    spec = with_echo().but(plugins=[HumanApproval(tools=["echo"])])
    async with open_desk(spec) as desk:
        reply = await chat(desk.ann, "go", session="trip")
        approval = {"approval": reply.json()["held"][0]["id"]}
        await desk.ann.post("/v1/sessions/trip/approve", json=approval)
        boss = desk.clients["boss"]
        async with connect(desk.serving.url, KEYS["boss"]) as supervisor:
            session = supervisor.session("ann.trip")
            timeline = await session.timeline()
            assert not timeline.more
            rows: list[TimelineRowView] = []
            while len(rows) < timeline.head:
                page = await session.timeline(since=len(rows), limit=4)
                rows += page.rows
                assert page.more == (len(rows) < timeline.head)
            assert tuple(rows) == timeline.rows
        records = (await get_view(boss, "records"))["records"]
    for row, record in zip(timeline.rows, records, strict=True):
        assert (row.record, row.at_ms, row.input) == (record["number"], record["at_ms"], record["input"]["kind"])
        assert (row.before, row.after) == (record["phase_before"], record["phase_after"])
        assert list(row.events) == [event["event"]["$"] for event in record["events"]]
    lanes = {span.lane for span in timeline.spans}
    assert {"model", "tools", "people"} <= lanes
    (held_span,) = [span for span in timeline.spans if span.kind == "approval"]
    assert (held_span.outcome, held_span.last is not None) == ("approved", True)
    held = [run for row in timeline.rows for run in row.hooks if run.verdict == "hold"]
    assert [(run.hook, run.by) for run in held] == [("before_tool", "HumanApproval")]


async def test_what_the_model_saw_has_its_origins_and_the_difference_to_the_request_before() -> None:
    async with open_desk(with_echo(LONG)) as desk:
        await chat(desk.ann, "go", session="trip")
        boss = desk.clients["boss"]
        last = await get_view(boss, "seen")
        first = await get_view(boss, "seen", round=1)
        complete = await get_view(boss, "seen", request=last["sent"]["request_id"], whole="true")
    assert (first["sent"]["number"], last["sent"]["number"], last["requests"]) == (1, 2, 2)
    assert (first["difference"], last["difference"]["before"]) == (None, first["sent"])
    assert [part["layer"] for part in last["difference"]["new"]] == ["history", "history"]
    assert {part["layer"] for part in first["parts"]} >= {"user", "tools", "history"}
    assert [part["tool"]["name"] for part in first["parts"] if part["tool"]] == ["echo"]
    assert [part["layer"] for part in last["parts"] if part["message"]] == ["history"] * 3
    assert first["usage"]["input_tokens"] == 100
    assert last["provider"] is None  # a scripted model is of no provider
    assert LONG in json.dumps(complete)
    assert LONG not in json.dumps(last)
    assert "h.acme" not in json.dumps([first, last, complete])


async def test_the_request_is_shown_as_its_provider_gets_it_without_the_key() -> None:
    # Another host gets a key that is named, and no other one.
    options: dict[str, Json] = {"base_url": "http://127.0.0.1:9", "api_key": Secret("OPENAI_API_KEY")}
    spec = SessionSpec(model="openai:gpt-5", model_options=options, max_retries=0)
    async with open_desk(spec) as desk:
        await chat(desk.ann, "go", session="trip")
        seen = await get_view(desk.clients["boss"], "seen", whole="true")
    assert seen["provider"]["url"].startswith("http://127.0.0.1:9")
    assert "$OPENAI_API_KEY" in seen["provider"]["headers"]["authorization"]
    assert "go" in seen["provider"]["body"]


@pytest.mark.long
async def test_a_long_conversation_is_shown_with_few_parts() -> None:
    async with open_desk(scripted(*["y" * 300] * 130)) as desk:
        await chat(desk.ann, "go", session="trip")
        session = desk.serving.supervisor.session("h.acme.ann.trip")
        for _ in range(120):
            await session.ask("y" * 300)
        boss = desk.clients["boss"]
        state = await get_view(boss, "at", record=(await get_view(boss, "records", limit=1))["head"])
        assert len(state["state"]["history"]) <= ITEMS
        assert {"path": "state.history", "length": 242} in state["folded"]
        assert len(json.dumps(state)) < 200_000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("at", 400),
        ("at?record=0", 400),
        ("at?record=999", 404),
        ("at?record=9007199254740991", 404),
        ("at?record=1&whole=2", 400),
        ("timeline?since=-1", 400),
        ("timeline?since=9007199254740991", 200),
        ("timeline?limit=9007199254740991", 200),
        ("seen?round=0", 400),
        ("seen?round=99", 404),
        ("seen?request=none", 404),
        ("seen?round=1&request=r", 400),
    ],
)
async def test_queries_that_do_not_fit_are_refused(path: str, status: int) -> None:
    async with open_desk(scripted("one")) as desk:
        await chat(desk.ann, "go", session="trip")
        answer = await desk.clients["boss"].get(f"/v1/sessions/ann.trip/{path}")
        assert answer.status_code == status, answer.text


async def test_what_needs_all_records_reads_no_more_than_the_host_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_calls, "INSIGHT_RECORDS", 3)
    async with open_desk(with_echo()) as desk:
        await chat(desk.ann, "go", session="trip")
        boss = desk.clients["boss"]
        for path in ("timeline", "seen"):
            answer = await boss.get(f"/v1/sessions/ann.trip/{path}")
            assert (answer.status_code, answer.json()["type"]) == (422, "urn:agentrail:problem:history-too-long")
        assert (await get_view(boss, "at", record=5))["record"] == 5


async def test_a_redaction_holds_everywhere() -> None:
    async with open_desk(with_echo("swordfish"), journal=MemoryJournal()) as desk:
        await chat(desk.ann, "the password is swordfish", session="trip")
        boss = desk.clients["boss"]
        head = (await get_view(boss, "records"))["head"]
        await boss.delete("/v1/sessions/ann.trip", params={"redact": "true"})
        texts = [
            await get_view(boss, "at", record=head, whole="true"),
            await get_view(boss, "timeline"),
            await get_view(boss, "seen", whole="true"),
        ]
    assert "swordfish" not in json.dumps(texts)
    assert texts[2]["unknown"]


async def test_a_remote_handle_looks_at_a_state_and_at_what_the_model_saw() -> None:
    async with open_desk(with_echo()) as desk, connect(desk.serving.url, KEYS["boss"]) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        await session.ask("go")
        state = await session.state_at(1)
        assert (state.record, state.state["phase"]) == (1, "idle")
        assert (await session.seen(1)).sent.number == 1
        assert (await session.seen()).sent.number == 2
