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
CYCLES: Final = "the objects of the server are in cycles"
HANDSHAKE: Final = "the server reads and answers handshakes of WebSockets"
PINGS: Final = "the server sends pings"
THREAD: Final = "it shares an event of Trio, or the loop, with code in the host, which is in another thread on asyncio"
EARLY_RESET: Final = "a server on asyncio drops a request whose client has reset its connection before the app reads it"
HALF_CLOSED: Final = "uvicorn closes a connection as soon as its client has closed its side"
SHIELD: Final = "hypercorn on Trio shields what it writes, so a client that stops reading is not cut"
BUFFERS: Final = "the system takes megabytes from the server for a client that does not read, before it has to wait"
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
    "websocket/test_handshake.py::test_what_is_no_handshake": HANDSHAKE,
    "websocket/test_handshake.py::test_an_upgrade_of_another_path": HANDSHAKE,
    "websocket/test_handshake.py::test_messages_that_come_with_the_handshake": HANDSHAKE,
    "websocket/test_closing.py::test_what_breaks_the_rules_of_the_protocol": PARSER,
    "websocket/test_closing.py::test_a_client_that_is_not_there": PINGS,
    "websocket/test_closing.py::test_a_ping_after_the_close_of_the_host": PARSER,
    "test_connection_shares.py": CONNECTIONS,
    "test_host.py::test_a_host_does_not_serve_a_profile_with_a_model_of_no_provider": START,
    "test_host_trouble.py::test_a_host_that_closes_does_not_wait_for_streams_of_events": END,
    "test_leaving.py::test_a_client_that_leaves_a_chat_frees_its_connection_and_not_its_turn[asks more": CONNECTIONS,
    "test_metrics.py::test_the_figures_are_those_of_what_has_happened": CONNECTIONS,
}
"""By the beginning of the name of a test, for each server."""

IN_A_THREAD: Final = {
    "test_context_after_restart.py": THREAD,
    "test_host_trouble.py::test_a_request_ends_although_its_client_went_before_the_first_byte": EARLY_RESET,
    "test_host_trouble.py::test_the_turns_of_a_session_are_not_those_of_a_deleted_one": THREAD,
    "test_readiness.py::test_a_loop_that_was_blocked": THREAD,
    "test_stored_sessions.py::test_sub_agents_are_not_sessions": THREAD,
    "test_upkeep.py::test_prompts_of_a_suspended_session": THREAD,
    "uploaded/test_uploads.py::test_uploads_at_once_share_the_quota": THREAD,
    "websocket/test_calls.py::test_of_calls_that_only_look": THREAD,
    "websocket/test_slow_readers.py::test_a_client_that_does_not_read": BUFFERS,
}

BY_UVICORN: Final = {
    **IN_A_THREAD,
    "test_leaving.py::test_a_client_that_has_closed_its_side_gets_the_answers": HALF_CLOSED,
}

ALONE: Final[Mapping[str, Mapping[str, str]]] = {
    "hypercorn-trio": {
        "ag_ui/test_host_rules.py::test_who_reads_too_slowly": SHIELD,
        "test_slow_readers.py": SHIELD,
        "websocket/test_slow_readers.py": SHIELD,
    },
    "hypercorn-asyncio": IN_A_THREAD,
    "uvicorn": BY_UVICORN,
    "uvicorn-wsproto": BY_UVICORN,
}
"""The same for one server."""


def why_not(server: str, name: str) -> str | None:
    """Return why the test *name* cannot run on *server*; `None` if it can."""
    table = {**EACH, **ALONE[server]}
    return next((reason for beginning, reason in table.items() if name.startswith(beginning)), None)
