"""`Troubles`: what went wrong of late in the sessions of a host, by tenant, from their events; bounded, in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from agentrail.api.public_ids import is_within, read_internal, visible, without_tenant
from agentrail.api.views import TroubleView
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.state import State
from agentrail.runtime.diagnosis.session_listener import SessionListener
from agentrail.values import events as e
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.newest import Newest

KEPT: Final = 1_000
"""How much is kept of one tenant: the newest."""

TENANTS: Final = 200
"""Of how many tenants something is kept: those with the newest trouble."""

SESSIONS: Final = 10_000
"""Of how many sessions the last trouble is kept."""

TEXT: Final = 200
"""The most characters of what is told of one trouble."""

EXPECTED: Final = ("user", "stopped")
"""Kinds of aborts that somebody asked for."""

BUDGET: Final = "budget_"
"""How the names of events begin that a plugin emits about a budget."""


class Troubles(SessionListener):
    """What went wrong of late; it listens to the steps of all sessions."""

    def __init__(self) -> None:
        self._of_tenant = Newest[str, deque[tuple[str, TroubleView]]](TENANTS)
        self._last = Newest[str, TroubleView](SESSIONS)

    def stepped(self, before: State, outcome: Step) -> None:
        """Note what the events of a step tell."""
        for envelope in outcome.events:
            kind_and_text = _trouble_in(envelope.event)
            if kind_and_text is not None:
                self._add(before.session_id, envelope, *kind_and_text)

    def _add(self, session_id: str, envelope: Envelope, kind: str, text: str) -> None:
        name = read_internal(session_id)
        if name is None:
            return
        trouble = TroubleView(
            visible(session_id), envelope.at, kind, without_tenant(text[:TEXT], name.tenant), str(envelope.cursor)
        )
        troubles = self._of_tenant.get(name.tenant) or deque(maxlen=KEPT)
        troubles.append((session_id, trouble))
        self._of_tenant[name.tenant] = troubles
        self._last[session_id] = trouble

    def last(self, session_id: str) -> TroubleView | None:
        """Return the last trouble of a session; `None` if none is kept."""
        return self._last.get(session_id)

    def newest_first(self, tenant: str) -> Iterator[TroubleView]:
        """Yield what is kept of a tenant."""
        return (trouble for _, trouble in reversed(self._of_tenant.get(tenant, ())))

    def erase(self, session_id: str) -> None:
        """Forget a session and its sub-agents, because the session or its texts are erased."""
        for tenant, troubles in tuple(self._of_tenant.items()):
            rest = [item for item in troubles if not is_within(item[0], session_id)]
            self._of_tenant[tenant] = deque(rest, KEPT)
        for other in [other for other in self._last if is_within(other, session_id)]:
            del self._last[other]


def _trouble_in(event: Event) -> tuple[str, str] | None:
    """Return the kind of trouble that *event* tells of, and what it was; `None` if it tells of none."""
    match event:
        case e.SessionRestarted(cause=cause):
            return "crash", cause
        case e.SessionQuarantined(cause=cause):
            return "quarantine", cause
        case e.InputQuarantined(input=name, cause=cause):
            return "quarantine", f"{name}: {cause}"
        case e.ToolAbandoned(name=name):
            return "abandoned", name
        case e.ToolUnknown(name=name):
            return "doubt", name
        case e.StreamStalled(elapsed_s=seconds, count=count):
            return "stall", f"nothing came for {seconds:g} s, {count} times"
        case e.Retry(attempt=attempt, reason=reason):
            return "retry", f"attempt {attempt}: {reason}"
        case e.AgentAbort(kind=kind, reason=reason) if kind not in EXPECTED:
            return "abort", f"{kind}: {reason}" if reason else kind
        case e.PluginEvent(plugin=plugin, name=name) if name.startswith(BUDGET):
            return "budget", f"{plugin}: {name}"
        case e.PluginError(plugin=plugin, hook=hook, error=error):
            return "plugin", f"{plugin} at {hook}: {error}"
        case _:
            return None
