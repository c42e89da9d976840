"""`SocketParts`: what all WebSockets of a host share."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from agentrail.host.access.identity import Authenticator
from agentrail.host.access.key_watch import KeyWatch
from agentrail.host.access.request_rates import Rates
from agentrail.host.answering.call_request import CarryOut
from agentrail.host.answering.client_streams import ClientStreams
from agentrail.host.answering.event_frames import EventFrames
from agentrail.host.answering.view_calls import ViewCalls
from agentrail.host.health.request_figures import RequestFigures
from agentrail.host.host_drain import HostDrain
from agentrail.runtime.shared.admission import Gate
from agentrail.wire.limits import HostLimits


@frozen
class SocketParts:
    """What all WebSockets of a host share."""

    functions: Mapping[str, CarryOut]
    """The functions of the calls, by name."""
    authenticator: Authenticator
    keys: KeyWatch
    """Looks at the keys of WebSockets as long as they are open."""
    rates: Rates
    drain: HostDrain
    limits: HostLimits
    looking: ViewCalls
    """Opens subscriptions to events."""
    frames: EventFrames
    streams: ClientStreams
    closing: Gate
    """Lets the connections go, a few per pass, whose clients are too slow."""
    requests: RequestFigures
    """Counts the calls."""
