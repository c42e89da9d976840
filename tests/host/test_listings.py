"""Lists of a host that are not of one session: commands."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from agentrail.host import ApiKeys, Identity
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.host.plugins.command_plugin import CommandPlugin, HostCommand
from tests.host.hosted import LINES, open_desk, scripted


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
        found = await desk.ann.get("/v1/commands")
        assert (found.status_code, found.json()) == (200, {"items": [], "next": None})


async def test_a_user_whose_name_stands_for_everybody_sees_only_their_own_sessions() -> None:
    row, key = new_key("acme", "*", ["talk"])
    async with open_desk(scripted("one"), keys=ApiKeys(lines=LINES + render_keys([row]))) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        star, headers = desk.clients["bob"], {"authorization": f"Bearer {key}"}
        await star.post("/v1/sessions", json={"session": "own"}, headers=headers)
        mine = await star.get("/v1/sessions", headers=headers)
        assert [each["session"] for each in mine.json()["items"]] == ["_2a.own"]
        refused = await star.get("/v1/sessions", params={"owner": "*"}, headers=headers)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:agentrail:problem:scope-missing")
