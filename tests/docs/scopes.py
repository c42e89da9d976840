"""The table of the scopes that each method of a handle needs, from the table of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail import RemoteSession, RemoteSupervisor
from agentrail.api.operation_table import CALLS, HostCall
from docs.printing.markdown import code, codes, table

OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "approvals": ("approvals", "watch_approvals"),
    "change_plugins": ("attach_plugin", "detach_plugin", "update_plugin"),
    "change_tools": ("attach_tools", "detach_tools", "replace_tools"),
    "delete_session": ("delete", "redact"),
    "events": ("subscribe", "monitor"),
    "figures": ("figures_over_time",),
    "list_sessions": ("stored", "sessions"),
    "open_session": ("spawn", "open"),
    "records": ("records", "record"),
    "rows": ("rows", "watch_rows"),
    "show_session": ("status", "detail"),
}
"""The methods of remote handles that make a call, unless it is the one of its own name."""


def methods_of(call: HostCall) -> tuple[str, ...]:
    """Return the names of the methods of remote handles that make *call*."""
    own = (call.name,) if any(hasattr(handle, call.name) for handle in (RemoteSession, RemoteSupervisor)) else ()
    return OTHER_NAMES.get(call.name, own)


def scopes() -> list[str]:
    """Return the table: by scope, the methods of handles whose calls need it."""
    found: dict[tuple[str, str], list[str]] = {}
    for call in CALLS.values():
        if call.scope is not None:
            found.setdefault((call.scope, call.others or ""), []).extend(methods_of(call))
    rows = [
        (code(own), code(others) if others else "", codes(sorted(set(names))))
        for (own, others), names in sorted(found.items(), reverse=True)
        if names
    ]
    return table(("scope", "for sessions of other users", "methods"), rows)
