"""Clients of WebSocket that nobody here has written: the package `websockets`, and chromium."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import pytest
import trio
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from agentrail.host import Profile
from tests.host.browser.browsing import CHROMIUM, FLAGS, SECONDS, host_process, static_site
from tests.host.browser.scenes import SPEC
from tests.host.hosted import KEYS, open_desk

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


if TYPE_CHECKING:
    from playwright.sync_api import Page

SCENES: Final = Path(__file__).parents[1] / "browser" / "scenes.py"
PROTOCOL: Final = "agentrail.v1"

T = TypeVar("T")


class Foreign:
    """`websockets` as a client."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = count(1)
        self._heard: list[Message] = []

    def call(self, name: str, session: str | None = None, **body: object) -> Message:
        about = {} if session is None else {"session": session}
        return self._answer({"id": str(next(self._ids)), "call": name, "body": body, **about})

    def listen(self, session: str) -> None:
        self._send({"id": "events", "listen": "events", "session": session, "since": "0"})

    def until(self, event: str) -> list[Message]:
        while True:
            for index, item in enumerate(self._heard):
                if item.get("event") == event:
                    result, self._heard = self._heard[: index + 1], self._heard[index + 1 :]
                    return result
            self._heard.append(self._receive())

    def _answer(self, message: Message) -> Message:
        self._send(message)
        while (got := self._receive()).get("id") != message["id"]:
            self._heard.append(got)
        return got

    def _send(self, message: Message) -> None:
        self._socket.send(json.dumps(message))

    def _receive(self) -> Message:
        got: Message = json.loads(self._socket.recv(SECONDS))
        return got


async def in_thread(function: Callable[..., T], *value: object) -> T:
    return await trio.to_thread.run_sync(lambda: function(*value))


def opened(url: str, key: str | None, origin: str | None = None) -> ClientConnection:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return connect(
        url.replace("http://", "ws://") + "/v1/ws",
        additional_headers=headers,
        subprotocols=[Subprotocol(PROTOCOL)],
        origin=None if origin is None else Origin(origin),
        proxy=None,
    )


def talked(url: str) -> str | None:
    """Do all that a person does; return the protocol that was agreed on."""
    with opened(url, KEYS["ann"]) as socket:
        converse(Foreign(socket))
        return socket.subprotocol


async def test_websockets_talks_streams_steers_aborts_and_approves() -> None:
    async with open_desk([Profile("desk", SPEC)]) as desk:
        assert await in_thread(talked, desk.serving.url) == PROTOCOL


def key_first(url: str, *messages: object) -> tuple[int | None, list[Message]]:
    """Send messages without a key in the handshake; return the code of the close, and what was answered before."""
    heard: list[Message] = []
    with opened(url, None) as socket:
        try:
            for message in messages:
                socket.send(json.dumps(message))
            while True:
                heard.append(json.loads(socket.recv(SECONDS)))
                if "status" in heard[-1]:
                    socket.close()
        except ConnectionClosed:
            return socket.close_code, heard


async def test_a_key_may_be_the_first_message() -> None:
    ask = {"id": "1", "call": "list_sessions"}
    async with open_desk([Profile("desk", SPEC)]) as desk:
        code, heard = await in_thread(key_first, desk.serving.url, {"key": KEYS["ann"]}, ask)
        assert (code, [(frame["id"], frame["status"]) for frame in heard]) == (1000, [("1", 200)])
        assert (await in_thread(key_first, desk.serving.url, {"key": "wrong"}, ask))[0] == 1008
        assert (await in_thread(key_first, desk.serving.url, ask, ask))[0] == 1008


def status(url: str, key: str | None, origin: str | None) -> int:
    """Return the status with which a handshake is answered."""
    try:
        with opened(url, key, origin):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


async def test_a_handshake_of_nobody_or_of_a_foreign_page_is_refused() -> None:
    async with open_desk([Profile("desk", SPEC)]) as desk:
        url = desk.serving.url
        assert await in_thread(status, url, KEYS["ann"], None) == 101
        assert await in_thread(status, url, KEYS["ann"], url) == 101
        assert await in_thread(status, url, KEYS["ann"], "http://evil.example") == 403
        assert await in_thread(status, url, "ak_wrong", None) == 401


# Chromium

needs_browser = pytest.mark.skipif(
    not CHROMIUM.exists() or find_spec("playwright") is None,
    reason="chromium is not tested: run `make browser-tools` first",
)

CLIENT: Final = """([address, key]) => new Promise((done, fail) => {
  const socket = new WebSocket(address, 'agentrail.v1')
  const heard = [], answers = {}
  let wake = () => {}
  const when = async found => { let one; while (!(one = found())) await new Promise(next => wake = next); return one }
  const until = event => when(() => {
    const place = heard.findIndex(one => one.event === event)
    return place < 0 ? null : heard.splice(0, place + 1)
  })
  const answer = async asked => { socket.send(JSON.stringify(asked)); return await when(() => answers[asked.id]) }
  socket.onmessage = ({data}) => {
    const one = JSON.parse(data)
    'status' in one ? answers[one.id] = one : heard.push(one)
    wake()
  }
  socket.onopen = () => { if (key) socket.send(JSON.stringify({key})); done(socket.protocol) }
  socket.onclose = ({code, reason}) => { window.ended = [code, reason]; fail(new Error(`closed with ${code}`)) }
  window.talk = {socket, until, answer}
})"""


class Tab:
    """A page of chromium as a client."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._ids = count(1)

    def call(self, name: str, session: str | None = None, **body: object) -> Message:
        about = {} if session is None else {"session": session}
        requests = {"id": str(next(self._ids)), "call": name, "body": body, **about}
        message: Message = self._page.evaluate("asked => talk.answer(asked)", requests)
        return message

    def listen(self, session: str) -> None:
        requests = {"id": "events", "listen": "events", "session": session, "since": "0"}
        self._page.evaluate("asked => talk.socket.send(JSON.stringify(asked))", requests)

    def until(self, event: str) -> list[Message]:
        messages: list[Message] = self._page.evaluate("event => talk.until(event)", event)
        return messages


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Page, str, str]]:
    """Yield an empty page of a site that may use a host, the address of the host's WebSocket, and the token."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    folder = tmp_path_factory.mktemp("host")
    with (
        static_site() as site,
        host_process(SCENES, folder, "--origin", site) as (port, token),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(f"{site}/client.js")
        yield page, f"ws://127.0.0.1:{port}/v1/ws", token
        browser.close()


@pytest.mark.campaign
@pytest.mark.long
@needs_browser
def test_chromium_talks_streams_steers_aborts_and_approves(tab: tuple[Page, str, str]) -> None:
    page, address, token = tab
    assert page.evaluate(CLIENT, [address, token]) == PROTOCOL
    converse(Tab(page))


@pytest.mark.long
@needs_browser
def test_chromium_is_told_that_its_key_is_wrong(tab: tuple[Page, str, str]) -> None:
    page, address, _ = tab
    page.evaluate(CLIENT, [address, "wrong"])
    page.wait_for_function("window.ended")
    assert page.evaluate("ended[0]") == 1008


@pytest.mark.long
@needs_browser
def test_a_page_of_another_site_is_not_let_in(tab: tuple[Page, str, str]) -> None:
    from playwright.sync_api import Error  # noqa: PLC0415 - it need not be installed

    page, address, token = tab
    page.goto(page.url.replace("127.0.0.1", "localhost"))
    with pytest.raises(Error, match="closed with 1006"):
        page.evaluate(CLIENT, [address, token])
