"""Whatever a client does wrong, and whatever is in its way, is told by a problem document that says what to do."""

from __future__ import annotations

import time
from itertools import product
from typing import Final

import httpx
import pytest
import trio

from agentrail import SessionSpec
from agentrail.errors import JournalFull
from agentrail.host import HostLimits
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, stall
from tests.host.hosted import KEYS, MADE, open_desk, scripted
from tests.host.test_host import chat, until
from tests.patience import PATIENCE
from tests.runtime.journals import TestJournal

DEPTH, SIZE = 8, 500
LIMITS: Final = HostLimits(json_depth=DEPTH, body_bytes=SIZE, drain_seconds=0.5, burst=1000, requests_per_second=1e6)
JSON: Final = {"content-type": "application/json"}


def outcome(response: httpx.Response) -> tuple[int, str]:
    """Return the status of a problem and its kind; check that the document says all that it must."""
    document = response.json()
    assert response.headers["content-type"] == "application/problem+json", response.content
    assert str(document.pop("retry_after", None)) == str(response.headers.get("retry-after"))
    assert document.keys() == {"type", "title", "status", "detail", "attempted", "found", "to_do", "error", "facts"}
    assert all(document[name] for name in document if name != "facts")
    assert document["status"] == response.status_code
    assert document["detail"] == f"cannot {document['attempted']}: {document['found']}; {document['to_do']}"
    return response.status_code, document["type"].removeprefix("urn:agentrail:problem:")


def nested(levels: int) -> bytes:
    """Return a body of so many levels: an object around lists."""
    return b'{"message": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def sized(size: int) -> bytes:
    """Return a body of so many bytes."""
    empty = b'{"message": ""}'
    return empty.replace(b'""', b'"' + b"a" * (size - len(empty)) + b'"')


SENT: Final[dict[str, tuple[str, str, bytes, tuple[int, str]]]] = {
    "route": ("GET", "/v2/sessions", b"", (404, "unknown-route")),
    "no route": ("GET", "/v1/sessions/trip/messages/1", b"", (404, "unknown-route")),
    "method": ("PUT", "/v1/chat", b"{}", (405, "method-refused")),
    "agent": ("POST", "/v1/chat", b'{"message": "hi", "agent": "dsek"}', (404, "unknown-agent")),
    "session": ("GET", "/v1/sessions/gone", b"", (404, "unknown-session")),
    "no session": ("GET", "/v1/sessions/%20", b"", (404, "unknown-session")),
    "prompt to none": ("POST", "/v1/sessions/gone/prompt", b'{"message": "hi"}', (404, "unknown-session")),
    "approval": ("POST", "/v1/sessions/trip/approve", b'{"approval": "a9"}', (404, "unknown-approval")),
    "question": ("POST", "/v1/sessions/trip/respond", b'{"ref": "q9", "answer": "x"}', (404, "unknown-approval")),
    "record": ("POST", "/v1/sessions/trip/fork", b'{"at": 9999}', (404, "unknown-record")),
    "task of another": ("GET", "/v1/sessions/trip/tasks/results?children=ann.other.1", b"", (404, "unknown-task")),
    "cursor": ("GET", "/v1/sessions/trip/events?since=9999.1", b"", (409, "unknown-cursor")),
    "query": ("GET", "/v1/sessions?lmit=1", b"", (400, "bad-query")),
    "page": ("GET", "/v1/sessions?limit=0", b"", (400, "bad-query")),
    "no JSON": ("POST", "/v1/chat", b"hi", (400, "bad-text")),
    "nothing": ("POST", "/v1/chat", b"", (422, "bad-body")),
    "half": ("POST", "/v1/chat", b'{"message": "hi"', (400, "bad-text")),
    "no number": ("POST", "/v1/chat", b'{"message": NaN}', (400, "bad-text")),
    "no UTF-8": ("POST", "/v1/chat", b'{"message": "\xff"}', (400, "bad-text")),
    "a key twice": ("POST", "/v1/chat", b'{"message": "a", "message": "b"}', (400, "bad-text")),
    "too deep": ("POST", "/v1/chat", nested(DEPTH + 1), (400, "bad-text")),
    "as deep as may be": ("POST", "/v1/chat", nested(DEPTH), (422, "bad-body")),
    "too large": ("POST", "/v1/chat", sized(SIZE + 1), (413, "body-too-large")),
    "a list": ("POST", "/v1/chat", b'["hi"]', (422, "bad-body")),
    "wrong type": ("POST", "/v1/chat", b'{"message": 5}', (422, "bad-body")),
    "empty": ("POST", "/v1/chat", b'{"message": ""}', (422, "bad-body")),
    "misspelt": ("POST", "/v1/chat", b'{"massage": "hi"}', (422, "bad-body")),
    "who it is": ("POST", "/v1/chat", b'{"message": "hi", "tenant": "evil"}', (422, "bad-body")),
    "a bad name": ("POST", "/v1/sessions", b'{"session": "a b"}', (422, "bad-name")),
    "a bad name to talk with": ("POST", "/v1/chat", b'{"message": "hi", "session": "a b"}', (422, "bad-name")),
    "a bad id": ("POST", "/v1/chat", b'{"message": "hi", "session": "ann.a b"}', (404, "unknown-session")),
}


async def test_what_is_sent_wrongly_is_told() -> None:
    async with open_desk(scripted("one"), limits=LIMITS) as desk:
        await desk.clients["ann"].post("/v1/sessions", json={"session": "trip"})
        result = {
            name: outcome(await desk.ann.request(method, path, content=body or None, headers=JSON if body else None))
            for name, (method, path, body, _) in SENT.items()
            if method != "POST" or body
        }
        result["nothing"] = outcome(await desk.ann.post("/v1/chat", content=b"", headers=JSON))
        assert (await desk.ann.post("/v1/chat", content=sized(SIZE), headers=JSON)).status_code == 200
        form = await desk.ann.post("/v1/chat", data={"message": "hi"})
        assert outcome(form) == (415, "wrong-media")
    wrong = {name: item for name, item in result.items() if item != SENT[name][-1]}
    assert wrong == {}
    assert set(result) == set(SENT)


# Keys


async def test_a_key_that_is_missing_or_unknown_is_told() -> None:
    name = MADE["ann"][0].id
    async with (
        open_desk(scripted("one")) as desk,
        httpx.AsyncClient(base_url=desk.serving.url, timeout=PATIENCE) as client,
    ):
        for headers in [
            [],
            [("authorization", "")],
            [("authorization", "Bearer")],
            [("authorization", f"Basic {KEYS['ann']}")],
            [("authorization", "Bearer ak_000000000000_x")],
            [("authorization", f"Bearer ak_{name}_")],
            [("authorization", f"Bearer {KEYS['ann'][:-1]}")],
            [("authorization", f"Bearer {KEYS['ann']}x")],
            [("authorization", f"Bearer {KEYS['ann'].upper()}")],
        ]:
            refused = await client.get("/v1/sessions", headers=headers)
            assert outcome(refused) == (401, "not-authenticated")
            assert refused.headers["www-authenticate"] == "Bearer"
        scope = await desk.clients["bob"].get("/v1/tree")
        assert outcome(scope) == (403, "scope-missing")


async def test_each_user_has_command_ids_of_their_own() -> None:
    again = {"idempotency-key": "k1"}
    async with open_desk(scripted("one", "two")) as desk:
        body = {"message": "hi"}
        first = await desk.ann.post("/v1/chat", json=body, headers=again)
        others = await desk.clients["bob"].post("/v1/chat", json=body, headers=again)
        assert first.json()["session"] != others.json()["session"]
        session = first.json()["session"]
        other_words = await desk.ann.post("/v1/chat", json={"message": "x", "session": session}, headers=again)
        assert outcome(other_words) == (409, "command-conflict")
        other_call = await desk.ann.post(f"/v1/sessions/{session}/steer", json={"text": "hi"}, headers=again)
        assert outcome(other_call) == (409, "command-conflict")


@pytest.mark.long
async def test_origin_host_and_token_must_all_be_right() -> None:
    """The token does not open the door to a foreign page, nor a known page to one without a token."""
    async with open_desk(scripted("one"), limits=LIMITS) as desk:
        port = desk.serving.url.rpartition(":")[2]
        good_hosts = ["127.0.0.1", f"127.0.0.1:{port}", "localhost", f"LOCALHOST:{port}", "[::1]"]
        hosts = [*good_hosts, "evil.example", f"evil.example:{port}", "127.0.0.1.evil.example"]
        origins = [None, "own", "null", "http://evil.example", f"https://127.0.0.1:{port}", "file://"]
        bearer = f"Bearer {KEYS['ann']}"
        tokens = [bearer, None, "Bearer x", f"{bearer}x", bearer.replace("Bearer", "Token"), f"bearer {KEYS['ann']}"]
        wrong = []
        async with httpx.AsyncClient(base_url=desk.serving.url, timeout=PATIENCE) as client:
            for host, origin, token in product(hosts, origins, tokens):
                sent = f"http://{host.lower()}" if origin == "own" else origin
                given_value = {"host": host, "origin": sent, "authorization": token}
                headers = {name: value for name, value in given_value.items() if value is not None}
                site = host in good_hosts and origin in {None, "own"}
                entry = token is not None and token.lower() == bearer.lower() and token.endswith(KEYS["ann"])
                expected = (200 if entry else 401) if site else 403
                response = await client.get("/v1/sessions", headers=headers)
                if response.status_code != expected:
                    wrong.append((host, sent, token, response.status_code, expected))
    assert len(hosts) * len(origins) * len(tokens) >= 200
    assert wrong == []


# States of sessions


async def test_a_session_that_is_parked_or_quarantined_or_at_another_host_is_told() -> None:
    model = ScriptedModel(["one", "two"])
    journal = TestJournal()
    async with open_desk(SessionSpec(model=model, plugins=[HumanApproval()]), journal=journal) as desk:
        begun = time.monotonic()
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
        async with open_desk(SessionSpec(model=model), journal=journal) as other:
            held = await chat(other.ann, "hi", session="trip")
            assert outcome(held) == (503, "session-held")
            assert 30 - (time.monotonic() - begun) <= int(held.headers["retry-after"]) <= 30
            assert (await other.ann.get("/v1/sessions/trip")).json()["status"] is None
    async with open_desk(SessionSpec(model=model), journal=journal) as desk:
        unfit = await chat(desk.ann, "hi", session="trip")
        assert outcome(unfit) == (409, "plugin-mismatch")
        assert (await desk.ann.get("/v1/sessions/trip")).status_code == 200
    async with open_desk(SessionSpec(model=model, plugins=[HumanApproval()]), journal=journal) as desk:
        assert (await chat(desk.ann, "and?", session="trip")).json()["text"] == "two"  # parked before, and brought back


async def test_a_full_journal_is_told_and_aborts_still_work() -> None:
    journal = TestJournal()
    async with open_desk(scripted(stall(after=1), "two"), journal=journal) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "stay"})
        session = desk.serving.supervisor.session("h.acme.ann.trip")
        await until(lambda: session.status().phase == "streaming")
        journal.failing = lambda _: JournalFull("disk")
        opened = await desk.ann.post("/v1/sessions", json={"session": "more"})
        assert outcome(opened) == (507, "journal-full")
        for message in ("hi", "more"):  # the session has the first one, and writes it as soon as there is space
            refused = await desk.ann.post("/v1/sessions/trip/prompt", json={"message": message})
            assert (outcome(refused), refused.headers["retry-after"]) == ((507, "journal-full"), "30")
        with trio.fail_after(20):
            aborted = await desk.ann.post("/v1/sessions/trip/abort", json={})
        assert aborted.status_code == 204
        assert (await desk.ann.get("/v1/sessions/trip/messages")).status_code == 200
        assert (await desk.ann.get("/healthz")).status_code == 200
        journal.failing = None
        await until(lambda: not session.status().turn_open)


@pytest.mark.parametrize("most", [1, 3])
async def test_a_limit_of_a_tenant_holds_to_the_last_one(most: int) -> None:
    async with open_desk(scripted("one"), limits=LIMITS.but(sessions=most)) as desk:
        responses = [await desk.ann.post("/v1/sessions", json={}) for _ in range(most + 1)]
        assert [item.status_code for item in responses] == [201] * most + [429]
        assert outcome(responses[-1]) == (429, "too-many-sessions")
    async with open_desk(scripted("one"), limits=LIMITS.but(burst=most, requests_per_second=1e-3)) as desk:
        responses = [await desk.ann.get("/v1/sessions") for _ in range(most + 1)]
        assert [item.status_code for item in responses] == [200] * most + [429]
        assert outcome(responses[-1]) == (429, "too-many-requests")
