"""Maps errors of psycopg to errors of journals: an outage of the server, a commit whose end is unknown, or a bug."""

from __future__ import annotations

from typing import Final

import psycopg

from agentrail.errors import AgentrailError, BrokenJournal, JournalFailed, JournalFull, JournalUnusable, NothingWritten
from agentrail.values.untrusted_values import described

OUTAGES: Final = frozenset({"08", "40", "53", "57", "58"})
"""Classes of SQLSTATE that a later try may not meet: of the connection, a rollback, resources, an operator, a disk."""

READ_ONLY: Final = "25006"
"""SQLSTATE: the server follows another one, or is being restored; nothing was written, and it may be promoted."""

FULL: Final = "53100"
"""SQLSTATE: the disk of the server has no space."""

LOST: Final = frozenset({"08", "57"})
"""Classes of SQLSTATE with which the server ends a connection; what it was doing may be done or not."""

IDLE: Final = "25P03"
"""SQLSTATE: the server has ended the connection, because it heard nothing for too long within a transaction."""

NOT_SET_UP: Final = frozenset({"28", "3D", "3F", "42"})
"""Classes of SQLSTATE that say that the database, its tables or the rights of the user are not as they must be."""


def _kind(error: psycopg.Error) -> str:
    return (error.sqlstate or "08")[:2] if isinstance(error, psycopg.OperationalError) else (error.sqlstate or "")[:2]


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection was lost, so that the last statement may have been carried out or not."""
    return _kind(error) in LOST or error.sqlstate == IDLE


def is_outage(error: psycopg.Error) -> bool:
    """Whether *error* is temporary, and not caused by the statement or its values."""
    return _kind(error) in OUTAGES or error.sqlstate in {READ_ONLY, IDLE}


def _message(error: psycopg.Error) -> str:
    return (
        " ".join(str(error).split()) if error.sqlstate is None else f"{' '.join(str(error).split())}, {error.sqlstate}"
    )


def in_statement(error: psycopg.Error, attempt: str, url: str) -> AgentrailError:
    """Return the journal's error for *error* of a statement that has changed nothing."""
    if error.sqlstate == FULL:
        return JournalFull(_message(error))
    if is_outage(error):
        return JournalFailed(attempt, _message(error)) if is_lost(error) else NothingWritten(_message(error))
    if _kind(error) in NOT_SET_UP:
        return JournalUnusable(url, _message(error))
    return BrokenJournal(attempt, described(error))
