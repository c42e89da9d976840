"""Which tests of the host cannot run on an ASGI server, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OWN: Final = "own"
"""The name of the host's own server."""

PARSER: Final = "it is about our own reader and writer of HTTP/1.1 and of frames"
CONNECTIONS: Final = "an app does not see connections: it counts requests under way"
END: Final = "the server ends connections before the host learns that it ends"
START: Final = "the server puts an error of the start into one of its own"
CLOCK: Final = "the clock of the test stands still, and so do the deadlines of the server"
CYCLES: Final = "the objects of the server are in cycles"
SHIELD: Final = "hypercorn on Trio shields what it writes, so a client that stops reading is not cut"
ADDRESS: Final = "where it listens, TLS and signals are the server's own"

EACH: Final[Mapping[str, str]] = {
    "http11/": PARSER,
    "rfc6455/": PARSER,
    "asgi/": "it names its servers itself",
    "deployed/": ADDRESS,
    "test_inherited_sockets.py": ADDRESS,
    "test_serving_tls.py": ADDRESS,
    "test_signals.py": ADDRESS,
    "test_serve_command.py": ADDRESS,
    "test_told_to_end_under_load.py": ADDRESS,
    "test_reading_anew.py": ADDRESS,
    "test_cycles.py": CYCLES,
    "test_frames_at_once.py": PARSER,
    "websocket/test_frame_writer.py": PARSER,
    "websocket/test_message_reader.py": PARSER,
    "websocket/test_messages_at_once.py": PARSER,
    "websocket/test_drain.py": END,
    "test_connection_shares.py": CONNECTIONS,
    "test_host.py::test_a_host_does_not_serve_a_profile_with_a_model_of_no_provider": START,
    "test_host_trouble.py::test_a_host_that_closes_does_not_wait_for_streams_of_events": END,
    "test_leaving.py::test_a_client_that_leaves_a_chat_frees_its_connection_and_not_its_turn[asks more": CONNECTIONS,
}
"""By the beginning of the name of a test, for each server."""

ALONE: Final[Mapping[str, Mapping[str, str]]] = {
    "hypercorn-trio": {
        "test_slow_readers.py": SHIELD,
        "websocket/test_slow_readers.py": SHIELD,
    },
    "hypercorn-asyncio": {},
    "uvicorn": {},
}
"""The same for one server."""


def why_not(server: str, name: str) -> str | None:
    """Return why the test *name* cannot run on *server*; `None` if it can."""
    table = {**EACH, **ALONE[server]}
    return next((reason for beginning, reason in table.items() if name.startswith(beginning)), None)
