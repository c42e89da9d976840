"""Other plugins are tried on what happened in a session of a host; nothing of it runs."""

from __future__ import annotations

from typing import Any, cast

import httpx
import pytest

from agentrail import SessionSpec
from agentrail.errors import BadPlugin, WrongType
from agentrail.host import ApiKeys, Host, Profile
from agentrail.plugins import AnyPlugin, BudgetGuard
from agentrail.testing import ScriptedModel
from tests.host.hosted import LINES, desk_of, open_desk
from tests.host.test_host import chat
from tests.what_if.stories import Closed, look, script_of


def spec_of() -> SessionSpec:
    model = ScriptedModel(script_of([[("look", "a"), ("look", "b")]]))
    return SessionSpec(model=model, tools=[look], plugins=[BudgetGuard(max_rounds=9)])


async def tried_on(client: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    answer = await client.get("/v1/sessions/ann.trip/what-if", params=query)
    assert answer.status_code == 200, answer.text
    tried: dict[str, Any] = answer.json()
    return tried


async def test_where_a_session_would_have_gone_otherwise_is_told_with_both_reasons() -> None:
    keys, candidates = ApiKeys(lines=LINES), {"closed": [Closed("b")]}
    async with desk_of(Host([Profile("desk", spec_of())], authenticator=keys, candidates=candidates)) as desk:
        await chat(desk.ann, "go", session="trip")
        boss = desk.clients["boss"]
        assert (await boss.get("/v1/candidates")).json()["items"] == ["closed"]
        tried = await tried_on(boss, candidate="closed")
        (part,) = tried["parts"]
        assert (part["hook"], part["field"], part["guess"], tried["skipped"]) == ("before_tool", "verdict", False, "")
        assert part["then"]["sentence"].startswith("it went on")
        assert part["now"]["plugin"] == "Closed"
        assert [step["plugin"] for step in part["now"]["plugins"]] == ["Closed"]
        tried = await tried_on(boss, options='{"BudgetGuard": {"max_rounds": 1}}')
        assert [part["now"]["plugin"] for part in tried["parts"]] == ["BudgetGuard"]
        assert (await tried_on(boss, options='{"BudgetGuard": {"max_rounds": 8}}'))["parts"] == []


async def test_what_is_wrong_is_told_to_who_asked() -> None:
    async with open_desk(spec_of()) as desk:
        await chat(desk.ann, "go", session="trip")
        boss = desk.clients["boss"]
        for query, status, code in (
            ({}, 422, "no-candidate"),
            ({"candidate": "closed"}, 404, "unknown-candidate"),
            ({"options": '{"BudgetGuard": {"max_round": 1}}'}, 422, "bad-candidate"),
            ({"options": '{"BudgetGuard": 1}'}, 422, "bad-candidate"),
            ({"options": "[1]"}, 422, "bad-candidate"),
            ({"options": "{"}, 400, "bad-query"),
        ):
            answer = await boss.get("/v1/sessions/ann.trip/what-if", params=query)
            assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (status, code), query
        assert (await desk.ann.get("/v1/sessions/trip/what-if")).status_code == 403


def test_candidates_are_plugins_by_a_name() -> None:
    with pytest.raises(WrongType):
        Host([Profile("desk", spec_of())], candidates=cast("dict[str, list[AnyPlugin]]", {"closed": Closed()}))
    with pytest.raises(BadPlugin):
        Host([Profile("desk", spec_of())], candidates={"closed": [cast("AnyPlugin", 3)]})
