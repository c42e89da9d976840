"""An event is encoded once for all who listen to it, over HTTP and over WebSockets together."""

from __future__ import annotations

import json

import trio

from agentrail.host import ApiKeys, Host, HostLimits, Profile
from tests.host.hosted import frames, scripted
from tests.host.model.in_process import DrawnRequest, ask, opened
from tests.host.model.people import LINES, PEOPLE
from tests.host.model.socket_lines import line

EVENTS = DrawnRequest(
    "GET", "/v1/sessions/s1/events", (("authorization", f"Bearer {PEOPLE[0].key}"), ("last-event-id", "0"))
)


async def test_an_event_is_encoded_once_however_it_is_sent() -> None:
    host = Host([Profile("desk", scripted("one two three"))], limits=HostLimits(drain_seconds=0.5))
    async with opened(host, ApiKeys(lines=LINES)) as opened_host, trio.open_nursery() as nursery:
        async with (
            line(opened_host.application, PEOPLE[0]) as first,
            line(opened_host.application, PEOPLE[0]) as second,
        ):
            await first.ask("open_session", body={"session": "s1"})
            streams = [list[bytes](), list[bytes]()]
            for stream in streams:
                nursery.start_soon(ask, opened_host.application, EVENTS, stream.append)
            listening = [
                (frame, await frame.send(listen="events", session="s1", since="0")) for frame in (first, second)
            ]
            await first.ask("ask", "s1", body={"message": "hi"})
            await trio.testing.wait_all_tasks_blocked()
            over_http = [[json.loads(frame["data"]) for frame in frames(b"".join(piece).decode())] for piece in streams]
            over_sockets = [
                [piece["data"] for piece in frame.of(name) if "event" in piece] for frame, name in listening
            ]
            assert over_http[0][-1]["event"]["$"] == "AgentEnd"
            assert over_http == over_sockets == [over_http[0]] * 2
            assert opened_host.frames.encoded == len(over_http[0])
        nursery.cancel_scope.cancel()
