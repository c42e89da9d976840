"""Journals, which store sessions: two built-in ones, the protocol for your own; archives and audits of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import lazily

if TYPE_CHECKING:
    from agentrail.adapters.journals.archive import export_session as export_session
    from agentrail.adapters.journals.archive import import_session as import_session
    from agentrail.adapters.journals.auditing import audit as audit
    from agentrail.adapters.journals.memory import MemoryJournal as MemoryJournal
    from agentrail.adapters.journals.model_requests import model_requests as model_requests
    from agentrail.adapters.journals.redacting import redacted as redacted
    from agentrail.adapters.journals.sqlite import SqliteJournal as SqliteJournal
    from agentrail.core.audit import Difference as Difference
    from agentrail.ports.journal import ALL_SESSIONS as ALL_SESSIONS
    from agentrail.ports.journal import NO_LEASE as NO_LEASE
    from agentrail.ports.journal import About as About
    from agentrail.ports.journal import Claim as Claim
    from agentrail.ports.journal import Journal as Journal
    from agentrail.ports.journal import Latest as Latest
    from agentrail.ports.journal import Lease as Lease
    from agentrail.ports.journal import Record as Record
    from agentrail.ports.journal import Redaction as Redaction
    from agentrail.ports.journal import SessionFilter as SessionFilter
    from agentrail.ports.journal import Snapshot as Snapshot
    from agentrail.ports.journal import StoredAnswer as StoredAnswer
    from agentrail.ports.journal import StoredSession as StoredSession
    from agentrail.ports.retention import Retention as Retention

_HOMES = {
    "ALL_SESSIONS": "agentrail.ports.journal",
    "About": "agentrail.ports.journal",
    "Claim": "agentrail.ports.journal",
    "Difference": "agentrail.core.audit",
    "Journal": "agentrail.ports.journal",
    "Latest": "agentrail.ports.journal",
    "Lease": "agentrail.ports.journal",
    "MemoryJournal": "agentrail.adapters.journals.memory",
    "NO_LEASE": "agentrail.ports.journal",
    "Record": "agentrail.ports.journal",
    "SessionFilter": "agentrail.ports.journal",
    "Redaction": "agentrail.ports.journal",
    "Retention": "agentrail.ports.retention",
    "redacted": "agentrail.adapters.journals.redacting",
    "Snapshot": "agentrail.ports.journal",
    "SqliteJournal": "agentrail.adapters.journals.sqlite",
    "StoredAnswer": "agentrail.ports.journal",
    "StoredSession": "agentrail.ports.journal",
    "audit": "agentrail.adapters.journals.auditing",
    "export_session": "agentrail.adapters.journals.archive",
    "import_session": "agentrail.adapters.journals.archive",
    "model_requests": "agentrail.adapters.journals.model_requests",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the names are the keys of `_HOMES`
__getattr__, __dir__ = lazily(__name__, _HOMES)
