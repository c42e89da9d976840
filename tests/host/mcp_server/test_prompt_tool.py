"""The MCP server of a host, by the official client: an answer, what a person decides, whose requests count."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

import httpx
import pytest
import trio

from agentrail import SessionSpec, tool
from agentrail.host import ApiKeys, Cluster, Host, Profile
from agentrail.host.requests import http_messages
from agentrail.journals import Journal, MemoryJournal
from agentrail.models import ModelRequest, ToolMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools.builtin import ask_user
from tests.host.hosted import KEYS, LIMITS, LINES
from tests.kit import Element
from tests.patience import within

mcp = pytest.importorskip("mcp")

import httpx2  # noqa: E402 - what its client uses
from mcp import Client, MCPError  # noqa: E402 - only with the extra
from mcp.client.streamable_http import streamable_http_client  # noqa: E402
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult, InputResponses  # noqa: E402

pytestmark = pytest.mark.long

VERSIONS: Final = {"auto": "2026-07-28", "legacy": "2025-11-25"}
EACH_VERSION = pytest.mark.parametrize("mode", VERSIONS)
YES: Final = {"decision": "approve"}
TEXT: Final = {"text": "deploy"}


@tool
async def deploy(to: str) -> str:
    """Deploy it."""
    return f"deployed to {to}"


def deploys(request: ModelRequest) -> Element:
    """Call `deploy`, then say what it has said, in any process."""
    last = request.messages[-1]
    return last.text if isinstance(last, ToolMessage) else say(calls=[call("deploy", {"to": "prod"})])


def holding(script: list[Element] | None = None) -> SessionSpec:
    model = ScriptedModel([deploys] if script is None else script, repeat_last=True)
    return SessionSpec(model=model, tools=[deploy, ask_user], plugins=[HumanApproval(timeout=None, tools=["deploy"])])


@asynccontextmanager
async def served(
    spec: SessionSpec, journal: Journal | None = None, cluster: Cluster | None = None
) -> AsyncGenerator[str]:
    """Serve *spec* to MCP clients too, and give the URL of the host."""
    keys = ApiKeys(lines=LINES)
    host = Host([Profile("desk", spec)], authenticator=keys, journal=journal, limits=LIMITS, cluster=cluster, mcp=True)
    async with host.serving() as serving:
        yield serving.url


class Person:
    """Answers what an MCP client is asked, and notes it."""

    def __init__(self, content: Mapping[str, object] | None = None, action: str = "accept") -> None:
        self.content = content
        self.action = action
        self.asked: list[str] = []

    async def answer(self, context: object, params: ElicitRequestParams) -> ElicitResult:
        await trio.lowlevel.checkpoint()
        self.asked.append(params.message)
        return ElicitResult.model_validate({"action": self.action, "content": self.content})


@asynccontextmanager
async def client_of(
    url: str, user: str = "ann", mode: str = "auto", person: Person | None = None
) -> AsyncGenerator[Client]:
    headers = {"authorization": f"Bearer {KEYS[user]}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{url}/v1/mcp", http_client=http)
        asks = None if person is None else person.answer
        async with Client(transport, mode=mode, elicitation_callback=asks) as client:
            yield client


def said(result: CallToolResult) -> str:
    return cast("str", getattr(result.content[0], "text"))  # noqa: B009 - it is a union


@EACH_VERSION
async def test_a_session_is_a_tool_and_goes_on(mode: str) -> None:
    async with (
        served(SessionSpec(model=ScriptedModel(["Hello.", "Again."]))) as url,
        client_of(url, mode=mode) as client,
    ):
        assert client.protocol_version == VERSIONS[mode]
        assert [offered.name for offered in (await client.list_tools()).tools] == ["prompt"]
        first = await client.call_tool("prompt", {"text": "hi"})
        assert (said(first), first.is_error) == ("Hello.", False)
        session = cast("dict[str, str]", first.structured_content)["session"]
        assert said(await client.call_tool("prompt", {"text": "more", "session": session})) == "Again."


ANSWERED: Final[dict[str, tuple[Person, str]]] = {
    "approved": (Person(YES), "deployed to prod"),
    "rejected": (Person({"decision": "reject", "reason": "not today"}), "rejected by the user: not today"),
    "declined": (Person(action="decline"), "rejected by the user"),
    "cancelled": (Person(action="cancel"), "The turn waits for a decision"),
    "a text": (Person({"reason": "approve"}), "The turn waits for a decision"),
    "another word": (Person({"decision": "Approve it, please"}), "The turn waits for a decision"),
    "declined with a yes": (Person(YES, "decline"), "rejected by the user"),
}


@EACH_VERSION
@pytest.mark.parametrize("how", ANSWERED)
async def test_a_held_call_is_decided_by_the_data_of_a_form_alone(mode: str, how: str) -> None:
    person, text = ANSWERED[how]
    person.asked.clear()
    async with served(holding()) as url, client_of(url, mode=mode, person=person) as client:
        result = await client.call_tool("prompt", TEXT)
        assert said(result).startswith(text)
        assert len(person.asked) == 1
        assert 'May deploy run with {"to": "prod"}?' in person.asked[0]


@EACH_VERSION
async def test_a_question_is_answered(mode: str) -> None:
    question = call("ask_user", {"question": "Which tea?\u202e", "options": ["green", "black"]})
    script: list[Element] = [say(calls=[question]), lambda request: request.messages[-1].text]
    person = Person({"answer": "green"})
    async with served(holding(script)) as url, client_of(url, mode=mode, person=person) as client:
        assert said(await client.call_tool("prompt", TEXT)) == "green"
        assert "\\u202e" in person.asked[0]


@EACH_VERSION
async def test_a_client_that_cannot_ask_is_told_what_waits(mode: str) -> None:
    async with served(holding()) as url, client_of(url, mode=mode) as client:
        result = await client.call_tool("prompt", TEXT)
        content = cast("dict[str, object]", result.structured_content)
        assert (content["stop_reason"], len(cast("list[str]", content["held"]))) == ("held", 1)


@EACH_VERSION
async def test_a_key_that_may_not_decide_decides_nothing(mode: str) -> None:
    person = Person(YES)
    async with served(holding()) as url, client_of(url, "bob", mode, person) as client:
        result = await client.call_tool("prompt", TEXT)
        assert (result.is_error, len(person.asked)) == (True, 1)
        assert "`decide`" in said(result)


@EACH_VERSION
async def test_progress_tells_which_tools_start(mode: str) -> None:
    steps: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - its contract
        await trio.lowlevel.checkpoint()
        steps.append(message)

    async with served(holding()) as url, client_of(url, mode=mode, person=Person(YES)) as client:
        await client.call_tool("prompt", TEXT, progress_callback=note)
    assert steps == ["runs deploy"]


@EACH_VERSION
@pytest.mark.parametrize("takes_long", [False, True])
async def test_a_cancelled_call_aborts_its_turn(mode: str, takes_long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host watches the client of an answer that takes long by a second task, which is cancelled with the first."""
    if takes_long:
        monkeypatch.setattr(http_messages, "SOON", 0.0)
    started, stopped = trio.Event(), trio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()
        return ""

    script: list[Element] = [say(calls=[call("wait")]), "late"]
    spec = SessionSpec(model=ScriptedModel(script), tools=[wait])
    async with served(spec) as url, client_of(url, mode=mode) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "prompt", TEXT)
            await started.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(within(10)):
            await stopped.wait()


@EACH_VERSION
async def test_bad_input_is_a_clear_error_and_begins_no_session(mode: str) -> None:
    async with served(holding()) as url, client_of(url, mode=mode) as client:
        wrong: tuple[dict[str, object], ...] = (
            {},
            {"text": ""},
            {"text": 3},
            {"text": "x", "session": 3},
            {"text": "x", "model": "y"},
        )
        for arguments in wrong:
            with pytest.raises(MCPError, match="takes a `text`"):
                await client.call_tool("prompt", arguments)
        with pytest.raises(MCPError, match="there is no tool 'shell'"):
            await client.call_tool("shell", {"command": "ls"})
        with pytest.raises(MCPError):
            await client.read_resource("file:///etc/passwd")
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {KEYS['ann']}"}, trust_env=False) as http:
            assert (await http.get(f"{url}/v1/sessions")).json()["items"] == []


async def test_a_session_of_another_is_as_one_that_is_not_there() -> None:
    async with served(SessionSpec(model=ScriptedModel(["Hello."], repeat_last=True))) as url:
        async with client_of(url) as client:
            first = await client.call_tool("prompt", {"text": "hi"})
        session = cast("dict[str, str]", first.structured_content)["session"]
        for user in ("bob", "eve"):
            async with client_of(url, user) as client:
                texts = [
                    said(await client.call_tool("prompt", {"text": "hi", "session": name}))
                    for name in (session, "ann.none", f"h.acme.ann.{session}")
                ]
            assert ["there is no such session" in text for text in texts] == [True] * 3, user


async def asked(client: Client, **more: object) -> InputRequiredResult | CallToolResult:
    """Call the tool, and return what comes back as it is."""
    return await client.session.call_tool("prompt", TEXT, allow_input_required=True, **more)  # type: ignore[call-overload, no-any-return]


def approved(question: InputRequiredResult) -> InputResponses:
    return {name: ElicitResult(action="accept", content={**YES}) for name in question.input_requests or {}}


async def test_the_state_of_a_request_counts_for_its_caller_and_its_request_alone() -> None:
    async with served(holding()) as url, client_of(url, person=Person()) as client:
        question = await asked(client)
        assert isinstance(question, InputRequiredResult)
        state = question.request_state or ""
        responses = approved(question)
        for forged in ("", "v1.", state[:-2], f"{state}x", json.dumps(["ann.x", "p1", []])):
            with pytest.raises(MCPError, match="requestState"):
                await asked(client, request_state=forged, input_responses=responses)
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool(
                "prompt", {"text": "another"}, request_state=state, input_responses=responses
            )
        for user in ("boss", "eve"):
            async with client_of(url, user, person=Person()) as thief:
                with pytest.raises(MCPError, match="requestState"):
                    await asked(thief, request_state=state, input_responses=responses)
        for _ in range(2):  # the second one is the same request, sent again
            result = await asked(client, request_state=state, input_responses=responses)
            assert isinstance(result, CallToolResult)
            assert said(result) == "deployed to prod"


async def test_a_retry_without_the_answer_is_asked_again() -> None:
    async with served(holding()) as url, client_of(url, person=Person()) as client:
        question = await asked(client)
        assert isinstance(question, InputRequiredResult)
        yes = ElicitResult(action="accept", content={**YES})
        lacking: tuple[InputResponses | None, ...] = (None, {}, {"wrong": yes})
        for responses in lacking:
            again = await asked(client, request_state=question.request_state, input_responses=responses)
            assert isinstance(again, InputRequiredResult), responses
            assert again.input_requests == question.input_requests
            question = again
        result = await asked(client, request_state=question.request_state, input_responses=approved(question))
        assert isinstance(result, CallToolResult)
        assert said(result) == "deployed to prod"


async def test_the_state_of_a_request_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrail.host.mcp_server.prompt_tool.STATE_SECONDS", 0.001)
    async with served(holding()) as url, client_of(url, person=Person()) as client:
        question = await asked(client)
        assert isinstance(question, InputRequiredResult)
        await trio.sleep(0.01)
        with pytest.raises(MCPError, match="expired requestState"):
            await asked(client, request_state=question.request_state, input_responses=approved(question))


async def test_another_host_of_the_cluster_answers_the_retry() -> None:
    journal, key = MemoryJournal(), "k" * 32
    async with (
        served(holding(), journal, Cluster("http://127.0.0.1:1", key)) as url,
        client_of(url, person=Person()) as client,
    ):
        question = await asked(client)
    assert isinstance(question, InputRequiredResult)
    responses = approved(question)
    for keys, is_known in (("o" * 32, False), (f"{'n' * 32} {key}", True)):
        cluster = Cluster("http://127.0.0.1:2", keys)
        async with served(holding(), journal, cluster) as url, client_of(url, person=Person()) as client:
            if is_known:
                result = await asked(client, request_state=question.request_state, input_responses=responses)
                assert isinstance(result, CallToolResult)
                assert said(result) == "deployed to prod"
            else:
                with pytest.raises(MCPError, match="requestState"):
                    await asked(client, request_state=question.request_state, input_responses=responses)


async def test_who_has_no_key_and_a_connection_of_another_key_are_refused() -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }
    accepts = {"accept": "application/json, text/event-stream"}
    async with served(holding()) as url, httpx.AsyncClient(base_url=url, headers=accepts, trust_env=False) as http:
        assert (await http.post("/v1/mcp", json=initialize)).status_code == 401
        opened = await http.post("/v1/mcp", json=initialize, headers={"authorization": f"Bearer {KEYS['ann']}"})
        assert opened.status_code == 200
        named = {"mcp-session-id": opened.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for user, status in (("eve", 404), ("boss", 404), ("ann", 200)):
            headers = {**named, "authorization": f"Bearer {KEYS[user]}"}
            assert (await http.post("/v1/mcp", json=ping, headers=headers)).status_code == status


async def test_a_host_that_is_no_mcp_server_has_nothing_there() -> None:
    host = Host([Profile("desk", holding())], authenticator=ApiKeys(lines=LINES), limits=LIMITS)
    async with host.serving() as serving, httpx.AsyncClient(trust_env=False) as http:
        assert (await http.post(f"{serving.url}/v1/mcp", json={})).status_code == 404
