"""The app of a host, called event by event."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from agentrail import SessionSpec
from agentrail.errors import BadChoice, BadProfile, UsageError
from agentrail.host import (
    ApiKeys,
    HandledResponse,
    Host,
    HostChecks,
    HostLimits,
    HostPlugin,
    Identity,
    Profile,
    Request,
)
from agentrail.host.asgi.asgi_messages import AsgiMessage
from agentrail.host.health.health_parts import NO_CHECKS
from agentrail.knowledge import KnowledgeFolder
from agentrail.testing import stall
from tests.coded import coded
from tests.host.asgi.calling import ask, called, scope_of
from tests.host.hosted import KEYS, LIMITS, LINES, frames, scripted


def host_of(spec: SessionSpec | None = None, limits: HostLimits = LIMITS, checks: HostChecks = NO_CHECKS) -> Host:
    profile = Profile("desk", spec or scripted("one two three"))
    return Host([profile], authenticator=ApiKeys(lines=LINES), limits=limits, checks=checks)


def kind(content: bytes) -> str:
    return str(json.loads(content)["type"]).removeprefix("urn:agentrail:problem:")


# Opening


async def test_an_app_that_nobody_has_opened_says_who_opens_it() -> None:
    app = host_of().asgi()
    with pytest.raises(UsageError, check=coded("app-not-opened"), match="async with app"):
        await ask(app, "GET", "/healthz")
    async with app:
        assert (await ask(app, "GET", "/healthz"))[0] == 200
        assert app.supervisor.sessions() == ()
        assert repr(app) == "<AsgiApp with 0 requests>"
    with pytest.raises(UsageError, check=coded("app-not-opened")):
        _ = app.supervisor
    async with app:
        assert (await ask(app, "GET", "/healthz"))[0] == 200


async def test_a_server_opens_the_app_in_its_lifespan() -> None:
    app = host_of().asgi()
    async with called(app, {"type": "lifespan"}) as server:
        server.put(type="lifespan.startup")
        assert await server.take() == {"type": "lifespan.startup.complete"}
        assert (await ask(app, "GET", "/healthz"))[0] == 200
        server.put(type="lifespan.shutdown")
        assert await server.rest() == [{"type": "lifespan.shutdown.complete"}]
    with pytest.raises(UsageError, check=coded("app-not-opened")):
        await ask(app, "GET", "/healthz")


async def test_a_host_that_cannot_start_tells_the_server_why() -> None:
    app = host_of(SessionSpec(model="nobody:x")).asgi()
    async with called(app, {"type": "lifespan"}) as server:
        server.put(type="lifespan.startup")
        (failed,) = await server.rest()
    assert failed["type"] == "lifespan.startup.failed"
    assert "nobody" in str(failed["message"])
    with pytest.raises(BadProfile, match="nobody"):
        async with app:
            pass


def test_an_app_needs_keys_and_routes_that_there_are() -> None:
    with pytest.raises(BadChoice, match="ApiKeys"):
        Host([Profile("desk", scripted())]).asgi()
    with pytest.raises(BadChoice, match="'steam'"):
        host_of().asgi(routes=("chat", "steam"))


# Requests


async def test_a_request_is_answered_as_by_the_hosts_own_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.access")
    async with host_of().asgi() as app:
        body = json.dumps({"message": "hi", "session": "trip"}).encode()
        status, headers, content = await ask(app, "POST", "/v1/chat", pieces=[body[:5], b"", body[5:]])
        assert (status, json.loads(content)["text"]) == (200, "one two three")
        assert headers["content-length"] == str(len(content))
        (line,) = [record.getMessage() for record in caplog.records if record.name == "agentrail.access"]
        assert line.startswith(f"127.0.0.1 POST /v1/chat 200 {len(content)} bytes ")
        assert line.endswith(f" tenant=acme user=ann request={headers['x-request-id']}")
        status, headers, content = await ask(app, "HEAD", "/healthz")
        assert (status, headers["content-length"], content) == (200, "15", b"")
        root = await ask(app, "GET", "/agents/v1/sessions/trip", root_path="/agents")
        assert (root[0], json.loads(root[2])["session"]) == (200, "ann.trip")
        assert (await ask(app, "GET", "/agentsv1/healthz", root_path="/agents"))[0] == 404
        assert (await ask(app, "GET", "/healthz", root_path="/agents", raw_path=b"/agents/healthz"))[0] == 200
        metrics = (await ask(app, "GET", "/metrics", user="root"))[2].decode()
        assert 'agentrail_requests_total{method="POST",route="/v1/chat",status="200"} 1' in metrics


async def test_a_slash_that_was_sent_hidden_in_a_name_is_refused_although_the_server_has_decoded_it() -> None:
    async with host_of().asgi() as app:
        status, _, content = await ask(app, "GET", "/v1/sessions/a/b", raw_path=b"/v1/sessions/a%2Fb")
    assert (status, kind(content)) == (400, "malformed-request")


async def test_a_slash_in_the_name_of_a_document_may_be_hidden_wherever_the_app_is_mounted(tmp_path: Path) -> None:
    knowledge = KnowledgeFolder(tmp_path)
    await knowledge.store("h", "acme").add("a/b.md", "milk")
    path, name = "/in/v1/knowledge/h/documents/", {"store": "h", "name": "a/b.md"}
    host = Host([Profile("desk", scripted())], authenticator=ApiKeys(lines=LINES), knowledge=knowledge)
    async with host.asgi() as app:
        raw_path = f"{path}a%2Fb.md".encode()
        status, _, content = await ask(app, "GET", f"{path}a/b.md", root_path="/in", raw_path=raw_path)
        assert (status, json.loads(content)["text"]) == (200, "milk")
    async with host.asgi(routes=["document"]) as app:
        assert (await ask(app, "GET", "/docs/h/a/b.md", path_params=name))[0] == 200


async def test_the_connections_of_an_app_are_the_requests_that_it_answers() -> None:
    async with host_of().asgi() as app, called(app, scope_of("POST", "/v1/chat")):
        metrics = (await ask(app, "GET", "/metrics", user="root"))[2].decode()
    assert [line for line in metrics.splitlines() if line.startswith("agentrail_connections")] == [
        "agentrail_connections 2"
    ]


async def test_a_stream_is_sent_as_it_comes_and_waits_for_its_reader() -> None:
    async with host_of().asgi() as app, called(app, scope_of("POST", "/v1/stream"), room=0) as call:
        call.put_body(json.dumps({"message": "hi", "session": "trip"}).encode())
        start, first = await call.take(), await call.take()
        assert (start["status"], first["more_body"]) == (200, True)
        assert (b"content-type", b"text/event-stream") in start["headers"]  # type: ignore[operator]
        text = first["body"] + b"".join([event["body"] for event in await call.rest()])  # type: ignore[operator,misc]
        names = [frame["event"] for frame in frames(text.decode())]
        assert (names[0], names[-1]) == ("PromptReceived", "reply")


async def test_a_client_that_goes_away_ends_its_stream_and_no_turn() -> None:
    async with host_of(scripted(stall())).asgi() as app:
        async with called(app, scope_of("POST", "/v1/stream")) as listener:
            listener.put_body(json.dumps({"message": "hi", "session": "trip"}).encode())
            await listener.take()
            listener.put(type="http.disconnect")
            assert [event["more_body"] for event in await listener.rest() if not event["more_body"]] == []
        async with called(app, scope_of("POST", "/v1/chat")) as asker:
            asker.put_body(json.dumps({"message": "and?", "session": "trip"}).encode())
            asker.put(type="http.disconnect")
            assert await asker.rest() == []
        document = json.loads((await ask(app, "GET", "/v1/sessions/trip"))[2])
        assert (document["status"]["phase"], document["at_work"]) == ("running", True)


async def test_a_reader_that_takes_nothing_is_cut() -> None:
    async with host_of(limits=HostLimits(write_seconds=0.05, drain_seconds=0.5)).asgi() as app:
        await ask(app, "POST", "/v1/sessions", {"session": "trip"})
        async with called(app, scope_of("GET", "/v1/sessions/trip/events"), room=0) as listener:
            listener.put_body()
            with trio.fail_after(100):
                await listener.is_over.wait()


async def test_a_body_that_does_not_come_is_refused() -> None:
    limits = HostLimits(body_seconds=0.05, drain_seconds=0.5)
    async with host_of(limits=limits).asgi() as app, called(app, scope_of("POST", "/v1/chat")) as call:
        call.put(type="http.request", body=b"{", more_body=True)
        status, _, content = await call.answer()
        assert (status, kind(content)) == (408, "request-too-late")


async def test_a_body_that_is_cut_is_no_request() -> None:
    async with host_of().asgi() as app, called(app, scope_of("POST", "/v1/chat")) as call:
        call.put(type="http.request", body=b"{", more_body=True)
        call.put(type="http.disconnect")
        assert (await call.answer())[0] == 400
        assert (await ask(app, "GET", "/v1/sessions"))[2] == b'{"items":[],"next":null}'


async def test_limits_are_those_of_the_host() -> None:
    limits = HostLimits(
        body_bytes=100, requests_per_second=0.001, burst=2, connections_per_address=1, drain_seconds=0.1
    )
    async with host_of(limits=limits, checks={"slow": trio.sleep_forever}).asgi() as app:
        length = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {KEYS['ann']}".encode())]
        length += [(b"content-type", b"application/json"), (b"content-length", b"101")]
        async with called(app, scope_of("POST", "/v1/chat", headers=length)) as call:
            start = await call.take()
            assert start["status"] == 413  # before any of it has come
            call.put_body()
        assert kind((await ask(app, "POST", "/v1/chat", pieces=[b" " * 60] * 2))[2]) == "body-too-large"
        status, headers, content = await ask(app, "GET", "/v1/sessions")
        assert (status, kind(content), "retry-after" in headers) == (429, "too-many-requests", True)
        async with called(app, scope_of("GET", "/v1/sessions", client=("10.0.0.1", 1), user="eve")) as first:
            with trio.fail_after(30):
                assert (await first.answer())[0] == 200
        async with (
            called(app, scope_of("POST", "/v1/chat", user="eve")) as waits,  # it counts for its key
            called(app, scope_of("GET", "/readyz", user=None)) as watches,
        ):
            await trio.testing.wait_all_tasks_blocked()
            status, headers, content = await ask(app, "GET", "/", user=None)
            assert (status, kind(content), headers["retry-after"]) == (503, "too-many-connections", "1")
            assert (await ask(app, "GET", "/healthz"))[0] == 200
            assert (await ask(app, "GET", "/v1/sessions", user="root"))[0] == 200  # of the same address
            assert (await ask(app, "GET", "/v1/sessions", user="root", client=None))[0] == 200  # a unix socket
            waits.scope.cancel()
            watches.scope.cancel()


async def test_a_request_whose_key_takes_long_to_check_is_refused_for_another_one(mock_clock: MockClock) -> None:
    class Slow(ApiKeys):
        """Keys of which one takes for ever to be looked up."""

        async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
            who = await super().identify(headers)
            if who.user == "bob":
                await trio.sleep_forever()
            return who

    limits = LIMITS.but(connections=1)
    host = Host([Profile("desk", scripted("one"))], authenticator=Slow(lines=LINES), limits=limits)
    async with host.asgi() as app, called(app, scope_of("GET", "/v1/sessions", user="bob")) as slow:
        await trio.testing.wait_all_tasks_blocked()
        assert (await ask(app, "GET", "/v1/sessions"))[0] == 200
        status, headers, content = await slow.answer()
        assert (status, kind(content), headers["retry-after"]) == (503, "too-many-connections", "1")
        mock_clock.rate = 10  # for the end of the host


async def test_streams_under_way_end_when_the_server_ends() -> None:
    app = host_of().asgi()
    async with called(app, {"type": "lifespan"}) as server:
        server.put(type="lifespan.startup")
        await server.take()
        await ask(app, "POST", "/v1/sessions", {"session": "trip"})
        async with called(app, scope_of("GET", "/v1/sessions/trip/events")) as listener:
            listener.put_body()
            await listener.take()
            server.put(type="lifespan.shutdown")
            assert (await listener.rest())[-1]["more_body"] is False
        assert await server.rest() == [{"type": "lifespan.shutdown.complete"}]


async def test_a_request_that_has_no_end_is_cut_when_the_server_ends(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    app = host_of().asgi()
    async with called(app, {"type": "lifespan"}) as server:
        server.put(type="lifespan.startup")
        await server.take()
        async with called(app, scope_of("POST", "/v1/chat")) as call:
            call.put(type="http.request", body=b"{", more_body=True)
            await trio.testing.wait_all_tasks_blocked()
            server.put(type="lifespan.shutdown")
            assert await call.rest() == []
        assert await server.rest() == [{"type": "lifespan.shutdown.complete"}]


async def test_a_refused_request_without_a_body_leaves_its_connection_open() -> None:
    length = [(b"host", b"127.0.0.1"), (b"content-length", b"0")]
    async with host_of().asgi() as app, called(app, scope_of("POST", "/v1/chat", headers=length)) as call:
        status, headers, _ = await call.answer()  # the server has told nothing of a body
    assert (status, "connection" in headers) == (401, False)


async def test_what_comes_after_the_answer_of_a_body_that_was_refused_is_taken(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    length = [(b"host", b"127.0.0.1"), (b"content-length", b"30")]
    has_answer, taken = trio.Event(), list[bytes]()

    async def receive() -> AsgiMessage:
        await has_answer.wait()
        taken.append(b"0123456789")
        return {"type": "http.request", "body": taken[-1], "more_body": len(taken) < 3}

    async def send(event: AsgiMessage) -> None:
        await trio.lowlevel.checkpoint()
        if event.get("more_body") is False:
            has_answer.set()

    async with host_of().asgi() as app:
        await app(scope_of("POST", "/v1/chat", headers=length), receive, send)
    assert len(taken) == 3


async def test_nothing_is_sent_to_a_websocket_whose_client_has_gone() -> None:
    scope = scope_of("GET", "/v1/ws", subprotocols=["agentrail.v1"])
    async with host_of().asgi() as app, called(app, scope | {"type": "websocket", "scheme": "ws"}) as call:  # type: ignore[operator]
        call.put(type="websocket.connect")
        accepted = await call.take()
        assert (accepted["type"], accepted["subprotocol"]) == ("websocket.accept", "agentrail.v1")
        call.put(type="websocket.disconnect", code=1005)
        assert await call.rest() == []


# Who may


async def test_names_pages_and_proxies_are_checked() -> None:
    async with host_of().asgi(hosts=["agents.example"], origins=["https://app.example"], proxies=["10.0.0.1"]) as app:

        async def status(name: str, origin: str | None = None, scheme: str = "http") -> int:
            headers = [(b"host", name.encode())] + ([] if origin is None else [(b"origin", origin.encode())])
            return (await ask(app, "GET", "/healthz", headers=headers, scheme=scheme))[0]

        assert await status("agents.example:8000") == 200
        assert await status("evil.example") == 403
        assert await status("agents.example", "https://evil.example") == 403
        assert await status("agents.example", "https://app.example") == 200
        assert await status("agents.example", "http://agents.example") == 200
        assert await status("agents.example", "https://agents.example") == 403
        assert await status("agents.example", "https://agents.example", "https") == 200
        assert (await ask(app, "GET", "/v1/sessions", user=None))[0] == 401


@pytest.mark.parametrize(("peer", "client"), [("10.0.0.1", "203.0.113.7"), ("10.0.0.2", "10.0.0.2")])
async def test_only_a_named_proxy_says_who_the_client_is(
    peer: str, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentrail.access")
    headers = [(b"host", b"localhost"), (b"x-forwarded-for", b"203.0.113.7"), (b"x-request-id", b"r1")]
    async with host_of().asgi(proxies=["10.0.0.1"]) as app:
        answer = await ask(app, "GET", "/healthz", headers=headers, client=(peer, 1))
        assert (answer[1]["x-request-id"] == "r1") == (peer != client)
    assert caplog.messages[-1].startswith(f"{client} GET ")


SCOPES = st.fixed_dictionaries(
    {},
    optional={
        "path": st.one_of(st.text(), st.text().map("/".__add__)),
        "raw_path": st.one_of(st.binary(), st.binary().map(b"/".__add__)),
        "query_string": st.binary(),
        "method": st.one_of(st.text(), st.sampled_from(["GET", "POST", "DELETE", "CONNECT"])),
        "root_path": st.text(),
        "headers": st.lists(st.tuples(st.sampled_from([b"host", b"authorization", b"x", b"expect"]), st.binary())),
        "client": st.one_of(st.none(), st.tuples(st.text(), st.integers())),
        "path_params": st.one_of(st.none(), st.dictionaries(st.just("id"), st.text())),
        "scheme": st.sampled_from(["http", "https"]),
    },
)


@pytest.mark.long
@settings(max_examples=12)
@given(scopes=st.lists(SCOPES, max_size=20))
def test_whatever_the_scope_is_the_answer_is_one_of_the_table(scopes: Sequence[AsgiMessage]) -> None:
    async def main() -> None:
        host = host_of()
        for app in (host.asgi(), host.asgi(routes=("show_session",))):
            async with app:
                for scope in scopes:
                    async with called(app, scope_of("GET", "/v1/sessions") | scope) as call:  # type: ignore[operator]
                        call.put_body()
                        assert (await call.answer())[0] != 500

    trio.run(main)


# Single routes


async def test_a_single_route_is_answered_wherever_it_is_put() -> None:
    host = host_of()
    async with host.asgi(routes=("stream",)) as stream:
        status, _, content = await ask(stream, "POST", "/api/talk", {"message": "hi"})
        assert (status, frames(content.decode())[-1]["event"]) == (200, "reply")
        assert (await ask(stream, "GET", "/api/talk"))[0] == 405
    async with host.asgi(routes=("show_session", "open_session")) as two:
        assert (await ask(two, "POST", "/v1/sessions", {"session": "trip"}))[0] == 201
        assert (await ask(two, "GET", "/v1/sessions/trip"))[0] == 200
        assert (await ask(two, "GET", "/healthz"))[0] == 404
    async with host.asgi(routes=("show_session",)) as service:
        missing = await ask(service, "GET", "/chats/trip", path_params={"id": "trip"})
        assert (missing[0], kind(missing[2])) == (404, "unknown-session")
        assert (await ask(service, "GET", "/chats/trip", path_params={"id": "a/b"}))[0] == 404


async def test_plugins_of_an_app_are_added_to_those_of_its_host() -> None:
    class Named(HostPlugin):
        def __init__(self, name: str) -> None:
            self.name = name
            self.seen = 0

        def intercept(self, request: Request) -> HandledResponse | None:
            self.seen += 1
            return HandledResponse(418, {"by": self.name}) if self.name == "second" else None

    first, second = Named("first"), Named("second")
    host = Host([Profile("desk", scripted("one"))], [first], authenticator=ApiKeys(lines=LINES), limits=LIMITS)
    async with host.asgi(routes=("chat",), plugins=[second]) as app:
        assert (await ask(app, "POST", "/", {"message": "hi"}))[0] == 418
    assert (first.seen, second.seen) == (1, 1)
    async with host.asgi() as app:
        assert (await ask(app, "POST", "/v1/chat", {"message": "hi"}))[0] == 200
    assert (first.seen, second.seen) == (2, 1)
