"""`CallUnderWay`: a call over a line, from its sending to its answer."""

from __future__ import annotations

import trio

from agentrail.errors import AgentrailError
from agentrail.values.json import Json, JsonObject


class CallUnderWay:
    """One call that waits for its answer."""

    __slots__ = ("body", "ended", "faults", "id", "problem", "session", "text")

    def __init__(self, name: str, text: str, session: str) -> None:
        self.id = name
        self.text = text
        self.session = session
        self.ended = trio.Event()
        self.body: Json = None
        self.problem: AgentrailError | JsonObject | None = None
        self.faults = 0
        """Connections in a row that the host has closed for a fault of its own while the call waited."""

    def fail(self, problem: AgentrailError | JsonObject) -> None:
        """It ends with *problem*."""
        self.problem = problem
        self.ended.set()
