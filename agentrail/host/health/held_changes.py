"""`HeldChanges`: tells those who show what waits for people when that has changed, so that they need not look again."""

from __future__ import annotations

from weakref import WeakValueDictionary

import trio

from agentrail.api.public_ids import read_internal
from agentrail.runtime.diagnosis.session_listener import SessionListener


class HeldChanges(SessionListener):
    """The next change of what waits for people, of each tenant for whom somebody waits."""

    def __init__(self) -> None:
        self._next: WeakValueDictionary[str, trio.Event] = WeakValueDictionary()

    def following(self, tenant: str) -> trio.Event:
        """Return what is set by the next change in a session of *tenant* that runs here.

        It is asked for before a look: a change during the look is not missed.
        """
        event = self._next.get(tenant)
        if event is None:
            event = self._next[tenant] = trio.Event()
        return event

    def waiting_changed(self, session_id: str) -> None:
        """Wake those who wait for a change in the tenant of a session."""
        name = read_internal(session_id)
        event = None if name is None else self._next.pop(name.tenant, None)
        if event is not None:
            event.set()
