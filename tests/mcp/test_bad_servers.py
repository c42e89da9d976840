"""Servers over HTTP that mean no good: each is an error, and nothing else is reached or run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest

from agentrail.mcp import McpServer
from agentrail.models import Data
from tests.adapters.models.server import Asked, Play, refusing, serving
from tests.mcp.realm import rpc, sent
from tests.mcp.rig import NO_EXTRA, obedient, use
from tests.runtime.world import World

pytest.importorskip("mcp", reason=NO_EXTRA)

LONG = 9 * 1024 * 1024


def called(result: object) -> Callable[[Asked], Play]:
    """Return a server whose only tool has this result, or this play."""

    def answer(request: Asked) -> Play:
        if request.method != "POST" or request.json["method"] != "tools/call":
            return rpc(request.json) if request.method == "POST" else refusing(405, b"")
        if isinstance(result, Play):
            return result
        return sent({"jsonrpc": "2.0", "id": request.json["id"], "result": result})

    return answer


LONG_TEXT = {"content": [{"type": "text", "text": "x" * LONG}]}
BOMB = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 1, "result": LONG_TEXT}).encode())


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (LONG_TEXT, "it has more than 8388608 bytes"),
        (refusing(200, BOMB, "content-encoding: gzip"), "it is compressed, which was not asked for"),
        (refusing(200, b"<html>Welcome</html>", kind="text/html"), "Unexpected content type: text/html"),
        (refusing(200, b"[[["), "Failed to parse JSON response"),
    ],
    ids=["long", "bomb", "page", "nonsense"],
)
async def test_an_answer_that_is_none_is_an_error(world: World, result: object, problem: str) -> None:
    async with serving(called(result)) as server:
        session = await world.spawn(obedient(), tools=[McpServer(url=f"{server.url}/mcp", name="bad")])
        failed = await use(session, "bad__search")
        assert (failed.is_error, problem in failed.text) == (True, True), failed.text
        await session.stop()


async def test_a_redirect_to_another_address_is_not_followed(world: World) -> None:
    async with serving(refusing(200, b"{}")) as inside:
        away = refusing(307, b"", f"location: {inside.url}/latest/meta-data")
        async with serving(called(away)) as server:
            session = await world.spawn(obedient(), tools=[McpServer(url=f"{server.url}/mcp", name="bad")])
            failed = await use(session, "bad__search")
            assert (failed.is_error, "not followed" in failed.text) == (True, True), failed.text
            await session.stop()
        assert not inside.asked


SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


@pytest.mark.parametrize(
    ("structured", "schema", "problem"),
    [
        ({"count": 3}, SCHEMA, ""),
        ({"count": "three"}, SCHEMA, "does not fit the schema that it gave"),
        ({"count": 3}, {"type": "object", "$ref": "http://127.0.0.1:9/x"}, "does not fit the schema that it gave"),
    ],
)
async def test_a_result_that_its_schema_denies_is_an_error(
    world: World, structured: object, schema: object, problem: str
) -> None:
    def answer(request: Asked) -> Play:
        if request.method == "POST" and request.json["method"] == "tools/list":
            tool = {"name": "search", "inputSchema": {"type": "object"}, "outputSchema": schema}
            return sent({"jsonrpc": "2.0", "id": request.json["id"], "result": {"tools": [tool]}})
        return called({"content": [], "structuredContent": structured})(request)

    async with serving(answer) as server:
        session = await world.spawn(obedient(), tools=[McpServer(url=f"{server.url}/mcp", name="bad")])
        result = await use(session, "bad__search")
        if problem:
            assert (result.is_error, problem in result.text) == (True, True), result.text
        else:
            assert result.parts == (Data({"count": 3}),)
        await session.stop()
