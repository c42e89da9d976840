"""The client of the official conformance suite, run as a program: a session that calls each tool of a server once.

The suite passes the URL of its server as the last argument; the scenario, and what it gives the client, by variables.
"""

import json
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import httpx2
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import OutsideError
from agentrail.mcp import McpServer, OAuth, sign_in
from agentrail.models import EmitChunk, Json, JsonObject, ModelRequest, Response, Text, ToolCall
from tests.kit import freeze_object

URL, SCENARIO = sys.argv[-1], os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
WITHIN = 40.0
METADATA = "https://conformance-test.local/client-metadata.json"


class Caller:
    """A model that calls each tool of the server, with the arguments that the suite or its schema asks for."""

    name = "caller"

    def __init__(self) -> None:
        self.number = 0

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:  # noqa: ASYNC124 - a model
        tools = [tool for tool in request.tools if tool.name.startswith("mcp__")]
        calls = [(tool.name, args) for tool in tools for args in arguments(tool.name, tool.parameters)]
        if self.number == len(calls):
            return Response((Text("done"),))
        self.number += 1
        return Response((), (ToolCall(f"c{self.number}", *calls[self.number - 1]),))


def arguments(tool: str, schema: JsonObject) -> list[JsonObject]:
    """Return the arguments of each call of *tool*: those that the suite names, or one of each kind."""
    calls = [call for call in CONTEXT.get("toolCalls") or () if f"mcp__{call['name']}" == tool]
    # A session refuses arguments that do not fit the schema, so a null that does not is left out.
    named = [{name: value for name, value in call.get("arguments", {}).items() if value is not None} for call in calls]
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    assert isinstance(properties, Mapping)
    assert isinstance(required, Iterable)
    sample = {str(name): value_for(properties[str(name)]) for name in required}
    return [freeze_object(args) for args in named or [sample]]


def value_for(schema: Json) -> Json:
    assert isinstance(schema, Mapping)
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        choices = schema["enum"]
        assert isinstance(choices, Sequence)
        return choices[0]
    samples: dict[str, Json] = {"integer": 5, "number": 3, "string": "x", "boolean": True, "array": [], "object": {}}
    return samples.get(str(schema.get("type")), "x")


class Obliging:
    """A browser whose person agrees to all: the page sends it on at once."""

    redirect_uri = "http://127.0.0.1:8765/callback"

    async def visit(self, page: str) -> str:
        async with httpx2.AsyncClient() as http:
            return str((await http.get(page, follow_redirects=False)).headers["location"])


def server() -> McpServer:
    return McpServer(url=URL, start_timeout=20, timeout=20, auth=auth() if SCENARIO.startswith("auth/") else None)


def authorization_server() -> str:
    """Return the issuer that the person who set this client up would name: that of the suite's server."""
    parts = urlsplit(URL)
    where = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    return str(httpx2.get(where).json()["authorization_servers"][0])


def auth() -> OAuth:
    client, secret, key = (str(CONTEXT.get(name) or "") for name in ("client_id", "client_secret", "private_key_pem"))
    issuer = authorization_server() if key or secret else ""
    if key or "client-credentials" in SCENARIO:
        algorithm = str(CONTEXT.get("signing_algorithm") or "ES256")
        return OAuth(
            client_id=client,
            client_secret="" if key else secret,
            private_key=key,
            key_algorithm=algorithm,
            issuer=issuer,
            without_person=True,
        )
    return OAuth(client_id=client, client_secret=secret, issuer=issuer, metadata_url="" if client else METADATA)


def note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


async def answer(session: SessionHandle) -> None:
    """Answer each question of the server as its form proposes, and sign in where it wants that."""
    while held := session.status().held:
        (question, *_) = held
        word = question.options[0] if question.options else "-"
        if word == "done":
            with suppress(OutsideError):
                await sign_in(server(), note, Obliging())
        await session.respond(question.id, word)
        while session.status().phase != "idle":  # noqa: ASYNC110 - nobody tells of a turn that goes on
            await trio.sleep(0.01)


async def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    with TemporaryDirectory() as home:
        os.environ["AGENTRAIL_HOME"] = str(Path(home) / "agentrail")
        described = server()
        if described.auth is not None and not described.auth.without_person:
            with suppress(OutsideError):
                await sign_in(described, note, Obliging())
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=Caller(), tools=[described]))
            note(f"tools: {list(session.inspect().tools)}")
            with trio.move_on_after(WITHIN):
                await session.ask("go")
                await answer(session)
            for message in session.messages():
                note(f"{type(message).__name__}: {message.text[:300]}")


if __name__ == "__main__":
    trio.run(main)
