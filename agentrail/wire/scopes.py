"""The scopes: what a key may allow on a host."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

SCOPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "talk": "open sessions, and do everything with one's own: prompt, steer, abort, read, delete",
        "decide": "decide about calls that wait, in all sessions of the tenant",
        "observe": "read all sessions of the tenant, their events, and the figures of the host",
        "admin": "do everything with all sessions of the tenant",
    }
)
"""What each scope allows, by its name."""
