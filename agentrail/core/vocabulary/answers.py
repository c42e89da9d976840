"""What a caller gets back: accepted, done, or refused with the reason."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.errors import AgentrailError
from agentrail.values.value import Value, value


@value
class Accepted(Value):
    """The text will be handled; it is durable."""

    ref: str
    """What events call it."""
    status: str
    """`started` or `queued`."""
    position: int = 0
    """Its place in the queue, from 1; 0 if it was started."""


@value
class Done(Value):
    """The call was carried out, or will be, as the table of calls says."""


@value
class Refused(Value):
    """The call changed nothing."""

    error: AgentrailError
    """Why."""


Answer: TypeAlias = Accepted | Done | Refused
DONE = Done()
