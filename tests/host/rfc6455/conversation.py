"""What a person does over a WebSocket, by any client: talk, steer, abort, approve. The agent is that of the browser."""

from __future__ import annotations

from typing import Any, Protocol

Message = dict[str, Any]


class Client(Protocol):
    """A client that speaks the protocol of `WS /v1/ws`."""

    def call(self, name: str, session: str | None = None, **body: object) -> Message:
        """Make a call, and return its answer."""
        ...

    def listen(self, session: str) -> None:
        """Listen to all events of a session."""
        ...

    def until(self, event: str) -> list[Message]:
        """Return what has come on subscriptions since the last time, up to an *event*."""
        ...


def text_of(messages: list[Message]) -> str:
    """Return what was said by deltas."""
    return "".join(message["data"]["event"]["delta"] for message in messages if message.get("event") == "MessageDelta")


def body_of(answer: Message, status: int) -> Message:
    assert answer["status"] == status, answer
    message: Message = answer["body"]
    return message


def converse(client: Client) -> None:
    """Talk, steer, abort and approve, and look at what comes."""
    session = body_of(client.call("open_session"), 201)["session"]
    client.listen(session)
    _talk(client, session)
    _steer(client, session)
    _abort(client, session)
    _approve(client, session)
    refused = client.call("prompt", "nobody.there", message="hello")
    assert (refused["status"], refused["problem"]["type"].rpartition(":")[2]) == (404, "unknown-session")


def _talk(client: Client, session: str) -> None:
    body_of(client.call("prompt", session, message="hello"), 202)
    heard = client.until("AgentEnd")
    assert text_of(heard) == "You said: hello"
    cursors = [tuple(map(int, frame["cursor"].split("."))) for frame in heard]
    assert cursors == sorted(set(cursors))


def _steer(client: Client, session: str) -> None:
    body_of(client.call("prompt", session, message="wait"), 202)
    heard = client.until("MessageDelta")
    while text_of(heard) != "one two three":
        heard += client.until("MessageDelta")
    body_of(client.call("steer", session, text="another thing", when="now"), 202)
    assert text_of(client.until("AgentEnd")) == "You said: another thing"


def _abort(client: Client, session: str) -> None:
    body_of(client.call("prompt", session, message="wait"), 202)
    client.until("MessageDelta")
    assert client.call("abort", session, reason="enough")["status"] in {200, 202, 204}
    aborted = client.until("AgentAbort")[-1]
    assert aborted["data"]["event"]["reason"] == "enough"


def _approve(client: Client, session: str) -> None:
    body_of(client.call("prompt", session, message="pay"), 202)
    held = client.until("ApprovalRequired")[-1]["data"]["event"]
    assert client.call("approve", session, approval=held["approval_id"])["status"] in {200, 202, 204}
    heard = client.until("AgentEnd")
    assert "ToolExecutionEnd" in [frame["event"] for frame in heard]
    assert text_of(heard) == "Sent."
