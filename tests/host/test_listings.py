"""Lists of a host that are not of one session: commands, and sessions by what was said in them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import httpx
import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Identity
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.host.operations.session_calls import AFTER, BEFORE, MOST_RECORDS, MOST_SESSIONS, TextSearch
from agentrail.host.plugins.plugin_runner import CommandPlugin, HostCommand
from agentrail.journals import MemoryJournal, SqliteJournal, StoredSession
from agentrail.testing import ScriptedModel
from tests.host.hosted import LINES, frames, listening, open_desk, scripted


class Slashes(CommandPlugin):
    name = "slashes"

    async def commands(self, who: Identity) -> Sequence[HostCommand]:
        await trio.lowlevel.checkpoint()
        for_all = [HostCommand("/status", "Say what goes on."), HostCommand("/help", "Say what there is.")]
        return [*for_all, *([HostCommand("/model", "Switch the model.")] if "admin" in who.scopes else [])]


class Others(CommandPlugin):
    priority = -1

    def commands(self, who: Identity) -> Sequence[HostCommand]:
        return [HostCommand("/help", f"Not that of {who.user}."), HostCommand("/compact", "Shorten the context.")]


class Broken(CommandPlugin):
    priority = 1

    def commands(self, who: Identity) -> Sequence[HostCommand]:
        raise OSError(who.user)


class Wrong(CommandPlugin):
    def commands(self, who: Identity) -> Sequence[HostCommand]:
        return [who]  # type: ignore[list-item]


async def test_commands_are_those_that_the_caller_may_give() -> None:
    async with open_desk(scripted("one"), [Others(), Slashes(), Broken(), Wrong()]) as desk:
        ann = await desk.ann.get("/v1/commands")
        boss = (await desk.clients["boss"].get("/v1/commands")).json()
    for_all = [
        {"name": "/compact", "about": "Shorten the context."},
        {"name": "/help", "about": "Say what there is."},
        {"name": "/status", "about": "Say what goes on."},
    ]
    assert (ann.status_code, ann.json()) == (200, {"items": for_all, "next": None})
    model = {"name": "/model", "about": "Switch the model."}
    assert boss["items"] == [*for_all[:2], model, for_all[2]]


async def test_without_commands_the_list_is_empty() -> None:
    async with open_desk(scripted("one")) as desk:
        response = await desk.ann.get("/v1/commands")
        assert (response.status_code, response.json()) == (200, {"items": [], "next": None})


async def test_a_user_whose_name_stands_for_everybody_sees_only_their_own_sessions() -> None:
    row, key = new_key("acme", "*", ["talk"])
    async with open_desk(scripted("one"), keys=ApiKeys(lines=LINES + render_keys([row]))) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        star, headers = desk.clients["bob"], {"authorization": f"Bearer {key}"}
        await star.post("/v1/sessions", json={"session": "own"}, headers=headers)
        mine = await star.get("/v1/sessions", headers=headers)
        assert [item["session"] for item in mine.json()["items"]] == ["_2a.own"]
        refused = await star.get("/v1/sessions", params={"owner": "*"}, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:agentrail:problem:scope-missing")


async def passages(client: httpx.AsyncClient, text: str, **query: str | int) -> dict[str, str]:
    """Return the passages that a search finds, by the ids of the sessions."""
    answer = await client.get("/v1/sessions", params={"text": text, **query})
    return {item["session"]: item["passage"]["text"] for item in answer.json()["items"]}


async def test_what_was_said_is_searched_within_the_sessions_that_the_key_may_see() -> None:
    desks = {
        "ann": ("trip", "Where is the Eiffel Tower?"),
        "bob": ("tour", "I like the EIFFEL tower."),
        "eve": ("trip", "eiffel"),
    }
    async with open_desk(SessionSpec(model=ScriptedModel(["In *Paris*."], repeat_last=True))) as desk:
        for user, (session, message) in desks.items():
            await desk.clients[user].post("/v1/chat", json={"session": session, "message": message})
        await desk.ann.post("/v1/sessions", json={"session": "other", "title": "Eiffel"})
        assert await passages(desk.ann, "eiffel") == {"ann.trip": "Where is the Eiffel Tower?"}
        assert await passages(desk.ann, "paris") == {"ann.trip": "In *Paris*."}
        assert await passages(desk.ann, "e.f") == await passages(desk.ann, "desk") == {}
        assert (await desk.ann.get("/v1/sessions", params={"text": "eiffel", "owner": "*"})).status_code == 403
        boss = desk.clients["boss"]
        assert await passages(boss, "eiffel") == {}
        assert set(await passages(boss, "eiffel", owner="*")) == {"ann.trip", "bob.tour"}
        assert set(await passages(desk.clients["eve"], "eiffel", owner="*")) == {"ann.trip"}

        page = (await boss.get("/v1/sessions", params={"text": "eiffel", "owner": "*", "limit": 1})).json()
        assert [item["session"] for item in page["items"]] == ["ann.trip"]
        rest = await passages(boss, "eiffel", owner="*", limit=1, after=page["next"])
        assert rest == {"bob.tour": "I like the EIFFEL tower."}
        async with listening(desk, "GET", "/v1/sessions/trip/events?types=PromptReceived", since="0") as events:
            (event,) = frames(await events.until(lambda text: "PromptReceived" in text))
        assert page["items"][0]["passage"]["event"] == json.loads(event["data"])["seq"]


async def test_a_passage_is_a_part_of_what_was_said() -> None:
    long = "a " * 1_000 + "needle" + " b" * 1_000
    async with open_desk(scripted("Yes.")) as desk:
        await desk.ann.post("/v1/chat", json={"session": "long", "message": long})
        passage = (await passages(desk.ann, "needle"))["ann.long"]
    assert "needle" in passage
    assert len(passage) == BEFORE + AFTER


async def test_a_search_stops_after_so_many_sessions_and_records() -> None:
    search = TextSearch(MemoryJournal())
    many = [StoredSession(f"s{number}", 1) for number in range(MOST_SESSIONS + 1)]
    assert (await search.search(many, "x", 10)).count == MOST_SESSIONS
    half = [StoredSession(f"s{number}", MOST_RECORDS // 2) for number in range(4)]
    assert (await search.search(half, "x", 10)).count == 2
    longer = [StoredSession(f"s{number}", MOST_RECORDS * 3) for number in range(4)]
    assert (await search.search(longer, "x", 10)).count == 1


async def test_a_session_that_cannot_be_searched_is_listed_with_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with open_desk(scripted("Yes.", "Yes."), journal=SqliteJournal(path)) as desk:
        for session in ("bad", "good"):
            await desk.ann.post("/v1/chat", json={"session": session, "message": "needle"})
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(
                "UPDATE record SET body = body || ' ' WHERE number = 2 AND session = ("
                "SELECT key FROM session WHERE CAST(id AS TEXT) LIKE '%bad')"
            )
        bad, good = (await desk.ann.get("/v1/sessions", params={"text": "needle"})).json()["items"]
    assert (bad["passage"], good["problem"]) == (None, "")
    assert "record 2" in bad["problem"]
    assert good["passage"]["text"] == "needle"
