"""An editor of our own: real pipes, a real shared host, and every line that it gets kept and, if wanted, checked."""

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import trio
from jsonschema import Draft202012Validator

from agentrail import RemoteSupervisor
from agentrail.cli.acp.editor_connection import EditorConnection
from agentrail.cli.acp.json_lines import LineReader, LineWriter
from agentrail.cli.acp.peer import Peer
from agentrail.cli.agents.agent_seal import AgentSeal
from agentrail.cli.agents.agent_source import AgentSource, profile_of
from agentrail.cli.host.shared_host import open_shared
from agentrail.cli.output.standard_output import StandardOutput
from tests.patience import PATIENCE

Message = dict[str, "object"]

PACKAGE: Final = Path(__file__).parents[3] / "build" / "editors" / "node_modules" / "@agentclientprotocol" / "sdk"

ANSWERS: Final = {
    "initialize": "InitializeResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/prompt": "PromptResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}
OURS: Final = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "elicitation/create": "CreateElicitationRequest",
    "$/cancel_request": "CancelRequestNotification",
}


@cache
def validator(name: str, *, is_closed: bool = False) -> Draft202012Validator:
    """Return what checks a value of the class *name* by the official schema; skip the test if that is not there.

    If *is_closed*, a value has no fields that the class does not name.
    """
    file = PACKAGE / "schema" / "v1" / "schema.json"
    if not file.exists():
        pytest.skip("the official schema of the protocol is not installed: `make editor-clients` does that")
    schema = json.loads(file.read_text(encoding="utf-8"))
    others = {"unevaluatedProperties": False} if is_closed else {}
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"], **others})


class RefusedError(Exception):
    """The agent answered with an error."""

    def __init__(self, error: Mapping[str, object]) -> None:
        super().__init__(error)
        self.code = error["code"]
        self.message = str(error["message"])
        self.details = error.get("data")


def text(content: str) -> list[Message]:
    return [{"type": "text", "text": content}]


class Editor:
    """The editor's side: it asks and is asked."""

    def __init__(self, send: Callable[[bytes], None], reader: LineReader, supervisor: RemoteSupervisor) -> None:
        self.supervisor = supervisor
        self.messages: list[Message] = []
        self._send = send
        self._reader = reader
        self._count = 100  # tests write messages of their own with small ids
        self._methods: dict[object, str] = {}
        self._read_to = 0

    # Out

    def write(self, line: bytes) -> None:
        self._send(line + b"\n")

    def send(self, **fields: object) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **fields}).encode())

    def ask(self, method: str, **params: object) -> int:
        """Send a request, and return its id."""
        self._count += 1
        self._methods[self._count] = method
        self.send(id=self._count, method=method, params=params)
        return self._count

    def tell(self, method: str, **params: object) -> None:
        self.send(method=method, params=params)

    # In

    async def wait_for(self, is_it: Callable[[Message], bool]) -> Message:
        """Return the next message that *is_it*; those before it are in `messages`."""
        with trio.fail_after(PATIENCE):
            while True:
                while self._read_to < len(self.messages):
                    message = self.messages[self._read_to]
                    self._read_to += 1
                    if is_it(message):
                        return message
                line = await self._reader.next_line()
                assert line is not None, f"the agent has left after {self.messages[-3:]}"
                self.messages.append(json.loads(line))

    async def answer(self, request_id: int | str | None) -> Message:
        """Return the result of a request, which may have come before; raise `RefusedError` if it failed."""

        def is_it(message: Message) -> bool:
            return "method" not in message and message.get("id") == request_id

        message = next(filter(is_it, self.messages), None) or await self.wait_for(is_it)
        assert message["jsonrpc"] == "2.0"
        if "error" in message:
            assert "result" not in message
            raise RefusedError(message["error"])  # type: ignore[arg-type]
        return message["result"]  # type: ignore[return-value]

    async def call(self, method: str, **params: object) -> Message:
        return await self.answer(self.ask(method, **params))

    async def update(self, kind: str, **fields: object) -> Message:
        """Return the next update of this kind with these fields."""
        message = await self.wait_for(
            lambda message: (
                message.get("method") == "session/update"
                and _update(message)["sessionUpdate"] == kind
                and all(_update(message).get(name) == value for name, value in fields.items())
            )
        )
        return _update(message)

    async def request(self, method: str = "session/request_permission") -> Message:
        return await self.wait_for(lambda message: message.get("method") == method)

    @property
    def updates(self) -> list[Message]:
        """All updates that have come."""
        return [_update(message) for message in self.messages if message.get("method") == "session/update"]

    def agent_text(self) -> str:
        """The text of the agent, of all messages."""
        chunks = [update for update in self.updates if update["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)  # type: ignore[index]

    def forget(self) -> None:
        """Forget the messages that have come."""
        self.messages.clear()
        self._read_to = 0

    # Whole conversations

    async def begin(self, **able: object) -> Message:
        return await self.call("initialize", protocolVersion=1, clientCapabilities=able)

    async def open(self, folder: Path) -> str:
        result = await self.call("session/new", cwd=str(folder), mcpServers=[])
        return str(result["sessionId"])

    def prompt(self, session: str, content: str) -> int:
        return self.ask("session/prompt", sessionId=session, prompt=text(content))

    def choose(self, request: Message, option: str) -> None:
        self.send(id=request["id"], result={"outcome": {"outcome": "selected", "optionId": option}})

    def check(self) -> None:
        """Check all that has come by the official schema."""
        for message in self.messages:
            if "error" in message:
                validator("Error").validate(message["error"])
            elif "method" in message:
                validator(OURS[str(message["method"])]).validate(message["params"])
            elif self._methods[message["id"]] in ANSWERS:
                validator(ANSWERS[self._methods[message["id"]]]).validate(message["result"])


def _update(message: Message) -> Message:
    return message["params"]["update"]  # type: ignore[index, no-any-return]


@asynccontextmanager
async def editor(journal: Path, source: AgentSource | None = None) -> AsyncGenerator[Editor, None]:
    """Give an editor that is connected; at the end it closes its side, and what it has begun ends by that."""
    agent_reads, we_write = os.pipe()
    we_read, agent_writes = os.pipe()

    def source_in(folder: Path) -> AgentSource:
        return AgentSeal(journal).begun((source or AgentSource("", model="demo")).but(folder=str(folder)))

    with os.fdopen(agent_writes, "w") as stream:
        async with open_shared(journal, profile_of) as supervisor:
            output = StandardOutput(stream)
            writer = LineWriter(output)
            connection = EditorConnection(supervisor, source_in, Peer(writer))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(writer.run)
                nursery.start_soon(connection.run, LineReader(agent_reads))
                try:
                    connected = Editor(lambda content: _write_all(we_write, content), LineReader(we_read), supervisor)
                    yield connected
                    if PACKAGE.exists():
                        connected.check()
                finally:
                    os.close(we_write)
                    writer.close()
                    nursery.cancel_scope.cancel()
            os.close(output._descriptor)  # noqa: SLF001 - it is that of the process elsewhere, which closes it
    os.close(agent_reads)
    os.close(we_read)


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
