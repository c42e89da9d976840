"""What a reader of the specification has broken of the host: tenants, lives of requests, streams."""

from __future__ import annotations

from typing import Final

from agentrail.api import sse_frames
from agentrail.host import ApiKeys
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.event_frames import EventFrames
from agentrail.host.plugins.host_tools import HostTools, ToolService
from agentrail.host.plugins.plugin_runner import HostPluginRow, RequestHooks
from property_tests.planted.change import Change

CHANGES: Final = (
    Change(
        "end_hook_forgotten_after_an_intercept",
        "a request that a plugin answers has no end",
        RequestHooks.end,
        "for plugin in self._begun:",
        'for plugin in () if self.outcome == "intercepted" else self._begun:',
        "lives",
    ),
    Change(
        "frame_carries_the_next_cursor",
        "a client that comes back misses an event",
        sse_frames.frame,
        "{cursor.seq}",
        "{cursor.seq + 1}",
        "streams",
    ),
    Change(
        "key_compared_by_its_beginning",
        "whoever knows the id of a key needs no more of it",
        ApiKeys.identify,
        "if known_key is None or not fits:",
        "if known_key is None or not (fits or key.startswith(f'{PREFIX}_{known_key.id}_')):",
        "tenants",
    ),
    Change(
        "tenant_from_the_body",
        "an id of a session may name its tenant",
        HostedSessions.name,
        "named(who.tenant, who.user, visible)",
        'SessionName(*visible.split(".", 3)[1:]) if visible.startswith("h.") and visible.count(".") == 3 '
        "else named(who.tenant, who.user, visible)",
        "tenants",
    ),
    Change(
        "gap_not_sent",
        "a client that comes back is not told that events are gone",
        sse_frames.event_frame,
        "return frame(GAP, to_json(data))",
        "return HEARTBEAT",
        "streams",
    ),
    Change(
        "event_encoded_again",
        "an event is encoded for each who listens",
        EventFrames.frame,
        "cached[0] == envelope",
        "cached[0] is None",
        "streams",
    ),
    Change(
        "deny_lets_a_sub_agent_through",
        "sub-agents do not inherit what rules on calls",
        HostTools.inherited,
        "return self",
        "return None",
        "lives",
    ),
    Change(
        "last_deny_wins",
        "plugins are asked about a call that is denied already",
        ToolService._before,  # noqa: SLF001 - a private part is broken here
        'return freeze_object({"deny": answer.value.reason})',
        "continue",
        "lives",
    ),
    Change(
        "critical_interceptor_skipped",
        "a request goes on although a critical plugin has failed",
        HostPluginRow.intercept,
        "elif plugin.critical:",
        "elif plugin.critical and plugin.name == '':",
        "lives",
    ),
)
