"""The records of a session over HTTP: page by page, cut, whose they are; and why something came about."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final, cast

import httpx
import pytest
import trio

from agentrail import SessionSpec, tool
from agentrail.host.operations import record_calls
from agentrail.host.operations.record_calls import AT_ONCE, BACK
from agentrail.host.operations.record_views import BRIEF, BUDGET, ITEMS, KEY, TEXT, record_view
from agentrail.insight import FoldingRule
from agentrail.journals import MemoryJournal, Record
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import Desk, open_desk, scripted
from tests.host.test_host import chat
from tests.patience import PATIENCE

LONG: Final = "x" * 5_000


@tool
async def echo(text: str) -> str:
    """Return a text."""
    return text


def with_echo(text: str) -> SessionSpec:
    model = ScriptedModel([say("one moment", calls=[call("echo", {"text": text})]), "done", "again"])
    return SessionSpec(model=model, tools=[echo])


async def get_view(client: httpx.AsyncClient, call_: str, **query: str | int) -> dict[str, Any]:
    answer = await client.get(f"/v1/sessions/ann.trip/{call_}", params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def everything(desk: Desk, **query: int) -> list[dict[str, Any]]:
    """Return all records of the session, read page by page."""
    records: list[dict[str, Any]] = []
    while True:
        page = await get_view(desk.clients["boss"], "records", since=len(records), **query)
        records += page["records"]
        assert page["more"] == (len(records) < page["head"])
        if not page["more"]:
            return records


async def test_records_tell_what_came_in_what_it_did_and_what_came_of_it() -> None:
    async with open_desk(with_echo("hi")) as desk:
        await chat(desk.ann, "go", session="trip")
        records = await everything(desk, limit=3)
    assert [record["number"] for record in records] == list(range(1, len(records) + 1))
    first = records[0]
    assert (first["input"]["kind"], first["phase_before"], first["phase_after"]) == ("SessionOpened", "new", "idle")
    assert [event["event"]["$"] for event in first["events"]] == ["SessionStarted"]
    for former, after in pairwise(records):
        assert after["phase_before"] in {former["phase_after"], "streaming"}
    (prompt,) = [record for record in records if record["input"]["kind"] == "PromptSent"]
    assert prompt["by"] == "ann"
    assert prompt["input"]["data"]["parts"] == [{"$": "Text", "text": "go"}]
    assert "turn" in prompt["changed"]
    assert prompt["effects"]
    seqs = [event["seq"] for record in records for event in record["events"]]
    assert seqs == list(range(1, len(seqs) + 1))
    assert all(record["folded"] == [] and record["redacted"] is None for record in records)
    assert "h.acme" not in json.dumps(records)


async def test_rulings_of_plugins_are_there_with_their_answers() -> None:
    spec = with_echo("hi").but(plugins=[HumanApproval(tools=["echo"])])
    async with open_desk(spec) as desk:
        await chat(desk.ann, "go", session="trip")
        records = await everything(desk)
        (asks,) = [e["event"] for r in records for e in r["events"] if e["event"]["$"] == "ApprovalRequired"]
        why = await get_view(desk.clients["boss"], "why", about=asks["call_id"])
    assert why["rules"]["hold"] == FoldingRule.HOLD.value
    rulings = [ruling for record in records for ruling in record["rulings"] if ruling["hook"] == "before_tool"]
    (held,) = [ruling for ruling in rulings if ruling["verdict"] == "hold"]
    assert (held["plugin"], held["pause"] is None) == ("HumanApproval", False)
    assert [answer["plugin"] for answer in held["answers"]] == ["HumanApproval"]
    entries = [entry for entry in why["entries"] if entry["hook"] == "before_tool"]
    steps = [(step["plugin"], step["rule"], step["decided"]) for step in entries[0]["plugins"]]
    assert steps == [("HumanApproval", "hold", True)]


async def test_long_texts_are_cut_and_one_record_has_them_whole() -> None:
    async with open_desk(with_echo(LONG)) as desk:
        await chat(desk.ann, "go", session="trip")
        cut = [record for record in await everything(desk) if record["folded"]]
        assert all(fold["length"] == len(LONG) for record in cut for fold in record["folded"])
        assert LONG[: TEXT + 1] not in json.dumps(cut)
        for record in cut:
            (complete,) = (await get_view(desk.clients["boss"], "records", record=record["number"]))["records"]
            assert complete["folded"] == []
            for fold in record["folded"]:
                assert at(record, fold["path"]) == LONG[:TEXT]
                assert at(complete, fold["path"]) == LONG
            assert complete["phase_before"] == record["phase_before"]


def at(record: object, path: str) -> object:
    for part in path.split("."):
        record = record[int(part)] if isinstance(record, list) else cast("dict[str, object]", record)[part]
    return record


@pytest.mark.long
async def test_a_page_ends_before_it_is_too_large() -> None:
    async with open_desk(scripted(*["y"] * 61)) as desk:
        await chat(desk.ann, "go", session="trip")
        session = desk.serving.supervisor.session("h.acme.ann.trip")
        for _ in range(60):
            await session.ask("y" * 5_000)
        page = await get_view(desk.clients["boss"], "records", limit=1_000)
        assert page["more"]
        assert len(json.dumps(page)) < 600_000
        assert (await everything(desk))[-1]["number"] == page["head"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("since=-1", 400),
        ("since=x", 400),
        ("limit=0", 400),
        ("record=0", 400),
        ("record=1&since=0", 400),
        ("record=999999", 404),
        ("record=9007199254740991", 404),
        ("since=9007199254740991", 200),
        ("limit=9007199254740991", 200),
        ("whole=true", 400),
    ],
)
async def test_queries_that_do_not_fit_are_refused(query: str, status: int) -> None:
    async with open_desk(scripted("one")) as desk:
        await chat(desk.ann, "go", session="trip")
        answer = await desk.clients["boss"].get(f"/v1/sessions/ann.trip/records?{query}")
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize("path", ["records", "records?record=1", "why", "at?record=1", "timeline", "seen"])
async def test_only_who_may_observe_reads_records_and_only_those_of_the_tenant(path: str) -> None:
    async with open_desk(scripted("one")) as desk:
        await chat(desk.ann, "go", session="trip")
        response = await desk.ann.get(f"/v1/sessions/trip/{path}")
        assert (response.status_code, response.json()["type"]) == (403, "urn:agentrail:problem:scope-missing")
        theirs = await desk.clients["eve"].get(f"/v1/sessions/ann.trip/{path}")
        missing = await desk.clients["eve"].get(f"/v1/sessions/ann.other/{path}")
        assert theirs.status_code == missing.status_code == 404
        assert theirs.json() | {"instance": 0} == missing.json() | {"instance": 0}


async def test_a_redaction_is_told_and_its_texts_are_gone() -> None:
    async with open_desk(with_echo("hi"), journal=MemoryJournal()) as desk:
        await chat(desk.ann, "the password is swordfish", session="trip")
        await desk.clients["boss"].delete("/v1/sessions/ann.trip", params={"redact": "true"})
        records = await everything(desk)
        why = await get_view(desk.clients["boss"], "why", about="1")
    assert "swordfish" not in json.dumps(records) + json.dumps(why)
    assert {record["redacted"]["by"] for record in records[:-1] if record["redacted"]} == {"boss"}
    assert why["entries"]


async def test_reading_does_not_bring_a_session_back() -> None:
    journal = MemoryJournal()
    async with open_desk(with_echo("hi"), journal=journal) as desk:
        await chat(desk.ann, "go", session="trip")
        head = (await get_view(desk.clients["boss"], "records"))["head"]
    async with open_desk(with_echo("hi"), journal=journal) as desk:
        with trio.fail_after(PATIENCE):
            assert (await get_view(desk.clients["boss"], "why", about="1"))["entries"]
            assert (await get_view(desk.clients["boss"], "records"))["head"] >= head
        assert (await get_view(desk.clients["boss"], "records"))["head"] == head


async def test_an_account_reads_no_more_records_than_the_host_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_calls, "INSIGHT_RECORDS", 3)
    async with open_desk(with_echo("hi")) as desk:
        await chat(desk.ann, "go", session="trip")
        answer = await desk.clients["boss"].get("/v1/sessions/ann.trip/why")
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:agentrail:problem:history-too-long")
        assert (await get_view(desk.clients["boss"], "records"))["records"]


@pytest.mark.parametrize("about", ["c9", "0", "77", "9" * 200, "é", "end"])
async def test_what_is_not_in_the_records_gets_an_account_without_entries(about: str) -> None:
    async with open_desk(scripted("one")) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        account = await get_view(desk.clients["boss"], "why", about=about)
    assert (account["subject"], account["entries"], account["more"]) == (about, [], False)
    assert account["sentence"]


class Counting(MemoryJournal):
    """Counts the records that are read."""

    read_count = 0

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        records = await super().read(session_id, after, limit)
        self.read_count += len(records)
        return records


async def test_a_page_reads_its_own_records_and_few_before_it() -> None:
    journal = Counting()
    async with open_desk(scripted("one"), journal=journal) as desk:
        await chat(desk.ann, "go", session="trip")
        for number in range(BACK + 10):
            await desk.serving.supervisor.session("h.acme.ann.trip").label([f"l{number % 3}"], [f"l{(number + 1) % 3}"])
        head = (await get_view(desk.clients["boss"], "records", limit=1))["head"]
        journal.read_count = 0
        page = await get_view(desk.clients["boss"], "records", since=head - 10)
    assert len(page["records"]) == 10
    assert page["records"][0]["phase_before"] is None
    assert journal.read_count <= 10 + BACK


async def test_a_page_tells_the_phase_in_which_it_begins_although_those_before_it_do_not() -> None:
    async with open_desk(scripted("one")) as desk:
        await chat(desk.ann, "go", session="trip")
        session = desk.serving.supervisor.session("h.acme.ann.trip")
        for number in range(AT_ONCE + 2):
            await session.label([f"l{number}"], [f"l{number - 1}"])
        head = (await get_view(desk.clients["boss"], "records", limit=1))["head"]
        (last,) = (await get_view(desk.clients["boss"], "records", since=head - 1))["records"]
    assert (last["phase_before"], last["input"]["kind"]) == ("idle", "LabelSent")


@pytest.mark.parametrize(
    "args",
    [
        {"a": ["b" * 2_000] * 1_000},
        {"k" * 10_000: "v", "w": 1},
        {str(number): number for number in range(5_000)},
        {"a": [[["\x00" * 300] * 12] * 12] * 12},
    ],
    ids=["many texts", "a long key", "many keys", "nested"],
)
async def test_whatever_a_record_has_its_view_is_small(args: dict[str, Any]) -> None:
    spec = SessionSpec(model=ScriptedModel([say("", calls=[call("nothing", args)]), "done"]))
    journal = MemoryJournal()
    async with open_desk(spec, journal=journal) as desk:
        await chat(desk.ann, "go", session="trip")
        records = await journal.read("h.acme.ann.trip")
    for record in records:
        view = record_view(record, None, None, "acme", is_whole=False)
        text = json.dumps(view.input.data) + json.dumps(view.events)
        assert len(text) < 12 * BUDGET + ITEMS * ITEMS * BRIEF
        assert max((len(part) for part in text.split('"')), default=0) <= max(6 * TEXT, KEY)
