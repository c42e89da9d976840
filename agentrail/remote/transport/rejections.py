"""What a host, or whatever stands in front of it, says when it refuses the handshake of a WebSocket."""

from __future__ import annotations

import h11
from trio_websocket import ConnectionRejected

from agentrail.api import problems
from agentrail.errors import BadText
from agentrail.remote.transport.host_frames import RefusalFrame, read_host_frame
from agentrail.values.json import JsonObject


def document_in(rejected: ConnectionRejected) -> JsonObject | None:
    """Return the problem document in a response; `None` if there is none."""
    media = dict(rejected.headers or ()).get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
    if media != problems.MEDIA_TYPE:
        return None
    try:
        frame = read_host_frame(f'{{"problem":{(rejected.body or b"").decode(errors="replace")}}}')
    except BadText:
        return None
    return frame.problem if isinstance(frame, RefusalFrame) else None


def describe_rejection(rejected: ConnectionRejected) -> str:
    """Describe a response that has no problem document, for an error message."""
    return f"it answers the handshake of a WebSocket with status {rejected.status_code}"


def refusal_in(answer: bytes) -> ConnectionRejected | None:
    """Return the response in what came before the connection was closed, whose body that may end; `None` if none is."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "localhost")]))
    http.send(h11.EndOfMessage())
    head: h11.Response | None = None
    body = b""
    try:
        for data in (answer, b""):
            http.receive_data(data)
            while not isinstance(event := http.next_event(), h11.ConnectionClosed | type):  # a type: more is needed
                if isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
    except h11.RemoteProtocolError:
        pass  # its body is cut
    return None if head is None else ConnectionRejected(head.status_code, tuple(head.headers), body)
