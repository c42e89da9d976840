"""Bugs in the WebSockets of a host: most were chosen from the specification before their tests and code were read."""

from __future__ import annotations

from typing import Final

from agentrail.host.http11 import websocket_protocol
from agentrail.host.http11.websocket_protocol import MessageReader
from agentrail.host.operations.view_calls import ViewCalls
from agentrail.host.websocket.send_queue import SendQueue
from agentrail.host.websocket.socket_connection import SocketConnection
from agentrail.host.websocket.socket_listening import SocketListening
from agentrail.host.websocket.subscription_messages import EventMessages
from property_tests.planted import Bed, Planting
from property_tests.planted.change import Change
from property_tests.planted.host import broken
from tests.host.model.expecting import ModelError
from tests.host.model.sockets import socketed
from tests.host.rfc6455.case_search import check_case

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "socket_id_used_twice",
        "an id is taken for a second call while the first one is under way",
        SocketConnection._take,
        "as frame if frame.id in self._uses:",
        'as frame if frame.id == "":',
        "sockets",
    ),
    Change(
        "socket_listens_to_a_foreign_session",
        "a subscription does not ask whose session it is",
        ViewCalls.subscribed,
        "call.who, call.session)",
        'call.who.but(scopes=call.who.scopes | {"admin"}), call.session)',
        "sockets",
    ),
    Change(
        "socket_cursor_of_another_session",
        "events carry the cursor of the first one that the subscription has sent",
        EventMessages.of,
        "data, envelope.cursor)",
        'data, vars(self).setdefault("_seen", envelope.cursor))',
        "sockets",
    ),
    Change(
        "socket_gap_not_sent",
        "a subscription is not told that events are gone",
        EventMessages.of,
        "return (socket_frames.gap(self._name, data),)",
        'return (b"{}",)',
        "sockets",
    ),
    Change(
        "socket_slow_reader_blocks_all",
        "while one connection has no room, nothing is added to any",
        SendQueue.__init__,
        "self._turn = trio.StrictFIFOLock()",
        'self._turn = globals().setdefault("_ONE", trio.StrictFIFOLock())',
        "sockets",
    ),
    Change(
        "socket_key_not_checked_again",
        "a connection outlives its key",
        SocketConnection._watch_key,
        "await self.user.refusal(began)",
        "await trio.sleep_forever()",
        "sockets",
    ),
    Change(
        "socket_drain_without_reconnect",
        "the end of the host looks like a fault",
        SocketConnection.drain,
        "self._end(RESTARTS, RECONNECT)",
        "self._end(FAULT, RECONNECT)",
        "sockets",
    ),
    Change(
        "socket_event_encoded_again",
        "an event is encoded for each subscription",
        EventMessages.of,
        "data = data_of(",
        "self._frames.erase(envelope.session_id)\n        data = data_of(",
        "sockets",
    ),
    Change(
        "socket_end_ends_all",
        "the end of one subscription ends all of the connection",
        SocketConnection._take,
        "self._uses[name]()",
        "[end() for end in tuple(self._uses.values())]",
        "sockets",
    ),
    Change(
        "socket_unsent_without_bound",
        "whatever is not read waits in memory",
        SendQueue._has_room,
        "return self._is_over or",
        "return True or",
        "sockets",
    ),
    Change(
        "socket_types_forgotten_on_return",
        "a client that comes back gets events of all types",
        SocketListening._opened,
        "None if frame.types is None else classes_of",
        "None if frame.types is None or frame.since is not None else classes_of",
        "sockets",
    ),
    Change(
        "socket_since_repeats",
        "a client that comes back gets its last event again",
        SocketListening._opened,
        "call, since, types, policy)",
        "call, since and since._replace(seq=since.seq - 1), types, policy)",
        "sockets",
    ),
)

BED = Bed()


@BED.bug("frames without a mask are taken", "frames")
def unmasked_frames_taken(plant: Planting) -> None:
    plant.rewrite(
        MessageReader._check_second,
        "if not byte & _MASKED:",
        "if not byte & _MASKED and byte & 0x7F == 0:",
    )


@BED.bug("a text is decoded anew in each fragment", "frames")
def fragments_decoded_alone(plant: Planting) -> None:
    plant.rewrite(MessageReader._end_frame, "elif self._fin:", "elif self._decoder.reset() or self._fin:")


@BED.bug("codes are taken that no close frame may have", "frames")
def reserved_close_codes_taken(plant: Planting) -> None:
    plant.rewrite(
        websocket_protocol._read_close,
        "code in codes for codes in _SENDABLE",
        "code in codes or 1004 <= code <= 1006 for codes in _SENDABLE",
    )


@BED.bug("a message may be too large if it comes in fragments", "frames")
def fragments_not_added_up(plant: Planting) -> None:
    plant.rewrite(MessageReader._check_length, "size = (self._size or 0) + length", "size = length")


SOCKETS: Final = {"sockets": broken(socketed, ModelError), "frames": broken(check_case, ModelError)}
"""The searches: a model of a host's WebSockets, and the cases of RFC 6455."""
