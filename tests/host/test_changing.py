"""Tools and plugins of a session are changed by names that its profile knows."""

from __future__ import annotations

import httpx

from agentrail import SessionSpec, tool
from agentrail.api.operation_table import CALLS, ROUTES
from agentrail.host import Allow, BeforeToolCall, HostPlugin, Profile
from agentrail.journals import MemoryJournal
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel
from tests.host.hosted import open_desk


@tool
async def look(at: str) -> str:
    """Look."""
    return f"seen {at}"


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


class Watch(HostPlugin):
    """Sees each call, so that the host adds its own plugin to each session."""

    def before_tool_call(self, event: BeforeToolCall) -> Allow:
        return Allow()


def desk() -> Profile:
    spec = SessionSpec(model=ScriptedModel(["one"], repeat_last=True), tools=[look])
    return Profile(
        "desk",
        lambda _: spec,
        tools=[pay],
        plugins=[HumanApproval(tools=["look"]), BudgetGuard()],
        plugin_options={"HumanApproval": ["timeout"]},
    )


async def attached_names(client: httpx.AsyncClient) -> tuple[list[str], list[str]]:
    body = (await client.get("/v1/sessions/trip")).json()
    return body["tools"], body["plugins"]


async def change(client: httpx.AsyncClient, what: str, **body: object) -> tuple[int, str]:
    response = await client.post(f"/v1/sessions/trip/{what}", json=body)
    return response.status_code, response.json()["type"].rpartition(":")[2] if response.content else ""


async def test_a_fork_has_what_its_origin_was_given_and_lacks_what_was_taken_away() -> None:
    async with open_desk([desk()], [Watch()]) as host:
        boss = host.clients["boss"]
        await boss.post("/v1/sessions", json={"session": "trip"})
        assert await change(boss, "tools", do="attach", tools=["pay"]) == (204, "")
        assert await change(boss, "tools", do="detach", tools=["look"]) == (204, "")
        assert await change(boss, "plugins", do="attach", plugin="BudgetGuard") == (204, "")
        old = await attached_names(boss)
        assert old == (["pay"], ["BudgetGuard", "HostTools"])
        assert (await boss.post("/v1/sessions/trip/fork", json={"session": "copy"})).status_code == 201
        copy = (await boss.get("/v1/sessions/copy")).json()
        assert (copy["tools"], copy["plugins"]) == old


async def test_tools_are_changed_by_name_also_beyond_a_restart() -> None:
    journal = MemoryJournal()
    async with open_desk([desk()], [Watch()], journal=journal) as host:
        boss = host.clients["boss"]
        await boss.post("/v1/sessions", json={"session": "trip"})
        assert await attached_names(boss) == (["look"], ["HostTools"])
        assert await change(boss, "tools", do="attach", tools=["pay"]) == (204, "")
        assert (await attached_names(boss))[0] == ["look", "pay"]
        assert await change(boss, "tools", do="attach", tools=["pay"]) == (409, "tool-exists")
        assert await change(boss, "tools", do="replace", tools=["pay", "look"]) == (204, "")
        assert await change(boss, "tools", do="detach", tools=["look"]) == (204, "")
        assert await change(boss, "tools", do="detach", tools=["look"]) == (404, "unknown-tool")
        assert await change(boss, "tools", do="attach", tools=["os.system"]) == (422, "not-registered")
        assert (await attached_names(boss))[0] == ["pay"]
        assert (await host.ann.post("/v1/sessions/boss.trip/tools", json={})).status_code == 403
    async with open_desk([desk()], [Watch()], journal=journal) as host:
        boss = host.clients["boss"]
        await boss.post("/v1/chat", json={"message": "hi", "session": "trip"})
        assert await attached_names(boss) == (["pay"], ["HostTools"])
        assert await change(boss, "tools", do="attach", tools=["look"]) == (204, "")
        assert (await attached_names(boss))[0] == ["look", "pay"]


async def test_plugins_are_changed_by_name_also_beyond_a_restart() -> None:
    journal = MemoryJournal()
    async with open_desk([desk()], [Watch()], journal=journal) as host:
        boss = host.clients["boss"]
        await boss.post("/v1/sessions", json={"session": "trip"})
        assert await change(boss, "plugins", do="attach", plugin="HumanApproval") == (204, "")
        assert await change(boss, "plugins", do="attach", plugin="HumanApproval") == (409, "plugin-exists")
        assert await change(boss, "plugins", do="attach", plugin="SecurityGuard") == (422, "not-registered")
        assert await change(boss, "plugins", do="update", plugin="HumanApproval", options={"timeout": 5.0}) == (204, "")
        assert await change(boss, "plugins", do="update", plugin="HumanApproval", options={"command": 1}) == (
            422,
            "bad-options",
        )
        refused = await boss.post(
            "/v1/sessions/trip/plugins", json={"do": "update", "plugin": "HumanApproval", "options": {"tools": []}}
        )
        why = "clients may not change `tools`, but `timeout` alone, as the profile says"
        assert refused.json()["found"] == f"`HumanApproval` does not take these options: {why}"
        for how in ({"do": "detach"}, {"do": "update", "options": {"before": None}}, {"do": "attach"}):
            assert await change(boss, "plugins", plugin="HostTools", **how) == (403, "plugin-refused")
        assert await attached_names(boss) == (["look"], ["HumanApproval", "HostTools"])
    async with open_desk([desk()], [Watch()], journal=journal) as host:
        boss = host.clients["boss"]
        await boss.post("/v1/chat", json={"message": "hi", "session": "trip"})
        assert await attached_names(boss) == (["look"], ["HumanApproval", "HostTools"])
        assert await change(boss, "plugins", do="detach", plugin="HumanApproval") == (204, "")
        assert await change(boss, "plugins", do="detach", plugin="HumanApproval") == (404, "unknown-plugin")
        assert await attached_names(boss) == (["look"], ["HostTools"])


async def test_each_call_of_the_table_is_carried_out() -> None:
    assert {route.call.name for route in ROUTES} == set(CALLS)
    others: set[str] = set()
    async with open_desk([desk()]) as host:
        for route in ROUTES:
            path = route.path.replace("{id}", "trip")
            response = await host.clients["eve"].request(route.method, path)
            if response.headers["content-type"] == "application/problem+json":
                others |= {route.call.name} if response.json()["type"].endswith(":unknown-route") else set()
    assert others == {"console_file"}  # which looked for a file that is not there
