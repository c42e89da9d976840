"""The program of `test_new_look`: the look `length`, which the test adds, by each face of a host."""

from __future__ import annotations

import json

import httpx
import trio

from agentrail import SessionSpec, connect
from agentrail.host import ApiKeys, HandledResponse, Host, HostPlugin, PluginHost, Profile, Request
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.testing import ScriptedModel


class Lengths(HostPlugin):
    """Answers a prompt with the length of its session."""

    async def start(self, host: PluginHost) -> None:
        """Keep the host."""
        await trio.lowlevel.checkpoint()
        self._host = host

    async def intercept(self, request: Request) -> HandledResponse | None:
        """Answer the prompt `?`."""
        return await self._host.call("length", request) if request.message == "?" else None


async def main() -> None:
    """Print as JSON what each face answers."""
    (ann, key), (bob, other_key) = (new_key("acme", user, ("talk",)) for user in ("ann", "bob"))
    profile = Profile("desk", SessionSpec(model=ScriptedModel(["one"])))
    host = Host([profile], [Lengths()], authenticator=ApiKeys(lines=render_keys([ann, bob])))
    headers = {"authorization": f"Bearer {key}"}
    async with host.serving() as serving, httpx.AsyncClient(trust_env=False, base_url=serving.url) as client:
        async with connect(serving.url, key) as remote:
            await (await remote.spawn("desk", "trip")).ask("hello")
            by_socket = await remote._line.call("length", session="trip")  # noqa: SLF001 - no method of handles has it
        looked = await client.get("/v1/sessions/trip/length", headers=headers)
        body = {"message": "?", "session": "trip"}
        by_plugin = await client.post("/v1/chat", headers=headers, json=body)
        foreign = {"authorization": f"Bearer {other_key}"}
        refused = await client.get("/v1/sessions/ann.trip/length", headers=foreign)
        document = (await client.get("/openapi.json")).json()
    operation_id = document["paths"]["/v1/sessions/{id}/length"]["get"]["operationId"]
    print(json.dumps([looked.json(), by_socket, by_plugin.json(), refused.status_code, operation_id]))  # noqa: T201


if __name__ == "__main__":
    trio.run(main)
